# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""fabric_preflight of the inventory's fabric, and of what its nodes said."""

from __future__ import annotations

import json
import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.multicluster.network.plugins.module_utils._status import collected
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_findings import inventory_findings
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction
from ansible_collections.multicluster.network.plugins.plugin_utils.load_balancer_settings import load_balancer_settings
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, write_text

#: Of a cluster's settings what is judged: the others have passwords.
_JUDGED = ("cluster", "load_balancer", "bgp_speakers", "bgp_families", "announced_by", "pool", "pools")


class _Preflight(InventoryAction):
    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """The definition with what is wrong in it, the nodes' facts, and who announces addresses."""
        if "definition" not in options:
            options["definition"] = dict(
                self.definition(), findings=inventory_findings(self.hostvars, self.groups, self.clusters_group)
            )
            self._of_capabilities(options, variables, options.pop("capabilities", None) or ())
            for name in ("services", "imports"):  # what is written nowhere needs no right to (decision 66)
                if options.get(name) is not None and not options[name].get("destinations"):
                    options[name] = dict(options[name], destinations=inventory.managed_clusters(options["definition"]))
            rows = load_balancer_settings(self.hostvars, self.groups, self.clusters_group)
            options.setdefault("load_balancers", [{key: row[key] for key in _JUDGED if key in row} for row in rows])
        if "failed" not in options:
            nodes = [host for host in options.get("hosts") or () if "multicluster_cluster" in self.hostvars[host]]
            options["failed"] = [
                *collected.failed_checks(self.hostvars, nodes or variables.get("ansible_play_hosts_all") or ()),
                *collected.failed_plans(self.hostvars, self.groups.get(self.clusters_group, ())),
            ]
        self.pack_facts(options)

    def _of_capabilities(
        self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any], on: t.Collection[str]
    ) -> None:
        """What the roles of capabilities would ask of the clusters."""

        def own(name: str, default: t.Any) -> t.Any:
            return self._templar.template(variables.get(name, default))

        if "service_mirror" in on:
            options.setdefault(
                "services",
                {
                    "namespace": own("service_mirror_namespace", "sys-semaphore"),
                    "create_namespace": boolean(own("service_mirror_create_namespace", False)),
                    "destinations": own("service_mirror_destinations", []),
                },
            )
        if "mcs" in on:
            installs, destinations = boolean(own("mcs_install_crds", False)), own("mcs_destinations", [])
            options.setdefault("imports", {"install_crds": installs, "destinations": destinations})

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The findings, and a file that has them."""
        given = self._task.args
        path = given.get("path")
        try:
            self._task.args = {name: value for name, value in given.items() if name != "path"}
            result = super().run(tmp, task_vars)
        finally:
            self._task.args = given
        if path and not self._task.check_mode and "findings" in result:
            write_text(str(path), json.dumps(result["findings"], indent=4, sort_keys=True) + "\n")
        return result


class ActionModule(Kept, _Preflight):
    """See DOCUMENTATION of the module."""
