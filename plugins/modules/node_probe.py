#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_probe
short_description: Verify from one node that its pods reach other pods
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Finds pods on the node by their network namespaces, pings given addresses from inside them, with a small packet and with one
    that fills the tunnel, reads when each WireGuard peer last shook hands, and asks the kernel whether packets for the peers leave by their devices.
    It needs no container runtime and changes nothing.
extends_documentation_fragment:
  - multicluster.network._attributes.node
  - multicluster.network._attributes.reads
requirements:
  - ping and nsenter on the node
options:
  pod_cidrs:
    description:
      - The node's own pod ranges. An address inside them makes a namespace a pod.
      - The default is what the plan of M(multicluster.network.mesh_plan) in the same run has for the host, with O(cluster_cidrs).
    type: list
    elements: str
  cluster_cidrs:
    description: The pod ranges of the node's whole cluster. Pods with an address in them that is in none of O(pod_cidrs) are reported.
    type: list
    elements: str
    default: []
  for_ends:
    description:
      - Ends of packets that are to be traced, each with C(source) and C(target), out of which O(max_pods) follows. Without O(pod_cidrs) only.
      - With O(fabric), RV(ends) reports what makes the node and members of a discovery service ends of a trace.
    type: list
    elements: dict
  max_pods:
    description: How many pods of the node take part.
    type: int
    default: 1
  targets:
    description: Pods of other nodes to reach.
    type: list
    elements: dict
    default: []
    suboptions:
      node:
        description: Name of the target's node, for the report.
        type: str
        required: true
      address:
        description: Address of the target.
        type: str
        required: true
  host_targets:
    description: What the host itself is to reach, besides its pods, such as a pod of each other cluster and the exported addresses of nodes.
    type: list
    elements: dict
    default: []
    suboptions:
      node:
        description: Name of the target's node, for the report.
        type: str
        required: true
      address:
        description: Address of the target.
        type: str
        required: true
  devices:
    description:
      - WireGuard devices with peers to report. For one address of every range of every peer, and for one inside each narrower route
        and rule of others within it, the kernel is asked whether its packets leave by the device.
    type: list
    elements: str
    default: []
  mark:
    description: Firewall mark that packets for these devices carry, as with KubeSpan.
    type: int
    default: 0
  fabric:
    description: Name of the fabric. Its systemd units on this node are reported.
    type: str
  tries:
    description: How often an address is tried before it counts as not reached.
    type: int
    default: 3
  wait_seconds:
    description: How long one try waits.
    type: int
    default: 2
attributes:
  action_group:
    description: Use C(group/multicluster.network.node) in C(module_defaults) to set options once.
    support: full
    membership:
      - multicluster.network.all
      - multicluster.network.internal
      - multicluster.network.node
  check_mode:
    description: Reads and pings only, so check mode is the same.
    support: full
"""

EXAMPLES = r"""
- name: Which pods are here
  multicluster.network.node_probe:
    pod_cidrs: [10.2.3.0/24]

- name: Reach a pod of another cluster from here
  multicluster.network.node_probe:
    pod_cidrs: [10.2.3.0/24]
    devices: [wireguard.gcp]
    targets:
      - {node: gcp-node-1, address: 10.4.7.10}
"""

RETURN = r"""
pods:
  description:
    - The pods that took part. C(in_namespace) is false where no pod was found and an address of the node was used instead, which proves nothing of pods.
  type: list
  elements: dict
  returned: success
  sample: [{addresses: [10.2.3.10], in_namespace: true}]
strays:
  description: Addresses of pods here that are in the cluster's ranges and not in the node's; the mesh cannot carry them.
  type: list
  elements: str
  returned: success
  sample: []
others:
  description: Where there is no pod, addresses outside all these ranges that network namespaces of this node have.
  type: list
  elements: str
  returned: success
  sample: []
pings:
  description:
    - Every pair that was tried. C(full) is the size in bytes of a packet that fills the tunnel to the target, or of the largest one that the pod's kernel
      would send; C(size) that of the largest packet that was answered without being fragmented. Both are null where no answer came or no tunnel leads there.
  type: list
  elements: dict
  returned: success
  sample: [{source: 10.2.3.10, target: 10.4.7.10, node: gcp-node-1, ok: true, milliseconds: 0.9, size: 1420, full: 1420}]
host_pings:
  description: >-
    The same of O(host_targets), from the address that the host's kernel takes. Sizes are not asked. No answer is awaited of a version of IP that is
    not in RV(host_sources).
  type: list
  elements: dict
  returned: success
  sample: [{source: 10.66.23.31, target: 10.4.7.10, node: gcp-node-1, ok: true, milliseconds: 0.9, size: null, full: null}]
host_sources:
  description: >-
    The versions of IP of which the mesh gives packets of the host itself an address that other clusters accept, or should, since the node
    holds one in its pod ranges.
  type: list
  elements: int
  returned: success
  sample: [4]
peers:
  description: The peers of the devices; the handshake's age in seconds is null where there was none.
  type: list
  elements: dict
  returned: success
  sample:
    - device: wireguard.gcp
      public_key: ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA=
      endpoint: 10.22.22.27:51821
      handshake_age: 3
      listen_port: 51821
      source: 10.66.23.31
paths:
  description:
    - How many questions the kernel was asked, and the ranges with packets that do not leave by the device of their peer, each with the
      address that was asked for and what takes it. Null without devices.
  type: dict
  returned: success
  sample:
    asked: 4
    elsewhere:
      - range: 10.4.7.0/24
        device: wireguard.gcp
        address: 10.4.7.129
        source: null
        text: the kernel sends it by eth0; it is taken by route 10.4.7.128/25 dev eth0 table main protocol 4
    more: 0
units:
  description: The fabric's systemd units on this node.
  type: list
  elements: dict
  returned: success
  sample: [{name: multicluster-network-default.service, load: loaded, active: active, sub: exited, result: success, enabled: enabled}]
bgp:
  description:
    - What the collection's BGP speaker announces here, what it withholds since no pod of the Service runs here (C(externalTrafficPolicy=Local)),
      and its sessions; null where there is none.
  type: dict
  returned: success
  sample: {announces: [203.0.113.1/32], withheld: [], sessions: [{neighbor: 10.66.23.1, state: Established}]}
service_proxy:
  description:
    - Whether a process here forwards the packets of Services to their endpoints (kube-proxy, or what replaces it); C(running) is null where something may
      do so that cannot be asked. Null without devices.
  type: dict
  returned: success
  sample: {running: true, how: a process kube-proxy runs}
tracking:
  description:
    - How many connections the kernel tracks, how many it can, and how many packets it has dropped since it could not track them; null without devices, and
      where it tracks none.
  type: dict
  returned: success
  sample: {count: 412, most: 262144, dropped: 0}
discovery:
  description:
    - What the watcher reports of the discovery service of a KubeSpan mesh, C(state) with its C(reason) and C(message), C(members), C(refused), and
      C(labels), the names of peers by public key. Null without one.
  type: dict
  returned: success
  sample: {state: connected, members: 3, refused: [], labels: {"CvQ6mT6y+Q7KxcZDGrj2C51PMVG0dGomuLq+aH7CTR8=": worker-1}}
ends:
  description:
    - With O(for_ends), in a KubeSpan mesh with a discovery service, C(members) with the names, keys and networks that they announce, the node's C(own)
      addresses, and C(sources), the address from which its kernel sends to each. Null without a service.
  type: dict
  returned: with O(for_ends) and O(fabric)
  sample:
    members: [{name: talos-worker-1, public_key: CvQ6mT6y+Q7KxcZDGrj2C51PMVG0dGomuLq+aH7CTR8=, networks: [192.0.2.11], allowed_ips: [192.0.2.11/32]}]
    own: [192.0.2.40]
    sources: {192.0.2.11: 192.0.2.40}
errors:
  description: What could not be read, by C(section) and C(message).
  type: list
  elements: dict
  returned: success
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import probe as node_probe
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, probe_spec


def main() -> None:
    spec = probe_spec()
    module = AnsibleModule(
        argument_spec=dict(
            spec,
            for_ends={"type": "list", "elements": "dict"},
            targets=dict(spec["targets"], default=[]),
            fabric={"type": "str"},
        ),
        supports_check_mode=True,
    )
    if module.params["pod_cidrs"] is None:
        module.fail_json(msg="missing required arguments: pod_cidrs; the mesh was not planned in this run")
    try:
        result = node_probe.run(module.params)
    except (OSError, ValueError) as err:
        module.fail_json(msg=f"cannot probe: {err}")
    exit_with(module, result)


if __name__ == "__main__":
    main()
