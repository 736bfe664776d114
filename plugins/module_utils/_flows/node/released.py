# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's mesh that is left to the program which made it before: devices, keys, peers and routes stay, and our marks go (semaphore 3.6)."""

from __future__ import annotations

import typing as t

from ..._dataplane.constants import BOOT_PROTOCOL, MAIN_TABLE, ROUTE_PROTOCOL
from ..._dataplane.route_plan import route_id
from ..._linux.host import snapshot
from ..._linux.host.links import set_link
from ..._linux.netlink.routes import read_routes, write_routes
from ..._linux.stats import Stats
from ..._plan.plan import Plan
from .parts import GoneDevices, Part, differing

Data = dict[str, t.Any]


class LeftRoutes(Part):
    """Routes into owned devices, which become routes like any other, each in its place and at once."""

    def __init__(self, devices: t.Iterable[str]) -> None:
        self._devices = sorted(devices)
        self._routes: list[Data] = []

    def gather(self) -> Data:
        self._routes = [
            route
            for route in read_routes(MAIN_TABLE)
            if route["protocol"] == ROUTE_PROTOCOL and route["dev"] in self._devices
        ]
        return {}

    def plan(self) -> Plan:
        todo = Plan()
        for route in self._routes:
            todo.update("route", route_id(route, MAIN_TABLE), {"protocol": ROUTE_PROTOCOL}, {"protocol": BOOT_PROTOCOL})
        return todo

    def snapshot(self, before: Data) -> None:
        before.update(
            routes=snapshot.take_routes(self._routes, self._devices, ROUTE_PROTOCOL, ()), route_devices=self._devices
        )

    def apply(self) -> Data:
        return Stats().as_dict(netlink_writes=write_routes(MAIN_TABLE, BOOT_PROTOCOL, self._routes, []))

    def verify(self) -> list[str]:
        self.gather()
        return differing(self.plan())


class LeftDevices(GoneDevices):
    """Owned devices, which lose the mark of their owner and nothing else."""

    def plan(self) -> Plan:
        todo = Plan()
        for device, found in self._marked():
            todo.update("link", device.name, {"alias": found["link"]["alias"]}, {"alias": None})
        return todo

    def _marked(self) -> list[tuple[t.Any, Data]]:
        rows = zip(self.desired, self.actual)
        return [
            (device, found)
            for device, found in rows
            if found["link"] is not None and found["link"]["alias"] == device.alias
        ]

    def snapshot(self, before: Data) -> None:
        for device, found in self._marked():
            before["devices"][device.name] = snapshot.take_device(device.name, found["link"], found["wireguard"])

    def apply(self) -> Data:
        stats, names = Stats(), [device.name for device, dummy in self._marked()]
        for name in names:
            set_link(name, alias="")
        return stats.as_dict(netlink_writes=len(names))

    def verify(self) -> list[str]:
        self.gather()
        return differing(self.plan())


def parts_left(fabric: str, names: t.Sequence[str]) -> t.Iterator[Part]:
    """What leaves the devices of these names to somebody else; routes first, which are known by the owned devices."""
    yield LeftRoutes(names)
    yield LeftDevices(fabric, names)
