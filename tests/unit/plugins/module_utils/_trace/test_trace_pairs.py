# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verification follows: the first unreachable pair of pods of each pair of nodes, and what is said of it then."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, probe_lines
from ansible_collections.multicluster.network.plugins.module_utils._trace import pairs
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

HOSTS = {
    "a1": {"cluster": "aws", "node": "a1"},
    "g1": {"cluster": "gcp", "node": "g1"},
    "g2": {"cluster": "gcp", "node": "g2"},
}


def ping(source, target, node, ok=False):
    return {"source": source, "target": target, "node": node, "ok": ok, "milliseconds": None}


PINGS = {
    "g1": [ping("10.4.7.10", "10.2.3.10", "a1")],
    "a1": [
        ping("10.2.3.10", "10.4.7.9", "g1", True),
        ping("10.2.3.10", "10.4.7.10", "g1"),
        ping("10.2.3.11", "10.4.7.10", "g1"),
        ping("10.2.3.10", "10.4.8.10", "g2"),
    ],
}


def test_the_first_unreachable_pair_of_each_pair_of_nodes():
    found = pairs.failing(PINGS, 3)
    assert [(row["host"], row["address"], row["target_host"], row["target"]) for row in found] == [
        ("a1", "10.2.3.10", "g1", "10.4.7.10"),
        ("a1", "10.2.3.10", "g2", "10.4.8.10"),
    ]
    assert (
        len(pairs.failing(PINGS, 1)) == 1
        and pairs.failing(PINGS, 0) == []
        and pairs.failing({"a1": PINGS["a1"][:1]}, 3) == []
    )


def test_a_pair_is_an_echo_there_and_one_back():
    there, back = pairs.flows(pairs.failing(PINGS, 1), HOSTS, 61000)
    assert (there["number"], there["protocol"], there["version"]) == (61000, "icmp", 4) and back["about"] == there["id"]
    assert (there["source"]["host"], there["source"]["cluster"], there["source"]["address"]) == (
        "a1",
        "aws",
        "10.2.3.10",
    )
    assert there["target"]["backends"] == [{"address": "10.4.7.10", "port": None, "cluster": "gcp", "host": "g1"}]
    assert (back["source"]["host"], back["target"]["address"]) == ("g1", "10.2.3.10") and back["number"] != there[
        "number"
    ]


def test_an_address_that_is_none_is_refused():
    with pytest.raises(ValueRefused):
        pairs.flows(
            [{"host": "a1", "address": "10.2.3.10; id", "target_host": "g1", "target": "10.4.7.10"}], HOSTS, 61000
        )


def test_what_a_trace_found_is_behind_the_pair_that_it_followed():
    found = {"a1": {"drift": {}, "probe": {"pings": PINGS["a1"]}}, "g1": {"why": "unreachable"}}
    finding = {
        "flow": "0",
        "cause": "wrong_key",
        "message": "g1 has another key",
        "confidence": "proven",
        "fix": "run the mesh again on g1",
    }
    hostvars = {
        "aws": {
            "run.trace_plan": {"trace": {"flows": pairs.flows(pairs.failing(PINGS, 1), HOSTS, 61000)}},
            "run.trace_report": {"findings": [finding]},
        }
    }
    explained = collected.traced(found, hostvars, ["aws"])
    lines = probe_lines.ping_lines(explained["a1"]["probe"])
    assert (
        lines[0]
        == "pod 10.2.3.10 does not reach pod 10.4.7.10 of g1: g1 has another key [wrong_key, proven]; fix: run the mesh again on g1"
    )
    assert lines[1:] == [
        "pod 10.2.3.11 does not reach pod 10.4.7.10 of g1",
        "pod 10.2.3.10 does not reach pod 10.4.8.10 of g2",
    ]
    assert "why" not in PINGS["a1"][1] and explained["g1"] == {"why": "unreachable"}
    assert collected.traced(found, {"aws": {}}, ["aws"]) == found
