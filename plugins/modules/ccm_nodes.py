#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ccm_nodes
short_description: Manage provider ID, addresses and labels of nodes, as a cloud controller does
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - A kubelet that runs with C(--cloud-provider=external) registers its node with a taint, on which nothing is scheduled. This module gives
    such a node its provider ID, addresses and labels out of the provider's list of devices, and then takes that one taint away. Labels of
    instance type, region and zone are also written under their former names (C(beta.kubernetes.io/), C(failure-domain.beta.kubernetes.io/)).
  - Other nodes get their addresses refreshed. Nodes that are not ready get the taint for those that were shut down while their device is.
  - A node without its device is reported, and deleted only with O(delete_nodes=true). A list of devices that is not complete deletes nothing.
  - Clusters with O(settings[].provider=static) have no devices and are left alone.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._load_balancers
  - multicluster.network._load_balancers.devices
  - multicluster.network._load_balancers.writer
  - multicluster.network._refused
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
options:
  state:
    description: With V(released) nodes stay as they are, and what was written on them is no longer on record as owned, so the upstream program finds its own.
    type: str
    choices: [present, released]
    default: present
  adopt:
    description:
      - Take over what another program gave nodes, provider ID, labels and addresses, so that nobody else is on record for it, also where nothing differs.
      - Taints are one field of many writers, and keep their owners on record.
    type: bool
    default: false
  delete_nodes:
    description: Delete nodes that are not ready and have no device any more.
    type: bool
    default: false
  max_deletes:
    description: How many nodes of a cluster one run may delete. 0 means none, a negative number any. The default is the larger of 5 and 20 %.
    type: int
  confirm_empty:
    description: Clusters of which it is right that every node is deleted.
    type: list
    elements: str
    default: []
  address_list:
    description: All addresses of a device, or one internal and one external one, as the oldest releases did.
    type: str
    choices: [all, single]
    default: all
seealso:
  - module: multicluster.network.ccm_info
"""

EXAMPLES = r"""
- name: Initialise new nodes
  multicluster.network.ccm_nodes:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
    settings:
      - cluster: aws
        provider: equinix_metal
        base_url: https://metal.example.net/metal/v1
        project_id: 0d9f3c5e-5a3c-4d1e-9d5a-4f6d2f3b8a11
        api_key: "{{ vault_metal_token }}"
"""

RETURN = r"""
plan:
  description: Counts of what was (or, in check mode, would be) updated and deleted, and the first 200 changes.
  type: dict
  returned: always
  sample: {create: 0, update: 1, delete: 0, unchanged: 0, changes: [{action: update, kind: Node, id: aws/metal-1, fields: [labels, providerID, taints]}]}
refused:
  description: Nodes that stay as they are, each with a reason and a message.
  type: list
  elements: dict
  returned: always
  sample: [{object: node aws/metal-9, reason: no_device, message: the project has no device of this name; the taint stays}]
nodes:
  description: For each cluster and node its device, the device's state, and whether the node was initialised before.
  type: dict
  returned: always
  sample: {aws: {metal-1: {device: 2f3b8a11-0000-4000-8000-000000000000, state: active, initialized: true}}}
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
  sample: {requests: {aws: {list: 1}}, seconds: 0.1}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import ccm_nodes
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.arguments import (
    device_spec,
    writer_spec,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "state": {"type": "str", "choices": ["present", "released"], "default": "present"},
        "adopt": {"type": "bool", "default": False},
        "delete_nodes": {"type": "bool", "default": False},
        "max_deletes": {"type": "int"},
        "confirm_empty": {"type": "list", "elements": "str", "default": []},
        "address_list": {"type": "str", "choices": ["all", "single"], "default": "all"},
        **device_spec(),
        **writer_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = ccm_nodes.run(module.params, check=module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    exit_kube(module, result)


if __name__ == "__main__":
    main()
