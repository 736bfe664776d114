# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a fabric is: proven, not proven (why), or broken. The one place that decides, for verify, status and their exit codes. Pure.

Proven means that everything was looked at and is as the inventory asks. What nobody could look at, and what was left out, is
no proof of anything: it makes the whole not proven, however green the rest is. With ``--limit`` a verdict is about a part of the fabric, and the rest
is named as not asked.
"""

from __future__ import annotations

import re
import typing as t

Facts = t.Mapping[str, t.Any]

#: A pattern of hosts may be as long as a list of them.
LONGEST = 60
#: So many names are shown; the counts are complete.
NAMED = 10
#: Of a node that nobody asked, in place of a verdict and of the first finding.
NOT_ASKED, OUTSIDE = "not asked", "outside --limit"


def nodes_outside(facts: Facts) -> frozenset[str]:
    """The nodes that ``--limit`` left out; none without one, since then nobody asked for a part."""
    return frozenset(facts.get("outside") or ()) if facts.get("limit") else frozenset()


def capabilities_unasked(facts: Facts) -> frozenset[str]:
    return frozenset(facts.get("unasked") or ()) if facts.get("limit") else frozenset()


def cut_clusters(facts: Facts) -> frozenset[str]:
    """The clusters of which a node was left out: what only all of their nodes could tell is not known."""
    nodes = (facts.get("mesh") or {}).get("nodes") or {}
    return frozenset(str(nodes[host]["cluster"]) for host in nodes_outside(facts) if host in nodes)


def scope_of(facts: Facts) -> dict[str, t.Any]:
    """{limit, nodes: how many there are, judged: how many of them, not_asked: {nodes: [host], capabilities: [name]}}."""
    left, declared = nodes_outside(facts), set(facts.get("declared") or ())
    return {
        "limit": _short(str(facts.get("limit") or "")),
        "nodes": len(declared | left),
        "judged": len(declared - left),
        "not_asked": {"nodes": sorted(left), "capabilities": sorted(capabilities_unasked(facts))},
    }


def scope_line(scope: Facts) -> str:
    """The first line of a report; nothing without a limit."""
    if not scope["limit"]:
        return ""
    left = scope["not_asked"]
    missing = [_listed("node", "nodes", left["nodes"]), _listed("capability", "capabilities", left["capabilities"])]
    text = f"scope: --limit {scope['limit']}: {scope['judged']:,} of {scope['nodes']:,} nodes judged"
    return text + ("; not asked (outside --limit): " + "; ".join(filter(None, missing)) if any(missing) else "")


def _listed(single: str, several: str, names: t.Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{single if len(names) == 1 else several} {', '.join(names[:NAMED])}{more}" if names else ""


def behind(headline: str, scope: Facts) -> str:
    """A headline that claims no more than was asked."""
    return f"{headline} inside --limit {scope['limit']}" if scope["limit"] else headline


def _short(text: str) -> str:
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 4] + " ..."


PROVEN, UNPROVEN, BROKEN = "proven", "not proven", "broken"
#: The words that people read first.
HEADLINES = {PROVEN: "all green", UNPROVEN: "not proven", BROKEN: "broken"}
#: The variable that accepts what is not proven.
ALLOW = "verify_allow_unproven"
#: So many reasons are shown; the lists have all of them.
SHOWN = 40


class Verdict(t.NamedTuple):
    """Reasons, by what they make of the whole."""

    broken: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()

    @property
    def value(self) -> str:
        """Broken comes before not proven, and that before proven."""
        return BROKEN if self.broken else UNPROVEN if self.unproven else PROVEN


def combine(parts: t.Mapping[str, Verdict]) -> Verdict:
    """One verdict over several parts. Nothing at all proves nothing."""
    if not parts:
        return Verdict(
            unproven=(
                "nothing was looked at: no host is a node (multicluster_cluster) and multicluster_capabilities names nothing",
            )
        )
    return Verdict(
        tuple(dict.fromkeys(reason for name in parts for reason in parts[name].broken)),
        tuple(dict.fromkeys(reason for name in parts for reason in parts[name].unproven)),
    )


def of_capability(name: str, result: t.Any, written: t.Collection[str] | None = None) -> Verdict:
    """What the result of a capability's module means: its changes are what differs from the inventory.

    ``result``: a module's result, or None where there is none. ``written``: what this run wrote before it compared, each as "kind id",
    or None where it wrote nothing or too much to tell. Alongside these only news are left, which came after this run had read and
    found them as desired.
    """
    if not isinstance(result, t.Mapping):
        return Verdict(unproven=(f"{name}: it is on, and was not compared",))
    broken = [
        f"{name}: cluster {row.get('cluster')}: {row.get('message')} [{row.get('reason')}]"
        for row in result.get("failures") or ()
    ]
    if result.get("failed") and not broken:
        broken.append(f"{name}: {result.get('msg') or 'failed'}")
    for change in (result.get("plan") or {}).get("changes") or ():
        if written is not None and change_name(change) not in written:
            continue
        broken.append(f"{name}: {change.get('kind')} {change.get('id')} is not as desired ({change.get('action')})")
    unproven = [refusal_text(name, row) for row in result.get("refused") or ()]
    return Verdict(tuple(broken), tuple(dict.fromkeys(unproven)))


def change_name(change: t.Mapping[str, t.Any]) -> str:
    """What a change is about, the same in the run that makes it and in the one that compares."""
    return f"{change.get('kind')} {change.get('id')}"


def refusal_text(where: str, row: t.Mapping[str, t.Any]) -> str:
    return f"{where}: refused {row.get('object')}: {row.get('message')} [{row.get('reason')}]"


def unannounced(
    name: str, result: t.Any, announcing: t.Mapping[str, t.Collection[str]], cut: t.Collection[str] = ()
) -> Verdict:
    """Addresses of Services that we announce ourselves and that no node announces to anybody.

    ``announcing``: cluster -> the networks that speakers of its nodes announce to neighbours that listen. ``cut``: the
    clusters of which not every node was asked, so that it is not known who announces nothing there.
    """
    found = []
    given = (result.get("load_balancers") or {}) if isinstance(result, t.Mapping) else {}
    for cluster, row in sorted(given.items()):
        for entry in row.get("unannounced") or ():
            found.append(
                f"{name}: cluster {cluster}: nobody announces {entry['address']} ({entry['service']}): {entry['reason']}"
            )
        missing = [] if cluster in cut else unreachable_networks(row, announcing.get(cluster, ()))
        if missing:
            message = "{0}: cluster {1}: no speaker of {2} announces {3} to a neighbour that listens: look at its sessions, then run site"
            found.append(
                message.format(
                    name,
                    cluster,
                    ", ".join(row["nodes"][:3]),
                    ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else ""),
                )
            )
        homeless = [] if cluster in cut else unheld_networks(row, announcing.get(cluster, ()))
        if homeless:
            message = "{0}: cluster {1}: no node holds {2}: look at the journal of multicluster-layer2, then run site"
            found.append(
                message.format(name, cluster, ", ".join(homeless[:5]) + (", ..." if len(homeless) > 5 else ""))
            )
    return Verdict(unproven=tuple(found))


def unreachable_networks(row: t.Mapping[str, t.Any], announced: t.Collection[str]) -> list[str]:
    """Of one cluster, the networks that owned speakers are there for and do not announce."""
    return (
        [str(network) for network in row.get("announce") or () if network not in announced] if row.get("nodes") else []
    )


def unheld_networks(row: t.Mapping[str, t.Any], announced: t.Collection[str]) -> list[str]:
    """Of one cluster, the networks that nodes of a segment are there for and that none has."""
    routes = [route for route in row.get("routes") or () if isinstance(route, t.Mapping) and route.get("group")]
    return (
        [str(route["network"]) for route in routes if route["network"] not in announced] if row.get("segments") else []
    )


def report_lines(verdict: Verdict, scope: t.Mapping[str, t.Any]) -> list[str]:
    """The headline and the reasons, as lines for people. ``scope``: of verdict.scope_of."""
    headline = behind(HEADLINES[verdict.value], scope)
    if verdict.value == BROKEN:
        headline += f": {counted(len(verdict.broken), 'problem')}"
    if verdict.value == UNPROVEN:
        headline += f": {counted(len(verdict.unproven), 'reason')}"
    lines = [headline] + _some(verdict.broken)
    if verdict.unproven:
        lines += (["also not proven:"] if verdict.broken else []) + _some(verdict.unproven, verdict.broken)
    if verdict.value == UNPROVEN:
        lines.append(
            f"Nothing was found broken, and the above could not be proven. Fix it, or accept it with {ALLOW}: true."
        )
    return lines


def of_cluster(cluster: t.Any, message: t.Any, reason: t.Any) -> str:
    """``cluster NAME: message [reason]``, of a message that may begin with its cluster already."""
    lead = f"cluster {cluster}: "
    return f"{'' if str(message).startswith(lead) else lead}{message} [{reason}]"


def counted(count: int, noun: str) -> str:
    """``1 reason``, ``2 reasons``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _some(reasons: t.Sequence[str], known: t.Sequence[str] = ()) -> list[str]:
    """Lines of reasons, one for all nodes that have the same. known: reasons that are above, which are not said again."""
    merged = one_for_all(reasons, known)
    lines = ["  " + reason for reason in merged[:SHOWN]]
    return lines + ([f"  ... and {len(merged) - SHOWN:,} more"] if len(merged) > SHOWN else [])


def one_for_all(reasons: t.Sequence[str], known: t.Sequence[str] = ()) -> list[str]:
    """``NODE: why`` and ``OTHER: why`` as ``NODE: why (also OTHER)``; a cause of ``known`` at a reason's end as ``see above``."""
    causes = [
        text
        for text in (_CAUSE.sub("", reason).rpartition(" [")[0] or _CAUSE.sub("", reason) for reason in known)
        if text
    ]
    found: dict[str, list[str]] = {}
    for reason in reasons:
        where, colon, why = reason.partition(": ")
        if not colon or " " in where or why.startswith("refused ") or _CAUSE.match(why):  # a capability's, not a node's
            where, why = "", reason
        why = why.replace(where + ": ", "") if where else why
        for cause in causes:
            if why.endswith(cause) and why != cause:
                why = _TAIL.sub("", why[: -len(cause)]) + ", see above"
                break
        found.setdefault(why, []).append(where)
    texts = []
    for why, places in found.items():
        names = list(dict.fromkeys(filter(None, places)))
        more = f" and {len(names) - 1 - NAMED:,} more" if len(names) - 1 > NAMED else ""
        also = f" (also {', '.join(names[1 : NAMED + 1])}{more})" if names[1:] else ""
        texts.append(f"{names[0]}: {why}{also}" if names else why)
    return texts


#: Where a cause was met, in front of it, and what is left of that where the cause is not said again.
_CAUSE = re.compile(r"^(?:cluster [a-z][a-z0-9-]{0,62}: )+", re.ASCII)
_TAIL = re.compile(r":? ?(?:cluster [a-z][a-z0-9-]{0,62}: )*$", re.ASCII)
