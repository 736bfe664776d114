# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""node_dataplane, which confirms a change over a connection that was opened after it.

A connection that survived the change proves nothing. The task meta: reset_connection would do it for one host at a time, with a banner
and a warning for each.
"""

from __future__ import annotations

import typing as t

from ansible.plugins.action.normal import ActionModule as Normal
from ansible.plugins.connection import ConnectionBase


class ActionModule(Normal):
    """See DOCUMENTATION of the module."""

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        """The module, over a new connection where it confirms."""
        if self._task.args.get("state") == "confirmed" and type(self._connection).reset is not ConnectionBase.reset:
            self._connection.reset()
        return super().run(tmp, task_vars)
