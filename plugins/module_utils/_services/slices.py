# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""EndpointSlices of mirrors: which endpoint is in which slice. Pure."""

from __future__ import annotations

import typing as t

from .._values.text import is_digits
from .endpoints import Endpoint, Group, endpoint_manifest, ports_key
from .mirror_services import Manifest, Object, mirror_labels

SERVICE_NAME, MANAGED_BY = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
MANAGED_BY_US = "multicluster.network"
#: What the API server takes.
MOST_ENDPOINTS = 1000


def mirror_slices(
    name: str, namespace: str, prefix: str, groups: t.Sequence[Group], version: str, current: t.Sequence[Object] = ()
) -> list[Manifest]:
    """Slices ``<mirror name>-<4|6>-<n>`` of a mirror.

    ``current``: the slices that this mirror has. An endpoint stays in the slice that it is in, so that one endpoint more
    or less is one write, however many there are.
    """
    labels = dict(mirror_labels(prefix), **{SERVICE_NAME: name, MANAGED_BY: MANAGED_BY_US})
    return [slice_manifest(part, namespace, labels, version) for part in sliced(name, groups, current)]


class Part(t.NamedTuple):
    """What one slice holds. ``name``: its own."""

    name: str
    family: str
    ports: t.Sequence[t.Mapping[str, t.Any]]
    endpoints: t.Sequence[Endpoint]


def slice_manifest(part: Part, namespace: str, labels: t.Mapping[str, str], version: str) -> Manifest:
    """The slice."""
    return {
        "apiVersion": version,
        "kind": "EndpointSlice",
        "metadata": {"name": part.name, "namespace": namespace, "labels": dict(labels)},
        "addressType": part.family,
        "endpoints": [endpoint_manifest(endpoint, version) for endpoint in part.endpoints],
        "ports": [dict(port) for port in part.ports],
    }


def sliced(
    name: str, groups: t.Sequence[Group], current: t.Sequence[Object] = (), most: int = MOST_ENDPOINTS
) -> t.Iterator[Part]:
    """Slices ``<name>-<4|6>-<n>`` with at most so many endpoints each; as mirror_slices."""
    found = _by_ports(groups)
    for family, number in (("IPv4", "4"), ("IPv6", "6")):
        mine = {key: value for key, value in found.items() if key[0] == family}
        if not mine:
            continue
        base = f"{name}-{number}-"
        own = [item for item in current if str(item["metadata"].get("name")).startswith(base)]
        # nearly all are one slice, the first, and there is no place to keep
        single = len(mine) == 1 and all(len(endpoints) <= most for dummy, endpoints in mine.values())
        single = single and all(item["metadata"]["name"] == base + "0" for item in own)
        places = {} if single else _places(own, base)
        taken: set[int] = set()
        for key in sorted(mine):
            ports, endpoints = mine[key]
            for index, chunk in _chunks(endpoints, places.get(key[1], {}), taken, most):
                yield Part(base + str(index), family, ports, chunk)


def family_of(text: str) -> str:
    """IPv4 or IPv6."""
    return "IPv6" if ":" in text else "IPv4"


def _by_ports(groups: t.Sequence[Group]) -> dict[t.Any, tuple[t.Any, dict[str, Endpoint]]]:
    """(family, ports) -> (ports, {first address: endpoint}), sorted by address."""
    found: dict[t.Any, tuple[t.Any, dict[str, Endpoint]]] = {}
    for group in groups:
        ports = ports_key(group.ports)
        rows: dict[str, Endpoint] = {}
        family = None
        for endpoint in group.endpoints:
            addresses = endpoint[0]
            if not addresses:
                continue
            if family is None or not group.family:
                family = group.family or family_of(addresses[0])
                rows = found.setdefault((family, ports), (group.ports, {}))[1]
            rows.setdefault(addresses[0], endpoint)
    return found


def _places(current: t.Sequence[Object], base: str) -> dict[t.Any, dict[str, int]]:
    """ports -> {address: number of the slice}."""
    places: dict[t.Any, dict[str, int]] = {}
    for item in current:
        number = item["metadata"]["name"][len(base) :]
        if not is_digits(number) or len(number) > 6:
            continue
        row = places.setdefault(ports_key(item.get("ports") or ()), {})
        for endpoint in item.get("endpoints") or ():
            if endpoint.get("addresses"):
                row[endpoint["addresses"][0]] = int(number)
    return places


def _chunks(
    endpoints: t.Mapping[str, Endpoint], places: t.Mapping[str, int], taken: set[int], most: int
) -> list[tuple[int, list[Endpoint]]]:
    """(number, endpoints sorted by address) of slices with room; ``taken`` numbers belong to other ports."""
    if not places and not taken and len(endpoints) <= most:
        taken.add(0)
        return [(0, [endpoints[address] for address in sorted(endpoints)])]
    chunks: dict[int, list[str]] = {}
    waiting = []
    for address in sorted(endpoints):
        number = places.get(address, -1)
        if number < 0 or number in taken or len(chunks.get(number, ())) >= most:
            waiting.append(address)
        else:
            chunks.setdefault(number, []).append(address)
    number = 0
    for address in waiting:
        while number in taken or len(chunks.get(number, ())) >= most:
            number += 1
        chunks.setdefault(number, []).append(address)
    taken.update(chunks)
    return [(number, [endpoints[address] for address in sorted(chunks[number])]) for number in sorted(chunks)]
