# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The follower of a node's BGP speaker: it announces what the node can deliver, by its kube-proxy's word, with or without a play.

A play writes ``speaker.json``: the routers, and networks with the ports that speak for them. The follower is the only one that tells the daemon
of networks: it asks those ports twice a second and tells the daemon what has changed, over its socket, so that sessions and all other routes stay.
The daemon starts with what is right at that moment (``start``). What the follower knows lies in ``/run``, and one thing is kept: that kube-proxy's
own port has ever answered.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
import typing as t

from ..._io import bird, frr
from ..._io.health_ports import ask_any
from ..._linux import files
from ..._linux.errors import LinuxError
from ..._linux.host import systemd
from ..._linux.host.lock import HostLock
from ..._loadbalancers.bgp import bird_config, frr_config
from ..._loadbalancers.bgp.delivery import Decision, Heard, Wanted, heard, judge, parse_routes, trusted
from ..._loadbalancers.bgp.speaker import Speaker, parse_speaker
from ..._values.refused import ValueRefused

FOLDER = "/etc/multicluster-network/bgp"
STATE = FOLDER + "/speaker.json"
STATUS = "/run/multicluster-network/bgp-speaker.json"
KEPT = "/var/lib/multicluster-network-bgp/known.json"
VERSION = 1
PORT = re.compile(r"[0-9]{1,5}\Z")
#: Between two rounds of questions, and for how long one waits for answers. With very many ports there is more time between rounds.
PAUSE_SECONDS, ANSWER_SECONDS, PORTS_PER_SECOND = 0.5, 0.5, 400
LOCK, LOCK_SECONDS = "multicluster-bgp", 5.0


class Daemon(t.NamedTuple):
    """A program that speaks BGP: how it is kept and spoken to, and how its configuration is written."""

    config_file: t.Callable[[], str]
    group: t.Callable[[], int]
    unit_texts: t.Callable[[str, bool], t.Dict[str, str]]
    check_config: t.Callable[[str, t.Iterable[str]], None]
    tell: t.Callable[[t.Sequence[str]], None]
    alive: t.Callable[[], bool]
    sessions: t.Callable[[], t.Dict[str, str]]
    announces: t.Callable[[], t.List[str]]
    render: t.Callable[[Speaker], str]
    read_prefixes: t.Callable[[str], t.Tuple[str, ...]]
    changes: t.Callable[[str, str], t.List[str]]
    shown: t.Callable[[str, t.Callable[[str], str]], t.List[str]]


FRR, BIRD = "frr", "bird"
DAEMONS = {
    FRR: Daemon(frr.config_file, frr.group, frr.unit_texts, frr.check_config, frr.tell, frr.alive, frr.sessions, frr.announces,
                frr_config.render, frr_config.read_prefixes, frr_config.changes, frr_config.shown),
    BIRD: Daemon(bird.config_file, bird.group, bird.unit_texts, bird.check_config, bird.tell, bird.alive, bird.sessions, bird.announces,
                 bird_config.render, bird_config.read_prefixes, bird_config.changes, bird_config.shown),
}  # fmt: skip
#: A file in the daemon's folder: what it runs with, written when it has been told of it.
RUNNING = "running"


class State(t.NamedTuple):
    """What a play wants: ``digest`` tells one state from another."""

    daemon: str
    speaker: Speaker
    routes: t.Tuple[Wanted, ...]
    node_port: int
    digest: str

    @property
    def conditional(self) -> t.FrozenSet[str]:
        return frozenset(route.network for route in self.routes if route.health_ports)

    def render(self, announced: t.Iterable[str]) -> str:
        """The daemon's configuration with these networks."""
        return DAEMONS[self.daemon].render(self.speaker.announcing(announced, self.conditional))

    def running(self) -> t.Tuple[str, ...]:
        """The networks that the daemon has been told of."""
        return DAEMONS[self.daemon].read_prefixes(read_running() or "")

    def ports(self) -> t.Set[int]:
        return {port for route in self.routes for port in (*route.health_ports, self.node_port) if port}


def parse_state(text: str) -> State:
    """Of ``speaker.json``. Raises ValueRefused, and ValueError for what is not ours."""
    given = json.loads(text)
    if not isinstance(given, dict) or given.get("version") != VERSION:
        raise ValueError("this is no state of a speaker")
    routes = parse_routes((), given["routes"])
    if given["daemon"] not in DAEMONS:
        raise ValueError("this is no state of a speaker")
    return State(given["daemon"], parse_speaker(given), routes, int(given["node_port"]), hashlib.sha256(text.encode("utf-8")).hexdigest()[:16])


def keeps_routes(text: bytes) -> bool:
    """Whether a state asks routers to keep the routes while the daemon starts anew."""
    try:
        return parse_state(text.decode("utf-8")).speaker.graceful_restart
    except (ValueError, KeyError):
        return False


def load_state() -> t.Optional[State]:
    """None where there is none. Raises ValueRefused, ValueError."""
    found = files.read_state(STATE)
    if found is None or found.kind != "file" or not files.is_roots_alone(STATE):
        return None
    return parse_state(found.content.decode("utf-8"))


class Follower:
    """Rounds over one memory. ``told``: what the status file says."""

    def __init__(self) -> None:
        self.memory: t.Dict[int, Heard] = {}
        self.known = _known()  # the port of the node that has ever answered
        self.begun = False
        self.told: t.Dict[str, t.Any] = {}
        self.since = parse_since(read_status().get("since"))  # who begins goes on with what the last one knew

    def round(self, starting: bool = False) -> None:
        """Ask, decide, tell the daemon, and say what holds. Raises ValueRefused, ValueError, LinuxError, OSError."""
        with HostLock(LOCK, LOCK_SECONDS):
            state = load_state()
            if state is None:
                return
            error = ""
            if starting:
                self.since = {}  # nothing is announced while the daemon does not run
            try:
                holds = self._decide(state)
                self._apply(state, state.render(holds.announced), starting)
            except ValueRefused as problem:
                error, holds = problem.message, Decision(list(state.running()), {})
            self._say({
                "version": VERSION, "daemon": state.daemon, "state": state.digest, "announced": sorted(holds.announced), "withheld": holds.withheld,
                "stopped": holds.stopped, "error": error, "since": self._since(holds.announced),
            })  # fmt: skip
            if error and starting:
                raise ValueRefused("speaker_failed", error)

    def _since(self, announced: t.Iterable[str]) -> t.Dict[str, int]:
        """Since when each network is announced without a break, in seconds since 1970 by the node's clock."""
        now = int(time.time())
        self.since = {network: self.since.get(network, now) for network in announced}
        return self.since

    def _decide(self, state: State) -> Decision:
        now = time.monotonic()
        if not self.begun:
            running = set(state.running())
            believed = state.node_port if self.known == state.node_port else 0
            self.memory = trusted(self.memory, [route for route in state.routes if route.network in running], believed, now)
            self.begun = True
        self.memory = heard(self.memory, _answers(state), now)
        if state.node_port in self.memory and self.known != state.node_port:
            self.known = state.node_port
            files.write_state(KEPT, files.FileState("file", 0o600, "{0}\n".format(self.known).encode("ascii")))
        return judge(state.routes, self.memory, state.node_port, self.known == state.node_port, now)

    def _apply(self, state: State, text: str, starting: bool) -> None:
        before, daemon = read_running(), DAEMONS[state.daemon]
        if starting:
            put_config(daemon, text)
            put_running(text)
        elif before == text:
            return
        elif not daemon.alive():
            raise ValueRefused("speaker_failed", "the daemon does not answer")  # it starts with what is right then
        elif before is None:
            # half of a change may have taken place: begin anew, which waits for our lock
            frr.systemctl("restart", "--no-block", frr.UNIT)
            raise ValueRefused("speaker_failed", "the daemon starts anew after a change that failed")
        else:
            # until a change has taken place as a whole nobody knows what the daemon runs with
            files.remove(running_path())
            put_config(daemon, text)
            daemon.tell(daemon.changes(before, text))
            put_running(text)

    def _say(self, status: t.Dict[str, t.Any]) -> None:
        if status != self.told:
            files.write_state(STATUS, files.FileState("file", 0o644, (json.dumps(status, sort_keys=True) + "\n").encode("utf-8")))
            self.told = status


def _answers(state: State) -> t.Dict[int, t.Optional[int]]:
    return ask_any(state.ports(), ("127.0.0.1", "::1", state.speaker.source), ANSWER_SECONDS)


def running_path() -> str:
    return "{0}/{1}".format(frr.RUN, RUNNING)


def put_config(daemon: Daemon, text: str) -> None:
    """What the daemon reads, for itself alone."""
    files.write_state(daemon.config_file(), files.FileState("file", 0o640, text.encode("ascii")))
    files.give_to_group(daemon.config_file(), daemon.group())


def put_running(text: str) -> None:
    """What the daemon has been told of."""
    files.write_state(running_path(), files.FileState("file", 0o600, text.encode("ascii")))


def read_running() -> t.Optional[str]:
    """None where nobody knows."""
    found = files.read_state(running_path())
    return found.content.decode("ascii", "replace") if found is not None and found.kind == "file" else None


def read_status() -> t.Dict[str, t.Any]:
    """What the follower says that holds; {} when there is no word of it."""
    found = files.read_state(STATUS)
    try:
        status = json.loads(found.content.decode("utf-8")) if found is not None and found.kind == "file" else {}
    except ValueError:
        return {}
    return status if isinstance(status, dict) else {}


def parse_since(found: t.Any) -> t.Dict[str, int]:
    """Of a status file that may be of a former release, or be no word of ours."""
    rows = found.items() if isinstance(found, dict) else ()
    return {str(network): when for network, when in rows if isinstance(when, int) and not isinstance(when, bool) and 0 <= when < 2**40}


def running_daemon() -> Daemon:
    """The one that the follower speaks of."""
    return DAEMONS.get(str(read_status().get("daemon")), DAEMONS[FRR])


def _known() -> int:
    """kube-proxy's port, when that has ever answered here; else 0."""
    found = files.read_state(KEPT)
    text = found.content.decode("ascii", "replace").strip() if found is not None and found.kind == "file" else ""
    return int(text) if PORT.match(text) else 0


def start() -> int:
    """Just before the daemon: what is right now is what it starts with. Returns the exit status."""
    try:
        Follower().round(starting=True)
    except (ValueRefused, LinuxError, OSError, ValueError) as error:
        sys.stderr.write("{0}\n".format(error))
        return 1
    return 0


def follow() -> None:
    """For ever. A round that fails is told once and tried again."""
    follower, told = Follower(), ""
    while systemd.running():
        problem = ""
        try:
            follower.round()
            problem = str(follower.told.get("error") or "")
        except (ValueRefused, LinuxError, OSError, ValueError) as error:
            problem = str(error) or type(error).__name__
        if problem != told:
            sys.stdout.write((problem or "all is well again") + "\n")
            sys.stdout.flush()
            told = problem
        time.sleep(max(PAUSE_SECONDS, len(follower.memory) / PORTS_PER_SECOND))
