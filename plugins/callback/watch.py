# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of the playbook ``status`` on a terminal, kept up to date until Ctrl-C."""

from __future__ import annotations

DOCUMENTATION = r"""
name: watch
type: stdout
short_description: Keep the table of C(status) on a terminal up to date
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Runs the playbook C(multicluster.network.status) again and again, and draws its table in place, until Ctrl-C or C(q). The terminal is then as it was
    before, with the last table on it.
  - Each run is an C(ansible-playbook) of its own with the same arguments. It writes no page, and its JSON goes to a temporary folder, so that
    files of O(ignore:status_folder) and their history stay as they are. The earlier runs that the table shows are those of this session.
  - Where a run leaves no document, the end of its output is shown above the latest table.
  - Where the output is no terminal, each table is written below the one before.
  - Refuses other playbooks, C(--check), and options that ask for a password, which each run would ask for.
options:
  interval:
    description: Seconds between the end of a run and the start of the next, at least V(1).
    type: float
    default: 5
    env:
      - name: MULTICLUSTER_WATCH_INTERVAL
    ini:
      - section: callback_multicluster_watch
        key: interval
requirements:
  - set as the callback of standard output, by C(ANSIBLE_STDOUT_CALLBACK=multicluster.network.watch)
"""

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import typing as t

from ansible import context
from ansible.plugins.callback import CallbackBase
from ansible_collections.multicluster.network.plugins.plugin_utils import watch_screen

PLAYBOOK = "status"
#: Another screen without a cursor, and back.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
_LEAVE = "\x1b[?25h\x1b[?1049l"
#: How often keys, the size of the terminal and the end of a run are looked for, in seconds.
_TICK = 0.2
#: Seconds that a run has to end after SIGTERM.
_GRACE = 10.0
#: What each run gets besides the arguments of this one.
_VARIABLES: dict[str, t.Any] = {
    "status_page": "",
    "status_metrics": "",
    "status_document": "status.json",
    "status_fail_on_findings": False,
}


class CallbackModule(CallbackBase):
    """See DOCUMENTATION."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "multicluster.network.watch"

    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        """Watch, and end the program: this process runs no play."""
        reason = refused(context.CLIARGS)
        if reason:
            sys.stderr.write(f"watch: {reason}\n")
            sys.stderr.flush()
            raise SystemExit(2)
        Watch(max(1.0, float(self.get_option("interval")))).run()
        raise SystemExit(0)


def refused(arguments: t.Mapping[str, t.Any]) -> str:
    """Why a command is not repeated; nothing for one that is."""
    names = [str(name) for name in arguments.get("args") or ()]
    if len(names) != 1 or pathlib.PurePath(names[0]).name not in (
        f"multicluster.network.{PLAYBOOK}",
        f"{PLAYBOOK}.yml",
        f"{PLAYBOOK}.yaml",
    ):
        return f"repeats multicluster.network.{PLAYBOOK} alone, and not {' '.join(names)}"
    if arguments.get("check"):
        return f"{PLAYBOOK} writes no document with --check, and changes nothing without; leave --check out"
    prompts = any(str(one).endswith("@prompt") for one in arguments.get("vault_ids") or ())
    if prompts or any(arguments.get(name) for name in ("ask_pass", "become_ask_pass", "ask_vault_pass")):
        return "each run would ask for the password; use --connection-password-file, --become-password-file or --vault-password-file"
    return ""


class Watch:
    """One session: runs of the playbook, and a terminal that shows the latest."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.terminal = sys.stdout.isatty()
        self.folder = ""
        self.picture = watch_screen.Picture("", None)
        self.drawn: tuple[t.Any, ...] = ()

    def run(self) -> None:
        """Until Ctrl-C, ``q`` or SIGTERM."""
        self.folder = tempfile.mkdtemp(prefix="multicluster-watch-")
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            with self._screen(), contextlib.suppress(KeyboardInterrupt):
                while True:
                    self._look()
                    self._wait(time.monotonic() + self.interval)
        finally:
            signal.signal(signal.SIGTERM, before)
            shutil.rmtree(self.folder, ignore_errors=True)
        if self.terminal and self.picture.document is not None:
            self.picture = self.picture._replace(note=self.picture.document["generated"])
            self._write("\n".join(self._lines(0)) + "\n")

    def _look(self) -> None:
        """One run of the playbook."""
        begun, document = time.monotonic(), pathlib.Path(self.folder) / _VARIABLES["status_document"]
        stamp = _stamp(document)
        self._show(self.picture._replace(note=f"{self._age()}reading ..."))
        variables = json.dumps(dict(_VARIABLES, status_folder=self.folder))
        with (pathlib.Path(self.folder) / "output").open("w+b") as output:
            process = subprocess.Popen(
                [sys.executable, *sys.argv, "-e", variables],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(os.environ, ANSIBLE_STDOUT_CALLBACK="multicluster.network.digest", ANSIBLE_NOCOLOR="1"),
            )
            try:
                while process.poll() is None:
                    self._tick()
            finally:
                _end(process)
            output.seek(0)
            said = output.read().decode("utf-8", "replace")
        if _stamp(document) == stamp:
            error = f"this run left no table (exit code {process.returncode}):\n{said}"
        else:
            error = ""
            self.picture = self.picture._replace(document=json.loads(document.read_text("utf-8")))
        took = time.monotonic() - begun
        text = f"{self._age()}took {took:.0f} s, again in {self.interval:g} s; Ctrl-C ends"
        self._show(self.picture._replace(note=text, error=error))

    def _age(self) -> str:
        return f"{self.picture.document['generated'][11:19]} UTC, " if self.picture.document else ""

    def _wait(self, until: float) -> None:
        while time.monotonic() < until:
            self._tick()

    def _tick(self) -> None:
        """A moment in which keys are read, and the picture follows the size of the terminal."""
        if not (self.terminal and sys.stdin.isatty()):
            time.sleep(_TICK)
        elif select.select([sys.stdin], [], [], _TICK)[0] and os.read(sys.stdin.fileno(), 64)[:1] in (b"q", b"Q", b""):
            raise KeyboardInterrupt
        if self.terminal:
            self._show(self.picture)

    def _show(self, picture: watch_screen.Picture) -> None:
        """Draw, where something is not as it was drawn last."""
        self.picture = picture
        if not self.terminal:
            if picture.error or "again" in picture.note:
                self._write("\n".join(self._lines(0)) + "\n\n")
            return
        now = (picture, shutil.get_terminal_size())
        if now != self.drawn:
            self.drawn = now
            self._write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in self._lines(now[1].lines - 1)) + "\x1b[J")

    def _lines(self, rows: int) -> list[str]:
        columns = shutil.get_terminal_size().columns - 1 if self.terminal else 0
        return watch_screen.lines(self.picture, columns, rows, self.terminal and not os.environ.get("NO_COLOR"))

    @contextlib.contextmanager
    def _screen(self) -> t.Iterator[None]:
        """The other screen of the terminal, on which keys are not shown; afterwards it is as it was."""
        if not self.terminal:
            yield
            return
        modes = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
        try:
            if modes is not None:
                raw = termios.tcgetattr(sys.stdin)
                raw[3] &= ~(termios.ECHO | termios.ICANON)
                raw[6][termios.VSUSP] = b"\0"
                termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, raw)
            self._write(_ENTER)
            yield
        finally:
            self._write(_LEAVE)
            if modes is not None:
                termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, modes)

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text.encode(sys.stdout.encoding or "utf-8", "replace").decode(sys.stdout.encoding or "utf-8"))
        sys.stdout.flush()


def _interrupt(number: int, frame: t.Any) -> t.NoReturn:
    raise KeyboardInterrupt


def _stamp(path: pathlib.Path) -> int:
    """When a file was written; 0 for none."""
    return path.stat().st_mtime_ns if path.exists() else 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let a run end: Ctrl-C has reached it as well, since it is in the same group of processes; ``q`` has not."""
    for seconds, ask in ((1.0, process.terminate), (_GRACE, process.kill)):
        if process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
                return
            ask()
    process.wait()
