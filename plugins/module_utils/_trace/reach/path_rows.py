# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one node would change on the paths of packets, as questions about a range of addresses. Pure."""

from __future__ import annotations

import typing as t

from .classes import Range, ranges

Data = dict[str, t.Any]
#: Fields of a device that move everything that it carries.
_LINK_CHANGES = {"public_key": "key_changed", "listen_port": "port_changed", "mtu": "mtu_changed"}


def covered(inner: Range, outer: t.Collection[Range]) -> bool:
    """Whether one of the ranges contains another one."""
    return inner in outer or any(
        version == inner[0] and first <= inner[1] and inner[2] <= last for version, first, last, _length in outer
    )


class DeviceChange:
    """The change of one device with its peers and routes."""

    def __init__(self, link: t.Mapping[str, t.Any] | None, peers: t.Sequence[Data], routes: t.Sequence[Data]) -> None:
        self._link = link or {}
        self.any = bool(link or peers or routes)
        self.created = self._link.get("action") == "create"
        self.deleted = self._link.get("action") == "delete"
        self._keys = {str(row["key"]) for row in peers}
        self._before: set[Range] = set()
        self._after: set[Range] = set()
        self._endpoints: set[Range] = set()
        for row in peers:
            old, new = row.get("before") or {}, row.get("after") or {}
            before, after = ranges(old.get("allowed_ips")), ranges(new.get("allowed_ips"))
            self._before.update(before)
            self._after.update(after)
            if old and new and old.get("endpoint") != new.get("endpoint"):
                self._endpoints.update(after)
        self._routes_before = ranges([row["dst"] for row in routes if row["action"] == "delete"])
        self._routes_made = set(ranges([row["dst"] for row in routes if row["action"] == "create"]))

    def removes(self, pod: Range) -> bool:
        """Whether no peer has a range any more that one has today."""
        return self.deleted or (covered(pod, self._before) and not covered(pod, self._after))

    def held(self, pod: Range, planned: tuple[str, tuple[Range, ...]], open_: bool = False) -> bool:
        """Whether a peer has a range today. planned: (key, ranges) of the peer that shall have it; open_: whether each node decides that."""
        if covered(pod, self._before):
            return True
        key, allowed = planned
        return not covered(pod, self._after) and key not in self._keys and (open_ or covered(pod, allowed))

    def routed(self, pod: Range, planned: t.Collection[Range]) -> bool:
        """Whether a route leads to a range today. planned: those that shall be."""
        kept = [one for one in planned if one not in self._routes_made]
        return covered(pod, kept) or covered(pod, self._routes_before)

    def moved(self, pods: t.Iterable[Range]) -> str:
        """What is different about a way that stays; empty where nothing is."""
        before, after = self._link.get("before") or {}, self._link.get("after") or {}
        for name, reason in _LINK_CHANGES.items():
            if before and after and before.get(name) != after.get(name):
                return reason
        for pod in pods:
            if covered(pod, self._endpoints):
                return "endpoint_changed"
            if covered(pod, self._before) and covered(pod, self._after):
                return "peer_changed"
        return ""


class PathRows:
    """``paths`` of one node, see path_changes; ``kept``: clusters of which it keeps all peers."""

    def __init__(self, paths: t.Mapping[str, t.Any]) -> None:
        self.links: t.Mapping[str, t.Any] = paths.get("links") or {}
        self.kept = frozenset(paths.get("kept") or ())
        #: Devices with a peer that stays and gets another preshared key.
        self.new_secrets = frozenset(map(str, paths.get("secrets") or ()))
        self._peers: dict[str, list[Data]] = {}
        self._routes: dict[str, list[Data]] = {}
        for found, name in ((self._peers, "peers"), (self._routes, "routes")):
            for row in paths.get(name) or ():
                found.setdefault(str(row["device"]), []).append(row)
        self._made: dict[str, DeviceChange] = {}
        self._new_keys: frozenset[str] | None = None

    def any(self) -> bool:
        """Whether anything would change."""
        return bool(self.links or self._peers or self._routes or self.new_secrets)

    def of(self, device: str) -> DeviceChange:
        """The change of one device."""
        if device not in self._made:
            self._made[device] = DeviceChange(
                self.links.get(device), self._peers.get(device, ()), self._routes.get(device, ())
            )
        return self._made[device]

    def goes(self, device: str) -> bool:
        """Whether a device is there that goes."""
        return (self.links.get(device) or {}).get("action") == "delete"

    def new_keys(self) -> frozenset[str]:
        """Devices that stay and get another key."""
        if self._new_keys is None:
            self._new_keys = frozenset(
                name for name, (before, after) in self._sides() if before["public_key"] != after["public_key"]
            )
        return self._new_keys

    def raised_mtus(self) -> list[str]:
        """Devices that would take larger packets than today."""
        return sorted(name for name, (before, after) in self._sides() if (before["mtu"] or 0) < (after["mtu"] or 0))

    def _sides(self) -> t.Iterator[tuple[str, tuple[Data, Data]]]:
        for name, row in self.links.items():
            if row.get("before") and row.get("after"):
                yield name, (row["before"], row["after"])

    def canonical(self) -> t.Any:
        """The same for nodes that change in the same way: without their own keys."""
        links = {
            name: [
                row["action"],
                *(
                    (row.get("before") or {}).get(field) != (row.get("after") or {}).get(field)
                    for field in _LINK_CHANGES
                ),
            ]
            for name, row in self.links.items()
        }
        return [links, self._peers, self._routes, sorted(self.kept), sorted(self.new_secrets)]
