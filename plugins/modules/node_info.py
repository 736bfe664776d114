#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_info
short_description: Gather information about one node for the state of the fabric
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Reads every WireGuard device with its peers (endpoint, handshake, bytes, allowed IPs), the routes and rules that are not the
    kernel's own, the tables of nftables with their owners, and the units of the fabric, all in one call.
  - It changes nothing, and no private or preshared key is ever in its result. What cannot be read is named in C(node.errors).
extends_documentation_fragment:
  - multicluster.network._attributes.node
  - multicluster.network._attributes.reads
options:
  fabric:
    description: Name of the fabric.
    type: str
    required: true
  tables:
    description: Numbers of further routing tables to read. The main table and that of KubeSpan are always read.
    type: list
    elements: int
    default: []
  checks:
    description: Also read what a check before the first write needs, such as the ports and mark bits that others use.
    type: bool
    default: false
  pod_cidrs:
    description: The node's own pod ranges. With O(cluster_cidrs), O(checks) looks for pods with an address that is not in them.
    type: list
    elements: str
    default: []
  cluster_cidrs:
    description: The pod ranges of the node's whole cluster.
    type: list
    elements: str
    default: []
  controller_time:
    description: Seconds since the epoch by the controller's clock, just before the module is started. O(checks) compares the node's clock with it.
    type: float
  kubespan:
    description: >-
      What of the layout of a KubeSpan mesh is not as usual, V({}) for nothing. With it, O(checks) also looks for rules, routes, tables,
      ports and mark bits of others that would be in the way of such a mesh.
    type: dict
  support:
    description: Also read what a bug report needs, such as versions of programs, the journal of our units and the confirmed state.
    type: bool
    default: false
  journal_lines:
    description: How many lines of the journal O(support) reads.
    type: int
    default: 200
attributes:
  check_mode:
    description: Reads only, so check mode is the same.
    support: full
"""

EXAMPLES = r"""
- name: What is here
  multicluster.network.node_info:
    fabric: default

- name: Also what a check before the first write needs
  multicluster.network.node_info:
    fabric: default
    checks: true
"""

RETURN = r"""
node:
  description: What was read. C(now) is the node's clock, C(errors) lists what could not be read.
  type: dict
  returned: success
  sample:
    now: 1795311932.5
    devices:
      - name: wireguard.gcp
        owned: true
        listen_port: 51821
        peers:
          - public_key: ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA=
            endpoint: 10.22.22.27:51821
            allowed_ips: [10.4.7.0/24]
            handshake: 1795311930
            rx: 9812
            tx: 10344
    routes: [{dst: 10.4.0.0/16, dev: wireguard.gcp, protocol: 109, table: 254}]
    rules: []
    tables: []
    units: [{name: multicluster-network-default.service, active: active}]
    errors: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import status as node_info
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "fabric": {"type": "str", "required": True},
            "tables": {"type": "list", "elements": "int", "default": []},
            "checks": {"type": "bool", "default": False},
            "controller_time": {"type": "float"},
            "pod_cidrs": {"type": "list", "elements": "str", "default": []},
            "cluster_cidrs": {"type": "list", "elements": "str", "default": []},
            "kubespan": {"type": "dict"},
            "support": {"type": "bool", "default": False},
            "journal_lines": {"type": "int", "default": 200},
        },
        supports_check_mode=True,
    )
    exit_with(module, node_info.run(module.params))


if __name__ == "__main__":
    main()
