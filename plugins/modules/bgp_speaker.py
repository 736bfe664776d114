#!/usr/bin/python

# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bgp_speaker
version_added: 0.1.0
short_description: Let a node announce addresses to its routers by BGP
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Runs a BGP daemon of FRR of its own, in the unit C(multicluster-bgp.service), which announces O(prefixes) to the routers in
    O(neighbors). It takes no route from anybody, puts none into the kernel and does not listen. An FRR that the node has for
    itself is not touched.
  - The configuration is checked by FRR before it is put in place. Sessions stay up while prefixes come and go.
  - When a session that stood does not come back within O(verify_seconds), the node gets its former configuration again, and the
    task fails.
extends_documentation_fragment:
  - multicluster.network._node
requirements:
  - FRR 8 or newer (package C(frr))
options:
  state:
    description: V(absent) stops the daemon, which withdraws every route at once, and removes the unit and its files.
    type: str
    choices: [present, absent]
    default: present
  asn:
    description: Autonomous system of the node. Required with O(state=present).
    type: int
  source_ip:
    description: Address from which the node speaks. The default is the one from which it reaches the first router.
    type: str
  router_id:
    description: The default is O(source_ip).
    type: str
  neighbors:
    description: The routers. Required with O(state=present).
    type: list
    elements: dict
    default: []
    suboptions:
      address:
        description: The router's address.
        type: str
        required: true
      asn:
        description: The router's autonomous system.
        type: int
        required: true
      password:
        description: Password of the session, for which the kernel needs TCP MD5 signatures.
        type: str
      multihop:
        description: How many hops away the router may be. V(0) is for one on the same network.
        type: int
        default: 0
  prefixes:
    description: What to announce, networks or single addresses.
    type: list
    elements: str
    default: []
  keepalive_time:
    description: Seconds between signs of life.
    type: int
    default: 3
  hold_time:
    description: Seconds after which a router forgets a silent node. At least three times O(keepalive_time).
    type: int
    default: 9
  grants:
    description: What is allowed. Facts outside are refused, and nothing is changed. An empty list allows every usual value.
    type: dict
    suboptions:
      local_asns:
        description: Autonomous systems of nodes.
        type: list
        elements: int
        default: []
      peer_asns:
        description: Autonomous systems of routers.
        type: list
        elements: int
        default: []
      peers:
        description: Ranges of the routers' addresses.
        type: list
        elements: str
        default: []
      sources:
        description: Ranges of the nodes' addresses.
        type: list
        elements: str
        default: []
  beside_frr:
    description: Go on when this node's own FRR has a session with one of the routers too.
    type: bool
    default: false
  verify_seconds:
    description: How long to wait for sessions that stood before.
    type: int
    default: 30
seealso:
  - module: multicluster.network.load_balancers
"""

EXAMPLES = r"""
- name: Announce the addresses of a cluster's Services
  multicluster.network.bgp_speaker:
    asn: 65000
    source_ip: 10.66.23.31
    neighbors:
      - {address: 10.66.23.1, asn: 65530}
    prefixes: [203.0.113.1/32]

- name: Stop announcing
  multicluster.network.bgp_speaker:
    state: absent
"""

RETURN = r"""
plan:
  description: Counts of what is created, updated, deleted and unchanged, and the first 200 changes.
  type: dict
  returned: always
  sample: {"create": 0, "update": 1, "delete": 0, "unchanged": 1, "changes": [{"action": "update", "kind": "file",
    "id": "/etc/multicluster-network/bgp/bgpd.conf", "fields": ["lines"]}]}
refused:
  description: What was left alone, with a reason word and a message.
  type: list
  elements: dict
  returned: always
  sample: []
sessions:
  description: For each router whether the session stands.
  type: dict
  returned: always
  sample: {"10.66.23.1": true}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import bgp_speaker
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, fail_on_refused_spec


def argument_spec():
    """Fresh argument specification."""
    return dict(
        fail_on_refused_spec(),
        state={"type": "str", "choices": ["present", "absent"], "default": "present"},
        asn={"type": "int"},
        source_ip={"type": "str"},
        router_id={"type": "str"},
        neighbors={"type": "list", "elements": "dict", "default": [], "options": {
            "address": {"type": "str", "required": True},
            "asn": {"type": "int", "required": True},
            "password": {"type": "str", "no_log": True},
            "multihop": {"type": "int", "default": 0},
        }},
        prefixes={"type": "list", "elements": "str", "default": []},
        keepalive_time={"type": "int", "default": 3},
        hold_time={"type": "int", "default": 9},
        grants={"type": "dict", "options": {
            "local_asns": {"type": "list", "elements": "int", "default": []},
            "peer_asns": {"type": "list", "elements": "int", "default": []},
            "peers": {"type": "list", "elements": "str", "default": []},
            "sources": {"type": "list", "elements": "str", "default": []},
        }},
        beside_frr={"type": "bool", "default": False},
        verify_seconds={"type": "int", "default": 30},
    )  # fmt: skip


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=argument_spec(),
        supports_check_mode=True,
        required_if=[("state", "present", ["asn", "neighbors"])],
    )
    try:
        result = bgp_speaker.run(module.params, module.check_mode)
    except bgp_speaker.RolledBack as error:
        result = dict(error.result)
        result.pop("diff", None)
        result.pop("warnings", None)
        module.fail_json(msg=str(error), rolled_back=True, **result)
    except LinuxError as error:
        module.fail_json(msg=str(error), **error.fields())
    except ValueError as error:
        module.fail_json(msg=str(error), reason=getattr(error, "reason", ""))
    exit_with(module, result)


if __name__ == "__main__":
    main()
