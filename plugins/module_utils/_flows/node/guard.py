# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands around a node's mesh and can undo it: folders that others may write into, drop-ins over our units, settings.

What is ours (folders of ours, settings of our devices) is repaired as part of the node's plan. What is somebody else's is
refused by name, with who set it, so that nobody calls such a node in order: ``accepted`` names what is right as it is.
"""

from __future__ import annotations

import typing as t

from ..._dataplane.guard import FORWARDING, NO_FILTER, STRICT, folder_mode
from ..._linux import files
from ..._linux.host import settings
from ..._plan.plan import Plan
from . import persistence


class Guard:
    """Read at once. ``apply`` twice: the folders before anything is written into them, the devices when they stand."""

    def __init__(self, fabric: str, wanted: t.Sequence[t.Mapping[str, t.Any]], accepted: t.Container[str], reports: bool) -> None:
        self._devices = [device["name"] for device in wanted]
        self._accepted, self._reports, self._fabric = accepted, reports, fabric
        self._modes: t.List[t.Tuple[str, int]] = []
        self._settings: t.List[t.Tuple[int, t.Tuple[str, ...]]] = []
        self._versions = sorted({6 if ":" in cidr else 4 for device in wanted for cidr in device["routes"]})
        self._keys = sorted({device["private_key_file"].rpartition("/")[0] for device in wanted})

    def plan(self) -> Plan:
        """What differs."""
        todo = Plan()
        self._plan_folders(todo)
        self._plan_devices(todo)
        if self._reports:
            self._report(todo)
        return todo

    def _plan_folders(self, todo: Plan) -> None:
        self._modes = []
        for path, private in [*persistence.folders(self._fabric), *((folder, False) for folder in self._keys if folder)]:
            found = files.read_folder(path)
            if found is None or path in self._accepted:
                continue
            mode, owner = found
            wanted = folder_mode(mode, private)
            if not files.is_me(owner):
                todo.refuse(path, "not_ours", "it belongs to user {0}, who can replace what lies in it; chown it to root".format(owner))
            elif wanted is None:
                todo.refuse(path, "not_ours", "everybody may write into it (mode {0:04o}); keep keys in a folder of root's".format(mode))
            elif wanted != mode:
                self._modes.append((path, wanted))
                todo.update("folder", path, {"mode": "{0:04o}".format(mode)}, {"mode": "{0:04o}".format(wanted)})

    def _plan_devices(self, todo: Plan) -> None:
        self._settings = []
        forwards = settings.read(*FORWARDING[4])
        for name in self._devices:
            for key, good in (("rp_filter", NO_FILTER), ("forwarding", 1)):
                parts = ("net", "ipv4", "conf", name, key)
                value = settings.read(*parts)
                if value is None:  # a new device has what stands in "default"
                    value = settings.read("net", "ipv4", "conf", "default", key)
                    value = None if key == "forwarding" else value  # and forwards where the host does
                wrong = value == STRICT if key == "rp_filter" else value == 0 and forwards == 1 and 4 in self._versions
                if not wrong or "/".join(parts) in self._accepted:
                    continue
                self._settings.append((good, parts))
                todo.update("setting", "/".join(parts), {"value": value}, {"value": good})
                todo.warnings.extend("{0}: {1}, and we set {2}".format("/".join(parts), text, good) for text in settings.set_by(*parts))

    def _report(self, todo: Plan) -> None:
        for version in self._versions:
            name = settings.name_of(*FORWARDING[version])
            if settings.read(*FORWARDING[version]) == 0 and name not in self._accepted:
                who = "; ".join(settings.set_by(*FORWARDING[version])) or "no file of the host sets it"
                todo.refuse(name, "forwarding_off", "it is 0, so the host passes no packet of a pod into the mesh ({0}); set it to 1".format(who))
        for unit in (persistence.unit_name(self._fabric), persistence.watch_name(self._fabric)):
            for path, owner in settings.drop_ins(unit):
                if path not in self._accepted:
                    text = "it changes our unit {0} and belongs to {1}; remove it, or name it in node_dataplane_accepted"
                    todo.refuse(path, "not_ours", text.format(unit, owner))

    def apply_folders(self) -> None:
        """Close what was open. Raises LinuxError."""
        for path, mode in self._modes:
            files.set_folder_mode(path, mode)

    def apply_devices(self) -> None:
        """Settings of our devices."""
        for value, parts in self._settings:
            settings.write(value, *parts)

    def left(self) -> t.List[str]:
        """Read back."""
        return ["{0} {1} {2}".format(change.action, change.kind, change.id) for change in self.plan().changes]
