# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A trace's result: verdict, findings, hops, a table of text for people. Pure."""

from __future__ import annotations

import typing as t

from .._values.addresses import address_number
from .._values.packed import unpack
from .._values.refused import ValueRefused
from .._values.text import mapping
from . import answers, causes
from .causes import BACK, FORWARD, OUT, TUNNEL, Step, printable
from .diagnosis import ARRIVES, FAILS, OPEN, Finding, Flow, Judge, Seen
from .expected import Walk, Walker
from .facts import Device, Node, parse_devices, parse_endpoint_key, parse_node, parse_tracking
from .members import STRANGER, Followed, Known, Members, parse_known
from .mesh import Mesh
from .name_servers import Resolved, asks_of, command, fault_of, parse_resolved
from .observed import Passage, Sent, parse_events, parse_sent, passage
from .routing import Packet

Data = dict[str, t.Any]
#: How CNIs call the chains by which they enforce policies.
_POLICY_WORDS = ("cali-", "KUBE-NWPLCY", "cilium")
#: Where no packet could be sent: that is no way on which packets arrive.
NOTHING = "nothing to follow"
#: Bytes that a node's record may unfold to.
MOST_PACKED = 500_000_000
#: Hops and findings that a result shows; a batch of many flows shows the failed ones first.
SHOWN = 400


def parse_flow(row: t.Mapping[str, t.Any], stranger: str = "") -> Flow | None:
    """A flow of trace_plan; None for one without two known ends. stranger: what an end that no host of the inventory has is called."""
    source, target = mapping(row, "source"), mapping(row, "target")
    rows = [one for one in target.get("backends") or () if isinstance(one, dict) and one.get("address")]
    backend = next((one for one in rows if one.get("host")), rows[0] if rows else None)
    try:
        version, src = address_number(source.get("address"))
        other, dst = address_number((backend or target).get("address"))
    except ValueRefused:
        return None
    start, end = source.get("host"), (backend or {}).get("host") or target.get("host") or stranger
    if version != other or not start or not end:
        return None
    port = (backend or target).get("port")
    packet = Packet(
        version,
        src,
        dst,
        str(row.get("protocol") or "icmp"),
        port if isinstance(port, int) else None,
        *_translations(source, backend or target),
    )
    pods = source.get("kind") != "node", target.get("kind") != "node"
    return Flow(
        str(row.get("id")), packet, str(start), str(end), *pods, str(row.get("about") or ""), _numbers([target, *rows])
    )


def _numbers(rows: t.Iterable[t.Mapping[str, t.Any]]) -> frozenset[int]:
    """The addresses of ends, without what is none."""
    found = (_number(row.get(name)) for row in rows for name in ("address", "own"))
    return frozenset(number for number in found if number is not None)


def with_host_source(row: t.Mapping[str, t.Any], nodes: t.Mapping[str, Node]) -> t.Mapping[str, t.Any]:
    """A flow of a host with the address at which other clusters see it: by the node's own table, which the plan does not know."""
    source = mapping(row, "source")
    node = nodes.get(str(source.get("host")))
    apart = {one.get("cluster") for one in mapping(row, "target").get("backends") or () if isinstance(one, dict)}
    if node is None or source.get("kind") != "node" or "seen" in source or not apart - {source.get("cluster")}:
        return row
    seen = node.host_sources.get(6 if ":" in str(source.get("address")) else 4)
    return dict(row, source=dict(source, seen=seen)) if seen else row


def _number(text: t.Any) -> int | None:
    try:
        return address_number(text)[1]
    except ValueRefused:
        return None


def _translations(source: t.Mapping[str, t.Any], backend: t.Mapping[str, t.Any]) -> tuple[int | None, int | None]:
    """Of a packet: its source as the other cluster sees it, and its target as that has it; None for each that is not translated."""
    return _number(source.get("seen")), _number(backend.get("own"))


def parse_mesh(given: t.Any) -> Mesh:
    """What trace_plan returns for the mesh."""
    given = given if isinstance(given, dict) else {}
    endpoints = {
        str(host): [parse_endpoint_key(text) for text in texts] for host, texts in mapping(given, "endpoints").items()
    }
    return Mesh(
        {
            str(cluster): {str(k): str(v) for k, v in row.items()}
            for cluster, row in mapping(given, "devices").items()
            if isinstance(row, dict)
        },
        str(given.get("whole") or ""),
        {host: tuple(key for key in keys if key is not None) for host, keys in endpoints.items()},
        {str(key): tuple(map(str, names)) for key, names in mapping(given, "shared").items()},
        {str(cluster): str(source) for cluster, source in mapping(given, "ranges").items()},
    )


def used_mesh(mesh: Mesh, nodes: t.Mapping[str, Node]) -> Mesh:
    """The plan's mesh; none where no node has a device of it and tunnels of another program exist there, such as Kilo's: those are followed by their keys."""
    names = {name for row in mesh.devices.values() for name in row.values()} | {mesh.whole}
    others = any(node.devices for node in nodes.values())
    return Mesh() if others and not any(names & {*node.links, *node.devices} for node in nodes.values()) else mesh


class Observed(t.NamedTuple):
    """What the nodes said, parsed."""

    nodes: dict[str, Node]
    seen: Seen
    errors: list[str]
    resolved: dict[str, Resolved]
    members: dict[str, Known]


def _events_of(collected: t.Mapping[str, t.Any]) -> list[t.Any] | None:
    """What a node recorded, also as one text; None for nothing, and for what cannot be read."""
    found = collected.get("events")
    if collected.get("packed"):
        try:
            found = unpack(str(collected["packed"]), MOST_PACKED)
        except ValueRefused:
            return None
    return found if isinstance(found, list) else None


def _by_flow(rows: t.Any) -> dict[str, list[t.Any]]:
    """A node's rows by the flow that they are of."""
    grouped: dict[str, list[t.Any]] = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            grouped.setdefault(str(row.get("flow")), []).append(row)
    return grouped


def read_nodes(trace: t.Mapping[str, t.Any], results: t.Mapping[str, t.Any]) -> Observed:
    """The results of trace_node: {host: {armed, sent, collected}}."""
    hosts = mapping(trace, "hosts")
    nodes: dict[str, Node] = {}
    after: dict[str, dict[str, Device]] = {}
    armed, overrun, errors = set(), set(), []
    tracking = {}
    sent: dict[str, list[Sent]] = {}
    passages: dict[tuple[str, str, str], Passage] = {}
    flows = [str(row.get("id")) for row in trace.get("flows") or () if isinstance(row, dict)]
    sources = {
        str(row.get("id")): str(mapping(row, "source").get("host"))
        for row in trace.get("flows") or ()
        if isinstance(row, dict) and row.get("ask")
    }
    resolved: dict[str, Resolved] = {}
    members: dict[str, Known] = {}
    for host in sorted(results):
        said = results[host] if isinstance(results[host], dict) else {}
        first, last = mapping(said, "armed"), mapping(said, "collected")
        if first.get("facts"):
            nodes[host] = parse_node(
                host, str(mapping(hosts, host).get("cluster") or ""), first["facts"], first.get("answers")
            )
            known = parse_known(mapping(first, "facts").get("members"))
            members.update({} if known is None else {host: known})
        recorded = _events_of(last)
        if recorded is not None and first.get("armed") is not False:
            armed.add(host)
            overrun.update([host] if last.get("lost") or last.get("unreadable") else [])
        elif first:
            errors.append(
                f"{host} recorded nothing: {printable(first.get('reason') or last.get('reason') or 'no answer')}"
            )
        if host in nodes:
            after[host] = parse_devices(last.get("devices"), nodes[host].links, [])
            tracking[host] = (
                parse_tracking(mapping(first, "facts").get("counters")),
                parse_tracking(last.get("counters")),
            )
        rows, grouped = _by_flow(mapping(said, "sent").get("sent")), _by_flow(recorded if host in armed else None)
        asked = mapping(said, "sent").get("asked")
        for flow in [flow for flow, source in sources.items() if source == host]:
            answer = parse_resolved(asked, flow)
            if answer is not None:
                resolved[flow] = answer
        for flow in flows:
            found = parse_sent(rows.get(flow), flow)
            if found:
                sent[flow] = found
            events = parse_events(grouped.get(flow), flow, nodes.get(host))
            for direction in (FORWARD, BACK):
                one = passage(host, direction, events)
                if one.events:
                    passages[flow, host, direction] = one
    seen = Seen(frozenset(armed), passages, sent, after, frozenset(overrun), tracking)
    return Observed(nodes, seen, errors, resolved, members)


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
    return _number(mapping(row, "target").get("address"))


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
            number = _number(backend.get("address"))
            if number is not None and number in seen.passage(flow.id, str(backend["host"]), FORWARD).targets:
                port = backend.get("port")
                return flow._replace(
                    packet=flow.packet._replace(
                        dst=number, port=port if isinstance(port, int) else None, own=_number(backend.get("own"))
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
