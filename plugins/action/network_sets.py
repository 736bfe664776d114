# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""network_sets without a process of its own, where it may, with the inventory's settings."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.modules import network_sets
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept


class ActionModule(Kept, InventoryAction):
    """See DOCUMENTATION of the module."""

    module = network_sets
    written = "targets"

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """What the inventory grants its clusters, and which of them get sets, where the task names none itself."""
        if "grants" not in options and "clusters" not in options:
            definition = self.definition()
            options["grants"] = definition["clusters"]
            if options.get("state", "present") == "present" and not options.get("targets"):
                options["targets"] = inventory.managed_clusters(definition)
