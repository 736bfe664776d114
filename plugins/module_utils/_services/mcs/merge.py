# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One Service of all clusters that export the same namespace and name: who decides what, and what differs (mcs 2). Pure."""

from __future__ import annotations

import typing as t

from ..._values.refused import quoted
from ..mirror_services import Manifest
from .exports import Export
from .names import Id

TYPE, PORTS = "TypeConflict", "PortConflict"
AFFINITY, AFFINITY_CONFIG = "SessionAffinityConflict", "SessionAffinityConfigConflict"
POLICY, DISTRIBUTION = "InternalTrafficPolicyConflict", "TrafficDistributionConflict"
LABELS, ANNOTATIONS = "LabelsConflict", "AnnotationsConflict"
#: So many clusters or ports are in one message.
_NAMED = 3
_FAMILIES = ("IPv4", "IPv6")
#: What a conflict is about, for people.
_FIELDS = {
    TYPE: "headlessness",
    PORTS: "ports",
    AFFINITY: "sessionAffinity",
    AFFINITY_CONFIG: "sessionAffinityConfig",
    POLICY: "internalTrafficPolicy",
    DISTRIBUTION: "trafficDistribution",
    LABELS: "exportedLabels",
    ANNOTATIONS: "exportedAnnotations",
}


class Conflict(t.NamedTuple):
    """``reasons``, in the order of the rules; ``message`` names the fields, who decides and why, and counts."""

    reasons: tuple[str, ...]
    message: str


class Shape(t.NamedTuple):
    """What an import has, except for its addresses. ``families``: those of all exports with endpoints that count."""

    headless: bool
    ports: tuple[Manifest, ...]
    affinity: str
    affinity_config: Manifest | None
    policy: str | None
    distribution: str | None
    families: tuple[str, ...]
    labels: t.Mapping[str, str]
    annotations: t.Mapping[str, str]


class Merged(t.NamedTuple):
    """``members``: exports with endpoints that count, in order of precedence. ``clusters``: ids of all that export, sorted.

    ``held``: ids of clusters that could not be read and have a part in it: what they were known to have stays. ``conflict`` None: none;
    what was reported of conflicts before stays where a cluster is held.
    """

    place: Id
    shape: Shape
    members: tuple[Export, ...]
    clusters: tuple[str, ...]
    winner: str
    conflict: Conflict | None
    held: frozenset[str] = frozenset()


def merge(
    place: Id, exports: t.Iterable[Export], first: str = "", standing: Shape | None = None, held: t.Iterable[str] = ()
) -> Merged:
    """The merge of at least one export.

    first: id of the cluster with the export that decides although it may not be the oldest. standing: what stays while the clusters ``held`` cannot
    be read: it decides, and the others only add to it.
    """
    ranked = sorted(exports, key=lambda export: (export.id != first, export.rank))
    winner = ranked[0]
    shape = standing or Shape(
        winner.headless,
        (),
        winner.affinity,
        winner.affinity_config,
        winner.policy,
        winner.distribution,
        (),
        winner.labels,
        winner.annotations,
    )
    members = tuple(export for export in ranked if export.headless == shape.headless)
    ports, families = list(shape.ports), set(shape.families)
    for export in members:
        ports += _more(ports, export.ports)
        families.update(export.families)
    shape = shape._replace(ports=tuple(ports), families=tuple(name for name in _FAMILIES if name in families))
    held = frozenset(held)
    clusters = tuple(sorted({export.id for export in ranked} | held))
    conflict = None if held else _conflict(ranked, members, bool(first) and winner.id == first, shape.ports)
    return Merged(place, shape, members, clusters, winner.id, conflict, held)


def _more(ports: t.Sequence[Manifest], others: t.Sequence[Manifest]) -> list[Manifest]:
    """The ports that clash with none of those before: neither the name nor protocol and number are taken."""
    names = {port["name"] for port in ports}
    numbers = {(port["protocol"], port["port"]) for port in ports}
    found = []
    for port in others:
        name, number = port["name"], (port["protocol"], port["port"])
        if name not in names and number not in numbers:
            names.add(name)
            numbers.add(number)
            found.append(port)
    return found


def same_port(one: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> bool:
    """Whether a port of a cluster is the one that the import has."""
    return all(one[field] == other[field] for field in ("name", "protocol", "port"))


def _behind_none(members: t.Sequence[Export], ports: t.Sequence[Manifest]) -> str:
    """Which clusters' endpoints are behind fewer ports than they have, since the import has another port of that name or number; or nothing."""
    lost = [
        (
            export.id,
            [port for port in export.ports if not any(same_port(port, other) for other in ports)],
            len(export.ports),
        )
        for export in members
    ]
    rows = [
        "cluster {0} has no endpoints behind {1}".format(
            name,
            "any port of the import"
            if len(gone) == count
            else "its port {0}".format(", ".join(_shown(port) for port in gone[:_NAMED])),
        )
        for name, gone, count in lost
        if gone
    ]
    more = f" and {len(rows) - _NAMED} more clusters" if len(rows) > _NAMED else ""
    return (
        f"; {', '.join(rows[:_NAMED])}{more}: ports need the same name, protocol and number everywhere" if rows else ""
    )


def _shown(port: t.Mapping[str, t.Any]) -> str:
    return f"{port['port']}/{port['protocol']} {quoted(port['name']) if port['name'] else 'without a name'}"


def _conflict(
    ranked: t.Sequence[Export], members: t.Sequence[Export], kept: bool, ports: t.Sequence[Manifest]
) -> Conflict | None:
    winner = ranked[0]
    rows: tuple[tuple[str, t.Sequence[Export], t.Callable[[Export], t.Any]], ...] = (
        (PORTS, members, lambda export: {tuple(sorted(port.items())) for port in export.ports}),
        (TYPE, ranked, lambda export: export.headless),
        (AFFINITY, ranked, lambda export: export.affinity),
        (AFFINITY_CONFIG, ranked, lambda export: export.affinity_config),
        (POLICY, ranked, lambda export: export.policy or "Cluster"),
        (DISTRIBUTION, ranked, lambda export: export.distribution),
        (LABELS, ranked, lambda export: export.labels),
        (ANNOTATIONS, ranked, lambda export: export.annotations),
    )
    reasons, reported = [], []
    for reason, exports, value in rows:
        decided = value(winner)
        differing = sum(1 for export in exports if value(export) != decided)
        if differing:
            reasons.append(reason)
            reported.append(
                f"{_FIELDS[reason]} ({differing} of {len(ranked)} clusters {'differs' if differing == 1 else 'differ'})"
            )
    if not reasons:
        return None
    why = "came first" if kept else "is the oldest"
    message = f"conflict of {', '.join(reported)}; cluster {winner.id} decides: its export {why}"
    return Conflict(tuple(reasons), message + _behind_none(members, ports))
