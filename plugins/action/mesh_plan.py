# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mesh_plan of the inventory's fabric without a process of its own, where it may, with what hosts said of themselves."""

from __future__ import annotations

import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import slices
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.publishing import host_reports
from ansible_collections.multicluster.network.plugins.module_utils._plan.outcome import refused_lines
from ansible_collections.multicluster.network.plugins.module_utils._status import collected
from ansible_collections.multicluster.network.plugins.module_utils._values import packed
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.modules import mesh_plan
from ansible_collections.multicluster.network.plugins.plugin_utils import handed
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_findings import inventory_findings
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import (
    InventoryAction,
    check_choice,
    renamed,
    shown,
)


class ActionModule(InventoryAction):
    """See DOCUMENTATION of the module."""

    module = mesh_plan
    needs_clusters = True

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """The definition, what is wrong with the inventory where only that is asked, and hosts' own word."""
        if "mode" in options:
            check_choice(self, "multicluster_mesh", "mesh_mode", options["mode"], variables)
        self.agrees, agreed = boolean(options.pop("agree", False)), options.pop("agreed", "")
        self.agreed: dict[str, t.Any] = packed.unpack(str(agreed)) if agreed else {}
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
        options["leaving"] = str(self.leaving.get("cluster") or "")
        hosts = options.get("reported_by") or ()
        said = handed.reported(variables) if self.agreed else {}
        if said and "reported" not in options:
            options["reported"] = host_reports(said)
        plans = collected.results(self.hostvars, variables.get("ansible_play_hosts_all") or (), "__mesh_r_plan")
        self.refused_before: list[str] = next(
            (list(plan["refused_before"]) for plan in plans.values() if plan.get("refused_before")), []
        )
        if hosts and "reported" not in options:
            results = handed.results(variables, self.hostvars, hosts)
            options["reported"] = host_reports(results)
            earlier = collected.mesh(self.hostvars, hosts).get("refused") or ()
            self.refused_before = refused_lines(
                earlier, {host: result["refused"] for host, result in results.items() if result.get("refused")}
            )

    def _join(self, definition: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """The nodes of the whole fabric instead of those that this job has. Raises ValueRefused for a host that was not there."""
        own = slices.strangers(self.agreed["nodes"], definition["nodes"])
        if own:
            text = "the plan of this workflow knows nothing of {0}, or another cluster or node_name: the inventory has changed since; start it again"
            raise ValueRefused("plan_differs", text.format(slices.shown(own)))
        definition["nodes"] = self.agreed["nodes"]

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The plan, and what an earlier one of this run refused."""
        result = super().run(tmp, task_vars)
        if "mesh" in result and self.agreed:
            differs = slices.differences(self.agreed["digest"], slices.digests(result["mesh"], self.inventory))
            if differs:
                text = "this job plans another fabric than its workflow agreed on, so it changes nothing; what differs: {0} [plan_differs]"
                return dict(
                    result, failed=True, msg=text.format(slices.shown(differs)), refused_before=self.refused_before
                )
        if "mesh" in result and self.agrees:
            result["agreement"] = packed.pack(slices.agreement(result["mesh"], self.inventory))
        return dict(result, refused_before=self.refused_before)
