# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which ranges of clusters may be alike, and what validate proposes where they may not (translation 2)."""

from __future__ import annotations

import copy
import re
import typing as t

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import errors, load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.range_checks import fabric_ula
from ansible_collections.multicluster.network.plugins.module_utils._status import preflight
from hypothesis import given, strategies as st

SAME: dict[str, t.Any] = {"pod_cidrs": ["10.244.0.0/16"], "service_cidrs": ["10.96.0.0/12"]}
NODES = {"a": "10.1.1.0/24", "b": "10.1.2.0/24", "c": "10.1.3.0/24"}


def fabric(**changes: t.Any) -> dict[str, t.Any]:
    """Clusters a and b with the same ranges and a mapping each, changed. None takes a variable away."""
    clusters = {
        name: dict(copy.deepcopy(SAME), node_cidrs=[NODES[name]], device_alias=None, exported_pod_cidrs=mapping)
        for name, mapping in (
            ("a", {"10.244.0.0/16": "10.201.0.0/16"}),
            ("b", {"10.244.0.0/16": "10.202.0.0/16"}),
        )
    }
    for name, change in changes.items():
        clusters.setdefault(name, dict(copy.deepcopy(SAME), node_cidrs=[NODES.get(name, "10.1.9.0/24")]))
        clusters[name].update(change)
    return {"name": "demo", "clusters": clusters, "nodes": {}}


def findings(definition: dict[str, t.Any]) -> set[tuple[str, str, str]]:
    return {(one.where, one.variable, one.reason) for one in errors(load_fabric(definition)[1])}


def test_the_same_ranges_are_no_fault_where_no_cluster_sees_them() -> None:
    found, rows = load_fabric(fabric())
    assert rows == []
    remotes = found.remotes("a")["b"]
    assert remotes.pod_subnets == ["10.202.0.0/16"] and [route["dst"] for route in remotes.routes] == ["10.202.0.0/16"]
    assert found.grants()["b"]["pod_cidrs"] == ["10.244.0.0/16"], "claims are of what pods have"


@pytest.mark.parametrize(
    "definition, finding",
    [
        # rule 1: what is exported is nobody else's
        (fabric(b={"exported_pod_cidrs": {"10.244.0.0/16": "10.201.0.0/16"}}), ("b", "pod_subnet_overlap")),
        (fabric(b={"exported_pod_cidrs": {"10.244.0.0/16": "10.1.0.0/16"}}), ("b", "pod_subnet_overlap")),
        (fabric(a={"wireguard_cidrs": ["10.202.4.0/24"]}), ("a", "pod_subnet_overlap")),
        # rule 2: what is exported is no other cluster's own
        (fabric(b={"exported_pod_cidrs": {}}), ("b", "pod_subnet_overlap")),
        (fabric(b={"exported_pod_cidrs": {"10.244.0.0/16": "10.96.0.0/16"}}), ("b", "pod_subnet_overlap")),
        # nor the cluster's own
        (fabric(b={"exported_pod_cidrs": {"10.244.0.0/17": "10.244.128.0/17"}}), ("b", "pod_subnet_overlap")),
        # rule 4
        (fabric(b={"exported_pod_cidrs": {"10.244.0.0/16": "10.202.0.0/17"}}), ("b", "bad_cidr")),
        (fabric(b={"exported_pod_cidrs": {"10.244.0.0/16": "fd00::/16"}}), ("b", "bad_cidr")),
        (fabric(b={"exported_pod_cidrs": {"10.244.0.0/16": "10.202.0.1/16"}}), ("b", "bad_cidr")),
        (fabric(b={"exported_pod_cidrs": {"10.245.0.0/16": "10.202.0.0/16"}}), ("b", "bad_cidr")),
        (
            fabric(b={"exported_pod_cidrs": {"10.244.0.0/16": "10.202.0.0/16", "10.244.1.0/24": "10.203.1.0/24"}}),
            ("b", "bad_cidr"),
        ),
        (fabric(b={"exported_pod_cidrs": {"10.244.0.0/16": "169.254.0.0/16"}}), ("b", "bad_cidr")),
        (fabric(b={"exported_pod_cidrs": "10.202.0.0/16"}), ("b", "bad_type")),
        (fabric(b={"exported_pod_cidrs": ["10.202.0.0/16"]}), ("b", "bad_type")),
        (fabric(b={"exported_pod_cidrs": {"former": "10.202.0.0/16"}}), ("b", "bad_type")),
        (fabric(b={"exported_pod_cidrs": {7: 8}}), ("b", "bad_cidr")),
        (fabric(b={"translation_pool": ["x"]}), ("b", "bad_cidr")),
        # a mapping would swallow addresses of nodes
        (fabric(a={"node_cidrs": ["10.202.7.0/24"]}), ("a", "pod_subnet_overlap")),
        # nodes of others inside real pod ranges could not be reached
        (fabric(b={"node_cidrs": ["10.244.9.0/24"]}), ("b", "pod_subnet_overlap")),
    ],
)
def test_rules(definition: dict[str, t.Any], finding: tuple[str, str]) -> None:
    assert finding in {(where.partition("/")[2], reason) for where, dummy, reason in findings(definition)}


def test_a_part_of_a_range_may_be_mapped_and_the_rest_is_seen() -> None:
    definition = fabric(
        a={"pod_cidrs": ["10.10.0.0/16"], "exported_pod_cidrs": {"10.10.0.0/17": "10.201.0.0/17"}},
        b={"pod_cidrs": ["10.10.0.0/17"], "exported_pod_cidrs": {"10.10.0.0/17": "10.202.0.0/17"}},
    )
    found, rows = load_fabric(definition)
    assert rows == [] and found.seen_ranges("a") == ["10.201.0.0/17", "10.10.128.0/17"]
    definition["clusters"]["a"]["exported_pod_cidrs"] = {"10.10.128.0/17": "10.201.128.0/17"}
    assert ("clusters/b", "pod_cidrs", "pod_subnet_overlap") in findings(definition)


def test_a_former_mapping_is_accepted_with_the_new_one() -> None:
    before = {"10.244.0.0/16": "10.203.0.0/16"}
    found, rows = load_fabric(fabric(b={"exported_pod_cidrs": {"10.244.0.0/16": "10.202.0.0/16", "former": [before]}}))
    assert rows == [] and found.seen_ranges("b") == ["10.202.0.0/16", "10.203.0.0/16"]
    taken = fabric(
        b={"exported_pod_cidrs": {"10.244.0.0/16": "10.202.0.0/16", "former": [{"10.244.0.0/16": "10.201.0.0/16"}]}}
    )
    assert ("clusters/b", "exported_pod_cidrs", "pod_subnet_overlap") in findings(taken)


LINE = re.compile(r"exported_pod_cidrs: (\{[^}]*\}) for clusters/([a-z]+)")


def pasted(definition: dict[str, t.Any]) -> dict[str, t.Any]:
    """The definition with the lines that the findings propose."""
    made = copy.deepcopy(definition)
    for finding in errors(load_fabric(definition)[1]):
        for text, cluster in LINE.findall(finding.message):
            made["clusters"][cluster]["exported_pod_cidrs"] = yaml.safe_load(text)
    return made


@pytest.mark.parametrize(
    "changes",
    [
        {"a": {"exported_pod_cidrs": None}, "b": {"exported_pod_cidrs": None}},
        {"b": {"exported_pod_cidrs": None}},
        {name: {"exported_pod_cidrs": None} for name in ("a", "b", "c")},
        {
            "a": {"pod_cidrs": ["10.244.0.0/16", "fd01::/56"], "exported_pod_cidrs": None},
            "b": {"pod_cidrs": ["10.244.3.0/24", "fd01::/64"], "exported_pod_cidrs": None},
        },
        {
            name: {
                "exported_pod_cidrs": None,
                "translation_pool": ["172.16.0.0/12"],
                "pod_cidrs": ["10.8.0.0/14"],
                "service_cidrs": [],
            }
            for name in ("a", "b")
        },
    ],
)
def test_the_lines_that_are_proposed_hold_when_they_are_pasted(changes: dict[str, t.Any]) -> None:
    definition = fabric(**changes)
    assert findings(definition)
    assert not findings(pasted(definition)), pasted(definition)


def test_a_mapping_with_a_typing_error_is_the_only_finding() -> None:
    """An overlap that is only its consequence would propose another range than the one that was meant."""
    wrong = {
        name: {"exported_pod_cidrs": {"10.244.0.0/16": f"10.{number}.0.0/17"}}
        for number, name in ((201, "a"), (202, "b"))
    }
    assert {finding[1:] for finding in findings(fabric(**wrong))} == {("exported_pod_cidrs", "bad_cidr")}


def test_no_line_is_proposed_where_no_range_is_free() -> None:
    wide = {"pod_cidrs": ["10.0.0.0/8"], "exported_pod_cidrs": None, "service_cidrs": [], "node_cidrs": []}
    messages = [one.message for one in errors(load_fabric(fabric(a=wide, b=wide))[1])]
    assert messages and not any(LINE.search(message) for message in messages)


def test_the_fabric_has_an_ula_of_its_own() -> None:
    assert fabric_ula("demo") != fabric_ula("other") and re.match(
        r"fd[0-9a-f]{2}:[0-9a-f]{4}:[0-9a-f]{2}00::/40\Z", fabric_ula("demo")
    )


#: What anybody might write there.
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(["10.244.0.0/16", "10.201.0.0/16", "former"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["10.244.0.0/16", "former", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(ANYTHING, ANYTHING)
def test_whatever_is_written_is_read_or_refused(mapping: t.Any, pool: t.Any) -> None:
    found, dummy = load_fabric(fabric(a={"exported_pod_cidrs": mapping, "translation_pool": pool}))
    assert isinstance(found.seen_ranges("a"), list)


def test_preflight_knows_that_a_hosts_own_pods_are_no_other_clusters() -> None:
    """Each node has a route to its own pods, which are inside the pod ranges of all clusters that have the same ones; and addresses of Services."""
    found, dummy = load_fabric(fabric())
    routes = [
        {"dst": "10.244.1.0/24", "dev": "cni0", "table": 254, "protocol": 3},
        {"dst": "10.96.0.10/32", "dev": "kube-ipvs0", "table": 254, "protocol": 3},
    ]
    node = {"cluster": "a", "node": {"ranges": ["10.244.1.0/24", "10.96.0.10/32"], "routes": routes}}
    rows = preflight.find({"grants": found.seen_grants(), "nodes": {"n": node}, "devices": {}})
    assert not {row["reason"] for row in rows} & {"range_in_use", "route_taken"}, rows
    node["node"]["routes"].append({"dst": "10.202.1.0/24", "dev": "eth1", "table": 254, "protocol": 3})
    rows = preflight.find({"grants": found.seen_grants(), "nodes": {"n": node}, "devices": {}})
    assert "route_taken" in {row["reason"] for row in rows}


@pytest.mark.parametrize(
    "mapping, reason",
    [
        ({"10.1.1.0/24": "10.203.23.0/24"}, None),
        ({"10.1.1.0/25": "10.203.23.0/25"}, None),
        ({"10.1.1.0/24": "10.1.1.0/24"}, "bad_cidr"),  # packets of WireGuard would enter the tunnel
        ({"10.1.1.0/24": "10.203.23.0/25"}, "bad_cidr"),
        ({"10.67.0.0/24": "10.203.23.0/24"}, "bad_cidr"),  # outside of node_cidrs
        ({"10.1.1.0/24": "10.201.5.0/24"}, "pod_subnet_overlap"),  # in its own exported pod range
        ({"10.1.1.0/24": "10.202.5.0/24"}, "pod_subnet_overlap"),  # in that of the other
        ({"10.1.1.0/24": "10.1.2.0/24"}, "range_overlap"),  # nodes of the other
        ({"10.1.1.0/24": "10.96.5.0/24"}, "range_overlap"),  # Services
        ("10.203.23.0/24", "bad_type"),
        ({"10.1.1.0/24": "10.203.23.0/24", "former": [{"10.1.1.0/24": "10.204.23.0/24"}]}, None),
        ({"10.1.1.0/24": "10.203.23.0/24", "former": {"10.1.1.0/24": "10.204.23.0/24"}}, None),
        ({"10.1.1.0/24": "10.203.23.0/24", "former": [{"10.1.1.0/24": "10.1.1.0/24"}]}, "bad_cidr"),
        ({"10.1.1.0/24": "10.203.23.0/24", "former": [{"10.1.1.0/24": "10.202.5.0/24"}]}, "pod_subnet_overlap"),
        ({"10.1.1.0/24": "10.203.23.0/24", "former": "10.204.23.0/24"}, "bad_type"),
    ],
)
def test_exported_node_ranges_are_free_and_of_the_same_length(mapping, reason):
    found, rows = load_fabric(fabric(a={"exported_node_cidrs": mapping}))
    assert {row.reason for row in errors(rows)} == ({reason} if reason else set()), rows
    if reason is None:
        assert next(iter(mapping.values())) in found.seen_ranges("a")
        assert ("10.204.23.0/24" in found.seen_ranges("a")) == ("former" in mapping)
        assert found.exported()["a"].node_address("10.1.1.31") == "10.203.23.31"
