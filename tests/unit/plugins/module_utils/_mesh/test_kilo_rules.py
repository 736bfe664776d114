# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kilo's rules as tables: endpoints, addresses, node validation, Peers, meshes; and properties of the parsers."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo import (
    endpoints as kilo_endpoints,
    meshes as kilo_meshes,
    nodes as kilo_nodes,
    peers as kilo_peers,
    status as kilo_status,
    values as kilo_values,
)
from ansible_collections.multicluster.network.plugins.module_utils._values import addresses as values
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

G = "kilo.squat.ai/"


def node(name: str = "n1", pod: t.Any = "10.0.1.0/24", addresses: t.Any = (), **annotations: t.Any) -> kilo_values.Node:
    given_annotations = {G + key.replace("_", "-"): value for key, value in annotations.items()}
    found = [{"type": kind, "address": text} for kind, text in addresses]
    return kilo_values.parse_node(
        {"name": name, "annotations": given_annotations, "podCIDRs": [pod] if pod else [], "addresses": found}
    )


def annotated(one: kilo_values.Node, **annotations: str) -> kilo_values.Node:
    return one._replace(
        annotations=dict(one.annotations, **{G + key.replace("_", "-"): value for key, value in annotations.items()})
    )


def reason(function: t.Callable[..., t.Any], *arguments: t.Any) -> str:
    with pytest.raises(ValueRefused) as caught:
        function(*arguments)
    return caught.value.reason


# --- endpoints ------------------------------------------------------------------------------------------------------

ACCEPTED = [
    "203.0.113.1:51820",
    "node.example.com:51820",
    "gateway:1",
    "[2001:db8::1]:51820",
    "[::]:51820",
    "[node.example.com]:51820",
    "[203.0.113.1]:51820",
    "[fe80::1%eth0]:51820",
    "host:00051820",
    "203.0.113.1/24:51820",
    "256.1.1.1:51820",
    "h:65535",
] + ["a b:1", " x:1", "h:" + "0" * 400 + "1"]
REFUSED = [
    "203.0.113.1",
    "203.0.113.1:",
    "203.0.113.1:0",
    "203.0.113.1:00",
    "203.0.113.1:65536",
    ":51820",
    "[]:51820",
    ":",
    "2001:db8::1:51820",
    "2001:db8::1",
    "::51820",
    "[2001:db8::1]",
    "[2001:db8::1]51820",
    "[2001:db8::1]:",
    "[2001:db8::1]:1:2",
    "[[2001:db8::1]]:51820",
    "[2001:db8::1:51820",
    "[a]b:1",
    "h]:1",
    "h[:1",
    "[h]:[1]",
    "x:+1",
    "x:5_1",
    "x:0x1",
    "x:http",
    "http://203.0.113.1:51820",
    "a:1,b:2",
    "-",
] + [" ", "", "x: 1", "x:1 ", "x:1\n", "x:\u0665\u0661", None, 7, "h:" + "9" * 5000]


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted_endpoints(text: str) -> None:
    resolved = kilo_endpoints.resolve_endpoint(node(clustermesh_endpoint=text))
    assert resolved == (text, "clustermesh-endpoint")
    endpoint = kilo_endpoints.parse_endpoint(text)
    assert list(endpoint["dnsOrIP"].values()) == [text.rpartition(":")[0].strip("[]")]


@pytest.mark.parametrize("text", REFUSED)
def test_refused_endpoints(text: t.Any) -> None:
    assert reason(kilo_endpoints.split_host_port, text) == "NodeEndpointInvalid"


@given(st.text(alphabet="[]:.0123456789abf%/ \u0665", max_size=40))
def test_split_never_crashes_and_agrees_with_its_output(text: str) -> None:
    try:
        host, port = kilo_endpoints.split_host_port(text)
    except ValueRefused as error:
        assert error.reason == "NodeEndpointInvalid"
    else:
        assert host and 1 <= port <= 65535 and text.startswith((host, "[" + host + "]"))
        assert kilo_endpoints.parse_endpoint(text)["port"] == port


# the published guide's examples A to D, to the letter
GUIDE = (
    (dict(wireguard_ip="10.4.0.5/32", clustermesh_endpoint="203.0.113.1:51820"), (), 51820, "203.0.113.1:51820"),
    (dict(wireguard_ip="10.4.0.6/32", force_endpoint="198.51.100.1:51820"), (), 51820, "198.51.100.1:51820"),
    (dict(wireguard_ip="10.4.0.7/32"), [("ExternalIP", "203.0.113.5")], 51821, "203.0.113.5:51821"),
    (
        dict(wireguard_ip="10.4.0.8/32", clustermesh_endpoint="203.0.113.10:51820", force_endpoint="not-valid"),
        (),
        51820,
        "203.0.113.10:51820",
    ),
)


@pytest.mark.parametrize("annotations, addresses, port, expected", GUIDE)
def test_examples_of_the_guide(annotations: t.Any, addresses: t.Any, port: int, expected: str) -> None:
    assert kilo_endpoints.resolve_endpoint(node(addresses=addresses, **annotations), port).text == expected


def test_lazy_and_strict() -> None:
    one = node(
        addresses=[("ExternalIP", "203.0.113.5")], clustermesh_endpoint="203.0.113.10:51820", force_endpoint="not-valid"
    )
    assert kilo_endpoints.resolve_endpoint(one).source == "clustermesh-endpoint"
    for value in (None, ""):
        one = node(addresses=[("ExternalIP", "203.0.113.5")], clustermesh_endpoint=value, force_endpoint="not-valid")
        assert reason(kilo_endpoints.resolve_endpoint, one) == "NodeEndpointInvalid"
    one = annotated(one, force_endpoint="")
    assert kilo_endpoints.resolve_endpoint(one, 51999).text == "203.0.113.5:51999"


@pytest.mark.parametrize(
    "addresses, port, expected",
    [
        ([("ExternalIP", "2001:db8:5::1")], 51999, "[2001:db8:5::1]:51999"),
        ([("ExternalIP", "2001:db8:5::1"), ("ExternalIP", "198.51.100.3")], 0, "198.51.100.3:51820"),
        (
            [("ExternalIP", "junk"), ("ExternalIP", "2001:db8::2"), ("ExternalIP", "2001:db8::1")],
            None,
            "[2001:db8::2]:51820",
        ),
        ([("ExternalIP", "2001:db8::2"), ("ExternalIP", "::ffff:203.0.113.5")], 1, "[::ffff:203.0.113.5]:1"),
        ([("InternalIP", "10.1.1.1"), ("Hostname", "h"), ("ExternalDNS", "x.example")], 1, None),
        ([("ExternalIP", "203.0.113.05"), ("ExternalIP", "203.0.113.5/32")], 1, None),
    ],
)
def test_external_ip(addresses: t.Any, port: t.Any, expected: str | None) -> None:
    if expected is None:
        assert reason(kilo_endpoints.resolve_endpoint, node(addresses=addresses), port) == "NodeNoEndpoint"
    else:
        assert kilo_endpoints.resolve_endpoint(node(addresses=addresses), port) == (expected, "external-ip")


@pytest.mark.parametrize(
    "host, doubt",
    [
        ("203.0.113.1", None),
        ("node.example.com", None),
        ("gateway", None),
        ("127.0.0.1", "endpoint_special"),
        ("0.0.0.0", "endpoint_special"),
        ("224.0.0.1", "endpoint_special"),
        ("169.254.1.1", "endpoint_special"),
        ("256.1.1.1", "bad_endpoint"),
        ("010.0.0.1", "bad_endpoint"),
        ("a b", "bad_endpoint"),
        ("Node.example", "bad_endpoint"),
        ("a_b", "bad_endpoint"),
        ("203.0.113.1/24", "bad_endpoint"),
    ],
)
def test_doubtful_hosts(host: str, doubt: str | None) -> None:
    found = kilo_endpoints.endpoint_doubt(kilo_endpoints.parse_endpoint(host + ":1"))
    assert (found[0] if found else None) == doubt


def test_learnt_endpoints_are_tolerant_entry_by_entry() -> None:
    text = (
        '{"a": {"IP": "203.0.113.7", "Port": 1, "Zone": ""}, "b": {"IP": "203.0.113.8", "Port": "1"}, "c": null, "d": 5,'
        ' "e": {"IP": "::ffff:127.0.0.1", "Port": 1}, "f": {"IP": "fe80::1", "Port": 1}, "g": {"IP": "2001:db8::1", "Port": 2},'
        ' "h": {"IP": "203.0.113.9", "Port": 70000}, "i": {"IP": "203.0.113.9", "Port": true}, "j": {"IP": "", "Port": 1}}'
    )
    nodes = [
        node("a", discovered_endpoints="[1]"),
        node("b", discovered_endpoints="{"),
        node("c", discovered_endpoints=text),
        node(
            "d", discovered_endpoints='{"a": {"IP": "203.0.113.1", "Port": 9}, "e": {"IP": "203.0.113.2", "Port": 9}}'
        ),
    ]
    assert kilo_endpoints.collect_discovered(nodes) == {
        "a": "203.0.113.7:1",
        "g": "[2001:db8::1]:2",
        "e": "203.0.113.2:9",
    }


@given(st.text(max_size=60))
def test_collecting_never_crashes(text: str) -> None:
    assert isinstance(kilo_endpoints.collect_discovered([node(discovered_endpoints=text)]), dict)


# --- addresses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, host, network, route",
    [
        ("10.0.1.5/16", "10.0.1.5", "10.0.0.0/16", "10.0.1.5/32"),
        ("10.0.1.5/08", "10.0.1.5", "10.0.0.0/8", "10.0.1.5/32"),
        ("::ffff:10.4.0.1/128", "10.4.0.1", "10.4.0.1/32", "10.4.0.1/32"),
        ("::ffff:10.0.0.0/104", "10.0.0.0", "10.0.0.0/8", "10.0.0.0/32"),
        ("FD00::1/64", "fd00::1", "fd00::/64", "fd00::1/128"),
        ("0.0.0.0/0", "0.0.0.0", "0.0.0.0/0", "0.0.0.0/32"),
    ],
)
def test_cidrs(text: str, host: str, network: str, route: str) -> None:
    cidr = kilo_values.parse_cidr(text)
    assert (str(cidr.host), str(cidr.network), cidr.host_route) == (host, network, route)


@pytest.mark.parametrize(
    "text",
    [
        "10.4.0.1",
        "10.4.0.1/255.255.0.0",
        "10.4.0.1/0.0.255.255",
        "fe80::1%eth0/64",
        "10.4.0/24",
        "10.4.0.1/33",
        "10.4.0.1/+1",
        "10.4.0.1/ 1",
        "10.4.0.1//1",
        " 10.4.0.1/1",
        "010.4.0.1/1",
        "10.4.0.1/\u0661",
        "",
        "/",
        None,
        5,
        "::/129",
        "1" * 200 + "/1",
    ],
)
def test_no_cidrs(text: t.Any) -> None:
    assert reason(kilo_values.parse_cidr, text) == "invalid-cidr" and kilo_values.cidr_or_none(text) is None


@given(st.text(alphabet="0123456789abcdef:./%+ ", max_size=45))
def test_cidr_parser_is_total(text: str) -> None:
    found = kilo_values.cidr_or_none(text)
    assert found is None or kilo_values.cidr_contains(found.network, found.host)


@given(st.ip_addresses(), st.integers(0, 128), st.ip_addresses(), st.integers(0, 128))
def test_containment_means_overlap(first: t.Any, one: int, second: t.Any, two: int) -> None:
    a = kilo_values.parse_cidr(f"{first}/{min(one, first.max_prefixlen)}").network
    b = kilo_values.parse_cidr(f"{second}/{min(two, second.max_prefixlen)}").network
    assert values.overlaps(a, b) == values.overlaps(b, a)
    assert values.overlaps(a, b) or not kilo_values.cidr_contains(a, b)


# --- nodes ----------------------------------------------------------------------------------------------------------

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "address", "kilo.squat.ai/key", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["name", "annotations", "labels", "podCIDRs", "addresses"]), JUNK), st.booleans()
)
def test_a_node_of_whatever_types_is_a_node(given_node: dict[str, t.Any], flat_form: bool) -> None:
    parts = {"metadata": given_node, "spec": given_node, "status": given_node}
    found = kilo_values.parse_node(dict({"name": "n"}, **given_node) if flat_form else parts)
    assert isinstance(found.name, str) and isinstance(found.pod_cidrs, tuple)
    assert all(isinstance(value, str) for value in (*found.annotations.values(), *found.labels.values()))
    assert all(kilo_values.parse_ip(one.text) == one.address for one in found.addresses)


@pytest.mark.parametrize("junk", [None, 5, "x", [], [{}]])
def test_what_is_no_node(junk: t.Any) -> None:
    assert reason(kilo_values.parse_node, junk) == "name_invalid"


TYPED = {"name": "c", "podCIDRs": ["10.0.0.0/16"], "wireguardCIDR": "10.4.0.0/24"}
FLAT = {"name": "c", "allowedNetworks": ["10.0.0.0/16", "10.4.0.0/24", "junk"]}
GOOD = dict(wireguard_ip="10.4.0.1/32", key="k", force_endpoint="h:1")


@pytest.mark.parametrize("entry", [TYPED, FLAT])
@pytest.mark.parametrize(
    "change, reason",
    [
        ({}, None),
        ({"pod": None}, "NodeNoPodCIDR"),
        ({"pod": "junk"}, "NodeNoPodCIDR"),
        ({"pod": 5}, "NodeNoPodCIDR"),
        ({"pod": "10.0.0.0/15"}, "NodePodCIDROutOfRange"),
        ({"wireguard_ip": None}, "NodeNoWireguardIP"),
        ({"wireguard_ip": ""}, "NodeNoWireguardIP"),
        ({"wireguard_ip": "10.4.0.1"}, "WGIPInvalid"),
        ({"wireguard_ip": "10.5.0.1/8"}, "WGIPOutOfRange"),
        ({"wireguard_ip": "10.4.0.1/16"}, None),
        ({"wireguard_ip": "10.4.0.255/24"}, None),
        ({"key": ""}, "NodeNoPublicKey"),
        ({"key": None}, "NodeNoPublicKey"),
        ({"force_endpoint": "oops"}, "NodeEndpointInvalid"),
        ({"force_endpoint": ""}, "NodeNoEndpoint"),
    ],
)
def test_reasons(entry: t.Any, change: t.Any, reason: str | None) -> None:
    one = node(**dict(GOOD, **change))
    found = kilo_nodes.filter_nodes([one], entry)
    assert found.skipped == ({"n1": reason} if reason else {})
    assert found.bootstrapping == (reason in kilo_nodes.TRANSIENT)
    if reason == "NodeNoEndpoint":
        assert kilo_nodes.filter_nodes([one], entry, "roam").valid == [one]


def test_roles_of_ranges() -> None:
    inside_pods = node(wireguard_ip="10.0.9.9/32", key="k", force_endpoint="h:1")
    assert kilo_nodes.filter_nodes([inside_pods], FLAT).valid
    assert kilo_nodes.filter_nodes([inside_pods], TYPED).skipped == {"n1": "WGIPOutOfRange"}


def test_duplicates_and_live_holders() -> None:
    nodes = [
        node("a", wireguard_ip="100.70.0.5/24"),
        node("b", wireguard_ip="::ffff:100.70.0.5/128", key="k", force_endpoint="h:1"),
    ]
    entry = dict(TYPED, wireguardCIDR="100.70.0.0/24")
    found = kilo_nodes.filter_nodes(nodes, entry)
    assert found.skipped == {"a": "NodeNoPublicKey", "b": "WGIPDuplicate"} and found.bootstrapping
    assert kilo_nodes.find_duplicates(nodes, {"100.70.0.5": "b"}) == {"a": "WGIPDuplicate"}
    nodes[1] = node("b")
    assert kilo_nodes.find_duplicates(nodes, {"100.70.0.5": "b"}) == {"a": "WGIPDuplicate"}
    nodes[1] = node("b", wireguard_ip="100.70.0.6/24")
    assert kilo_nodes.find_duplicates(nodes, {"100.70.0.5": "b", "100.70.0.6": "gone"}) == {}
    bad = [
        node("a", wireguard_ip="x"),
        node("b", wireguard_ip="x"),
        node("c", wireguard_ip="10.4.0.1"),
        node("d", wireguard_ip="10.4.0.1/32"),
    ]
    assert kilo_nodes.find_duplicates(bad) == {"b": "WGIPDuplicate", "d": "WGIPDuplicate"}


# --- Peers ----------------------------------------------------------------------------------------------------------


def test_worked_example() -> None:
    entry = {
        "name": "eu",
        "allowedNetworks": ["10.20.0.0/16", "100.70.0.0/24", "10.120.0.0/16"],
        "persistentKeepalive": 0,
    }
    nodes = [
        node(
            "eu-1",
            "10.20.1.0/24",
            [("InternalIP", "192.168.7.11"), ("ExternalIP", "198.51.100.11")],
            wireguard_ip="100.70.0.1/24",
            key="a",
        ),
        node(
            "eu-2",
            "10.20.2.0/24",
            [("InternalIP", "192.168.7.12")],
            wireguard_ip="100.70.0.2/32",
            key="b",
            clustermesh_endpoint="eu-2.example.net:4500",
        ),
    ]
    first, second = kilo_peers.desired_peers(
        "prod", entry, nodes, kilo_peers.mesh_keepalive([0, 25]), kilo_peers.PeerOptions()
    )
    assert first.spec == {
        "publicKey": "a",
        "allowedIPs": ["10.20.1.0/24", "100.70.0.1/32", "192.168.7.11/32", "10.120.0.0/16"],
        "endpoint": {"dnsOrIP": {"ip": "198.51.100.11"}, "port": 51820},
        "persistentKeepalive": 25,
    }
    assert second.name == "prod--eu--eu-2"
    assert second.spec["allowedIPs"] == ["10.20.2.0/24", "100.70.0.2/32", "192.168.7.12/32"]
    assert second.spec["endpoint"] == {"dnsOrIP": {"dns": "eu-2.example.net"}, "port": 4500}


def test_knobs() -> None:
    given_annotations = dict(GOOD)
    given_annotations["force_endpoint"] = "203.0.113.9:1"
    one = node(addresses=[("InternalIP", "203.0.113.9"), ("InternalIP", "192.168.1.1")], **given_annotations)
    spec = kilo_peers.build_peer("m", TYPED, one, options=kilo_peers.PeerOptions()).spec
    assert spec["allowedIPs"] == ["10.0.1.0/24", "10.4.0.1/32", "192.168.1.1/32"]  # no route to its own endpoint
    spec = kilo_peers.build_peer("m", TYPED, one, options=kilo_peers.ORIGINAL).spec
    assert "203.0.113.9/32" in spec["allowedIPs"]
    one = annotated(one, force_internal_ip="-")
    assert kilo_peers.build_peer("m", TYPED, one, options=kilo_peers.PeerOptions()).spec["allowedIPs"][2:] == []
    one = annotated(one, force_endpoint="")._replace(pod_cidrs=(*one.pod_cidrs, "fd00::/64"))
    spec = kilo_peers.build_peer(
        "m", TYPED, one, options=kilo_peers.PeerOptions(policy="roam", all_pod_cidrs=True)
    ).spec
    assert (
        spec["persistentKeepalive"] == 25
        and "endpoint" not in spec
        and spec["allowedIPs"][:2] == ["10.0.1.0/24", "fd00::/64"]
    )


def test_anchor_is_sticky_and_prefers_usable_nodes() -> None:
    nodes = [node("a", wireguard_ip="10.4.0.1/32", key="k"), node("b", **GOOD), node("c", **GOOD)]
    assert kilo_peers.choose_anchor(nodes) == "b"
    assert kilo_peers.choose_anchor(nodes, ready={"c"}) == "c"
    assert kilo_peers.choose_anchor(nodes, "a", {"c"}) == "a"
    assert kilo_peers.choose_anchor(nodes, "gone") == "b" and kilo_peers.choose_anchor([]) is None


def test_long_names() -> None:
    name = kilo_peers.peer_name("a" * 100, "b" * 63, "c" * 100)
    assert len(name) == 253 and name.startswith("a" * 100 + "--" + "b" * 63 + "--" + "c" * 69 + "-")


@given(st.text(max_size=120), st.text(max_size=120), st.text(max_size=120))
def test_names_are_names(mesh: str, cluster: str, name: str) -> None:
    found = kilo_peers.peer_name(mesh, cluster, name)
    assert len(found) <= 253 and found == found.strip("-.") and found.isascii() and found == found.lower()


# --- meshes ---------------------------------------------------------------------------------------------------------


def flat(name: str, *ranges: str) -> dict[str, t.Any]:
    return {"name": name, "allowedNetworks": list(ranges)}


def test_overlaps_in_the_operators_words() -> None:
    meshes = [
        {"name": "m1", "clusters": [flat("a", "10.0.0.0/16"), flat("b", "10.1.0.0/16")]},
        {"name": "m2", "clusters": [flat("c", "10.0.128.0/17"), flat("b", "10.1.0.0/24")]},
    ]
    found = kilo_meshes.validate_meshes(meshes)
    assert [finding.message for finding in found] == [
        'CIDR overlap between mesh "m1" (cluster "a", 10.0.0.0/16) and mesh "m2" (cluster "c", 10.0.128.0/17)'
    ]
    for mesh in meshes:
        mesh["clusters"][0]["name"] = "hub"
    assert kilo_meshes.validate_meshes(meshes) == []
    meshes[0]["clusters"].append(flat("x", "10.1.0.0/33", "10.1.1.0/24"))
    assert [finding.reason for finding in kilo_meshes.validate_meshes(meshes)] == ["invalid-cidr", "overlap"]


@pytest.mark.parametrize(
    "mesh, part",
    [
        ({"name": "x" * 64, "clusters": [flat("a", "10.0.0.0/16"), flat("b", "10.1.0.0/16")]}, "label value"),
        ({"name": "m", "clusters": [flat("a", "10.0.0.0/16")]}, "two clusters"),
        ({"name": "m", "clusters": [flat("a", "10.0.0.0/16"), flat("a", "10.1.0.0/16")]}, "twice"),
        ({"name": "m", "clusters": [flat("A", "10.0.0.0/16"), flat("b", "10.1.0.0/16")]}, "DNS label"),
        ({"name": "m", "clusters": [flat("a--x", "10.0.0.0/16"), flat("b", "10.1.0.0/16")]}, "ambiguous"),
        ({"name": "m", "clusters": [{"name": "a"}, flat("b", "10.1.0.0/16")]}, "give podCIDRs"),
        ({"name": "m", "clusters": [dict(TYPED, allowedNetworks=["10.9.0.0/16"]), flat("b", "10.1.0.0/16")]}, "either"),
        ({"name": "m", "clusters": [dict(TYPED, wireguardPort=70000), flat("b", "10.1.0.0/16")]}, "wireguardPort"),
        (
            {"name": "m", "clusters": [dict(TYPED, local=True), dict(flat("b", "10.1.0.0/16"), local=True)]},
            "more than one",
        ),
        ({"name": "m", "clusters": [dict(TYPED, podCidrs=[]), flat("b", "10.1.0.0/16")]}, "no field"),
    ],
)
def test_definitions(mesh: t.Any, part: str) -> None:
    assert any(part in finding.message for finding in kilo_meshes.check_definition(mesh))


# --- difference and status ------------------------------------------------------------------------------------------


def peer(name: str, key: str, *allowed: str, mesh: str | None = "m1", source: str = "a") -> kilo_peers.Peer:
    labels = kilo_peers.peer_labels(mesh, source) if mesh else {}
    return kilo_peers.Peer(name, labels, {"publicKey": key, "allowedIPs": list(allowed)})


def test_diff_example() -> None:
    existing = [peer("m1--a--n1", "K1", "x", "y"), peer("m1--a--gone", "K9", "z"), peer("laptop", "K5", "q", mesh=None)]
    desired = [peer("m1--a--n1", "K1", "y", "x"), peer("m1--a--n2", "K2", "w")]
    diff = kilo_peers.diff_peers("m1", "a", kilo_peers.Existing(existing), desired)
    assert [item.name for item in diff.create] == ["m1--a--n2"] and not diff.update and diff.delete == ["m1--a--gone"]


def test_keys_that_others_hold() -> None:
    existing = [peer("laptop", "K1", "q", mesh=None), peer("m1--a--old", "K2", "r")]
    desired = [peer("m1--a--n1", "K1", "p"), peer("m1--a--new", "K2", "r")]
    owned = kilo_peers.diff_peers("m1", "a", kilo_peers.Existing(existing), desired)
    assert owned.held == {"m1--a--n1": "laptop"} and not owned.update and owned.delete == ["m1--a--old"]
    assert [item.name for item in owned.create] == ["m1--a--new"]  # a renamed node is there in the same run


def test_delays() -> None:
    states = ("done", "bootstrap", "synced")
    assert [kilo_status.next_delay(state) for state in states] == [0, 30, 300] and kilo_status.next_delay(
        "synced", True
    ) == 0


def test_status_is_written_only_when_it_differs() -> None:
    outcome = kilo_status.Outcome(None, [("a", 2, 1)], [("a/n", "NodeNoEndpoint")], {})
    status = kilo_status.desired_status({}, outcome, 3, "T1")
    assert kilo_status.desired_status(status, outcome, 3, "T2") == status
    assert status["clusters"] == [{"name": "a", "registeredPeers": 2, "skippedNodes": 1}]
    bad = kilo_status.desired_status(status, kilo_status.Outcome("overlap text", [], [], {}), 4, "T3")
    by_type = {item["type"]: item for item in bad["conditions"]}
    assert by_type["NetworksOverlap"] == {
        "type": "NetworksOverlap",
        "status": "True",
        "reason": "CIDROverlap",
        "message": "overlap text",
        "observedGeneration": 4,
        "lastTransitionTime": "T3",
    }
    assert (
        by_type["Ready"]["message"] == "CIDR overlap detected across meshes" and bad["clusters"] == status["clusters"]
    )
    degraded = kilo_status.conditions(kilo_status.Outcome(None, [], [], {"b": "timed_out"}))
    assert [(item["reason"], item["status"]) for item in degraded if item["type"] == "Ready"] == [("Degraded", "False")]
    many = kilo_status.Outcome(None, [], [("c/%d" % i, "NodeNoPublicKey") for i in range(5000)], {})
    assert all(len(item["message"].encode()) <= 32768 for item in kilo_status.conditions(many))
    assert kilo_status.desired_status({"conditions": 5}, outcome, 1, "T")["conditions"]


@pytest.mark.parametrize(
    "arguments, state, writes",
    [
        (dict(exists=False), "done", []),
        (dict(exists=True, deleting=True), "done", []),
        (dict(exists=True), "done", ["finalizer"]),
        (dict(exists=True, overlap=True), "done", ["finalizer"]),
        (dict(exists=True, finalizers=[kilo_values.FINALIZER]), None, []),
        (dict(exists=True, finalizers=[kilo_values.FINALIZER], overlap=True), "done", ["status"]),
        (dict(exists=True, finalizers=[kilo_values.FINALIZER], deleting=True), "done", ["finalizer"]),
    ],
)
def test_object_steps(arguments: t.Any, state: str | None, writes: list[str]) -> None:
    assert kilo_status.object_steps(**arguments)[:2] == (state, writes)
