# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's part of a trace, kept for the report."""

from __future__ import annotations

import typing as t

from ansible.plugins.action.normal import ActionModule as Normal
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.module_utils._trace.resolve import flow_at
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, run_vars, skipped


class _Node(Normal):
    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The module, with the trace of this run where the task names none."""
        given, variables = self._task.args, task_vars or {}
        if "id" in given:
            return dict(super().run(tmp, task_vars))
        host = str(variables["inventory_hostname"])
        trace = collected.trace_plan(run_vars(self, variables)[host])
        if not trace:
            return skipped("no trace is planned")
        options = dict(given, id=trace["id"])
        if given.get("state") == "armed":
            cluster = str((trace.get("hosts") or {}).get(host, {}).get("cluster") or "")
            options["flows"] = [flow_at(flow, cluster) for flow in trace["flows"]]
        elif given.get("state") == "sent":
            back = bool(options.pop("back", False))
            options["flows"] = [
                flow for flow in trace["flows"] if flow["source"]["host"] == host and bool(flow.get("about")) == back
            ]
            if not options["flows"] or self._task.check_mode:
                return skipped("nothing is sent from here")
        try:
            self._task.args = options
            return dict(super().run(tmp, task_vars))
        finally:
            self._task.args = given  # a retry begins with what was written


class ActionModule(Kept, _Node):
    """See DOCUMENTATION of the module."""

    of_hosts = True

    def kept_as(self) -> str:
        """One name for each part; what was sent back is seen by whoever records it."""
        return "" if self._task.args.get("back") else kept.TRACE_PARTS.get(str(self._task.args.get("state")), "")
