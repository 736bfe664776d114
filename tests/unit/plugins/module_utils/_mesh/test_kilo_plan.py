# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a whole cluster mesh: hostile nodes, live holders, shared hubs, learnt endpoints, what Kilo makes of it."""

from __future__ import annotations

import base64
import ipaddress
import json
import pathlib
import time
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.peers import peer_labels
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.plan import plan_clustermesh
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.report import report
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import DELETE
from kilo_fabric import (
    MESH,
    MESHES,
    NUMBERS,
    SETTINGS,
    G,
    empty,
    entry,
    gathered,
    key_of,
    live,
    node,
    nodes,
    planned,
    reasons,
)

ROWS = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "kilo_claims.json").read_text()
)["rows"]


def spoil(row: t.Mapping[str, t.Any], found: t.Any) -> None:
    one = next(item for item in found[row["cluster"]] if item["name"] == row["node"])
    for key, value in (row.get("annotations") or {}).items():
        if isinstance(value, str) and value.startswith("KEY:"):
            value = key_of(value[4:])
        elif isinstance(value, str) and value.startswith("LOOSE:"):
            good = key_of(value[6:])
            alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
            value = good[:42] + alphabet[alphabet.index(good[42]) + 1] + "="
        one["annotations"][G + key] = value
    if "pod" in row:
        one["podCIDRs"] = [row["pod"]]
    if "internal" in row:
        one["addresses"][0]["address"] = row["internal"]
    if "addresses" in row:
        one["addresses"] = row["addresses"]


@pytest.mark.parametrize("running", [False, True], ids=["cold", "running"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["what"])
def test_hostile_nodes(row: t.Mapping[str, t.Any], running: bool) -> None:
    before = planned(nodes(3))
    found = nodes(3)
    spoil(row, found)
    options: dict[str, t.Any] = {"node_cidrs": {"us": ["192.168.0.0/16"]}}
    if row.get("lax"):
        options.update(strict_keys=False, strict_endpoints=False)
    plan = planned(found, live(before) if running else None, **options)
    label = f"{row['cluster']}/{row['node']}"
    assert reasons(plan) == {(label, row["word"])}
    peer = f"m--{row['cluster']}--{row['node']}"
    if running:
        touched = {write.name for writes in plan.writes.values() for write in writes}
        anchors_moved = "m--us--us-2" if row["node"] == "us-1" else "m--us--us-1"
        assert touched <= {peer, anchors_moved}
    else:
        made = {write.name for writes in plan.writes.values() for write in writes}
        assert len(made) == (9 if row.get("stays") else 8) and (peer in made) == bool(row.get("stays"))
    if "internal" in row:
        routes = [r for w in plan.writes["eu"] if w.name == peer for r in w.manifest["spec"]["allowedIPs"]]
        assert row["internal"] + "/32" not in routes


def test_lenient_keys_and_endpoints_only_warn() -> None:
    found = nodes()
    found["us"][0]["annotations"].update({G + "key": "opaque", G + "force-endpoint": "256.1.1.1:5"})
    plan = planned(found, strict_keys=False, strict_endpoints=False)
    assert not plan.plan.refused and len(plan.plan.changes) == 12
    assert any("[key_malformed]" in text for text in plan.plan.warnings)
    assert any("[bad_endpoint]" in text for text in plan.plan.warnings)


def test_unchanged_and_one_changed() -> None:
    peers = live(planned(nodes()))
    assert planned(nodes(), peers).plan.changes == []
    for listed in peers.values():
        for peer in listed:
            peer["spec"]["allowedIPs"].reverse()
            peer["spec"]["presharedKey"] = "somebody's"
    assert planned(nodes(), peers).plan.changes == []
    found = nodes()
    found["eu"][1]["annotations"][G + "key"] = key_of("new")
    plan = planned(found, peers)
    assert [(change.action, change.id) for change in plan.plan.changes] == [
        ("update", "ap/m--eu--eu-2"),
        ("update", "us/m--eu--eu-2"),
    ]
    assert "somebody's" not in json.dumps(plan.plan.diff())


def test_nothing_goes_on_an_incomplete_source() -> None:
    peers = live(planned(nodes()))
    found = nodes()
    del found["eu"]
    plan = plan_clustermesh(MESHES, gathered(found, peers, {"eu": "timed_out"}), SETTINGS)
    assert plan.plan.changes == [] and plan.outcomes["m"].unreachable == {"eu": "timed_out"}
    plan = planned(dict(nodes(), eu=[]), peers)
    assert reasons(plan) == {("ap/eu", "delete_budget"), ("us/eu", "delete_budget")} and not plan.plan.changes
    plan = planned(dict(nodes(), eu=[]), peers, confirm_empty={"eu"})
    assert len(plan.plan.of(DELETE)) == 4 and plan.bootstrapping


def test_a_source_of_which_all_nodes_are_refused_is_not_to_be_confirmed() -> None:
    peers = live(planned(nodes()))
    found = nodes()
    for item in found["eu"]:
        item["podCIDRs"] = ["172.30.0.0/24"]
    plan = planned(found, peers)
    said = [refusal.message for refusal in plan.plan.refused if refusal.reason == "delete_budget"]
    assert len(said) == 2 and not plan.plan.changes
    advice = "2 nodes were refused, the first is eu/eu-1 [NodePodCIDROutOfRange]. Correct the grant of cluster eu"
    assert all(advice in text and "confirm_empty" not in text for text in said)


def test_agents_that_restart_keep_peer_key_and_anchor() -> None:
    peers = live(planned(nodes()))
    found = nodes()
    found["eu"][0]["annotations"] = {}
    found["us"][1]["annotations"][G + "key"] = key_of("eu-1")
    plan = planned(found, peers, max_deletes=-1)
    assert reasons(plan) == {("eu/eu-1", "NodeNoWireguardIP"), ("us/us-2", "claimed_twice")}
    assert {(write.action, write.name) for writes in plan.writes.values() for write in writes} == {
        ("delete", "m--us--us-2")
    }
    assert {kept.name for kept in plan.kept} == {"m--eu--eu-1"} and plan.anchors["m"]["eu"] == "eu-1"
    gone = planned(found, peers, max_deletes=-1, keep_transient=False)
    assert ("delete", "m--eu--eu-1") in {(write.action, write.name) for write in gone.writes["us"]}
    assert gone.anchors["m"]["eu"] == "eu-2"


def test_permanent_faults_lose_the_peer_within_the_budget() -> None:
    peers = live(planned(nodes()))
    found = nodes()
    found["eu"][0]["annotations"][G + "wireguard-ip"] = "100.90.0.1/32"
    plan = planned(found, peers)
    assert [(w.action, w.reason) for w in plan.writes["us"] if w.name == "m--eu--eu-1"] == [
        ("delete", "node eu-1: WGIPOutOfRange")
    ]
    assert reasons(planned(found, peers, max_deletes=0)) >= {("us/eu", "delete_budget")}


def test_removed_cluster_and_mesh() -> None:
    peers = live(planned(nodes()))
    two = [{"name": "m", "clusters": MESH["clusters"][:2]}]
    plan = planned(nodes(), peers, two)
    assert not plan.plan.changes and ("us/ap", "delete_budget") in reasons(plan)
    plan = planned(nodes(), peers, two, confirm_empty={"ap"})
    assert sorted(change.id for change in plan.plan.of(DELETE)) == sorted(
        ["eu/m--ap--ap-1", "eu/m--ap--ap-2", "us/m--ap--ap-1", "us/m--ap--ap-2"]
        + [f"ap/m--{name}--{name}-{number}" for name in ("eu", "us") for number in (1, 2)]
    )
    other = [dict(MESH, name="other")]
    plan = planned(nodes(), peers, other, purge_meshes=True, confirm_empty=set(NUMBERS))
    assert len(plan.plan.of(DELETE)) == 12 and not plan.plan.refused
    assert (
        all(write.early for writes in plan.writes.values() for write in writes if write.action == DELETE)
        or not plan.plan.changes
    )


def test_two_meshes_that_share_a_pair_make_one_peer_a_key() -> None:
    meshes = [MESH, {"name": "a", "clusters": [entry("eu", additionalCIDRs=["172.20.0.0/16"]), entry("us")]}]
    plan = planned(nodes(), None, meshes)
    keys = [write.manifest["spec"]["publicKey"] for write in plan.writes["us"]]
    assert len(keys) == len(set(keys)) == 4 and not plan.plan.refused
    first = next(write for write in plan.writes["us"] if write.name == "a--eu--eu-1")
    assert {"10.120.0.0/16", "172.20.0.0/16"} <= set(first.manifest["spec"]["allowedIPs"])
    assert planned(nodes(), live(plan), meshes).plan.changes == []


def test_learnt_endpoints_have_their_place() -> None:
    found = nodes()
    seen = {key_of(name): {"IP": "203.0.113.80", "Port": 40112, "Zone": ""} for name in ("us-1", "us-2")}
    seen[key_of("ap-1")] = {"IP": "10.20.0.9", "Port": 5}
    found["eu"][0]["annotations"][G + "discovered-endpoints"] = json.dumps(seen)
    found["us"][0]["annotations"][G + "clustermesh-endpoint"] = "us-1.example:1"

    def endpoints(place: str) -> list[t.Any]:
        plan = planned(found, learnt_endpoints=place)
        assert not any("203.0.113.80" in str(write.manifest) for write in plan.writes["ap"])
        return [
            write.manifest["spec"]["endpoint"]["dnsOrIP"]
            for write in plan.writes["eu"]
            if "--us--" in write.name or "ap-1" in write.name
        ]

    learnt, overlay = {"ip": "203.0.113.80"}, {"ip": "198.51.40.1"}
    assert endpoints("before_external_ip") == [overlay, {"dns": "us-1.example"}, learnt]
    assert endpoints("before_annotations") == [overlay, learnt, learnt]
    assert endpoints("never") == [overlay, {"dns": "us-1.example"}, {"ip": "198.51.30.2"}]


def test_a_roaming_edge_keeps_its_keepalive() -> None:
    found = nodes()
    for one in found["us"]:
        one["addresses"] = one["addresses"][:1]
    mesh = [{"name": "m", "clusters": [entry("eu"), entry("us", endpoint_policy="roam")]}]
    peers = {"eu": [], "us": []}
    spec = planned(found, peers, mesh).writes["eu"][0].manifest["spec"]
    assert "endpoint" not in spec and spec["persistentKeepalive"] == 25
    found["eu"][0]["annotations"][G + "discovered-endpoints"] = json.dumps(
        {key_of("us-1"): {"IP": "203.0.113.80", "Port": 40112}}
    )
    spec = planned(found, peers, mesh).writes["eu"][0].manifest["spec"]
    assert spec["endpoint"]["port"] == 40112 and spec["persistentKeepalive"] == 25


def test_unowned_peers_stay() -> None:
    theirs = {
        "metadata": {"name": "m--eu--eu-1", "labels": peer_labels("m", "eu")},
        "spec": {"publicKey": key_of("x"), "allowedIPs": []},
    }
    squatter = {"metadata": {"name": "m--eu--eu-2", "labels": {}}, "spec": {"publicKey": "y", "allowedIPs": []}}
    plan = planned(nodes(), dict(empty(), us=[theirs, squatter]))
    assert reasons(plan) == {("Peer us/m--eu--eu-1", "adoptable"), ("Peer us/m--eu--eu-2", "not_ours")}
    plan = planned(nodes(), dict(empty(), us=[theirs, squatter]), adopt=True)
    assert reasons(plan) == {("Peer us/m--eu--eu-2", "not_ours")} and plan.plan.of("update")[0].id == "us/m--eu--eu-1"
    for state in ("absent", "released"):
        assert not planned(nodes(), dict(empty(), us=[theirs, squatter]), state=state).plan.changes


@pytest.mark.parametrize(
    "spoilt",
    [
        {"spec": None},
        {"spec": 5},
        {"spec": {"publicKey": ["x"], "allowedIPs": [["y"], 5]}},
        {"spec": {"allowedIPs": "x"}},
        {"metadata": {"name": "m--eu--eu-1", "labels": {"kilo-clustermesh.io/mesh": ["m"]}}},
        {"metadata": {"name": "m--eu--eu-1", "labels": ["x"], "managedFields": "x"}},
        {"metadata": {"name": {"a": 1}, "labels": peer_labels("m", "eu")}},
    ],
)
def test_targets_that_lie_about_their_peers_hurt_only_themselves(spoilt: t.Any) -> None:
    peers = live(planned(nodes()))
    peers["us"][0].update(spoilt)
    plan = planned(nodes(), peers)
    assert {write.write.change.id.partition("/")[0] for writes in plan.writes.values() for write in writes} <= {"us"}
    assert planned(nodes(), peers, state="absent").writes["eu"]
    report(MESHES, gathered(nodes(), peers, {}), SETTINGS, plan)


def test_what_kilo_makes_of_it() -> None:
    """The view of a reader of Peers: one entry a key, no range twice, every field what WireGuard and Kilo take."""
    for target, listed in live(planned(nodes())).items():
        keys: set[str] = set()
        routes: list[t.Any] = []
        for peer in sorted(listed, key=lambda item: item["metadata"]["name"]):
            spec = peer["spec"]
            assert len(base64.b64decode(spec["publicKey"], validate=True)) == 32 and spec["publicKey"] not in keys
            keys.add(spec["publicKey"])
            assert 1 <= spec["endpoint"]["port"] <= 65535 and len(spec["endpoint"]["dnsOrIP"]) == 1
            assert set(spec) <= {"publicKey", "allowedIPs", "endpoint", "persistentKeepalive"}
            for text in spec["allowedIPs"]:
                network = ipaddress.ip_network(text)
                assert not any(network.overlaps(other) for other in routes)
                routes.append(network)
        own = [ipaddress.ip_network(entry(target)[name]) for name in ("wireguardCIDR", "serviceCIDR")]
        assert not any(network.overlaps(route) for network in own for route in routes)


def test_ranges_are_those_of_spec_pod_cidrs_whatever_else_a_node_has() -> None:
    """Kilo takes no other, so what another network plugin announces (``pod_ranges`` of a Semaphore mesh) has no effect here."""
    found = nodes()
    for rows in found.values():
        for number, one in enumerate(rows):
            subnet = {"default": ["10.250.%d.0/24" % number]}
            one["annotations"] |= {
                "k8s.ovn.org/node-subnets": json.dumps(subnet),
                "projectcalico.org/IPv4VXLANTunnelAddr": "10.251.0.%d" % number,
            }
    assert planned(found, live(planned(nodes()))).plan.changes == []
    for listed in live(planned(found)).values():
        assert not any(text.startswith("10.25") for peer in listed for text in peer["spec"]["allowedIPs"])


def configuration(peers: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """What Kilo gives WireGuard for Peers: in the order of names, keepalive and endpoint where they are given."""
    lines = []
    for peer in sorted(peers, key=lambda item: item["metadata"]["name"]):
        spec = peer["spec"]
        lines += ["[Peer]", "PublicKey = " + spec["publicKey"], "AllowedIPs = " + ", ".join(spec["allowedIPs"])]
        if "endpoint" in spec:
            host = spec["endpoint"]["dnsOrIP"].get("ip") or spec["endpoint"]["dnsOrIP"]["dns"]
            lines.append(f"Endpoint = {'[' + host + ']' if ':' in host else host}:{spec['endpoint']['port']}")
        if spec.get("persistentKeepalive"):
            lines.append(f"PersistentKeepalive = {spec['persistentKeepalive']}")
    return "\n".join(lines)


def test_configuration_of_wireguard() -> None:
    found = nodes()
    found["eu"][1]["annotations"][G + "clustermesh-endpoint"] = "[2001:DB8::2]:4500"
    mesh = [{"name": "m", "clusters": [entry("eu"), entry("us", persistentKeepalive=25)]}]
    assert configuration(live(planned(found, {"eu": [], "us": []}, mesh))["us"]).splitlines() == [
        "[Peer]",
        "PublicKey = " + key_of("eu-1"),
        "AllowedIPs = 10.20.1.0/24, 100.70.0.1/32, 192.168.20.1/32, 10.120.0.0/16",
        "Endpoint = 198.51.20.1:51820",
        "PersistentKeepalive = 25",
        "[Peer]",
        "PublicKey = " + key_of("eu-2"),
        "AllowedIPs = 10.20.2.0/24, 100.70.0.2/32, 192.168.20.2/32",
        "Endpoint = [2001:DB8::2]:4500",
        "PersistentKeepalive = 25",
    ]


def test_plan_of_many_clusters_takes_seconds() -> None:
    """12 clusters of 100 nodes: 13,200 Peers. CPU time, since tests share the machine."""
    clusters, found = [], {}
    for number in range(12):
        name = "c%02d" % number
        clusters.append(
            {"name": name, "podCIDRs": ["10.%d.0.0/16" % number], "wireguardCIDR": "100.64.%d.0/24" % number}
        )
        found[name] = []
        for index in range(1, 101):
            one = node("eu", 1)
            one.update(name="%s-%03d" % (name, index), podCIDRs=["10.%d.%d.0/24" % (number, index)])
            one["annotations"] = {
                G + "wireguard-ip": "100.64.%d.%d/24" % (number, index),
                G + "key": key_of(name + str(index)),
            }
            one["addresses"] = [{"type": "ExternalIP", "address": "198.%d.0.%d" % (number, index)}]
            found[name].append(one)
    meshes = [{"name": "big", "clusters": clusters}]
    started = time.process_time()
    plan = plan_clustermesh(meshes, gathered(found, {name: [] for name in found}, {}), SETTINGS)
    assert len(plan.plan.changes) == 13200 and not plan.plan.refused
    again = plan_clustermesh(meshes, gathered(found, live(plan), {}), SETTINGS)
    assert again.plan.unchanged == 13200 and not again.plan.changes
    assert time.process_time() - started < 10
