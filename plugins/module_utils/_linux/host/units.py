# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units of systemd that people enable: their state, and the commands that change it. Each waits for its end and fails with systemd's own message."""

from __future__ import annotations

import os
import time
import typing as t

from ..._values.text import is_digits
from ..errors import LinuxError
from ..programs import run_for
from . import systemd

_SECONDS = 60
#: A unit's own TimeoutStartSec and TimeoutStopSec end before.
_STARTS = 3600
_ACTIVE = ("active", "activating", "reloading", "refreshing")
_PROPERTIES = "ActiveState,NeedDaemonReload,InactiveExitTimestampMonotonic"


def is_enabled(unit: str) -> bool:
    """Also where systemd does not run, such as in the build of an image."""
    return run_for("inspect", unit, ["systemctl", "is-enabled", "--quiet", unit], _SECONDS).returncode == 0


def activity(unit: str, files: t.Iterable[str]) -> tuple[bool | None, bool | None]:
    """(whether the unit is active, whether systemd has read its file and started it after these files were written); None where systemd does not run.

    Of a unit that is not active, the second is whether systemd has read its file.
    """
    if not systemd.running():
        return None, None
    done = run_for("inspect", unit, ["systemctl", "show", f"--property={_PROPERTIES}", unit], _SECONDS)
    found = dict(line.split("=", 1) for line in done.stdout.decode("utf-8", "replace").splitlines() if "=" in line)
    active, read = found.get("ActiveState") in _ACTIVE, found.get("NeedDaemonReload") != "yes"
    if not active:
        return False, read
    # microseconds since the boot as seconds since the epoch
    monotonic = found.get("InactiveExitTimestampMonotonic", "")
    started = time.time() - time.monotonic() + int(monotonic) / 1e6 if is_digits(monotonic) else 0.0
    return True, read and not any(started < written for written in map(_written, files))


def _written(path: str) -> float:
    """When a file was written. A time that is still to come, as after a step of the clock, does not count."""
    try:
        written = os.stat(path).st_mtime
    except OSError:
        return 0.0
    return written if written <= time.time() else 0.0


def enable(unit: str) -> None:
    _must("enable", unit, _SECONDS)


def start(unit: str) -> None:
    if systemd.running():
        _must("start", unit, _STARTS)


def restart(unit: str) -> None:
    if systemd.running():
        _must("restart", unit, _STARTS)


def disable(unit: str) -> None:
    """Stop and disable a unit."""
    if systemd.running():
        _must("stop", unit, _STARTS)
    _must("disable", unit, _SECONDS)


def forget_failure(units: t.Sequence[str]) -> None:
    """Drop what systemd remembers of removed units; what it never knew is no error."""
    if units and systemd.running():
        run_for("reset", ", ".join(units), ["systemctl", "reset-failed", *units], _SECONDS)


def _must(verb: str, unit: str, seconds: float) -> None:
    done = run_for(verb, unit, ["systemctl", verb, unit], seconds)
    if done.returncode:
        text = (
            " ".join(done.stderr.decode("utf-8", "replace").split()) or f"systemctl ended with status {done.returncode}"
        )
        raise LinuxError(verb, unit, text[:500])
