#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_plan
short_description: Validate the fabric, read every cluster once, plan the node mesh
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Validates the whole fabric of the inventory and reports all corrections at once, before any cluster is asked.
  - Reads the Node objects of every cluster with one complete list each, all clusters at the same time, and computes for
    every cluster the devices, routes and peers of its nodes. It writes nothing.
  - In the same round it lists the objects in which the network plugin of a cluster keeps the pod ranges of nodes, by the cluster's variable C(pod_ranges).
  - What a cluster publishes is a claim. A claim outside the cluster's grants is refused by name and the rest
    goes on. Nodes that claim one key, id or address are passed on as contested, with a warning. Each node decides from its own
    confirmed state. Peers of a cluster that cannot be read completely are marked to be left as they are.
  - Keys that hosts have not made yet appear as deferred values, so that check mode can show the whole change of a new fabric.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._attributes
  - multicluster.network._attributes.reads
options:
  fabric:
    description: Name of the fabric.
    type: str
    required: true
  definition:
    description:
      - The fabric, C(clusters) with each cluster's variables and C(nodes) with each node's. The default is what the inventory has.
        Hosts outside C(--limit) take part then, because the topology is the inventory's and not that of the running play.
    type: dict
  mode:
    description:
      - V(semaphore) gives every node a device for each remote cluster.
      - V(kubespan) makes one full mesh of all nodes of the fabric.
    type: str
    choices: [semaphore, kubespan]
    default: semaphore
  mesh_id:
    description: Identity of the KubeSpan mesh, opaque text.
    type: str
  registries:
    description:
      - From where the nodes of a KubeSpan mesh know each other, V(annotations) of their Nodes, V(inventory), what hosts of the inventory report in the run, and
        V(discovery), a discovery service, which each node asks for itself.
      - With V(discovery) a host needs no Node, and without V(annotations) no access to the API of its cluster.
    type: list
    elements: str
    choices: [annotations, inventory, discovery]
    default: [annotations, inventory]
  reported:
    description:
      - What hosts reported of themselves in this run, annotations by host.
      - A host's own report counts instead of what its cluster has of it, and decides between nodes that claim one thing where a node
        does not know from its last confirmed state who holds it.
    type: dict
    default: {}
  again:
    description:
      - Replace the plan of this run by one that has what the run has published since. Results of M(multicluster.network.node_dataplane) on the hosts of
        the play are taken for O(reported).
      - Where nothing new was published there is nothing to plan, and the task is skipped.
    type: bool
    default: false
  validate_only:
    description: Validate the inventory and ask no cluster.
    type: bool
    default: false
  leaving:
    description: The cluster that this run takes out of the fabric, so that no warning reports it as missing.
    type: str
    default: ""
  places:
    description:
      - Read also where the pods of each cluster are, by IPPools and BlockAffinities of Calico, CiliumNodes, annotations of Nodes, and 500 of its running
        pods, and return as C(pod_places) of RV(mesh) what is outside of C(pod_cidrs) or of the ranges of its Node.
      - What may not be read is a warning; C(cluster_access_capability=pod_ranges) of the role cluster_access gives the rights.
    type: bool
    default: false
  assume:
    description: Hypotheses of which RV(assumed) is the plan, as C(trace_what_if) has them. RV(mesh) is without them.
    type: list
    elements: raw
    default: []
  fail_on_refused:
    description: Fail when any claim was refused. The topology is returned all the same.
    type: bool
    default: false
  plan_file:
    description: File on the controller that receives the topology as JSON.
    type: path
  slice:
    description:
      - Whether this job has a part of the hosts. The nodes of the fabric are those on which the first job of the workflow agreed.
      - Where the plan of this job differs from the one that was agreed on it fails with C(plan_differs), and names the variables and objects that differ.
    type: bool
    default: false
  rotation:
    description:
      - The step of a rotation of keys that the plan is to have, C(step) and C(hosts), those with new keys. The default is the step of this run, which
        M(multicluster.network.run_rotation) has set; without one a rotation stays as it is found.
    type: dict
    default: {}
  preshared:
    description:
      - Whether each pair of nodes of a Semaphore mesh has a preshared key in addition to its public keys. It takes effect where a node makes its first key,
        and elsewhere by the playbook rotate_keys.
      - The action plugin reads the secret from the inventory variable C(preshared_secret), and the plan has its fingerprint.
    type: bool
    default: false
  preshared_generation:
    description: A number from 1 to 999999. Preshared keys of another number are others; the playbook rotate_keys changes to them.
    type: int
    default: 1
seealso:
  - module: multicluster.network.node_dataplane
  - module: multicluster.network.node_annotations
"""

EXAMPLES = r"""
- name: Plan the mesh of the inventory
  multicluster.network.mesh_plan:
    fabric: demo
  delegate_to: localhost
  run_once: true
  register: plan
"""

RETURN = r"""
mesh:
  description:
    - The topology, with C(clusters), C(nodes), C(refused), C(failures), and C(pod_ranges), which has the C(source) of the pod ranges of each
      cluster's nodes (the variable C(pod_ranges) of the cluster) and C(notes) on it.
  type: dict
  returned: success
  sample:
    nodes:
      aws-node-1: {cluster: aws, node_name: aws-node-1}
assumed:
  description: The topology with the hypotheses of O(assume).
  type: dict
  returned: when one of them is about an annotation, a range or a key
  sample: {}
sources:
  description:
    - A sentence for each cluster, from where the pod ranges of its nodes are. With O(validate_only) what the inventory asks for.
  type: list
  elements: str
  returned: success
  sample: ["pod ranges of gcp: BlockAffinities and IPAMBlocks of Calico (pod_ranges: calico)"]
refused:
  description: Claims that were refused, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: success
  sample: [{object: gcp/gcp-node-1, reason: bad_public_key, message: "'x' is not 32 bytes in base64"}]
refused_before:
  description: What an earlier plan of this run and its nodes refused, as lines.
  type: list
  elements: str
  returned: always
  sample: []
contested:
  description: Nodes with a key, id or range that another node claims too. Each node decides which of them it takes.
  type: list
  elements: str
  returned: success
  sample: [aws/aws-node-1, gcp/gcp-node-1]
failures:
  description: Clusters that could not be read.
  type: list
  elements: dict
  returned: success
  sample: []
news:
  description: Hosts with another part of the plan than before.
  type: list
  elements: str
  returned: with O(again)
  sample: [aws-node-1]
news_clusters:
  description: Clusters that have such hosts, in this job or in others.
  type: list
  elements: str
  returned: with O(again)
  sample: [aws]
reachability:
  description:
    - Which hosts (C(ask)) have to be compared before the first write, since the plan could take paths from them, whether a run has to judge what it would
      lose (C(judge)), and the endpoints that the inventory gives by hand (C(declared)).
  type: dict
  returned: in the first plan of a run
  sample: {ask: [], judge: false, declared: {}}
findings:
  description: What is wrong in the inventory, each with the place, the variable, a reason and what to write.
  type: list
  elements: dict
  returned: failure
stats:
  description: Requests to each cluster by verb, and seconds.
  type: dict
  returned: success
  sample: {requests: {aws: {list: 1}, gcp: {list: 1}}, seconds: 0.2}
"""

import json
from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import mesh_plan
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import inventory_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule
from ansible_collections.multicluster.network.plugins.module_utils._linux.files import FileState, write_state
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import InventoryRefused
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, fail_on_refused_spec


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "fabric": {"type": "str", "required": True},
        "definition": {"type": "dict"},
        "mode": {"type": "str", "choices": ["semaphore", "kubespan"], "default": "semaphore"},
        "mesh_id": {"type": "str"},
        "registries": {
            "type": "list",
            "elements": "str",
            "choices": ["annotations", "inventory", "discovery"],
            "default": ["annotations", "inventory"],
        },
        "reported": {"type": "dict", "default": {}},
        "again": {"type": "bool", "default": False},
        "validate_only": {"type": "bool", "default": False},
        "leaving": {"type": "str", "default": ""},
        "places": {"type": "bool", "default": False},
        "assume": {"type": "list", "elements": "raw", "default": []},
        "plan_file": {"type": "path"},
        "slice": {"type": "bool", "default": False},
        "rotation": {"type": "dict", "default": {}},
        "preshared": {"type": "bool", "default": False},
        "preshared_generation": {"type": "int", "default": 1},
        **inventory_spec(),
        **fail_on_refused_spec(),
    }


def run(module: Any) -> None:
    """All but the start, which the action plugin does for itself."""
    try:
        result = mesh_plan.run(module.params)
    except InventoryRefused as err:
        module.fail_json(msg=str(err), findings=err.findings)
    except ValueError as err:
        module.fail_json(msg=str(err))
    if module.params["plan_file"]:
        text = json.dumps(result["mesh"], sort_keys=True, indent=1)
        write_state(module.params["plan_file"], FileState("file", 0o600, text.encode("utf-8")))
    exit_with(module, result)


def main() -> None:
    """Entry point."""
    run(KubeModule(argument_spec=argument_spec(), supports_check_mode=True))


if __name__ == "__main__":
    main()
