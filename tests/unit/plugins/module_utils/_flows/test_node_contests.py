# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One hostile cluster claims what nodes of others are: nobody loses a peer, and the claimant alone is refused."""

from __future__ import annotations

import base64
import itertools
import json
import pathlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.contests import Claimant, Record, settle
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.node_spec import (
    NodeDevice,
    NodeState,
    parse_node_device,
)
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import LivePeer
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import contests as node_contests
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.annotations import (
    KEYS,
    NODE_ID,
    PUBLIC_KEY,
    encode,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.identity import mesh_address
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.peers import Mesh
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import (
    kubespan as kubespan_plan,
    semaphore as semaphore_topology,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_network
from hypothesis import given, settings, strategies as st

TABLE = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "stolen_identities.json").read_text("utf-8")
)
MESH = "our mesh"
Data = dict[str, t.Any]


def key(number: int) -> str:
    return base64.b64encode(bytes([number]) * 32).decode("ascii")


class World:
    """Three clusters with two nodes each, of given names: victim, hostile, third."""

    def __init__(
        self, victim: str = "victim", hostile: str = "hostile", third: str = "third", nodes: t.Any = None
    ) -> None:
        self.victim, self.hostile, self.third = victim, hostile, third
        self.seats = [(cluster, f"{cluster}-{number}") for cluster in (victim, hostile, third) for number in (1, 2)]
        place = {cluster: index for index, cluster in enumerate((victim, hostile, third))}
        node_cidrs = nodes or {cluster: [f"10.66.{place[cluster]}.0/24"] for cluster in place}
        self.fabric, findings = load_fabric(
            {
                "name": "demo",
                "clusters": {
                    cluster: {
                        "pod_cidrs": [f"10.{10 + index}.0.0/16"],
                        "service_cidrs": [f"10.{20 + index}.0.0/16"],
                        "node_cidrs": node_cidrs[cluster],
                        "wireguard_port": 51820 + index,
                        "device_alias": f"c{index}",
                    }
                    for cluster, index in place.items()
                },
                "nodes": {name: {"multicluster_cluster": cluster, "node_name": name} for cluster, name in self.seats},
            }
        )
        assert not [finding for finding in findings if finding.level == "error"]
        self.rows = {}
        for number, seat in enumerate(self.seats):
            index = place[seat[0]]
            self.rows[seat] = {
                "node_id": f"id-{number}",
                "nodename": seat[1],
                "public_key": key(number + 1),
                "kubespan_address": str(mesh_address(MESH, f"52:54:00:00:00:{number + 1:02x}")),
                "addresses": [f"10.66.{index}.{number + 1}"],
                "additional_addresses": [f"10.{10 + index}.{number + 1}.0/24"],
                "endpoints": [f"10.66.{index}.{number + 1}:51820"],
            }

    # -- KubeSpan ------------------------------------------------------------------------------------------------

    def mesh_listings(self, changes: t.Mapping[t.Any, t.Mapping[str, str]] | None = None) -> Data:
        found: Data = {cluster: {"nodes": []} for cluster in (self.victim, self.hostile, self.third)}
        for seat in self.seats:
            notes = {name: value for name, value in encode(self.rows[seat]).items() if value}
            notes.update((changes or {}).get(seat, {}))
            found[seat[0]]["nodes"].append(
                {
                    "metadata": {"name": seat[1], "annotations": notes},
                    "spec": {"podCIDRs": self.rows[seat]["additional_addresses"]},
                }
            )
        return found

    def state(self, seat: t.Any) -> Data:
        """What a node's confirmed state has after a run without anybody hostile."""
        kept, refused = self.decide(seat, self.plan(self.mesh_listings()), {"peers": []})
        assert not refused
        return {"peers": self.peers(seat, kept)}

    def plan(self, listings: Data, reported: t.Any = None) -> Data:
        return kubespan_plan.plan_kubespan_mesh(self.fabric, listings, MESH, reported).to_json()

    def decide(self, seat: t.Any, topology: Data, state: Data | None) -> tuple[list[Data], list[t.Any]]:
        part = kubespan_plan.node_kubespan(MeshPlan.from_json(topology), seat[1])
        own = dict(self.rows[seat], cluster=seat[0], node=seat[1])
        return node_contests.settle_affiliates(t.cast(Data, part), own, state, "kubespan", ["/key", "/identity"])

    def peers(self, seat: t.Any, kept: t.Sequence[Data]) -> list[Data]:
        own = self.rows[seat]
        return [
            peer.to_json()
            for peer in Mesh(kept).specs(own["node_id"]).peers.values()
            if peer.public_key != own["public_key"] and peer.address != own["kubespan_address"]
        ]


ORDERS = list(itertools.permutations(("aaa", "mmm", "zzz")))
STOLEN = [dict(row["steals"], id=row["id"]) for row in TABLE["kubespan"]]


def _stolen(world: World, what: t.Mapping[str, t.Any]) -> dict[t.Any, dict[str, str]]:
    notes = encode(world.rows[(world.victim, world.victim + "-1")])
    taken = {name: notes[name] for name in KEYS if name in what["annotations"]}
    return {(world.hostile, world.hostile + "-1"): taken}


def _without_names(state: Data) -> Data:
    """As an earlier release confirmed it."""
    return {
        "peers": [
            {name: value for name, value in peer.items() if name not in ("cluster", "node")} for peer in state["peers"]
        ]
    }


@pytest.mark.parametrize("what", STOLEN, ids=lambda what: what["id"])
@pytest.mark.parametrize("names", ORDERS, ids="-".join)
@pytest.mark.parametrize("earlier", [False, True], ids=["named", "earlier-release"])
def test_the_holder_stays_and_the_claimant_alone_is_refused(what: t.Any, names: t.Any, earlier: bool) -> None:
    world = World(*names)
    topology = world.plan(world.mesh_listings(_stolen(world, what)))
    thief, robbed = f"{world.hostile}/{world.hostile}-1", f"{world.victim}/{world.victim}-1"
    assert not topology["refused"] and sorted({robbed, thief}) == sorted(
        "{cluster}/{node}".format(**row) for row in topology["kubespan"]["contested"]
    )
    for seat in world.seats:
        state = world.state(seat)
        kept, refused = world.decide(seat, topology, _without_names(state) if earlier else state)
        assert [(row.object, row.reason) for row in refused] == [(thief, "claimed_twice")]
        assert f"is held by {robbed}, which keeps it" in refused[0].message
        after = {(peer["cluster"], peer["node"]): peer for peer in world.peers(seat, kept)}
        for peer in state["peers"]:
            if peer["cluster"] != world.hostile:
                assert after[(peer["cluster"], peer["node"])] == peer
        # and the run after this one decides the same way
        again, _refused = world.decide(seat, topology, {"peers": world.peers(seat, kept)})
        assert again == kept


def test_a_copied_host_reports_what_to_delete_and_where() -> None:
    world = World()
    topology = world.plan(world.mesh_listings(_stolen(world, {"annotations": [PUBLIC_KEY]})))
    seat = (world.third, world.third + "-1")
    (refusal,) = world.decide(seat, topology, world.state(seat))[1]
    assert "delete /key and /identity on hostile-1 and run again" in refusal.message
    robbed = (world.victim, world.victim + "-1")
    (own,) = world.decide(robbed, topology, world.state(robbed))[1]
    assert own.object == "hostile/hostile-1" and "delete" not in own.message


@pytest.mark.parametrize("names", ORDERS, ids="-".join)
@pytest.mark.parametrize("what", STOLEN, ids=lambda what: what["id"])
def test_a_node_without_a_record_goes_by_what_hosts_report(what: t.Any, names: t.Any) -> None:
    world = World(*names)
    listings = world.mesh_listings(_stolen(world, what))
    seat = (world.third, world.third + "-1")
    # the first call of a new node knows nothing: somebody gets it, and that makes nobody a holder
    kept, refused = world.decide(seat, world.plan(listings), {"peers": []})
    state = {"peers": world.peers(seat, kept)}
    assert len(refused) == 1 and [peer for peer in state["peers"] if peer.get("by_rank")]
    reported = {world.victim + "-1": encode(world.rows[(world.victim, world.victim + "-1")])}
    kept, refused = world.decide(seat, world.plan(listings, reported), state)
    assert [row.object for row in refused] == [f"{world.hostile}/{world.hostile}-1"]
    settled = {"peers": world.peers(seat, kept)}
    assert not [peer for peer in settled["peers"] if peer.get("by_rank")]
    # from then on it is known, also when nobody reports and when the thief's host does
    liar = (world.hostile, world.hostile + "-1")
    thief = {liar[1]: dict(encode(world.rows[liar]), **_stolen(world, what)[liar])}
    for later in (None, thief):
        kept, refused = world.decide(seat, world.plan(listings, later), settled)
        assert [row.object for row in refused] == [f"{world.hostile}/{world.hostile}-1"]


def test_a_hosts_own_report_heals_its_node_against_its_cluster() -> None:
    world = World("zzz", "aaa", "mmm")
    listings = world.mesh_listings(_stolen(world, {"annotations": [NODE_ID, PUBLIC_KEY]}))
    said = {name: encode(world.rows[(cluster, name)]) for cluster, name in world.seats}
    topology = world.plan(listings, said)
    assert "contested" not in topology["kubespan"] and len(topology["kubespan"]["affiliates"]) == 6
    assert topology["kubespan"] == world.plan(world.mesh_listings())["kubespan"]
    published = kubespan_plan.annotations_to_publish(MeshPlan.from_json(topology), said)
    assert list(published) == ["aaa"] and published["aaa"]["aaa-1"][NODE_ID] == "id-2"


@pytest.mark.parametrize("what", STOLEN, ids=lambda what: what["id"])
def test_who_cannot_be_asked_loses_nothing_to_who_can(what: t.Any) -> None:
    """A claim made while the holder's cluster does not answer: the node knows better."""
    world = World("zzz", "aaa", "mmm")
    listings = dict(
        world.mesh_listings(_stolen(world, what)), zzz={"error": {"reason": "unreachable", "message": "no answer"}}
    )
    topology = world.plan(listings)
    seat = (world.third, world.third + "-1")
    state = world.state(seat)
    for known in (state, _without_names(state)):
        kept, refused = world.decide(seat, topology, known)
        assert [row.object for row in refused] == ["aaa/aaa-1"]
        assert {row["cluster"] for row in kept} == {"aaa", "mmm"}


def test_who_gives_a_key_up_keeps_nobody_from_it() -> None:
    world = World()
    moved = world.rows[(world.victim, "victim-1")]
    listings = world.mesh_listings({(world.hostile, "hostile-1"): {PUBLIC_KEY: moved["public_key"]}})
    listings[world.victim]["nodes"] = listings[world.victim]["nodes"][1:]
    seat = (world.third, world.third + "-1")
    kept, refused = world.decide(seat, world.plan(listings), world.state(seat))
    assert not refused and {row["node"] for row in kept if row["public_key"] == moved["public_key"]} == {"hostile-1"}


def test_an_address_that_two_announce_stays_with_its_holder() -> None:
    shared = dict.fromkeys(("zzz", "aaa", "mmm"), ["10.66.0.0/16"])
    world = World("zzz", "aaa", "mmm", shared)
    evil = {("aaa", "aaa-1"): {"networking.talos.dev/self-ips": "10.66.1.3,10.66.0.1"}}
    topology = world.plan(world.mesh_listings(evil))
    assert topology["kubespan"]["disputed"] == ["10.66.0.1"]
    seat = ("mmm", "mmm-1")
    kept, refused = world.decide(seat, topology, world.state(seat))
    assert [(row.object, row.reason) for row in refused] == [("aaa/aaa-1", "claimed_twice")]
    assert {row["node"]: row["addresses"] for row in kept}["zzz-1"] == ["10.66.0.1"]
    assert {row["node"]: row["addresses"] for row in kept}["aaa-1"] == ["10.66.1.3"]


SHARED = dict.fromkeys(("zzz", "aaa", "mmm"), ["10.66.0.0/16", "2001:db8:66::/64"])
SELF_IPS = "networking.talos.dev/self-ips"


def _with_ipv6(world: World) -> World:
    for number, seat in enumerate(world.seats):
        world.rows[seat]["addresses"].append(f"2001:db8:66::{16 * (number + 1):x}")
    return world


@pytest.mark.parametrize(
    "place", [row["place"] for row in TABLE["addresses"]], ids=[row["id"] for row in TABLE["addresses"]]
)
@pytest.mark.parametrize("earlier", [False, True], ids=["named", "earlier-release"])
def test_an_address_of_either_version_stays_with_its_holder(place: int, earlier: bool) -> None:
    world = _with_ipv6(World("zzz", "aaa", "mmm", SHARED))
    stolen = world.rows[("zzz", "zzz-1")]["addresses"][place]
    topology = world.plan(world.mesh_listings({("aaa", "aaa-1"): {SELF_IPS: stolen}}))
    assert topology["kubespan"]["disputed"] == [stolen]
    seat = ("mmm", "mmm-1")
    state = world.state(seat)
    kept, refused = world.decide(seat, topology, _without_names(state) if earlier else state)
    assert [(row.object, row.reason) for row in refused] == [("aaa/aaa-1", "claimed_twice")]
    assert stolen in {row["node"]: row["addresses"] for row in kept}["zzz-1"]


@pytest.mark.parametrize(
    "place", [row["place"] for row in TABLE["addresses"]], ids=[row["id"] for row in TABLE["addresses"]]
)
def test_an_address_won_by_name_makes_nobody_its_holder(place: int) -> None:
    """A new node that knows neither: its choice does not outlive the report of the host that has the address."""
    world = _with_ipv6(World("zzz", "aaa", "mmm", SHARED))
    stolen = world.rows[("zzz", "zzz-1")]["addresses"][place]
    listings = world.mesh_listings({("aaa", "aaa-1"): {SELF_IPS: stolen}})
    seat = ("mmm", "mmm-1")
    kept, _refused = world.decide(seat, world.plan(listings), {"peers": []})
    state = {"peers": world.peers(seat, kept)}
    said = {"zzz-1": encode(world.rows[("zzz", "zzz-1")])}
    for known in ({"peers": []}, state):
        kept, refused = world.decide(seat, world.plan(listings, said), known)
        assert [row.object for row in refused] == ["aaa/aaa-1"]
        assert stolen in {row["node"]: row["addresses"] for row in kept}["zzz-1"]
    settled = {"peers": world.peers(seat, kept)}
    kept, refused = world.decide(seat, world.plan(listings), settled)
    assert [row.object for row in refused] == ["aaa/aaa-1"]


@pytest.mark.parametrize("row", TABLE["keys_with_an_address"], ids=lambda row: row["id"])
def test_who_announces_the_address_too_is_not_taken_for_the_holder(row: t.Any) -> None:
    """A record without names is known by its ranges; an address that two announce is no evidence."""
    world = World("zzz", "aaa", "mmm", SHARED)
    victim = world.rows[("zzz", "zzz-1")]
    changes = _stolen(world, row)
    changes[("aaa", "aaa-1")][SELF_IPS] = victim["addresses"][0]
    topology = world.plan(world.mesh_listings(changes))
    seat = ("mmm", "mmm-1")
    before = world.state(seat)
    kept, refused = world.decide(seat, topology, _without_names(before))
    assert {row.object for row in refused} == {"aaa/aaa-1"}
    after = {peer["public_key"]: peer for peer in world.peers(seat, kept)}
    desired = next(peer for peer in before["peers"] if peer["node"] == "zzz-1")
    assert after[victim["public_key"]] == desired


SEATS = st.sampled_from([("hostile", "hostile-1"), ("hostile", "hostile-2")])


@settings(deadline=None, max_examples=120)
@given(data=st.data(), unread=st.booleans(), names=st.sampled_from(ORDERS), earlier=st.booleans())
def test_no_annotations_of_one_cluster_cost_another_a_peer(
    data: t.Any, unread: bool, names: t.Any, earlier: bool
) -> None:
    """Whatever one API server reports of its own nodes, declared or not, and whoever else cannot be read."""
    world = World(*names)
    texts = [str(value) for row in world.rows.values() for value in encode(row).values() if value]
    changes = st.dictionaries(
        st.sampled_from(KEYS), st.sampled_from([*texts, "", "junk", "0.0.0.0/0", "10.10.0.0/16"]), max_size=8
    )
    listings = world.mesh_listings(
        {(world.hostile, f"{world.hostile}-{number}"): data.draw(changes) for number in (1, 2)}
    )
    stranger = {"metadata": {"name": "aaaa", "annotations": data.draw(changes)}}
    listings[world.hostile]["nodes"].append(stranger)
    if unread:
        listings[world.victim] = {"error": {"reason": "unreachable", "message": "no answer"}}
    topology = world.plan(listings)
    for seat in world.seats:
        if seat[0] == world.hostile:
            continue
        before = world.state(seat)
        kept, refused = world.decide(seat, topology, _without_names(before) if earlier else before)
        assert all(row.object.startswith(world.hostile + "/") for row in refused)
        peers = world.peers(seat, kept)
        after = {peer["public_key"]: peer for peer in peers}
        for peer in before["peers"]:
            if peer["cluster"] == world.hostile:
                continue
            if unread and peer["cluster"] == world.victim:
                # such a peer is carried over as it was, and nothing that was kept is in its way
                assert peer["public_key"] not in after and not any(
                    set(peer["allowed_ips"]) & set(other["allowed_ips"]) for other in peers
                )
                continue
            assert after[peer["public_key"]] == peer


# --- Semaphore: a device for each remote cluster ------------------------------------------------------------------


def _semaphore(world: World, changes: t.Mapping[str, t.Any] | None = None, dead: t.Sequence[str] = ()) -> Data:
    listings: Data = {}
    for number, (cluster, name) in enumerate(world.seats):
        notes = {}
        for other in (world.victim, world.hostile, world.third):
            if other != cluster:
                notes[other + ".wireguard.semaphore.uw.io/pubKey"] = key(
                    50 + 10 * number + [world.victim, world.hostile, world.third].index(other)
                )
                notes[other + ".wireguard.semaphore.uw.io/endpoint"] = (
                    f"{world.rows[cluster, name]['addresses'][0]}:{51820}"
                )
        notes.update((changes or {}).get(name, {}))
        node = {
            "metadata": {"name": name, "annotations": notes},
            "spec": {"podCIDRs": world.rows[(cluster, name)]["additional_addresses"]},
            "status": {"addresses": [{"type": "InternalIP", "address": world.rows[(cluster, name)]["addresses"][0]}]},
        }
        listings.setdefault(cluster, {"nodes": []})["nodes"].append(node)
    for cluster in dead:
        listings[cluster] = {"error": {"reason": "unreachable", "message": "no answer"}}
    return listings


def _devices(world: World, listings: Data, host: str, reported: t.Any = None) -> list[NodeDevice]:
    rows = semaphore_topology.node_part(
        MeshPlan.from_json(semaphore_topology.plan_semaphore_mesh(world.fabric, listings, reported).to_json()), host
    )["devices"]
    return [parse_node_device(row, "demo") for row in rows]


def _nothing(device: str) -> dict[str, LivePeer]:
    return {}


@pytest.mark.parametrize("names", ORDERS, ids="-".join)
@pytest.mark.parametrize("row", TABLE["semaphore"], ids=lambda row: row["id"])
def test_a_third_cluster_keeps_the_node_although_another_announces_its_key(names: t.Any, row: t.Any) -> None:
    world = World(*names)
    local = world.third + "-1"
    before = _devices(world, _semaphore(world), local)
    before, nobody = node_contests.settle_peers(before, None, _nothing)
    assert nobody == []
    state = NodeState("demo", tuple(before))
    robbed_key = next(peer.public_key for device in before for peer in device.peers if peer.node == world.victim + "-1")
    evil = {world.hostile + "-1": {world.third + ".wireguard.semaphore.uw.io/pubKey": robbed_key}}
    dead = [world.victim] if row["victim_unread"] else []
    reported = {world.hostile + "-1": evil[world.hostile + "-1"]} if row["host_lies_too"] else None
    devices = _devices(world, _semaphore(world, evil, dead), local, reported)
    devices, refused = node_contests.settle_peers(
        devices,
        state if row["has_state"] else None,
        lambda name: {
            str(peer.public_key): LivePeer(allowed_ips=peer.allowed_ips)
            for device in before
            if device.name == name
            for peer in device.peers
        },
    )
    assert [(item.object, item.reason) for item in refused] == [(f"{world.hostile}/{world.hostile}-1", "claimed_twice")]
    if not dead:
        assert "delete /var/lib/semaphore-wireguard/wireguard.c" in refused[0].message
        assert f" on {world.hostile}-1 and run again" in refused[0].message
    after = {device.remote: {peer.node for peer in device.peers} for device in devices}
    assert after[world.hostile] == {world.hostile + "-2"}
    assert after[world.victim] == (set() if dead else {world.victim + "-1", world.victim + "-2"})


def test_peers_of_a_device_that_nobody_contests_are_as_they_were() -> None:
    world = World()
    devices = _devices(world, _semaphore(world, dead=[world.victim]), "third-1")
    desired = {device.remote: [peer.public_key for peer in device.peers] for device in devices}
    state = NodeState("demo", tuple(_devices(world, _semaphore(world), "third-1")))
    devices, refused = node_contests.settle_peers(devices, state, _nothing)
    assert (
        refused == [] and {device.remote: [peer.public_key for peer in device.peers] for device in devices} == desired
    )


# --- the rule itself ----------------------------------------------------------------------------------------------


def _claimant(cluster: str, node: str, *things: str, ranges: t.Sequence[str] = (), reported: bool = False) -> Claimant:
    return Claimant(
        cluster,
        node,
        [("key", thing) for thing in things],
        [parse_network(text) for text in ranges],
        (not reported, cluster, node),
    )


def test_a_range_inside_or_around_a_held_one_is_held() -> None:
    held = [Record("b", "old", [], [parse_network("10.4.1.0/24")])]
    old = _claimant("b", "old", "k1", ranges=["10.4.1.0/24"])
    for text in ("10.4.1.0/24", "10.4.0.0/16", "10.4.1.128/25"):
        found = settle([_claimant("b", "aaa", "k2", ranges=[text]), old], held)
        assert found.kept == {1} and found.lost[0].holder == "b/old" and not found.by_rank
    # two of its own ranges lie behind another's, which must be found all the same
    wide = _claimant("b", "aaa", "k2", ranges=["10.4.0.0/16"])
    more = [Record("b", "aaa", [], [parse_network("10.4.9.0/24")]), *held]
    assert settle([wide, old], more).kept == {1}


def test_without_any_record_the_report_decides_and_then_the_rank() -> None:
    one, two = _claimant("b", "x", "k"), _claimant("a", "y", "k")
    assert settle([one, two], []) == ({1}, {1}, {0: ("key", "k", "a/y")})
    reported = _claimant("b", "x", "k", reported=True)
    assert settle([reported, two], []) == ({0}, set(), {1: ("key", "k", "b/x")})


THINGS = st.lists(st.sampled_from("uvwxyz"), max_size=3, unique=True)
CLAIMANTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("nmo"), THINGS), max_size=6, unique_by=lambda row: row[:2]
)


@given(rows=CLAIMANTS, held=CLAIMANTS, unread=st.sets(st.sampled_from("ab")))
def test_everybody_is_decided_and_nothing_has_two_owners(rows: t.Any, held: t.Any, unread: t.Any) -> None:
    claimants = [_claimant(cluster, node, *things) for cluster, node, things in rows]
    records = [Record(cluster, node, [("key", thing) for thing in things], []) for cluster, node, things in held]
    found = settle(claimants, records, unread)
    assert (
        found.kept | set(found.lost) == set(range(len(claimants)))
        and not found.kept & set(found.lost)
        and found.by_rank <= found.kept
    )
    owned = [thing for index in found.kept for thing in claimants[index].things]
    assert len(owned) == len(set(owned))
    backwards = settle(claimants[::-1], records, unread)
    assert {claimants[index].label for index in found.kept} == {
        claimants[::-1][index].label for index in backwards.kept
    }


def towards(
    name: str, *peers: tuple[int, str, list[str]], known: bool = True, borrowed: t.Sequence[str] = ()
) -> NodeDevice:
    """A device towards a cluster, with peers as (number of the key, node, allowed IPs)."""
    rows = [{"public_key": key(number), "node": node, "allowed_ips": cidrs} for number, node, cidrs in peers]
    raw = {"name": name, "remote": name, "peers": rows, "peers_known": known, "borrowed": list(borrowed)}
    return parse_node_device(dict(raw, listen_port=51820, private_key_file="/k"), "demo")


def test_blocks_of_a_network_plugin_move_while_another_cluster_cannot_be_asked() -> None:
    before = NodeState(
        "demo",
        (
            towards("cal", (1, "n1", ["10.1.0.0/25"]), (2, "n2", ["10.1.1.0/26"])),
            towards("gone", (9, "g", ["10.9.0.0/24"])),
        ),
    )
    # a block of n1 is that of n2 now, joined to none of its own, and n1 keeps the other half of what was one range
    now = towards("cal", (1, "n1", ["10.1.0.0/26"]), (2, "n2", ["10.1.0.64/26", "10.1.1.0/26"]))
    (device, dummy), refused = node_contests.settle_peers([now, towards("gone", known=False)], before, lambda name: {})
    assert refused == [] and {peer.node: peer.allowed_ips for peer in device.peers} == {
        "n1": ("10.1.0.0/26",),
        "n2": ("10.1.0.64/26", "10.1.1.0/26"),
    }


@pytest.mark.parametrize("confirmed", [False, True])
def test_an_address_borrowed_from_the_block_of_another_node_contests_nothing(confirmed: bool) -> None:
    rows = (1, "n1", ["10.1.0.0/26"]), (2, "n2", ["10.1.0.5/32", "10.1.1.0/26"])
    now = towards("cal", *rows, borrowed=["10.1.0.5/32"])
    before = NodeState(
        "demo", (now if confirmed else towards("cal", rows[0]), towards("gone", (9, "g", ["10.9.0.0/24"])))
    )
    kept = NodeState.of_json(before.to_json())
    (device, dummy), refused = node_contests.settle_peers([now, towards("gone", known=False)], kept, lambda name: {})
    assert refused == [] and {peer.node for peer in device.peers} == {"n1", "n2"}
    stolen = now._replace(borrowed=())
    assert node_contests.settle_peers([stolen, towards("gone", known=False)], kept, lambda name: {})[1] or confirmed
