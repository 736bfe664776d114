# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command of the user's: words, never a shell, with values put in place of ``{name}`` (T20)."""

from __future__ import annotations

import subprocess
import typing as t

from .._values.refused import ValueRefused


def run_hook(words: t.Sequence[str], values: t.Mapping[str, str], seconds: float = 60.0) -> None:
    """Raises ValueRefused ``assign_failed`` with the end of what it wrote."""
    command = []
    for argument in words:
        for name, value in values.items():
            argument = argument.replace("{" + name + "}", value)
        command.append(argument)
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function  # no module can be asked here, and run_command knows no time limit
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueRefused("assign_failed", "the command did not run: {0}".format(error)) from None
    if done.returncode:
        text = "".join(char if char.isprintable() else " " for char in (done.stdout + done.stderr))[-300:].strip()
        raise ValueRefused("assign_failed", "the command ended with {0}: {1}".format(done.returncode, text))
