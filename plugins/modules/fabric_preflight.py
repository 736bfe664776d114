#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_preflight
short_description: Gather information about everything that would stop a first run
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Joins the errors of the inventory, clusters that do not answer, what M(multicluster.network.node_info) with C(checks) read on every
    node, and what plans made in check mode refused, and compares the hosts with each other.
  - Finds kernels that are too old, missing WireGuard, MTUs that are too small, ports, mark bits, tables and routes that others have,
    clocks that differ, keys and addresses that two hosts have, ranges that overlap, hosts with networks inside another
    cluster's ranges, programs in the clusters that do the same job, and clusters with Services that would get addresses which nobody announces.
  - It changes nothing.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._fabric
  - multicluster.network._attributes
  - multicluster.network._attributes.reads
options:
  definition:
    description: >-
      The variables of C(clusters) and C(nodes), and C(findings) about them. What is not given comes from the inventory, as O(load_balancers) does then.
    type: dict
  mesh:
    description: The return value C(mesh) of M(multicluster.network.mesh_plan). Empty where it could not be planned.
    type: dict
    default: {}
  kubespan:
    description: What of the layout of a KubeSpan mesh is not as usual, V({}) for nothing. Leave it out where there is no such mesh.
    type: dict
  load_balancers:
    description:
      - For each cluster with load balancing C(cluster), and of its settings C(load_balancer), C(bgp_speakers), C(bgp_families), C(announced_by),
        C(pool) and C(pools).
    type: list
    elements: dict
    default: []
  services:
    description: Where Services are mirrored to; leave it out where they are not.
    type: dict
    suboptions:
      namespace:
        description: The namespace of the mirrors. Where it is missing, and not O(services.create_namespace), nothing can be mirrored.
        type: str
        required: true
      create_namespace:
        description: Whether it will be made.
        type: bool
        default: false
      destinations:
        description: The clusters that get mirrors. The default is all.
        type: list
        elements: str
        default: []
  imports:
    description: That Services are exported by the Multi-Cluster Services API; leave it out where they are not.
    type: dict
    suboptions:
      install_crds:
        description: Whether a run installs the definitions of the API where they are missing.
        type: bool
        default: false
      destinations:
        description: The clusters that get imports; the others are only read. The default is all.
        type: list
        elements: str
        default: []
  failed:
    description: Checks that ended in a failure of their own, so that they say nothing. Each is an error. What is not given comes from the run.
    type: list
    elements: dict
    suboptions:
      where:
        description: The host, or V(run) for what is done once for all.
        type: str
        required: true
      why:
        description: What it said.
        type: str
        required: true
  trace:
    description: Whether to look at the rights that the playbook C(trace) needs. What is missing is a warning.
    type: bool
    default: false
  max_skew:
    description: How many seconds a node's clock may differ from the controller's.
    type: float
    default: 30
  capabilities:
    description: The capabilities of the inventory; what the variables of their roles say is judged, too.
    type: list
    elements: str
    default: []
  path:
    description: File on the controller that receives RV(findings) as JSON, outside of check mode.
    type: path
  fail_on_errors:
    description: Fail when there is any finding of level C(error).
    type: bool
    default: true
attributes:
  check_mode:
    description: Reads only, so check mode is the same.
    support: full
"""

EXAMPLES = r"""
- name: Would this inventory work with these clusters
  multicluster.network.fabric_preflight:
    fabric: default
    clusters:
      - {name: aws, kubeconfig: /etc/multicluster/aws.kubeconfig}
      - {name: gcp, kubeconfig: /etc/multicluster/gcp.kubeconfig}
    definition:
      clusters:
        aws: {pod_cidrs: [10.2.0.0/16]}
        gcp: {pod_cidrs: [10.4.0.0/16]}
    fail_on_errors: false
"""

RETURN = r"""
ok:
  description: Whether there is no finding of level C(error).
  type: bool
  returned: always
  sample: true
findings:
  description: What was found, errors first, each with where, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample:
    - {level: error, where: aws-node-1, reason: port_taken, message: UDP port 51821 of wireguard.gcp is in use}
lines:
  description: The findings as lines of text.
  type: list
  elements: str
  returned: always
  sample: ["error: aws-node-1: UDP port 51821 of wireguard.gcp is in use [port_taken]"]
errors:
  description: How many of them are errors.
  type: int
  returned: always
  sample: 1
hosts:
  description: How many hosts were looked at.
  type: int
  returned: always
  sample: 4
stats:
  description: Requests to each cluster by verb, and seconds.
  type: dict
  returned: always
  sample: {requests: {aws: {list: 3}, gcp: {list: 3}}, seconds: 0.2}
"""

from ansible_collections.multicluster.network.plugins.module_utils._flows.reports import preflight as fabric_preflight
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import inventory_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with


def main() -> None:
    module = KubeModule(
        argument_spec={
            "fabric": {"type": "str", "required": True},
            "definition": {"type": "dict"},
            "mesh": {"type": "dict", "default": {}},
            "nodes": {"type": "dict", "default": {}},
            "node_plans": {"type": "dict", "default": {}},
            "plans": {"type": "dict", "default": {}},
            "facts": {"type": "str"},
            "capabilities": {"type": "list", "elements": "str", "default": []},
            "path": {"type": "path"},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "kubespan": {"type": "dict"},
            "load_balancers": {"type": "list", "elements": "dict", "default": []},
            "failed": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "where": {"type": "str", "required": True},
                    "why": {"type": "str", "required": True},
                },
            },
            "trace": {"type": "bool", "default": False},
            "imports": {
                "type": "dict",
                "options": {
                    "install_crds": {"type": "bool", "default": False},
                    "destinations": {"type": "list", "elements": "str", "default": []},
                },
            },
            "services": {
                "type": "dict",
                "options": {
                    "namespace": {"type": "str", "required": True},
                    "create_namespace": {"type": "bool", "default": False},
                    "destinations": {"type": "list", "elements": "str", "default": []},
                },
            },
            "max_skew": {"type": "float", "default": 30},
            "fail_on_errors": {"type": "bool", "default": True},
            **inventory_spec(),
        },
        supports_check_mode=True,
    )
    result = fabric_preflight.run(module.params)
    if module.params["fail_on_errors"] and not result["ok"]:
        shown = ["{where}: {message} [{reason}]".format(**row) for row in result["findings"] if row["level"] == "error"]
        module.fail_json(msg="{0} obstacles:\n{1}".format(result["errors"], "\n".join(shown)), **result)
    exit_with(module, result)


if __name__ == "__main__":
    main()
