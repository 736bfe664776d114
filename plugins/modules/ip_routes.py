#!/usr/bin/python

# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ip_routes
version_added: 1.0.0
short_description: Manage routes of a routing table
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Converges a whole set of IPv4 and IPv6 routes at once. Owned are the routes of the table that carry its protocol
    number and, when O(devices) is given, lead over one of these devices. No other route is ever changed or removed.
  - Routes are created or replaced first, and only then are others removed.
  - Another owner's route with the same destination and metric is refused as C(not_ours), or as C(adoptable) when it differs
    in nothing but its protocol number, unless O(adopt=true).
  - Changes the running kernel only; routes over a device go with the device.
extends_documentation_fragment:
  - multicluster.network._node
options:
  routes:
    description:
      - The whole set. Destination and metric together name a route.
    type: list
    elements: dict
    default: []
    suboptions:
      dst:
        description:
          - Destination in CIDR form. Bits behind the prefix are masked off.
        type: str
        required: true
      dev:
        description:
          - The device. Required for O(routes[].type=unicast), not allowed for the other types.
        type: str
      via:
        description:
          - The gateway, of the same family as the destination.
        type: str
      src:
        description:
          - The preferred source address.
        type: str
      metric:
        description:
          - The metric. Without it the kernel's defaults count, 0 for IPv4 and 1024 for IPv6.
        type: int
      scope:
        description:
          - The scope of an IPv4 route. Without it V(link) where there is no gateway and V(global) elsewhere.
        type: str
        choices: [global, site, link, host]
      mtu:
        description:
          - The largest packet that this host sends over the route, without looking further.
          - Without it a route has no MTU of its own, and one that has is changed.
        type: int
      mtu_locked:
        description:
          - The path may not lower O(routes[].mtu) any more (C(mtu lock)).
        type: bool
        default: false
      type:
        description:
          - The type of route. All but V(unicast) need a table of their own, without O(devices).
        type: str
        choices: [unicast, blackhole, unreachable, prohibit, throw]
        default: unicast
  table:
    description:
      - The routing table, C(main), C(default) or a number.
    type: str
    default: main
  devices:
    description:
      - Which routes are owned. Required in the tables C(main) and C(default), which we share with others.
      - Without it every route of the table with its protocol number is owned.
    type: list
    elements: str
  protocol:
    description:
      - The protocol number that marks our routes.
    type: int
    default: 109
  adopt:
    description:
      - Take over other owners' routes with the same destination and metric.
    type: bool
    default: false
  purge:
    description:
      - Remove routes of this owner that are not in O(routes).
    type: bool
    default: true
  state:
    description:
      - V(absent) removes all routes of this owner, whatever O(routes) has.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Send the pod range of the cluster gcp into the tunnel
  multicluster.network.ip_routes:
    devices:
      - wireguard.gcp
    routes:
      - dst: 10.4.0.0/16
        dev: wireguard.gcp

- name: Fail closed in a table of our own
  multicluster.network.ip_routes:
    table: "180"
    routes:
      - dst: 0.0.0.0/0
        dev: kubespan
        mtu: 1420
      - dst: 0.0.0.0/0
        type: unreachable
        metric: 4294967295

- name: Remove what we ever routed into the tunnel
  multicluster.network.ip_routes:
    devices:
      - wireguard.gcp
    state: absent
"""

RETURN = r"""
routes:
  description: The routes of the set as they are after the run, in check mode as they would be.
  type: list
  elements: dict
  returned: success
  sample: [{"dst": "10.4.0.0/16", "type": "unicast", "dev": "wireguard.gcp", "via": null, "src": null, "metric": 0,
    "scope": "link", "mtu": null, "mtu_locked": false}]
plan:
  description: Counts of what is created, updated, deleted and unchanged, and the first 200 changes.
  type: dict
  returned: success
  sample: {"create": 1, "update": 0, "delete": 0, "unchanged": 0, "changes": [{"action": "create", "kind": "route",
    "id": "10.4.0.0/16 dev wireguard.gcp table main", "fields": []}]}
refused:
  description: Routes that were left out, with a reason and a message.
  type: list
  elements: dict
  returned: success
  sample: [{"object": "10.4.0.0/16 dev wireguard.gcp table main", "reason": "not_ours",
    "message": "a route to the same destination exists and has another owner (protocol 4, dev eth0); it is left alone"}]
stats:
  description: Reads, messages to the kernel and seconds.
  type: dict
  returned: success
  sample: {"reads": 4, "wireguard_writes": 0, "netlink_writes": 1, "file_writes": 0, "seconds": 0.21}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import ip_routes
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, fail_on_refused_spec
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def argument_spec() -> dict[str, Any]:
    """Fresh argument specification."""
    route = {
        "dst": {"type": "str", "required": True},
        "dev": {"type": "str"},
        "via": {"type": "str"},
        "src": {"type": "str"},
        "metric": {"type": "int"},
        "scope": {"type": "str", "choices": ["global", "site", "link", "host"]},
        "mtu": {"type": "int"},
        "mtu_locked": {"type": "bool", "default": False},
        "type": {
            "type": "str",
            "choices": ["unicast", "blackhole", "unreachable", "prohibit", "throw"],
            "default": "unicast",
        },
    }
    return dict(
        fail_on_refused_spec(),
        routes={"type": "list", "elements": "dict", "default": [], "options": route},
        table={"type": "str", "default": "main"},
        devices={"type": "list", "elements": "str"},
        protocol={"type": "int", "default": 109},
        adopt={"type": "bool", "default": False},
        purge={"type": "bool", "default": True},
        state={"type": "str", "choices": ["present", "absent"], "default": "present"},
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = ip_routes.run(module.params, module.check_mode)
    except ValueRefused as error:
        module.fail_json(msg=error.message, reason=error.reason)
    except LinuxError as error:
        module.fail_json(msg=str(error), **error.fields())
    exit_with(module, result)


if __name__ == "__main__":
    main()
