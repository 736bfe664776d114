# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes, clusters and plans only make claims: whatever is in the place of whatever, there is a report, on plain lines, and no exception."""

from __future__ import annotations

import copy
import json
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._trace import (
    node_results,
    observed,
    pairs,
    policies,
    report,
    resolve,
)
from ansible_collections.multicluster.network.plugins.module_utils._trace.ends import parse_question
from ansible_collections.multicluster.network.plugins.module_utils._trace.facts import (
    parse_devices,
    parse_endpoint_key,
    parse_node,
)
from ansible_collections.multicluster.network.plugins.module_utils._trace.names import Names
from ansible_collections.multicluster.network.plugins.module_utils._trace.objects import parse_cluster
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st
from trace_worlds import World

#: What is where something else should.
STRANGE = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            False,
            0,
            -1,
            1 << 70,
            1.5,
            "",
            "x" * 300,
            "10.0.0.1",
            "10.0.0.0/33",
            "fd00::/129",
            "\x1b[2J\n",
            "<script>",
            "{{ x }}",
            "\u0660.0.0.1",
            [],
            {},
            [[]],
            [None],
            {"a": None},
            [{}],
            {"": ""},
        ]
    ),
    st.text(max_size=12),
    st.integers(),
)


def places(value: t.Any, path: tuple[t.Any, ...] = ()) -> t.Iterator[tuple[t.Any, ...]]:
    """Every place inside a value."""
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in rows:
        yield (*path, key)
        yield from places(inner, (*path, key))


def put(value: t.Any, path: t.Sequence[t.Any], what: t.Any) -> None:
    for key in path[:-1]:
        if not isinstance(value, (dict, list)):
            return
        try:
            value = value[key]
        except (LookupError, TypeError):
            return
    if isinstance(value, dict) or (isinstance(value, list) and isinstance(path[-1], int) and path[-1] < len(value)):
        value[path[-1]] = what


def spoiled(draw: t.Any, value: t.Any, most: int = 4) -> t.Any:
    """A copy with strange things in some places."""
    found = copy.deepcopy(value)
    every = sorted(places(value), key=repr)
    for dummy in range(draw(st.integers(1, most))):
        put(found, draw(st.sampled_from(every)), draw(STRANGE))
    return found


def plain(built: t.Mapping[str, t.Any]) -> None:
    """A report that can be shown and written."""
    json.dumps(built)
    assert built["verdict"] in ("arrives", "does not arrive", "not explained")
    assert all(line.isprintable() and line.isascii() for line in built["table"]), [
        line for line in built["table"] if not line.isprintable()
    ]
    for row in built["findings"]:
        assert row["message"].isprintable() and row["fix"].isprintable() and row["where"].isprintable()


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_nodes_may_say_anything(data: t.Any) -> None:
    world = World({"aws": 1, "gcp": 1}, data.draw(st.booleans()))
    plan, results = world.trace("aws-0", "gcp-0", data.draw(st.sampled_from(["icmp", "tcp"])))
    host = data.draw(st.sampled_from(["aws-0", "gcp-0"]))
    # the plan is our own; the rows' names are what a node states of itself
    results[host] = spoiled(data.draw, results[host])
    plain(report.build(plan, results, {}))


JSON = st.recursive(
    STRANGE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "name",
                    "kind",
                    "up",
                    "mtu",
                    "addresses",
                    "dst",
                    "dev",
                    "via",
                    "table",
                    "type",
                    "metric",
                    "version",
                    "priority",
                    "action",
                    "fwmark",
                    "fwmask",
                    "src",
                    "iif",
                    "peers",
                    "public_key",
                    "endpoint",
                    "allowed_ips",
                    "handshake_age",
                    "rx",
                    "tx",
                    "spans",
                    "chains",
                    "hook",
                    "flow",
                    "seen",
                    "family",
                    "chain",
                    "verdict",
                    "oif",
                    "direction",
                    "size",
                    "outcome",
                    "settings",
                    "rp_filter",
                    "forwarding",
                    "links",
                    "routes",
                    "rules",
                    "devices",
                    "sets",
                    "pods",
                    "units",
                    "listeners",
                    "errors",
                    "tables",
                    "kube_proxy",
                    "running",
                    "port",
                    "pod",
                ]
            ),
            inner,
            max_size=6,
        ),
    ),
    max_leaves=25,
)


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_each_parser_takes_anything(value: t.Any) -> None:
    parse_node("h", "c", value, value)
    parse_devices(value, {}, [])
    observed.passage("h", "forward", observed.parse_events(value, "0", None))
    observed.parse_sent(value, "0")
    node_results.parse_mesh(value)
    parse_endpoint_key(value)
    if isinstance(value, dict):
        node_results.parse_flow(value)
        resolve.mesh_part(MeshPlan.from_json(value))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_an_endpoint_is_one_or_none(text: str) -> None:
    found = parse_endpoint_key(text)
    assert found is None or (found[0] in (4, 6) and 0 <= found[2] <= 99999)


OBJECTS = {
    "nodes": [{"metadata": {"name": "n"}, "status": {"addresses": [{"type": "InternalIP", "address": "10.66.0.1"}]}}],
    "pods": [
        {
            "metadata": {"namespace": "shop", "name": "pod", "labels": {"a": "b"}},
            "spec": {"nodeName": "n", "hostNetwork": False, "dnsPolicy": "ClusterFirst"},
            "status": {
                "podIP": "10.4.0.7",
                "podIPs": [{"ip": "10.4.0.7"}],
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    ],
    "services": [
        {
            "metadata": {"namespace": "shop", "name": "web", "labels": {}},
            "spec": {
                "clusterIP": "10.5.0.8",
                "clusterIPs": ["10.5.0.8"],
                "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}},
        }
    ],
    "endpoints": [
        {
            "metadata": {"namespace": "shop", "name": "web"},
            "subsets": [{"addresses": [{"ip": "10.4.0.7"}], "ports": [{"name": "http", "port": 80}]}],
        }
    ],
    "slices": [
        {
            "metadata": {"namespace": "shop", "name": "s", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.4.0.7"], "conditions": {"ready": True}}],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        }
    ],
    "imports": [{"metadata": {"namespace": "shop", "name": "web"}, "spec": {}}],
    "policies": [
        {
            "metadata": {"namespace": "shop", "name": "p"},
            "spec": {
                "podSelector": {
                    "matchLabels": {"a": "b"},
                    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
                },
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"ipBlock": {"cidr": "10.9.0.0/16", "except": []}}]}],
            },
        }
    ],
    "corefile": ".:53 {\n    kubernetes cluster.local\n}\n",
    "unread": [],
}


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_clusters_may_say_anything(data: t.Any) -> None:
    read = spoiled(data.draw, {key: value for key, value in OBJECTS.items() if key != "unread"})
    cluster = parse_cluster("gcp", read, {("gcp", "n"): "gcp-0"})
    found = resolve.Resolver({"gcp": cluster}, Names({"gcp": cluster}))
    targets = [
        "gcp/shop/web",
        "gcp/shop/pod/pod",
        "web.shop",
        "198.51.100.7",
        "gcp/shop/serviceimport/web",
        "any",
        "gcp/n",
    ]
    flows = found.flows([parse_question("gcp/shop/pod", target, None) for target in targets], 61000)
    json.dumps([flows, [one.row() for one in found.found], found.steps])
    for one in cluster.policies:
        policies.lacks_source([one], "shop", {"a": "b"}, (4, 1))
    plain(
        report.build(
            {"id": "x", "flows": flows, "findings": [one.row() for one in found.found], "names": found.steps}, {}, {}
        )
    )


def test_flows_of_a_batch_keep_their_question() -> None:
    cluster = parse_cluster("gcp", OBJECTS, {("gcp", "n"): "gcp-0"})
    asked = [parse_question("gcp/shop/pod", target, 80) for target in ("gcp/shop/nobody", "gcp/shop/pod/pod", "gcp/n")]
    found = resolve.Resolver({"gcp": cluster}, Names({"gcp": cluster}))
    assert [flow.get("question") for flow in found.flows(asked, 61000)] == [1, 2] and [
        one.question for one in found.found
    ] == [0]
    alone = resolve.Resolver({"gcp": cluster}, Names({"gcp": cluster}))
    assert all("question" not in flow for flow in alone.flows(asked[1:2], 61000))


TEXT = st.text(max_size=9)


@given(st.lists(st.fixed_dictionaries({"source": TEXT, "node": TEXT, "target": TEXT, "ok": st.booleans()}), max_size=5))
def test_pairs_of_a_verification_are_followed_or_refused(rows: t.Any) -> None:
    failing = pairs.failing({"h": rows}, 3)
    assert len(failing) <= 3
    try:
        flows = pairs.flows(failing, {}, 61000)
    except ValueRefused:
        return
    assert len(flows) == 2 * len(failing)
