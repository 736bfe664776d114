# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of figures has no figure of its own: each is in the guide of its row, and a bench of this repository measures it."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "docsite" / "rst"
PAGE = (GUIDES / "guide_figures.rst").read_text("utf-8")
ROWS = [
    (figures, command, guide)
    for dummy, figures, command, guide in re.findall(
        r"^   \* - (.+)\n     - (.+)\n     - ``(tests/run bench .+)``\n     - :ref:`.+docsite\.(guide_[a-z_]+)>`$",
        PAGE,
        re.MULTILINE,
    )
]


def test_every_row_was_read():
    assert len(ROWS) == PAGE.count("tests/run bench") > 10


@pytest.mark.parametrize("figures, command, guide", ROWS, ids=lambda value: value[:40])
def test_a_figure_is_in_its_guide_with_a_bench_that_exists(figures, command, guide):
    text = " ".join((GUIDES / f"{guide}.rst").read_text("utf-8").split())
    for number in re.findall(r"\d[\d.,]*\d|\d", figures):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d]|\.\d)", text), number
    name = command.split()[2]
    assert (ROOT / "tests" / "bench" / f"{name}.py").exists()
    assert f"tests/run bench {name}" in text, "the guide names the command, too"
