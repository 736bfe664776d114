# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A trace on the controller: both ends out of every cluster's objects, each kind by one complete list; and what came of it, as a report."""

from __future__ import annotations

import json
import random
import time
import typing as t

from ..._kubernetes.access import names_server
from ..._kubernetes.client import Client
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.errors import Forbidden, KubeError, NotFound
from ..._linux.files import FileState, make_folder, write_state
from ..._plan.mesh_plan import MeshPlan
from ..._plan.seen_addresses import Seen
from ..._services.mcs.names import IMPORT, VERSIONS
from ..._status.texts import moment
from ..._trace import ends, page, pairs, report
from ..._trace.known_ends import Ends
from ..._trace.names import Names, Settings
from ..._trace.objects import Cluster, parse_cluster
from ..._trace.reach import what_if
from ..._trace.reach.answers import answered
from ..._trace.resolve import MOST_FLOWS, NUMBERS, Resolver, hosts_of, mesh_part
from ..._values.gc_pause import gc_paused
from ..._values.packed import unpack
from ..._values.refused import ValueRefused
from ..._values.text import mapping
from .status import DISCOVERY

Data = dict[str, t.Any]
#: Where the cluster's DNS has its configuration, unless a task sets another place.
COREDNS = ("kube-system", "coredns", "Corefile")
#: Kinds that are read for ends that are nodes or pods alone, and for all others.
_ALWAYS = {"nodes": "/api/v1/nodes", "pods": "/api/v1/pods"}
_SERVICES = {"services": "/api/v1/services", "endpoints": "/api/v1/endpoints"}
POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
#: Calico's own kinds, by either of its ways; the first that is served.
_CALICO = ("projectcalico.org/v3", "crd.projectcalico.org/v1")


def plan(request: t.Mapping[str, t.Any]) -> Data:
    """The result of trace_plan: {changed: False, trace, failures, refused, stats}. Raises ValueRefused.

    ``request``: {fabric, clusters: [{name, access...}], timeout, mesh: of mesh_plan, hosts: {inventory host: {cluster, node}}, source, target, port,
    protocol, family or questions: [the same of each], number, mirror_namespace, prefixes, cluster_domain, coredns_namespace, coredns_configmap,
    what_if: hypotheses (see what_if.parse), assumed: of mesh_plan with them, mirror_selector, global_selector, speakers: {host: {segment, bgp}},
    reserved: {cluster: [VRRP id]}, pods: {host: addresses of pods that its kernel has}, ends: {host: of node_probe}, pairs: those of a verification
    that are followed instead of source and target, which takes no cluster}.
    """
    if request.get("pairs"):
        return {"changed": False, "trace": of_pairs(request), "failures": [], "refused": [], "stats": {}}
    questions = [
        ends.parse_question(
            row.get("source"), row.get("target"), row.get("port"), row.get("protocol"), row.get("family")
        )
        for row in request.get("questions") or [request]
    ]
    hosts = _hosts(request.get("hosts"))
    number = request.get("number")
    number = random.randrange(NUMBERS[0], NUMBERS[1] - MOST_FLOWS) if number is None else int(number)
    if not NUMBERS[0] <= number <= NUMBERS[1]:
        raise ValueRefused("value_range", "number is {0} and should be between {1} and {2}".format(number, *NUMBERS))
    asked, unasked = _asked_clusters(request)
    clusters = Clusters(asked, seconds_of(request))
    with gc_paused():
        rows = what_if.parse(request.get("what_if") or ())
        what_if.check(rows, MeshPlan.from_json(request.get("mesh") or {}))
        place, services = _corefile_place(request), any(row.kind != what_if.PLAN for row in rows)
        answers = clusters.read(
            "read what a trace needs", lambda name, client: read_cluster(client, questions, place, services)
        )
        seats = {(row["cluster"], row["node"]): host for host, row in hosts.items()}
        answers.update((name, {}) for name in unasked)
        objects = {name: parse_cluster(name, read, seats) for name, read in answers.items()}
        trace = resolved(questions, objects, hosts, number, request)
        if rows:
            trace = answered(trace, objects, rows, request)
    return {"changed": False, "trace": trace, "failures": clusters.failures, "refused": [], "stats": clusters.stats()}


def _asked_clusters(request: t.Mapping[str, t.Any]) -> tuple[list[t.Mapping[str, t.Any]], list[str]]:
    """Clusters with an API that is read, and names of those without one, as mesh_plan has them: their nodes announce themselves to a discovery service."""
    mesh = MeshPlan.from_json(request.get("mesh") or {})
    open_ = mesh.kubespan is not None and bool(mesh.kubespan.members)
    unasked = [str(row["name"]) for row in request["clusters"] if open_ and not names_server(row)]
    return [row for row in request["clusters"] if str(row["name"]) not in unasked], unasked


def resolved(
    questions: t.Sequence[ends.Question],
    objects: t.Mapping[str, Cluster],
    hosts: t.Mapping[str, t.Mapping[str, str]],
    number: int,
    request: t.Mapping[str, t.Any],
) -> Data:
    """The trace of questions over the objects of clusters."""
    settings = Settings.of(request, _corefile_place(request)[0])
    mesh = MeshPlan.from_json(request.get("mesh") or {})
    plain = bool(mesh.clusters) and not mesh.spans_nodes
    seen = Seen(mesh)
    resolver = Resolver(
        objects,
        Names(objects, settings, seen),
        request.get("pods") or {},
        plain,
        seen,
        Ends(request.get("ends"), hosts),
    )
    flows = [flow for flow in resolver.flows(questions, number) if flow["number"] <= NUMBERS[1]]
    first = questions[0]
    return {
        "id": f"{random.getrandbits(32):08x}",
        "number": number,
        "source": str(first.source),
        "target": str(first.target),
        "flows": flows,
        "nodes": hosts_of(flows),
        "names": resolver.steps,
        "findings": [found.row() for found in resolver.found],
        "hosts": dict(hosts),
        "mesh": mesh_part(mesh),
        "policies": resolver.policies,
    }


def of_pairs(request: t.Mapping[str, t.Any]) -> Data:
    """The trace of pairs of pods that a verification found not responding: their addresses and hosts are known."""
    mesh = MeshPlan.from_json(request.get("mesh") or {})
    hosts, number = _hosts(request.get("hosts")), random.randrange(NUMBERS[0], NUMBERS[1] - 1500)
    flows = pairs.flows(request["pairs"], hosts, number, Seen(mesh))
    return {
        "id": f"{random.getrandbits(32):08x}",
        "number": number,
        "source": "",
        "target": "",
        "flows": flows,
        "nodes": hosts_of(flows),
        "names": [],
        "findings": [],
        "hosts": hosts,
        "mesh": mesh_part(mesh),
    }


def _hosts(given: t.Any) -> dict[str, dict[str, str]]:
    return {
        str(host): {"cluster": str(row.get("cluster")), "node": str(row.get("node") or host)}
        for host, row in (given or {}).items()
        if isinstance(row, dict) and row.get("cluster")
    }


def _corefile_place(request: t.Mapping[str, t.Any]) -> tuple[str, str, str]:
    return request.get("coredns_namespace") or COREDNS[0], request.get("coredns_configmap") or COREDNS[1], COREDNS[2]


def read_cluster(
    client: Client, questions: t.Sequence[ends.Question], corefile: tuple[str, str, str], services: bool = False
) -> Data:
    """What one cluster has (services: in any case with its Services), as parse_cluster takes it. Raises KubeErrors; what the access may not list is named."""
    read: Data = {"unread": []}
    kinds = dict(_ALWAYS)
    asked = {question.target.kind for question in questions}
    if asked - {ends.NODE, ends.ANY}:
        kinds["policies"] = POLICIES
    if services or asked - {ends.NODE, ends.POD, ends.ANY}:
        kinds.update(_SERVICES)
        discovery = next((version for version in DISCOVERY if client.serves(version, "EndpointSlice")), None)
        if discovery is not None:
            kinds["slices"] = f"/apis/{discovery}/endpointslices"
        version = next((one for one in VERSIONS if client.serves(one, IMPORT)), None)
        if version is not None:
            kinds["imports"] = f"/apis/{version}/serviceimports"
    calico = _calico(client) if "policies" in kinds else {}
    for kind, path in kinds.items():
        try:
            read[kind] = client.list(path).items
        except KubeError as error:
            if error.status not in (403, 404) or kind == "nodes":
                raise
            read["unread"].append({"slices": "endpointslices", "imports": "serviceimports"}.get(kind, kind))
    for kind, paths in calico.items():
        try:
            read[kind] = [obj for path in paths for obj in client.list(path).items]
        except KubeError as error:
            if error.status not in (403, 404):
                raise
            read["unread"].append(kind)
    if "sets" in read["unread"]:
        read.pop("calico", None)  # without the sets nobody can say whom they let in
    if ends.NAME in asked:
        try:
            found = client.get("/api/v1/namespaces/{0}/configmaps/{1}".format(*corefile[:2]))
            read["corefile"] = mapping(found, "data").get(corefile[2])
        except NotFound:
            read["corefile"] = ""
        except (Forbidden, ValueError):
            read["unread"].append("configmaps")
    return read


def _calico(client: Client) -> dict[str, list[str]]:
    """Paths of Calico's policies and of the sets that they name, where the cluster has them: {calico, sets}."""
    for version in _CALICO:
        if client.serves(version, "GlobalNetworkSet"):
            plurals = {"NetworkPolicy": "networkpolicies", "GlobalNetworkPolicy": "globalnetworkpolicies"}
            paths = [f"/apis/{version}/{plural}" for kind, plural in plurals.items() if client.serves(version, kind)]
            return {"calico": paths, "sets": [f"/apis/{version}/globalnetworksets"]} if paths else {}
    return {}


def finish(request: t.Mapping[str, t.Any], check: bool = False) -> Data:
    """The result of trace_report: {changed: False, verdict, findings, hops, flows, agreement, table, errors, names, files}.

    ``request``: {fabric, trace: of trace_plan, nodes: {host: {armed, sent, collected}}, unreachable: {host: text}, outside: [host], page, document} and
    ``facts``: trace, nodes and unreachable as one text, or None. Raises ValueRefused, and OSError where a file cannot be written.
    """
    request = dict(request, **unpack(request["facts"])) if request.get("facts") else request
    trace, unreachable = request.get("trace") or {}, dict(request.get("unreachable") or {})
    unreachable.update(
        {host: "it is outside of --limit" for host in request.get("outside") or () if host not in unreachable}
    )
    with gc_paused():
        built = report.build(trace, request.get("nodes") or {}, unreachable)
    if check and trace.get("flows"):
        built["table"].append("no packet was sent: this is what the facts say")
    if request.get("outside"):
        built["table"].append(f"outside of --limit: {', '.join(sorted(map(str, request['outside'])))}")
    shown = dict(trace, flows=[flow for flow in trace.get("flows") or () if not flow.get("about")])
    document = {"fabric": request["fabric"], "generated": moment(time.time()), "trace": shown, **built}
    files = {}
    for option, text in (("page", page.render), ("document", lambda whole: json.dumps(whole, sort_keys=True) + "\n")):
        if request.get(option):
            files[option] = request[option]
            if not check:
                make_folder(request[option].rpartition("/")[0] or ".")
                write_state(request[option], FileState("file", 0o644, text(document).encode("utf-8")))
    return dict(built, changed=False, files=files, refused=[])


FAILURES = (KubeError, ValueRefused, ValueError, OSError)
