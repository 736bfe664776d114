# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units of systemd on the host from which playbooks are run: gather, plan, apply, verify."""

from __future__ import annotations

import typing as t

from ..._dataplane.unit_plan import DesiredUnits, FoundUnit, UnitPlan, installs, parse_units, path_of, plan_units
from ..._linux import files
from ..._linux.errors import LinuxError, failing
from ..._linux.host import systemd, units
from ..._linux.stats import Stats
from .single import converge

Data = dict[str, t.Any]


def gather(desired: DesiredUnits) -> Data:
    """``{"units": name -> FoundUnit or None, "stats"}``. Raises LinuxError."""
    stats = Stats()
    names = [*desired.units, *desired.gone]
    found = {name: _found(name, name in desired.units, desired.reads) for name in names}
    return {"units": found, "stats": stats.as_dict(reads=len(names))}


def _found(name: str, stays: bool, reads: t.Sequence[str]) -> FoundUnit | None:
    path = path_of(name)
    state = files.read_state(path)
    if state is None:
        return None
    if state.kind != "file":
        if stays:
            raise LinuxError(
                "write", path, f"there is no plain file, as after systemctl mask; run systemctl unmask {name}"
            )
        return None  # a mask is an administrator's
    text = state.content.decode("utf-8", "replace")
    by_itself = installs(text)
    active, current = units.activity(name, [path, *reads] if by_itself else [])
    mode = f"{state.mode:04o}" if files.is_roots_alone(path) else "of another user"
    return FoundUnit(text, mode, by_itself and units.is_enabled(name), active, current)


def apply(plan: UnitPlan) -> Data:
    """What leaves is stopped before its file goes; what stays is started when all files are there. Returns stats. Raises LinuxError."""
    stats = Stats()
    for name in plan.remove:
        path = path_of(name)
        text = files.read_state(path)
        if text is not None and installs(text.content.decode("utf-8", "replace")):
            units.disable(name)
        with failing("remove", path):
            files.remove(path)
    for path, content in plan.write.items():
        with failing("write", path):
            files.write_state(path, files.FileState("file", 0o644, content.encode()))
    if plan.changed:
        systemd.reload_units()
    units.forget_failure(plan.remove)
    for do, names in ((units.enable, plan.enable), (units.restart, plan.restart), (units.start, plan.start)):
        for name in names:
            do(name)
    return stats.as_dict(file_writes=len(plan.write) + len(plan.remove))


def run(request: t.Mapping[str, t.Any], check: bool) -> Data:
    """The whole way, for the module: its result as plain JSON, ``diff`` and ``warnings`` included. Raises ValueRefused, LinuxError."""
    desired = parse_units(request)
    result, _after, _found_units = converge(
        lambda: gather(desired),
        lambda actual: plan_units(desired, actual["units"]),
        lambda _actual, planned: apply(planned),
        check,
    )
    return dict(result)
