# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""The inventory's definition of the fabric, out of Ansible's own variables: ``hostvars`` is any mapping of hosts to their variables.

Hosts outside ``--limit`` take part, because the topology is the inventory's and not that of the running play.
"""

from __future__ import annotations

import collections
import collections.abc
import ipaddress
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import gives_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import ACCESS_OPTIONS
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.pools import parse_bounds
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.setup import pool_texts
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.variables import CLUSTER_VARIABLES
from ansible_collections.multicluster.network.plugins.module_utils._status.redact import secrets_of
from ansible_collections.multicluster.network.plugins.module_utils._status.results import PREFIX
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused, quoted

Groups = t.Mapping[str, t.Sequence[str]]

#: The clusters as a variable of the group all: a job over some of the hosts has every cluster then.
FABRIC_CLUSTERS = "multicluster_fabric_clusters"
#: Has the variables of clusters that are no hosts; no play contacts it.
SPEAKER = "localhost"
_GROUP, _GROUP_VARIABLE, _CAPABILITIES = "clusters", "multicluster_clusters_group", "multicluster_capabilities"
#: What a host of a cluster may set for itself although the variable has the cluster: its place as a node.
_OF_HOSTS = ("multicluster_cluster", "node_name")

#: The connection by pods on nodes.
NODE_POD = "multicluster.network.node_pod"
#: What a node's host may carry for this collection.
NODE_VARIABLES = ("multicluster_cluster", "node_name", "wireguard_endpoint", "node_pod_cidrs")
#: Out of which the networks that load balancing hands out follow.
_POOLS, _CONTROL_PLANE = "load_balancers_settings", "control_plane_address_ip"


class FabricVars:
    """hostvars with the clusters of the variable: theirs is the entry, and the results that the run has of them."""

    def __init__(
        self, hostvars: t.Any, entries: t.Mapping[str, t.Mapping[str, t.Any]], hosts: t.Collection[str]
    ) -> None:
        self._hostvars, self._entries, self._hosts = hostvars, entries, hosts
        self._made: dict[str, t.Any] = {}

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._hostvars, name)

    def __getitem__(self, host: str) -> t.Any:
        if host not in self._entries:
            return self._hostvars[host]
        if host not in self._made:
            self._made[host] = collections.ChainMap(
                dict(self._entries[host]),
                t.cast(t.Any, _Spoken(self._hostvars, host if host in self._hosts else SPEAKER)),
            )
        return self._made[host]


class _Spoken(collections.abc.Mapping[str, t.Any]):
    """Of a host's variables what it has for a cluster: results of the run, and the capabilities. Nothing where it is no host."""

    def __init__(self, hostvars: t.Any, host: str) -> None:
        self._hostvars, self._host = hostvars, host

    def __getitem__(self, name: str) -> t.Any:
        if not (name.startswith(PREFIX) or name == _CAPABILITIES):
            raise KeyError(name)
        try:
            return self._hostvars[self._host][name]
        except TypeError:
            raise KeyError(name) from None

    def __iter__(self) -> t.Iterator[str]:
        try:
            names = list(self._hostvars[self._host])
        except (KeyError, TypeError):
            names = []
        return (name for name in names if name.startswith(PREFIX) or name == _CAPABILITIES)

    def __len__(self) -> int:
        return sum(1 for _name in self)


def with_clusters(hostvars: t.Any, groups: Groups, clusters_group: str = _GROUP) -> tuple[t.Any, Groups]:
    """(hostvars, groups) in which the clusters of ``multicluster_fabric_clusters`` look as if they were hosts of the clusters' group.

    One host is asked for the variable, since the group all has it. Raises ValueRefused where it cannot be used, or where hosts of the group
    say something else: a job that has not all hosts would plan another fabric.
    """
    if isinstance(hostvars, FabricVars):
        return hostvars, groups
    hosts = {str(host) for members in groups.values() for host in members}
    try:
        given = hostvars[min(hosts) if hosts else SPEAKER]
        entries = given.get(FABRIC_CLUSTERS, None)
        group = str(given[_GROUP_VARIABLE]) if _GROUP_VARIABLE in given else _GROUP
    except (KeyError, TypeError):
        return hostvars, groups
    if entries in (None, {}) or clusters_group not in (_GROUP, group):
        return hostvars, groups
    if not isinstance(entries, t.Mapping) or not all(isinstance(entry, t.Mapping) for entry in entries.values()):
        text = "{0} has the variables of each cluster by its name, such as {{aws: {{pod_cidrs: [10.2.0.0/16]}}}}"
        raise ValueRefused("bad_type", text.format(FABRIC_CLUSTERS))
    named = {str(name): entry for name, entry in entries.items()}
    members = [str(host) for host in groups.get(clusters_group, ())]
    for host in members:
        if host not in named:
            message = "host {0} of group {1} is not in {2}, which has every cluster of the fabric; add it there, or take the host out of the group"
            raise ValueRefused("cluster_not_listed", message.format(quoted(host), clusters_group, FABRIC_CLUSTERS))
        _check_alike(host, named[host], hostvars[host])
    return FabricVars(hostvars, named, hosts), {**groups, clusters_group: sorted(named)}


def without_cluster(hostvars: t.Any, groups: Groups, cluster: str) -> tuple[t.Any, Groups]:
    """(hostvars, groups) of the fabric as it is once the cluster and its nodes have left. hostvars, groups: of with_clusters."""

    def stays(host: str) -> bool:
        return host != cluster and str(hostvars[host].get("multicluster_cluster")) != cluster

    left = {name: [host for host in map(str, hosts) if stays(host)] for name, hosts in groups.items()}
    return (hostvars if isinstance(hostvars, FabricVars) else FabricVars(hostvars, {}, ())), left


def _check_alike(host: str, entry: t.Mapping[str, t.Any], given: t.Any) -> None:
    """Raises ValueRefused where a cluster's host has a variable of the cluster that its entry does not: only some jobs would see the host."""
    for name in (*CLUSTER_VARIABLES, *ACCESS_OPTIONS):
        if name in given and name not in (*_OF_HOSTS, "name") and (name not in entry or entry[name] != given[name]):
            message = "{0} of host {1} is not the value of {2}.{1}; write it there alone"
            raise ValueRefused("cluster_given_twice", message.format(name, host, FABRIC_CLUSTERS))


def cluster_access(hostvars: t.Any, groups: Groups, clusters_group: str = "clusters") -> list[dict[str, t.Any]]:
    """The option ``clusters`` of every module: one row for each host of the group."""
    hostvars, groups = with_clusters(hostvars, groups, clusters_group)
    rows = [
        {
            "name": str(host),
            **{name: hostvars[host][name] for name in ACCESS_OPTIONS if name != "name" and name in hostvars[host]},
        }
        for host in sorted(groups.get(clusters_group, ()))
    ]
    for row in rows if len(rows) > 1 else ():
        if not gives_access(row):
            row["kubeconfig"] = (
                ""  # what the environment has is meant for one cluster: none takes it, nor where a task asks it alone
            )
    return rows


def fabric_definition(hostvars: t.Any, groups: Groups, clusters_group: str = "clusters") -> dict[str, t.Any]:
    """``{clusters: {name: variables}, nodes: {host: variables}}``: the variables that concern us.

    The names of all others of a cluster travel along without values, to find misspelt ones.
    """
    hostvars, groups = with_clusters(hostvars, groups, clusters_group)
    clusters = {}
    for host in sorted(groups.get(clusters_group, ())):
        given = hostvars[host]
        clusters[str(host)] = {
            name: given[name] if name in CLUSTER_VARIABLES else None
            for name in given
            if not name.startswith("ansible_")
        }
        balanced = _balanced(given)
        if balanced:
            own = given.get("floating_cidrs", None)
            own = [own] if isinstance(own, str) else own or []
            clusters[str(host)]["floating_cidrs"] = [*own, *balanced] if isinstance(own, (list, tuple)) else own
    nodes = {}
    for host in sorted({host for members in groups.values() for host in members}):
        given = hostvars[host]
        if "multicluster_cluster" in given:
            nodes[str(host)] = {name: given[name] for name in NODE_VARIABLES if name in given}
    return {"clusters": clusters, "nodes": nodes}


def _balanced(given: t.Any) -> list[str]:
    """Networks of a cluster's pools and its control plane's address. What is wrong with those variables is for their capability to say."""
    try:
        settings = given.get(_POOLS, None)
        texts = [
            *(pool_texts(settings) if isinstance(settings, t.Mapping) else ()),
            *([given[_CONTROL_PLANE]] if _CONTROL_PLANE in given else ()),
        ]
    except Exception:  # pylint: disable=broad-except
        return []  # a template that has no value here
    found: list[str] = []
    for text in texts:
        try:
            found.extend(map(str, ipaddress.summarize_address_range(*parse_bounds(text))))
        except ValueRefused:
            continue
    return found


def managed_clusters(definition: t.Mapping[str, t.Any]) -> list[str]:
    """The clusters that this fabric writes to by default, sorted: those with managed nodes, or all where none has any (decision 66).

    A neighbour of which only the API server is known has another owner: it is read, and written to where a variable names it.
    """
    with_nodes = {str(node["multicluster_cluster"]) for node in definition["nodes"].values()}
    named = sorted(definition["clusters"])
    return [name for name in named if name in with_nodes] or named


def secret_values(hostvars: t.Any, hosts: t.Iterable[str]) -> set[str]:
    """The texts of variables that have names of secrets, such as passwords, tokens and private keys, at any depth."""
    found: set[str] = set()
    for host in hosts:
        given = hostvars[host]
        for name in list(given):
            if name.startswith(("__", PREFIX)) or name in ("hostvars", "vars", "groups"):
                continue
            try:
                value = given[name]
            except Exception:  # pylint: disable=broad-except
                continue  # a variable that is no value here, such as one that refers to another play's
            found |= secrets_of(value, str(name))
    return found


def node_pod_hosts(hostvars: t.Any, groups: Groups) -> dict[str, list[str]]:
    """Cluster -> its hosts that are reached by the connection node_pod."""
    found: dict[str, list[str]] = {}
    for host in sorted({str(host) for host in groups.get("all", ())}):
        given = hostvars[host]
        if given.get("ansible_connection", None) == NODE_POD and given.get("multicluster_cluster", None):
            found.setdefault(str(given["multicluster_cluster"]), []).append(host)
    return found
