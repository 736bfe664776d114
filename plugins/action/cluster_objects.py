# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""cluster_objects in the inventory's clusters."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction


class ActionModule(InventoryAction):
    """See DOCUMENTATION of the module."""

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """Only the clusters that get something are asked."""
        if not options.get("objects"):
            self.only = options.get("objects_by_cluster") or {}

    def within(self, options: dict[str, t.Any], inside: t.Collection[str]) -> list[str]:
        """Of objects for all clusters, or for some by name, those of the clusters inside."""
        asked = [
            str(name)
            for name in (
                self.groups.get(self.clusters_group, ()) if self.only is None else t.cast(t.Iterable[str], self.only)
            )
        ]
        self.only = {name for name in asked if name in inside}
        if options.get("objects_by_cluster"):
            options["objects_by_cluster"] = {
                name: objects for name, objects in options["objects_by_cluster"].items() if name in inside
            }
        return sorted(set(asked) - set(inside))

    def left(self, options: t.Mapping[str, t.Any]) -> bool:
        """Whether a cluster is left."""
        return bool(self.only)
