# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The little of systemd that we use: read units again, start one, whether one stopped, retire one."""

from __future__ import annotations

import os

from ..programs import run_for

_SECONDS = 60


def running() -> bool:
    """True where systemd is the init (the documented test, the same as sd_booted)."""
    return os.path.isdir("/run/systemd/system")


def reload_units() -> bool:
    """Let systemd read changed unit files; False where it is not running, which is no error in an image build."""
    if not running():
        return False
    run_for("reload", "units of systemd", ["systemctl", "daemon-reload"], _SECONDS)
    return True


def restart(unit: str) -> bool:
    """Start a unit, anew when it runs, without waiting for it; False where systemd is not running."""
    if not running():
        return False
    run_for("restart", unit, ["systemctl", "restart", "--no-block", unit], _SECONDS)
    return True


def stopped(unit: str) -> bool:
    """True for a unit that systemd knows and that neither runs nor is about to; False where systemd is not running."""
    if not running():
        return False
    done = run_for("look at", unit, ["systemctl", "show", "--property=LoadState,ActiveState", unit], _SECONDS)
    said = set(done.stdout.split())
    return b"LoadState=loaded" in said and bool(said & {b"ActiveState=inactive", b"ActiveState=failed"})


def retire(unit: str) -> None:
    """Stop a unit and drop what systemd remembers of it, before its file goes."""
    if running():
        for verb in ("stop", "reset-failed"):
            run_for(verb, unit, ["systemctl", verb, unit], _SECONDS)
