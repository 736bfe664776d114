# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole fabric, read once: each kind of each cluster by one complete list, joined with what the nodes said and what plans found."""

from __future__ import annotations

import json
import time
import typing as t

from ..._kubernetes.client import Client
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.errors import Forbidden, KubeError, NotFound
from ..._kubernetes.pod_ranges import PODS, RUNNING
from ..._linux.files import FileState, make_folder, read_state, write_state
from ..._loadbalancers.ledger import NAMESPACE, holders, parse_ledger
from ..._mesh.kilo.values import API_VERSION as KILO
from ..._plan.mesh_plan import MeshPlan
from ..._plan.objects import field_manager
from ..._services.global_services import MIRRORED_SLICE
from ..._services.mcs.names import EXPORT, IMPORT, SOURCE_LABEL, VERSIONS
from ..._services.mirror_services import MIRRORED
from ..._services.network_sets.targets import TARGETS
from ..._status import drift as drifts, page, prometheus, screen
from ..._status.cluster import describe
from ..._status.model import build
from ..._status.node_rows import peer_names
from ..._trace.reach.next_failure import next_failure
from ..._values.gc_pause import gc_paused
from ..._values.packed import unpack
from ..._values.refused import ValueRefused

Data = dict[str, t.Any]

DISCOVERY = ("discovery.k8s.io/v1", "discovery.k8s.io/v1beta1")
#: Kinds that plans speak of and that are not listed anyway, with the API versions in which they may be served.
_OTHERS = {
    "ConfigMap": ("v1",),
    "Namespace": ("v1",),
    "Secret": ("v1",),
    "ServiceAccount": ("v1",),
    "IPPool": ("projectcalico.org/v3", "crd.projectcalico.org/v1"),
    EXPORT: VERSIONS,
    IMPORT: VERSIONS,
    "ClusterRole": ("rbac.authorization.k8s.io/v1",),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1",),
}
_LISTED = {
    "Service": "services",
    "Endpoints": "endpoints",
    "EndpointSlice": "slices",
    "Peer": "peers",
    "node": "nodes",
    "Node": "nodes",
    "GlobalNetworkSet": "sets",
    "CiliumCIDRGroup": "sets",
}
SHOWN = 200
#: Of so many pods of a cluster it is counted whether peers have them.
MOST_PODS = 2500


def run(request: t.Mapping[str, t.Any], check: bool = False) -> Data:
    """The module's result. Raises ValueRefused, and OSError where a file cannot be written.

    ``request``: {fabric, clusters, timeout, mesh: of mesh_plan, nodes: {host: of node_info or None}, node_plans: {host: of
    node_dataplane in check mode}, plans: {capability: a module's result in check mode}, probes: {host: of node_probe}, unreachable: {host: what its
    connection said}, capabilities: [name], limit, outside: [host], unasked: [capability], facts:
    those that filters collect as one text, or None, page, document, metrics: paths or None}.
    """
    with gc_paused():
        document = gather(unpacked(request))
    files = {}
    for option, text in (
        ("page", page.render),
        ("document", lambda whole: json.dumps(whole, sort_keys=True) + "\n"),
        ("metrics", prometheus.text),
    ):
        if request.get(option):
            files[option] = request[option]
            if not check:
                make_folder(request[option].rpartition("/")[0] or ".")
                write_state(request[option], FileState("file", 0o644, text(document).encode("utf-8")))
    return {
        "changed": False,
        "files": files,
        "lines": screen.lines(document, files),
        "verdict": document["verdict"]["value"],
        "reasons": [*document["verdict"]["broken"], *document["verdict"]["unproven"]][:SHOWN],
        "parts": document["verdict"]["parts"],
        "scope": document["scope"],
        "summary": document["summary"],
        "next_failure": document["next_failure"],
        "drift": document["drift"][:SHOWN],
        "since_last_run": {
            "previous": document["since_last_run"]["previous"],
            "new": len(document["since_last_run"]["new"]),
            "gone": len(document["since_last_run"]["gone"]),
        },
        "failures": document["failures"][:SHOWN],
        "refused": [],
    }


def unpacked(request: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    """The request with what ``facts`` holds in its place. Raises ValueRefused."""
    return dict(request, facts=None, **unpack(request["facts"])) if request.get("facts") else request


def gather(request: t.Mapping[str, t.Any]) -> Data:
    """Read the clusters and the previous document; returns the new one."""
    fabric, mesh = request["fabric"], MeshPlan.from_json(request.get("mesh") or {})
    manager = field_manager(fabric)
    plans, node_plans, nodes = request.get("plans") or {}, request.get("node_plans") or {}, request.get("nodes") or {}
    asked = [(str(c.get("kind")), str(c.get("id"))) for plan in plans.values() for c in drifts.planned_changes(plan)]
    clusters = Clusters(request["clusters"], seconds_of(request))
    answers = clusters.read(
        "read the fabric",
        lambda name, client: _cluster(client, [key for key in asked if key[1].partition("/")[0] == name]),
    )
    described = {name: (describe(answers[name][0]) if name in answers else None) for name in clusters.clients}
    objects = {key: obj for dummy, found in answers.values() for key, obj in found.items()}
    names = peer_names(mesh, nodes)
    drift = [
        row
        for host in sorted(node_plans)
        for row in drifts.node_entries(host, node_plans[host], nodes.get(host), names)
    ]
    drift += [
        row
        for host in sorted(nodes)
        for row in drifts.unit_entries(host, nodes[host], drifts.planned_changes(node_plans.get(host)))
    ]
    drift += drifts.object_entries(plans, objects, manager, mesh.annotation_patterns)
    return build(
        {
            "fabric": fabric,
            "now": time.time(),
            "mesh": request.get("mesh") or {},
            "nodes": nodes,
            "probes": request.get("probes") or {},
            "trace": request.get("trace") or {},
            "node_plans": node_plans,
            "plans": plans,
            "unreachable": _unreachable(request),
            "capabilities": request.get("capabilities") or (),
            "limit": request.get("limit") or "",
            "outside": request.get("outside") or (),
            "unasked": request.get("unasked") or (),
            "clusters": {str(entry["name"]): described.get(str(entry["name"])) for entry in request["clusters"]},
            "drift": drift,
            "refused": _refused(mesh, node_plans, plans)
            + _denied({name: read["denied"] for name, (read, dummy) in answers.items()}),
            "failures": _failures(clusters, mesh, plans),
            "next_failure": next_failure(
                mesh,
                {name: row["backends"] for name, row in described.items() if row},
                [host for host in _unreachable(request) if nodes.get(host) is None],
            ),
            "tenants": plans.get("tenants"),
            "previous": _previous(request.get("document")),
        }
    )


def _unreachable(request: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """{host: what its connection reported} of hosts that were not read."""
    return dict(request.get("unreachable") or {})


def _previous(path: str | None) -> t.Any:
    """The document of the run before; anything else under its name counts as none."""
    try:
        state = read_state(path) if path else None
        return json.loads(state.content.decode("utf-8")) if state is not None and state.kind == "file" else None
    except (OSError, ValueError):
        return None


def _cluster(client: Client, asked: t.Sequence[tuple[str, str]]) -> tuple[Data, dict[tuple[str, str], t.Any]]:
    """(what is drawn, the objects that plans speak of). Raises KubeErrors."""
    read: Data = {"version": "{0}.{1}".format(*client.server_version()), "slices": [], "denied": []}

    def listed(kind: str, function: t.Callable[[], t.Any], nothing: t.Any) -> t.Any:
        """An access for some capabilities may not list what the others need: the rest is shown all the same."""
        try:
            return function()
        except KubeError as error:
            if error.status != 403:
                raise
            read["denied"].append(kind)
            return nothing

    def items(path: str, **more: t.Any) -> t.Callable[[], t.Any]:
        return lambda: client.list(path, **more).items

    try:
        read["pods"], read["all_pods"] = client.sample(PODS, MOST_PODS, RUNNING)
    except KubeError as error:
        if error.status != 403:
            raise
        read["pods"] = None  # an access without them is no fault: what is counted of them is not known then
    read["nodes"] = listed("nodes", items("/api/v1/nodes"), [])
    read["services"] = listed("services", items("/api/v1/services"), [])
    read["endpoints"] = listed("endpoints", items("/api/v1/endpoints", label_selector=MIRRORED + "=true"), [])
    read["ledger"] = listed("configmaps", lambda: _ledger(client), {})
    if client.serves(KILO, "Peer"):
        read["peers"] = listed("peers", items(f"/apis/{KILO}/peers"), [])
    discovery = next((version for version in DISCOVERY if client.serves(version, "EndpointSlice")), None)
    marks = [MIRRORED + "=true", MIRRORED_SLICE + "=true"]
    if any(kind == "EndpointSlice" for kind, dummy in asked):
        marks.append(SOURCE_LABEL)  # of imports, which are counted by their plan
    for mark in marks if discovery else ():
        read["slices"] += listed("endpointslices", items(f"/apis/{discovery}/endpointslices", label_selector=mark), [])
    target = next((one for one in TARGETS["auto"] if client.serves(one.api_version, one.kind)), None)
    if target is not None:
        read.update(sets=listed("network sets", items(target.path()), []), set_field=target.field)
    index: dict[str, dict[str, t.Any]] = {}
    found = {}
    for kind, ident in asked:
        part = _LISTED.get(kind)
        name = ident.partition("/")[2]
        if part is not None:
            if part not in index:
                index[part] = {_short(obj): obj for obj in read.get(part) or ()}
            if index[part] or not read["denied"]:
                found[kind, ident] = index[part].get(name)
        elif kind in _OTHERS:
            found[kind, ident] = _get(client, kind, name)
    return read, found


def _short(obj: t.Mapping[str, t.Any]) -> str:
    meta = obj["metadata"]
    return "/".join(str(part) for part in (meta.get("namespace"), meta.get("name")) if part)


def _get(client: Client, kind: str, short: str) -> t.Any:
    namespace, slash, name = short.rpartition("/")
    for version in _OTHERS[kind]:
        resource = client.resource(version, kind)
        if resource is not None:
            try:
                return client.get(resource.path(namespace if slash else None, name))
            except (Forbidden, NotFound, ValueError):
                return None
    return None


def _ledger(client: Client) -> dict[str, str]:
    """Address -> Service, of our records; a damaged one gives nothing here, and the plan refuses it by name."""
    found: dict[str, str] = {}
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    for obj in client.list(path, label_selector="app.kubernetes.io/managed-by=multicluster.network").items:
        if not str(obj["metadata"].get("name")).endswith(("-reservations", "-static-pool")):
            continue
        try:
            found.update(holders(parse_ledger(obj.get("data"))))
        except ValueRefused:
            continue
    return found


def _refused(mesh: MeshPlan, node_plans: t.Mapping[str, t.Any], plans: t.Mapping[str, t.Any]) -> list[Data]:
    given = (
        [("mesh", {"refused": mesh.refused})]
        + [(host, node_plans[host]) for host in sorted(node_plans)]
        + [(name, plans[name]) for name in sorted(plans)]
    )
    rows = {
        (where, row["object"], row["reason"], row["message"])
        for where, result in given
        for row in result.get("refused") or ()
    }
    return [dict(zip(("where", "object", "reason", "message"), row)) for row in sorted(rows)]


def _denied(kinds: t.Mapping[str, t.Sequence[str]]) -> list[Data]:
    return [
        {
            "where": name,
            "object": "list " + kind,
            "reason": "forbidden",
            "message": f"the access may not list {kind}: they are missing here",
        }
        for name in sorted(kinds)
        for kind in sorted(set(kinds[name]))
    ]


def _failures(clusters: Clusters, mesh: MeshPlan, plans: t.Mapping[str, t.Any]) -> list[Data]:
    """Each unreachable cluster once, not once for every capability that asked it."""
    rows: dict[tuple[str, str], Data] = {}
    for source, given in (
        [("mesh", mesh.failures)]
        + [(n, plans[n].get("failures") or ()) for n in sorted(plans)]
        + [("", clusters.failures)]
    ):
        for row in given:
            rows.setdefault(
                (str(row["cluster"]), str(row["reason"])), dict(row, operation=row.get("operation") or source)
            )
    for name in sorted(plans):
        if plans[name].get("failed") and not plans[name].get("failures"):
            rows[name, "failed"] = {
                "cluster": name,
                "operation": "plan",
                "reason": "failed",
                "message": str(plans[name].get("msg") or ""),
            }
    return [rows[key] for key in sorted(rows)]


FAILURES = (KubeError, ValueRefused, ValueError, OSError)
