# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A set of manifests in one or more clusters: one LIST for each kind, then only the writes that are needed."""

from __future__ import annotations

import os
import time
import typing as t

from ..._kubernetes.client import Client
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.objects import WriteOne, apply_writes, read_objects
from ..._linux.files import read_state
from ..._plan.access_manifests import access_manifests, kubeconfig_secret
from ..._plan.node_pod_edits import EDITED, edit_of, template_spec, writers
from ..._plan.node_pod_manifests import node_pod_manifests
from ..._plan.object_plan import CONFLICT, Key, Read, Scope, Write, parse_manifest, plan_objects, plan_release
from ..._plan.objects import field_manager, owned_tree
from ..._plan.plan import Plan, Refusal
from ..._values.refused import ValueRefused, quoted

Manifests = dict[Key, dict[str, t.Any]]
#: How long a namespace is waited for that is being removed: its pods have 5 s to end, and their kubelets report that.
_GOING_SECONDS = 90.0


def run(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """The module's result. ``request`` has the module's options. Raises ValueRefused for options that make no sense."""
    manager = field_manager(request["fabric"])
    scopes = [_scope(given, f"purge[{index}]") for index, given in enumerate(request.get("purge") or ())]
    clusters = Clusters(request["clusters"], seconds_of(request))
    desired, refused = parse_desired(
        dict(request, objects=[*(request.get("objects") or ()), *made_here(request, check)])
    )
    read = gather(clusters, desired, scopes)
    if request.get("node_pods") and request.get("state") == "present" and not check:
        read = _without_former(clusters, desired, scopes, read)
    edited = refuse_edits(request, clusters, desired, read, manager) if request.get("node_pods") else set()
    whole, writes = plan(request, desired, read, manager, alone=edited)
    whole.refused.extend(refused)
    if not request.get("skip_unserved"):  # a kind that the API server does not have
        _fail(clusters, whole, "kind_not_served")
    if not request.get("leave_conflicts"):
        conflicts_fail(clusters, whole)
    leave = bool(request.get("leave_conflicts"))
    write_one = _give_up if request.get("state") == "released" else None
    return clusters.result(whole if check else apply(clusters, whole, writes, manager, leave, write_one=write_one))


def _give_up(client: Client, todo: Write, manager: str) -> None:
    resource = client.resource(todo.key.api_version, todo.key.kind)
    if resource is not None:
        client.merge_patch(resource.path(todo.key.namespace or None, todo.key.name), todo.manifest or {}, manager)


def made_here(request: t.Mapping[str, t.Any], check: bool) -> list[dict[str, t.Any]]:
    """Manifests of ``access``, ``node_pods`` and ``kubeconfig_secrets``, with their files read. Raises ValueRefused for what cannot be made."""
    access, secrets, pods = request.get("access"), request.get("kubeconfig_secrets") or {}, request.get("node_pods")
    made = access_manifests(**access) if access else []
    if pods:
        pods = {name: value for name, value in pods.items() if name != "during_runs"}
        gone = request.get("state") == "absent"
        made += node_pod_manifests(
            request["fabric"], **{**pods, "image": pods.get("image") or ("gone" if gone else "")}
        )
    for cluster in secrets.get("clusters") or ():
        path = os.path.expanduser(secrets["path"].replace("{cluster}", cluster))
        file = None if request.get("state") == "absent" else read_state(path)
        if file is not None or request.get("state") == "absent":
            made.append(
                kubeconfig_secret(
                    cluster, file.content if file else b"", secrets["namespace"], secrets["name"], secrets["key"]
                )
            )
        elif not check:  # the token is not there before the first run
            raise ValueRefused(
                "kubeconfig_missing", f"there is no kubeconfig {quoted(path)} of cluster {quoted(cluster)}"
            )
    return made


def parse_desired(request: t.Mapping[str, t.Any]) -> tuple[dict[str, Manifests], list[Refusal]]:
    """{cluster: {key: manifest}} of ``objects`` (for all clusters) and ``objects_by_cluster``, and what was refused."""
    desired: dict[str, Manifests] = {str(given["name"]): {} for given in request["clusters"]}
    refused: list[Refusal] = []
    groups: list[tuple[str, t.Iterable[str], t.Any]] = [("objects", list(desired), request.get("objects") or ())]
    for name, manifests in sorted((request.get("objects_by_cluster") or {}).items()):
        if name not in desired:
            refused.append(
                Refusal(name, "unknown_cluster", "objects_by_cluster names a cluster that clusters does not have")
            )
        else:
            groups.append(("objects_by_cluster." + name, [name], manifests))
    for option, names, manifests in groups:
        for index, given in enumerate(manifests):
            where = f"{option}[{index}]"
            try:
                key, manifest = parse_manifest(given, where)
            except ValueRefused as error:
                refused.append(Refusal(where, error.reason, error.message))
                continue
            for name in names:
                if key in desired[name]:
                    refused.append(Refusal(where, "claimed_twice", f"{key.kind} {key.short} is given twice"))
                else:
                    desired[name][key] = manifest
    return desired, refused


def _scope(given: t.Mapping[str, t.Any], where: str) -> Scope:
    if not given.get("api_version") or not given.get("kind"):
        raise ValueRefused("manifest_invalid", f"{where} needs api_version and kind")
    if given["api_version"].count("/") > 1 or ".." in given["api_version"]:
        raise ValueRefused("manifest_invalid", f"{where}: {quoted(given['api_version'])} is no apiVersion")
    return Scope(given["api_version"], given["kind"], given.get("namespace") or "", given.get("label_selector") or "")


def gather(clusters: Clusters, desired: dict[str, Manifests], scopes: t.Sequence[Scope]) -> dict[str, Read]:
    """What every cluster has, of those that could be read completely. Corrects the namespaces of ``desired`` on the way."""
    found = clusters.read("list objects", lambda name, client: read_objects(client, desired[name], scopes))
    read = {}
    for name, (one, corrected) in found.items():
        desired[name] = {corrected.get(key, key): manifest for key, manifest in desired[name].items()}
        read[name] = one
    return read


def _without_former(
    clusters: Clusters, desired: dict[str, Manifests], scopes: t.Sequence[Scope], read: dict[str, Read]
) -> dict[str, Read]:
    """Read again until what a former run has removed is gone, or for ``_GOING_SECONDS``: with pods that go between runs, one follows the other."""
    deadline = time.monotonic() + _GOING_SECONDS
    while time.monotonic() < deadline and any(
        obj["metadata"].get("deletionTimestamp")
        for name, found in read.items()
        for key, obj in found.objects.items()
        if key in desired[name]
    ):
        time.sleep(1.0)
        read = gather(clusters, desired, scopes)
    return read


def refuse_edits(
    request: t.Mapping[str, t.Any],
    clusters: Clusters,
    desired: t.Mapping[str, Manifests],
    read: dict[str, Read],
    manager: str,
) -> set[str]:
    """Fail for clusters where somebody else changed the DaemonSet of node pods, and plan nothing for them.

    Returns the clusters where ``adopt`` puts it right instead: what others added goes then. Nothing is compared when it is to go.
    """
    taken = set()
    for name in sorted(read) if request.get("state") == "present" else ():
        for key in [key for key in desired[name] if key.kind == "DaemonSet" and key in read[name].objects]:
            obj = read[name].objects[key]
            edit = edit_of(template_spec(obj), request["fabric"]) if owned_tree(obj, manager, "Apply") else ""
            if not edit:
                continue
            if request.get("adopt"):
                taken.add(name)
                continue
            by = ", ".join(quoted(one) for one in writers(obj, manager)) or "somebody who is no longer on record"
            text = f"{by} changed it: {edit}; nothing was sent to a node. Delete it and run again, or set node_access_adopt to put it right"
            clusters.fail_for(name, f"apply DaemonSet {key.short}", EDITED, text)
            del read[name]
            break
    return taken


def plan(
    request: t.Mapping[str, t.Any],
    desired: t.Mapping[str, Manifests],
    read: t.Mapping[str, Read],
    manager: str,
    alone: t.Collection[str] = (),
) -> tuple[Plan, dict[str, list[Write]]]:
    """What would be written, cluster by cluster. ``alone``: clusters in which nobody else may own a part of the objects. Pure."""
    whole, writes = Plan(), {}
    for name in sorted(read):
        if request.get("state") == "released":
            part, writes[name] = plan_release(name, desired[name], read[name], manager)
            whole.extend(part)
            continue
        part, writes[name] = plan_objects(
            name,
            desired[name],
            read[name],
            manager,
            state=request.get("state", "present"),
            adopt=bool(request.get("adopt")),
            max_deletes=request.get("max_deletes"),
            confirm_empty=name in (request.get("confirm_empty") or ()),
            alone=name in alone,
        )
        whole.extend(part)
    return whole, writes


def conflicts_fail(clusters: Clusters, whole: Plan) -> None:
    """An owned field that somebody else changed is a failure of its cluster: what is there is not what is desired."""
    _fail(clusters, whole, CONFLICT)


def _fail(clusters: Clusters, whole: Plan, reason: str) -> None:
    for refusal in [refusal for refusal in whole.refused if refusal.reason == reason]:
        whole.refused.remove(refusal)
        kind, dummy, ident = refusal.object.partition(" ")
        cluster, dummy, name = ident.partition("/")
        clusters.fail_for(cluster, f"apply {kind} {name}", refusal.reason, refusal.message)


def apply(
    clusters: Clusters,
    whole: Plan,
    writes: t.Mapping[str, t.Sequence[Write]],
    manager: str,
    leave_conflicts: bool = False,
    what: str = "apply objects",
    write_one: WriteOne | None = None,
) -> Plan:
    """Do the writes; returns the plan with only those changes that took place. ``write_one`` as for apply_writes."""

    def one(name: str, client: Client) -> t.Any:
        return apply_writes(client, writes[name], manager, leave_conflicts, write_one)

    applied = clusters.write(what, [name for name, todo in writes.items() if todo], one)
    done = Plan()
    done.refused, done.warnings, done.unchanged = list(whole.refused), list(whole.warnings), whole.unchanged
    took_place: set[t.Any] = set()
    for name in sorted(applied):
        result = applied[name]
        took_place.update(id(write.change) for write in result.done)
        done.refused.extend(result.refused)
        done.warnings.extend(result.warnings)
        done.unchanged += len(writes[name]) - len(result.done) - len(result.refused) - len(result.failed)
        for error in result.failed:
            clusters.fail(error)
    done.changes = [change for change in whole.changes if id(change) in took_place]
    return done
