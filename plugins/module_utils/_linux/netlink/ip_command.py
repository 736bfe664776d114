# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading links, addresses and routes through ``ip -j``: one millisecond, where importing a library takes 180."""

from __future__ import annotations

import json
import os
import shutil
import typing as t

from ..errors import LinuxError
from ..programs import FAILURES, run

#: Administrators' programs are not on the path of every non-interactive shell.
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/bin", "/bin"))
_TIMEOUT = 60


def find_program(name: str) -> t.Optional[str]:
    """The absolute path of a program, also when it lies where only root's shells look."""
    return shutil.which(name, path=_PATH)


def ip_json(arguments: t.Sequence[str], nothing: t.Sequence[str] = ()) -> t.List[t.Dict[str, t.Any]]:
    """What ``ip -N -j -d ARGUMENTS`` prints, numbers for names. Read-only uses only.

    nothing: texts of error messages that mean an empty answer. Raises LinuxError.
    """
    program = find_program("ip")
    operation = "read with ip " + " ".join(arguments)
    if program is None:
        raise LinuxError(operation, "this host", "the program ip is missing (package iproute2 or iproute)", "iproute2")
    try:
        done = run([program, "-N", "-j", "-d", *arguments], _TIMEOUT, env={"LC_ALL": "C", "PATH": _PATH})
    except FAILURES as error:
        raise LinuxError(operation, "this host", str(error)) from None
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip()
        if any(text in message for text in nothing):
            return []
        raise LinuxError(operation, "this host", message or "exit code {0}".format(done.returncode))
    try:
        return [entry for entry in json.loads(done.stdout or b"[]") if entry]
    except ValueError:
        raise LinuxError(operation, "this host", "its answer is not JSON") from None
