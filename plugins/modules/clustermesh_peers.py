#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: clustermesh_peers
short_description: Manage the Peers that join the Kilo meshes of several clusters
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - For every ordered pair of clusters of a mesh, the target holds one C(Peer) object for each valid node of the source.
    Kilo reads these and programs WireGuard, so that every node of one cluster talks straight to every node of the other.
  - Reads every cluster with one list of nodes and one of Peers, plans all targets together, and writes only what differs.
  - What a node publishes is a claim. Nodes outside their cluster's declared ranges, or with another node's WireGuard address
    or key, are left out by name with the reason, and the rest goes on.
  - Nothing of a source that could not be read completely is deleted, and a node without its annotations for a moment
    keeps its Peers.
  - Meshes are given in O(meshes), or are C(ClusterMesh) objects of the O(management) cluster. Their status, conditions and
    finalizer are written then as their operator does. Stop the operator before, or it will undo what differs.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._kubernetes.owner
  - multicluster.network._refused
  - multicluster.network._clustermesh
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
options:
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
        description: >-
          Read the kubeconfig Secrets that entries refer to, for clusters that are not in O(clusters). Such a kubeconfig may
          hold an address, a CA, and a token or client certificate, nothing else.
        type: bool
        default: false
      manage_objects:
        description: Write the objects' finalizer, status and conditions.
        type: bool
        default: true
  targets:
    description:
      - Clusters into which Peers are written. The default is all. Of the others nodes are read, so that these get their Peers, and nothing is written
        into them, as where somebody else or the operator keeps their half of the mesh. A read-only account suffices there.
    type: list
    elements: str
    default: []
  purge_meshes:
    description: Also delete Peers of this fabric that belong to no defined mesh.
    type: bool
    default: false
  force_finalizer:
    description: Take the finalizer off an object that is deleted even if Peers of it may be left in unreachable clusters.
    type: bool
    default: false
  state:
    description:
      - V(absent) deletes our Peers of the given meshes.
      - V(released) leaves them as they are and gives up their ownership, so that the operator can take over again.
    type: str
    choices: [present, absent, released]
    default: present
  plan_file:
    description: File that receives every change of every target as JSON, also in check mode.
    type: path
seealso:
  - module: multicluster.network.clustermesh_info
"""

EXAMPLES = r"""
- name: Join two clusters
  multicluster.network.clustermesh_peers:
    fabric: demo
    clusters:
      - {name: eu, kubeconfig: ~/.kube/eu}
      - {name: us, kubeconfig: ~/.kube/us}
    meshes:
      - name: prod
        clusters:
          - name: eu
            podCIDRs: [10.20.0.0/16]
            wireguardCIDR: 100.70.0.0/24
            serviceCIDR: 10.120.0.0/16
          - name: us
            podCIDRs: [10.30.0.0/16]
            wireguardCIDR: 100.71.0.0/24
            persistentKeepalive: 25

- name: Work in place of the operator, on the objects that are there
  multicluster.network.clustermesh_peers:
    fabric: demo
    clusters:
      - {name: mgmt, kubeconfig: ~/.kube/mgmt}
    management: {cluster: mgmt, namespace: kilo, use_secrets: true}
    adopt: true

- name: Remove the mesh
  multicluster.network.clustermesh_peers:
    fabric: demo
    clusters:
      - {name: eu, kubeconfig: ~/.kube/eu}
      - {name: us, kubeconfig: ~/.kube/us}
    meshes: [{name: prod}]
    state: absent
"""

RETURN = r"""
plan:
  description: Counts of what was (or, in check mode, would be) created, updated and deleted, and the first 200 changes.
  type: dict
  returned: always
  sample:
    create: 1
    update: 0
    delete: 0
    unchanged: 3
    changes:
      - {action: create, kind: Peer, id: us/prod--eu--eu-1, fields: []}
targets:
  description: For each target the first 200 Peers to create, update, delete, hand back and keep, each with the reason.
  type: dict
  returned: always
  sample:
    us:
      create: [{name: prod--eu--eu-1, reason: node eu-1 has no Peer yet}]
      update: []
      delete: []
      release: []
      keep: []
refused:
  description: What was left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample:
    - {object: eu/eu-3, reason: NodeNoEndpoint, message: node "eu-3" has no endpoint}
anchors:
  description: Mesh to cluster to the node that carries the ranges of the whole cluster.
  type: dict
  returned: always
  sample: {prod: {eu: eu-1, us: us-1}}
adoptable:
  description: Target to the number of Peers that differ and were made by somebody else.
  type: dict
  returned: always
  sample: {}
next_delay:
  description: Seconds after which another run makes sense. 0 means none, 30 that a cluster is still starting.
  type: int
  returned: always
  sample: 300
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
  sample: {requests: {eu: {list: 2}, us: {apply: 1, list: 2}}, seconds: 0.1}
"""

import json
from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.clustermesh import converge as clustermesh
from ansible_collections.multicluster.network.plugins.module_utils._flows.clustermesh.arguments import (
    management_spec,
    mesh_spec,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import owner_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube
from ansible_collections.multicluster.network.plugins.module_utils._linux.files import FileState, write_state
from ansible_collections.multicluster.network.plugins.module_utils._module import fail_on_refused_spec


def argument_spec() -> dict[str, Any]:
    """All options."""
    management = {**management_spec(), "manage_objects": {"type": "bool", "default": True}}
    return {
        "management": {"type": "dict", "options": management},
        "targets": {"type": "list", "elements": "str", "default": []},
        "purge_meshes": {"type": "bool", "default": False},
        "force_finalizer": {"type": "bool", "default": False},
        "state": {"type": "str", "choices": ["present", "absent", "released"], "default": "present"},
        "plan_file": {"type": "path"},
        **mesh_spec(),
        **owner_spec(),
        **fail_on_refused_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(
        argument_spec=argument_spec(), required_one_of=[("meshes", "management")], supports_check_mode=True
    )
    try:
        result = clustermesh.run(module.params, check=module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    whole = result.pop("whole")
    if module.params["plan_file"]:
        text = json.dumps(whole, sort_keys=True, indent=1)
        write_state(module.params["plan_file"], FileState("file", 0o600, text.encode("utf-8")))
    exit_kube(module, result)


if __name__ == "__main__":
    main()
