#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: trace_node
short_description: Record and send packets of a trace on one node
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - One node's part of a trace, in three calls with the same O(id). V(armed) starts a recorder and returns the state of the node; V(sent) sends
    packets from the source's own network namespace; V(collected) returns what the kernel reported of them, and ends the recorder.
  - The recorder is a process of its own with a table of nftables that has the kernel's owner flag (Linux 5.12). It writes no file, ends after
    O(lifetime) in any case, and its table ends with it, however it ends. Other rules, tables and settings of the node are only read.
  - Packets are recognised by their number alone (a port, or the identifier of ICMP's echo) and by the addresses of their flow.
  - Rules of the legacy iptables and drops of routing make no events; the counters and the last place where a packet was seen tell of them.
extends_documentation_fragment:
  - multicluster.network._attributes.node
requirements:
  - nft on the node, for the text of rules
options:
  state:
    description: Which part to do.
    type: str
    choices: [armed, sent, collected]
    required: true
  fabric:
    description: Name of the fabric. Its units and tables on this node are reported.
    type: str
    default: default
  id:
    description:
      - Name of the trace, 1 to 24 small letters and digits. Traces with different names do not disturb each other.
      - The default, with O(flows) that begin at the host, is what M(multicluster.network.trace_plan) planned in the same run.
    type: str
  back:
    description: Without O(id), whether to send the flows that distinguish the directions of a tunnel, and not all others. Only for V(sent).
    type: bool
    default: false
  flows:
    description: The flows of the trace, as M(multicluster.network.trace_plan) returns them. Not needed for V(collected).
    type: list
    elements: dict
    default: []
  questions:
    description:
      - With V(armed), questions to the kernel's routing. Each has C(dst), and C(src), C(iif) and C(mark) where they matter; what else it has
        comes back with the answer. Those of the flows' own ends need not be asked.
    type: list
    elements: dict
    default: []
  lifetime:
    description: With V(armed), the seconds after which the recorder ends, up to 600.
    type: int
    default: 30
  events:
    description: With V(armed), how many events of one flow are kept, the first half and the last half of them.
    type: int
    default: 400
  sizes:
    description:
      - With V(sent), sizes in bytes of whole IP packets that follow the small one and must not be fragmented. One that is more than the
        source's own device takes becomes as large as that takes; where the path reports that it takes less, that size follows.
    type: list
    elements: int
    default: []
  wait_seconds:
    description: With V(sent), how long an answer is waited for.
    type: int
    default: 2
  packed:
    description:
      - With V(collected), return C(events) as one text, RV(packed), which M(multicluster.network.trace_report) reads as well. Ansible looks at every
        value of a result several times, and many flows have hundred thousands of events.
    type: bool
    default: false
attributes:
  action_group:
    description: Use C(group/multicluster.network.node) in C(module_defaults) to set options once.
    support: full
    membership:
      - multicluster.network.all
      - multicluster.network.internal
      - multicluster.network.node
  check_mode:
    description: Reads the node and asks its kernel.
    support: partial
    details: V(armed) starts no recorder, V(sent) sends no packet.
  diff_mode:
    description: Nothing that stays is changed, so there is no diff.
    support: none
  idempotent:
    description: Never reports a change.
    support: partial
    details: V(sent) sends its packets each time; V(armed) starts nothing for an O(id) that is being recorded.
"""

EXAMPLES = r"""
- name: Record, and return the state of this node
  multicluster.network.trace_node:
    state: armed
    id: 7f3a91
    flows: "{{ plan.trace.flows }}"

- name: Send from the pod, a small packet and a large one
  multicluster.network.trace_node:
    state: sent
    id: 7f3a91
    flows: "{{ plan.trace.flows }}"
    sizes: [1500]

- name: What became of them
  multicluster.network.trace_node:
    state: collected
    id: 7f3a91
"""

RETURN = r"""
armed:
  description: Whether the recorder runs.
  type: bool
  returned: with O(state=armed)
  sample: true
reason:
  description: Why no recorder runs, or ran; null where one does or did.
  type: str
  returned: with O(state=armed) and O(state=collected)
facts:
  description:
    - The node as it is now, with C(links), C(routes), C(rules), C(devices) (WireGuard), C(tables) with their base chains, C(sets) of our
      tables, C(settings), C(pods), C(kube_proxy), C(listeners), C(legacy_iptables), C(units), C(counters). What could not be read is
      missing and named in C(errors).
  type: dict
  returned: with O(state=armed)
answers:
  description: The questions, each with the kernel's C(answer); its C(error) is null where there is a way.
  type: list
  elements: dict
  returned: with O(state=armed)
  sample:
    - flow: "0"
      way: out
      dst: 10.4.7.10
      src: 10.2.3.10
      iif: veth1
      mark: 0
      version: 4
      answer: {error: null, type: unicast, dev: wireguard.gcp, via: null, src: null, table: 254}
sent:
  description:
    - What became of each packet. C(outcome) is answered, refused, unreachable (the source's own namespace has no way), icmp_error, no_answer or
      failed (nothing was sent). C(size) is 0 for the small one.
  type: list
  elements: dict
  returned: with O(state=sent)
  sample: [{flow: "0", size: 0, outcome: answered, detail: "", milliseconds: 0.9, error: null, sender: null, mtu: null}]
asked:
  description:
    - What the DNS server answered to flows with a name as target, asked from the source's own network namespace before the packets were sent.
      C(outcome) is answered, no_name, no_address (of the flow's family), failed or no_answer.
  type: list
  elements: dict
  returned: with O(state=sent)
  sample: [{flow: "0", server: 10.96.0.10, outcome: answered, name: fluentd.sys-log.svc.cluster.gcp, addresses: [10.96.3.7], detail: ""}]
collected:
  description: Whether there was a recorder to ask.
  type: bool
  returned: with O(state=collected)
  sample: true
packed:
  description: RV(events) as one text.
  type: str
  returned: with O(packed), where something was recorded
  sample: eJyLjgUAARUAuQ==
events:
  description:
    - What the kernel reported, in its order. C(seen) is in microseconds since the recorder was armed, C(packet) the same for all events of a
      packet. Chains of the trace's own table (C(owned)) are first and last in each hook.
    - C(type) is rule, return (a chain's end) or policy (of a base chain).
    - Empty with O(packed).
  type: list
  elements: dict
  returned: with O(state=collected)
  sample:
    - flow: "0"
      direction: forward
      packet: 2881029913
      seen: 812
      family: ip
      table: filter
      chain: FORWARD
      hook: forward
      priority: 0
      handle: 4
      rule: ip daddr 10.4.7.10 drop
      type: rule
      verdict: drop
      to: null
      owned: false
      iif: veth1
      oif: wireguard.gcp
      mark: 0
      src: 10.2.3.10
      dst: 10.4.7.10
      proto: tcp
      sport: 61234
      dport: 80
      length: 60
      ttl: 63
      flags: [syn]
      error: null
      mtu: null
counts:
  description: How many events there were of each flow, kept or not.
  type: dict
  returned: with O(state=collected)
  sample: {"0": 24}
others:
  description: Packets with a number of the trace that were not of its flows.
  type: int
  returned: with O(state=collected)
  sample: 0
lost:
  description: How often the kernel had more events than could be taken.
  type: int
  returned: with O(state=collected)
  sample: 0
unreadable:
  description: How many messages of the kernel made no sense.
  type: int
  returned: with O(state=collected)
  sample: 0
devices:
  description: The WireGuard devices again, with handshakes and bytes after the packets.
  type: list
  elements: dict
  returned: with O(state=collected)
counters:
  description: The kernel's counters of C(links) and of C(ip), as the facts have those from before.
  type: dict
  returned: with O(state=collected)
errors:
  description: What could not be read, by C(section) and C(message).
  type: list
  elements: dict
  returned: with O(state=collected)
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.trace import answer as trace
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["armed", "sent", "collected"], "required": True},
            "fabric": {"type": "str", "default": "default"},
            "id": {"type": "str"},
            "back": {"type": "bool", "default": False},
            "flows": {"type": "list", "elements": "dict", "default": []},
            "questions": {"type": "list", "elements": "dict", "default": []},
            "lifetime": {"type": "int", "default": 30},
            "events": {"type": "int", "default": 400},
            "sizes": {"type": "list", "elements": "int", "default": []},
            "wait_seconds": {"type": "int", "default": 2},
            "packed": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    if not module.params["id"]:
        module.fail_json(msg="missing required arguments: id; no trace was planned in this run")
    try:
        result = trace.run(module.params, module.check_mode)
    except LinuxError as err:
        module.fail_json(msg=str(err), **err.fields())
    except (OSError, ValueError) as err:
        module.fail_json(msg=f"cannot trace: {err}")
    exit_with(module, result)


if __name__ == "__main__":
    main()
