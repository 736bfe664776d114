# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ways to break packets that look like other ones: none of them may be called by the other's name."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._trace import facts as facts_room, observed, page, report
from trace_worlds import World, route


def drop(host: str, length: int, direction: str = "forward", **more: t.Any) -> t.Dict[str, t.Any]:
    """What a recorder tells of a packet that a rule of others dropped."""
    return dict({
        "flow": "0", "seen": 90, "table": "limits", "family": "inet", "chain": "c", "hook": "forward", "handle": 3, "rule": "meta length > 1000 drop",
        "type": "rule", "verdict": "drop", "iif": "veth1", "oif": "", "src": None, "dst": None, "length": length, "direction": direction,
    }, **more)  # fmt: skip


def test_a_rule_that_drops_large_packets_is_no_black_hole() -> None:
    world = World({"aws": 1, "gcp": 1})
    world.small_only.add(("aws-0", "gcp-0"))
    plan, results = world.trace("aws-0", "gcp-0")
    assert [row["cause"] for row in report.build(plan, results, {})["findings"]] == ["mtu_black_hole"]
    # a small one that was dropped by the way, and then came through, says nothing of the large one
    results["gcp-0"]["collected"]["events"].append(drop("gcp-0", 84))
    assert [row["cause"] for row in report.build(plan, results, {})["findings"]] == ["mtu_black_hole"]
    results["gcp-0"]["collected"]["events"].append(drop("gcp-0", 1420))
    found = report.build(plan, results, {})["findings"]
    assert [(row["cause"], row["where"]) for row in found] == [("forward_dropped", "gcp-0")] and "1420 bytes" in found[0]["message"]


def test_an_answer_that_its_source_does_not_take_was_last_seen_there() -> None:
    world = World({"aws": 1, "gcp": 1})
    plan, results = world.trace("aws-0", "gcp-0")
    for row in results["aws-0"]["sent"]["sent"]:
        row["outcome"] = "silent"
    built = report.build(plan, results, {})
    assert [(row["cause"], row["where"]) for row in built["findings"]] == [("not_explained", "aws-0")]
    assert "handed it back by veth1" in built["findings"][0]["message"]


@pytest.mark.parametrize("text,rewrites", (
    ("masquerade", True), ("counter masquerade random", True), ('ip saddr 10.0.0.0/8 snat to 192.0.2.1 comment "x"', True), ('xt target "MASQUERADE"', True),
    ('xt target "SNAT"', True), ('ip daddr 10.0.0.0/8 accept comment "no masquerade here"', False), ("jump masquerade", False), ("goto snat", False),
    ('log prefix "snat " accept', False), ("ip saddr @masquerade_not accept", False), ("accept", False), ("", False), ('"', False), ('xt target "MARK"', False),
))  # fmt: skip
def test_a_rule_rewrites_by_its_own_word_alone(text: str, rewrites: bool) -> None:
    """What somebody calls a chain or writes into a comment is no cause."""
    row = drop("a", 84, hook="postrouting", verdict="accept", rule=text)
    (event,) = observed.parse_events([row], "0", None)
    assert (observed.passage("a", "forward", [event]).rewrite is not None) == rewrites


HOSTILE = (
    '{{ lookup("pipe", "reboot") }}', "<script>alert(1)</script>", "$(reboot)`reboot`", "\x1b]0;x\x07\x1b[2J", "(a+)+$" * 20, "x" * 100_000,
    "\u202e\u0000\n\r\t", "%s{0}{host}",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_strangers_call_things_is_shown_on_one_line_and_cut(text: str) -> None:
    world = World({"aws": 1, "gcp": 1})
    world.drops["gcp-0"] = "forward"
    plan, results = world.trace("aws-0", "gcp-0")
    facts, collected = results["gcp-0"]["armed"]["facts"], results["gcp-0"]["collected"]
    facts["links"].append({"name": text, "kind": text, "up": True, "addresses": []})
    facts["tables"].append({"family": text, "name": text, "chains": [{"name": text, "hook": text}]})
    collected["events"] = [dict(row, rule=text, chain=text, iif=text, oif=text) if row["verdict"] == "drop" else row for row in collected["events"]]
    results["aws-0"]["collected"]["reason"] = text
    built = report.build(plan, results, {"gcp-0": text})
    assert [row["cause"] for row in built["findings"]] == ["forward_dropped"]
    assert all(" " <= char <= "~" for line in built["table"] for char in line)
    assert all(len(line) < 2000 for line in built["table"]) and len(json.dumps(built)) < 60_000
    assert_shown(page.render(dict(built, fabric="demo", generated="2026-01-01T00:00:00Z", trace=plan)))


def assert_shown(html: str) -> None:
    """Nothing of it became a part of the page."""
    assert "<script>alert" not in html and "\x1b" not in html and len(html) < 200_000


def test_a_node_that_says_too_much_costs_a_bounded_time() -> None:
    """Millions of rows: what is beyond the limit of a kind is not looked at, and what was seen still counts."""
    world = World({"aws": 1, "gcp": 1})
    world.drops["gcp-0"] = "forward"
    plan, results = world.trace("aws-0", "gcp-0")
    facts = results["gcp-0"]["armed"]["facts"]
    strange = {"dst": "10.99.0.0/24", "table": 254, "dev": "x", "type": "unicast", "version": 4}
    facts["routes"] += [strange] * 250_000
    facts["rules"] += [None] * 250_000
    event = dict(results["gcp-0"]["collected"]["events"][0])
    results["gcp-0"]["collected"]["events"] += [event] * 250_000
    observed_all = report.read_nodes(plan, results)
    assert sum(map(len, observed_all.nodes["gcp-0"].routes.values())) <= facts_room.MOST
    assert observed_all.seen.passages["0", "gcp-0", "forward"].events <= observed.MOST
    assert [row["cause"] for row in report.build(plan, results, {})["findings"]] == ["forward_dropped"]


def test_a_device_that_forwards_nothing_is_named_with_its_own_setting() -> None:
    world = World({"aws": 1, "gcp": 1})
    for flag in ("forwarding", "not_forwarding"):
        plan, results = world.trace("aws-0", "gcp-0")
        device = world.device("gcp-0", "aws-0")
        settings = results["gcp-0"]["armed"]["facts"]["settings"]
        settings[flag] = {"4": False} if flag == "forwarding" else [device]
        results["gcp-0"]["collected"]["events"] = [row for row in results["gcp-0"]["collected"]["events"] if row["chain"] == "prerouting"]
        results["aws-0"]["sent"]["sent"] = [{"flow": "0", "size": 0, "outcome": "silent"}]
        (found,) = report.build(plan, results, {})["findings"]
        assert (found["cause"], found["where"]) == ("forwarding_off", "gcp-0")
        right = "sysctl net.ipv4.ip_forward" if flag == "forwarding" else "sysctl net.ipv4.conf.{0}.forwarding".format(device.replace(".", "/"))
        assert found["command"] == right
        settings.update(forwarding={"4": True}, not_forwarding=[])


def test_a_node_that_takes_its_pods_address_for_its_own_has_a_shadowed_route() -> None:
    world = World({"aws": 1, "gcp": 1})
    world.nodes["gcp-0"]["routes"].append(route(world.pods["gcp-0"] + "/32", "lo", 255, kind="local"))
    plan, results = world.trace("aws-0", "gcp-0")
    assert results["aws-0"]["sent"]["sent"][0]["outcome"] == "silent"
    assert [(row["cause"], row["where"]) for row in report.build(plan, results, {})["findings"]] == [("route_shadowed", "gcp-0")]
