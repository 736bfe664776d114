# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``max_deletes: 0``: every planner that deletes takes the number for what it is, and not for "nothing was said"."""

from __future__ import annotations

import types

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.node_spec import NodeSpec, peer_budget
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import LivePeer, Peer
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.backends import (
    SYNC,
    BackendRequest,
    EntryBudget,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.annotations import plan_annotations
from ansible_collections.multicluster.network.plugins.module_utils._plan.object_plan import Key, Read, plan_objects
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets import members as names
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.set_plan import plan_sets
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.targets import CALICO_V3

MANAGER = "multicluster.network/t"


def owned(fields, **metadata):
    entry = {"manager": MANAGER, "operation": "Apply", "fieldsV1": fields}
    return {"metadata": dict({"uid": "u", "managedFields": [entry]}, **metadata)}


def of_objects(most):
    key = Key("v1", "ConfigMap", "d", "gone")
    found = dict(owned({"f:data": {}}, name="gone", namespace="d"), data={})
    kept = Key("v1", "ConfigMap", "d", "kept")
    desired = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kept", "namespace": "d"},
        "data": {"a": "b"},
    }
    read = Read({key: found}, {key}, set(), {})
    plan, unused = plan_objects("aws", {kept: desired}, read, MANAGER, max_deletes=most)
    return plan.refused, [change for change in plan.changes if change.action == "delete"]


def of_annotations(most):
    node = owned({"f:metadata": {"f:annotations": {"f:x.io/a": {}}}}, name="n", annotations={"x.io/a": "1"})
    plan, unused = plan_annotations(
        "aws", {"n": {"x.io/b": "2"}}, {"n": node}, MANAGER, [lambda key: key.startswith("x.io/")], max_deletes=most
    )
    return plan.refused, [change for change in plan.changes if "x.io/a" in change.before["annotations"]]


def of_peers(most):
    live = {"K=": LivePeer(allowed_ips=("10.4.0.0/24",)), "L=": LivePeer()}
    refusal = peer_budget("gcp", live, {"L=": LivePeer()}, [Peer("L=")], NodeSpec("f", max_deletes=most))
    return [refusal] if refusal else [], ["K="] if refusal is None else []


def of_sets(most):
    labels = {
        names.MANAGED_BY_LABEL: names.MANAGED_BY,
        names.CLUSTER_LABEL: "aws",
        names.NAMESPACE_LABEL: "d",
        names.NAME_LABEL: "web",
    }
    found = dict(owned({"f:spec": {}}, name="aws-d-web", labels=labels), spec={"nets": ["10.2.0.1/32"]})
    member = names.Member("aws", "d", "api")
    planned = plan_sets(
        "gcp", CALICO_V3, {"aws-d-web": found}, {"aws": {member: ("10.2.0.2/32",)}}, MANAGER, max_deletes=most
    )
    return planned.plan.refused, [change for change in planned.plan.changes if change.action == "delete"]


def of_mapped_services(most):
    budget = EntryBudget(
        "aws",
        BackendRequest(SYNC, {("d", "kept"): "192.0.2.1/32"}, (), frozenset(), True, frozenset(), max_deletes=most),
    )
    goes = budget.services_may_go(["d/kept", "d/gone"])
    return budget.refusals, ["d/gone"] if goes else []


@pytest.mark.parametrize(
    "planner", [of_objects, of_annotations, of_peers, of_sets, of_mapped_services], ids=lambda one: one.__name__
)
def test_zero_is_a_limit(planner: types.FunctionType):
    refused, gone = planner(None)
    assert not refused and len(gone) == 1
    refused, gone = planner(0)
    assert [refusal.reason for refusal in refused] == ["delete_budget"] and not gone
    assert "max_deletes" in refused[0].message
