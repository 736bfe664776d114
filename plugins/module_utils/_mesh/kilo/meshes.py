# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ClusterMesh definitions: both schemas, all findings at once, overlaps as the operator words them (kilo 4, 9, 16)."""

from __future__ import annotations

import re
import typing as t

from ..._values.addresses import Network
from ..._values.prefix_sets import overlapping_pairs
from ..._values.refused import ValueRefused, quoted
from ..._values.text import mapping
from .peers import all_cidrs
from .values import Entry, parse_cidr

OVERLAP, INVALID_CIDR = "overlap", "invalid-cidr"
_CLUSTER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")
_TYPED = ("podCIDRs", "wireguardCIDR", "serviceCIDR", "additionalCIDRs")
_FIELDS = frozenset(
    _TYPED
    + (
        "endpoint_policy",
        "name",
        "local",
        "kubeconfigSecretRef",
        "wireguardPort",
        "persistentKeepalive",
        "allowedNetworks",
    )
)


class MeshFinding(t.NamedTuple):
    """What is wrong with meshes: their ids, the reason, the message."""

    meshes: tuple[str, ...]
    reason: str
    message: str


class _Range(t.NamedTuple):
    mesh: int
    cluster: str
    text: str
    place: int


def mesh_id(mesh: t.Mapping[str, t.Any]) -> str:
    """namespace/name of a mesh that is an object, the name alone of one in the inventory."""
    namespace = mesh.get("namespace")
    return f"{namespace}/{mesh.get('name')}" if namespace else str(mesh.get("name"))


def validate_meshes(meshes: t.Sequence[t.Mapping[str, t.Any]]) -> list[MeshFinding]:
    """Every invalid CIDR and every overlap, those inside a mesh before those between meshes; [] when all is disjoint.

    The first finding is what the operator reports. Ranges of clusters with one name in two meshes may overlap: that is a
    hub which several meshes share.
    """
    findings: list[MeshFinding] = []
    crossing: list[tuple[Network, _Range]] = []
    for number, mesh in enumerate(meshes):
        ranges: list[tuple[Network, _Range]] = []
        for entry in mesh.get("clusters") or ():
            for text in all_cidrs(entry):
                cluster = str(entry.get("name"))
                try:
                    network = parse_cidr(text).network
                except ValueRefused as error:
                    message = 'mesh "{0}": cluster "{1}": invalid CIDR "{2}": {3}'
                    findings.append(
                        MeshFinding(
                            (mesh_id(mesh),),
                            INVALID_CIDR,
                            message.format(mesh.get("name"), cluster, text, error.message),
                        )
                    )
                    continue
                ranges.append((network, _Range(number, cluster, str(text), len(ranges))))
        for first, second in _overlaps(ranges, lambda one, other: False):
            message = 'mesh "{0}": CIDR overlap between cluster "{1}" ({2}) and cluster "{3}" ({4})'.format(
                mesh.get("name"), first.cluster, first.text, second.cluster, second.text
            )
            findings.append(MeshFinding((mesh_id(mesh),), OVERLAP, message))
        crossing.extend(ranges)
    if len(meshes) > 1:
        for first, second in _overlaps(
            crossing, lambda one, other: one.mesh == other.mesh or one.cluster == other.cluster
        ):
            message = 'CIDR overlap between mesh "{0}" (cluster "{1}", {2}) and mesh "{3}" (cluster "{4}", {5})'.format(
                meshes[first.mesh].get("name"),
                first.cluster,
                first.text,
                meshes[second.mesh].get("name"),
                second.cluster,
                second.text,
            )
            findings.append(MeshFinding((mesh_id(meshes[first.mesh]), mesh_id(meshes[second.mesh])), OVERLAP, message))
    return findings


def _overlaps(
    ranges: t.Iterable[tuple[Network, _Range]], may_overlap: t.Callable[[_Range, _Range], bool]
) -> list[tuple[_Range, _Range]]:
    """Pairs of ranges that share addresses, in the order of the definitions."""
    found = []
    for (dummy, one), (dummy_too, other) in overlapping_pairs(ranges, may_overlap):
        found.append((one, other) if (one.mesh, one.place) <= (other.mesh, other.place) else (other, one))
    return sorted(found, key=lambda pair: (pair[0].mesh, pair[1].mesh, pair[0].place, pair[1].place))


def check_definition(mesh: t.Mapping[str, t.Any]) -> list[MeshFinding]:
    """What no schema checks and what leads astray later: names, both or neither range schema, numbers (gaps G16, G22)."""
    found: list[str] = []
    name, entries = mesh.get("name"), mesh.get("clusters")
    if not isinstance(name, str) or not _LABEL_VALUE.match(name):
        found.append(f"the name {quoted(name)} is no label value (63 characters at most)")
    if not isinstance(entries, (list, tuple)) or len(entries) < 2 or not all(isinstance(e, dict) for e in entries):
        found.append("clusters must be a list of two clusters or more")
        entries = []
    names = [entry.get("name") for entry in entries]
    for cluster in sorted({str(item) for item in names if names.count(item) > 1}):
        found.append(f"cluster {quoted(cluster)} is in the list twice")
    if sum(1 for entry in entries if entry.get("local") is True) > 1:
        found.append("more than one cluster is local")
    for entry in entries:
        found.extend(_entry_findings(entry))
    return [MeshFinding((mesh_id(mesh),), "definition_invalid", f'mesh "{name}": {text}') for text in found]


def _entry_findings(entry: Entry) -> t.Iterator[str]:
    name = entry.get("name")
    where = f"cluster {quoted(name)}"
    if not isinstance(name, str) or not _CLUSTER_NAME.match(name):
        yield where + ": the name is no lower-case DNS label"
    elif "--" in name:
        yield where + ": a name with -- makes names of Peers ambiguous"
    flat, typed = entry.get("allowedNetworks") is not None, [key for key in _TYPED if entry.get(key)]
    if flat and typed:
        yield f"{where}: give either allowedNetworks or {', '.join(typed)}"
    elif not flat and not (entry.get("podCIDRs") and entry.get("wireguardCIDR")):
        yield where + ": give podCIDRs and wireguardCIDR, or allowedNetworks"
    elif flat and not entry.get("allowedNetworks"):
        yield where + ": allowedNetworks is empty"
    for key in ("podCIDRs", "additionalCIDRs", "allowedNetworks"):
        if entry.get(key) is not None and not isinstance(entry[key], (list, tuple)):
            yield f"{where}: {key} is a list"
    for key, low in (("wireguardPort", 0), ("persistentKeepalive", 0)):
        value = entry.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 65535):
            yield f"{where}: {key} is a number of at most 65535"
    for key in sorted(set(entry) - _FIELDS, key=str):
        yield f"{where}: {quoted(key)} is no field of a cluster"


def registry(meshes: t.Iterable[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Which access each cluster name means: the first entry with the name counts, over all meshes in order.

    [{name, local: True}] or [{name, secret: namespace/name, key}]; an entry with neither is left out and still counts as
    the first with its name.
    """
    found: dict[t.Any, dict[str, t.Any]] = {}
    for mesh in meshes:
        for entry in mesh.get("clusters") or ():
            name = entry.get("name")
            if name in found:
                continue
            found[name] = {}
            reference = entry.get("kubeconfigSecretRef")
            if entry.get("local"):
                found[name] = {"name": name, "local": True}
            elif isinstance(reference, dict):
                secret = f"{mesh.get('namespace')}/{reference.get('name')}"
                found[name] = {"name": name, "secret": secret, "key": reference.get("key")}
    return [access for access in found.values() if access]


def from_object(obj: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A ClusterMesh object as a definition: namespace, name, clusters, and what its status needs."""
    metadata = mapping(obj, "metadata")
    clusters = list(mapping(obj, "spec").get("clusters") or ())
    return {"namespace": metadata.get("namespace"), "name": metadata.get("name"), "clusters": clusters, "object": obj}
