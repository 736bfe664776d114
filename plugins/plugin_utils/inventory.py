# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What the inventory says of the fabric, out of Ansible's own variables: ``hostvars`` is any mapping of hosts to their variables.

Hosts outside ``--limit`` take part, because the topology is the inventory's and not that of the running play.
"""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import gives_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import ACCESS_OPTIONS
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.variables import CLUSTER_VARIABLES
from ansible_collections.multicluster.network.plugins.module_utils._status.redact import secrets_of

Groups = t.Mapping[str, t.Sequence[str]]

#: What a node's host may carry for this collection.
NODE_VARIABLES = ("multicluster_cluster", "node_name")


def cluster_access(hostvars: t.Any, groups: Groups, clusters_group: str = "clusters") -> t.List[t.Dict[str, t.Any]]:
    """The option ``clusters`` of every module: one row for each host of the group."""
    rows = [
        {"name": str(host), **{name: hostvars[host][name] for name in ACCESS_OPTIONS if name != "name" and name in hostvars[host]}}
        for host in sorted(groups.get(clusters_group, ()))
    ]
    for row in rows if len(rows) > 1 else ():
        if not gives_access(row):
            row["kubeconfig"] = ""  # what the environment says is meant for one cluster: none takes it, nor where a task asks it alone
    return rows


def fabric_definition(hostvars: t.Any, groups: Groups, clusters_group: str = "clusters") -> t.Dict[str, t.Any]:
    """``{clusters: {name: variables}, nodes: {host: variables}}``: the variables that concern us.

    The names of all others of a cluster travel along without values, to find misspelt ones.
    """
    clusters = {}
    for host in groups.get(clusters_group, ()):
        given = hostvars[host]
        clusters[str(host)] = {name: given[name] if name in CLUSTER_VARIABLES else None for name in given if not name.startswith("ansible_")}
    nodes = {}
    for host in sorted({host for members in groups.values() for host in members}):
        given = hostvars[host]
        if "multicluster_cluster" in given:
            nodes[str(host)] = {name: given[name] for name in NODE_VARIABLES if name in given}
    return {"clusters": clusters, "nodes": nodes}


def secret_values(hostvars: t.Any, hosts: t.Iterable[str]) -> t.Set[str]:
    """The texts of variables whose names say that they are secret, such as passwords, tokens and private keys, at any depth."""
    found: t.Set[str] = set()
    for host in hosts:
        given = hostvars[host]
        for name in list(given):
            if name.startswith("__") or name in ("hostvars", "vars", "groups"):
                continue
            try:
                value = given[name]
            except Exception:  # pylint: disable=broad-except
                continue  # a variable that is no value here, such as one that refers to another play's
            found |= secrets_of(value, str(name))
    return found
