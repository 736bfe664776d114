# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nothing that Kilo refuses is written, what exists is kept, and what Kilo does not see is made anew."""

from __future__ import annotations

import base64
import binascii
import copy
import ipaddress
import re
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.validation import (
    names_of,
    refused_by_kilo,
)
from hypothesis import example, given, strategies as st
from kilo_fabric import G, empty, entry, gathered, key_of, live, nodes, planned, reasons

# --- what the agent's own validation takes, taken from its rules alone: none of our parsers is asked -------------------------------

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)


def an_address(text: t.Any) -> bool:
    try:
        return "%" not in text and bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def a_network(text: t.Any) -> bool:
    address, slash, length = text.partition("/")
    if not slash or not an_address(address) or not re.fullmatch(r"[0-9]+", length, re.ASCII):
        return False
    return int(length) <= (128 if ":" in address else 32)


def kilo_takes(spec: t.Mapping[str, t.Any]) -> bool:
    """The rules of a Peer's validation: networks, an endpoint with a host and a port, a keepalive, 32 bytes of key."""
    if not all(a_network(text) for text in spec["allowedIPs"]):
        return False
    endpoint = spec.get("endpoint")
    if endpoint is not None:
        host = endpoint["dnsOrIP"]
        if not host.get("dns") and not host.get("ip"):
            return False
        if host.get("dns") and not (
            len(host["dns"]) <= 253 and all(LABEL.fullmatch(part) for part in host["dns"].split("."))
        ):
            return False
        if host.get("ip") and not an_address(host["ip"]):
            return False
        if not 1 <= endpoint["port"] <= 65535:
            return False
    if (spec.get("persistentKeepalive") or 0) < 0:  # null is a number's zero for its decoder
        return False
    try:
        return len(base64.b64decode(spec["publicKey"].replace("\n", "").replace("\r", ""), validate=True)) == 32
    except (binascii.Error, ValueError):
        return False


def kernel_takes(spec: t.Mapping[str, t.Any]) -> bool:
    """Kilo makes a route of every allowed IP as it is written; the kernel refuses bits behind the prefix, and with them the pass."""
    return all(
        str(ipaddress.ip_network(text)) == text and not text.startswith("::ffff:") for text in spec["allowedIPs"]
    )


HOSTS = st.sampled_from(
    [
        "198.51.100.7",
        "[2001:db8::1]",
        "eu-1.example",
        "EU.example",
        "a_b.example",
        "256.1.1.1",
        "010.0.0.1",
        "[fe80::1%eth0]",
        "203.0.113.1/24",
        "a b",
        "-",
        "x-.example",
        "x." * 130 + "example",
        "127.0.0.1",
        "0.0.0.0",
        "{{ x }}",
        "1.2",
        "[node.example]",
        "a..b",
        ".a",
        "a.",
    ]
)
PODS = st.sampled_from(
    [
        "10.20.1.0/24",
        "10.20.1.7/24",
        "::ffff:10.20.1.0/120",
        "10.20.1.0/024",
        "10.20.1.0/33",
        "10.20.1.0",
        "junk",
        "10.020.1.0/24",
    ]
)
KEYS = st.one_of(
    st.just(key_of("eu-1")),
    st.just(key_of("eu-1") + "\n"),
    st.just(key_of("eu-1")[:-1]),
    st.just("AAAA"),
    st.just(""),
    st.text(max_size=50),
    st.binary(min_size=30, max_size=34).map(lambda raw: base64.b64encode(raw).decode()),
)


@given(
    HOSTS,
    st.sampled_from(["clustermesh-endpoint", "force-endpoint"]),
    st.sampled_from([0, 1, 51820, 65535, 65536]),
    PODS,
    KEYS,
    st.booleans(),
    st.sampled_from([0, 25, 65535]),
)
def test_whatever_a_node_claims_kilo_takes_what_is_written(
    host: str, place: str, port: int, pods: str, key: str, all_of_them: bool, keepalive: int
) -> None:
    found = nodes()
    found["eu"][0]["annotations"].update({G + place: "%s:%d" % (host, port), G + "key": key})
    found["eu"][0]["podCIDRs"] = [pods, "fd00:20:1::5/64"]
    mesh = [
        {
            "name": "m",
            "clusters": [
                entry("eu", additionalCIDRs=["172.20.5.0/16"], persistentKeepalive=keepalive),
                entry("us"),
                entry("ap"),
            ],
        }
    ]
    mesh[0]["clusters"][0]["podCIDRs"].append("fd00:20::/32")
    plan = planned(found, None, mesh, all_pod_cidrs=all_of_them)
    for writes in plan.writes.values():
        for write in writes:
            assert kilo_takes(write.manifest["spec"]) and kernel_takes(write.manifest["spec"])
            assert refused_by_kilo(write.manifest["spec"]) is None
    assert len([name for name in plan.writes["us"] if "--eu--eu-2" in name.name]) == 1


ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)
SPEC = st.fixed_dictionaries(
    {
        "publicKey": st.one_of(KEYS, ANY),
        "allowedIPs": st.one_of(st.lists(st.one_of(PODS, st.text(max_size=12)), max_size=3), ANY),
    },
    optional={
        "persistentKeepalive": st.one_of(st.integers(-2, 70000), ANY),
        "endpoint": st.one_of(
            st.fixed_dictionaries(
                {
                    "dnsOrIP": st.dictionaries(st.sampled_from(["ip", "dns"]), st.one_of(HOSTS, st.text(max_size=9))),
                    "port": st.integers(-1, 70000),
                }
            ),
            ANY,
        ),
    },
)


@given(SPEC)
@example({"publicKey": key_of("eu-1"), "allowedIPs": [], "persistentKeepalive": None})
def test_what_we_take_kilo_takes_too(spec: t.Mapping[str, t.Any]) -> None:
    if refused_by_kilo(spec) is None:
        assert kilo_takes(spec)


# --- what is not written --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotations, reason",
    [
        ({"key": "not a key"}, "key_malformed"),
        ({"clustermesh-endpoint": "256.1.1.1:51820"}, "bad_endpoint"),
        ({"force-endpoint": "Node.Example:51820"}, "bad_endpoint"),
        ({"clustermesh-endpoint": "127.0.0.1:51820"}, "endpoint_special"),
        ({"clustermesh-endpoint": "gone.example:51820"}, "endpoint_unresolved"),
        ({"clustermesh-endpoint": "local.example:51820"}, "endpoint_special"),
        ({"clustermesh-endpoint": "pods.example:51820"}, "endpoint_in_overlay"),
        ({"clustermesh-endpoint": "no-port"}, "NodeEndpointInvalid"),
    ],
)
def test_what_kilo_would_refuse_is_not_written_and_what_exists_is_kept(
    annotations: t.Mapping[str, str], reason: str
) -> None:
    names = {"gone.example": [], "local.example": ["127.0.0.1"], "pods.example": ["10.30.1.1"]}
    found = nodes()
    found["us"][1]["annotations"].update({G + name: value for name, value in annotations.items()})
    cold = planned(found, resolved=names)
    assert reasons(cold) == {("us/us-2", reason)}
    assert not [write for write in cold.writes["eu"] if write.name == "m--us--us-2"] and len(cold.plan.changes) == 10
    running = planned(found, live(planned(nodes())), resolved=names, max_deletes=-1)
    if reason != "endpoint_in_overlay":
        assert running.plan.changes == [] and {(kept.name, kept.reason) for kept in running.kept} == {
            ("m--us--us-2", reason)
        }


def test_a_peer_that_kilo_refuses_is_made_anew_since_its_changes_go_unseen() -> None:
    peers = live(planned(nodes()))
    peers["us"][0]["spec"] = dict(peers["us"][0]["spec"], allowedIPs=["10.20.1.0/24", "junk"])
    name = peers["us"][0]["metadata"]["name"]
    plan = planned(nodes(), peers)
    assert [(write.action, write.name, write.early) for write in plan.writes["us"]] == [
        ("delete", name, True),
        ("create", name, False),
    ]
    assert planned(nodes(), dict(peers, us=live(planned(nodes()))["us"])).plan.changes == []


def test_a_live_name_that_does_not_resolve_is_reported_whoever_wrote_it() -> None:
    theirs = {
        "metadata": {"name": "laptop", "labels": {}},
        "spec": {
            "publicKey": key_of("x"),
            "allowedIPs": ["10.99.0.1/32"],
            "endpoint": {"dnsOrIP": {"dns": "gone.example"}, "port": 1},
        },
    }
    plan = planned(nodes(), dict(empty(), us=[theirs]), resolved={"gone.example": []})
    assert [
        text for text in plan.plan.warnings if "gone.example" in text and "Peer laptop" in text and "cluster us" in text
    ]
    assert not planned(nodes(), dict(empty(), us=[theirs]), resolved={"gone.example": ["192.0.2.1"]}).plan.warnings


def test_names_are_looked_up_in_turn_so_that_one_cluster_does_not_use_up_the_time() -> None:
    found = nodes(3)
    for number, one in enumerate(found["eu"]):
        one["annotations"][G + "force-endpoint"] = "e%d.example:1" % number
    found["us"][2]["annotations"][G + "clustermesh-endpoint"] = "[u.example]:1"
    found["us"][1]["annotations"][G + "clustermesh-endpoint"] = "No.Name:1"
    peer = {"metadata": {"name": "p"}, "spec": {"endpoint": {"dnsOrIP": {"dns": "p.example"}, "port": 1}}}
    assert names_of(gathered(found, {}).nodes, {"ap": [peer, {"spec": 5}]}) == [
        "p.example",
        "e0.example",
        "u.example",
        "e1.example",
        "e2.example",
    ]


# --- Kilo renumbers -----------------------------------------------------------------------------------------------------------------

STEPS = st.permutations([1, 2, 3, 4])


@given(STEPS, st.integers(0, 4), st.booleans())
def test_nothing_is_deleted_while_kilo_renumbers(order: t.Sequence[int], reached: int, joined: bool) -> None:
    """A node joins with a name that comes first: every other moves up by one, in any order, and a run may come at any moment."""
    peers = live(planned(nodes(4)))
    found = nodes(4)
    for number in order[:reached]:
        found["eu"][number - 1]["annotations"][G + "wireguard-ip"] = "100.70.0.%d/24" % (number + 1)
    if joined:
        first = copy.deepcopy(found["eu"][3])
        first.update(
            name="eu-0", podCIDRs=["10.20.9.0/24"], addresses=[{"type": "ExternalIP", "address": "198.51.20.99"}]
        )
        first["annotations"].update({G + "wireguard-ip": "100.70.0.1/24", G + "key": key_of("eu-0")})
        found["eu"].insert(0, first)
    plan = planned(found, peers, max_deletes=-1)
    assert not [change for change in plan.plan.changes if change.action == "delete"]
    after = {peer["metadata"]["name"]: peer["spec"] for peer in peers["us"]}
    after.update({write.name: write.manifest["spec"] for write in plan.writes["us"]})
    routes = [route for spec in after.values() for route in spec["allowedIPs"]]
    assert len(routes) == len(set(routes))
    if any(kept.reason == "WGIPDuplicate" for kept in plan.kept):
        assert plan.bootstrapping and [text for text in plan.plan.warnings if "renumbers" in text]
    if reached == 4 and joined:
        assert not plan.kept and not plan.plan.refused and len(plan.writes["us"]) == 5


def test_a_duplicate_that_has_no_peer_gets_none_and_one_that_has_keeps_it() -> None:
    found = nodes()
    found["eu"][1]["annotations"][G + "wireguard-ip"] = "100.70.0.1/24"
    assert "m--eu--eu-2" not in {write.name for write in planned(found).writes["us"]}
    plan = planned(found, live(planned(nodes())))
    assert not plan.plan.changes and reasons(plan) == {("eu/eu-2", "WGIPDuplicate")}
    gone = planned(found, live(planned(nodes())), keep_transient=False)
    assert [(write.action, write.name) for write in gone.writes["us"]] == [("delete", "m--eu--eu-2")]
