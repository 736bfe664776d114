# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: netns
short_description: Enter the namespaces of a process on the controller
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Runs tasks inside all namespaces and in the root directory of one process on the controller, its I(leader). A machine
    that is made of namespaces (the collection's lab nodes, a container started by hand) is then a host like any other.
  - The leader is identified by its process ID and its start time, and is held open while entering it. A process that
    got the same number later is refused, and so is a leader in the controller's own network namespace. A leader that is gone makes the host
    unreachable. Nothing ever runs outside the leader's namespaces.
  - Commands start with a clean environment, as in a new login; nothing of the controller's environment is passed on.
requirements:
  - C(nsenter) of util-linux on the controller
  - root on the controller
extends_documentation_fragment:
  - connection_pipelining
options:
  netns_leader:
    description:
      - A file with two numbers, the process ID of the leader and its start time (field 22 of C(/proc/PID/stat), in clock ticks
        since boot); or such a pair itself; or a bare process ID, which is not protected against reuse of the number.
    type: string
    required: true
    vars:
      - name: ansible_netns_leader
  executable:
    description:
      - The shell, inside the namespaces, that runs the commands.
    type: string
    default: /bin/sh
    vars:
      - name: ansible_executable
notes:
  - The user is always root. Privilege escalation to another user works where it needs no password.
"""

EXAMPLES = r"""
# inventory
# nodes:
#   vars:
#     ansible_connection: multicluster.network.netns
#     ansible_netns_leader: "/run/nodes/{{ inventory_hostname }}.leader"
#     ansible_python_interpreter: /usr/bin/python3
#   hosts:
#     node-1: {}
- name: Show the routes of a machine made of namespaces
  hosts: nodes
  gather_facts: false
  tasks:
    - name: Read the routes
      ansible.builtin.command: ip route show
      changed_when: false
"""

import os
import pathlib
import shlex
import subprocess
import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_text
from ansible.plugins.connection import ConnectionBase
from ansible.utils.display import Display

display = Display()

# The spelling of nsenter's options, and the file below /proc/PID that each of them takes.
NAMESPACES = {
    "mount": "ns/mnt",
    "uts": "ns/uts",
    "ipc": "ns/ipc",
    "net": "ns/net",
    "pid": "ns/pid",
    "cgroup": "ns/cgroup",
    "root": "root",
    "wd": "root",
}
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/sh",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}


class LeaderGone(Exception):
    """The leader cannot be entered; the message has the reason."""


def parse_leader(text: str) -> tuple[int, int | None]:
    """Read ``PID STARTTIME`` or ``PID``; returns (pid, start time or None). Raises LeaderGone on anything else."""
    words = text.split()
    if len(words) not in (1, 2) or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in words):
        raise LeaderGone(f"expected a process ID and its start time, not {text[:60]!r}")
    pid = int(words[0])
    if pid < 2:
        raise LeaderGone(f"process {pid} can never be the leader of a host")
    return pid, int(words[1]) if len(words) == 2 else None


def read_leader(value: str) -> tuple[int, int | None]:
    """The same for the option's value, which may name a file."""
    value = value.strip()
    if value[:1] in set("0123456789"):
        return parse_leader(value)
    try:
        with pathlib.Path(os.path.expanduser(value)).open(encoding="ascii", errors="replace") as stream:
            return parse_leader(stream.read(200))
    except OSError as error:
        raise LeaderGone(f"{value}: {error.strerror}") from None


def start_time(stat: str) -> int | None:
    """The start time out of the text of /proc/PID/stat; None for a zombie. The command in it may contain anything."""
    fields = stat.rpartition(")")[2].split()
    return None if not fields or fields[0] in "ZX" else int(fields[19])


def open_leader(pid: int, started: int | None, proc: str = "/proc") -> int:
    """Open /proc/PID of the leader and return the descriptor, which stays bound to that process whatever gets its number.

    Raises LeaderGone if it is gone, is another process, or shares our network namespace.
    """
    try:
        descriptor = os.open(f"{proc}/{pid}", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        raise LeaderGone(f"no process {pid}") from None
    try:
        with os.fdopen(os.open("stat", os.O_RDONLY, dir_fd=descriptor), encoding="utf-8", errors="replace") as stream:
            found = start_time(stream.read())
        if found is None:
            raise LeaderGone(f"process {pid} has ended")
        if started is not None and found != started:
            raise LeaderGone(f"process {pid} is not the leader but a later process of that number")
        if os.stat("ns/net", dir_fd=descriptor).st_ino == pathlib.Path(proc, "self/ns/net").stat().st_ino:
            raise LeaderGone(f"process {pid} is in the controller's own network namespace")
    except OSError as error:
        os.close(descriptor)
        raise LeaderGone(f"process {pid} has ended ({error.strerror})") from None
    except LeaderGone:
        os.close(descriptor)
        raise
    return descriptor


def enter_command(descriptor: int, command: list[str]) -> list[str]:
    """The command line that runs a command in everything that belongs to an opened leader."""
    options = [f"--{option}=/proc/self/fd/{descriptor}/{file}" for option, file in NAMESPACES.items()]
    return ["nsenter", *options, "--", *command]


class Connection(ConnectionBase):
    """Connection into the namespaces of a process."""

    transport = "multicluster.network.netns"
    has_pipelining = True
    # Commands run as root. Those who ask learn it here, so that `become: true` towards root has nothing to do.
    default_user = "root"

    def _connect(self) -> Connection:
        self._play_context.remote_user = self.default_user
        os.close(self._open())
        self._connected = True
        return self

    def close(self) -> None:
        self._connected = False

    def reset(self) -> None:
        """Every command enters anew, so there is nothing to reset."""
        self.close()

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        display.vvv(f"EXEC {to_text(cmd)}", host=self.get_option("netns_leader"))
        return self._run(to_text(cmd), in_data)

    def put_file(self, in_path: str, out_path: str) -> None:
        super().put_file(in_path, out_path)
        file = pathlib.Path(to_text(in_path, errors="surrogate_or_strict"))
        if not file.exists():
            raise AnsibleFileNotFound(f"no file {to_text(in_path)} on the controller")
        with file.open("rb") as source:
            code, _stdout, stderr = self._run(f"cat > {shlex.quote(to_text(out_path))}", stdin=source)
        if code:
            raise AnsibleConnectionFailure(f"cannot write {to_text(out_path)}: {to_text(stderr).strip()}")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        super().fetch_file(in_path, out_path)
        with pathlib.Path(to_text(out_path, errors="surrogate_or_strict")).open("wb") as target:
            code, _stdout, stderr = self._run(f"cat < {shlex.quote(to_text(in_path))}", stdout=target)
        if code:
            raise AnsibleConnectionFailure(f"cannot read {to_text(in_path)}: {to_text(stderr).strip()}")

    def _open(self) -> int:
        try:
            return open_leader(*read_leader(self.get_option("netns_leader")))
        except LeaderGone as error:
            raise AnsibleConnectionFailure(f"netns: {error}") from None

    def _run(
        self,
        script: str,
        in_data: bytes | None = None,
        stdin: t.IO[bytes] | None = None,
        stdout: int | t.IO[bytes] = subprocess.PIPE,
    ) -> tuple[int, bytes, bytes]:
        """Run a shell script inside; returns (exit code, stdout, stderr). A leader that vanishes meanwhile is a lost host."""
        descriptor = self._open()
        try:
            process = subprocess.Popen(
                enter_command(descriptor, [self.get_option("executable"), "-c", script]),
                stdin=stdin if stdin is not None else subprocess.PIPE,
                stdout=stdout,
                stderr=subprocess.PIPE,
                pass_fds=(descriptor,),
                env=ENVIRONMENT,
                start_new_session=True,
            )
            out, err = process.communicate(in_data)
        except OSError as error:
            raise AnsibleConnectionFailure(f"netns: nsenter: {error.strerror}") from None
        finally:
            os.close(descriptor)
        if process.returncode:
            try:
                os.close(self._open())
            except AnsibleConnectionFailure as error:
                raise AnsibleConnectionFailure(f"{error} (it went away while a command ran)") from None
            if err.startswith(b"nsenter: ") and process.returncode in (1, 126, 127):
                raise AnsibleConnectionFailure(f"netns: {to_text(err).strip()[:300]}")
        return process.returncode, out or b"", err
