# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The writing half of service_mirror: the mirror namespace, the writes, what Kubernetes does to them, handing back."""

from __future__ import annotations

import time
import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters
from ..._kubernetes.errors import NotFound
from ..._kubernetes.objects import apply_writes
from ..._plan.object_plan import Write
from ..._plan.objects import MANAGED_BY, MANAGED_BY_US
from ..._plan.plan import CREATE, Change, Plan
from ..._services.exports import Listed
from ..._services.mirror_writes import recreated
from ..fabric import cluster_objects

_PATHS = {"Service": "services", "Endpoints": "endpoints", "EndpointSlice": "endpointslices"}


def write(
    clusters: Clusters, request: t.Mapping[str, t.Any], listed: t.Mapping[str, Listed], whole: Plan, writes: t.Dict[str, t.List[Write]],
    namespace: str, manager: str, check: bool,
) -> Plan:
    """Do the writes, unless this is only a check; returns the plan with only those changes that took place."""
    missing = check_namespaces(clusters, request, listed, whole, writes, namespace)
    if check:
        return whole
    make_namespaces(clusters, missing, namespace, manager)
    done = cluster_objects.apply(clusters, whole, writes, manager, bool(request.get("leave_conflicts")))
    done.changes = [change for change in whole.changes if change.kind == "Namespace"] + done.changes
    settle(clusters, writes, manager)
    return done


def hand_back(clusters: Clusters, whole: Plan, writes: t.Mapping[str, t.Sequence[Write]], manager: str) -> Plan:
    """Do the writes of plan_release; returns the plan with only those changes that took place."""
    return cluster_objects.apply(clusters, whole, writes, manager, what="hand objects back", write_one=_patch)


def _patch(client: Client, todo: Write, manager: str) -> None:
    key = todo.key
    base = "/api/" if "/" not in key.api_version else "/apis/"
    path = "{0}{1}/namespaces/{2}/{3}/{4}".format(base, key.api_version, segment(key.namespace), _PATHS[key.kind], segment(key.name))
    client.merge_patch(path, todo.manifest or {}, manager)


def check_namespaces(
    clusters: Clusters,
    request: t.Mapping[str, t.Any],
    listed: t.Mapping[str, Listed],
    whole: Plan,
    writes: t.Dict[str, t.List[Write]],
    namespace: str,
) -> t.List[str]:
    """Clusters whose mirror namespace is to be made; without the permission for that they fail and are not written.

    Asked only where something is to be written and nothing was seen in that namespace.
    """

    def seen(name: str) -> bool:
        return any(obj["metadata"].get("namespace") == namespace for obj in (*listed[name].services, *listed[name].endpoints))

    asked = [name for name in sorted(writes) if writes[name] and not seen(name)]
    found = clusters.read("get the mirror namespace", lambda name, client: _namespace_there(client, namespace), asked)
    missing = [name for name in asked if found.get(name) is False]
    for name in asked:
        if found.get(name):
            continue
        if name in missing and request.get("create_namespace"):
            after = _namespace(namespace)
            whole.changes.insert(0, Change(CREATE, "Namespace", "{0}/{1}".format(name, namespace), None, after))
            continue
        if name in missing:
            message = "namespace {0}, into which Services are mirrored, does not exist; make it, or set create_namespace: true. {1}".format(
                namespace, "The playbook preflight finds this before a run, under the same word"
            )
            clusters.failures.append(
                {"cluster": name, "operation": "write mirrors", "reason": "mirror_namespace_missing", "message": message,
                 "status": None}
            )  # fmt: skip
        doomed = {id(write.change) for write in writes[name]}
        whole.changes = [change for change in whole.changes if id(change) not in doomed]
        writes[name] = []
    return missing if request.get("create_namespace") else []


def _namespace_there(client: Client, namespace: str) -> bool:
    try:
        client.get("/api/v1/namespaces/" + segment(namespace))
    except NotFound:
        return False
    return True


def _namespace(name: str) -> t.Dict[str, t.Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {MANAGED_BY: MANAGED_BY_US}}}


def make_namespaces(clusters: Clusters, names: t.Sequence[str], namespace: str, manager: str) -> None:
    """Make the mirror namespace where it is missing."""
    path = "/api/v1/namespaces/" + segment(namespace)
    clusters.write("make the mirror namespace", names, lambda name, client: client.apply(path, _namespace(namespace), manager))


def settle(clusters: Clusters, writes: t.Mapping[str, t.Sequence[Write]], manager: str) -> None:
    """Look after Endpoints whose Service was made anew: Kubernetes may still take them away with the old one."""
    again = {}
    for name, todo in writes.items():
        names = recreated(todo)
        mine = [write for write in todo if write.manifest is not None and write.key.kind == "Endpoints" and write.key.name in names]
        if mine:
            again[name] = mine
    clusters.write("settle endpoints", again, lambda name, client: _settle(client, again[name], manager))


def _settle(client: Client, writes: t.Sequence[Write], manager: str) -> None:
    for dummy in range(4):
        time.sleep(0.25)
        for write in writes:
            path = "/api/v1/namespaces/{0}/endpoints/{1}".format(segment(write.key.namespace), segment(write.key.name))
            try:
                client.get(path)
            except NotFound:
                failed = apply_writes(client, [write], manager).failed
                if failed:
                    raise failed[0] from None
