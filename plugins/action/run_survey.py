# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the answers of AWX's survey say of roles' variables, by the table of the collection."""

from __future__ import annotations

import typing as t

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.plugin_utils import survey_answers
from ansible_collections.multicluster.network.plugins.plugin_utils.known_variables import ROOT


class ActionModule(ActionBase):
    """See DOCUMENTATION of the module."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The values; what is left to the inventory is not among them."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        self.validate_argument_spec({})
        variables = task_vars or {}
        mapping = yaml.safe_load((ROOT / "playbooks" / "files" / "awx" / "mapping.yml").read_text("utf-8"))
        answers = {name: self._templar.template(variables[name]) for name in mapping if name in variables}
        try:
            return dict(result, changed=False, answers=survey_answers.values(mapping, answers))
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None
