# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a fabric on a terminal: what happened first, what to do last, nothing twice, and no internal value."""

from __future__ import annotations

import pathlib
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._status import (
    drawing,
    model,
    page,
    prometheus,
    screen,
)

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[4] / "browser")]

import fabrics  # pylint: disable=wrong-import-position

HEADS = ["CLUSTER", "NODES", "POD RANGES", "TUNNELS", "SERVICES", "ADDRESSES", "OLDEST KEY", "VERDICT"]
PAGE = {"page": "/srv/fabric-status.html"}


def built(change=None, unreachable=()):
    facts = fabrics.facts({"aws": 4, "gcp": 4}, unreachable=unreachable)
    if change:
        change(facts)
    return model.build(facts)


def down(facts):
    facts["nodes"]["aws-node-1"]["devices"][0]["up"] = False


def old_key(facts):
    node = facts["nodes"]["gcp-node-2"]
    node["keys"] = [
        {"path": "/k", "since": int(node["now"]) - 40 * 86400},
        {"path": "/l", "since": int(node["now"]) - 86400},
    ]


def row(lines, name):
    return next(line for line in lines if line.startswith(name + " ")).split()


def test_a_fabric_at_rest_is_a_table_with_nothing_to_do():
    lines = screen.lines(built(), PAGE)
    assert lines[0] == "fabric default: all green" and lines[-1] == "the rest: /srv/fabric-status.html"
    assert [head for head in HEADS if head in lines[1]] == HEADS
    assert row(lines, "aws")[:8] == ["aws", "4", "of", "4", "-", "16", "of", "16"] and row(lines, "gcp")[-1] == "proven"


@pytest.mark.parametrize(
    "unreachable, change",
    [(("gcp-node-4",), None), ((), down), ((), old_key), ((), lambda facts: facts["clusters"].update(gcp=None))],
)
def test_first_what_it_is_last_what_to_do_and_nothing_twice(unreachable, change):
    document = built(change, unreachable)
    lines = screen.lines(document, PAGE)
    value = document["verdict"]["value"]
    assert lines[0].startswith("fabric default: " + {"proven": "all green"}.get(value, value))
    assert (lines[-1] == "next: fix what is named, and run status again") is (value != "proven")
    assert len(lines) == len(set(lines)) and not any(
        mark in line for line in lines for mark in ("{", "}", "None", "'", "[]")
    )


def test_the_worst_cluster_is_first_and_named():
    lines = screen.lines(built(unreachable=("gcp-node-4",)), {})
    assert (
        lines[2].startswith("gcp ") and row(lines, "gcp")[1:4] == ["3", "of", "4"] and row(lines, "gcp")[-1] == "broken"
    )


def test_the_oldest_key_of_a_cluster_is_that_of_its_files():
    lines = screen.lines(built(old_key), {})
    assert "40 d" in next(line for line in lines if line.startswith("gcp ")) and "40 d" not in next(
        line for line in lines if line.startswith("aws ")
    )


def test_a_tunnel_of_a_device_that_is_down_is_not_up():
    """Its last handshake is young for three minutes, and no packet passes."""
    document = built(down)
    ends = [one for one in document["tunnels"] if one["host"] == "aws-node-1"]
    assert {one["state"] for one in ends} == {"down"} and all(one["age"] < 180 for one in ends)
    assert document["summary"]["tunnels_up"] == document["summary"]["tunnels"] - len(ends)
    (link,) = [one for one in document["links"] if (one["a"], one["b"]) == ("aws", "gcp")]
    assert drawing.link_grade(link) == "bad" and link["down"] == len(ends)
    assert ">down<" in page.render(document) and prometheus.text(document)
