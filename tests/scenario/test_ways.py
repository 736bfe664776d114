# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other ways to have the same mesh: both families, Calico, what upstream left, other inventories, SSH."""

from __future__ import annotations

import json

import yaml

TOPOLOGY = "dual"

IPPOOL_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ippools.crd.projectcalico.org"},
    "spec": {
        "group": "crd.projectcalico.org",
        "names": {"kind": "IPPool", "listKind": "IPPoolList", "plural": "ippools", "singular": "ippool"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["cidr"],
                                "properties": {
                                    "cidr": {"type": "string"},
                                    "disabled": {"type": "boolean"},
                                    "ipipMode": {"type": "string"},
                                    "vxlanMode": {"type": "string"},
                                    "disableBGPExport": {"type": "boolean"},
                                    "natOutgoing": {"type": "boolean"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


def test_a_device_of_the_original_is_taken_over_only_on_request(fabric):
    """Decision 1: same names, no mark of ownership. Its key and its annotations are the identity that stays."""
    node, name = "aws-node-1", "wireguard.gcp"
    fabric.sh(node, "mkdir", "-p", "/var/lib/semaphore-wireguard")
    fabric.sh(node, "sh", "-c", f"umask 077; wg genkey > /var/lib/semaphore-wireguard/{name}.key")
    fabric.sh(node, "sh", "-c", f"wireguard-go {name} >/dev/null 2>&1 </dev/null")
    fabric.sh(
        node, "wg", "set", name, "private-key", f"/var/lib/semaphore-wireguard/{name}.key", "listen-port", "51821"
    )
    fabric.sh(node, "ip", "link", "set", name, "up")
    fabric.sh(node, "ip", "route", "add", "10.4.0.0/16", "dev", name)
    before = fabric.wireguard(node)[name]
    run = fabric.play("mesh").ok()
    assert "refused wireguard.gcp" in run.out and "[adoptable]" in run.out
    assert fabric.wireguard(node)[name] == before
    run = fabric.play("site", variables={"node_dataplane_adopt": True}).ok()
    assert "all green" in run.out
    assert fabric.wireguard(node)[name]["public_key"] == before["public_key"]
    assert f"10.4.0.0/16 dev {name} proto 109" in fabric.sh(node, "ip", "route")


def test_both_families_reach_every_pod(fabric):
    pings = fabric.all_reach()
    assert any(ping["cross"] and ":" in ping["address"] for ping in pings)
    peer = fabric.wireguard("aws-node-1")["wireguard.gcp"]["peers"]
    assert all(len(p["allowed_ips"]) == 2 for p in peer.values())
    assert "fd00:4::/64 dev wireguard.gcp" in fabric.sh("aws-node-1", "ip", "-6", "route")
    assert not fabric.play("site").ok().changed


def test_over_ssh_it_is_the_same_mesh(fabric):
    run = fabric.play("site", inventory=fabric.state / "inventory-ssh" / "hosts.yml").ok()
    assert "all green" in run.out and not run.changed


def test_calico_learns_the_other_clusters_ranges(fabric):
    for cluster in fabric.clusters:
        file = fabric.state / "crd.json"
        file.write_text(json.dumps(IPPOOL_CRD))
        fabric.kubectl(cluster, "create", "-f", str(file))
        fabric.kubectl(cluster, "wait", "--for=condition=Established", "crd/ippools.crd.projectcalico.org")
    unowned = {
        "apiVersion": "crd.projectcalico.org/v1",
        "kind": "IPPool",
        "metadata": {"name": "default-pool"},
        "spec": {"cidr": "10.2.0.0/16"},
    }
    file = fabric.state / "pool.json"
    file.write_text(json.dumps(unowned))
    fabric.kubectl("aws", "create", "-f", str(file))
    assert fabric.play("site").ok().changed
    pools = {
        item["metadata"]["name"]: item["spec"]
        for item in json.loads(fabric.kubectl("aws", "get", "ippools", "-o", "json"))["items"]
    }
    inert = {"disabled": True, "disableBGPExport": True, "ipipMode": "Never", "vxlanMode": "Never"}
    assert pools["gcp-pods"] == dict(inert, cidr="10.4.0.0/16") and pools["gcp-pods-2"] == dict(
        inert, cidr="fd00:4::/64"
    )
    assert pools["default-pool"] == {"cidr": "10.2.0.0/16"}
    with fabric.witness() as writes:
        assert not fabric.play("site").ok().changed
    assert not writes


def test_an_inventory_of_kubesprays_shape_fits_with_group_variables_alone(fabric):
    tree = fabric.tree
    hosts = dict.fromkeys(fabric.nodes)
    first = {group: body["hosts"] for group, body in tree.items() if group != "clusters"}
    # what kubespray has: addresses as host variables, roles as groups, and hosts that are no nodes
    kubespray = {
        "all": {
            "hosts": {
                **{
                    host: {"ip": f"10.66.23.{index}", "access_ip": f"10.66.23.{index}"}
                    for index, host in enumerate(hosts)
                },
                "etcd-1": {"ansible_host": "192.0.2.9"},
                "a-bastion": {"ansible_host": "192.0.2.10"},
            },
            "children": {
                "kube_control_plane": {"hosts": {"aws-node-1": None, "gcp-node-1": None}},
                "kube_node": {"hosts": hosts},
                "etcd": {"hosts": {"etcd-1": None}},
                "calico_rr": {"hosts": {}},
                "k8s_cluster": {"children": {"kube_control_plane": None, "kube_node": None, "calico_rr": None}},
                "aws": None,
                "gcp": None,
            },
        }
    }
    del kubespray["all"]["children"]["aws"], kubespray["all"]["children"]["gcp"]
    for group, members in first.items():
        kubespray["all"]["children"][group.replace("_nodes", "_cluster")] = {"hosts": members}
    folder = fabric.state / "kubespray"
    (folder / "group_vars").mkdir(parents=True, exist_ok=True)
    (folder / "hosts.yml").write_text(yaml.safe_dump(kubespray))
    for group in first:
        (folder / "group_vars" / (group.replace("_nodes", "_cluster") + ".yml")).write_text(
            yaml.safe_dump(tree[group]["vars"])
        )
    (folder / "clusters.yml").write_text(yaml.safe_dump({"clusters": tree["clusters"]}))
    run = fabric.play("site", inventory=folder).ok()
    assert "all green" in run.out and not run.changed
    touched = {host for host, row in run.recap.items() if row["ok"]} - set(fabric.clusters)  # one of which judges
    assert touched == set(fabric.nodes), "etcd-1 and a-bastion are none of our business"


def test_hosts_that_come_from_the_clusters_themselves(fabric):
    folder = fabric.state / "from-nodes"
    (folder / "group_vars").mkdir(parents=True, exist_ok=True)
    (folder / "10-clusters.yml").write_text(
        yaml.safe_dump({"all": {"children": {"clusters": fabric.tree["clusters"]}}})
    )
    (folder / "20-cluster_nodes.yml").write_text("plugin: multicluster.network.cluster_nodes\naddress: none\n")
    for group, body in fabric.tree.items():
        if group != "clusters":
            (folder / "group_vars" / (group + ".yml")).write_text(yaml.safe_dump(body["vars"]))
    run = fabric.play("site", inventory=folder).ok()
    assert "all green" in run.out and not run.changed
    assert {host for host, row in run.recap.items() if row["ok"]} - set(fabric.clusters) == set(fabric.nodes)


def test_everything_wrong_with_an_inventory_is_reported_at_once_before_anything_is_asked(fabric):
    tree = yaml.safe_load(fabric.inventory.read_text())
    clusters = tree["all"]["children"]["clusters"]["hosts"]
    clusters["aws"]["pod_cidrs"] = ["10.4.0.0/17", "nonsense"]
    clusters["gcp"]["wireguard_port"] = 70000
    clusters["gcp"]["kubeconfig"] = "/nonexistent"
    clusters["longname"] = {"pod_cidrs": ["10.9.0.0/16"], "kubeconfig": "/nonexistent"}
    tree["all"]["children"]["aws_nodes"]["vars"]["multicluster_cluster"] = "asw"
    inventory = fabric.state / "wrong.yml"
    inventory.write_text(yaml.safe_dump(tree))
    with fabric.witness() as writes:
        run = fabric.play("site", inventory=inventory)
    assert run.rc != 0 and not writes
    for reason in (
        "pod_subnet_overlap",
        "port_out_of_range",
        "device_name_too_long",
        "device_alias",
        "nonsense",
        "asw",
    ):
        assert reason in run.out, reason


def test_teardown_takes_the_pools_too_and_leaves_the_unowned_one(fabric):
    fabric.play("teardown", variables={"node_dataplane_remove_keys": True}).ok()
    names = fabric.kubectl("aws", "get", "ippools", "-o", "name").split()
    assert names == ["ippool.crd.projectcalico.org/default-pool"]
    assert not any(fabric.wireguard(node) for node in fabric.nodes)
