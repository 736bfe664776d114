# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of the lab: started with a mark in their environment, ended by process id only, and never by name.

A process is remembered as ``PID STARTTIME``: the start time (field 22 of /proc/PID/stat) distinguishes a process from a later
one that got the same number.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import time
import typing as t

from .errors import LabError

MARK = "MCN_LAB_OWNER"


def start_time(pid: int) -> int | None:
    """The start time of a living process in clock ticks since boot; None for a dead or absent one."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def read_pid(file: pathlib.Path) -> int | None:
    """The process id in a pid file, if that very process is still alive."""
    try:
        pid, started = (int(number) for number in file.read_text().split())
    except (OSError, ValueError):
        return None
    return pid if start_time(pid) == started else None


def write_pid(file: pathlib.Path, pid: int) -> None:
    temporary = file.with_suffix(".new")
    temporary.write_text(f"{pid} {start_time(pid)}\n")
    temporary.replace(file)


def spawn(
    owner: pathlib.Path,
    pid_file: pathlib.Path,
    log: pathlib.Path,
    command: t.Sequence[object],
    environment: dict[str, str] | None = None,
) -> int:
    """Start a process of its own session which outlives us; it carries the lab's mark."""
    for folder in (pid_file.parent, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(argument) for argument in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            start_new_session=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **(environment or {}), MARK: str(owner)},
        )
    write_pid(pid_file, process.pid)
    return process.pid


def marked(owner: pathlib.Path) -> tuple[list[int], list[int]]:
    """(inits of nodes, all other processes) that carry this lab's mark, as process ids."""
    desired = f"{MARK}={owner}".encode()
    inits: list[int] = []
    others: list[int] = []
    for entry in [found.name for found in pathlib.Path("/proc").glob("[0-9]*")]:
        if int(entry) != os.getpid():
            try:
                environment = pathlib.Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if desired in environment:
                (inits if b"container=lab" in environment else others).append(int(entry))
    return inits, others


def end(pids: list[int], patience: float = 5.0) -> None:
    """End processes: politely for ``patience`` seconds (0: not at all), then for good; returns when they are gone."""
    known = {pid: start_time(pid) for pid in pids}
    # the init of a node is gone when the kernel has taken down all of its namespaces, which a busy machine does when it comes to it
    for number, wait in ((signal.SIGTERM, patience), (signal.SIGKILL, 60.0)):
        if not wait:
            continue
        alive = [pid for pid, started in known.items() if started is not None and start_time(pid) == started]
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + wait
        while alive and time.monotonic() < deadline:
            time.sleep(0.02)
            alive = [pid for pid in alive if start_time(pid) == known[pid]]
        if not alive:
            return
    raise LabError(f"processes {alive} do not end")


def run(command: t.Sequence[object], check: bool = True, **options: t.Any) -> subprocess.CompletedProcess[str]:
    """Run a command with captured text output; a failure becomes a LabError which shows what it said."""
    options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
    if options["stdin"] is None:
        del options["stdin"]
    result = subprocess.run(
        [str(argument) for argument in command], text=True, capture_output=True, check=False, **options
    )
    if check and result.returncode:
        said = (result.stderr or result.stdout).strip()
        raise LabError(f"{' '.join(str(argument) for argument in command)}: {said or result.returncode}")
    return result
