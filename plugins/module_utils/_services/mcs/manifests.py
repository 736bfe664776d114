# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one cluster gets of a merged Service: the derived Service, the ServiceImport, and the slices of each source (mcs 1, 2, 4). Pure."""

from __future__ import annotations

import typing as t

from ..._plan.objects import MANAGED_BY, MANAGED_BY_US
from ..._plan.plan import Pending
from ..._values.exported_ranges import ExportedRanges
from ..endpoints import Group, as_seen
from ..mirror_services import Manifest, Object
from ..slices import MANAGED_BY as SLICE_MANAGED_BY, SERVICE_NAME, slice_manifest, sliced
from .exports import Export, is_qualified
from .merge import Merged, Shape, same_port
from .names import (
    FIRST_EXPORT,
    IMPORT,
    SERVICE,
    SERVICE_LABEL,
    SLICES_MANAGED_BY,
    SOURCE_LABEL,
    UNREACHABLE_SINCE,
    VERSIONS,
    Id,
    derived_name,
    slices_name,
)

CLUSTER_SET_IP, HEADLESS = "ClusterSetIP", "Headless"
#: (major, minor) of the first API server that takes this value.
_POLICY_SINCE = (1, 22)
_DISTRIBUTION_SINCE = {"PreferClose": (1, 31), "PreferSameZone": (1, 34), "PreferSameNode": (1, 34)}


def asks_version(shape: Shape) -> bool:
    """Whether it depends on the API server's version what its derived Service can say."""
    return not shape.headless and (shape.policy == "Local" or shape.distribution is not None)


def port_names(shape: Shape) -> dict[str, str]:
    """{name of the import's port: that of the derived Service's and of slices}: where there are several, a Service wants all named."""
    names = {port["name"] for port in shape.ports}
    found = {name: name for name in names}
    if "" in names and len(shape.ports) > 1 and not shape.headless:
        port = next(port for port in shape.ports if not port["name"])
        name = "{0}-{1}".format({"TCP": "tcp", "UDP": "udp"}.get(port["protocol"], "sctp"), port["port"])
        while name in names:
            name += "-x"
        found[""] = name
    return found


def derived_service(
    merged: Merged, families: t.Sequence[str] | None, actual: Object | None, version: tuple[int, int] | None
) -> Manifest:
    """The Service that has the address. families: the cluster's, None where Services know none; actual: the one that there is, with the addresses that stay."""
    shape, (namespace, name) = merged.shape, merged.place
    names = port_names(shape)
    ports = [_without_empty(dict(port, name=names[port["name"]])) for port in shape.ports]
    spec: Manifest = {"ports": ports}
    both = len(shape.families) > 1 or (families and shape.families and shape.families[0] != families[0])
    if families is not None and (both or len(((actual or {}).get("spec") or {}).get("clusterIPs") or ()) > 1):
        spec["ipFamilyPolicy"] = "PreferDualStack"
    if shape.affinity == "ClientIP":
        spec["sessionAffinity"] = "ClientIP"
        if shape.affinity_config is not None:
            spec["sessionAffinityConfig"] = shape.affinity_config
    if shape.policy == "Local" and version is not None and version >= _POLICY_SINCE:
        spec["internalTrafficPolicy"] = "Local"
    since = _DISTRIBUTION_SINCE.get(shape.distribution or "")
    if since is not None and version is not None and version >= since:
        spec["trafficDistribution"] = shape.distribution
    labels = {MANAGED_BY: MANAGED_BY_US, SERVICE_LABEL: name}
    meta = {"name": derived_name(namespace, name), "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": SERVICE, "metadata": meta, "spec": spec}


def addresses_of(service: Object | None) -> tuple[list[str], list[str]] | None:
    """(addresses, families) that the cluster gave a Service, None for none yet."""
    spec = (service or {}).get("spec") or {}
    found = spec.get("clusterIPs") or [spec.get("clusterIP")]
    ips = [text for text in found if isinstance(text, str) and text not in ("", "None")]
    return (ips, ["IPv6" if ":" in text else "IPv4" for text in ips]) if ips else None


def service_import(
    merged: Merged, families: t.Sequence[str], service: Object | None, version: str, first: bool
) -> Manifest:
    """The import. service: the derived one as the cluster has it; without it the addresses are still to come.

    first: whether the one that decided first is to be remembered.
    """
    shape, (namespace, name) = merged.shape, merged.place
    beta = version == VERSIONS[0]
    ports = [_without_empty(dict(port)) for port in shape.ports]
    spec: Manifest = {
        "type": HEADLESS if shape.headless else CLUSTER_SET_IP,
        "ports": ports,
        "sessionAffinity": shape.affinity,
    }
    if shape.affinity_config is not None:
        spec["sessionAffinityConfig"] = shape.affinity_config
    if shape.headless:
        own = [family for family in shape.families if family in families] or list(shape.families)
        if beta and own:
            spec["ipFamilies"] = own
    else:
        found = addresses_of(service)
        what = f"addresses of Service {namespace}/{derived_name(namespace, name)}"
        spec["ips"] = Pending(what) if found is None else found[0] if beta else found[0][:1]
        if beta:
            spec["ipFamilies"] = Pending("families of the " + what) if found is None else found[1]
    for field, value in (("internalTrafficPolicy", shape.policy), ("trafficDistribution", shape.distribution)):
        if beta and value is not None:
            spec[field] = value
    annotations = dict(shape.annotations, **({FIRST_EXPORT: merged.winner} if first else {}))
    meta: Manifest = {"name": name, "namespace": namespace}
    meta.update(
        (field, dict(value)) for field, value in (("labels", shape.labels), ("annotations", annotations)) if value
    )
    return {"apiVersion": version, "kind": IMPORT, "metadata": meta, "spec": spec}


def standing_shape(obj: Object) -> Shape | None:
    """The contents of an owned import, for the time in which not all can be asked. None for one that the collection did not write so."""
    spec, meta = obj.get("spec"), obj["metadata"]
    if not isinstance(spec, dict) or spec.get("type") not in (CLUSTER_SET_IP, HEADLESS):
        return None
    ports = []
    for port in spec.get("ports") or ():
        if not isinstance(port, dict) or not isinstance(port.get("port"), int):
            return None
        ports.append(dict({"name": "", "protocol": "TCP"}, **port))
    config = spec.get("sessionAffinityConfig")
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key != FIRST_EXPORT}
    return Shape(
        spec["type"] == HEADLESS,
        tuple(ports),
        "ClientIP" if spec.get("sessionAffinity") == "ClientIP" else "None",
        config if isinstance(config, dict) else None,
        spec.get("internalTrafficPolicy"),
        spec.get("trafficDistribution"),
        tuple(family for family in spec.get("ipFamilies") or () if family in ("IPv4", "IPv6")),
        meta.get("labels") or {},
        annotations,
    )


def _without_empty(port: Manifest) -> Manifest:
    return {field: value for field, value in port.items() if value != ""}


# -- slices -----------------------------------------------------------------------------------------------------------


def slices_of(merged: Merged, export: Export, exported: ExportedRanges | None = None) -> list[Group]:
    """The endpoints of one cluster behind those ports of the import that it has, under the names that the derived Service has for them.

    exported: at which addresses they are seen from another cluster.
    """
    names = port_names(merged.shape)
    own = {port["name"] for port in export.ports if any(same_port(port, other) for other in merged.shape.ports)}
    found = []
    for group in as_seen(export.groups, exported, named=merged.shape.headless):
        ports = [
            _end_port(port, names[port.get("name") or ""]) for port in group.ports if (port.get("name") or "") in own
        ]
        if not ports and merged.shape.ports:
            continue
        found.append(
            group._replace(ports=tuple(sorted(ports, key=lambda port: (str(port["name"]), str(port.get("protocol"))))))
        )
    return found


def _end_port(port: t.Mapping[str, t.Any], name: str) -> Manifest:
    """A port of endpoints, without an application's protocol that no API server would take."""
    made = dict(port, name=name)
    if not is_qualified(str(made.get("appProtocol", "x"))):
        del made["appProtocol"]
    return made


def slice_labels(merged: Merged, cluster_id: str) -> dict[str, str]:
    """The labels of the slices of one source cluster. What has no address of its own is nothing for kube-proxy."""
    labels = {SERVICE_LABEL: merged.place[1], SOURCE_LABEL: cluster_id, SLICE_MANAGED_BY: SLICES_MANAGED_BY}
    return labels if merged.shape.headless else dict(labels, **{SERVICE_NAME: derived_name(*merged.place)})


#: Slices as all clusters have them, by (namespace, name), source, version, and whether addresses are translated: made once for all.
Made = dict[tuple[Id, str, str, bool], list[Manifest]]


def import_slices(
    merged: Merged,
    export: Export,
    owner: t.Any,
    version: str,
    import_version: str,
    current: t.Sequence[Object],
    most: int,
    made: Made | None = None,
    exported: ExportedRanges | None = None,
) -> list[Manifest]:
    """The slices of one source cluster. owner: the import's uid; current: the slices that there are, in which endpoints keep their places.

    made: of the same merge for other clusters. exported: at which addresses the source's pods are seen here.
    """
    namespace, name = merged.place
    base = slices_name(derived_name(namespace, name), export.id)
    # where there is one slice of each family and no other, all clusters have the same
    alike = all(obj["metadata"]["name"] in (base + "-4-0", base + "-6-0") for obj in current)
    key = (merged.place, export.id, version, bool(exported))
    found = made.get(key) if made is not None and alike else None
    if found is None:
        labels = slice_labels(merged, export.id)
        found = [
            slice_manifest(part, namespace, labels, version)
            for part in sliced(base, slices_of(merged, export, exported), current, most)
        ]
        if made is not None and alike and all(manifest["metadata"]["name"].endswith("-0") for manifest in found):
            made[key] = found
    # how a slice names its import, with which it goes
    owners = [{"apiVersion": import_version, "kind": IMPORT, "name": name, "uid": owner, "controller": False}]
    return [dict(manifest, metadata=dict(manifest["metadata"], ownerReferences=owners)) for manifest in found]


def gone_slice(obj: Object, since: str, emptied: bool) -> Manifest:
    """Our own slice of a source that does not answer: it has since when, and after a while it has no endpoints."""
    meta = obj["metadata"]
    made: Manifest = {key: meta[key] for key in ("name", "namespace", "labels", "ownerReferences") if key in meta}
    made["annotations"] = {UNREACHABLE_SINCE: since}
    return {
        "apiVersion": obj.get("apiVersion"),
        "kind": "EndpointSlice",
        "metadata": made,
        "addressType": obj["addressType"],
        "endpoints": [] if emptied else list(obj.get("endpoints") or ()),
        "ports": list(obj.get("ports") or ()),
    }
