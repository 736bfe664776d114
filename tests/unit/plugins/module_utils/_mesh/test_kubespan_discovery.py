# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nodes announce and what is read of it: filters, endpoints, annotations, merging, configuration."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import (
    annotations as notes,
    config,
    endpoints,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.generations import generation
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import kubespan as merging
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_address
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st

CURRENT, SEED = generation("current"), generation("v1.3")
V4 = st.integers(0, 0xFFFFFFFF).map(lambda n: str(parse_address(".".join(str(n >> s & 255) for s in (24, 16, 8, 0)))))
V6 = st.ip_addresses(v=6).filter(lambda a: a.ipv4_mapped is None).map(str)
ADDRESS = V4 | V6
PORT = st.integers(1, 65535)


@pytest.mark.parametrize(
    ("items", "candidates", "result"),
    [
        (["!10.0.0.0/8"], ["192.0.2.1"], []),
        (["!10.0.0.0/8", "0.0.0.0/0"], ["10.1.1.1"], ["10.1.1.1"]),
        (["10.1.2.3/8"], ["10.9.9.9"], ["10.9.9.9"]),
        (["10.0.0.0/8"], ["::ffff:10.0.0.1"], []),
        (["0.0.0.0/0"], ["2001:db8::1"], []),
        (["2001:db8::1", "10.0.0.1"], ["10.0.0.1", "10.0.0.2", "2001:db8::1"], ["2001:db8::1", "10.0.0.1"]),
        (None, ["10.0.0.1", "10.0.0.1"], ["10.0.0.1", "10.0.0.1"]),
    ],
)
def test_filters(items: t.Any, candidates: list[str], result: list[str]) -> None:
    kept = endpoints.apply_filters(endpoints.parse_filters(items), [parse_address(text) for text in candidates])
    assert kept == [parse_address(text) for text in result]


@pytest.mark.parametrize(
    "item",
    [
        "",
        "!",
        "!!10.0.0.0/8",
        " 10.0.0.0/8",
        "10.0.0.0/8 ",
        "! 10.0.0.0/8",
        "10.0.0.0/33",
        "10.0.0.0/8,::/0",
        "lan",
        7,
        None,
    ],
)
def test_bad_filters(item: t.Any) -> None:
    with pytest.raises(ValueRefused) as caught:
        endpoints.parse_filters(["0.0.0.0/0", item])
    assert caught.value.reason == "invalid_filter"


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text("0123456789./:!abcdef ", max_size=20), max_size=4), st.lists(ADDRESS, max_size=5))
def test_filter_parser_never_breaks(items: list[str], candidates: list[str]) -> None:
    parsed = [parse_address(text) for text in candidates]
    try:
        kept = endpoints.apply_filters(endpoints.parse_filters(items), parsed)
    except ValueRefused as error:
        assert error.reason == "invalid_filter"
    else:
        assert set(kept) <= set(parsed) and len(set(kept)) == len(kept)


def test_node_addresses() -> None:
    configured = [
        {"address": "192.0.2.11/24", "device": "eth0", "up": True},
        {"address": "10.0.0.5/8", "device": "eth1", "up": True},
        {"address": "10.0.0.5/32", "device": "eth1", "up": True},
        {"address": "2001:db8::5/64", "device": "eth0", "up": True},
        {"address": "10.244.3.1/24", "device": "cni0", "up": True},
        {"address": "172.17.0.1/16", "device": "docker0", "up": True},
        {"address": "198.51.100.1/24", "device": "eth2", "up": False},
        {"address": "203.0.113.99/32", "device": "eth0", "up": True},
        {"address": "fe80::1/64", "device": "eth0", "up": True, "scope": "link"},
        {"address": "127.0.0.1/8", "device": "lo", "up": True, "scope": "host"},
        {"address": "169.254.1.1/16", "device": "eth0", "up": True},
    ]
    found = endpoints.node_addresses(configured, ["10.244.0.0/16"], ["docker0"], ["203.0.113.99/32"])
    assert found == ["10.0.0.5", "192.0.2.11", "2001:db8::5"]


def test_local_endpoints_keep_their_order_and_the_operators_ones() -> None:
    found = endpoints.local_endpoints(
        ["10.0.0.5", "fd7f::1", "fd00:0:0:3::1"],
        "fd7f::1",
        ["198.51.100.1"],
        ["::/0", "10.0.0.0/8"],
        ["203.0.113.1:1", "10.0.0.5:4500"],
        4500,
    )
    assert found == ["[fd00:0:0:3::1]:4500", "10.0.0.5:4500", "203.0.113.1:1"]


def test_received_endpoints() -> None:
    texts = ["10.0.0.1:51820", "[2001:db8::1]:51820", "10.0.0.1:4500", "10.0.0.1:51820"]
    assert endpoints.received_endpoints(texts, None) == texts[:3]
    assert endpoints.received_endpoints(texts, ["::/0", "0.0.0.0/0"]) == [texts[1], texts[0], texts[2]]
    assert endpoints.received_endpoints(texts, []) == []


def test_additional_addresses() -> None:
    more = ["198.51.100.0/24", "10.244.1.0/24"]
    assert endpoints.additional_addresses(True, CURRENT, ["10.244.1.0/24", "fd00::/64"], more=more) == [
        "10.244.1.0/24",
        "fd00::/64",
        more[0],
    ]
    assert endpoints.additional_addresses(False, CURRENT, ["10.244.1.0/24"], more=more[:1]) == more[:1]
    assert endpoints.additional_addresses(False, SEED, [], ["10.244.1.1/24"], ["10.244.0.0/16"]) == []


def test_harvest() -> None:
    known = [{"node_id": "n", "public_key": "k"}, {"node_id": "m", "public_key": ""}]
    up = {"public_key": "k", "state": "up", "endpoint": "192.0.2.1:1"}
    assert endpoints.harvest(True, known, [up, dict(up, public_key="x"), dict(up, state="down")]) == [
        {"affiliate_id": "n", "endpoint": "192.0.2.1:1"}
    ]
    assert endpoints.harvest(False, known, [up]) == []


def node(values: dict[str, t.Any], **labels: str) -> dict[str, t.Any]:
    return {
        "metadata": {"name": "n1", "annotations": values, "labels": labels},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n1.example"}],
            "nodeInfo": {"osImage": "Debian 12"},
        },
    }


AFFILIATE = st.fixed_dictionaries(
    {
        "node_id": st.text("abcXYZ019", min_size=1, max_size=43),
        "public_key": st.text("abc+/=", min_size=1, max_size=44),
        "kubespan_address": V6,
        "api_server_port": st.integers(1, 65535),
        "addresses": st.lists(ADDRESS, max_size=4, unique=True),
        "additional_addresses": st.lists(st.builds("{0}/{1}".format, V4, st.integers(0, 32)), max_size=3),
        "exclude_advertised_networks": st.lists(st.builds("{0}/{1}".format, V6, st.integers(0, 128)), max_size=3),
        "endpoints": st.lists(
            st.builds("{0}:{1}".format, V4, PORT) | st.builds("[{0}]:{1}".format, V6, PORT), max_size=4
        ),
    }
)


@settings(deadline=None, max_examples=60)
@given(AFFILIATE)
def test_annotations_come_back(affiliate: dict[str, t.Any]) -> None:
    written = notes.encode(affiliate)
    assert tuple(written) == notes.KEYS and not any(" " in value for value in written.values())
    read = notes.decode(node({key: value for key, value in written.items() if value}))
    assert read is not None and {name: read[name] for name in affiliate} == affiliate
    assert (read["hostname"], read["nodename"], read["machine_type"], read["operating_system"]) == (
        "n1.example",
        "n1",
        "worker",
        "Debian 12",
    )


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.sampled_from(notes.KEYS), st.text("0123456789.:/[],abcdef- ", max_size=60)))
def test_annotation_reader_never_breaks(values: dict[str, str]) -> None:
    read = notes.decode(node(values))
    assert (read is None) == (not values.get(notes.NODE_ID))
    if read is not None:
        again = notes.decode(node(notes.encode(read)))
        assert again is not None and all(again[name] == read[name] for name in notes.LISTS)


def test_bad_items_are_skipped_one_by_one() -> None:
    read = notes.decode(
        node(
            {
                notes.NODE_ID: "n",
                notes.SELF_IPS: "10.0.0.1, 10.0.0.2,x,2001:DB8::1,,fe80::1%eth0",
                notes.ASSIGNED_PREFIXES: "10.244.3.1/24,10.0.0.1,10.0.0.0/33",
                notes.ENDPOINTS: "10.0.0.1:1,10.0.0.1,2001:db8::1:5,10.0.0.1:65536,[2001:db8::1]:5,host:1",
                notes.API_SERVER_PORT: "70000",
            },
            **{notes.CONTROL_PLANE_LABEL: ""},
        )
    )
    assert read is not None
    assert read["addresses"] == ["10.0.0.1", "2001:db8::1"] and read["additional_addresses"] == ["10.244.3.1/24"]
    assert read["endpoints"] == ["10.0.0.1:1", "[2001:db8::1]:5"]
    assert read["api_server_port"] is None and read["machine_type"] == "controlplane"


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"metadata": None},
        {"metadata": {"annotations": []}},
        node({notes.NODE_ID: 7}),
        node({notes.NODE_ID: "x" * 257}),
    ],
)
def test_nodes_that_are_not_part_of_it(bad: t.Any) -> None:
    assert notes.decode(bad) is None


def test_the_old_generation_knows_no_exclusions() -> None:
    assert notes.encode({"exclude_advertised_networks": ["10.0.0.0/8"]}, SEED)[notes.EXCLUDED] == ""


def test_merge() -> None:
    raw = {
        "service/a": {"node_id": "a", "hostname": "late", "endpoints": ["2", "1"], "machine_type": "unknown"},
        "inventory/a": {
            "node_id": "a",
            "hostname": "early",
            "public_key": "K",
            "endpoints": ["1"],
            "declared": True,
            "cluster": "c",
            "node": "n",
        },
        "k8s:c/a": {"node_id": "a", "hostname": "", "machine_type": "worker", "endpoints": ["3"]},
    }
    [merged] = merging.merge(raw)
    assert merged["sources"] == ["inventory", "k8s:c", "service"]
    assert merged["hostname"] == "late" and merged["public_key"] == "K" and merged["machine_type"] == "worker"
    assert merged["endpoints"] == ["1", "3", "2"] and merged["declared"] is True
    assert merging.merge(dict(reversed(list(raw.items())))) == [merged]
    # what only the vanished source provided is gone, the rest stays
    [less] = merging.merge({key: raw[key] for key in raw if not key.startswith("k8s")})
    assert less["endpoints"] == ["1", "2"]
    # nobody knows better than "unknown"
    assert less["machine_type"] == "unknown"
    later = merging.merge({"k8s:c/a": raw["service/a"], "service/a": dict(raw["k8s:c/a"], machine_type="controlplane")})
    assert [one["machine_type"] for one in later] == ["controlplane"]


def test_config() -> None:
    parsed = config.parse_config(
        {
            "enabled": True,
            "allowDownPeerBypass": True,
            "mtu": 1280,
            "filters": {"endpoints": [], "peerEndpoints": ["!10.0.0.0/8"]},
            "extraAnnouncedEndpoints": ["[2001:DB8::1]:5"],
        }
    )
    assert parsed.enabled and not parsed.force_routing and parsed.mtu == 1280 and parsed.endpoint_filters == []
    assert parsed.extra_announced_endpoints == ["[2001:db8::1]:5"]
    assert config.parse_config({}).enabled is False and config.parse_config({}, gen=SEED).harvest_extra_endpoints
    assert config.parse_config({"mtu": 0}, legacy=True).mtu == 1420


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "bad_option"),
        ({"enabled": "yes"}, "bad_option"),
        ({"enable": True}, "bad_option"),
        ({"filters": []}, "bad_option"),
        ({"filters": {"peers": []}}, "bad_option"),
        ({"mtu": 0}, "bad_mtu"),
        ({"mtu": 1279}, "bad_mtu"),
        ({"mtu": True}, "bad_mtu"),
        ({"filters": {"endpoints": ["x"]}}, "invalid_filter"),
        ({"filters": {"endpoints": "0.0.0.0/0"}}, "invalid_filter"),
        ({"filters": {"peerEndpoints": [" ::/0"]}}, "invalid_filter"),
        ({"filters": {"excludeAdvertisedNetworks": ["10.0.0.1"]}}, "bad_cidr"),
        ({"filters": {"excludeAdvertisedNetworks": "10.0.0.0/8"}}, "bad_cidr"),
        ({"extraAnnouncedEndpoints": ["host:1"]}, "bad_endpoint"),
        ({"extraAnnouncedEndpoints": "10.0.0.1:1"}, "bad_endpoint"),
    ],
)
def test_bad_config(document: t.Any, reason: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        config.parse_config(document)
    assert caught.value.reason == reason


def test_mesh_values() -> None:
    secret = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
    assert config.parse_mesh("any text", secret) == ("any text", bytes(range(1, 33)))
    bad_secrets = ["", "c2hvcnQ=", secret.replace("A", "_"), "A" * 43 + "=", 7]
    for mesh, value in [("", secret), ("x" * 257, secret), (None, secret), *(("m", bad) for bad in bad_secrets)]:
        with pytest.raises(ValueRefused) as caught:
            config.parse_mesh(mesh, value)
        assert caught.value.reason.startswith("bad_mesh") and "AQID" not in caught.value.message
