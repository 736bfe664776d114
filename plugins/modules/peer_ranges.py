#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: peer_ranges
version_added: 1.0.0
short_description: Manage pod ranges of a node's WireGuard peers
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Sets the allowed IPs of some peers of the mesh devices of a node, in the kernel and in the confirmed state that a boot restores. Nothing else of the node
    changes, so there is nothing to confirm. The role P(multicluster.network.reconciler#role) calls it when a node of another cluster gets a further pod range.
  - In a device a range that moves from one peer to another has an owner at every moment.
  - A peer or a device that the confirmed state of the node does not have, a link without the mark of the fabric, a range outside of the routes of its device
    and one of another peer fail with the reason C(no_peer), before anything is written. M(multicluster.network.node_dataplane) converges the whole node.
extends_documentation_fragment:
  - multicluster.network._node
options:
  fabric:
    description: Name of the fabric.
    type: str
    required: true
  node:
    description: The inventory's name of the host, compared with the one in the confirmed state.
    type: str
  orders:
    description:
      - By the name of a device, C(peers) with all allowed IPs of each peer by its public key, and C(borrowed), the allowed IPs of peers that are inside those
        of another.
    type: dict
    default: {}
  of_cluster:
    description: Name of the node's cluster, to take O(orders) from those that the reconciler has for it. Without any the task is skipped.
    type: str
  wait_seconds:
    description: How long to wait for another change of the node to end or to be confirmed.
    type: int
    default: 20
seealso:
  - module: multicluster.network.node_dataplane
  - module: multicluster.network.wireguard_device
attributes:
  action_group:
    description: Use C(group/multicluster.network.node) in C(module_defaults) to set options once.
    support: full
    membership:
      - multicluster.network.all
      - multicluster.network.internal
      - multicluster.network.node
"""

EXAMPLES = r"""
- name: A node of the cluster gcp has a second range
  multicluster.network.peer_ranges:
    fabric: demo
    orders:
      wireguard.gcp:
        peers:
          ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA=: [10.4.7.0/26, 10.4.9.64/26]
"""

RETURN = r"""
plan:
  description: Counts of what is created, updated, deleted and unchanged, and the first 200 changes.
  type: dict
  returned: success
  sample: {"create": 0, "update": 2, "delete": 0, "unchanged": 0, "changes": [{"action": "update", "kind": "peer",
    "id": "wireguard.gcp ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA=", "fields": ["allowed_ips"]}]}
refused:
  description: Always empty, since whatever is refused fails the task.
  type: list
  elements: dict
  returned: success
  sample: []
stats:
  description: Reads, messages to devices, files written, and seconds.
  type: dict
  returned: success
  sample: {"reads": 4, "wireguard_writes": 1, "netlink_writes": 0, "file_writes": 1, "seconds": 0.02}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import peer_ranges
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, fail_on_refused_spec
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def argument_spec() -> dict[str, Any]:
    """Fresh argument specification."""
    return dict(
        fail_on_refused_spec(),
        fabric={"type": "str", "required": True},
        node={"type": "str"},
        orders={"type": "dict", "default": {}},
        of_cluster={"type": "str"},
        wait_seconds={"type": "int", "default": 20},
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = peer_ranges.run(module.params, module.check_mode)
    except ValueRefused as error:
        module.fail_json(msg=f"{error.message} [{error.reason}]", reason=error.reason)
    except LinuxError as error:
        module.fail_json(msg=str(error), **error.fields())
    except OSError as error:
        module.fail_json(msg=str(error))
    exit_with(module, result)


if __name__ == "__main__":
    main()
