# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pod ranges of peers of a node: those that the reconciler has for the node's cluster."""

from __future__ import annotations

import typing as t

from ansible.plugins.action.normal import ActionModule as Normal
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import skipped

#: Of the reconciler's play: {cluster: orders}.
ORDERS = "__pod_ranges_orders"


class ActionModule(Normal):
    """See DOCUMENTATION of the module."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The module, with the orders of the cluster that the option ``of_cluster`` names; a node gets those of no other."""
        given, variables = self._task.args, task_vars or {}
        options = dict(given)
        cluster = str(options.pop("of_cluster", None) or "")
        try:
            if cluster:
                options["orders"] = (variables.get(ORDERS) or {}).get(cluster) or {}
                if not options["orders"]:
                    return skipped(f"no peer of the nodes of cluster {cluster} has other pod ranges")
            self._task.args = options
            return dict(super().run(tmp, task_vars))
        finally:
            self._task.args = given  # a retry begins with what was written
