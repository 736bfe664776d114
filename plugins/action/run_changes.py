# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run has carried out, from what its roles registered on a host."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._status import collected


class ActionModule(ActionBase):
    """See DOCUMENTATION of the module."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The notes, as long as they stand: a comparison registers under the same names."""
        result, variables = super().run(tmp, task_vars), task_vars or {}
        unused, options = self.validate_argument_spec(
            {"capabilities": {"type": "list", "elements": "str", "default": []}}
        )
        applied = collected.applied(variables["hostvars"][variables["inventory_hostname"]])
        again = sorted(name for name, row in applied.items() if row["again"])
        unread = [name for name in options["capabilities"] if name not in applied or name in again]
        return dict(
            result, changed=False, capabilities=options["capabilities"], applied=applied, again=again, unread=unread
        )
