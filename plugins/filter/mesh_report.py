# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a verification."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mesh_report
short_description: Judge a verification of the fabric and draw its tables
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Joins what every node found, and what every capability's comparison found, with the topology. A verdict is V(proven),
    V(not proven) or V(broken); reasons name the nodes, peers and clusters concerned.
options:
  _input:
    description: The return value C(mesh) of M(multicluster.network.mesh_plan). An empty dictionary means the one that a host has registered.
    type: dict
    required: true
  hostvars:
    description: The variable C(hostvars), in which hosts have the registered results of the verification.
    type: dict
    required: true
  hosts:
    description: The hosts that should have been verified.
    type: list
    elements: str
    required: true
  declared:
    description: The hosts of the inventory that may be nodes. Those without C(multicluster_cluster) are left out.
    type: list
    elements: str
    default: []
  clusters:
    description: The hosts that stand for clusters.
    type: list
    elements: str
    default: []
  capabilities:
    description:
      - The capabilities that are on, each of which must have been compared. The default is what the playbook C(verify) found out, as
        is which of them this run has carried out itself.
    type: list
    elements: str
  "on":
    description: The capabilities that the inventory asks for. One that no cluster's host was there to compare is not asked, where there is a limit.
    type: list
    elements: str
    default: []
  limit:
    description: The pattern of C(--limit). Nodes and capabilities outside of it are named as not asked and are no part of the verdict.
    type: str
    default: ""
  allow_unproven:
    description: Count what is V(not proven) as good enough for C(ok).
    type: bool
    default: false
  full:
    description: Whether C(full) has every row. Of a large fabric that is a long text; without it C(full) is C(text).
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Show the verdict
  ansible.builtin.debug:
    msg: "{{ (plan.mesh | multicluster.network.mesh_report(hostvars, ansible_play_hosts_all)).text.splitlines() }}"
"""

RETURN = r"""
_value:
  description:
    - C(verdict), C(ok), C(problems), C(warnings), C(parts) with the verdict of each capability, C(scope) with what was asked and what was not,
      C(text) with bounded tables, and C(full) with every row.
  type: dict
"""

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._status import collected, evidence, report


def mesh_report(
    mesh: t.Mapping[str, t.Any],
    hostvars: t.Any,
    hosts: t.Sequence[str],
    declared: t.Sequence[str] = (),
    clusters: t.Sequence[str] = (),
    capabilities: t.Optional[t.Sequence[str]] = None,
    allow_unproven: bool = False,
    full: bool = True,
    on: t.Sequence[str] = (),
    limit: str = "",
) -> t.Dict[str, t.Any]:
    """See DOCUMENTATION."""
    nodes = [str(host) for host in declared if host not in clusters and "multicluster_cluster" in hostvars[host]]
    wanted = set(map(str, hosts))
    mesh = mesh or collected.mesh(hostvars, nodes)
    noted = collected.noted(hostvars, [*nodes, *clusters])
    asked = noted["capabilities"] if capabilities is None else [str(name) for name in capabilities]
    missing = [str(name) for name in on if name not in asked and name != evidence.MESH]
    facts = {
        "mesh": mesh,
        "found": collected.verifications(hostvars, [host for host in mesh.get("nodes") or () if host in wanted]),
        "declared": nodes,
        "capabilities": asked if limit else asked + missing,
        "plans": collected.plans(hostvars, nodes or list(hosts), clusters),
        "applied": noted["applied"],
        "limit": limit,
        "outside": [host for host in nodes if host not in wanted],
        "unasked": missing,
    }
    return report.build(facts, allow_unproven, full)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"mesh_report": mesh_report}
