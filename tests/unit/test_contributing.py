# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What CONTRIBUTING.md and tests/README.md name is there: paths and commands, every room, every folder of tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
PAGES = {"CONTRIBUTING.md": REPO, "tests/README.md": REPO / "tests", "docs/checklist.md": REPO / "docs"}
COMMANDS = set(re.findall(r"^(\w+)\(\) \{ ## ", (REPO / "tests" / "run").read_text(), re.M)) | {"exec", "help"}


def quoted(page: str) -> list[str]:
    return re.findall(r"`([^`]+)`", (REPO / page).read_text())


@pytest.mark.parametrize("page", sorted(PAGES))
def test_paths_and_commands_exist(page: str) -> None:
    texts = quoted(page)
    paths = [
        text
        for text in texts
        if re.match(r"(?:tests|plugins|docs|roles|playbooks|meta|changelogs|unit|fixtures|conformance)/[\w./]+$", text)
    ]
    assert [path for path in paths if not (REPO / path).exists() and not (PAGES[page] / path).exists()] == []
    asked = [match[1] for match in (re.search(r"tests/run (\w+)", text) for text in texts) if match]
    assert paths and asked and set(asked) <= COMMANDS


@pytest.mark.parametrize("page", ["docs/checklist.md", "CODE_OF_CONDUCT.md", "SECURITY.md"])
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (REPO / page).read_text())
    assert links and [link for link in links if "://" not in link and not ((REPO / page).parent / link).exists()] == []


def test_every_room_has_its_row() -> None:
    rooms = {
        path.name
        for path in (REPO / "plugins" / "module_utils").iterdir()
        if path.is_dir() and path.name != "__pycache__"
    }
    named = {part for text in quoted("CONTRIBUTING.md") for part in text.split("/")}
    assert rooms - named == set()


def test_every_folder_of_tests_has_its_row() -> None:
    folders = {
        path.name for path in (REPO / "tests").iterdir() if path.is_dir() and path.name not in ("__pycache__", "output")
    }
    assert folders - set(quoted("tests/README.md")) == set()


def test_an_etcd_comes_with_kubernetes_wherever_that_is_built() -> None:
    """A fresh machine has none, and what a part that runs alongside installs comes when it pleases."""
    text = (REPO / "tests" / "run").read_text()
    body = re.search(r"^kubernetes_need\(\) \{.*?^\}", text, re.M | re.S)
    assert body and "apt_need etcd-server" in body[0] and body[0].index("apt_need") < body[0].index("build-kubernetes")
    assert "/lab/build-kubernetes" not in text.replace(body[0], "").replace(
        "shellcheck tests/run tests/lab/build-kubernetes", ""
    )


def test_a_piece_of_test_all_runs_every_scenario() -> None:
    text = (REPO / "tests" / "run").read_text()
    functions = dict(re.findall(r"^(\w+)\(\) \{(.*?)(?:^\}| \}$)", text, re.M | re.S))
    pieces = re.search(r"pieces=\((all [^)]*)\)", text)[1].split() + ["scenario_main"]
    named = {
        name for piece in pieces for name in re.findall(r"tests/scenario/(test_\w+\.py)", functions.get(piece, ""))
    }
    assert {path.name for path in (REPO / "tests" / "scenario").glob("test_*.py")} - named == set()


def test_the_two_halves_of_api_are_all_of_it() -> None:
    text = (REPO / "tests" / "run").read_text()
    halves = re.findall(r"^api_\w+\(\) \{.* (tests/api/\S+)", text, re.M)
    (parts,) = re.findall(r"local parts=\((.*?)\)", text)
    assert len(halves) == 2 and {"api_first", "api_second"} <= set(parts.split())
    found = [path.name for half in halves for path in REPO.glob(half.rstrip(";"))]
    assert sorted(found) == sorted(path.name for path in (REPO / "tests" / "api").glob("test_*.py"))


def test_every_command_of_help_can_be_given() -> None:
    """Help lists functions by their comment; which of them are commands is another list."""
    text = (REPO / "tests" / "run").read_text("utf-8")
    listed = re.findall(r"^([a-z_]+)\(\) \{ ## ", text, re.MULTILINE)
    taken = text[text.index("case $command in\n    demo") :].replace("\\\n", "")
    known = set(re.split(r"[\s|)]+", taken[: taken.index("*)")]))
    assert len(listed) > 40 and sorted(set(listed) - known) == []
