#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apinet_sync
short_description: Manage the networks of tenants on a network API server
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Maps Networks, VirtualIPs, LoadBalancers with their routings, NATGateways and NetworkInterfaces of a tenant-facing API server to
    their twins on the API server of the network fabric, and reports addresses and states back, as C(apinetlet) does.
  - Each kind is listed once on each side. Then passes of comparing and writing follow until nothing is left to write. What waits for
    somebody else, such as an address that is not allocated yet, is listed in RV(pending) with the reason.
  - Interfaces get no twin. An existing one that the machine pool, or M(multicluster.network.apinet_attach), made is claimed by the
    provider ID, given its public addresses and prefixes, and its state is reported.
  - Tenants only make claims. A provider ID that names something of another tenant, a uid that is used twice, or a peering that only
    one side asks for is left out and listed in RV(refused), and the rest is mapped.
  - Source objects carry a finalizer while they are mapped. Their deletion is complete only when a later run took the twin away, so run
    this periodically.
  - Objects that carry the annotation of another manager are never touched.
extends_documentation_fragment:
  - multicluster.network._kubernetes
  - multicluster.network._tenants
  - multicluster.network._tenants.source
  - multicluster.network._tenants.runner
  - multicluster.network._refused
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
options:
  state:
    description:
      - V(present) maps.
      - V(absent) deletes everything of the tenant in O(watch_namespace) on the tenant-facing side, that is all of the mapped kinds and
        the routings that are selected, and carries that through to the network side.
      - V(released) leaves everything as it is. Twins are on record as the upstream program's own afterwards, so that what it applies changes nothing, and
        our next run refuses them as C(adoptable).
    type: str
    choices: [present, absent, released]
    default: present
  watch_namespace:
    description: Map only this namespace of the tenant-facing side. Required with O(state=absent).
    type: str
  watch_filter:
    description: Map only objects with this value of the watch filter label.
    type: str
  kinds:
    description: Which kinds to map. The default is all.
    type: list
    elements: str
    choices: [LoadBalancer, NATGateway, Network, NetworkInterface, VirtualIP]
  switches:
    description:
      - Extensions. V(peering) maps peerings that both networks ask for. V(vip_release) frees the virtual IPs of a deleted interface.
      - V(stale_uid) also removes twins of a source object that was made anew under its name. V(lb_node_affinity) asks for instances of a
        load balancer only on nodes that host its targets.
    type: list
    elements: str
    choices: [lb_node_affinity, peering, stale_uid, vip_release]
    default: []
  collect:
    description: Remove twins without their source object. It never happens after a list that failed.
    type: bool
    default: true
  min_public_ips:
    description: How many public addresses a NAT gateway has at least.
    type: int
    default: 1
  max_public_ips:
    description: How many public addresses a NAT gateway has at most.
    type: int
    default: 10
  adopt:
    description:
      - Take over twins that another program made, such as the upstream one. Without it they are refused as C(adoptable), and what only
        has the name of a twin as C(not_ours).
    type: bool
    default: false
  use_original_manager:
    description:
      - Write as the field manager of the upstream program instead of our own. Its twins are owned then, and become its own when it
        runs again.
    type: bool
    default: false
  max_deletes:
    description:
      - How many twins of each kind one run may collect. 0 means none, a negative number any. Deletions that tenants ask for do not count.
      - The default is the larger of 5 and 20 % of what this fabric owns.
    type: int
  confirm_empty:
    description: Put the name of O(source) here when it is right that it has no objects of a kind any more.
    type: list
    elements: str
    default: []
  plan_file:
    description: A file on the host that runs the module, which receives the action and the reasons of every object as JSON.
    type: path
seealso:
  - module: multicluster.network.apinet_info
  - module: multicluster.network.apinet_attach
  - module: multicluster.network.apinet_allocate
  - module: multicluster.network.apinet_schedule
"""

EXAMPLES = r"""
- name: Map everything
  multicluster.network.apinet_sync:
    fabric: demo
    clusters:
      - {name: tenants, kubeconfig: ~/.kube/tenants}
      - {name: fabric, kubeconfig: ~/.kube/fabric}
    source: tenants
    apinet: fabric
    apinet_namespace: apinet-system
    switches: [vip_release]

- name: Only networks and interfaces of one tenant
  multicluster.network.apinet_sync:
    fabric: demo
    clusters: "{{ tenants_clusters }}"
    source: tenants
    apinet: fabric
    apinet_namespace: apinet-system
    watch_namespace: team-a
    kinds: [Network, NetworkInterface]

- name: Remove a tenant
  multicluster.network.apinet_sync:
    fabric: demo
    clusters: "{{ tenants_clusters }}"
    source: tenants
    apinet: fabric
    apinet_namespace: apinet-system
    watch_namespace: team-a
    switches: [vip_release]
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
      - {action: update, kind: Network, id: tenants/team-a/net-1, fields: [metadata]}
      - {action: create, kind: Network, id: fabric/apinet-system/4d2f1c66-6d0b-4c39-9d0d-0f0d3b8f3b5a, fields: []}
objects:
  description:
    - How many objects met which fate, C(created), C(updated), C(unchanged), C(deleted), C(released), C(pending) or C(failed).
  type: dict
  returned: always
  sample: {created: 1, pending: 1, unchanged: 4}
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
  sample:
    - object: NetworkInterface team-b/nic-9
      reason: outside_grant
      message: the provider ID names an interface of another network
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
  sample: {requests: {fabric: {apply: 1, create: 1, delete: 1, list: 8}, tenants: {list: 7, patch: 2}}, seconds: 0.2}
"""

import json
from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import converge as tenants, released
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants.converge import (
    mapping_spec,
    runner_spec,
    side_spec,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import clusters_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube
from ansible_collections.multicluster.network.plugins.module_utils._linux.files import FileState, write_state


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "state": {"type": "str", "choices": ["present", "absent", "released"], "default": "present"},
        "plan_file": {"type": "path"},
        **mapping_spec(),
        **side_spec(source=True),
        **clusters_spec(),
        **runner_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(
        argument_spec=argument_spec(), required_if=[("state", "absent", ["watch_namespace"])], supports_check_mode=True
    )
    try:
        work = released.run if module.params["state"] == "released" else tenants.run
        result = work(module.params, check=module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    whole = result.pop("whole")
    if module.params["plan_file"]:
        text = json.dumps(whole, sort_keys=True, indent=1)
        write_state(module.params["plan_file"], FileState("file", 0o600, text.encode("utf-8")))
    exit_kube(module, result)


if __name__ == "__main__":
    main()
