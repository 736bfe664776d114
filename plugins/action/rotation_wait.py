# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node waits for after a step of a rotation of keys, from the plan of the run."""

from __future__ import annotations

import typing as t

from ansible.plugins.action.normal import ActionModule as Normal
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.generations import Layout
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import FINISHED
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import rotation_checks
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import run_vars, skipped


class ActionModule(Normal):
    """See DOCUMENTATION of the module."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The module with the tunnels of its node, where the next step needs any."""
        given, variables = self._task.args, task_vars or {}
        if "step" not in given:
            return dict(super().run(tmp, task_vars))
        host, hostvars = str(variables.get("inventory_hostname", "")), run_vars(self, task_vars)
        mesh = MeshPlan.from_json(collected.mesh(hostvars, [host]))
        if self._task.check_mode or host not in mesh.nodes:
            return skipped("nothing has changed" if mesh.nodes else "the mesh is not planned in this run")
        state = str((hostvars.context.get(kept.ROTATION) or {}).get("state") or FINISHED)
        tunnels, quiet = rotation_checks.awaited(str(given["step"]), mesh, host, state)
        device = dict(self._templar.template(variables.get("kubespan_layout") or {})).get("device")
        if device:
            tunnels = [dict(row, device=device) if row["device"] == Layout().device else row for row in tunnels]
        if not tunnels:
            return skipped("no step follows that needs it")
        try:
            self._task.args = dict(given, tunnels=tunnels, quiet=quiet)
            result = dict(super().run(tmp, task_vars))
        finally:
            self._task.args = given  # a retry begins with what was written
        if result.get("missing") or result.get("busy"):
            result["msg"] = rotation_checks.missing_text(mesh, host, result["missing"], result["busy"])
        return result
