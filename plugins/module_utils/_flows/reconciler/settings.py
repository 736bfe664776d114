# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a reconciler, as its inventory has them now: the options that the roles would give their modules.

Ansible alone knows what an inventory means, so a play of the roles themselves is run: its modules note their options and do nothing else.
"""

from __future__ import annotations

import json
import threading
import typing as t

from ..._io.commands import run_playbook
from ..._io.settings_source import inventory_states, play_path, private_folder, read_json
from ..._values.refused import ValueRefused

Data = dict[str, t.Any]
#: Of the play that notes the options: where to; plugins/plugin_utils/controller_task.py does it.
VARIABLE = "__multicluster_options_to"
#: What the service follows of the mesh; a fabric without it, or with a mistake in it, has the other capabilities all the same.
POD_RANGES = "pod_ranges"
#: Capabilities with a module of another name; a module notes its options under its own.
_MODULES = {"mcs": "service_imports", POD_RANGES: "mesh_plan"}
_BOOK = play_path("reconciler_settings.yml")
#: What Ansible would pass over in silence, and then find no hosts.
_STRICT = (
    "env",
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=true",
    "ANSIBLE_INVENTORY_UNPARSED_FAILED=true",
    "ANSIBLE_STDOUT_CALLBACK=default",
)


class SettingsReader:
    """Reads the settings of ``capabilities`` by ``command``, and knows when the files of ``inventory`` changed since."""

    def __init__(
        self,
        command: t.Sequence[str],
        inventory: str,
        capabilities: t.Sequence[str],
        seconds: float,
        stop: threading.Event,
    ) -> None:
        self._command, self._capabilities, self._seconds, self._stop = list(command), list(capabilities), seconds, stop
        self._inventory = inventory
        self._seen = self._before = inventory_states(inventory)

    def read(self) -> dict[str, Data]:
        """{capability: options of its module}. Raises ValueRefused when the inventory does not say them."""
        self._seen = self._before = inventory_states(self._inventory)
        if not self._capabilities:
            return {}
        with private_folder() as folder:
            more = {VARIABLE: folder, "reconciler_capabilities": self._capabilities}
            result = run_playbook([*_STRICT, *self._command, "-e", json.dumps(more), _BOOK], self._seconds, self._stop)
            if result:
                raise ValueRefused(
                    "inventory_invalid", f"the play that reads the settings ended with {result}; see its output above"
                )
            kept = read_json(folder, "capabilities")
            found = {name: read_json(folder, _MODULES.get(name, name) + ".json") for name in kept or ()}
            mesh = found.get(POD_RANGES) or {}
            if mesh.get("mode") != "semaphore" or not mesh.get("clusters"):
                found.pop(POD_RANGES, None)
            # without clusters the play has no host, or, where they are no hosts, one that is for none
            missing = [name for name, options in found.items() if options is None]
            if missing:
                raise ValueRefused(
                    "inventory_invalid", f"the settings of {', '.join(missing)} could not be read; see the output above"
                )
            if kept is None or any(not options.get("clusters") for options in found.values()):
                raise ValueRefused("inventory_invalid", "the inventory has no clusters")
        # taking addresses back is a matter of nodes first, which the playbook knows
        return {
            name: options
            for name, options in found.items()
            if name != "load_balancers" or options.get("state") == "present"
        }

    def changed(self) -> bool:
        """Whether a file changed since the settings were read, and not in this very moment: somebody may be writing still."""
        now = inventory_states(self._inventory)
        quiet, self._before = now == self._before, now
        return quiet and now != self._seen
