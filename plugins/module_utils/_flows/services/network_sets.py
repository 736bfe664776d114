# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network sets of several clusters in one go: one LIST of pods and one of sets per cluster, then only what differs."""

from __future__ import annotations

import time
import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.errors import KubeError, ListIncomplete
from ..._kubernetes.objects import take_alone
from ..._mesh.fabric.range_checks import (
    MAPPING,
    NODE_MAPPING,
    POOL,
    RANGES,
    check_ranges,
    read_mapping,
    read_node_mapping,
)
from ..._mesh.fabric.variables import Finding, Variables
from ..._plan.budget import why_refused
from ..._plan.object_plan import Write
from ..._plan.objects import field_manager, labels_of
from ..._plan.plan import CREATE, Plan, Refusal
from ..._services import losses
from ..._services.network_sets import members as network_sets
from ..._services.network_sets.lost_sets import Emptied, emptied_sets, lost_sets
from ..._services.network_sets.members import CLUSTER_LABEL, NAME_LABEL, Members, check_members
from ..._services.network_sets.set_plan import Objects, owned_by, plan_release, plan_sets
from ..._services.network_sets.targets import TARGETS, Target
from ..._values.exported_ranges import ExportedRanges
from ..._values.gc_pause import gc_paused
from ..._values.refused import ValueRefused
from ..._values.text import parse_cluster_name
from ..access import cluster_objects
from ..runs.outages import Memory, counting, unreachable_clusters

PODS = "/api/v1/pods"
#: Others have no address any more. Not UNFINISHED of _kubernetes/pod_ranges.py, which a client that stays follows: a namespace is asked once.
NOT_ENDED = "status.phase!=Failed,status.phase!=Succeeded"


class Grant(t.NamedTuple):
    """What a cluster is granted: ``ranges`` {pod_cidrs, node_cidrs}; and how other clusters see its pods."""

    ranges: dict[str, list[str]]
    exported: ExportedRanges


Grants = dict[str, Grant]


class Read(t.NamedTuple):
    """What was read. ``pods``: sources with a complete list; ``sets``: local clusters with their target and objects."""

    pods: dict[str, list[t.Any]]
    sets: dict[str, tuple[Target, Objects]]
    refused: list[Refusal]


def run(
    request: t.Mapping[str, t.Any], check: bool = False, clusters: Clusters | None = None, hold: bool = False
) -> dict[str, t.Any]:
    """The module's result. ``request`` has the module's options. Raises ValueRefused for options that make no sense, PairsLost before the first write.

    ``clusters``: those of a caller that stays, instead of new ones. ``hold``: what may not be lost stays as it is, and the rest goes on.
    """
    # the collector would look at every pod of every cluster again, and there is no garbage among them
    with gc_paused():
        return _run(request, check, clusters, hold)


def _run(request: t.Mapping[str, t.Any], check: bool, clusters: Clusters | None, hold: bool) -> dict[str, t.Any]:
    manager = field_manager(request["fabric"])
    absent = request.get("state") in ("absent", "released")
    grants = {} if absent else read_grants(request.get("grants") or {}, request["fabric"])
    names = [str(entry["name"]) for entry in request["clusters"]]
    sources = list(request.get("sources") or ([] if absent else [name for name in names if name in grants]))
    for name in sources:
        if not absent and (name not in names or name not in grants):
            raise ValueRefused("unknown_cluster", f"sources names {name}, of which clusters or grants know nothing")
    into = list(request.get("targets") or names)
    if set(into) - set(names):
        raise ValueRefused(
            "unknown_cluster", f"targets names {sorted(set(into) - set(names))[0]}, which clusters does not have"
        )
    clusters = clusters or Clusters(request["clusters"], seconds_of(request))
    read = gather(clusters, [] if absent else sources, into, TARGETS[request.get("target") or "auto"])
    members, refused = claim(read.pods, grants, bool(request.get("include_host_network")), time.time())
    members = {source: network_sets.as_seen(found, grants[source].exported) for source, found in members.items()}
    outages = _outages(clusters, request, read, sources, manager)
    gone = {name: counts for name, (counts, unused) in outages.items()}
    whole, writes, counts = plan(request, read, members, sources, manager, gone, refused)
    emptied = _emptied(request, read, members, sources, manager, gone, refused, whole, writes)
    lost = lost_sets(
        emptied,
        _running(clusters, emptied),
        {name: grant.exported for name, grant in grants.items()},
        refused,
        bool(request.get("include_host_network")),
    )
    reach = losses.limited(lost, request, whole, writes, check, hold)
    whole.refused = read.refused + refused + whole.refused
    record = {name: todo for name, (unused, todo) in outages.items()}
    noted = Plan()
    noted.changes = [one.change for todo in record.values() for one in todo]
    if check:
        done = whole.extend(noted)
    else:
        done = apply(clusters, read, whole, writes, manager, bool(request.get("leave_conflicts")))
        done.extend(cluster_objects.apply(clusters, noted, record, manager))
    result = done.result()
    result.update(
        counts=counts, failures=clusters.failures, stats=clusters.stats(), diff=done.diff(), warnings=whole.warnings
    )
    result.update(reach)
    return result


def _emptied(
    request: t.Mapping[str, t.Any],
    read: Read,
    members: t.Mapping[str, Members],
    sources: t.Sequence[str],
    manager: str,
    gone: t.Mapping[str, t.Collection[str]],
    refused: t.Sequence[Refusal],
    whole: Plan,
    writes: t.Mapping[str, t.Sequence[Write]],
) -> list[Emptied]:
    """Sets that would have no address any more, also those that the budget of deletions holds: confirmed, they would go as well."""
    if not losses.counts(request):
        return []
    if any(row.reason == "delete_budget" for row in whole.refused):
        writes = plan(dict(request, max_deletes=-1), read, members, sources, manager, gone, refused)[1]
    return [
        row
        for local in sorted(read.sets)
        for row in emptied_sets(local, *read.sets[local], writes.get(local, ()), members, manager)
    ]


def _running(clusters: Clusters, emptied: t.Iterable[Emptied]) -> dict[str, list[t.Any]]:
    """Pods that have not ended in the namespaces of these sets, by cluster; one that does not answer is missing."""
    spaces: dict[str, set[str]] = {}
    for one in emptied:
        spaces.setdefault(one.member.cluster, set()).add(one.member.namespace)

    def look(name: str, client: Client) -> list[t.Any]:
        paths = [f"/api/v1/namespaces/{segment(space)}/pods" for space in sorted(spaces[name])]
        return [pod for path in paths for pod in client.list(path, field_selector=NOT_ENDED).items]

    return clusters.read("list pods of sets that would be empty", look, sorted(spaces)) if spaces else {}


def _outages(
    clusters: Clusters, request: t.Mapping[str, t.Any], read: Read, sources: t.Sequence[str], manager: str
) -> dict[str, tuple[set[str], list[Write]]]:
    """{local cluster: (sources with an outage that counts there, writes of its record)}, where the user wants to know."""
    if request.get("on_unreachable", "keep") == "keep" or request.get("state", "present") != "present":
        return {}
    memory = Memory("network-sets", request["fabric"], request.get("record_namespace") or "kube-system", manager)
    failed = unreachable_clusters(clusters) & set(sources) - set(read.pods)
    return counting(
        clusters, memory, failed, read.pods, sorted(read.sets), float(request.get("unreachable_grace") or 0)
    )


def read_grants(given: t.Mapping[str, t.Any], fabric: str = "") -> Grants:
    """What each cluster is granted, in normal form. Raises ValueRefused with everything that is wrong at once."""
    findings: list[Finding] = []
    clusters: dict[str, dict[str, t.Any]] = {}
    for name in sorted(given):
        raw = given[name] or {}
        variables = Variables(name, raw, findings)
        try:
            parse_cluster_name(name)
        except ValueRefused as error:
            findings.append(Finding(name, "name", error.reason, error.message))
        one: dict[str, t.Any] = {option: [] for option in RANGES}
        one.update((option, variables.networks(option, "pod_subnet_invalid")) for option in ("pod_cidrs", "node_cidrs"))
        one[POOL] = variables.networks(POOL, "bad_cidr")
        one[MAPPING], one["former_pod_cidrs"] = read_mapping(name, variables, raw, one["pod_cidrs"], findings)
        one[NODE_MAPPING], one["former_node_cidrs"] = read_node_mapping(
            name, variables, raw, one["node_cidrs"], findings
        )
        clusters[name] = one
        if not variables.given("pod_cidrs"):
            findings.append(Finding(name, "pod_cidrs", "pod_subnet_missing", "say which ranges its pods may have"))
    # nodes may share a network, and may be anywhere else: they are no members of sets by their ranges
    check_ranges({name: dict(one, node_cidrs=[]) for name, one in clusters.items()}, fabric, findings)
    if findings:
        text = "\n".join(f"{f.where}: {f.variable}: {f.message} [{f.reason}]" for f in findings)
        raise ValueRefused(findings[0].reason, f"grants need {len(findings)} correction(s):\n{text}")
    return {
        name: Grant(
            {option: one[option] for option in ("pod_cidrs", "node_cidrs")},
            ExportedRanges(one[MAPPING], one["former_pod_cidrs"], one[NODE_MAPPING], one["former_node_cidrs"]),
        )
        for name, one in clusters.items()
    }


def gather(
    clusters: Clusters, sources: t.Collection[str], into: t.Collection[str], targets: t.Sequence[Target]
) -> Read:
    """One LIST a kind and cluster, all clusters side by side. What cannot be read is in the failures, and missing here."""

    def one(name: str, client: Client) -> tuple[t.Any, t.Any]:
        sets = _attempt(lambda: _read_sets(client, targets)) if name in into else None
        if isinstance(sets, KubeError) and sets.status is None:
            return sets, None  # nobody answers there
        pods = _attempt(lambda: client.list(PODS, label_selector=NAME_LABEL).items) if name in sources else None
        return sets, pods

    read = Read({}, {}, [])
    for name, (sets, pods) in sorted(clusters.read("list pods and network sets", one).items()):
        for answer in (sets, pods):
            if isinstance(answer, KubeError):
                clusters.fail(answer)
        if isinstance(sets, tuple):
            target, found = sets
            if target is None:
                kinds = ", ".join(f"{one.kind} in {one.api_version}" for one in targets)
                message = "the API server has none of {0}; install Calico or Cilium there, or take network_sets out of multicluster_capabilities"
                message = message.format(kinds)
                read.refused.append(Refusal(name, "kind_not_served", message))
            else:
                read.sets[name] = (target, found)
        if isinstance(pods, list):
            read.pods[name] = pods
    return read


def _attempt(function: t.Callable[[], t.Any]) -> t.Any:
    try:
        return function()
    except KubeError as error:
        return error


def _read_sets(client: Client, targets: t.Sequence[Target]) -> tuple[Target | None, Objects]:
    """The first target that is served, found by listing it: an API that exists and does not answer is a failure, not a no."""
    for target in targets:
        try:
            items = client.list(target.path()).items
        except ListIncomplete as error:
            if error.status == 404:
                continue
            raise
        return target, {str(item["metadata"].get("name")): item for item in items}
    return None, {}


def claim(
    pods: t.Mapping[str, t.Iterable[t.Any]], grants: Grants, include_host_network: bool, now: float | None
) -> tuple[dict[str, Members], list[Refusal]]:
    """{source: members} of what the sources may claim, and what they may not. Pure."""
    kept: dict[str, Members] = {}
    refused: list[Refusal] = []
    for source in sorted(pods):
        members, unreadable = network_sets.members_of(source, pods[source], include_host_network, now)
        kept[source], beyond = check_members(source, members, grants[source].ranges)
        refused += unreadable + beyond
    return kept, refused


def plan(
    request: t.Mapping[str, t.Any],
    read: Read,
    members: t.Mapping[str, Members],
    sources: t.Sequence[str],
    manager: str,
    gone: t.Mapping[str, t.Collection[str]],
    refused: t.Sequence[Refusal] = (),
) -> tuple[Plan, dict[str, list[Write]], dict[str, t.Any]]:
    """What would be written, cluster by cluster, and {source: {sets, addresses}}. Pure."""
    whole, writes = Plan(), {}
    turned_away = {source: _turned_away(source, found, refused) for source, found in members.items()}
    absent, released = (request.get("state") == state for state in ("absent", "released"))
    for local in sorted(read.sets):
        target, existing = read.sets[local]
        owners = {labels_of(obj).get(CLUSTER_LABEL, "") for obj in existing.values() if owned_by(obj, manager)} - {""}
        if absent or released:
            theirs: dict[str, Members] = {name: {} for name in sources or owners}
        else:
            theirs = {name: members[name] for name in members if name != local}
            for name in sorted(owners - {str(entry["name"]) for entry in request["clusters"]}):
                whole.warnings.append(
                    f"{local} has network sets of cluster {name}, which is not in the inventory; they stay until state: absent "
                    f"with sources: [{name}]"
                )
        if released:
            planned = plan_release(local, target, existing, theirs, manager)
        else:
            planned = plan_sets(
                local,
                target,
                existing,
                theirs,
                manager,
                adopt=bool(request.get("adopt")),
                max_deletes=request.get("max_deletes"),
                confirm_empty=request.get("confirm_empty") or (),
                absent=absent,
                emptied=gone.get(local, ()),
                turned_away=turned_away,
            )
        writes[local] = planned.writes
        whole.extend(planned.plan)
    counts = {
        source: {"sets": len(found), "addresses": sum(len(nets) for nets in found.values())}
        for source, found in sorted(members.items())
    }
    return whole, writes, counts


def _turned_away(source: str, members: Members, refused: t.Sequence[Refusal]) -> str:
    """Why a source has so few members, where its pods were refused."""
    kept = {f"{source}/{member.namespace}/{origin.pod}" for member, nets in members.items() for origin in nets.values()}
    return why_refused([row for row in refused if row.object.partition("/")[0] == source], kept, "pod")


def apply(
    clusters: Clusters,
    read: Read,
    whole: Plan,
    writes: t.Mapping[str, t.Sequence[Write]],
    manager: str,
    leave_conflicts: bool = False,
) -> Plan:
    """Do the writes; returns the plan with only those changes that took place."""

    def one(client: Client, write: Write, manager: str) -> t.Any:
        target = read.sets[client.cluster][0]
        path = target.path(write.key.name)
        if write.manifest is None:
            return client.delete(path, uid=write.uid)
        if write.change.action == CREATE:
            # a plain POST: several versions of Calico's API server cannot make objects by server-side apply
            return client.create(target.path(), write.manifest, manager)
        if "spec" not in write.manifest:
            return client.merge_patch(path, write.manifest, manager)
        manifest = dict(write.manifest, metadata=dict(write.manifest["metadata"], uid=write.uid))
        return take_alone(client, path, manifest, client.apply(path, manifest, manager, force=write.force), manager)

    return cluster_objects.apply(clusters, whole, writes, manager, leave_conflicts, "write network sets", one)
