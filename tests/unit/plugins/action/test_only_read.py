# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decision 66: a cluster without nodes alongside clusters with nodes is another owner's, and nothing is planned for it that no variable asks for."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.action import network_sets, service_mirror
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import mesh_plan
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Resource
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import load_fabric

CLUSTERS = {
    "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "node_cidrs": ["10.66.23.0/24"]},
    "gcp": {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "node_cidrs": ["10.22.22.0/24"]},
}


def filled(module, nodes, **options):
    """What an action gives its module in a fabric of aws and gcp with these nodes."""
    action = object.__new__(module.ActionModule)
    action.clusters_group = "clusters"
    action.hostvars = {**CLUSTERS, **{name: {"multicluster_cluster": cluster} for name, cluster in nodes.items()}}
    action.groups = {"clusters": sorted(CLUSTERS), "nodes": sorted(nodes)}
    action.fill(options, {})
    return options


@pytest.mark.parametrize("module, name", [(service_mirror, "destinations"), (network_sets, "targets")])
@pytest.mark.parametrize(
    "nodes, written",
    [
        ({"n1": "aws"}, ["aws"]),
        ({"n1": "aws", "n2": "gcp"}, ["aws", "gcp"]),
        ({}, ["aws", "gcp"]),
    ],
)
def test_who_is_written_to_where_nobody_sets_it(module, name, nodes, written):
    assert filled(module, nodes)[name] == written
    assert filled(module, nodes, **{name: ["gcp"]})[name] == ["gcp"], "what the user names counts"
    assert filled(module, nodes, **{name: []})[name] == written, (
        "the roles give an empty list where nobody sets anything"
    )


@pytest.mark.parametrize("module, name", [(service_mirror, "destinations"), (network_sets, "targets")])
@pytest.mark.parametrize("state", ["absent", "released"])
def test_what_was_made_once_goes_everywhere(module, name, state):
    assert not filled(module, {"n1": "aws"}, state=state).get(name)


class Calico:
    """A client of an API server that has Calico's kinds."""

    def list(self, path):
        return type("Listing", (), {"items": []})

    def serves(self, version, kind):
        return True

    def resource(self, version, kind):
        return Resource(version, kind, kind.lower() + "s", False, frozenset(["list"]))


@pytest.mark.parametrize(
    "setting, nodes, pools",
    [
        ("auto", {"n1": {"multicluster_cluster": "aws"}}, {"aws"}),
        ("always", {"n1": {"multicluster_cluster": "aws"}}, {"aws", "gcp"}),
        ("never", {"n1": {"multicluster_cluster": "aws"}}, {"aws"}),
        ("auto", {}, {"aws", "gcp"}),
    ],
)
def test_no_pool_for_a_neighbour(monkeypatch, setting, nodes, pools):
    class Read:
        failures = ()

        def __init__(self, given, timeout):
            pass

        def read(self, what, function):
            return {name: function(name, Calico()) for name in CLUSTERS}

        def stats(self):
            return {}

    monkeypatch.setattr(mesh_plan, "Clusters", Read)
    clusters = {"aws": CLUSTERS["aws"], "gcp": dict(CLUSTERS["gcp"], calico_ippools=setting)}
    fabric, dummy = load_fabric({"name": "t", "clusters": clusters, "nodes": nodes})
    dummy, calico, dummy, unused = mesh_plan.gather(fabric, [], 1.0)
    assert set(calico) == pools
