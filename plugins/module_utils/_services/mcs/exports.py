# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each cluster exports by ServiceExports, of which everything holds, and what is wrong with the others (mcs 2, 4, 6). Pure.

A cluster only makes claims: its Services, the endpoints that it names for them, and the labels it wants to see on imports.
"""

from __future__ import annotations

import datetime
import re
import typing as t

from ..._plan.objects import labels_of, text_values
from ..._plan.plan import Refusal
from ..._values.exported_ranges import ExportedRanges
from ..._values.refused import ValueRefused, quoted
from ..._values.selectors import matches, parse_selector
from ..._values.text import in_short, lower, mapping
from ..claims import Guard, check_groups, check_service
from ..endpoints import ADDRESSES, Group, from_endpoints, from_slice
from ..exports import Selector, id_of, label_of
from ..global_services import GLOBAL, MIRRORED_SLICE
from ..mirror_services import MIRRORED, Manifest, Object, is_external_name, is_headless
from ..names import may_name_service
from ..slices import SERVICE_NAME
from .names import GROUP, SERVICE_LABEL, SOURCE_LABEL, Id

#: Reasons of the condition Valid.
VALID, NO_SERVICE, INVALID_TYPE, REFUSED = "Valid", "NoService", "InvalidServiceType", "Refused"
#: From these nothing is exported unless the inventory names them.
KEPT_BACK = frozenset(("kube-system", "kube-public", "kube-node-lease", "default"))
#: Keys of labels and annotations that mean something to Kubernetes, to the API, or to us.
_TAKEN = ("kubernetes.io", "k8s.io", GROUP, "multicluster.network", "semaphore.uw.io")
_KEY_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")
_KEY_PREFIX = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\Z")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?\Z")
#: So much of exported labels, and as much of annotations, is carried: every cluster stores it.
MOST_BYTES = 32 * 1024
_STAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z")
#: Before the first commit of Kubernetes no API server made an object.
_FIRST = "2014-06-06"
_POLICIES = ("Cluster", "Local")
_SHOWN = 5


class Options(t.NamedTuple):
    """What the user chose. ``ids``: of every cluster of the fabric. ``namespaces``: names, a selector, or None for the default, by cluster.

    ``most``: endpoints of one slice. ``stale_after``: seconds, 0 for never.
    """

    ids: t.Mapping[str, str]
    namespaces: t.Mapping[str, None | str | t.Sequence[str]]
    keep_first: bool = False
    stale_after: int = 0
    most: int = 100
    max_deletes: int | None = None
    #: of the pods of each cluster, the first the one that Services have by default
    families: t.Mapping[str, t.Sequence[str]] = {}
    #: at which addresses other clusters see the pods of a cluster, where they do not see their own
    exported: t.Mapping[str, ExportedRanges] = {}


class Listed(t.NamedTuple):
    """What one cluster's complete lists held. ``version``: of the API; ``discovery``: of its slices, None where it has none.

    ``reported_id``: the id that the cluster itself reports.
    """

    exports: t.Sequence[Object]
    imports: t.Sequence[Object]
    services: t.Sequence[Object]
    endpoints: t.Sequence[Object]
    slices: t.Sequence[Object]
    namespaces: t.Sequence[Object]
    version: str
    discovery: str | None
    reported_id: str | None = None


class Export(t.NamedTuple):
    """A Service that a cluster exports, as far as others see of it. ``stamp``: when the export was made, as text that sorts."""

    cluster: str
    id: str
    stamp: str
    uid: str
    headless: bool
    ports: tuple[Manifest, ...]
    affinity: str
    affinity_config: Manifest | None
    policy: str | None
    distribution: str | None
    families: tuple[str, ...]
    labels: t.Mapping[str, str]
    annotations: t.Mapping[str, str]
    groups: t.Sequence[Group]

    @property
    def rank(self) -> tuple[str, bytes, bytes]:
        """The order of precedence: the oldest first."""
        return self.stamp, self.id.encode("utf-8"), self.uid.encode("utf-8")


class Claim(t.NamedTuple):
    """A ServiceExport. ``export``: None where it exports nothing, for the reason; both are in its condition Valid."""

    object: Object
    export: Export | None
    reason: str
    message: str
    #: Why endpoints of it were left out; and whether none is left for that.
    left_out: str = ""
    none_left: bool = False


class Exported(t.NamedTuple):
    """The ServiceExports of one cluster, and what was refused of them."""

    claims: dict[Id, Claim]
    refused: list[Refusal]


def namespaces_of(listed: Listed) -> dict[str, bool]:
    """{namespace: whether it is being deleted}."""
    found = {}
    for obj in listed.namespaces:
        meta, phase = obj["metadata"], mapping(obj, "status").get("phase")
        found[str(meta.get("name"))] = bool(meta.get("deletionTimestamp")) or phase == "Terminating"
    return found


def granted_namespaces(cluster: str, listed: Listed, options: Options) -> set[str]:
    """The namespaces that a cluster has and may export from."""
    grant = options.namespaces.get(cluster)
    if grant is None:
        return set(namespaces_of(listed)) - KEPT_BACK
    if isinstance(grant, str):
        selector: Selector = parse_selector(grant)
        return {str(obj["metadata"].get("name")) for obj in listed.namespaces if matches(selector, labels_of(obj))}
    return set(namespaces_of(listed)) & set(grant)


def read_exports(cluster: str, listed: Listed, options: Options, guard: Guard) -> Exported:
    """Every ServiceExport of a cluster that stays; what is being deleted exports nothing any more."""
    found = Exported({}, [])
    namespaces, granted = namespaces_of(listed), granted_namespaces(cluster, listed, options)
    desired: dict[Id, Object] = {}
    for obj in listed.exports:
        place = id_of(obj)
        if place is None:
            found.refused.append(
                Refusal(label_of(cluster, place), "name_invalid", "a ServiceExport without namespace or name")
            )
        elif not obj["metadata"].get("deletionTimestamp") and namespaces.get(place[0]) is False:
            desired[place] = obj
    services = {place: obj for obj in listed.services for place in (id_of(obj),) if place in desired}
    groups = _groups(cluster, listed, desired, found)
    for place in sorted(desired):
        found.claims[place] = _claim(
            cluster, place, desired[place], services.get(place), groups.get(place, ()), granted, options, guard, found
        )
    return found


def _claim(
    cluster: str,
    place: Id,
    obj: Object,
    service: Object | None,
    groups: t.Sequence[Group],
    granted: t.Collection[str],
    options: Options,
    guard: Guard,
    found: Exported,
) -> Claim:
    def refuse(reason: str, message: str) -> Claim:
        found.refused.append(Refusal(label_of(cluster, place), reason, message))
        return Claim(obj, None, REFUSED, message)

    if not may_name_service(place[1]):
        return refuse("name_invalid", f"{quoted(place[1])} is no name that a Service can have")
    if place[0] not in granted:
        return refuse(
            "outside_grant",
            f"mcs_namespaces of cluster {cluster} does not let it export from namespace {quoted(place[0])}",
        )
    if service is None or service["metadata"].get("deletionTimestamp"):
        return Claim(obj, None, NO_SERVICE, f"there is no Service {place[1]} in namespace {place[0]}")
    if is_external_name(service):
        return Claim(obj, None, INVALID_TYPE, "a Service of type ExternalName has no endpoints")
    labels = labels_of(service)
    if SERVICE_LABEL in labels or MIRRORED in labels or GLOBAL in labels:
        return refuse("unsupported_type", "the Service is itself made of Services of other clusters")
    try:
        check_service(service)
    except ValueRefused as error:
        return refuse(error.reason, error.message)
    kept, refused = check_groups(groups, cluster, label_of(cluster, place), guard)
    found.refused.extend(refused)
    carried, left = _carried(cluster, place, obj, found)
    export = _export(cluster, options.ids[cluster], obj, service, kept, carried)
    why = "; ".join(f"{row.message} [{row.reason}]" for row in refused)
    none = bool(why) and not any(group.endpoints for group in kept)
    return Claim(obj, export, VALID, left or "the Service is exported", why, none)


def _since(stamp: t.Any) -> str:
    """When an export was made, as its API server reports; the end of time where that cannot be so, for it would be older than all honest ones."""
    try:
        if isinstance(stamp, str) and _STAMP.match(stamp) and stamp >= _FIRST:
            datetime.datetime.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")
            return stamp
    except ValueError:
        pass
    return "9999"


def _export(
    cluster: str,
    cluster_id: str,
    obj: Object,
    service: Object,
    groups: t.Sequence[Group],
    carried: t.Sequence[t.Mapping[str, str]],
) -> Export:
    meta, spec = obj["metadata"], service["spec"]
    stamp, config = meta.get("creationTimestamp"), spec.get("sessionAffinityConfig")
    affinity = "ClientIP" if spec.get("sessionAffinity") == "ClientIP" else "None"
    policy, distribution = spec.get("internalTrafficPolicy"), spec.get("trafficDistribution")
    families = tuple(name for name in spec.get("ipFamilies") or () if name in ("IPv4", "IPv6"))
    if not families:  # servers before 1.20 say nothing
        families = ("IPv6" if ":" in str(spec.get("clusterIP")) else "IPv4",)
    return Export(
        cluster,
        cluster_id,
        _since(stamp),
        str(meta.get("uid")),
        is_headless(service),
        tuple(_port(port) for port in spec.get("ports") or ()),
        affinity,
        config if affinity == "ClientIP" and isinstance(config, dict) else None,
        policy if policy in _POLICIES else None,
        distribution if isinstance(distribution, str) and _KEY_NAME.match(distribution) else None,
        families,
        carried[0],
        carried[1],
        groups,
    )


def _port(port: Object) -> Manifest:
    """What an import has of a port."""
    made = {"name": port.get("name") or "", "protocol": port.get("protocol") or "TCP", "port": port["port"]}
    if port.get("appProtocol") and is_qualified(str(port["appProtocol"])):
        made["appProtocol"] = port["appProtocol"]
    return made


def is_qualified(text: str) -> bool:
    """Whether Kubernetes takes a text for a qualified name, such as that of a label or of an application's protocol."""
    prefix, slash, name = text.rpartition("/")
    return bool(_KEY_NAME.match(name)) and (not slash or (len(prefix) <= 253 and bool(_KEY_PREFIX.match(prefix))))


def _groups(cluster: str, listed: Listed, desired: t.Collection[Id], found: Exported) -> dict[Id, list[Group]]:
    """Endpoints of exported Services as their cluster has them, unchecked, in an order that does not depend on that of the lists."""
    groups: dict[Id, list[Group]] = {}
    named: list[tuple[str, Id, Object]] = []
    for obj in listed.slices:
        meta = obj["metadata"]
        labels = meta.get("labels") or {}
        place = (str(meta.get("namespace")), str(labels.get(SERVICE_NAME)))
        if place in desired and SOURCE_LABEL not in labels and MIRRORED_SLICE not in labels:
            named.append((str(meta.get("name")), place, obj))
    for dummy, place, obj in sorted(named, key=lambda row: row[:2]):
        try:
            groups.setdefault(place, []).append(from_slice(obj, ADDRESSES))
        except ValueRefused as error:
            found.refused.append(Refusal("slice " + label_of(cluster, id_of(obj)), error.reason, error.message))
    for obj in listed.endpoints if listed.discovery is None else ():
        key = id_of(obj)
        if key is not None and key in desired:
            groups[key] = from_endpoints(obj, ADDRESSES)
    return groups


# -- labels and annotations -------------------------------------------------------------------------------------------


def _carried(cluster: str, place: Id, obj: Object, found: Exported) -> tuple[list[t.Mapping[str, str]], str]:
    """(labels and annotations that imports get, what was left out as text)."""
    spec = obj.get("spec")
    kept: list[t.Mapping[str, str]] = []
    left = []
    for field, checked in (("exportedLabels", True), ("exportedAnnotations", False)):
        given = text_values(spec.get(field) if isinstance(spec, dict) else None)
        good = {
            key: value for key, value in given.items() if _key_holds(key) and (not checked or _LABEL_VALUE.match(value))
        }
        bad = sorted(set(given) - set(good))
        if sum(len(key.encode("utf-8")) + len(value.encode("utf-8")) for key, value in good.items()) > MOST_BYTES:
            good, bad = {}, [f"all of them, which are more than {MOST_BYTES} bytes"]
        kept.append(good)
        if bad:
            left.append(f"left out of {field}: {in_short([quoted(key) for key in bad], _SHOWN)}")
    text = "; ".join(left)
    if text:
        found.refused.append(Refusal(label_of(cluster, place), "name_invalid", text))
    return kept, text


def _key_holds(key: str) -> bool:
    """Whether an import may have a label or annotation of this key."""
    prefix = key.rpartition("/")[0]
    return is_qualified(key) and not any(
        lower(prefix) == taken or lower(prefix).endswith("." + taken) for taken in _TAKEN
    )
