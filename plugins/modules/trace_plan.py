#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: trace_plan
short_description: Resolve both ends of a trace from the objects of every cluster
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Reads each kind of each cluster by one complete list and resolves what O(source) and O(target) mean, name to address and Service to endpoints.
  - Returns the flows that M(multicluster.network.trace_node) sends and records, and findings that need no packet, such as a name that does not exist
    or a Service without endpoints. Nothing is written.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._attributes
  - multicluster.network._attributes.reads
attributes:
  action_group:
    description: Use C(group/multicluster.network.kube) in C(module_defaults) to set options once.
    support: full
    membership:
      - multicluster.network.all
      - multicluster.network.internal
      - multicluster.network.kube
options:
  fabric:
    description: Name of the fabric.
    type: str
    required: true
  mesh:
    description: The return value C(mesh) of M(multicluster.network.mesh_plan). Empty where there is no node mesh.
    type: dict
    default: {}
  hosts:
    description: Host of the inventory to its C(cluster) and C(node). The default is what the inventory has.
    type: dict
    default: {}
  source:
    description:
      - A pod as C(cluster/namespace/pod), a node as C(cluster/node), or V(any), which is one pod of each node.
      - Needed unless there are O(questions) or O(pairs).
    type: str
  target:
    description:
      - A pod or Service as C(cluster/namespace/name), one of them as C(cluster/namespace/kind/name) with C(pod), C(service) or C(serviceimport),
        a node as C(cluster/node), an address, a DNS name as the source would ask it, or V(any).
      - A Service of another cluster is dialled by its mirror, or by its ServiceImport.
      - Needed unless there are O(questions).
    type: str
  port:
    description: The port. It may also follow an address or a name. The default of a Service is its first port.
    type: int
  protocol:
    description: The default is V(tcp) with a port, else V(icmp).
    type: str
    choices: [tcp, udp, icmp]
  family:
    description: V(any) traces each family that both ends have.
    type: str
    choices: ['4', '6', any]
    default: any
  number:
    description: Source port or ICMP identifier of the first flow, from 61000 to 64999. The default is chosen at random.
    type: int
  pairs:
    description: Pairs of pods instead of O(source) and O(target), each with C(host), C(address), C(target_host) and C(target). No cluster is read then.
    type: list
    elements: dict
    default: []
  pods:
    description:
      - Host of the inventory to addresses of pods that its kernel has, as M(multicluster.network.node_probe) finds them. They are the ends of V(any) on a node
        without a Pod object, and make an address known. The default is what the play has found.
    type: dict
    default: {}
  ends:
    description:
      - Host of the inventory to what it knows of itself and of members of a discovery service, the RV(multicluster.network.node_probe#module:ends) of
        M(multicluster.network.node_probe). So a host that is no Node is an end, and so is a member that is in no inventory. The default is what the
        play has found.
    type: dict
    default: {}
  failing:
    description:
      - Take O(pairs) from the pings without a response in a verification, the first of each pair of nodes, at most so many. In a play without any, the
        task is skipped.
    type: int
    default: 0
  questions:
    description:
      - Many traces at once, each with C(source), C(target), C(port), C(protocol) and C(family) as the options of these names.
      - At most 2000 flows become of them; findings name the question by its place in the list.
    type: list
    elements: dict
    default: []
  what_if:
    description:
      - Hypotheses about the fabric, taken together. Nothing is sent, and RV(trace) has C(reach), which pairs of nodes have no path, which Services keep no
        endpoint, and which addresses of load balancers move where.
      - Each has one of C(plan), C(away), C(annotation), C(label), C(range), C(key) and C(service), as the role trace describes for C(trace_what_if).
    type: list
    elements: raw
    default: []
  assumed:
    description: The return value C(assumed) of M(multicluster.network.mesh_plan). The default is what the run has planned.
    type: dict
    default: {}
  mirror_selector:
    description: Labels of Services that are mirrored.
    type: str
    default: mirror.semaphore.uw.io/mirror-service=true
  global_selector:
    description: Labels of Services that are global.
    type: str
    default: ""
  speakers:
    description: Host of the inventory to how it announces addresses, its C(segment) and C(bgp). The default is that of the inventory.
    type: dict
    default: {}
  reserved:
    description: Cluster to VRRP ids that its addresses do not have. The default is that of the inventory.
    type: dict
    default: {}
  mirror_namespace:
    description: Namespace of mirrored Services.
    type: str
    default: sys-semaphore
  prefixes:
    description: Cluster to the prefix of its mirrors, where that is not the cluster's name.
    type: dict
    default: {}
  cluster_domain:
    description: DNS domain of Kubernetes itself.
    type: str
    default: cluster.local
  coredns_namespace:
    description: Namespace of the ConfigMap with the Corefile.
    type: str
    default: kube-system
  coredns_configmap:
    description: Name of the ConfigMap with the Corefile.
    type: str
    default: coredns
seealso:
  - module: multicluster.network.trace_node
  - module: multicluster.network.trace_report
"""

EXAMPLES = r"""
- name: Resolve both ends
  multicluster.network.trace_plan:
    fabric: demo
    source: aws/default/web-1
    target: gcp/sys-log/fluentd
    port: 8888
  delegate_to: localhost
  run_once: true
  register: plan
"""

RETURN = r"""
trace:
  description:
    - C(id), C(number), C(flows), C(nodes) with the hosts that packets pass, C(names) with the steps from name to address, C(findings) that need no
      packet, C(mesh) and C(hosts) with what the report needs of the plan.
  type: dict
  returned: success
  sample:
    id: 1f2e3d4c
    number: 61234
    nodes: [aws-node-1, gcp-node-1]
    flows:
      - id: "0"
        number: 61234
        protocol: tcp
        version: 4
        source: {kind: pod, name: aws/default/web-1, cluster: aws, host: aws-node-1, address: 10.2.0.10}
        target: {kind: service, name: gcp/sys-log/fluentd, cluster: aws, address: 10.3.0.77, port: 8888,
                 backends: [{address: 10.4.0.7, port: 8888, cluster: gcp, host: gcp-node-1}]}
    findings: []
failures:
  description: Clusters that could not be read.
  type: list
  elements: dict
  returned: success
  sample: []
stats:
  description: Requests to each cluster by verb, and seconds.
  type: dict
  returned: success
  sample: {requests: {aws: {list: 5}, gcp: {list: 5}}, seconds: 0.2}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.reports import trace
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import inventory_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "fabric": {"type": "str", "required": True},
        "mesh": {"type": "dict", "default": {}},
        "hosts": {"type": "dict", "default": {}},
        "source": {"type": "str"},
        "target": {"type": "str"},
        "questions": {"type": "list", "elements": "dict", "default": []},
        "what_if": {"type": "list", "elements": "raw", "default": []},
        "assumed": {"type": "dict", "default": {}},
        "mirror_selector": {"type": "str", "default": "mirror.semaphore.uw.io/mirror-service=true"},
        "global_selector": {"type": "str", "default": ""},
        "speakers": {"type": "dict", "default": {}},
        "reserved": {"type": "dict", "default": {}},
        "port": {"type": "int"},
        "protocol": {"type": "str", "choices": ["tcp", "udp", "icmp"]},
        "family": {"type": "str", "choices": ["4", "6", "any"], "default": "any"},
        "number": {"type": "int"},
        "pairs": {"type": "list", "elements": "dict", "default": []},
        "failing": {"type": "int", "default": 0},
        "mirror_namespace": {"type": "str", "default": "sys-semaphore"},
        "prefixes": {"type": "dict", "default": {}},
        "pods": {"type": "dict", "default": {}},
        "ends": {"type": "dict", "default": {}},
        "cluster_domain": {"type": "str", "default": "cluster.local"},
        "coredns_namespace": {"type": "str", "default": "kube-system"},
        "coredns_configmap": {"type": "str", "default": "coredns"},
        **inventory_spec(),
    }


def run(module: Any) -> None:
    """All but the start, which the action plugin does for itself."""
    try:
        result = trace.plan(module.params)
    except trace.FAILURES as err:
        module.fail_json(msg=f"cannot plan the trace: {err}")
    exit_with(module, result)


def main() -> None:
    """Entry point."""
    run(KubeModule(argument_spec=argument_spec(), supports_check_mode=True))


if __name__ == "__main__":
    main()
