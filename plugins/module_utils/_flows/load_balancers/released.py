# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back to the upstream controller: everything stays as it is, and nobody of us is on record for it any more (decision 54).

Addresses stay with their Services and at the provider, where upstream finds them by their tags; pools, peers and annotations stay where MetalLB and kube-vip
read them. What only we read goes: our record, and the note of which peers are owned. Where a cloud controller is to serve the Services again
they get its finalizer, which it would write anyway.
"""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client, segment
from ..._loadbalancers.metallb.resources import VERSIONS, Resources
from ..._loadbalancers.node_annotations import is_annotation
from ..._loadbalancers.services import FINALIZER
from ..._loadbalancers.setup import Setup
from ..._plan.objects import record_of
from ..._plan.plan import Change
from ..._plan.sole_owner import NOBODY, Path, transferred
from .read import NODES, ClusterState, is_owned
from .writes import Object, Put, path_of

Patch = dict[str, t.Any]


def release_puts(client: Client, setup: Setup, state: ClusterState, served: t.Collection[str]) -> list[Put]:
    """One write for each object of which we are on record for something. ``served``: the Services (``namespace/name``) that we serve."""
    puts: list[Put] = []
    for key in sorted(served):
        obj = state.objects.get(key)
        if obj is not None:
            puts += _service(setup, key, obj)
    if state.backend.configmap is not None:
        puts.append(_configmap(setup, state.backend.configmap))
    resources = Resources(state.backend.objects, setup.resource_options)
    for obj in state.backend.objects:
        kind, name = str(obj["kind"]), str(obj["metadata"]["name"])
        resource = client.resource(VERSIONS[kind], kind)
        if resource is not None and resources.is_owned(kind, name):
            puts.append(given_up(setup.cluster, kind, obj, resource.path(setup.resource_options.namespace, name)))
    for name, node in sorted(state.nodes.items()):
        puts.append(given_up(setup.cluster, "Node", node, f"{NODES}/{segment(name)}", within=_annotations(setup)))
    return sorted((put for put in puts if put.body), key=lambda put: put.stage)


def _owned(row: Object) -> bool:
    return is_owned(str(row.get("manager")))


def given_up(
    cluster: str,
    kind: str,
    obj: Object,
    path: str,
    change: Patch | None = None,
    shown: tuple[Patch, Patch] | None = None,
    within: t.Callable[[Path], bool] | None = None,
) -> Put:
    """The write that ends our record of an object, with ``change`` of its metadata; ``shown``: that as before and after. Without a body: nothing is due."""
    before, after = (dict(side) for side in shown or ({}, {}))

    def patch(now: Object) -> Patch | None:
        if now["metadata"].get("uid") != obj["metadata"].get("uid"):
            return None
        record = transferred(now, _owned, within=within)
        meta = dict(change or {}, **({"managedFields": record} if record is not None else {}))
        return {"metadata": dict(meta, resourceVersion=now["metadata"]["resourceVersion"])} if meta else {}

    if transferred(obj, _owned, within=within) is not None:
        before["owner"], after["owner"] = (
            ", ".join(sorted({str(row["manager"]) for row in record_of(obj) if _owned(row)})),
            NOBODY,
        )
    names = [cluster, obj["metadata"].get("namespace"), obj["metadata"]["name"]]
    return Put(
        Change("update", kind, "/".join(str(name) for name in names if name), before, after),
        path,
        patch(obj),
        again=patch,
    )


def _service(setup: Setup, key: str, obj: Object) -> list[Put]:
    meta, path = obj["metadata"], path_of(obj)
    have = list(meta.get("finalizers") or ())
    last = given_up(setup.cluster, "Service", obj, path)._replace(stage=1)
    if setup.static or FINALIZER in have or meta.get("deletionTimestamp"):
        return [last]

    def held_back(now: Object) -> Patch | None:
        rows = now["metadata"].get("finalizers") or []
        return (
            {"metadata": {"resourceVersion": now["metadata"]["resourceVersion"], "finalizers": [*rows, FINALIZER]}}
            if FINALIZER not in rows
            else {}
        )

    ident = f"{setup.cluster}/{key}"
    first = Put(
        Change("update", "Service", ident, {"finalizers": have}, {"finalizers": [*have, FINALIZER]}),
        path,
        held_back(obj),
        again=held_back,
    )
    # we are on record for what we write into it: the record goes after it, on what is there then
    return [first, last._replace(body=last.body or {"metadata": {"resourceVersion": meta["resourceVersion"]}})]


def _configmap(setup: Setup, obj: Object) -> Put:
    meta, key = obj["metadata"], setup.scheme.domain + "/managed-peers"
    path = f"/api/v1/namespaces/{segment(str(meta['namespace']))}/configmaps/{segment(str(meta['name']))}"
    noted = (meta.get("annotations") or {}).get(key)
    if noted is None:
        return given_up(setup.cluster, "ConfigMap", obj, path)
    return given_up(setup.cluster, "ConfigMap", obj, path, {"annotations": {key: None}}, ({key: noted}, {}))


def _annotations(setup: Setup) -> t.Callable[[Path], bool]:
    """Whether a field is an annotation with a node's BGP facts: what other capabilities wrote on Nodes stays owned."""
    return lambda leaf: (
        leaf[:2] == ("f:metadata", "f:annotations") and len(leaf) == 3 and is_annotation(leaf[2][2:], setup.scheme)
    )
