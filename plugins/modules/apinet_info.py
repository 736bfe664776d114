#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apinet_info
short_description: Gather information about mapped networks of tenants
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Reads both API servers as M(multicluster.network.apinet_sync) does and writes nothing.
  - Returns what differs, why each object waits, which twins, IDs and addresses belong to nothing, and for every interface the
    load balancers and NAT gateways that serve it.
extends_documentation_fragment:
  - multicluster.network._kubernetes
  - multicluster.network._kubernetes.reader
  - multicluster.network._tenants
  - multicluster.network._attributes
options:
  fabric:
    description: Name of the fabric, by which our objects are known.
    type: str
    required: true
  source:
    description: The cluster in O(clusters) that is the tenant-facing side. Without it only the network side is looked at.
    type: str
  watch_namespace:
    description: Look only at this namespace of the tenant-facing side.
    type: str
  watch_filter:
    description: Look only at objects with this value of the watch filter label.
    type: str
  kinds:
    description: Which kinds are mapped. The default is all.
    type: list
    elements: str
    choices: [LoadBalancer, NATGateway, Network, NetworkInterface, VirtualIP]
  switches:
    description: Extensions, as in M(multicluster.network.apinet_sync).
    type: list
    elements: str
    choices: [lb_node_affinity, peering, stale_uid, vip_release]
    default: []
  collect:
    description: Count the removal of twins without their source object as drift.
    type: bool
    default: true
  min_public_ips:
    description: As in M(multicluster.network.apinet_sync).
    type: int
    default: 1
  max_public_ips:
    description: As in M(multicluster.network.apinet_sync).
    type: int
    default: 10
  adopt:
    description: Whether twins of other programs count as owned.
    type: bool
    default: false
  use_original_manager:
    description: Whether the field manager of the upstream program counts as an owner.
    type: bool
    default: false
  max_deletes:
    description: As in M(multicluster.network.apinet_sync).
    type: int
  confirm_empty:
    description: As in M(multicluster.network.apinet_sync).
    type: list
    elements: str
    default: []
  plan_file:
    description: A file on the host that runs the module, which receives everything as JSON.
    type: path
attributes:
  check_mode:
    description: Only reads, so check mode is the same.
    support: full
  diff_mode:
    description: Shows what M(multicluster.network.apinet_sync) would change first.
    support: full
  idempotent:
    description: Only reads.
    support: full
seealso:
  - module: multicluster.network.apinet_sync
"""

EXAMPLES = r"""
- name: Why does an interface wait?
  multicluster.network.apinet_info:
    fabric: demo
    clusters: "{{ tenants_clusters }}"
    source: tenants
    apinet: fabric
    apinet_namespace: apinet-system
  register: found

- name: Show it
  ansible.builtin.debug:
    msg: "{{ found.pending | selectattr('name', 'eq', 'nic-1') }}"
"""

RETURN = r"""
in_sync:
  description: Whether both sides were read completely and nothing is to be written. What waits for others does not count.
  type: bool
  returned: always
  sample: true
plan:
  description: Counts of what M(multicluster.network.apinet_sync) would create, update and delete first, and the first 200 changes.
  type: dict
  returned: always
  sample:
    create: 1
    update: 1
    delete: 0
    unchanged: 4
    changes:
      - {action: update, kind: Network, id: tenants/team-a/net-1, fields: [metadata]}
      - {action: create, kind: Network, id: fabric/apinet-system/4d2f1c66-6d0b-4c39-9d0d-0f0d3b8f3b5a, fields: []}
objects:
  description: How many objects met which fate.
  type: dict
  returned: always
  sample: {pending: 1, unchanged: 4}
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
        - {reason: no_provider_id, message: the machine pool has not set a provider ID}
orphans:
  description:
    - The first 200 objects of the network side that belong to nothing, each with C(kind), C(name) and C(reason), which is C(source_gone)
      or C(claimer_gone).
  type: list
  elements: dict
  returned: always
  sample:
    - {kind: NetworkID, name: "4711", reason: claimer_gone}
interfaces:
  description: The first 200 interfaces of the network side, and what serves them.
  type: list
  elements: dict
  returned: always
  sample:
    - name: 7c1c88f0-25a2-4f4c-a7b2-df3bd8a2e6a1
      uid: 0b5c2f3e-8e05-4c9e-b1a0-0f2f3e3c1d77
      source: team-a/nic-1
      network: 4d2f1c66-6d0b-4c39-9d0d-0f0d3b8f3b5a
      node: rack-1.node-a
      state: Ready
      ips: [192.168.178.1]
      public_ips: [203.0.113.7]
      load_balancers:
        - {load_balancer: 9d0d6c66-25a2-4f4c-a7b2-df3bd8a2e6a1, address: 192.168.178.1, ips: [203.0.113.8], ports: [{port: 80}]}
      nat_gateways: []
counts:
  description: How many orphans and interfaces there are, and how many twins of other programs.
  type: dict
  returned: always
  sample: {orphans: 0, interfaces: 2, adoptable: 0}
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
  sample: {requests: {fabric: {list: 9}, tenants: {list: 7}}, seconds: 0.1}
"""

import json
from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import info as tenants_info
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants.converge import (
    mapping_spec,
    side_spec,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import clusters_spec, reader_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube
from ansible_collections.multicluster.network.plugins.module_utils._linux.files import FileState, write_state


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "fabric": {"type": "str", "required": True},
        "plan_file": {"type": "path"},
        **mapping_spec(),
        **side_spec(source=False),
        **clusters_spec(),
        **reader_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = tenants_info.run(module.params)
    except ValueError as err:
        module.fail_json(msg=str(err))
    whole = result.pop("whole")
    if module.params["plan_file"]:
        text = json.dumps(whole, sort_keys=True, indent=1)
        write_state(module.params["plan_file"], FileState("file", 0o600, text.encode("utf-8")))
    exit_kube(module, result)


if __name__ == "__main__":
    main()
