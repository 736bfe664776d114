# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A KubeSpan node and the discovery service: announced, found and renewed (kubespan 5.3, 7.4).

The state's ``discovery``: {url, ca, mesh_id, cluster, pod_cidrs, node_cidrs, overlay, balanced, announce: of affiliate_of, filters}. Who
was found is no part of the state: it is kept in ``kubespan-members.json``, which only root reads, and the node's peers are those of the
state and those. The play reads the service once and announces the node; the watcher's Follower renews and listens.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import typing as t

from ...._linux import files
from ...._linux.errors import LinuxError
from ...._linux.host.discovery_service import PackagesMissing, Service, ServiceError, parse_url
from ...._linux.host.facts import read_host
from ...._linux.wireguard.keys import KeyFile, read_text
from ...._mesh.kubespan import members as found_members
from ...._mesh.kubespan.annotations import Affiliate
from ...._mesh.kubespan.config import parse_mesh
from ...._mesh.kubespan.endpoints import parse_addr_port
from ...._mesh.kubespan.generations import GENERATIONS, MAX_ENDPOINTS, make_layout
from ...._mesh.kubespan.identity import mesh_subnet
from ...._mesh.kubespan.member_claims import Grants, Own, Result, peers_with
from ...._mesh.kubespan.members import LIFETIME, RENEWED_AFTER, Members, Reading, Row
from ...._mesh.kubespan.peers import peers_of
from ...._mesh.kubespan.sealing import seal_affiliate, seal_endpoint
from ...._plan.plan import Pending, Plan, Refusal
from ...._values.addresses import parse_address, special_kind
from ...._values.refused import ValueRefused
from .. import persistence
from ..parts import Part
from .node import INPUTS, affiliate_of, identity_path

Data = dict[str, t.Any]
#: Changes of members are written at most once in so many seconds.
_REST_SECONDS = 1.0
#: Seconds until the own record is announced again after it was deleted or replaced.
_RECLAIM_SECONDS = 10.0
#: New ones make no new conversation before so many seconds have passed.
_SHARE_SECONDS = 30.0
#: Endpoints of others are announced at most so many at once, since the service counts requests.
_HARVESTED = 50


def load_members(fabric: str) -> tuple[Members, list[str]]:
    """Members, and the addresses at which the service has seen this node."""
    return found_members.of_json(persistence.load_json(persistence.members_path(fabric)))


def _write_members(fabric: str, members: Members, seen: t.Iterable[str]) -> None:
    files.write_state(persistence.members_path(fabric), files.json_file(0o600, found_members.to_json(members, seen)))


def settings_of(given: t.Mapping[str, t.Any], discovery: t.Mapping[str, t.Any]) -> Data:
    """The part of the state. given: the node's options, discovery: its ``discovery`` among them. Raises ValueRefused: bad_url, bad_ca."""
    parse_url(discovery.get("url"))
    ca = discovery.get("ca") or ""
    if ca and not (ca.isascii() and "-----BEGIN CERTIFICATE-----" in ca):
        raise ValueRefused(
            "bad_ca", "kubespan_discovery_ca is no certificate in PEM, as lookup('file', 'PATH') reads one"
        )
    config = given.get("config") or {}
    return {
        "url": discovery["url"],
        "ca": ca,
        "mesh_id": given["mesh_id"],
        "cluster": discovery.get("cluster") or given["cluster"],
        **{name: sorted(discovery.get(name) or ()) for name in ("pod_cidrs", "node_cidrs", "overlay")},
        "balanced": list(given.get("balanced") or ()),
        "filters": (config.get("filters") or {}).get("peerEndpoints"),
        "announce": {name: given.get(name) for name in INPUTS if given.get(name)},
    }


def own_affiliate(fabric: str, state: t.Mapping[str, t.Any], seen: t.Sequence[str] = ()) -> Affiliate | None:
    """This node's, from its files and its kernel; None before it has a key and an id."""
    identity = persistence.load_json(identity_path(fabric)) or {}
    key = KeyFile(state["private_key_file"]).state()["public_key"]
    if not key or not identity.get("node_id") or not identity.get("mac"):
        return None
    discovery = state["discovery"]
    layout, gen = make_layout(**state["layout"]), GENERATIONS[state["generation"]]
    return affiliate_of(discovery["announce"], identity, key, read_host(), discovery["mesh_id"], layout, gen, seen)


def _secret(state: t.Mapping[str, t.Any]) -> bytes:
    """The secret, of the file that the node has. Raises ValueRefused."""
    text, _status = read_text(state["preshared_key_file"])
    return parse_mesh(state["discovery"]["mesh_id"], (text or "").strip())[1]


def peers_with_members(
    fabric: str, state: t.Mapping[str, t.Any], members: Members | None = None, own: Affiliate | None = None
) -> Result:
    """The node's peers, those of the state and those that were found; None: as the file has them."""
    peers = peers_of(state)
    known = load_members(fabric)[0] if members is None else members
    known = found_members.aged(known, time.time())
    if not known:
        return Result(peers, [])
    mine = own or own_affiliate(fabric, state)
    if mine is None:
        return Result(peers, [])
    discovery = state["discovery"]
    grants = Grants(
        discovery["cluster"],
        discovery["pod_cidrs"],
        discovery["node_cidrs"],
        discovery["overlay"],
        discovery["balanced"],
    )
    key, node_id = (("" if isinstance(mine[name], Pending) else mine[name]) for name in ("public_key", "node_id"))
    networks = [*mine["additional_addresses"], *(_host(text) for text in mine["addresses"])]
    subnet = mesh_subnet(discovery["mesh_id"])
    me = Own(node_id, key, mine["kubespan_address"], networks)
    result = peers_with(peers, known, grants, me, subnet, discovery["filters"])
    return Result(result.peers, found_members.capped(result.refused))


def _host(text: str) -> str:
    return text + ("/128" if ":" in text else "/32")


class Conversation:
    """One connection to the service, for one mesh. Raises ServiceError, PackagesMissing."""

    def __init__(self, settings: t.Mapping[str, t.Any], secret: bytes) -> None:
        self.secret = secret
        self.service = Service(settings["url"], settings["mesh_id"], settings["ca"] or None)

    def hello(self) -> list[str]:
        """The address at which the service sees this node, if a node can have it."""
        text = self.service.hello()
        return [text] if text and special_kind(parse_address(text)) is None else []

    def announce(self, affiliate: Affiliate) -> None:
        """Raises ValueRefused too: record_too_long."""
        data = seal_affiliate(self.secret, affiliate, os.urandom(12))
        self.service.announce(affiliate["node_id"], data, self._sealed(affiliate["endpoints"]), LIFETIME)

    def share(self, harvested: t.Iterable[t.Mapping[str, str]]) -> None:
        """Endpoints at which this node sees others (kubespan 7.4)."""
        for row in list(harvested)[:_HARVESTED]:
            self.service.announce(row["affiliate_id"], None, self._sealed([row["endpoint"]]), LIFETIME)

    def _sealed(self, endpoints: t.Iterable[str]) -> list[bytes]:
        return [seal_endpoint(self.secret, parse_addr_port(text)) for text in list(endpoints)[:MAX_ENDPOINTS]]

    def rows(self) -> list[Row]:
        """Everything that the service has."""
        return [Row(*row) for row in self.service.rows()]


def package_missing(error: PackagesMissing) -> LinuxError:
    """The same for a module; its role may install them."""
    return LinuxError("ask", "the discovery service", str(error), package=",".join(error.packages))


_WRONG_SECRET = "no record of mesh {0} at {1} can be opened with mesh_secret: correct it, it is the secret of the cluster; nothing was read"


class Found(t.NamedTuple):
    """What a play read: ``reading`` of the service, None where it did not answer; ``seen``: of hello; ``rows``."""

    reading: Reading | None
    seen: list[str]
    rows: list[Row]
    problem: str
    reason: str = ""

    def shown(self, url: str) -> Data:
        """What a play returns of it: {url, reached, members, reason, message}; no member counts before the secret opens its record."""
        members = len(self.reading.members) if self.reading is not None else 0
        reached = self.reading is not None
        return {"url": url, "reached": reached, "members": members, "reason": self.reason, "message": self.problem}


def ask(settings: t.Mapping[str, t.Any], secret: bytes, known: Members, own: tuple[str, str]) -> Found:
    """One reading of the service for a play. Raises LinuxError where packages are missing."""
    try:
        talk = Conversation(settings, secret)
    except PackagesMissing as error:
        raise package_missing(error) from None
    try:
        seen, rows = talk.hello(), talk.rows()
    except ServiceError as error:
        return Found(
            None,
            [],
            [],
            f"{error.message} [{error.reason}]; peers stay as they are, and the watcher goes on trying",
            error.reason,
        )
    finally:
        talk.service.close()
    reading = found_members.read_rows(rows, secret, known, own, time.time(), snapshot=True)
    problem = _WRONG_SECRET.format(settings["mesh_id"], settings["url"]) + " [wrong_secret]" if reading.problem else ""
    return Found(reading, seen, rows, problem, "wrong_secret" if problem else "")


class Announcement(Part):
    """This node's record at the service, and the file of members; after the device, since it needs its key."""

    def __init__(
        self, fabric: str, state: Data, secret: bytes, affiliate: t.Callable[[], Affiliate], found: Found
    ) -> None:
        self.fabric, self._state, self._secret, self._affiliate, self._found = fabric, state, secret, affiliate, found

    def gather(self) -> Data:
        self._known, self._seen = load_members(self.fabric)
        return {}

    def plan(self) -> Plan:
        todo, found = Plan(), self._found
        if found.reading is None:
            return todo
        affiliate = self._affiliate()
        name = str(affiliate["node_id"])
        pending = any(isinstance(affiliate[key], Pending) for key in ("node_id", "public_key"))
        if pending or not found_members.is_announced(found.rows, self._secret, affiliate):
            there = any(row.id == affiliate["node_id"] and row.data for row in found.rows)
            shown = {"service": self._state["discovery"]["url"], "lifetime": LIFETIME}
            if there:
                todo.update("affiliate", name, {"service": shown["service"]}, shown)
            else:
                todo.create("affiliate", name, shown)
        self._changed = todo.changed
        return todo

    def apply(self) -> Data:
        if self._found.reading is None:
            return {}
        if self._found.reading.members != self._known or not files.content(persistence.members_path(self.fabric)):
            _write_members(self.fabric, self._found.reading.members, self._found.seen or self._seen)
        if self._changed:
            self._announce()
        return {}

    def _announce(self) -> None:
        """The watcher does it again when it fails here: a host that joined is not taken back for it."""
        affiliate = own_affiliate(self.fabric, self._state, self._found.seen) or self._affiliate()
        talk = Conversation(self._state["discovery"], self._secret)
        try:
            talk.announce(affiliate)
        except (ServiceError, ValueRefused):
            return
        finally:
            talk.service.close()

    def verify(self) -> list[str]:
        return []


def take_away(settings: t.Mapping[str, t.Any], node_id: str) -> None:
    """A node's record at the service of these settings; none without an id. A service that is away forgets it by itself within its lifetime."""
    if not node_id:
        return
    try:
        service = Service(settings["url"], settings["mesh_id"], settings["ca"] or None)
    except PackagesMissing:
        return
    try:
        service.hello()
        service.leave(node_id)
    except ServiceError:
        return
    finally:
        service.close()


def node_id_of(fabric: str) -> str:
    """The id by which this node is announced, of its file; empty where it has none."""
    return str((persistence.load_json(identity_path(fabric)) or {}).get("node_id") or "")


class Withdrawal(Part):
    """The record of a node that leaves: taken away, or said when it expires by itself. The file with the id may go before it."""

    def __init__(self, fabric: str, previous: t.Mapping[str, t.Any]) -> None:
        self.fabric, self._settings = fabric, previous["discovery"]

    def gather(self) -> Data:
        self._node_id = node_id_of(self.fabric)
        return {}

    def plan(self) -> Plan:
        todo = Plan()
        if self._node_id:
            todo.delete("affiliate", self._node_id, {"service": self._settings["url"]})
        return todo

    def apply(self) -> Data:
        take_away(self._settings, self._node_id)
        return {}

    def verify(self) -> list[str]:
        return []


def _reason_of(error: Exception) -> str:
    if isinstance(error, PackagesMissing):
        return "packages_missing"
    return str(getattr(error, "reason", "") or type(error).__name__)


class Follower:
    """The watcher's side: announces, renews and listens, in a thread of its own, and writes the file of members.

    ``state``: the node's KubeSpan state, which ``update`` replaces. What it shows is in ``status``.
    """

    def __init__(
        self, fabric: str, clock: t.Callable[[], float] = time.time, joined: t.Callable[[], bool] = lambda: True
    ) -> None:
        """joined: whether the node's state still has the service, asked before each announcement: a play may have taken the record away."""
        self.fabric, self._clock, self._joined = fabric, clock, joined
        self.status: Data = {}
        self._shown = self.status
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._state: Data | None = None
        self._mine: Affiliate | None = None
        self._service: Service | None = None
        self._thread: threading.Thread | None = None
        self._harvested: list[Data] = []
        self._shared: list[Data] = []
        self._shared_at = 0.0
        self._members, self._seen = load_members(fabric)
        self._written, self._dirty = 0.0, False
        self._reclaim_at: float | None = None

    def update(self, state: Data | None, harvested: t.Sequence[Data] = ()) -> None:
        """The state that holds now, and where others are seen. Starts the conversation, or ends it."""
        settings = (state or {}).get("discovery")
        mine = own_affiliate(self.fabric, state, self._seen) if state and settings else None
        with self._lock:
            changed = (settings, mine) != ((self._state or {}).get("discovery"), self._mine)
            self._state, self._mine, self._harvested = (state if settings else None), mine, list(harvested)
            shares = bool(self._missing_shares()) and time.monotonic() - self._shared_at > _SHARE_SECONDS
            changed = changed or shares or (self._reclaim_due() and bool(settings))
            if changed:
                self._reclaim_at = None
            service = self._service
        if changed:
            self._wake.set()
            if service is not None:
                service.cancel()
        if settings and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="discovery", daemon=True)
            self._thread.start()
        if not settings and self.status:
            self.status = {}
        self._write(late=True)

    def _reclaim_due(self) -> bool:
        return self._reclaim_at is not None and time.monotonic() >= self._reclaim_at

    def _missing_shares(self) -> list[Data]:
        return [row for row in self._harvested if row not in self._shared]

    def _run(self) -> None:
        attempt = 0
        while True:
            with self._lock:
                state, mine = self._state, self._mine
            self._wake.clear()
            if state is None or mine is None or not self._joined():
                self._wake.wait(5.0)
                continue
            started = time.monotonic()
            try:
                self._converse(state, mine)
                attempt = 0
            except Exception as error:  # pylint: disable=broad-except  # nobody else would start this thread again
                # a conversation that held for a while was no failure
                attempt = 0 if time.monotonic() - started > 60 else attempt + 1
                self._note("away", _reason_of(error), str(getattr(error, "message", error)))
                self._wake.wait(found_members.backoff(attempt - 1, random.random()))

    def _converse(self, state: Data, mine: Affiliate) -> None:
        """Announce, then listen until it is time to announce again, or something here is new."""
        secret = _secret(state)
        talk = Conversation(state["discovery"], secret)
        with self._lock:
            self._service = talk.service
        try:
            seen = talk.hello()
            if seen and seen != self._seen:
                self._seen, self._dirty = seen, True
                mine = own_affiliate(self.fabric, state, seen) or mine
                with self._lock:
                    self._mine = mine
            if not self._joined():
                return
            talk.announce(mine)
            with self._lock:
                fresh, self._shared = list(self._harvested), list(self._harvested)
                self._shared_at = time.monotonic()
            talk.share(fresh)
            own, first = (mine["node_id"], mine["public_key"]), True
            for rows, deleted in talk.service.watch(RENEWED_AFTER):
                self._listen([Row(*row) for row in rows], deleted, secret, own, first, state)
                first = False
                if self._wake.is_set():
                    return
        finally:
            with self._lock:
                self._service = None
            talk.service.close()

    def _listen(
        self, rows: list[Row], deleted: bool, secret: bytes, own: tuple[str, str], first: bool, state: Data
    ) -> None:
        if deleted and not first:
            gone = {row.id for row in rows}
            reading = Reading(found_members.without(self._members, gone), [], own_lost=own[0] in gone)
        else:
            reading = found_members.read_rows(rows, secret, self._members, own, self._clock(), snapshot=first)
        members, refused = reading.members, reading.refused
        if members != self._members:
            self._members, self._dirty = members, True
        if reading.problem:
            self._note(
                "wrong_secret",
                reading.problem,
                _WRONG_SECRET.format(state["discovery"]["mesh_id"], state["discovery"]["url"]),
            )
        elif first or refused or self.status.get("state") != "connected":
            self._note("connected", "", "", refused)
        self._write()
        if reading.own_lost and self._reclaim_at is None:
            # a play that takes the node out of the mesh deletes the record too, and ends this watcher soon after
            self._reclaim_at = time.monotonic() + _RECLAIM_SECONDS

    def _note(self, state: str, reason: str, message: str, refused: t.Sequence[Refusal] = ()) -> None:
        before = self.status
        since = before["since"] if before.get("state") == state else int(self._clock())
        rows = [row._asdict() for row in refused[: found_members.SHOWN_REFUSALS]]
        self.status = {"state": state, "since": since, "reason": reason, "message": message, "refused": rows}
        if before.get("state") != state:
            sys.stdout.write(f"discovery service: {message or 'connected'}\n")
            sys.stdout.flush()

    def _write(self, late: bool = False) -> None:
        """The file of members, at most once in a while; what waits is written by the next pass. Not once the node has left: it is gone then."""
        if not self._joined():
            return
        with self._lock:
            now = time.monotonic()
            if not self._dirty or (not late and now - self._written < _REST_SECONDS):
                return
            self._dirty, self._written = False, now
            members, seen = found_members.aged(self._members, self._clock()), list(self._seen)
            if files.read_folder(persistence.folder(self.fabric)) is not None:
                _write_members(self.fabric, members, seen)
                if not self._joined():  # it left between the question and the writing
                    files.remove(persistence.members_path(self.fabric))

    def news(self) -> bool:
        """Whether what it shows has changed since it was shown; members that wait are written."""
        self._write(late=True)
        return self.status is not self._shown or self._reclaim_due()

    def shown(self, refused: t.Sequence[Refusal]) -> Data | None:
        """What ``status`` has of it; None without discovery. refused: of the claims of members."""
        self._shown = self.status
        if not self.status:
            return None
        rows = [*self.status["refused"], *(row._asdict() for row in refused)][: found_members.SHOWN_REFUSALS]
        return dict(self.status, refused=rows, members=len(self._members))
