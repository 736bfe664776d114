# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each decision about a recorded packet by itself: what was seen, what was not, and what that proves."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._trace import observed, report
from trace_judged import ONE, TWO, two_fixture  # noqa: F401 pylint: disable=unused-import
from trace_worlds import World, route


def judged(
    world: World,
    change: t.Callable[[dict[str, t.Any], dict[str, t.Any]], None],
    protocol: str = "icmp",
    reverse: bool = True,
) -> t.Any:
    plan, results = world.trace(ONE, TWO, protocol, reverse)
    change(plan, results)
    built = report.build(plan, results, {})
    found = built["findings"]
    return built["verdict"], found[0]["cause"] if found else "", found[0]["confidence"] if found else ""


def outcomes(results: t.Any, *rows: tuple[int, str]) -> None:
    results[ONE]["sent"]["sent"] = [{"flow": "0", "size": size, "outcome": outcome} for size, outcome in rows]


def unseen(results: t.Any, *hosts: str, keep: t.Callable[[t.Any], bool] = lambda event: False) -> None:
    for host in hosts:
        results[host]["collected"]["events"] = [event for event in results[host]["collected"]["events"] if keep(event)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (((0, "answered"), (1400, "no_answer")), "mtu_black_hole"),
        (((0, "answered"), (1400, "icmp_error")), ""),
        (((0, "answered"), (900, "no_answer")), ""),
    ],
)
def test_only_a_large_packet_without_an_answer_is_a_black_hole(two: World, rows: t.Any, expected: str) -> None:
    assert judged(two, lambda plan, results: outcomes(results, *rows))[1] == expected


def test_a_large_packet_that_was_delivered_found_no_black_hole(two: World) -> None:
    def lost(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "answered"), (1400, "no_answer"))

    def unreachable(plan: t.Any, results: t.Any) -> None:
        lost(plan, results)
        for event in results[TWO]["collected"]["events"]:
            event["length"] = 1400

    assert judged(two, lost, "tcp")[1] == judged(two, unreachable)[1] == "mtu_black_hole"
    assert judged(two, unreachable, "tcp")[0] == "arrives"


def test_datagrams_promise_no_answer(two: World) -> None:
    two.mute.add(TWO)

    def datagrams(plan: t.Any, results: t.Any) -> None:
        plan["flows"][0].update(protocol="udp")
        plan["flows"][0]["target"]["backends"][0]["port"] = 53

    assert (
        judged(two, datagrams)[:2] == ("arrives", "") and judged(two, lambda plan, results: None)[1] == "target_silent"
    )

    def lost(plan: t.Any, results: t.Any) -> None:
        datagrams(plan, results)
        unseen(results, TWO)

    assert judged(two, lost)[0] != "arrives"
    listening = [{"address": two.pods[TWO], "proto": "tcp", "port": 53}]

    def unheard(plan: t.Any, results: t.Any) -> None:
        datagrams(plan, results)
        results[TWO]["armed"]["facts"] = dict(results[TWO]["armed"]["facts"], listeners=listening)

    assert judged(two, unheard)[1:] == ("port_closed", "likely"), "kernels send only so many refusals in a second"
    listening[0]["proto"] = "udp"
    assert judged(two, unheard)[0] == "arrives"


def test_a_port_is_closed_by_the_target_or_by_somebody_before_it(two: World) -> None:
    def refused(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "refused"))

    assert judged(two, refused, "tcp") == ("does not arrive", "port_closed", "proven")

    def early(plan: t.Any, results: t.Any) -> None:
        refused(plan, results)
        unseen(results, TWO)

    assert judged(two, early, "tcp")[1] == "not_explained"

    def blind(plan: t.Any, results: t.Any) -> None:
        early(plan, results)
        results[TWO]["armed"]["armed"] = False

    assert judged(two, blind, "tcp")[1:] == ("port_closed", "likely")
    listening = [{"address": two.pods[TWO], "proto": "udp", "port": 8080}]

    def deaf(plan: t.Any, results: t.Any) -> None:
        blind(plan, results)
        results[TWO]["armed"]["facts"] = dict(results[TWO]["armed"]["facts"], listeners=listening)

    assert judged(two, deaf, "tcp")[1:] == ("port_closed", "proven")
    listening[0]["proto"] = "tcp"
    assert judged(two, deaf, "tcp")[1:] == ("port_closed", "likely")


def test_an_answer_that_came_in_and_did_not_go_on_is_not_delivered(two: World) -> None:
    """A pod's packet in the hook of the node's own programs came to nobody."""

    def stays(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "no_answer"))
        for event in results[TWO]["collected"]["events"]:
            event.update(hook="input" if event["chain"] == "forward" else event["chain"], oif="")
        unseen(results, TWO, keep=lambda event: event["direction"] == "forward" and event["hook"] != "postrouting")

    assert judged(two, stays)[:2] == ("not explained", "not_explained")

    def node(plan: t.Any, results: t.Any) -> None:
        plan["flows"][0]["target"]["kind"] = "node"
        stays(plan, results)

    assert judged(two, node)[1] == "target_silent"


def test_what_goes_back_into_a_tunnel_was_not_delivered(two: World) -> None:
    def loops(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "no_answer"))
        unseen(results, TWO, keep=lambda event: event["direction"] == "forward")
        for event in results[TWO]["collected"]["events"]:
            if event["oif"]:
                event["oif"] = two.device(TWO, ONE)

    assert judged(two, loops)[1] != "target_silent"


def test_a_target_that_nobody_watched_is_not_called_unresponsive(two: World) -> None:
    two.mute.add(TWO)

    def blind(plan: t.Any, results: t.Any) -> None:
        results[TWO]["armed"]["armed"] = False

    assert judged(two, blind)[1] == "not_explained"


def test_who_saw_nothing_leave_reports_it(two: World) -> None:
    def nothing(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "no_answer"))
        unseen(results, ONE, TWO)

    plan, results = two.trace(ONE, TWO)
    nothing(plan, results)
    found = report.build(plan, results, {})["findings"][0]
    assert found["cause"] == "not_explained" and "saw nothing of it leave its source" in found["message"]


def test_a_fault_before_the_place_where_it_was_seen_is_none(two: World) -> None:
    """The facts were read before the packet went: what they say counts only where the packet did not come further."""

    def fixed(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "no_answer"))
        unseen(results, TWO, keep=lambda event: event["direction"] == "forward")
        facts = results[ONE]["armed"]["facts"]
        results[ONE]["armed"]["facts"] = dict(
            facts, routes=[row for row in facts["routes"] if row["dev"] != two.device(ONE, TWO)]
        )

    assert judged(two, fixed)[1] == "target_silent"


def test_a_fault_that_lets_it_in_does_not_let_it_out(two: World) -> None:
    """No route: the packet comes in and does not leave. It left: then that is not why."""

    def left(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "no_answer"))
        unseen(results, TWO)
        facts = results[ONE]["armed"]["facts"]
        results[ONE]["armed"]["facts"] = dict(facts, settings=dict(facts["settings"], forwarding={"4": False}))

    assert judged(two, left)[1] not in ("forwarding_off",)

    def stayed(plan: t.Any, results: t.Any) -> None:
        left(plan, results)
        unseen(results, ONE, keep=lambda event: event["direction"] == "forward" and event["chain"] == "prerouting")

    assert judged(two, stayed)[1:] == ("forwarding_off", "proven")


def test_a_diversion_was_seen_where_it_left(two: World) -> None:
    two.nodes[ONE]["routes"].append(route(two.pods[TWO] + "/32", "eth0", 254, "192.168.255.1"))
    assert judged(two, lambda plan, results: None)[1:] == ("route_shadowed", "proven")


def test_without_records_nothing_is_proven(two: World) -> None:
    two.nodes[ONE]["settings"]["forwarding"]["4"] = False

    def blind(plan: t.Any, results: t.Any) -> None:
        for row in results.values():
            row["armed"] = dict(row["armed"], armed=False)

    assert judged(two, blind)[1:] == ("forwarding_off", "likely")


def test_a_source_of_the_node_before_the_tunnel_is_not_rewritten(two: World) -> None:
    """On its way out by an ordinary device the first node may see other sources of other hooks."""

    def elsewhere(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "no_answer"))
        unseen(results, TWO)
        for event in results[ONE]["collected"]["events"]:
            event["oif"] = "eth0" if event["oif"] else ""
            if event["chain"] == "postrouting":
                event["src"] = "192.0.2.1"

    assert judged(two, elsewhere)[1] != "masqueraded"


def test_answers_have_other_sources_and_are_not_rewritten(two: World) -> None:
    def back(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "no_answer"))
        for event in results[TWO]["collected"]["events"]:
            if event["direction"] == "back":
                event["src"] = "10.5.0.9"  # as a Service's address, where conntrack turns it back

    assert judged(two, back)[1] != "masqueraded"


def counts(
    results: t.Any,
    world: World,
    here: tuple[int, int],
    there: tuple[int, int],
    ages: tuple[t.Any, t.Any] = (None, None),
) -> None:
    """What both ends counted meanwhile, as (rx, tx), and the ages of their handshakes."""
    for host, other, (rx, tx), age in ((ONE, TWO, here, ages[0]), (TWO, ONE, there, ages[1])):
        peer = dict(world.peer_of(host, other))
        world.peer_of(host, other)["handshake_age"] = age
        after = dict(peer, rx=peer["rx"] + rx, tx=peer["tx"] + tx, handshake_age=age)
        results[host]["collected"]["devices"] = [dict(world.device_of(host, other), peers=[after])]


@pytest.mark.parametrize(
    ("here", "there", "ages", "calls", "expected"),
    [
        ((0, 148), (0, 148), (None, None), True, ("udp_blocked", "proven")),
        ((92, 148), (0, 148), (None, None), True, ("udp_blocked_one_way", "likely")),
        ((92, 148), (0, 148), (20, 20), True, ("udp_blocked_one_way", "proven")),
        ((0, 148), (0, 0), (None, None), False, ("no_handshake", "likely")),
        ((0, 148), (148, 92), (None, None), True, ("no_handshake", "likely")),
        ((92, 148), (148, 92), (None, None), True, ("no_handshake", "likely")),
        ((0, 0), (0, 148), (None, None), True, ("not_explained", "not explained")),
        ((92, 148), (148, 92), (20, 20), True, ("not_explained", "not explained")),
        # the other end has a session and this one has none: what it sends with that is not counted here
        ((0, 148), (0, 148), (None, 20), True, ("no_handshake", "likely")),
        ((0, 148), (0, 148), (20, 20), True, ("udp_blocked", "proven")),
        # nobody knows whether the other end sent anything
        ((0, 148), (0, 148), (20, 20), False, ("not_explained", "not explained")),
    ],
)
def test_what_tunnels_count_shows_who_heard_whom(
    two: World, here: t.Any, there: t.Any, ages: t.Any, calls: bool, expected: t.Any
) -> None:
    def lost(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "no_answer"))
        unseen(
            results, TWO, keep=lambda event: calls and event["flow"] == "0r" and event["oif"] == two.device(TWO, ONE)
        )
        unseen(results, ONE, keep=lambda event: event["flow"] == "0" and event["direction"] == "forward")
        counts(results, two, here, there, ages)

    assert judged(two, lost)[1:] == expected


def test_who_refuses_on_the_targets_node_is_not_the_pod(two: World) -> None:
    def refused(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "refused"))
        unseen(results, TWO, keep=lambda event: event["direction"] == "forward" and event["chain"] == "prerouting")
        for event in list(results[TWO]["collected"]["events"]):
            results[TWO]["collected"]["events"].append(dict(event, chain="input"))

    assert judged(two, refused, "tcp")[1] == "not_explained"

    def node(plan: t.Any, results: t.Any) -> None:
        plan["flows"][0]["target"]["kind"] = "node"
        refused(plan, results)

    assert judged(two, node, "tcp")[1:] == ("port_closed", "proven")


def test_what_diverts_comes_before_what_rewrites_on_the_other_way(two: World) -> None:
    two.nodes[ONE]["routes"].append(route(two.pods[TWO] + "/32", "eth0", 254, "192.168.255.1"))

    def around(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "no_answer"))
        (event, *dummy) = results[ONE]["collected"]["events"]
        results[TWO]["collected"]["events"] = [dict(event, chain="prerouting", iif="eth0", oif="", src=two.uplink[ONE])]

    assert judged(two, around)[1] == "route_shadowed"


def test_counters_say_nothing_where_the_facts_and_the_packet_disagree(two: World) -> None:
    def left(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "no_answer"))
        unseen(results, TWO)
        unseen(results, ONE, keep=lambda event: event["flow"] == "0" and event["direction"] == "forward")
        counts(results, two, (0, 148), (148, 92))
        facts = results[ONE]["armed"]["facts"]
        results[ONE]["armed"]["facts"] = dict(facts, settings=dict(facts["settings"], forwarding={"4": False}))

    assert judged(two, left)[1] == "not_explained"


FULL = {"count": 65536, "most": 65536, "dropped": 5}


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (FULL, dict(FULL, dropped=8), ("conntrack_full", "proven")),
        (dict(FULL, count=9), dict(FULL, dropped=8), ("conntrack_full", "proven")),
        (FULL, FULL, ("conntrack_full", "likely")),
        (None, dict(FULL, dropped=None), ("conntrack_full", "likely")),
        (dict(FULL, count=9), dict(FULL, count=9, dropped=8), ("not_explained", "not explained")),
        (None, None, ("not_explained", "not explained")),
    ],
)
@pytest.mark.parametrize("host", [ONE, TWO])
def test_a_packet_that_came_in_where_no_further_connection_is_tracked(
    two: World, before: t.Any, after: t.Any, cause: tuple[str, str], host: str
) -> None:
    def full(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "failed"))
        unseen(results, TWO, keep=lambda event: host == TWO and event["flow"] == "0" and event["chain"] == "prerouting")
        unseen(
            results,
            ONE,
            keep=lambda event: (
                event["flow"] == "0"
                and event["direction"] == "forward"
                and (host == TWO or event["chain"] == "prerouting")
            ),
        )
        facts = results[host]["armed"]["facts"]
        results[host]["armed"]["facts"] = dict(facts, counters={"tracking": before})
        results[host]["collected"]["counters"] = {"tracking": after}

    assert judged(two, full)[1:] == cause


def test_who_did_not_record_is_not_said_to_have_seen_nothing(two: World) -> None:
    def blind(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "no_answer"))
        results[TWO]["armed"]["armed"] = False
        unseen(results, ONE, keep=lambda event: event["flow"] == "0" and event["direction"] == "forward")
        counts(results, two, (0, 148), (148, 92))

    plan, results = two.trace(ONE, TWO)
    blind(plan, results)
    found = report.build(plan, results, {})["findings"]
    assert [row["cause"] for row in found] == ["not_explained"] and "did not see it" not in found[0]["message"]


@pytest.mark.parametrize(
    ("early", "of", "shown"),
    [({"question": 0}, 1, True), ({"question": 1}, 1, False), ({}, None, False), ({"question": 0}, None, True)],
)
def test_a_finding_without_a_packet_explains_its_own_question_and_no_other(
    two: World, early: t.Any, of: int | None, shown: bool
) -> None:
    plan, results = two.trace(ONE, TWO)
    outcomes(results, (0, "no_answer"))
    results[TWO]["armed"]["armed"] = False
    unseen(results, ONE, keep=lambda event: event["flow"] == "0" and event["direction"] == "forward")
    counts(results, two, (0, 148), (148, 92))
    plan["flows"][0].update({} if of is None else {"question": of})
    plan["findings"] = [{"cause": "mirror_stale", "message": "m", **early}]
    causes = [row["cause"] for row in report.build(plan, results, {})["findings"]]
    assert causes == ["mirror_stale", "not_explained"][: 1 + shown]


def test_an_error_of_the_sources_own_node_came_through_no_tunnel(two: World) -> None:
    two.mute.add(TWO)
    plan, results = two.trace(ONE, TWO)
    plan["flows"][0]["protocol"] = "udp"
    first = results[ONE]["collected"]["events"][0]
    results[ONE]["collected"]["events"].append(dict(first, direction="back", chain="output", iif=""))
    hops = [
        row for row in report.build(plan, results, {})["hops"] if row["direction"] == "back" and row["where"] == TWO
    ]
    assert {row["what"] for row in hops} >= {"route", "tunnel"} and {row["verdict"] for row in hops} == {"not seen"}


@pytest.mark.parametrize(
    ("verdict", "dropped"),
    [("drop", True), ("continue", False), ("jump x", False), ("return", False), ("", False), ("accept", False)],
)
def test_only_a_drop_ends_a_packet(verdict: str, dropped: bool) -> None:
    (event,) = observed.parse_events([{"flow": "0", "table": "t", "chain": "forward", "verdict": verdict}], "0", None)
    assert (observed.passage("h", "forward", [event]).drop is not None) == dropped
