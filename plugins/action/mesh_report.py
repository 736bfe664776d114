# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict over a fabric, from what the run of a verification has kept."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, evidence, report
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import with_clusters
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, run_vars, write_text

OPTIONS: dict[str, dict[str, t.Any]] = {
    "hosts": {"type": "list", "elements": "str", "required": True},
    "capabilities": {"type": "list", "elements": "str", "default": []},
    "clusters_group": {"type": "str", "default": "clusters"},
    "allow_unproven": {"type": "bool", "default": False},
    "full": {"type": "bool", "default": True},
    "path": {"type": "path"},
}


def mesh_report(
    hostvars: t.Any,
    hosts: t.Sequence[str],
    declared: t.Sequence[str] = (),
    clusters: t.Sequence[str] = (),
    on: t.Sequence[str] = (),
    limit: str = "",
    allow_unproven: bool = False,
    full: bool = True,
) -> dict[str, t.Any]:
    """``{verdict, ok, problems, warnings, parts, scope, text, full}`` from what the run of a verification has kept.

    hosts: those that should have been verified. declared: those that may be nodes. on: the capabilities that the inventory asks for; one
    that no cluster's host was there to compare is not asked, where there is a limit.
    """
    nodes = [str(host) for host in declared if host not in clusters and "multicluster_cluster" in hostvars[host]]
    desired = set(map(str, hosts))
    mesh = collected.mesh(hostvars, nodes or hosts)
    plan = MeshPlan.from_json(mesh)
    noted = collected.noted(hostvars, [*nodes, *clusters])
    missing = [str(name) for name in on if name not in noted["capabilities"] and name != evidence.MESH]
    facts = {
        "mesh": mesh,
        "found": collected.traced(
            collected.verifications(hostvars, [host for host in plan.nodes if host in desired], plan),
            hostvars,
            [*clusters, *nodes],
        ),
        "declared": nodes,
        "capabilities": noted["capabilities"] if limit else noted["capabilities"] + missing,
        "plans": collected.plans(hostvars, nodes or list(hosts), clusters),
        "applied": noted["applied"],
        "limit": limit,
        "outside": [host for host in nodes if host not in desired],
        "unasked": missing,
    }
    return report.build(facts, allow_unproven, full)


class _Report(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The report under one name: Ansible reads some of its parts itself where they are at the top level."""
        result, variables = super().run(tmp, task_vars), task_vars or {}
        unused, options = self.validate_argument_spec(OPTIONS)
        try:
            hostvars, groups = with_clusters(run_vars(self, variables), variables["groups"], options["clusters_group"])
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None
        built = mesh_report(
            hostvars,
            variables["ansible_play_hosts_all"],
            options["hosts"],
            groups.get(options["clusters_group"], ()),
            options["capabilities"],
            str(variables.get("ansible_limit") or ""),
            options["allow_unproven"],
            options["full"],
        )
        if options["path"] and not self._task.check_mode:
            write_text(options["path"], built["full"] + "\n")
        return dict(result, changed=False, report=built)


class ActionModule(Kept, _Report):
    """See DOCUMENTATION of the module."""
