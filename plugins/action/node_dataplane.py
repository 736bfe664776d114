# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""node_dataplane, which confirms a change over a connection that was opened after it, and says why a node gave no answer.

A connection that survived the change proves nothing. The task meta: reset_connection would do it for one host at a time, with a banner
and a warning for each. And where the module did not even start, Ansible tells of JSON that it missed.
"""

from __future__ import annotations

import typing as t

from ansible.plugins.action.normal import ActionModule as Normal
from ansible.plugins.connection import ConnectionBase
from ansible.plugins.loader import filter_loader

#: What a shell answers for a program that is not there or cannot be run, and for one that SIGKILL ended.
_NOT_STARTED, _KILLED = (126, 127), (137, -9)

# With the first filter of a collection Ansible loads all of them and what they import, from source each time. It loads this plugin before it
# forks a worker for each host, so that workers, whose tasks ask for filters, find them loaded: a tenth of a second less for each host and task.
filter_loader.get("multicluster.network.node_devices")


class ActionModule(Normal):
    """See DOCUMENTATION of the module."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The module, over a new connection where it confirms."""
        if self._task.args.get("state") == "confirmed" and type(self._connection).reset is not ConnectionBase.reset:
            self._connection.reset()
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        if result.get("failed") and "module_stderr" in result:
            host = (task_vars or {}).get("inventory_hostname", "node")
            result["msg"] = f"{host}: {without_answer(result.get('rc'), str(result['module_stderr']))}"
        return result


def without_answer(status: t.Any, errors: str) -> str:
    """What is to be mended on a node where the module ended without an answer. status: of its shell; errors: what that printed."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    said = lines[-1][:300] if lines else "it said nothing"
    if status in _NOT_STARTED:
        return f"Python does not start there ({said}); install Python 3.9 or newer, or set ansible_python_interpreter to where it is"
    if status in _KILLED or said == "MemoryError" or said.startswith("MemoryError:"):
        return f"the module was ended before its answer ({said}), as happens when memory runs out; look at free memory and limits there"
    return f"the module ended without an answer, exit status {status}: {said}"
