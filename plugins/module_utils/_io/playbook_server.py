# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that has Ansible in memory, and for each run is the user's own ``ansible-playbook`` in a fork of its own.

    python playbook_server.py SOCKET PROGRAM

``python`` is the interpreter of PROGRAM, which knows nothing of this collection: only the standard library is imported here, and what PROGRAM will import
anyway. A run is PROGRAM itself, executed in the fork as the shell would execute it, so nothing of Ansible is called from here, and an Ansible that names its
parts otherwise only starts more slowly. SOCKET is a descriptor. Lines of JSON come, {run: number, words} and {end: number}, and go: {ready: files
that make what is in memory stale when they change}, {begun: number, pid}, {ended: number, result}. One run at a time. When nobody asks any more, because
the other end was closed or has died, the run that is under way is ended, and so is this process.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pathlib
import runpy
import select
import signal
import socket
import sys
import time
import traceback
import typing as t

#: What PROGRAM imports. Without it there is nothing to keep.
NEEDED = "ansible.cli.playbook"
#: What a run imports besides, where this release has it.
USUAL = (
    "ansible.executor.playbook_executor",
    "ansible.executor.process.worker",
    "ansible.executor.module_common",
    "ansible.inventory.manager",
    "ansible.vars.manager",
    "ansible.template",
    "ansible.plugins.action.normal",
    "ansible.plugins.become.sudo",
    "ansible.plugins.callback.default",
    "ansible.plugins.connection.local",
    "ansible.plugins.connection.ssh",
    "ansible.plugins.filter.core",
    "ansible.plugins.inventory.auto",
    "ansible.plugins.inventory.host_list",
    "ansible.plugins.inventory.ini",
    "ansible.plugins.inventory.yaml",
    "ansible.plugins.shell.sh",
    "ansible.plugins.strategy.linear",
    "ansible.plugins.test.core",
    "ansible.plugins.vars.host_group_vars",
)
#: So long a run may take to end once it was asked to, and so often one looks whether it has, in seconds.
GRACE, PAUSE = 30.0, 0.02
LONGEST = 1048576


class Run(t.NamedTuple):
    """A run under way. ``until``: when it is killed, None where nobody asked it to end."""

    number: int
    pid: int
    until: float | None = None


class Server:
    """Serves one socket."""

    def __init__(self, channel: socket.socket, program: str) -> None:
        self._channel, self._program = channel, program
        self._rest = b""
        self._run: Run | None = None

    def serve(self) -> None:
        """Until the other end is closed."""
        while True:
            ready = select.select([self._channel], [], [], PAUSE if self._run else None)[0]
            if ready and not self._listen():
                break
            self._look()
        if self._run:
            self._end(self._run)
        while self._run:
            time.sleep(PAUSE)
            self._look()

    def say(self, message: t.Mapping[str, t.Any]) -> None:
        with contextlib.suppress(OSError):  # nobody asks any more, as the next look at the socket shows
            self._channel.sendall(json.dumps(message).encode("utf-8") + b"\n")

    def _listen(self) -> bool:
        try:
            news = self._channel.recv(65536)
        except OSError:
            return False
        self._rest += news
        if not news or len(self._rest) > LONGEST:
            return False
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            asked = json.loads(line)
            if "run" in asked:
                self._begin(int(asked["run"]), [str(argument) for argument in asked["words"]])
            elif self._run and self._run.number == asked["end"]:
                self._end(self._run)
        return True

    def _begin(self, number: int, words: list[str]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            be(self._channel, self._program, words)
        self._run = Run(number, pid)
        self.say({"begun": number, "pid": pid})

    def _end(self, run: Run) -> None:
        _signal(run.pid, signal.SIGTERM)
        self._run = run._replace(until=time.monotonic() + GRACE)

    def _look(self) -> None:
        run = self._run
        if run is None:
            return
        if run.until is not None and time.monotonic() >= run.until:
            _signal(run.pid, signal.SIGKILL)
        pid, status = os.waitpid(run.pid, os.WNOHANG)
        if pid:
            self._run = None
            self.say(
                {
                    "ended": run.number,
                    "result": -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status),
                }
            )


def _signal(pid: int, number: int) -> None:
    """To the run with its workers and no one else."""
    try:
        os.killpg(pid, number)
    except OSError:
        with contextlib.suppress(OSError):
            os.kill(pid, number)  # it has no group of its own yet


def be(channel: socket.socket, program: str, words: t.Sequence[str]) -> t.NoReturn:
    """Be the program, in a fork, and end as it would."""
    result = 1
    try:
        os.setsid()
        channel.close()
        atexit._clear()  # what the parent cleans up at its end is in use until then; multiprocessing's own forks do the same
        gc.unfreeze()
        sys.argv = [program, *words]
        runpy.run_path(program, run_name="__main__")
        result = 0
    except SystemExit as error:
        result = _result(error.code)
    except BaseException:  # pylint: disable=broad-except  # whatever it is, it must not come back as a second server
        traceback.print_exc()
    finally:
        try:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(result)


def _result(code: t.Any) -> int:
    """As the interpreter has it."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 255
    sys.stderr.write(f"{code}\n")
    return 1


def imported(program: str) -> list[str]:
    """Import what the program needs. Gives the files and folders of it that make this stale when they change. Raises ImportError."""
    needed = importlib.import_module(NEEDED)
    for name in USUAL:
        try:
            importlib.import_module(name)
        except Exception:  # pylint: disable=broad-except  # a run imports it again, and reports what is wrong where it needs it
            continue
    package = pathlib.Path(os.path.abspath(sys.modules[NEEDED.partition(".")[0]].__file__ or "")).parent
    return [
        program,
        os.path.realpath(program),
        sys.executable,
        os.path.abspath(needed.__file__ or ""),
        str(package / "release.py"),
        str(package.parent),
    ]


def main(arguments: t.Sequence[str]) -> int:
    """The program."""
    channel, program = socket.socket(fileno=int(arguments[0])), arguments[1]
    if sys.path and pathlib.Path(os.path.abspath(sys.path[0])) == pathlib.Path(os.path.abspath(__file__)).parent:
        sys.path[0] = str(pathlib.Path(os.path.realpath(program)).parent)  # as where it is executed itself
    sys.argv = [program]
    server = Server(channel, program)
    files = imported(program)
    gc.collect()
    gc.freeze()  # what is in memory is shared with every run
    server.say({"ready": files})
    server.serve()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
