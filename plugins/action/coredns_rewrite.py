# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""coredns_rewrite without a process of its own, where it may, with what the inventory says."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.modules import coredns_rewrite
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction


class ActionModule(InventoryAction):
    """See DOCUMENTATION of the module."""

    module = coredns_rewrite
    written = "destinations"

    def fill(self, options: t.Dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """All clusters of the inventory are members, where the task names none itself, and those with nodes of ours are edited (decision 66)."""
        if "members" not in options and "clusters" not in options:
            options["members"] = [str(host) for host in self.groups.get(self.clusters_group, ())]
            if not options.get("destinations"):
                options["destinations"] = inventory.managed_clusters(self.definition())
