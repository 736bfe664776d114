# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ways to break packets that look like other ones: none of them may be called by the other's name."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._trace import (
    facts as facts_room,
    node_results,
    observed,
    page,
    report,
)
from trace_worlds import World, route


def drop(host: str, length: int, direction: str = "forward", **more: t.Any) -> dict[str, t.Any]:
    """What a recorder reports of a packet that a rule of others dropped."""
    return dict(
        {
            "flow": "0",
            "seen": 90,
            "table": "limits",
            "family": "inet",
            "chain": "c",
            "hook": "forward",
            "handle": 3,
            "rule": "meta length > 1000 drop",
            "type": "rule",
            "verdict": "drop",
            "iif": "veth1",
            "oif": "",
            "src": None,
            "dst": None,
            "length": length,
            "direction": direction,
        },
        **more,
    )


def test_a_rule_that_drops_large_packets_is_no_black_hole() -> None:
    world = World({"aws": 1, "gcp": 1})
    world.small_only.add(("aws-0", "gcp-0"))
    plan, results = world.trace("aws-0", "gcp-0")
    assert [row["cause"] for row in report.build(plan, results, {})["findings"]] == ["mtu_black_hole"]
    # a small one that was dropped by the way, and then came through, is no evidence for the large one
    results["gcp-0"]["collected"]["events"].append(drop("gcp-0", 84))
    assert [row["cause"] for row in report.build(plan, results, {})["findings"]] == ["mtu_black_hole"]
    results["gcp-0"]["collected"]["events"].append(drop("gcp-0", 1420))
    found = report.build(plan, results, {})["findings"]
    assert [(row["cause"], row["where"]) for row in found] == [("forward_dropped", "gcp-0")] and "1420 bytes" in found[
        0
    ]["message"]


def test_an_answer_that_its_source_does_not_take_was_last_seen_there() -> None:
    world = World({"aws": 1, "gcp": 1})
    plan, results = world.trace("aws-0", "gcp-0")
    for row in results["aws-0"]["sent"]["sent"]:
        row["outcome"] = "no_answer"
    built = report.build(plan, results, {})
    assert [(row["cause"], row["where"]) for row in built["findings"]] == [("not_explained", "aws-0")]
    assert "sent it back by veth1" in built["findings"][0]["message"]


@pytest.mark.parametrize(
    "text,rewrites",
    (
        ("masquerade", True),
        ("counter masquerade random", True),
        ('ip saddr 10.0.0.0/8 snat to 192.0.2.1 comment "x"', True),
        ('xt target "MASQUERADE"', True),
        ('xt target "SNAT"', True),
        ('ip daddr 10.0.0.0/8 accept comment "no masquerade here"', False),
        ("jump masquerade", False),
        ('oifname { "wireguard.b" } snat ip prefix to ip saddr map { 10.2.0.0/16 : 10.2.0.0/16 }', False),
        ("snat ip prefix to ip saddr map { 10.2.0.0/16 : 10.2.0.0/16, 10.3.0.0/16 : 10.9.0.0/16 }", True),
        ("snat ip prefix to ip saddr map { 10.2.0.0/16 : 10.2.0.0/16", True),
        ("snat to ip saddr map { 10.2.0.5 : 10.2.0.5 }", True),
        ("goto snat", False),
        ('log prefix "snat " accept', False),
        ("ip saddr @masquerade_not accept", False),
        ("accept", False),
        ("", False),
        ('"', False),
        ('xt target "MARK"', False),
    ),
)
def test_a_rule_rewrites_by_its_own_text_alone(text: str, rewrites: bool) -> None:
    """What somebody calls a chain or writes into a comment is no cause."""
    row = drop("a", 84, hook="postrouting", verdict="accept", rule=text)
    (event,) = observed.parse_events([row], "0", None)
    assert (observed.passage("a", "forward", [event]).rewrite is not None) == rewrites


HOSTILE = (
    '{{ lookup("pipe", "reboot") }}',
    "<script>alert(1)</script>",
    "$(reboot)`reboot`",
    "\x1b]0;x\x07\x1b[2J",
    "(a+)+$" * 20,
    "x" * 100_000,
    "\u202e\u0000\n\r\t",
    "%s{0}{host}",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_strangers_call_things_is_shown_on_one_line_and_cut(text: str) -> None:
    world = World({"aws": 1, "gcp": 1})
    world.drops["gcp-0"] = "forward"
    plan, results = world.trace("aws-0", "gcp-0")
    facts, collected = results["gcp-0"]["armed"]["facts"], results["gcp-0"]["collected"]
    facts["links"].append({"name": text, "kind": text, "up": True, "addresses": []})
    facts["tables"].append({"family": text, "name": text, "chains": [{"name": text, "hook": text}]})
    collected["events"] = [
        dict(row, rule=text, chain=text, iif=text, oif=text) if row["verdict"] == "drop" else row
        for row in collected["events"]
    ]
    results["aws-0"]["collected"]["reason"] = text
    built = report.build(plan, results, {"gcp-0": text})
    assert [row["cause"] for row in built["findings"]] == ["forward_dropped"]
    assert all(" " <= char <= "~" for line in built["table"] for char in line)
    assert all(len(line) < 2000 for line in built["table"]) and len(json.dumps(built)) < 60_000
    assert_shown(page.render(dict(built, fabric="demo", generated="2026-01-01T00:00:00Z", trace=plan)))


def assert_shown(html: str) -> None:
    """Nothing of it became a part of the page."""
    assert "<script>alert" not in html and "\x1b" not in html and len(html) < 200_000


def test_a_node_that_answers_too_much_costs_a_bounded_time() -> None:
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
    observed_all = node_results.read_nodes(plan, results)
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
        results["gcp-0"]["collected"]["events"] = [
            row for row in results["gcp-0"]["collected"]["events"] if row["chain"] == "prerouting"
        ]
        results["aws-0"]["sent"]["sent"] = [{"flow": "0", "size": 0, "outcome": "no_answer"}]
        (found,) = report.build(plan, results, {})["findings"]
        assert (found["cause"], found["where"]) == ("forwarding_off", "gcp-0")
        right = (
            "sysctl net.ipv4.ip_forward"
            if flag == "forwarding"
            else f"sysctl net.ipv4.conf.{device.replace('.', '/')}.forwarding"
        )
        assert found["command"] == right
        settings.update(forwarding={"4": True}, not_forwarding=[])


def test_a_node_that_takes_its_pods_address_for_its_own_has_a_shadowed_route() -> None:
    world = World({"aws": 1, "gcp": 1})
    world.nodes["gcp-0"]["routes"].append(route(world.pods["gcp-0"] + "/32", "lo", 255, kind="local"))
    plan, results = world.trace("aws-0", "gcp-0")
    assert results["aws-0"]["sent"]["sent"][0]["outcome"] == "no_answer"
    assert [(row["cause"], row["where"]) for row in report.build(plan, results, {})["findings"]] == [
        ("route_shadowed", "gcp-0")
    ]


def changed(results: t.Mapping[str, t.Any], host: str, direction: str, **more: t.Any) -> None:
    """What a recorder of a host saw, as something else."""
    collected = results[host]["collected"]
    collected["events"] = [dict(row, **more) if row["direction"] == direction else row for row in collected["events"]]


def unreachable(results: t.Mapping[str, t.Any]) -> None:
    for row in results["aws-0"]["sent"]["sent"]:
        row["outcome"] = "no_answer"


def test_what_goes_to_another_address_is_no_unresponsive_target() -> None:
    world = World({"aws": 1, "gcp": 1})
    plan, results = world.trace("aws-0", "gcp-0", "tcp")
    unreachable(results)
    rule = drop(
        "aws-0",
        60,
        hook="prerouting",
        verdict="accept",
        table="nat",
        rule="tcp dport 8080 dnat to 10.20.9.9",
        dst="10.20.9.9",
    )
    for host in results:
        changed(results, host, "forward", dst="10.20.9.9")
    results["aws-0"]["collected"]["events"].insert(0, rule)
    (found,) = report.build(plan, results, {})["findings"]
    assert (found["cause"], found["where"]) == ("not_explained", "aws-0")
    assert "becomes one to 10.20.9.9" in found["message"] and "dnat to 10.20.9.9" in found["message"]
    # nor is a port closed there when that other one refuses
    results["aws-0"]["sent"]["sent"] = [{"flow": "0", "size": 0, "outcome": "refused"}]
    (found,) = report.build(plan, results, {})["findings"]
    assert found["cause"] == "not_explained" and "10.20.9.9" in found["message"]


def test_an_answer_of_another_address_is_named_before_the_rule_that_minds_it() -> None:
    """Connection tracking calls it invalid, and what drops that is not what has to be fixed."""
    world = World({"aws": 1, "gcp": 1})
    plan, results = world.trace("aws-0", "gcp-0")
    unreachable(results)
    for host in results:
        changed(results, host, "back", src="10.20.9.9")
    invalid = drop("aws-0", 84, "back", rule="ct state invalid drop", src="10.20.9.9", dst=world.pods["aws-0"])
    results["aws-0"]["collected"]["events"].append(invalid)
    (found,) = report.build(plan, results, {})["findings"]
    assert (found["cause"], found["where"], found["direction"]) == (
        "not_explained",
        "gcp-0",
        "back",
    ) and "comes from 10.20.9.9" in found["message"]


def test_an_error_about_a_packet_has_ends_of_its_own() -> None:
    world = World({"aws": 1, "gcp": 1})
    world.drops["gcp-0"] = "forward"
    plan, results = world.trace("aws-0", "gcp-0")
    rejected = dict(
        drop("gcp-0", 84, "back", verdict="accept", table="multicluster_trace_00c0ffee", rule=None),
        error="host_unreachable",
        hook="output",
    )
    results["gcp-0"]["collected"]["events"].append(dict(rejected, src=world.uplink["gcp-0"], dst=world.pods["aws-0"]))
    assert [(row["cause"], row["where"]) for row in report.build(plan, results, {})["findings"]] == [
        ("forward_dropped", "gcp-0")
    ]


def test_who_answers_for_another_is_not_the_target() -> None:
    world = World({"aws": 1, "gcp": 1})
    plan, results = world.trace("aws-0", "gcp-0")
    assert report.build(plan, results, {})["verdict"] == "arrives"
    results["gcp-0"]["collected"]["events"] = []
    built = report.build(plan, results, {})
    assert (built["verdict"], [(row["cause"], row["where"]) for row in built["findings"]]) == (
        "not explained",
        [("not_explained", "aws-0")],
    )
    # who missed events has not said that there was none, and one who did not record neither
    results["gcp-0"]["collected"]["lost"] = 1
    assert report.build(plan, results, {})["verdict"] == "arrives"
    results["gcp-0"]["collected"] = {}
    assert report.build(plan, results, {})["verdict"] == "arrives"


def kilo() -> World:
    """A world with tunnels of another program: one device of a name that no plan has."""
    world = World({"aws": 1, "gcp": 1})
    for facts in world.nodes.values():
        for kind in ("links", "devices", "routes"):
            for row in facts[kind]:
                for name in ("name", "dev"):
                    if str(row.get(name)).startswith("wireguard."):
                        row.update({name: "kilo0", "owned": False})
    world.device = lambda host, other: "kilo0"  # type: ignore[method-assign]
    return world


def asked(world: World) -> tuple[str, list[tuple[str, str]]]:
    plan, results = world.trace("aws-0", "gcp-0")
    plan["mesh"]["devices"] = {"aws": {"gcp": "wireguard.gcp"}, "gcp": {"aws": "wireguard.aws"}}
    built = report.build(plan, results, {})
    return built["verdict"], [(row["cause"], row["where"]) for row in built["findings"]]


def test_tunnels_of_another_program_are_followed_by_their_keys() -> None:
    assert asked(kilo()) == ("arrives", [])
    world = kilo()
    world.peer_of("gcp-0", "aws-0")["allowed_ips"] = ["10.99.0.0/24"]
    assert asked(world) == ("does not arrive", [("allowed_ips_lack_source", "gcp-0")])
    world = kilo()
    world.peer_of("aws-0", "gcp-0")["allowed_ips"] = ["10.99.0.0/24"]
    world.nodes["aws-0"]["routes"] = [
        row for row in world.nodes["aws-0"]["routes"] if row["dev"] != "kilo0"
    ]  # its routes follow
    assert asked(world) == ("does not arrive", [("allowed_ips_lack_target", "aws-0")])
    world = kilo()
    world.device_of("gcp-0", "aws-0")["peers"].clear()
    assert asked(world) == ("does not arrive", [("peer_missing", "gcp-0")])


def test_where_nothing_replaces_it_the_device_of_the_plan_is_missing() -> None:
    world = World({"aws": 1, "gcp": 1})
    for facts in world.nodes.values():
        facts["devices"].clear()
        facts["links"] = [row for row in facts["links"] if row["kind"] != "wireguard"]
        facts["routes"] = [row for row in facts["routes"] if not str(row["dev"]).startswith("wireguard.")]
    assert asked(world) == ("does not arrive", [("device_missing", "aws-0")])


def test_a_port_that_changed_is_that_of_who_listens() -> None:
    world = World({"aws": 1, "gcp": 1})
    world.device_of("gcp-0", "aws-0")["listen_port"] = 51999
    plan, results = world.trace("aws-0", "gcp-0")
    (found,) = report.build(plan, results, {})["findings"]
    assert (found["cause"], found["where"]) == ("stale_endpoint", "gcp-0") and "listens on port 51999" in found[
        "message"
    ]


def test_what_the_source_was_notified_of_is_shown_where_nothing_explains_it() -> None:
    world = World({"aws": 1, "gcp": 1})
    world.stuck.add("aws-0")
    plan, results = world.trace("aws-0", "gcp-0")
    for outcome, detail, shown in (
        ("failed", "no network namespace of this node has the address 10.10.0.9", True),
        ("icmp_error", "ttl_exceeded from 192.0.2.1\x1b[2J<b>", True),
        ("no_answer", "no answer", False),
    ):
        results["aws-0"]["sent"]["sent"] = [{"flow": "0", "size": 0, "outcome": outcome, "detail": detail}]
        (found,) = report.build(plan, results, {})["findings"]
        assert (
            found["cause"] == "not_explained"
            and ("the source received" in found["message"]) == shown
            and "\x1b" not in found["message"]
        )
