# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mistakes that people make in an inventory, each with what `validate` has to name."""

from __future__ import annotations

import typing as t

GOOD = """\
clusters:
  hosts:
    aws: {kubeconfig: /k, pod_cidrs: [10.2.0.0/16], service_cidrs: [10.3.0.0/16], node_cidrs: [10.66.23.0/24]}
    gcp: {kubeconfig: /k, pod_cidrs: [10.4.0.0/16], service_cidrs: [10.5.0.0/16], node_cidrs: [10.22.22.0/24]}
  vars: {ansible_connection: local}
aws_nodes: {vars: {multicluster_cluster: aws}, hosts: {aws-1: {}, aws-2: {}}}
gcp_nodes: {vars: {multicluster_cluster: gcp}, hosts: {gcp-1: {}}}
"""


class Mistake(t.NamedTuple):
    """``old`` of the good inventory written as ``new``, or ``files`` alongside it; what must be said, and where."""

    name: str
    where: str
    variable: str
    expected: tuple[str, ...]
    old: str = ""
    new: str = ""
    files: t.Mapping[str, str] = {}
    level: str = "error"


def of_all(text: str) -> t.Mapping[str, str]:
    return {"group_vars/all.yml": text}


MISTAKES = [
    # names that are nobody's
    Mistake(
        "capability misspelt",
        "all hosts",
        "multicluster_capabilities",
        ("did you mean service_mirror?",),
        files=of_all("multicluster_capabilities: [service_miror]"),
    ),
    Mistake(
        "capabilities misspelt",
        "all hosts",
        "multicluster_capabilites",
        ("did you mean multicluster_capabilities?",),
        files=of_all("multicluster_capabilites: [service_mirror]"),
    ),
    Mistake(
        "capability unheard of",
        "all hosts",
        "multicluster_capabilities",
        ("'ingress' is none of service_mirror, mcs, coredns_rewrite, network_sets",),
        files=of_all("multicluster_capabilities: [service_mirror, ingress]"),
    ),
    Mistake(
        "capabilities as text",
        "all hosts",
        "multicluster_capabilities",
        ("is a list", "multicluster_capabilities: [coredns_rewrite]"),
        files=of_all("multicluster_capabilities: coredns_rewrite"),
    ),
    Mistake(
        "capabilities of nodes only",
        "group all",
        "multicluster_capabilities",
        ("aws has [], but aws-1 has [service_mirror]", "group_vars/all"),
        files={"group_vars/aws_nodes.yml": "multicluster_capabilities: [service_mirror]"},
    ),
    Mistake(
        "capabilities of one cluster",
        "group all",
        "multicluster_capabilities",
        ("aws has [], but gcp has [coredns_rewrite]", "group_vars/all"),
        files={"host_vars/gcp.yml": "multicluster_capabilities: [coredns_rewrite]"},
    ),
    Mistake(
        "nodes that would not announce",
        "group all",
        "multicluster_capabilities",
        ("aws has [load_balancers], but aws-1 has []", "and so do others"),
        files={"group_vars/clusters.yml": "multicluster_capabilities: [load_balancers]"},
    ),
    Mistake(
        "serial misspelt",
        "all hosts",
        "multicluster_serail",
        ("did you mean multicluster_serial?",),
        files=of_all("multicluster_serail: 1"),
    ),
    Mistake(
        "serial where it does nothing",
        "all hosts",
        "multicluster_serial",
        ("no effect in the inventory", "-e multicluster_serial="),
        files=of_all("multicluster_serial: 1"),
    ),
    Mistake(
        "option of a role misspelt",
        "group clusters",
        "service_mirror_create_namespce",
        ("did you mean service_mirror_create_namespace?",),
        files={"group_vars/clusters.yml": "service_mirror_create_namespce: true"},
    ),
    Mistake(
        "option of a node misspelt",
        "group aws_nodes",
        "node_dataplane_adpot",
        ("did you mean node_dataplane_adopt?",),
        files={"group_vars/aws_nodes.yml": "node_dataplane_adpot: true"},
    ),
    Mistake(
        "option of one host misspelt",
        "host aws-1",
        "node_dataplane_adpot",
        ("did you mean node_dataplane_adopt?",),
        files={"host_vars/aws-1.yml": "node_dataplane_adpot: true"},
    ),
    Mistake(
        "a node in clusters",
        "group aws_nodes",
        "multicluster_clusters",
        ("did you mean multicluster_cluster?",),
        "vars: {multicluster_cluster: aws}",
        "vars: {multicluster_clusters: aws}",
    ),
    Mistake(
        "an option of the module instead of the role's",
        "all hosts",
        "service_mirror_create_namespaces",
        ("service_mirror_create_namespace?",),
        files=of_all("service_mirror_create_namespaces: true"),
    ),
    Mistake(
        "an option that is not there",
        "all hosts",
        "mesh_frobnicate_everything",
        ("no variable of this collection",),
        files=of_all("mesh_frobnicate_everything: 1"),
    ),
    Mistake(
        "a name in capitals", "all hosts", "mesh_Adopt", ("did you mean mesh_adopt?",), files=of_all("mesh_Adopt: true")
    ),
    Mistake(
        "prefix misspelt",
        "all hosts",
        "multiclster_fabric",
        ("did you mean multicluster_fabric?",),
        files=of_all("multiclster_fabric: x"),
    ),
    Mistake(
        "prefix of a role misspelt",
        "all hosts",
        "node_dataplan_adopt",
        ("did you mean node_dataplane_adopt?",),
        files=of_all("node_dataplan_adopt: true"),
    ),
    Mistake(
        "a letter missing in a prefix",
        "group clusters",
        "service_miror_create_namespace",
        ("did you mean service_mirror_create_namespace?",),
        files={"group_vars/clusters.yml": "service_miror_create_namespace: true"},
    ),
    Mistake(
        "two letters swapped in a prefix",
        "all hosts",
        "laod_balancers_state",
        ("did you mean load_balancers_state?", "multicluster_foreign_variables"),
        files=of_all("laod_balancers_state: absent"),
    ),
    Mistake(
        "a letter too many at the very start",
        "all hosts",
        "mmesh_adopt",
        ("did you mean mesh_adopt?",),
        files=of_all("mmesh_adopt: true"),
    ),
    Mistake(
        "a wrong letter in a prefix",
        "all hosts",
        "nesh_adopt",
        ("did you mean mesh_adopt?",),
        files=of_all("nesh_adopt: true"),
    ),
    Mistake(
        "no line in a prefix",
        "all hosts",
        "servicemirror_state",
        ("did you mean service_mirror_state?",),
        files=of_all("servicemirror_state: absent"),
    ),
    Mistake(
        "two mistakes, one in the prefix",
        "all hosts",
        "multiclster_fabrik",
        ("did you mean multicluster_fabric?",),
        files=of_all("multiclster_fabrik: x"),
        level="warning",
    ),
    Mistake(
        "kind of the mesh",
        "all hosts",
        "multicluster_mesh",
        ("'kubespam' is none of semaphore, kubespan; did you mean kubespan?",),
        files=of_all("multicluster_mesh: kubespam"),
    ),
    Mistake(
        "when node pods are there",
        "all hosts",
        "node_pods",
        ("'during_run' is none of always, during_runs; did you mean during_runs?",),
        files=of_all("node_pods: during_run"),
    ),
    Mistake(
        "kind of the lock",
        "all hosts",
        "multicluster_lock",
        ("'fabrik' is none of controller, fabric, none; did you mean fabric?",),
        files=of_all("multicluster_lock: fabrik"),
    ),
    Mistake(
        "near a name of the names' rewriting",
        "all hosts",
        "coredns_rewrite_global_zones",
        ("did you mean coredns_rewrite_global_zone?",),
        files=of_all("coredns_rewrite_global_zones: true"),
    ),
    Mistake(
        "no group of clusters",
        "all hosts",
        "multicluster_clusters_group",
        ("is empty", "such as multicluster_clusters_group: clusters"),
        files=of_all('multicluster_clusters_group: ""'),
    ),
    Mistake(
        "a group of clusters that is none",
        "all hosts",
        "multicluster_clusters_group",
        ("'sites'", "a group that the inventory has"),
        files=of_all("multicluster_clusters_group: sites"),
    ),
    Mistake(
        "a number in place of names",
        "all hosts",
        "multicluster_foreign_variables",
        ("'0'", "write a list of names"),
        files=of_all("multicluster_foreign_variables: 0"),
    ),
    Mistake(
        "a number among the names",
        "all hosts",
        "multicluster_foreign_variables",
        ("write a list of names",),
        files=of_all("multicluster_foreign_variables: [status_page_url, 7]"),
    ),
    Mistake(
        "no seconds",
        "all hosts",
        "multicluster_lock_wait",
        ("is empty", "such as multicluster_lock_wait: 600"),
        files=of_all("multicluster_lock_wait:"),
    ),
    Mistake(
        "less than no seconds",
        "all hosts",
        "multicluster_lock_wait",
        ("'-1'", "write seconds"),
        files=of_all("multicluster_lock_wait: -1"),
    ),
    Mistake(
        "seconds with a unit",
        "all hosts",
        "multicluster_lock_wait",
        ("'10m'", "write seconds"),
        files=of_all("multicluster_lock_wait: 10m"),
    ),
    Mistake(
        "neither yes nor no",
        "all hosts",
        "verify_allow_unproven",
        ("'sure'", "verify_allow_unproven: true"),
        files=of_all("verify_allow_unproven: sure"),
    ),
    # values of role variables, and where they are written
    Mistake(
        "a mesh without its id",
        "group all",
        "mesh_id",
        ("1 to 256 bytes", "write mesh_id in group_vars/all"),
        files=of_all("multicluster_mesh: kubespan\nmesh_secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
    ),
    Mistake(
        "a secret that is none",
        "group all",
        "mesh_secret",
        ("not 32 bytes", "openssl rand -base64 32"),
        files=of_all("multicluster_mesh: kubespan\nmesh_id: demo\nmesh_secret: too-short"),
    ),
    Mistake(
        "no number",
        "all hosts",
        "service_mirror_max_deletes",
        ("'many'", "write a whole number"),
        files=of_all("service_mirror_max_deletes: many"),
    ),
    Mistake(
        "no choice of a role",
        "all hosts",
        "service_mirror_state",
        ("'gone'", "write one of present, absent"),
        files=of_all("service_mirror_state: gone"),
    ),
    Mistake(
        "no list",
        "host aws-1",
        "bgp_speaker_neighbors",
        ("an entry that it cannot have", "must be a list"),
        files={"host_vars/aws-1.yml": "bgp_speaker_neighbors: 7"},
    ),
    Mistake(
        "routers of IPv6 alone and no router id",
        "nodes/aws-1",
        "bgp_speaker_router_id",
        ("IPv6", "bgp_speaker_router_id"),
        files={"host_vars/aws-1.yml": "bgp_speaker_neighbors: [{address: 'fd00:66:23::1', asn: 65000}]"},
    ),
    Mistake(
        "a speaker on a node that is reached by a pod",
        "nodes/aws-1",
        "bgp_speaker_neighbors",
        ("reached by a pod", "ansible_connection"),
        files={
            "host_vars/aws-1.yml": "bgp_speaker_neighbors: [{address: 10.66.23.1, asn: 65000}]\n"
            "ansible_connection: multicluster.network.node_pod"
        },
    ),
    Mistake(
        "an entry without its address",
        "host aws-1",
        "bgp_speaker_neighbors",
        ("an entry that it cannot have", "address"),
        files={"host_vars/aws-1.yml": "bgp_speaker_neighbors: [{asn: 65000}]"},
    ),
    Mistake(
        "an option of all written on one cluster",
        "group all",
        "service_mirror_max_deletes",
        ("aws has none", "gcp has '3'", "group_vars/all"),
        files={"host_vars/gcp.yml": "service_mirror_max_deletes: 3"},
    ),
    Mistake(
        "an option of all that clusters say differently",
        "group all",
        "network_sets_state",
        ("aws has 'absent'", "gcp has 'present'"),
        files={"host_vars/gcp.yml": "network_sets_state: present", "host_vars/aws.yml": "network_sets_state: absent"},
    ),
    Mistake(
        "an option of the mesh that nodes do not have",
        "group all",
        "mesh_timeout",
        ("aws has '40'", "aws-1 has none"),
        files={"group_vars/clusters.yml": "mesh_timeout: 40"},
    ),
    Mistake(
        "a capability twice",
        "all hosts",
        "multicluster_capabilities",
        ("'mcs' is there twice",),
        files=of_all("multicluster_capabilities: [mcs, mcs]"),
    ),
    Mistake(
        "a host in two clusters' groups",
        "nodes/gcp-1",
        "multicluster_cluster",
        ("group aws_nodes sets cluster 'aws'", "group gcp_nodes sets 'gcp'"),
        "hosts: {aws-1: {}, aws-2: {}}",
        "hosts: {aws-1: {}, aws-2: {}, gcp-1: {}}",
    ),
    # clusters
    Mistake(
        "variable of a cluster misspelt",
        "clusters/aws",
        "pod_cidr",
        ("did you mean pod_cidrs?",),
        "{kubeconfig: /k, pod_cidrs: [10.2.0.0/16]",
        "{kubeconfig: /k, pod_cidrs: [10.2.0.0/16], pod_cidr: 10.2.0.0/16",
        level="warning",
    ),
    Mistake(
        "pods without range",
        "clusters/aws",
        "pod_cidrs",
        ("write pod_cidrs", "for example"),
        "pod_cidrs: [10.2.0.0/16], ",
        "",
    ),
    Mistake(
        "a range that is none",
        "clusters/aws",
        "pod_cidrs",
        ("10.2.0.0/33", "write networks such as"),
        "[10.2.0.0/16]",
        "[10.2.0.0/33]",
    ),
    Mistake(
        "overlapping pods",
        "clusters/gcp",
        "pod_cidrs",
        ("10.2.0.0/16", "clusters/aws", "do not overlap"),
        "[10.4.0.0/16]",
        "[10.2.0.0/16]",
    ),
    Mistake(
        "services in pods",
        "clusters/gcp",
        "service_cidrs",
        ("10.2.9.0/24", "clusters/aws", "do not overlap"),
        "[10.5.0.0/16]",
        "[10.2.9.0/24]",
    ),
    Mistake("everything", "clusters/aws", "pod_cidrs", ("which no cluster can own",), "[10.2.0.0/16]", "[0.0.0.0/0]"),
    Mistake(
        "a name too long for devices",
        "clusters/frankfurt",
        "device_alias",
        ("device_alias", "5"),
        "    gcp: {kubeconfig: /k,",
        "    frankfurt: {pod_cidrs: [10.8.0.0/16]}\n    gcp: {kubeconfig: /k,",
    ),
    Mistake(
        "a name that is no name",
        "clusters/a_b",
        "inventory_hostname",
        ("a_b",),
        "    gcp: {kubeconfig: /k,",
        "    a_b: {pod_cidrs: [10.8.0.0/16], device_alias: ab}\n    gcp: {kubeconfig: /k,",
    ),
    Mistake(
        "equal ports",
        "clusters/ibm",
        "wireguard_port",
        ("51900", "wireguard_port", "clusters/ibm"),
        "service_cidrs: [10.5.0.0/16], ",
        "service_cidrs: [10.5.0.0/16], wireguard_port: 51900, ",
        files={
            "third.yml": "clusters: {hosts: {ibm: {pod_cidrs: [10.8.0.0/16], wireguard_port: 51900, multicluster_cluster: ibm}}}"
        },
    ),
    Mistake(
        "port out of range",
        "clusters/gcp",
        "wireguard_port",
        ("99999",),
        "service_cidrs: [10.5.0.0/16]",
        "wireguard_port: 99999",
    ),
    Mistake(
        "MTU out of range",
        "clusters/gcp",
        "wireguard_mtu",
        ("100",),
        "service_cidrs: [10.5.0.0/16]",
        "wireguard_mtu: 100",
    ),
    Mistake(
        "exception for a stranger",
        "clusters/gcp",
        "wireguard_ports",
        ("'asw' is not a cluster of this fabric",),
        "service_cidrs: [10.5.0.0/16]",
        "wireguard_ports: {asw: 51830}",
    ),
    Mistake(
        "address type",
        "clusters/gcp",
        "endpoint_address_type",
        ("InternalIP, ExternalIP",),
        "service_cidrs: [10.5.0.0/16]",
        "endpoint_address_type: External",
    ),
    Mistake(
        "relative folder of keys",
        "clusters/gcp",
        "key_dir",
        ("absolute path",),
        "service_cidrs: [10.5.0.0/16]",
        "key_dir: keys",
    ),
    Mistake(
        "one cluster",
        "fabric",
        "clusters",
        ("at least two clusters", "group clusters"),
        "    gcp: {kubeconfig: /k, pod_cidrs: [10.4.0.0/16], "
        "service_cidrs: [10.5.0.0/16], node_cidrs: [10.22.22.0/24]}\n",
        "",
    ),
    Mistake(
        "group misnamed", "fabric", "clusters", ("at least two clusters", "group clusters"), "clusters:\n", "cluster:\n"
    ),
    Mistake(
        "a group with a cluster's name",
        "clusters/aws",
        "inventory_hostname",
        ("a group has the name of this cluster's host", "rename the group"),
        files={"00-nodes.yml": "aws: {hosts: {aws-1: {}}}"},
    ),
    # nodes
    Mistake(
        "a node of an unknown cluster",
        "nodes/gcp-1",
        "multicluster_cluster",
        ("'gpc' is not in group clusters, which has aws, gcp",),
        "multicluster_cluster: gcp",
        "multicluster_cluster: gpc",
    ),
    Mistake(
        "a cluster without hosts",
        "clusters/gcp",
        "multicluster_cluster",
        ("no host has multicluster_cluster: gcp", "write it for the hosts"),
        "vars: {multicluster_cluster: gcp}",
        "vars: {}",
        level="warning",
    ),
    Mistake(
        "two hosts are one node",
        "nodes/aws-2",
        "node_name",
        ("'aws-1' and 'aws-2' are both node 'n1'", "write node_name"),
        "aws-1: {}, aws-2: {}",
        "aws-1: {node_name: n1}, aws-2: {node_name: n1}",
    ),
    Mistake(
        "a node's name that is none",
        "nodes/gcp-1",
        "node_name",
        ("write node_name",),
        "gcp-1: {}",
        "gcp_1: {}, gcp-1: {node_name: Gcp_1}",
    ),
    Mistake(
        "one machine under two names",
        "nodes/aws-3",
        "ansible_host",
        ("10.66.23.31", "'aws-1'", "remove one"),
        "aws-1: {}, aws-2: {}",
        "aws-1: {ansible_host: 10.66.23.31}, aws-2: {}, aws-3: {ansible_host: 10.66.23.31}",
    ),
]
