# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's whole dataplane in one call: keys, devices with their peers, routes, and what survives a reboot.

gather -> plan -> apply -> verify over the same functions that the single modules use (decision 30). ``desired``:

    fabric: text; devices: [{name, remote, node, mtu, txqueuelen, listen_port, listen_port_known,
    private_key_file, implementation, routes: [cidr], peers: [{public_key, endpoint, allowed_ips, persistent_keepalive, preshared_key}], peers_known}];
    persist, adopt, remove_keys: bool; accepted: [path or setting of others that is right as it is]; max_deletes: int or None; confirm_empty: [remote names];
    tables: [of node_tables]; node: the host's name in the inventory; hosts: the names of all hosts there;
    kubespan: of kubespan_node, None for no such mesh, or {"state": as resolved before} at boot;
    rollback_seconds: 0, or after how many seconds the host takes the change back unless it is confirmed

Public keys may be Pending: such a peer is shown and left for the next call.
"""

from __future__ import annotations

import contextlib
import time
import typing as t

from ..._dataplane import parts as dataplane
from ..._dataplane.constants import ROUTE_PROTOCOL
from ..._dataplane.device_spec import parse_device
from ..._linux import files
from ..._linux.errors import LinuxError
from ..._linux.host import snapshot
from ..._linux.host.links import links_with_alias
from ..._linux.host.lock import HostLock
from ..._linux.stats import Stats, total
from ..._linux.wireguard.keys import KeyFile
from ..._plan.pending import Pending, from_wire, to_wire
from ..._plan.plan import Plan
from . import guard as node_guard, ip_routes, persistence, transaction, wireguard_device

if t.TYPE_CHECKING:
    from . import kubespan, kubespan_node, tables as node_tables

Data = t.Dict[str, t.Any]


#: How long a run waits for another one on the same host.
LOCK_SECONDS = 60.0


class DataplaneError(Exception):
    """The node is not in the state that was just applied."""


#: What a caller turns into a message: everything else is a bug and shows its traceback.
FAILURES = (DataplaneError, transaction.NotConfirmed, transaction.Unfinished, LinuxError, OSError, ValueError)


def run(wanted: t.Mapping[str, t.Any], check: bool = False) -> Data:
    """Converge one node; the result has the keys of every module plus ``public_keys``. Raises one of FAILURES."""
    started = time.monotonic()
    desired = from_wire(dict(wanted))
    if not check:
        desired["devices"] = [dataplane.without_deferred(device) for device in desired["devices"]]
    opened: t.Optional[Data] = None
    with contextlib.nullcontext() if check else HostLock(dataplane.alias_of(desired["fabric"]), LOCK_SECONDS) as lock:
        warnings = list(lock.warnings) if lock is not None else []
        other = _other_name(desired)
        if other is not None:
            return dict(other.result(), warnings=warnings, diff=other.diff(), public_keys={}, stats=dict(Stats().as_dict(), seconds=0.0))
        warnings += _left_open(desired["fabric"], check)
        work = _Work(desired)
        todo = work.plan()
        if not check and todo.changed:
            opened = _write(work, int(desired.get("rollback_seconds") or 0))
    stats = dict(work.stats, seconds=round(time.monotonic() - started, 3))
    result = dict(todo.result(), warnings=warnings + todo.warnings, diff=todo.diff(), public_keys=work.public_keys(), stats=stats)
    if work.node is not None:
        result["kubespan"] = work.announcement()
    if opened is not None:
        result["transaction"] = {"id": opened["id"], "seconds": opened["seconds"], "armed": opened["armed"]}
    return to_wire(result)


def _other_name(desired: t.Mapping[str, t.Any]) -> t.Optional[Plan]:
    """A refusal, when this machine is another host of the inventory already; an open change of that one is left alone as well."""
    fabric, name, hosts = desired["fabric"], desired.get("node"), desired.get("hosts") or ()
    opened = persistence.load_json(persistence.candidate_path(fabric)) if transaction.pending_or_none(fabric) is not None else None
    for state in (opened, persistence.load_state(fabric)):
        recorded = dataplane.node_of(state)
        if recorded is not None and name and recorded != name and recorded in hosts:
            todo = Plan()
            text = "this machine is host {0} of the inventory already, so nothing was written; remove one of the two, or give {1} its own ansible_host"
            todo.refuse(str(name), "claimed_twice", text.format(recorded, name))
            return todo
    return None


def _left_open(fabric: str, check: bool) -> t.List[str]:
    """Take back what an earlier run left unconfirmed, so that this one starts from a confirmed state; or say so."""
    try:
        if transaction.pending(fabric) is None:
            return []
        if check:
            return ["a change of this node waits for its confirmation; this plan compares with what that change made"]
        record = transaction.settle(fabric, "another run of the play came first") or {}
    except transaction.JournalInvalid as error:
        if check:
            return ["{0}; the next run keeps it beside and goes on from the confirmed state".format(error)]
        return [str(transaction.set_aside(fabric, error)["message"])]
    if record.get("outcome") == transaction.CONFIRMED:
        return ["an earlier change was kept, and what it still had to do is done now"]
    return ["an earlier change was never confirmed and was taken back first"]


def _write(work: "_Work", seconds: int) -> t.Optional[Data]:
    """Apply and read back; under a transaction when the host shall undo what nobody confirms. Returns its journal."""
    if not seconds:
        work.apply()
        work.verify()
        return None
    journal = work.begin(seconds)
    try:
        work.apply(in_transaction=True)
        work.verify()
        transaction.applied(work.fabric, journal)
    except FAILURES as error:
        transaction.settle(work.fabric, "applying failed")
        raise DataplaneError("{0}; everything was put back".format(error)) from error
    return journal


def confirm(fabric: str, ident: str) -> Data:
    """Keep a change; the caller's connection must be younger than it. Raises one of FAILURES."""
    return dict(transaction.confirm(fabric, ident, LOCK_SECONDS), changed=True)


def revert(fabric: str, ident: t.Optional[str]) -> Data:
    """Take a change back now (None: whichever waits); ``changed`` is False when it was over. Raises one of FAILURES."""
    try:
        record, changed = transaction.revert(fabric, ident, LOCK_SECONDS)
    except transaction.JournalInvalid as error:
        return dict(recover(fabric, error), changed=True)
    return dict(record, changed=changed)


def recover(fabric: str, error: transaction.JournalInvalid) -> Data:
    """After an invalid journal: keep it beside and bring the host to its confirmed state. Raises one of FAILURES."""
    with HostLock(dataplane.alias_of(fabric), LOCK_SECONDS):
        record = transaction.set_aside(fabric, error)
    restore(persistence.load_state(fabric) or {"fabric": fabric, "devices": []})
    return record


def settle(fabric: str, message: str) -> t.Optional[Data]:
    """Bring an interrupted transaction to its end, for the boot unit. Raises one of FAILURES."""
    with HostLock(dataplane.alias_of(fabric), LOCK_SECONDS):
        try:
            return transaction.settle(fabric, message)
        except transaction.JournalInvalid as error:
            return transaction.set_aside(fabric, error)


def restore(state: t.Mapping[str, t.Any]) -> Data:
    """Apply a confirmed state at boot: the same way, but nothing is recorded and no budget asks."""
    kept = {"state": state["kubespan"]} if state.get("kubespan") else None
    return run(dict(state, kubespan=kept, persist=False, adopt=False, remove_keys=False, rollback_seconds=0, max_deletes=-1, confirm_empty=[], reports=False))


class _Device:
    """One device of the run: what is wanted of it, what is there, what is to do."""

    def __init__(self, request: t.Mapping[str, t.Any], last_endpoints: t.Optional[t.Mapping[str, str]] = None) -> None:
        self.last_endpoints = last_endpoints
        self.desired = parse_device(request)
        self.actual = wireguard_device.gather(self.desired)
        self.plan = wireguard_device.plan(self.desired, self.actual, last_endpoints)

    def keep_peers(self) -> None:
        """Plan again without removing any peer."""
        self.desired = self.desired._replace(purge_peers=False)
        self.plan = wireguard_device.plan(self.desired, self.actual, self.last_endpoints)

    @property
    def name(self) -> str:
        """The device's name."""
        return self.desired.name

    @property
    def refused(self) -> bool:
        """True when the link itself is not ours to touch, so that nothing may be routed into it either."""
        return any(refusal.object == self.name for refusal in self.plan.refused)

    def apply(self) -> Data:
        """Write; returns stats."""
        return wireguard_device.apply(self.desired, self.actual, self.plan)

    def left(self) -> t.List[str]:
        """Read back: what still differs from the goal."""
        self.actual = wireguard_device.gather(self.desired)
        self.plan = wireguard_device.plan(self.desired, self.actual, self.last_endpoints)
        return [" ".join([change.action, change.id] + (["({0})".format(", ".join(change.fields))] if change.fields else [])) for change in self.plan.changes]


class _Work:
    """The parts of one run. The order of the plan is the order of the writes."""

    def __init__(self, desired: t.Mapping[str, t.Any]) -> None:
        self.fabric: str = desired["fabric"]
        self.previous = persistence.load_state(self.fabric)
        self.wanted: t.List[Data] = [dataplane.with_own_port(device, self.previous) for device in desired.get("devices") or ()]
        self.desired = dict(desired, devices=self.wanted)
        self.stats: Data = {}
        self.node: t.Optional[kubespan_node.Node] = None
        self.kubespan: t.Optional[kubespan.Part] = None
        self.left_files: t.List[str] = []

    def plan(self) -> Plan:
        """Read everything once and decide."""
        todo = Plan()
        alias = dataplane.alias_of(self.fabric)
        last = dataplane.last_endpoints(self.previous)
        if any(device.get("contested") or not device.get("peers_known", True) for device in self.wanted):
            from . import contests as node_contests

            todo.refused.extend(node_contests.settle_peers(self.wanted, self.previous, node_contests.live_peers))
        self.devices = [
            _Device(dataplane.device_request(device, self.fabric, bool(self.desired.get("adopt"))), last.get(device["name"]))
            for device in self.wanted
        ]
        for wanted, device in zip(self.wanted, self.devices):
            self._mind_budget(wanted, device, todo)
        self._plan_kubespan(todo)
        names = {device["name"] for device in self.wanted}
        if self.kubespan is not None:
            names.add(self.kubespan.layout.device)
        self.gone = [
            _Device({"name": name, "state": "absent", "alias": alias})
            for name in links_with_alias(alias)
            if name not in names
        ]
        self.tables = self._tables()
        self.routes = self._plan_routes()
        self.keys = [KeyFile(path) for path in self._keys_to_remove()]
        self.files, self.files_plan = self._plan_files()
        usable = [wanted for wanted, device in zip(self.wanted, self.devices) if not device.refused]
        stays = bool(self.wanted or self.desired.get("kubespan"))
        self.guard = node_guard.Guard(self.fabric, usable, self.desired.get("accepted") or (), stays and bool(self.desired.get("reports", True)))
        todo.extend(self.guard.plan())
        for device in self.devices:
            todo.extend(device.plan)
        todo.extend(self.routes[2])
        for device in self.gone:
            todo.extend(device.plan)
        if self.node is not None:
            todo.extend(self.node.plan)
            todo.warnings.extend(self.node.warnings)
        if self.kubespan is not None:
            todo.extend(self.kubespan.plan())
        if self.tables is not None:
            todo.extend(self.tables.plan())
        for key in self.keys:
            state = key.state()
            todo.delete("key", key.path, {"mode": state["mode"], "public_key": state["public_key"]})
        for path in self.left_files:
            todo.delete("secret", path, {"mode": "0600"})
        todo.extend(self.files_plan)
        self.stats = total(*(device.actual["stats"] for device in self.devices + self.gone))
        return todo

    def _plan_kubespan(self, todo: Plan) -> None:
        given, before = self.desired.get("kubespan"), (self.previous or {}).get("kubespan")
        others = set(links_with_alias(dataplane.alias_of(self.fabric))) - {device["name"] for device in self.wanted}
        if not (given or before or others or persistence.has_kubespan_files(self.fabric)):
            return
        # A module comes as source text, every time: what a node has nothing to do with is not compiled there.
        from . import kubespan, kubespan_node

        adopt = bool(self.desired.get("adopt"))
        if given and given.get("state"):
            self.kubespan = kubespan.Part(self.fabric, given["state"], kubespan.layout_of(given["state"]))
        elif given:
            self.node = kubespan_node.Node(self.fabric, given, before)
            layout = kubespan.layout_of(self.node.state)
            self.kubespan = kubespan.Part(self.fabric, self.node.state, layout, adopt, self.node.purge, secrets=self.node.fingerprints)
            refusal = dataplane.peer_budget(
                {
                    "remote": "kubespan",
                    "peers": self.node.state["peers"],
                    "peers_known": self.node.purge,
                    "turned_away": given.get("turned_away"),
                },
                self.kubespan.device,
                self.kubespan.actual["wireguard"].peers,
                self.desired.get("max_deletes"),
                self.desired.get("confirm_empty") or (),
            )
            if refusal is not None:
                todo.refused.append(refusal)
                self.node.carry_over(before)
                self.kubespan = kubespan.Part(self.fabric, self.node.state, layout, adopt, False, secrets=self.node.fingerprints)
        else:
            self.left_files = kubespan_node.leftovers(self.fabric, before, bool(self.desired.get("remove_keys")))
            layout = kubespan.layout_of(before)
            if before or layout.device in others:
                self.kubespan = kubespan.Part(self.fabric, None, layout)

    def _tables(self) -> t.Optional["node_tables.Tables"]:
        wanted, before = list(self.desired.get("tables") or ()), list((self.previous or {}).get("tables") or ())
        leaving = not (wanted or self.wanted or self.desired.get("kubespan"))
        if not (wanted or before or leaving):
            return None
        from . import tables as node_tables

        return node_tables.Tables(self.fabric, wanted, before, self.kubespan.layout if self.kubespan is not None else None, leaving)

    @property
    def kubespan_state(self) -> t.Optional[Data]:
        """What of the KubeSpan mesh the boot unit shall restore."""
        return self.kubespan.state if self.kubespan is not None else None  # type: ignore[return-value]

    def _mind_budget(self, wanted: Data, device: _Device, todo: Plan) -> None:
        refusal = dataplane.peer_budget(
            wanted, device.plan, device.actual["wireguard"].peers, self.desired.get("max_deletes"), self.desired.get("confirm_empty") or ()
        )
        if refusal is not None:
            todo.refused.append(refusal)
            device.keep_peers()
            wanted["purge"] = False

    def _plan_routes(self) -> t.Tuple[Data, t.Any, ip_routes.RoutePlan]:
        usable = {device.name for device in self.devices if not device.refused}
        request = {
            "devices": sorted(usable | {device.name for device in self.gone}),
            "routes": [
                {"dst": cidr, "dev": device["name"], "scope": "link"}
                for device in self.wanted
                if device["name"] in usable
                for cidr in device["routes"]
            ],
            "adopt": bool(self.desired.get("adopt")),
            "purge": True,
        }
        actual = ip_routes.gather(request)
        return request, actual, ip_routes.plan(request, actual)

    def _keys_to_remove(self) -> t.List[str]:
        if not self.desired.get("remove_keys"):
            return []
        used = {device["private_key_file"] for device in self.wanted}
        known = dataplane.key_files(self.previous) | set(self.desired.get("key_files") or ())
        return [path for path in sorted(known - used) if KeyFile(path).state()["state"] != "absent"]

    def _plan_files(self) -> t.Tuple[t.Dict[str, t.Any], Plan]:
        if not self.desired.get("persist", True):
            return {}, Plan()
        state = self._state_to_keep()
        wanted = persistence.wanted_files(self.fabric, state)
        keys = dataplane.key_files(self.previous) | {device["private_key_file"] for device in self.wanted}
        return wanted, persistence.compare(self.fabric, wanted, keys)

    def begin(self, seconds: int) -> Data:
        """Keep what every object that this plan may touch is like now, and arm. Returns the journal."""
        devices = {device.name: device.actual for device in self.devices + self.gone if device.plan.changed}
        made = {str(device.desired.private_key_file) for device in self.devices if device.plan.work.get("make_key")}
        if self.kubespan is not None:
            devices[self.kubespan.layout.device] = self.kubespan.actual
            if self.kubespan.device.work.get("make_key"):
                made.add(str(self.kubespan.wanted.private_key_file))
        if self.node is not None:
            made.update(self.node.changed_files())
        made.update(self.left_files)
        routes = self.routes[2]
        before = {
            "devices": {name: snapshot.take_device(name, actual["link"], actual["wireguard"]) for name, actual in devices.items()},
            "routes": snapshot.take_routes(
                self.routes[1]["routes"],
                self.routes[0]["devices"],
                ROUTE_PROTOCOL,
                {(route["dst"], route["metric"]) for route in routes.replacements},
            ),
            "route_devices": self.routes[0]["devices"],
            "kubespan": self.kubespan.before() if self.kubespan is not None else None,
            "tables": self.tables.before() if self.tables is not None else None,
            "keys": sorted(made | {key.path for key in self.keys}),
        }
        persist = bool(self.desired.get("persist", True))
        state = self._state_to_keep() or {"fabric": self.fabric, "format": 1, "devices": [], "absent": True}
        return transaction.begin(self.fabric, seconds, before, state, persist)

    def _state_to_keep(self) -> t.Optional[Data]:
        """What the boot unit shall restore; None for a node that leaves."""
        if not self.wanted and self.kubespan_state is None and not self.desired.get("tables"):
            return None
        state = dataplane.state_to_keep(self.desired, self.previous)
        if self.kubespan_state is not None:
            state["kubespan"] = self.kubespan_state
        if self.desired.get("tables"):
            state["tables"] = list(self.desired["tables"])
        if self.desired.get("node"):
            state["node"] = self.desired["node"]
        return state

    def apply(self, in_transaction: bool = False) -> None:
        """Devices with keys and peers, routes into them; then what goes, routes before their device; the boot state last.

        in_transaction: the boot state is left to the confirmation.
        """
        self.guard.apply_folders()
        if self.node is not None:
            files.make_folder(persistence.folder(self.fabric), 0o700)  # its secrets lie there
            self.node.apply()
        parts = [device.apply() for device in self.devices if device.plan.changed]
        self.guard.apply_devices()
        if self.kubespan is not None:
            parts.append(self.kubespan.apply())
        if self.routes[2].changed:
            parts.append(ip_routes.apply(*self.routes))
        parts.extend(device.apply() for device in self.gone)
        if self.tables is not None:  # last: what a rule drops shall not be in the way of what it is for
            parts.append(self.tables.apply())
        for key in self.keys:
            key.remove()
            persistence.forget_folder(key.path)
        for path in self.left_files:
            files.remove(path)
            persistence.forget_folder(path)
        if self.files_plan.changed and not in_transaction:
            persistence.apply(self.fabric, self.files, self.files_plan)
        self.stats = total(self.stats, *parts)

    def verify(self) -> None:
        """Read back what was written; raises DataplaneError that names what the kernel did not take."""
        left = [text for device in self.devices + self.gone for text in device.left()]
        again = ip_routes.plan(self.routes[0], ip_routes.gather(self.routes[0]))
        left.extend("{0} {1}".format(change.action, change.id) for change in again.changes)
        if self.kubespan is not None and not self.kubespan.refused:
            self.kubespan = self.kubespan.again()
            left.extend("{0} {1} {2}".format(change.action, change.kind, change.id) for change in self.kubespan.plan().changes)
        left.extend(self.guard.left())
        if self.tables is not None:
            left.extend(self.tables.left())
        if left:
            raise DataplaneError("after applying, the kernel still differs: " + "; ".join(left[:20]))

    def announcement(self) -> t.Optional[Data]:
        """What this node announces in the KubeSpan mesh; None without one."""
        if self.node is None or self.kubespan is None:
            return None
        key = self.kubespan.actual["key"]
        return {
            "address": self.node.state["address"],
            "annotations": self.node.announced(key["public_key"] if key else None),
            "record": dict(self.node.affiliate),
            "peers": len(self.node.state["peers"]),
            "harvested": self.node.harvested(),
        }

    def public_keys(self) -> Data:
        """Remote cluster to this node's public key towards it; deferred where the key is not made yet."""
        found: Data = {}
        for wanted, device in zip(self.wanted, self.devices):
            if device.actual["key"]["state"] == "key":
                found[wanted["remote"]] = device.actual["key"]["public_key"]
            elif device.actual["key"]["state"] == "absent":
                found[wanted["remote"]] = Pending(
                    "public key of {0} towards {1}".format(wanted.get("node") or "this node", wanted["remote"])
                )
        return found
