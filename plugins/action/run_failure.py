# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A failure that does not stop the run, recorded for its end."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._status import results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import context_of


class ActionModule(ActionBase):
    """See DOCUMENTATION of the module."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Nothing but what every action returns."""
        result, variables = super().run(tmp, task_vars), task_vars or {}
        unused, options = self.validate_argument_spec(
            {
                "capability": {"type": "str", "required": True},
                "message": {"type": "str", "default": ""},
                "of_node": {"type": "bool", "default": False},
            }
        )
        name = kept.BROKEN_HERE if options["of_node"] else kept.BROKEN
        text = options["message"] or "failed, see above"
        context_of(self, variables).add(name, {options["capability"]: text}, str(variables["inventory_hostname"]))
        return dict(result, changed=False)
