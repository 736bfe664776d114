#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_status
short_description: Write the state of the whole fabric as a page, as JSON and as Prometheus text
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Reads each kind of each cluster by one complete list and joins it with what M(multicluster.network.node_info) said of every
    node and with plans that were made in check mode. A plan's changes are the drift; the module looks up who has each thing now.
  - The page is one file without any reference to another. It needs no server, and shows the same without its script.
  - Nothing on the fabric is changed. No private key, preshared key, token or password is read for it.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._fabric
  - multicluster.network._attributes
options:
  mesh:
    description: The return value C(mesh) of M(multicluster.network.mesh_plan). Empty where there is no node mesh.
    type: dict
    default: {}
  probes:
    description: Host to the result of M(multicluster.network.node_probe). Without pings a mesh is not proven.
    type: dict
    default: {}
  trace:
    description:
      - C(flows), C(findings) and C(hops) of M(multicluster.network.trace_report), of packets that were followed since pods did not reach each other.
      - The page has a picture of each way.
    type: dict
    default: {}
  unreachable:
    description: Host that did not answer to what its connection said.
    type: dict
    default: {}
  capabilities:
    description: The capabilities that are on. One that is missing in O(plans) makes the whole V(not proven).
    type: list
    elements: str
    default: []
  limit:
    description: The pattern of C(--limit) of the run. The verdict is about what is inside.
    type: str
    default: ""
  outside:
    description: Hosts that O(limit) left out. They are shown as not asked, and are no part of the verdict.
    type: list
    elements: str
    default: []
  unasked:
    description: Capabilities that O(limit) left out.
    type: list
    elements: str
    default: []
  page:
    description: File that receives the page.
    type: path
  document:
    description: File that receives the JSON. What an earlier run left there is what this run is compared with.
    type: path
  metrics:
    description: File that receives the Prometheus text.
    type: path
attributes:
  check_mode:
    description: In check mode no file is written.
    support: full
  diff_mode:
    description: A report is no change, so there is no diff.
    support: none
  idempotent:
    description: Never reports a change. The files are written at every run, since their moment differs.
    support: full
"""

EXAMPLES = r"""
- name: Write the page of two clusters without a node mesh
  multicluster.network.fabric_status:
    fabric: default
    clusters:
      - {name: aws, kubeconfig: /etc/multicluster/aws.kubeconfig}
      - {name: gcp, kubeconfig: /etc/multicluster/gcp.kubeconfig}
    page: /var/www/fabric.html
    document: /var/www/fabric.json
    metrics: /var/lib/prometheus/node-exporter/fabric.prom
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
verdict:
  description:
    - How the fabric is. V(proven) means that everything was looked at and is as the inventory asks, V(not proven) that nothing bad was seen
      and not everything looked at or accepted, V(broken) that something is not as it should be. It is what the playbook C(verify) finds.
  type: str
  returned: success
  sample: proven
reasons:
  description: Why it is not proven, what is broken first, the first 200.
  type: list
  elements: str
  returned: success
  sample: ["mesh: refused gcp/extra-1: its range is that of gcp/gcp-node-1 [claimed_twice]"]
parts:
  description: The same for the mesh and each capability, with the count of reasons.
  type: dict
  returned: success
  sample: {mesh: {value: proven, reasons: 0}, service_mirror: {value: proven, reasons: 0}}
lines:
  description: The same for people. What the fabric is, a row for each cluster, the first reasons, and what to do where something is to be done.
  type: list
  elements: str
  returned: success
  sample:
    - "fabric default: all green"
    - "CLUSTER  NODES   POD RANGES  TUNNELS  SERVICES  ADDRESSES  OLDEST KEY  VERDICT"
    - "aws      2 of 2  calico      4 of 4   1         0          12 d        proven"
    - "the rest: /srv/fabric-status.html"
scope:
  description: What the verdict is about, the pattern of C(--limit), how many nodes there are and were judged, and what was not asked.
  type: dict
  returned: success
  sample: {limit: aws_nodes, nodes: 4, judged: 2, not_asked: {nodes: [gcp-1, gcp-2], capabilities: []}}
summary:
  description: The numbers on top of the page.
  type: dict
  returned: success
  sample: {clusters: 2, nodes: 4, tunnels: 8, tunnels_up: 8, drift: 0}
next_failure:
  description:
    - What the next single failure would cost, C(pairs) of nodes with a path, and the C(node) and the C(cluster) that take most Services from other
      clusters or else most pairs, each with C(name), C(pairs), C(services), the first 20, and C(service_count). Empty without a mesh.
  type: dict
  returned: success
  sample:
    pairs: 12
    node: {name: aws-node-1, cluster: aws, pairs: 4, services: [gcp/sys-semaphore/aws-shop-web], service_count: 1}
    cluster: {name: aws, cluster: aws, pairs: 12, services: [], service_count: 0}
drift:
  description: What differs from the inventory, the first 200; the JSON has all.
  type: list
  elements: dict
  returned: success
  sample:
    - where: gcp
      kind: Service
      name: sys-semaphore/aws-sys-log-73736d-fluentd
      difference: "differs: spec"
      owner: kubectl-edit
      since: "2026-11-22T01:00:00Z"
      first_seen: "2026-11-22T01:05:00Z"
      last_good: "2026-11-22T00:35:00Z"
since_last_run:
  description: When the run before was, how much of the drift is new, and how much is gone.
  type: dict
  returned: success
  sample: {previous: "2026-11-22T00:35:00Z", new: 1, gone: 0}
failures:
  description: What could not be read.
  type: list
  elements: dict
  returned: success
  sample: []
files:
  description: The files by the option that named them.
  type: dict
  returned: success
  sample: {page: /var/www/fabric.html}
"""

from ansible_collections.multicluster.network.plugins.module_utils._flows.reports import status as fabric_status
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import inventory_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with


def main() -> None:
    module = KubeModule(
        argument_spec={
            "fabric": {"type": "str", "required": True},
            "mesh": {"type": "dict", "default": {}},
            "nodes": {"type": "dict", "default": {}},
            "node_plans": {"type": "dict", "default": {}},
            "plans": {"type": "dict", "default": {}},
            "probes": {"type": "dict", "default": {}},
            "trace": {"type": "dict", "default": {}},
            "unreachable": {"type": "dict", "default": {}},
            "capabilities": {"type": "list", "elements": "str", "default": []},
            "limit": {"type": "str", "default": ""},
            "outside": {"type": "list", "elements": "str", "default": []},
            "unasked": {"type": "list", "elements": "str", "default": []},
            "facts": {"type": "str"},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "page": {"type": "path"},
            "document": {"type": "path"},
            "metrics": {"type": "path"},
            **inventory_spec(),
        },
        supports_check_mode=True,
    )
    try:
        result = fabric_status.run(module.params, module.check_mode)
    except fabric_status.FAILURES as err:
        module.fail_json(msg=f"cannot describe the fabric: {err}")
    exit_with(module, result)


if __name__ == "__main__":
    main()
