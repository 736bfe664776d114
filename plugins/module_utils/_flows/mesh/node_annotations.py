# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Annotations of the nodes of several clusters, all in one go: one LIST a cluster, one patch for each node that differs."""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.errors import BadAnswer, Conflict, KubeError, NotFound, Unreachable
from ..._kubernetes.objects import send_all
from ..._plan.annotations import Patch, Pattern, plan_annotations, plan_release
from ..._plan.objects import field_manager
from ..._plan.plan import Plan, from_wire
from ..._plan.sole_owner import given_up_record, taken_paths

NODES = "/api/v1/nodes"
#: A node's kubelet writes every few seconds.
TRIES = 5
WriteClusters = t.Callable[[str, list[str], t.Callable[[str, Client], t.Any]], dict[str, t.Any]]


def run(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """The module's result. ``request`` has the module's options. Raises ValueRefused for options that make no sense."""
    manager = field_manager(request["fabric"])
    patterns = [Pattern(text) for text in request.get("prefixes") or ()]
    desired = parse_desired(request.get("annotations") or {}, request.get("key"))
    clusters = Clusters(request["clusters"], seconds_of(request))
    read = gather(clusters)
    whole, patches = plan(request, desired, read, manager, patterns, check)
    known = {str(given["name"]) for given in request["clusters"]}
    for name in sorted(set(desired) - known):
        whole.refuse(name, "unknown_cluster", "annotations names a cluster that clusters does not have")
    return clusters.result(whole if check else apply(clusters.write, clusters.fail, whole, patches, manager))


def parse_desired(given: t.Mapping[str, t.Any], key: str | None = None) -> dict[str, dict[str, t.Any]]:
    """{cluster: {node: {key: value}}}; a list of node names in place of the map means nodes without desired keys.

    key: the one annotation of which each node has the value in place of a map.
    """
    desired: dict[str, dict[str, t.Any]] = {}
    for cluster, nodes in from_wire(given).items():
        if isinstance(nodes, list):
            nodes = {name: {} for name in nodes}
        desired[cluster] = {
            str(node): {key: values} if key else dict(values or {}) for node, values in (nodes or {}).items()
        }
    return desired


def gather(clusters: Clusters) -> dict[str, dict[str, t.Any]]:
    """{cluster: {node name: Node}} of every cluster that could be read completely; the others are in its failures."""
    listings = clusters.read("list " + NODES, lambda name, client: client.list(NODES))
    return {
        name: {str(node["metadata"].get("name")): node for node in listing.items} for name, listing in listings.items()
    }


def plan(
    request: t.Mapping[str, t.Any],
    desired: t.Mapping[str, t.Mapping[str, t.Any]],
    read: t.Mapping[str, t.Mapping[str, t.Any]],
    manager: str,
    patterns: t.Sequence[Pattern],
    check: bool,
) -> tuple[Plan, dict[str, list[Patch]]]:
    """What would be written, cluster by cluster. Pure."""
    whole, patches = Plan(), {}
    for name in sorted(read):
        if request.get("state") == "released":
            part, patches[name] = plan_release(name, desired.get(name, {}), read[name], manager, patterns)
            whole.extend(part)
            continue
        part, patches[name] = plan_annotations(
            name,
            desired.get(name, {}),
            read[name],
            manager,
            patterns,
            state=request.get("state", "present"),
            purge_all=request.get("purge") == "all",
            adopt=bool(request.get("adopt")),
            check=check,
            max_deletes=request.get("max_deletes"),
            confirm_empty=name in (request.get("confirm_empty") or ()),
        )
        whole.extend(part)
    return whole, patches


def apply(
    write: WriteClusters,
    fail: t.Callable[[KubeError], None],
    whole: Plan,
    patches: t.Mapping[str, t.Sequence[Patch]],
    manager: str,
) -> Plan:
    """Send the patches; returns the plan with only those changes that took place. ``write`` and ``fail`` as those of Clusters."""
    written = write(
        "annotate nodes",
        [name for name, todo in patches.items() if todo],
        lambda name, client: _patch_nodes(client, patches[name], manager),
    )
    done = Plan()
    done.refused, done.warnings, done.unchanged = list(whole.refused), list(whole.warnings), whole.unchanged
    kept = set()
    for name, answers in written.items():
        for patch, error in zip(patches[name], answers):
            if error is None:
                kept.add(f"{name}/{patch.name}")
            elif isinstance(error, NotFound):
                done.refuse(f"{name}/{patch.name}", "no_such_node", "the node has just been removed")
            else:
                fail(error)
    done.changes = [change for change in whole.changes if change.id in kept]
    return done


def _take(client: Client, path: str, patch: Patch, metadata: t.Mapping[str, t.Any], manager: str) -> None:
    """Write it, and end the record of others for the keys, or our own. Who owns what is written as a whole, so under the version read just now."""
    for attempt in range(TRIES):
        found = client.get(path)
        if patch.given_up:
            record: t.Any = given_up_record(
                found, manager, [("metadata", "annotations", key) for key in patch.given_up]
            )
        else:
            record = taken_paths(found, manager, [("metadata", "annotations", key) for key in patch.taken])
        body = dict(
            metadata,
            resourceVersion=found["metadata"].get("resourceVersion"),
            **({"managedFields": record} if record is not None else {}),
        )
        try:
            client.merge_patch(path, {"metadata": body}, manager)
            return
        except Conflict:
            if attempt == TRIES - 1:
                raise


def _patch_nodes(client: Client, patches: t.Sequence[Patch], manager: str) -> list[KubeError | None]:
    def send(patch: Patch) -> None:
        try:
            path = f"{NODES}/{segment(patch.name)}"
        except ValueError as error:  # the name comes from the server
            raise BadAnswer(client.cluster, "annotate a node", str(error)) from None
        # the uid is a precondition: not for a node made anew under this name. Nodes change too often for more.
        metadata: dict[str, t.Any] = (
            {"annotations": patch.values, "uid": patch.uid} if patch.uid else {"annotations": patch.values}
        )
        if patch.given_up:
            _take(client, path, patch, {"uid": patch.uid} if patch.uid else {}, manager)
        elif patch.taken:
            _take(client, path, patch, metadata, manager)
        else:
            client.strategic_patch(path, {"metadata": metadata}, manager)

    return send_all(client, patches, lambda patch: f"patch {NODES}/{patch.name}", send, [], Unreachable)
