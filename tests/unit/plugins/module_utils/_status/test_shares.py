# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Large fabrics with little trouble: an unreachable node is one reason, the others stay green, and lines have shares."""

from __future__ import annotations

import pathlib
import re
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._status import drawing, model, page, screen

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "browser"))
import fabrics  # pylint: disable=wrong-import-position

AWAY = ("aws-node-7", "gcp-node-3")


def facts(sizes, away):
    """A fabric in which nothing is wrong but that some nodes are unreachable, without a handshake of others lately."""
    given = fabrics.facts(sizes, away)
    names = {
        peer["public_key"]: peer["node"]
        for cluster in given["mesh"]["clusters"].values()
        for remote in cluster["remotes"].values()
        for peer in remote["peers"]
    }
    for host, node in given["nodes"].items():
        if node is None:
            continue
        for device in node["devices"]:
            for peer in device["peers"]:
                age = 9999 if names[peer["public_key"]] in away else 10
                peer["handshake"] = node["now"] - age
        given["probes"][host]["gone"] = list(given["mesh"]["nodes"])  # that each was pinged is not what is asked here
        for peer in given["probes"][host]["peers"]:
            peer["handshake_age"] = 9999 if names[peer["public_key"]] in away else 10
    return given


@pytest.fixture(scope="module", name="document")
def a_document():
    return model.build(facts({"aws": 250, "gcp": 250}, AWAY))


def test_two_unreachable_nodes_of_500_leave_498_green(document):
    grades = {row["host"]: drawing.node_grade(row) for row in document["nodes"]}
    assert {host for host, grade in grades.items() if grade != drawing.GOOD} == set(AWAY)


def test_an_unreachable_node_is_one_reason_with_what_it_costs(document):
    assert document["verdict"]["broken"] == [
        "aws-node-7: could not be verified (unreachable: no route to host); 249 nodes had no handshake with it lately",
        "gcp-node-3: could not be verified (unreachable: no route to host); 249 nodes had no handshake with it lately",
    ]
    assert document["verdict"]["counts"]["broken"] == 2


def test_an_unreachable_node_that_still_shakes_hands_costs_nothing():
    document = model.build(fabrics.facts({"aws": 2, "gcp": 2}, ("gcp-node-1",)))
    assert document["verdict"]["broken"][0] == "gcp-node-1: could not be verified (unreachable: no route to host)"


def test_a_peer_that_a_node_lacks_is_its_own_trouble_though_the_peer_is_unreachable():
    given = facts({"aws": 2, "gcp": 2}, ("gcp-node-1",))
    given["probes"]["aws-node-1"]["peers"] = given["probes"]["aws-node-1"]["peers"][1:]
    broken = model.build(given)["verdict"]["broken"]
    assert any(text.startswith("aws-node-1: gcp/gcp-node-") and "is no peer of" in text for text in broken)


def test_a_line_has_the_shares_of_its_ends(document):
    (link,) = document["links"]
    found = dict(drawing.shares(link))
    assert set(found) == {drawing.GOOD, drawing.FAIR} and found[drawing.GOOD] > 90 and found[drawing.FAIR] == 3
    drawn = drawing.draw(document)
    assert re.findall(r'<path class="(\w+)"', drawn) == ["good", "fair"]


@pytest.mark.parametrize(
    ("counts", "shares"),
    [
        ({"up": 10}, {"good": 100}),
        ({"up": 1, "never": 1}, {"good": 50, "bad": 50}),
        ({"never": 4}, {"bad": 100}),
        ({"up": 9999, "down": 1}, {"good": 97, "bad": 3}),
        ({"up": 4, "faults": 1}, {"good": 75, "bad": 25}),
        ({"up": 1, "faults": 9}, {"bad": 100}),
        ({"up": 50, "stale": 25, "missing": 25}, {"good": 50, "fair": 25, "bad": 25}),
        ({}, {"fair": 100}),
    ],
)
def test_shares_add_up_and_small_ones_are_seen(counts, shares):
    link = dict(dict.fromkeys(("up", "stale", "never", "missing", "unknown", "down", "faults"), 0), **counts)
    found = dict(drawing.shares(link))
    assert found == pytest.approx(shares)
    assert sum(found.values()) == pytest.approx(100)


def test_a_line_that_is_all_bad_is_seen_without_its_colour():
    link = dict(
        dict.fromkeys(("up", "stale", "missing", "unknown", "down", "faults"), 0), never=2, tunnels=2, causes=[]
    )
    drawn = drawing._line(dict(link, a="x", b="y"), {"x": (0.0, 0.0), "y": (9.0, 0.0)})
    assert 'stroke-dasharray="6 7"' in drawn


def test_the_screen_has_two_reasons(document):
    shown = [line for line in screen.lines(document, {}) if "could not be verified" in line]
    assert len(shown) <= 2
    assert "could not be verified" in page.render(document)
