# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""systemd_unit with the units that carry a previous name of its playbook, which only the controller knows."""

from __future__ import annotations

import typing as t

from ansible.plugins.action.normal import ActionModule as Normal
from ansible_collections.multicluster.network.plugins.plugin_utils.known_variables import known_variables


class ActionModule(Normal):
    """See DOCUMENTATION of the module."""

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The module. A timer of a previous name would go on next to the present one, for a playbook that does not exist any more."""
        given = self._task.args
        names = [str(row["name"]) for row in given.get("units") or ()]
        previous = with_previous_names(str(given.get("playbook") or ""), names)
        try:
            self._task.args = dict(given, remove=[*(given.get("remove") or ()), *previous])
            return dict(super().run(tmp, task_vars))
        finally:
            self._task.args = given  # a retry begins with what was written


def with_previous_names(playbook: str, units: t.Iterable[str]) -> list[str]:
    """The names that these units had when their playbook had another name."""
    previous = [old for old, new in known_variables().former_words.items() if new == playbook]
    return sorted({unit.replace(playbook, old) for unit in units for old in previous if playbook in unit})
