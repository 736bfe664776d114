# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups and hosts of the inventory: who has a variable, as text, and groups that conflict with a cluster's.

Of several inventories given together Ansible merges groups and hosts by name, and the last one's variables count for all.
"""

from __future__ import annotations

import typing as t

from ..._values.refused import quoted
from ..._values.text import in_short
from .variables import Finding

#: So many hosts are named: of a variable, of an inventory.
_SHOWN, _SHOWN_HOSTS = 3, 5
#: The reason of a finding that is the real cause of every variable which a cluster's host seems to lack.
SHADOWED = "group_named_like_cluster"


def placer(groups: t.Mapping[str, t.Sequence[str]]) -> t.Callable[[t.Sequence[str]], str]:
    """A function that names hosts by their group where there is one: ``all hosts``, ``group aws_nodes``, ``host a``, ``hosts a, b``."""
    everyone = {host for hosts in groups.values() for host in hosts}
    by_hosts: dict[frozenset[str], str] = {}
    for group in sorted(groups):
        if group not in ("all", "ungrouped") and len(groups[group]) > 1:
            by_hosts.setdefault(frozenset(groups[group]), group)

    def place(hosts: t.Sequence[str]) -> str:
        if len(hosts) > 1 and set(hosts) == everyone:
            return "all hosts"
        group = by_hosts.get(frozenset(hosts))
        if group is not None:
            return f"group {group}"
        if len(hosts) == 1:
            return f"host {hosts[0]}"
        return f"hosts {in_short(sorted(hosts), _SHOWN)}"

    return place


def check_groups(
    groups: t.Mapping[str, t.Sequence[str]],
    clusters_group: str,
    clusters: t.Mapping[str, object],
    without_pods: t.Collection[str],
    with_pods: t.Collection[str],
) -> list[Finding]:
    """Clusters without hosts, and groups with a cluster's name.

    clusters: {host: its multicluster_cluster}. without_pods: hosts of the clusters' group that lack pod_cidrs. with_pods: all hosts
    that have them: Ansible gives what is written for the host to a group of the same name that it read before.
    """
    found = []
    used = {str(cluster) for cluster in clusters.values()}
    for cluster in sorted(groups.get(clusters_group, ())):
        where = f"clusters/{cluster}"
        if cluster in groups:
            taken = cluster in without_pods and (not groups[cluster] or set(groups[cluster]) & set(with_pods))
            message = f"a group has the name of this cluster's host, {quoted(cluster)}, and Ansible "
            message += (
                "gave the host's variables, pod_cidrs too, to it"
                if taken
                else "gives the variables of one to the other when it reads the group first"
            )
            message += f"; rename the group, for example to {cluster}_nodes"
            found.append(Finding(where, "inventory_hostname", SHADOWED, message, "error" if taken else "warning"))
        if cluster not in used:
            message = f"no host has multicluster_cluster: {cluster}, so no node of it joins the mesh; write it for the hosts of the cluster"
            found.append(Finding(where, "multicluster_cluster", "cluster_without_hosts", message, "warning"))
    return found


def check_machines(rows: t.Iterable[tuple[str, t.Sequence[str]]]) -> list[Finding]:
    """Machines that are nodes under two names, which would undo each other's work. rows: (address, the hosts that it leads to)."""
    found = []
    for address, hosts in sorted(rows):
        first, *others = sorted(hosts)
        for host in others:
            message = (
                f"its address {quoted(address)} is also that of {quoted(first)}: one machine cannot be two nodes; "
                "remove one, or write its own ansible_host"
            )
            found.append(Finding(f"nodes/{host}", "ansible_host", "machine_twice", message))
    return found


def check_capabilities(
    variable: str,
    rows: t.Iterable[tuple[t.Any, t.Sequence[str]]],
    clusters: t.Collection[str],
    nodes: t.Collection[str],
) -> list[Finding]:
    """A list of capabilities that not everybody has: one cluster decides for all, and nodes announce by their own list.

    rows: (value, the hosts that have it). Nodes without one agree, unless there is something to announce.
    """
    of: dict[str, frozenset[str]] = {}
    for value, hosts in rows:
        if isinstance(value, (list, tuple)):
            of.update((host, frozenset(map(str, value))) for host in hosts)
    said = {cluster: of.get(cluster, frozenset()) for cluster in clusters}
    first = said[min(said)] if said else frozenset()
    others = [(cluster, said[cluster]) for cluster in sorted(said) if said[cluster] != first]
    others += [(node, of[node]) for node in sorted(nodes) if node in of and of[node] != first]
    if "load_balancers" in first:
        others += [(node, frozenset()) for node in sorted(nodes) if node not in of]
    if not others:
        return []
    host, differs = others[0]
    message = "{0} has {1}, but {2} has {3}{4}; write it once, in group_vars/all".format(
        min(said) if said else "no cluster",
        _listed(first),
        host,
        _listed(differs),
        " and so do others" if len(others) > 1 else "",
    )
    return [Finding("group all", variable, "capabilities_differ", message)]


def _listed(names: t.Collection[str]) -> str:
    return "[{0}]".format(", ".join(sorted(quoted(name).strip("'") for name in names)))


class Claim(t.NamedTuple):
    """What one inventory alone has of a host.

    ``cluster``: its multicluster_cluster or None; ``group``: the group that has it, "" for the host itself; ``address``: where
    it is reached, or None; ``rivals``: (group, cluster) of groups that have another cluster and are neither above nor below ``group``.
    """

    cluster: str | None
    group: str
    address: str | None
    rivals: tuple[tuple[str, str], ...] = ()


Sources = t.Mapping[str, t.Mapping[str, Claim]]


def strangers_in_groups(groups: t.Mapping[str, t.Collection[str]], clusters: t.Mapping[str, object]) -> list[str]:
    """Hosts in a group of which all other members belong to one other cluster: where the inventory is worth a closer look.

    groups: {group: hosts}. clusters: {host: its multicluster_cluster}.
    """
    found: set[str] = set()
    for group, hosts in groups.items():
        counts: dict[str, list[str]] = {}
        for host in hosts:
            counts.setdefault(str(clusters.get(host, "")), []).append(host)
        if group != "all" and len(counts) == 2:
            found.update(
                host for members in counts.values() if len(members) == 1 for host in members if host in clusters
            )
            # two hosts of two clusters: either may be the stranger
    return sorted(found)


def check_rivals(sources: Sources) -> list[Finding]:
    """Hosts for which one inventory has two clusters, by groups of which none is within the other: the name's order would decide."""
    found = []
    for rows in sources.values():
        for host, claim in sorted(rows.items()):
            if claim.rivals:
                group, cluster = claim.rivals[0]
                message = (
                    f"group {group} sets cluster {quoted(cluster)}, and group {claim.group} sets {quoted(str(claim.cluster))}: "
                    "a host is a node of one cluster; take it out of one of the groups"
                )
                found.append(Finding(f"nodes/{host}", "multicluster_cluster", "node_in_two_clusters", message))
    return found


def check_sources(sources: Sources, merged: t.Mapping[str, object]) -> list[Finding]:
    """Hosts that two inventories claim, and hosts with an own inventory that another one overrules.

    sources: {inventory: {host: Claim}}, in the order in which they were given. merged: {host: its multicluster_cluster in the end}.
    """
    claims: dict[str, list[tuple[str, Claim]]] = {}
    for source, hosts in sources.items():
        for host, claim in hosts.items():
            claims.setdefault(host, []).append((source, claim))
    twice = {host: rows for host, rows in claims.items() if _differ(rows)}
    found = [_claimed_twice(host, twice[host]) for host in sorted(twice)]
    overruled: dict[tuple[str, str, str, str], list[str]] = {}
    for host in sorted(set(claims) - set(twice)):
        for source, claim in claims[host]:
            if claim.cluster is not None and merged.get(host) != claim.cluster:
                overruled.setdefault((claim.group, source, claim.cluster, str(merged.get(host))), []).append(host)
    for (group, source, own, winner), hosts_of in sorted(overruled.items()):
        found.append(_overruled(group, source, own, winner, hosts_of, sources))
    return found


def _differ(rows: t.Sequence[tuple[str, Claim]]) -> bool:
    clusters = {claim.cluster for dummy, claim in rows if claim.cluster is not None}
    addresses = {claim.address for dummy, claim in rows if claim.address is not None}
    return len(clusters) > 1 or len(addresses) > 1


def _claimed_twice(host: str, rows: t.Sequence[tuple[str, Claim]]) -> Finding:
    said = " and ".join(
        f"{source} ({', '.join(filter(None, (claim.cluster and 'cluster ' + claim.cluster, claim.address))) or 'no cluster'})"
        for source, claim in rows
    )
    message = f"it is in {said}: Ansible makes one host of them, and what it reads last counts"
    message += "; give the hosts different names, and each its node_name"
    return Finding(f"nodes/{host}", "inventory_hostname", "claimed_twice", message)


def _overruled(group: str, source: str, own: str, winner: str, hosts: t.Sequence[str], sources: Sources) -> Finding:
    other = next(
        (
            name
            for name, rows in sources.items()
            if name != source and any(claim.cluster == winner for claim in rows.values())
        ),
        None,
    )
    shown = in_short(hosts, _SHOWN_HOSTS)
    message = "{0} sets cluster {1} for {2}, but {3} sets {4} for {5}, and the last inventory counts for all of its hosts".format(
        source, quoted(own), shown, other or "another inventory", quoted(winner), "group " + group if group else "them"
    )
    message += f"; put the hosts of each cluster into a group of its own name, such as {own}_nodes, and write multicluster_cluster there"
    message += ', or write multicluster_cluster: "{{ inventory_dir | basename }}" where the inventories\' folders have the names of their clusters'
    return Finding(
        f"group {group}" if group else f"nodes/{hosts[0]}", "multicluster_cluster", "cluster_overruled", message
    )
