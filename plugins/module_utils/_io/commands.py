# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the user's that are run here: a hook, a playbook. Their arguments are words, never a shell's (T20)."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import typing as t

from .._values.refused import ValueRefused

#: How long a run may take to end once it was asked to.
GRACE_SECONDS = 30.0


def run_hook(words: t.Sequence[str], values: t.Mapping[str, str], seconds: float = 60.0) -> None:
    """With values in place of ``{name}``. Raises ValueRefused ``assign_failed`` with the end of what it wrote."""
    command = []
    for argument in words:
        for name, value in values.items():
            argument = argument.replace("{" + name + "}", value)
        command.append(argument)
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function  # no module can be asked here, and run_command knows no time limit
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueRefused("assign_failed", f"the command did not run: {error}") from None
    if done.returncode:
        text = "".join(char if char.isprintable() else " " for char in (done.stdout + done.stderr))[-300:].strip()
        raise ValueRefused("assign_failed", f"the command ended with {done.returncode}: {text}")


def run_playbook(command: t.Sequence[str], seconds: float, stop: threading.Event) -> int:
    """The playbook's result; 124 when it took longer than the seconds. When ``stop`` is set meanwhile, it is ended first.

    What it prints goes where the caller's own output goes.
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


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE_SECONDS)
            return
        except (OSError, subprocess.TimeoutExpired):
            continue
    process.poll()
