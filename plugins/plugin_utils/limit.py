# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What ``--limit`` leaves of a fabric: the one place that decides which clusters' APIs a limited run may write (decision 68).

Everything is still read and planned whole, since the topology is the inventory's; only writes are limited.
"""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import Groups

#: What a step of the playbook ``leave`` sets of itself: ``{cluster: NAME, side: here or elsewhere, without: bool}``. ``without``: as if the cluster
#: were not in the inventory any more.
LEAVING, HERE = "__leave", "here"


def hosts_inside(hostvars: t.Any, variables: t.Mapping[str, t.Any]) -> frozenset[str] | None:
    """The hosts of the inventory that ``--limit`` leaves; None where the run has no limit.

    hostvars, variables: the task's. Ansible's own inventory answers, which knows patterns, files of names and what is subtracted. Where
    a task does not have it, the hosts of the play are all that is known to be inside.
    """
    if not variables.get("ansible_limit"):
        return None
    found = getattr(hostvars, "_inventory", None)
    if found is None:
        return frozenset(str(name) for name in variables.get("ansible_play_hosts_all") or ())
    return frozenset(str(host.name) for host in found.get_hosts(ignore_restrictions=True))


def clusters_inside(
    hostvars: t.Any, groups: Groups, clusters_group: str, variables: t.Mapping[str, t.Any]
) -> frozenset[str] | None:
    """The clusters with APIs that a run may write; None where it has no limit, and so all of them.

    Those with their host inside, and those with all their nodes inside. hostvars, groups: of with_clusters.
    """
    inside = hosts_inside(hostvars, variables)
    if inside is None:
        return None
    return clusters_of(groups.get(clusters_group, ()), nodes_of_clusters(hostvars, groups), inside)


def nodes_of_clusters(hostvars: t.Any, groups: Groups) -> dict[str, list[str]]:
    """Cluster -> its nodes, as the inventory names them."""
    nodes: dict[str, list[str]] = {}
    for host in sorted({str(host) for members in groups.values() for host in members}):
        given = hostvars[host]
        if "multicluster_cluster" in given:
            nodes.setdefault(str(given["multicluster_cluster"]), []).append(host)
    return nodes


def clusters_of(
    clusters: t.Iterable[str], nodes: t.Mapping[str, t.Collection[str]], inside: frozenset[str]
) -> frozenset[str]:
    """Clusters with an API that a limited run may write. nodes: of nodes_of_clusters."""
    return frozenset(
        str(name)
        for name in clusters
        if str(name) in inside or (nodes.get(str(name)) and inside.issuperset(nodes[str(name)]))
    )


def of_leaving(clusters: t.Iterable[str], leaving: t.Mapping[str, t.Any]) -> frozenset[str]:
    """The clusters that a step of the playbook ``leave`` writes: the one that leaves, or the others. leaving: the value of ``LEAVING``."""
    gone = str(leaving["cluster"])
    return frozenset({gone} if leaving["side"] == HERE else {str(name) for name in clusters} - {gone})


def narrowed(
    asked: t.Sequence[str], clusters: t.Collection[str], inside: t.Collection[str] | None
) -> tuple[list[str], list[str]]:
    """(names that may be written, clusters that stay as they are). asked: what a task names, empty for all clusters.

    A name that no cluster has stays, so that whoever reads the list reports it.
    """
    names = list(asked) or sorted(clusters)
    if inside is None:
        return list(asked), []
    return [name for name in names if name in inside or name not in clusters], sorted(
        name for name in names if name in clusters and name not in inside
    )
