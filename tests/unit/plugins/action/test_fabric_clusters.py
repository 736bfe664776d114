# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fabric's clusters as a variable: the same plan as with hosts, whatever part of the hosts a job has."""

from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
from ansible_collections.multicluster.network.plugins.action.run_outcome import run_outcome
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import mesh_plan
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.plugin_utils.clustermesh_definition import clustermesh_definition
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import (
    cluster_access,
    fabric_definition,
    with_clusters,
)
from ansible_collections.multicluster.network.plugins.plugin_utils.load_balancer_settings import load_balancer_settings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import inventories  # pylint: disable=wrong-import-position

TWO = {
    "aws": {
        "kubeconfig": "/nowhere/aws",
        "pod_cidrs": ["10.2.0.0/16"],
        "node_cidrs": ["10.66.0.0/16"],
        "wireguard_port": 51820,
    },
    "gcp": {
        "kubeconfig": "{{ here }}/gcp",
        "context": "gcp",
        "pod_cidrs": ["10.4.0.0/16"],
        "node_cidrs": ["10.67.0.0/16"],
        "wireguard_port": 51821,
    },
}


def tree(clusters, nodes, listed, names=(), more=None):
    """An inventory of hosts by cluster; clusters as a variable, or as hosts. names: hosts of the group although they are listed."""
    found = {"all": {"vars": dict({"ansible_connection": "local", "here": "/nowhere"}, **(more or {}))}}
    if listed:
        found["all"]["vars"]["multicluster_fabric_clusters"] = clusters
        found["clusters"] = {"hosts": {name: {} for name in names}}
    else:
        found["clusters"] = {"hosts": clusters}
    for cluster, hosts in nodes.items():
        found[cluster + "_nodes"] = {"hosts": hosts, "vars": {"multicluster_cluster": cluster}}
    return found


def read(folder, name, content):
    path = folder / (name + ".json")
    path.write_text(json.dumps(content), "utf-8")
    return path


def reported(path):
    """Everything that modules take from an inventory, and what validate reports of it, as text."""
    hostvars, groups = inventories.read([path])
    definition = fabric_definition(hostvars, groups)
    said = {
        name: {key: value for key, value in given.items() if value is not None}
        for name, given in definition["clusters"].items()
    }
    rows = load_balancer_settings(hostvars, groups)
    return json.dumps(
        [said, definition["nodes"], cluster_access(hostvars, groups), rows, inventories.validate([path])], default=str
    )


def some_fabric(generator):
    clusters, nodes = {}, {}
    for number in range(generator.randint(1, 4)):
        name = f"c{number}"
        entry = {"kubeconfig": "/nowhere/" + name, "pod_cidrs": [f"10.{number + 1}.0.0/16"]}
        for key, value in (
            ("wireguard_port", generator.choice([51820 + number, "51820", 70000])),
            ("node_cidrs", f"10.66.{number}.0/24"),
            ("context", "k"),
            ("wireguard_mtu", "{{ 1400 + 20 }}"),
            ("wireguard_prot", 1),
            ("multicluster_cluster_id", "id" + name),
            ("multicluster_clusterid", "x"),
            ("pod_cidrs", generator.choice([[], "10.9.0.0/16", ["300.0.0.0/8"], 7])),
            ("load_balancers_settings", {"load_balancer": "empty://"}),
            ("service_cidrs", [f"10.{100 + number}.0.0/16"]),
            ("load_balancers_settings", {"load_balancre": "empty://"}),
        ):
            if generator.random() < 0.3:
                entry[key] = value
        clusters[name] = entry
        nodes[name] = {
            f"{name}-{host}": {"node_name": f"n{host}"} if generator.random() < 0.3 else {}
            for host in range(generator.randint(0, 3))
        }
    return clusters, nodes


def test_both_ways_give_the_same_plan_and_the_same_findings(tmp_path):
    generator = random.Random(19)
    seen = set()
    for number in range(20):
        clusters, nodes = some_fabric(generator)
        some = [name for name in clusters if generator.random() < 0.3]
        by_hosts = reported(read(tmp_path, f"hosts{number}", tree(clusters, nodes, False)))
        for names in ([], some):
            assert reported(read(tmp_path, f"listed{number}", tree(clusters, nodes, True, names))) == by_hosts
        seen.add(json.loads(by_hosts)[4][0] == [])
    assert seen == {True, False}


def test_what_load_balancing_hands_out_is_known_to_the_mesh(tmp_path):
    """Pools, named ones among them, the control plane's address, and what the inventory adds; a broken one takes nothing else along."""
    settings = {
        "pool": ["10.66.0.200-10.66.0.203", "10.66.1.0/30"],
        "pools": [{"name": "six", "addresses": ["2001:db8::/64", "nonsense"]}],
    }
    more = {
        "load_balancers_settings": settings,
        "control_plane_address_ip": "10.66.0.9",
        "floating_cidrs": "192.0.2.0/24",
    }
    for listed, broken in ((True, 7), (False, "{{ undefined_here }}"), (False, {"pool": 7})):
        clusters = {"aws": dict(TWO["aws"], **more), "gcp": dict(TWO["gcp"], load_balancers_settings=broken)}
        found = fabric_definition(*inventories.read([read(tmp_path, str(listed), tree(clusters, {}, listed))]))[
            "clusters"
        ]
        assert found["aws"]["floating_cidrs"] == [
            "192.0.2.0/24",
            "10.66.0.200/30",
            "10.66.1.0/30",
            "2001:db8::/64",
            "10.66.0.9/32",
        ]
        assert "floating_cidrs" not in found["gcp"]


def test_every_part_of_the_hosts_sees_every_cluster(tmp_path):
    nodes = {"aws": {f"a{number}": {} for number in range(3)}, "gcp": {f"g{number}": {} for number in range(4)}}
    whole = read(tmp_path, "whole", tree(TWO, nodes, True))
    for keep in ("a1", "g3"):
        part = {cluster: {host: {} for host in hosts if host == keep} for cluster, hosts in nodes.items()}
        for path in (
            read(tmp_path, keep, tree(TWO, part, True)),
            read(tmp_path, keep + "c", tree(TWO, part, True, ["gcp"])),
        ):
            assert cluster_access(*inventories.read([path])) == cluster_access(*inventories.read([whole]))
            definition = fabric_definition(*inventories.read([path]))
            assert list(definition["clusters"]) == ["aws", "gcp"] and list(definition["nodes"]) == [keep]
    nobody = cluster_access(*inventories.read([read(tmp_path, "none", tree(TWO, {}, True))]))
    assert [row["kubeconfig"] for row in nobody] == ["/nowhere/aws", "/nowhere/gcp"]


def test_the_mesh_of_kilo_is_the_same(tmp_path):
    clusters = {
        name: dict(entry, wireguard_cidrs=[f"100.70.{number}.0/24"]) for number, (name, entry) in enumerate(TWO.items())
    }
    found = [
        clustermesh_definition(*inventories.read([read(tmp_path, str(listed), tree(clusters, {}, listed))]), "demo")
        for listed in (True, False)
    ]
    assert found[0] == found[1] and len(found[0]["meshes"][0]["clusters"]) == 2


@pytest.mark.parametrize(
    "clusters, names, more, reason, shown",
    [
        (["aws"], [], {}, "bad_type", "by its name"),
        ({"aws": 7}, [], {}, "bad_type", "by its name"),
        (TWO, ["oci"], {}, "cluster_not_listed", "'oci' of group clusters"),
        (
            TWO,
            ["aws"],
            {"wireguard_mtu": 1400},
            "cluster_given_twice",
            "wireguard_mtu of host aws is not the value of multicluster_fabric_clusters.aws",
        ),
        (TWO, ["aws"], {"wireguard_port": 1}, "cluster_given_twice", "wireguard_port of host aws"),
    ],
)
def test_what_only_some_jobs_would_see_is_refused(tmp_path, clusters, names, more, reason, shown):
    hostvars, groups = inventories.read(
        [read(tmp_path, "hosts", tree(clusters, {"aws": {"a1": {}}}, True, names, more))]
    )
    with pytest.raises(ValueRefused) as caught:
        fabric_definition(hostvars, groups)
    assert caught.value.reason == reason and shown in caught.value.message


def test_a_value_that_is_not_everybodys_is_found(tmp_path):
    given = tree(TWO, {"aws": {"a1": {}}, "gcp": {"g1": {}}}, True)
    given["gcp_nodes"]["vars"]["multicluster_fabric_clusters"] = dict(TWO, oci={"pod_cidrs": ["10.9.0.0/16"]})
    found = inventories.validate([read(tmp_path, "hosts", given)])[0]
    assert [row["reason"] for row in found] == ["clusters_differ"]


def test_a_misspelt_name_in_an_entry_is_found_as_that_of_a_host(tmp_path):
    clusters = dict(TWO, aws=dict(TWO["aws"], wireguard_prot=1))
    for listed in (True, False):
        warnings = inventories.validate([read(tmp_path, f"hosts{listed}", tree(clusters, {}, listed))])[1]
        assert any("clusters/aws" in text and "did you mean wireguard_port" in text for text in warnings), warnings


def test_another_group_has_its_own_clusters(tmp_path):
    given = tree(TWO, {}, True)
    given["tenant_clusters"] = {"hosts": {"t1": {"pod_cidrs": ["10.8.0.0/16"]}}}
    hostvars, groups = inventories.read([read(tmp_path, "hosts", given)])
    assert list(fabric_definition(hostvars, groups, "tenant_clusters")["clusters"]) == ["t1"]
    assert list(fabric_definition(hostvars, groups)["clusters"]) == ["aws", "gcp"]


def test_what_the_speaker_registered_is_the_clusters():
    result = {
        "run.service_mirror": {
            "failures": [{"cluster": "gcp", "operation": "list", "reason": "unreachable", "message": "no answer"}]
        }
    }
    hostvars = {"a1": {"multicluster_cluster": "aws", "multicluster_fabric_clusters": TWO}, "localhost": result}
    view, groups = with_clusters(hostvars, {"all": ["a1"]})
    assert (
        groups["clusters"] == ["aws", "gcp"]
        and view["gcp"]["run.service_mirror"] is result["run.service_mirror"]
        and "run.service_mirror" not in view["a1"]
    )
    found = run_outcome(hostvars, {"all": ["a1"]}, ["service_mirror"], ["a1", "localhost"], ["a1", "localhost"])
    assert not found["ok"] and found["at_fault"] == ["gcp"], found


def test_what_each_cluster_registered_is_reported_of_each():
    """Of one host for all it is that of the first; of a control plane's address every cluster has its own."""
    hostvars = {
        name: {
            "run.control_plane_address": {
                "refused": [{"object": "control plane of " + name, "reason": "resting", "message": "it was moved"}],
                "failures": [{"cluster": name, "operation": "probe", "reason": "api", "message": "no"}],
            }
        }
        for name in ("aws", "gcp")
    }
    found = run_outcome(
        hostvars,
        {"all": ["aws", "gcp"], "clusters": ["aws", "gcp"]},
        ["control_plane_address"],
        ["aws", "gcp"],
        ["aws", "gcp"],
    )
    assert not found["ok"] and found["at_fault"] == ["aws", "gcp"]
    assert [line for line in found["text"] if line.startswith("refused: ")] == [
        "refused: control plane of aws: it was moved [resting] (also in gcp)"
    ]


def test_no_cluster_is_asked_where_the_inventory_is_wrong(tmp_path):
    clusters = dict(TWO, gcp=dict(TWO["gcp"], pod_cidrs=["10.2.0.0/16"]))
    hostvars, groups = inventories.read([read(tmp_path, "hosts", tree(clusters, {"aws": {"a1": {}}}, True))])
    request = {
        "fabric": "t",
        "clusters": cluster_access(hostvars, groups),
        "definition": fabric_definition(hostvars, groups),
    }
    with pytest.raises(mesh_plan.InventoryRefused):
        mesh_plan.run(request)


def play(folder, name, inventory, *arguments):
    """(code, what was printed) of one of the collection's playbooks."""
    environment = dict(os.environ, ANSIBLE_HOME=str(folder / "ansible"), ANSIBLE_NOCOLOR="1")
    command = [
        "ansible-playbook",
        "-i",
        str(inventory),
        "multicluster.network." + name,
        "-e",
        "multicluster_lock=none",
        *arguments,
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def test_playbooks_run_where_no_cluster_is_a_host(tmp_path):
    """Somebody who is no node acts, asks every cluster, and names each in the end; under a limit to nodes nobody does, as ever."""
    path = read(
        tmp_path,
        "hosts",
        tree(TWO, {"aws": {"a1": {}}, "gcp": {"g1": {}}}, True, more={"ansible_python_interpreter": sys.executable}),
    )
    code, shown = play(tmp_path, "validate", path)
    assert code == 0, shown
    code, shown = play(tmp_path, "service_mirror", path, "-e", "service_mirror_namespace=default")
    assert code == 2 and "kubeconfig /nowhere/aws cannot be read" in shown and "2 failed in aws, gcp" in shown, shown
    assert "a1" not in shown.rpartition("PLAY RECAP")[2]
    code, shown = play(tmp_path, "service_mirror", path, "--limit", "a1")
    assert code == 0 and "/nowhere" not in shown, shown
