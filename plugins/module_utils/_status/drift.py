# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift: what plans would change, and who has each thing now: a field manager, a route's protocol, a table's owner, a peer's key. Pure."""

from __future__ import annotations

import re
import typing as t

from .._plan.annotations import Pattern
from .._values.text import dicts_of, mapping
from .probe_lines import unit_is_bad

Data = dict[str, t.Any]
Blame = tuple[t.Optional[str], t.Optional[str], str]  # owner, since, note

#: What an action of a plan means for what is there.
_DIFFERENCES = {"create": "missing", "update": "differs", "delete": "not desired"}
NOBODY = "nobody"
#: rtnetlink's protocol numbers, by the names that people know.
PROTOCOLS = {
    1: "redirect",
    2: "kernel",
    3: "boot (a command or script)",
    4: "static (an administrator or network manager)",
    9: "ra",
    11: "zebra",
    12: "bird",
    16: "dhcp",
    42: "babel",
    109: "multicluster.network",
    186: "bgp",
    187: "isis",
    188: "ospf",
    189: "rip",
    192: "eigrp",
}
#: Tables of nftables that well-known programs make, by how their names begin.
FAMILIES = (
    ("kube-proxy", "kube-proxy"),
    ("cali", "calico"),
    ("cilium", "cilium"),
    ("firewalld", "firewalld"),
    ("docker", "docker"),
    ("podman", "podman"),
    ("netavark", "podman"),
    ("ufw", "ufw"),
    ("talos", "talos"),
    ("filter", "iptables-nft or an administrator"),
    ("nat", "iptables-nft or an administrator"),
    ("mangle", "iptables-nft or an administrator"),
    ("raw", "iptables-nft or an administrator"),
)
_GONE = "it is gone; nobody has it"


def entry(where: str, change: t.Mapping[str, t.Any], owner: str | None, since: str | None, note: str = "") -> Data:
    """One difference: {where, kind, name, action, difference, owner, since, note}."""
    fields = [str(name) for name in change.get("fields") or ()]
    difference = _DIFFERENCES.get(str(change.get("action")), str(change.get("action")))
    return {
        "where": str(where),
        "kind": str(change.get("kind")),
        "name": str(change.get("id"))[:300],
        "action": str(change.get("action")),
        "difference": difference + (": " + ", ".join(fields) if fields and difference == "differs" else ""),
        "owner": owner or NOBODY,
        "since": since,
        "note": note,
    }


def table_owner(table: t.Mapping[str, t.Any]) -> str:
    """The mark that the table carries, else the program that is known to use such names."""
    if table.get("owner"):
        return str(table["owner"])
    name = str(table.get("name") or "")
    return next((family for start, family in FAMILIES if name.startswith(start)), "unknown, without a mark")


def protocol_name(number: t.Any) -> str:
    """``protocol 4, static (...)``."""
    return f"protocol {number}, {PROTOCOLS.get(number, 'unknown')}" if number else "no protocol, an administrator"


# -- nodes ---------------------------------------------------------------------------------------------------------


def planned_changes(result: t.Any) -> t.Sequence[Data]:
    """The changes of a module's result in check mode."""
    return ((result or {}).get("plan") or {}).get("changes") or ()


def node_entries(
    host: str, result: t.Mapping[str, t.Any], node: t.Any, names: t.Mapping[str, tuple[str, str]]
) -> list[Data]:
    """What node_dataplane would change on a host. ``node``: of node_info; ``names``: of node_rows.peer_names."""
    rows = []
    for change in planned_changes(result):
        owner, since, note = _BY_KIND.get(str(change.get("kind")).split(" ", maxsplit=1)[0], _unknown)(
            change, node or {}, names
        )
        rows.append(entry(host, change, owner, since, note))
    return rows


def _unknown(change: Data, node: Data, names: t.Any) -> Blame:
    return None, None, _GONE if change.get("action") == "create" else ""


def _find(rows: t.Any, **desired: t.Any) -> Data:
    """The first row with these values; {} where there is none."""
    return next((row for row in rows or () if all(row.get(name) == value for name, value in desired.items())), {})


def _peer(change: Data, node: Data, names: t.Mapping[str, tuple[str, str]]) -> Blame:
    device, dummy, key = str(change.get("id")).partition(" ")
    peer = _find(_find(node.get("devices"), name=device).get("peers"), public_key=key)
    if not peer:
        return None, None, _GONE
    owner = "the key of {0}/{1}".format(*names[key]) if key in names else f"a key that nobody in the fabric has, {key}"
    return owner, None, f"allowed IPs now: {', '.join(peer.get('allowed_ips') or ()) or 'none'}"


def _route(change: Data, node: Data, names: t.Any) -> Blame:
    words = str(change.get("id")).split()
    dst = next((part for part in words if "/" in part), "")
    found = [route for route in node.get("routes") or () if route.get("dst") == dst]
    if change.get("action") == "create":  # our own routes in other places are not what took its place
        found = [route for route in found if route.get("protocol") != 109]
    if not found:
        return None, None, _GONE
    route = found[0]
    return (
        protocol_name(route.get("protocol")),
        None,
        f"now: {route.get('type')} {'by ' + str(route['dev']) if route.get('dev') else ''}".strip(),
    )


def _rule(change: Data, node: Data, names: t.Any) -> Blame:
    text = str(change.get("id"))
    number, family = re.search(r"([0-9]+):", text), 6 if "IPv6" in text else 4
    first = number.group(1) if number else ""
    same = [
        rule for rule in node.get("rules") or () if str(rule.get("priority")) == first and rule.get("version") == family
    ]
    if not same:
        return None, None, _GONE
    return protocol_name(same[0].get("protocol")), None, "a rule of that priority is there"


def _nftables(change: Data, node: Data, names: t.Any) -> Blame:
    family, dummy, name = str(change.get("id")).partition(" ")
    table = _find(node.get("tables"), family=family, name=name.partition(" ")[0])
    if not table:
        return None, None, _GONE
    return (
        table_owner(table),
        None,
        "the table is owned; somebody with root changed it" if table.get("owned") else "the table has another owner",
    )


def _link(change: Data, node: Data, names: t.Any) -> Blame:
    device = _find(node.get("devices"), name=change.get("id"))
    return (
        (str(device.get("alias") or "unknown, without a mark"), None, "the device is there, with other settings")
        if device
        else (None, None, _GONE)
    )


def _unit(change: Data, node: Data, names: t.Any) -> Blame:
    unit = _find(node.get("units"), name=change.get("id"))
    return ("systemd", None, f"{unit.get('active')}, result {unit.get('result')}") if unit else (None, None, _GONE)


_BY_KIND: dict[str, t.Callable[[Data, Data, t.Any], Blame]] = {
    "peer": _peer,
    "route": _route,
    "rule": _rule,
    "nftables": _nftables,
    "link": _link,
    "unit": _unit,
}


# -- objects of API servers ----------------------------------------------------------------------------------------


def object_entries(
    plans: t.Mapping[str, t.Mapping[str, t.Any]],
    objects: t.Mapping[tuple[str, str], t.Any],
    manager: str,
    patterns: t.Sequence[str] = (),
) -> list[Data]:
    """What the plans of the capabilities would change. ``objects``: (kind, id of the change) -> the object as it is, or None."""
    rows = []
    for name in sorted(plans):
        for change in planned_changes(plans[name]):
            ident = str(change.get("id"))
            where = ident.partition("/")[0]
            key = (str(change.get("kind")), ident)
            owner, since, note = (
                blame_object(objects[key], change, manager, patterns)
                if key in objects
                else (None, None, "its owner was not looked up")
            )
            rows.append(entry(where, dict(change, id=ident.partition("/")[2] or ident), owner, since, note))
    return rows


def blame_object(obj: t.Any, change: t.Mapping[str, t.Any], manager: str, patterns: t.Sequence[str] = ()) -> Blame:
    """The manager that wrote the fields in question last, and when, by the API server's own record."""
    if not isinstance(obj, dict):
        return None, None, _GONE if change.get("action") in ("create", "update") else ""
    entries = dicts_of(mapping(obj, "metadata").get("managedFields"))
    if not entries:
        return None, None, "the API server keeps no record of who wrote it"
    fields = [str(field) for field in change.get("fields") or ()]
    others = [e for e in entries if e.get("manager") != manager and not e.get("subresource")]
    touching = [
        e for e in others if _touches(e.get("fieldsV1"), fields, patterns if change.get("kind") == "node" else ())
    ]
    if change.get("action") != "update" and not touching:
        touching = others
    if touching:
        last = max(touching, key=lambda row: str(row.get("time") or ""))
        return str(last.get("manager"))[:128], last.get("time"), f"by {last.get('operation') or 'Update'}"
    newest = max(others, key=lambda row: str(row.get("time") or ""), default=None)
    note = "a field was removed, which leaves no owner" if change.get("action") == "update" else ""
    if newest is not None and note:
        note += f"; {str(newest.get('manager'))[:128]} wrote to it at {newest.get('time')}"
    return None, None, note


def _touches(tree: t.Any, fields: t.Sequence[str], patterns: t.Sequence[str]) -> bool:
    """Whether a manager owns something inside the fields; of annotations only those of the patterns."""
    if not isinstance(tree, dict):
        return False
    metadata = mapping(tree, "f:metadata")
    for field in fields:
        if field in ("metadata", "annotations", "labels"):
            for part in ("f:annotations", "f:labels"):
                if field != "metadata" and part != "f:" + field:
                    continue
                keys = [key[2:] for key in metadata.get(part) or () if key.startswith("f:")]
                if keys and (not patterns or any(Pattern(pattern)(key) for pattern in patterns for key in keys)):
                    return True
        elif _has(tree, "f:" + field):
            return True
    return False


def _has(tree: t.Any, key: str, depth: int = 4) -> bool:
    """Plans name the fields that differ by their last part: it may be at the top or below."""
    if not isinstance(tree, dict) or depth == 0:
        return False
    return key in tree or any(_has(inner, key, depth - 1) for inner in tree.values())


def unit_entries(host: str, node: t.Any, planned: t.Iterable[Data] = ()) -> list[Data]:
    """Owned units that failed, or that are enabled to run all the time and do not, besides those that ``planned`` changes start."""
    started = {change.get("id") for change in planned if change.get("kind") == "unit"}
    rows = []
    for unit in (node or {}).get("units") or ():
        if unit.get("name") in started:
            continue
        if unit_is_bad(unit):
            change = {"kind": "unit", "id": unit.get("name"), "action": "update", "fields": [str(unit.get("active"))]}
            rows.append(entry(host, change, *_unit(change, node, None)))
    return rows
