# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running a playbook and waiting for it: words, never a shell. What it prints goes where the caller's own output goes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import typing as t

#: How long a run may take to end once it was asked to.
GRACE_SECONDS = 30.0


def run_playbook(command: t.Sequence[str], seconds: float, stop: threading.Event) -> int:
    """Its result; 124 when it took longer than the seconds. When ``stop`` is set meanwhile, it is ended first.

    It gets a process group of its own, so that it can be ended with its workers and no one else.
    """
    try:
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function  # it is ended before its time, which run_command cannot
            list(command), stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError:
        return 127
    left = seconds
    while process.poll() is None:
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            left -= 0.5
            if left <= 0 or stop.is_set():
                _end(process)
                return 124
    return process.returncode


def _end(process: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE_SECONDS)
            return
        except (OSError, subprocess.TimeoutExpired):
            continue
    process.poll()
