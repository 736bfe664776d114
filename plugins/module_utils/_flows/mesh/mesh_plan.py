# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric's mesh: validate the inventory, read every cluster once and at the same time, compute the topology.

Nothing is written. What one cluster's API answers, or fails to, touches only what it is the source of.
"""

from __future__ import annotations

import typing as t

from ..._kubernetes.access import names_server
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.errors import KubeError
from ..._kubernetes.pod_ranges import SOURCES, read_pod_ranges, read_pods, read_sources
from ..._mesh.fabric import pod_places, pod_range_readers, pod_ranges
from ..._mesh.fabric.inventory import Fabric, InventoryRefused, errors, load_fabric
from ..._mesh.fabric.left_clusters import keyed_clusters, left_clusters, sentences
from ..._mesh.fabric.mistaken_clusters import mistaken_clusters, same_clusters
from ..._mesh.fabric.node_listing import nodes_without_host, read_listing
from ..._mesh.fabric.range_checks import MAPPING, NODE_MAPPING
from ..._mesh.fabric.variables import Finding
from ..._mesh.semaphore.preshared import OFF, parse_generation
from ..._mesh.topology import kubespan as kubespan_plan
from ..._mesh.topology.calico import CRD, V3, ip_pools, pools_desired
from ..._mesh.topology.generations import Order, with_rotation
from ..._mesh.topology.semaphore import mesh_without_listings, plan_semaphore_mesh
from ..._plan.mesh_plan import KUBESPAN, MeshPlan
from ..._plan.objects import field_manager
from ..._plan.plan import to_wire
from ..._trace.reach import what_if
from ..._values.gc_pause import gc_paused
from ..._values.refused import ValueRefused

NODES = "/api/v1/nodes"
#: How many names a message has.
SHOWN = 10
_CONTESTED = "{0} claims a key, an id or a range that another node claims too; each node keeps the one that it knows from its last confirmed state"
_NOT_KEPT = (
    "clusters/{0}: keep_pod_addresses: a KubeSpan mesh has no table that keeps addresses of pods, since its device carries packets of nodes too; except the "
    "ranges of the other clusters in what masquerades, or take the Semaphore mesh"
)
_NOT_TRANSLATED = (
    "a KubeSpan mesh translates no addresses, since its nodes program their device for themselves; take the Semaphore mesh "
    "(multicluster_mesh: semaphore), or remove the mapping and give the clusters ranges that do not overlap"
)
_SAME = "clusters {0} and {1} list the same Nodes: kubeconfig, context or api_url of one of them leads to the other; correct it [same_cluster]"


def validate(request: t.Mapping[str, t.Any]) -> tuple[Fabric, list[str]]:
    """The fabric of a request, and warnings. Raises InventoryRefused with every error at once.

    ``request``: {fabric, mode: semaphore|kubespan, mesh_id, reported: {host: {annotation: value}},
    places: whether it is read where pods are, assume: hypotheses (see what_if.parse), leaving: the cluster that this run takes out, not reported as missing,
    clusters: [{name, access...}], definition: {clusters: {name: variables}, nodes: {host:
    variables}}}; variables without a value count as not given and serve to find misspelt names.
    """
    definition = request["definition"]
    fabric, findings = load_fabric(dict(definition, name=request["fabric"]))
    spans = request.get("mode") == KUBESPAN
    if spans and kubespan_plan.DISCOVERY in (request.get("registries") or ()):
        # the others may be machines that no inventory has
        findings = [finding for finding in findings if finding.reason != "no_remotes" or not fabric.clusters]
    preshared_generation(request)
    wrong = errors(findings) + (_not_translated(fabric) if spans else [])
    if wrong:
        raise InventoryRefused([finding._asdict() for finding in wrong])
    warnings = [f"{f.where}: {f.variable}: {f.message}" for f in findings if f not in wrong]
    if spans:
        kept = [name for name, cluster in sorted(fabric.clusters.items()) if cluster["keep_pod_addresses"] is True]
        warnings += [_NOT_KEPT.format(name) for name in kept]
    return fabric, warnings


def preshared_generation(request: t.Mapping[str, t.Any]) -> int:
    """The generation of preshared keys that the inventory asks for, 0 for none. Raises ValueRefused."""
    if not request.get("preshared"):
        return OFF
    if request.get("mode") == KUBESPAN:
        raise ValueRefused(
            "mode_unsupported",
            "preshared is for the Semaphore mesh: the nodes of a KubeSpan mesh have mesh_secret as their preshared key",
        )
    return parse_generation(request.get("preshared_generation"), "preshared_generation")


def _not_translated(fabric: Fabric) -> list[Finding]:
    """Mappings in a KubeSpan mesh: its nodes program their devices for themselves (translation 2.5)."""
    return [
        Finding(f"clusters/{name}", variable, "mode_unsupported", _NOT_TRANSLATED)
        for name, exported in sorted(fabric.exported().items())
        for variable in ([MAPPING] if exported.of_pods else []) + ([NODE_MAPPING] if exported.nodes else [])
    ]


def run(request: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The result of mesh_plan: {changed: False, mesh, refused, contested, failures, warnings, stats}."""
    # the collector would look at every node and peer of every cluster again, and there is no garbage among them
    with gc_paused():
        return _run(request)


def _run(request: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    fabric, warnings = validate(request)
    if request.get("mode") == KUBESPAN and not request.get("mesh_id"):
        raise ValueRefused("mesh_id_missing", "mesh_id is empty: all nodes of a KubeSpan mesh know it by the same id")
    registries = _registries(request)
    if request.get("validate_only"):
        topology = _without_listings(fabric, request, registries)
        pools: dict[str, t.Any] = {}
        stats: dict[str, t.Any] = {"requests": {}}
        missing: dict[str, list[str]] = {}
        places: dict[str, list[pod_places.Row]] = {}
        left: dict[str, list[str]] = {}
        same: list[list[str]] = []
        assumed: dict[str, t.Any] = {}
    else:
        asked, unasked = _asked_clusters(request, registries)
        listings, calico, stats, found = gather(fabric, asked, seconds_of(request), bool(request.get("places")))
        listings.update((name, {"nodes": [], "ranges": pod_range_readers.Objects()}) for name in unasked)
        same = same_clusters(listings)
        warnings += [_SAME.format(*pair) for pair in same[:SHOWN]]
        keyed_for = _keyed(fabric, listings)
        hosts = _hosts(fabric)
        for name, error in mistaken_clusters(listings, hosts, keyed_for).items():
            listings[name] = {"error": error}
            for read in (found, calico, keyed_for):  # what it shows is another cluster's
                read.pop(name, None)
        places = _find_places(fabric, listings, found)
        known = [
            (name, row) for name, rows in sorted(places.items()) for row in rows if row["level"] != pod_places.ERROR
        ]
        warnings += ["cluster {0}: {message} [{reason}]".format(name, **row) for name, row in known]
        missing = nodes_without_host(listings, hosts)
        left = left_clusters(keyed_for, {*fabric.clusters, str(request.get("leaving"))})
        warnings += sentences(left, SHOWN)
        warnings += [_missing(cluster, names) for cluster, names in missing.items()]
        topology = _topology(fabric, listings, request, registries)
        assumed = _assumed(topology, listings, request, registries)
        pools = {name: ip_pools(fabric, name, version) for name, version in sorted(calico.items())}
        warnings += [note for name in sorted(listings) for note in topology.pod_ranges[name]["notes"]]
    contested = contested_labels(topology)
    return {
        "changed": False,
        "mesh": to_wire(
            topology._replace(
                ip_pools=pools,
                without_host=missing,
                pod_places=places,
                left_clusters=left,
                same_clusters=same,
            ).to_json()
        ),
        "sources": pod_ranges.source_lines(topology.pod_ranges),
        "refused": topology.refused,
        "failures": topology.failures,
        "contested": contested,
        "warnings": warnings + [_CONTESTED.format(label) for label in contested],
        "stats": stats,
        **assumed,
    }


def _topology(
    fabric: Fabric, listings: t.Mapping[str, t.Any], request: t.Mapping[str, t.Any], registries: t.Sequence[str]
) -> MeshPlan:
    reported = request.get("reported")
    if request.get("mode") == KUBESPAN:
        mesh = kubespan_plan.plan_kubespan_mesh(fabric, listings, request["mesh_id"], reported, registries)
        return with_rotation(mesh, listings, reported, Order.of_json(request.get("rotation")))
    return with_rotation(
        plan_semaphore_mesh(fabric, listings, reported),
        listings,
        request.get("reported"),
        Order.of_json(request.get("rotation")),
        preshared_generation(request),
    )


def _assumed(
    topology: MeshPlan, listings: t.Mapping[str, t.Any], request: t.Mapping[str, t.Any], registries: t.Sequence[str]
) -> dict[str, t.Any]:
    """The plan with hypotheses, from what was read once for both. Raises ValueRefused, and InventoryRefused for ranges that no inventory may have."""
    rows = what_if.parse(request.get("assume") or ())
    what_if.check(rows, topology)
    if not what_if.of_mesh(rows):
        return {}
    changed = dict(request, definition=what_if.definition(rows, request["definition"]))
    mesh = _topology(validate(changed)[0], what_if.listings(rows, topology, listings), request, registries)
    return {"assumed": to_wire(mesh.to_json())}


def _keyed(fabric: Fabric, listings: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {name: keyed_clusters(listing, field_manager(fabric.name)) for name, listing in listings.items()}


def _hosts(fabric: Fabric) -> dict[str, set[str]]:
    return {name: set(fabric.hosts_of(name).values()) for name in fabric.clusters}


def read_nodes(fabric: Fabric, clusters: Clusters) -> dict[str, t.Any]:
    """Nodes of all clusters and the objects that have their pod ranges, for plan_nodes; clusters that fail are noted there, and have an ``error`` here."""
    return _gather(fabric, clusters, False)[0]


def plan_nodes(fabric: Fabric, listings: t.Mapping[str, t.Any]) -> MeshPlan:
    """The plan of a Semaphore mesh from what read_nodes gave, of a caller that stays."""
    with gc_paused():
        mistaken = mistaken_clusters(listings, _hosts(fabric), _keyed(fabric, listings))
        return plan_semaphore_mesh(fabric, {**listings, **{name: {"error": error} for name, error in mistaken.items()}})


def _missing(cluster: str, names: t.Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    return (
        f"cluster {cluster}: no host of the inventory represents {shown}, so this run does nothing there; its peers are kept as long as it announces itself. "
        f"Add a host with multicluster_cluster: {cluster} for each, or write node_name where a host has another name than its Node; "
        "teardown --limit HOST before a host is removed takes it off"
    )


def contested_labels(topology: MeshPlan) -> list[str]:
    """``cluster/node`` of the nodes with a key, id or range that another one claims too."""
    found = {(row["cluster"], row["node"]) for row in (topology.kubespan.contested if topology.kubespan else ())}
    for part in topology.clusters.values():
        for remote, settings in part.remotes.items():
            found.update((remote, row["node"]) for row in settings.contested)
    return ["{0}/{1}".format(*seat) for seat in sorted(found)]


def _registries(request: t.Mapping[str, t.Any]) -> t.Sequence[str]:
    """The sources of affiliates. Raises ValueRefused where hosts would know each other from nowhere."""
    given: t.Sequence[str] = request.get("registries") or kubespan_plan.REGISTRIES
    if not {kubespan_plan.ANNOTATIONS, kubespan_plan.DISCOVERY} & set(given):
        text = "kubespan_registries has neither annotations nor discovery, so that a host would forget all others with the end of the run"
        raise ValueRefused("registries_missing", text)
    return given


def _asked_clusters(
    request: t.Mapping[str, t.Any], registries: t.Container[str]
) -> tuple[list[t.Mapping[str, t.Any]], list[str]]:
    """Clusters with an API that is read, and those that need none: all of their nodes announce themselves to a discovery service."""
    needed = request.get("mode") != KUBESPAN or kubespan_plan.ANNOTATIONS in registries
    unasked = [] if needed else [str(given["name"]) for given in request["clusters"] if not names_server(given)]
    return [given for given in request["clusters"] if str(given["name"]) not in unasked], unasked


def _without_listings(fabric: Fabric, request: t.Mapping[str, t.Any], registries: t.Collection[str]) -> MeshPlan:
    """What the inventory alone gives."""
    spans = request.get("mode") == KUBESPAN
    topology = (
        kubespan_plan.plan_kubespan_mesh(fabric, {}, request["mesh_id"], registries=registries)
        if spans
        else mesh_without_listings(fabric)
    )
    asked = {name: {"source": _asked(cluster), "notes": []} for name, cluster in sorted(fabric.clusters.items())}
    return topology._replace(refused=[], failures=[], pod_ranges=asked)


def gather(
    fabric: Fabric, given: t.Sequence[t.Mapping[str, t.Any]], timeout: float, with_places: bool = False
) -> tuple[dict[str, t.Any], dict[str, str], dict[str, t.Any], dict[str, pod_places.Found]]:
    """One complete LIST of nodes per cluster, side by side, and of the objects in which its network plugin keeps the ranges of pods.

    ({cluster: {nodes, ranges: pod_range_readers.Objects} or {error}}, {cluster: API version of Calico's IPPool where pools are desired}, request counts,
    {cluster: what it shows of its pods' ranges} where ``with_places``).
    """
    return _gather(fabric, Clusters(given, timeout), with_places)


def _gather(
    fabric: Fabric, clusters: Clusters, with_places: bool
) -> tuple[dict[str, t.Any], dict[str, str], dict[str, t.Any], dict[str, pod_places.Found]]:
    def read(name: str, client: t.Any) -> tuple[dict[str, t.Any], str | None, pod_places.Found | None]:
        # a cluster without a managed node has another owner, and is only read, unless the inventory sets more (decision 66)
        setting = fabric.clusters[name]["calico_ippools"]
        read_only = bool(fabric.nodes) and not fabric.hosts_of(name) and setting == "auto"
        nodes = client.list(NODES).items
        return (
            {"nodes": nodes, "ranges": _range_objects(client, _asked(fabric.clusters[name]), nodes)},
            None if read_only else _pool_version(client, setting),
            _places(client) if with_places else None,
        )

    answers = clusters.read("list nodes", read)
    listings: dict[str, t.Any] = {name: answer[0] for name, answer in answers.items()}
    for failure in clusters.failures:
        listings[failure["cluster"]] = {"error": {"reason": failure["reason"], "message": failure["message"]}}
    calico = {name: version for name, (dummy, version, unused) in answers.items() if version is not None}
    places = {name: found for name, (dummy, unused, found) in answers.items() if found is not None}
    return listings, calico, clusters.stats(), places


def _find_places(
    fabric: Fabric, listings: t.Mapping[str, t.Any], found: t.Mapping[str, pod_places.Found]
) -> dict[str, list[pod_places.Row]]:
    """What of the pods of each cluster is outside of what the mesh carries."""
    ranges = pod_ranges.read_clusters({name: fabric.clusters[name] for name in found}, listings)[1]
    return {
        name: pod_places.find(
            name,
            one,
            listings[name]["nodes"],
            fabric.clusters[name]["pod_cidrs"],
            ranges[name].source,
            {
                node: [*mine.networks, *mine.borrowed]
                for node, mine in ranges[name].nodes.items()
                if not isinstance(mine, ValueRefused)
            },
            [text for other in fabric.clusters if other != name for text in fabric.seen_ranges(other)],
        )
        for name, one in found.items()
        if not ranges[name].failure  # which is a finding by itself
    }


def _asked(cluster: t.Mapping[str, t.Any]) -> str:
    """From where a cluster's ranges are to come."""
    return pod_range_readers.INVENTORY if cluster["node_pod_cidrs"] else str(cluster["pod_ranges"])


def _range_objects(client: t.Any, asked: str, nodes: list[dict[str, t.Any]]) -> pod_range_readers.Objects:
    """What the variable ``pod_ranges`` of a cluster needs. Raises KubeErrors: a source that was not read completely changes nothing."""
    found = pod_range_readers.Objects(
        **read_sources(client, [name for name in SOURCES if asked in (name, pod_range_readers.AUTO)])
    )
    if not pod_ranges.wants_pods(asked, read_listing("", {"nodes": nodes}).nodes, found):
        return found
    pods = read_pods(client)
    forbidden = {**found.forbidden, **pods.get("forbidden", {})}
    return found._replace(pods=pods.get("pods"), forbidden=forbidden)


def _places(client: t.Any) -> pod_places.Found:
    """Whatever fails here takes nothing from the plan, which needs none of it."""
    try:
        return pod_places.Found(**read_pod_ranges(client))
    except KubeError as error:
        return pod_places.Found(unread=(error.message,))


def _pool_version(client: t.Any, setting: str) -> str | None:
    """The API version in which a cluster gets IPPools, None where it gets none."""
    if setting == "never":
        return None
    served = next((version for version in (V3, CRD) if client.serves(version, "IPPool")), None)
    return served or CRD if pools_desired(setting, served is not None) else None
