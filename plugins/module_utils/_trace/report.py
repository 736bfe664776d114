# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A trace's result: verdict, findings, hops, a table of text for people. Pure."""

from __future__ import annotations

import typing as t

from .._values.text import mapping
from . import causes
from .causes import BACK, FORWARD, OUT, TUNNEL, Step, printable
from .diagnosis import ARRIVES, FAILS, OPEN, Finding, Flow, Judge, Seen
from .expected import Walk, Walker
from .members import STRANGER, Followed, Members
from .mesh import Mesh
from .name_servers import asks_of, command, fault_of
from .node_results import Observed, number_of, parse_flow, parse_mesh, read_nodes, used_mesh, with_host_source
from .observed import Passage
from .reach import answers

Data = dict[str, t.Any]
#: How CNIs call the chains by which they enforce policies.
_POLICY_WORDS = ("cali-", "KUBE-NWPLCY", "cilium")
#: Where no packet could be sent: that is no way on which packets arrive.
NOTHING = "nothing to follow"
#: Hops and findings that a result shows; a batch of many flows shows the failed ones first.
SHOWN = 400


def build(trace: t.Mapping[str, t.Any], results: t.Mapping[str, t.Any], unreachable: t.Mapping[str, t.Any]) -> Data:
    """The report: {verdict, findings, hops, flows, table, errors, agreement}."""
    observed = read_nodes(trace, results)
    mesh = used_mesh(parse_mesh(trace.get("mesh")), observed.nodes)
    walker = Walker(observed.nodes, mesh, {str(host): str(text) for host, text in unreachable.items()})
    rows = [with_host_source(row, observed.nodes) for row in trace.get("flows") or () if isinstance(row, dict)]
    flows = {str(row.get("id")): parse_flow(row) for row in rows}
    known_flows = [flow for flow in flows.values() if flow]
    judge = Judge(observed.nodes, mesh, observed.seen, known_flows)
    members = Members(observed.nodes, mesh, observed.seen, observed.members, known_flows)
    early = [_given(row) for row in trace.get("findings") or () if isinstance(row, dict)]
    findings: list[Finding] = []
    hops: list[Data] = []
    verdicts: list[Data] = []
    for row in rows:
        flow = flows[str(row.get("id"))]
        named, name_hops = _named(row, observed)
        if flow is None and not row.get("about"):
            followed = members.follow(parse_flow(row, STRANGER)) if observed.members and named is None else None
            verdict, finding = _unknown_end(row, observed.seen)
            if followed is not None:
                verdict, finding = followed.verdict, followed.finding
            verdict, finding = (FAILS, named) if named else (verdict, finding)
            hops += name_hops + (_member_hops(followed, observed.seen) if followed is not None else [])
            findings += [finding] if finding else []
            verdicts.append(
                {
                    "flow": str(row.get("id")),
                    "source": _end(row, "source"),
                    "target": _end(row, "target"),
                    "verdict": verdict,
                    "agrees": followed is not None and (followed.there.fault is not None) != (verdict == ARRIVES),
                    "cause": finding.cause if finding else "",
                }
            )
        if flow is None or flow.about:
            continue
        flow = _chosen(flow, row, observed.seen)
        there = walker.walk(flow.packet, flow.start, flow.end, flow.from_pod)
        proxied = walker.proxied(flow.packet, flow.start, _dialled(row), _forwarders(row, flow, observed))
        if proxied is not None and flow.packet.dst not in observed.seen.passage(flow.id, flow.start, FORWARD).targets:
            there = there._replace(steps=(), arrived=False, fault=proxied)
        back = walker.walk(flow.packet.back(), flow.end, flow.start, flow.to_pod, BACK)
        verdict, finding = judge.judge(flow, there, back)
        verdict, finding = (FAILS, named) if named else (verdict, finding)
        faulty = there.fault is not None or back.fault is not None
        agrees = named is None and faulty != (verdict == ARRIVES)
        verdicts.append(
            {
                "flow": flow.id,
                "source": _end(row, "source"),
                "target": _end(row, "target"),
                "verdict": verdict,
                "agrees": agrees,
                "cause": finding.cause if finding else "",
            }
        )
        clusters = {observed.nodes[host].cluster for host in (flow.start, flow.end) if host in observed.nodes}
        finding = of_a_host(finding, flow, mesh, clusters) if finding else None
        if finding is not None:
            findings.append(_by_policy(finding, str(mapping(trace, "policies").get(flow.id) or "")))
        if finding is not None or len(hops) < SHOWN:
            late = None if named else finding  # that of the name has its row
            hops += (
                name_hops
                + _hops(flow, there, FORWARD, observed.seen, late)
                + _hops(flow, back, BACK, observed.seen, late)
            )
    explained, asked = {row.get("question") for row in early}, {str(row.get("id")): row.get("question") for row in rows}
    reported = [
        _row(finding)
        for finding in findings
        if finding.cause != causes.NOT_EXPLAINED or not explained & {None, asked[finding.flow]}
    ]
    found = [*early, *reported]
    verdict = _verdict(verdicts, early, mapping(trace, "reach"))
    shown = hops[:SHOWN]
    return {
        "verdict": verdict,
        "findings": found[:SHOWN],
        "hops": shown,
        "flows": verdicts,
        "agreement": {
            "asked": len(verdicts),
            "arrive": sum(row["verdict"] == ARRIVES for row in verdicts),
            "agree": sum(row["agrees"] for row in verdicts),
        },
        "table": table(trace, verdict, verdicts, shown, found, observed.errors),
        "errors": observed.errors[:SHOWN],
        "names": [row for row in trace.get("names") or () if isinstance(row, dict)],
    }


def _named(row: t.Mapping[str, t.Any], observed: Observed) -> tuple[Finding | None, list[Data]]:
    """What the DNS server said of a flow's target, where that is a name: it comes before any packet. (the finding, its hop)."""
    ident, host = str(row.get("id")), str(mapping(row, "source").get("host"))
    resolved = observed.resolved.get(ident)
    if resolved is None:
        return None, []
    name, desired = asks_of(row)
    fault = fault_of(row, resolved, observed.nodes.get(host))
    said = ", ".join(causes.place_text(*one) for one in resolved.addresses[:5]) or resolved.detail or resolved.outcome
    hop = {
        "flow": ident,
        "direction": FORWARD,
        "where": host,
        "what": fault[0] if fault else "name",
        "expected": f"{printable(name)} is {', '.join(causes.place_text(*one) for one in desired[:5])}",
        "observed": f"the DNS server {resolved.server} answers {said}",
        "verdict": "differs" if fault else "ok",
        "command": command(resolved),
        "source": f"Corefile of cluster {printable(mapping(row, 'source').get('cluster') or '')}",
    }
    if fault is None:
        return None, [hop]
    confidence = causes.LIKELY if fault[0] == causes.KUBE_PROXY_OFF else causes.PROVEN
    return Finding(
        ident,
        fault[0],
        FORWARD,
        host,
        fault[1],
        causes.FIXES[fault[0]].format(host=host),
        command(resolved),
        confidence,
    ), [hop]


def _unknown_end(row: t.Mapping[str, t.Any], seen: Seen) -> tuple[str, Finding | None]:
    """Of a flow to what is no node or pod of the fabric: only its answer is known."""
    ident = str(row.get("id"))
    sent = seen.sent.get(ident) or ()
    if sent and sent[0].outcome in ("answered", "refused"):
        return ARRIVES, None
    host = str(mapping(row, "source").get("host"))
    last = seen.passage(ident, host, FORWARD)
    where = (
        f"last seen as it left {host} by {', '.join(map(printable, last.outs))}"
        if last.outs
        else "nothing shows where it went"
    )
    text = f"{_end(row, 'target')} is no node and no pod of a host of the inventory: {where}"
    return OPEN, Finding(
        ident, causes.NOT_EXPLAINED, FORWARD, host, text, causes.FIXES[causes.NOT_EXPLAINED], "", causes.UNEXPLAINED
    )


def _dialled(row: t.Mapping[str, t.Any]) -> int | None:
    """The address that the source uses."""
    return number_of(mapping(row, "target").get("address"))


def _forwarders(row: t.Mapping[str, t.Any], flow: Flow, observed: Observed) -> list[str]:
    """The hosts of which one forwards what is sent to a Service's address: the source's, or in another cluster those that saw it, else any."""
    source, target = mapping(row, "source"), mapping(row, "target")
    cluster = str(target.get("cluster") or "")
    if target.get("kind") != "service" or not cluster or cluster == source.get("cluster"):
        return [flow.start]
    hosts = sorted(host for host, node in observed.nodes.items() if node.cluster == cluster)
    return [host for host in hosts if observed.seen.passage(flow.id, host, FORWARD).events] or hosts or [flow.start]


def _chosen(flow: Flow, row: t.Mapping[str, t.Any], seen: Seen) -> Flow:
    """The flow with the backend that the packets really went to, where there are several."""
    for backend in mapping(row, "target").get("backends") or ():
        if (
            isinstance(backend, dict)
            and backend.get("host")
            and seen.passage(flow.id, str(backend["host"]), FORWARD).events
        ):
            number = number_of(backend.get("address"))
            if number is not None and number in seen.passage(flow.id, str(backend["host"]), FORWARD).targets:
                port = backend.get("port")
                return flow._replace(
                    packet=flow.packet._replace(
                        dst=number, port=port if isinstance(port, int) else None, own=number_of(backend.get("own"))
                    ),
                    end=str(backend["host"]),
                )
    return flow


def _by_policy(finding: Finding, policy: str) -> Finding:
    """What a target did not answer may be the doing of a policy that does not let the source in: nobody sees that from outside of the CNI."""
    if (
        not policy
        or finding.direction != FORWARD
        or finding.cause not in (causes.TARGET_UNREACHABLE, causes.FORWARD_DROPPED)
    ):
        return finding
    if finding.cause == causes.FORWARD_DROPPED and not any(part in finding.text for part in _POLICY_WORDS):
        return finding
    return finding._replace(
        cause=causes.POLICY_LACKS_SOURCE,
        text=f"{finding.text}; {policy}",
        fix=causes.FIXES[causes.POLICY_LACKS_SOURCE],
        confidence=causes.LIKELY,
    )


def of_a_host(finding: Finding, flow: Flow, mesh: Mesh, clusters: t.Collection[str]) -> Finding:
    """The finding, where a mesh of pods lacks what a host's own packets would need: that is no fault of it, and no run of it fixes that.

    clusters: of both ends; inside one cluster packets are no matter of the mesh. A mesh of nodes carries a host's packets.
    """
    plain = bool(mesh.devices) and not mesh.whole and len(clusters) > 1
    if (
        not plain
        or (flow.from_pod and flow.to_pod)
        or finding.cause not in (causes.ALLOWED_IPS_LACK_SOURCE, causes.ROUTE_MISSING)
    ):
        return finding
    return finding._replace(
        text=finding.text
        + "; this mesh carries packets of pods, and of a host itself only at an address that other clusters accept",
        fix="exported_node_cidrs of the node's cluster gives it such an address (guide_limits); or ask from a pod to a pod",
    )


def _row(finding: Finding) -> Data:
    found = finding._asdict()
    found["message"] = found.pop("text")
    return found


def _given(row: t.Mapping[str, t.Any]) -> Data:
    cause = str(row.get("cause"))
    question = {"question": row["question"]} if isinstance(row.get("question"), int) else {}
    return {
        **question,
        "flow": str(row.get("flow") or ""),
        "cause": cause,
        "direction": FORWARD,
        "where": printable(row.get("where") or ""),
        "message": printable(row.get("message") or "", 500),
        "fix": str(row.get("fix") or causes.FIXES.get(cause, "")),
        "command": str(row.get("command") or ""),
        "confidence": str(row.get("confidence") or causes.PROVEN),
    }


def _end(row: t.Mapping[str, t.Any], which: str) -> str:
    end = mapping(row, which)
    return printable(end.get("name") or end.get("address") or "?")


def _verdict(verdicts: t.Sequence[Data], early: t.Sequence[t.Any], reach: t.Mapping[str, t.Any]) -> str:
    if reach:
        return (
            FAILS
            if early or reach.get("cut") or reach.get("asked") or reach.get("alone")
            else OPEN
            if reach.get("unread")
            else ARRIVES
        )
    found = [row["verdict"] for row in verdicts]
    if FAILS in found or (early and not found):
        return FAILS
    return NOTHING if not found else OPEN if OPEN in found else ARRIVES


def _hops(flow: Flow, walk: Walk, direction: str, seen: Seen, finding: Finding | None) -> list[Data]:
    """Rows of the table: each thing that decides, with what was seen there."""
    hosts = [flow.start, flow.end] if direction == FORWARD else [flow.end, flow.start]
    rows = [_hop(flow, step, direction, seen, hosts) for step in walk.steps]
    if walk.unknown and not rows:
        rows = [
            {
                "flow": flow.id,
                "direction": direction,
                "where": host,
                "what": "node",
                "expected": "not known: " + walk.unknown,
                "observed": _observed(seen.passage(flow.id, host, direction), host, seen),
                "verdict": "unknown",
                "command": "",
                "source": "",
            }
            for host in dict.fromkeys(hosts)
        ]
    fault = walk.fault
    if fault is not None and (
        finding is not None or not seen.sent.get(flow.id)
    ):  # what arrives has no fault, whatever the facts say
        mine = finding is not None and (finding.cause, finding.where, finding.direction) == (
            fault.cause,
            fault.at,
            direction,
        )
        rows.append(
            {
                "flow": flow.id,
                "direction": direction,
                "where": fault.at,
                "what": fault.cause,
                "expected": fault.text,
                "observed": _observed(seen.passage(flow.id, fault.host, direction), fault.host, seen),
                "verdict": "differs" if mine else "unknown",
                "command": fault.command,
                "source": "",
            }
        )
    if finding is not None and finding.direction == direction and (fault is None or finding.cause != fault.cause):
        rows.append(
            {
                "flow": flow.id,
                "direction": direction,
                "where": finding.where,
                "what": finding.cause,
                "expected": "",
                "observed": finding.text,
                "verdict": "differs",
                "command": finding.command,
                "source": "",
            }
        )
    return rows


def _member_hops(followed: Followed, seen: Seen) -> list[Data]:
    """Rows of a flow to a member: on the host that sends, and what proves the rest."""
    flow, there, back, dummy, finding, row = followed
    return [*_hops(flow, there, FORWARD, seen, finding), row, *_hops(flow, back, BACK, seen, finding)]


def _hop(flow: Flow, step: Step, direction: str, seen: Seen, hosts: t.Sequence[str]) -> Data:
    found = seen.passage(flow.id, step.host, direction)
    if step.host not in seen.armed:
        verdict = "unknown"
    elif step.stage == TUNNEL:
        # what the far end sends back by itself, as that a packet is too large, came through no tunnel
        verdict = "ok" if found.events and seen.passage(flow.id, hosts[-1], direction).events else "not seen"
    elif step.stage == OUT:
        verdict = "ok" if step.dev in found.outs else "differs" if found.outs else "not seen"
    else:
        verdict = "ok" if found.events else "not seen"
    return {
        "flow": flow.id,
        "direction": direction,
        "where": step.host,
        "what": step.what,
        "expected": step.text,
        "observed": _observed(found, step.host, seen),
        "verdict": verdict,
        "command": step.command,
        "source": step.source,
    }


def _observed(found: Passage, host: str, seen: Seen) -> str:
    if host not in seen.armed:
        return "not recorded"
    if not found.events:
        return "not seen"
    words = [f"in by {printable(found.iif)}"] if found.iif else ["seen"]
    words += [f"out by {', '.join(map(printable, found.outs))}"] if found.outs else []
    words += [f"dropped by {found.drop.place}"] if found.drop else []
    return ", ".join(words)


def _reach(reach: t.Mapping[str, t.Any]) -> list[str]:
    """What the plan has of all pairs."""
    if not reach:
        return []
    lines = [
        "by the plan alone: {pairs} ordered pairs of {nodes} nodes, {reachable} could talk, of {unread} nobody knows".format(
            **reach
        )
    ]
    lines += [
        "{0} to {1} on {2}: {3}".format(*(printable(row.get(k)) for k in ("source", "target", "host", "cause")))
        for row in reach["asked"][:40]
    ]
    return [*map(printable, answers.lines(reach)), *lines]


def table(
    trace: t.Mapping[str, t.Any],
    verdict: str,
    verdicts: t.Sequence[Data],
    hops: t.Sequence[Data],
    findings: t.Sequence[Data],
    errors: t.Sequence[str],
) -> list[str]:
    """Lines for people."""
    lines = [f"trace {printable(trace.get('id') or '')}: {verdict}"]
    if len(verdicts) > 1:
        lines.append(
            "{0} flows, {1} arrive, expected and observed agree in {2}".format(
                len(verdicts),
                sum(row["verdict"] == ARRIVES for row in verdicts),
                sum(row["agrees"] for row in verdicts),
            )
        )
    lines += _reach(mapping(trace, "reach"))
    for row in trace.get("names") or ():
        if isinstance(row, dict):
            lines.append(f"  {printable(row.get('what') or '')}: {printable(row.get('text') or '', 500)}")
    heads = ("WAY", "WHERE", "WHAT", "EXPECTED", "OBSERVED", "VERDICT")
    cells = [heads] + [
        (row["direction"], row["where"], row["what"], row["expected"], row["observed"], row["verdict"])
        for row in hops[:40]
    ]
    widths = [min(60, max(len(row[column]) for row in cells)) for column in range(5)]
    if hops:
        rows = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)) + "  " + row[5] for row in cells]
        lines += [
            "",
            *rows,
            *([""] if findings or errors else []),
        ]  # a table by itself: one in which nothing is wrong may be left out
    for row in findings[:20]:
        lines.append("{cause} on {where} ({confidence}): {message}".format(**row))
        lines.append(f"  fix: {row['fix']}")
        lines += [f"  see: {row['command']}"] if row["command"] else []
    return lines + list(errors[:20])
