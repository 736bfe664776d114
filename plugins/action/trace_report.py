# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""trace_report over what the plays of a trace registered on hosts."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._status import collected
from ansible_collections.multicluster.network.plugins.module_utils._values.packed import pack
from ansible_collections.multicluster.network.plugins.modules import trace_report
from ansible_collections.multicluster.network.plugins.plugin_utils.controller_task import ControllerAction
from ansible_collections.multicluster.network.plugins.plugin_utils.registered import registered

#: Part of a trace -> where the role registers a node's result.
PARTS = {"armed": "__trace_r_armed", "sent": "__trace_r_sent", "collected": "__trace_r_collected"}
PLAN = "__trace_r_plan"


def gathered(hostvars: t.Any, hosts: t.Iterable[str]) -> tuple[dict[str, dict[str, t.Any]], dict[str, str]]:
    """({host: {part: the module's result}}, {host: why it is not there}); a part that was skipped or failed is missing."""
    nodes: dict[str, dict[str, t.Any]] = {}
    unreachable: dict[str, str] = {}
    for host in map(str, hosts):
        given = hostvars[host]
        for part, variable in PARTS.items():
            result = given.get(variable, {})
            why = collected.why_none(result)
            if why:
                unreachable.setdefault(host, why)
            elif result and not result.get("skipped"):
                nodes.setdefault(host, {})[part] = dict(result)
    return nodes, unreachable


class ActionModule(ControllerAction):
    """See DOCUMENTATION of the module."""

    module = trace_report

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The module, with what a task does not give out of the plays' results."""
        given, variables = self._task.args, task_vars or {}
        hostvars, present = (
            registered(variables.get("hostvars")),
            set(map(str, variables.get("ansible_play_hosts_all") or ())),
        )
        options = dict(given)
        try:
            facts = {name: options.pop(name) for name in ("trace", "nodes", "silent") if name in options}
            if "trace" not in facts:
                plans = collected.results(hostvars, list(hostvars), PLAN)
                facts["trace"] = next((plan["trace"] for plan in plans.values() if "trace" in plan), {})
            hosts = [str(host) for host in facts["trace"].get("nodes") or () if host in hostvars]
            nodes, unreachable = gathered(hostvars, hosts)
            options["facts"] = pack({"nodes": nodes, "silent": unreachable, **facts})
            if variables.get("ansible_limit"):
                options.setdefault("outside", [host for host in hosts if host not in present])
            self._task.args = options
            return super().run(tmp, task_vars)
        finally:
            self._task.args = given  # a retry begins with what was written
