# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real terminal for programs under test: a pty of a given width, with colours, and what a person sees on it (decision 73)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import typing as t

#: Colours alone; any other escape sequence would move the cursor or change the terminal.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Screen(t.NamedTuple):
    """What a program wrote to its terminal. status: its exit code; raw: with colours; text: as it is read."""

    status: int
    raw: str

    @property
    def text(self) -> str:
        return COLOUR.sub("", self.raw).replace("\r\n", "\n")

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def run(command: t.Sequence[str], columns: int = 80, seconds: float = 300.0, **kwargs: t.Any) -> Screen:
    """Run a program on a pty of so many columns until it ends. kwargs: of subprocess.Popen, such as ``env`` and ``cwd``."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = dict(kwargs.pop("env", os.environ), TERM="xterm-256color", COLUMNS=str(columns))
    for name in ("ANSIBLE_NOCOLOR", "NO_COLOR", "ANSIBLE_FORCE_COLOR"):
        environment.pop(name, None)
    process = subprocess.Popen(
        list(command),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
        start_new_session=True,
        **kwargs,
    )
    os.close(follower)
    found = bytearray()
    with contextlib.closing(os.fdopen(leader, "rb", buffering=0)) as terminal:
        while True:
            try:
                part = terminal.read(65536)
            except OSError as error:
                if error.errno != errno.EIO:  # all ends of the other side are closed
                    raise
                break
            if not part:
                break
            found += part
    return Screen(process.wait(timeout=seconds), found.decode("utf-8", "replace"))


def session(
    command: t.Sequence[str],
    columns: int,
    steps: t.Sequence[tuple[str, bytes]],
    seconds: float = 300.0,
    **kwargs: t.Any,
) -> tuple[Screen, bool]:
    """Run a program on a pty that controls it, as a shell does, so that Ctrl-C reaches it. Returns what it wrote, and whether the terminal's modes are
    as they were.

    steps: (pattern, keys): when what it wrote since the step before matches, the keys are typed; none of them within ``seconds`` is an error.
    """
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    modes = termios.tcgetattr(follower)
    environment = dict(kwargs.pop("env", os.environ), TERM="xterm-256color")
    for name in ("ANSIBLE_NOCOLOR", "NO_COLOR", "ANSIBLE_FORCE_COLOR", "COLUMNS", "LINES"):
        environment.pop(name, None)
    # a test that runs in the background of a script would ignore Ctrl-C, and with it all that it starts
    process = subprocess.Popen(
        ["setsid", "--ctty", "env", "--default-signal=INT", *command],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
        **kwargs,
    )
    found, place, left, end = bytearray(), 0, list(steps), time.monotonic() + seconds
    try:
        while process.poll() is None or select.select([leader], [], [], 0)[0]:
            if select.select([leader], [], [], 0.1)[0]:
                found += os.read(leader, 65536)
            match = re.search(left[0][0].encode(), bytes(found[place:])) if left else None
            if match:
                place += match.end()
                os.write(leader, left.pop(0)[1])
            if time.monotonic() > end:
                raise AssertionError(f"{left[:1]} did not come: {found.decode('utf-8', 'replace')[-4000:]}")
        same = termios.tcgetattr(follower) == modes
    finally:
        if process.poll() is None:
            process.kill()
        status = process.wait()
        os.close(follower)
        os.close(leader)
    return Screen(status, found.decode("utf-8", "replace")), same
