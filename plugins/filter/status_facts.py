# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What plays registered about the fabric, as the modules that describe it take it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: status_facts
short_description: Collect what plays registered about nodes and capabilities
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Joins the results that the roles of this collection registered on nodes and clusters. A host without a result is kept, as one that
    did not answer.
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  hosts:
    description: The hosts that stand for nodes, those that did not answer included. Hosts without C(multicluster_cluster) are left out.
    type: list
    elements: str
    required: true
  clusters:
    description: The hosts that stand for clusters.
    type: list
    elements: str
    required: true
  register:
    description: Name of the variable with the result of M(multicluster.network.node_status).
    type: str
    default: __status_r_node
  "on":
    description: The capabilities that the inventory asks for.
    type: list
    elements: str
    default: []
  limit:
    description: The pattern of C(--limit). With one, hosts and capabilities that nobody asked are listed as C(outside) and C(unasked).
    type: str
    default: ""
  asked:
    description: The hosts that the limit left.
    type: list
    elements: str
    default: []
  packed:
    description: Give it as one text, for the option C(packed) of the modules.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: How many nodes answered
  ansible.builtin.debug:
    msg: "{{ (hostvars | multicluster.network.status_facts(groups['all'], groups['clusters'])).nodes.values() | select | length }}"
"""

RETURN = r"""
_value:
  description:
    - C(mesh), C(nodes), C(node_plans), C(plans), C(probes), C(silent) with what silent nodes' connections said, C(limit), C(outside) and
      C(unasked), as M(multicluster.network.fabric_status) takes them.
  type: raw
"""

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._status import collected
from ansible_collections.multicluster.network.plugins.module_utils._status.packed import pack


def status_facts(
    hostvars: t.Any, hosts: t.Sequence[str], clusters: t.Sequence[str], register: str = "__status_r_node", packed: bool = False,
    on: t.Sequence[str] = (), limit: str = "", asked: t.Sequence[str] = (),
) -> t.Any:  # fmt: skip
    """See DOCUMENTATION."""
    found: t.Dict[str, t.Any] = {"mesh": {}, "nodes": {}, "node_plans": {}, "plans": {}, "silent": {}, "limit": limit, "outside": [], "unasked": []}
    for host in hosts:
        given = hostvars[host]
        if host in clusters or "multicluster_cluster" not in given:
            continue
        result = given[register] if register in given else {}
        found["nodes"][str(host)] = result.get("node")
        if limit and register not in given:
            found["outside"].append(str(host))  # who was asked and was silent has a result that says so
            continue
        if result.get("node") is None:
            found["silent"][str(host)] = collected.said(result)
        converge = given["__node_dataplane_r_converge"] if "__node_dataplane_r_converge" in given else {}
        if "plan" in converge or converge.get("refused"):
            found["node_plans"][str(host)] = collected.part(converge)
    found["mesh"] = collected.mesh(hostvars, list(found["nodes"]))
    found["probes"] = {host: row["probe"] for host, row in collected.verifications(hostvars, list(found["nodes"])).items() if "probe" in row}
    found["plans"] = collected.plans(hostvars, list(found["nodes"]), clusters)
    if limit and not set(asked).intersection(clusters):
        found["unasked"] = [str(name) for name in on if name not in found["plans"]]
    return pack(found) if packed else found


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"status_facts": status_facts}
