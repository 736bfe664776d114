# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kilo's rules at their edges: empty fields of the other schema, wrong types, texts of messages."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo import (
    endpoints as kilo_endpoints,
    meshes as kilo_meshes,
    nodes as kilo_nodes,
    peers as kilo_peers,
    values as kilo_values,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

TYPED = {"name": "eu", "podCIDRs": ["10.0.0.0/16"], "wireguardCIDR": "10.4.0.0/24", "serviceCIDR": "10.96.0.0/12"}
NODE = {
    "name": "n1",
    "annotations": {"kilo.squat.ai/wireguard-ip": "10.4.0.1/32", "kilo.squat.ai/key": "k"},
    "podCIDRs": ["10.0.1.0/24"],
}


@pytest.mark.parametrize("empty", [None, []])
def test_a_list_that_is_empty_does_not_choose_the_schema(empty: t.Any) -> None:
    entry = dict(TYPED, allowedNetworks=empty)
    assert kilo_peers.all_cidrs(entry) == ["10.0.0.0/16", "10.4.0.0/24", "10.96.0.0/12"]
    assert kilo_peers.anchor_cidrs(entry, [kilo_values.parse_node(NODE)]) == ["10.96.0.0/12"]
    kilo_nodes.validate_node(kilo_values.parse_node(NODE), entry, kilo_nodes.ROAM)
    with pytest.raises(ValueRefused, match="WGIPOutOfRange"):
        pods = {"kilo.squat.ai/wireguard-ip": "10.0.9.9/32"}
        kilo_nodes.validate_node(kilo_values.parse_node(dict(NODE, annotations=pods)), entry, kilo_nodes.ROAM)


def test_a_null_list_is_no_second_schema_for_a_definition() -> None:
    others = [dict(TYPED, name="us", allowedNetworks=None), TYPED]
    assert kilo_meshes.check_definition({"name": "m", "clusters": others}) == []
    given = [
        finding.message
        for finding in kilo_meshes.check_definition({"name": "m", "clusters": [dict(TYPED, allowedNetworks=[]), TYPED]})
    ]
    assert any("give either allowedNetworks" in message for message in given)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"podCIDRs": []}, 'node "n1" has no PodCIDRs assigned'),
        ({"podCIDRs": ["junk"]}, 'node "n1" has invalid PodCIDR "junk": '),
        ({"podCIDRs": ["a\n\x1b'"]}, 'node "n1" has invalid PodCIDR "a\\n\\x1b\'": '),
        (
            {"annotations": dict(NODE["annotations"], **{"kilo.squat.ai/force-endpoint": "x"})},  # type: ignore[arg-type]
            'node "n1" has an invalid endpoint annotation: ',
        ),
    ],
)
def test_messages_have_the_operators_form(change: t.Any, message: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        kilo_nodes.validate_node(kilo_values.parse_node(dict(NODE, **change)), TYPED)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    "entry, expected",
    [
        ('{"IP": "203.0.113.7", "Port": 1, "Zone": 5}', None),
        ('{"IP": "203.0.113.7", "Port": 1, "zone": []}', None),
        ('{"IP": "203.0.113.7", "Port": 1, "Zone": null}', "203.0.113.7:1"),
        ('{"IP": "203.0.113.7", "ip": "203.0.113.8", "Port": 1}', "203.0.113.8:1"),
        ('{"IP": "203.0.113.7", "ip": null, "Port": 1, "port": null}', "203.0.113.7:1"),
    ],
)
def test_fields_of_a_learnt_endpoint(entry: str, expected: str | None) -> None:
    one = kilo_values.parse_node(
        {"name": "n", "annotations": {"kilo.squat.ai/discovered-endpoints": '{"k": ' + entry + "}"}}
    )
    assert kilo_endpoints.collect_discovered([one]).get("k") == expected


def test_an_empty_member_of_an_endpoint_is_an_absent_one() -> None:
    live = {"publicKey": "k", "allowedIPs": ["a"], "endpoint": {"dnsOrIP": {"ip": "192.0.2.1", "dns": ""}, "port": 1}}
    desired = {"publicKey": "k", "allowedIPs": ["a"], "endpoint": {"dnsOrIP": {"ip": "192.0.2.1"}, "port": 1}}
    assert kilo_peers.same_spec(live, desired)
    assert kilo_peers.changed_fields(live, dict(desired, endpoint={"dnsOrIP": {"dns": "192.0.2.1"}, "port": 1})) == [
        "endpoint"
    ]


def test_a_keepalive_below_zero_is_none() -> None:
    assert kilo_peers.mesh_keepalive([-1]) == 0


def test_an_entry_without_access_holds_its_name_and_is_no_access() -> None:
    reference = {"kubeconfigSecretRef": {"name": "s", "key": "k"}}
    meshes = [
        {"namespace": "x", "clusters": [{"name": "a"}, {"name": "b", "kubeconfigSecretRef": None}]},
        {"namespace": "y", "clusters": [dict(reference, name="a"), dict(reference, name="c")]},
    ]
    assert kilo_meshes.registry(meshes) == [{"name": "c", "secret": "y/s", "key": "k"}]
