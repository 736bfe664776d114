# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rotation of keys in the plan: records, ports, routes, who may begin, and what each step waits for."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.device_plan import plan_device
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.device_spec import parse_device
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.node_spec import (
    NodeState,
    parse_node,
    parse_node_device,
    state_to_keep,
    with_kept_ways,
    with_unread_devices,
)
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import EMPTY, Dump, LivePeer
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.handshakes import without_handshake
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import (
    ABANDONED,
    ASIDE,
    BACK,
    DONE,
    FINISHED,
    GO_ASIDE,
    GO_BACK,
    NO_STEP,
    PREPARE,
    PREPARED,
    RENEW,
    Record,
    keys_of,
    read_record,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import rotation_checks as checks
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.generations import (
    Order,
    node_devices,
    unread_devices,
    with_rotation,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.publishing import (
    annotations_to_publish,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.semaphore import plan_semaphore_mesh
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import to_wire
from ansible_collections.multicluster.network.plugins.module_utils._status import probe_lines, screen
from ansible_collections.multicluster.network.plugins.module_utils._values.generations import (
    HOST_ADDRESS,
    bypass_device,
    bypass_key_file,
    is_bypass_key,
    same_tunnel,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.keys import encode_key
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

OLD, NEXT_A, NEXT_B, OTHER = (encode_key(bytes([number]) * 32) for number in (7, 8, 9, 10))
KEYS = {"aws-1": encode_key(b"a" * 32), "gcp-1": encode_key(b"b" * 32), "gcp-2": encode_key(b"c" * 32)}
PLACES = {
    "aws-1": ("aws", "10.2.3.0/24", "10.66.23.31"),
    "gcp-1": ("gcp", "10.4.7.0/24", "10.22.22.27"),
    "gcp-2": ("gcp", "10.4.8.0/24", "10.22.22.28"),
}


def other(cluster: str) -> str:
    return "gcp" if cluster == "aws" else "aws"


def planned(
    records: dict[str, Record] | None = None,
    step: str = NO_STEP,
    hosts: t.Sequence[str] = (),
    without: t.Sequence[str] = (),
    unread: str = "",
    published: t.Mapping[str, str] | None = None,
    **variables: t.Any,
) -> MeshPlan:
    """A plan of three nodes, as it comes out of its JSON form. ``without``: nodes that announce themselves and are no hosts of the inventory.

    ``published``: keys that nodes publish in place of their own.
    """
    clusters: dict[str, dict[str, t.Any]] = {
        "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "wireguard_port": 51821},
        "gcp": {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "wireguard_port": 51821},
    }
    for cluster, values in variables.items():
        clusters[cluster].update(values)
    nodes = {host: {"multicluster_cluster": row[0]} for host, row in PLACES.items() if host not in without}
    fabric, findings = load_fabric({"name": "demo", "clusters": clusters, "nodes": nodes})
    assert not [row for row in findings if row.level == "error"]
    listings: dict[str, t.Any] = {"aws": {"nodes": []}, "gcp": {"nodes": []}}
    for host, (cluster, cidr, address) in PLACES.items():
        remote = other(cluster)
        annotations = {
            f"{remote}.wireguard.semaphore.uw.io/pubKey": (published or {}).get(host, KEYS[host]),
            f"{remote}.wireguard.semaphore.uw.io/endpoint": f"{address}:51821",
        }
        record = (records or {}).get(host)
        if record is not None:
            annotations[keys_of(remote)["state"]] = record.state
            if record.key:
                annotations[keys_of(remote)["key"]] = record.key
        listings[cluster]["nodes"].append(
            {
                "metadata": {"name": host, "annotations": annotations},
                "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
                "status": {"addresses": [{"type": "InternalIP", "address": address}]},
            }
        )
    if unread:
        listings[unread] = {"error": {"reason": "unreachable", "message": "no answer"}}
    mesh = with_rotation(plan_semaphore_mesh(fabric, listings), listings, {}, Order(step, tuple(hosts)))
    return MeshPlan.from_json(to_wire(mesh.to_json()))


def rotating(phase: str, **phases: str) -> dict[str, Record]:
    keys = {"aws-1": NEXT_A, "gcp-1": NEXT_B, "gcp-2": OTHER}
    return {host: Record(phases.get(host.replace("-", "_"), phase), 52821, KEYS[host], keys[host]) for host in PLACES}


def device(mesh: MeshPlan, host: str, name: str) -> dict[str, t.Any]:
    return next(row for row in node_devices(mesh, host) if row["name"] == name)


# --- names -----------------------------------------------------------------------------------------------------------


def test_a_bypass_device_has_a_name_of_the_same_length_and_a_key_file_alongside() -> None:
    assert bypass_device("wireguard.gcp12") == "wg-rotate.gcp12" and len("wg-rotate.gcp12") == 15
    path = bypass_key_file("/var/lib/semaphore-wireguard/wireguard.gcp.key")
    assert path == "/var/lib/semaphore-wireguard/wg-rotate.gcp.key" and is_bypass_key(path)
    assert not is_bypass_key("/var/lib/semaphore-wireguard/wireguard.gcp.key")


@pytest.mark.parametrize(
    "one, two, same",
    [
        ("wireguard.gcp", "wireguard.gcp", True),
        ("wg-rotate.gcp", "wireguard.gcp", True),
        ("wireguard.gcp", "wg-rotate.gcp", True),
        ("wg-rotate.aws", "wireguard.gcp", False),
        ("eth0", "wireguard.gcp", False),
        ("kubespan", "kubespan", True),
        (None, "wireguard.gcp", False),
    ],
)
def test_a_device_and_its_bypass_device_are_one_tunnel(one: str | None, two: str, same: bool) -> None:
    assert same_tunnel(one, two) == same


# --- records ---------------------------------------------------------------------------------------------------------


def test_a_record_is_read_as_it_was_written() -> None:
    generations = [Record(ASIDE, 52821, OLD, NEXT_A, preshared, former) for preshared in (0, 3) for former in (0, 2)]
    for record in (Record(PREPARED, 52821, OLD, NEXT_A), Record(BACK, 1, None, None), *generations):
        names = keys_of("gcp")
        found = {names["state"]: record.state, **({names["key"]: record.key} if record.key else {})}
        assert read_record("gcp", found) == record
    assert read_record("gcp", {}) is None


@pytest.mark.parametrize("text", ["", "aside", "aside 52821", f"gone 52821 {OLD}", "aside 0 -", "aside 52821 x", 7])
def test_what_is_no_record_is_refused_and_rotates_nothing(text: t.Any) -> None:
    with pytest.raises(ValueRefused):
        read_record("gcp", {keys_of("gcp")["state"]: text})


def test_a_broken_record_is_refused_by_name_and_the_mesh_goes_on() -> None:
    mesh = planned({"aws-1": Record("gone", 52821, None, NEXT_A)})
    assert [(row["object"], row["reason"]) for row in mesh.refused] == [("aws/aws-1", "bad_rotation")]
    assert [row["name"] for row in node_devices(mesh, "aws-1")] == ["wireguard.gcp"]
    assert keys_of("gcp")["state"] in mesh.nodes["aws-1"].stale


# --- the plan --------------------------------------------------------------------------------------------------------


def test_without_a_rotation_the_plan_has_nothing_of_it() -> None:
    mesh = planned()
    assert not mesh.rotation_step and not any(part.rotation for part in mesh.clusters.values())
    assert [row["name"] for row in node_devices(mesh, "aws-1")] == ["wireguard.gcp"]
    assert "either_way" not in node_devices(mesh, "aws-1")[0]


def test_prepare_gives_every_node_a_bypass_device_with_the_keys_that_are_known() -> None:
    mesh = planned(step=PREPARE, hosts=list(PLACES))
    bypass = device(mesh, "aws-1", "wg-rotate.gcp")
    assert (bypass["listen_port"], bypass["routes"], bypass["remote"]) == (52821, [], "gcp/next")
    assert [peer["endpoint"] for peer in bypass["peers"]] == ["10.22.22.27:52821", "10.22.22.28:52821"]
    assert [peer["public_key"] for peer in bypass["peers"]] == [KEYS["gcp-1"], KEYS["gcp-2"]]
    assert bypass["copied_key"] == KEYS["aws-1"]
    main = device(mesh, "aws-1", "wireguard.gcp")
    assert bypass["copied_from"] == main["private_key_file"] and main["next_key_for"] == KEYS["aws-1"]
    own = mesh.nodes["aws-1"].annotations
    assert own[keys_of("gcp")["state"]] == f"prepared 52821 {KEYS['aws-1']}"


def test_only_nodes_that_are_named_get_a_new_key_and_only_their_pairs_take_part() -> None:
    mesh = planned(step=PREPARE, hosts=["gcp-1"])
    assert mesh.nodes["gcp-1"].rotation["aws"]["retired"] == KEYS["gcp-1"]
    assert mesh.nodes["aws-1"].rotation["gcp"]["retired"] is None
    assert not mesh.nodes["gcp-2"].rotation
    assert [peer["node"] for peer in device(mesh, "aws-1", "wg-rotate.gcp")["peers"]] == ["gcp-1"]


def test_a_run_for_more_nodes_gives_them_keys_where_no_node_has_gone_further() -> None:
    """Its first lines name them: without new keys it would end a rotation of some nodes as one of all."""
    some = {"gcp-1": rotating(PREPARED)["gcp-1"], "aws-1": Record(PREPARED, 52821)}
    assert any(line.startswith("aws-1: new key") for line in checks.lines(planned(some), list(PLACES), FINISHED, False))
    mesh = planned(some, PREPARE, list(PLACES))
    assert {host: node.rotation[other(node.cluster)]["retired"] for host, node in mesh.nodes.items()} == KEYS
    assert device(mesh, "aws-1", "wireguard.gcp")["next_key_for"] == KEYS["aws-1"]
    assert planned(some, PREPARE, ["gcp-1"]).nodes["aws-1"].rotation["gcp"]["retired"] is None
    some["gcp-1"] = some["gcp-1"]._replace(phase=ASIDE)
    assert planned(some, PREPARE, list(PLACES)).nodes["aws-1"].rotation["gcp"]["retired"] is None


def test_a_node_sends_aside_only_where_both_ends_are() -> None:
    mesh = planned(rotating(ASIDE, gcp_2=PREPARED))
    assert device(mesh, "aws-1", "wg-rotate.gcp")["routes"] == ["10.4.7.0/24"]
    assert device(mesh, "aws-1", "wireguard.gcp")["routes"] == ["10.4.0.0/16"]
    assert device(mesh, "gcp-2", "wg-rotate.aws")["routes"] == []
    assert {row["node"] for row in device(mesh, "aws-1", "wg-rotate.gcp")["peers"]} == {"gcp-1", "gcp-2"}


def test_a_range_of_a_node_that_is_the_whole_cluster_has_one_route() -> None:
    mesh = planned(rotating(ASIDE), gcp={"pod_cidrs": ["10.4.7.0/24", "10.4.8.0/24"]})
    assert device(mesh, "aws-1", "wg-rotate.gcp")["routes"] == ["10.4.7.0/24", "10.4.8.0/24"]
    assert device(mesh, "aws-1", "wireguard.gcp")["routes"] == []


def test_both_devices_take_in_packets_while_answers_leave_by_the_other() -> None:
    for phase in (PREPARED, ASIDE, BACK):
        assert all(row["either_way"] for row in node_devices(planned(rotating(phase)), "aws-1"))


def test_a_key_is_renewed_only_while_nobody_sends_by_its_device() -> None:
    assert device(planned(rotating(ASIDE), RENEW), "aws-1", "wireguard.gcp")["retired_key"] == KEYS["aws-1"]
    assert "retired_key" not in device(planned(rotating(ASIDE)), "aws-1", "wireguard.gcp")
    assert "retired_key" not in device(planned(rotating(ASIDE, gcp_2=PREPARED), RENEW), "aws-1", "wireguard.gcp")
    joined = rotating(ASIDE)
    del joined["gcp-2"]  # a node that came meanwhile sends by the device
    assert "retired_key" not in device(planned(joined, RENEW), "aws-1", "wireguard.gcp")


def test_a_key_stays_while_a_peer_sends_by_the_device_to_its_node() -> None:
    """A record with the key of another node takes both out of the rotation at the other end, which sends by its device then."""
    records = rotating(ASIDE)
    records["gcp-2"] = records["gcp-2"]._replace(retired=KEYS["gcp-1"])
    mesh = planned(records, RENEW)
    assert device(mesh, "aws-1", "wg-rotate.gcp")["routes"] == []
    for host, name in (("aws-1", "wireguard.gcp"), ("gcp-1", "wireguard.aws"), ("gcp-2", "wireguard.aws")):
        assert "retired_key" not in device(mesh, host, name), host
    assert keys_of_peers(mesh) == [KEYS["gcp-1"], KEYS["gcp-2"]]


def test_no_key_is_renewed_that_has_to_do_with_a_contested_claim() -> None:
    """Which of them keeps it each node decides, and both are reached by the device."""
    mesh = planned(rotating(ASIDE), RENEW, published={"gcp-2": KEYS["gcp-1"]})
    assert [row["node"] for row in device(mesh, "aws-1", "wireguard.gcp")["contested"]] == ["gcp-1", "gcp-2"]
    for host, name in (("aws-1", "wireguard.gcp"), ("gcp-1", "wireguard.aws"), ("gcp-2", "wireguard.aws")):
        assert "retired_key" not in device(mesh, host, name), host


@pytest.mark.parametrize("preshared", [0, 1])
def test_a_next_key_that_another_node_publishes_first_replaces_nothing(preshared: int) -> None:
    """It would be that node's by then, and the one that made it would be refused by its peers."""
    records = {host: record._replace(preshared=preshared) for host, record in rotating(ASIDE).items()}
    mesh = planned(records, RENEW, published={"gcp-2": NEXT_B})
    assert "retired_key" not in device(mesh, "gcp-1", "wireguard.aws")
    assert keys_of_peers(mesh)[0] == KEYS["gcp-1"]
    assert device(mesh, "aws-1", "wireguard.gcp")["retired_key"] == KEYS["aws-1"]


def test_bypass_devices_that_go_keep_nobody_alive() -> None:
    peers = device(planned(rotating(BACK)), "aws-1", "wg-rotate.gcp")["peers"]
    assert [peer["persistent_keepalive"] for peer in peers] == [0, 0]


def test_two_nodes_with_one_key_have_neither() -> None:
    records = rotating(ASIDE)
    records["gcp-2"] = records["gcp-2"]._replace(retired=KEYS["gcp-1"])
    mesh = planned(records)
    bypass = device(mesh, "aws-1", "wg-rotate.gcp")
    assert bypass["peers"] == bypass["routes"] == []
    # what the device has already goes on: a claim of one node takes no packets from another
    assert bypass["keep_peers"] and not parse_node_device(bypass, "demo").wireguard.purge_peers
    assert "keep_peers" not in device(planned(rotating(ASIDE)), "aws-1", "wg-rotate.gcp")


@pytest.mark.parametrize("records", [rotating(ASIDE), {"gcp-1": rotating(ASIDE)["gcp-1"]}])
def test_a_retired_key_that_is_one_of_the_other_end_is_no_peers(records: dict[str, Record]) -> None:
    """No device has a peer with its own key; a refusal of it at the node would keep a run from abandoning the rotation, too."""
    records = {**records, "gcp-1": records["gcp-1"]._replace(retired=KEYS["aws-1"])}
    if "aws-1" in records:
        changed = planned(records, published={"aws-1": NEXT_A})  # the bypass device has the former key
        assert "gcp-1" not in {row["node"] for row in device(changed, "aws-1", "wg-rotate.gcp")["peers"]}
    mesh = planned({"aws-1": Record(ASIDE, 52821), **records})
    assert "gcp-1" not in {row["node"] for row in device(mesh, "aws-1", "wg-rotate.gcp")["peers"]}


def test_done_takes_the_records_away() -> None:
    mesh = planned(rotating(BACK), DONE)
    assert [row["name"] for row in node_devices(mesh, "aws-1")] == ["wireguard.gcp"]
    assert mesh.nodes["aws-1"].stale == sorted(keys_of("gcp").values())


@pytest.mark.parametrize("unread", ["aws", "gcp"])
def test_a_cluster_that_does_not_answer_leaves_the_bypass_devices_as_they_are(unread: str) -> None:
    mesh = planned(rotating(ASIDE), unread=unread)
    assert unread_devices(mesh, "aws-1") == ["wg-rotate.gcp"]
    assert [row["name"] for row in node_devices(mesh, "aws-1")] == ["wireguard.gcp"]


def test_a_port_that_a_device_has_is_no_bypass_devices() -> None:
    mesh = planned(step=PREPARE, hosts=list(PLACES), gcp={"wireguard_port": 64999})
    assert device(mesh, "aws-1", "wg-rotate.gcp")["listen_port"] not in (64999, 51821)


# --- the node --------------------------------------------------------------------------------------------------------


def actual(key: str | None, addresses: t.Sequence[str] = ()) -> dict[str, t.Any]:
    link = {"kind": "wireguard", "implementation": "kernel", "mtu": 1420, "txqueuelen": 1000, "up": True}
    link.update(alias="multicluster.network/demo", addresses=list(addresses))
    return {
        "link": link,
        "wireguard": Dump(51821, 0, key, {}),
        "key": {"state": "key", "public_key": key, "mode": "0600", "message": None},
        "resolved": {},
        "preshared": {},
        "now": 0.0,
    }


def wish(**more: t.Any) -> t.Any:
    given = {
        "name": "wireguard.gcp",
        "alias": "multicluster.network/demo",
        "private_key_file": "/k",
        "generate_key": True,
    }
    return parse_device({**given, "listen_port": 51821, "flush_ipv4": True, **more})


def test_a_retired_key_is_replaced_once() -> None:
    plan = plan_device(wish(retired_key=OLD), actual(OLD))
    assert plan.work["renew_key"] and plan.work["configure"] == {"private_key": True}
    assert [(row.kind, row.action) for row in plan.changes] == [("key", "update"), ("link", "update")]
    again = plan_device(wish(retired_key=OLD), actual(NEXT_A))
    assert not again.changed and "renew_key" not in again.work


def test_the_address_of_both_ways_is_added_and_never_removed() -> None:
    """Its routes would go along with the last address of a device."""
    assert plan_device(wish(either_way=True), actual(OLD)).work["add_addresses"] == [HOST_ADDRESS]
    assert not plan_device(wish(), actual(OLD, [HOST_ADDRESS])).changed
    assert plan_device(wish(), actual(OLD, ["10.0.0.1/32"])).work["remove_addresses"] == ["10.0.0.1/32"]


def test_a_node_that_boots_has_the_address_of_both_ways_again() -> None:
    """A record without it would make a node that has booted differ from one that has not."""
    main = {
        "name": "wireguard.gcp",
        "remote": "gcp",
        "listen_port": 51821,
        "private_key_file": "/keys/wireguard.gcp.key",
    }
    rotating = {"fabric": "demo", "devices": [dict(main, either_way=True), bypass_row()]}
    before = NodeState.of_json(state_to_keep(parse_node(rotating), None).to_json())
    after = with_kept_ways(parse_node({"fabric": "demo", "devices": [main]}), before)
    kept = NodeState.of_json(state_to_keep(after, before).to_json())
    assert [(row.name, row.wireguard.either_way) for row in kept.devices] == [("wireguard.gcp", True)]
    assert with_kept_ways(parse_node({"fabric": "demo", "devices": [main]}), kept) == after
    assert with_kept_ways(parse_node({"fabric": "demo", "devices": [main]}), None).devices == (
        parse_node_device(main, "demo"),
    )


def bypass_row(**more: t.Any) -> dict[str, t.Any]:
    given = {"name": "wg-rotate.gcp", "remote": "gcp/next", "listen_port": 52821, "node": "aws-1"}
    return {
        **given,
        "private_key_file": "/keys/wg-rotate.gcp.key",
        "routes": ["10.4.7.0/24"],
        "either_way": True,
        **more,
    }


def test_a_device_of_which_the_plan_knows_nothing_stays_as_confirmed() -> None:
    state = NodeState("demo", (parse_node_device(bypass_row(), "demo"),))
    main = {
        "name": "wireguard.gcp",
        "remote": "gcp",
        "listen_port": 51821,
        "private_key_file": "/keys/wireguard.gcp.key",
    }
    main["routes"] = ["10.4.7.0/24", "10.4.8.0/24"]
    spec = parse_node({"fabric": "demo", "devices": [main], "unread_devices": ["wg-rotate.gcp"]})
    found = with_unread_devices(spec, NodeState.of_json(state.to_json()))
    assert [(row.name, row.routes) for row in found.devices] == [
        ("wireguard.gcp", ("10.4.8.0/24",)),
        ("wg-rotate.gcp", ("10.4.7.0/24",)),
    ]
    assert found.devices[1].wireguard.either_way
    assert with_unread_devices(spec, None) == spec
    rotating = {"fabric": "demo", "devices": [dict(main, next_key_for=OLD), bypass_row()]}
    before = NodeState.of_json(state_to_keep(parse_node(rotating), None).to_json())
    assert with_unread_devices(spec, before).devices[0].wireguard.next_key_for == OLD


def test_a_bypass_key_is_forgotten_with_its_device() -> None:
    previous = NodeState(
        "demo", (parse_node_device(bypass_row(), "demo"),), ("/keys/old.key", "/keys/wg-rotate.gcp.key")
    )
    spec = parse_node({"fabric": "demo", "devices": []})
    assert state_to_keep(spec, previous).key_files == ("/keys/old.key",)


def test_a_handshake_counts_for_as_long_as_its_session() -> None:
    tunnel = {"device": "wg-rotate.gcp", "peers": [NEXT_A, NEXT_B, OTHER]}
    peers = {
        NEXT_A: LivePeer("192.0.2.1:1", last_handshake=900.0),
        NEXT_B: LivePeer("192.0.2.2:1", last_handshake=700.0),
    }
    rows = without_handshake(tunnel, Dump(52821, 0, OLD, peers), 1000.0)
    assert [(row["public_key"], row["endpoint"]) for row in rows] == [(NEXT_B, "192.0.2.2:1"), (OTHER, None)]
    assert len(without_handshake(tunnel, EMPTY, 1000.0)) == 3
    # a clock that was set back makes every earlier handshake one of the future
    assert len(without_handshake(tunnel, Dump(52821, 0, OLD, peers), 100.0)) == 3


# --- who may begin ---------------------------------------------------------------------------------------------------


def test_nothing_is_in_the_way_of_a_fabric_that_is_all_managed() -> None:
    assert checks.refusal(planned(), list(PLACES), None, False) == ""
    (first, *unused) = checks.lines(planned(), ["aws-1"], FINISHED, False)
    assert first == "aws-1: new key of wireguard.gcp, meanwhile by wg-rotate.gcp, with gcp-1, gcp-2"


@pytest.mark.parametrize(
    "mesh, hosts, limited, reason",
    [
        (planned(unread="gcp"), ["aws-1"], None, "unreachable"),
        (planned(), ["nobody"], None, "unknown_host"),
        (planned(), ["aws-1"], {"aws-1"}, "outside_limit"),
        (planned(without=["gcp-2"]), ["aws-1"], None, "in_place"),
        (MeshPlan(mode="kubespan"), ["aws-1"], None, "no_annotations"),
    ],
)
def test_what_would_lose_packets_is_refused(mesh: t.Any, hosts: list[str], limited: t.Any, reason: str) -> None:
    assert f"[{reason}]" in checks.refusal(mesh, hosts, limited, False)


def test_a_neighbour_of_an_upstream_program_is_named_and_may_be_accepted() -> None:
    mesh = planned(without=["gcp-2"])
    assert checks.unmanaged(mesh, ["aws-1"]) == ["gcp/gcp-2"]
    assert checks.refusal(mesh, ["aws-1"], None, True) == ""
    assert "gcp/gcp-2" in checks.lines(mesh, ["aws-1"], FINISHED, True)[-1]
    records = {host: record for host, record in rotating(ASIDE).items() if host != "gcp-2"}
    aside = planned(records, RENEW, without=["gcp-2"])
    main = device(aside, "aws-1", "wireguard.gcp")
    assert main["retired_key"] == KEYS["aws-1"]  # the pair with gcp-2 pays for it
    assert device(aside, "aws-1", "wg-rotate.gcp")["routes"] == ["10.4.7.0/24"]


def test_a_step_waits_for_the_tunnels_that_it_needs() -> None:
    everyone = list(PLACES)
    rows, quiet = checks.awaited(planned(rotating(PREPARED), GO_ASIDE, everyone), "aws-1")
    assert (rows, quiet) == ([{"device": "wg-rotate.gcp", "peers": [KEYS["gcp-1"], KEYS["gcp-2"]]}], False)
    rows, quiet = checks.awaited(planned(rotating(ASIDE), GO_BACK, everyone), "aws-1")
    assert (rows, quiet) == ([{"device": "wireguard.gcp", "peers": [KEYS["gcp-1"], KEYS["gcp-2"]]}], False)
    rows, quiet = checks.awaited(planned(rotating(BACK), DONE, everyone), "aws-1")
    assert (rows, quiet) == ([{"device": "wg-rotate.gcp", "peers": []}], True)
    for step, phase in ((PREPARE, None), (RENEW, ASIDE), (NO_STEP, PREPARED), (NO_STEP, BACK)):
        assert checks.awaited(planned(rotating(phase) if phase else None, step, everyone), "aws-1") == ([], False)
    assert checks.awaited(planned(step=GO_ASIDE, hosts=everyone), "aws-1") == ([], False)


def test_a_node_that_was_lost_ends_the_run_by_its_name() -> None:
    mesh = planned(rotating(ASIDE))
    assert checks.unfinished(mesh, list(PLACES), {}, {}) == ""
    text = checks.unfinished(mesh, ["aws-1", "gcp-1"], {}, {})
    assert text.startswith("gcp-2 did not do the last step") and "[node_lost]" in text
    refused = {"aws-1": {"refused": [{"object": "wg-rotate.gcp", "reason": "port_taken", "message": "it is taken"}]}}
    assert checks.unfinished(mesh, list(PLACES), refused, {}) == "aws-1: wg-rotate.gcp: it is taken [port_taken]"
    differs = {"aws-1": {"refused": [{"object": "wg-rotate.gcp", "reason": "key_differs", "message": "it differs"}]}}
    assert "[key_differs]" in checks.unfinished(mesh, list(PLACES), differs, {})
    assert checks.unfinished(mesh, list(PLACES), differs, {}, ABANDONED) == ""
    failed = {"failures": [{"cluster": "gcp"}]}
    assert "[unreachable]" in checks.unfinished(mesh, list(PLACES), {}, failed)
    kept = {"aws-1": {"public_keys": {"gcp": KEYS["aws-1"]}}}
    assert "[not_renewed]" in checks.unchanged(mesh, kept) and checks.unchanged(mesh, {}) == ""


def test_what_did_not_come_is_named_with_the_port_to_open() -> None:
    mesh = planned(rotating(PREPARED))
    missing = [
        {"device": "wg-rotate.gcp", "public_key": KEYS["gcp-2"], "endpoint": "10.22.22.28:52821", "listen_port": 52821}
    ]
    text = checks.missing_text(mesh, "aws-1", missing, [])
    assert "no handshake by wg-rotate.gcp with gcp/gcp-2 (10.22.22.28:52821, from UDP port 52821)" in text
    assert "[still_used]" in checks.missing_text(mesh, "aws-1", [], ["wg-rotate.gcp"])


def test_verify_and_status_know_the_peers_of_bypass_devices() -> None:
    names = probe_lines.peer_names(planned(rotating(ASIDE)), "aws-1")
    assert names["wg-rotate.gcp", KEYS["gcp-1"]] == names["wireguard.gcp", KEYS["gcp-1"]] == "gcp/gcp-1"
    rows = [{"host": host, "rotation": {"gcp": ASIDE}} for host in ("a", "b")]
    assert screen._rotations({"nodes": rows}) == ["keys are being rotated (2 nodes aside); rotate_keys ends it"]
    assert screen._rotations({"nodes": [{"host": "a"}]}) == []


# --- the next keys ---------------------------------------------------------------------------------------------------


def keys_of_peers(mesh: MeshPlan, host: str = "aws-1", name: str = "wireguard.gcp") -> list[t.Any]:
    return [row["public_key"] for row in device(mesh, host, name)["peers"]]


def test_the_step_that_renews_keys_brings_those_of_the_peers_along() -> None:
    everyone = list(PLACES)
    mesh = planned(rotating(ASIDE), RENEW, everyone)
    assert keys_of_peers(mesh) == [NEXT_B, OTHER] and keys_of_peers(mesh, "gcp-2", "wireguard.aws") == [NEXT_A]
    assert keys_of_peers(mesh, name="wg-rotate.gcp") == [KEYS["gcp-1"], KEYS["gcp-2"]]
    assert keys_of_peers(planned(rotating(ASIDE), NO_STEP, everyone)) == [KEYS["gcp-1"], KEYS["gcp-2"]]
    some = rotating(ASIDE)
    some["gcp-2"] = some["gcp-2"]._replace(retired=None, key=None)  # it keeps its key
    assert keys_of_peers(planned(some, RENEW, ["aws-1", "gcp-1"])) == [NEXT_B, KEYS["gcp-2"]]


def test_a_peer_keeps_a_key_that_may_not_change_yet() -> None:
    joined = rotating(ASIDE)
    del joined["aws-1"]  # it sends by the devices of both
    assert keys_of_peers(planned(joined, RENEW)) == [KEYS["gcp-1"], KEYS["gcp-2"]]
    missing = rotating(ASIDE)
    missing["gcp-1"] = missing["gcp-1"]._replace(key=None)
    assert keys_of_peers(planned(missing, RENEW)) == [KEYS["gcp-1"], OTHER]


@pytest.mark.parametrize("claimed", [encode_key(bytes(32)), OTHER, KEYS["gcp-2"], KEYS["gcp-1"]])
def test_a_next_key_that_is_weak_or_of_another_node_is_no_peers_key(claimed: str) -> None:
    """A record is what its Node claims: its key takes nothing from another node."""
    records = rotating(ASIDE)
    records["gcp-1"] = records["gcp-1"]._replace(key=claimed)
    found = keys_of_peers(planned(records, RENEW))
    assert found[0] == KEYS["gcp-1"] and found[1] in (OTHER, KEYS["gcp-2"])


def test_a_next_key_is_made_alongside_once_and_replaces_the_one_that_it_is_for() -> None:
    following = {"state": "absent", "public_key": None, "mode": None, "message": None}
    plan = plan_device(wish(next_key_for=OLD), {**actual(OLD), "next_key": following})
    assert plan.work["make_next_key"] and plan.key_files("/k") == ["/k.next"]
    assert [(row.kind, row.id, row.action) for row in plan.changes] == [("key", "/k.next", "create")]
    there = {"state": "key", "public_key": NEXT_A, "mode": "0600", "message": None}
    assert not plan_device(wish(next_key_for=OLD), {**actual(OLD), "next_key": there}).changed
    assert not plan_device(wish(next_key_for=OLD), {**actual(NEXT_B), "next_key": following}).changed
    renewed = plan_device(wish(next_key_for=OLD, retired_key=OLD), {**actual(OLD), "next_key": there})
    assert renewed.work["renew_key"] and renewed.device and renewed.device["public_key"] == NEXT_A
    assert renewed.key_files("/k") == ["/k", "/k.next"]
    broken = {"state": "unusable", "public_key": None, "mode": "0600", "message": "it is no key"}
    replaced = plan_device(wish(next_key_for=OLD), {**actual(OLD), "next_key": broken})
    assert replaced.work["make_next_key"] and not replaced.refused


def of_source(key: str | None) -> dict[str, t.Any]:
    if key == "unusable":
        return {"state": key, "public_key": None, "mode": "0600", "message": "it is no key"}
    return {"state": "key" if key else "absent", "public_key": key, "mode": "0600", "message": None}


@pytest.mark.parametrize(
    "own, source, expected, work, refused",
    [
        (None, OLD, OLD, "copy_key", ""),
        (OLD, NEXT_A, OLD, "", ""),  # the device has its next key by now
        (NEXT_B, OLD, OLD, "copy_key", ""),
        (None, None, None, "copy_key", ""),  # the device is made in the same run
        (OLD, NEXT_A, None, "copy_key", ""),
        (None, NEXT_A, OLD, "", "key_differs"),
        (None, None, OLD, "", "key_differs"),
        (None, "unusable", None, "", "key_differs"),
    ],
)
def test_a_bypass_device_has_a_copy_of_the_key_that_its_node_publishes(
    own: str | None, source: str | None, expected: str | None, work: str, refused: str
) -> None:
    live = {**actual(own), "key": of_source(own), "copied": of_source(source)}
    plan = plan_device(wish(name="wg-rotate.gcp", copied_from="/m", copied_key=expected), live)
    assert [name for name in ("copy_key", "make_key") if plan.work.get(name)] == ([work] if work else [])
    assert [row.reason for row in plan.refused] == ([refused] if refused else [])


@pytest.mark.parametrize("phase", [PREPARED, ASIDE])
def test_a_node_without_the_key_of_its_record_publishes_no_next_one(phase: str) -> None:
    """It makes none, and a value that never comes would be in the way of every step, also of a run that abandons the rotation."""
    mesh = planned({**rotating(phase), "aws-1": Record(phase, 52821, KEYS["aws-1"], None)})
    values = annotations_to_publish(mesh, {"aws-1": {"gcp": OTHER}})["aws"]["aws-1"]
    assert all(isinstance(value, str) for value in values.values()) and keys_of("gcp")["state"] in values
    made = annotations_to_publish(mesh, {"aws-1": {"gcp": KEYS["aws-1"], "gcp/next": NEXT_A}})["aws"]["aws-1"]
    assert made[keys_of("gcp")["key"]] == NEXT_A


def test_a_bypass_device_that_has_its_key_without_a_file_carries_packets_as_before() -> None:
    """The file is lost, and the device has its next key by now: taking the routes into the bypass device away would cut the pairs."""
    live = {**actual(OLD), "key": of_source(None), "copied": of_source(NEXT_A)}
    plan = plan_device(wish(name="wg-rotate.gcp", copied_from="/m", copied_key=OLD), live)
    assert not plan.changed and not plan.refused and "before this node boots" in plan.warnings[0]


def test_a_bypass_device_that_is_about_to_go_is_not_made_again() -> None:
    assert device(planned(rotating(BACK)), "aws-1", "wg-rotate.gcp")["kept_only"]
    assert "kept_only" not in device(planned(rotating(ASIDE)), "aws-1", "wg-rotate.gcp")
    assert "next_key_for" not in device(planned(rotating(BACK)), "aws-1", "wireguard.gcp")
    spec = parse_node({"fabric": "demo", "devices": [bypass_row(kept_only=True)]})
    assert spec.devices[0].kept_only and not state_to_keep(spec, None).devices[0].to_json().get("kept_only")
