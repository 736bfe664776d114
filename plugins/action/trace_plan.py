# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""trace_plan of the inventory's fabric: the mesh that was planned, and which host is which node."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.module_utils._trace import pairs
from ansible_collections.multicluster.network.plugins.modules import trace_plan
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept


class ActionModule(Kept, InventoryAction):
    """See DOCUMENTATION of the module."""

    module = trace_plan

    def _suppose(self, options: dict[str, t.Any]) -> None:
        """What hypotheses need: the plan with them, and how nodes announce addresses."""
        if "assumed" not in options:
            options["assumed"] = (self.hostvars.context.get(kept.PLAN) or {}).get("assumed") or {}
        if "speakers" not in options:
            options["speakers"] = {
                host: {
                    "segment": str(self.hostvars[host].get("layer2_speaker_segment") or ""),
                    "bgp": bool(self.hostvars[host].get("bgp_speaker_neighbors")),
                }
                for host in options["hosts"]
            }
        if "reserved" not in options:
            names = self.groups.get(self.clusters_group, ())
            settings = {name: self.hostvars[name].get("load_balancers_settings") or {} for name in names}
            options["reserved"] = {
                name: list(row.get("layer2_reserved_vrids") or ())
                for name, row in settings.items()
                if isinstance(row, dict)
            }

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> str | None:
        """``hosts``, ``mesh``, ``pods`` and ``ends``, where the task does not give them; ``pairs`` of a verification, where it asks for those that failed."""
        if "hosts" not in options:
            nodes = self.definition()["nodes"]
            options["hosts"] = {
                host: {"cluster": str(row["multicluster_cluster"]), "node": str(row.get("node_name", host))}
                for host, row in nodes.items()
            }
        if "mesh" not in options:
            options["mesh"] = collected.mesh(self.hostvars, list(options["hosts"]))
        if options.get("what_if"):
            self._suppose(options)
        if "pods" not in options:
            options["pods"] = collected.pods(self.hostvars, list(options["hosts"]), own=True)
        if "ends" not in options:
            options["ends"] = collected.ends(self.hostvars, list(options["hosts"]))
        if not options.get("failing"):
            return None
        plan = MeshPlan.from_json(options["mesh"] or {})
        found = collected.verifications(self.hostvars, list(options["hosts"]), plan)
        options["pairs"] = pairs.failing(
            {host: (row.get("probe") or {}).get("pings") or () for host, row in found.items()}, int(options["failing"])
        )
        self.only = ()  # what is to be followed is known: no cluster is asked
        return None if options["pairs"] else "nobody failed to reach anybody"
