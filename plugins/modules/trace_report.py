#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: trace_report
short_description: Report where a traced packet ended, and why
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Walks both directions of each flow through what the nodes said of their kernels, compares that with where the packets were seen, and names the
    first place where the two part, with its cause and what to do about it.
  - What cannot be explained is said to be so, with the last place where the packet was seen.
extends_documentation_fragment:
  - multicluster.network._attributes.internal
attributes:
  check_mode:
    description: In check mode no file is written.
    support: full
  diff_mode:
    description: A report is no change, so there is no diff.
    support: none
  idempotent:
    description: Never reports a change. The files are written at every run, since their moment differs.
    support: full
options:
  fabric:
    description: Name of the fabric.
    type: str
    required: true
  trace:
    description: The return value C(trace) of M(multicluster.network.trace_plan).
    type: dict
  nodes:
    description: Host to the results of M(multicluster.network.trace_node) as C(armed), C(sent) and C(collected).
    type: dict
    default: {}
  unreachable:
    description: Host that did not answer to what its connection said.
    type: dict
    default: {}
  facts:
    description: O(trace), O(nodes) and O(unreachable) as one text, as a play of this collection passes them. Needed where there is no O(trace).
    type: str
  outside:
    description: Hosts of the trace that C(--limit) left out.
    type: list
    elements: str
    default: []
  page:
    description: File on the controller that receives the trace as a page of HTML. It needs no server and no other file.
    type: path
  document:
    description: File on the controller that receives everything as JSON.
    type: path
seealso:
  - module: multicluster.network.trace_plan
  - module: multicluster.network.trace_node
"""

EXAMPLES = r"""
- name: Say where the packet ended
  multicluster.network.trace_report:
    fabric: demo
    trace: "{{ plan.trace }}"
    nodes: "{{ results }}"
  delegate_to: localhost
  run_once: true
  register: found
"""

RETURN = r"""
verdict:
  description: V(arrives), V(does not arrive), V(not explained), or V(nothing to follow) where no packet was to be sent, with the reason in RV(names).
  type: str
  returned: success
  sample: does not arrive
findings:
  description: One for each flow that does not arrive, with its C(cause), C(where), C(message), C(fix), C(command) and C(confidence).
  type: list
  elements: dict
  returned: success
  sample:
    - cause: route_missing
      where: aws-node-1
      flow: "0"
      direction: forward
      message: "aws-node-1: no route for 10.4.0.7; a route to it by wireguard.gcp is missing"
      fix: run the mesh again on aws-node-1; its routes follow pod_cidrs of the other cluster
      command: ip route get 10.4.0.7 from 10.2.0.10 iif veth1
      confidence: proven
hops:
  description: What decides on the way there and back, with what was expected and what was observed.
  type: list
  elements: dict
  returned: success
  sample:
    - {flow: "0", direction: forward, where: aws-node-1, what: route, expected: route 10.4.0.0/16 dev wireguard.gcp table main to wireguard.gcp,
       observed: "in by veth1, out by wireguard.gcp", verdict: ok, command: ip route get 10.4.0.7 from 10.2.0.10 iif veth1, source: pod_cidrs of cluster gcp}
flows:
  description: Each flow with its verdict, and whether expected and observed agree.
  type: list
  elements: dict
  returned: success
  sample: [{flow: "0", source: aws/default/web-1, target: gcp/default/web-2, verdict: arrives, agrees: true, cause: ""}]
agreement:
  description: How many flows were traced, arrive, and agree with what was expected.
  type: dict
  returned: success
  sample: {asked: 1, arrive: 1, agree: 1}
table:
  description: Lines for people.
  type: list
  elements: str
  returned: success
  sample: ["trace 1f2e3d4c: arrives"]
errors:
  description: Nodes that recorded nothing, and why.
  type: list
  elements: str
  returned: success
  sample: []
names:
  description: The steps from name to address.
  type: list
  elements: dict
  returned: success
  sample: []
files:
  description: The files by the option that named them.
  type: dict
  returned: success
  sample: {page: /var/www/trace.html}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.reports import trace
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "fabric": {"type": "str", "required": True},
        "trace": {"type": "dict"},
        "nodes": {"type": "dict", "default": {}},
        "unreachable": {"type": "dict", "default": {}},
        "facts": {"type": "str"},
        "outside": {"type": "list", "elements": "str", "default": []},
        "page": {"type": "path"},
        "document": {"type": "path"},
    }


def run(module: Any) -> None:
    """All but the start, which the action plugin does for itself."""
    if module.params["trace"] is None and module.params["facts"] is None:
        module.fail_json(msg="one of the following is required: trace, facts")
    try:
        result = trace.finish(module.params, module.check_mode)
    except trace.FAILURES as err:
        module.fail_json(msg=f"cannot report the trace: {err}")
    exit_with(module, result)


def main() -> None:
    """Entry point."""
    run(AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True))


if __name__ == "__main__":
    main()
