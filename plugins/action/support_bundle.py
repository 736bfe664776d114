# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""support_bundle of the inventory's fabric, without the secrets that the inventory has."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._status import results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept


class ActionModule(Kept, InventoryAction):
    """See DOCUMENTATION of the module."""

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """The definition, the nodes' facts, and what must not be shown of them."""
        options.setdefault("definition", self.definition())
        self.pack_facts(options)
        if "files" not in options:
            status = (self.hostvars.context.get(kept.STATUS) or {}).get("files") or {}
            names = {"status.json": "document", "status.html": "page", "status.prom": "metrics"}
            options["files"] = {name: status[part] for name, part in names.items() if status.get(part)}
        options["secrets"] = sorted(
            {*options.get("secrets", ()), *inventory.secret_values(self.hostvars, self.groups.get("all", ()))}
        )
