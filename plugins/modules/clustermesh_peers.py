#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: clustermesh_peers
short_description: Join the Kilo meshes of several clusters
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - For every ordered pair of clusters of a mesh, the target holds one C(Peer) object for each valid node of the source.
    Kilo reads these and programs WireGuard, so that every node of one cluster talks straight to every node of the other.
  - Reads every cluster with one list of nodes and one of Peers, plans all targets together, and writes only what differs.
  - What a node publishes is a claim. Nodes outside their cluster's declared ranges, or with another node's WireGuard address
    or key, are left out by name with the reason, and the rest goes on.
  - Nothing of a source that could not be read completely is deleted, and a node whose annotations are missing for a moment
    keeps its Peers.
  - Meshes are given in O(meshes), or are C(ClusterMesh) objects of the O(management) cluster, whose status, conditions and
    finalizer are then written as their operator does. Stop the operator before, or it will undo what differs.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._kubernetes.owner
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
options:
  meshes:
    description:
      - The meshes, each with its C(name) and a list C(clusters) of two or more.
      - An entry of C(clusters) has the fields of a C(ClusterMesh) object. It has C(name), the ranges as C(podCIDRs),
        C(wireguardCIDR), C(serviceCIDR) and C(additionalCIDRs), or all of them in C(allowedNetworks), and optionally
        C(wireguardPort) and C(persistentKeepalive).
      - A mesh and an entry may have an C(endpoint_policy) of their own.
    type: list
    elements: dict
    default: []
  name:
    description: >-
      Name of the mesh that the inventory's clusters form by their variables, where neither O(meshes) nor O(management) is given.
      O(node_cidrs) comes from the inventory then, too.
    type: str
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
  endpoint_policy:
    description: Whether a node without any endpoint is left out (V(require)) or gets a Peer without endpoint (V(roam)).
    type: str
    choices: [require, roam]
    default: require
  internal_ip_routes:
    description:
      - Which internal addresses of a node its Peers announce. V(declared) announces those inside the declared ranges.
      - Daemons in the host's network send from such an address, and WireGuard drops what is not announced.
    type: str
    choices: [always, declared, never]
    default: always
  own_endpoint_routes:
    description: Announce an internal address that is also the Peer's endpoint, as the original does. It can loop.
    type: bool
    default: false
  node_cidrs:
    description: >-
      Cluster name to the ranges of its node addresses. Where it is given, an internal address outside of it and outside the
      declared ranges is not announced.
    type: dict
    default: {}
  learnt_endpoints:
    description:
      - Place of the addresses that nodes of a target learnt from handshakes. V(before_external_ip) puts them behind both
        annotations, V(before_annotations) before everything, as the newest original does.
    type: str
    choices: [before_external_ip, before_annotations, never]
    default: before_external_ip
  kilo_endpoints:
    description:
      - Whether the endpoint that Kilo itself announces (C(kilo.squat.ai/endpoint)) is used for a node that has no other one. V(public)
        leaves private addresses out, which other clusters may not reach, V(any) takes them too.
    type: str
    choices: [public, any, never]
    default: public
  node_keepalive:
    description:
      - Write C(kilo.squat.ai/persistent-keepalive) to the Nodes of every cluster that has C(persistentKeepalive), or whose nodes may roam.
        Kilo sends the keepalive of its own Node and not that of a Peer. It also makes other nodes of the cluster take learnt endpoints.
      - When false, those that this fabric wrote are removed. It needs the right to patch nodes.
    type: bool
    default: false
  force_internal_ip:
    description:
      - Write C(kilo.squat.ai/force-internal-ip=-) to Nodes whose internal address, from which Kilo sends, is also their endpoint. No tunnel can
        carry that address, so the nodes' own traffic to pods of other clusters is lost. Kilo then sends from the WireGuard address.
      - With the granularity C(location) such a node becomes a location of its own.
      - When false, those that this fabric wrote are removed. It needs the right to patch nodes.
    type: bool
    default: false
  roaming_keepalive:
    description: Seconds of keepalive for a Peer without endpoint when no cluster of the mesh sets one.
    type: int
    default: 25
  all_pod_cidrs:
    description: Announce all pod ranges of a dual-stack node and not just the first.
    type: bool
    default: false
  group_locations:
    description:
      - Where Kilo of a cluster connects locations (its granularity C(location)), only leaders have a WireGuard address. When true,
        a leader's Peer carries the pod ranges and internal addresses of all nodes of its location. When false, the other
        nodes are skipped as C(NodeNoWireguardIP), as the original does.
    type: bool
    default: true
  targets:
    description:
      - Clusters into which Peers are written. The default is all. Of the others nodes are read, so that these get their Peers, and nothing is written
        into them, as where somebody else or the operator keeps their half of the mesh. A read-only account suffices there.
    type: list
    elements: str
    default: []
  anchor_choice:
    description: >-
      Which node carries the ranges of the whole cluster, such as that of services. V(sticky) keeps the one that does and
      prefers Ready nodes with an endpoint, V(first) takes the first valid node.
    type: str
    choices: [sticky, first]
    default: sticky
  keep_transient:
    description:
      - Keep the Peers of a node that is skipped for a reason that passes, such as an agent that restarts, or WireGuard addresses that
        are duplicates while Kilo renumbers them.
      - The same holds for nodes whose Peer Kilo would now refuse (O(strict_keys), O(strict_endpoints)).
    type: bool
    default: true
  strict_keys:
    description: Refuse keys that are not 32 bytes in canonical base64, as Kilo does with the whole Peer, instead of warning.
    type: bool
    default: true
  strict_endpoints:
    description:
      - Refuse endpoints that are neither a usable address nor a lower-case DNS name instead of warning, and write ranges as they are printed.
      - Look up DNS names, and refuse those that do not resolve within O(timeout). One Peer whose name does not resolve keeps every
        agent of its cluster from changing anything. Set it to V(false) where only the nodes can resolve the names.
    type: bool
    default: true
  purge_meshes:
    description: Also delete Peers of ours whose mesh is not defined any more.
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

- name: Take the mesh away
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
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import inventory_spec, owner_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube
from ansible_collections.multicluster.network.plugins.module_utils._linux.files import FileState, write_state
from ansible_collections.multicluster.network.plugins.module_utils._module import fail_on_refused_spec


def argument_spec() -> dict[str, Any]:
    """All options."""
    management = {
        "cluster": {"type": "str"},
        "namespace": {"type": "str"},
        "names": {"type": "list", "elements": "str", "default": []},
        "use_secrets": {"type": "bool", "default": False},
        "manage_objects": {"type": "bool", "default": True},
    }
    return {
        "meshes": {"type": "list", "elements": "dict", "default": []},
        "name": {"type": "str"},
        "management": {"type": "dict", "options": management},
        "endpoint_policy": {"type": "str", "choices": ["require", "roam"], "default": "require"},
        "internal_ip_routes": {"type": "str", "choices": ["always", "declared", "never"], "default": "always"},
        "own_endpoint_routes": {"type": "bool", "default": False},
        "node_cidrs": {"type": "dict", "default": {}},
        "learnt_endpoints": {
            "type": "str",
            "choices": ["before_external_ip", "before_annotations", "never"],
            "default": "before_external_ip",
        },
        "kilo_endpoints": {"type": "str", "choices": ["public", "any", "never"], "default": "public"},
        "node_keepalive": {"type": "bool", "default": False},
        "force_internal_ip": {"type": "bool", "default": False},
        "roaming_keepalive": {"type": "int", "default": 25},
        "all_pod_cidrs": {"type": "bool", "default": False},
        "group_locations": {"type": "bool", "default": True},
        "anchor_choice": {"type": "str", "choices": ["sticky", "first"], "default": "sticky"},
        "targets": {"type": "list", "elements": "str", "default": []},
        "keep_transient": {"type": "bool", "default": True},
        "strict_keys": {"type": "bool", "default": True, "no_log": False},
        "strict_endpoints": {"type": "bool", "default": True},
        "purge_meshes": {"type": "bool", "default": False},
        "force_finalizer": {"type": "bool", "default": False},
        "state": {"type": "str", "choices": ["present", "absent", "released"], "default": "present"},
        "plan_file": {"type": "path"},
        **inventory_spec(),
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
