# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's BGP speaker as FRR's text, and what turns one such text into another on a speaker that runs. It takes no route from anybody (ccm 15)."""

from __future__ import annotations

import hashlib
import typing as t

from .speaker import Attributes, Neighbour, Speaker

HEADER = "! Written by multicluster.network, module bgp_speaker. Changes are overwritten."
FAMILIES = ("ipv4", "ipv6")


def render(speaker: Speaker) -> str:
    """The whole configuration. The same speaker gives the same bytes."""
    lines = [
        HEADER,
        "frr defaults traditional",
        "log syslog informational",
        "ip prefix-list nothing seq 5 deny any",
        "ipv6 prefix-list nothing seq 5 deny any",
    ]
    used = {prefix: speaker.attributes_of(prefix) for prefix in speaker.prefixes}
    for one in sorted(set(used.values()) - {Attributes()}, key=_name):
        lines += [f"route-map {_name(one)} permit 10", *(" set " + text for text in _sets(one)), "exit"]
    for next_hop in sorted({one.next_hop for one in speaker.neighbours} - {""}):
        lines += [f"route-map {_hop_name(next_hop)} permit 10", " set ipv6 next-hop global " + next_hop, "exit"]
    lines += [
        f"router bgp {speaker.asn}",
        " bgp router-id " + speaker.router_id,
        " bgp log-neighbor-changes",
        " no bgp default ipv4-unicast",
        " no bgp ebgp-requires-policy",
        " no bgp network import-check",
    ]
    if speaker.graceful_restart:
        lines += [" bgp graceful-restart", " bgp graceful-restart preserve-fw-state"]
    for neighbour in speaker.neighbours:
        lines += _session(speaker, neighbour)
    for family in FAMILIES:
        prefixes = [prefix for prefix in speaker.prefixes if (":" in prefix) == (family == "ipv6")]
        neighbours = [one for one in speaker.neighbours if (6 if family == "ipv6" else 4) in one.versions]
        if prefixes or neighbours:
            lines.append(f" address-family {family} unicast")
            lines += [
                f"  network {prefix}{' route-map ' + _name(used[prefix]) if used[prefix] != Attributes() else ''}"
                for prefix in prefixes
            ]
            for router in neighbours:
                lines += [
                    f"  neighbor {router.address} activate",
                    f"  neighbor {router.address} prefix-list nothing in",
                ]
                if router.next_hop and family == "ipv6":
                    lines.append(f"  neighbor {router.address} route-map {_hop_name(router.next_hop)} out")
            lines.append(" exit-address-family")
    return "\n".join([*lines, "exit"]) + "\n"


def _session(speaker: Speaker, one: Neighbour) -> list[str]:
    name = " neighbor " + one.address
    lines = [
        f"{name} remote-as {one.asn}",
        f"{name} update-source {one.source}",
        f"{name} timers {speaker.keepalive_s} {speaker.hold_s}",
        name + " timers connect 3",
    ]
    if one.password:
        lines.append(f"{name} password {one.password}")
    if one.ttl_hops:
        lines.append(f"{name} ttl-security hops {one.ttl_hops}")
    elif one.multihop:
        lines.append(f"{name} ebgp-multihop {one.multihop}")
    elif one.asn != speaker.asn:
        lines.append(name + " disable-connected-check")
    if one.bfd:
        lines.append(name + " bfd")
    if one.both_families and one.version == 6:
        lines.append(name + " capability extended-nexthop")
    return lines


def _hop_name(next_hop: str) -> str:
    """Of the route map that sets it on the way out."""
    return "next-hop-" + next_hop.replace(":", "_")


def _name(attributes: Attributes) -> str:
    """Of the route map that sets them: another one for others, so that none is ever changed while it is in use."""
    return "set-" + hashlib.sha256(repr(tuple(attributes)).encode("ascii")).hexdigest()[:16]


def _sets(attributes: Attributes) -> t.Iterator[str]:
    if attributes.communities:
        yield "community " + " ".join(attributes.communities)
    if attributes.large_communities:
        yield "large-community " + " ".join(attributes.large_communities)
    if attributes.local_preference is not None:
        yield f"local-preference {attributes.local_preference}"
    if attributes.med is not None:
        yield f"metric {attributes.med}"


def read_prefixes(text: str) -> tuple[str, ...]:
    """What a configuration of the collection announces."""
    return tuple(line.split()[1] for line in text.splitlines() if line.startswith("  network "))


Blocks = dict[tuple[str, ...], list[str]]


def _blocks(text: str) -> Blocks:
    """The lines of a rendered configuration by the contexts that they are in, in order; () is the outermost."""
    found: Blocks = {(): []}
    context: tuple[str, ...] = ()
    for line in text.splitlines():
        depth, statement = len(line) - len(line.lstrip()), line.strip()
        if not statement or statement.startswith("!") or statement in ("exit", "exit-address-family"):
            continue
        context = context[:depth]
        if statement.startswith(("router bgp ", "route-map ", "address-family ")):
            context += (statement,)
            found.setdefault(context, [])
        else:
            found[context].append(statement)
    return found


#: A line that only differs after so many words takes the place of the other one.
_KEYS = {"network": 2, "neighbor": 3, "bgp": 2}
#: And those that need some more to tell them apart.
_LONGER = {
    "prefix-list": 5,
    "route-map": 5,
    "default": 9,
    "bestpath": 9,
    "ebgp-requires-policy": 9,
    "graceful-restart": 3,
}


def _key(line: str) -> tuple[str, ...]:
    words = line.split()
    words = words[1:] if words[0] == "no" else words
    length = _KEYS.get(words[0], len(words))
    kind = words[length - 1] if len(words) >= length else ""
    return tuple(words[: _LONGER.get(kind, length)])


def _undone(line: str) -> str:
    return line[len("no ") :] if line.startswith("no ") else "no " + line


def changes(before: str, after: str) -> list[str]:
    """Lines for a running speaker that bring it to ``after``; nothing where nothing differs.

    What routes refer to comes first, what goes is taken away before what comes, and a session ends only where its own lines ask for it.
    """
    old, new = _blocks(before), _blocks(after)
    found = [line for line in new[()] if line not in old[()]]
    for context in new:
        if context[:1] and context[0].startswith("route-map ") and context not in old:
            found += [context[0], *(" " + line for line in new[context]), "exit"]
    for context in sorted(
        context for context in {*old, *new} if len(context) == 1 and context[0].startswith("router ")
    ):
        if context not in new:
            found.append("no " + context[0])
    for context in new:
        if len(context) == 1 and context[0].startswith("router "):
            found += _router_changes(context, old, new)
    found += [
        "no " + context[0]
        for context in old
        if context[:1] and context[0].startswith("route-map ") and context not in new
    ]
    return found + [_undone(line) for line in old[()] if line not in new[()]]


def _router_changes(router: tuple[str, ...], old: Blocks, new: Blocks) -> list[str]:
    gone, rows = _left(old.get(router, ()), new[router]), []
    old = {
        context: [line for line in lines if line.split()[:1] != ["neighbor"] or line.split()[1] not in gone]
        for context, lines in old.items()
    }
    rows += [" no neighbor " + name for name in gone] + _lines(old.get(router, ()), new[router], " ")
    families = [context for context in {**old, **new} if len(context) == 2 and context[0] == router[0]]
    for context in sorted(families):
        inner = _lines(old.get(context, ()), new.get(context, ()), "  ")
        if inner:
            rows += [" " + context[1], *inner, " exit-address-family"]
    return [router[0], *rows, "exit"] if rows or router not in old else []


def _left(old: t.Iterable[str], new: t.Iterable[str]) -> list[str]:
    """Routers that go, or come back as those of another autonomous system."""
    kept = {line for line in new if " remote-as " in line}
    return [line.split()[1] for line in old if " remote-as " in line and line not in kept]


def _lines(old: t.Sequence[str], new: t.Sequence[str], indent: str) -> list[str]:
    keys = {_key(line) for line in new}
    rows = [_undone(line) for line in reversed(old) if line not in new and _key(line) not in keys] + [
        line for line in new if line not in old
    ]
    return [indent + row for row in rows]


def shown(text: str, fingerprint: t.Callable[[str], str]) -> list[str]:
    """The lines for a diff, passwords as fingerprints."""
    rows = []
    for line in text.splitlines():
        head, keyword, secret = line.partition(" password ")
        rows.append(head + keyword + fingerprint(secret) if keyword else line)
    return rows
