# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Endpoints of a Service in one form, whether they were read from Endpoints or from EndpointSlices. Pure.

A Group is what shares its ports: a subset of an Endpoints object, or one slice. Only named fields get in (T8, T9).
"""

from __future__ import annotations

import typing as t

from .._values.exported_ranges import ExportedRanges
from .._values.refused import ValueRefused, quoted
from .._values.text import dicts_of, mapping
from .mirror_services import Manifest, Object

#: What ``endpoint_fields`` may be: ``safe`` names nothing of the source cluster that could be taken for something local.
SAFE, ALL = "safe", "all"
#: As safe, and without what is behind an endpoint.
ADDRESSES = "addresses"
_PORT_FIELDS = ("name", "port", "protocol", "appProtocol")
_TARGET_FIELDS: dict[str, tuple[str, ...]] = {
    ADDRESSES: (),
    SAFE: ("kind", "name"),
    ALL: ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"),
}
_CONDITIONS = ("ready", "serving", "terminating")
#: What is said of nearly all endpoints: one object for all of them, which nobody changes.
_READY: t.Mapping[str, t.Any] = {"ready": True}
_WELL: t.Mapping[str, t.Any] = {"ready": True, "serving": True, "terminating": False}
#: Kubernetes itself cuts Endpoints here, and does not mirror more.
MOST_ADDRESSES = 1000
_ZONE = "topology.kubernetes.io/zone"
_HOST = "kubernetes.io/hostname"


class Endpoint(t.NamedTuple):
    """``addresses`` as text; ``conditions`` as a slice has them; ``target`` the copied fields of targetRef or None."""

    addresses: tuple[str, ...]
    conditions: t.Mapping[str, t.Any]
    hostname: str | None = None
    zone: str | None = None
    node: str | None = None
    target: t.Mapping[str, t.Any] | None = None

    @property
    def bare(self) -> bool:
        """True when nothing is named but addresses."""
        return self[2:] == _NO_NAMES

    @property
    def ready(self) -> bool:
        """Kubernetes takes an unknown readiness for ready."""
        return self.conditions.get("ready") is not False


_NO_NAMES = (None, None, None, None)


class Group(t.NamedTuple):
    """Endpoints that share their ports. ``family`` is IPv4, IPv6, or None for a subset, which may hold both."""

    family: str | None
    ports: tuple[t.Mapping[str, t.Any], ...]
    endpoints: tuple[Endpoint, ...]


def as_seen(groups: t.Sequence[Group], exported: ExportedRanges | None, named: bool = False) -> list[Group]:
    """The groups of another cluster with the addresses at which its pods are seen from here (translation 4); exported None: as they are.

    ``named``: an endpoint without a host name gets the one that DNS servers make of its own address, which is then the same everywhere.
    """
    if not exported:
        return list(groups)
    return [
        group._replace(endpoints=tuple(_endpoint_as_seen(one, exported, named) for one in group.endpoints))
        for group in groups
    ]


def _endpoint_as_seen(endpoint: Endpoint, exported: ExportedRanges, named: bool) -> Endpoint:
    seen = tuple(map(exported.address, endpoint.addresses))
    hostname = endpoint.hostname
    if named and not hostname and seen != endpoint.addresses:
        text = endpoint.addresses[0].replace(".", "-").replace(":", "-")
        hostname = None if text.startswith("-") or text.endswith("-") else text
    return endpoint._replace(addresses=seen, hostname=hostname)


def _text(value: t.Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _ports(given: t.Any) -> tuple[t.Mapping[str, t.Any], ...]:
    return tuple(
        {field: port[field] for field in _PORT_FIELDS if port.get(field) is not None} for port in dicts_of(given)
    )


def _target(given: t.Any, fields: t.Sequence[str]) -> t.Mapping[str, t.Any] | None:
    if not isinstance(given, dict):
        return None
    found = {}
    for field in fields:
        value = given.get(field)
        if value and isinstance(value, str):
            found[field] = value
    return found or None


def from_endpoints(obj: Object, fields: str = SAFE) -> list[Group]:
    """Groups of an Endpoints object, one for each subset, in its order."""
    groups, copied, safe = [], _TARGET_FIELDS[fields], fields != ALL
    for subset in dicts_of(obj.get("subsets")):
        found = []
        for key, ready in (("addresses", True), ("notReadyAddresses", False)):
            conditions, seen = {"ready": ready}, set()
            for address in dicts_of(subset.get(key)):
                text = str(address.get("ip"))
                # without the uid two pods of one host are one address, and the server would merge them
                if safe and text in seen:
                    continue
                seen.add(text)
                node = None if safe else _text(address.get("nodeName"))
                hostname = _text(address["hostname"]) if "hostname" in address else None
                # the shortest way to make one: there are a hundred thousand in a large cluster
                target = _target(address.get("targetRef"), copied)
                found.append(tuple.__new__(Endpoint, ((text,), conditions, hostname, None, node, target)))
        groups.append(Group(None, _ports(subset.get("ports")), tuple(found)))
    return groups


def from_slice(obj: Object, fields: str = SAFE) -> Group:
    """The group of a slice of discovery.k8s.io/v1 or v1beta1. Raises ValueRefused unsupported_type for names."""
    family = obj.get("addressType")
    if family not in ("IPv4", "IPv6"):
        raise ValueRefused("unsupported_type", f"a slice of type {quoted(family)} holds no addresses")
    found, copied, every = [], _TARGET_FIELDS[fields], fields == ALL
    for item in dicts_of(obj.get("endpoints")):
        # nearly all have one address and no name, and there are a hundred thousand in a large cluster
        get = item.get
        texts, hostname, zone, node = get("addresses"), get("hostname"), get("zone"), get("nodeName") if every else None
        addresses = (
            ((str(texts[0]),) if len(texts) == 1 else tuple([str(text) for text in texts]))
            if isinstance(texts, list)
            else ()
        )
        topology = item.get("topology", None)
        if isinstance(topology, dict):
            zone = _text(zone) or topology.get(_ZONE)
            node = (_text(node) or topology.get(_HOST)) if every else None
        if hostname is not None or zone is not None or node is not None:
            hostname, zone, node = _text(hostname), _text(zone), _text(node)
        target = _target(get("targetRef"), copied)
        # the shortest way to make one, as in from_endpoints
        found.append(tuple.__new__(Endpoint, (addresses, _conditions(get("conditions")), hostname, zone, node, target)))
    return Group(family, _ports(obj.get("ports")), tuple(found))


def _conditions(given: t.Any) -> t.Mapping[str, t.Any]:
    if not isinstance(given, dict):
        return {}
    if given.get("ready") is True:
        if len(given) == 1:
            return _READY
        if given.get("serving") is True and given.get("terminating") is False:
            return _WELL
    return {name: given[name] for name in _CONDITIONS if isinstance(given.get(name), bool)}


def to_subsets(groups: t.Sequence[Group]) -> list[Manifest]:
    """Subsets of an Endpoints object. Groups that came from slices are joined where their ports are the same."""
    subsets = []
    for group in _joined(groups):
        sides: dict[str, list[Manifest]] = {"addresses": [], "notReadyAddresses": []}
        for texts, conditions, hostname, dummy, node, target in group.endpoints:
            ready = conditions.get("ready") is not False
            if not texts or (not ready and conditions.get("terminating")):
                continue  # Endpoints know no such state, Kubernetes leaves these out too
            address: Manifest = {"ip": texts[0]}
            if hostname:
                address["hostname"] = hostname
            if node:
                address["nodeName"] = node
            if target:
                address["targetRef"] = target
            sides["addresses" if ready else "notReadyAddresses"].append(address)
        subset: Manifest = {key: side for key, side in sides.items() if side}
        if not subset:
            continue
        if group.ports:
            subset["ports"] = [dict(port) for port in group.ports]
        subsets.append(subset)
    return subsets


def _joined(groups: t.Sequence[Group]) -> t.Iterable[Group]:
    if all(group.family is None for group in groups):
        return groups
    by_ports: dict[t.Any, dict[t.Any, Endpoint]] = {}
    ports: dict[t.Any, t.Any] = {}
    for group in groups:
        key = ports_key(group.ports)
        ports.setdefault(key, group.ports)
        for endpoint in group.endpoints:
            by_ports.setdefault(key, {}).setdefault(endpoint.addresses[:1], endpoint)
    return [
        Group(None, ports[key], tuple(by_ports[key][address] for address in sorted(by_ports[key])[:MOST_ADDRESSES]))
        for key in sorted(by_ports)
    ]


def ports_key(ports: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[tuple[str, ...], ...]:
    """Ports as a value that can be sorted and compared, whatever their order."""
    return tuple(sorted(tuple(str(port.get(field, "")) for field in _PORT_FIELDS) for port in ports))


def endpoint_manifest(endpoint: Endpoint, version: str) -> Manifest:
    """One endpoint of a slice in this version of discovery.k8s.io."""
    addresses, conditions, hostname, zone, node, target = endpoint
    made: Manifest = {"addresses": list(addresses)}
    beta = version.endswith("/v1beta1")
    if beta:
        conditions = {name: conditions[name] for name in _CONDITIONS[:1] if name in conditions}
    if conditions:
        made["conditions"] = dict(conditions)
    if hostname:
        made["hostname"] = hostname
    if target:
        made["targetRef"] = dict(target)
    if not (node or zone):
        return made
    if beta:
        made["topology"] = {key: value for key, value in ((_HOST, node), (_ZONE, zone)) if value}
    else:
        made.update((field, value) for field, value in (("nodeName", node), ("zone", zone)) if value)
    return made


def endpoints_manifest(name: str, namespace: str, labels: dict[str, str], groups: t.Sequence[Group]) -> Manifest:
    """An Endpoints object."""
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "subsets": to_subsets(groups),
    }


def flat(subsets: t.Any) -> frozenset[t.Any]:
    """What subsets say, whatever their order and grouping: API servers sort and regroup them as they are written.

    One entry for each address, readiness and port. An address is one by its ip and its target's uid, as on the server.
    """
    rows: dict[t.Any, t.Any] = {}
    for subset in dicts_of(subsets):
        ports = ports_key(_ports(subset.get("ports"))) or ((),)
        for key in ("addresses", "notReadyAddresses"):
            for address in dicts_of(subset.get(key)):
                target = mapping(address, "targetRef")
                more = (
                    address.get("hostname"),
                    address.get("nodeName"),
                    tuple(sorted((k, str(v)) for k, v in target.items())),
                )
                for port in ports:
                    rows.setdefault((address.get("ip"), target.get("uid"), key, port), more)
    return frozenset(rows.items())


def aligned(desired: Manifest, actual: Object | None) -> Manifest:
    """The desired Endpoints with the server's own order, where that is all that differs."""
    if actual is None:
        return desired
    subsets = actual.get("subsets") or []
    if desired["subsets"] == subsets or flat(desired["subsets"]) == flat(subsets):
        return dict(desired, subsets=subsets)
    return desired


def not_ready(obj: Object, emptied: bool) -> Manifest:
    """What our own Endpoints or slice becomes when its source is not reachable: without addresses, or not ready."""
    meta = obj["metadata"]
    made: Manifest = {"metadata": {key: meta[key] for key in ("name", "namespace", "labels") if key in meta}}
    if "addressType" in obj:
        items = [] if emptied else [dict(item, conditions=_stopped(item)) for item in dicts_of(obj.get("endpoints"))]
        return dict(made, addressType=obj["addressType"], endpoints=items, ports=dicts_of(obj.get("ports")))
    subsets = []
    for subset in [] if emptied else dicts_of(obj.get("subsets")):
        addresses = dicts_of(subset.get("addresses")) + dicts_of(subset.get("notReadyAddresses"))
        addresses.sort(key=lambda address: str(address.get("ip")))
        subsets.append({"notReadyAddresses": addresses, "ports": dicts_of(subset.get("ports"))})
    return dict(made, subsets=subsets)


def _stopped(item: Object) -> Manifest:
    given = mapping(item, "conditions")
    return {name: False if name in ("ready", "serving") else given[name] for name in set(given) | {"ready"}}
