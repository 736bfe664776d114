# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What originals there are, what they were told, and whose the objects are that they write: read only, no Secret is asked for."""

from __future__ import annotations

import typing as t

from ..._io.settings_source import read_text
from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.errors import KubeError
from ..._kubernetes.plain_yaml import plain_documents
from ..._originals.document import text
from ..._originals.leftovers import Left, leftovers, lines as leftover_lines
from ..._originals.owners import MARKED, count
from ..._originals.programs import CLUSTERMESH, KUBESPAN, PROGRAMS
from ..._originals.reading import Given, Seen, objects_of, propose
from ..._originals.workloads import KINDS, processes, wanted_config_maps
from ..._values.refused import ValueRefused
from ..._values.text import lower

APPS, MESHES = "apps/v1", "kilo.squat.ai/v1alpha1"
#: In place of a program's name: a file of manifests, as kubectl writes them.
MANIFESTS = "manifests"
#: Rows of a result about what is left; ``leftovers_count`` has them all.
MOST_LEFT = 200
Row = t.Dict[str, t.Any]


def run(request: t.Mapping[str, t.Any]) -> Row:
    """The result of the module originals_info. request: clusters, files, timeout. Raises ValueRefused for files that cannot be read."""
    seen, given = _files(request.get("files") or ())
    clusters = Clusters(request.get("clusters") or (), seconds_of(request))
    read = clusters.read("look for other programs", lambda name, client: _gather(name, client, clusters))
    found = [one for one, unused in read.values()]
    proposal, programs = propose([*found, *seen], given, clusters.clients)
    owners = [row for unused, rows in read.values() for row in rows]
    left = [row for one in found for row in leftovers(one.cluster, one.objects)]
    return {
        "changed": False,
        "programs": [{"program": one.program.name, "capability": one.program.capability, "where": one.where, "copies": one.copies} for one in programs],
        "owners": owners,
        "keys": [row._asdict() for row in proposal.rows],
        "findings": [row._asdict() for row in proposal.findings],
        "secrets": [{"variable": name, "where": place} for name, place in sorted(proposal.secrets.items())],
        "proposal": text(proposal),
        "leftovers": [row._asdict() for row in left[:MOST_LEFT]],
        "leftovers_count": len(left),
        "lines": _lines(programs, owners, proposal.findings, left),
        "failures": clusters.failures,
        "stats": clusters.stats(),
    }


def _gather(name: str, client: Client, clusters: Clusters) -> t.Tuple[Seen, t.List[Row]]:
    """One cluster: workloads, the ConfigMaps that originals mount, ClusterMesh objects, owners."""
    objects: t.List[t.Any] = []
    for kind in KINDS:
        listed = client.list("/apis/{0}/{1}s".format(APPS, lower(kind))).items
        objects.extend(dict(obj, kind=kind) for obj in listed)
    config_maps = {}
    for namespace, config_map in wanted_config_maps(processes(name, objects)):
        found = client.find("/api/v1/namespaces/{0}/configmaps/{1}".format(segment(namespace), segment(config_map)))
        if found is not None:
            config_maps[namespace, config_map] = found.get("data") or {}
    meshes = client.list("/apis/{0}/clustermeshes".format(MESHES)).items if client.serves(MESHES, "ClusterMesh") else []
    return Seen(name, objects, config_maps, meshes), _owners(name, client, clusters)


def _owners(name: str, client: Client, clusters: Clusters) -> t.List[Row]:
    rows = []
    for marked in MARKED:
        try:
            resource = client.resource(marked.api_version, marked.kind)
            if resource is not None:
                objects = client.list(resource.path(), label_selector=marked.selector or None).items
                rows += [dict(row, cluster=name) for row in count(marked, objects)]
        except KubeError as error:
            clusters.fail(error)
    return rows


def _files(rows: t.Sequence[t.Mapping[str, t.Any]]) -> t.Tuple[t.List[Seen], t.List[Given]]:
    seen, given = [], []
    for row in rows:
        path, program, cluster = str(row["path"]), str(row["program"]), str(row.get("cluster") or "")
        content = read_text(path)
        documents: t.List[t.Any] = []
        if program in (MANIFESTS, CLUSTERMESH.name, KUBESPAN.name):
            try:
                documents = plain_documents(content)
            except ValueRefused as refused:
                raise ValueRefused(refused.reason, "files (adopt_files): {0} is {1}".format(path, refused.message)) from None
        if program == MANIFESTS:
            seen.append(objects_of(cluster, documents))
        else:
            given.append(Given(PROGRAMS[program], cluster, path, content, documents))
    return seen, given


def _lines(programs: t.Sequence[t.Any], owners: t.Sequence[Row], findings: t.Sequence[t.Any], left: t.Sequence[Left]) -> t.List[str]:
    """What a person reads: programs, owners, findings, what nothing needs afterwards."""
    lines = ["{0}: {1}, {2}".format(one.program.name, one.where, "stopped" if one.copies == 0 else "running") for one in programs]
    lines += ["{cluster}: {objects} {kind} of {manager}{mark}".format(mark=" (ours)" if row["ours"] else "", **row) for row in owners]
    lines += ["look at {0}: {1} [{2}]".format(row.object, row.message, row.reason) for row in findings]
    lines += leftover_lines(left)
    return lines or ["none of the programs whose place this collection takes was found"]
