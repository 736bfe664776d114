# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirrors and global services of any number of clusters, all in one go (semaphore 4)."""

from __future__ import annotations

import time
import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters, at_once, seconds_of
from ..._kubernetes.errors import ListIncomplete, NotFound
from ..._kubernetes.objects import apply_writes
from ..._mesh.fabric.inventory import GRANTS, Fabric, InventoryRefused, errors, load_fabric
from ..._mesh.fabric.range_checks import MAPPING
from ..._plan.object_plan import Write
from ..._plan.objects import MANAGED_BY, MANAGED_BY_US, field_manager
from ..._plan.plan import CREATE, Change, Plan
from ..._services import losses
from ..._services.claims import Guard, host_network_too
from ..._services.exports import ENDPOINTS, SLICES, Exports, Listed, Options, api_servers, label_of, read_exports
from ..._services.global_services import DEFAULT_ZONES, check_zones
from ..._services.lost_mirrors import Sources, lost_mirrors
from ..._services.mirror_plan import plan_cluster, release_cluster
from ..._services.mirror_writes import recreated
from ..._services.names import check_prefixes
from ..._services.service_annotations import PREFIX as CHOICE_PREFIX
from ..._services.slices import MANAGED_BY as SLICE_MANAGED_BY, MANAGED_BY_US as OWNED_SLICES
from ..._services.sweeps import MARKS
from ..._services.touched import decided
from ..._values.gc_pause import gc_paused
from ..._values.refused import ValueRefused, quoted
from ..._values.selectors import parse_selector
from ..._values.text import parse_subdomain
from ..access import cluster_objects
from ..runs.outages import Memory, counting, unreachable_clusters

#: So many Services are named in one sentence.
NAMED = 5
_PATHS = {"Service": "services", "Endpoints": "endpoints", "EndpointSlice": "endpointslices"}
DISCOVERY = ("discovery.k8s.io/v1", "discovery.k8s.io/v1beta1")
#: Findings of the inventory that concern services; what else may be wrong with the mesh is the mesh's business.
_CONCERNED = (*GRANTS, MAPPING, "inventory_hostname", "name")


#: Cuts complete lists down to what a change touches.
Cut = t.Callable[[t.Mapping[str, Listed]], dict[str, Listed]]


def run(request: t.Mapping[str, t.Any], check: bool = False, diff: bool = True) -> dict[str, t.Any]:
    """The module's result. ``request`` has the module's options. Raises ValueRefused, InventoryRefused, and PairsLost before the first write.

    ``diff``: whether anybody wants to read it. That of thousands of Services is megabytes of text.
    """
    # the collector would look at every object of every cluster again, and there is no garbage among them
    with gc_paused():
        clusters = Clusters(request["clusters"], seconds_of(request))
        return t.cast(dict[str, t.Any], converge(request, clusters, check, diff))


def converge(
    request: t.Mapping[str, t.Any],
    clusters: Clusters,
    check: bool = False,
    diff: bool = True,
    cut: Cut | None = None,
    hold: bool = False,
) -> dict[str, t.Any] | None:
    """As run, over clusters of the caller. ``hold``: what may not be lost stays as it is, and the rest goes on.

    With ``cut`` only a part is planned and written; None, with nothing written, where only a plan of everything may decide.
    """
    manager = field_manager(request["fabric"])
    fabric = load(request)
    options = read_options(request, fabric)
    sources, destinations = chosen(request, fabric, clusters)
    listed = gather(clusters, request, options, sources, destinations)
    if cut is not None and (len(listed) < len(clusters.clients) or clusters.failures):
        return None  # what an outage means is a question of everything
    planned = listed if cut is None else cut(listed)
    exports = read_all_exports(clusters, fabric, planned, options, request)
    whole, writes = plan(clusters, request, planned, exports, options, manager, sources, destinations)
    if cut is not None and not decided(whole, [one for todo in writes.values() for one in todo]):
        return None
    lost = find_lost(clusters, request, planned, exports, options, manager, sources, destinations, whole, writes)
    if cut is not None and lost:
        return None
    reach = {} if cut is not None else losses.limited(lost, request, whole, writes, check, hold)
    whole.refused = sorted(set(whole.refused))
    if request.get("state") == "released":
        done = whole if check else hand_back(clusters, whole, writes, manager)
    else:
        done = write(clusters, request, listed, whole, writes, options.namespace, manager, check)
    idle = {name: without_endpoints(name, exports[name]) for name in sorted(sources) if name in exports}
    result = done.result()
    result.update(
        sources={
            name: {
                "listed": name in listed,
                "mirrors": len(exports[name].mirrors) if name in exports else 0,
                "global": len(exports[name].shared) if name in exports else 0,
                "without_endpoints": len(idle.get(name, ())),
            }
            for name in sorted(sources)
        },
        failures=clusters.failures,
        stats=clusters.stats(),
        warnings=done.warnings + idle_sentences(idle),
    )
    result.update(reach)
    if diff:
        result["diff"] = done.diff()
    return result


# -- what the user chose --------------------------------------------------------------------------------------------


def load(request: t.Mapping[str, t.Any], more: t.Sequence[str] = ()) -> Fabric:
    """The fabric of the inventory, with what every cluster is granted. ``more``: further variables that count. Raises InventoryRefused."""
    given = request["definition"]
    definition = {"name": request["fabric"], "clusters": given.get("clusters") or {}, "nodes": {}}
    fabric, findings = load_fabric(definition)
    wrong = [finding for finding in errors(findings) if finding.variable in (*_CONCERNED, *more)]
    if wrong:
        raise InventoryRefused([finding._asdict() for finding in wrong])
    return fabric


def read_options(request: t.Mapping[str, t.Any], fabric: Fabric) -> Options:
    """Options in the form of the rules. Raises ValueRefused for what makes no sense."""
    namespace = request.get("mirror_namespace")
    if not namespace:
        raise ValueRefused("mirror_namespace_missing", "mirror_namespace names no namespace")
    parse_subdomain(namespace, "name_invalid")
    prefixes = dict({name: name for name in fabric.clusters}, **(request.get("prefixes") or {}))
    zones = dict({name: list(DEFAULT_ZONES) for name in fabric.clusters}, **(request.get("zones") or {}))
    for option, given in (("prefixes", prefixes), ("zones", zones)):
        for name in given:
            if name not in fabric.clusters:
                raise ValueRefused("unknown_cluster", f"{option} names {name}, which the definition does not have")
    check_prefixes(prefixes[name] for name in sorted(prefixes))
    for name in sorted(zones):
        check_zones(zones[name])
    selector, shared, routing = (
        request.get(name) for name in ("mirror_selector", "global_selector", "routing_selector")
    )
    if not selector and not shared and request.get("state", "present") == "present":
        raise ValueRefused(
            "mirror_selector_missing", "neither mirror_selector nor global_selector selects what to share"
        )
    copied = [_copied(request, option) for option in ("copy_labels", "copy_annotations")]
    return Options(
        namespace,
        parse_selector(selector) if selector else None,
        parse_selector(shared) if shared else None,
        parse_selector(routing, "routing_label_syntax") if routing else None,
        prefixes,
        zones,
        request.get("endpoint_fields") or "safe",
        request.get("session_affinity") is not False,
        bool(request.get("topology_mode")),
        request.get("service_sync") is not False,
        request.get("endpoint_slice_sync") is not False,
        request.get("on_unreachable") or "keep",
        bool(request.get("adopt")),
        request.get("max_deletes"),
        request.get("confirm_empty") or (),
        [text.replace("_", "-") for text in request.get("honour_annotations") or ()],
        copied[0],
        copied[1],
        fabric.exported(),
    )


def _copied(request: t.Mapping[str, t.Any], option: str) -> list[str]:
    keys = list(request.get(option) or ())
    for key in keys:
        if key in MARKS or key.startswith(("kubectl.kubernetes.io/", CHOICE_PREFIX)):
            raise ValueRefused("name_invalid", f"{option} names {key}, which has a meaning of its own on mirrors")
    return keys


def chosen(request: t.Mapping[str, t.Any], fabric: Fabric, clusters: Clusters) -> tuple[set[str], set[str]]:
    """(sources, destinations) of this run. Raises ValueRefused for names that are nowhere."""
    given = {str(entry["name"]) for entry in request["clusters"]}
    for name in sorted(given - set(fabric.clusters)):
        raise ValueRefused("unknown_cluster", f"clusters names {name}, which the definition does not have")
    found = []
    # to take something away, one need not reach where it came from
    everywhere = given if request.get("state", "present") == "present" else set(fabric.clusters)
    for option, default in (("sources", everywhere), ("destinations", given)):
        names = set(request.get(option) or default)
        for name in sorted(names - set(fabric.clusters)):
            raise ValueRefused("unknown_cluster", f"{option} names {name}, which the definition does not have")
        found.append(names)
    for name in sorted(found[1] - given):
        raise ValueRefused("unknown_cluster", f"destinations names {name}, to which clusters gives no access")
    return found[0], found[1]


# -- reading --------------------------------------------------------------------------------------------------------


def gather(
    clusters: Clusters,
    request: t.Mapping[str, t.Any],
    options: Options,
    sources: t.Collection[str],
    destinations: t.Collection[str],
) -> dict[str, Listed]:
    """Complete lists of every cluster that could be read."""
    present = request.get("state", "present") == "present"

    def read(name: str, client: Client) -> Listed:
        source = present and (name in sources or options.global_selector is not None)
        return _read_cluster(client, request.get("mirror_as") or "auto", options, source, name in destinations)

    return clusters.read("list services", read)


def _read_cluster(client: Client, mirror_as: str, options: Options, source: bool, destination: bool) -> Listed:
    """One LIST for each kind: of the whole cluster where it is a source, of the mirror namespace otherwise."""
    services, ends = at_once(
        lambda: _list(client, "/api/v1", "services", None if source else options.namespace),
        lambda: _read_endpoints(client, mirror_as, options, source, destination),
    )
    return Listed(services, *ends)


def _read_endpoints(
    client: Client, mirror_as: str, options: Options, source: bool, destination: bool
) -> tuple[t.Sequence[t.Any], t.Sequence[t.Any], str, str | None]:
    """(Endpoints, slices, the form in which mirrors are written, the version of slices)."""
    here = options.namespace
    slices: t.Sequence[t.Any] = ()
    version: str | None = None
    shared = options.global_selector is not None
    for candidate in DISCOVERY:
        # what this version is good for: mirrors (v1beta1 only when slices are forced), global services, or just sweeping
        mirrors = mirror_as == "slices" or (mirror_as == "auto" and candidate == DISCOVERY[0])
        everything = source and (mirrors or shared)
        labels = None if mirrors or shared else f"{SLICE_MANAGED_BY}={OWNED_SLICES}"
        if not (everything or destination):
            continue
        try:
            slices = _list(client, "/apis/" + candidate, "endpointslices", None if everything else here, labels)
            version = candidate
            break
        except ListIncomplete as error:
            if error.status != 404:
                raise
    if mirror_as == "slices" and version is None and (source or destination):
        raise NotFound(
            client.cluster, "list endpointslices", "the API server has no EndpointSlice, and mirror_as is slices"
        )
    form = SLICES if mirror_as == "slices" or (mirror_as == "auto" and version == DISCOVERY[0]) else ENDPOINTS
    endpoints: t.Sequence[t.Any] = ()
    if form == ENDPOINTS:
        endpoints = _list(client, "/api/v1", "endpoints", None if source else here)
    elif destination:
        endpoints = _list(client, "/api/v1", "endpoints", here, "mirrored-svc=true")
    return endpoints, slices, form, version


def _list(client: Client, base: str, plural: str, namespace: str | None, labels: str | None = None) -> list[t.Any]:
    place = "/namespaces/" + segment(namespace) if namespace else ""
    return client.list(f"{base}{place}/{plural}", label_selector=labels).items


def read_all_exports(
    clusters: Clusters, fabric: Fabric, listed: t.Mapping[str, Listed], options: Options, request: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    """What each listed cluster exports, of which everything holds."""
    own = {name: api_servers(one) for name, one in listed.items()}
    guard = Guard(fabric.grants(), clusters.server_hosts(), own, host_network_too(request), fabric.exported())
    if request.get("state", "present") != "present":
        return {}
    return {name: read_exports(name, listed[name], options, guard) for name in sorted(listed)}


def without_endpoints(name: str, exports: Exports) -> list[str]:
    """Services that are mirrored and that have no endpoints in their cluster: their mirrors have an address that answers nobody.

    Those that have some which were all refused are no such Services: the refusals say why.
    """
    refused = {row.object for row in exports.refused}
    empty = (
        key
        for key, export in sorted(exports.mirrors.items())
        if not any(group.endpoints for group in export.groups or ())
    )
    return ["/".join(key) for key in empty if label_of(name, key) not in refused]


def idle_sentences(idle: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """One sentence for each cluster, with the first few names."""
    return [
        "cluster {0}: {1} of the Services that are mirrored {2} no endpoints, so nobody answers behind {3}: {4}{5}".format(
            name,
            len(keys),
            "has" if len(keys) == 1 else "have",
            "its mirror" if len(keys) == 1 else "their mirrors",
            ", ".join(quoted(key) for key in keys[:NAMED]),
            ", ..." if len(keys) > NAMED else "",
        )
        for name, keys in sorted(idle.items())
        if keys
    ]


# -- planning -------------------------------------------------------------------------------------------------------


def plan(
    clusters: Clusters,
    request: t.Mapping[str, t.Any],
    listed: t.Mapping[str, Listed],
    exports: t.Mapping[str, t.Any],
    options: Options,
    manager: str,
    sources: t.Collection[str],
    destinations: t.Collection[str],
) -> tuple[Plan, dict[str, list[Write]]]:
    """What would be written, cluster by cluster."""
    whole, writes = Plan(), {}
    state = request.get("state", "present")
    if state == "released":
        for name in sorted(destinations):
            if name in listed:
                part, writes[name] = release_cluster(name, listed[name], options, manager, sources)
                whole.extend(part)
        return whole, writes
    for name in sorted(sources):
        if name in exports:
            whole.refused.extend(exports[name].refused)
    here = [name for name in sorted(destinations) if name in listed]
    outages: dict[str, tuple[set[str], list[Write]]] = {}
    if options.on_unreachable != "keep":
        memory = Memory("service-mirror", request["fabric"], options.namespace, manager)
        grace = float(request.get("unreachable_grace") or 0)
        outages = counting(
            clusters, memory, unreachable_clusters(clusters) - set(listed), listed, here, grace, state == "absent"
        )
    for name in here:
        unreachable, record = outages.get(name, (set(), []))
        part, writes[name] = plan_cluster(name, listed[name], exports, unreachable, options, manager, sources, state)
        writes[name] = writes[name] + record
        part.changes.extend(write.change for write in record)
        whole.extend(part)
    return whole, writes


def find_lost(
    clusters: Clusters,
    request: t.Mapping[str, t.Any],
    listed: t.Mapping[str, Listed],
    exports: t.Mapping[str, t.Any],
    options: Options,
    manager: str,
    sources: t.Collection[str],
    destinations: t.Collection[str],
    whole: Plan,
    writes: t.Mapping[str, t.Sequence[Write]],
) -> list[losses.Loss]:
    """What would have no endpoint any more, also where the budget of deletions holds it: confirmed, it would go as well."""
    if not losses.counts(request):
        return []
    if any(row.reason == "delete_budget" for row in whole.refused):
        free = options._replace(max_deletes=-1)
        writes = plan(clusters, request, listed, exports, free, manager, sources, destinations)[1]
    there = Sources(listed, exports, options)
    return [
        loss
        for name in sorted(writes)
        if name in listed
        for loss in lost_mirrors(name, listed[name], there, options, writes[name])
    ]


# -- writing --------------------------------------------------------------------------------------------------------


def write(
    clusters: Clusters,
    request: t.Mapping[str, t.Any],
    listed: t.Mapping[str, Listed],
    whole: Plan,
    writes: dict[str, list[Write]],
    namespace: str,
    manager: str,
    check: bool,
) -> Plan:
    """Do the writes, unless this is only a check; returns the plan with only those changes that took place."""
    missing = check_namespaces(clusters, request, listed, whole, writes, namespace)
    if check:
        return whole
    # make the mirror namespace where it is missing
    path = "/api/v1/namespaces/" + segment(namespace)
    clusters.write(
        "make the mirror namespace", missing, lambda name, client: client.apply(path, _namespace(namespace), manager)
    )
    done = cluster_objects.apply(clusters, whole, writes, manager, bool(request.get("leave_conflicts")))
    done.changes = [change for change in whole.changes if change.kind == "Namespace"] + done.changes
    settle(clusters, writes, manager)
    return done


def hand_back(clusters: Clusters, whole: Plan, writes: t.Mapping[str, t.Sequence[Write]], manager: str) -> Plan:
    """Do the writes of plan_release; returns the plan with only those changes that took place."""
    return cluster_objects.apply(clusters, whole, writes, manager, what="hand objects back", write_one=_patch)


def _patch(client: Client, todo: Write, manager: str) -> None:
    key = todo.key
    base = "/api/" if "/" not in key.api_version else "/apis/"
    path = f"{base}{key.api_version}/namespaces/{segment(key.namespace)}/{_PATHS[key.kind]}/{segment(key.name)}"
    client.merge_patch(path, todo.manifest or {}, manager)


def check_namespaces(
    clusters: Clusters,
    request: t.Mapping[str, t.Any],
    listed: t.Mapping[str, Listed],
    whole: Plan,
    writes: dict[str, list[Write]],
    namespace: str,
) -> list[str]:
    """Clusters in which the mirror namespace is to be made; without the permission for that they fail and are not written.

    Asked only where something is to be written and nothing was seen in that namespace.
    """

    def seen(name: str) -> bool:
        return any(
            obj["metadata"].get("namespace") == namespace for obj in (*listed[name].services, *listed[name].endpoints)
        )

    asked = [name for name in sorted(writes) if writes[name] and not seen(name)]
    found = clusters.read("get the mirror namespace", lambda name, client: _namespace_there(client, namespace), asked)
    missing = [name for name in asked if found.get(name) is False]
    for name in asked:
        if found.get(name):
            continue
        if name in missing and request.get("create_namespace"):
            after = _namespace(namespace)
            whole.changes.insert(0, Change(CREATE, "Namespace", f"{name}/{namespace}", None, after))
            continue
        if name in missing:
            message = "namespace {0}, into which Services are mirrored, does not exist; make it, or set create_namespace: true. {1}".format(
                namespace, "The playbook preflight finds this before a run, with the same reason"
            )
            clusters.fail_for(name, "write mirrors", "mirror_namespace_missing", message)
        doomed = {id(write.change) for write in writes[name]}
        whole.changes = [change for change in whole.changes if id(change) not in doomed]
        writes[name] = []
    return missing if request.get("create_namespace") else []


def _namespace_there(client: Client, namespace: str) -> bool:
    try:
        client.get("/api/v1/namespaces/" + segment(namespace))
    except NotFound:
        return False
    return True


def _namespace(name: str) -> dict[str, t.Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {MANAGED_BY: MANAGED_BY_US}}}


def settle(clusters: Clusters, writes: t.Mapping[str, t.Sequence[Write]], manager: str) -> None:
    """Look after Endpoints of a Service that was made anew: Kubernetes may still take them away with the old one."""
    again = {}
    for name, todo in writes.items():
        names = recreated(todo)
        mine = [
            write
            for write in todo
            if write.manifest is not None and write.key.kind == "Endpoints" and write.key.name in names
        ]
        if mine:
            again[name] = mine
    clusters.write("settle endpoints", again, lambda name, client: _settle(client, again[name], manager))


def _settle(client: Client, writes: t.Sequence[Write], manager: str) -> None:
    for dummy in range(4):
        time.sleep(0.25)
        for write in writes:
            path = f"/api/v1/namespaces/{segment(write.key.namespace)}/endpoints/{segment(write.key.name)}"
            try:
                client.get(path)
            except NotFound:
                failed = apply_writes(client, [write], manager).failed
                if failed:
                    raise failed[0] from None
