# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back to the upstream program: twins stay as they are and are on record as its own, so that what it applies next changes nothing (decision 54)."""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Resource
from ..._kubernetes.errors import KubeError
from ..._kubernetes.objects import send_all
from ..._plan.plan import Change, Plan
from ..._plan.sole_owner import transferred
from ..._tenants.links import linked
from ..._tenants.options import APINET, DEPENDENTS, PROFILES, TWIN_KINDS, plural
from .converge import OpenRun, lease_of, open_run, report
from .store import gather

Object = t.Mapping[str, t.Any]


class _Write(t.NamedTuple):
    change: Change
    path: str
    body: dict[str, t.Any]


def run(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """The module's result with O(state=released). Raises ValueRefused for options that make no sense."""
    opened = open_run(request, (APINET,))
    clusters, stores, options = opened.clusters, opened.stores, opened.options
    if APINET not in stores:
        return report(clusters)
    pairs = [(kind, TWIN_KINDS[kind]) for kind in sorted(options.kinds)]
    pairs += [(kind, DEPENDENTS[kind]) for kind in sorted(options.kinds) if kind in DEPENDENTS]
    view = gather(clusters, stores, options, [(APINET, twin) for dummy, twin in pairs])
    plan = Plan()
    twins = [(kind, obj) for kind, twin in pairs if (APINET, twin) not in view.unread for obj in view.twins(twin)]
    writes = _writes(opened, [obj for kind, obj in twins if _of_tenant(kind, obj, options)])
    if check or not writes:
        plan.changes += [write.change for write in writes]
        return report(clusters, plan)
    lease = lease_of(stores[APINET], options)
    client = stores[APINET].client
    try:
        lease.acquire(float(request.get("lock_wait") or 0))
        gone: list[KubeError] = []
        sent = send_all(
            client,
            writes,
            lambda one: "release " + one.path,
            lambda one: client.merge_patch(one.path, one.body, stores[APINET].manager),
            gone,
        )
        for write, error in zip(writes, sent):
            if isinstance(error, KubeError):
                clusters.fail(error)
            else:
                plan.changes.append(write.change)
    except KubeError as error:
        clusters.fail(error)
    finally:
        lease.release()
    return report(clusters, plan)


def _of_tenant(kind: str, twin: Object, options: t.Any) -> bool:
    """Whether it is a twin at all, and of the one namespace if only that is given back."""
    source = linked(kind, twin, options.profile)
    return source is not None and options.watch_namespace in ("", source.namespace)


def _writes(opened: OpenRun, objects: t.Iterable[Object]) -> list[_Write]:
    """What we applied, and what only we are on record for by it, becomes the upstream program's. What was patched alongside that is in nobody's way."""
    manager, heir = opened.options.profile.field_manager, PROFILES[opened.options.profile.name].field_manager
    found = []
    for obj in objects if manager != heir else ():
        record = transferred(
            obj, lambda row: row.get("manager") == manager and row.get("operation") == "Apply", heir, "Apply"
        )
        if record is None:
            continue
        meta, kind, version = obj["metadata"], str(obj["kind"]), str(obj["apiVersion"])
        path = Resource(version, kind, plural(kind), True, frozenset()).path(str(meta["namespace"]), str(meta["name"]))
        body = {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "managedFields": record}}
        ident = f"{opened.names[APINET]}/{meta['namespace']}/{meta['name']}"
        found.append(_Write(Change("update", kind, ident, {"owner": manager}, {"owner": heir}), path, body))
    return found
