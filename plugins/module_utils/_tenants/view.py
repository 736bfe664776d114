# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both servers' objects as they were read, indexed once, and kept up to date with the answers to our own writes; and the addresses and prefixes
of a source object, written out or allocated in a Prefix of its own (11.3, 14.3)."""

from __future__ import annotations

import typing as t

from .._plan.object_plan import Key
from .fields import Object, addresses, controller, get, items, name, namespace, text, uid
from .links import claimer
from .options import APINET, NETWORK_INTERFACE, PREFIX, SOURCE, VIRTUAL_IP, Options, selected
from .store import key_of

Sides = dict[tuple[str, str], dict[tuple[str, str], dict[str, t.Any]]]


class NotRead(Exception):
    """A list that is needed was not read to its end, so nothing may be concluded from what is missing in it."""

    def __init__(self, side: str, kind: str) -> None:
        self.side, self.kind = side, kind
        super().__init__(f"the {side} server's list of {kind} is incomplete")


class View:
    """A snapshot. ``unread`` names lists that failed: using one of them raises NotRead."""

    def __init__(
        self,
        source: t.Iterable[Object],
        apinet: t.Iterable[Object],
        options: Options,
        unread: t.Iterable[tuple[str, str]] = (),
    ) -> None:
        self.options = options
        self.unread = frozenset(unread)
        self._objects: Sides = {}
        #: (kind, namespace, name) of source objects with refused claims: they exist, and are left alone
        self.left_out: frozenset[tuple[str, str, str]] = frozenset()
        self._claims: dict[tuple[str, str, str], dict[str, t.Any]] = {}
        profile = options.profile
        groups = {SOURCE: (profile.source, profile.ipam), APINET: (profile.apinet,)}
        for side, objects in ((SOURCE, source), (APINET, apinet)):
            for obj in objects:
                if obj.get("apiVersion") in groups[side]:
                    self.put(side, obj)

    def put(self, side: str, obj: Object) -> None:
        """Note an object as a server answered it."""
        key = key_of(obj)
        self._objects.setdefault((side, key.kind), {})[key.namespace, key.name] = dict(obj)

    def drop(self, side: str, key: Key) -> None:
        self._objects.get((side, key.kind), {}).pop((key.namespace, key.name), None)

    def narrow(self, left_out: t.Iterable[tuple[str, str, str]], changed: t.Iterable[dict[str, t.Any]]) -> None:
        """Map these source objects no more, and those as given here, until the next time."""
        self.left_out = frozenset(left_out)
        self._claims = {(str(obj.get("kind")), namespace(obj), name(obj)): obj for obj in changed}

    def mapped(self, kind: str) -> list[dict[str, t.Any]]:
        """The source objects of a kind that are to be mapped, as far as their claims hold."""
        found = [obj for obj in self.every(SOURCE, kind) if selected(obj, self.options)]
        places = [(kind, namespace(obj), name(obj)) for obj in found]
        return [self._claims.get(place, obj) for place, obj in zip(places, found) if place not in self.left_out]

    def every(self, side: str, kind: str) -> list[dict[str, t.Any]]:
        """All objects of a kind, by namespace and name."""
        self._read(side, kind)
        found = self._objects.get((side, kind), {})
        return [found[place] for place in sorted(found)]

    def twins(self, kind: str) -> list[dict[str, t.Any]]:
        """Objects of the network side in our namespace."""
        return [obj for obj in self.every(APINET, kind) if namespace(obj) == self.options.apinet_namespace]

    def source(self, kind: str, within: str, called: str) -> dict[str, t.Any] | None:
        self._read(SOURCE, kind)
        place = (kind, within, called)
        return self._claims.get(place) or self._objects.get((SOURCE, kind), {}).get((within, called))

    def twin(self, kind: str, called: str) -> dict[str, t.Any] | None:
        """One object of the network side in our namespace."""
        self._read(APINET, kind)
        return self._objects.get((APINET, kind), {}).get((self.options.apinet_namespace, called))

    def objects(self, side: str) -> list[dict[str, t.Any]]:
        """Everything that was read of one side: what check mode starts its stores from."""
        kinds = sorted(kind for where, kind in self._objects if where == side)
        return [obj for kind in kinds for obj in self._objects[side, kind].values()]

    def now(self, side: str, key: Key) -> dict[str, t.Any] | None:
        return self._objects.get((side, key.kind), {}).get((key.namespace, key.name))

    def _read(self, side: str, kind: str) -> None:
        if (side, kind) in self.unread:
            raise NotRead(side, kind)


class Index:
    """What one pass looks up over and over, built once for it."""

    def __init__(self, view: View) -> None:
        profile = view.options.profile
        self.by_uid: dict[str, dict[str, t.Any]] = {}
        self.by_claimer: dict[str, list[dict[str, t.Any]]] = {}
        self._holders: dict[str, set[str]] = {}
        for twin in view.twins(NETWORK_INTERFACE):
            self.by_uid.setdefault(uid(twin), twin)
            holder = claimer(NETWORK_INTERFACE, twin, profile)
            if holder is not None:
                self.by_claimer.setdefault(holder, []).append(twin)
            for address in addresses(twin, "spec", "publicIPs"):
                self._holders.setdefault(address, set()).add(uid(twin))
        self._targets: dict[tuple[str, str], list[dict[str, t.Any]]] = {}
        for virtual_ip in view.every(SOURCE, VIRTUAL_IP):
            place = (namespace(virtual_ip), text(virtual_ip, "spec", "targetRef", "uid"))
            self._targets.setdefault(place, []).append(virtual_ip)
        #: uids of objects that this pass has promised to one claimer
        self.taken: set[str] = set()

    def targeting(self, within: str, interface: str) -> list[dict[str, t.Any]]:
        """Virtual IPs of a namespace that point at the interface of this uid."""
        return self._targets.get((within, interface), []) if interface else []

    def held_elsewhere(self, address: str, twin: Object) -> bool:
        return bool(self._holders.get(address, set()) - {uid(twin)})


def allocated_prefix(view: View, within: str, called: str, owner: str = "") -> dict[str, t.Any] | None:
    """The Prefix of a name once it is allocated; with ``owner`` only if it is controlled by the object of that uid."""
    prefix = view.source(PREFIX, within, called)
    if prefix is None or get(prefix, "status", "phase") != "Allocated" or not text(prefix, "spec", "prefix"):
        return None
    if owner and (controller(prefix) or {}).get("uid") != owner:
        return None
    return prefix


def interface_prefixes(view: View, source: Object) -> tuple[list[str], list[str]]:
    """(prefixes of an interface in their order, names of those that are not allocated yet)."""
    found, missing = [], []
    for index, entry in enumerate(items(source, "spec", "prefixes")):
        if text(entry, "value"):
            found.append(text(entry, "value"))
        elif get(entry, "ephemeral") is not None:
            called = f"{name(source)}-pf-{index}"
            prefix = allocated_prefix(view, namespace(source), called)
            if prefix is None:
                missing.append(called)
            else:
                found.append(text(prefix, "spec", "prefix"))
    return found, missing


def balancer_addresses(view: View, source: Object) -> tuple[list[dict[str, t.Any]], list[str]]:
    """(sources of an internal load balancer's addresses as {index, ip, ipFamily}, Prefixes that are not there yet)."""
    found: list[dict[str, t.Any]] = []
    missing = []
    for index, entry in enumerate(items(source, "spec", "ips")):
        if text(entry, "value"):
            found.append({"index": index, "ip": text(entry, "value"), "ipFamily": None})
        elif get(entry, "ephemeral") is not None:
            called = f"{name(source)}-{index}"
            prefix = allocated_prefix(view, namespace(source), called, uid(source))
            if prefix is None:
                missing.append(called)
                continue
            address = text(prefix, "spec", "prefix").partition("/")[0]
            found.append({"index": index, "ip": address, "ipFamily": text(prefix, "spec", "ipFamily") or None})
    return found, missing
