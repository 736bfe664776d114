#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: clustermesh_info
short_description: Gather information about joined Kilo meshes
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Reads nodes and Peers of every cluster as M(multicluster.network.clustermesh_peers) does and writes nothing.
  - Returns which nodes are left out and why, what differs from the plan, which Peers are stale or not owned, and of which
    Peers no node of the target has heard yet.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._kubernetes.reader
  - multicluster.network._clustermesh
  - multicluster.network._attributes
  - multicluster.network._attributes.reads
options:
  fabric:
    description: Name of the fabric, by which our Peers are known.
    type: str
    required: true
  management:
    description: The cluster with C(ClusterMesh) objects that define meshes. An empty dictionary is none.
    type: dict
    suboptions:
      cluster:
        description: Its name in O(clusters). Without options there is no such cluster.
        type: str
      namespace:
        description: Take the objects of this namespace only.
        type: str
      names:
        description: Take the objects with these names only.
        type: list
        elements: str
        default: []
      use_secrets:
        description: Read the kubeconfig Secrets of clusters that are not in O(clusters).
        type: bool
        default: false
  node_keepalive:
    description: Whether the keepalive is written to Nodes; what is missing is a warning otherwise.
    type: bool
    default: false
  force_internal_ip:
    description: Whether C(kilo.squat.ai/force-internal-ip) is written where it is needed; what is missing is a warning otherwise.
    type: bool
    default: false
seealso:
  - module: multicluster.network.clustermesh_peers
"""

EXAMPLES = r"""
- name: Which nodes are left out
  multicluster.network.clustermesh_info:
    fabric: demo
    clusters:
      - {name: eu, kubeconfig: ~/.kube/eu}
      - {name: us, kubeconfig: ~/.kube/us}
    meshes:
      - name: prod
        clusters:
          - {name: eu, podCIDRs: [10.20.0.0/16], wireguardCIDR: 100.70.0.0/24}
          - {name: us, podCIDRs: [10.30.0.0/16], wireguardCIDR: 100.71.0.0/24}
  register: mesh
"""

RETURN = r"""
in_sync:
  description: Whether every cluster could be read and a run of M(multicluster.network.clustermesh_peers) would write nothing.
  type: bool
  returned: always
  sample: true
plan:
  description: Counts of what a run would create, update and delete, and the first 200 changes.
  type: dict
  returned: always
  sample: {create: 0, update: 0, delete: 0, unchanged: 4, changes: []}
skipped_nodes:
  description: Nodes, routes and meshes that are left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample: [{object: eu/eu-3, reason: NodeNoEndpoint, message: node "eu-3" has no endpoint}]
drift:
  description: For each target the Peers that a run would create, update, delete and keep, each with the reason.
  type: dict
  returned: always
  sample: {us: {create: [], update: [], delete: [], release: [], keep: []}}
meshes:
  description: Mesh to its conditions and to the counts of each cluster, as a C(ClusterMesh) object has them.
  type: dict
  returned: always
  sample: {prod: {conditions: [], clusters: [{name: eu, registeredPeers: 2, skippedNodes: 0}]}}
stale:
  description: Target to Peers of a mesh or source that is not defined.
  type: dict
  returned: always
  sample: {us: []}
unowned:
  description: Target to Peers that are not owned.
  type: dict
  returned: always
  sample: {us: [laptop]}
handshakes:
  description: Target to the number of Peers that some node has heard of, and the names of those that do not respond. It needs a Kilo that publishes it.
  type: dict
  returned: always
  sample: {us: {heard_of: 1, unreachable: [prod--eu--eu-2]}}
force_endpoints:
  description: Cluster to node to the value of C(force-endpoint), where C(clustermesh-endpoint) is empty or the same.
  type: dict
  returned: always
  sample: {eu: {eu-1: "203.0.113.1:51820"}}
anchors:
  description: Mesh to cluster to the node that carries the ranges of the whole cluster.
  type: dict
  returned: always
  sample: {prod: {eu: eu-1}}
adoptable:
  description: Target to the number of Peers that differ and were made by somebody else.
  type: dict
  returned: always
  sample: {}
failures:
  description: What could not be read, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample: []
stats:
  description: Requests by verb for each cluster, and seconds.
  type: dict
  returned: always
  sample: {requests: {eu: {list: 2}, us: {list: 2}}, seconds: 0.1}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.clustermesh import converge as clustermesh
from ansible_collections.multicluster.network.plugins.module_utils._flows.clustermesh.arguments import (
    management_spec,
    mesh_spec,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import reader_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "fabric": {"type": "str", "required": True},
        "management": {"type": "dict", "options": management_spec()},
        **mesh_spec(),
        **reader_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = clustermesh.info(module.params)
    except ValueError as err:
        module.fail_json(msg=str(err))
    exit_kube(module, result)


if __name__ == "__main__":
    main()
