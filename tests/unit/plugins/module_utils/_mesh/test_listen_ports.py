# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""UDP ports of a node's devices: written, kept, or the next free one."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.node_spec import (
    NodeState,
    parse_node_device,
    with_own_port,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import Fabric, load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.annotations import key_of
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.device import (
    announced_ports,
    listen_ports,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.semaphore import plan_semaphore_mesh
from hypothesis import given, strategies as st


def clusters(**ports: t.Any) -> dict[str, dict[str, t.Any]]:
    """Clusters with their wireguard_port, 0 for none."""
    return {name: {"wireguard_port": port, "wireguard_ports": {}} for name, port in ports.items()}


def test_two_clusters_have_the_well_known_port_as_ever():
    assert listen_ports(clusters(aws=0, gcp=0), "aws") == {"gcp": 51820}


def test_each_further_cluster_has_the_next_port():
    assert listen_ports(clusters(aws=0, gcp=0, ibm=0), "aws") == {"gcp": 51820, "ibm": 51821}
    assert listen_ports(clusters(aws=0, gcp=0, ibm=0), "ibm") == {"aws": 51820, "gcp": 51821}


def test_a_cluster_that_comes_first_by_name_moves_nobody():
    assert listen_ports(clusters(aaa=0, aws=0, gcp=0), "aws", {"gcp": 51820}) == {"gcp": 51820, "aaa": 51821}


def test_a_cluster_that_leaves_moves_nobody():
    assert listen_ports(clusters(aws=0, ibm=0), "aws", {"ibm": 51821}) == {"ibm": 51821}


def test_what_is_written_wins_and_the_rest_goes_round_it():
    fabric = clusters(aws=0, gcp=51820, ibm=0)
    assert listen_ports(fabric, "aws", {"gcp": 51821, "ibm": 51820}) == {"gcp": 51820, "ibm": 51821}
    fabric["aws"]["wireguard_ports"] = {"gcp": 4500}
    assert listen_ports(fabric, "aws", {"ibm": 51820}) == {"gcp": 4500, "ibm": 51820}


@pytest.mark.parametrize("port", [53, 22, 51819, 60000, 0, -1])
def test_an_announced_port_outside_the_automatic_ones_is_not_followed(port):
    assert listen_ports(clusters(aws=0, gcp=0), "aws", {"gcp": port}) == {"gcp": 51820}


def test_of_two_that_announce_one_port_the_first_by_name_keeps_it():
    assert listen_ports(clusters(aws=0, gcp=0, ibm=0), "aws", {"gcp": 51821, "ibm": 51821}) == {
        "gcp": 51821,
        "ibm": 51820,
    }


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e"]), st.sampled_from([0, 51820, 51821, 40000]), min_size=2),
    st.data(),
)
def test_ports_of_one_node_never_meet_unless_two_are_written_so(ports, data):
    fabric = clusters(**ports)
    live = data.draw(st.dictionaries(st.sampled_from(sorted(ports)), st.integers(0, 65535)))
    for local in ports:
        found = listen_ports(fabric, local, live)
        assert sorted(found) == sorted(set(ports) - {local})
        automatic = [found[name] for name in found if not ports[name]]
        written = {found[name] for name in found if ports[name]}
        assert len(set(automatic)) == len(automatic) and not set(automatic) & written
        assert found == listen_ports(fabric, local, found), "a second run changes nothing"


def nodes(*ports: t.Any) -> list[dict[str, t.Any]]:
    return [{"annotations": {key_of("gcp", "endpoint"): f"10.0.0.1:{port}"}} for port in ports]


def test_what_most_nodes_announce_counts():
    assert announced_ports(nodes(51821, 51820, 51821), ["gcp"]) == {"gcp": 51821}
    assert announced_ports(nodes(51822, 51821), ["gcp"]) == {"gcp": 51821}


@pytest.mark.parametrize("port", ["", "x", "0", "70000", "1 2", None])
def test_what_is_no_endpoint_announces_nothing(port):
    assert announced_ports(nodes(port), ["gcp"]) == {}


# --- in the plan ----------------------------------------------------------------------------------------------------


def fabric(*names: str) -> Fabric:
    definition = {
        "clusters": {name: {"pod_cidrs": [f"10.{10 + ord(name[0])}.0.0/16"]} for name in names},
        "nodes": {name + "-1": {"multicluster_cluster": name} for name in names},
    }
    found, findings = load_fabric(definition)
    assert findings == []
    return found


def listing(name: str, annotations: t.Any = None) -> dict[str, t.Any]:
    cidr = f"10.{10 + ord(name[0])}.1.0/24"
    return {
        "nodes": [
            {
                "metadata": {"name": name + "-1", "annotations": annotations},
                "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
                "status": {"addresses": [{"type": "InternalIP", "address": f"192.0.2.{ord(name[0])}"}]},
            }
        ]
    }


def ports_of(topology: t.Mapping[str, t.Any]) -> dict[str, dict[str, int]]:
    return {
        local: {remote: settings["listen_port"] for remote, settings in cluster["remotes"].items()}
        for local, cluster in topology["clusters"].items()
    }


def test_a_third_cluster_joins_and_no_port_of_the_others_changes():
    two = plan_semaphore_mesh(fabric("mars", "venus"), {name: listing(name) for name in ("mars", "venus")}).to_json()
    live = {
        host[:-2]: {key: str(value) for key, value in node["annotations"].items()}
        for host, node in two["nodes"].items()
    }
    names = ("earth", "mars", "venus")
    three = plan_semaphore_mesh(fabric(*names), {name: listing(name, live.get(name)) for name in names}).to_json()
    assert ports_of(two) == {"mars": {"venus": 51820}, "venus": {"mars": 51820}}
    assert ports_of(three) == {
        "earth": {"mars": 51820, "venus": 51821},
        "mars": {"earth": 51821, "venus": 51820},
        "venus": {"earth": 51821, "mars": 51820},
    }
    endpoint = three["nodes"]["mars-1"]["annotations"][key_of("venus", "endpoint")]
    assert endpoint == live["mars"][key_of("venus", "endpoint")]


def test_where_the_own_cluster_cannot_be_read_a_node_keeps_the_port_that_it_has():
    names = ("earth", "mars", "venus")
    topology = plan_semaphore_mesh(
        fabric(*names), dict({name: listing(name) for name in names[1:]}, earth={"error": {"message": "down"}})
    ).to_json()
    device = dict(topology["clusters"]["earth"]["remotes"]["venus"], name="wireguard.venus")
    assert device["listen_port_known"] is False
    assert topology["clusters"]["mars"]["remotes"]["venus"]["listen_port_known"] is True
    before = NodeState("f", (parse_node_device(dict(device, listen_port=51877), "f"),))
    unknown, known = (
        parse_node_device(dict(device, listen_port_known=value, routes=[]), "f") for value in (False, True)
    )
    assert with_own_port(unknown, before).wireguard.listen_port == 51877
    assert with_own_port(unknown, None).wireguard.listen_port == device["listen_port"]
    assert with_own_port(known, before).wireguard.listen_port == device["listen_port"]
    assert "listen_port_known" not in with_own_port(unknown, before).to_json(), (
        "the boot state has ports that are known"
    )
