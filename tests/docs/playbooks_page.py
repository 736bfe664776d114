# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes docs/docsite/rst/guide_playbooks.rst from the playbooks and the table of run variables. Run: tests/run playbooks_page."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

import yaml
from ansible_collections.multicluster.network.plugins.plugin_utils.known_variables import run_variables

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "docsite" / "rst" / "guide_playbooks.rst"
BOOKS = ROOT / "playbooks"
#: Folders of what playbooks are made of.
PARTS = ("plays", "vars", "files")
ROWS = run_variables()["variables"]
HEAD = """\
.. _ansible_collections.multicluster.network.docsite.guide_playbooks:

Playbooks and variables of a run
================================

.. This page is written by tests/run playbooks_page; its content is that of the playbooks and of playbooks/vars/run_variables.yml.

.. contents::
   :local:
   :depth: 1

Run every playbook as ``ansible-playbook -i inventory multicluster.network.NAME``. The name of a playbook in a folder is
``FOLDER.NAME``. With ``--check --diff`` a playbook shows what it would change and changes nothing. The variables on this page are read
by playbooks. Options of roles have the role's name as their prefix and are on the role's own page.

"""


def playbooks() -> list[str]:
    """Names, those in folders last."""
    paths = [path.relative_to(BOOKS).with_suffix("") for path in BOOKS.rglob("*.yml")]
    names = sorted(".".join(path.parts) for path in paths if path.parts[0] not in PARTS)
    return sorted(names, key=lambda name: ("." in name, name))


def path_of(name: str) -> pathlib.Path:
    """The file of a playbook, ``awx.mesh``, or of plays, ``plays/mesh``."""
    return BOOKS / (name.replace(".", "/") + ".yml")


def about(name: str) -> str:
    """The comment above a playbook."""
    lines = []
    for line in path_of(name).read_text("utf-8").partition("---\n")[2].splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").rstrip())
    paragraph = " ".join("\n".join(lines).split("\n\n", maxsplit=1)[0].split())
    return re.sub(
        r"(-e [a-z_]+=[\w.]+|--[a-z]+(?: --[a-z]+)*|(?<![\w/.])[a-z]+(?:_[a-z]+)+\b|extensions/[\w/.]+)",
        r"``\1``",
        paragraph,
    )


def parts(name: str) -> tuple[list[str], list[str]]:
    """(playbooks that it imports, roles with their entry points)."""
    text = path_of(name).read_text("utf-8")
    imported = re.findall(r"import_playbook: (?:multicluster\.network\.|\.\./)?([\w/]+(?:\.(?!yml)\w+)*)", text)
    roles: list[str] = []

    def walk(value: t.Any) -> None:
        for key, inner in value.items() if isinstance(value, dict) else ():
            if key in ("ansible.builtin.include_role", "ansible.builtin.import_role"):
                role = inner["name"].rpartition(".")[2]
                roles.extend([role] if (ROOT / "roles" / role).is_dir() else [])
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(inner)

    walk(yaml.safe_load(text))
    return imported, sorted(set(roles))


def whole(name: str) -> tuple[list[str], list[str]]:
    """The same, with files of plays, which are no playbooks of their own, as a part of it."""
    imported, roles = parts(name)
    for other in [other for other in imported if "/" in other]:
        imported.remove(other)
        more, further = whole(other)
        imported, roles = imported + [one for one in more if one not in imported], sorted({*roles, *further})
    return imported, roles


def variables(name: str) -> set[str]:
    """Rows of the table that a playbook reads, with all that it imports and the roles that it runs."""
    imported, roles = parts(name)
    texts = [path_of(name).read_text("utf-8")]
    if "run_survey" in texts[0]:
        texts.append((BOOKS / "files" / "awx" / "mapping.yml").read_text("utf-8"))
    for role in roles:
        texts += [
            path.read_text("utf-8")
            for folder in ("defaults", "vars", "tasks")
            for path in sorted((ROOT / "roles" / role / folder).glob("*.yml"))
        ]
    words = {name for text in texts for name in re.findall(r"(?<![\w./])[a-z_]+", text)}
    found = {row for row in ROWS if row in words}
    for other in imported:
        found |= variables(other)
    return found


def markup(text: str) -> str:
    """Ansible's markup as reStructuredText."""
    return re.sub(r"[CV]\(([^)]*)\)", r"``\1``", text)


def default(row: t.Mapping[str, t.Any]) -> str:
    """A row's default in a cell."""
    if "default" not in row:
        return ""
    value = row["default"]
    if isinstance(value, str) and "C(" in value:
        return markup(value)
    return f"``{value if isinstance(value, str) and value else json.dumps(value)}``"


def table(names: t.Iterable[str]) -> list[str]:
    """Variables as a list-table."""
    lines = [
        ".. list-table::",
        "   :header-rows: 1",
        "   :widths: 30 20 50",
        "",
        "   * - variable",
        "     - default",
        "     - meaning",
    ]
    for name in names:
        row = ROWS[name]
        text = markup(row["description"])
        if row.get("choices"):
            text += " One of " + ", ".join(f"``{choice}``" for choice in row["choices"]) + "."
        if row.get("command_line"):
            text += " On the command line (``-e``) only."
        if row.get("of") in ("node", "cluster"):
            text += f" A variable of a {row['of']}'s host."
        lines += [f"   * - ``{name}``", f"     - {default(row)}".rstrip(), f"     - {text}"]
    return [*lines, ""]


def page() -> str:
    """The whole page."""
    lines: list[str] = []
    for title, chosen in (("Playbooks", False), ("Playbooks in folders", True)):
        lines += [title, "-" * len(title), ""]
        for name in playbooks():
            if ("." in name) is not chosen:
                continue
            imported, roles = whole(name)
            lines += [name, "~" * len(name), "", about(name), ""]
            if imported:
                lines += ["Runs " + ", ".join(f"``{other}``" for other in imported) + ".", ""]
            if roles:
                lines += [
                    "Roles: " + ", ".join(f":ansplugin:`multicluster.network.{role}#role`" for role in roles) + ".",
                    "",
                ]
            read = sorted(
                row for row in variables(name) if not row.startswith("awx_") or name in ("awx.load", "awx.survey")
            )
            if read:
                lines += ["Reads " + ", ".join(f"``{row}``" for row in read) + ".", ""]
    for title, chosen in (("Variables", False), ("Variables of AWX", True)):
        lines += [title, "-" * len(title), ""]
        lines += table(name for name in sorted(ROWS) if name.startswith("awx_") is chosen)
    return HEAD + "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
