# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host's own affiliate, from its facts to what its peers make of it."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.config import (
    Host,
    local_affiliate,
    parse_config,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.generations import (
    generation,
    make_layout,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.identity import mesh_subnet
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.peers import Mesh
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kubespan_claims import (
    check_affiliates,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Pending

MESH = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
KEY = "83/SBv4fNR1O0TsSG4Wzo3dXmLAQbYOc13H8cHlSnxs="
CURRENT, SEED = generation("current"), generation("v1.3")
BETA = Host(
    "aws",
    "beta",
    "5beta",
    "52:54:00:aa:00:02",
    KEY,
    configured=[{"address": "192.0.2.12/24", "device": "eth0"}, {"address": "10.244.2.1/24", "device": "cni0"}],
    cluster_networks=["10.244.0.0/16", "10.96.0.0/12"],
    pod_cidrs=["10.244.2.0/24"],
)
CONFIG = parse_config(
    {
        "enabled": True,
        "advertiseKubernetesNetworks": True,
        "filters": {"excludeAdvertisedNetworks": ["10.9.0.0/16"]},
        "extraAnnouncedEndpoints": ["198.51.100.77:51999"],
    }
)
GRANTS = {
    "aws": {"pod_cidrs": ["10.244.0.0/16"], "node_cidrs": ["192.0.2.0/24"], "service_cidrs": [], "wireguard_cidrs": []}
}


def test_the_example_from_facts_to_peer() -> None:
    affiliate = local_affiliate(BETA, CONFIG, MESH)
    assert affiliate["addresses"] == ["192.0.2.12"] and affiliate["endpoints"] == [
        "192.0.2.12:51820",
        "198.51.100.77:51999",
    ]
    assert affiliate["api_server_port"] is None and affiliate["exclude_advertised_networks"] == ["10.9.0.0/16"]
    checked = check_affiliates([affiliate], GRANTS, mesh_subnet(MESH))
    assert checked.refused == []
    assert Mesh(checked.affiliates).specs(None).peers[KEY].allowed_ips == [
        "10.244.2.0/24",
        "192.0.2.12/32",
        "fd7a:6197:edb7:2302:5054:ff:feaa:2/128",
    ]


def test_another_port_is_announced() -> None:
    assert local_affiliate(BETA, CONFIG, MESH, make_layout(port=4500))["endpoints"][0] == "192.0.2.12:4500"


def test_the_old_generation() -> None:
    affiliate = local_affiliate(BETA._replace(public_key=Pending("key")), CONFIG, MESH, gen=SEED)
    assert affiliate["additional_addresses"] == ["10.244.2.1/24"] and affiliate["endpoints"] == ["192.0.2.12:51820"]
    assert affiliate["exclude_advertised_networks"] == []
    assert affiliate["public_key"] == Pending("key")
