# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preshared keys: their derivation, which peers have them, what a plan and a node's part have of them, and what is refused by name."""

from __future__ import annotations

import json
import random
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.node_spec import parse_node
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh.mesh_plan import preshared_generation
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.preshared import (
    End,
    file_of,
    generation_key,
    hkdf,
    pair_key,
    read_secret,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import (
    ASIDE,
    FINISHED,
    NO_STEP,
    PREPARE,
    PREPARED,
    Record,
    read_record,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import rotation_checks as checks
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.generations import (
    Order,
    node_devices,
    with_rotation,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.preshared_keys import with_keys
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.semaphore import plan_semaphore_mesh
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import to_wire
from ansible_collections.multicluster.network.plugins.module_utils._values.generations import is_preshared_file
from ansible_collections.multicluster.network.plugins.module_utils._values.keys import encode_key, key_bytes
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

SECRET = bytes(range(32))
KEYS = {"aws-1": encode_key(b"a" * 32), "gcp-1": encode_key(b"b" * 32), "gcp-2": encode_key(b"c" * 32)}
PLACES = {
    "aws-1": ("aws", "10.2.3.0/24", "10.66.23.31"),
    "gcp-1": ("gcp", "10.4.7.0/24", "10.22.22.27"),
    "gcp-2": ("gcp", "10.4.8.0/24", "10.22.22.28"),
}
FILE = "/var/lib/semaphore-wireguard/wireguard.gcp.key"


def planned(
    present: dict[str, t.Any] | None = None,
    desired: int = 0,
    records: dict[str, Record] | None = None,
    step: str = NO_STEP,
    hosts: t.Sequence[str] = (),
    without: t.Sequence[str] = (),
    keyless: t.Sequence[str] = (),
    unread: str = "",
) -> MeshPlan:
    """A plan of three nodes. present: generation by node, as it is published; keyless: nodes that have published no key."""
    clusters: dict[str, dict[str, t.Any]] = {
        "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "wireguard_port": 51821},
        "gcp": {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "wireguard_port": 51821},
    }
    nodes = {host: {"multicluster_cluster": row[0]} for host, row in PLACES.items() if host not in without}
    fabric, findings = load_fabric({"name": "demo", "clusters": clusters, "nodes": nodes})
    assert not [row for row in findings if row.level == "error"]
    listings: dict[str, t.Any] = {"aws": {"nodes": []}, "gcp": {"nodes": []}}
    for host, (cluster, cidr, address) in PLACES.items():
        remote = "gcp" if cluster == "aws" else "aws"
        annotations = {f"{remote}.wireguard.semaphore.uw.io/endpoint": f"{address}:51821"}
        if host not in keyless:
            annotations[f"{remote}.wireguard.semaphore.uw.io/pubKey"] = KEYS[host]
        if host in (present or {}):
            annotations[generation_key(remote)] = str((present or {})[host])
        record = (records or {}).get(host)
        if record is not None:
            annotations[f"{remote}.rotation.multicluster.network/state"] = record.state
            annotations[f"{remote}.rotation.multicluster.network/pubKey"] = record.key or ""
        listings[cluster]["nodes"].append(
            {
                "metadata": {"name": host, "annotations": annotations},
                "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
                "status": {"addresses": [{"type": "InternalIP", "address": address}]},
            }
        )
    if unread:
        listings[unread] = {"error": {"reason": "unreachable", "message": "no answer"}}
    mesh = with_rotation(plan_semaphore_mesh(fabric, listings), listings, None, Order(step, tuple(hosts)), desired)
    return MeshPlan.from_json(json.loads(json.dumps(to_wire(mesh.to_json()))))


def given(mesh: MeshPlan, host: str) -> dict[str, str]:
    """{node: preshared key} of the peers of a host's device."""
    devices, keys = with_keys(node_devices(mesh, host), mesh.fabric, SECRET)
    rows = [row for device in devices if device["name"].startswith("wireguard.") for row in device["peers"]]
    return {row["node"]: keys[row["preshared_key"]["file"]] for row in rows if row.get("preshared_key")}


def test_the_derivation_is_hkdf_with_sha_256() -> None:
    """Test case 1 of RFC 5869, with an output that begins with the same 32 bytes; case 3 has neither salt nor info."""
    first = hkdf(b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)))
    assert first.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
    third = hkdf(b"\x0b" * 22, bytes(32), b"")
    assert third.hex() == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"


def test_both_ends_derive_the_same_key_and_all_that_is_named_changes_it() -> None:
    """A property, over random names, keys and generations."""
    chance = random.Random(40)
    seen: dict[str, t.Any] = {}
    for _time in range(500):
        ends = [End(f"{chance.choice('ab')}/{chance.choice('xyz')}", encode_key(chance.randbytes(32))) for _end in "12"]
        fabric, number = chance.choice(["demo", "demo1"]), chance.choice([1, 11, 111])
        key = pair_key(SECRET, fabric, number, *ends)
        assert key == pair_key(SECRET, fabric, number, *reversed(ends)) and len(key_bytes(key)) == 32
        others = [
            pair_key(bytes(32), fabric, number, *ends),
            pair_key(SECRET, fabric + "1", number, *ends),
            pair_key(SECRET, fabric, number + 1, *ends),
            pair_key(SECRET, fabric, number, ends[0]._replace(node="c/x"), ends[1]),
            pair_key(SECRET, fabric, number, ends[0], ends[1]._replace(public_key=encode_key(b"k" * 32))),
        ]
        assert key not in others and len(set(others)) == len(others)
        assert seen.setdefault(key, (fabric, number, sorted(ends))) == (fabric, number, sorted(ends))


@pytest.mark.parametrize("text", ["", "hunter2", None, 7, encode_key(bytes(32)), encode_key(b"s" * 31), "s" * 44])
def test_a_secret_that_is_none_is_refused_and_not_quoted(text: t.Any) -> None:
    with pytest.raises(ValueRefused) as caught:
        read_secret(text)
    assert caught.value.reason == "bad_preshared_secret"
    assert not text or str(text) not in caught.value.message


def test_a_secret_may_end_with_a_newline() -> None:
    assert read_secret(encode_key(SECRET) + "\n") == SECRET


def test_files_of_preshared_keys_are_known_by_their_device() -> None:
    path = file_of(FILE, encode_key(SECRET))
    assert path.startswith("/var/lib/semaphore-wireguard/wireguard.gcp.") and path != file_of(
        FILE, encode_key(b"t" * 32)
    )
    assert is_preshared_file(path) and is_preshared_file(path, [FILE])
    assert is_preshared_file(file_of(FILE.replace("wireguard.gcp", "wg-rotate.gcp"), encode_key(SECRET)), [FILE])
    assert not is_preshared_file(path, [FILE.replace("gcp", "gc")]) and not is_preshared_file(FILE)
    assert not is_preshared_file(path.lstrip("/")) and not is_preshared_file(None)


def test_without_the_setting_a_plan_is_as_it_was() -> None:
    mesh = planned()
    assert "preshared" not in json.dumps(
        {key: value for key, value in mesh.to_json().items() if key != "annotation_patterns"}
    ).replace('"preshared_key": null', "")
    assert given(mesh, "aws-1") == {}


def test_nodes_that_have_a_key_already_wait_for_rotate_keys() -> None:
    mesh = planned(desired=1)
    assert given(mesh, "aws-1") == {} and mesh.nodes["aws-1"].preshared == {}
    assert checks.lines(mesh, list(PLACES), FINISHED, False)[-1] == "preshared keys of all pairs: none -> generation 1"
    assert "run rotate_keys without rotate_nodes" in checks.lines(mesh, ["aws-1"], FINISHED, False)[-1]
    assert not [text for text in checks.lines(planned(), list(PLACES), FINISHED, False) if "preshared" in text]


def test_a_new_node_begins_with_the_generation_that_is_asked_for() -> None:
    mesh = planned(desired=1, keyless=["gcp-2"])
    assert mesh.nodes["gcp-2"].annotations[generation_key("aws")] == "1"
    assert given(mesh, "aws-1") == {}  # its key is still to come
    (device,) = node_devices(mesh, "gcp-2")
    (peer,) = device["peers"]
    assert peer["public_key"] == {"__pending__": "preshared key of gcp/gcp-2 with aws/aws-1"}


def test_both_ends_of_each_pair_get_the_same_key_and_nobody_else_has_it() -> None:
    mesh = planned(present=dict.fromkeys(PLACES, 1), desired=1)
    found = {host: given(mesh, host) for host in PLACES}
    assert found["aws-1"]["gcp-1"] == found["gcp-1"]["aws-1"] and found["aws-1"]["gcp-2"] == found["gcp-2"]["aws-1"]
    assert len({key for rows in found.values() for key in rows.values()}) == 2
    assert set(found["gcp-1"]) == {"aws-1"}


def test_a_node_that_claims_to_have_none_does_not_take_it_from_its_pairs() -> None:
    """Whoever may write a Node's annotations turns nothing off (threat: downgrade)."""
    mesh = planned(present={"gcp-1": 1, "gcp-2": 1}, desired=1)
    assert set(given(mesh, "aws-1")) == {"gcp-1", "gcp-2"}
    assert given(mesh, "aws-1")["gcp-1"] == given(mesh, "gcp-1")["aws-1"]


def test_what_is_no_generation_is_refused_by_name() -> None:
    for text in ("x", "-1", "0", "1000000", "1 "):
        mesh = planned(present={"gcp-1": text}, desired=1)
        (row,) = [row for row in mesh.refused if row["reason"] == "bad_rotation"]
        assert row["object"] == "gcp/gcp-1"
    with pytest.raises(ValueRefused):
        read_record("gcp", {"gcp.rotation.multicluster.network/state": "aside 52821 - 0"})


def test_a_record_has_the_generation_that_its_key_goes_with() -> None:
    record = Record(PREPARED, 52821, KEYS["aws-1"], None, 3)
    assert record.state == f"prepared 52821 {KEYS['aws-1']} 3"
    assert read_record("gcp", {"gcp.rotation.multicluster.network/state": record.state}) == record
    mesh = planned(present=dict.fromkeys(PLACES, 1), desired=2, step=PREPARE, hosts=list(PLACES))
    assert {
        host: node.rotation[remote]["preshared"] for host, node in mesh.nodes.items() for remote in node.rotation
    } == dict.fromkeys(PLACES, 2)
    some = planned(present=dict.fromkeys(PLACES, 1), desired=2, step=PREPARE, hosts=["aws-1"])
    assert some.nodes["aws-1"].rotation["gcp"]["preshared"] == 1


def test_a_run_for_all_nodes_brings_the_generation_to_those_that_one_for_some_has_prepared() -> None:
    retired = {"gcp-1": KEYS["gcp-1"]}
    records = {
        host: Record(PREPARED, 52821, retired.get(host), encode_key(host.encode() * 6 + b"__")) for host in PLACES
    }
    mesh = planned(desired=1, records=records, step=PREPARE, hosts=list(PLACES))
    rows = [row for node in mesh.nodes.values() for row in node.rotation.values()]
    assert [(row["preshared"], row.get("former")) for row in rows] == [(1, None)] * 3
    some = planned(desired=1, records=records, step=PREPARE, hosts=["aws-1"])
    assert not any(row.get("preshared") for node in some.nodes.values() for row in node.rotation.values())


def test_the_device_keeps_its_generation_until_its_key_is_another() -> None:
    bypass = {host: encode_key(bytes([number]) * 32) for number, host in enumerate(PLACES, 20)}
    before = {host: Record(ASIDE, 52821, KEYS[host], bypass[host], 2) for host in PLACES}
    mesh = planned(present=dict.fromkeys(PLACES, 1), desired=2, records=before)
    assert mesh.nodes["aws-1"].preshared == {"gcp": 1}
    changed = {host: record._replace(retired=encode_key(b"o" * 32)) for host, record in before.items()}
    mesh = planned(present=dict.fromkeys(PLACES, 1), desired=2, records=changed)
    assert mesh.nodes["aws-1"].preshared == {"gcp": 2}
    names = [device["name"] for device in node_devices(mesh, "aws-1")]
    assert names == ["wireguard.gcp", "wg-rotate.gcp"]


def test_a_neighbour_of_an_upstream_program_is_refused_by_name() -> None:
    mesh = planned(present={"aws-1": 1, "gcp-1": 1}, desired=1, without=["gcp-2"])
    (row,) = [row for row in mesh.refused if row["reason"] == "not_preshared"]
    assert row["object"] == "gcp/gcp-2" and set(given(mesh, "aws-1")) == {"gcp-1"}
    assert [peer["node"] for device in node_devices(mesh, "aws-1") for peer in device["peers"]] == ["gcp-1"]
    off = planned(desired=1, without=["gcp-2"])
    text = checks.refusal(off, ["aws-1", "gcp-1"], None, True)
    assert "gcp/gcp-2" in text and "[not_preshared]" in text
    assert [peer["node"] for device in node_devices(off, "aws-1") for peer in device["peers"]] == ["gcp-1", "gcp-2"]


def test_where_the_own_cluster_is_not_read_all_peers_stay() -> None:
    mesh = planned(present=dict.fromkeys(PLACES, 1), desired=1, unread="aws")
    assert [device["peers_known"] for device in node_devices(mesh, "aws-1")] == [False]


def test_no_plan_and_no_device_has_a_key_or_the_secret() -> None:
    mesh = planned(present=dict.fromkeys(PLACES, 1), desired=1)
    text = json.dumps([to_wire(mesh.to_json()), node_devices(mesh, "aws-1")])
    assert encode_key(SECRET) not in text and not [key for key in given(mesh, "aws-1").values() if key in text]


def test_a_node_takes_keys_for_files_of_their_kind_only() -> None:
    key = encode_key(b"p" * 32)
    path = file_of(FILE, key)
    assert parse_node({"fabric": "demo", "preshared_keys": {path: key}}).preshared_keys == {path: key}
    for wrong in ({"/etc/shadow": key}, {path: "short"}, {"x" + path: key}):
        with pytest.raises(ValueRefused) as caught:
            parse_node({"fabric": "demo", "preshared_keys": wrong})
        assert key not in caught.value.message


def test_a_setting_that_has_no_meaning_is_refused() -> None:
    assert preshared_generation({"preshared": False, "preshared_generation": 0}) == 0
    assert preshared_generation({"preshared": True, "preshared_generation": 7}) == 7
    with pytest.raises(ValueRefused, match="from 1 to"):
        preshared_generation({"preshared": True, "preshared_generation": 0})
    with pytest.raises(ValueRefused, match="mesh_secret"):
        preshared_generation({"preshared": True, "preshared_generation": 1, "mode": "kubespan"})
