# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Semaphore's device, annotations and peers: every row of sections 3.2 to 3.6."""

from __future__ import annotations

import contextlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.claims import read_claim
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore import (
    annotations as semaphore_annotations,
    device,
    peers,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.device import KEEPALIVE
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

KEY = "ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA="
PUB, END = "aws.wireguard.semaphore.uw.io/pubKey", "aws.wireguard.semaphore.uw.io/endpoint"


def node(name: str = "a", key: t.Any = KEY, endpoint: t.Any = "10.22.22.27:51821", **fields: t.Any) -> dict[str, t.Any]:
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
def test_device_names(cluster: str, alias: str | None, error: str | None) -> None:
    if error is None:
        assert (
            device.check_device_name(cluster, alias)
            == device.device_of(cluster, alias)
            == "wireguard." + (alias or cluster)
        )
        return
    with pytest.raises(ValueRefused) as caught:
        device.check_device_name(cluster, alias)
    assert caught.value.reason == error


@given(st.text(max_size=8))
def test_device_names_never_break(cluster: str) -> None:
    with contextlib.suppress(ValueRefused):
        assert len(device.check_device_name(cluster)) <= 15


@pytest.mark.parametrize("nothing", [0, None])
def test_nothing_is_the_default(nothing: t.Any) -> None:
    assert (device.parse_mtu(nothing), device.parse_listen_port(nothing)) == (1420, 51820)


def test_routes() -> None:
    assert device.routes_of("wireguard.aws", ["10.2.3.4/16", "fd00::1/48"]) == [
        {"dst": "10.2.0.0/16", "dev": "wireguard.aws", "scope": "link", "table": "main"},
        {"dst": "fd00::/48", "dev": "wireguard.aws", "scope": "link", "table": "main"},
    ]


@pytest.mark.parametrize(
    "function, value, reason",
    [(device.parse_mtu, mtu, "mtu_out_of_range") for mtu in (575, 9217, -1, False)]
    + [(device.parse_listen_port, port, "port_out_of_range") for port in (65536, -1, False)]
    + [(lambda text: device.routes_of("w", [text]), text, "pod_subnet_invalid") for text in ("x", "")],
)
def test_refusals(function: t.Callable[[t.Any], t.Any], value: t.Any, reason: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        function(value)
    assert caught.value.reason == reason


@pytest.mark.parametrize("mtu", [576, 1420, 9216, "1380"])
def test_mtu_limits(mtu: t.Any) -> None:
    assert device.parse_mtu(mtu) == int(mtu)


def address(kind: str, text: t.Any) -> dict[str, t.Any]:
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
def test_endpoints(addresses: t.Any, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(ValueRefused) as caught:
            semaphore_annotations.endpoint(addresses, 7)
        assert caught.value.reason == "no_internal_ip"
    else:
        assert semaphore_annotations.endpoint(addresses, 7) == expected


def test_endpoint_of_another_type() -> None:
    both = [address("InternalIP", "10.0.0.1"), address("ExternalIP", "203.0.113.1")]
    assert semaphore_annotations.endpoint(both, 7, "ExternalIP") == "203.0.113.1:7"


def test_annotation_keys() -> None:
    assert semaphore_annotations.cluster_of_key(semaphore_annotations.key_of("gcp", "endpoint")) == "gcp"
    assert semaphore_annotations.cluster_of_key("gcp.wireguard.semaphore.uw.io/endpoints") is None


def test_presence() -> None:
    assert semaphore_annotations.announces("aws", {PUB: "", END: ""})
    assert not semaphore_annotations.announces("aws", {PUB: KEY})
    assert not semaphore_annotations.announces("gcp", {PUB: KEY, END: "x"})
    assert not semaphore_annotations.announces("aws", {PUB.lower(): KEY, END: "x"})
    assert not semaphore_annotations.announces("aws", None)


def read(item: t.Mapping[str, t.Any], source: str = "pod_cidrs") -> dict[str, t.Any] | None:
    """What one node asks for, read as the whole mesh's plan does."""
    published = item.get("annotations")
    if not semaphore_annotations.announces("aws", published):
        return None
    claim = read_claim(
        "gcp", item["name"], published[PUB], published[END], peers.pod_cidrs_of(item, source), keepalive=KEEPALIVE
    )
    return claim.peer.to_json()


def test_a_peer() -> None:
    assert read(node()) == {
        "public_key": KEY,
        "endpoint": "10.22.22.27:51821",
        "allowed_ips": ["10.4.7.0/24"],
        "persistent_keepalive": 25,
        "preshared_key": None,
        "node": "a",
    }


@pytest.mark.parametrize(
    "endpoint, expected",
    [("", None), ("[fd00::31]:1", "[fd00::31]:1"), ("node-1.example.com:1", "node-1.example.com:1")],
)
def test_endpoints_of_peers(endpoint: str, expected: str | None) -> None:
    assert read(node(endpoint=endpoint))["endpoint"] == expected  # type: ignore[index]


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
def test_allowed_ips(fields: dict[str, t.Any], expected: list[str]) -> None:
    assert read(node(**fields))["allowed_ips"] == expected  # type: ignore[index]
    assert read(node(**fields), "pod_cidr")["allowed_ips"] == expected[:1]  # type: ignore[index]


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
def test_a_bad_node_is_refused_by_its_reason(bad: dict[str, t.Any], reason: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        read(bad)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "unreachable", [node(annotations={}), node(annotations=None), node(annotations={PUB: KEY}), {"name": "x"}]
)
def test_nodes_that_publish_nothing_for_us_are_no_peers_and_no_faults(unreachable: dict[str, t.Any]) -> None:
    assert read(unreachable) is None
