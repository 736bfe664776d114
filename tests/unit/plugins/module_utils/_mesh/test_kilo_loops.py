# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No packet to an endpoint is sent into a tunnel: Kilo has one device, so no range of any Peer may hold any endpoint."""

from __future__ import annotations

import ipaddress
import json
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.plan import plan_clustermesh
from hypothesis import given, settings, strategies as st
from kilo_fabric import SETTINGS, G, empty, entry, gathered, key_of, live, nodes, planned, reasons

#: Addresses that are something to somebody: internal, external, pods, services, WireGuard, host ranges, nobody's.
PLACES = ["192.168.%d.%d" % (a, b) for a in (20, 30, 40) for b in (1, 2)] + [
    "198.51.20.1",
    "198.51.30.2",
    "10.20.1.9",
    "10.130.0.1",
    "100.70.0.1",
    "172.20.0.9",
    "203.0.113.80",
    "::ffff:192.168.20.1",
    "2001:db8::7",
]
TEXT = st.sampled_from(PLACES).map(lambda host: f"[{host}]:51820" if ":" in host else f"{host}:51820")
NAMES = {"gate.example": ["192.168.20.1"], "far.example": ["203.0.113.80", "172.20.0.9"]}
NODE = st.fixed_dictionaries(
    {},
    optional={
        "clustermesh-endpoint": st.one_of(TEXT, st.sampled_from(sorted(NAMES)).map(lambda name: name + ":51820")),
        "force-endpoint": TEXT,
        "internal-ip": st.sampled_from(PLACES).map(lambda host: host + ("/64" if ":" in host else "/24")),
        "external": st.sampled_from(PLACES),
        "internal": st.sampled_from(PLACES),
        "learnt": st.sampled_from(PLACES),
    },
)


def fabric(drawn: t.Mapping[tuple[str, int], t.Mapping[str, str]]) -> dict[str, list[dict[str, t.Any]]]:
    found = nodes()
    learnt = {}
    for (cluster, index), choice in drawn.items():
        one = found[cluster][index]
        for name in ("clustermesh-endpoint", "force-endpoint", "internal-ip"):
            if name in choice:
                one["annotations"][G + name] = choice[name]
        one["addresses"][0]["address"] = choice.get("internal", one["addresses"][0]["address"])
        one["addresses"][1]["address"] = choice.get("external", one["addresses"][1]["address"])
        if "learnt" in choice:
            learnt[key_of(one["name"])] = {"IP": choice["learnt"], "Port": 40112}
    for listed in found.values():
        listed[0]["annotations"][G + "discovered-endpoints"] = json.dumps(learnt)
    return found


ALL = [(cluster, index) for cluster in ("eu", "us", "ap") for index in (0, 1)]
MESH = [
    {
        "name": "m",
        "clusters": [entry("eu", additionalCIDRs=["172.20.0.0/16", "192.168.20.0/24"]), entry("us"), entry("ap")],
    }
]


def loops(peers: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]]) -> list[tuple[str, str, str]]:
    """(target, range, endpoint) of every endpoint inside a range of its target."""
    found = []
    for target, listed in peers.items():
        hosts = []
        for peer in listed:
            host = (peer["spec"].get("endpoint") or {"dnsOrIP": {}})["dnsOrIP"]
            hosts += [host["ip"]] if "ip" in host else NAMES.get(host.get("dns", ""), [])
        for text in hosts:
            address = ipaddress.ip_address(text)
            address = getattr(address, "ipv4_mapped", None) or address
            for peer in listed:
                found += [(target, r, text) for r in peer["spec"]["allowedIPs"] if address in ipaddress.ip_network(r)]
    return found


@settings(max_examples=100, deadline=None)
@given(
    st.fixed_dictionaries(dict.fromkeys(ALL, NODE)),
    st.sampled_from(["before_external_ip", "before_annotations", "never"]),
    st.sampled_from(["always", "declared"]),
    st.booleans(),
)
def test_no_endpoint_is_in_a_range_whatever_its_source(drawn: t.Any, place: str, routes: str, running: bool) -> None:
    options = SETTINGS._replace(learnt_endpoints=place, internal_ip_routes=routes, resolved=NAMES, max_deletes=-1)
    before = live(planned(nodes(), None, MESH)) if running else empty()
    plan = plan_clustermesh(MESH, gathered(fabric(drawn), before, {}), options)
    after = {name: {peer["metadata"]["name"]: peer for peer in listed} for name, listed in before.items()}
    for name, writes in plan.writes.items():
        for write in writes:
            if write.manifest is None:
                after[name].pop(write.name)
            else:
                after[name][write.name] = write.manifest
    assert loops({name: list(rows.values()) for name, rows in after.items()}) == []


def routes_of(plan: t.Any, target: str, name: str) -> list[str]:
    return next(write.manifest["spec"]["allowedIPs"] for write in plan.writes[target] if write.name == name)


def test_a_learnt_endpoint_that_is_the_internal_address_takes_its_route_away_and_another_gives_it_back() -> None:
    found = fabric({("us", 0): {"learnt": "192.168.30.1"}})
    assert routes_of(planned(found), "eu", "m--us--us-1") == ["10.30.1.0/24", "100.80.0.1/32", "10.130.0.0/16"]
    found = fabric({("us", 0): {"external": "192.168.30.1", "learnt": "203.0.113.80"}})
    assert "192.168.30.1/32" in routes_of(planned(found), "eu", "m--us--us-1")
    assert "192.168.30.1/32" in routes_of(planned(found, own_endpoint_routes=True), "eu", "m--us--us-1")


def test_a_range_of_the_whole_cluster_makes_way_for_its_nodes_endpoints_and_reports_it() -> None:
    found = fabric({("eu", 1): {"clustermesh-endpoint": "192.168.20.2:51820"}})
    plan = planned(found, None, MESH)
    routes = routes_of(plan, "us", "m--eu--eu-1")
    assert "172.20.0.0/16" in routes and "192.168.20.0/24" not in routes
    assert [text for text in plan.plan.warnings if "192.168.20.0/24" in text]


def test_an_internal_address_that_is_another_nodes_endpoint_is_not_announced() -> None:
    """Else one node takes another off the mesh by calling its endpoint an address of its own."""
    found = nodes()
    found["ap"][0]["addresses"][0]["address"] = "198.51.20.1"
    for peers in (None, live(planned(nodes()))):
        plan = planned(found, peers)
        assert reasons(plan) == {("ap/ap-1", "claimed_twice")}
        assert "198.51.20.1/32" not in routes_of(plan, "us", "m--ap--ap-1")
    assert not [
        write for write in planned(found, live(planned(nodes()))).writes["us"] if write.name.startswith("m--eu")
    ]


def test_an_endpoint_at_an_address_that_another_node_announces_already_is_refused() -> None:
    peers = live(planned(nodes()))
    found = nodes()
    found["ap"][0]["annotations"][G + "clustermesh-endpoint"] = "192.168.20.1:51820"
    plan = planned(found, peers)
    assert reasons(plan) == {("ap/ap-1", "endpoint_in_overlay")}
    assert not [write for write in plan.writes["us"] if write.name.startswith("m--eu")]


def test_kilos_internal_address_is_announced_in_place_of_the_nodes() -> None:
    found = fabric({("us", 0): {"internal-ip": "203.0.113.80/24"}})
    found["us"][0]["addresses"].append({"type": "InternalIP", "address": "2001:db8::7"})
    assert routes_of(planned(found), "eu", "m--us--us-1")[2:4] == ["203.0.113.80/32", "2001:db8::7/128"]
    found["us"][0]["annotations"][G + "internal-ip"] = ""
    assert "192.168.30.1/32" in routes_of(planned(found), "eu", "m--us--us-1")
