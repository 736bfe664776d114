#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ccm_info
short_description: Gather information about load-balancer addresses
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Reads Services, reservations, devices and BGP sessions of each cluster and writes nothing.
  - Returns for each Service how far its address has come, for each reservation its owner, and what would keep a cloud
    controller, such as devices that are not called like their nodes.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._kubernetes.reader
  - multicluster.network._load_balancers
  - multicluster.network._load_balancers.devices
  - multicluster.network._attributes
  - multicluster.network._attributes.reads
options:
  fabric:
    description: Name of the fabric, by which what we wrote is known.
    type: str
    required: true
  sessions:
    description: Ask the provider for the state of each node's session, which is one call for each node.
    type: bool
    default: true
seealso:
  - module: multicluster.network.load_balancers
"""

EXAMPLES = r"""
- name: Who holds what
  multicluster.network.ccm_info:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
    settings:
      - {cluster: aws, load_balancer: "empty://", pool: [203.0.113.0/27]}
  register: addresses
"""

RETURN = r"""
in_sync:
  description: Whether every cluster could be read and a run of M(multicluster.network.load_balancers) would change nothing.
  type: bool
  returned: always
  sample: true
clusters:
  description:
    - For each cluster what M(multicluster.network.load_balancers) returns of it, with its plan and refusals, and C(reservations),
      C(control_plane), C(devices), C(zones), C(sessions) and C(findings). The C(load_balancer_name) of a recorded reservation is how
      the upstream program calls the load balancer of its Service in its log and events.
  type: dict
  returned: always
  sample:
    aws:
      provider: static
      load_balancer: empty
      services: [{service: default/web, address: 203.0.113.0, reservation: 203.0.113.0, requested: false, reserved: true, assigned: true,
        mapped: true, ready: true, state: Mapped}]
      announce: [203.0.113.0/32]
      nodes: []
      releases: []
      cost: {orders: [], before: 1, after: 1, limit: null}
      plan: {create: 0, update: 0, delete: 0, unchanged: 0, changes: []}
      refused: []
      reservations: [{id: 203.0.113.0, address: 203.0.113.0, cidr: 32, state: created, location: "", owned: true, service: default/web,
        load_balancer_name: "usage=metal-ccm-auto:service=l7RnKS8k48oG3Qv3Pxx8FzEMj3X3E5c8JPOIzyLWWdY=:cluster=5a3e0c4e-6a1f-4a55-9d0c-3b2d2f6b1c11",
        assigned_to: []}]
      control_plane: {}
      devices: []
      zones: []
      sessions: {}
      findings: []
failures:
  description: What could not be read, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample: []
stats:
  description: Requests by verb for each cluster, and seconds.
  type: dict
  returned: always
  sample: {requests: {aws: {get: 1, list: 4}}, seconds: 0.1}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import ccm_info
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.arguments import (
    device_spec,
    settings_options,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import (
    inventory_spec,
    reader_spec,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "fabric": {"type": "str", "required": True},
        "sessions": {"type": "bool", "default": True},
        **device_spec(),
        **settings_options(),
        **inventory_spec(),
        **reader_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = ccm_info.run(module.params)
    except ValueError as err:
        module.fail_json(msg=str(err))
    exit_kube(module, result)


if __name__ == "__main__":
    main()
