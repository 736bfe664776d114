# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's BGP speaker as text."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp.frr_config import (
    commands,
    established,
    parse_speaker,
    read_prefixes,
    render,
    shown,
    without_prefixes,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp.values import BgpGrants
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_network
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

HOSTILE = json.loads((pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "load_balancers.json").read_text("utf-8"))
GOOD = {"asn": 65000, "source_ip": "10.66.23.31", "neighbors": [{"address": "10.66.23.1", "asn": 65530}], "prefixes": ["203.0.113.1"]}


def speaker(**more):
    return parse_speaker(dict(GOOD, **more))


def test_it_announces_and_takes_nothing():
    text = render(speaker(prefixes=["203.0.113.9/32", "203.0.113.1", "203.0.113.1/32"]))
    assert read_prefixes(text) == ("203.0.113.1/32", "203.0.113.9/32")
    assert "  neighbor 10.66.23.1 prefix-list nothing in" in text and "ip prefix-list nothing seq 5 deny any" in text
    assert render(speaker(prefixes=["203.0.113.1", "203.0.113.9"])) == text


def test_six_and_four():
    text = render(speaker(source_ip="2001:db8::31", router_id="10.66.23.31", neighbors=[{"address": "2001:db8::1", "asn": 65530}],
                          prefixes=["2001:db8:1::1", "203.0.113.1"]))  # fmt: skip
    assert "address-family ipv6 unicast" in text and read_prefixes(text) == ("203.0.113.1/32", "2001:db8:1::1/128")
    with pytest.raises(ValueRefused):
        speaker(source_ip="2001:db8::31")


def test_prefixes_change_without_the_rest():
    before, after = render(speaker()), render(speaker(prefixes=["203.0.113.2"]))
    assert without_prefixes(before) == without_prefixes(after) != without_prefixes(render(speaker(asn=65001)))
    assert commands(65000, read_prefixes(before), read_prefixes(after)) == [
        "configure terminal", "router bgp 65000", "address-family ipv4 unicast", "no network 203.0.113.1/32", "network 203.0.113.2/32",
        "exit-address-family",
    ]  # fmt: skip


def test_a_password_is_shown_as_a_fingerprint():
    text = render(speaker(neighbors=[{"address": "10.66.23.1", "asn": 65530, "password": "Hunter-2-hunter"}]))
    assert " neighbor 10.66.23.1 password Hunter-2-hunter" in text.splitlines()
    assert "Hunter" not in "\n".join(shown(text, lambda secret: "sha256:x"))


@pytest.mark.parametrize("row", HOSTILE["bgp"], ids=[row["why"] for row in HOSTILE["bgp"]])
def test_hostile_facts(row):
    grants = {name: HOSTILE["bgp_grants"][name] for name in ("local_asns", "peer_asns")}
    limits = BgpGrants(frozenset(grants["local_asns"]), frozenset(grants["peer_asns"]),
                       tuple(map(parse_network, HOSTILE["bgp_grants"]["peers"])), tuple(map(parse_network, HOSTILE["bgp_grants"]["sources"])))  # fmt: skip
    facts = dict(HOSTILE["bgp_good"], **row["node"])
    if facts["name"] != "good":
        return  # a claim among several nodes, which one node cannot see
    password = "x" * row["node"]["password_times"] if "password_times" in row["node"] else facts.get("password", "")
    given = {"asn": facts["local_asn"], "source_ip": facts["source_ip"],
             "neighbors": [{"address": one, "asn": facts["peer_asn"], "password": password} for one in facts["peers"]]}  # fmt: skip
    with pytest.raises(ValueRefused) as caught:
        parse_speaker(given, limits)
    assert caught.value.reason == row["word"]


@pytest.mark.parametrize(
    ("more", "word"),
    [({"prefixes": ["0.0.0.0/0"]}, "special_address"), ({"prefixes": ["127.0.0.1"]}, "special_address"), ({"prefixes": ["x"]}, "bad_cidr"),
     ({"prefixes": ["203.0.113.1\n network 0.0.0.0/0"]}, "bad_cidr"), ({"hold_time": 8, "keepalive_time": 3}, "bad_format"),
     ({"router_id": "2001:db8::1"}, "bad_address"), ({"neighbors": []}, "no_ipv4_neighbor"),
     ({"neighbors": [{"address": "10.66.23.1", "asn": 65530, "multihop": 256}]}, "bad_format"),
     ({"neighbors": [{"address": "10.66.23.1", "asn": 65530, "password": "two words"}]}, "bad_format")],
)  # fmt: skip
def test_refused(more, word):
    with pytest.raises(ValueRefused) as caught:
        speaker(**more)
    assert caught.value.reason == word


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_no_value_starts_another_line(password, router, prefix):
    try:
        text = render(speaker(neighbors=[{"address": "10.66.23.1", "asn": 65530, "password": password}], router_id=router, prefixes=[prefix]))
    except ValueRefused:
        return
    assert len(text.splitlines()) <= len(render(speaker()).splitlines()) + 1


def test_sessions():
    answer = {"ipv4Unicast": {"peers": {"10.0.0.1": {"state": "Established"}, "10.0.0.2": {"state": "Active"}, "10.0.0.3": None}}}
    assert established(answer) == {"10.0.0.1": True, "10.0.0.2": False, "10.0.0.3": False}
    assert established(None) == {} and established({"ipv4Unicast": {"peers": {}}}) == {}
