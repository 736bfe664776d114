# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the guides and the README name exists: playbooks, roles, modules, filters, variables, commands, files, pictures."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDES = sorted((ROOT / "docs" / "docsite" / "rst").glob("*.rst"))
PAGES = GUIDES + [ROOT / "README.md"]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())
PLUGINS = {
    path.stem
    for kind in ("modules", "filter", "inventory", "connection", "action", "callback", "lookup")
    for path in (ROOT / "plugins" / kind).glob("*.py")
}
BOOKS = ROOT / "playbooks"
PLAYBOOKS = {
    ".".join(path.relative_to(BOOKS).with_suffix("").parts)
    for path in BOOKS.rglob("*.yml")
    if path.relative_to(BOOKS).parts[0] not in ("plays", "vars", "files")
}
FOLDERS = {name.split(".")[0] for name in PLAYBOOKS if "." in name}
EVENT_SOURCES = {path.stem for path in (ROOT / "extensions").rglob("*.py")} | {
    path.stem for path in (ROOT / "extensions").rglob("*.yml")
}
#: What an example calls something of its own.
INVENTED = {"mesh_guard", "status_page_url"}
#: Names that are no plugins: the documentation site's own labels, groups of module_defaults, the collection's places.
OTHERS = {"docsite", "kube", "node", "all", "git", "yml"}


def ids(path):
    return path.name


def words_of(folder, *patterns):
    """Every identifier in the files of a folder."""
    found = set()
    for pattern in patterns:
        for path in (ROOT / folder).rglob(pattern):
            found.update(re.findall(r"[a-z_][a-z0-9_]+", path.read_text("utf-8")))
    return found


@pytest.fixture(scope="module", name="known")
def known_words():
    return (
        words_of("roles", "*.yml")
        | words_of("playbooks", "*.yml")
        | words_of("plugins", "*.py")
        | words_of("extensions", "*.yml", "*.py")
    )


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_playbooks_roles_and_plugins_exist(page):
    text = page.read_text("utf-8")
    for name in re.findall(r"ansible-playbook[^\n`]*? multicluster\.network\.([a-z_0-9.]*[a-z_0-9])", text):
        assert name in PLAYBOOKS, f"no playbook {name}"
    for name in re.findall(r"multicluster\.network\.([a-z_0-9]+)", text):
        assert name in PLAYBOOKS | FOLDERS | PLUGINS | set(ROLES) | OTHERS | EVENT_SOURCES, f"no {name}"
    for name in re.findall(r"[Pp]laybooks? ``(?:multicluster\.network\.)?([a-z_.]+)``", text):
        assert name in PLAYBOOKS, f"no playbook {name}"
    for name in re.findall(r"[Rr]ole ``([a-z_]+)``", text):
        assert name in ROLES, f"no role {name}"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_variables_exist(page, known):
    for variable in sorted(set(re.findall(r"(?<![\w/.-])[a-z]+_[a-z0-9_]+(?![\w/-])", page.read_text("utf-8")))):
        owned = any(variable.startswith(role + "_") for role in ROLES) or variable.startswith(
            ("multicluster_", "kubespan_")
        )
        prefix = variable.endswith("_") and variable[:-1] in ROLES + ["multicluster"]
        if owned and variable not in ROLES and variable not in INVENTED and not prefix:
            assert variable in known, f"nothing knows the variable {variable}"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_commands_and_files_exist(page):
    text, runner, targets = (
        page.read_text("utf-8"),
        (ROOT / "tests" / "run").read_text(),
        (ROOT / "Makefile").read_text(),
    )
    for name in re.findall(r"tests/run ([a-z_]+)", text):
        assert re.search(rf"^{name}\(\)", runner, re.MULTILINE), f"tests/run has no {name}"
    for name in re.findall(r"``make ([a-z-]+)", text) + re.findall(r"`make ([a-z-]+)", text):
        assert re.search(rf"(^|\s){name}(\s|:)", targets), f"make has no {name}"
    for name in re.findall(r"``(?:tests|docs|extensions|roles|playbooks)/[\w./-]+``", text):
        assert (ROOT / name.strip("`")).exists(), name
    for name in re.findall(r"\]\(((?!http)[\w./-]+)\)", text) + re.findall(r"image:: ([\w./-]+)", text):
        assert (page.parent / name).exists(), name


def test_the_guide_on_design_names_files_and_what_they_define():
    """Whoever looks for a rule opens the file that the table names, and finds there the definition that it names."""
    table = (ROOT / "docs" / "docsite" / "rst" / "guide_design.rst").read_text("utf-8")
    rows = table.partition("Where to find a rule")[2].partition("\nKernel access\n")[0]
    places = [ROOT / "plugins" / "module_utils", ROOT / "plugins", ROOT]
    paths = re.findall(r"``([\w./]+/[\w.]+\.(?:py|yml))``", rows)
    assert len(paths) > 40
    for path in paths:
        assert any((place / path).is_file() for place in places), path
    for name, path in re.findall(r"``(\w+)`` of ``([\w./]+\.py)``", rows):
        found = next(place / path for place in places if (place / path).is_file())
        assert re.search(rf"^(\s*(def|class) )?{name}\b", found.read_text("utf-8"), re.M), (name, path)


def test_every_guide_is_in_the_index():
    sections = yaml.safe_load((ROOT / "docs" / "docsite" / "extra-docs.yml").read_text())["sections"]
    named = [name for section in sections for name in section["toctree"]]
    assert sorted(named) == sorted(path.stem for path in GUIDES) and len(named) == len(set(named))


#: Words of examples that no one knows who comes from elsewhere; each has to be explained once.
_STRANGE = (
    "73736d",
    "empty://",
    "metal-ccm-auto",
    "sys-semaphore",
    "clusterset.local",
    "digest",
    "original",
    "reconciler",
    "grant",
    "claim",
    "refused",
    "ledger",
)


def glossary_terms():
    text = (ROOT / "docs" / "docsite" / "rst" / "guide_glossary.rst").read_text("utf-8")
    return [line.strip() for line in text.split(".. glossary::", 1)[1].splitlines() if re.match(r"   \S", line)]


def test_the_glossary_has_every_term_of_the_first_examples():
    """The grants that the first inventory names, every capability, and words that only this project's ancestors used."""
    terms, table = glossary_terms(), yaml.safe_load((ROOT / "playbooks" / "vars" / "run_variables.yml").read_text())
    text = (ROOT / "docs" / "docsite" / "rst" / "guide_glossary.rst").read_text("utf-8")
    example = (
        (ROOT / "docs" / "docsite" / "rst" / "guide_start.rst")
        .read_text("utf-8")
        .split(".. code-block:: yaml", 1)[1]
        .split("#. UDP", 1)[0]
    )
    granted = set(re.findall(r"(\w+_cidrs):", example))
    assert granted and granted <= set(terms)
    assert set(_STRANGE) <= set(terms)
    for capability in table["variables"]["multicluster_capabilities"]["choices"]:
        assert f"``{capability}``" in text, capability
    assert terms == sorted(terms, key=str.lower), "in the order of the alphabet"


#: Of the collection itself: releases that nobody has, and versions before the first one.
PAST = re.compile(
    r"\b(?:earlier|former|older|previous) (?:releases?|versions?) (?:of (?:this|the) collection|called|wrote|had)\b|from an earlier release|"
    r"\b[Vv]ersion 0\.\d+\.\d+ (?:of (?:this|the) collection|passed)"
)


@pytest.mark.parametrize(
    "path",
    [*PAGES, *sorted(ROOT.glob("roles/*/meta/argument_specs.yml")), *sorted(ROOT.glob("plugins/modules/*.py"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_no_text_names_a_release_before_the_first(path):
    assert PAST.findall(" ".join(path.read_text("utf-8").split())) == []
