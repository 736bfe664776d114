# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What upstream programs there are, their settings, and who owns the objects that they write: read only, no Secret is asked for."""

from __future__ import annotations

import functools
import typing as t

from ..._io.settings_source import read_text
from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.errors import KubeError
from ..._kubernetes.plain_yaml import plain_documents
from ..._upstream.document import text
from ..._upstream.leftovers import MOST_LINES, Left, leftovers, lines as leftover_lines
from ..._upstream.owners import MARKED, Marked, count, still
from ..._upstream.programs import CLUSTERMESH, KUBESPAN, PROGRAMS
from ..._upstream.reading import Given, Seen, objects_of, propose
from ..._upstream.remains import BINDINGS, DEFINITION, ROLES, WEBHOOKS, namespaces_of, remains
from ..._upstream.workloads import KINDS, desired_config_maps, processes
from ..._values.refused import ValueRefused
from ..._values.text import lower

APPS, MESHES = "apps/v1", "kilo.squat.ai/v1alpha1"
RIGHTS, ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
#: In place of a program's name: a file of manifests, as kubectl writes them.
MANIFESTS = "manifests"
#: Rows of a result about what is left; ``leftovers_count`` has them all.
MOST_LEFT = 200
Row = dict[str, t.Any]


def run(request: t.Mapping[str, t.Any]) -> Row:
    """The result of the module upstream_info. request: clusters, files, timeout, keep_clustermeshes. Raises ValueRefused for files that cannot be read."""
    seen, given = _files(request.get("files") or ())
    clusters = Clusters(request.get("clusters") or (), seconds_of(request))
    stay = bool(request.get("keep_clustermeshes"))
    read = clusters.read("look for other programs", lambda name, client: _gather(name, client, clusters, stay))
    proposal, programs = propose([*(one.seen for one in read.values()), *seen], given, clusters.clients)
    for name, one in read.items():
        for error in one.unread:
            text_of = "what else of the programs is left was not looked at: cannot {0} ({1})"
            proposal.find(
                f"cluster {name}", "unread", text_of.format(error.operation, getattr(error, "cause", error.reason))
            )
    owners = [row for one in read.values() for row in one.owners]
    fields = [row for one in read.values() for row in one.fields]
    left = [row for one in read.values() for row in one.left]
    return {
        "changed": False,
        "programs": [
            {
                "program": one.program.name,
                "capability": one.program.capability,
                "where": one.where,
                "copies": one.copies,
            }
            for one in programs
        ],
        "owners": owners,
        "keys": [row._asdict() for row in proposal.rows],
        "findings": [row._asdict() for row in proposal.findings],
        "secrets": [{"variable": name, "where": place} for name, place in sorted(proposal.secrets.items())],
        "proposal": text(proposal),
        "leftovers": [row._asdict() for row in left[:MOST_LEFT]],
        "leftovers_count": len(left),
        "fields": fields[:MOST_LEFT],
        "lines": _lines(programs, owners, proposal.findings, left, fields),
        "failures": clusters.failures,
        "unread": sorted({str(row["cluster"]) for row in clusters.failures}),
        "stats": clusters.stats(),
    }


class Gathered(t.NamedTuple):
    """What one cluster has. ``fields``: for which the programs are still on record in what is owned; ``unread``: why not all that is left is known."""

    seen: Seen
    owners: list[Row]
    fields: list[Row]
    left: list[Left]
    unread: list[KubeError]


def _gather(name: str, client: Client, clusters: Clusters, stay: bool) -> Gathered:
    """One cluster: workloads, the ConfigMaps that upstream programs mount, ClusterMesh objects, owners, leftovers. ``stay``: ClusterMesh objects are none."""
    objects: list[t.Any] = []
    for kind in KINDS:
        objects += _listed(client, APPS, kind)
    config_maps = {}
    for namespace, config_map in desired_config_maps(processes(name, objects)):
        found = client.find(f"/api/v1/namespaces/{segment(namespace)}/configmaps/{segment(config_map)}")
        if found is not None:
            config_maps[namespace, config_map] = found.get("data") or {}
    meshes = client.list(f"/apis/{MESHES}/clustermeshes").items if client.serves(MESHES, "ClusterMesh") else []
    owners, fields = _owners(name, client, clusters)
    left = leftovers(name, objects)
    unread: list[KubeError] = []
    if left or meshes:
        around = _around(client, left, bool(meshes) and not stay, unread)
        left = sorted(left + remains(name, left, objects, around, [] if stay else meshes))
    return Gathered(Seen(name, objects, config_maps, meshes), owners, fields, left, unread)


def _listed(client: Client, version: str, kind: str, namespace: str = "") -> list[Row]:
    """All objects of a kind of the server's own, each with its kind, which lists leave out."""
    base = "/api/v1" if version == "v1" else "/apis/" + version
    place = "/namespaces/" + segment(namespace) if namespace else ""
    return [dict(obj, kind=kind) for obj in client.list(f"{base}{place}/{lower(kind)}s").items]


def _around(client: Client, left: t.Sequence[Left], meshes: bool, unread: list[KubeError]) -> list[Row]:
    """What may point at the leftovers. An account that may not look at it still sees the rest."""
    found: list[Row] = []

    def read(function: t.Callable[[], t.Iterable[Row]]) -> None:
        try:
            found.extend(function())
        except KubeError as error:
            unread.append(error)

    if any(one.kind == "ServiceAccount" for one in left):
        # all of it or nothing: what is not seen may bind the same role
        read(lambda: [obj for kind in (*BINDINGS, *ROLES) for obj in _listed(client, RIGHTS, kind)])
    for namespace in namespaces_of(left):
        read(functools.partial(_listed, client, "coordination.k8s.io/v1", "Lease", namespace))
        read(functools.partial(_listed, client, "v1", "Service", namespace))
    if any(obj["kind"] == "Service" for obj in found):
        for kind in WEBHOOKS:
            read(functools.partial(_listed, client, ADMISSION, kind))
    if meshes:
        read(
            lambda: [
                dict(obj, kind="CustomResourceDefinition")
                for obj in [client.find(DEFINITIONS + DEFINITION)]
                if obj is not None
            ]
        )
    return found


def _owners(name: str, client: Client, clusters: Clusters) -> tuple[list[Row], list[Row]]:
    """Who is on record for what such programs write, and for what of it that is owned they still are."""
    rows, fields = [], []
    lists: dict[Marked, t.Sequence[t.Any]] = {}
    for marked in MARKED:
        try:
            # two of them write into Nodes
            what = marked._replace(program="", annotation="")
            if what not in lists:
                lists[what] = _written(client, marked)
            rows += [dict(row, cluster=name) for row in count(marked, lists[what])]
            fields += [dict(row, cluster=name) for row in still(marked, lists[what])]
        except KubeError as error:
            clusters.fail(error)
    return rows, fields


def _written(client: Client, marked: Marked) -> t.Sequence[t.Any]:
    resource = client.resource(marked.api_version, marked.kind)
    if resource is None:
        return []
    if marked.place:
        found = client.find(resource.path(*marked.place))
        return [found] if found is not None else []
    return client.list(resource.path(), label_selector=marked.selector or None).items


def _files(rows: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[list[Seen], list[Given]]:
    seen, given = [], []
    for row in rows:
        path, program, cluster = str(row["path"]), str(row["program"]), str(row.get("cluster") or "")
        content = read_text(path)
        documents: list[t.Any] = []
        if program in (MANIFESTS, CLUSTERMESH.name, KUBESPAN.name):
            try:
                documents = plain_documents(content)
            except ValueRefused as refused:
                raise ValueRefused(refused.reason, f"files (adopt_files): {path} is {refused.message}") from None
        if program == MANIFESTS:
            seen.append(objects_of(cluster, documents))
        else:
            given.append(Given(PROGRAMS[program], cluster, path, content, documents))
    return seen, given


def _lines(
    programs: t.Sequence[t.Any],
    owners: t.Sequence[Row],
    findings: t.Sequence[t.Any],
    left: t.Sequence[Left],
    fields: t.Sequence[Row],
) -> list[str]:
    """What a person reads: programs, owners, findings, what nothing needs afterwards."""
    lines = [f"{one.program.name}: {one.where}, {'stopped' if one.copies == 0 else 'running'}" for one in programs]
    lines += [
        "{cluster}: {objects} {kind} of {manager}{mark}".format(mark=" (owned)" if row["owned"] else "", **row)
        for row in owners
    ]
    lines += [f"look at {row.object}: {row.message} [{row.reason}]" for row in findings]
    said = [
        "{cluster}: {manager} is still on record for {all} of {objects} {kind}, which nothing needs".format(
            all=", ".join(row["fields"]), **row
        )
        for row in fields
    ]
    lines += said[:MOST_LINES] + [f"{len(said) - MOST_LINES} more such fields"] * (len(said) > MOST_LINES)
    lines += leftover_lines(left)
    return lines or ["none of the programs that this collection replaces was found"]
