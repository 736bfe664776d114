# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""fabric_preflight of the inventory's fabric, and of what its nodes said."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._status import collected
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_findings import inventory_findings
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction
from ansible_collections.multicluster.network.plugins.plugin_utils.load_balancer_settings import load_balancer_settings

#: Of a cluster's settings what is judged: the others have passwords.
_JUDGED = ("cluster", "load_balancer", "bgp_speakers", "bgp_families", "announced_by", "pool", "pools")


class ActionModule(InventoryAction):
    """See DOCUMENTATION of the module."""

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """The definition with what is wrong in it, the nodes' facts, and who announces addresses."""
        if "definition" not in options:
            options["definition"] = dict(
                self.definition(), findings=inventory_findings(self.hostvars, self.groups, self.clusters_group)
            )
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
        self.pack_facts(options, "__preflight_r_node")
