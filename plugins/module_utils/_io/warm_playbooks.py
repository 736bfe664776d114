# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the user's ansible-playbook that need not start it: a process alongside this one has Ansible in memory and forks for each (playbook_server.py).

Connections, become, vaults, inventories and settings are the same as on the command line, since a run is that very program with the same words.
Whatever is wrong with that process, or about it, a run starts the program anew, as run_playbook does, so that it only takes longer.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
import typing as t

from .._values.text import is_digits
from . import playbook_server
from .commands import GRACE_SECONDS, run_playbook

_SERVER = os.path.abspath(playbook_server.__file__)
#: The collection itself; which of its folders a run has in memory.
_COLLECTION = str(pathlib.Path(_SERVER).parents[3])
_FOLDERS = ("plugins", "playbooks")
#: Seconds until a process that ended by itself is started again: at first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
#: So often one looks whether a run has to be ended, in seconds; so long the process may take for its own end.
_TICK, _END = 0.5, 5.0
#: So long it may take until it has everything in memory, in seconds.
_BEGINNING = 120.0
_LONGEST_SCRIPT = 4096

Stamp = tuple[tuple[str, int, int], ...]


class Unsuitable(ValueError):
    """Why a program cannot be kept in memory."""


def interpreter_of(program: str, path: str | None = None) -> tuple[str, list[str]]:
    """The script that a command means, and the words that start its interpreter. Raises Unsuitable.

    Only what installers of Python packages write is one: a script that sets more up before it calls Ansible would do so too late here.
    """
    found = shutil.which(program, path=path)
    if found is None:
        raise Unsuitable(f"there is no program {program}")
    try:
        with pathlib.Path(found).open("rb") as source:
            text = source.read(_LONGEST_SCRIPT + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        raise Unsuitable(f"{found} is no script of Python's") from None
    lines = text.split("\n", 2)
    if len(text) > _LONGEST_SCRIPT or len(lines) < 3 or not text.startswith("#!"):
        raise Unsuitable(f"{found} is no script of Python's")
    words = lines[0][2:].split(None, 1)
    if words[:1] == ["/bin/sh"] and lines[1].startswith("'''exec' "):
        words = [
            lines[1][len("'''exec' ") :].split(' "$0"')[0].strip("\"' ")
        ]  # a path that is too long for the first line
    elif len(words) == 2 and pathlib.PurePath(words[0]).name == "env":
        words = [shutil.which(words[1], path=path) or words[1]]
    if not words or not pathlib.PurePath(words[0]).name.startswith("python"):
        raise Unsuitable(f"{found} is no script of Python's")
    if not _only_calls(text):
        raise Unsuitable(f"{found} does more than call Ansible")
    return found, [argument.strip() for argument in words]


def _only_calls(text: str) -> bool:
    try:
        rows = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    names = {row.module for row in rows if isinstance(row, ast.ImportFrom)}
    imports = {name.name for row in rows if isinstance(row, ast.Import) for name in row.names}
    loose = [row for row in rows if not isinstance(row, (ast.Import, ast.ImportFrom))]
    texts = [row for row in loose if isinstance(row, ast.Expr) and isinstance(row.value, ast.Constant)]
    return (
        names - {"__future__"} == {playbook_server.NEEDED}
        and imports <= {"re", "sys"}
        and all(isinstance(row, ast.If) for row in loose if row not in texts)
        and len(loose) - len(texts) == 1
    )


def stamp(paths: t.Iterable[str]) -> Stamp:
    """What these files look like from outside, and all below the folders of the collection; one that is not there looks like nothing."""
    found = []
    for path in paths:
        found.append(_seen(path))
    for folder in _FOLDERS:
        for root, folders, names in os.walk(pathlib.Path(_COLLECTION, folder)):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            found += [_seen(f"{root}/{name}") for name in sorted(names)]
    return tuple(found)


def _seen(path: str) -> tuple[str, int, int]:
    try:
        state = os.stat(path)  # noqa: PTH116  # of hundreds of files before each run
    except OSError:
        return path, 0, -1
    return path, state.st_mtime_ns, state.st_size


class _Process:
    """One life of the process. It is ready when it has said so."""

    def __init__(self, program: str, interpreter: t.Sequence[str], environment: t.Mapping[str, str]) -> None:
        # where Ansible may find its settings
        named = environment.get("ANSIBLE_CONFIG") or ""
        named = f"{named}/ansible.cfg" if named and pathlib.Path(named).is_dir() else named
        self._settings = [
            *([named] if named else ()),
            os.path.abspath("ansible.cfg"),
            os.path.expanduser("~/.ansible.cfg"),
            "/etc/ansible/ansible.cfg",
        ]
        self._channel, theirs = socket.socketpair()
        self._files: list[str] = []
        self._lines: list[dict[str, t.Any]] = []
        self._rest, self._number = b"", 0
        self._before, self._begun_at = stamp(self._settings), time.monotonic()
        try:
            with theirs:
                self._process = subprocess.Popen(  # pylint: disable=ansible-bad-function  # it stays, which run_command cannot
                    [*interpreter, _SERVER, str(theirs.fileno()), program],
                    stdin=subprocess.DEVNULL,
                    env=dict(environment),
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        except OSError:
            self._channel.close()
            raise
        self._stamp: Stamp | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def ready(self) -> bool:
        """Whether it can be asked. Raises EOFError when it has ended."""
        if self._stamp is None:
            said = self._hear(0.0)
            if said is None:
                if time.monotonic() >= self._begun_at + _BEGINNING:
                    raise EOFError("it does not begin")
                return False
            self._files = [str(path) for path in said.get("ready") or ()]
            # what changed while it began may be in its memory, or not
            self._stamp = stamp([*self._settings, *self._files]) if stamp(self._settings) == self._before else ()
        return True

    def stale(self) -> bool:
        """Whether something changed of what it has in memory."""
        return self._stamp is not None and self._stamp != stamp([*self._settings, *self._files])

    def run(self, words: t.Sequence[str], seconds: float, stop: threading.Event) -> int:
        """As run_playbook. Raises EOFError when it ended meanwhile, and then nothing of the run goes on."""
        self._number += 1
        run, born = 0, ""
        deadline, ending = time.monotonic() + seconds, False
        try:
            self._say({"run": self._number, "words": list(words)})
            while True:
                said = self._hear(_TICK)
                if said is not None and said.get("begun") == self._number:
                    run, born = int(said["pid"]), _born(int(said["pid"]))
                elif said is not None and said.get("ended") == self._number:
                    return 124 if ending else int(said["result"])
                now = time.monotonic()
                if not ending and (stop.is_set() or now >= deadline):
                    self._say({"end": self._number})
                    ending, deadline = True, now + GRACE_SECONDS + _END
                elif ending and now >= deadline:
                    raise EOFError("it does not answer")
        except EOFError:
            # an old command must reach no node after a new one
            rest = _below(run) if run and born and _born(run) == born else {}
            self.kill()
            for pid, begun in rest.items():
                if begun and _born(pid) == begun:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            if ending:
                return 124
            raise

    def end(self) -> None:
        """After the run that is under way, which it ends."""
        self._channel.close()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._channel.close()
        self._process.kill()
        self._process.wait()

    def _say(self, message: t.Mapping[str, t.Any]) -> None:
        try:
            self._channel.sendall(json.dumps(message).encode("utf-8") + b"\n")
        except OSError as error:
            raise EOFError(str(error)) from None

    def _hear(self, seconds: float) -> dict[str, t.Any] | None:
        """The next line; None where none comes in this time. Raises EOFError."""
        deadline = time.monotonic() + seconds
        while not self._lines:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._channel], [], [], left)[0]:
                return None
            try:
                news = self._channel.recv(65536)
            except OSError as error:
                raise EOFError(str(error)) from None
            self._rest += news
            if not news or len(self._rest) > playbook_server.LONGEST:
                raise EOFError("it has ended")
            *lines, self._rest = self._rest.split(b"\n")
            self._lines += [json.loads(line) for line in lines]
        return self._lines.pop(0)


def _fields(pid: int) -> list[str]:
    """What the kernel reports of a process, from its state on; nothing of one that is not there."""
    try:
        return (
            pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return []


def _born(pid: int) -> str:
    """When it began, as the kernel counts; empty for one that is not there."""
    return "".join(_fields(pid)[19:20])


def _parent(pid: int) -> int:
    return int("".join(_fields(pid)[1:2]) or 0)


def _below(pid: int) -> dict[int, str]:
    """A process and all that it has begun, with their births: workers of Ansible leave its group."""
    parents: dict[int, list[int]] = {}
    for entry in pathlib.Path("/proc").iterdir():
        if is_digits(entry.name):
            parents.setdefault(_parent(int(entry.name)), []).append(int(entry.name))
    found, todo = {}, [pid]
    while todo:
        one = todo.pop()
        found[one] = _born(one)
        todo += parents.get(one, ())
    return found


class WarmPlaybooks:
    """Runs ``command`` (ansible-playbook and its first words) with further words, with ``more`` in its environment. One run at a time, of any thread.

    ``report`` is called with what is wrong where runs start the program anew; ``starts``: how many did.
    """

    def __init__(self, command: t.Sequence[str], more: t.Mapping[str, str], report: t.Callable[[str], None]) -> None:
        self._command, self._more, self._report = list(command), dict(more), report
        self.starts = 0
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._failures, self._again_at, self._ended = 0, 0.0, False

    @property
    def pid(self) -> int:
        """Of the process; 0 where there is none."""
        process = self._process
        return process.pid if process is not None else 0

    def run(self, words: t.Sequence[str], seconds: float, stop: threading.Event) -> int:
        """The playbook's result; 124 when it took longer than the seconds. When ``stop`` is set meanwhile, it is ended first."""
        with self._lock:
            process = self._usable()
            if process is not None:
                try:
                    result = process.run([*self._command[1:], *words], seconds, stop)
                    self._failures = 0
                    return result
                except (EOFError, ValueError, KeyError) as error:
                    self._lost(str(error))
            self.starts += 1
        environment = [f"{name}={value}" for name, value in sorted(self._more.items())]
        return run_playbook(["env", *environment, *self._command, *words], seconds, stop)

    def prepare(self) -> None:
        """Begin the process before the first run, which otherwise starts the program anew. Returns at once."""
        with self._lock:
            self._usable()

    def stop(self) -> None:
        """The run that is under way has to be ended first, by its own ``stop``."""
        with self._lock:
            self._ended = True
            if self._process is not None:
                self._process.end()
                self._process = None

    def _usable(self) -> _Process | None:
        """The process where it can be asked now; if not, it is begun for the next run."""
        try:
            if self._process is not None and self._process.ready():
                if not self._process.stale():
                    return self._process
                self._process.end()
                self._process = None
        except (EOFError, ValueError) as error:
            self._lost(str(error))
        if self._process is None and not self._ended and time.monotonic() >= self._again_at:
            self._begin()
        return None

    def _begin(self) -> None:
        environment = dict(os.environ, **self._more)
        try:
            program, interpreter = interpreter_of(self._command[0], environment.get("PATH"))
            self._process = _Process(program, interpreter, environment)
        except (Unsuitable, OSError) as error:
            self._pause()
            self._report(str(error))

    def _lost(self, why: str) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None
        self._pause()
        self._report(f"the process that has Ansible in memory is gone: {why}")

    def _pause(self) -> None:
        self._failures += 1
        self._again_at = time.monotonic() + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._failures - 1))
