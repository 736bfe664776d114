# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether every node of a batch is reached after its change, before any of them keeps it."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.plugins.connection import ConnectionBase
from ansible_collections.multicluster.network.plugins.module_utils._status import results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils.node_part import TooLong, at_most
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import RunContext, context_of

#: Of a host of the batch: {reached}.
_REACHED = "run.run_batch"


class ActionModule(ActionBase):
    """See DOCUMENTATION of the module."""

    TRANSFERS_FILES = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See DOCUMENTATION of the module."""
        result, variables = super().run(tmp, task_vars), task_vars or {}
        unused, options = self.validate_argument_spec(
            {"step": {"type": "str", "choices": ["reach", "judge"], "required": True}}
        )
        context, host = context_of(self, variables), str(variables["inventory_hostname"])
        change = (context.get(kept.NODE, host) or {}).get("transaction") or {}
        seconds = int(change.get("seconds") or 0)
        if options["step"] == "reach":
            reached = self._reach(variables, seconds // 3)
            context.keep(_REACHED, {"reached": reached}, host)
            return dict(result, changed=False, reached=reached)
        lost = _lost(context, variables)
        if not lost:
            return dict(result, changed=False, lost=[])
        text = "The change was taken back, because of the same batch these are lost: " + ", ".join(lost)
        missed = (
            f"it did not answer over a fresh connection within {seconds // 3} s, a third of node_dataplane_rollback_seconds, "
            "and its batch is kept or taken back as a whole"
        )
        own: dict[str, t.Any] = {"missed": missed, "patience": seconds + 60} if host in lost else {}
        context.keep(kept.LOST, dict(own, batch=text), host)
        return dict(result, changed=False, failed=True, msg=text, lost=lost, **own)

    def _reach(self, variables: dict[str, t.Any], seconds: int) -> bool:
        """Whether the node answers over a new connection: one that survived the change proves nothing."""
        try:
            with at_most(seconds):
                if type(self._connection).reset is not ConnectionBase.reset:
                    self._connection.reset()
                answer = self._execute_module(module_name="ansible.builtin.ping", module_args={}, task_vars=variables)
        except (AnsibleConnectionFailure, TooLong):
            return False
        return "ping" in answer


def _lost(context: RunContext, variables: t.Mapping[str, t.Any]) -> list[str]:
    """The hosts of the play that failed, and those of the batch that did not answer."""
    there = [str(host) for host in variables["ansible_play_hosts"]]
    failed = [str(host) for host in variables["ansible_play_hosts_all"] if str(host) not in there]
    asked = {str(host): context.get(_REACHED, str(host)) for host in variables["ansible_play_batch"]}
    return failed + [host for host, row in asked.items() if row and not row["reached"] and host not in failed]
