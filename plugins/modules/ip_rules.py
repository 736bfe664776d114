#!/usr/bin/python

# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ip_rules
version_added: 1.0.0
short_description: Manage IP policy routing rules
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Converges a whole set of IPv4 and IPv6 policy routing rules at once. Owned are the rules that carry its protocol number
    and have a priority from O(priority_min) to O(priority_max). No other rule is ever changed or removed.
  - While a rule changes, a copy of the new one replaces it at the next priority, so that no packet passes in between. A
    copy that a killed run leaves behind is removed by the next run.
  - Another owner's rule with the same priority that selects the same packets is refused as C(not_ours), or as C(adoptable)
    when it differs in nothing but its protocol number, unless O(adopt=true).
  - Changes the running kernel only.
extends_documentation_fragment:
  - multicluster.network._node
options:
  rules:
    description:
      - The whole set. Priority, family and what a rule selects name it; several rules may share a priority.
    type: list
    elements: dict
    default: []
    suboptions:
      priority:
        description:
          - The place of the rule, lower numbers first. 0, 32766 and 32767 are the kernel's.
        type: int
        required: true
      family:
        description:
          - For which packets. Without it the family of O(rules[].src) or O(rules[].dst), else V(both).
        type: str
        choices: [ipv4, ipv6, both]
      fwmark:
        description:
          - The firewall mark, as V(0x40/0x60) with a mask or as V(0x40) for the whole mark.
        type: str
      src:
        description:
          - The source network in CIDR form.
        type: str
      dst:
        description:
          - The destination network in CIDR form.
        type: str
      iif:
        description:
          - The device a packet came in by; C(lo) for packets of this host.
        type: str
      oif:
        description:
          - The device that a local socket is bound to.
        type: str
      invert:
        description:
          - Select the packets that do not match.
        type: bool
        default: false
      action:
        description:
          - What happens to a packet that matches.
        type: str
        choices: [lookup, blackhole, unreachable, prohibit]
        default: lookup
      table:
        description:
          - The routing table, C(main), C(default), C(local) or a number. Required for O(rules[].action=lookup).
        type: str
      suppress_prefixlength:
        description:
          - Ignore routes with a prefix of this length or a shorter one, V(0) being the default route.
        type: int
  priority_min:
    description:
      - The lowest priority that this set may use and from which rules of this owner are removed.
    type: int
    default: 1
  priority_max:
    description:
      - The highest priority of that kind. Two plays that share a protocol number each take a range.
    type: int
    default: 4294967295
  protocol:
    description:
      - The protocol number that marks our rules.
    type: int
    default: 109
  adopt:
    description:
      - Take over other owners' rules with the same priority that select the same packets.
    type: bool
    default: false
  purge:
    description:
      - Remove rules of this owner that are not in O(rules).
    type: bool
    default: true
  state:
    description:
      - V(absent) removes all rules of this owner, whatever O(rules) has.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Packets with our mark look into a table of their own
  multicluster.network.ip_rules:
    rules:
      - priority: 32500
        fwmark: 0x40/0x60
        table: "180"

- name: Everything but the tunnel's own packets, unless main knows more than a default route
  multicluster.network.ip_rules:
    priority_min: 31000
    priority_max: 31999
    rules:
      - priority: 31000
        table: main
        suppress_prefixlength: 0
      - priority: 31001
        invert: true
        fwmark: "0x20"
        table: "51820"
        family: ipv4

- name: Remove them again
  multicluster.network.ip_rules:
    priority_min: 31000
    priority_max: 31999
    state: absent
"""

RETURN = r"""
rules:
  description: The rules of the set as they are after the run, in check mode as they would be.
  type: list
  elements: dict
  returned: success
  sample: [{"version": 4, "priority": 32500, "action": "to_table", "table": 180, "protocol": 109, "fwmark": 64, "fwmask": 96,
    "src": null, "dst": null, "iif": null, "oif": null, "invert": false, "suppress_prefixlength": null}]
plan:
  description: Counts of what is created, updated, deleted and unchanged, and the first 200 changes.
  type: dict
  returned: success
  sample: {"create": 1, "update": 0, "delete": 0, "unchanged": 0, "changes": [{"action": "create", "kind": "rule",
    "id": "32500: from all fwmark 0x40/0x60 lookup 180 (IPv4)", "fields": []}]}
refused:
  description: Rules that were left out, with a reason and a message.
  type: list
  elements: dict
  returned: success
  sample: [{"object": "32500: from all fwmark 0x40/0x60 lookup 180 (IPv4)", "reason": "adoptable",
    "message": "a rule with this priority that selects the same has another owner (protocol 4); it is left alone"}]
stats:
  description: Reads, messages to the kernel and seconds.
  type: dict
  returned: success
  sample: {"reads": 4, "wireguard_writes": 0, "netlink_writes": 2, "file_writes": 0, "seconds": 0.01}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import ip_rules
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, fail_on_refused_spec
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def argument_spec() -> dict[str, Any]:
    """Fresh argument specification."""
    rule = {
        "priority": {"type": "int", "required": True},
        "family": {"type": "str", "choices": ["ipv4", "ipv6", "both"]},
        "fwmark": {"type": "str"},
        "src": {"type": "str"},
        "dst": {"type": "str"},
        "iif": {"type": "str"},
        "oif": {"type": "str"},
        "invert": {"type": "bool", "default": False},
        "action": {"type": "str", "choices": ["lookup", "blackhole", "unreachable", "prohibit"], "default": "lookup"},
        "table": {"type": "str"},
        "suppress_prefixlength": {"type": "int"},
    }
    return dict(
        fail_on_refused_spec(),
        rules={
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": rule,
            "required_if": [("action", "lookup", ["table"])],
        },
        priority_min={"type": "int", "default": 1},
        priority_max={"type": "int", "default": 4294967295},
        protocol={"type": "int", "default": 109},
        adopt={"type": "bool", "default": False},
        purge={"type": "bool", "default": True},
        state={"type": "str", "choices": ["present", "absent"], "default": "present"},
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = ip_rules.run(module.params, module.check_mode)
    except ValueRefused as error:
        module.fail_json(msg=error.message, reason=error.reason)
    except LinuxError as error:
        module.fail_json(msg=str(error), **error.fields())
    exit_with(module, result)


if __name__ == "__main__":
    main()
