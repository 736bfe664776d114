# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_nodes
short_description: Nodes of Kubernetes clusters as hosts
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Asks the API server of every cluster for its nodes and makes each of them a host of the group C(CLUSTER_nodes), with the
    variables that the mesh needs. The clusters themselves stay in an inventory of their own.
  - The source is a YAML file with a name that ends in C(cluster_nodes.yml) or C(cluster_nodes.yaml).
  - The inventory is trusted, what a cluster reports of its nodes is not. An address counts only inside the C(node_cidrs) of its
    cluster. A node is left out, with a warning, where its name is one that Ansible knows (V(all), V(localhost)), that of a group, of a cluster
    or of a host that is no node of this cluster, or where it ends as files of variables do (V(web.yml)).
  - The inventory's own hosts of a cluster get C(node_labels), C(node_roles) and C(node_name), where they have none, and never a connection variable.
  - Nodes of two clusters with one name become C(CLUSTER-NODE) both.
requirements:
  - kubernetes (Python library, 25 or newer) on the controller
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices: [multicluster.network.cluster_nodes]
  clusters:
    description:
      - The clusters, each a dictionary with C(name), the access to its API server and C(node_cidrs). The access has the options of
        M(multicluster.network.mesh_plan), such as C(kubeconfig), C(context), C(api_url), C(token_file) and C(ca_cert).
      - Without it, the clusters are those of the variable C(multicluster_fabric_clusters) of the group C(all), or the hosts of O(clusters_group),
        in sources that were read before this one, with the same variables. Sources of one directory are read in the order of their names.
    type: list
    elements: dict
  clusters_group:
    description: The group of the clusters' hosts when O(clusters) is not given.
    type: str
    default: clusters
  kubeconfig:
    description: Path of the kubeconfig of clusters that name no access of their own. Each is then found by its C(context).
    type: path
    env:
      - name: MULTICLUSTER_KUBECONFIG
      - name: K8S_AUTH_KUBECONFIG
  address:
    description:
      - Which of a node's addresses becomes C(ansible_host). V(Hostname) is the node's name, for clusters with names that resolve.
        V(none) sets nothing, for hosts that are reached in another way.
    type: str
    choices: [InternalIP, ExternalIP, Hostname, none]
    default: InternalIP
    env:
      - name: MULTICLUSTER_NODE_ADDRESS
  connection:
    description:
      - V(node_pod) reaches the nodes through the API servers of their clusters, by P(multicluster.network.node_pod#connection). O(address) and
        C(node_cidrs) have no part in it then.
      - V(none) leaves it to the inventory how they are reached.
    type: str
    choices: [none, node_pod]
    default: none
    env:
      - name: MULTICLUSTER_NODE_CONNECTION
  label_selector:
    description: Only nodes with these labels.
    type: str
    env:
      - name: MULTICLUSTER_NODE_SELECTOR
  node_names:
    description:
      - How hosts are called. V(plain) is the name of the Node, V(prefixed) is C(CLUSTER-NODE), for clusters with nodes of equal names
        or names that the inventory has for something else.
    type: str
    choices: [plain, prefixed]
    default: plain
    env:
      - name: MULTICLUSTER_NODE_NAMES
  timeout:
    description: Seconds for everything that is read from one cluster. Clusters are read side by side.
    type: float
    default: 60
    env:
      - name: MULTICLUSTER_TIMEOUT
  skip_failed:
    description:
      - Go on without the nodes of a cluster that could not be read, with a warning.
      - By default the source fails, since an inventory that lacks hosts looks like one that was made smaller on purpose.
    type: bool
    default: false
    env:
      - name: MULTICLUSTER_SKIP_FAILED
extends_documentation_fragment:
  - constructed
  - inventory_cache
notes:
  - O(keyed_groups) makes groups out of what a cluster reports, so none of its groups is one that the inventory has already, or is called like a host
    or a cluster. Write such a group's name in O(groups), if nodes are to join it.
  - Sources that are read later can give hosts and groups names that nodes have already. Let this source be the last.
  - Variables of each host are C(node_name), C(node_labels), C(node_roles), C(ansible_host) by O(address), and by its group
    C(multicluster_cluster). With O(connection=node_pod) also C(ansible_connection), C(ansible_python_interpreter) and C(ansible_node_pod_access).
    Labels that Kubernetes would not accept are left out.
  - The cache holds names, labels and addresses of nodes, no credential.
seealso:
  - module: multicluster.network.mesh_plan
"""

EXAMPLES = r"""
# inventory/10-clusters.yml:
# clusters:
#   hosts:
#     aws: {kubeconfig: ~/.kube/aws, node_cidrs: [10.66.23.0/24], pod_cidrs: [10.2.0.0/16], service_cidrs: [10.3.0.0/16]}
#     gcp: {kubeconfig: ~/.kube/gcp, node_cidrs: [10.22.22.0/24], pod_cidrs: [10.4.0.0/16], service_cidrs: [10.5.0.0/16]}

# inventory/20-cluster_nodes.yml:
---
plugin: multicluster.network.cluster_nodes
label_selector: "!node.kubernetes.io/exclude-from-mesh"
keyed_groups:
  - key: node_roles
    prefix: kube

# Nodes without SSH: the same, and two kubeconfigs are all that there is to write.
# plugin: multicluster.network.cluster_nodes
# connection: node_pod
"""

import re
import typing as t

from ansible import constants
from ansible.errors import AnsibleParserError
from ansible.inventory.helpers import get_group_vars
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.vars import combine_vars
from ansible.vars.plugins import get_vars_from_inventory_sources
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import cluster_nodes
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import by_our_names
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import ACCESS_OPTIONS
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.node_hosts import Names
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.module_utils._values.text import parse_cluster_name
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import FABRIC_CLUSTERS, NODE_POD
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_groups import ClaimedGroups

_SUFFIXES = ("cluster_nodes.yml", "cluster_nodes.yaml")
#: What gives access; one of them must come from the cluster itself, or O(kubeconfig) is taken.
_WAYS_IN = ("kubeconfig", "api_url")


def _trusted(text: str) -> t.Any:
    """A template of this plugin, which ansible-core 2.19 and newer resolve only where they trust it."""
    try:
        from ansible.template import trust_as_template
    except ImportError:
        return text
    return trust_as_template(text)


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Hosts of the clusters' own Node objects."""

    NAME = "multicluster.network.cluster_nodes"
    inventory: t.Any

    def verify_file(self, path: str) -> bool:
        """True for sources of this plugin, by their names."""
        return super().verify_file(path) and path.endswith(_SUFFIXES)

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        """Add hosts and groups. Raises AnsibleParserError, which names the variable to fix."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        self.load_cache_plugin()
        try:
            clusters = self._clusters(path)
            read = self._read(clusters, self.get_cache_key(path), cache)
            ranges = {name: self._node_cidrs(name, entry) for name, entry in clusters.items()}
            groups = self._groups(clusters)
            names = self._names(clusters, groups, read)
            found = cluster_nodes.hosts(read, ranges, self._address(), names, self.get_option("node_names"))
        except ValueRefused as error:
            raise AnsibleParserError(f"{path}: {error.message} [{error.reason}]") from None
        for refusal in found.refused:
            self.display.warning(f"node {refusal.object} is no host: {refusal.message} [{refusal.reason}]")
        for cluster, node, name in found.renamed:
            self.display.warning(
                f"node {cluster}/{node} is the host {name}, since another cluster has a node {node}, too"
            )
        known = set(self.inventory.hosts)  # before the first node is added
        for cluster, rows in found.hosts.items():
            self.inventory.add_group(groups[cluster])
            self.inventory.set_variable(groups[cluster], "multicluster_cluster", cluster)
            way = self._way(cluster, clusters[cluster])
            for row in rows:
                self._add(groups[cluster], row, way if row.name not in known else None)
        claimed = ClaimedGroups(
            self.inventory, names.reserved
        )  # which knows all hosts now: no group takes the name of one
        for rows in found.hosts.values():
            for row in rows:
                self._construct(row, row.name not in known, claimed)
        for text in claimed.refused():
            self.display.warning(text)

    # --- what is asked ------------------------------------------------------------------------------------------

    def _clusters(self, path: str) -> dict[str, dict[str, t.Any]]:
        """{cluster: its access and node_cidrs}, from the source or from the group of clusters."""
        given = self.get_option("clusters")
        rows = self._of_group() if given is None else [self._templated(by_our_names(row), {}) for row in given]
        if not rows:
            message = "{0}: there are no clusters; give them here, or as hosts of the group {1} or as {2} in a source that is read before"
            raise AnsibleParserError(message.format(path, self.get_option("clusters_group"), FABRIC_CLUSTERS))
        clusters: dict[str, dict[str, t.Any]] = {}
        for row in rows:
            name = parse_cluster_name(row.get("name"))
            if name in clusters:
                raise ValueRefused("duplicate_remote_name", f"clusters names {name} twice")
            if not any(row.get(key) for key in _WAYS_IN) and self.get_option("kubeconfig"):
                row["kubeconfig"] = self.get_option("kubeconfig")
            clusters[name] = row
        return clusters

    def _of_group(self) -> list[dict[str, t.Any]]:
        group = self.inventory.groups.get(self.get_option("clusters_group"))
        sources = getattr(self.inventory, "processed_sources", None) or []
        listed = self._of_variable(sources)
        if listed:
            return listed
        rows = []
        for host in group.get_hosts() if group else ():
            known = get_group_vars(host.get_groups())
            known = combine_vars(known, get_vars_from_inventory_sources(self.loader, sources, host.get_groups(), "all"))
            known = combine_vars(known, host.get_vars())
            known = combine_vars(known, get_vars_from_inventory_sources(self.loader, sources, [host], "all"))
            row = {key: known[key] for key in (*ACCESS_OPTIONS, "node_cidrs") if key in known and key != "name"}
            rows.append(dict(self._templated(row, dict(known, inventory_hostname=host.name)), name=host.name))
        return rows

    def _of_variable(self, sources: t.Sequence[str]) -> list[dict[str, t.Any]]:
        """The clusters of the variable, which the group all has."""
        everyone = self.inventory.groups.get("all")
        if everyone is None:
            return []
        known = combine_vars(
            everyone.get_vars(), get_vars_from_inventory_sources(self.loader, sources, [everyone], "all")
        )
        given = known.get(FABRIC_CLUSTERS)
        if isinstance(given, str):
            given = self._templated({FABRIC_CLUSTERS: given}, known)[FABRIC_CLUSTERS]
        if not given:
            return []
        if not isinstance(given, t.Mapping) or not all(isinstance(entry, t.Mapping) for entry in given.values()):
            raise ValueRefused("bad_type", f"{FABRIC_CLUSTERS} has the variables of each cluster by its name")
        rows = []
        for name in sorted(given, key=str):
            row = {
                key: given[name][key] for key in (*ACCESS_OPTIONS, "node_cidrs") if key in given[name] and key != "name"
            }
            rows.append(dict(self._templated(row, known), name=str(name)))
        return rows

    def _templated(self, row: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Values of the operator's own files may be templates, such as a lookup of a secret."""
        self.templar.available_variables = dict(self._vars or {}, **variables)
        return {key: self.templar.template(value) for key, value in row.items()}

    def _node_cidrs(self, name: str, entry: t.Mapping[str, t.Any]) -> list[str]:
        ranges = entry.get("node_cidrs") or []
        needs = self._address() in ("InternalIP", "ExternalIP")
        if not isinstance(ranges, (list, tuple)) or (needs and not ranges):
            raise ValueRefused(
                "missing_grant", f"cluster {name}: node_cidrs must list the ranges of its nodes' addresses"
            )
        return [str(text) for text in ranges]

    def _address(self) -> str:
        """Which address hosts get: a node that is reached by its pod needs none."""
        return "none" if self.get_option("connection") == "node_pod" else str(self.get_option("address"))

    def _way(self, cluster: str, entry: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Variables by which Ansible reaches the nodes of a cluster, if this source sets it."""
        if self.get_option("connection") != "node_pod":
            return {}
        way: dict[str, t.Any] = {"ansible_connection": NODE_POD, "ansible_python_interpreter": "python3"}
        if self.get_option("clusters") is not None:
            way["ansible_node_pod_access"] = {
                key: entry[key] for key in ACCESS_OPTIONS if key in entry and key != "name"
            }
        elif not self._of_variable(getattr(self.inventory, "processed_sources", None) or []):
            # of the host that is the cluster: a credential stays where it is
            own = "{{ hostvars['%s']['%s'] }}"
            given = [key for key in ACCESS_OPTIONS if key in entry and key != "name"]
            way["ansible_node_pod_access"] = {
                key: _trusted(own % (cluster, key)) if key in self._said(cluster) else entry[key] for key in given
            }
        return way

    def _said(self, cluster: str) -> t.Collection[str]:
        """The names of the variables of a cluster's host."""
        host, sources = self.inventory.hosts[cluster], getattr(self.inventory, "processed_sources", None) or []
        known = set(get_group_vars(host.get_groups())) | set(host.get_vars())
        known |= set(get_vars_from_inventory_sources(self.loader, sources, host.get_groups(), "all"))
        return known | set(get_vars_from_inventory_sources(self.loader, sources, [host], "all"))

    # --- what the inventory has -----------------------------------------------------------------------------------

    def _groups(self, clusters: t.Iterable[str]) -> dict[str, str]:
        """{cluster: the group of its nodes}. Raises ValueRefused where that is another cluster's."""
        groups: dict[str, str] = {}
        for cluster in clusters:
            name = re.sub(r"[^A-Za-z0-9_]", "_", cluster) + "_nodes"
            there = self.inventory.groups.get(name)
            other = next((one for one, group in groups.items() if group == name), None)
            if other is None and there is not None:
                other = there.get_vars().get("multicluster_cluster")
            if other not in (None, cluster) and "{" not in str(other):
                raise ValueRefused(
                    "group_taken", f"nodes of {cluster} would be in the group {name}, which is that of {other}"
                )
            groups[cluster] = name
        return groups

    def _names(self, clusters: t.Collection[str], groups: t.Mapping[str, str], read: t.Mapping[str, t.Any]) -> Names:
        """The names that no node may take, and the hosts that have names of nodes."""
        reserved = dict.fromkeys(groups.values(), "the group of a cluster's nodes")
        reserved.update(
            dict.fromkeys(map(self._sanitize_group_name, self.get_option("groups") or {}), "a group of the inventory")
        )
        reserved.update(dict.fromkeys(self.inventory.groups, "a group of the inventory"))
        group = self.inventory.groups.get(self.get_option("clusters_group"))
        listed = [row["name"] for row in self._of_variable(getattr(self.inventory, "processed_sources", None) or [])]
        everyone = [*clusters, *listed, *((host.name for host in group.get_hosts()) if group else ())]
        reserved.update(dict.fromkeys(everyone, "the name of a cluster"))
        reserved[self.get_option("clusters_group")] = "the group of the clusters"
        reserved.update(dict.fromkeys(("all", "ungrouped"), "Ansible's name for hosts of the whole inventory"))
        reserved.update(dict.fromkeys(constants.LOCALHOST, "Ansible's name for the controller"))
        claimed = {str((node.get("metadata") or {}).get("name")) for nodes in read.values() for node in nodes}
        claimed |= {f"{cluster}-{name}" for cluster in clusters for name in claimed}
        return Names(
            reserved, {name: self._cluster_of_host(name) for name in claimed.intersection(self.inventory.hosts)}
        )

    def _cluster_of_host(self, name: str) -> set[str]:
        """The cluster of which a host of the inventory is a node, from wherever its variables are written; empty for none."""
        host, sources = self.inventory.hosts[name], getattr(self.inventory, "processed_sources", None) or []
        known = combine_vars(
            get_group_vars(host.get_groups()),
            get_vars_from_inventory_sources(self.loader, sources, host.get_groups(), "all"),
        )
        known = combine_vars(
            known, combine_vars(host.get_vars(), get_vars_from_inventory_sources(self.loader, sources, [host], "all"))
        )
        found = self._cluster_of(known, dict(known, inventory_hostname=name))
        return set() if found is None else {found}

    def _cluster_of(self, known: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> str | None:
        if known.get("multicluster_cluster") is None:
            return None
        return str(
            self._templated({"multicluster_cluster": known["multicluster_cluster"]}, variables)["multicluster_cluster"]
        )

    # --- what is read -------------------------------------------------------------------------------------------

    def _read(self, clusters: t.Mapping[str, dict[str, t.Any]], key: str, use_cache: bool) -> dict[str, t.Any]:
        cached: dict[str, t.Any] = {}
        if self.get_option("cache") and use_cache:
            try:
                cached = {name: nodes for name, nodes in self._cache[key].items() if name in clusters}
            except KeyError:
                cached = {}
        accesses = {
            name: {key: entry[key] for key in ACCESS_OPTIONS if key in entry} for name, entry in clusters.items()
        }
        ask = [access for name, access in accesses.items() if name not in cached]
        read, failures = (
            cluster_nodes.gather(ask, self.get_option("label_selector"), self.get_option("timeout"))
            if ask
            else ({}, [])
        )
        texts = ["cluster {cluster}: {message} [{reason}]".format(**failure) for failure in failures]
        if texts and not self.get_option("skip_failed"):
            raise AnsibleParserError("; ".join(texts))
        for text in texts:
            self.display.warning(text)
        read.update(cached)
        if self.get_option("cache"):
            self._cache[key] = read
        return read

    # --- what is added ------------------------------------------------------------------------------------------

    def _add(self, group: str, row: t.Any, way: t.Mapping[str, t.Any] | None) -> None:
        """Add one host. way: None for one that was in the inventory, which keeps what it has, and how Ansible connects to it."""
        made = way is not None
        self.inventory.add_host(row.name, group=group)
        host = self.inventory.get_host(row.name)
        known = host.get_vars() if made else combine_vars(get_group_vars(host.get_groups()), host.get_vars())
        variables = {"node_name": row.node_name, "node_labels": row.labels, "node_roles": row.roles, **(way or {})}
        if row.address is not None and made:
            variables["ansible_host"] = row.address
        for key, value in variables.items():
            if key not in known:  # what the inventory sets by hand wins
                self.inventory.set_variable(row.name, key, value)

    def _construct(self, row: t.Any, made: bool, claimed: ClaimedGroups) -> None:
        """Set variables and make groups as the source's options say."""
        known = self.inventory.get_host(row.name).get_vars()
        strict = self.get_option("strict")
        compose = self.get_option("compose") or {}
        if not made:
            compose = {
                key: value for key, value in compose.items() if key not in known and not key.startswith("ansible_")
            }
        self._set_composite_vars(compose, known, row.name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), known, row.name, strict=strict)
        inventory = self.inventory
        for entry in self.get_option("keyed_groups") or []:
            self.inventory = claimed.of(row.name, self._sanitize_group_name, entry)
            try:
                self._add_host_to_keyed_groups([entry], known, row.name, strict=strict)
            finally:
                self.inventory = inventory
