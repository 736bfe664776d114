# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a job of a workflow hands to the next ones, from what its run has kept."""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.action.node_annotations import unpublished
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import slices
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.module_utils._values import packed
from ansible_collections.multicluster.network.plugins.plugin_utils import job_output
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import run_vars

_OPTIONS: dict[str, t.Any] = {
    "stage": {"type": "str", "choices": ["plan", "converge", "publish", "verify"], "required": True},
    "path": {"type": "path"},
}


def _plan(hostvars: t.Any, hosts: t.Sequence[str]) -> t.Mapping[str, t.Any]:
    """The result of mesh_plan, from whichever host has it."""
    found = collected.of_hosts(hostvars, hosts, kept.PLAN)
    return next((plan for plan in found.values() if plan.get("mesh")), {})


def stage_output(stage: str, workflow: str, hostvars: t.Any, hosts: t.Sequence[str]) -> dict[str, t.Any]:
    """``{variable: value}`` that one stage hands on. Raises ValueError where what it needs was not registered."""
    if stage == "verify":
        return {job_output.PROVEN: True}
    plan = _plan(hostvars, hosts)
    if not plan:
        raise ValueError("there is no plan to hand on")
    mesh = MeshPlan.from_json(plan["mesh"])
    if stage == "converge":
        results = collected.of_hosts(hostvars, hosts, kept.NODE)
        said = slices.reported(mesh, results, unpublished(mesh, results), plan.get("contested") or ())
        return {job_output.reported_name(map(str, hosts)): packed.pack(said)}
    definition = next(iter(collected.of_hosts(hostvars, hosts, kept.DEFINITION).values()))
    found: dict[str, t.Any] = {job_output.PLAN: packed.pack(slices.agreement(mesh, definition))}
    if stage == "plan":
        return dict(found, multicluster_workflow=workflow)
    return dict(found, **{job_output.NEWS: plan.get("news_clusters") or []})


class ActionModule(ActionBase):
    """See DOCUMENTATION of the module."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The variables as statistics of the run, which is what AWX passes on."""
        result, variables = super().run(tmp, task_vars), task_vars or {}
        unused, options = self.validate_argument_spec(_OPTIONS)
        if options["stage"] == "converge" and variables.get(job_output.NEWS) == []:
            return dict(
                result, changed=False, skipped=True, skip_reason="nothing new was published, so nothing was planned"
            )
        try:
            data = stage_output(
                options["stage"],
                job_output.workflow_of(self, variables) if options["stage"] == "plan" else "",
                run_vars(self, variables),
                variables["ansible_play_hosts_all"],
            )
            if options["path"] and not self._task.check_mode:
                _keep(options["path"], data)
        except (ValueError, OSError) as error:
            raise AnsibleActionFail(f"{error} [not_handed_over]") from None
        return dict(
            result,
            changed=False,
            names=sorted(data),
            ansible_stats={"data": data, "aggregate": False, "per_host": False},
        )


def _keep(path: str, data: t.Mapping[str, t.Any]) -> None:
    """Anew, for this user alone: whoever could write it would choose what the next job does."""
    new = pathlib.Path(f"{path}.new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as target:
        json.dump(data, target)
    new.replace(path)
