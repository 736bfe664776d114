# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of FRR, BIRD and keepalived, and systemd: run to their end, with the environment of no user."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import typing as t

from .. import programs

_PATH = os.pathsep.join(
    (os.environ.get("PATH", ""), "/usr/lib/frr", "/usr/libexec/frr", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
)
_SECONDS = 30


def find(name: str) -> str | None:
    """The path of a program, also where only the packages of daemons look; None where it is missing."""
    return shutil.which(name, path=_PATH)


def absolute(name: str) -> str:
    """The path of a program for a unit of systemd, which needs one."""
    return find(name) or "/usr/bin/" + name


@contextlib.contextmanager
def candidate(text: str) -> t.Iterator[str]:
    """The path of a configuration that a program is to check, which only this user reads; gone afterwards."""
    folder = tempfile.mkdtemp(prefix="multicluster-speaker-")
    path = os.path.join(folder, "candidate")
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as stream:
            stream.write(text)
        yield path
    finally:
        shutil.rmtree(folder)


def systemctl(*words: str) -> bool:
    """Whether a command of systemctl succeeded."""
    return run(["systemctl", *words]).returncode == 0


def run(words: t.Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The end of a program, with both outputs as text; status 127 for one that cannot be run, or takes longer than 30 s."""
    try:
        done = programs.run(words, _SECONDS, env={"LC_ALL": "C", "PATH": _PATH})
    except programs.FAILURES as error:
        return subprocess.CompletedProcess(words, 127, "", str(error))
    output, errors = (part.decode("utf-8", "replace") for part in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(words, done.returncode, output, errors)
