# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other programs of the host, run to their end. Ansible's own way needs a module, and boot and the watcher run without Ansible."""

from __future__ import annotations

import os
import shutil
import subprocess
import typing as t

from .errors import LinuxError, os_reason

#: What a program that cannot be run, or takes too long, raises.
FAILURES = (OSError, subprocess.TimeoutExpired)
MERGED = subprocess.STDOUT
#: Administrators' programs are not on the path of every non-interactive shell.
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/bin", "/bin"))


def find_program(name: str) -> str | None:
    """The absolute path of a program, also when it is where only root's shells look."""
    return shutil.which(name, path=_PATH)


def run(words: t.Sequence[str], seconds: float, **options: t.Any) -> subprocess.CompletedProcess[bytes]:
    """How a program ended, whatever its status, with both of its outputs in bytes; it reads nothing unless ``input`` is given.

    options: as of subprocess.run. Raises one of FAILURES.
    """
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.run(words, timeout=seconds, check=False, **options)  # pylint: disable=ansible-bad-function  # there is no module here


def run_for(
    operation: str, obj: str, words: t.Sequence[str], seconds: float, **options: t.Any
) -> subprocess.CompletedProcess[bytes]:
    """The same for a program of the host that is part of ``operation`` on ``obj``. Raises LinuxError when it is missing or does not answer."""
    try:
        return run(words, seconds, **options)
    except subprocess.TimeoutExpired:
        raise LinuxError(operation, obj, f"{words[0]} did not answer within {seconds:g} s") from None
    except OSError as error:
        raise LinuxError(operation, obj, f"{words[0]}: {os_reason(error)}") from None


def start(words: t.Sequence[str]) -> subprocess.Popen[bytes]:
    """A program that runs alongside, with our outputs and without input; its end is the caller's to wait for. Raises OSError."""
    return subprocess.Popen(words, stdin=subprocess.DEVNULL)  # pylint: disable=consider-using-with,ansible-bad-function


def stop(child: subprocess.Popen[bytes], seconds: float = 10.0) -> None:
    """End such a program, and wait for its end."""
    if child.poll() is None:
        child.terminate()
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def leave_running(words: t.Sequence[str]) -> None:
    """Start a program that goes on without us: no child of a session that ends, no pipe that keeps Ansible waiting. Raises OSError."""
    subprocess.Popen(  # pylint: disable=consider-using-with,ansible-bad-function  # it shall go on without us
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        close_fds=True,
        start_new_session=True,
    )
