# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Owners of the objects that upstream programs write: counted by kind and by the field managers on record for what is not status; and what is still theirs."""

from __future__ import annotations

import collections
import typing as t

from .._plan.objects import MANAGER_PREFIX, record_of
from .._values.text import mapping
from .programs import PROGRAMS
from .workloads import shown


class Marked(t.NamedTuple):
    """A kind of object that an original writes: ``selector`` as the API takes it, ``annotation`` a part of keys by which its part of a Node is known.

    ``place``: namespace and name of the only one, which is another owner's, so that only the upstream program and we count. ``applied``: it is owned where we
    applied it; with the network side of tenants we write ids into twins that are not.
    """

    program: str
    api_version: str
    kind: str
    selector: str = ""
    annotation: str = ""
    place: tuple[str, ...] = ()
    applied: bool = False


#: Most of what is there; what a server does not have is left out.
MARKED = (
    Marked("semaphore-wireguard", "v1", "Node", annotation=".wireguard.semaphore.uw.io/"),
    Marked("semaphore-service-mirror", "v1", "Service", "mirrored-svc=true"),
    Marked("semaphore-service-mirror", "v1", "Endpoints", "mirrored-svc=true"),
    Marked("semaphore-service-mirror", "discovery.k8s.io/v1", "EndpointSlice", "mirrored-endpoint-slice=true"),
    Marked("semaphore-policy", "crd.projectcalico.org/v1", "GlobalNetworkSet", "managed-by=semaphore-policy"),
    Marked("kilo-clustermesh", "kilo.squat.ai/v1alpha1", "Peer"),
    Marked("equinix", "v1", "Node", annotation="metal.equinix.com/"),
    Marked("equinix", "v1", "ConfigMap", place=("metallb-system", "config")),
    Marked("equinix", "metallb.io/v1beta1", "IPAddressPool", "cloud-provider=equinix-metal"),
    Marked("equinix", "metallb.io/v1beta2", "BGPPeer", "cloud-provider=equinix-metal"),
    Marked("apinetlet", "core.apinet.api.onmetal.de/v1alpha1", "Network", applied=True),
)


#: By which names programs are on record, alongside those of their images and commands.
_MANAGERS = {"kilo-clustermesh": ("manager",), "apinetlet": ("api.onmetal.de/apinetlet", "ironcore.dev/apinetlet")}
#: Who has these alone has not taken the object.
_EVERYBODYS = ("metadata.ownerReferences", "metadata.finalizers")
#: Fields of one row, and as how many they are said.
_MOST_FIELDS = 10


def count(marked: Marked, objects: t.Iterable[t.Any]) -> list[dict[str, t.Any]]:
    """Rows of managers: how many objects each is on record for, and whether it is this collection."""
    found: t.Counter[str] = collections.Counter()
    for obj in objects:
        managers = {
            str(entry.get("manager"))
            for entry in record_of(obj)
            if not entry.get("subresource") and _concerns(marked, entry)
        }
        if marked.place:
            managers = {name for name in managers if name in _names(marked) or name.startswith(MANAGER_PREFIX)}
        elif not managers and not marked.annotation:
            managers = {"(nobody on record)"}
        found.update(managers)
    return [
        {
            "program": marked.program,
            "kind": marked.kind,
            "manager": shown(name),
            "objects": found[name],
            "owned": name.startswith(MANAGER_PREFIX),
        }
        for name in sorted(found)
    ]


def still(marked: Marked, objects: t.Iterable[t.Any]) -> list[dict[str, t.Any]]:
    """Rows of fields for which the program is on record in objects that are owned as well: what it wrote and we do not need. Status does not count."""
    names = _names(marked)
    found: t.Counter[tuple[str, tuple[str, ...]]] = collections.Counter()
    for obj in objects:
        entries = [entry for entry in record_of(obj) if not entry.get("subresource")]
        mine = [
            entry["fieldsV1"]
            for entry in entries
            if str(entry.get("manager")).startswith(MANAGER_PREFIX)
            and (entry.get("operation") == "Apply" or not marked.applied)
        ]
        if not any(name not in _EVERYBODYS for tree in mine for name in _fields(tree)):
            continue
        for entry in entries:
            fields = tuple(sorted(set(_fields(entry["fieldsV1"])))) if entry.get("manager") in names else ()
            if fields:
                more = (f"and {len(fields) - _MOST_FIELDS} more",) if len(fields) > _MOST_FIELDS else ()
                found[str(entry.get("manager")), fields[:_MOST_FIELDS] + more] += 1
    return [
        {
            "program": marked.program,
            "kind": marked.kind,
            "manager": name,
            "fields": list(fields),
            "objects": found[name, fields],
        }
        for name, fields in sorted(found)
    ]


def _names(marked: Marked) -> set[str]:
    """As what the program is on record."""
    return {*PROGRAMS[marked.program].images, *_MANAGERS.get(marked.program, ())}


def _fields(tree: t.Any, path: tuple[str, ...] = ()) -> t.Iterator[str]:
    """The names of a record's fields, down to the first that is an entry of a list."""
    inner = [name for name in tree if str(name).startswith("f:")] if isinstance(tree, dict) and len(path) < 40 else []
    if not inner and path:
        yield ".".join(shown(name) for name in path)
    for name in inner:
        if (*path, name) != ("f:status",):
            yield from _fields(tree[name], (*path, str(name)[2:]))


def _concerns(marked: Marked, entry: t.Mapping[str, t.Any]) -> bool:
    if not marked.annotation:
        return True
    return any(marked.annotation in str(key) for key in mapping(entry, "fieldsV1", "f:metadata", "f:annotations"))
