# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ends of a trace that no cluster has: hosts that are no Nodes, and members of a discovery service, as hosts of the mesh report them. Pure."""

from __future__ import annotations

import typing as t

from .._values.text import dicts_of, list_of, mapping
from .objects import Address, addresses
from .reach.classes import ranges

#: Members of which a node may tell.
_MOST = 2000


class KnownMember(t.NamedTuple):
    """A member that a node knows, by the name that it gives itself. ``addresses``: those that the node sends to it, or all that it announces where it is
    no peer."""

    name: str
    addresses: tuple[Address, ...]


class Ends:
    """``{host: {members, own, sources}}`` of node_probe; hosts: {inventory host: {cluster, node}}."""

    def __init__(self, given: t.Any = None, hosts: t.Mapping[str, t.Mapping[str, str]] | None = None) -> None:
        self._given = {str(host): row for host, row in (given or {}).items() if isinstance(row, dict)}
        self._hosts = hosts or {}

    def host(self, cluster: str, name: str) -> str:
        """The inventory host that is a node of a cluster, by either of its names; empty for none that reported."""
        for host, row in self._hosts.items():
            if host in self._given and row.get("cluster") == cluster and name in (host, row.get("node")):
                return host
        return ""

    def own(self, host: str) -> tuple[Address, ...]:
        """Addresses of a host."""
        return addresses(list_of(mapping(self._given, host).get("own")))

    def seats(self) -> list[tuple[str, str, tuple[Address, ...]]]:
        """(host, cluster, addresses) of each host that reported."""
        return [(host, str(mapping(self._hosts, host).get("cluster") or ""), self.own(host)) for host in self._given]

    def source(self, host: str, target: Address) -> Address | None:
        """The address from which a host's kernel sends to another one; None where it was not asked."""
        for text, source in mapping(self._given, host, "sources").items():
            if addresses([text]) == (target,):
                return next(iter(addresses([source])), None)
        return None

    def member(self, host: str, name: str) -> KnownMember | None:
        """A member that a host knows by its name."""
        for row in dicts_of(mapping(self._given, host).get("members"))[:_MOST]:
            if row.get("name") != name:
                continue
            single = addresses(text for text in list_of(row.get("networks")) if "/" not in str(text))
            allowed = ranges(row.get("allowed_ips"))
            kept = [
                one for one in single if any(one[0] == span[0] and span[1] <= one[1] <= span[2] for span in allowed)
            ]
            return KnownMember(name, tuple(kept) or single)
        return None
