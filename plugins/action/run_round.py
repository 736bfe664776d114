# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a round of the tenants' modules changed something that another round has to carry on."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._status import results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, context_of

_COUNT = "run.run_round"


class _Round(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Counts the rounds one after the other: after the last one it begins again."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        unused, options = self.validate_argument_spec({"rounds": {"type": "int", "required": True}})
        context = context_of(self, task_vars)
        before = context.get(_COUNT) or {}
        number = int(before["number"]) + 1 if before.get("again") else 1
        results = [context.get(name) or {} for name in kept.CAPABILITIES["tenants"].applied]
        more = number < options["rounds"] and not self._task.check_mode
        again = more and any(row.get("changed") for row in results)
        return dict(result, changed=False, number=number, again=again)


class ActionModule(Kept, _Round):
    """See DOCUMENTATION of the module."""
