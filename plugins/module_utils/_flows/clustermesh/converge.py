# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kilo's cluster mesh in one pass: one LIST of nodes and one of Peers per cluster, one plan, then only differences, or a report of them."""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.errors import BadAnswer, ListIncomplete
from ..._kubernetes.objects import take_alone
from ..._linux.host.resolve import resolve
from ..._mesh.fabric.node_listing import read_listing
from ..._mesh.kilo.node_annotations import stale_annotations
from ..._mesh.kilo.plan import RELEASE, THEIRS, MeshPlan, plan_clustermesh
from ..._mesh.kilo.report import report
from ..._mesh.kilo.sources import Gathered, Settings
from ..._mesh.kilo.status import BOOTSTRAP, DONE, SYNCED, next_delay
from ..._mesh.kilo.validation import names_of
from ..._mesh.kilo.values import PEERS, Node, parse_node
from ..._plan.annotations import Patch, plan_annotations
from ..._plan.object_plan import Write
from ..._plan.objects import field_manager
from ..._plan.plan import CREATE, DELETE, SHOWN_CHANGES, UPDATE, Plan, Refusal
from ..._values.gc_pause import gc_paused
from ..._values.refused import ValueRefused, quoted
from ..._values.text import dicts_of, mapping
from ..access import cluster_objects
from ..mesh import node_annotations
from .objects import Management

NODES = "/api/v1/nodes"
#: When a cluster failed for one of these, its other list is not tried.
_GONE = frozenset(
    ("unreachable", "timed_out", "tls_untrusted", "library_missing", "credential_failed", "redirect_refused")
)


def settings_of(request: t.Mapping[str, t.Any]) -> Settings:
    """The planner's options from a module's; what is not given has its default. Raises ValueError for a bad fabric name."""
    given = {name: request[name] for name in Settings._fields if request.get(name) is not None}
    return Settings(
        **dict(
            given, manager=field_manager(request["fabric"]), confirm_empty=frozenset(request.get("confirm_empty") or ())
        )
    )


def run(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """The module's result, and ``whole`` for its plan file. ``request`` has the module's options. Raises ValueRefused for options that make no sense."""
    # the collector would look at every node and Peer of every cluster again, and there is no garbage among them
    with gc_paused():
        return _run(request, check)


def _run(request: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
    settings = settings_of(request)
    clusters = Clusters(request["clusters"], seconds_of(request))
    _check_targets(settings, [str(entry["name"]) for entry in request["clusters"]])
    management = Management.of(request, clusters)
    meshes = list(request.get("meshes") or ()) + management.meshes
    leaving = [mesh for mesh in meshes if settings.state != "present" or mesh.get("deleting")]
    staying = [mesh for mesh in meshes if settings.state == "present" and not mesh.get("deleting")]
    gathered, refused = gather(clusters, meshes, nodes_too=bool(staying) or settings.state == "absent")
    settings = looked_up(settings, gathered, clusters.timeout)
    plan = plan_clustermesh(staying, gathered, settings)
    if leaving:
        state = settings.state if settings.state != "present" else "absent"
        plan = _joined(plan, plan_clustermesh(leaving, gathered, settings._replace(state=state)))
    plan.plan.refused.extend(refused)
    whole = plan.plan
    management.first_steps(whole, settings.state, check)
    noted, patches = plan_node_annotations(plan, gathered, settings)
    done = whole if check else apply(clusters, plan, settings.manager, bool(request.get("leave_conflicts")))
    done.extend(
        noted if check else node_annotations.apply(clusters.write, clusters.fail, noted, patches, settings.manager)
    )
    state = BOOTSTRAP if plan.bootstrapping else SYNCED if staying else DONE
    management.last_steps(done, plan, gathered, {failure["cluster"] for failure in clusters.failures}, check)
    for name in sorted(plan.isolated):
        clusters.fail_for(name, "find endpoints", "NodeNoEndpoint", plan.isolated[name])
    return clusters.result(
        done,
        targets=shown(plan),
        whole=shown(plan, None),
        anchors=plan.anchors,
        adoptable=plan.adoptable,
        next_delay=next_delay(state, bool(clusters.failures)),
    )


def _check_targets(settings: Settings, known: t.Sequence[str]) -> None:
    """Raises ValueRefused for a target that is no known cluster: a slip of the pen would leave the one that was meant without Peers."""
    unknown = sorted(set(settings.targets) - set(known))
    if unknown:
        text = "targets (clustermesh_targets) names {0}; the clusters are {1}"
        raise ValueRefused("unknown_cluster", text.format(", ".join(map(quoted, unknown)), ", ".join(sorted(known))))


def info(request: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A mesh as it is, without writing: the same reading and planning, and a report of both. Like run."""
    settings = settings_of(request)
    clusters = Clusters(request["clusters"], seconds_of(request))
    meshes = list(request.get("meshes") or ()) + Management.of(request, clusters).meshes
    gathered, refused = gather(clusters, meshes)
    settings = looked_up(settings, gathered, clusters.timeout)
    plan = plan_clustermesh(meshes, gathered, settings)
    plan.plan.extend(plan_node_annotations(plan, gathered, settings)[0])
    found = {**clusters.result(plan.plan, diff=False), **report(meshes, gathered, settings, plan)}
    return dict(
        found,
        changed=False,
        skipped_nodes=[refusal._asdict() for refusal in plan.plan.refused + refused],
        drift=shown(plan),
        in_sync=not plan.plan.changes and not clusters.failures,
        anchors=plan.anchors,
        adoptable=plan.adoptable,
        refused=[],
    )


def _joined(first: MeshPlan, second: MeshPlan) -> MeshPlan:
    """Two plans over the same targets; the second takes meshes away, and its writes go first."""
    first.plan.extend(second.plan)
    writes = {
        name: second.writes.get(name, []) + first.writes.get(name, []) for name in {**first.writes, **second.writes}
    }
    adoptable = dict(first.adoptable)
    for name, count in second.adoptable.items():
        adoptable[name] = adoptable.get(name, 0) + count
    return first._replace(writes=writes, adoptable=adoptable)


def plan_node_annotations(
    plan: MeshPlan, gathered: Gathered, settings: Settings
) -> tuple[Plan, dict[str, list[Patch]]]:
    """Annotations of Nodes that were asked for, and owned ones that are not desired any more."""
    whole = Plan()
    patches: dict[str, list[Patch]] = {}
    for name, objects in sorted(gathered.objects.items()):
        if not settings.gets_peers(name):
            continue
        desired = plan.annotations.get(name, {})
        doomed = stale_annotations(objects, settings.manager, desired) if settings.state != "released" else {}
        for state, given in (("present", desired), ("absent", doomed)):
            part, todo = plan_annotations(name, given, objects, settings.manager, state=state, adopt=settings.adopt)
            part.unchanged = 0  # the result counts Peers
            whole.extend(part)
            patches.setdefault(name, []).extend(todo)
    return whole, patches


def gather(
    clusters: Clusters, meshes: t.Sequence[t.Mapping[str, t.Any]], nodes_too: bool = True
) -> tuple[Gathered, list[Refusal]]:
    """Everything that is read, and nodes that are no nodes. What failed is in ``clusters.failures`` and ``unreachable``."""

    def read(name: str, client: Client) -> dict[str, t.Any]:
        found: dict[str, t.Any] = {}
        for path in (NODES, PEERS) if nodes_too else (PEERS,):
            try:
                found[path] = client.list(path)
            except ListIncomplete as error:
                found.setdefault("errors", []).append(error)
                if error.cause in _GONE:
                    break
        return found

    answers = clusters.read("list nodes and peers", read)
    unreachable = {failure["cluster"]: failure["reason"] for failure in clusters.failures}
    nodes: dict[str, list[Node]] = {}
    peers: dict[str, list[dict[str, t.Any]]] = {}
    ready: dict[str, set[str]] = {}
    objects: dict[str, dict[str, t.Any]] = {}
    refused: list[Refusal] = []
    for name, answer in answers.items():
        for error in answer.get("errors", ()):
            clusters.fail(error)
            unreachable[name] = error.cause
        if PEERS in answer:
            peers[name] = answer[PEERS].items
        if NODES in answer:
            listing = read_listing(name, {"nodes": answer[NODES].items})
            if listing.failure is not None:
                clusters.fail_for(name, "read nodes", listing.failure["reason"], listing.failure["message"])
                unreachable[name] = listing.failure["reason"]
                continue
            refused.extend(listing.refused)
            nodes[name] = [parse_node(listing.nodes[node]) for node in sorted(listing.nodes)]
            objects[name] = {
                str(node["metadata"].get("name")): node
                for node in answer[NODES].items
                if isinstance(node.get("metadata"), dict)
            }
            ready[name] = {str(node["metadata"].get("name")) for node in answer[NODES].items if _is_ready(node)}
    for name in _without_access(clusters, meshes, unreachable):
        clusters.fail_for(
            name, "use the cluster", "no_access", "it is in a mesh, and there is no access to it: add it to clusters"
        )
        unreachable[name] = "no_access"
    return Gathered(nodes, peers, unreachable, ready, objects), refused


def _without_access(
    clusters: Clusters, meshes: t.Sequence[t.Mapping[str, t.Any]], unreachable: t.Mapping[str, str]
) -> list[str]:
    entries = [entry for mesh in meshes for entry in mesh.get("clusters") or () if isinstance(entry, dict)]
    names = {str(entry.get("name")) for entry in entries}
    return sorted(name for name in names if name not in clusters.clients and name not in unreachable)


def _is_ready(node: t.Mapping[str, t.Any]) -> bool:
    conditions = dicts_of(mapping(node, "status").get("conditions"))
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def looked_up(settings: Settings, gathered: Gathered, seconds: float) -> Settings:
    """The settings with the addresses of all DNS names of endpoints, where the run is strict about them."""
    if not settings.strict_endpoints or settings.state != "present":
        return settings
    return settings._replace(resolved=resolve(names_of(gathered.nodes, gathered.peers), seconds))


def apply(clusters: Clusters, plan: MeshPlan, manager: str, leave_conflicts: bool = False) -> Plan:
    """Do the writes, all targets side by side; returns the plan with only those changes that took place."""
    writes = {name: [one.write for one in todo] for name, todo in plan.writes.items()}
    done = cluster_objects.apply(clusters, plan.plan, writes, manager, leave_conflicts, "write peers", _write)
    peers = {id(one.change) for todo in writes.values() for one in todo}
    # finalizers were written before
    done.changes = [change for change in plan.plan.changes if id(change) not in peers] + done.changes
    return done


def _write(client: Client, write: Write, manager: str) -> t.Any:
    try:
        path = f"{PEERS}/{segment(write.key.name)}"
    except ValueError as error:  # a name that the server gave and that no path can hold
        raise BadAnswer(client.cluster, "write a peer", str(error)) from None
    if write.manifest is None:
        return client.delete(path, uid=write.uid)
    if "spec" not in write.manifest:
        return client.merge_patch(path, write.manifest, manager)
    body = dict(write.manifest, metadata=dict(write.manifest["metadata"]))
    if write.uid:
        body["metadata"]["uid"] = write.uid
    answer = client.apply(path, body, manager, force=write.force)
    # applying takes nothing away that somebody else set, nor anybody with an equal value from the record
    return take_alone(client, path, body, answer, manager, THEIRS) if write.uid else answer


def shown(plan: MeshPlan, limit: int | None = SHOWN_CHANGES) -> dict[str, dict[str, t.Any]]:
    """{target: {create, update, delete, release, keep: [{name, reason}]}}, the first of each; None: all of them."""
    found: dict[str, dict[str, t.Any]] = {}
    for name in sorted(plan.writes):
        rows: dict[str, t.Any] = {action: [] for action in (CREATE, UPDATE, DELETE, RELEASE, "keep")}
        for write in plan.writes[name]:
            rows[write.action].append({"name": write.name, "reason": write.reason})
        found[name] = rows
    for kept in plan.kept:
        found[kept.target]["keep"].append({"name": kept.name, "reason": kept.reason})
    return {name: {action: listed[:limit] for action, listed in rows.items()} for name, rows in found.items()}
