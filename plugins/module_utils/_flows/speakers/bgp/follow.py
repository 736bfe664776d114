# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The follower of a node's BGP speaker: it announces what the node can deliver, as its kube-proxy reports it, with or without a play.

A play writes ``speaker.json``: the routers, and networks with the health ports of each. The follower is the only one that configures the daemon's
networks: it asks those ports (``delivery/follower.py``) and sends the daemon what has changed, over its socket, so that sessions and all other routes
stay. The daemon starts with what is right at that moment (``start``). What the follower knows is in ``/run``.
"""

from __future__ import annotations

import hashlib
import json
import time
import typing as t

from ...._linux import files
from ...._linux.daemons import bird, command, frr
from ...._loadbalancers.bgp import bird_config, frr_config
from ...._loadbalancers.bgp.speaker import Speaker, parse_speaker
from ...._loadbalancers.delivery import Decision, Desired, parse_routes
from ...._values.refused import ValueRefused
from .. import follower

FOLDER = "/etc/multicluster-network/bgp"
STATE = FOLDER + "/speaker.json"
STATUS = "/run/multicluster-network/bgp-speaker.json"
KEPT = "/var/lib/multicluster-network-bgp/known.json"
VERSION = 1


class Daemon(t.Protocol):
    """A BGP daemon: how it is kept and asked, and how its configuration is written and compared."""

    def config_file(self) -> str: ...
    def group(self) -> int: ...
    def unit_texts(self, code: str, bfd: bool, /) -> dict[str, str]: ...
    def check_config(self, text: str, secrets: t.Iterable[str]) -> None: ...
    def tell(self, lines: t.Sequence[str]) -> None: ...
    def alive(self) -> bool: ...
    def sessions(self) -> dict[str, str]: ...
    def carries(self) -> dict[str, list[int]]: ...
    def announces(self) -> list[str]: ...
    def render(self, speaker: Speaker) -> str: ...
    def read_prefixes(self, text: str) -> tuple[str, ...]: ...
    def changes(self, before: str, after: str) -> list[str]: ...
    def shown(self, text: str, fingerprint: t.Callable[[str], str]) -> list[str]: ...


class Frr:
    """FRR, by its module of daemons and that of its configuration."""

    config_file = staticmethod(frr.config_file)
    group = staticmethod(frr.group)
    unit_texts = staticmethod(frr.unit_texts)
    check_config = staticmethod(frr.check_config)
    tell = staticmethod(frr.tell)
    alive = staticmethod(frr.alive)
    sessions = staticmethod(frr.sessions)
    carries = staticmethod(frr.carries)
    announces = staticmethod(frr.announces)
    render = staticmethod(frr_config.render)
    read_prefixes = staticmethod(frr_config.read_prefixes)
    changes = staticmethod(frr_config.changes)
    shown = staticmethod(frr_config.shown)


class Bird:
    """BIRD, in the same way."""

    config_file = staticmethod(bird.config_file)
    group = staticmethod(bird.group)
    unit_texts = staticmethod(bird.unit_texts)
    check_config = staticmethod(bird.check_config)
    tell = staticmethod(bird.tell)
    alive = staticmethod(bird.alive)
    sessions = staticmethod(bird.sessions)
    carries = staticmethod(bird.carries)
    announces = staticmethod(bird.announces)
    render = staticmethod(bird_config.render)
    read_prefixes = staticmethod(bird_config.read_prefixes)
    changes = staticmethod(bird_config.changes)
    shown = staticmethod(bird_config.shown)


FRR, BIRD = "frr", "bird"
DAEMONS: dict[str, Daemon] = {FRR: Frr(), BIRD: Bird()}
#: A file in the daemon's folder: what it runs with, written when it has been notified of it.
RUNNING = "running"


class State(t.NamedTuple):
    """What a play wants: ``digest`` distinguishes one state from another."""

    daemon: str
    speaker: Speaker
    routes: tuple[Desired, ...]
    node_port: int
    digest: str

    @property
    def conditional(self) -> frozenset[str]:
        return frozenset(route.network for route in self.routes if route.health_ports)

    def render(self, announced: t.Iterable[str]) -> str:
        """The daemon's configuration with these networks."""
        return DAEMONS[self.daemon].render(self.speaker.announcing(announced, self.conditional))

    def running(self) -> tuple[str, ...]:
        """The networks that the daemon has been notified of."""
        return DAEMONS[self.daemon].read_prefixes(read_running() or "")


def parse_state(text: str) -> State:
    """Of ``speaker.json``. Raises ValueRefused, and ValueError for what is no such state."""
    given = json.loads(text)
    if not isinstance(given, dict) or given.get("version") != VERSION:
        raise ValueError("this is no state of a speaker")
    routes = parse_routes((), given["routes"])
    if given["daemon"] not in DAEMONS:
        raise ValueError("this is no state of a speaker")
    return State(
        given["daemon"],
        parse_speaker(given),
        routes,
        int(given["node_port"]),
        hashlib.sha256(text.encode("utf-8")).hexdigest()[:16],
    )


def keeps_routes(text: bytes) -> bool:
    """Whether a state asks routers to keep the routes while the daemon starts anew."""
    try:
        return parse_state(text.decode("utf-8")).speaker.graceful_restart
    except (ValueError, KeyError):
        return False


def load_state() -> State | None:
    """None where there is none. Raises ValueRefused, ValueError."""
    return follower.load_state(STATE, parse_state)


class Follower(follower.Follower):
    """Has the daemon announce the networks that this node can deliver."""

    lock = "multicluster-bgp"

    def __init__(self) -> None:
        super().__init__(KEPT, STATUS)
        self.since = parse_since(read_status().get("since"))  # who begins goes on with what the last one knew

    def _round(self, starting: bool) -> None:
        state = load_state()
        if state is None:
            return
        error = ""
        if starting:
            self.since = {}  # nothing is announced while the daemon does not run
        try:
            holds = self.ports.decide(
                state.routes, state.node_port, ("127.0.0.1", "::1", state.speaker.source), lambda: set(state.running())
            )
            self._apply(state, state.render(holds.announced), starting)
        except ValueRefused as problem:
            error, holds = problem.message, Decision(list(state.running()), {})
        self._say(
            {
                "version": VERSION,
                "daemon": state.daemon,
                "state": state.digest,
                "announced": sorted(holds.announced),
                "withheld": holds.withheld,
                "stopped": holds.stopped,
                "error": error,
                "since": self._since(holds.announced),
            }
        )
        if error and starting:
            raise ValueRefused("speaker_failed", error)

    def _since(self, announced: t.Iterable[str]) -> dict[str, int]:
        """Since when each network is announced without a break, in seconds since 1970 by the node's clock."""
        now = int(time.time())
        self.since = {network: self.since.get(network, now) for network in announced}
        return self.since

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
            command.systemctl("restart", "--no-block", frr.UNIT)
            raise ValueRefused("speaker_failed", "the daemon starts anew after a change that failed")
        else:
            # until a change has taken place as a whole nobody knows what the daemon runs with
            files.remove(running_path())
            put_config(daemon, text)
            daemon.tell(daemon.changes(before, text))
            put_running(text)


def running_path() -> str:
    return f"{frr.RUN}/{RUNNING}"


def put_config(daemon: Daemon, text: str) -> None:
    """What the daemon reads, for itself alone."""
    files.write_state(daemon.config_file(), files.FileState("file", 0o640, text.encode("ascii")))
    files.give_to_group(daemon.config_file(), daemon.group())


def put_running(text: str) -> None:
    """What the daemon has been notified of."""
    files.write_state(running_path(), files.FileState("file", 0o600, text.encode("ascii")))


def read_running() -> str | None:
    """None where nobody knows."""
    found = files.content(running_path())
    return found.decode("ascii", "replace") if found is not None else None


def read_status() -> follower.Status:
    """The state that the follower reports; {} when there is none."""
    return follower.read_status(STATUS)


def parse_since(found: t.Any) -> dict[str, int]:
    """Of a status file that may be of a former release, or written by somebody else."""
    rows = found.items() if isinstance(found, dict) else ()
    return {
        str(network): when
        for network, when in rows
        if isinstance(when, int) and not isinstance(when, bool) and 0 <= when < 2**40
    }


def announced(daemon: Daemon) -> tuple[list[str], list[str]]:
    """(networks that routers are notified of, those that no session carries), by the daemon that runs. Raises ValueRefused."""
    carried = {version for versions in daemon.carries().values() for version in versions}
    rows = sorted(daemon.announces())
    return [row for row in rows if (6 if ":" in row else 4) in carried], [
        row for row in rows if (6 if ":" in row else 4) not in carried
    ]


def running_daemon() -> Daemon:
    """The one that the follower reports."""
    return DAEMONS.get(str(read_status().get("daemon")), DAEMONS[FRR])


def start() -> int:
    """Just before the daemon: what is right now is what it starts with. Returns the exit status."""
    return follower.start(lambda: Follower().round(starting=True))


def follow() -> None:
    """For ever."""
    follower.follow(Follower())
