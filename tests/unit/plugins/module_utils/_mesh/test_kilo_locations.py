# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clusters with a Kilo that connects locations: leaders carry their location, whoever the nodes say they are (gap G9)."""

from __future__ import annotations

import typing as t

from kilo_fabric import G, key_of, live, node, nodes, planned, reasons

REGION = "topology.kubernetes.io/region"


def located(number: int, location: str, leads: bool = False, by_label: bool = False) -> dict[str, t.Any]:
    made = node("eu", number)
    made["annotations"][G + "granularity"] = "location"
    if by_label:
        made["labels"] = {REGION: location}
    else:
        made["annotations"][G + "location"] = location
    if not leads:
        del made["annotations"][G + "wireguard-ip"]
    return made


def eu(*found: dict[str, t.Any]) -> dict[str, list[dict[str, t.Any]]]:
    return dict(nodes(), eu=list(found))


def allowed(plan: t.Any, name: str) -> list[str]:
    return next(write.manifest["spec"]["allowedIPs"] for write in plan.writes["us"] if write.name == "m--eu--" + name)


TWO = (
    located(1, "a", leads=True),
    located(2, "a"),
    located(3, "b", by_label=True),
    located(4, "b", leads=True, by_label=True),
)


def test_leaders_carry_their_location() -> None:
    plan = planned(eu(*TWO))
    assert not plan.plan.refused
    assert {write.name for write in plan.writes["us"] if "--eu--" in write.name} == {"m--eu--eu-1", "m--eu--eu-4"}
    assert allowed(plan, "eu-1") == [
        "10.20.1.0/24",
        "10.20.2.0/24",
        "100.70.0.1/32",
        "192.168.20.1/32",
        "192.168.20.2/32",
        "10.120.0.0/16",
    ]
    assert allowed(plan, "eu-4") == [
        "10.20.4.0/24",
        "10.20.3.0/24",
        "100.70.0.4/32",
        "192.168.20.4/32",
        "192.168.20.3/32",
    ]
    assert planned(eu(*TWO), live(plan)).plan.changes == []


def test_as_the_original_on_request() -> None:
    plan = planned(eu(*TWO), group_locations=False)
    assert reasons(plan) == {("eu/eu-2", "NodeNoWireguardIP"), ("eu/eu-3", "NodeNoWireguardIP")}
    assert allowed(plan, "eu-4") == ["10.20.4.0/24", "100.70.0.4/32", "192.168.20.4/32"]
    assert "group_locations" in "\n".join(plan.plan.warnings)


def test_a_location_without_a_leader_is_skipped_by_name() -> None:
    plan = planned(eu(located(1, "a", leads=True), located(2, "b")))
    assert reasons(plan) == {("eu/eu-2", "NodeNoWireguardIP")}
    assert "10.20.2.0/24" not in allowed(plan, "eu-1")


def test_a_node_that_may_not_announce_its_range_does_not_spoil_its_leader() -> None:
    liar, alone = located(2, "a"), located(3, "a")
    liar["podCIDRs"] = ["10.30.1.0/24"]
    alone["addresses"] = []
    plan = planned(eu(located(1, "a", leads=True), liar, alone))
    assert reasons(plan) == {("eu/eu-2", "NodePodCIDROutOfRange"), ("eu/eu-3", "NodeNoWireguardIP")}
    assert allowed(plan, "eu-1")[:2] == ["10.20.1.0/24", "100.70.0.1/32"]


def test_a_member_with_anothers_range_costs_its_leader_no_other() -> None:
    thief = located(2, "a")
    thief["podCIDRs"] = ["10.20.4.0/24"]
    plan = planned(eu(located(1, "a", leads=True), thief, located(4, "b", leads=True)), live(planned(eu(*TWO))))
    assert ("eu/eu-1", "claimed_twice") not in reasons(plan) and ("eu/eu-2", "claimed_twice") in reasons(plan)
    assert not [write for write in plan.writes["us"] if write.name == "m--eu--eu-4" and write.action == "delete"]


def test_nobody_makes_himself_the_leader_of_others() -> None:
    peers = live(planned(eu(*TWO)))
    usurper = located(0, "a", leads=True)
    usurper["annotations"].update({G + "leader": "true", G + "key": key_of("usurper")})
    plan = planned(eu(usurper, *TWO), peers)
    assert {(write.action, write.name) for write in plan.writes["us"]} == {("create", "m--eu--eu-0")}
    assert allowed(plan, "eu-0") == ["10.20.0.0/24", "100.70.0.0/32", "192.168.20.0/32"]


def test_another_leader_takes_over_when_the_old_one_steps_down() -> None:
    peers = live(planned(eu(*TWO)))
    plan = planned(eu(located(1, "a"), located(2, "a", leads=True), *TWO[2:]), peers)
    assert sorted(
        (write.action, write.name, write.reason) for write in plan.writes["us"] if write.action == "delete"
    ) == [
        ("delete", "m--eu--eu-1", "node eu-1: eu-2 leads its location now"),
    ]
    assert {"10.20.1.0/24", "10.20.2.0/24"} <= set(allowed(plan, "eu-2"))
    kept = planned(eu(located(1, "a"), *TWO[1:]), peers)
    assert {entry.name for entry in kept.kept} == {"m--eu--eu-1"} and not kept.plan.changes


def test_what_exists_stays_while_a_leader_moves() -> None:
    """The next leader has the address already, and the old one still has it: some seconds of every change of leaders (threat T41)."""
    before = eu(*TWO, located(5, "a"))
    peers = live(planned(before))
    second = located(2, "a", leads=True)
    second["annotations"][G + "wireguard-ip"] = TWO[0]["annotations"][G + "wireguard-ip"]
    for found in (eu(TWO[0], second, *TWO[2:], located(5, "a")), eu(second, TWO[0], *TWO[2:], located(5, "a"))):
        plan = planned(found, peers)
        assert plan.plan.changes == [] and plan.bootstrapping
        assert {(row.name, row.reason) for row in plan.kept} == {("m--eu--eu-1", "WGIPDuplicate")}
        assert reasons(plan) == {("eu/eu-1", "WGIPDuplicate"), ("eu/eu-2", "WGIPDuplicate")}
        assert any("eu-1 stay as they are" in text for text in plan.plan.warnings)
    # then it is over: the old one leads no more, or the new one has an address of its own
    after = planned(eu(located(1, "a"), second, *TWO[2:], located(5, "a")), peers)
    assert {"10.20.1.0/24", "10.20.2.0/24", "10.20.5.0/24"} <= set(allowed(after, "eu-2")) and not reasons(after)
    assert ("delete", "m--eu--eu-1") in {(write.action, write.name) for write in after.writes["us"]}
    # a stranger with the address of a leader that carries nothing of his keeps no one from changes
    thief = located(9, "z", leads=True)
    thief["annotations"][G + "wireguard-ip"] = TWO[0]["annotations"][G + "wireguard-ip"]
    changed = planned(eu(*TWO, thief), peers)
    assert "10.20.5.0/24" not in allowed(changed, "eu-1") and ("eu/eu-9", "WGIPDuplicate") in reasons(changed)


def test_a_leader_marked_by_kilo_comes_first() -> None:
    second = located(2, "a", leads=True)
    second["annotations"][G + "leader"] = "true"
    plan = planned(eu(located(1, "a", leads=True), second, located(3, "a")))
    assert "10.20.3.0/24" in allowed(plan, "eu-2") and "10.20.3.0/24" not in allowed(plan, "eu-1")
