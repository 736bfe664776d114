# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of a discovery service: what is read, what is refused with which reason, and what of it is kept (threat T52)."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import members as m
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.endpoints import parse_addr_port
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.identity import mesh_subnet
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.member_claims import (
    Grants,
    Own,
    peers_with,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.peers import Peer
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.sealing import (
    seal_affiliate,
    seal_endpoint,
)

FIXTURE = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "discovery_members.json"
HOSTILE = json.loads(FIXTURE.read_text("utf-8"))
SECRET, OTHER = bytes(range(1, 33)), bytes(range(2, 34))
OWN = ("own", "TG9yVFi34isQO2aGdCKIVQTMbwk1rqUdaYkFqqe0+m8=")
ME = Own(*OWN, "fd7a:6197:edb7:2302:5054:ff:feaa:9", ["192.0.2.19/32", "10.244.9.0/24"])
GRANTS = Grants(
    "talos", ["10.244.0.0/16"], ["192.0.2.0/24"], ["10.244.0.0/16", "10.96.0.0/12"], balanced=["192.0.2.200/29"]
)
SUBNET = mesh_subnet(HOSTILE["mesh_id"])
INVENTORY = Peer(
    "PLPNBddmTgHJhtw0vxltq1ZBdPP9RNOEUd5JjJZzBRY=",
    "known",
    "fd7a:6197:edb7:2302:5054:ff:feaa:8",
    ["192.0.2.18/32", "fd7a:6197:edb7:2302:5054:ff:feaa:8/128"],
    ["192.0.2.18:51820"],
    "known",
)


def row(affiliate: t.Mapping[str, t.Any], node_id: str | None = None, secret: bytes = SECRET, nonce: int = 0) -> m.Row:
    raw = seal_affiliate(secret, affiliate, nonce.to_bytes(12, "big"))
    ends = [seal_endpoint(secret, parse_addr_port(text)) for text in affiliate["endpoints"]]
    return m.Row(affiliate["node_id"] if node_id is None else node_id, raw, ends)


def read(*rows: m.Row, known: m.Members | None = None, now: float = 1000.0, snapshot: bool = True) -> m.Reading:
    return m.read_rows(rows, SECRET, known or {}, OWN, now, snapshot)


def peers(members: m.Members, filters: t.Sequence[str] | None = None) -> t.Any:
    return peers_with([INVENTORY], members, GRANTS, ME, SUBNET, filters)


@pytest.mark.parametrize("case", HOSTILE["evil"], ids=lambda case: case["why"])
def test_what_one_member_announces_is_refused_by_name_and_the_rest_goes_on(case: t.Mapping[str, t.Any]) -> None:
    first = read(row(HOSTILE["good"]))
    evil = {**HOSTILE["evil_base"], **case["change"]}
    found = read(row(HOSTILE["good"]), row(evil, "evil", nonce=1), known=first.members, now=1001.0)
    result = peers(found.members)
    reasons = {refusal.reason for refusal in (*found.refused, *result.refused)}
    assert reasons == ({case["reason"]} if case["reason"] else set())
    ids = {peer.node_id for peer in result.peers}
    assert {"known", "good"} <= ids and ("evil" in ids) == bool(case.get("kept"))
    good = next(peer for peer in result.peers if peer.node_id == "good")
    assert good.allowed_ips == ["10.244.1.0/24", "192.0.2.11/32", "fd7a:6197:edb7:2302:5054:ff:feaa:1/128"]
    for refusal in (*found.refused, *result.refused):
        assert refusal.message.isprintable() and len(refusal.message) < 700 and "discovery/" in refusal.object


def test_a_member_is_a_peer_with_its_filtered_endpoints() -> None:
    found = read(row({**HOSTILE["good"], "endpoints": ["10.9.9.9:51820", "192.0.2.11:51820"]}))
    (peer,) = [one for one in peers(found.members, ["0.0.0.0/0", "!10.0.0.0/8"]).peers if one.node_id == "good"]
    assert peer.endpoints == ["192.0.2.11:51820"] and peer.label == "good" and peer.cluster == "talos"


def test_networks_that_a_member_excludes_are_not_sent_to_it() -> None:
    found = read(row({**HOSTILE["good"], "exclude_advertised_networks": ["192.0.2.0/24", "0.0.0.0/0"]}))
    (peer,) = [one for one in peers(found.members).peers if one.node_id == "good"]
    assert peer.allowed_ips == ["fd7a:6197:edb7:2302:5054:ff:feaa:1/128"]


def test_a_host_of_the_inventory_gets_endpoints_that_others_saw() -> None:
    """Its own come first, at most eight more."""
    known = {**HOSTILE["good"], "node_id": "known", "public_key": INVENTORY.public_key}
    texts = [f"203.0.113.{number}:51820" for number in range(20)]
    (peer,) = peers(read(row({**known, "endpoints": texts})).members).peers
    assert peer.endpoints == ["192.0.2.18:51820", *texts[:8]] and peer.allowed_ips == INVENTORY.allowed_ips
    (peer,) = peers(read(row({**known, "public_key": HOSTILE["evil_base"]["public_key"]})).members).peers
    assert peer == INVENTORY  # its id with another key is somebody else


def test_a_wrong_secret_reads_nothing_and_one_unreadable_record_does_not_hide_the_others() -> None:
    sealed = row(HOSTILE["good"], secret=OTHER)
    found = read(sealed)
    assert found.problem == "wrong_secret" and not found.members
    assert [refusal.reason for refusal in found.refused] == ["wrong_secret"]
    mixed = read(sealed, row(HOSTILE["evil_base"]))
    assert [refusal.reason for refusal in mixed.refused] == ["sealed_otherwise"]
    assert not mixed.problem and list(mixed.members) == ["evil"]


def test_what_a_snapshot_lacks_is_kept_for_a_lifetime_and_what_was_deleted_is_gone() -> None:
    members = read(row(HOSTILE["good"]), row(HOSTILE["evil_base"])).members
    away = read(row(HOSTILE["evil_base"]), known=members, now=5000.0).members
    assert set(away) == {"good", "evil"} and away["good"].missing == 5000.0
    assert set(m.aged(away, 5000.0 + m.LIFETIME - 1)) == {"good", "evil"}
    assert set(m.aged(away, 5000.0 + m.LIFETIME)) == {"evil"}
    back = read(row(HOSTILE["good"]), known=away, now=5100.0, snapshot=False).members
    assert back["good"].missing is None and back["good"].since == 1000.0
    assert set(m.without(back, ["good"])) == {"evil"}


def test_a_replayed_record_is_not_believed_again() -> None:
    old = row(HOSTILE["good"], nonce=1)
    first = read(old).members
    rotated = {**HOSTILE["good"], "public_key": "PLPNBddmTgHJhtw0vxltq1ZBdPP9RNOEUd5JjJZzBRY="}
    second = read(row(rotated, nonce=2), known=first, snapshot=False).members
    replayed = read(old, known=second)
    assert [refusal.reason for refusal in replayed.refused] == ["replayed"]
    assert replayed.members["good"].affiliate["public_key"] == rotated["public_key"]
    assert m.of_json(json.loads(json.dumps(m.to_json(replayed.members, ["203.0.113.1"])))) == (
        replayed.members,
        ["203.0.113.1"],
    )


def test_our_own_node_id_announced_by_somebody_else_is_no_peer_and_is_said() -> None:
    mine = {**HOSTILE["good"], "node_id": "own", "public_key": OWN[1]}
    assert read(row(mine)) == m.Reading({}, [])
    for stolen in (row({**mine, "public_key": INVENTORY.public_key}), row(mine, secret=OTHER)):
        found = read(stolen)
        assert found.own_lost and [refusal.reason for refusal in found.refused] == ["own_id"] and not found.members


def test_ten_thousand_members_are_too_many_and_those_known_stay() -> None:
    known = read(row(HOSTILE["good"])).members
    flood = [m.Row(f"a{number}", b"x" * 100) for number in range(10_000)]
    found = read(*flood, row(HOSTILE["good"]), known=known)
    assert [refusal.reason for refusal in found.refused if refusal.reason != "sealed_otherwise"] == ["too_many"] * 2
    assert set(found.members) == {"good"}
    assert len(found.refused) == m.SHOWN_REFUSALS + 1


def test_changes_one_by_one_make_no_more_than_a_snapshot() -> None:
    known = read(row(HOSTILE["good"])).members
    full = {**known, **{f"m{number}": known["good"] for number in range(m.MAX_MEMBERS - 1)}}
    found = read(row(HOSTILE["evil_base"]), known=full, snapshot=False)
    assert "evil" not in found.members and [refusal.reason for refusal in found.refused] == ["too_many"]
    changed = read(row(HOSTILE["good"], nonce=5), known=full, snapshot=False)
    assert not changed.refused and changed.members["good"].digest != known["good"].digest


def test_a_file_that_is_none_is_no_member() -> None:
    for content in (
        None,
        {},
        {"version": 9},
        {"version": 1},
        {"version": 1, "members": []},
        {"version": 1, "members": {"a": 3}},
    ):
        assert m.of_json(content) == ({}, [])


def test_ids_and_rows_of_no_use() -> None:
    rows = [m.Row("../../etc", b"x" * 40), m.Row("", b"x" * 40), m.Row("ok", b""), m.Row("ok2", b"x" * 5000)]
    found = read(*rows, row(HOSTILE["good"]))
    assert [refusal.reason for refusal in found.refused] == ["name_invalid", "bad_record"]
    many = {**HOSTILE["good"], "endpoints": [f"203.0.113.{number}:{port}" for number in range(50) for port in (1, 2)]}
    found = read(row(many))
    assert [refusal.reason for refusal in found.refused] == ["bad_endpoint"]
    assert len(found.members["good"].affiliate["endpoints"]) == 64


def test_of_two_members_with_one_address_the_earlier_one_keeps_it() -> None:
    """Whichever id sorts first."""
    early = read(row({**HOSTILE["evil_base"], "node_id": "zz"})).members
    late = {**HOSTILE["evil_base"], "node_id": "aa", "public_key": HOSTILE["good"]["public_key"]}
    late["kubespan_address"] = HOSTILE["good"]["kubespan_address"]
    result = peers(read(row(late), row({**HOSTILE["evil_base"], "node_id": "zz"}), known=early, now=2000.0).members)
    assert {peer.node_id for peer in result.peers} == {"known", "zz"}
    assert {refusal.reason for refusal in result.refused} == {"claimed_twice"}


def test_announced_or_not() -> None:
    affiliate = {**HOSTILE["good"], "machine_type": "worker"}
    assert m.is_announced([row(affiliate)], SECRET, affiliate)
    assert not m.is_announced([], SECRET, affiliate)
    assert not m.is_announced([row(affiliate, secret=OTHER)], SECRET, affiliate)
    assert not m.is_announced([row({**affiliate, "addresses": []})], SECRET, affiliate)
    assert not m.is_announced([row(affiliate)._replace(endpoints=())], SECRET, affiliate)


def test_waiting_grows_to_a_minute_and_is_never_the_same_for_all() -> None:
    assert [m.backoff(attempt, 0.5) for attempt in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert m.backoff(20, 0.0) == 30 and m.backoff(20, 1.0) == 90
