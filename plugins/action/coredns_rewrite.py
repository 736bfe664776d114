# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""coredns_rewrite without a process of its own, where it may, with the inventory's settings."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_places import Place
from ansible_collections.multicluster.network.plugins.modules import coredns_rewrite
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept

#: What of a cluster's CoreDNS its host may say.
_VARIABLES = {
    "namespace": "coredns_rewrite_namespace",
    "name": "coredns_rewrite_config_map",
    "key": "coredns_rewrite_key",
    "deployment": "coredns_rewrite_deployment",
    "cluster_domain": "coredns_rewrite_cluster_domain",
}


class ActionModule(Kept, InventoryAction):
    """See DOCUMENTATION of the module."""

    module = coredns_rewrite
    written = "destinations"

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """All clusters of the inventory are members, where the task names none itself, and those with managed nodes are edited (decision 66)."""
        if "members" not in options and "clusters" not in options:
            options["members"] = [str(host) for host in self.groups.get(self.clusters_group, ())]
            if not options.get("destinations"):
                options["destinations"] = inventory.managed_clusters(self.definition())
        if "places" not in options and "clusters" not in options:
            self._places(options, variables)

    def _places(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """What each cluster's variables say of its CoreDNS.

        The role's options are read at one host. Where that is a cluster's and has such a variable, it is not that of the clusters which have none.
        """
        usual = Place()._asdict()
        clusters = [str(name) for name in self.groups.get(self.clusters_group, ())]
        host = str(variables.get("inventory_hostname"))
        speaker = self.hostvars[host] if host in clusters else {}
        places: dict[str, dict[str, t.Any]] = {}
        for cluster in clusters:
            given = self.hostvars[cluster]
            for option, variable in _VARIABLES.items():
                if variable in given:
                    places.setdefault(cluster, {})[option] = given[variable]
                elif variable in speaker:
                    places.setdefault(cluster, {})[option] = "" if option in ("name", "key") else usual[option]
        if places:
            options["places"] = places
