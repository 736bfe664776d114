# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rotation gives the nodes of a KubeSpan mesh, who may begin one, and what is shown of it."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.routing import (
    bypass_routes,
    desired_routes,
    is_our_route,
    plan_routes,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import (
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
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import rotation_checks as checks
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.generations import (
    Order,
    node_devices,
    unread_devices,
    with_rotation,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kubespan import (
    annotations_to_publish,
    node_kubespan,
    plan_kubespan_mesh,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import to_wire
from ansible_collections.multicluster.network.plugins.module_utils._status import probe_lines
from ansible_collections.multicluster.network.plugins.module_utils._values.generations import (
    bypass_of_mesh,
    is_bypass,
    is_bypass_key,
    other_end,
    same_tunnel,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.keys import encode_key
from test_kubespan_plan import ADDRESS, CLUSTER, KEYS, MESH, PODS, fabric, listings, record

NAME = bypass_of_mesh("demo")
STATE, KEY = ("kubespan.rotation.multicluster.network/" + what for what in ("state", "pubKey"))
OTHER = {host: encode_key(bytes([number]) * 32) for number, host in enumerate(("a1", "a2", "g1"), 70)}  # the next ones


def planned(
    phases: t.Mapping[str, str] | None = None, step: str = NO_STEP, hosts: t.Sequence[str] = (), **more: t.Any
) -> MeshPlan:
    """phases: {host: phase} of those with a record. more: ``retired``, {host: key}; ``unread``, a cluster; ``without``, hosts; ``registries``."""
    phases = phases or {}
    found = listings(**more.get("changes", {}))
    for rows in found.values():
        for row in rows["nodes"]:
            host = row["metadata"]["name"]
            if host in phases:
                retired = more.get("retired", {}).get(host, KEYS[host])
                row["metadata"]["annotations"].update({STATE: f"{phases[host]} 52820 {retired}", KEY: OTHER[host]})
    if more.get("unread"):
        found[more["unread"]] = {"error": {"reason": "unreachable", "message": "no answer"}}
    made = fabric()
    known = {host: row for host, row in made.nodes.items() if host not in more.get("without", ())}
    made = dataclasses.replace(made, nodes=known) if dataclasses.is_dataclass(made) else made._replace(nodes=known)
    registries = more.get("registries", ("annotations", "inventory"))
    mesh = with_rotation(
        plan_kubespan_mesh(made, found, MESH, None, registries), found, None, Order(step, tuple(hosts))
    )
    return MeshPlan.from_json(json.loads(json.dumps(to_wire(mesh.to_json()))))


def everywhere(phase: str) -> dict[str, str]:
    return dict.fromkeys(CLUSTER, phase)


def given(mesh: MeshPlan, host: str) -> dict[str, t.Any]:
    return node_kubespan(mesh, host) or {}


def test_a_mesh_with_keys_that_stay_has_no_bypass_device() -> None:
    mesh = planned()
    assert node_devices(mesh, "a1") == [] and "rotation" not in given(mesh, "a1")
    assert STATE in mesh.annotation_patterns and KEY in mesh.annotation_patterns


def test_the_first_step_gives_all_nodes_a_record_and_a_bypass_device() -> None:
    mesh = planned(step=PREPARE, hosts=["a1"])
    assert mesh.nodes["a1"].annotations[STATE] == f"prepared 52820 {KEYS['a1']}"
    assert mesh.nodes["g1"].annotations[STATE] == "prepared 52820 -"
    (device,) = node_devices(mesh, "a1")
    assert (device["name"], device["listen_port"], device["routes"]) == (NAME, 52820, [])
    assert {row["node"]: row["endpoint"] for row in device["peers"]} == {
        "aws/a2": "10.66.23.32:52820",
        "gcp/g1": "10.22.22.27:52820",
    }
    assert [row["public_key"] for row in device["peers"]] == [KEYS["a2"], KEYS["g1"]]
    assert device["copied_key"] == given(mesh, "a1")["next_key_for"] == KEYS["a1"]
    assert "next_key_for" not in given(mesh, "g1") and KEY not in mesh.nodes["g1"].annotations
    assert given(mesh, "a1")["rotation"]["routes"] == []


def test_the_port_is_beyond_that_of_the_device() -> None:
    mesh = planned(step=PREPARE, hosts=["a1"], changes={"a1": {"endpoints": ["[fd00::1]:4000", "10.66.23.31:51820"]}})
    assert mesh.nodes["a1"].rotation["kubespan"]["port"] == 5000
    assert (
        planned(step=PREPARE, hosts=["a1"], changes={"a1": {"endpoints": []}}).nodes["a1"].rotation["kubespan"]["port"]
        == 52820
    )


def test_packets_to_a_peer_go_aside_where_both_ends_are() -> None:
    part = given(planned({**everywhere(ASIDE), "g1": PREPARED}), "a1")["rotation"]
    own = {host: record(host)["kubespan_address"] + "/128" for host in CLUSTER}
    assert part["routes"] == sorted([PODS["a2"], "10.66.23.32/32", own["a2"]])
    assert part["addresses"] == sorted([own["a2"], own["g1"]]) and part["device"] == NAME
    assert given(planned(everywhere(BACK)), "a1")["rotation"]["routes"] == []


def test_a_key_is_renewed_only_while_nobody_sends_by_the_device() -> None:
    assert given(planned(everywhere(ASIDE), RENEW), "a1")["retired_key"] == KEYS["a1"]
    assert "retired_key" not in given(planned(everywhere(ASIDE)), "a1")
    assert "retired_key" not in given(planned({**everywhere(ASIDE), "g1": BACK}, RENEW), "a1")
    joined = everywhere(ASIDE)
    del joined["g1"]  # it is new in the mesh
    assert "retired_key" not in given(planned(joined, RENEW), "a1")


@pytest.mark.parametrize(
    "claimed",
    [{"kubespan_address": record("a2")["kubespan_address"]}, {"node_id": "id-a2"}, {"public_key": KEYS["a2"]}],
)
def test_no_key_is_renewed_while_nodes_decide_between_two_claims(claimed: dict[str, str]) -> None:
    """Nodes send to both by the device: to the one that they know, whatever another node claims."""
    mesh = planned(everywhere(ASIDE), RENEW, changes={"g1": claimed})
    assert PODS["a2"] not in given(mesh, "a1")["rotation"]["routes"]
    assert all("retired_key" not in given(mesh, host) for host in CLUSTER)


def test_a_next_key_that_another_node_publishes_first_replaces_nothing() -> None:
    mesh = planned(everywhere(ASIDE), RENEW, changes={"g1": {"public_key": OTHER["a1"]}}, retired={"g1": KEYS["g1"]})
    assert "retired_key" not in given(mesh, "a1") and given(mesh, "a2")["retired_key"] == KEYS["a2"]
    found = {row["node"]: row["public_key"] for row in given(mesh, "a2")["affiliates"]}
    assert (found["a1"], found["a2"]) == (KEYS["a1"], OTHER["a2"])


def test_a_key_that_a_node_claims_of_another_takes_no_peer_from_a_bypass_device() -> None:
    mesh = planned(everywhere(ASIDE), retired={"a2": KEYS["g1"]})
    (device,) = node_devices(mesh, "a1")
    assert device["peers"] == [] and device["keep_peers"]
    (own,) = node_devices(planned(everywhere(ASIDE)), "a1")
    assert len(own["peers"]) == 2 and "keep_peers" not in own


def test_the_step_that_renews_keys_brings_those_of_all_nodes_along() -> None:
    def found(mesh: MeshPlan) -> dict[str, t.Any]:
        return {row["node"]: row["public_key"] for row in given(mesh, "a1")["affiliates"]}

    assert found(planned(everywhere(ASIDE), RENEW)) == OTHER and found(planned(everywhere(ASIDE))) == dict(KEYS)
    assert found(planned({**everywhere(ASIDE), "g1": BACK}, RENEW)) == dict(KEYS)
    (device,) = node_devices(planned(everywhere(ASIDE), RENEW), "a1")
    assert [row["public_key"] for row in device["peers"]] == [KEYS["a2"], KEYS["g1"]]


def test_a_cluster_that_cannot_be_read_leaves_all_bypass_devices_as_they_are() -> None:
    mesh = planned(everywhere(ASIDE), unread="gcp")
    assert node_devices(mesh, "a1") == [] and unread_devices(mesh, "a1") == [NAME]
    assert given(mesh, "a1")["rotation_unread"] and "rotation" not in given(mesh, "a1")


def test_records_are_published_with_what_nodes_announce_and_go_with_the_last_step() -> None:
    mesh = planned(step=PREPARE, hosts=list(CLUSTER))
    said = {host: dict(mesh.nodes[host].published) for host in CLUSTER}
    keys = {host: {"kubespan/next": OTHER[host]} for host in CLUSTER}
    values = annotations_to_publish(mesh, said, None, keys)["aws"]["a1"]
    assert values == {**said["a1"], STATE: f"prepared 52820 {KEYS['a1']}", KEY: OTHER["a1"]}
    same = planned(everywhere(PREPARED))
    assert annotations_to_publish(same, said, None, keys) == {}
    done = planned(everywhere(BACK), "done")
    assert annotations_to_publish(done, said)["gcp"]["g1"] == said["g1"]


def test_a_node_without_the_key_of_its_record_publishes_no_next_one() -> None:
    """It makes none, and a value that never comes would be in the way of every step, also of a run that abandons the rotation."""
    mesh = planned(step=PREPARE, hosts=["a1"])
    said = dict(mesh.nodes["a1"].published, **{"networking.talos.dev/kubespan-public-key": OTHER["g1"]})
    values = annotations_to_publish(mesh, {"a1": said}, None, {"a1": {}})["aws"]["a1"]
    assert values == {**said, STATE: f"prepared 52820 {KEYS['a1']}"}


@pytest.mark.parametrize(
    "mesh, hosts, limited, reason",
    [
        (planned(unread="gcp"), ["a1"], None, "unreachable"),
        (planned(), ["nobody"], None, "unknown_host"),
        (planned(), ["a1"], {"a1"}, "outside_limit"),
        (planned(without=["g1"]), ["a1"], None, "in_place"),
        (planned(registries=("annotations", "inventory", "discovery")), ["a1"], None, "in_place"),
        (planned(registries=("inventory", "discovery")), ["a1"], None, "no_annotations"),
    ],
)
def test_what_would_lose_packets_is_refused(mesh: t.Any, hosts: list[str], limited: t.Any, reason: str) -> None:
    assert f"[{reason}]" in checks.refusal(mesh, hosts, limited, False)


def test_no_key_changes_while_nodes_decide_between_two_claims() -> None:
    mesh = planned(changes={"g1": {"public_key": KEYS["a1"]}})
    assert "[contested]" in checks.refusal(mesh, ["a1"], None, False)


def test_a_node_address_that_two_nodes_announce_is_neithers_on_a_bypass_device() -> None:
    """By its node id, which a node chooses, it would be that of whoever comes first: each node decides who has it, and reaches it by its device."""
    changes = {"a2": {"node_id": "0", "addresses": [ADDRESS["a2"], ADDRESS["a1"]]}}
    mesh = planned(everywhere(ASIDE), RENEW, changes=changes)
    (device,) = node_devices(mesh, "g1")
    assert all(ADDRESS["a1"] + "/32" not in row["allowed_ips"] for row in device["peers"])
    assert ADDRESS["a1"] + "/32" not in given(mesh, "g1")["rotation"]["routes"]
    assert PODS["a1"] in given(mesh, "g1")["rotation"]["routes"]
    assert all("retired_key" not in given(mesh, host) for host in CLUSTER)
    assert "aws/a1, aws/a2" in checks.refusal(planned(changes=changes), ["g1"], None, False)


def test_a_member_that_is_no_host_is_named_and_may_be_accepted() -> None:
    mesh = planned(everywhere(ASIDE), RENEW, without=["g1"])
    assert "gcp/g1" in checks.refusal(mesh, ["a1"], None, False)
    assert checks.refusal(mesh, ["a1"], None, True) == ""
    assert "gcp/g1" in checks.lines(mesh, ["a1"], FINISHED, True)[-1]
    part = given(mesh, "a1")
    assert part["retired_key"] == KEYS["a1"] and PODS["g1"] not in part["rotation"]["routes"]


def test_what_a_run_does_is_shown_for_each_node() -> None:
    assert checks.refusal(planned(), list(CLUSTER), None, False) == ""
    (first, *unused) = checks.lines(planned(), ["a1"], FINISHED, False)
    assert first == f"a1: new key of its KubeSpan device, meanwhile by {NAME}, with aws/a2, gcp/g1"
    assert checks.lines(planned(), ["a1"], "abandoned", False) == [
        "no rotation has begun, so there is nothing to abandon"
    ]


def test_a_step_waits_for_the_tunnels_that_it_needs() -> None:
    rows, quiet = checks.awaited(planned(everywhere(PREPARED), GO_ASIDE, list(CLUSTER)), "a1")
    assert (rows, quiet) == ([{"device": NAME, "peers": [KEYS["a2"], KEYS["g1"]]}], False)
    rows, quiet = checks.awaited(planned(everywhere(ASIDE), GO_BACK, list(CLUSTER)), "a1")
    assert (rows, quiet) == ([{"device": "kubespan", "peers": [KEYS["a2"], KEYS["g1"]]}], False)
    rows, quiet = checks.awaited(planned(everywhere(BACK), DONE, list(CLUSTER)), "a1")
    assert ([row["device"] for row in rows], quiet) == ([NAME], True)
    assert checks.awaited(planned(everywhere(ASIDE), RENEW, list(CLUSTER)), "a1") == ([], False)


def test_a_node_that_was_lost_or_refuses_its_device_ends_the_run() -> None:
    mesh = planned(everywhere(ASIDE))
    assert "[node_lost]" in checks.unfinished(mesh, ["a1", "g1"], {}, {})
    for thing in (NAME, f"{NAME} {OTHER['a2']}", "kubespan"):
        refused = {"a1": {"refused": [{"object": thing, "reason": "port_taken", "message": "it is taken"}]}}
        assert "[port_taken]" in checks.unfinished(mesh, list(CLUSTER), refused, {}), thing
    other = {"a1": {"refused": [{"object": "discovery/x", "reason": "replayed", "message": "old"}]}}
    assert checks.unfinished(mesh, list(CLUSTER), other, {}) == ""
    public = "networking.talos.dev/kubespan-public-key"
    kept = {"a1": {"kubespan": {"annotations": {public: KEYS["a1"]}}}}
    assert "[not_renewed]" in checks.unchanged(mesh, kept) and checks.unchanged(mesh, {}) == ""


def test_what_did_not_come_is_named_with_the_port_to_open() -> None:
    mesh = planned(everywhere(PREPARED))
    missing = [{"device": NAME, "public_key": KEYS["g1"], "endpoint": "10.22.22.27:52820", "listen_port": 52820}]
    assert f"no handshake by {NAME} with gcp/g1 (10.22.22.27:52820, from UDP port 52820)" in checks.missing_text(
        mesh, "a1", missing, []
    )


def test_verify_and_status_know_the_peers_of_bypass_devices_of_a_kubespan_mesh() -> None:
    names = probe_lines.peer_names(planned(everywhere(ASIDE)), "a1")
    assert names[NAME, KEYS["g1"]] == names["kubespan", KEYS["g1"]] == "gcp/g1"
    assert (NAME, KEYS["a1"]) not in names


def test_the_bypass_device_is_known_as_one_at_both_ends() -> None:
    assert is_bypass(NAME) and len(NAME) <= 15 and is_bypass_key(f"/var/lib/x/{NAME}.key")
    assert bypass_of_mesh("default") == "wg-rotate.span" and not is_bypass_key("/var/lib/x/kubespan.key")
    assert same_tunnel(NAME, "kubespan") and same_tunnel("mesh0", NAME) and not same_tunnel("eth0", "kubespan")
    assert other_end("kubespan", NAME) == NAME and other_end("wireguard.gcp", "wg-rotate.aws") == "wg-rotate.gcp"
    assert not same_tunnel("wg-rotate.aws", "wireguard.gcp")


def test_routes_into_the_bypass_device_are_owned_and_go_without_a_gap() -> None:
    more = bypass_routes(NAME, ["10.4.7.0/24", "fd00::1/128"], mtu=1400)
    steps = plan_routes(desired_routes(mtu=1400), mtu=1400, bypass=more)
    assert [(step["op"], step["route"]["dst"], step["route"]["dev"]) for step in steps] == [
        ("replace", "10.4.7.0/24", NAME),
        ("replace", "fd00::1/128", NAME),
    ]
    assert all(map(is_our_route, more))
    back = plan_routes([*desired_routes(mtu=1400), *more], mtu=1400)
    assert [(step["op"], step["route"]["dst"]) for step in back] == [
        ("delete", "10.4.7.0/24"),
        ("delete", "fd00::1/128"),
    ]
