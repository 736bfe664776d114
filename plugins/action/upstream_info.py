# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""upstream_info of the inventory's clusters."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction


class ActionModule(InventoryAction):
    """See DOCUMENTATION of the module."""
