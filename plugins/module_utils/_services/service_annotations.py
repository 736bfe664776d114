# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the owner of a Service may choose about its mirrors by annotations, where the inventory honours them (semaphore 12.2). Pure.

Each choice only narrows what is shared, but for the name, which stays inside the names of its own cluster and namespace.
"""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted
from .._values.text import mapping
from .endpoints import Group
from .mirror_services import Manifest, Object

PREFIX = "mirror.semaphore.uw.io/"
PORTS, CLUSTERS, NAME = "ports", "clusters", "exported-name"


def _chosen(service: Object, honoured: t.Collection[str], what: str) -> str | None:
    if what not in honoured:
        return None
    text = mapping(service["metadata"], "annotations").get(PREFIX + what)
    return text if isinstance(text, str) else None


def _items(text: str) -> frozenset[str]:
    return frozenset(item.strip() for item in text.split(",") if item.strip())


def chosen_name(service: Object, honoured: t.Collection[str]) -> str | None:
    """The name under which the Service is shared, None for its own."""
    return _chosen(service, honoured, NAME)


def chosen_clusters(service: Object, honoured: t.Collection[str]) -> frozenset[str] | None:
    """The clusters that get a mirror, None for all."""
    text = _chosen(service, honoured, CLUSTERS)
    return None if text is None else _items(text)


def narrowed(
    service: Object, groups: list[Group] | None, honoured: t.Collection[str]
) -> tuple[Object, list[Group] | None]:
    """The Service and its endpoints with the chosen ports only, by name or number. Raises ValueRefused ports_invalid."""
    text = _chosen(service, honoured, PORTS)
    if text is None:
        return service, groups
    desired = _items(text)
    ports = [
        port
        for port in service["spec"].get("ports") or ()
        if port.get("name") in desired or str(port["port"]) in desired
    ]
    known = {str(value) for port in ports for value in (port.get("name"), port["port"])}
    if not ports or desired - known:
        raise ValueRefused(
            "ports_invalid", f"its annotation asks for the ports {quoted(text)}, which it does not all have"
        )
    service = dict(service, spec=dict(service["spec"], ports=ports))
    # a port of an endpoint goes by the name that it has in the Service
    names = {port.get("name") or "" for port in ports}
    kept = [
        group._replace(ports=tuple(port for port in group.ports if port.get("name", "") in names))
        for group in groups or ()
    ]
    return service, None if groups is None else kept


def copied_metadata(
    service: Object, labels: t.Collection[str], annotations: t.Collection[str]
) -> tuple[Manifest, Manifest]:
    """The labels and annotations of a Service that the inventory lets through."""
    found = []
    for kind, keys in (("labels", labels), ("annotations", annotations)):
        given = service["metadata"].get(kind) if keys else None
        found.append(
            {key: given[key] for key in keys if isinstance(given.get(key), str)} if isinstance(given, dict) else {}
        )
    return found[0], found[1]
