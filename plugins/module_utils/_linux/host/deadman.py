# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command that the host runs by itself after some seconds unless it is called off: it needs nobody and no network.

Where systemd runs, a transient timer; elsewhere a process of its own session that waits. Both outlive the connection,
the login and the process that armed them; neither outlives a reboot, for which the boot unit is there.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import typing as t

from ..errors import LinuxError
from ..programs import leave_running, run_for
from .processes import stat_fields
from .systemd import running

_TIMEOUT = 30
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def arm(name: str, seconds: float, command: t.Sequence[str]) -> str:
    """Run ``command`` after ``seconds``. ``name`` names the systemd unit. Returns ``systemd`` or ``process``.

    The command gets ``--after SECONDS`` where no timer waits for it, and then waits itself (see wait_while).
    """
    words = [sys.executable or "/usr/bin/python3", *command]
    if not running():
        leave_running([*words, "--after", str(seconds)])
        return "process"
    done = run_for(
        "arm",
        name,
        [
            "systemd-run",
            "--quiet",
            "--collect",
            "--unit=" + name,
            f"--on-active={seconds}s",
            # systemd otherwise groups timers and may be a minute late
            "--timer-property=AccuracySec=100ms",
            # a userspace WireGuard that the command starts must outlive it
            "--property=KillMode=process",
            *words,
        ],
        _TIMEOUT,
    )
    if done.returncode:
        raise LinuxError("arm", name, done.stderr.decode("utf-8", "replace").strip() or "systemd-run failed")
    return "systemd"


def disarm(name: str) -> None:
    """Call off. A waiting process finds out by itself."""
    if running():
        run_for("disarm", name, ["systemctl", "stop", name + ".timer"], _TIMEOUT)


def wait_while(pending: t.Callable[[], bool], seconds: float) -> bool:
    """Sleep until ``seconds`` have passed, suspended time included; False as soon as nothing is pending any more."""
    deadline = uptime() + seconds
    while pending():
        left = deadline - uptime()
        if left <= 0:
            return True
        time.sleep(min(left, 0.5))
    return False


def uptime() -> float:
    """Seconds since boot; no setting of the clock moves it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def process_started(pid: int) -> float | None:
    """When a process started, in seconds since boot; None when it is gone."""
    found = _stat(pid)
    return None if found is None else found[1]


def kill_process(pid: int, started: float | None) -> bool:
    """End a process that holds things up; never a later one of the same number."""
    if pid < 2 or started is None or process_started(pid) != started or pid == os.getpid():
        return False
    os.kill(pid, signal.SIGKILL)
    return True


def connection_opened() -> float | None:
    """When the SSH connection was opened through which this process was started, in seconds since boot.

    None where there is none (console, another way in). Every connection has a process of sshd's own.
    """
    pid = os.getpid()
    nearest = None
    while pid > 1:
        found = _stat(pid)
        if found is None:
            return None
        parent, started, name = found
        if name.startswith("sshd"):
            # The listener itself is an sshd too: the outermost one below it is the connection.
            above = _stat(parent)
            if above is None or not above[2].startswith("sshd"):
                return nearest
            nearest = started
        pid = parent
    return nearest


def _stat(pid: int) -> tuple[int, float, str] | None:
    """(parent, start in seconds since boot, name) of a process."""
    found = stat_fields(pid)
    if found is None:
        return None
    name, fields = found
    return int(fields[1]), int(fields[19]) / _TICKS, name
