# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rewriting names of other clusters' services to those of their local mirrors, as CoreDNS does it (semaphore 5).

A rule has one zone, so that its way back can only name that zone (threat T11). Patterns are anchored at both
ends; CoreDNS would otherwise search them anywhere in the name and lose what is around the match.
"""

from __future__ import annotations

import re
import typing as t

from .._values.refused import ValueRefused, quoted
from .._values.text import lower, parse_cluster_name
from .names import GLOBAL_PREFIX, SEPARATOR

#: The zone of global Services.
GLOBAL_ZONE = "global"
DEFAULT_DOMAIN = "cluster.local"
#: ``_port._protocol.`` of SRV queries, or one label that names a pod.
_LEADING = r"((?:_[\w-]+\.)?(?:[\w-]+\.)?)"
_LABEL = r"([\w-]+)"
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*\Z")
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_GROUP = re.compile(r"\{([0-9]+)\}")


class Rule(t.NamedTuple):
    """One rewrite. ``zone`` is a DNS zone (``cluster.aws``); patterns are RE2, templates have ``{1}`` for a group."""

    zone: str
    name_regex: str
    name_to: str
    answer_regex: str
    answer_to: str


class Rewritten(t.NamedTuple):
    """What becomes of one query. ``name`` None: not rewritten; ``rcode`` SERVFAIL where the result is no legal name."""

    name: str | None
    answer: str | None
    rcode: str | None


def rewrite_rules(
    clusters: t.Iterable[str],
    mirror_namespace: str,
    global_zone: bool = False,
    prefixes: t.Mapping[str, str] | None = None,
    cluster_domain: str = DEFAULT_DOMAIN,
) -> list[Rule]:
    """The rules for the zones ``cluster.<name>`` of remote clusters, longest names first, and for ``cluster.global``.

    prefixes: {cluster: servicePrefix} where they differ. Raises ValueRefused for names that could reach into another
    zone or another cluster's mirrors.
    """
    mirror_domain = f"{_namespace(mirror_namespace)}.svc.{parse_domain(cluster_domain)}"
    pairs: list[tuple[str, str]] = []
    for cluster in sorted(set(clusters), key=lambda name: (-len(name), name)):
        prefix = (prefixes or {}).get(cluster) or cluster
        if zone_of(parse_cluster_name(cluster)) == cluster_domain or (global_zone and cluster == GLOBAL_ZONE):
            raise ValueRefused("name_invalid", f"the zone {zone_of(cluster)} is not a remote cluster's")
        if parse_cluster_name(prefix, "service_prefix_invalid") == GLOBAL_PREFIX:
            raise ValueRefused("reserved_service_prefix", "prefix gl is taken by the names of global services")
        if prefix in [other for dummy, other in pairs]:
            raise ValueRefused("duplicate_service_prefix", f"two clusters have prefix {prefix}")
        pairs.append((cluster, prefix))
    if global_zone:
        pairs.append((GLOBAL_ZONE, GLOBAL_PREFIX))
    return [_rule(cluster, prefix, mirror_domain) for cluster, prefix in pairs]


def _rule(cluster: str, prefix: str, mirror_domain: str) -> Rule:
    return Rule(
        zone_of(cluster),
        rf"^{_LEADING}{_LABEL}\.{_LABEL}\.svc\.{escaped(zone_of(cluster))}\.$",
        f"{{1}}{prefix}-{{3}}-{SEPARATOR}-{{2}}.{mirror_domain}",
        rf"^{_LEADING}{escaped(prefix)}-{_LABEL}-{SEPARATOR}-{_LABEL}\.{escaped(mirror_domain)}\.$",
        f"{{1}}{{3}}.{{2}}.svc.{zone_of(cluster)}",
    )


def zone_of(cluster: str) -> str:
    """The DNS zone of a cluster's services."""
    return "cluster." + cluster


def escaped(name: str) -> str:
    """A DNS name as a pattern. Names hold letters, digits, hyphens and dots here, and only dots mean anything."""
    return name.replace(".", r"\.")


def _namespace(text: object) -> str:
    if not isinstance(text, str) or not _NAMESPACE.match(text):
        raise ValueRefused("name_invalid", f"{quoted(text)} is not a namespace")
    return text


def parse_domain(text: object) -> str:
    """A DNS domain without its final dot. Raises ValueRefused ``name_invalid``."""
    if not isinstance(text, str) or len(text) > 200 or not _DOMAIN.match(text):
        raise ValueRefused("name_invalid", f"{quoted(text)} is not a DNS domain")
    return text


# -- what CoreDNS does with them ---------------------------------------------------------------------------------


def rule_problem(pattern: str, template: str) -> str | None:
    """Why CoreDNS would refuse to load a pattern with its template, or None (semaphore 5.1).

    It compares the number of different groups that the template uses with the number of groups in the pattern.
    """
    try:
        groups = re.compile(pattern, re.ASCII).groups
    except re.error as error:
        return f"the pattern does not compile: {error}"
    used = len(set(_GROUP.findall(template)))
    return f"the template uses {used} groups, the pattern has {groups}" if used > groups else None


def substitute(pattern: str, template: str, name: str) -> str | None:
    """One pattern on one name: lower-case and absolute before and after, None when nothing matches (semaphore 5.2)."""
    found = re.search(pattern, absolute(name), re.ASCII)
    if found is None:
        return None
    values = (found.group(0),) + found.groups("")

    def value(match: t.Any) -> str:
        number = int(match.group(1))
        return values[number] if number < len(values) else str(match.group(0))

    return absolute(_GROUP.sub(value, template))


def absolute(name: str) -> str:
    """Lower-case, with the final dot."""
    return lower(name) if name.endswith(".") else lower(name) + "."


def legal(name: str) -> bool:
    """True when every label has 1 to 63 octets and the whole name at most 255 on the wire."""
    labels = name[:-1].split(".")
    return all(1 <= len(label.encode()) <= 63 for label in labels) and len(name.encode()) + 1 <= 255


def rewrite_name(rules: t.Sequence[Rule], query: str) -> Rewritten:
    """What CoreDNS makes of a query, and under which name its answer comes back to the client."""
    for rule in rules:
        name = substitute(rule.name_regex, rule.name_to, query)
        if name is None:
            continue
        if not legal(name):
            return Rewritten(None, None, "SERVFAIL")
        return Rewritten(name, substitute(rule.answer_regex, rule.answer_to, name) or name, None)
    return Rewritten(None, None, None)


def answer_name(rules: t.Sequence[Rule], name: str) -> str:
    """A mirror's name, as the owner of a record or inside one, as the client sees it; other names stay."""
    for rule in rules:
        found = substitute(rule.answer_regex, rule.answer_to, name)
        if found is not None:
            return found
    return name
