# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run has carried out, from what it has kept."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, run_vars


class _Changes(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The notes, before a comparison is kept under the same names."""
        result, variables = super().run(tmp, task_vars), task_vars or {}
        unused, options = self.validate_argument_spec(
            {"capabilities": {"type": "list", "elements": "str", "default": []}}
        )
        hostvars = run_vars(self, variables)
        applied = collected.applied(hostvars[variables["inventory_hostname"]])
        again = sorted(name for name, row in applied.items() if row["again"])
        unread = [
            name
            for name in options["capabilities"]
            if name in collected.PLANS and (name not in applied or name in again)
        ]
        # what was noted before counts: a comparison has replaced its result since
        applied.update((hostvars.context.get(kept.CHANGES) or {}).get("applied") or {})
        return dict(
            result, changed=False, capabilities=options["capabilities"], applied=applied, again=again, unread=unread
        )


class ActionModule(Kept, _Changes):
    """See DOCUMENTATION of the module."""
