# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a node's dataplane: what each reads, plans, keeps for a rollback, writes and reads back."""

from __future__ import annotations

import abc
import typing as t

from ..._dataplane.constants import KERNEL_PROTOCOL, ROUTE_PROTOCOL
from ..._dataplane.device_plan import DevicePlan
from ..._dataplane.device_spec import Device
from ..._dataplane.node_spec import (
    NodeDevice,
    NodeSpec,
    NodeState,
    alias_of,
    last_endpoints,
    peer_budget,
    with_own_port,
    with_own_ranges,
)
from ..._dataplane.route_plan import RoutePlan, parse_routes, plan_routes
from ..._linux import files
from ..._linux.host import settings, snapshot
from ..._linux.stats import total
from ..._linux.wireguard.keys import KeyFile, write_new
from ..._plan.plan import Plan, Refusal
from ..._values.generations import is_bypass, is_preshared_file
from . import ip_routes, persistence, wireguard_device

Data = dict[str, t.Any]


class Part(abc.ABC):
    """One part of one run. A constructor keeps what it is given; the methods are called in this order."""

    @abc.abstractmethod
    def gather(self) -> Data:
        """Read what is there. Returns stats."""

    @abc.abstractmethod
    def plan(self) -> Plan:
        """What differs from what is desired."""

    def snapshot(self, before: Data) -> None:
        """Add what a rollback puts back to the journal, see transaction.begin; ``keys`` are paths of files. By default nothing."""
        del before

    @abc.abstractmethod
    def apply(self) -> Data:
        """Do what was planned; nothing planned, nothing written. Returns stats. Raises LinuxError."""

    @abc.abstractmethod
    def verify(self) -> list[str]:
        """Read back: what still differs."""


def differing(todo: Plan) -> list[str]:
    """The changes of a plan for a message: ``update link wireguard.aws (mtu)``."""
    return [
        " ".join([change.action, change.kind, change.id] + ([f"({', '.join(change.fields)})"] if change.fields else []))
        for change in todo.changes
    ]


class WireGuardDevices(Part):
    """Devices with their keys, addresses and peers."""

    def __init__(self, devices: t.Iterable[Device]) -> None:
        self.desired: list[Device] = list(devices)
        self.actual: list[Data] = []
        self.plans: list[DevicePlan] = []

    def gather(self) -> Data:
        self.actual = [wireguard_device.gather(device) for device in self.desired]
        return total(*(found["stats"] for found in self.actual))

    def plan(self) -> Plan:
        self.plans = [wireguard_device.plan(device, found) for device, found in zip(self.desired, self.actual)]
        return self._all()

    def _all(self) -> Plan:
        todo = Plan()
        for planned in self.plans:
            todo.extend(planned)
        return todo

    def snapshot(self, before: Data) -> None:
        for device, found, planned in zip(self.desired, self.actual, self.plans):
            if planned.changed:
                before["devices"][device.name] = snapshot.take_device(device.name, found["link"], found["wireguard"])
            before["keys"] += planned.key_files(device.private_key_file)

    def apply(self) -> Data:
        rows = zip(self.desired, self.actual, self.plans)
        return total(*(wireguard_device.apply(*row) for row in rows if row[2].changed))

    def verify(self) -> list[str]:
        self.gather()
        return differing(self.plan())


class GoneDevices(WireGuardDevices):
    """Links with the fabric's mark that nobody wants any more."""

    def __init__(self, fabric: str, names: t.Iterable[str]) -> None:
        super().__init__(Device(name, present=False, alias=alias_of(fabric)) for name in names)


class FreedDevices(GoneDevices):
    """Those of them that have a port of a device to come: they go first, or it would never come up. ``names``: which they are, once planned."""

    def __init__(self, fabric: str, names: t.Iterable[str], ports: t.Container[int | None]) -> None:
        super().__init__(fabric, names)
        self._ports = ports

    @property
    def names(self) -> list[str]:
        return [device.name for device in self.desired]

    def gather(self) -> Data:
        stats = super().gather()
        rows = [
            row
            for row in zip(self.desired, self.actual)
            if row[1]["wireguard"].listen_port and row[1]["wireguard"].listen_port in self._ports
        ]
        self.desired, self.actual = [device for device, found in rows], [found for device, found in rows]
        return stats


class Devices(WireGuardDevices):
    """The devices towards the remote clusters. ``rows``: as they hold after contests and budgets."""

    def __init__(self, spec: NodeSpec, previous: NodeState | None) -> None:
        super().__init__(())
        self._spec, self._previous = spec, previous
        self._refused: list[Refusal] = []
        self._written = False
        self.rows: list[NodeDevice] = [
            with_own_ranges(with_own_port(device, previous), previous) for device in spec.devices
        ]

    def gather(self) -> Data:
        if any(device.contested or not device.peers_known for device in self.rows):
            from . import contests

            # a bypass device has peers that nobody contests, at ranges that their nodes have by the device itself
            bypass = [device for device in self.rows if is_bypass(device.name)]
            rows = [device for device in self.rows if device not in bypass]
            settled, self._refused = contests.settle_peers(rows, self._previous, contests.live_peers)
            self.rows = [*settled, *bypass]
        self.desired = [device.wireguard for device in self.rows]
        return super().gather()

    def plan(self) -> Plan:
        todo, self.plans = Plan(), []
        todo.refused.extend(self._refused)
        for place, (device, found) in enumerate(zip(self.rows, self.actual)):
            last = {} if self._written else last_endpoints(self._previous, device.name)
            planned = wireguard_device.plan(device.wireguard, found, last)
            live = found["wireguard"].peers
            refusal = None
            if device.peers_known:
                refusal = peer_budget(device.remote, live, planned.after, device.peers, self._spec, device.turned_away)
            if refusal is not None:
                todo.refused.append(refusal)
                self.rows[place] = device.kept()
                self.desired[place] = self.rows[place].wireguard
                planned = wireguard_device.plan(self.desired[place], found, last)
            self.plans.append(planned)
        return todo.extend(self._all())

    def verify(self) -> list[str]:
        # a peer that goes on sending from where it was is answered there until it has its own change: the kernel took the endpoint all the same
        self._written = True
        return super().verify()

    @property
    def usable(self) -> list[NodeDevice]:
        """Without those with a link that we may not touch, so that nothing may be routed into it either."""
        refused = {refusal.object for planned in self.plans for refusal in planned.refused}
        return [device for device in self.rows if device.name not in refused]


class Routes(Part):
    """Routes into the devices. ``gone``: names of devices that lose their routes; ``freed``: those of them that went before, and their routes with them.

    A family that the host has switched off is refused alone, by the setting's name: its routes would fail, and all else with them.
    """

    def __init__(
        self,
        devices: t.Sequence[NodeDevice],
        gone: t.Iterable[str],
        adopt: bool,
        freed: t.Collection[str] = (),
        accepted: t.Container[str] = (),
    ) -> None:
        off = {
            device.name
            for device in devices
            if any(":" in cidr for cidr in device.routes) and settings.without_ipv6(device.name)
        }
        rows = [(device.name, cidr) for device in devices for cidr in device.routes]
        routes = [
            {"dst": cidr, "dev": name, "scope": "link"} for name, cidr in rows if ":" not in cidr or name not in off
        ]
        self._off = sorted({cidr for name, cidr in rows if ":" in cidr and name in off})
        self._freed, self._accepted = freed, accepted
        names = {*gone, *(device.name for device in devices)}
        self._desired = parse_routes({"devices": sorted(names), "routes": routes, "adopt": adopt})
        self._actual: Data = {}
        self._plan = RoutePlan()

    def gather(self) -> Data:
        self._actual = ip_routes.gather(self._desired)
        return {}

    @property
    def tables(self) -> list[dict[str, list[str]]]:
        """Where the devices lead, before and after, besides what the kernel gives a device with an address: {device: [network]}."""
        found: list[dict[str, list[str]]] = []
        before = [route for route in self._actual["routes"] if route["protocol"] != KERNEL_PROTOCOL]
        for rows in (before, self._desired.routes):
            table: dict[str, list[str]] = {}
            for route in rows:
                if route.get("dev"):
                    table.setdefault(str(route["dev"]), []).append(str(route["dst"]))
            found.append(table)
        return found

    def plan(self) -> Plan:
        self._plan = plan_routes(self._desired, self._actual, need_devices=False)
        name = settings.name_of(*settings.IPV6_OFF)
        if self._off and name not in self._accepted:
            who = "; ".join(settings.set_by(*settings.IPV6_OFF)) or "no file of the host sets it"
            shown = ", ".join(self._off[:5]) + (", ..." if len(self._off) > 5 else "")
            text = (
                "IPv6 is switched off on this host ({0}), so it gets no route to {1}; its IPv4 mesh is not concerned. Set it to 0, or name it in "
                "node_dataplane_accepted"
            )
            self._plan.refuse(name, "family_off", text.format(who, shown))
        return self._plan

    def snapshot(self, before: Data) -> None:
        others = {(route["dst"], route["metric"]) for route in self._plan.replacements}
        devices = list(self._desired.devices or ())
        before.update(
            routes=snapshot.take_routes(self._actual["routes"], devices, ROUTE_PROTOCOL, others), route_devices=devices
        )

    def apply(self) -> Data:
        # what led into a device that has gone is gone, too
        self._plan.deletions = [route for route in self._plan.deletions if route["dev"] not in self._freed]
        return ip_routes.apply(self._desired, self._plan) if self._plan.changed else {}

    def verify(self) -> list[str]:
        return differing(plan_routes(self._desired, ip_routes.gather(self._desired), need_devices=False))


class RemovedFiles(Part):
    """Files that go, with their folder when nothing else is in it; what they hold is never shown."""

    kind = "secret"

    def __init__(self, paths: t.Iterable[str]) -> None:
        self._paths = sorted(paths)
        self._found: dict[str, Data] = {}

    def gather(self) -> Data:
        shown = {path: self._read(path) for path in self._paths}
        self._found = {path: state for path, state in shown.items() if state is not None}
        return {}

    def _read(self, path: str) -> Data | None:
        return {"mode": "0600"} if files.read_state(path) is not None else None

    def plan(self) -> Plan:
        todo = Plan()
        for path, state in self._found.items():
            todo.delete(self.kind, path, state)
        return todo

    def snapshot(self, before: Data) -> None:
        before["keys"].extend(self._found)

    def apply(self) -> Data:
        for path in self._found:
            files.remove(path)
            persistence.forget_folder(path)
        return {}

    def verify(self) -> list[str]:
        return []


class RemovedKeys(RemovedFiles):
    """Private keys of devices that are not desired any more."""

    kind = "key"

    def _read(self, path: str) -> Data | None:
        state = KeyFile(path).state()
        return None if state["state"] == "absent" else {"mode": state["mode"], "public_key": state["public_key"]}


class PresharedFiles(Part):
    """Preshared keys that came with the call, each in a file that root alone reads. What they hold is never shown."""

    def __init__(self, keys: t.Mapping[str, str]) -> None:
        self._keys = keys
        self._missing: list[str] = []

    def gather(self) -> Data:
        self._missing = sorted(path for path, key in self._keys.items() if files.read_state(path) != _secret(key))
        return {}

    def plan(self) -> Plan:
        todo = Plan()
        for path in self._missing:
            todo.create("secret", path, {"mode": "0600"})
        return todo

    def snapshot(self, before: Data) -> None:
        before["keys"].extend(self._missing)

    def apply(self) -> Data:
        for path in self._missing:
            write_new(path, self._keys[path], replace=True)
        return {}

    def verify(self) -> list[str]:
        self.gather()
        return differing(self.plan())


def _secret(key: str) -> files.FileState:
    return files.text_file(0o600, key)


def passed_preshared_files(key_files: t.Collection[str], needed: t.Container[str]) -> list[str]:
    """Files of preshared keys of these devices, and of their bypass devices, that nothing needs any more."""
    paths = [
        f"{folder}/{name}"
        for folder in sorted({path.rpartition("/")[0] for path in key_files} - {""})
        for name in files.list_folder(folder)
    ]
    return [path for path in paths if path not in needed and is_preshared_file(path, key_files)]


class Files(Part):
    """The state that the boot unit applies, its program and units; ``deferred``: left to the confirmation of the change."""

    def __init__(self, fabric: str, state: NodeState | None, key_files: t.Iterable[str], deferred: bool) -> None:
        self._fabric, self._state, self._key_files, self._deferred = fabric, state, set(key_files), deferred
        self._desired: dict[str, t.Any] = {}
        self._todo = Plan()

    def at_once(self) -> None:
        """The change has no confirmation to wait for."""
        self._deferred = False

    def gather(self) -> Data:
        self._desired = persistence.desired_files(self._fabric, self._state)
        self._todo = persistence.compare(self._fabric, self._desired, self._key_files)
        return {}

    def plan(self) -> Plan:
        return self._todo

    def apply(self) -> Data:
        if self._todo.changed and not self._deferred:
            persistence.apply(self._fabric, self._desired, self._todo)
        return {}

    def verify(self) -> list[str]:
        return []
