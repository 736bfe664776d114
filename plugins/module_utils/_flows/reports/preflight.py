# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at the whole fleet before the first write: the inventory, every API server, and what the nodes said. Reads only."""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.errors import Forbidden
from ..._kubernetes.workloads import workloads
from ..._loadbalancers.services import missing_backend, silence, uncarried
from ..._loadbalancers.settings import EMPTY, parse_load_balancer
from ..._loadbalancers.setup import pool_texts, spoken_families
from ..._mesh.fabric.inventory import Fabric, load_fabric
from ..._mesh.fabric.pod_ranges import source_lines
from ..._mesh.kubespan.generations import Layout
from ..._plan.access_review import missing, review
from ..._plan.mesh_plan import MeshPlan
from ..._plan.outcome import of_cluster, refused_whole
from ..._services.mcs.names import EXPORT, IMPORT, VERSIONS
from ..._status import discovery_services
from ..._status.preflight import ERROR, SKEW, find
from .status import unpacked

Data = dict[str, t.Any]

SHOWN = 500
#: So many places of one finding are named.
NAMED = 10
#: Of KubeSpan's device where the way is an ordinary one; it follows the way (kubespan 15).
MTU = 1420


def run(request: t.Mapping[str, t.Any]) -> Data:
    """The module's result. Raises ValueError for options that make no sense.

    ``request``: {fabric, definition, clusters, timeout, mesh, nodes: {host: of node_info or None}, node_plans: {host: of
    node_dataplane in check mode}, plans: {capability: result in check mode}, kubespan: layout or None, max_skew: seconds,
    load_balancers: [{cluster, load_balancer, bgp_speakers, bgp_families, announced_by, pool, pools}], services: {namespace, create_namespace, destinations},
    failed: [{where, why}] checks that failed themselves,
    imports: {install_crds}, where there is the Multi-Cluster Services API, trace: whether the rights of a trace are looked at}.
    """
    request = unpacked(request)
    definition = request["definition"]
    fabric, findings = load_fabric(dict(definition, name=request["fabric"]))
    mesh = MeshPlan.from_json(request.get("mesh") or {})
    clusters = Clusters(request["clusters"], seconds_of(request))
    running = clusters.read("list workloads", lambda unused, client: workloads(client))
    without = _without_namespace(clusters, request.get("services") or {})
    lacking = _lacking(clusters, request.get("imports"))
    untraced = _untraced(clusters) if request.get("trace") else {}
    failures = {(row["cluster"], row["reason"]): row for row in [*mesh.failures, *clusters.failures]}
    plans = request.get("plans") or {}
    nodes = {
        host: {"cluster": ((definition.get("nodes") or {}).get(host) or {}).get("multicluster_cluster"), "node": node}
        for host, node in (request.get("nodes") or {}).items()
    }
    rows = find(
        {
            "inventory": [finding._asdict() for finding in findings],
            "without_host": mesh.without_host or {},
            "left_clusters": mesh.left_clusters or {},
            "same_clusters": mesh.same_clusters or (),
            "pod_places": mesh.pod_places or {},
            "grants": fabric.seen_grants(),
            "nodes": nodes,
            "unreached": request.get("unreachable") or {},
            "devices": {
                host: _devices(fabric, nodes[host]["cluster"], request.get("kubespan"), mesh) for host in nodes
            },
            "needs_proxy": any(request.get(name) for name in ("services", "imports", "load_balancers")),
            "refused": _refused(request, mesh, clusters.clients),
            "failures": [failures[key] for key in sorted(failures)],
            "planned_failures": _planned_failures(plans, {row["cluster"] for row in failures.values()}),
            "notices": [
                {"where": name, "message": text} for name in sorted(plans) for text in plans[name].get("notices") or ()
            ],
            "workloads": running,
            "without_namespace": without,
            "lacking": lacking,
            "untraced": untraced,
            "failed": request.get("failed") or (),
            "unannounced": _unreachable(request.get("load_balancers") or (), running),
        },
        float(request.get("max_skew") or SKEW),
    )
    bad = [row for row in rows if row["level"] == ERROR]
    lines = _lines(rows) or ["no obstacle was found"]
    lines += source_lines(mesh.pod_ranges) + discovery_services.lines(request.get("node_plans") or {})
    return {
        "changed": False,
        "ok": not bad,
        "findings": rows[:SHOWN],
        "lines": lines,
        "errors": len(bad),
        "hosts": len(nodes),
        "stats": clusters.stats(),
        "refused": [],
    }


def _lines(rows: t.Sequence[Data]) -> list[str]:
    """A line for each finding, one for all places that have the same."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        found.setdefault((row["level"], row["message"], row["reason"]), []).append(row["where"])
    texts = []
    for (level, message, reason), places in found.items():
        more = f" and {len(places) - 1 - NAMED:,} more" if len(places) - 1 > NAMED else ""
        also = f" (also {', '.join(places[1 : NAMED + 1])}{more})" if places[1:] else ""
        texts.append(f"{level}: {places[0]}: {message} [{reason}]{also}")
    return texts[:SHOWN]


def _without_namespace(clusters: Clusters, services: t.Mapping[str, t.Any]) -> dict[str, str]:
    """{cluster: namespace} where mirrors are to be written into a namespace that is not there and that nobody makes."""
    namespace = services.get("namespace")
    if not namespace or services.get("create_namespace"):
        return {}

    def missing(name: str, client: Client) -> bool:
        try:
            return client.find("/api/v1/namespaces/" + segment(namespace)) is None
        except Forbidden:
            return False  # without the right to look, the run will tell

    answering = _answering(clusters)
    asked = [name for name in services.get("destinations") or answering if name in answering]
    return {
        name: namespace for name, found in clusters.read("get the mirror namespace", missing, asked).items() if found
    }


def _lacking(clusters: Clusters, imports: t.Mapping[str, t.Any] | None) -> dict[str, dict[str, t.Any]]:
    """{cluster: {rights: what the access may not do, capability: that of cluster_access, undefined: whether nobody brings the API}}."""
    if imports is None:
        return {}
    destinations = imports.get("destinations") or list(clusters.clients)

    def look(name: str, client: Client) -> dict[str, t.Any]:
        writes = name in destinations
        installs = writes and bool(imports.get("install_crds"))
        capability = "mcs_crds" if installs else "mcs" if writes else "mcs_read"
        served = any(client.serves(version, EXPORT) and client.serves(version, IMPORT) for version in VERSIONS)
        return {
            "rights": missing("mcs" if writes else "mcs_read", _rights(client)),
            "capability": capability,
            "undefined": not served and not installs,
        }

    return clusters.read("ask for rights", look, _answering(clusters))


def _untraced(clusters: Clusters) -> dict[str, list[str]]:
    """{cluster: what the access may not do of what a trace needs}."""
    found = clusters.read(
        "ask for rights of a trace", lambda dummy, client: missing("trace", _rights(client)), _answering(clusters)
    )
    return {name: rights for name, rights in found.items() if rights}


def _rights(client: Client) -> dict[str, t.Any]:
    """The API server's answer to what this access may do."""
    return client.create(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review(), "multicluster.network", "review"
    )


def _answering(clusters: Clusters) -> list[str]:
    """The clusters that did not fail yet."""
    failed = {row["cluster"] for row in clusters.failures}
    return [name for name in clusters.clients if name not in failed]


def _unreachable(settings: t.Iterable[t.Mapping[str, t.Any]], running: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Clusters in which Services would get addresses that nobody announces, and why."""
    found = {}
    for given in settings:
        balancer = parse_load_balancer(given.get("load_balancer") or "").type
        images = [image for dummy, image in running.get(str(given["cluster"])) or ()]
        why = silence(
            balancer, given.get("announced_by") or "", given.get("bgp_speakers"), missing_backend(balancer, images)
        )
        families = spoken_families(given) if balancer == EMPTY else None
        if not why and families is not None:
            versions = sorted({6 if ":" in str(text) else 4 for text in pool_texts(given)})
            why = "; ".join(uncarried(version) for version in versions if version not in families)
        if why:
            found[str(given["cluster"])] = why
    return found


def _devices(fabric: Fabric, cluster: t.Any, kubespan: t.Mapping[str, t.Any] | None, mesh: MeshPlan) -> list[Data]:
    """The WireGuard devices that a node of a cluster shall have: as planned, else as far as the inventory has them."""
    if kubespan is not None:
        layout = dict(Layout()._asdict(), **kubespan)
        return [{"name": layout["device"], "listen_port": layout["port"], "mtu": MTU}]
    if cluster not in fabric.clusters:
        return []
    try:
        remotes = mesh.cluster(cluster).remotes or fabric.remotes(cluster)
    except (KeyError, TypeError, ValueError):
        return []  # what is wrong with the inventory is said already
    keep = fabric.clusters[cluster]["keep_pod_addresses"]
    keep = True if cluster in fabric.exported() else keep
    return [
        {"name": part.device, "listen_port": part.listen_port, "mtu": part.mtu, "keep": keep}
        for dummy, part in sorted(remotes.items())
    ]


def _refused(request: t.Mapping[str, t.Any], mesh: MeshPlan, clusters: t.Container[str]) -> list[Data]:
    """What plans refused. What leaves a capability nothing to do in a cluster stops it."""
    given = [("mesh", {"refused": mesh.refused}), *sorted((request.get("node_plans") or {}).items())]
    rows = [dict(row, where=where) for where, result in given for row in result.get("refused") or ()]
    rows += discovery_services.findings(request.get("node_plans") or {})
    for capability, result in sorted((request.get("plans") or {}).items()):
        for row in result.get("refused") or ():
            stops = bool(result.get("failed")) or refused_whole(capability, row, clusters)
            rows.append(dict(row, stops=stops, **_placed(capability, str(row.get("object")), clusters)))
    return rows


def _placed(capability: str, name: str, clusters: t.Container[str]) -> dict[str, str]:
    """``where`` and ``object`` of a refusal with a cluster in its object, ``KIND CLUSTER/REST``: alike in all clusters, it is one line."""
    cluster, rest = of_cluster(name, clusters)
    if not cluster:
        return {"where": capability}
    return {"where": cluster, "object": f"{capability}: {rest}" if rest else capability}


def _planned_failures(plans: t.Mapping[str, t.Any], failed: t.Collection[str]) -> list[Data]:
    """What a capability could not read or do in a cluster, without the clusters that are said to fail already; once for all capabilities."""
    rows: dict[tuple[str, str, str], Data] = {}
    for name in sorted(plans):
        for row in plans[name].get("failures") or ():
            if row["cluster"] not in failed:
                rows.setdefault((row["cluster"], row["reason"], row["message"]), dict(row, capability=name))
    return [rows[key] for key in sorted(rows)]
