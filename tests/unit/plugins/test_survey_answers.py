# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of surveys: a table of what AWX hands out and what a role gets."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.plugin_utils.survey_answers import values


@pytest.mark.parametrize(
    "kind, given, value",
    [
        ("bool", "yes", True),
        ("bool", "no", False),
        ("bool", True, True),
        ("choice", "keep", "keep"),
        ("int", 0, 0),
        ("int", "7", 7),
        ("float", 5, 5.0),
        ("str", "a=b", "a=b"),
        ("list", "aws, gcp,", ["aws", "gcp"]),
        ("list", ["ports"], ["ports"]),
        ("dict", "aws: a", {"aws": "a"}),
        ("dict", {"aws": "a"}, {"aws": "a"}),
    ],
)
def test_an_answer_becomes_a_value(kind, given, value):
    found = values({"awx_x": {"argument": "x", "type": kind}}, {"awx_x": given})
    assert found == {"x": value} and isinstance(found["x"], type(value))


@pytest.mark.parametrize(
    "kind, given",
    [
        ("bool", "inventory"),
        ("bool", ""),
        ("choice", "inventory"),
        ("int", ""),
        ("float", " "),
        ("str", ""),
        ("list", " "),
        ("list", []),
        ("dict", ""),
        ("dict", None),
    ],
)
def test_what_is_left_to_the_inventory(kind, given):
    assert values({"awx_x": {"argument": "x", "type": kind}}, {"awx_x": given}) == {}
    assert values({"awx_x": {"argument": "x", "type": kind}}, {}) == {}


@pytest.mark.parametrize("kind, given", [("int", "many"), ("float", "soon"), ("dict", "[a"), ("dict", "aws")])
def test_an_answer_of_another_kind_is_named_instead_of_becoming_zero(kind, given):
    with pytest.raises(ValueError, match=f"awx_x: .* is no {kind}"):
        values({"awx_x": {"argument": "x", "type": kind}}, {"awx_x": given})
