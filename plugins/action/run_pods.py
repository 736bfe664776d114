# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pods that nodes have found, collected once for all nodes that are to reach them."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._status import collected
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, run_vars


class _Pods(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The pods of the hosts of the play."""
        result, variables = super().run(tmp, task_vars), task_vars or {}
        pods = collected.pods(run_vars(self, variables), variables["ansible_play_hosts"])
        return dict(result, changed=False, pods=pods, count=len(pods))


class ActionModule(Kept, _Pods):
    """See DOCUMENTATION of the module."""
