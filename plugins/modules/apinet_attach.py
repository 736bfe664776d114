#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apinet_attach
short_description: Attach interfaces of tenants to nodes of the network fabric
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Does the machine pool's part of an interface's life, for those who have none. It makes the interface on the network side, named by the
    uid of the tenant's interface, waits until the node's agent reports C(Ready), and writes the provider ID into the tenant's interface.
    M(multicluster.network.apinet_sync) takes over from there.
  - The network of an interface must be available, and its provider ID must name its own twin. That is verified on the network side.
  - An interface that a machine pool attached is never touched.
extends_documentation_fragment:
  - multicluster.network._kubernetes
  - multicluster.network._tenants
  - multicluster.network._tenants.source
  - multicluster.network._tenants.runner
  - multicluster.network._refused
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
options:
  interfaces:
    description: The interfaces.
    type: list
    elements: dict
    default: []
    suboptions:
      namespace:
        description: Namespace of the interface on the tenant-facing side.
        type: str
        required: true
      name:
        description: Its name.
        type: str
        required: true
      node:
        description: The node of the network side that the machine runs on. Required with O(state=present).
        type: str
  state:
    description:
      - V(absent) clears the provider IDs and deletes the interfaces of the network side that this module made, also when the
        tenant's interface is gone already.
    type: str
    choices: [present, absent]
    default: present
  detach_namespace:
    description: With O(state=absent), also everything that was attached for this namespace of the tenant-facing side.
    type: str
  require_ready:
    description: Write the provider ID only when the network side reports C(Ready). Set it to V(false) where no agent reports a state.
    type: bool
    default: true
  wait:
    description: Seconds to wait for that.
    type: float
    default: 60
seealso:
  - module: multicluster.network.apinet_sync
"""

EXAMPLES = r"""
- name: Attach two interfaces
  multicluster.network.apinet_attach:
    fabric: demo
    clusters: "{{ tenants_clusters }}"
    source: tenants
    apinet: fabric
    apinet_namespace: apinet-system
    interfaces:
      - {namespace: team-a, name: nic-1, node: rack-1.node-a}
      - {namespace: team-a, name: nic-2, node: rack-1.node-b}

- name: Detach one of them
  multicluster.network.apinet_attach:
    fabric: demo
    clusters: "{{ tenants_clusters }}"
    source: tenants
    apinet: fabric
    apinet_namespace: apinet-system
    interfaces:
      - {namespace: team-a, name: nic-2}
    state: absent
"""

RETURN = r"""
plan:
  description: Counts of what was (or, in check mode, would be) created, updated and deleted, and the first 200 changes.
  type: dict
  returned: always
  sample:
    create: 1
    update: 1
    delete: 0
    unchanged: 4
    changes:
      - {action: create, kind: NetworkInterface, id: fabric/apinet-system/7c1c88f0-25a2-4f4c-a7b2-df3bd8a2e6a1, fields: []}
      - {action: update, kind: NetworkInterface, id: tenants/team-a/nic-1, fields: [spec]}
objects:
  description: How many objects met which fate.
  type: dict
  returned: always
  sample: {created: 1, unchanged: 4}
pending:
  description: The first 200 objects that wait, each with its reasons.
  type: list
  elements: dict
  returned: always
  sample:
    - kind: NetworkInterface
      namespace: team-a
      name: nic-1
      reasons:
        - {reason: twin_not_ready, message: the network side reports 'Pending'}
passes:
  description: How many passes there were.
  type: int
  returned: always
  sample: 2
settled:
  description: Whether the last pass had nothing to write. Always false in check mode when something would change.
  type: bool
  returned: always
  sample: true
refused:
  description: What was left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample: []
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
  sample: {requests: {fabric: {create: 1, list: 4}, tenants: {list: 6, patch: 1}}, seconds: 0.1}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import attach as tenants_attach
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants.converge import runner_spec, side_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import clusters_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube


def argument_spec() -> dict[str, Any]:
    """All options."""
    interface = {
        "namespace": {"type": "str", "required": True},
        "name": {"type": "str", "required": True},
        "node": {"type": "str"},
    }
    return {
        "interfaces": {"type": "list", "elements": "dict", "options": interface, "default": []},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "detach_namespace": {"type": "str"},
        "require_ready": {"type": "bool", "default": True},
        "wait": {"type": "float", "default": 60.0},
        **side_spec(source=True),
        **clusters_spec(),
        **runner_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = tenants_attach.run(module.params, check=module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    result.pop("whole")
    exit_kube(module, result)


if __name__ == "__main__":
    main()
