# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of plays, tasks, modules and chapters (tests/headings.py)."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("headings", ROOT / "tests" / "headings.py")
assert SPEC is not None and SPEC.loader is not None
headings = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(headings)


def test_this_collection_has_none_that_is_refused() -> None:
    assert headings.refused(ROOT) == []


@pytest.mark.parametrize(
    "name", ["Report the outcome", "Record, send and collect packets", "{{ item }}", "Read it # noqa: ignore-errors"]
)
def test_a_verb_with_its_object_is_taken(name: str) -> None:
    assert headings.is_named(name)


@pytest.mark.parametrize(
    "name",
    ["Say how it ended", "Converge", "Lock", "Names across clusters", "It is one of the fabric", "Plan # noqa: x", ""],
)
def test_another_name_is_refused(name: str) -> None:
    assert not headings.is_named(name)


@pytest.mark.parametrize(
    ("heading", "taken"),
    [
        ("Packet paths", True),
        ("Is it for me?", True),
        ("How packets go", False),
        ("Why does it wait?", False),
        ("Whatever else", True),
    ],
)
def test_a_heading_is_no_question(heading: str, taken: bool) -> None:
    assert headings.is_term(heading) is taken


def test_each_place_is_read(tmp_path: pathlib.Path) -> None:
    """Plays, tasks in blocks and rescues, modules, roles, and headings over and under a line; variables and files are no tasks."""
    files = {
        "playbooks/a.yml": "- name: Say a\n  tasks:\n    - name: Run it\n      block:\n        - name: Look\n      rescue:\n        - name: Tell b\n",
        "playbooks/vars/b.yml": "- name: Say c\n",
        "roles/r/tasks/main.yml": "- name: Hold d\n  x: !unsafe y\n",
        "roles/r/meta/argument_specs.yml": "argument_specs:\n  main:\n    short_description: Names\n",
        "plugins/modules/m.py": "short_description: Let e do it\n",
        "docs/docsite/rst/guide.rst": "How it is\n=========\n\nText\n\nTerm\n----\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert headings.refused(tmp_path) == [
        "playbooks/a.yml: Say a",
        "playbooks/a.yml: Look",
        "playbooks/a.yml: Tell b",
        "roles/r/tasks/main.yml: Hold d",
        "plugins/modules/m.py: Let e do it",
        "roles/r/meta/argument_specs.yml: Names",
        "docs/docsite/rst/guide.rst: How it is",
    ]
