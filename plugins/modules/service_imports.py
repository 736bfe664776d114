#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_imports
short_description: Manage ServiceImports from the ServiceExports of all clusters
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Implements the Multi-Cluster Services API (KEP-1645, C(multicluster.x-k8s.io)) for a fabric, all clusters in one call. Where a ServiceExport
    exists, the Service of the same name and namespace is exported; every cluster that has the namespace gets a ServiceImport of that name.
  - An import of type C(ClusterSetIP) gets its address from a Service without selector that is made alongside it, C(derived-) and a hash, so
    kube-proxy does the work. Endpoints are EndpointSlices, for each source cluster its own.
  - Where clusters differ, the export with the oldest C(creationTimestamp) decides. Every constituent reports it in its condition C(Conflict).
  - Each kind is listed once in each cluster, and only what differs is written. Of what users write only the status of ServiceExports is written.
  - A source cluster only makes claims. Endpoints must lie in the pod ranges, or for pods on the host's network in the node ranges, that the
    inventory grants it, and it exports only from namespaces that the inventory lets it. What does not hold is left out and listed in RV(refused).
  - A cluster that cannot be read keeps its part in every import. Nothing is deleted because of it.
  - An object is owned when this fabric's field manager applied it. A ServiceImport of another owner is left alone and refused by name.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes.lost_pairs
  - multicluster.network._kubernetes
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
  - multicluster.network._attributes.controller
options:
  fabric:
    description: Name of the fabric. It makes the field manager C(multicluster.network/FABRIC), by which our objects are known.
    type: str
    required: true
  definition:
    description:
      - The fabric. C(definition.clusters) maps a name to C(pod_cidrs), C(service_cidrs), C(node_cidrs) and C(wireguard_cidrs), and for this module
        to C(multicluster_cluster_id), the cluster's id in names and labels (by default its name), and C(mcs_namespaces), a list of the namespaces
        from which it may export or a label selector for them (by default all but C(kube-system), C(kube-public), C(kube-node-lease) and
        C(default)). The default is what the inventory has.
      - It has to name every cluster of the fabric, also those that O(clusters) gives no access to.
    type: dict
  state:
    description: V(absent) removes all imports, derived Services and slices that are owned, and the conditions of exports. O(max_deletes) does not hold then.
    type: str
    choices: [present, absent]
    default: present
  keep_first:
    description: Whether the export that decided first goes on to decide when an older one comes later. It is kept in an annotation of the imports.
    type: bool
    default: false
  stale_after:
    description:
      - Seconds after which the endpoints of a cluster with an API server that does not answer are taken out of the other clusters, V(0) for never.
        They come back when it answers. When it was first found so is kept in an annotation of each slice.
    type: int
    default: 0
  install_crds:
    description: Install the definitions of ServiceExport and ServiceImport where they are missing. Otherwise such a cluster is refused.
    type: bool
    default: false
  destinations:
    description:
      - Clusters that get imports, and conditions of their exports. The default is all of O(clusters). The others are only read.
      - Where O(clusters) is not given either, it is the clusters with nodes in the inventory, or all where none has any.
      - With O(state=absent) only those that are named here are asked at all, and all where none is, since any may have imports of former times.
    type: list
    elements: str
  max_endpoints_per_slice:
    description: Endpoints of one EndpointSlice, 100 to 1000.
    type: int
    default: 100
  allow_host_network:
    description:
      - Whether pods on the host's network are exported, by addresses in the node ranges of their cluster. A mesh of pods does not carry these, so
        V(false) refuses them with C(host_network_in_clear), by name. V(true) is for a mesh that carries nodes, such as KubeSpan.
        V(clear) writes them although packets to them leave unencrypted.
    type: str
    choices: ["false", "true", clear]
    default: "false"
  max_deletes:
    description:
      - How many imports of a cluster, and how many imports' slices of a source in it, one run may delete. A negative number means no limit.
        The default is the larger of 5 and 20 %.
    type: int
  leave_conflicts:
    description: A field that somebody else changed meanwhile is listed in RV(refused), instead of failing the run.
    type: bool
    default: false
  fail_on_failures:
    description: Whether a cluster that could not be read or written fails the task. Otherwise it is a warning.
    type: bool
    default: true
  fail_on_refused:
    description: Whether the task fails when anything was refused.
    type: bool
    default: false
attributes:
  diff_mode:
    description: Shows the changed fields of every changed object.
    support: full
seealso:
  - module: multicluster.network.service_mirror
  - module: multicluster.network.coredns_rewrite
"""

EXAMPLES = r"""
- name: Import what two clusters export
  multicluster.network.service_imports:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
      - {name: gcp, kubeconfig: ~/.kube/gcp}
    definition:
      clusters:
        aws: {pod_cidrs: [10.2.0.0/16], service_cidrs: [10.3.0.0/16], node_cidrs: [10.66.23.0/24]}
        gcp: {pod_cidrs: [10.4.0.0/16], service_cidrs: [10.5.0.0/16], node_cidrs: [10.22.22.0/24], mcs_namespaces: [shop, sys-log]}
    install_crds: true

- name: The same from an inventory
  multicluster.network.service_imports:
    fabric: demo

- name: Take everything away again
  multicluster.network.service_imports:
    fabric: demo
    state: absent
"""

RETURN = r"""
plan:
  description: Counts of what was (or, in check mode, would be) created, updated and deleted, and the first 200 changes.
  type: dict
  returned: always
  sample:
    create: 3
    update: 2
    delete: 0
    unchanged: 0
    changes:
      - {action: create, kind: Service, id: gcp/sys-log/derived-8qk1vt0d3c, fields: []}
      - {action: create, kind: ServiceImport, id: gcp/sys-log/fluentd, fields: []}
refused:
  description: What was left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample:
    - {object: aws/kube-system/dns, reason: outside_grant, message: "mcs_namespaces of cluster aws does not let it export from namespace 'kube-system'"}
sources:
  description: For each cluster, whether it could be listed, how many ServiceExports it has, how many of them count, and how many of those are in conflict.
  type: dict
  returned: always
  sample: {aws: {listed: true, exports: 2, valid: 1, conflicts: 0}, gcp: {listed: true, exports: 0, valid: 0, conflicts: 0}}
imports:
  description: How many ServiceImports each cluster has of us.
  type: dict
  returned: always
  sample: {aws: 1, gcp: 1}
failures:
  description: What could not be read or written, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample: []
stats:
  description: Requests by verb for each cluster, and seconds.
  type: dict
  returned: always
  sample: {requests: {aws: {list: 6}, gcp: {apply: 5, list: 8}}, seconds: 0.12}
reachability:
  description:
    - What would be lost, C(lost) pairs of a cluster and a Service, or a set of pods, of another one, by C(classes) with an example each. C(stops) has the
      names of the classes for which a run stops, C(lines) what check mode shows.
  type: dict
  returned: with O(state=present)
  sample: {lost: 0, classes: [], stops: [], lines: [], message: ""}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.services import service_imports
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import (
    inventory_spec,
    lost_pairs_spec,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import InventoryRefused
from ansible_collections.multicluster.network.plugins.module_utils._module import fail_on_refused_spec
from ansible_collections.multicluster.network.plugins.module_utils._services.losses import PairsLost


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "fabric": {"type": "str", "required": True},
        "definition": {"type": "dict"},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "keep_first": {"type": "bool", "default": False},
        "stale_after": {"type": "int", "default": 0},
        "install_crds": {"type": "bool", "default": False},
        "destinations": {"type": "list", "elements": "str"},
        "max_endpoints_per_slice": {"type": "int", "default": 100},
        "allow_host_network": {"type": "str", "choices": ["false", "true", "clear"], "default": "false"},
        "max_deletes": {"type": "int"},
        "leave_conflicts": {"type": "bool", "default": False},
        "fail_on_failures": {"type": "bool", "default": True},
        **inventory_spec(),
        **lost_pairs_spec(),
        **fail_on_refused_spec(),
    }


def run(module: Any) -> None:
    """All but the start, which the action plugin does for itself."""
    try:
        result = service_imports.run(module.params, check=module.check_mode, diff=module._diff)
    except InventoryRefused as err:
        module.fail_json(msg=str(err), findings=err.findings)
    except PairsLost as err:
        module.fail_json(msg=str(err), reachability=err.reachability)
    except ValueError as err:
        module.fail_json(msg=str(err))
    exit_kube(module, result)


def main() -> None:
    """Entry point."""
    run(KubeModule(argument_spec=argument_spec(), supports_check_mode=True))


if __name__ == "__main__":
    main()
