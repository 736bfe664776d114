# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""service_imports without a process of its own, where it may, with the inventory's settings."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.modules import service_imports
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept


class ActionModule(Kept, InventoryAction):
    """See DOCUMENTATION of the module."""

    module = service_imports
    written = "destinations"

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """The definition of the fabric, and which of its clusters get imports where the task does not name them (decision 66)."""
        if "definition" not in options:
            options["definition"] = self.definition()
            if (
                options.get("state", "present") == "present"
                and "clusters" not in options
                and not options.get("destinations")
            ):
                options["destinations"] = inventory.managed_clusters(options["definition"])
