# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generated topologies and light nodes, the parts that boot nothing."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import pathlib
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "lab"))
from mcnlab import cli, generate, inventory, topology, watches  # pylint: disable=wrong-import-position
from mcnlab.errors import LabError  # pylint: disable=wrong-import-position
from mcnlab.lab import Lab  # pylint: disable=wrong-import-position


@pytest.mark.parametrize(("nodes", "clusters"), [(1, 1), (7, 3), (200, 4), (4000, 16)])
def test_every_node_is_dealt_out_and_no_ranges_meet(nodes, clusters):
    made = topology.parse(generate.topology(nodes, clusters, light=True))
    assert made.light and len(made.nodes) == nodes and len({node.name for node in made.nodes}) == nodes
    sizes = [len(cluster.nodes) for cluster in made.clusters]
    assert max(sizes) - min(sizes) <= 1 and len(sizes) == clusters
    ranges = [
        ipaddress.ip_network(cidr)
        for cluster in made.clusters
        for cidr in (*cluster.pod_cidrs, *cluster.service_cidrs, *cluster.node_cidrs)
    ]
    assert not any(one.overlaps(other) for place, one in enumerate(ranges) for other in ranges[:place])
    for cluster in made.clusters:
        for node in cluster.nodes:
            assert cluster.uplink_of(node.address)[1] != node.address, "the first address is the gateway's"
            assert ipaddress.ip_network(node.pod_cidrs[0]).subnet_of(ipaddress.ip_network(cluster.pod_cidrs[0]))


def test_one_large_cluster_has_the_nodes_that_the_others_leave():
    made = topology.parse(generate.topology(200, 3, light=True, others=10))
    assert [len(cluster.nodes) for cluster in made.clusters] == [180, 10, 10]


@pytest.mark.parametrize(("nodes", "clusters", "others"), [(20, 3, 10), (9, 2, -1), (600, 3, 10)])
def test_a_large_cluster_without_room_is_refused(nodes, clusters, others):
    with pytest.raises(LabError, match="each has 1 to 250 nodes"):
        generate.topology(nodes, clusters, others=others)


@pytest.mark.parametrize(
    ("nodes", "real_pods", "desired"), [(8, False, 0), (8, True, 1024), (200, False, 1328), (200, True, 1328)]
)
def test_files_may_be_watched_by_kubelets_and_by_many_devices(nodes, real_pods, desired):
    topo = dataclasses.replace(topology.parse(generate.topology(nodes, 4)), real_pods=real_pods)
    assert watches.needed(topo) == desired


@pytest.mark.parametrize(("found", "left"), [("128", "1024"), ("1024", "1024"), ("8192", "8192")])
def test_a_machine_that_lets_more_files_be_watched_keeps_its_limit(tmp_path, found, left):
    (tmp_path / "max").write_text(found + "\n", encoding="ascii")
    watches.allow(1024, tmp_path / "max")
    assert (tmp_path / "max").read_text(encoding="ascii") == left + "\n"


@pytest.mark.parametrize(("nodes", "clusters"), [(0, 1), (3, 4), (10, 0), (10, 17), (251, 1), (-1, -1)])
def test_a_topology_that_has_no_room_is_refused(nodes, clusters):
    with pytest.raises(LabError, match="there may be 1 to 16 clusters"):
        generate.topology(nodes, clusters)


def test_light_nodes_are_a_kind_that_a_running_lab_keeps():
    light = generate.topology(4, 2, light=True)
    assert topology.merge(light, None)["nodes"] == "light"
    with pytest.raises(LabError, match="with nodes as light"):
        topology.merge(light, {"clusters": {}, "nodes": "systemd"})
    with pytest.raises(LabError, match="with nodes as systemd"):
        topology.merge(generate.topology(4, 2), light)
    with pytest.raises(LabError, match="nodes are systemd or light, not 'heavy'"):
        topology.parse(dict(light, nodes="heavy"))
    with pytest.raises(LabError, match="kubelet"):
        topology.parse(dict(light, pods="real"))


@pytest.mark.parametrize(
    "words", [["--light"], ["--clusters", "2"], ["--nodes", "4", "--topology", "two"], ["--nodes", "1"]]
)
def test_options_that_do_not_go_together_are_refused(words, capsys):
    assert cli.main(["up", "--name", "no-such", *words]) == 1
    assert capsys.readouterr().err.startswith("lab: ")


def test_the_inventory_of_light_nodes_enters_their_control_groups(tmp_path, monkeypatch):
    monkeypatch.setenv("MCN_LAB_STATE", str(tmp_path))
    lab = Lab("light")
    lab.state.mkdir()
    (lab.state / "topology.json").write_text(json.dumps(generate.topology(4, 2, light=True)))
    text = inventory.render(lab, over_ssh=False)
    assert text.count("ansible_python_interpreter: /usr/local/sbin/lab-python") == 2 and "        c2-2: " in text
    inventory.write(lab)
    assert lab.inventory.exists() and not lab.inventory_ssh.exists()
