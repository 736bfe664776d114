# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Kilo mesh out of the variables of the inventory's clusters."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.plugin_utils.clustermesh_definition import clustermesh_definition


def test_definition_from_the_inventory() -> None:
    hostvars = {
        "eu": {
            "pod_cidrs": ["10.20.0.0/16"],
            "wireguard_cidrs": "100.70.0.0/24",
            "service_cidrs": ["10.120.0.0/16", "fd00:1::/108"],
            "node_cidrs": ["192.168.7.0/24"],
            "wireguard_port": "51821",
            "clustermesh_endpoint_policy": "roam",
        },
        "us": {"clustermesh_allowed_networks": ["10.30.0.0/16", "100.71.0.0/24"], "clustermesh_keepalive": 25},
    }
    assert clustermesh_definition(hostvars, {"clusters": ["us", "eu"]}, "prod") == {
        "meshes": [
            {
                "name": "prod",
                "clusters": [
                    {
                        "name": "eu",
                        "podCIDRs": ["10.20.0.0/16"],
                        "wireguardCIDR": "100.70.0.0/24",
                        "serviceCIDR": "10.120.0.0/16",
                        "additionalCIDRs": ["fd00:1::/108"],
                        "wireguardPort": 51821,
                        "endpoint_policy": "roam",
                    },
                    {"name": "us", "allowedNetworks": ["10.30.0.0/16", "100.71.0.0/24"], "persistentKeepalive": 25},
                ],
            }
        ],
        "node_cidrs": {"eu": ["192.168.7.0/24"]},
    }
    hostvars["eu"]["wireguard_cidrs"] = ["100.70.0.0/24", "100.72.0.0/24"]
    with pytest.raises(ValueError, match="several wireguard_cidrs"):
        clustermesh_definition(hostvars, {"clusters": ["eu"]}, "prod")


def test_a_kilo_mesh_refuses_what_it_cannot_translate():
    """Kilo programs its devices for itself (translation 2.5)."""
    hostvars = {"eu": {"pod_cidrs": ["10.20.0.0/16"], "exported_pod_cidrs": {"10.20.0.0/16": "10.201.0.0/16"}}}
    with pytest.raises(ValueError, match=r"eu has exported_pod_cidrs.*\[mode_unsupported\]"):
        clustermesh_definition(hostvars, {"clusters": ["eu"]}, "prod")
    hostvars["eu"]["exported_pod_cidrs"] = {}
    assert clustermesh_definition(hostvars, {"clusters": ["eu"]}, "prod")["meshes"]
