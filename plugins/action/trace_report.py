# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""trace_report over what the run of a trace has kept."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.module_utils._values.packed import pack
from ansible_collections.multicluster.network.plugins.modules import trace_report
from ansible_collections.multicluster.network.plugins.plugin_utils.controller_task import ControllerAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, run_vars


def gathered(hostvars: t.Any, hosts: t.Iterable[str]) -> tuple[dict[str, dict[str, t.Any]], dict[str, str]]:
    """({host: {part: the module's result}}, {host: why it is not there}); a part that was skipped or failed is missing."""
    nodes: dict[str, dict[str, t.Any]] = {}
    unreachable: dict[str, str] = {}
    for host in map(str, hosts):
        given = hostvars[host]
        for part, variable in kept.TRACE_PARTS.items():
            result = given.get(variable, {})
            why = collected.why_none(result)
            if why:
                unreachable.setdefault(host, why)
            elif result and not result.get("skipped"):
                nodes.setdefault(host, {})[part] = dict(result)
    return nodes, unreachable


class _Report(ControllerAction):
    """See DOCUMENTATION of the module."""

    module = trace_report

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The module, with what a task does not give out of the plays' results."""
        given, variables = self._task.args, task_vars or {}
        hostvars, present = (
            run_vars(self, variables),
            set(map(str, variables.get("ansible_play_hosts_all") or ())),
        )
        options = dict(given)
        try:
            facts = {name: options.pop(name) for name in ("trace", "nodes", "unreachable") if name in options}
            if "trace" not in facts:
                plans = collected.of_hosts(hostvars, list(hostvars), kept.TRACE_PLAN)
                facts["trace"] = next((plan["trace"] for plan in plans.values() if "trace" in plan), {})
            hosts = [str(host) for host in facts["trace"].get("nodes") or () if host in hostvars]
            nodes, unreachable = gathered(hostvars, hosts)
            options["facts"] = pack({"nodes": nodes, "unreachable": unreachable, **facts})
            if variables.get("ansible_limit"):
                options.setdefault("outside", [host for host in hosts if host not in present])
            self._task.args = options
            return super().run(tmp, task_vars)
        finally:
            self._task.args = given  # a retry begins with what was written


class ActionModule(Kept, _Report):
    """See DOCUMENTATION of the module."""
