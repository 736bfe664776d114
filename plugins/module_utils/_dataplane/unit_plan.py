# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired units of systemd against those of the host: which files differ, which units are to be enabled, started or restarted, and which go."""

from __future__ import annotations

import re
import typing as t

from .._plan.plan import Plan
from .._values.refused import ValueRefused, quoted

UNIT_ROOT = "/etc/systemd/system"
MODE = "0644"
_NAME = re.compile(r"[A-Za-z0-9:_.@-]+\.(?:service|timer)", re.ASCII)
_INSTALL = re.compile(r"^\[Install\]\s*$", re.MULTILINE | re.ASCII)


class DesiredUnits(t.NamedTuple):
    """``units``: name -> text; ``gone``: names of units that are to be removed; ``reads``: paths of files that the units read when they start."""

    units: dict[str, str]
    gone: tuple[str, ...]
    reads: tuple[str, ...]


class FoundUnit(t.NamedTuple):
    """A unit as the host has it. ``active`` and ``current`` (started after its files were written) are None where systemd does not run."""

    text: str
    mode: str
    enabled: bool
    active: bool | None
    current: bool | None


class UnitPlan(Plan):
    """A plan and its work: texts to write by path, and names of units to enable, to start, to restart and to remove."""

    def __init__(self) -> None:
        super().__init__()
        self.write: dict[str, str] = {}
        self.enable: list[str] = []
        self.start: list[str] = []
        self.restart: list[str] = []
        self.remove: list[str] = []


def path_of(name: str) -> str:
    """Where the file of a unit is."""
    return f"{UNIT_ROOT}/{name}"


def installs(text: str) -> bool:
    """Whether a unit is enabled and started by itself; one without this section is started by another unit only."""
    return _INSTALL.search(text) is not None


def parse_units(raw: t.Mapping[str, t.Any]) -> DesiredUnits:
    """raw: ``{units: [{name, content}], state, remove: [name], reads: [path]}``. Raises ValueRefused."""
    present = (raw.get("state") or "present") == "present"
    units: dict[str, str] = {}
    for row in raw.get("units") or ():
        name, content = _name(row["name"]), row.get("content")
        if present and not content:
            raise ValueRefused("bad_unit", f"the unit {name} has no content")
        if name in units:
            raise ValueRefused("bad_unit", f"the unit {name} is listed twice")
        units[name] = content or ""
    gone = [_name(name) for name in raw.get("remove") or ()]
    both = sorted(set(gone) & set(units)) if present else []
    if both:
        raise ValueRefused("bad_unit", f"the unit {both[0]} is in units and in remove")
    if not present:
        gone += units
    reads = tuple(str(path) for path in raw.get("reads") or ())
    return DesiredUnits(units if present else {}, tuple(sorted(set(gone))), reads)


def _name(name: t.Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueRefused("bad_unit", f"{quoted(name)} is no name of a service or timer of systemd")
    return name


def plan_units(desired: DesiredUnits, found: t.Mapping[str, FoundUnit | None]) -> UnitPlan:
    """found: None for a unit that has no file."""
    plan = UnitPlan()
    for name, text in desired.units.items():
        _plan_present(plan, name, text, found.get(name))
    for name in desired.gone:
        unit = found.get(name)
        if unit is None:
            plan.unchanged += 1
            continue
        plan.remove.append(name)
        plan.delete("file", path_of(name), _file(unit.text, unit.mode))
        if installs(unit.text):
            plan.delete("unit", name, _state(unit, installs(unit.text)))
    return plan


def _plan_present(plan: UnitPlan, name: str, text: str, unit: FoundUnit | None) -> None:
    path, after = path_of(name), _file(text, MODE)
    written = unit is None or _file(unit.text, unit.mode) != after
    if unit is None:
        plan.create("file", path, after)
    elif written:
        plan.update("file", path, _file(unit.text, unit.mode), after)
    else:
        plan.unchanged += 1
    if written:
        plan.write[path] = text
    before = {} if unit is None else _state(unit, installs(text))
    if "current" in before and written:
        before["current"] = False
    goal = dict.fromkeys(before, True)
    if unit is None:
        if installs(text):
            plan.create("unit", name, {"enabled": True, "active": True})
    elif before != goal:
        plan.update("unit", name, before, goal)
    if not installs(text):
        return
    if not before.get("enabled"):
        plan.enable.append(name)
    if unit is not None and before.get("active") and not before["current"]:
        plan.restart.append(name)
    elif not before.get("active"):
        plan.start.append(name)


def _file(text: str, mode: str) -> dict[str, t.Any]:
    return {"mode": mode, "lines": text.splitlines()}


def _state(unit: FoundUnit, by_itself: bool) -> dict[str, t.Any]:
    """What can differ of a unit that exists: one that another unit starts is only read again."""
    shown: dict[str, t.Any] = {"enabled": unit.enabled, "active": unit.active} if by_itself else {}
    shown["current"] = unit.current
    return {name: value for name, value in shown.items() if value is not None}
