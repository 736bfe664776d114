# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What a verification found, as problems with names and as tables for people. Pure."""

from __future__ import annotations

import typing as t

#: A session older than this no longer carries traffic (WireGuard's own limit), so the last handshake must be younger.
HANDSHAKE_SECONDS = 180


def build(topology: t.Mapping[str, t.Any], found: t.Mapping[str, t.Mapping[str, t.Any]]) -> t.Dict[str, t.Any]:
    """Judge one verification.

    ``found`` is host -> {"drift": result of node_dataplane in check mode, "probe": result of node_probe}; a host of the
    play without results maps to {}. Returns {"ok", "problems": [text], "warnings": [text], "text": tables}.
    """
    problems: t.List[str] = []
    warnings: t.List[str] = []
    for failure in topology.get("failures", ()):
        problems.append("cluster {0}: {1} [{2}]".format(failure["cluster"], failure["message"], failure["reason"]))
    for refusal in topology.get("refused", ()):
        warnings.append("refused {object}: {message} [{reason}]".format(**refusal))
    for host in sorted(found):
        if not found[host]:
            problems.append("{0}: could not be verified (unreachable or failed)".format(host))
            continue
        problems.extend(_drift(host, found[host].get("drift") or {}))
        problems.extend(_handshakes(topology, host, found[host].get("probe") or {}))
        problems.extend(_pings(host, found[host].get("probe") or {}))
        if not (found[host].get("probe") or {}).get("pods"):
            warnings.append("{0}: has no pod and no address in its pod ranges, so nothing was pinged from there".format(host))
    tables = [_nodes_table(topology, found), _matrix(topology, found)]
    verdict = "all green" if not problems else "{0} problems".format(len(problems))
    text = "\n\n".join([table for table in tables if table] + ["\n".join([verdict] + ["  " + p for p in problems])])
    return {"ok": not problems, "problems": problems, "warnings": warnings, "text": text}


def targets(
    topology: t.Mapping[str, t.Any], pods: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]], host: str
) -> t.List[t.Dict[str, str]]:
    """The pods that a host shall reach through the mesh: [{node, address}]."""
    own = topology["nodes"][host]["cluster"]
    # a KubeSpan mesh is one of nodes, whichever cluster they are of
    apart = {name for name, node in topology["nodes"].items() if name != host and (_is_kubespan(topology) or node["cluster"] != own)}
    return [
        {"node": other, "address": address}
        for other in sorted(pods)
        if other in apart
        for pod in pods[other]
        for address in pod["addresses"]
    ]


def _is_kubespan(topology: t.Mapping[str, t.Any]) -> bool:
    return topology.get("mode") == "kubespan"


def _drift(host: str, result: t.Mapping[str, t.Any]) -> t.List[str]:
    changes = (result.get("plan") or {}).get("changes") or ()
    lines = ["{0}: {1} {2} is not as wanted ({3})".format(host, c["kind"], c["id"], c["action"]) for c in changes]
    lines += ["{0}: {object}: {message} [{reason}]".format(host, **r) for r in result.get("refused") or ()]
    return lines


def _names(topology: t.Mapping[str, t.Any], host: str) -> t.Dict[t.Tuple[str, str], str]:
    """(device, public key) -> node name, for the peers that a host should have."""
    if _is_kubespan(topology):
        own, device = topology["nodes"][host], topology["kubespan"].get("device", "kubespan")
        return {
            (device, str(row["public_key"])): "{0}/{1}".format(row["cluster"], row["node"])
            for row in topology["kubespan"]["affiliates"]
            if (row["cluster"], row["node"]) != (own["cluster"], own["node_name"])
        }
    cluster = topology["clusters"][topology["nodes"][host]["cluster"]]
    return {
        (part["device"], str(peer["public_key"])): "{0}/{1}".format(remote, peer.get("node", "?"))
        for remote, part in cluster["remotes"].items()
        for peer in part["peers"]
    }


def _handshakes(topology: t.Mapping[str, t.Any], host: str, probe: t.Mapping[str, t.Any]) -> t.List[str]:
    seen = {(peer["device"], peer["public_key"]): peer for peer in probe.get("peers") or ()}
    lines = []
    for key, name in sorted(_names(topology, host).items(), key=lambda item: item[1]):
        peer = seen.get(key)
        if peer is None:
            lines.append("{0}: {1} is no peer of {2}".format(host, name, key[0]))
        elif peer["handshake_age"] is None:
            lines.append("{0}: no handshake with {1} at {2}".format(host, name, peer["endpoint"]))
        elif peer["handshake_age"] > HANDSHAKE_SECONDS:
            lines.append("{0}: last handshake with {1} is {2} s old".format(host, name, peer["handshake_age"]))
    return lines


def _pings(host: str, probe: t.Mapping[str, t.Any]) -> t.List[str]:
    return [
        "{0}: pod {1} does not reach pod {2} of {3}".format(host, ping["source"], ping["target"], ping["node"])
        for ping in probe.get("pings") or ()
        if not ping["ok"]
    ]


def _nodes_table(topology: t.Mapping[str, t.Any], found: t.Mapping[str, t.Mapping[str, t.Any]]) -> str:
    rows = [("CLUSTER", "NODE", "PEER", "ENDPOINT", "ALLOWED IPS", "HANDSHAKE")]
    for host in sorted(found, key=lambda name: (topology["nodes"].get(name, {}).get("cluster") or "", name)):
        names = _names(topology, host) if host in topology["nodes"] else {}
        cluster = topology["nodes"].get(host, {}).get("cluster") or "?"
        peers = (found[host].get("probe") or {}).get("peers") or ()
        for peer in sorted(peers, key=lambda p: names.get((p["device"], p["public_key"]), "~")):
            age = peer["handshake_age"]
            rows.append((
                cluster,
                host,
                names.get((peer["device"], peer["public_key"]), peer["public_key"][:12] + "..."),
                peer["endpoint"] or "-",
                ",".join(peer["allowed_ips"]),
                "never" if age is None else "{0} s ago".format(age),
            ))
        if not peers:
            rows.append((cluster, host, "-", "-", "-", "-"))
    return _table(rows) if len(rows) > 1 else ""


def _matrix(topology: t.Mapping[str, t.Any], found: t.Mapping[str, t.Mapping[str, t.Any]]) -> str:
    """From (rows) to (columns): the slowest answer in milliseconds, or FAIL when any pair of pods failed."""
    hosts = sorted(host for host in found if host in topology["nodes"])
    if len(hosts) > 12:
        pairs = [ping for host in hosts for ping in (found[host].get("probe") or {}).get("pings") or ()]
        return "ping matrix: {0} of {1} pairs of pods answer".format(sum(1 for p in pairs if p["ok"]), len(pairs))
    rows = [tuple(["PING pod to pod"] + hosts)]
    for host in hosts:
        pings = (found[host].get("probe") or {}).get("pings") or ()
        row = [host]
        for other in hosts:
            cell = [ping for ping in pings if ping["node"] == other]
            if not cell:
                apart = topology["nodes"][host]["cluster"] != topology["nodes"][other]["cluster"] or (_is_kubespan(topology) and host != other)
                row.append("-" if apart else ".")
            elif all(ping["ok"] for ping in cell):
                row.append("ok {0:.1f} ms".format(max(ping["milliseconds"] or 0 for ping in cell)))
            else:
                row.append("FAIL")
        rows.append(tuple(row))
    return _table(rows) if len(rows) > 1 else ""


def _table(rows: t.Sequence[t.Sequence[str]]) -> str:
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    )
