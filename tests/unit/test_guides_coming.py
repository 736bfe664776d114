# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages for those who come from another program: one of each, each with the same questions and the table of every key that the reader knows."""

from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._upstream.programs import PROGRAMS

RST = pathlib.Path(__file__).resolve().parents[2] / "docs" / "docsite" / "rst"
LABEL = "ansible_collections.multicluster.network.docsite."
PAGES = {path.stem: path.read_text("utf-8") for path in sorted(RST.glob("guide_from_*.rst"))}
SETTINGS, COMING = ((RST / name).read_text("utf-8") for name in ("guide_settings.rst", "guide_coming.rst"))
#: Section of the page of settings -> program, by the label above the program's title. tests/unit/test_guide_settings.py compares the rows with the reader.
TABLES = dict(re.findall(rf"(?m)^\.\. _{re.escape(LABEL)}guide_settings\.(\w+):\n\n(.+)\n-{{4,}}\n", SETTINGS))
QUESTIONS = ["Mapping of objects", "Settings", "Differences", "Features lost", "Features gained"]


def sections(text):
    return dict(re.findall(r"(?m)^(.+)\n-{4,}\n((?:(?!^.+\n-{4,}\n)[\s\S])*)", text))


@pytest.mark.parametrize("page", PAGES)
def test_each_page_answers_the_same_questions(page):
    found = sections(PAGES[page])
    assert [title for title in found if title in QUESTIONS] == QUESTIONS
    assert all(found[title].strip() for title in QUESTIONS)


def test_every_program_has_its_table_on_one_page():
    linked = [
        label
        for text in PAGES.values()
        for label in re.findall(rf"<{re.escape(LABEL)}guide_settings\.(\w+)>", sections(text)["Settings"])
    ]
    assert sorted(linked) == sorted(TABLES)
    assert sorted(TABLES.values()) == sorted(program.title for program in PROGRAMS.values())


def test_every_page_is_named_where_people_begin():
    assert sorted(re.findall(rf"<{re.escape(LABEL)}(guide_from_\w+)>", COMING)) == sorted(PAGES)


def test_what_can_be_taken_over_in_place_has_a_way_back():
    """KubeSpan is not: its machines have nothing that could be taken over."""
    for page, text in PAGES.items():
        if page == "guide_from_kubespan":
            continue
        assert "Roll back" in sections(text) or "The way back is the playbook ``semaphore.release``" in text, page
