# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node is like, kept for the reports of its run."""

from __future__ import annotations

import typing as t

from ansible.plugins.action.normal import ActionModule as Normal
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import collected
from ansible_collections.multicluster.network.plugins.plugin_utils.node_part import ranges
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, run_vars


class _Node(Normal):
    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The module, which searches for pods in the ranges that the run's plan has for its node."""
        given, variables = self._task.args, task_vars or {}
        host, hostvars = str(variables.get("inventory_hostname", "")), run_vars(self, task_vars)
        asked = bool(given.get("checks")) and "pod_cidrs" not in given
        try:
            if asked:
                mesh = MeshPlan.from_json(collected.mesh(hostvars, [host]))
                self._task.args = dict(given, **ranges(self, variables, hostvars, mesh, host))
            return dict(super().run(tmp, task_vars))
        finally:
            self._task.args = given  # a retry begins with what was written


class ActionModule(Kept, _Node):
    """See DOCUMENTATION of the module."""

    of_hosts = True
