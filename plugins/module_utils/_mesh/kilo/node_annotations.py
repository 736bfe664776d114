# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Kilo takes from its own Nodes and not from Peers: keepalive, and the address that it sends from (kilo 23)."""

from __future__ import annotations

import typing as t

from ..._plan.objects import owners, text_values
from .nodes import ROAM, without_internal_ip
from .peers import endpoint_addresses, peer_endpoint
from .sources import Gathered, Settings, SourcePlan, Sources
from .values import FORCE_INTERNAL_IP, INTERNAL_IP, PERSISTENT_KEEPALIVE, Node, cidr_or_none

KEYS = (PERSISTENT_KEEPALIVE, FORCE_INTERNAL_IP)
#: {cluster: {node: {key: value}}}
NodeAnnotations = dict[str, dict[str, dict[str, str]]]


def desired_annotations(
    sources: Sources, gathered: Gathered, settings: Settings, warnings: list[str]
) -> NodeAnnotations:
    """The annotations of Nodes that were asked for; what is missing for the mesh and was not asked for becomes a warning."""
    desired: NodeAnnotations = {}
    seconds: dict[str, int] = {}
    for (dummy, cluster), source in sorted(sources.plans.items(), key=lambda item: item[0]):
        seconds[cluster] = max(seconds.get(cluster, 0), _keepalive(source))
    for cluster, number in seconds.items():
        if number:
            nodes = {node.name: node for node in gathered.nodes[cluster]}
            if settings.node_keepalive:
                for name in nodes:
                    _note(desired, cluster, name, PERSISTENT_KEEPALIVE, str(number))
            else:
                unreachable = sorted(
                    name for name, node in nodes.items() if node.annotation(PERSISTENT_KEEPALIVE) in ("", "0")
                )
                _say(warnings, _KEEPALIVE, cluster, unreachable, number)
    blind: dict[str, set[str]] = {}
    for (dummy, cluster), source in sorted(sources.plans.items(), key=lambda item: item[0]):
        for name, node in source.nodes.items():
            off = without_internal_ip(node)
            if settings.force_internal_ip and off:
                _note(desired, cluster, name, FORCE_INTERNAL_IP, node.annotation(FORCE_INTERNAL_IP))
            elif not off and _sends_from_its_endpoint(node, source):
                if settings.force_internal_ip:
                    _note(desired, cluster, name, FORCE_INTERNAL_IP, "-")
                else:
                    blind.setdefault(cluster, set()).add(name)
    for cluster, names in sorted(blind.items()):
        _say(warnings, _INTERNAL, cluster, sorted(names))
    return desired


_KEEPALIVE = (
    "cluster {0}: {1} of its nodes send no keepalive, whatever Peers say: Kilo takes the seconds from its own Node. Set clustermesh_node_keepalive, "
    "or run kubectl annotate node {2} " + PERSISTENT_KEEPALIVE + "={3}"
)
_INTERNAL = (
    "cluster {0}: traffic of {1} of its nodes themselves to pods of other clusters is lost: Kilo sends it from the address that is also the node's "
    "endpoint, which no tunnel can carry. Set clustermesh_force_internal_ip, or run kubectl annotate node {2} "
    + FORCE_INTERNAL_IP
    + "=-"
)


def _say(warnings: list[str], text: str, cluster: str, names: t.Sequence[str], *more: t.Any) -> None:
    if names:
        shown = " ".join(names[:3]) + (f" (and {len(names) - 3} more)" if len(names) > 3 else "")
        warnings.append(text.format(cluster, len(names), shown, *more))


def _note(desired: NodeAnnotations, cluster: str, name: str, key: str, value: str) -> None:
    desired.setdefault(cluster, {}).setdefault(name, {})[key] = value


def _keepalive(source: SourcePlan) -> int:
    """Seconds for the nodes of a cluster that itself declares them behind NAT."""
    own = int(source.entry.get("persistentKeepalive") or 0)
    if own or source.options.policy != ROAM:
        return own
    return source.keepalive or source.options.roaming_keepalive


def _sends_from_its_endpoint(node: Node, source: SourcePlan) -> bool:
    cidr = cidr_or_none(node.annotation(INTERNAL_IP))
    if cidr is None:
        return False  # Kilo then sends from the WireGuard address
    endpoint = peer_endpoint(node, source.entry, source.options.policy)[0]
    return cidr.host in endpoint_addresses(endpoint, source.options.resolved)


def stale_annotations(
    objects: t.Mapping[str, t.Mapping[str, t.Any]], manager: str, desired: t.Mapping[str, t.Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """{node: {key: ""}} of annotations that this fabric wrote on Nodes and that are not desired any more."""
    found: dict[str, dict[str, str]] = {}
    for name, obj in objects.items():
        present = text_values(obj["metadata"].get("annotations"))
        for key in KEYS:
            if (
                key in present
                and key not in desired.get(name, {})
                and manager in owners(obj, "metadata", "annotations", key)
            ):
                found.setdefault(name, {})[key] = ""
    return found
