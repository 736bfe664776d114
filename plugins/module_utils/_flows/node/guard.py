# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is around a node's mesh and can undo it: folders that others may write into, drop-ins over our units, settings.

What is owned (folders, settings of our devices) is repaired as part of the node's plan. What has another owner is
refused by name, with who set it, so that nobody calls such a node in order: ``accepted`` names what is right as it is.
"""

from __future__ import annotations

import typing as t

from ..._dataplane.node_spec import NodeDevice, NodeSpec
from ..._linux import files
from ..._linux.host import settings
from ..._plan.plan import Plan
from . import persistence
from .parts import Part, differing

Data = dict[str, t.Any]
#: Reverse path filter: strict drops what comes in where the answer would leave elsewhere; loose lets it in, whatever holds for all devices.
STRICT, NO_FILTER = 1, 2
#: What lets a host pass on the packets of pods, by IP version.
FORWARDING = {4: ("net", "ipv4", "ip_forward"), 6: ("net", "ipv6", "conf", "all", "forwarding")}
_OTHERS_WRITE, _STICKY = 0o022, 0o1000


class Folders(Part):
    """Owned folders and those of keys, closed before anything is written into them."""

    def __init__(self, spec: NodeSpec) -> None:
        keys = sorted({device.key_file.rpartition("/")[0] for device in spec.devices} - {""})
        self._desired = [*persistence.folders(spec.fabric), *((folder, False) for folder in keys)]
        self._accepted = spec.accepted
        self._found: dict[str, tuple[int, int]] = {}
        self._modes: list[tuple[str, int]] = []

    def gather(self) -> Data:
        read = {path: files.read_folder(path) for path, _private in self._desired if path not in self._accepted}
        self._found = {path: found for path, found in read.items() if found is not None}
        return {}

    def plan(self) -> Plan:
        todo, self._modes = Plan(), []
        for path, private in self._desired:
            if path not in self._found:
                continue
            mode, owner = self._found[path]
            desired = folder_mode(mode, private)
            if not files.is_me(owner):
                todo.refuse(
                    path, "not_ours", f"it belongs to user {owner}, who can replace what is in it; chown it to root"
                )
            elif desired is None:
                todo.refuse(
                    path, "not_ours", f"everybody may write into it (mode {mode:04o}); keep keys in a folder of root's"
                )
            elif desired != mode:
                self._modes.append((path, desired))
                todo.update("folder", path, {"mode": f"{mode:04o}"}, {"mode": f"{desired:04o}"})
        return todo

    def apply(self) -> Data:
        for path, mode in self._modes:
            files.set_mode(path, mode)
        return {}

    def verify(self) -> list[str]:
        self.gather()
        return differing(self.plan())


class Settings(Part):
    """Settings of our devices, written when these exist, and what others set around the mesh, which is reported. devices: the owned ones."""

    def __init__(self, spec: NodeSpec, devices: t.Sequence[NodeDevice], reports: bool) -> None:
        self._fabric, self._accepted, self._reports = spec.fabric, spec.accepted, reports
        self._devices = [device.name for device in devices]
        self._either_way = {device.name for device in devices if device.wireguard.either_way}
        self._versions = sorted({6 if ":" in cidr else 4 for device in devices for cidr in device.routes})
        self._todo = Plan()
        self._settings: list[tuple[int, tuple[str, ...]]] = []

    def gather(self) -> Data:
        self._todo, self._settings = Plan(), []
        self._read_devices(self._todo)
        if self._reports:
            self._read_others(self._todo)
        return {}

    def plan(self) -> Plan:
        return self._todo

    def _read_devices(self, todo: Plan) -> None:
        forwards = settings.read(*FORWARDING[4])
        for name in self._devices:
            for key, good in (("rp_filter", NO_FILTER), ("forwarding", 1)):
                parts = ("net", "ipv4", "conf", name, key)
                value = settings.read(*parts)
                if value is None:  # a new device has what is in "default"
                    value = settings.read("net", "ipv4", "conf", "default", key)
                    value = None if key == "forwarding" else value  # and forwards where the host does
                if key == "rp_filter":
                    strict = settings.read("net", "ipv4", "conf", "all", key) == STRICT and name in self._either_way
                    wrong = value == STRICT or (strict and value != NO_FILTER)  # the greater of both holds
                else:
                    wrong = value == 0 and forwards == 1 and 4 in self._versions
                if not wrong or "/".join(parts) in self._accepted:
                    continue
                self._settings.append((good, parts))
                todo.update("setting", "/".join(parts), {"value": value}, {"value": good})
                todo.warnings.extend(
                    f"{'/'.join(parts)}: {text}, and we set {good}" for text in settings.set_by(*parts)
                )

    def _read_others(self, todo: Plan) -> None:
        for version in self._versions:
            if version == 6 and all(settings.without_ipv6(name) for name in self._devices):
                continue  # nothing is passed on, whatever this is; the routes' part names why
            name = settings.name_of(*FORWARDING[version])
            if settings.read(*FORWARDING[version]) == 0 and name not in self._accepted:
                who = "; ".join(settings.set_by(*FORWARDING[version])) or "no file of the host sets it"
                todo.refuse(
                    name,
                    "forwarding_off",
                    f"it is 0, so the host passes no packet of a pod into the mesh ({who}); set it to 1",
                )
        for unit in (persistence.unit_name(self._fabric), persistence.watch_name(self._fabric)):
            for path, owner in settings.drop_ins(unit):
                if path not in self._accepted:
                    text = (
                        "it changes our unit {0} and belongs to {1}; remove it, or name it in node_dataplane_accepted"
                    )
                    todo.refuse(path, "not_ours", text.format(unit, owner))

    def apply(self) -> Data:
        for value, parts in self._settings:
            settings.write(value, *parts)
        return {}

    def verify(self) -> list[str]:
        self.gather()
        return differing(self._todo)


def folder_mode(mode: int, private: bool) -> int | None:
    """The mode that a folder of root's must have. private: for root's eyes only. None: everybody shares it, so it is nobody's to change."""
    if private:
        return 0o700
    if not mode & _OTHERS_WRITE:
        return mode
    return None if mode & _STICKY else mode & ~_OTHERS_WRITE
