# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verification found, as tables for people: the worst first, and no longer than a screen. Pure."""

from __future__ import annotations

import typing as t

from .._dataplane.peer_spec import HANDSHAKE_FRESH
from .._plan.mesh_plan import MeshPlan
from .._plan.seen_addresses import seen_from
from . import evidence
from .probe_lines import apart, carried, is_cut, member_names, peer_names, substitutes
from .verdict import ALLOW, PROVEN, UNPROVEN, combine, counted, scope_line

Facts = t.Mapping[str, t.Any]
Found = t.Mapping[str, t.Mapping[str, t.Any]]

#: Rows of a table that a screen holds, if so many are in trouble. The file has all.
ROWS = 40
#: A table of this size is shown whole. Of a longer one so many rows are shown though nothing is wrong in them.
WHOLE, WELL = 24, 12
#: A matrix of more hosts than this is wider than a screen; then the worst pairs are shown.
WIDE = 12
PAIRS = 10
#: So many allowed IPs of a peer are shown.
SHOWN_RANGES, SHOWN_HOSTS = 4, 3
_NOT_ASKED = "hosts themselves: {0} asked nobody in other {1} (no pod and no exported address there, or no way to them)"
#: Of a mesh with tunnels that carry packets of pods alone.
_NOT_CARRIED = (
    "not carried: packets of {0} to other clusters (ingress controllers on the host's network, webhooks), since {1} no address in its "
    "pod range; exported_node_cidrs of the cluster gives nodes one"
)


def build(facts: Facts, allow_unproven: bool = False, full: bool = True) -> dict[str, t.Any]:
    """Judge one verification. ``facts``: of evidence.judge.

    Returns {"verdict": value, "ok": whether the run may go on, "problems": reasons that end it, "warnings": the others, "broken", "unproven": all reasons,
    "parts": {name: {value, reasons}}, "scope": of verdict.scope_of, "text": bounded tables and the verdict, "full": the same with
    every row, or once more the bounded ones unless ``full``}.
    """
    parts = evidence.judge(facts)
    shown = evidence.shown(parts, facts)
    whole = combine(parts)
    ok = whole.value == PROVEN or (whole.value == UNPROVEN and allow_unproven)
    problems = list(whole.broken or (() if ok else whole.unproven))
    if not ok and not whole.broken:
        problems.append(f"not proven is no success: fix what is named, or accept it with {ALLOW}: true")
    texts = []
    mesh, found = MeshPlan.from_json(facts.get("mesh") or {}), facts.get("found") or {}
    for rows in (ROWS, 0) if full else (ROWS,):
        tables = (
            [_nodes_table(mesh, found, rows), _matrix(mesh, found, rows), hosts_line(mesh, found)] if mesh.nodes else []
        )
        texts.append(
            "\n\n".join([part for part in (scope_line(shown["scope"]), *tables) if part] + ["\n".join(shown["lines"])])
        )
    return {
        "verdict": whole.value,
        "ok": ok,
        "problems": problems,
        "warnings": list(whole.unproven) if ok or whole.broken else [],
        "broken": shown["broken"],
        "unproven": shown["unproven"],
        "parts": shown["parts"],
        "scope": shown["scope"],
        "text": texts[0],
        "full": texts[-1],
    }


def hosts_line(topology: MeshPlan, found: Found) -> str:
    """How many hosts reach other clusters themselves, which cannot, since no other cluster would accept their address, and which were not asked.

    Nothing where no other cluster is there.
    """
    asked = {host: (row.get("probe") or {}).get("host_pings") or () for host, row in sorted(found.items())}
    rows = {host: pings for host, pings in asked.items() if pings}
    lacking = [
        host for host, pings in rows.items() if not all(carried(topology, host, found[host], ping) for ping in pings)
    ]
    what = "nodes" if topology.spans_nodes else "clusters"
    lines = []
    if len(lacking) < len(rows):
        reaching = [host for host in rows if host not in lacking and all(ping["ok"] for ping in rows[host])]
        lines.append(f"hosts themselves: {len(reaching)} of {counted(len(rows), 'node')} reach other {what}")
    nodes = topology.nodes
    unasked = [
        host
        for host in asked
        if host in nodes
        and host not in rows
        and found[host].get("probe")
        and any(apart(topology, host, one) for one in nodes)
    ]
    if unasked:
        lines.append(_NOT_ASKED.format(_some(unasked), what))
    if lacking:
        lines.append(_NOT_CARRIED.format(_some(lacking), "it has" if len(lacking) == 1 else "they have"))
    return "\n".join(lines)


def _some(hosts: t.Sequence[str]) -> str:
    return ", ".join(hosts[:SHOWN_HOSTS]) + (", ..." if len(hosts) > SHOWN_HOSTS else "")


def targets(topology: MeshPlan, pods: t.Mapping[str, t.Sequence[str]], host: str) -> list[dict[str, str]]:
    """The pods that a host shall reach through the mesh: [{node, address}]. pods: host -> addresses, of collected.pods.

    The addresses are those at which the host's cluster sees them.
    """
    seen = seen_from(topology, host)
    return [
        {"node": other, "address": seen(other, address)}
        for other in sorted(pods)
        if other in topology.nodes and apart(topology, host, other)
        for address in pods[other]
    ]


def host_targets(topology: MeshPlan, pods: t.Mapping[str, t.Sequence[str]], host: str) -> list[dict[str, str]]:
    """What a host itself shall reach: one pod of each other cluster and family, and every node at its exported address (translation 7).

    Which pod differs from host to host, so that all are asked by somebody.
    """
    nodes = topology.nodes
    place = sorted(nodes).index(host) if host in nodes else 0
    groups: dict[tuple[str, bool], list[dict[str, str]]] = {}
    for target in targets(topology, pods, host):
        groups.setdefault((nodes[target["node"]].cluster, ":" in target["address"]), []).append(target)
    found = [group[place % len(group)] for dummy, group in sorted(groups.items())]
    found += [
        {"node": other, "address": address}
        for other in sorted(nodes)
        if host in nodes and apart(topology, host, other)
        for address in nodes[other].exported_addresses.values()
    ]
    return found


def _ranges(texts: t.Sequence[str]) -> str:
    """Allowed IPs in a cell: with blocks of a CNI a peer may have hundreds."""
    more = f",+{len(texts) - SHOWN_RANGES}" if len(texts) > SHOWN_RANGES else ""
    return ",".join(texts[:SHOWN_RANGES]) + more


def _nodes_table(topology: MeshPlan, found: Found, most: int) -> str:
    """One row a peer. ``most``: so many rows, those in trouble first; 0: all, in the order of nodes."""
    rows: list[tuple[t.Any, tuple[str, ...]]] = []
    for host in sorted(found, key=lambda name: (topology.node(name).cluster, name)):
        probe = found[host].get("probe") or {}
        names = {**peer_names(topology, host), **member_names(topology, host, probe)} if host in topology.nodes else {}
        cluster = topology.node(host).cluster or "?"
        peers = probe.get("peers") or ()
        for peer in sorted(peers, key=lambda p: names.get((p["device"], p["public_key"]), "~")):
            age = peer["handshake_age"]
            name = names.get((peer["device"], peer["public_key"]))
            rows.append(
                (
                    _badness(name, age),
                    (
                        cluster,
                        host,
                        name or peer["public_key"][:12] + "...",
                        peer["endpoint"] or "-",
                        _ranges(peer["allowed_ips"]),
                        "never" if age is None else f"{age} s ago",
                    ),
                )
            )
        if not peers:
            rows.append(((0, 0), (cluster, host, "-", "-", "-", "-")))
    if not rows:
        return ""
    heads = ("CLUSTER", "NODE", "PEER", "ENDPOINT", "ALLOWED IPS", "HANDSHAKE")
    most = most and max(WELL, min(most, sum(1 for badness, unused in rows if badness[0] < 2)))
    if not most or len(rows) <= max(most, WHOLE):
        return table([heads] + [row for unused, row in rows])
    worst = sorted(rows)[:most]
    note = "{0:,} of {1:,} peers, the worst first; {2} answered lately (mesh_report_file and -v have every row)"
    fresh = sum(1 for badness, unused in rows if badness[0] == 2)
    return table([heads] + [row for unused, row in worst]) + "\n" + note.format(most, len(rows), f"{fresh:,}")


def _badness(name: str | None, age: int | None) -> tuple[int, int]:
    """Sorts the worst first: never, unknown or stale, then by age."""
    if age is None:
        return 0, 0
    return (1 if name is None or age > HANDSHAKE_FRESH else 2), -age


def _matrix(topology: MeshPlan, found: Found, most: int) -> str:
    """From (rows) to (columns): the slowest answer in milliseconds, or FAIL when any pair of pods failed.

    ``FAIL > 1296 B``: larger packets are lost; ``node``: an end is no pod.
    """
    hosts = sorted(host for host in found if host in topology.nodes)
    if len(hosts) > WIDE:
        return _worst_pairs(topology, hosts, found, most)
    nodes, noted = substitutes(topology, found), False
    rows = [tuple(["PING pod to pod"] + hosts)]
    for host in hosts:
        pings = (found[host].get("probe") or {}).get("pings") or ()
        row = [host]
        for other in hosts:
            cell = [ping for ping in pings if ping["node"] == other]
            if not cell:
                row.append("-" if apart(topology, host, other) else ".")
            elif any(is_cut(ping) for ping in cell):
                row.append(f"FAIL > {min(ping['size'] for ping in cell if is_cut(ping))} B")
            elif all(ping["ok"] for ping in cell):
                whole = nodes.isdisjoint(ping[end] for ping in cell for end in ("source", "target"))
                noted = noted or not whole
                row.append(f"{'ok' if whole else 'node'} {max(ping['milliseconds'] or 0 for ping in cell):.1f} ms")
            else:
                row.append("FAIL")
        rows.append(tuple(row))
    note = (
        "\nnode: an end has no pod that was found, so the node's own address was pinged: that is no proof of pods"
        if noted
        else ""
    )
    return table(rows) + note if len(rows) > 1 else ""


def _worst_pairs(topology: MeshPlan, hosts: t.Sequence[str], found: Found, most: int) -> str:
    every = [(host, ping) for host in hosts for ping in (found[host].get("probe") or {}).get("pings") or ()]
    nodes = substitutes(topology, found)
    pairs = [pair for pair in every if not pair[1]["ok"] or nodes.isdisjoint((pair[1]["source"], pair[1]["target"]))]
    good = sum(1 for unused, ping in pairs if _whole(ping))
    text = f"ping pod to pod: {good:,} of {len(pairs):,} pairs answer; {counted(len(hosts), 'node')} take part"
    if len(pairs) < len(every):
        text += f"; {counted(len(every) - len(pairs), 'pair')} with a node's own address in place of a pod are left out"
    ranked = sorted(
        pairs, key=lambda pair: (_whole(pair[1]), -(pair[1]["milliseconds"] or 0), pair[0], pair[1]["node"])
    )[: PAIRS if most else None]
    rows: list[t.Sequence[str]] = [("FROM", "TO", "POD", "ANSWER")]
    rows += [(host, ping["node"], ping["target"], _answer(ping)) for host, ping in ranked]
    return text + ((":" if not most else ", the worst first:") + "\n" + table(rows) if pairs else "")


def _whole(ping: t.Mapping[str, t.Any]) -> bool:
    return bool(ping["ok"]) and not is_cut(ping)


def _answer(ping: t.Mapping[str, t.Any]) -> str:
    if is_cut(ping):
        return f"FAIL > {ping['size']} B"
    return f"{ping['milliseconds'] or 0:.1f} ms" if ping["ok"] else "FAIL"


def table(rows: t.Sequence[t.Sequence[str]]) -> str:
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
