# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document as one page of HTML that needs nothing else: no server, no other file, and not even its script. Pure.

Everything that is not from this file is escaped.
"""

from __future__ import annotations

import typing as t

from . import trend
from .drawing import BAD, FAIR, GOOD, draw, escape, grade, link_grade, node_grade
from .ends import DOWN, MISSING, NEVER, STALE, UNKNOWN, UP, pair
from .page_services import service_sections
from .parts import (
    ROWS,
    merged_rows,
    moment,
    number,
    number_cell as _num,
    pill as _pill,
    shown_time as _time,
    table as _table,
    text_cell as _text,
    whole,
)
from .verdict import BROKEN, HEADLINES, PROVEN, UNPROVEN, behind, one_for_all, scope_line
from .ways import STYLE, pictures

Data = t.Mapping[str, t.Any]
#: So many rows of the history.
RUNS = 30


def render(document: Data) -> str:
    sections = [
        _why(document),
        _traces(document),
        _failures(document),
        _drift(document),
        _refused(document),
        _next_failure(document),
        _links(document),
        _nodes(document),
        _tunnels(document),
        *service_sections(document),
        _history(document),
    ]
    css, text = verdict(document)
    under = f"{escape(document['mode'])}, as of {moment(document['generated'])}"
    return whole(
        document["fabric"] + ": fabric status",
        "Fabric " + document["fabric"],
        under,
        (css, text),
        "".join(
            [
                f'<p class="scope">{escape(scope_line(document["scope"]))}</p>\n' if document["scope"]["limit"] else "",
                _tiles(document["summary"]),
                _map(document),
                "".join(section for section in sections if section),
            ]
        ),
        "Ages and counters are those of the moment above; times are UTC. The JSON alongside this page has every row.",
        STYLE,
    )


def verdict(document: Data) -> tuple[str, str]:
    """(grade, words) for the whole fabric."""
    value = document["verdict"]["value"]
    return {BROKEN: BAD, UNPROVEN: FAIR, PROVEN: GOOD}[value], behind(HEADLINES[value], document["scope"])


def _why(document: Data) -> str:
    """The reasons of the verdict: the causes, before all that shows them; what is the same of several nodes is one row."""
    given = document["verdict"]
    rows = [[_pill(BAD, BROKEN), _text(text, "long wide")] for text in one_for_all(given["broken"])]
    rows += [
        [_pill(FAIR, UNPROVEN), _text(text, "long wide")] for text in one_for_all(given["unproven"], given["broken"])
    ]
    parts = ", ".join(f"{name}: {part['value']}" for name, part in given["parts"].items())
    columns = "Verdict|Reason"
    return _table(
        "Why",
        "why",
        columns,
        rows[:ROWS],
        sum(given["counts"].values()),
        note=parts + "." if len(given["parts"]) > 1 else "",
        merged=True,
        unfolded=True,
    )


def _traces(document: Data) -> str:
    """Where the packets went of pairs that do not reach each other: a picture of each, and the first thing that is wrong."""
    given = document["traces"]
    flows = {str(flow["id"]): flow for flow in given["flows"]}
    rows = [
        [
            _pill(BAD, r["cause"]),
            _text(r["where"], "name"),
            _text(r["message"], "long"),
            _text(r["fix"], "long"),
            _text(r["command"], "mono"),
            _text(r["confidence"]),
        ]
        for r in given["findings"]
    ]
    return _table(
        "Packets that were followed",
        "traces",
        "Cause|Where|What was found|Fix|See it by hand|Confidence",
        rows[:ROWS],
        len(rows),
    ) + pictures(given, flows)


def _history(document: Data) -> str:
    """Earlier runs, the newest first; one row for as long as nothing changed."""
    grades = {PROVEN: GOOD, UNPROVEN: FAIR}
    rows = []
    for r in reversed(document["history"][-RUNS:]):
        rows.append(
            [
                _text(_time(r["first"])),
                _text(_time(r["last"])),
                _num("", r["runs"]),
                _pill(grades.get(r["verdict"], BAD), r["verdict"]),
                _text(f"{r['nodes_answered']} of {r['nodes']}"),
                _text(f"{r['tunnels_up']} of {r['tunnels']}"),
                _text(r["drift"]),
                _text(r["refused"]),
                _text(r["cause"], "long"),
            ]
        )
    columns = "From|To|#Runs|Verdict|Nodes|Tunnels up|Drifted|Refused|First reason"
    return _table(
        "Earlier runs",
        "history",
        columns,
        rows,
        len(document["history"]),
        note="One row for as long as nothing changed.",
        above=trend.lines(document["history"]),
    )


def human_bytes(count: int) -> str:
    """A counter for people; ``data-v`` has the number."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return ""


def human_age(seconds: int | None) -> str:
    if seconds is None:
        return "never"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def human_milliseconds(value: float | None) -> str:
    """A latency for people; nothing where nobody pinged."""
    return "" if value is None else f"{value:.1f} ms"


def _tiles(s: Data) -> str:
    ends = "ends of tunnels up" + (f", {s['tunnels_unknown']:,} unknown" if s["tunnels_unknown"] else "")

    def of(name: str, whole: str) -> str:
        return f"{number('summary.' + name, s[name])}<small> of {number('summary.' + whole, s[whole])}</small>"

    tiles = [
        (grade(s["clusters_reachable"], s["clusters"]), of("clusters_reachable", "clusters"), "clusters answer"),
        (grade(s["nodes_answered"], s["nodes"]), of("nodes_answered", "nodes"), "nodes answer"),
        (grade(s["tunnels_up"], s["tunnels"]), of("tunnels_up", "tunnels"), ends),
        ("", number("summary.rx", s["rx"], human_bytes(s["rx"])), "received"),
        ("", number("summary.services", s["services"]), "services from elsewhere"),
        ("", number("summary.endpoints", s["endpoints"]), "endpoints of them"),
        *([("", number("summary.imports", s["imports"]), "imports")] if s["imports"] or s["exports"] else []),
        ("", number("summary.sets", s["sets"]), "network sets"),
        ("", number("summary.addresses", s["addresses"]), "addresses"),
        (FAIR if s["drift"] else GOOD, number("summary.drift", s["drift"]), "things drifted"),
        (FAIR if s["refused"] else GOOD, number("summary.refused", s["refused"]), "refused"),
    ]
    body = "".join(
        '<div class="tile {0}"><b>{1}</b><span class="what">{2}</span></div>'.format(*tile) for tile in tiles
    )
    return f'<div class="tiles">{body}</div>\n'


def _map(document: Data) -> str:
    legend = "".join(
        f'<li><i class="{css}"></i>{text}</li>'
        for css, text in (
            (GOOD, "all of it works"),
            (FAIR, "old handshakes, or something unknown"),
            (BAD, "something is broken, or no answer"),
        )
    )
    return f'<div class="map">{draw(document)}{draw(document, tall=True)}<ul class="legend">{legend}</ul></div>\n'


def _next_failure(document: Data) -> str:
    """The node and the cluster of which the failure would cost most."""
    given = document.get("next_failure") or {}
    rows = [
        [
            _text(f"{kind} {given[kind]['name']}", "name"),
            _num(f"next.{kind}.pairs", given[kind]["pairs"]),
            _num(f"next.{kind}.services", given[kind]["service_count"]),
            _text(", ".join(given[kind]["services"]), "long"),
        ]
        for kind in ("node", "cluster")
        if given.get("pairs")
    ]
    return _table(
        "What the next single failure would cost",
        "next-failure",
        "Failure|#Pairs of nodes|#Services|Services that keep no endpoint",
        rows,
        len(rows),
        note=f"Of {given.get('pairs', 0):,} pairs of nodes with a path. Services are those from other clusters.",
    )


def _failures(document: Data) -> str:
    merged = merged_rows(document["failures"], "cluster", ("operation", "reason", "message"))
    rows = [
        [_text(r["places"], "name"), _text(r["operation"]), _pill(BAD, r["reason"]), _text(r["message"], "long")]
        for r in merged
    ]
    return _table(
        "Could not be read", "failures", "Cluster|Doing|Reason|Message", rows, len(document["failures"]), merged=True
    )


def _drift(document: Data) -> str:
    run = document["since_last_run"]
    note = "The first run; there is nothing to compare it with."
    if run["previous"]:
        note = f"Compared with {_time(run['previous'])}: {len(run['new'])} new, {len(run['gone'])} gone."
    rows = []
    for r in merged_rows(
        document["drift"], "where", ("kind", "name", "difference", "owner", "note", "since", "first_seen", "last_good")
    )[:ROWS]:
        since = (
            _time(r["since"])
            if r["since"]
            else f"seen {_time(r['first_seen'])}{', right at ' + _time(r['last_good']) if r['last_good'] else ''}"
        )
        owner = r["owner"] + (" (" + r["note"] + ")" if r["note"] else "")
        rows.append(
            [
                _text(r["places"], "name"),
                _text(r["kind"]),
                _text(r["name"], "mono"),
                _pill(FAIR, r["difference"]),
                _text(owner, "long"),
                _text(since, "long"),
            ]
        )
    columns = "Where|Kind|Name|Difference|Who has it now|Since"
    return _table(
        "Drift from the inventory", "drift", columns, rows, len(document["drift"]), note=note, merged=len(rows) < ROWS
    )


def _refused(document: Data) -> str:
    merged = merged_rows(document["refused"], "where", ("object", "reason", "message"))[:ROWS]
    rows = [
        [_text(r["places"], "name"), _text(r["object"], "long"), _pill(FAIR, r["reason"]), _text(r["message"], "long")]
        for r in merged
    ]
    return _table(
        "Refused", "refused", "Where|Object|Reason|Message", rows, len(document["refused"]), merged=len(rows) < ROWS
    )


def _links(document: Data) -> str:
    rows = []
    ids = _pair_ids(document)
    for r in document["links"]:
        key = f"link.{r['a']}.{r['b']}."
        text = f"{r['a']} – {r['b']}" if r["a"] != r["b"] else "inside " + r["a"]
        where = ids.get((r["a"], r["b"]), "tunnels")
        searched = "" if r["a"] == r["b"] else " ".join((r["a"], r["b"]))
        state = link_grade(r)
        rows.append(
            [
                ("name", f'<a href="#{where}" data-f="{escape(searched)}">{escape(text)}</a>'),
                _pill(state, {GOOD: "up", FAIR: "in part", BAD: "broken"}[state]),
                _num(key + "up", r["up"]),
                _num(key + "tunnels", r["tunnels"]),
                _num(key + "stale", r["stale"]),
                _num(key + "never", r["never"] + r["missing"] + r["down"]),
                _num(key + "unknown", r["unknown"]),
                _num(key + "oldest", r["oldest"], human_age(r["oldest"])),
                _num(key + "latency", r["latency"], human_milliseconds(r["latency"])),
                _num(key + "rx", r["rx"], human_bytes(r["rx"])),
                _num(key + "tx", r["tx"], human_bytes(r["tx"])),
                _text(_causes(r), "long"),
            ]
        )
    columns = "Clusters|State|#Up|#Ends|#Stale|#Never|#Unknown|#Oldest handshake|#Slowest ping|#Received|#Sent|Cause"
    return _table(
        "Between clusters",
        "links",
        columns,
        rows,
        len(rows),
        note="Each tunnel has two ends, and each node reports its own.",
    )


def _causes(link: Data) -> str:
    more = link["faults"] - len(link["causes"])
    return "; ".join(link["causes"]) + (f"; and {more:,} more" if more > 0 else "")


def _ranked_tunnels(document: Data) -> list[Data]:
    order = {MISSING: 0, DOWN: 1, NEVER: 2, UNKNOWN: 3, STALE: 4, UP: 5}
    return sorted(
        document["tunnels"], key=lambda r: (order[r["state"]], r["host"], r["peer_cluster"], r["peer"], r["public_key"])
    )


def _pair_ids(document: Data) -> dict[tuple[str, str], str]:
    """Pair of clusters -> the id of its first row among the tunnels that are shown."""
    found: dict[tuple[str, str], str] = {}
    for r in _ranked_tunnels(document)[:ROWS]:
        found.setdefault(pair(r["cluster"], r["peer_cluster"] or "?"), f"pair-{len(found) + 1}")
    return found


def _pod_ranges(cluster: Data) -> str:
    """From where a cluster's pod ranges are, and at which addresses other clusters see its pods and nodes where they see others."""
    seen = [
        f"{source} seen as {target}"
        for name in ("exported_pod_cidrs", "exported_node_cidrs")
        for source, target in sorted((cluster.get(name) or {}).items())
    ]
    return "; ".join([str(cluster.get("pod_ranges") or ""), *seen]).strip("; ")


def _nodes(document: Data) -> str:
    order = {BAD: 0, FAIR: 1, GOOD: 2}
    sources = {cluster["name"]: _pod_ranges(cluster) for cluster in document["clusters"]}
    ranked = sorted(
        ((order[node_grade(n)], n["cluster"], n["host"], n) for n in document["nodes"]), key=lambda row: row[:3]
    )
    rows = []
    for dummy, dummy_cluster, host, n in ranked[:ROWS]:
        key = f"node.{host}."
        state = "did not answer" if not n["answered"] else f"{n['findings']} findings" if n["findings"] else "answers"
        state = state if n["asked"] else n["verdict"]
        if n["pending"]:
            state = "change unconfirmed"
        rows.append(
            [
                _text(host, "name"),
                _text(n["cluster"]),
                _pill(node_grade(n), state),
                _num(key + "up", n["up"]),
                _num(key + "peers", n["peers"]),
                _num(key + "unknown", n["unknown"]),
                _num(key + "oldest", n["oldest"], human_age(n["oldest"])),
                _num(key + "rx", n["rx"], human_bytes(n["rx"])),
                _num(key + "tx", n["tx"], human_bytes(n["tx"])),
                _num(key + "routes", n["routes"]),
                _num(
                    key + "key_age", n.get("key_age"), human_age(n["key_age"]) if n.get("key_age") is not None else "-"
                ),
                _text(_generations(n)),
                _text(sources.get(n["cluster"], "")),
                _text(n["kernel"]),
                _text(n["why"], "long"),
            ]
        )
    columns = (
        "Node|Cluster|State|#Peers up|#Peers|#Unknown|#Oldest handshake|#Received|#Sent|#Routes|#Oldest key|Preshared keys|Pod ranges|Kernel|"
        "First finding"
    )
    return _table("Nodes", "nodes", columns, rows, len(document["nodes"]))


def _tunnels(document: Data) -> str:
    ids, given = _pair_ids(document), set()
    rows = []
    for r in _ranked_tunnels(document)[:ROWS]:
        key = f"tunnel.{r['host']}.{r['public_key']}."
        css = GOOD if r["state"] == UP else FAIR if r["state"] in (STALE, UNKNOWN) else BAD
        clusters = pair(r["cluster"], r["peer_cluster"] or "?")
        name = _text(r["host"], "name")
        if clusters not in given:
            given.add(clusters)
            name = ("name", f'<span id="{ids[clusters]}">{name[1]}</span>')
        peer = f"{r['peer_cluster']}/{r['peer']}" if r["peer"] else "unknown key " + r["public_key"][:12] + "…"
        rows.append(
            [
                name,
                _text(peer, "name"),
                _pill(css, r["state"]),
                _num(key + "age", r["age"], "unknown" if r["age"] is None and r["handshake"] else human_age(r["age"])),
                _num(key + "latency", r["latency"], human_milliseconds(r["latency"])),
                _num(key + "rx", r["rx"], human_bytes(r["rx"])),
                _num(key + "tx", r["tx"], human_bytes(r["tx"])),
                _text(r["endpoint"], "mono"),
                _text(", ".join(r["allowed_ips"]), "mono"),
                _text(r["device"], "mono"),
            ]
        )
    columns = "Node|Peer|State|#Handshake|#Ping|#Received|#Sent|Endpoint|Allowed IPs|Device"
    return _table("Tunnels", "tunnels", columns, rows, len(document["tunnels"]))


def _generations(node: Data) -> str:
    """The generations of a node's preshared keys; empty where it has none."""
    return ", ".join(f"generation {number}" for number in sorted(set((node.get("preshared") or {}).values())))
