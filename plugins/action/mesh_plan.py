# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mesh_plan of the inventory's fabric, with what hosts said of themselves."""

from __future__ import annotations

import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.publishing import host_reports
from ansible_collections.multicluster.network.plugins.module_utils._plan.outcome import refused_lines
from ansible_collections.multicluster.network.plugins.module_utils._status import collected
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_findings import inventory_findings
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction, check_choice, renamed, shown


class ActionModule(InventoryAction):
    """See DOCUMENTATION of the module."""

    def fill(self, options: t.Dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """The definition, what is wrong with the inventory where only that is asked, and hosts' own word."""
        if "mode" in options:
            check_choice(self, "multicluster_mesh", "mesh_mode", options["mode"], variables)
        if "definition" not in options:
            options["definition"] = self.definition()
            if boolean(options.get("validate_only", False)):
                options["definition"]["findings"] = inventory_findings(self.hostvars, self.groups, self.clusters_group)
            else:
                wrong = shown(renamed(self, variables, [self.hostvars[host] for host in self.groups.get(self.clusters_group, ())]))
                if wrong:
                    raise ValueError(wrong)
        hosts = options.get("reported_by") or ()
        plans = collected.results(self.hostvars, variables.get("ansible_play_hosts_all") or (), "__mesh_r_plan")
        self.refused_before: t.List[str] = next((list(plan["refused_before"]) for plan in plans.values() if plan.get("refused_before")), [])
        if hosts and "reported" not in options:
            results = collected.results(self.hostvars, hosts, collected.NODE)
            options["reported"] = host_reports(results)
            earlier = collected.mesh(self.hostvars, hosts).get("refused") or ()
            self.refused_before = refused_lines(earlier, {host: result["refused"] for host, result in results.items() if result.get("refused")})

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        """The plan, and what an earlier one of this run refused."""
        result = super().run(tmp, task_vars)
        return dict(result, refused_before=self.refused_before)
