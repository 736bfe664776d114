#!/usr/bin/python

# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nft_table
version_added: 1.0.0
short_description: Manage an nftables table
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Converges one table with all its chains, rules, sets and elements, in one transaction. The collection alone owns the table - whatever
    else is found in it is removed - and no other table is ever touched.
  - The table is never deleted to be made anew. Chains with rules that differ are emptied and filled, sets change by the
    elements that differ, so that no packet meets a half-made table.
  - A table of the same name without our mark in its user data is refused as C(adoptable) or C(not_ours) and left alone.
  - Changes the running kernel only.
extends_documentation_fragment:
  - multicluster.network._node
options:
  name:
    description:
      - The table's name.
    type: str
    required: true
  family:
    description:
      - The table's family.
    type: str
    choices: [inet, ip, ip6]
    default: inet
  owner:
    description:
      - Marks the table as that of one owner among several of this collection.
      - A table with another owner's mark is refused as C(not_ours).
    type: str
  chains:
    description:
      - All chains of the table.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - The chain's name.
        type: str
        required: true
      hook:
        description:
          - Where packets enter the chain. Without it only rules of other chains lead there.
        type: str
        choices: [prerouting, input, forward, output, postrouting]
      type:
        description:
          - The type of a chain with a hook, V(filter) when not given.
        type: str
        choices: [filter, nat, route]
      priority:
        description:
          - The place among chains of the same hook, as a number, a name of nft (V(filter)) or both (V(mangle - 5)). V(filter)
            when not given.
        type: str
      policy:
        description:
          - What becomes of packets that no rule decided on, V(accept) when not given.
        type: str
        choices: [accept, drop]
      rules:
        description:
          - The rules in order, each in nft's language and on one line, without C(add rule) and the names of table and chain.
        type: list
        elements: str
        default: []
  sets:
    description:
      - All named sets of the table.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - The set's name.
        type: str
        required: true
      type:
        description:
          - What its elements are.
        type: str
        choices: [ipv4_addr, ipv6_addr, inet_service]
        required: true
      interval:
        description:
          - Whether elements may be networks and ranges. A set of single addresses or ports is faster without.
        type: bool
        default: true
      elements:
        description:
          - Addresses, networks, ports, or ranges as C(first-last). What overlaps or is adjacent becomes one range.
          - Elements that are none are refused one by one as C(bad_element), and the rest goes on.
        type: list
        elements: str
        default: []
      elements_owner:
        description:
          - With V(external) the elements are written when the set is made, and then left to somebody else.
        type: str
        choices: [managed, external]
        default: managed
  state:
    description:
      - V(absent) removes the table with everything in it.
    type: str
    choices: [present, absent]
    default: present
notes:
  - Rules are text because that is the language in which rules are known, documented and tried out. What a text means is
    found out by nft itself - the desired chains are loaded into a network namespace that exists for this alone, and the
    listing of that table is compared with the listing of the real one. So rules that are spelt in another way are no change,
    a rule that nft does not take is found before anything is written, also in check mode, and a rule that somebody changed
    by hand is found too. No comment or file has to remember anything.
  - The desired rules have to make sense in a namespace with no interface but C(lo), so match interfaces by name (C(iifname),
    C(oifname)) and not by index.
  - Elements do not go through nft, which reads a whole set before it changes one element of it.
  - Needs the program nft, and unshare of util-linux; in a container CAP_SYS_ADMIN alongside CAP_NET_ADMIN.
seealso:
  - module: multicluster.network.ip_rules
  - module: multicluster.network.ip_routes
"""

EXAMPLES = r"""
- name: Admit administrators to the API server
  multicluster.network.nft_table:
    name: api_guard
    sets:
      - name: admins
        type: ipv4_addr
        elements:
          - 192.0.2.0/24
          - 198.51.100.7
    chains:
      - name: api_in
        hook: input
        priority: filter - 5
        rules:
          - ct state established,related accept
          - tcp dport 6443 ip saddr != @admins drop

- name: Make a set with elements that a program of the host keeps
  multicluster.network.nft_table:
    name: steering
    sets:
      - name: targets
        type: ipv6_addr
        elements_owner: external
    chains:
      - name: steer_out
        type: route
        hook: output
        rules:
          - ip6 daddr @targets meta mark set meta mark & 0xffffff9f | 0x40

- name: Remove it again
  multicluster.network.nft_table:
    name: api_guard
    state: absent
"""

RETURN = r"""
table:
  description: The table as it is after the run, in check mode as it would be; rules in nft's own spelling, elements as counts.
    Null when there is none, or when another owns it.
  type: dict
  returned: success
  sample: {"family": "inet", "name": "api_guard", "sets": [{"name": "admins", "type": "ipv4_addr", "flags": ["interval"],
    "elements": 2}], "chains": [{"name": "api_in", "type": "filter", "hook": "input", "priority": -5, "policy": "accept",
    "rules": ["ct state 0x2,0x4 accept", "tcp dport 6443 ip saddr != @admins drop"]}]}
plan:
  description: Counts of what is created, updated, deleted and unchanged, and the first 200 changes.
  type: dict
  returned: success
  sample: {"create": 0, "update": 1, "delete": 0, "unchanged": 1, "changes": [{"action": "update", "kind": "nftables set",
    "id": "inet api_guard admins", "fields": ["added", "elements"]}]}
refused:
  description: What was left out, with a reason and a message.
  type: list
  elements: dict
  returned: success
  sample: [{"object": "inet api_guard", "reason": "not_ours", "message": "a table of this name has another owner; it is left alone"}]
stats:
  description: Reads, messages to the kernel and seconds.
  type: dict
  returned: success
  sample: {"reads": 2, "wireguard_writes": 0, "netlink_writes": 1, "file_writes": 0, "seconds": 0.05}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import nft_table
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, fail_on_refused_spec
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def argument_spec() -> dict[str, Any]:
    """Fresh argument specification."""
    chain = {
        "name": {"type": "str", "required": True},
        "hook": {"type": "str", "choices": ["prerouting", "input", "forward", "output", "postrouting"]},
        "type": {"type": "str", "choices": ["filter", "nat", "route"]},
        "priority": {"type": "str"},
        "policy": {"type": "str", "choices": ["accept", "drop"]},
        "rules": {"type": "list", "elements": "str", "default": []},
    }
    members = {
        "name": {"type": "str", "required": True},
        "type": {"type": "str", "choices": ["ipv4_addr", "ipv6_addr", "inet_service"], "required": True},
        "interval": {"type": "bool", "default": True},
        "elements": {"type": "list", "elements": "str", "default": []},
        "elements_owner": {"type": "str", "choices": ["managed", "external"], "default": "managed"},
    }
    by_hook = {"type": ["hook"], "priority": ["hook"], "policy": ["hook"]}
    return dict(
        fail_on_refused_spec(),
        name={"type": "str", "required": True},
        family={"type": "str", "choices": ["inet", "ip", "ip6"], "default": "inet"},
        owner={"type": "str"},
        chains={"type": "list", "elements": "dict", "default": [], "options": chain, "required_by": by_hook},
        sets={"type": "list", "elements": "dict", "default": [], "options": members},
        state={"type": "str", "choices": ["present", "absent"], "default": "present"},
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = nft_table.run(module.params, module.check_mode)
    except ValueRefused as error:
        module.fail_json(msg=error.message, reason=error.reason)
    except LinuxError as error:
        module.fail_json(msg=str(error), **error.fields())
    exit_with(module, result)


if __name__ == "__main__":
    main()
