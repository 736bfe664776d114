# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters of Kilo's cluster mesh: any template may use them, and an error begins with its reason."""

from __future__ import annotations

import importlib
import typing as t

import pytest
from ansible.errors import AnsibleFilterError

NODE = {
    "metadata": {
        "name": "n1",
        "annotations": {"kilo.squat.ai/wireguard-ip": "100.66.0.3/16", "kilo.squat.ai/key": "k"},
    },
    "spec": {"podCIDRs": ["10.0.1.0/24"]},
    "status": {"addresses": [{"type": "ExternalIP", "address": "203.0.113.5"}]},
}
FLAT = {"allowedNetworks": ["10.0.0.0/16", "100.66.0.0/16"]}


def use(name: str, *arguments: t.Any, **options: t.Any) -> t.Any:
    module = importlib.import_module("ansible_collections.multicluster.network.plugins.filter." + name)
    return module.FilterModule().filters()[name](*arguments, **options)


@pytest.mark.parametrize(
    "name, arguments, expected",
    [
        ("resolve_endpoint", (NODE, 51821), {"endpoint": "203.0.113.5:51821", "source": "external-ip"}),
        (
            "resolve_endpoint",
            ({"name": "x", "annotations": {"kilo.squat.ai/force-endpoint": "h:1"}},),
            {"endpoint": "h:1", "source": "force-endpoint"},
        ),
        ("parse_endpoint", ("[node.example.com]:51820",), {"dnsOrIP": {"dns": "node.example.com"}, "port": 51820}),
        ("kilo_peer_name", ("eu-1", "prod", "eu"), "prod--eu--eu-1"),
        ("validate_node", (NODE, FLAT), "n1"),
    ],
)
def test_answers(name: str, arguments: t.Any, expected: t.Any) -> None:
    assert use(name, *arguments) == expected


@pytest.mark.parametrize(
    "name, arguments, reason",
    [
        ("resolve_endpoint", ({"name": "x"},), "NodeNoEndpoint"),
        ("resolve_endpoint", ("x",), "name_invalid"),
        (
            "resolve_endpoint",
            ({"name": "x", "annotations": {"kilo.squat.ai/force-endpoint": "h"}},),
            "NodeEndpointInvalid",
        ),
        ("parse_endpoint", ("2001:db8::1:51820",), "NodeEndpointInvalid"),
        ("parse_endpoint", (None,), "NodeEndpointInvalid"),
        ("validate_node", (NODE, {"podCIDRs": ["10.0.0.0/16"], "wireguardCIDR": "10.4.0.0/24"}), "WGIPOutOfRange"),
        ("validate_node", (NODE, 5), "validate_node"),
        ("kilo_peer_name", (5, "m", "c"), "kilo_peer_name"),
    ],
)
def test_errors(name: str, arguments: t.Any, reason: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        use(name, *arguments)
    assert str(caught.value).startswith(reason + ":")
