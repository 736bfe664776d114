# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several inventories given together: Ansible merges their groups and hosts by name, and the last one's variables count for all."""

from __future__ import annotations

import typing as t

from ..._values.refused import quoted
from .variables import Finding

_SHOWN = 5


class Claim(t.NamedTuple):
    """What one inventory alone says of a host.

    ``cluster``: its multicluster_cluster or None; ``group``: the group that has it, "" for the host itself; ``address``: where
    it is reached, or None.
    """

    cluster: t.Optional[str]
    group: str
    address: t.Optional[str]


Sources = t.Mapping[str, t.Mapping[str, Claim]]


def check_sources(sources: Sources, merged: t.Mapping[str, object]) -> t.List[Finding]:
    """Hosts that two inventories claim, and hosts whose own inventory is overruled by another one.

    sources: {inventory: {host: Claim}}, in the order in which they were given. merged: {host: its multicluster_cluster in the end}.
    """
    claims: t.Dict[str, t.List[t.Tuple[str, Claim]]] = {}
    for source, hosts in sources.items():
        for host, claim in hosts.items():
            claims.setdefault(host, []).append((source, claim))
    twice = {host: rows for host, rows in claims.items() if _differ(rows)}
    found = [_claimed_twice(host, twice[host]) for host in sorted(twice)]
    overruled: t.Dict[t.Tuple[str, str, str, str], t.List[str]] = {}
    for host in sorted(set(claims) - set(twice)):
        for source, claim in claims[host]:
            if claim.cluster is not None and merged.get(host) != claim.cluster:
                overruled.setdefault((claim.group, source, claim.cluster, str(merged.get(host))), []).append(host)
    for (group, source, own, winner), hosts_of in sorted(overruled.items()):
        found.append(_overruled(group, source, own, winner, hosts_of, sources))
    return found


def _differ(rows: t.Sequence[t.Tuple[str, Claim]]) -> bool:
    clusters = {claim.cluster for dummy, claim in rows if claim.cluster is not None}
    addresses = {claim.address for dummy, claim in rows if claim.address is not None}
    return len(clusters) > 1 or len(addresses) > 1


def _claimed_twice(host: str, rows: t.Sequence[t.Tuple[str, Claim]]) -> Finding:
    said = " and ".join(
        "{0} ({1})".format(source, ", ".join(filter(None, (claim.cluster and "cluster " + claim.cluster, claim.address))) or "no cluster")
        for source, claim in rows
    )
    message = "it is in {0}: Ansible makes one host of them, and what it reads last counts".format(said)
    message += "; give the hosts different names, and each its node_name"
    return Finding("nodes/{0}".format(host), "inventory_hostname", "claimed_twice", message)


def _overruled(group: str, source: str, own: str, winner: str, hosts: t.Sequence[str], sources: Sources) -> Finding:
    other = next((name for name, rows in sources.items() if name != source and any(claim.cluster == winner for claim in rows.values())), None)
    shown = ", ".join(hosts[:_SHOWN]) + (" and {0} more".format(len(hosts) - _SHOWN) if len(hosts) > _SHOWN else "")
    message = "{0} says cluster {1} for {2}, but {3} says {4} for {5}, and the last inventory counts for all of its hosts".format(
        source, quoted(own), shown, other or "another inventory", quoted(winner), "group " + group if group else "them"
    )
    message += "; put the hosts of each cluster into a group of its own name, such as {0}_nodes, and write multicluster_cluster there".format(own)
    message += ', or write multicluster_cluster: "{{ inventory_dir | basename }}" where the inventories\' folders have the names of their clusters'
    return Finding("group {0}".format(group) if group else "nodes/{0}".format(hosts[0]), "multicluster_cluster", "cluster_overruled", message)
