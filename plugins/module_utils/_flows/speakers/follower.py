# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows the health ports of a node, whatever announces: the speakers of BGP and of layer 2 have it in common.

A play writes a state; a process of the node asks the ports that it names twice a second, decides by ``delivery.py``, carries that out in its own way and
writes to a file what holds. One thing is kept beyond a reboot: that kube-proxy's own port has ever answered.
"""

from __future__ import annotations

import json
import sys
import time
import typing as t

from ..._linux import files
from ..._linux.daemons.health_ports import ask_any
from ..._linux.errors import LinuxError
from ..._linux.host import systemd
from ..._linux.host.lock import HostLock
from ..._loadbalancers.delivery import Decision, Desired, Heard, heard, judge, trusted
from ..._values.refused import ValueRefused
from ..._values.text import is_digits

#: Between two rounds of questions, and for how long one waits for answers. With very many ports there is more time between rounds.
PAUSE_SECONDS, ANSWER_SECONDS, PORTS_PER_SECOND = 0.5, 0.5, 400
LOCK_SECONDS = 5.0
#: What a round may raise.
ERRORS = (ValueRefused, LinuxError, OSError, ValueError)
_UNIT = """\
[Unit]
Description={description}
{after}ConditionPathExists={state}
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/python3 {code} follow
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""
S = t.TypeVar("S")
Status = dict[str, t.Any]


def unit_text(description: str, code: str, state: str, after: str = "") -> str:
    """The follower's unit. ``after``: a unit that starts before it, where both start."""
    return _UNIT.format(description=description, code=code, state=state, after=f"After={after}\n" if after else "")


def load_state(path: str, parse: t.Callable[[str], S]) -> S | None:
    """What a play wants; None where there is none, or where others than root could have written it. Raises ValueRefused, ValueError."""
    found = files.read_state(path)
    if found is None or found.kind != "file" or not files.is_roots_alone(path):
        return None
    try:
        return parse(found.content.decode("utf-8"))
    except (LookupError, TypeError, AttributeError):
        raise ValueError(f"{path} is not as this release writes it: run the play again") from None


def read_status(path: str) -> Status:
    """The state that a follower reports; {} when there is none."""
    try:
        status = json.loads((files.content(path) or b"{}").decode("utf-8"))
    except ValueError:
        return {}
    return status if isinstance(status, dict) else {}


class Ports:
    """What the ports of this node have said. ``kept``: the file that records of kube-proxy's own port that it has ever answered."""

    def __init__(self, kept: str) -> None:
        self.memory: dict[int, Heard] = {}
        self.kept, self.begun = kept, False
        # kube-proxy's port, when that has ever answered here; else 0
        text = (files.content(kept) or b"").decode("ascii", "replace").strip()
        self.known = int(text) if is_digits(text) and len(text) < 6 else 0
        self._is_kept = True

    def decide(
        self,
        desired: t.Sequence[Desired],
        node_port: int,
        hosts: t.Sequence[str],
        announced: t.Callable[[], t.Container[str]],
    ) -> Decision:
        """Ask once, and judge. ``announced``: what was right until now, asked for the first time alone."""
        now = time.monotonic()
        if not self.begun:
            running = announced()
            believed = node_port if self.known == node_port else 0
            self.memory = trusted(self.memory, [one for one in desired if one.network in running], believed, now)
            self.begun = True
        ports = {port for one in desired for port in (*one.health_ports, node_port) if port}
        self.memory = heard(self.memory, ask_any(ports, hosts, ANSWER_SECONDS), now)
        if node_port in self.memory and (self.known != node_port or not self._is_kept):
            self.known = node_port
            self._is_kept = self._keep()
        return judge(desired, self.memory, node_port, self.known == node_port, now)

    def _keep(self) -> bool:
        """What could not be written is tried again: a full disk must not keep a node from saying what it can deliver."""
        try:
            files.write_state(self.kept, files.FileState("file", 0o600, f"{self.known}\n".encode("ascii")))
        except OSError:
            return False
        return True


class Follower:
    """Rounds over one memory. ``reported``: what the status file has."""

    lock = ""

    def __init__(self, kept: str, status: str) -> None:
        self.ports, self.status = Ports(kept), status
        self.reported: Status = {}

    def round(self, starting: bool = False) -> None:
        """Ask, decide, carry it out and say what holds, while nobody else does. Raises ValueRefused, ValueError, LinuxError, OSError."""
        with HostLock(self.lock, LOCK_SECONDS):
            self._round(starting)

    def _round(self, starting: bool) -> None:
        raise NotImplementedError

    def _say(self, status: Status) -> None:
        if status != self.reported:
            files.write_state(self.status, files.json_file(0o644, status))
            self.reported = status


def start(work: t.Callable[[], None]) -> int:
    """What is done just before a daemon starts. Returns the exit status."""
    try:
        work()
    except ERRORS as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def follow(follower: Follower) -> None:
    """For ever. A round that fails is reported once and tried again."""
    reported = ""
    while systemd.running():
        problem = ""
        try:
            follower.round()
            problem = str(follower.reported.get("error") or "")
        except ERRORS as error:
            problem = str(error) or type(error).__name__
        if problem != reported:
            sys.stdout.write((problem or "all is well again") + "\n")
            sys.stdout.flush()
            reported = problem
        time.sleep(max(PAUSE_SECONDS, len(follower.ports.memory) / PORTS_PER_SECOND))
