# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypotheses about a fabric as typed values: a node or a cluster away, an annotation, a label, a range, a key, a Service. Pure.

All hypotheses of a question are taken together. Each is a mapping with one of the KINDS; one text ``kind=value`` is the same on a command line.
"""

from __future__ import annotations

import difflib
import typing as t

from ..._mesh.semaphore.annotations import key_of
from ..._plan.mesh_plan import MeshPlan
from ..._values.refused import ValueRefused, quoted
from ..._values.text import lower

Data = dict[str, t.Any]
#: The variable of the role, which messages name.
VARIABLE = "trace_what_if"
PLAN, AWAY, ANNOTATION, LABEL, RANGE, KEY, SERVICE = "plan", "away", "annotation", "label", "range", "key", "service"
#: kind -> further fields, those with "?" may be missing.
KINDS: dict[str, tuple[str, ...]] = {
    PLAN: (),
    AWAY: (),
    ANNOTATION: ("node", "value?"),
    LABEL: ("service", "value?"),
    RANGE: ("cluster", "value"),
    KEY: ("value?",),
    SERVICE: (),
}
#: Variables of a cluster that ``range`` may change.
RANGES = ("pod_cidrs", "service_cidrs", "node_cidrs")
MOST = 50


class Hypothesis(t.NamedTuple):
    """kind: one of KINDS. name: what its kind has, such as a host; where: the host, Service or cluster that has it; value: None for none."""

    kind: str
    name: str
    where: str = ""
    value: t.Any = None

    def text(self) -> str:
        """The hypothesis as a person would write it."""
        if self.kind == PLAN:
            return "the plan as it is"
        place = f" of {self.where}" if self.where else ""
        if self.kind == AWAY:
            return f"{self.name} is away"
        if self.kind == SERVICE:
            return f"Service {self.name} is gone"
        if self.kind == KEY:
            return f"{self.name} has {'another key' if self.value is None else 'the key ' + str(self.value)}"
        if self.value is None:
            return f"{self.kind} {self.name}{place} is gone"
        return f"{self.kind} {self.name}{place} is {_shown(self.value)}"


def _shown(value: t.Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def parse(given: t.Any) -> tuple[Hypothesis, ...]:
    """The hypotheses of ``trace_what_if``: a text, a mapping, or a list of these. Raises ValueRefused, which names what is written wrong."""
    rows = given if isinstance(given, (list, tuple)) else [given]
    if len(rows) > MOST:
        raise ValueRefused("quota", f"{VARIABLE} has {len(rows)} hypotheses, and {MOST} can be taken together")
    return tuple(one for row in rows for one in _parse(row))


def _parse(row: t.Any) -> t.Iterator[Hypothesis]:
    if isinstance(row, str):
        kind, equals, value = row.partition("=")
        row = {kind.strip(): value.strip() if equals else ("true" if kind.strip() == PLAN else None)}
    if not isinstance(row, dict) or not row:
        raise ValueRefused("bad_format", f"{VARIABLE}: {quoted(row)} is no hypothesis; write one of {_kinds()}")
    fields = {str(name): value for name, value in row.items()}
    kinds = _chosen(fields)
    kind = kinds[0]
    known = {one.rstrip("?") for one in KINDS[kind]}
    for name in fields:
        if name != kind and name not in known:
            raise ValueRefused(
                "name_unknown",
                f"{VARIABLE}: {kind} has no field {quoted(name)}{_near(name, {*known, *KINDS})}; it has {', '.join(sorted(known)) or 'none'}",
            )
    missing = [one for one in KINDS[kind] if not one.endswith("?") and fields.get(one) in (None, "", [])]
    if missing:
        raise ValueRefused("bad_format", f"{VARIABLE}: {kind} needs {' and '.join(missing)}")
    yield from _typed(kind, fields)


def _chosen(fields: Data) -> list[str]:
    """The kind of a hypothesis; ``service`` is also the field of a label."""
    kinds = [name for name in fields if name in KINDS]
    if LABEL in kinds:
        kinds = [name for name in kinds if name != SERVICE]
    if len(kinds) == 1:
        return kinds
    if kinds:
        raise ValueRefused(
            "bad_format",
            f"{VARIABLE}: {' and '.join(sorted(kinds))} are hypotheses of their own: write an entry of the list for each",
        )
    name = sorted(fields)[0]
    raise ValueRefused("name_unknown", f"{VARIABLE}: {quoted(name)} is none of {_kinds()}{_near(name, KINDS)}")


def _typed(kind: str, fields: Data) -> t.Iterator[Hypothesis]:
    given = fields[kind]
    if kind == PLAN:
        if lower(str(given)) not in ("true", "yes", "1"):
            raise ValueRefused("bad_format", f"{VARIABLE}: plan is true, or left out")
        yield Hypothesis(PLAN, "")
        return
    names = given if kind == AWAY and isinstance(given, (list, tuple)) else [given]
    for name in names:
        if not isinstance(name, str) or not name:
            raise ValueRefused("bad_format", f"{VARIABLE}: {kind} names {quoted(name)}, which is no name")
        if kind in (SERVICE, LABEL):
            _check_service(str(name if kind == SERVICE else fields["service"]))
        value = fields.get("value")
        if kind in (ANNOTATION, LABEL, KEY) and value is not None and not isinstance(value, str):
            raise ValueRefused("bad_format", f"{VARIABLE}: the value of {kind} {name} is a text, or left out")
        if kind == RANGE:
            if name not in RANGES:
                raise ValueRefused(
                    "name_unknown",
                    f"{VARIABLE}: range {quoted(name)} is none of {', '.join(RANGES)}{_near(name, RANGES)}",
                )
            value = [str(one) for one in value] if isinstance(value, (list, tuple)) else [str(value)]
        where = str(fields.get({ANNOTATION: "node", LABEL: "service", RANGE: "cluster"}.get(kind, "")) or "")
        yield Hypothesis(kind, name, where, value)


def _check_service(text: str) -> None:
    if len(text.split("/")) != 3 or not all(text.split("/")):
        raise ValueRefused("bad_format", f"{VARIABLE}: a Service is cluster/namespace/name, and {quoted(text)} is not")


def _kinds() -> str:
    return ", ".join(KINDS)


def _near(name: str, known: t.Iterable[str]) -> str:
    near = difflib.get_close_matches(lower(name), sorted(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def check(rows: t.Iterable[Hypothesis], mesh: MeshPlan, services: t.Collection[str] | None = None) -> None:
    """Raise ValueRefused for what no fabric has: hosts and clusters by the plan, Services (cluster/namespace/name) where they were read."""
    hosts, clusters = set(mesh.nodes), set(mesh.clusters) | {node.cluster for node in mesh.nodes.values()}
    for row in rows:
        known: t.Collection[str] = ()
        what, name = "", row.name
        if row.kind == AWAY:
            what, known = "host and no cluster of the mesh", hosts | clusters
        elif row.kind in (KEY, ANNOTATION):
            what, known, name = "host of the mesh", hosts, row.name if row.kind == KEY else row.where
        elif row.kind == RANGE:
            what, known, name = "cluster of the mesh", clusters, row.where
        elif row.kind in (SERVICE, LABEL) and services is not None:
            what, known, name = (
                "Service of the clusters that were read",
                services,
                row.name if row.kind == SERVICE else row.where,
            )
        if row.kind == KEY and row.value is not None and mesh.spans_nodes:
            text = f"{VARIABLE}: the key of {quoted(row.name)} in a KubeSpan mesh is made by the node: leave out value, or change its annotation"
            raise ValueRefused("mode_unsupported", text)
        if what and name not in known:
            raise ValueRefused(
                "name_unknown", f"{VARIABLE} names {quoted(name)}, which is no {what}{_near(name, known)}"
            )


def away(rows: t.Iterable[Hypothesis]) -> list[str]:
    """Hosts and clusters that are taken for gone."""
    return [row.name for row in rows if row.kind == AWAY]


def new_keys(rows: t.Iterable[Hypothesis]) -> frozenset[str]:
    """Hosts with another key of which no other node knows."""
    return frozenset(row.name for row in rows if row.kind == KEY and row.value is None)


def of_mesh(rows: t.Iterable[Hypothesis]) -> bool:
    """Whether the mesh has to be planned anew with the hypotheses."""
    return any(row.kind in (ANNOTATION, RANGE) or (row.kind == KEY and row.value is not None) for row in rows)


def definition(rows: t.Iterable[Hypothesis], given: t.Mapping[str, t.Any]) -> Data:
    """The inventory's definition {clusters: {name: variables}, nodes} with the ranges of the hypotheses."""
    clusters = {name: dict(variables) for name, variables in (given.get("clusters") or {}).items()}
    for row in rows:
        if row.kind == RANGE and row.where in clusters:
            clusters[row.where][row.name] = list(row.value)
    return dict(given, clusters=clusters)


def listings(rows: t.Iterable[Hypothesis], mesh: MeshPlan, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """{cluster: {nodes: [Node]} or {error}} with the annotations and keys of the hypotheses. mesh: the plan without them."""
    changes: dict[tuple[str, str], dict[str, str | None]] = {}
    for row in rows:
        if row.kind == ANNOTATION:
            node = mesh.nodes[row.where]
            changes.setdefault((node.cluster, node.node_name), {})[row.name] = row.value
        elif row.kind == KEY and row.value is not None:
            node = mesh.nodes[row.name]
            others = [name for name in mesh.clusters if name != node.cluster]
            changes.setdefault((node.cluster, node.node_name), {}).update(
                (key_of(name, "pubKey"), str(row.value)) for name in others
            )
    found = dict(given)
    for cluster in {cluster for cluster, _node in changes}:
        if isinstance(found.get(cluster), dict) and "nodes" in found[cluster]:
            nodes = [_annotated(obj, changes.get((cluster, _name(obj)), {})) for obj in found[cluster]["nodes"]]
            found[cluster] = dict(found[cluster], nodes=nodes)
    return found


def _name(obj: t.Any) -> str:
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    return str(meta.get("name")) if isinstance(meta, dict) else ""


def _annotated(obj: t.Any, changes: t.Mapping[str, str | None]) -> t.Any:
    if not changes:
        return obj
    notes = {**(obj["metadata"].get("annotations") or {}), **changes}
    return dict(
        obj,
        metadata=dict(obj["metadata"], annotations={name: value for name, value in notes.items() if value is not None}),
    )
