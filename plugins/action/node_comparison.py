# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What node_dataplane would change on a node, as information: never a change of the run, and no failure of it."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.action.node_dataplane import NodeDataplane
from ansible_collections.multicluster.network.plugins.module_utils._status import results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept

Data = dict[str, t.Any]
_MODULE = "multicluster.network.node_dataplane"


class _Comparison(NodeDataplane):
    """See DOCUMENTATION of the module."""

    def run(self, tmp: t.Any = None, task_vars: Data | None = None) -> Data:
        """The differences; ``differs`` instead of ``changed``."""
        self._task.check_mode, self._task.diff = True, False
        result = super().run(tmp, task_vars)
        result.pop("diff", None)
        return dict(result, changed=False, differs=bool(result.get("changed")))

    def _execute_module(self, module_name: str | None = None, **more: t.Any) -> Data:
        found: Data = super()._execute_module(module_name=module_name or _MODULE, **more)
        return found


class ActionModule(Kept, _Comparison):
    """See DOCUMENTATION of the module."""

    of_hosts = True

    def kept_as(self) -> str:
        """A name of its own: what a run changes is another result."""
        return kept.NODE_COMPARED

    def _keep(self, result: t.Mapping[str, t.Any], task_vars: t.Mapping[str, t.Any] | None) -> None:
        """Nothing of a node that was not compared: it proves nothing here, and fails where it is converged."""
        if not (result.get("failed") or result.get("unreachable")):
            super()._keep(result, task_vars)
