# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Modules by which nodes announce addresses of Services: what the run, or the reconciler, has found for the node's cluster."""

from __future__ import annotations

import typing as t

from ansible.plugins.action.normal import ActionModule as Normal
from ansible_collections.multicluster.network.plugins.module_utils._status import results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, context_of, skipped

Data = dict[str, t.Any]

#: Of the reconciler's play: {cluster: {routes, segments, left_out}}.
ORDERS = "__load_balancers_orders"


class _Speaker(Normal):
    def run(self, tmp: t.Any = None, task_vars: Data | None = None) -> Data:
        """The module, with what was found for the cluster that the option ``of_cluster`` names."""
        given, variables = self._task.args, task_vars or {}
        options = dict(given)
        cluster = str(options.pop("of_cluster", None) or "")
        try:
            if cluster:
                orders = self._orders(variables)
                if cluster not in orders and options.get("state") != "absent":
                    return skipped(f"no addresses of cluster {cluster} were read")
                node = self._templar.template(variables.get("node_name") or variables["inventory_hostname"])
                self.take(options, orders.get(cluster) or {}, str(node))
            self._task.args = options
            return dict(super().run(tmp, task_vars))
        finally:
            self._task.args = given  # a retry begins with what was written

    def _orders(self, variables: t.Mapping[str, t.Any]) -> Data:
        if ORDERS in variables:
            return dict(self._templar.template(variables[ORDERS]))
        capability = kept.CAPABILITIES["load_balancers"].compared
        return dict((context_of(self, variables).get(capability) or {}).get("load_balancers") or {})

    def take(self, options: Data, found: Data, node: str) -> None:
        """Set what the node announces. found: {routes, segments, left_out} of its cluster."""
        raise NotImplementedError


class SpeakerAction(Kept, _Speaker):
    """The base of their action plugins."""

    of_hosts = True

    def kept_as(self) -> str:
        """The reconciler needs no result of its many short plays."""
        return "" if self._task.args.get("routes_only") else super().kept_as()
