#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_annotations
short_description: Manage annotations of the nodes of several clusters
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Brings the annotations of any number of nodes of any number of clusters to the desired values in one call.
  - Each cluster is asked once for its nodes, all clusters at the same time. Only nodes that differ are patched, and a patch
    holds only the keys that differ. Other annotations of a node are never touched.
  - A cluster that cannot be read or written is listed in RV(failures), and the others are finished.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._kubernetes.owner
  - multicluster.network._refused
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
options:
  annotations:
    description:
      - Cluster name to node name to annotations.
      - A value may be a deferred value of M(multicluster.network.mesh_plan). It is shown in check mode and refused otherwise.
      - With O(state=absent) and O(state=released) the values do not matter, and a list of node names may take the place of a dictionary of nodes.
    type: dict
    default: {}
  key:
    description: The one annotation for which O(annotations) has the value of each node, in place of a dictionary.
    type: str
  hosts:
    description:
      - Hosts of the play with the mesh that is meant, in place of O(annotations). What they reported by M(multicluster.network.node_dataplane) and their
        clusters do not hold is published; with O(state=absent) everything of the fabric goes from their Nodes, and with O(state=released)
        it stays there and is no longer owned.
      - Where nothing differs the task is skipped, and no cluster is asked.
    type: list
    elements: str
    default: []
  state:
    description:
      - V(absent) removes the named keys, and those that match O(prefixes), from the named nodes.
      - V(released) leaves them as they are and gives up their ownership, for the upstream program to go on with.
    type: str
    choices: [present, absent, released]
    default: present
  prefixes:
    description:
      - Keys that belong to what is being managed, each a whole key or one with a single C(*) for a part without slash.
      - Keys that match, that this fabric wrote and that O(annotations) does not want are removed.
    type: list
    elements: str
    default: []
  purge:
    description:
      - From which nodes O(prefixes) removes keys. V(named) means those in O(annotations), V(all) every node of each cluster.
      - Use V(all) only when O(annotations) is the whole truth, not the part of a play with C(--limit).
    type: str
    choices: [named, all]
    default: named
seealso:
  - module: multicluster.network.mesh_plan
"""

EXAMPLES = r"""
- name: Publish the key and endpoint of one node
  multicluster.network.node_annotations:
    fabric: demo
    clusters:
      - name: aws
        kubeconfig: ~/.kube/aws
    annotations:
      aws:
        aws-node-1:
          gcp.wireguard.semaphore.uw.io/pubKey: 20+DPsIsMA79+kkXNG1Raoe0hi0bnRf+xUJWhBtB6h8=
          gcp.wireguard.semaphore.uw.io/endpoint: 10.66.23.11:51821

- name: Remove every key of the mesh that the fabric wrote
  multicluster.network.node_annotations:
    fabric: demo
    state: absent
    clusters:
      - name: aws
        kubeconfig: ~/.kube/aws
    annotations:
      aws: [aws-node-1, aws-node-2]
    prefixes:
      - "*.wireguard.semaphore.uw.io/pubKey"
      - "*.wireguard.semaphore.uw.io/endpoint"
"""

RETURN = r"""
plan:
  description: Counts of nodes that were (or, in check mode, would be) changed, and the first 200 changes.
  type: dict
  returned: always
  sample:
    create: 0
    update: 1
    delete: 0
    unchanged: 3
    changes:
      - {action: update, kind: node, id: aws/aws-node-1, fields: [annotations]}
refused:
  description: What was left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample:
    - {object: aws/aws-node-9, reason: no_such_node, message: the cluster has no node of this name}
failures:
  description: What could not be read or written, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample:
    - {cluster: gcp, operation: list /api/v1/nodes, reason: source_incomplete, cause: unreachable, message: no answer within 10 s, status: null}
stats:
  description: Requests by verb for each cluster, and seconds.
  type: dict
  returned: always
  sample: {requests: {aws: {list: 1, patch: 1}}, seconds: 0.05}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import node_annotations
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import inventory_spec, owner_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube
from ansible_collections.multicluster.network.plugins.module_utils._module import fail_on_refused_spec


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "annotations": {"type": "dict", "default": {}},
        "key": {"type": "str", "no_log": False},
        "hosts": {"type": "list", "elements": "str", "default": []},
        "state": {"type": "str", "choices": ["present", "absent", "released"], "default": "present"},
        "prefixes": {"type": "list", "elements": "str", "default": []},
        "purge": {"type": "str", "choices": ["named", "all"], "default": "named"},
        **inventory_spec(),
        **owner_spec(),
        **fail_on_refused_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = node_annotations.run(module.params, check=module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    exit_kube(module, result)


if __name__ == "__main__":
    main()
