#!/usr/bin/python

# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: layer2_speaker
version_added: 1.0.0
short_description: Configure keepalived on the nodes of a network segment
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Runs a keepalived of its own, in the unit C(multicluster-layer2.service). Of the nodes of a segment one holds each address of O(routes) and announces it by
    gratuitous ARP and unsolicited neighbour advertisements; when its advertisements stop (VRRP version 3), the next one has it within two seconds, without the
    controller. A keepalived that the node has for itself is not touched.
  - Who holds what is a hash of the group and of the names in O(nodes), so all nodes agree, and one that goes moves only what it held. One that comes back
    gets its addresses again.
  - A follower, in the unit C(multicluster-layer2-follow.service), asks the ports of O(routes[].health_ports) and O(node_health_port) twice a second.
    What this node cannot deliver the next one takes over at once.
  - The configuration is checked by keepalived before it is put in place, and read again while it runs, so that addresses stay where they are.
extends_documentation_fragment:
  - multicluster.network._node
  - multicluster.network._speaker
requirements:
  - keepalived 2.1 or newer (package C(keepalived))
options:
  state:
    description: V(absent) hands every address over and removes the units and their files.
    type: str
    choices: [present, absent]
    default: present
  of_cluster:
    description:
      - Name of the node's cluster, for which M(multicluster.network.load_balancers) found in the same run what is to be announced. It is taken for
        O(routes), O(nodes) and O(left_out). Where it could not be read the task is skipped, and the node goes on.
    type: str
  segment:
    description: Name of the network segment of the node. Only with O(of_cluster).
    type: str
  routes_only:
    description:
      - Only change what a configured speaker holds, by O(nodes), O(routes) and O(left_out). All else stays as the last task without this option
        left it, and need not be given. A node without a speaker fails with the reason C(no_speaker).
    type: bool
    default: false
  node:
    description: This node's name in O(nodes). Required with O(state=present), but for O(routes_only).
    type: str
  nodes:
    description: All nodes of the segment that replace each other, this one too. Required with O(state=present).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: The node.
        type: str
        required: true
      addresses:
        description: Its address on the segment, one of each family at most. Nodes hear each other over IPv4 where all have such an address.
        type: list
        elements: str
        required: true
  interface:
    description: The node's interface on the segment. The default is the one that has its address.
    type: str
  networks:
    description:
      - Networks that are sent to the segment alongside those of the interface, such as one that a router has a route for. An address of a route that is in
        none of them is refused (RV(ignore:refused)), since no neighbour would ask for it.
    type: list
    elements: str
    default: []
  left_out:
    description: The reason why this node is to hold nothing for now. Empty for a node that may.
    type: str
    default: ""
  advert_interval:
    description: Seconds between signs of life, from 0.1 to 0.5. Three to four of them without any let the next node take over.
    type: float
    default: 0.5
  verify_seconds:
    description: How long to wait, five seconds at least, until what runs has taken the change up.
    type: int
    default: 15
seealso:
  - module: multicluster.network.load_balancers
  - module: multicluster.network.bgp_speaker
"""

EXAMPLES = r"""
- name: Hold the addresses of a cluster's Services
  multicluster.network.layer2_speaker:
    node: aws-node-1
    nodes:
      - {name: aws-node-1, addresses: [10.66.23.31]}
      - {name: aws-node-2, addresses: [10.66.23.32]}
    routes:
      - {network: 10.66.23.200/32, group: 17}

- name: Hold none any more
  multicluster.network.layer2_speaker:
    state: absent
"""

RETURN = r"""
plan:
  description: Counts of what is created, updated, deleted and unchanged, and the first 200 changes.
  type: dict
  returned: always
  sample: {"create": 0, "update": 1, "delete": 0, "unchanged": 4, "changes": [{"action": "update", "kind": "file",
    "id": "/etc/multicluster-network/layer2/keepalived.conf", "fields": ["lines"]}]}
refused:
  description: What was left alone, with a reason and a message.
  type: list
  elements: dict
  returned: always
  sample: []
interface:
  description: The interface on the segment.
  type: str
  returned: always
  sample: eth0
holds:
  description: The addresses that this node has right now. What a change brings shows a second or two later.
  type: list
  elements: str
  returned: always
  sample: ["10.66.23.200"]
withheld:
  description: The addresses that this node leaves to others, each with the reason, by the follower's last report.
  type: dict
  returned: always
  sample: {"10.66.23.201": "port 31234 of this node reports that it cannot deliver"}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers.arguments import speaker_spec
from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers.layer2 import agent, speaker
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, fail_on_refused_spec


def argument_spec() -> dict[str, Any]:
    """Fresh argument specification."""
    return dict(
        fail_on_refused_spec(),
        **speaker_spec(),
        state={"type": "str", "choices": ["present", "absent"], "default": "present"},
        of_cluster={"type": "str"},
        segment={"type": "str"},
        routes_only={"type": "bool", "default": False},
        node={"type": "str"},
        nodes={
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "name": {"type": "str", "required": True},
                "addresses": {"type": "list", "elements": "str", "required": True},
            },
        },
        interface={"type": "str"},
        networks={"type": "list", "elements": "str", "default": []},
        left_out={"type": "str", "default": ""},
        advert_interval={"type": "float", "default": 0.5},
        verify_seconds={"type": "int", "default": 15},
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = speaker.run(module.params, module.check_mode)
    except LinuxError as error:
        module.fail_json(msg=str(error), **error.fields())
    except (OSError, ValueError) as error:  # a full disk is said in one line, too
        module.fail_json(msg=str(error), reason=getattr(error, "reason", ""))
    exit_with(module, result)


#: The program that is packed on the node; so its files come along.
AGENT = agent.main

if __name__ == "__main__":
    main()
