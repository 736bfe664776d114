# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watcher on a KubeSpan node: tries endpoints in turn, keeps peer states and the sets, repairs what others break.

It reads the state that the play wrote (kubespan 16): the confirmed one, or the candidate while a change waits for its
confirmation. Every pass is the same plan and apply that a play does, with endpoints and states that only it knows; so
whatever is missing or wrong on the host is put right by the next pass. All files below are root-only:

* ``kubespan-watch.json`` (kept): last used endpoint and its time for each peer; losing it does no harm,
* ``/run/.../FABRIC-kubespan.json``: statuses for ``verify``, ``FABRIC-kubespan.prom``: the same for Prometheus.
"""

from __future__ import annotations

import json
import sys
import time
import typing as t

from ...._dataplane.node_spec import alias_of
from ...._dataplane.peer_spec import LivePeer
from ...._linux import files
from ...._linux.errors import LinuxError
from ...._linux.host.links import read_link
from ...._linux.host.lock import HostLock
from ...._linux.netlink.monitor import Monitor
from ...._linux.nftables.table import GenerationChanged
from ...._linux.wireguard.device import read_device
from ...._mesh.kubespan.endpoints import harvest
from ...._mesh.kubespan.generations import RECONCILE_INTERVAL
from ...._mesh.kubespan.states import Status, metrics, parse_state, render_state, run_pass, status_rows
from ...._plan.plan import Refusal
from .. import persistence, transaction
from . import dataplane as kubespan

Data = dict[str, t.Any]
Statuses = t.Mapping[str, Status]
#: A play that holds the lock is at it itself; the next pass comes soon.
LOCK_SECONDS = 5.0
#: News of the kernel lead to a pass at once, but not to more than one in so many seconds.
REST_SECONDS = 1.0


def memory_path(fabric: str) -> str:
    return persistence.folder(fabric) + "/kubespan-watch.json"


def status_path(fabric: str, ending: str = "json") -> str:
    return f"{persistence.RUN_ROOT}/{fabric}-kubespan.{ending}"


def desired_state(fabric: str) -> Data | None:
    """The KubeSpan part of the state that holds now; None when there is none."""
    opened = persistence.load_state(fabric, candidate=True) if transaction.pending_or_none(fabric) is not None else None
    state = opened or persistence.load_state(fabric)
    return state.kubespan if state else None


def load_memory(fabric: str) -> dict[str, Status]:
    found = files.content(memory_path(fabric))
    return parse_state(found.decode("utf-8", "replace")) if found is not None else {}


def one_pass(
    fabric: str, statuses: Statuses, now: float | None = None, follower: Following | None = None
) -> dict[str, Status]:
    """Read, decide, write what differs, show. Returns the new statuses. Raises LinuxError, GenerationChanged.

    follower: who listens to the discovery service, where the state has one.
    """
    with HostLock(alias_of(fabric), LOCK_SECONDS):
        state = desired_state(fabric)
        if state is None:
            if follower is not None:
                follower.update(None)
            return dict(statuses)
        layout = kubespan.layout_of(state)
        moment = time.time() if now is None else now
        found, refused = kubespan.all_peers(fabric, state)
        peers = {peer.public_key: peer for peer in found}
        result = run_pass(peers, statuses, _live(layout.device), moment)
        states = {key: status.state for key, status in result.statuses.items()}
        part = kubespan.KubespanDataplane(
            fabric, state, layout, peer_states=states, endpoints=result.writes, peers=found
        )
        part.gather()
        todo = part.plan()
        if todo.changed:
            part.apply()
        _remember(fabric, statuses, result.statuses)
        rows = status_rows(result.statuses, moment)
        seen = harvest(bool(state.get("harvest")), [peer.to_json() for peer in found], rows)
        discovery = None
        if follower is not None:
            follower.update(state, seen)
            discovery = follower.shown(refused)
        _show(fabric, result.statuses, moment, [change.id for change in todo.changes], rows, seen, discovery)
        return result.statuses


class Following(t.Protocol):
    """What a pass needs of the follower of the discovery service."""

    def update(self, state: Data | None, harvested: t.Sequence[Data] = ()) -> None:
        """The state that holds now."""

    def news(self) -> bool:
        """Whether what it shows has changed since it was shown."""

    def shown(self, refused: t.Sequence[Refusal]) -> Data | None:
        """What a status has of the service."""


def _follower(fabric: str, before: Following | None) -> Following | None:
    """A follower from when the state first has a discovery service."""
    state = desired_state(fabric)
    if before is not None or not (state or {}).get("discovery"):
        return before
    from .discovery import Follower

    return Follower(fabric, joined=lambda: bool((desired_state(fabric) or {}).get("discovery")))


def _live(name: str) -> t.Mapping[str, LivePeer]:
    """The device's peers; none without a device."""
    link = read_link(name)
    if link is None or not link["implementation"]:
        return {}
    return read_device(name, link["implementation"]).peers


def _remember(fabric: str, before: Statuses, after: Statuses) -> None:
    """Only what differs is written: the file has no times of passes in it."""
    text = render_state(after)
    if text != render_state(before) or files.read_state(memory_path(fabric)) is None:
        files.write_state(memory_path(fabric), files.FileState("file", 0o600, text.encode("utf-8")))


def _show(
    fabric: str,
    statuses: Statuses,
    now: float,
    written: t.Sequence[str],
    rows: t.Sequence[Data],
    seen: t.Sequence[Data],
    discovery: Data | None,
) -> None:
    content: Data = {"version": 1, "at": int(now), "peers": rows, "harvested": seen, "written": list(written)[:50]}
    if discovery is not None:
        content["discovery"] = discovery
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    files.write_state(status_path(fabric), files.FileState("file", 0o600, text.encode("utf-8")))
    # for everybody's eyes: a collector of metrics does not run as root
    files.write_state(status_path(fabric, "prom"), files.FileState("file", 0o644, metrics(statuses).encode("utf-8")))


def watch(fabric: str, interval: float = RECONCILE_INTERVAL) -> None:
    """For ever. A pass that fails is reported once and tried again."""
    statuses: dict[str, Status] = load_memory(fabric)
    monitor = Monitor()
    reported = ""
    follower: Following | None = None
    while True:
        monitor.forget()
        stamp = _stamp(fabric)
        try:
            follower = _follower(fabric, follower)
            statuses = one_pass(fabric, statuses, follower=follower)
            reported = _tell("", reported)
        except (LinuxError, OSError, ValueError, GenerationChanged) as error:
            reported = _tell(str(error) or type(error).__name__, reported)
        deadline = time.monotonic() + interval
        time.sleep(REST_SECONDS)
        while time.monotonic() < deadline and _stamp(fabric) == stamp and not monitor.wait(1.0):
            if follower is not None and follower.news():
                break


def _tell(problem: str, before: str) -> str:
    if problem != before:
        sys.stdout.write((problem or "all is well again") + "\n")
        sys.stdout.flush()
    return problem


def _stamp(fabric: str) -> tuple[t.Any, ...]:
    """Changes whenever the play, a confirmation or a rollback wrote another state, and the discovery service said something new."""
    paths = (persistence.state_path(fabric), persistence.candidate_path(fabric), persistence.members_path(fabric))
    return tuple(files.stamp(path) for path in paths)
