# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""fabric_status of the inventory's fabric, and of what its run has kept."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept


class ActionModule(Kept, InventoryAction):
    """See DOCUMENTATION of the module."""

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """What nodes and capabilities said, and which of them nobody asked."""
        self.pack_facts(
            options,
            str(variables.get("ansible_limit") or ""),
            variables.get("ansible_play_hosts_all") or (),
        )
