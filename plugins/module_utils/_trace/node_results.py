# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the nodes of a trace returned, and what was asked of them, parsed. Pure."""

from __future__ import annotations

import typing as t

from .._values.addresses import address_number
from .._values.packed import unpack
from .._values.refused import ValueRefused
from .._values.text import mapping
from .causes import BACK, FORWARD, printable
from .diagnosis import Flow, Seen
from .facts import Device, Node, parse_devices, parse_endpoint_key, parse_node, parse_tracking
from .members import Known, parse_known
from .mesh import Mesh
from .name_servers import Resolved, parse_resolved
from .observed import Passage, Sent, parse_events, parse_sent, passage
from .routing import Packet

#: Bytes that a node's record may unfold to.
MOST_PACKED = 500_000_000


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
    found = (number_of(row.get(name)) for row in rows for name in ("address", "own"))
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


def number_of(text: t.Any) -> int | None:
    try:
        return address_number(text)[1]
    except ValueRefused:
        return None


def _translations(source: t.Mapping[str, t.Any], backend: t.Mapping[str, t.Any]) -> tuple[int | None, int | None]:
    """Of a packet: its source as the other cluster sees it, and its target as that has it; None for each that is not translated."""
    return number_of(source.get("seen")), number_of(backend.get("own"))


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
