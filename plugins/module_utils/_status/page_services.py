# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page has of Services and their addresses, of sets, of Kilo's Peers and of tenants. Pure; all text of others is escaped."""

from __future__ import annotations

import typing as t

from .drawing import BAD, FAIR, GOOD
from .parts import (
    ROWS,
    merged_rows,
    number_cell as _num,
    pill as _pill,
    plain_rows,
    table as _table,
    text_cell as _text,
)

Data = t.Mapping[str, t.Any]


def service_sections(document: Data) -> list[str]:
    """The sections in their order; "" for one that has nothing to show."""
    return [part(document) for part in (_services, _imports, _sets, _addresses, _pools, _kilo, _tenants)]


def _services(document: Data) -> str:
    rows = []
    for r in document["services"][:ROWS]:
        key = f"service.{r['cluster']}.{r['namespace']}.{r['name']}."
        rows.append(
            [
                _text(r["name"], "name"),
                _text(r["namespace"]),
                _text(r["cluster"]),
                _text(r["source"]),
                _text(r["kind"]),
                _text(r["cluster_ip"], "mono"),
                _text(", ".join(r["ports"]), "mono"),
                _num(key + "ready", r["ready"]),
                _num(key + "endpoints", r["endpoints"]),
            ]
        )
    columns = "Service|Namespace|In cluster|From|Kind|Address|Ports|#Ready|#Endpoints"
    return _table("Services from other clusters", "services", columns, rows, len(document["services"]))


def _imports(document: Data) -> str:
    """Exports and imports of the Multi-Cluster Services API; the cluster that was not read first, then those in conflict."""
    rows = []
    for r in sorted(
        document["imports"],
        key=lambda row: (row["listed"], not row["conflicts"], row["exports"] == row["valid"], row["cluster"]),
    )[:ROWS]:
        key = f"imports.{r['cluster']}."
        css, state = (
            (BAD, "not read") if not r["listed"] else (FAIR, "conflicts") if r["conflicts"] else (GOOD, "as exported")
        )
        if r["listed"] and r["valid"] < r["exports"] and not r["conflicts"]:
            css, state = FAIR, "not all valid"
        rows.append(
            [
                _text(r["cluster"], "name"),
                _pill(css, state),
                _num(key + "exports", r["exports"]),
                _num(key + "valid", r["valid"]),
                _num(key + "conflicts", r["conflicts"]),
                _num(key + "imports", r["imports"]),
            ]
        )
    return _table(
        "Exports and imports",
        "imports",
        "Cluster|State|#Exports|#Valid|#In conflict|#Imports",
        rows,
        len(document["imports"]),
    )


def _sets(document: Data) -> str:
    merged = merged_rows(document["sets"], "cluster", ("name", "source", "networks", "shown"))[:ROWS]
    rows = [
        [
            _text(r["name"], "name"),
            _text(r["places"]),
            _text(r["source"]),
            _num(f"set.{r['cluster']}.{r['name']}", r["networks"]),
            _text(", ".join(r["shown"]), "mono"),
        ]
        for r in merged
    ]
    columns = "Set|In cluster|From|#Networks|First of them"
    return _table("Network sets", "sets", columns, rows, len(document["sets"]), merged=len(rows) < ROWS)


def _announcer(host: str, since: t.Mapping[str, str]) -> str:
    return f"{host} since {since[host].replace('T', ' ')}" if host in since else host


def _addresses(document: Data) -> str:
    rows = []
    for r in document["addresses"][:ROWS]:
        held = r["holder"] or "no record"
        by = ", ".join(_announcer(host, r["announced_since"]) for host in r["announced_by"]) or (
            "nobody" if r["announced"] == "no" else "none of our nodes"
        )
        state = {"yes": (GOOD, "announced"), "no": (BAD, "not announced"), "unknown": ("", "not by us")}[r["announced"]]
        key = f"address.{r['cluster']}.{r['address']}"
        rows.append(
            [
                _text(r["address"], "name"),
                _text(r["service"]),
                _text(r["cluster"]),
                _text(held),
                _pill(*state),
                _num(key, len(r["announced_by"])),
                _text(by),
            ]
        )
    columns = "Address|Service|Cluster|Recorded for|State|#Announcers|Announced by"
    return _table("Addresses of Services", "addresses", columns, rows, len(document["addresses"]))


def _pools(document: Data) -> str:
    rows = []
    for r in document["pools"][:ROWS]:
        key = f"pool.{r['cluster']}.{r['pool']}.{r['family']}."
        state = (GOOD, "some left") if r["free"] > 0 else (BAD, "used up")
        rows.append(
            [
                _text(r["pool"], "name"),
                _text(r["cluster"]),
                _text(f"IPv{r['family']}"),
                _num(key + "free", r["free"]),
                _num(key + "used", r["used"]),
                _num(key + "total", r["total"]),
                _pill(*state),
            ]
        )
    return _table(
        "Pools of addresses", "pools", "Pool|Cluster|Family|#Free|#Taken|#In all|State", rows, len(document["pools"])
    )


def _kilo(document: Data) -> str:
    given = document["kilo_peers"]
    rows = plain_rows(
        given[:ROWS], ("name", "name"), ("cluster", ""), ("endpoint", "mono"), ("allowed_ips", "mono"), ("owner", "")
    )
    return _table("Kilo peers", "kilo", "Peer|In cluster|Endpoint|Allowed IPs|Written by", rows, len(given))


def _tenants(document: Data) -> str:
    given, orphans = document["tenants"]["interfaces"], document["tenants"]["orphans"]
    named = [dict(r, name=r["source"] or r["name"]) for r in given[:ROWS]]
    rows = plain_rows(
        named, ("name", "name"), ("network", ""), ("node", ""), ("state", ""), ("ips", "mono"), ("public_ips", "mono")
    )
    note = f"{orphans} objects without an owner on the other side." if orphans else ""
    return _table(
        "Tenants", "tenants", "Interface|Network|Node|State|Addresses|Public addresses", rows, len(given), note=note
    )
