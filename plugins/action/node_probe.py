# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pods of a node, kept for the nodes that are to reach them."""

from __future__ import annotations

import re
import typing as t

from ansible.plugins.action.normal import ActionModule as Normal
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results
from ansible_collections.multicluster.network.plugins.plugin_utils.node_part import ranges
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, run_vars, skipped

#: More pods than a node runs.
_ALL = 1000
_ADDRESS = re.compile(r"[0-9a-fA-F:.\[\]]+", re.ASCII)


def _needed(questions: t.Sequence[t.Mapping[str, t.Any]]) -> int:
    """How many pods of a node a trace has to know: an address is one of any, and any node needs one."""
    ends = [str(row.get(name, "any")) for row in questions for name in ("source", "target")]
    if any(_ADDRESS.fullmatch(end) for end in ends):
        return _ALL
    return 1 if "any" in ends else 0


def _is_end(questions: t.Sequence[t.Mapping[str, t.Any]], mesh: MeshPlan, host: str) -> bool:
    """Whether an end is this node, of a mesh with a discovery service, from which nodes know each other and machines that no inventory has.

    Such a node need not be one of the cluster's Nodes, so only its kernel has its addresses.
    """
    if mesh.kubespan is None or not mesh.kubespan.members:
        return False
    names = {f"{mesh.node(host).cluster}/{name}" for name in (host, mesh.node(host).node_name)}
    return any(str(row.get(name)) in names for row in questions for name in ("source", "target"))


class _Node(Normal):
    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The module, which searches for pods in the ranges that the run's plan has for its node."""
        given, variables = self._task.args, task_vars or {}
        host, hostvars = str(variables.get("inventory_hostname", "")), run_vars(self, task_vars)
        try:
            if "pod_cidrs" not in given:
                mesh = collected.mesh(hostvars, [host])
                info = hostvars.context.get(results.NODE_INFO, host)
                if not mesh or (info is not None and info.get("node") is None):
                    why = "the node was not read" if mesh else "the mesh is not planned in this run"
                    return skipped(why)
                plan = MeshPlan.from_json(mesh)
                options = dict(given, **ranges(self, variables, hostvars, plan, host))
                ends = options.get("for_ends")
                if ends is not None:
                    options["max_pods"] = _needed(ends) or int(_is_end(ends, plan, host))
                    if not options["max_pods"]:
                        return skipped("both ends are named")
                self._task.args = options
            return dict(super().run(tmp, task_vars))
        finally:
            self._task.args = given  # a retry begins with what was written


class ActionModule(Kept, _Node):
    """See DOCUMENTATION of the module."""

    of_hosts = True
