# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Semaphore's device, annotations and peers: every row of sections 3.2 to 3.6."""

from __future__ import annotations

import base64
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.multicluster.network.plugins.module_utils._mesh import semaphore_annotations
from ansible_collections.multicluster.network.plugins.module_utils._mesh import semaphore_device as device
from ansible_collections.multicluster.network.plugins.module_utils._mesh import semaphore_peers as peers
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

KEY = "ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA="
OTHER = "0aWsmgFfrC73s0FnNjVRKhUR9B/jfREbJn8DnuxdT1g="
PUB, END = "aws.wireguard.semaphore.uw.io/pubKey", "aws.wireguard.semaphore.uw.io/endpoint"


def node(
    name: str = "a", key: t.Any = KEY, endpoint: t.Any = "10.22.22.27:51821", **fields: t.Any
) -> t.Dict[str, t.Any]:
    return dict({"name": name, "podCIDR": "10.4.7.0/24", "annotations": {PUB: key, END: endpoint}}, **fields)


@pytest.mark.parametrize(
    "cluster, alias, error",
    [
        ("gcp", None, None),
        ("c2", None, None),
        ("abcde", None, None),
        ("abcdef", None, "device_name_too_long"),
        ("a very long name", None, "device_name_too_long"),
        ("a b", None, "device_name_has_space"),
        ("a b/", None, "device_name_has_space"),
        ("a/b", None, "device_name_has_slash"),
        ("a:b", None, "device_name_invalid_char"),
        ("a\tb", None, "device_name_invalid_char"),
        ("", None, "cluster_name_not_dns_label"),
        ("\u00e9\u00e9", None, "cluster_name_not_dns_label"),
        ("A", None, "cluster_name_not_dns_label"),
        ("2c", None, "cluster_name_not_dns_label"),
        ("a_b", None, "cluster_name_not_dns_label"),
        ("a-", None, "cluster_name_not_dns_label"),
        ("cluster1", "c1", None),
        ("gcp", "cluster1", "device_name_too_long"),
    ],
)
def test_device_names(cluster: str, alias: t.Optional[str], error: t.Optional[str]) -> None:
    found = device.device_name(cluster, alias)
    assert found["error"] == error and found["valid"] == (error is None)
    assert found["device"] == "wireguard." + (alias or cluster)
    assert found["length"] == len(found["device"].encode())


@given(st.text(max_size=8))
def test_device_names_never_break(cluster: str) -> None:
    found = device.device_name(cluster)
    assert not found["valid"] or len(found["device"]) <= 15


@pytest.mark.parametrize("nothing", [0, None, "0"])
def test_device_plan_defaults(nothing: t.Any) -> None:
    plan = device.device_plan("aws", ["10.2.3.4/16", "fd00::1/48"], nothing, nothing)
    assert (plan["mtu"], plan["listen_port"], plan["txqueuelen"]) == (1420, 51820, 1000)
    assert [route["dst"] for route in plan["routes"]] == ["10.2.0.0/16", "fd00::/48"]
    assert plan["routes"][0] == {"dst": "10.2.0.0/16", "dev": "wireguard.aws", "scope": "link", "table": "main"}
    assert plan["addresses"] == [] and plan["firewall_mark"] == 0 and plan["up"] is True


@pytest.mark.parametrize(
    "arguments, word",
    [
        (("aws", ["x"]), "pod_subnet_invalid"),
        (("aws", [""]), "pod_subnet_invalid"),
        (("aws", ["10.0.0.0/8"], 575), "mtu_out_of_range"),
        (("aws", ["10.0.0.0/8"], 9217), "mtu_out_of_range"),
        (("aws", ["10.0.0.0/8"], -1), "mtu_out_of_range"),
        (("aws", ["10.0.0.0/8"], False), "mtu_out_of_range"),
        (("aws", ["10.0.0.0/8"], 0, 65536), "port_out_of_range"),
        (("aws", ["10.0.0.0/8"], 0, -1), "port_out_of_range"),
        (("aws", ["10.0.0.0/8"], 0, False), "port_out_of_range"),
        (("cluster1", ["10.0.0.0/8"]), "device_name_too_long"),
    ],
)
def test_device_plan_refusals(arguments: t.Any, word: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        device.device_plan(*arguments)
    assert caught.value.word == word


@pytest.mark.parametrize("mtu", [576, 1420, 9216, "1380"])
def test_mtu_limits(mtu: t.Any) -> None:
    assert device.parse_mtu(mtu) == int(mtu)


WANTED = device.device_plan("gcp", ["10.4.0.0/16"], 1380, 51821)


def test_converging_devices() -> None:
    created = device.converge_device(WANTED, None)
    assert created["action"] == "create" and created["set"]["mtu"] == 1380
    same = dict(type="wireguard", mtu=1380, txqueuelen=1000, listen_port=51821, up=True, addresses=["fe80::1/64"])
    assert device.converge_device(WANTED, same)["action"] == "keep"
    other = dict(same, mtu=1500, up=False, addresses=["10.0.0.1/24", "fe80::1/64"])
    found = device.converge_device(WANTED, other)
    assert (found["action"], found["set"]) == ("adjust", {"mtu": 1380, "up": True})
    assert found["remove_addresses"] == ["10.0.0.1/24"]
    foreign = device.converge_device(WANTED, dict(same, type="dummy"))
    assert (foreign["action"], foreign["reason"], foreign["set"]) == ("conflict", "not_ours", {})


@pytest.mark.parametrize(
    "event, gone",
    [
        ("absent", ["peers", "route", "device", "annotations"]),
        ("stop", []),
        ("reboot", ["peers", "route", "device"]),
        ("remote_emptied", ["peers"]),
        ("remote_unreachable", []),
    ],
)
def test_teardown(event: str, gone: t.List[str]) -> None:
    assert [what for what, value in device.teardown(event).items() if value] == gone
    assert device.teardown(event, remove_keys=True)["key"] == (event == "absent")


def address(kind: str, text: t.Any) -> t.Dict[str, t.Any]:
    return {"type": kind, "address": text}


@pytest.mark.parametrize(
    "addresses, expected",
    [
        ([address("InternalIP", "10.0.0.1")], "10.0.0.1:7"),
        ([address("Hostname", "n"), address("ExternalIP", "1.1.1.1"), address("InternalIP", "10.0.0.1")], "10.0.0.1:7"),
        ([address("InternalIP", "10.0.0.1"), address("InternalIP", "10.0.0.2")], "10.0.0.1:7"),
        ([address("InternalIP", "fd00::31"), address("InternalIP", "10.0.0.1")], "10.0.0.1:7"),
        ([address("InternalIP", "fd00::31"), address("InternalIP", "fd00::32")], "[fd00::31]:7"),
        ([address("InternalIP", "node-1"), address("InternalIP", "10.0.0.1")], "10.0.0.1:7"),
        ([None, 7, address("InternalIP", None), address("InternalIP", "10.0.0.1")], "10.0.0.1:7"),
        ([address("internalip", "10.0.0.1")], None),
        ([address("ExternalIP", "1.1.1.1")], None),
        ([], None),
        (None, None),
    ],
)
def test_endpoints(addresses: t.Any, expected: t.Optional[str]) -> None:
    if expected is None:
        with pytest.raises(ValueRefused) as caught:
            semaphore_annotations.endpoint(addresses, 7)
        assert caught.value.word == "no_internal_ip"
    else:
        assert semaphore_annotations.endpoint(addresses, 7) == expected


def test_endpoint_of_another_type() -> None:
    both = [address("InternalIP", "10.0.0.1"), address("ExternalIP", "203.0.113.1")]
    assert semaphore_annotations.endpoint(both, 7, "ExternalIP") == "203.0.113.1:7"


def test_annotations_of_three_clusters() -> None:
    remotes = [{"name": name, "listen_port": port, "public_key": KEY} for name, port in (("gcp", 1), ("merit", 2))]
    found = semaphore_annotations.node_annotations("aws", remotes, [address("InternalIP", "10.66.23.31")])
    assert found["patch"] == {
        "gcp.wireguard.semaphore.uw.io/pubKey": KEY,
        "gcp.wireguard.semaphore.uw.io/endpoint": "10.66.23.31:1",
        "merit.wireguard.semaphore.uw.io/pubKey": KEY,
        "merit.wireguard.semaphore.uw.io/endpoint": "10.66.23.31:2",
    }
    assert found["watch"] == {name: {"pubKey": PUB, "endpoint": END} for name in ("gcp", "merit")}
    assert semaphore_annotations.patch_body(found["patch"]) == {"metadata": {"annotations": found["patch"]}}
    with pytest.raises(ValueRefused):
        semaphore_annotations.node_annotations("aws", [dict(remotes[0], name="a_b")], [address("InternalIP", "10.66.23.31")])


@pytest.mark.parametrize("cluster, valid", [("gcp", True), ("a" * 63, True), ("a_b", False), ("A", False), ("", False)])
def test_annotation_keys(cluster: str, valid: bool) -> None:
    assert semaphore_annotations.annotation_key_valid(cluster)["valid"] == valid
    assert semaphore_annotations.cluster_of_key(semaphore_annotations.key_of("gcp", "endpoint")) == "gcp"
    assert semaphore_annotations.cluster_of_key("gcp.wireguard.semaphore.uw.io/endpoints") is None


def test_presence() -> None:
    assert semaphore_annotations.announces("aws", {PUB: "", END: ""})
    assert not semaphore_annotations.announces("aws", {PUB: KEY})
    assert not semaphore_annotations.announces("gcp", {PUB: KEY, END: "x"})
    assert not semaphore_annotations.announces("aws", {PUB.lower(): KEY, END: "x"})
    assert not semaphore_annotations.announces("aws", None)


def only(found: t.Dict[str, t.Any]) -> t.Dict[str, t.Any]:
    assert found["skipped"] == [] and len(found["peers"]) == 1
    return dict(found["peers"][0])


def test_a_peer() -> None:
    assert only(peers.peers("aws", [node()])) == {
        "public_key": KEY,
        "endpoint": "10.22.22.27:51821",
        "allowed_ips": ["10.4.7.0/24"],
        "persistent_keepalive": 25,
        "preshared_key": None,
    }


@pytest.mark.parametrize(
    "endpoint, expected",
    [("", None), ("[fd00::31]:1", "[fd00::31]:1"), ("node-1.example.com:1", "node-1.example.com:1")],
)
def test_endpoints_of_peers(endpoint: str, expected: t.Optional[str]) -> None:
    assert only(peers.peers("aws", [node(endpoint=endpoint)]))["endpoint"] == expected


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"podCIDR": "10.4.7.9/24"}, ["10.4.7.0/24"]),
        ({"podCIDRs": ["10.4.7.0/24", "fd00:4::/64"]}, ["10.4.7.0/24", "fd00:4::/64"]),
        ({"podCIDR": None, "podCIDRs": ["10.4.7.0/24"]}, ["10.4.7.0/24"]),
        ({"podCIDRs": []}, ["10.4.7.0/24"]),
        ({"podCIDRs": ["10.4.7.0/24", "10.4.7.1/24"]}, ["10.4.7.0/24"]),
    ],
)
def test_allowed_ips(fields: t.Dict[str, t.Any], expected: t.List[str]) -> None:
    assert only(peers.peers("aws", [node(**fields)]))["allowed_ips"] == expected
    first = peers.peers("aws", [node(**fields)], source="pod_cidr")
    assert only(first)["allowed_ips"] == expected[:1]


@pytest.mark.parametrize(
    "bad, reason",
    [
        (node("b", key="x"), "bad_public_key"),
        (node("b", key=""), "bad_public_key"),
        (node("b", key=None), "bad_public_key"),
        (node("b", podCIDR=""), "bad_pod_cidr"),
        (node("b", podCIDR=None), "bad_pod_cidr"),
        (node("b", podCIDR="10.4.0.0"), "bad_pod_cidr"),
        (node("b", podCIDRs=["10.4.0.0/24", "x"]), "bad_pod_cidr"),
        (node("b", podCIDRs="10.4.0.0/24"), "bad_pod_cidr"),
        (node("b", podCIDRs=["10.4.0.0/24"] * 300), "bad_pod_cidr"),
        (node("b", endpoint="foo"), "bad_endpoint"),
        (node("b", endpoint="fd00::31:51820"), "bad_endpoint"),
        (node("b", endpoint="10.0.0.1:70000"), "bad_endpoint"),
    ],
)
def test_a_bad_node_is_skipped_and_the_rest_applied(bad: t.Dict[str, t.Any], reason: str) -> None:
    found = peers.peers("aws", [bad, node()], [KEY, OTHER])
    assert [(row["node"], row["reason"]) for row in found["skipped"]] == [("b", reason)]
    assert [peer["public_key"] for peer in found["peers"]] == [KEY] and found["removed"] == [OTHER]


def test_nodes_that_publish_nothing_for_us_are_no_peers_and_no_faults() -> None:
    silent = [node(annotations={}), node(annotations=None), node(annotations={PUB: KEY}), {"name": "x"}]
    assert peers.peers("aws", silent, [KEY]) == {"peers": [], "removed": [KEY], "skipped": [], "warnings": []}


def test_of_two_nodes_with_one_key_the_last_listed_counts() -> None:
    found = peers.peers("aws", [node("a"), node("b", podCIDR="10.4.8.0/24")])
    assert only(found)["allowed_ips"] == ["10.4.8.0/24"]


def test_warnings() -> None:
    found = peers.peers("aws", [node("a"), node("b", OTHER, podCIDR="10.4.7.128/25")], pod_subnets=["10.4.7.0/25"])
    rows = {(row["node"], row["reason"]) for row in found["warnings"]}
    assert rows == {("a", "outside_pod_subnet"), ("b", "outside_pod_subnet"), ("b", "overlaps_peer")}
    assert len(found["peers"]) == 2


CURRENT = {KEY: {"endpoint": "10.22.22.27:51821", "allowed_ips": ["10.4.7.0/24"]}}


@pytest.mark.parametrize(
    "event, changed, expected",
    [
        ("added", node(), False),
        ("modified", node(podCIDR="10.4.7.9/24"), False),
        ("modified", node(endpoint="10.22.22.27:1"), True),
        ("modified", node(endpoint=""), True),
        ("modified", node(podCIDR="10.4.8.0/24"), True),
        ("added", node(key=OTHER), True),
        ("modified", node(annotations={PUB: OTHER}), True),
        ("modified", node(annotations={}), True),
        ("added", node(annotations={}, podCIDR="10.4.9.0/24"), False),
        ("added", node(annotations={}, podCIDR=None), False),
        ("added", node(annotations={PUB: KEY}), True),
        ("modified", node(endpoint="foo"), True),
        ("deleted", node(), True),
        ("deleted", node(key=OTHER), False),
        ("deleted", node(annotations={}), False),
    ],
)
def test_sync_decisions(event: str, changed: t.Dict[str, t.Any], expected: bool) -> None:
    assert peers.sync_decision("aws", CURRENT, event, changed) is expected
    assert peers.sync_decision("aws", CURRENT, event, changed, initial_list_done=False) is False


NODES = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.text(max_size=3),
            "podCIDR": st.sampled_from(["10.4.1.0/24", "10.4.2.0/24", "", None]) | st.text(max_size=20),
            "podCIDRs": st.none() | st.lists(st.sampled_from(["10.4.1.0/24", "fd00::/64"]) | st.integers(), max_size=3),
            "annotations": st.none()
            | st.dictionaries(
                st.sampled_from([PUB, END]), st.sampled_from([KEY, OTHER, "1.2.3.4:5", ""]) | st.text() | st.none()
            ),
        }
    ),
    max_size=6,
)


@given(NODES, st.lists(st.sampled_from([KEY, OTHER, "x"]), max_size=3, unique=True))
def test_any_nodes_make_a_consistent_set(nodes: t.List[t.Any], current: t.List[str]) -> None:
    found = peers.peers("aws", nodes, current, ["10.4.0.0/16"])
    keys = [peer["public_key"] for peer in found["peers"]]
    assert keys == sorted(set(keys)) and all(len(base64.b64decode(key)) == 32 for key in keys)
    assert set(found["removed"]) == set(current) - set(keys)
    applied = {peer["public_key"]: peer for peer in found["peers"]}
    for item in nodes:
        if peers.peers("aws", [item])["peers"] and item is nodes[-1]:
            assert peers.sync_decision("aws", applied, "modified", item) is False
