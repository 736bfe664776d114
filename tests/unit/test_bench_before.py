# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How figures of two revisions are matched."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

FILE = pathlib.Path(__file__).resolve().parents[1] / "bench" / "_before.py"
spec = importlib.util.spec_from_file_location("bench_before", FILE)
assert spec is not None and spec.loader is not None
before = importlib.util.module_from_spec(spec)
spec.loader.exec_module(before)

TABLE = """Routes of a table; medians of 5 interleaved runs, ms

| routes | change | {own} | read + plan + write | other | ratio |
|---|---|---|---|---|---|
| 1000 | one changed | {figure} | 1.0 + 2.0 + 3.0 | 9.0 | 0.50 |
| 1000 | for comparison | start of Python and imports 55.1 | | | |
"""


@pytest.mark.parametrize("own", ["service_mirror, s", "collection"])
def test_a_row_has_the_figure_of_the_collection_alone(own):
    assert before.figures(TABLE.format(own=own, figure="4.5")) == [("1000, one changed", 4.5, True)]


def test_columns_of_the_controller_and_of_nodes_are_added():
    text = (
        "| run | nodes | wall s | controller s | nodes s |\n|---|---|---|---|---|\n| site | 20 | 9.0 | 4.0 | 2.5 |\n\n"
    )
    bars = "| what | found | bar |\n|---|---|---|\n| lines | 40 | 60 |\n"
    assert before.figures(text + bars) == [("site, 20", 6.5, True)]


def test_a_cell_may_name_its_kind_and_a_sentence_of_a_plan_counts():
    text = "| Services | change | service_mirror, s |\n|---|---|---|\n| 100 | cold | flow 0.125 |\n| 100 | cold | |\n"
    plan = "plan of 1000 nodes in 10 clusters, mesh: 0.511 s of CPU (limit 3 s), 80 MiB with the answers\n"
    assert before.figures(text + plan) == [
        ("100, cold", 0.125, True),
        ("plan of 1000 nodes in 10 clusters, mesh", 0.511, True),
    ]


def rows(*found):
    return [before.Row(label, figure, True) for label, figure in found]


def test_a_ratio_to_another_program_counts_in_place_of_seconds():
    text = TABLE.format(own="collection", figure="1.8").replace("| other |", "| theirs |")
    assert before.figures(text) == [("1000, one changed", 0.2, False)]


def test_the_median_of_each_side_counts():
    old, new = ([rows((name, figure)) for figure in (1.0, 9.0, end)] for name, end in (("a", 2.0), ("b", 2.2)))
    assert before.compared(old, new) == [(*rows(("a", 2.0)), *rows(("b", 2.2)), pytest.approx(1.1))]


@pytest.mark.parametrize(("old", "new"), [([1], [0]), ([1, 0], [1, 1])])
def test_another_number_of_rows_is_no_comparison(old, new):
    with pytest.raises(SystemExit, match="rows"):
        before.compared(*([rows(("a", 1.0)) * count for count in side] for side in (old, new)))
