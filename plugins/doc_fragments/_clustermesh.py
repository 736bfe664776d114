# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Documentation of the options in _flows/clustermesh/arguments.py."""

from __future__ import annotations


class ModuleDocFragment:
    """How the Peers of Kilo's meshes are planned."""

    DOCUMENTATION = r"""
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
    description: Announce an internal address that is also the Peer's endpoint, as the upstream operator does. It can loop.
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
        annotations, V(before_annotations) before everything, as the newest upstream release does.
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
      - Write C(kilo.squat.ai/persistent-keepalive) to the Nodes of every cluster that has C(persistentKeepalive), or nodes that may roam.
        Kilo sends the keepalive of its own Node and not that of a Peer. It also makes other nodes of the cluster take learnt endpoints.
      - When false, those that this fabric wrote are removed. It needs the right to patch nodes.
    type: bool
    default: false
  force_internal_ip:
    description:
      - Write C(kilo.squat.ai/force-internal-ip=-) to Nodes where the internal address, from which Kilo sends, is also the endpoint. No tunnel can
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
        nodes are skipped as C(NodeNoWireguardIP), as the upstream operator does.
    type: bool
    default: true
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
      - The same holds for nodes with a Peer that Kilo would now refuse (O(strict_keys), O(strict_endpoints)).
    type: bool
    default: true
  strict_keys:
    description: Refuse keys that are not 32 bytes in canonical base64, as Kilo does with the whole Peer, instead of warning.
    type: bool
    default: true
  strict_endpoints:
    description:
      - Refuse endpoints that are neither a usable address nor a lower-case DNS name instead of warning, and write ranges as they are printed.
      - Look up DNS names, and refuse those that do not resolve within O(timeout). One Peer with a name that does not resolve keeps every
        agent of its cluster from changing anything. Set it to V(false) where only the nodes can resolve the names.
    type: bool
    default: true
"""
