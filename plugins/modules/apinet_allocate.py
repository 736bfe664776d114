#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apinet_allocate
short_description: Allocate network IDs and public addresses on a network API server of plain custom resources
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Does what the aggregated network API server does by itself, for installations that have only its custom resources.
  - Networks get an ID and a C(NetworkID) object, IPs an address and an C(IPAddress) object. What interfaces, public load balancers
    and NAT gateways use is claimed for them, and what they use no more is freed.
  - Nothing here is atomic, so the claiming object is made first and the field filled afterwards, and only one run works at a time. A run
    that died half way is finished by the next.
  - Do not run this against an aggregated network API server. It would fight with it.
extends_documentation_fragment:
  - multicluster.network._kubernetes
  - multicluster.network._tenants
  - multicluster.network._tenants.runner
  - multicluster.network._refused
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
options:
  public_prefixes:
    description: Ranges that public addresses are taken from, any number of each family. Their first and last address are used too.
    type: list
    elements: str
    default: []
  min_id:
    description: The lowest network ID.
    type: int
    default: 200
  max_id:
    description: The highest network ID.
    type: int
    default: 16777215
  max_deletes:
    description:
      - How many IDs, and how many addresses, without claimer one run may free. 0 means none, a negative number any.
      - The default is the larger of 5 and 20 % of what there is.
    type: int
seealso:
  - module: multicluster.network.apinet_schedule
  - module: multicluster.network.apinet_sync
"""

EXAMPLES = r"""
- name: Hand out what waits
  multicluster.network.apinet_allocate:
    fabric: demo
    clusters:
      - {name: fabric, kubeconfig: ~/.kube/fabric}
    apinet: fabric
    apinet_namespace: apinet-system
    public_prefixes: [203.0.113.0/24, "2001:db8:5::/64"]
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
      - {action: update, kind: Network, id: fabric/apinet-system/4d2f1c66-6d0b-4c39-9d0d-0f0d3b8f3b5a, fields: [spec]}
      - {action: create, kind: NetworkID, id: fabric/200, fields: []}
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
    - kind: NetworkID
      namespace: ""
      name: "201"
      reasons:
        - {reason: delete_budget, message: 9 of 10 NetworkID would be deleted}
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
  sample: {requests: {fabric: {create: 2, delete: 1, list: 14, patch: 1}}, seconds: 0.1}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import side as tenants_side
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants.converge import runner_spec, side_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import clusters_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "public_prefixes": {"type": "list", "elements": "str", "default": []},
        "min_id": {"type": "int", "default": 200},
        "max_id": {"type": "int", "default": 16777215},
        "max_deletes": {"type": "int"},
        **side_spec(),
        **clusters_spec(),
        **runner_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = tenants_side.allocate(module.params, check=module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    result.pop("whole")
    exit_kube(module, result)


if __name__ == "__main__":
    main()
