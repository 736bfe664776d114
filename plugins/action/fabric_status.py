# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""fabric_status of the inventory's fabric, and of what its run has kept."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import node_pod_hosts
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept


class ActionModule(Kept, InventoryAction):
    """See DOCUMENTATION of the module."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See DOCUMENTATION of the module."""
        result = super().run(tmp, task_vars)
        if self._templar.template((task_vars or {}).get("node_pods")) == "during_runs":
            hosts = sorted(host for found in node_pod_hosts(self.hostvars, self.groups).values() for host in found)
            if hosts:
                text = (
                    f"node_pods is during_runs: after a reboot, a node is outside of the mesh until the next run of mesh or site ({', '.join(hosts[:5])}"
                    f"{', ...' if len(hosts) > 5 else ''})"
                )
                result.setdefault("warnings", []).append(text)
        return result

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """What nodes and capabilities said, and which of them nobody asked."""
        self.pack_facts(
            options,
            str(variables.get("ansible_limit") or ""),
            variables.get("ansible_play_hosts_all") or (),
        )
