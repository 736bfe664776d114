# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's whole dataplane in one call: keys, devices with their peers, routes, and what survives a reboot.

gather -> plan -> apply -> verify over the same functions that the single modules use (decision 30). Public keys may be Pending: such
a peer is shown and left for the next call.
"""

from __future__ import annotations

import contextlib
import time
import typing as t

from ..._dataplane.node_spec import (
    NodeDevice,
    NodeSpec,
    NodeState,
    alias_of,
    parse_node,
    peer_budget,
    spec_of_state,
    state_to_keep,
    with_kept_ways,
    with_known_secrets,
    with_unread_devices,
)
from ..._linux.errors import LinuxError
from ..._linux.host.links import links_with_alias, read_link
from ..._linux.host.lock import HostLock
from ..._linux.stats import Stats, total
from ..._plan.plan import Pending, Plan, from_wire, to_wire
from ..._values.addresses import parse_address
from ..._values.generations import NEXT, WHOLE_MESH, is_bypass, is_bypass_key, next_key_file
from . import guard, parts, persistence, transaction

if t.TYPE_CHECKING:
    from .kubespan import dataplane as kubespan, node as kubespan_node

Data = dict[str, t.Any]


#: How long a run waits for another one on the same host.
LOCK_SECONDS = 60.0


class DataplaneError(Exception):
    """The node is not in the state that was just applied."""


#: What a caller turns into a message: everything else is a bug and shows its traceback.
FAILURES = (DataplaneError, transaction.NotConfirmed, transaction.Unfinished, LinuxError, OSError, ValueError)


def run(desired: t.Mapping[str, t.Any], check: bool = False) -> Data:
    """Converge one node, see parse_node; the result has the keys of every module plus ``public_keys``. Raises one of FAILURES."""
    return converge(parse_node(from_wire(dict(desired))), check)


def converge(spec: NodeSpec, check: bool = False) -> Data:
    """The same from a parsed wish."""
    started = time.monotonic()
    if not check:
        spec = spec._replace(devices=tuple(device.ready() for device in spec.devices))
    opened: Data | None = None
    with contextlib.nullcontext() if check else HostLock(alias_of(spec.fabric), LOCK_SECONDS):
        other = _other_name(spec) or _other_init(spec)
        if other is not None:
            return dict(
                other.result(),
                warnings=[],
                diff=other.diff(),
                public_keys={},
                stats=dict(Stats().as_dict(), seconds=0.0),
            )
        warnings = _left_open(spec.fabric, check)
        node = NodeDataplane(spec)
        if spec.released and node.has_kubespan():
            raise DataplaneError(
                "a KubeSpan mesh is on this node, and there is no program that it could be left to; state: absent takes it away"
            )
        todo = node.plan()
        if not check and todo.changed:
            opened = _write(node, todo)
    stats = dict(node.stats, seconds=round(time.monotonic() - started, 3))
    result: Data = dict(
        todo.result(), warnings=warnings + todo.warnings, diff=todo.diff(), public_keys=node.public_keys(), stats=stats
    )
    if check and todo.changed:
        from ..._dataplane.path_changes import path_changes  # a run that writes returns none of it

        paths = path_changes(todo.changes)
        result.update({"paths": paths} if paths else {})
    if node.identity is not None:
        result["kubespan"] = node.announcement()
        if node.identity.found is not None:
            result["discovery"] = node.identity.found.shown(node.identity.state["discovery"]["url"])
    if opened is not None:
        result["transaction"] = {"id": opened["id"], "seconds": opened["seconds"], "armed": opened["armed"]}
    answer: Data = to_wire(result)
    return answer


def _other_name(spec: NodeSpec) -> Plan | None:
    """A refusal, when this machine is another host of the inventory already; an open change of that one is left alone as well."""
    opened = (
        persistence.load_state(spec.fabric, candidate=True)
        if transaction.pending_or_none(spec.fabric) is not None
        else None
    )
    for state in (opened, persistence.load_state(spec.fabric)):
        recorded = state.host if state else None
        if recorded is not None and spec.node and recorded != spec.node and recorded in spec.hosts:
            todo = Plan()
            text = "this machine is host {0} of the inventory already, so nothing was written; remove one of the two, or give {1} its own ansible_host"
            todo.refuse(spec.node, "claimed_twice", text.format(recorded, spec.node))
            return todo
    return None


def _other_init(spec: NodeSpec) -> Plan | None:
    """A refusal, in a node pod, when the host's own init has the mesh: two programs would keep it, and each undo what the other does."""
    units = [path for path in persistence.units_of_the_host(spec.fabric) if path not in spec.accepted]
    if not units:
        return None
    todo = Plan()
    text = (
        "an earlier run over SSH left this unit, which the pod cannot end, so nothing was written; "
        "take the node out with the playbook leave over SSH, then run again"
    )
    for path in units:
        todo.refuse(path, "two_inits", text)
    return todo


def _left_open(fabric: str, check: bool) -> list[str]:
    """Take back what an earlier run left unconfirmed, so that this one starts from a confirmed state; or say so."""
    try:
        if transaction.pending(fabric) is None:
            return []
        if check:
            return ["a change of this node waits for its confirmation; this plan compares with what that change made"]
        record = transaction.settle(fabric, "another run of the play came first") or {}
    except transaction.JournalInvalid as error:
        if check:
            return [f"{error}; the next run keeps it alongside and goes on from the confirmed state"]
        return [str(transaction.set_aside(fabric, error)["message"])]
    if record.get("outcome") == transaction.CONFIRMED:
        return ["an earlier change was kept, and what it still had to do is done now"]
    return ["an earlier change was never confirmed and was taken back first"]


def _write(node: NodeDataplane, todo: Plan) -> Data | None:
    """Apply and read back; under a transaction when the host shall undo what nobody confirms. Returns its journal."""
    if not node.spec.rollback_seconds or node.safe(todo):
        node.at_once()
        node.apply()
        node.verify()
        return None
    journal = node.begin()
    try:
        node.apply()
        node.verify()
        transaction.applied(node.spec.fabric, journal)
    except FAILURES as error:
        transaction.settle(node.spec.fabric, "applying failed")
        raise DataplaneError(f"{error}; everything was put back") from error
    return journal


def confirm(fabric: str, ident: str) -> Data:
    """Keep a change; the caller's connection must be younger than it. Raises one of FAILURES."""
    return dict(transaction.confirm(fabric, ident, LOCK_SECONDS), changed=True)


def revert(fabric: str, ident: str | None) -> Data:
    """Take a change back now (None: whichever waits); ``changed`` is False when it was over. Raises one of FAILURES."""
    try:
        record, changed = transaction.revert(fabric, ident, LOCK_SECONDS)
    except transaction.JournalInvalid as error:
        return dict(recover(fabric, error), changed=True)
    return dict(record, changed=changed)


def recover(fabric: str, error: transaction.JournalInvalid) -> Data:
    """After an invalid journal: keep it alongside and bring the host to its confirmed state. Raises one of FAILURES."""
    with HostLock(alias_of(fabric), LOCK_SECONDS):
        record = transaction.set_aside(fabric, error)
    restore(persistence.load_state(fabric) or NodeState(fabric))
    return record


def settle(fabric: str, message: str) -> Data | None:
    """Bring an interrupted transaction to its end, for the boot unit. Raises one of FAILURES."""
    with HostLock(alias_of(fabric), LOCK_SECONDS):
        try:
            return transaction.settle(fabric, message)
        except transaction.JournalInvalid as error:
            return transaction.set_aside(fabric, error)


def restore(state: NodeState) -> Data:
    """Apply a confirmed state at boot, the same way. Raises one of FAILURES."""
    return converge(spec_of_state(state))


class NodeDataplane:
    """All parts of one run, in the order in which they are written."""

    def __init__(self, spec: NodeSpec) -> None:
        self.spec = spec
        self.parts: list[parts.Part] = []
        self.stats: Data = {}
        self.previous: NodeState | None = None
        self.devices: parts.Devices | None = None
        self.identity: kubespan_node.KubespanNode | None = None
        self.kubespan: kubespan.KubespanDataplane | None = None

    def plan(self) -> Plan:
        """Read everything once and decide."""
        todo = Plan()
        for part in self._parts():
            self.parts.append(part)
            self.stats = total(self.stats, part.gather())
            todo.extend(part.plan())
        return todo

    def _parts(self) -> t.Iterator[parts.Part]:
        """Each part when all before it are planned, which gives it what it depends on."""
        self.previous = previous = persistence.load_state(self.spec.fabric)
        self.spec = spec = with_kept_ways(with_unread_devices(self.spec, previous), previous)
        devices = tuple(row for row in spec.devices if not row.kept_only or read_link(row.name) is not None)
        if len(devices) < len(spec.devices):
            self.spec = spec = spec._replace(devices=devices)
        if spec.kubespan and any(is_bypass(device.name) for device in spec.devices):
            from .kubespan import bypass

            self.spec = spec = bypass.as_the_device(spec)
        if any("sources" in raw for raw in spec.tables):
            from . import tables

            self.spec = spec = spec._replace(tables=tables.resolved(spec.tables, previous))
        yield guard.Folders(spec)
        if spec.kubespan and not spec.kubespan.get("state"):
            # its secret comes before the bypass device, which has peers with it
            yield from self._identity_part(spec.kubespan)
            secrets = self.identity.fingerprints if self.identity is not None else {}
            self.spec = spec = spec._replace(devices=tuple(with_known_secrets(row, secrets) for row in spec.devices))
        if spec.preshared_keys:
            yield parts.PresharedFiles(spec.preshared_keys)
        self.devices = parts.Devices(spec, previous)
        names = {device.name for device in spec.devices}
        others = [name for name in links_with_alias(alias_of(spec.fabric)) if name not in names]
        freed = self._freed(self.devices, others)
        if freed is not None:
            yield freed
        first = self._gives_port_up(self.devices)
        if first:
            yield from self._kubespan_parts(others, ())
        yield self.devices
        stays = bool(spec.devices or spec.kubespan)
        yield guard.Settings(spec, self.devices.usable, reports=stays and spec.reports)
        if not first:
            yield from self._kubespan_parts(others, freed.names if freed is not None else ())
        early = freed.names if freed is not None else ()
        gone = [
            name
            for name in others
            if name not in early and (self.kubespan is None or name != self.kubespan.layout.device)
        ]
        if spec.released:
            from . import released

            yield from released.parts_left(spec.fabric, gone)
        else:
            tabled = [raw for raw in spec.tables if raw.get("before_routes")]
            if tabled:
                yield self._tables(early=True)
            yield parts.Routes(self.devices.usable, [*gone, *early], spec.adopt, early, spec.accepted)
            yield parts.GoneDevices(spec.fabric, gone)
        if spec.tables or (previous and previous.tables) or spec.empty:
            yield self._tables(early=False)
        known = {device.key_file for device in spec.devices} | (previous.all_key_files if previous else set())
        needed = {device.key_file for device in spec.devices}
        if spec.remove_keys:
            every = known | set(spec.key_files)
            yield parts.RemovedKeys((every | set(map(next_key_file, every))) - needed)
        else:
            passed = {path for path in known if is_bypass_key(path)} - needed
            passed |= self._passed_next_keys(known)
            if passed and not spec.released:
                yield parts.RemovedKeys(passed)
        if not spec.released:
            unused = parts.passed_preshared_files(known, {*spec.preshared_keys, *self._preshared_files()})
            if unused:
                yield parts.RemovedFiles(unused)
        if self.kubespan is None or self.kubespan.state is None:
            yield from self._kubespan_leftovers(others)
        if spec.persist:
            yield parts.Files(spec.fabric, self.state(), known, deferred=bool(spec.rollback_seconds))

    def _passed_next_keys(self, known: t.Collection[str]) -> set[str]:
        """The files of next keys of devices that are to keep their keys."""
        rotated = {device.key_file for device in self.spec.devices if device.wireguard.next_key_for}
        mesh = self.kubespan.state if self.kubespan is not None else None
        own = {mesh["private_key_file"]} if mesh is not None and not mesh.get("next_key_for") else set()
        return {next_key_file(path) for path in own.union(known) - rotated if not is_bypass_key(path)}

    def _tables(self, early: bool) -> parts.Part:
        from . import tables  # seldom there in a KubeSpan mesh, and not compiled where it is not

        layout = self.kubespan.layout if self.kubespan is not None else None
        return tables.Tables(self.spec, self.previous, layout, early)

    def _freed(self, devices: parts.Devices, others: t.Collection[str]) -> parts.FreedDevices | None:
        """Our own devices that are in the way of those to come, such as one under a former ``device_alias``: the same port, another name."""
        spec = self.spec
        mesh = (
            {self.previous.kubespan["layout"]["device"]}
            if self.previous is not None and self.previous.kubespan
            else set()
        )
        old = [name for name in others if name not in mesh]
        ports = {device.wireguard.listen_port for device in devices.rows}
        if spec.kubespan:
            from ..._mesh.kubespan.generations import make_layout

            layout = make_layout(**((spec.kubespan.get("state") or spec.kubespan).get("layout") or {}))
            ports.add(layout.port)
            old = [name for name in old if name != layout.device]
        return parts.FreedDevices(spec.fabric, old, ports) if old and not spec.released and ports - {None, 0} else None

    def _gives_port_up(self, devices: parts.Devices) -> bool:
        """Whether a KubeSpan mesh that goes has the port of a device to come; otherwise it goes after them."""
        before = self.previous.kubespan if self.previous is not None else None
        ports = {device.wireguard.listen_port for device in devices.rows}
        return bool(before) and not self.spec.kubespan and (before or {})["layout"]["port"] in ports

    def has_kubespan(self) -> bool:
        """Whether a KubeSpan mesh of the fabric is on this node, by its record or by its files."""
        state = persistence.load_state(self.spec.fabric)
        return bool(state and state.kubespan) or persistence.has_kubespan_files(self.spec.fabric)

    def _has_kubespan(self, others: t.Collection[str]) -> bool:
        before = self.previous.kubespan if self.previous else None
        return bool(self.spec.kubespan or before or others or persistence.has_kubespan_files(self.spec.fabric))

    def _identity_part(self, given: t.Mapping[str, t.Any]) -> t.Iterator[parts.Part]:
        """Who the node is in a KubeSpan mesh."""
        from .kubespan import node as kubespan_node

        before = self.previous.kubespan if self.previous else None
        self.identity = kubespan_node.KubespanNode(self.spec.fabric, given, before)
        yield self.identity

    def _kubespan_parts(self, others: t.Collection[str], leaving: t.Collection[str]) -> t.Iterator[parts.Part]:
        if not self._has_kubespan(others):
            return
        # A module comes as source text, every time: what a node has nothing to do with is not compiled there.
        from .kubespan import dataplane as kubespan

        spec, given = self.spec, self.spec.kubespan
        before = self.previous.kubespan if self.previous else None
        if given and given.get("state"):
            self.kubespan = kubespan.KubespanDataplane(spec.fabric, given["state"])
        elif given and self.identity is not None:
            turned_away = given.get("turned_away") or ""
            self.kubespan = kubespan.KubespanDataplane(
                spec.fabric,
                self.identity.state,
                adopt=spec.adopt,
                purge=self.identity.purge,
                secrets=self.identity.fingerprints,
                previous=before,
                leaving=leaving,
                peers=self.identity.peers,
                budget=lambda live, after, desired: peer_budget("kubespan", live, after, desired, spec, turned_away),
                retired_key=given.get("retired_key"),
            )
        elif before or kubespan.layout_of(None).device in others:
            self.kubespan = kubespan.KubespanDataplane(spec.fabric, None, kubespan.layout_of(before))
        if self.kubespan is not None:
            yield self.kubespan
        if self.identity is not None:
            yield from self.identity.announcement()
        if before and before.get("discovery") and not (self.kubespan and (self.kubespan.state or {}).get("discovery")):
            from .kubespan import discovery

            yield discovery.Withdrawal(spec.fabric, before)

    def _kubespan_leftovers(self, others: t.Collection[str]) -> t.Iterator[parts.Part]:
        if self._has_kubespan(others) and not self.spec.kubespan:
            from .kubespan import node as kubespan_node

            before = self.previous.kubespan if self.previous else None
            yield parts.RemovedFiles(kubespan_node.leftovers(self.spec.fabric, before, self.spec.remove_keys))

    def state(self) -> NodeState | None:
        """What the boot unit shall restore; None for a node that leaves."""
        mesh = self.kubespan.state if self.kubespan is not None else None
        rows = self._kept_rows()
        if not rows and mesh is None and not self.spec.tables:
            return None
        return state_to_keep(self.spec._replace(devices=rows), self.previous, mesh)

    def _preshared_files(self) -> set[str]:
        """Those that the boot unit will need."""
        state = self.state()
        peers = [peer for device in state.devices for peer in device.peers] if state is not None else []
        return {peer.preshared.file for peer in peers if peer.preshared and peer.preshared.file}

    def _kept_rows(self) -> tuple[NodeDevice, ...]:
        """The devices that are owned: not those that were refused and never were, or a boot would be about another program's (decision 54)."""
        if self.devices is None:
            return ()
        owned = {device.name for device in (*self.devices.usable, *(self.previous.devices if self.previous else ()))}
        return tuple(device for device in self.devices.rows if device.name in owned)

    def safe(self, todo: Plan) -> bool:
        """Whether the changes are those of a rotation of keys that cannot cut this node off, see safe_changes."""
        routes = [part for part in self.parts if isinstance(part, parts.Routes)]
        before = self.previous
        if self.devices is None or self.kubespan is not None or not routes or before is None:
            return False  # a KubeSpan mesh steers packets by marks as well
        rows = [*before.devices, *self.devices.rows]
        if not any(is_bypass(device.name) for device in rows):
            return False
        from ..._dataplane import safe_changes  # of a rotation alone
        from ..._linux.host import connections

        ranges: dict[str, set[str]] = {}
        for device in rows:
            ranges.setdefault(device.name, set()).update(*(peer.allowed_ips for peer in device.peers))
        used = safe_changes.sending([table for part in routes for table in part.tables], ranges)
        key_files = {device.name: device.key_file for device in rows}
        connected = {parse_address(row.remote) for row in connections.connections()}
        tunnels = safe_changes.Tunnels(key_files, used, persistence.records(self.spec.fabric), connected)
        return safe_changes.all_safe(todo.changes, tunnels)

    def at_once(self) -> None:
        """Nobody has to confirm this change, so its record is written with it."""
        for part in self.parts:
            if isinstance(part, parts.Files):
                part.at_once()

    def begin(self) -> Data:
        """Keep what every object that this plan may touch is like now, and arm. Returns the journal."""
        before: Data = {"devices": {}, "routes": [], "route_devices": [], "kubespan": None, "tables": None, "keys": []}
        for part in self.parts:
            part.snapshot(before)
        before["keys"] = sorted(set(before["keys"]))
        state = self.state() or NodeState(self.spec.fabric, absent=True)
        return transaction.begin(self.spec.fabric, self.spec.rollback_seconds, before, state, self.spec.persist)

    def apply(self) -> None:
        """Write; devices before the routes into them, and routes before their device goes. Raises LinuxError."""
        for part in self.parts:
            self.stats = total(self.stats, part.apply())

    def verify(self) -> None:
        """Read back what was written; raises DataplaneError that names what the kernel did not take."""
        left = [text for part in self.parts for text in part.verify()]
        if left:
            raise DataplaneError("after applying, the kernel still differs: " + "; ".join(left[:20]))

    def announcement(self) -> Data | None:
        """What this node announces in the KubeSpan mesh; None without one."""
        if self.identity is None or self.kubespan is None or self.kubespan.state is None:
            return None
        key = self.kubespan.actual["key"]
        return {
            "address": self.kubespan.state["address"],
            "annotations": self.identity.announced(key["public_key"] if key else None),
            "record": dict(self.identity.affiliate),
            "peers": len(self.kubespan.peers),
            "harvested": self.identity.harvested(),
        }

    def public_keys(self) -> Data:
        """Remote cluster to this node's public key towards it; deferred where the key is not made yet."""
        found: Data = {}
        for device, actual in zip(self.devices.rows, self.devices.actual) if self.devices is not None else ():
            following = actual.get("next_key")
            if following and device.wireguard.next_key_for == actual["key"]["public_key"]:
                text = f"next public key of {device.node or 'this node'} towards {device.remote}"
                found[device.remote + NEXT] = following["public_key"] or Pending(text)
            if is_bypass(device.name):
                continue  # it has the key of its device
            if actual["key"]["state"] == "key":
                found[device.remote] = actual["key"]["public_key"]
            elif actual["key"]["state"] == "absent":
                found[device.remote] = Pending(f"public key of {device.node or 'this node'} towards {device.remote}")
        following = self.kubespan.next_public_key() if self.kubespan is not None and self.kubespan.state else None
        if following:
            found[WHOLE_MESH + NEXT] = following
        return found
