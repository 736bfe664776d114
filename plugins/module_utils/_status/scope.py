# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict speaks of. With ``--limit`` that is a part of the fabric, and the rest is named as not asked. Pure."""

from __future__ import annotations

import typing as t

Facts = t.Mapping[str, t.Any]

#: A pattern of hosts may be as long as a list of them.
LONGEST = 60
#: So many names are shown; the counts are complete.
NAMED = 10
#: Of a node that nobody asked, in place of a verdict and of the first finding.
NOT_ASKED, OUTSIDE = "not asked", "outside --limit"


def outside(facts: Facts) -> t.FrozenSet[str]:
    """The nodes that ``--limit`` left out; none without one, since then nobody asked for a part."""
    return frozenset(facts.get("outside") or ()) if facts.get("limit") else frozenset()


def unasked(facts: Facts) -> t.FrozenSet[str]:
    return frozenset(facts.get("unasked") or ()) if facts.get("limit") else frozenset()


def cut_clusters(facts: Facts) -> t.FrozenSet[str]:
    """The clusters of which a node was left out: what only all of their nodes could tell is not known."""
    nodes = (facts.get("mesh") or {}).get("nodes") or {}
    return frozenset(str(nodes[host]["cluster"]) for host in outside(facts) if host in nodes)


def shown(facts: Facts) -> t.Dict[str, t.Any]:
    """{limit, nodes: how many there are, judged: how many of them, not_asked: {nodes: [host], capabilities: [name]}}."""
    left, declared = outside(facts), set(facts.get("declared") or ())
    return {
        "limit": _short(str(facts.get("limit") or "")),
        "nodes": len(declared | left),
        "judged": len(declared - left),
        "not_asked": {"nodes": sorted(left), "capabilities": sorted(unasked(facts))},
    }


def line(scope: Facts) -> str:
    """The first line of a report; nothing without a limit."""
    if not scope["limit"]:
        return ""
    left = scope["not_asked"]
    missing = [_listed("node", "nodes", left["nodes"]), _listed("capability", "capabilities", left["capabilities"])]
    text = "scope: --limit {0}: {1:,} of {2:,} nodes judged".format(scope["limit"], scope["judged"], scope["nodes"])
    return text + ("; not asked (outside --limit): " + "; ".join(filter(None, missing)) if any(missing) else "")


def _listed(single: str, several: str, names: t.Sequence[str]) -> str:
    more = " and {0:,} more".format(len(names) - NAMED) if len(names) > NAMED else ""
    return "{0} {1}{2}".format(single if len(names) == 1 else several, ", ".join(names[:NAMED]), more) if names else ""


def behind(headline: str, scope: Facts) -> str:
    """A headline that says no more than was asked."""
    return "{0} inside --limit {1}".format(headline, scope["limit"]) if scope["limit"] else headline


def _short(text: str) -> str:
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 4] + " ..."
