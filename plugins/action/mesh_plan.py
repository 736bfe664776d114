# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mesh_plan of the inventory's fabric without a process of its own, where it may, with what hosts said of themselves."""

from __future__ import annotations

import time
import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import slices
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.publishing import host_reports
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.outcome import refused_lines
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach.risks import Risks, asked_hosts
from ansible_collections.multicluster.network.plugins.module_utils._values import packed
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.modules import mesh_plan
from ansible_collections.multicluster.network.plugins.plugin_utils import job_output, limit, node_part, preshared_secret
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_findings import inventory_findings
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import (
    InventoryAction,
    check_choice,
    renamed,
    shown,
)
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept


class _Plan(InventoryAction):
    """See DOCUMENTATION of the module."""

    module = mesh_plan
    needs_clusters = True

    #: The plan that this one replaces, where it is made again with what was published.
    before: MeshPlan | None = None

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> str | None:
        """The definition, what is wrong with the inventory where only that is asked, and hosts' own reports."""
        self.refused_before: list[str] = []
        again = boolean(options.pop("again", False))
        if again:
            marks = self.hostvars.context.get(kept.PLANNED)
            if marks:
                self.hostvars.context.keep(kept.PLANNED, dict(marks, again=time.monotonic()))
            before = collected.mesh(self.hostvars, variables["ansible_play_hosts_all"])
            self.before = MeshPlan.from_json(before) if before else None
            why = self._nothing_new(variables)
            if why:
                self.keeps = False
                return why
        if "mode" in options:
            check_choice(self, "multicluster_mesh", "mesh_mode", options["mode"], variables)
        self.agreed = _agreed(variables) if boolean(options.pop("slice", False)) else {}
        if "definition" not in options:
            options["definition"] = self.definition()
            if self.agreed:
                self._join(options["definition"], variables)
            if boolean(options.get("validate_only", False)):
                options["definition"]["findings"] = inventory_findings(self.hostvars, self.groups, self.clusters_group)
            else:
                wrong = shown(
                    renamed(self, variables, [self.hostvars[host] for host in self.groups.get(self.clusters_group, ())])
                )
                if wrong:
                    raise ValueError(wrong)
        self.inventory = options["definition"]
        if "rotation" not in options:
            options["rotation"] = (self.hostvars.context.get(kept.ROTATION) or {}).get("order") or {}
        options["leaving"] = str(self.leaving.get("cluster") or "")
        hosts = variables["ansible_play_hosts_all"] if again else ()
        said = job_output.reported(variables) if self.agreed else {}
        if said and "reported" not in options:
            options["reported"] = host_reports(said)
        plans = collected.of_hosts(self.hostvars, variables.get("ansible_play_hosts_all") or (), kept.PLAN)
        self.refused_before = next(
            (list(plan["refused_before"]) for plan in plans.values() if plan.get("refused_before")), []
        )
        if hosts and "reported" not in options:
            results = job_output.results(variables, self.hostvars, hosts)
            options["reported"] = host_reports(results)
            earlier = self.before.refused if self.before is not None else ()
            self.refused_before = refused_lines(
                earlier, {host: result["refused"] for host, result in results.items() if result.get("refused")}
            )
        return None

    def _nothing_new(self, variables: t.Mapping[str, t.Any]) -> str | None:
        """Why a plan would be the one that the run has. Reports of hosts decide what two nodes claim, where a node has no record of its own."""
        context = self.hostvars.context
        published, plan = context.get(kept.ANNOTATIONS) or {}, context.get(kept.PLAN) or {}
        if self.before is None:
            return "the mesh is not planned in this run"
        if variables.get("ansible_check_mode") or (self._task.check_mode and context.get(kept.PUBLISHED)):
            return "a comparison publishes nothing"
        return None if published.get("changed") or plan.get("contested") else "nothing new was published"

    def _join(self, definition: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """The nodes of the whole fabric instead of those that this job has. Raises ValueRefused for a host that was not there."""
        own = slices.strangers(self.agreed["nodes"], definition["nodes"])
        if own:
            text = "the plan of this workflow knows nothing of {0}, or another cluster or node_name: the inventory has changed since; start it again"
            raise ValueRefused("plan_differs", text.format(slices.shown(own)))
        definition["nodes"] = self.agreed["nodes"]

    def _reachability(self, mesh: MeshPlan, variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Whether and of which hosts it has to be known what they lose, before the first write."""
        inside = limit.hosts_inside(self.hostvars, variables)
        nodes = self.inventory["nodes"]
        declared = {host: row["wireguard_endpoint"] for host, row in nodes.items() if row.get("wireguard_endpoint")}
        ask = asked_hosts(mesh, inside)
        return {"ask": ask, "declared": declared, "judge": bool(ask) or Risks.of(mesh, declared, inside).any()}

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The plan, and what an earlier one of this run refused."""
        result = super().run(tmp, task_vars)
        if "mesh" in result and self.agreed:
            differs = slices.differences(
                self.agreed["digest"], slices.digests(MeshPlan.from_json(result["mesh"]), self.inventory)
            )
            if differs:
                text = "this job plans another fabric than its workflow agreed on, so it changes nothing; what differs: {0} [plan_differs]"
                return dict(
                    result, failed=True, msg=text.format(slices.shown(differs)), refused_before=self.refused_before
                )
        if (result.get("mesh") or {}).get("preshared_used"):
            try:
                result["mesh"]["preshared_id"] = preshared_secret.identity(self, task_vars or {})
            except ValueError as error:
                return dict(result, failed=True, msg=str(error), refused_before=self.refused_before)
        if "mesh" in result:
            self.hostvars.context.keep(kept.DEFINITION, slices.without_access(self.inventory))
            if self.before is not None:
                after = MeshPlan.from_json(result["mesh"])
                result["news"] = _news(self.before, after)
                result["news_clusters"] = slices.news(self.before, after)
            elif not boolean(self._task.args.get("validate_only", False)):
                self.hostvars.context.keep(kept.PLANNED, {"first": time.monotonic()})
                result["reachability"] = self._reachability(MeshPlan.from_json(result["mesh"]), task_vars or {})
        return dict(result, refused_before=self.refused_before)


def _agreed(variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What the first job of a workflow agreed on. Raises ValueError where this job does not have it."""
    given = variables.get(job_output.PLAN)
    if not given:
        raise ValueError(
            "there is no plan to agree with: slices.plan runs first, and its result is given to this job, see multicluster_workflow_file"
        )
    agreed: dict[str, t.Any] = packed.unpack(str(given))
    return agreed


def _news(before: MeshPlan, after: MeshPlan) -> list[str]:
    """The hosts for which the second plan has another part."""
    return sorted(host for host in after.nodes if _part(before, host) != _part(after, host))


def _part(mesh: MeshPlan, host: str) -> t.Any:
    if host not in mesh.nodes:
        return None
    return node_part.devices(mesh, host), node_part.kubespan_part(mesh, host, {})


class ActionModule(Kept, _Plan):
    """See DOCUMENTATION of the module."""

    def kept_as(self) -> str:
        """The plan; that the inventory is valid is no plan."""
        return kept.VALID if boolean(self._task.args.get("validate_only", False)) else kept.PLAN
