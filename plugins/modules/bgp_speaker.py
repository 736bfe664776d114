#!/usr/bin/python

# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bgp_speaker
version_added: 1.0.0
short_description: Configure a BGP speaker on a node
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Runs a BGP daemon of FRR of its own, in the unit C(multicluster-bgp.service), which announces O(prefixes) and O(routes) to the
    routers in O(neighbors). It takes no route from anybody, puts none into the kernel and does not listen. An FRR that the node has for
    itself is not touched.
  - A follower, in the unit C(multicluster-bgp-follow.service), asks the ports of O(routes[].health_ports) and O(node_health_port) twice a second
    and withdraws at once what the node reports that it cannot deliver. It needs neither a play nor an account of the cluster.
  - The configuration is checked by FRR before it is put in place. Changes are made on the running daemon, session by session, and sessions
    stay up while networks come and go.
  - When a session that stood does not come back within O(verify_seconds), the node gets its former configuration again, and the
    task fails.
extends_documentation_fragment:
  - multicluster.network._node
  - multicluster.network._speaker
requirements:
  - FRR 8 or newer (package C(frr)), or BIRD 2 (package C(bird2))
options:
  state:
    description: V(absent) stops the daemon, which withdraws every route at once, and removes the units and their files.
    type: str
    choices: [present, absent]
    default: present
  daemon:
    description:
      - The daemon, of the package C(frr) or C(bird2). Both announce the same in the same way. V(bird) listens, on
        port 1790, where it takes connections of O(neighbors) alone.
      - A change from one to the other ends the sessions once.
    type: str
    choices: [frr, bird]
    default: frr
  of_cluster:
    description:
      - Name of the node's cluster, for which M(multicluster.network.load_balancers) found in the same run what is to be announced. It is taken for
        O(routes). Where it could not be read the task is skipped, and the node goes on.
    type: str
  routes_only:
    description:
      - Only change what a configured speaker announces, by O(prefixes) and O(routes). Who it is, its routers and all else stay as the last task
        without this option left them, and need not be given. A node without a speaker fails with the reason C(no_speaker).
    type: bool
    default: false
  asn:
    description: Autonomous system of the node. Required with O(state=present), but for O(routes_only).
    type: int
  source_ip:
    description: Address from which the node connects. The default is the one from which it reaches the first router.
    type: str
  router_id:
    description:
      - An IPv4 address of no other speaker. The default is O(source_ip), or the first address of IPv4 from which the node connects. A node that connects to
        routers of IPv6 alone needs it.
    type: str
  neighbors:
    description: The routers. Required with O(state=present), but for O(routes_only).
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
      password_file:
        description: A file on the node with the password as its text, in place of O(neighbors[].password). It is read when the task runs.
        type: path
      multihop:
        description: How many hops away the router may be. V(0) is for one on the same network.
        type: int
        default: 0
      source_ip:
        description:
          - Address from which the node connects to this router. The default is O(source_ip), and for a router of the other family the one from which
            the node reaches it. Networks of a family go to the routers of that family.
        type: str
      bfd:
        description: Notice within a second that the router, or the way to it, is gone (and let it notice the same). With O(daemon=frr) the
          first such router starts the daemon anew, and the kernel has to have user namespaces.
        type: bool
        default: false
      both_families:
        description:
          - Whether networks of the other family go over this session, too. A router of IPv6 then gets IPv4 networks with an address of IPv6 as next hop
            (RFC 8950), which it has to take; a router of IPv4 gets IPv6 networks with O(neighbors[].next_hop).
        type: bool
        default: false
      next_hop:
        description: An IPv6 address of the node, for a router of IPv4 with O(neighbors[].both_families=true).
        type: str
      ttl_security:
        description:
          - How many hops away the router may be, with packets from farther away not believed (RFC 5082). The router has to send with a TTL of 255,
            so it needs the same rule for the node. In place of O(neighbors[].multihop); V(0) is for no such rule.
        type: int
        default: 0
  prefixes:
    description: What to announce in any case, networks or single addresses.
    type: list
    elements: str
    default: []
  graceful_restart:
    description:
      - Ask routers to keep the node's routes while its daemon starts anew. It takes effect with the next session, and such routers also keep the routes
        of a node that died, until their own time for that is over.
    type: bool
    default: false
  communities:
    description: What every network is marked with, each as C(65000:1).
    type: list
    elements: str
  large_communities:
    description: The same with large communities, each as C(65000:1:2).
    type: list
    elements: str
  local_preference:
    description: Local preference of every network, for routers of the node's own autonomous system.
    type: int
  med:
    description: Multi-exit discriminator of every network.
    type: int
  pools:
    description: What holds for the networks inside one. The smallest that has a network counts, and what it does not say is said above.
    type: list
    elements: dict
    default: []
    suboptions:
      network:
        description: The pool.
        type: str
        required: true
      announce:
        description:
          - V(addresses) announces each address, V(aggregate) in their place the pool's network while any address in it is announced, and V(both) both.
          - Networks with O(routes[].health_ports) are announced by themselves in any case, since other nodes announce the pool's network too.
        type: str
        choices: [addresses, aggregate, both]
        default: addresses
      communities:
        description: As above.
        type: list
        elements: str
      large_communities:
        description: As above.
        type: list
        elements: str
      local_preference:
        description: As above.
        type: int
      med:
        description: As above.
        type: int
  keepalive_time:
    description: Seconds between signs of life.
    type: int
    default: 3
  hold_time:
    description: Seconds after which a router forgets a node that does not respond. At least three times O(keepalive_time).
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
  alongside_frr:
    description: Go on when this node's own FRR, or another program of it, has a session with one of the routers too.
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

- name: Announce another address, and leave all else as it is
  multicluster.network.bgp_speaker:
    routes_only: true
    prefixes: [203.0.113.1/32, 203.0.113.2/32]

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
    "id": "/etc/multicluster-network/bgp/speaker.json", "fields": ["lines"]}]}
refused:
  description: What was left alone, with a reason and a message.
  type: list
  elements: dict
  returned: always
  sample: []
sessions:
  description: For each router whether the session is established.
  type: dict
  returned: always
  sample: {"10.66.23.1": true}
announced:
  description: The networks that the daemon has been notified of, by the follower's last report.
  type: list
  elements: str
  returned: always
  sample: ["203.0.113.1/32"]
uncarried:
  description: Networks that no router is notified of, since no session in O(neighbors) is for their family.
  type: list
  elements: str
  returned: always
  sample: []
withheld:
  description: The others, each with the reason.
  type: dict
  returned: always
  sample: {"203.0.113.2/32": "port 31234 of this node reports that it cannot deliver"}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers.arguments import speaker_spec
from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers.bgp import (
    agent as speaker_agent,
    speaker as bgp_speaker,
)
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, fail_on_refused_spec


def attributes_spec() -> dict[str, Any]:
    """What is announced to routers alongside a network."""
    lists = {name: {"type": "list", "elements": "str"} for name in ("communities", "large_communities")}
    return dict(lists, local_preference={"type": "int"}, med={"type": "int"})


def argument_spec() -> dict[str, Any]:
    """Fresh argument specification."""
    return dict(
        fail_on_refused_spec(),
        **speaker_spec(),
        state={"type": "str", "choices": ["present", "absent"], "default": "present"},
        daemon={"type": "str", "choices": ["frr", "bird"], "default": "frr"},
        of_cluster={"type": "str"},
        routes_only={"type": "bool", "default": False},
        asn={"type": "int"},
        source_ip={"type": "str"},
        router_id={"type": "str"},
        neighbors={
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "address": {"type": "str", "required": True},
                "asn": {"type": "int", "required": True},
                "password": {"type": "str", "no_log": True},
                "password_file": {"type": "path", "no_log": False},
                "multihop": {"type": "int", "default": 0},
                "bfd": {"type": "bool", "default": False},
                "both_families": {"type": "bool", "default": False},
                "next_hop": {"type": "str"},
                "source_ip": {"type": "str"},
                "ttl_security": {"type": "int", "default": 0},
            },
        },
        prefixes={"type": "list", "elements": "str", "default": []},
        graceful_restart={"type": "bool", "default": False},
        pools={
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": dict(
                attributes_spec(),
                network={"type": "str", "required": True},
                announce={"type": "str", "choices": ["addresses", "aggregate", "both"], "default": "addresses"},
            ),
        },
        **attributes_spec(),
        keepalive_time={"type": "int", "default": 3},
        hold_time={"type": "int", "default": 9},
        grants={
            "type": "dict",
            "options": {
                "local_asns": {"type": "list", "elements": "int", "default": []},
                "peer_asns": {"type": "list", "elements": "int", "default": []},
                "peers": {"type": "list", "elements": "str", "default": []},
                "sources": {"type": "list", "elements": "str", "default": []},
            },
        },
        alongside_frr={"type": "bool", "default": False},
        verify_seconds={"type": "int", "default": 30},
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = bgp_speaker.run(module.params, module.check_mode)
    except bgp_speaker.RolledBack as error:
        result = dict(error.result)
        result.pop("diff", None)
        result.pop("warnings", None)
        module.fail_json(msg=str(error), rolled_back=True, **result)
    except LinuxError as error:
        module.fail_json(msg=str(error), **error.fields())
    except (OSError, ValueError) as error:  # a full disk is said in one line, too
        module.fail_json(msg=str(error), reason=getattr(error, "reason", ""))
    exit_with(module, result)


#: The program that is packed on the node; so its files come along.
AGENT = speaker_agent.main

if __name__ == "__main__":
    main()
