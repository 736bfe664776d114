# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mistakes that people make in an inventory, each as a file: `validate` names the place, the user's variable, the cause and the mend."""

from __future__ import annotations

import json
import typing as t

import inventories
import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric import names as inventory_names
from ansible_collections.multicluster.network.plugins.plugin_utils import known_variables
from hypothesis import given, strategies as st

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
    says: tuple[str, ...]
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
        ("aws says [], but aws-1 says [service_mirror]", "group_vars/all"),
        files={"group_vars/aws_nodes.yml": "multicluster_capabilities: [service_mirror]"},
    ),
    Mistake(
        "capabilities of one cluster",
        "group all",
        "multicluster_capabilities",
        ("aws says [], but gcp says [coredns_rewrite]", "group_vars/all"),
        files={"host_vars/gcp.yml": "multicluster_capabilities: [coredns_rewrite]"},
    ),
    Mistake(
        "nodes that would not announce",
        "group all",
        "multicluster_capabilities",
        ("aws says [load_balancers], but aws-1 says []", "and so do others"),
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
        ("aws says nothing", "gcp says '3'", "group_vars/all"),
        files={"host_vars/gcp.yml": "service_mirror_max_deletes: 3"},
    ),
    Mistake(
        "an option of all that clusters say differently",
        "group all",
        "network_sets_state",
        ("aws says 'absent'", "gcp says 'present'"),
        files={"host_vars/gcp.yml": "network_sets_state: present", "host_vars/aws.yml": "network_sets_state: absent"},
    ),
    Mistake(
        "an option of the mesh that nodes do not have",
        "group all",
        "mesh_timeout",
        ("aws says '40'", "aws-1 says nothing"),
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
        ("group aws_nodes says cluster 'aws'", "group gcp_nodes says 'gcp'"),
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


def ids(mistake: Mistake) -> str:
    return mistake.name


def test_the_good_inventory_is_good(tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD})
    assert inventories.validate([tmp_path])[:2] == ([], [])


@pytest.mark.parametrize("mistake", MISTAKES, ids=ids)
def test_a_mistake_is_named_with_its_mend(mistake, tmp_path):
    assert mistake.old in GOOD, "the example changed"
    inventories.write(
        tmp_path,
        dict({"hosts.yml": GOOD.replace(mistake.old, mistake.new, 1) if mistake.old else GOOD}, **mistake.files),
    )
    errors, warnings, dummy = inventories.validate([tmp_path])
    if mistake.level == "error":
        said = [
            finding["message"]
            for finding in errors
            if (finding["where"], finding["variable"]) == (mistake.where, mistake.variable)
        ]
    else:
        begin = f"{mistake.where}: {mistake.variable}: "
        said = [text for text in warnings if text.startswith(begin)]
        assert errors == []
    assert any(all(text in message for text in mistake.says) for message in said), (errors, warnings)


def test_a_secret_of_the_wrong_type_is_not_shown(tmp_path):
    files = {"hosts.yml": GOOD}
    files["group_vars/all.yml"] = "bgp_speaker_neighbors: [{address: 10.0.0.1, password: [tell-it-to-no-one]}]"
    inventories.write(tmp_path, files)
    errors, warnings, dummy = inventories.validate([tmp_path])
    assert [row["variable"] for row in errors if row["reason"] == "bad_type"] == ["bgp_speaker_neighbors"]
    assert "tell-it" not in json.dumps([errors, warnings])


@pytest.mark.parametrize("variable", sorted(known_variables.option_specs()))
def test_every_option_written_on_one_cluster_counts_or_is_refused(variable, tmp_path):
    """Every role option x written on one cluster's host (decision 64): each host reads it for itself, or `validate` refuses it."""
    spec = known_variables.option_specs()[variable]
    value = {"int": 3, "float": 3, "bool": True, "list": [], "dict": {}}.get(spec.get("type", "str"), "x")
    value = spec["choices"][-1] if spec.get("choices") else value
    inventories.write(tmp_path, {"hosts.yml": GOOD, "host_vars/gcp.yml": json.dumps({variable: value})})
    errors = [row for row in inventories.validate([tmp_path])[0] if row["variable"] == variable]
    assert bool(errors) == (variable in known_variables.read_once()), errors
    assert {row["reason"] for row in errors} <= {"differs_by_host"}


def test_settings_of_a_cluster_are_its_own(tmp_path):
    """What action plugins read from the cluster's own host."""
    files = {
        f"host_vars/{name}.yml": f"load_balancers_settings: {{load_balancer: 'empty://', pool: [{pool}]}}"
        for name, pool in (("aws", "203.0.113.0/30"), ("gcp", "203.0.113.8/30"))
    }
    inventories.write(tmp_path, dict({"hosts.yml": GOOD}, **files))
    assert inventories.validate([tmp_path])[:2] == ([], [])


def test_a_file_of_access_that_everyone_can_read_is_a_warning(tmp_path):
    access = tmp_path / "kubeconfig"
    access.write_text("{}")
    inventories.write(tmp_path / "inventory", {"hosts.yml": GOOD.replace("/k,", f"{access},", 1)})
    for mode, expected in ((0o644, ["clusters/aws: kubeconfig: every user of this machine can read"]), (0o600, [])):
        access.chmod(mode)
        warnings = [
            text[: len(expected[0])] if expected else text for text in inventories.validate([tmp_path / "inventory"])[1]
        ]
        assert warnings == expected


def test_the_table_has_no_mistake_twice():
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 30


@pytest.mark.parametrize("name", ["mesh_network", "tenants_db", "status_page_url", "control_plane_address_xyz"])
def test_a_name_that_is_near_to_none_of_ours_gets_no_suggestion(name, tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD, "group_vars/all.yml": f"{name}: 1\n"})
    (finding,) = inventories.validate([tmp_path])[0]
    assert (
        "no variable of this collection and has no effect" in finding["message"]
        and "did you mean" not in finding["message"]
    )
    assert f"multicluster_foreign_variables: ['{name}']" in finding["message"]


SHORT = st.text("ab_", max_size=6)


@given(SHORT, SHORT)
def test_a_slip_is_one_letter_too_many_missing_wrong_or_swapped(one, other):
    near = other in {one[:at] + one[at + 1 :] for at in range(len(one))} or one in {
        other[:at] + other[at + 1 :] for at in range(len(other))
    }
    near |= len(one) == len(other) and sum(left != right for left, right in zip(one, other)) == 1
    near |= any(one[:at] + one[at + 1] + one[at] + one[at + 2 :] == other for at in range(len(one) - 1))
    if one != other:
        assert inventory_names._one_slip(one, other) is near is (inventory_names._slips(one, other) == 1)


def test_a_fabric_without_a_name_is_refused(tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD})
    (finding,) = inventories.validate([tmp_path], fabric="")[0]
    assert (finding["where"], finding["reason"]) == (
        "fabric",
        "fabric_name_invalid",
    ) and "multicluster_fabric" in finding["message"]


# --- several inventories ----------------------------------------------------------------------------------------------

CLUSTERS = GOOD.split("aws_nodes:", maxsplit=1)[0]


def kubespray(cluster: str, hosts: t.Mapping[str, str]) -> dict[str, str]:
    """An inventory as kubespray's sample has it, with our one variable."""
    lines = "".join(f"{name} ansible_host={address}\n" for name, address in hosts.items())
    names = "\n".join(hosts)
    groups = f"[kube_control_plane]\n{names}\n[etcd]\n{names}\n[kube_node]\n{names}\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n"
    return {
        "inventory.ini": lines + groups,
        "group_vars/k8s_cluster/ours.yml": f"multicluster_cluster: {cluster}\n",
        "group_vars/k8s_cluster/k8s-cluster.yml": "kube_network_plugin: calico\ncoredns_k8s_external_zone: k8s_external.local\n",
    }


def two_kubesprays(folder, aws, gcp):
    inventories.write(folder, {"clusters.yml": CLUSTERS})
    inventories.write(folder / "aws", kubespray("aws", aws))
    inventories.write(folder / "gcp", kubespray("gcp", gcp))
    return [folder / "clusters.yml", folder / "aws" / "inventory.ini", folder / "gcp" / "inventory.ini"]


def test_the_last_of_two_inventories_takes_all_hosts(tmp_path):
    sources = two_kubesprays(tmp_path, {"a1": "10.66.23.31", "a2": "10.66.23.32"}, {"g1": "10.22.22.27"})
    errors, warnings, dummy = inventories.validate(sources)
    (finding,) = errors
    assert (finding["where"], finding["variable"], finding["reason"]) == (
        "group k8s_cluster",
        "multicluster_cluster",
        "cluster_overruled",
    )
    for text in (
        "aws/inventory.ini says cluster 'aws' for a1, a2",
        "gcp/inventory.ini says 'gcp' for group k8s_cluster",
        "aws_nodes",
        "inventory_dir",
    ):
        assert text in finding["message"]


def test_the_mend_that_is_named_mends_it(tmp_path):
    sources = two_kubesprays(tmp_path, {"a1": "10.66.23.31"}, {"g1": "10.22.22.27"})
    for cluster in ("aws", "gcp"):
        inventories.write(
            tmp_path / cluster,
            {"group_vars/k8s_cluster/ours.yml": 'multicluster_cluster: "{{ inventory_dir | basename }}"\n'},
        )
    errors, warnings, mesh = inventories.validate(sources)
    assert (errors, warnings) == ([], [])
    assert {host: node["cluster"] for host, node in mesh["nodes"].items()} == {"a1": "aws", "g1": "gcp"}


def test_a_host_that_two_inventories_claim(tmp_path):
    sources = two_kubesprays(tmp_path, {"node1": "10.66.23.31"}, {"node1": "10.22.22.27"})
    errors, warnings, dummy = inventories.validate(sources)
    (finding,) = [row for row in errors if row["reason"] == "claimed_twice"]
    assert finding["where"] == "nodes/node1"
    for text in (
        "aws/inventory.ini (cluster aws, 10.66.23.31)",
        "gcp/inventory.ini (cluster gcp, 10.22.22.27)",
        "different names",
    ):
        assert text in finding["message"]


@pytest.mark.parametrize("where", ["all", "clusters"])
def test_capabilities_for_all_or_for_the_clusters_are_right(where, tmp_path):
    inventories.write(
        tmp_path,
        {
            "hosts.yml": GOOD,
            f"group_vars/{where}.yml": "multicluster_capabilities: [service_mirror, coredns_rewrite]\n",
        },
    )
    assert inventories.validate([tmp_path])[:2] == ([], [])


def test_variables_of_runs_are_no_mistakes_of_clusters(tmp_path):
    text = "multicluster_clusters_group: clusters\nmulticluster_lock: fabric\nmulticluster_fabric: demo\n"
    inventories.write(tmp_path, {"hosts.yml": GOOD, "group_vars/all.yml": text})
    assert inventories.validate([tmp_path])[:2] == ([], [])


def test_an_overlay_that_names_hosts_again_is_no_mistake(tmp_path):
    inventories.write(
        tmp_path, {"base/hosts.yml": GOOD, "overlay/hosts.yml": "canaries: {hosts: {aws-1: {}, gcp-1: {}}}"}
    )
    assert inventories.validate([tmp_path / "base", tmp_path / "overlay"])[:2] == ([], [])


def test_an_inventory_with_a_password_says_nothing_of_itself(tmp_path):
    vault = "$ANSIBLE_VAULT;1.1;AES256\n3333\n"
    inventories.write(tmp_path, {"base/hosts.yml": GOOD, "more/hosts.ini": "[spare]\nx1\n"})
    inventories.write(tmp_path, {"more/group_vars/spare.yml": vault})
    from ansible.parsing.dataloader import DataLoader
    from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_sources import read_sources

    found = read_sources([str(tmp_path / "base"), str(tmp_path / "more")], DataLoader())
    assert found[str(tmp_path / "base")]["aws-1"].cluster == "aws"
    assert found[str(tmp_path / "more")]["x1"] == (None, "", None, ())


# --- what is no mistake -----------------------------------------------------------------------------------------------

FOREIGN = """\
coredns_k8s_external_zone: k8s_external.local
coredns_kubernetes_extra_opts: ""
coredns_external_zones: []
coredns_ordinal_suffix: ""
coredns_server: 10.0.0.1
coredns_rewrite_block: ""
coredns_dual: true
metallb_enabled: true
kube_network_plugin: calico
meshed: true
meshes: [x]
tenant_name: x
multi_cluster: true
preflights: 3
node_exporter_version: 1
load_balancer_address: 10.0.0.1
loadbalancer_apiserver: {address: 10.0.0.1}
msh_adpot: true
service_mesh_create_namespace: true
awx_job_id: 7
awx_user_name: admin
awx_inventory_name: x
awx_project_revision: abc
awx_workflow_job_id: 3
tower_job_id: 7
"""


def test_variables_of_others_are_left_alone(tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD, "group_vars/all.yml": FOREIGN})
    assert inventories.validate([tmp_path])[:2] == ([], [])


@pytest.mark.parametrize("pattern", ["status_page_url", "status_page_*"])
def test_a_variable_that_only_looks_like_ours_can_be_declared_so(pattern, tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD, "group_vars/all.yml": "status_page_url: x\n"})
    (finding,) = inventories.validate([tmp_path])[0]
    assert "multicluster_foreign_variables: ['status_page_url']" in finding["message"]
    inventories.write(
        tmp_path, {"group_vars/all.yml": f"status_page_url: x\nmulticluster_foreign_variables: ['{pattern}']\n"}
    )
    assert inventories.validate([tmp_path])[:2] == ([], [])


def test_what_the_command_line_gives_has_an_effect(tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD})
    assert inventories.validate([tmp_path], {"multicluster_serial": 1, "multicluster_nodes": "aws_nodes"})[:2] == (
        [],
        [],
    )
    (finding,) = inventories.validate([tmp_path], {"multicluster_serail": 1})[0]
    assert (finding["where"], finding["variable"]) == ("command line", "multicluster_serail")


@pytest.mark.parametrize(
    "name, value",
    [
        ("multicluster_clusters_group", ""),
        ("multicluster_lock_wait", ""),
        ("multicluster_foreign_variables", ""),
        ("multicluster_lock_wait", "nan"),
        ("multicluster_foreign_variables", 0),
        ("verify_allow_unproven", ""),
        ("tenants_install_crds", []),
        ("multicluster_lock_wait", True),
        ("multicluster_clusters_group", ["clusters"]),
        ("multicluster_foreign_variables", {}),
        ("multicluster_lock_wait", "inf"),
    ],
)
def test_an_empty_or_strange_value_of_the_command_line_is_named(name, value, tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD})
    (finding,) = inventories.validate([tmp_path], {name: value})[0]
    assert (finding["where"], finding["variable"], finding["reason"]) == (
        "command line",
        name,
        "bad_type",
    ) and "or leave it out" in finding["message"]


def test_values_that_are_right_are_no_mistakes(tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD})
    for given_ in (
        {"multicluster_lock_wait": "0"},
        {"multicluster_lock_wait": 1.5},
        {"multicluster_foreign_variables": []},
        {"verify_allow_unproven": "Yes"},
        {"multicluster_foreign_variables": "status_page_*"},
        {"multicluster_clusters_group": "clusters"},
        {"verify_allow_unproven": False},
    ):
        assert inventories.validate([tmp_path], given_)[:2] == ([], []), given_


def test_a_name_is_said_once_for_a_thousand_hosts(tmp_path):
    hosts = ", ".join(f"n{number}: {{}}" for number in range(1000))
    variables = {"group_vars/all.yml": "mesh_adpot: true\n", "group_vars/aws_nodes.yml": "mesh_timout: 1\n"}
    inventories.write(tmp_path, dict(variables, **{"hosts.yml": GOOD.replace("aws-1: {}, aws-2: {}", hosts)}))
    errors = inventories.validate([tmp_path])[0]
    assert [(row["where"], row["variable"]) for row in errors] == [
        ("all hosts", "mesh_adpot"),
        ("group aws_nodes", "mesh_timout"),
    ]


def test_hostile_names_are_shown_safely_and_bounded(tmp_path):
    names = [f"mesh_\x1b[31m{number}" for number in range(300)] + ["mesh_" + "x" * 900]
    inventories.write(tmp_path, {"hosts.yml": GOOD, "group_vars/all.json": json.dumps(dict.fromkeys(names, 1))})
    errors = inventories.validate([tmp_path])[0]
    assert len(errors) == 101 and sum("more of this kind" in row["message"] for row in errors) == 1
    assert not any("\x1b" in row["message"] for row in errors) and max(len(row["message"]) for row in errors) < 1000
