# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What trace_node returns of the node itself, what it changes there, and questions that make no sense."""

from __future__ import annotations

import pytest
from trace_router import CLIENT, SERVER, ask, flow, places, router_fixture, traced  # noqa: F401 pylint: disable=unused-import

pytestmark = pytest.mark.other_kernel


def test_the_host_itself_is_an_end(router):
    near = dict(flow(), source={"address": "198.18.2.1"})
    _armed, sent, collected = traced(router, near)
    assert sent[0]["outcome"] == "answered"
    assert places(collected) == ["output_first", "output_last", "postrouting_first", "postrouting_last"]
    assert places(collected, "back") == ["prerouting_first", "prerouting_last", "input_first", "input_last"]


def test_what_the_node_reports_of_itself(router):
    armed = ask(router, "armed", [flow()], questions=[{"dst": "203.0.113.7", "hop": "uplink"}])
    facts, answers = armed["facts"], armed["answers"]
    assert facts["errors"] == []
    link = next(row for row in facts["links"] if row["name"] == "veth-client")
    assert (
        link["kind"] == "veth"
        and link["up"]
        and link["mtu"] == 1500
        and "198.18.1.1/24" in link["addresses"]
        and not link["owned"]
    )
    assert {"dst": "198.18.2.0/24", "dev": "veth-server", "table": 254}.items() <= next(
        row for row in facts["routes"] if row["dst"] == "198.18.2.0/24" and row["table"] == 254
    ).items()
    assert {row["priority"] for row in facts["rules"] if row["version"] == 4} >= {0, 32766, 32767}
    assert sorted(pod["addresses"] for pod in facts["pods"]) == [[CLIENT[4]], [SERVER[4]]]
    assert {(row["address"], row["protocol"], row["port"]) for row in facts["listeners"]} == {
        (SERVER[4], None, None),
        (SERVER[4], "tcp", 8080),
        (SERVER[4], "udp", 8081),
        (SERVER[4], "udp", 8082),
    }, "8090 is for the pod itself alone, 8091 for IPv6"
    assert {pod["addresses"][0]: pod["device"] for pod in facts["pods"]} == {
        CLIENT[4]: "veth-client",
        SERVER[4]: "veth-server",
    }
    assert (
        facts["kube_proxy"] == {"running": False, "how": "no process kube-proxy runs"}
        and facts["legacy_iptables"] is False
    )
    assert [table["name"] for table in facts["tables"]] == ["multicluster_trace_t1"] and len(
        facts["tables"][0]["chains"]
    ) == 10
    assert answers[0]["hop"] == "uplink" and answers[0]["answer"]["error"] == "Network is unreachable"
    ways = {row["way"]: (row["iif"], row["answer"]["dev"]) for row in answers if "way" in row}
    assert ways == {
        "out": ("veth-client", "veth-server"),
        "in": (None, "veth-server"),
        "back": ("veth-server", "veth-client"),
    }
    ask(router, "collected")


def test_questions_that_make_no_sense_get_their_answer(router):
    questions = [
        {"dst": SERVER[4], "number": 0},
        {"dst": "x"},
        {"dst": SERVER[4], "src": "::1"},
        {"dst": SERVER[4], "iif": "gone0"},
        {"src": "1.2.3.4"},
        {"dst": SERVER[4], "mark": "a"},
        {"dst": SERVER[6], "answer": "x"},
    ]
    armed = ask(router, "armed", questions=questions)
    said = [row["answer"] for row in armed["answers"]]
    assert said[0]["dev"] == said[6]["dev"] == "veth-server" and said[0]["error"] is said[6]["error"] is None
    for answer, words in zip(
        said[1:6], ("'x'", "not of one family", "no device 'gone0'", "address", "invalid literal")
    ):
        assert words in answer["error"]
    assert not armed["armed"] and armed["reason"] == "no flow is to be traced" and armed["facts"]["errors"] == []


def test_check_mode_records_and_sends_nothing(router):
    before = router.ruleset()
    request = {
        "fabric": "demo",
        "id": "t1",
        "flows": [flow()],
        "lifetime": 30,
        "events": 400,
        "sizes": [],
        "wait_seconds": 1,
        "questions": [],
    }
    armed = router.node.flow("node.trace.answer", dict(request, state="armed"), True)
    assert armed["armed"] is False and "check mode" in armed["reason"] and armed["facts"]["links"]
    assert router.node.flow("node.trace.answer", dict(request, state="sent"), True)["sent"] == []
    assert router.ruleset() == before and router.remains()["sockets"] == []
