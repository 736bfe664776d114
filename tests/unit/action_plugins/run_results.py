# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of playbooks keep results in the run context with it, in place of a module, and write results to files."""

from __future__ import annotations

import json
import pathlib

from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import context_of


class ActionModule(ActionBase):
    """keep: {name: result}; of_host: whether they are those of the host; show: a name, written as JSON to path."""

    _VALID_ARGS = frozenset(("keep", "of_host", "show", "path"))
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result, given = super().run(tmp, task_vars), self._task.args
        context, host = context_of(self, task_vars), task_vars["inventory_hostname"]
        for name, value in (given.get("keep") or {}).items():
            context.keep(name, value, host if given.get("of_host") else "")
        if "show" in given:
            pathlib.Path(given["path"]).write_text(json.dumps(context.get(given["show"], host)), "utf-8")
        return dict(result, changed=False)
