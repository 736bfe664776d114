# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranges of clusters against each other, as they are and as other clusters see them (semaphore 2.1; translation 2)."""

from __future__ import annotations

import hashlib
import typing as t

from ..._values.addresses import Network, parse_network
from ..._values.exported_ranges import ExportedRanges, free_range, pair_of
from ..._values.prefix_sets import PrefixSet, overlapping_pairs
from ..._values.refused import ValueRefused, quoted
from .variables import Finding, Variables

MAPPING, FORMER, POOL = "exported_pod_cidrs", "former", "translation_pool"
NODE_MAPPING = "exported_node_cidrs"
#: From where exported ranges are proposed where the inventory does not say.
DEFAULT_POOL = "10.192.0.0/10"
RANGES = ("pod_cidrs", "service_cidrs", "node_cidrs", "wireguard_cidrs")
Clusters = t.Mapping[str, t.Mapping[str, t.Any]]
Texts = dict[str, str]


class _Label(t.NamedTuple):
    """A range of a cluster. ``hidden``: a pod range that other clusters see as something else; ``seen``: what they see."""

    cluster: str
    variable: str
    hidden: bool = False
    seen: bool = False


Labelled = tuple[Network, _Label]


def read_mapping(
    where: str, values: Variables, raw: t.Mapping[str, t.Any], pods: t.Sequence[str], findings: list[Finding]
) -> tuple[Texts, list[Texts]]:
    """(exported_pod_cidrs, the mappings of before in its key ``former``), each {pod range: exported range}, of which everything holds."""
    template = Finding(where, MAPPING, "bad_cidr", "pod")
    example = ("pod ranges to what other clusters see instead", "{10.244.0.0/16: 10.201.0.0/16}")
    return _mappings(template, example, values, raw, pods, findings)


def read_node_mapping(
    where: str, values: Variables, raw: t.Mapping[str, t.Any], nodes: t.Sequence[str], findings: list[Finding]
) -> tuple[Texts, list[Texts]]:
    """(exported_node_cidrs, the mappings of before in its key ``former``), each {node range: exported range} (translation 7)."""
    template = Finding(where, NODE_MAPPING, "bad_cidr", "node")
    example = ("node ranges to those at which other clusters reach the nodes", "{10.22.22.0/24: 10.203.22.0/24}")
    return _mappings(template, example, values, raw, nodes, findings)


def _mappings(
    template: Finding,
    example: tuple[str, str],
    values: Variables,
    raw: t.Mapping[str, t.Any],
    own: t.Sequence[str],
    findings: list[Finding],
) -> tuple[Texts, list[Texts]]:
    """What a variable maps, and what it mapped before. template: as of ``_pairs``. example: (what it maps, how that is written)."""
    variable = template.variable
    given = raw.get(variable)
    if not values.given(variable):
        return {}, []
    if not isinstance(given, dict):
        message = f"{variable} maps {example[0]}, such as {example[1]}, not {quoted(given)}"
        findings.append(template._replace(reason="bad_type", message=message))
        return {}, []
    before = given.get(FORMER) or []
    before = [before] if isinstance(before, dict) else before
    if not isinstance(before, (list, tuple)) or not all(isinstance(one, dict) for one in before):
        message = f"{FORMER} in {variable} is a list of mappings as they were, such as [{example[1]}]"
        findings.append(template._replace(reason="bad_type", message=message))
        before = []
    current = {key: value for key, value in given.items() if key != FORMER}
    now = _pairs(template, current, own, findings)
    return now, [_pairs(template, one, own, findings, same=template.message == "pod") for one in before]


def _pairs(
    template: Finding,
    given: t.Mapping[t.Any, t.Any],
    own: t.Sequence[str],
    findings: list[Finding],
    same: bool = False,
) -> Texts:
    """Those of a mapping that hold. template: a finding with ``pod`` or ``node`` as its message. same: whether a range may be exported as itself."""
    granted, found, kind = PrefixSet.of_texts(own), Texts(), template.message
    sources = PrefixSet()

    def refuse(message: str) -> None:
        findings.append(template._replace(message=message))

    for source, target in given.items():
        try:
            pair_of(source, target)
        except ValueRefused as error:
            refuse(f"{quoted(source)}: {error.message}")
            continue
        mapped = PrefixSet.of_texts([source])
        if mapped - granted:
            shown = ", ".join(own) or "none"
            refuse(f"{source} is outside of {kind}_cidrs ({shown}); map a {kind} range or a part of one")
        elif mapped & sources:
            refuse(f"{source} is mapped twice; each {kind} range has one exported range")
        elif source == target and kind == "node":
            refuse(
                f"{source} is mapped to itself: packets of WireGuard to a node would enter the tunnel; choose a free range"
            )
        elif source != target or same:
            found[source] = target
            sources = sources | mapped
    return found


def check_ranges(clusters: Clusters, fabric: str, findings: list[Finding]) -> None:
    """What clusters see of each other is disjoint, and is nobody's own range; nodes may share a network, Services may overlap.

    Pod ranges may overlap where no cluster sees that they do (translation 2).
    """
    mappings = {
        name: ExportedRanges(one[MAPPING], one["former_pod_cidrs"], one[NODE_MAPPING], one["former_node_cidrs"])
        for name, one in clusters.items()
    }
    labelled = [row for name in sorted(clusters) for row in _labelled(name, clusters[name], mappings[name])]
    pairs = overlapping_pairs(labelled, _may_overlap)
    # what is only the consequence of a mapping that was refused would lead away from it
    wrong = {finding.where.partition("/")[2] for finding in findings if finding.variable == MAPPING}
    pairs = [
        pair for pair in pairs if not any(_can_be_mapped(*pair, row[1]) and row[1].cluster in wrong for row in pair)
    ]
    visible = [[row for row in pair if _can_be_mapped(*pair, row[1])] for pair in pairs]
    taken = PrefixSet.of(network for network, dummy in labelled)
    lines = _proposals(clusters, fabric, [row for rows in visible for row in rows], taken)
    for ((outer, first), (inner, second)), rows in zip(pairs, visible):
        pods = any(label.variable in ("pod_cidrs", MAPPING) for label in (first, second))
        found = [lines[label.cluster] for network, label in rows if label.cluster in lines]
        remedy = "write networks that do not overlap"
        if found:
            remedy = f"let other clusters see other addresses of the pods: {' and '.join(found)}, or {remedy}"
        message = f"{inner} overlaps {outer} in {first.variable} of clusters/{first.cluster}; {remedy}"
        reason = "pod_subnet_overlap" if pods else "range_overlap"
        findings.append(Finding(f"clusters/{second.cluster}", second.variable, reason, message))


def _can_be_mapped(first: Labelled, second: Labelled, label: _Label) -> bool:
    """Whether another mapping of a pod range would end an overlap: that of two clusters, where not a node's or a device's range is the other."""
    variables = {first[1].variable, second[1].variable}
    return (
        first[1].cluster != second[1].cluster
        and label.variable == "pod_cidrs"
        and not label.hidden
        and not variables & {"node_cidrs", "wireguard_cidrs", NODE_MAPPING}
    )


def _proposals(clusters: Clusters, fabric: str, rows: t.Iterable[Labelled], taken: PrefixSet) -> dict[str, str]:
    """{cluster: the line that gives these pod ranges another form for the others}, with what is mapped already; each range is free in the fabric.

    A cluster is left out where no range is free for one of its own.
    """
    found: dict[str, dict[str, str | None]] = {}
    for network, label in rows:
        pairs = found.setdefault(label.cluster, dict(clusters[label.cluster][MAPPING]))
        if str(network) in pairs:
            continue
        pools = map(parse_network, clusters[label.cluster][POOL] or [DEFAULT_POOL, fabric_ula(fabric)])
        free = [free_range(network.prefixlen, pool, taken) for pool in pools if pool.version == network.version]
        pairs[str(network)] = next((text for text in free if text is not None), None)
        taken = taken | PrefixSet.of_texts(text for text in pairs.values() if text is not None)
    return {
        cluster: "{0}: {{{1}}} for clusters/{2}".format(
            MAPPING, ", ".join(f"{_key(source)}: {target}" for source, target in pairs.items()), cluster
        )
        for cluster, pairs in found.items()
        if None not in pairs.values()
    }


def _key(network: str) -> str:
    """A range as a key of YAML's short form: one of IPv6 has colons in it."""
    return f'"{network}"' if ":" in network else network


def _labelled(name: str, cluster: t.Mapping[str, t.Any], mapping: ExportedRanges) -> t.Iterator[Labelled]:
    for variable in RANGES:
        for text in cluster[variable]:
            if variable != "pod_cidrs" or not mapping.pairs:
                yield parse_network(text), _Label(name, variable)
                continue
            hidden = PrefixSet.of_texts([text]) & mapping.hidden
            for part in hidden.cidrs():
                yield parse_network(part), _Label(name, variable, hidden=True)
            for part in (PrefixSet.of_texts([text]) - hidden).cidrs():
                yield parse_network(part), _Label(name, variable)
    for part in PrefixSet.of_texts(mapping.accepted).cidrs():
        yield parse_network(part), _Label(name, MAPPING, seen=True)
    for part in PrefixSet.of_texts(mapping.exported_nodes).cidrs():
        yield parse_network(part), _Label(name, NODE_MAPPING, seen=True)


def _may_overlap(first: _Label, second: _Label) -> bool:
    if first.variable == second.variable == "node_cidrs":
        return True
    if first.cluster == second.cluster:
        return False
    if first.variable == second.variable == "service_cidrs":
        return True  # a mirrored Service has an address of its own cluster
    return (first.hidden and (second.hidden or second.variable == "service_cidrs")) or (
        second.hidden and first.variable == "service_cidrs"
    )


def fabric_ula(fabric: str) -> str:
    """The unique local addresses of a fabric: fd and 32 bits of its name's SHA-256 (RFC 4193)."""
    digits = hashlib.sha256(fabric.encode("utf-8")).hexdigest()
    return f"fd{digits[:2]}:{digits[2:6]}:{digits[6:8]}00::/40"
