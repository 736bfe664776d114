# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of the results that a run keeps: the one table of them. Pure.

Action plugins keep a result under ``run.`` and the name of its module (``plugin_utils/run_context.py``). The pure rooms read it as if it were
a variable of the host on which the task ran, or of every host where the task ran once for all.
"""

from __future__ import annotations

import typing as t

PREFIX = "run."
#: The plan of the mesh, what was published of it, and Calico's pools.
PLAN, ANNOTATIONS, POOLS = "run.mesh_plan", "run.node_annotations", "run.ip_pools"
#: When the first plan was there, and when all nodes had their first call: {first, again}, seconds of a clock that only goes on.
PLANNED = "run.planned"
#: That a run has published the plan, and not only compared it.
PUBLISHED = "run.published"
#: A plan that asked no cluster, to validate the inventory.
VALID = "run.mesh_plan.valid"
#: The inventory's definition of the fabric that was planned.
DEFINITION = "run.definition"
#: The same of nodes that leave.
ANNOTATIONS_GONE, POOLS_GONE = "run.node_annotations.gone", "run.ip_pools.gone"
#: A node's change, its confirmation, and why the node was lost in between.
NODE, CONFIRMED, LOST = "run.node_dataplane", "run.node_dataplane.confirmed", "run.node_dataplane.lost"
#: What a node would change, before the first write of a run; no node that was not compared has one.
NODE_COMPARED = "run.node_comparison"
#: What a node is like, and its pods where nothing was converged.
NODE_INFO, PODS = "run.node_info", "run.node_probe"
#: Pods of all nodes, collected once for all: {host: [address]}.
FOUND_PODS = "run.run_pods"
#: The step of a rotation of keys that plans are to have.
ROTATION = "run.run_rotation"
#: The table at the end.
OUTCOME = "run.run_outcome"
#: A verification: what the run had applied before it, and its report.
CHANGES, REPORT = "run.run_changes", "run.mesh_report"
#: A trace: its plan, its report, and what each of its nodes found.
TRACE_PLAN, TRACE_REPORT = "run.trace_plan", "run.trace_report"
TRACE_PARTS = {name: f"run.trace_node.{name}" for name in ("armed", "sent", "collected")}
#: The state of the fabric.
STATUS = "run.fabric_status"
#: Capabilities that ended before their end, {capability: message}: of the run, and of one node.
BROKEN, BROKEN_HERE = "run.broken", "run.broken_here"


class Capability(t.NamedTuple):
    """Results of one capability. applied: of the modules that converge it; compared: of the one that shows what differs."""

    applied: tuple[str, ...]
    compared: str


def _same(name: str) -> Capability:
    return Capability((name,), name)


CAPABILITIES = {
    "service_mirror": _same("run.service_mirror"),
    "mcs": _same("run.service_imports"),
    "network_sets": _same("run.network_sets"),
    "coredns_rewrite": _same("run.coredns_rewrite"),
    "load_balancers": _same("run.load_balancers"),
    "tenants": Capability(
        ("run.apinet_sync", "run.apinet_allocate", "run.apinet_attach", "run.apinet_schedule"), "run.apinet_info"
    ),
    "clustermesh": Capability(("run.clustermesh_peers",), "run.clustermesh_info"),
}
#: The same of the mesh.
MESH = (PLAN, ANNOTATIONS, POOLS, ANNOTATIONS_GONE, POOLS_GONE)
#: Capability and result, where each cluster's host has its own.
OF_CLUSTERS = (("ccm_nodes", "run.ccm_nodes"), ("control_plane_address", "run.control_plane_address"))
#: The same, where each node has its own.
OF_NODES = (("mesh", NODE), ("load_balancers", "run.bgp_speaker"), ("load_balancers", "run.layer2_speaker"))
