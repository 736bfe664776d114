# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Multi-Cluster Services API of any number of clusters, all in one go (mcs 7): gather, merge, plan, write, say what became of it."""

from __future__ import annotations

import time
import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters, at_once, seconds_of
from ..._kubernetes.errors import ListIncomplete
from ..._mesh.fabric.inventory import Fabric
from ..._plan.object_plan import Key, Read, Write, plan_objects
from ..._plan.objects import field_manager
from ..._plan.plan import Plan
from ..._services import losses
from ..._services.claims import Guard, host_network_too
from ..._services.exports import Listed as MirrorLists, api_servers
from ..._services.mcs.clusterset import Clusterset, Part, join, vanished
from ..._services.mcs.definitions import RELEASE, definitions
from ..._services.mcs.exports import Exported, Listed, Options, read_exports
from ..._services.mcs.lost_imports import lost_imports
from ..._services.mcs.manifests import Made, asks_version
from ..._services.mcs.names import EXPORT, GROUP, IMPORT, VERSIONS, Id
from ..._services.mcs.plan import Here, Planned, plan_cluster
from ..._services.slices import MOST_ENDPOINTS, family_of
from ..._services.touched import decided
from ..._values.gc_pause import gc_paused
from ..._values.refused import ValueRefused, quoted
from ..access import cluster_objects
from ..runs.outages import unreachable_clusters
from . import mirror
from .service_import_writes import DEFINITIONS, take_away, write

Data = dict[str, t.Any]
Writes = dict[str, list[Write]]
#: Cuts complete lists down to what a change touches.
Cut = t.Callable[[t.Mapping[str, Listed]], dict[str, Listed]]
#: A cluster's own claim on its id: versions of the API, and the names under which it is kept.
_ABOUT = ("about.k8s.io/v1beta1", "about.k8s.io/v1alpha1")
_ID_PROPERTIES = ("cluster.clusterset.k8s.io", "id.k8s.io")
_LEAST_ENDPOINTS = 100
_OTHER_ID = (
    "cluster {0}: its ClusterProperty has the id {1}, the inventory has {2} (multicluster_cluster_id), which counts"
)


def run(request: t.Mapping[str, t.Any], check: bool = False, diff: bool = True) -> Data:
    """The module's result. ``request`` has the module's options. Raises ValueRefused, InventoryRefused, and PairsLost before the first write.

    ``diff``: whether anybody wants to read it. That of thousands of Services is megabytes of text.
    """
    # the collector would look at every object of every cluster again, and there is no garbage among them
    with gc_paused():
        clusters = Clusters(request["clusters"], seconds_of(request))
        return t.cast(Data, converge(request, clusters, check, diff))


def converge(
    request: t.Mapping[str, t.Any],
    clusters: Clusters,
    check: bool = False,
    diff: bool = True,
    cut: Cut | None = None,
    hold: bool = False,
) -> Data | None:
    """As run, over clusters of the caller. ``hold``: what may not be lost stays as it is, and the rest goes on.

    ``destinations`` of the request, where there is any: the clusters that are written.

    ``kept``: a caller that writes to a part of the clusters lists in it which ones others write to; the rest is only read.

    With ``cut`` only a part is planned and written; None, with nothing written, where only a plan of everything may decide.
    """
    manager, fabric = field_manager(request["fabric"]), load(request)
    options, present = read_options(request, fabric), request.get("state", "present") == "present"
    destinations = chosen(request, fabric)
    owned = destinations | set(request.get("kept") or ())
    whole = Plan()
    # what is taken away is in the clusters that are written, so nobody else is asked
    listed = gather(clusters, None if present else sorted(destinations & set(clusters.clients)))
    if cut is not None and (len(listed) < len(clusters.clients) or clusters.failures):
        return None  # what an outage means is a question of everything
    installing = bool(request.get("install_crds")) and cut is None
    listed = _with_definitions(clusters, listed, destinations if installing else (), present, whole, manager, check)
    lost = vanished(listed, options) if present else {}
    whole.refused.extend(lost.values())
    planned = listed if cut is None else cut(listed)
    heres = {name: Here(name, one, manager) for name, one in sorted(planned.items())}
    if not present:
        done = take_away(clusters, whole, heres, destinations, manager, check)
        return _result(clusters, request, options.ids, listed, {}, {}, None, done, diff)
    # what each cluster exports, of which everything holds; not of those that are lost
    own = {name: api_servers(MirrorLists((), one.endpoints, one.slices, "", None)) for name, one in planned.items()}
    guard = Guard(fabric.grants(), clusters.server_hosts(), own, host_network_too(request), fabric.exported())
    exported = {name: read_exports(name, planned[name], options, guard) for name in sorted(planned) if name not in lost}
    for one in exported.values():
        whole.refused.extend(one.refused)
    joined = join(exported, heres, options)
    parts = {name: joined.part(here) for name, here in heres.items()}
    versions = _versions(clusters, parts)
    now = time.time()
    quiet = {options.ids[name] for name in unreachable_clusters(clusters) - set(listed) if name in options.ids}
    slices: Made = {}

    def plan_one(name: str, chosen: Options) -> Planned:
        part = parts[name]
        return plan_cluster(
            heres[name], part.merged, part.kept, chosen, manager, versions.get(name), quiet, int(now), slices
        )

    plans = {name: plan_one(name, options) for name in heres if name in owned}
    for name in sorted(plans):
        whole.refused.extend(plans[name].plan.refused)
        whole.unchanged += plans[name].plan.unchanged if name in destinations else 0
    if cut is not None and not decided(
        whole, [one for name in plans if name in destinations for one in plans[name].writes]
    ):
        return None
    todo = {name: list(plans[name].writes) for name in plans if name in destinations}
    losing = _find_lost(request, heres, todo, exported, planned, options, plans, plan_one)
    if cut is not None and losing:
        return None
    reach = {} if cut is not None else losses.limited(losing, request, whole, todo, check, hold)
    plans.update((name, plans[name]._replace(writes=rows)) for name, rows in todo.items())
    whole.refused = sorted(set(whole.refused))
    done = write(
        clusters,
        whole,
        heres,
        exported,
        joined,
        plans,
        options,
        destinations,
        manager,
        check,
        now,
        bool(request.get("leave_conflicts")),
    )
    return dict(_result(clusters, request, options.ids, listed, exported, plans, joined, done, diff), **reach)


def _find_lost(
    request: t.Mapping[str, t.Any],
    heres: t.Mapping[str, Here],
    writes: t.Mapping[str, t.Sequence[Write]],
    exported: t.Mapping[str, Exported],
    listed: t.Mapping[str, Listed],
    options: Options,
    plans: t.Mapping[str, Planned],
    plan_one: t.Callable[[str, Options], Planned],
) -> list[losses.Loss]:
    """What would have no endpoint any more, also where the budget of deletions holds it: confirmed, it would go as well."""
    found: list[losses.Loss] = []
    for name in sorted(writes) if losses.counts(request) else ():
        todo = writes[name]
        if any(row.reason == "delete_budget" for row in plans[name].plan.refused):
            todo = plan_one(name, options._replace(max_deletes=-1)).writes
        found += lost_imports(heres[name], exported, listed, todo)
    return found


def _result(
    clusters: Clusters,
    request: t.Mapping[str, t.Any],
    ids: t.Mapping[str, str],
    listed: t.Mapping[str, Listed],
    exported: t.Mapping[str, Exported],
    plans: t.Mapping[str, Planned],
    joined: Clusterset | None,
    done: Plan,
    diff: bool,
) -> Data:
    names = {str(entry["name"]) for entry in request["clusters"]} | set(clusters.clients)
    if request.get("state", "present") != "present":
        names &= set(request.get("destinations") or names)
    merged = joined.merged if joined is not None else {}
    warnings = done.warnings + [
        _OTHER_ID.format(name, quoted(one.reported_id), quoted(ids[name]))
        for name, one in sorted(listed.items())
        if one.reported_id is not None and one.reported_id != ids[name]
    ]
    return clusters.result(
        done,
        diff,
        sources={name: _source(name in listed, exported.get(name), merged) for name in sorted(names)},
        imports={name: plans[name].imports for name in sorted(plans)},
        warnings=warnings,
    )


def _source(listed: bool, exported: Exported | None, merged: t.Mapping[Id, t.Any]) -> Data:
    claims = exported.claims if exported is not None else {}
    valid = [place for place, claim in claims.items() if claim.export is not None]
    conflicts = sum(1 for place in valid if place in merged and merged[place].conflict is not None)
    return {"listed": listed, "exports": len(claims), "valid": len(valid), "conflicts": conflicts}


# -- what the user chose --------------------------------------------------------------------------------------------


def load(request: t.Mapping[str, t.Any]) -> Fabric:
    """The fabric of the inventory, with what every cluster is granted and how it is called. Raises InventoryRefused."""
    return mirror.load(request, ("multicluster_cluster_id", "mcs_namespaces"))


def read_options(request: t.Mapping[str, t.Any], fabric: Fabric) -> Options:
    """Options in the form of the rules. Raises ValueRefused for what makes no sense."""
    most, stale = request.get("max_endpoints_per_slice"), int(request.get("stale_after") or 0)
    most = _LEAST_ENDPOINTS if most is None else int(most)
    if not _LEAST_ENDPOINTS <= most <= MOST_ENDPOINTS:
        text = f"max_endpoints_per_slice is {most} and should be between {_LEAST_ENDPOINTS} and {MOST_ENDPOINTS}"
        raise ValueRefused("choice", text)
    if stale < 0:
        raise ValueRefused("choice", f"stale_after is {stale} and should be a number of seconds, 0 for never")
    clusters = fabric.clusters
    return Options(
        {name: clusters[name]["cluster_id"] for name in clusters},
        {name: clusters[name]["mcs_namespaces"] for name in clusters},
        bool(request.get("keep_first")),
        stale,
        most,
        request.get("max_deletes"),
        {name: list(dict.fromkeys(family_of(text) for text in clusters[name]["pod_cidrs"])) for name in clusters},
        fabric.exported(),
    )


def chosen(request: t.Mapping[str, t.Any], fabric: Fabric) -> set[str]:
    """The clusters that may be written. Raises ValueRefused for names that are nowhere."""
    given = {str(entry["name"]) for entry in request["clusters"]}
    for name in sorted(given - set(fabric.clusters)):
        raise ValueRefused("unknown_cluster", f"clusters names {quoted(name)}, which the definition does not have")
    desired = set(request.get("destinations") or given)
    for name in sorted(desired - given):
        raise ValueRefused(
            "unknown_cluster",
            f"destinations (mcs_destinations) names {quoted(name)}, to which clusters gives no access",
        )
    return desired


# -- reading --------------------------------------------------------------------------------------------------------


def gather(clusters: Clusters, names: t.Iterable[str] | None = None) -> dict[str, Listed]:
    """Complete lists of every cluster that could be read. One that does not have the API has no version."""
    return clusters.read("list exported services", lambda dummy, client: _read_cluster(client), names)


def _read_cluster(client: Client) -> Listed:
    """One LIST for each kind."""
    (version, exports, imports), services, (discovery, slices, endpoints), namespaces, own_id = at_once(
        lambda: _read_api(client),
        lambda: client.list("/api/v1/services").items,
        lambda: _read_endpoints(client),
        lambda: client.list("/api/v1/namespaces").items,
        lambda: _read_id(client),
    )
    return Listed(exports, imports, services, endpoints, slices, namespaces, version, discovery, own_id)


def _read_api(client: Client) -> tuple[str, t.Sequence[t.Any], t.Sequence[t.Any]]:
    for version in VERSIONS:
        exports = client.list_served(f"/apis/{version}/serviceexports")
        imports = client.list_served(f"/apis/{version}/serviceimports") if exports is not None else None
        if exports is not None and imports is not None:
            return version, exports, imports
    return "", (), ()


def _read_endpoints(client: Client) -> tuple[str | None, t.Sequence[t.Any], t.Sequence[t.Any]]:
    for version in mirror.DISCOVERY:
        slices = client.list_served(f"/apis/{version}/endpointslices")
        if slices is not None:
            return version, slices, ()
    return None, (), client.list("/api/v1/endpoints").items


def _read_id(client: Client) -> str | None:
    """The id that the cluster itself reports; nobody has to give us the right to ask."""
    for version in _ABOUT:
        try:
            found = client.list_served(f"/apis/{version}/clusterproperties")
        except ListIncomplete as error:
            if error.status != 403:
                raise
            return None
        for obj in found or ():
            value = (obj.get("spec") or {}).get("value")
            if obj["metadata"].get("name") in _ID_PROPERTIES and isinstance(value, str):
                return value
        if found is not None:
            return None
    return None


def _with_definitions(
    clusters: Clusters,
    listed: dict[str, Listed],
    installing: t.Collection[str],
    present: bool,
    whole: Plan,
    manager: str,
    check: bool,
) -> dict[str, Listed]:
    """The lists of those clusters that have the API. ``installing``: those that get it where it is missing; the others are refused."""
    without = sorted(name for name, one in listed.items() if not one.version)
    kept = {name: one for name, one in listed.items() if one.version}
    if not without or not present:
        return kept
    desired = [name for name in without if name in installing]
    if desired:
        part, writes = _definition_writes(clusters, desired, manager)
        if check:
            kept.update({name: listed[name]._replace(version=VERSIONS[0]) for name in writes})
            whole.extend(part)
        else:
            whole.extend(cluster_objects.apply(clusters, part, writes, manager, what="install definitions"))
            kept.update({name: one for name, one in gather(clusters, sorted(writes)).items() if one.version})
    for name in without:
        if name not in kept:
            text = "the API server does not serve {0} and {1} of {2}; install them, or set install_crds: true for those of {3}"
            whole.refuse(name, "kind_not_served", text.format(EXPORT, IMPORT, GROUP, RELEASE))
    return kept


def _definition_writes(clusters: Clusters, names: t.Sequence[str], manager: str) -> tuple[Plan, Writes]:
    """Those of the definitions that a cluster does not have."""
    manifests = {manifest["metadata"]["name"]: manifest for manifest in definitions()}

    def look(dummy: str, client: Client) -> list[str]:
        return [name for name in manifests if client.find(DEFINITIONS + segment(name)) is None]

    whole, writes = Plan(), {}
    for name, missing in clusters.read("look for definitions", look, names).items():
        desired = {
            Key("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", one): manifests[one] for one in missing
        }
        part, writes[name] = plan_objects(name, desired, Read({}, frozenset(), frozenset(), {}), manager)
        whole.extend(part)
    return whole, writes


def _versions(clusters: Clusters, parts: t.Mapping[str, Part]) -> dict[str, tuple[int, int]]:
    """The versions of the API servers, where what can be written depends on them."""
    if not any(asks_version(one.shape) for part in parts.values() for one in part.merged.values()):
        return {}
    return clusters.read("get the version", lambda dummy, client: client.server_version(), sorted(parts))
