# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run has kept of its hosts, by the names of ``results``. Pure: ``hostvars`` is any mapping of mappings."""

from __future__ import annotations

import typing as t

from .._plan.mesh_plan import MeshPlan
from . import results
from .verdict import change_name

Data = dict[str, t.Any]

#: The mesh's own results, which a comparison holds against the clusters.
NODE_PLANS = {"annotations": results.ANNOTATIONS, "pools": results.POOLS}
#: Capability -> the result that shows what differs.
PLANS = {name: row.compared for name, row in results.CAPABILITIES.items()}
#: Of a result, what describes the fabric. Everything else (the arguments, above all) stays where it is.
_PROBE = (
    "pods",
    "strays",
    "others",
    "pings",
    "host_pings",
    "host_sources",
    "peers",
    "paths",
    "units",
    "bgp",
    "layer2",
    "service_proxy",
    "tracking",
    "discovery",
    "errors",
)
_PARTS = (
    "plan",
    "refused",
    "failures",
    "failed",
    "msg",
    "interfaces",
    "counts",
    "load_balancers",
    "sources",
    "discovery",
    "imports",
    "notices",
)


def of_hosts(hostvars: t.Any, hosts: t.Iterable[str], name: str) -> dict[str, t.Mapping[str, t.Any]]:
    """Host -> its result of that name, without the hosts that have none."""
    seen = ((str(host), hostvars[host]) for host in hosts)
    return {host: given[name] for host, given in seen if name in given}


def part(result: t.Mapping[str, t.Any]) -> Data:
    """Of a module's result, what describes the fabric."""
    return {name: result[name] for name in _PARTS if name in result}


def plans(hostvars: t.Any, hosts: t.Iterable[str], clusters: t.Iterable[str]) -> dict[str, Data]:
    """Name -> what a capability's module found, from whichever host has it."""
    found: dict[str, Data] = {}
    for names, places in ((NODE_PLANS, hosts), (PLANS, clusters)):
        for host in places:
            given = hostvars[host]
            for name, variable in names.items():
                if name not in found and variable in given and not given[variable].get("skipped"):
                    found[name] = part(given[variable])
    return found


def failed_checks(hostvars: t.Any, hosts: t.Iterable[str]) -> list[dict[str, str]]:
    """``[{where, why}]`` of every result of our roles that is a failure, whatever the play made of it.

    What failed alike on all hosts was done once for all, or has one cause: it is said once, of the ``run``. A plan that failed for findings
    of the inventory is left out, since they are findings themselves; capabilities' plans are those of ``failed_plans``.
    """
    found: dict[str, list[str]] = {}
    count = 0
    for host in hosts:
        count += 1
        given = hostvars[host]
        for name in sorted(name for name in given if name.startswith(results.PREFIX) and name not in PLANS.values()):
            result = given[name]
            said = isinstance(result, t.Mapping) and (
                result.get("findings") or result.get("missing_package")
            )  # a run installs what is missing
            if isinstance(result, t.Mapping) and result.get("failed") and not said:
                message = " ".join(str(result.get("msg") or "failed without a message").split())
                found.setdefault(message, []).append(str(host))
    rows = []
    for message, places in sorted(found.items()):
        where = sorted(set(places))
        rows += (
            [{"where": "run", "why": message}]
            if len(where) == count > 1
            else [{"where": place, "why": message} for place in where]
        )
    return rows


def failed_plans(hostvars: t.Any, clusters: t.Iterable[str]) -> list[dict[str, str]]:
    """``[{where, why}]`` of every capability with a plan that failed as a whole: what it refused, or which cluster failed, is in none of its rows."""
    rows = []
    for name, result in plans(hostvars, (), clusters).items():
        if result.get("failed") and not (result.get("refused") or result.get("failures")):
            rows.append({"where": name, "why": " ".join(str(result.get("msg") or "failed without a message").split())})
    return rows


def verifications(hostvars: t.Any, hosts: t.Iterable[str], mesh: MeshPlan) -> dict[str, Data]:
    """Host -> {"drift", "probe"} as mesh_verdict.judge takes them, or {"why": text} where the host has no results."""
    found: dict[str, Data] = {}
    for host in hosts:
        given = hostvars[host]
        drift = given.get(results.NODE, {})
        probe = drift.get("probe") or {}
        if "pings" in probe:
            found[str(host)] = {
                "drift": part(drift),
                "probe": {name: value for name, value in probe.items() if name in _PROBE},
            }
        else:
            found[str(host)] = {"why": next((text for text in map(why_none, (probe, drift)) if text), "")}
    return _without_gone(found, mesh)


def _without_gone(found: dict[str, Data], mesh: MeshPlan) -> dict[str, Data]:
    """The same where nothing is held against a pod that has gone since others were notified of it: its node, which looked for it, has it no more.

    ``gone`` of a probe: the nodes of such pods.
    """
    there: dict[str, set[str]] = {}
    for host, row in found.items():
        if "probe" not in row:
            continue
        node = mesh.node(host)
        own = {address for pod in row["probe"].get("pods") or () for address in pod["addresses"]}
        # a pod was pinged at the address at which the other cluster sees it
        exported = mesh.cluster(node.cluster).exported
        there[host] = own | set(map(exported.address, own)) | set(node.exported_addresses.values())
    for row in found.values():
        for name in ("pings", "host_pings"):
            pings = (row.get("probe") or {}).get(name) or ()
            gone = [
                ping
                for ping in pings
                if not ping["ok"] and ping["node"] in there and ping["target"] not in there[ping["node"]]
            ]
            if gone:
                nodes = {*(row["probe"].get("gone") or ()), *(ping["node"] for ping in gone)}
                left = [ping for ping in pings if ping not in gone]
                row["probe"] = dict(row["probe"], **{name: left}, gone=sorted(nodes))
    return found


def pods(hostvars: t.Any, hosts: t.Iterable[str], own: bool = False) -> dict[str, list[str]]:
    """Host -> addresses of the pods that were found there. Each host's variables are looked at once: whoever asks, asks for all.

    own: without addresses of the node itself, which are used where no pod is found.
    """
    found: dict[str, list[str]] = {}
    for host in hosts:
        given = hostvars[host]
        probe = (given.get(results.NODE, {})).get("probe") or {}
        if "pods" not in probe:
            probe = given.get(results.PODS, {})
        if "pods" in probe:
            found[str(host)] = [
                str(address)
                for pod in probe["pods"]
                if not own or pod.get("in_namespace")
                for address in pod["addresses"]
            ]
    return found


def ends(hostvars: t.Any, hosts: t.Iterable[str]) -> dict[str, Data]:
    """Host -> what it reported for the ends of a trace, {members, own, sources}; of hosts with a discovery service alone."""
    found = {str(host): hostvars[host].get(results.PODS, {}).get("ends") for host in hosts}
    return {host: dict(row) for host, row in found.items() if row}


def traced(found: t.Mapping[str, t.Mapping[str, t.Any]], hostvars: t.Any, hosts: t.Iterable[str]) -> dict[str, Data]:
    """``found`` of verifications, where the pings that a trace followed have its finding as ``why``."""
    followed = trace(hostvars, hosts)
    flows = {str(flow["id"]): flow for flow in followed.get("flows") or ()}
    whys: dict[tuple[str, str], str] = {}
    for row in followed.get("findings") or ():
        flow = flows.get(str(row.get("flow")))
        if flow:
            text = "{message} [{cause}, {confidence}]; fix: {fix}".format(**row)
            whys.setdefault((str(flow["source"]["address"]), str(flow["target"]["address"])), text)
    return {host: _explained(row, whys) for host, row in found.items()}


def trace(hostvars: t.Any, hosts: t.Iterable[str]) -> Data:
    """What became of the packets that were followed: {flows, findings, hops}, as its page takes it; empty where none were."""
    given = next(
        (
            hostvars[host]
            for host in hosts
            if results.TRACE_REPORT in hostvars[host] and results.TRACE_PLAN in hostvars[host]
        ),
        None,
    )
    if given is None:
        return {}
    flows = [
        flow for flow in (given[results.TRACE_PLAN].get("trace") or {}).get("flows") or () if not flow.get("about")
    ]
    return {
        "flows": flows,
        "findings": given[results.TRACE_REPORT].get("findings") or [],
        "hops": given[results.TRACE_REPORT].get("hops") or [],
    }


def trace_plan(given: t.Mapping[str, t.Any]) -> Data:
    """The trace that the run has planned: {id, nodes, flows}; empty where it has none. given: variables of a host."""
    plan = given.get(results.TRACE_PLAN, {})
    return dict(plan.get("trace") or {})


def _explained(row: t.Mapping[str, t.Any], whys: t.Mapping[tuple[str, str], str]) -> Data:
    probe = row.get("probe") or {}
    if not probe.get("pings"):
        return dict(row)
    pings = [
        dict(ping, why=whys[ping["source"], ping["target"]])
        if not ping["ok"] and (ping["source"], ping["target"]) in whys
        else ping
        for ping in probe["pings"]
    ]
    return dict(row, probe=dict(probe, pings=pings))


def why_none(result: t.Mapping[str, t.Any]) -> str:
    """Why a result is none: what the connection or the module said."""
    if not (result.get("unreachable") or result.get("failed")):
        return ""
    return f"{'unreachable' if result.get('unreachable') else 'failed'}: {str(result.get('msg') or '').strip()[:300]}"


def mesh(hostvars: t.Any, hosts: t.Iterable[str]) -> Data:
    """The plan of the mesh in its JSON form, from whichever host has it; empty where none has."""
    for host in hosts:
        given = hostvars[host]
        if results.PLAN in given and given[results.PLAN].get("mesh"):
            return dict(given[results.PLAN]["mesh"])
    return {}


def applied(given: t.Any) -> dict[str, Data]:
    """Name -> {again, written} of every result that a run kept (``given``: variables of a host).

    ``again``: it wrote, and has to be read once more. ``written``: what it wrote, each as "kind id"; None where the result does not tell all.
    """
    found: dict[str, Data] = {}
    for name, variable in {**NODE_PLANS, **PLANS}.items():
        if variable not in given:
            continue
        result = given[variable]
        failed = bool(result.get("failed") or result.get("failures"))
        found[name] = {"again": bool(result.get("changed")) and not failed, "written": _written(result)}
    return found


def _written(result: t.Mapping[str, t.Any]) -> list[str] | None:
    plan = result.get("plan") or {}
    changes = plan.get("changes") or ()
    if sum(number for number in map(plan.get, ("create", "update", "delete")) if isinstance(number, int)) > len(
        changes
    ):
        return None  # a result names the first of many only
    return [change_name(change) for change in changes]


def noted(hostvars: t.Any, hosts: t.Iterable[str]) -> Data:
    """{capabilities: [name], applied: {name: written}} as the playbook that compares noted them on hosts."""
    capabilities: list[str] = []
    written: dict[str, list[str] | None] = {}
    for host in hosts:
        given = hostvars[host]
        notes = given.get(results.CHANGES, {})
        capabilities += [str(one) for one in notes.get("capabilities") or () if one not in capabilities]
        for name, row in (notes.get("applied") or {}).items():
            written.setdefault(str(name), row["written"])
    return {"capabilities": capabilities, "applied": written}


def status(
    hostvars: t.Any,
    hosts: t.Iterable[str],
    clusters: t.Sequence[str],
    on: t.Sequence[str] = (),
    limit: str = "",
    asked: t.Iterable[str] = (),
) -> Data:
    """What the modules that describe a fabric take: {mesh, nodes, node_plans, plans, probes, trace, unreachable, limit, outside, unasked}.

    hosts: those that may be nodes; one without ``multicluster_cluster`` is left out, one without a result is kept in ``unreachable``, or, under
    a limit, as outside of it. on: the capabilities that the inventory asks for;
    asked: the hosts that the limit left.
    """
    found: Data = {
        "mesh": {},
        "nodes": {},
        "node_plans": {},
        "plans": {},
        "unreachable": {},
        "limit": limit,
        "outside": [],
        "unasked": [],
    }
    for host in hosts:
        given = hostvars[host]
        if host in clusters or "multicluster_cluster" not in given:
            continue
        result = given.get(results.NODE_INFO, {})
        found["nodes"][str(host)] = result.get("node")
        if limit and results.NODE_INFO not in given:
            found["outside"].append(str(host))  # who was asked and did not answer has a result with that
            continue
        if result.get("node") is None:
            found["unreachable"][str(host)] = why_none(result)
        converge = given.get(results.NODE, {})
        if "plan" in converge or converge.get("refused"):
            found["node_plans"][str(host)] = part(converge)
    nodes = list(found["nodes"])
    found["mesh"] = mesh(hostvars, nodes)
    found["probes"] = {
        host: row["probe"]
        for host, row in traced(
            verifications(hostvars, nodes, MeshPlan.from_json(found["mesh"])), hostvars, [*clusters, *nodes]
        ).items()
        if "probe" in row
    }
    found["trace"] = trace(hostvars, [*clusters, *nodes])
    found["plans"] = plans(hostvars, nodes, clusters)
    if limit and not set(asked).intersection(clusters):
        found["unasked"] = [name for name in on if name not in found["plans"]]
    return found
