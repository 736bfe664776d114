#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apinet_schedule
short_description: Place load balancers and serve NAT gateways on a network API server of plain custom resources
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Does what the controller manager of the network API does, for installations that have only its custom resources.
  - Every load balancer gets a C(DaemonSet) and its instances, at most one running in each zone. Every NAT gateway serves the interfaces of
    its own network that have no public address, each with a block of ports in the C(NATTable), and gets as many addresses as that takes.
  - Interfaces are served by name, and the lowest free block first, so that the result does not depend on the order of events.
  - Addresses of load balancers and gateways come from M(multicluster.network.apinet_allocate). Run both until neither changes anything,
    or use the role.
extends_documentation_fragment:
  - multicluster.network._kubernetes
  - multicluster.network._tenants
  - multicluster.network._tenants.runner
  - multicluster.network._refused
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
seealso:
  - module: multicluster.network.apinet_allocate
  - module: multicluster.network.apinet_sync
"""

EXAMPLES = r"""
- name: Place and serve
  multicluster.network.apinet_schedule:
    fabric: demo
    clusters:
      - {name: fabric, kubeconfig: ~/.kube/fabric}
    apinet: fabric
    apinet_namespace: apinet-system
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
      - {action: create, kind: NATTable, id: fabric/apinet-system/2c6c14c4-3c0b-4b7c-9f0e-8f1c5c0a6f1e, fields: []}
      - {action: update, kind: NetworkInterface, id: fabric/apinet-system/nic-2, fields: [spec]}
objects:
  description: How many objects met which fate.
  type: dict
  returned: always
  sample: {updated: 1, unchanged: 4}
pending:
  description: The first 200 objects that wait, each with its reasons.
  type: list
  elements: dict
  returned: always
  sample:
    - kind: Instance
      namespace: apinet-system
      name: lb-1-node-b
      reasons:
        - {reason: out_of_capacity, message: no node fits}
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
  sample: {requests: {fabric: {create: 2, delete: 1, list: 16, patch: 2}}, seconds: 0.1}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import side as tenants_side
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants.converge import runner_spec, side_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import clusters_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {**side_spec(), **clusters_spec(), **runner_spec()}


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = tenants_side.schedule(module.params, check=module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    result.pop("whole")
    exit_kube(module, result)


if __name__ == "__main__":
    main()
