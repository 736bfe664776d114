# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's BGP speaker as text."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp import bird_config, frr_config
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp.frr_config import (
    changes,
    read_prefixes,
    render,
    shown,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp.speaker import parse_speaker
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp.values import BgpGrants
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_network
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

HOSTILE = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "load_balancers.json").read_text("utf-8")
)
GOOD = {
    "asn": 65000,
    "source_ip": "10.66.23.31",
    "neighbors": [{"address": "10.66.23.1", "asn": 65530}],
    "prefixes": ["203.0.113.1"],
}


def speaker(**more):
    return parse_speaker(dict(GOOD, **more))


def test_it_announces_and_takes_nothing():
    text = render(speaker(prefixes=["203.0.113.9/32", "203.0.113.1", "203.0.113.1/32"]))
    assert read_prefixes(text) == ("203.0.113.1/32", "203.0.113.9/32")
    assert "  neighbor 10.66.23.1 prefix-list nothing in" in text and "ip prefix-list nothing seq 5 deny any" in text
    assert render(speaker(prefixes=["203.0.113.1", "203.0.113.9"])) == text


def test_six_and_four():
    text = render(
        speaker(
            source_ip="2001:db8::31",
            router_id="10.66.23.31",
            neighbors=[{"address": "2001:db8::1", "asn": 65530}],
            prefixes=["2001:db8:1::1", "203.0.113.1"],
        )
    )
    assert "address-family ipv6 unicast" in text and read_prefixes(text) == ("203.0.113.1/32", "2001:db8:1::1/128")
    with pytest.raises(ValueRefused):
        speaker(source_ip="2001:db8::31")
    both = [
        {"address": "10.66.23.1", "asn": 65530},
        {"address": "2001:db8::1", "asn": 65530, "source_ip": "2001:db8::31"},
    ]
    text = render(speaker(neighbors=both, prefixes=["2001:db8:1::1", "203.0.113.1"]))
    assert (
        " neighbor 10.66.23.1 update-source 10.66.23.31" in text
        and " neighbor 2001:db8::1 update-source 2001:db8::31" in text
    )
    with pytest.raises(ValueRefused):
        speaker(neighbors=[both[0], dict(both[1], source_ip=None)])


def test_prefixes_change_without_the_rest():
    assert changes(render(speaker()), render(speaker(prefixes=["203.0.113.2"]))) == [
        "router bgp 65000",
        " address-family ipv4 unicast",
        "  no network 203.0.113.1/32",
        "  network 203.0.113.2/32",
        " exit-address-family",
        "exit",
    ]
    assert changes(render(speaker()), render(speaker())) == []


def test_attributes_come_before_what_has_them_and_go_after_it():
    plain, marked = (
        render(speaker()),
        render(speaker(communities=["65000:1"], large_communities=["65000:1:2"], local_preference=200, med=0)),
    )
    name = next(line.split()[1] for line in marked.splitlines() if line.startswith("route-map "))
    assert changes(plain, marked) == [
        f"route-map {name} permit 10",
        " set community 65000:1",
        " set large-community 65000:1:2",
        " set local-preference 200",
        " set metric 0",
        "exit",
        "router bgp 65000",
        " address-family ipv4 unicast",
        "  network 203.0.113.1/32 route-map " + name,
        " exit-address-family",
        "exit",
    ]
    back = changes(marked, plain)
    assert "  network 203.0.113.1/32" in back and "  no network 203.0.113.1/32" not in back  # never gone in between
    assert back[-1] == f"no route-map {name} permit 10"


def test_a_session_is_touched_only_where_its_own_lines_differ():
    two = [{"address": "10.66.23.1", "asn": 65530}, {"address": "10.66.23.2", "asn": 65530}]
    before = render(speaker(neighbors=two))
    after = changes(before, render(speaker(neighbors=[two[0], dict(two[1], password="secret", multihop=3)])))
    assert [line for line in after if "neighbor" in line] == [
        " no neighbor 10.66.23.2 disable-connected-check",
        " neighbor 10.66.23.2 password secret",
        " neighbor 10.66.23.2 ebgp-multihop 3",
    ]
    other = changes(before, render(speaker(neighbors=[two[0], dict(two[1], asn=65531)])))
    assert other[1:3] == [
        " no neighbor 10.66.23.2",
        " neighbor 10.66.23.2 remote-as 65531",
    ] and "10.66.23.1" not in "".join(other).replace("10.66.23.1/", "")
    gone = changes(before, render(speaker(neighbors=two[:1])))
    assert gone == ["router bgp 65000", " no neighbor 10.66.23.2", "exit"]
    assert changes(before, render(speaker(asn=65001, neighbors=two)))[:2] == ["no router bgp 65000", "router bgp 65001"]


def test_pools():
    pools = [
        {"network": "203.0.113.0/27", "announce": "both", "med": 7},
        {"network": "203.0.113.16/28", "announce": "aggregate", "communities": ["65000:9"]},
    ]
    one = speaker(pools=pools, local_preference=150)
    assert one.attributes_of("203.0.113.1/32").med == 7 and one.attributes_of("203.0.113.1/32").local_preference == 150
    assert (
        one.attributes_of("203.0.113.17/32").communities == ("65000:9",)
        and one.attributes_of("198.51.100.1/32").med is None
    )
    assert one.announcing(["203.0.113.1/32"]).prefixes == ("203.0.113.0/27", "203.0.113.1/32")
    assert one.announcing(["203.0.113.17/32"]).prefixes == ("203.0.113.16/28",)
    # one that depends on this node stays alongside the network that every node announces
    assert one.announcing(["203.0.113.17/32"], {"203.0.113.17/32"}).prefixes == ("203.0.113.16/28", "203.0.113.17/32")
    assert one.announcing([]).prefixes == ()


@given(st.sampled_from(["communities", "large_communities"]), st.text(max_size=30))
def test_no_community_starts_another_line(kind, text):
    try:
        rendered = render(speaker(**{kind: [text]}))
    except ValueRefused as error:
        assert error.reason == "bad_format"
        return
    assert len(rendered.splitlines()) == len(
        render(speaker(**{kind: ["1:2" if kind == "communities" else "1:2:3"]})).splitlines()
    )
    assert rendered.isascii()


PARTS = st.fixed_dictionaries(
    {
        "asn": st.sampled_from([65000, 65001]),
        "prefixes": st.sets(
            st.sampled_from([f"203.0.113.{number}/32" for number in range(4)] + ["2001:db8::1/128"])
        ).map(sorted),
        "neighbors": st.lists(
            st.builds(
                lambda last, asn, password, hops: dict(
                    {"address": f"10.66.23.{last}", "asn": asn, "password": password}, **hops
                ),
                st.integers(1, 3),
                st.sampled_from([65530, 65000]),
                st.sampled_from(["", "one", "two"]),
                st.sampled_from([{}, {"multihop": 2}, {"ttl_security": 1}]),
            ),
            min_size=1,
            max_size=3,
            unique_by=lambda row: row["address"],
        ),
        "communities": st.sampled_from([[], ["1:2"], ["1:2", "1:3"]]),
        "med": st.sampled_from([None, 0, 5]),
        "graceful_restart": st.booleans(),
    }
)


@given(PARTS, PARTS)
def test_nothing_that_both_have_is_taken_away(one, other):
    before, after = render(speaker(**one)), render(speaker(**other))
    lines = changes(before, after)
    assert bool(lines) == (before != after)
    kept = set(read_prefixes(before)) & set(read_prefixes(after)) if one["asn"] == other["asn"] else set()
    assert not {"no network " + prefix for prefix in kept} & {line.strip() for line in lines}
    same = (
        [row["address"] for row in one["neighbors"] if row in other["neighbors"]] if one["asn"] == other["asn"] else []
    )
    assert not [
        line for line in lines for address in same if f"neighbor {address} " in line + " " and "remote-as" in line
    ]


def test_a_password_is_shown_as_a_fingerprint():
    text = render(speaker(neighbors=[{"address": "10.66.23.1", "asn": 65530, "password": "Hunter-2-hunter"}]))
    assert " neighbor 10.66.23.1 password Hunter-2-hunter" in text.splitlines()
    assert "Hunter" not in "\n".join(shown(text, lambda secret: "sha256:x"))


@pytest.mark.parametrize("row", HOSTILE["bgp"], ids=[row["why"] for row in HOSTILE["bgp"]])
def test_hostile_facts(row):
    grants = {name: HOSTILE["bgp_grants"][name] for name in ("local_asns", "peer_asns")}
    limits = BgpGrants(
        frozenset(grants["local_asns"]),
        frozenset(grants["peer_asns"]),
        tuple(map(parse_network, HOSTILE["bgp_grants"]["peers"])),
        tuple(map(parse_network, HOSTILE["bgp_grants"]["sources"])),
    )
    facts = dict(HOSTILE["bgp_good"], **row["node"])
    if facts["name"] != "good":
        return  # a claim among several nodes, which one node cannot see
    password = "x" * row["node"]["password_times"] if "password_times" in row["node"] else facts.get("password", "")
    given = {
        "asn": facts["local_asn"],
        "source_ip": facts["source_ip"],
        "neighbors": [{"address": one, "asn": facts["peer_asn"], "password": password} for one in facts["peers"]],
    }
    with pytest.raises(ValueRefused) as caught:
        parse_speaker(given, limits)
    assert caught.value.reason == row["word"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"prefixes": ["0.0.0.0/0"]}, "special_address"),
        ({"prefixes": ["127.0.0.1"]}, "special_address"),
        ({"prefixes": ["x"]}, "bad_cidr"),
        ({"prefixes": ["203.0.113.1\n network 0.0.0.0/0"]}, "bad_cidr"),
        ({"hold_time": 8, "keepalive_time": 3}, "bad_format"),
        ({"router_id": "2001:db8::1"}, "bad_address"),
        ({"neighbors": []}, "no_ipv4_neighbor"),
        ({"neighbors": [{"address": "10.66.23.1", "asn": 65530, "multihop": 256}]}, "bad_format"),
        ({"neighbors": [{"address": "10.66.23.1", "asn": 65530, "ttl_security": 255}]}, "bad_format"),
        ({"neighbors": [{"address": "10.66.23.1", "asn": 65530, "ttl_security": 1, "multihop": 2}]}, "bad_format"),
        ({"med": -1}, "bad_format"),
        ({"local_preference": 2**32}, "bad_format"),
        ({"communities": ["65536:1"]}, "bad_format"),
        ({"pools": [{"network": "203.0.113.0/27"}, {"network": "203.0.113.0/27"}]}, "claimed_twice"),
        ({"pools": [{"network": "0.0.0.0/0"}]}, "special_address"),
        ({"neighbors": [{"address": "10.66.23.1", "asn": 65530, "password": "two words"}]}, "bad_format"),
    ],
)
def test_refused(more, reason):
    with pytest.raises(ValueRefused) as caught:
        speaker(**more)
    assert caught.value.reason == reason


@pytest.mark.parametrize("config", [frr_config, bird_config])
@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_no_value_starts_another_line(config, password, router, prefix):
    try:
        text = config.render(
            speaker(
                neighbors=[{"address": "10.66.23.1", "asn": 65530, "password": password}],
                router_id=router,
                prefixes=[prefix],
            )
        )
    except ValueRefused:
        return
    assert len(text.splitlines()) <= len(config.render(speaker()).splitlines()) + 1


@pytest.mark.parametrize("config", [frr_config, bird_config])
@given(st.text("!\"#$%&'()*+,-./0;<=>?@[\\]^_`{|}~ab", min_size=1, max_size=80))
def test_a_password_stays_a_token(config, password):
    try:
        one = speaker(neighbors=[{"address": "10.66.23.1", "asn": 65530, "password": password}])
        text = config.render(one)
    except ValueRefused:
        assert '"' in password and config is bird_config
        return
    quoted = [f'  password "{password}";', " neighbor 10.66.23.1 password " + password]
    assert [line for line in text.splitlines() if line in quoted]
    marked = [
        line
        for line in config.shown(text, lambda secret: "MASKED" if secret == password else "WRONG")
        if "MASKED" in line or "WRONG" in line
    ]
    assert len(marked) == 1 and "WRONG" not in marked[0] and len(marked[0]) < 60


def test_a_router_is_watched_by_either_daemon():
    watched = speaker(neighbors=[{"address": "10.66.23.1", "asn": 65530, "bfd": True}])
    assert (
        " neighbor 10.66.23.1 bfd" in render(watched).splitlines()
        and " neighbor 10.66.23.1 bfd" not in render(speaker()).splitlines()
    )
    assert frr_config.changes(render(speaker()), render(watched)) == [
        "router bgp 65000",
        " neighbor 10.66.23.1 bfd",
        "exit",
    ]
    assert frr_config.changes(render(watched), render(speaker())) == [
        "router bgp 65000",
        " no neighbor 10.66.23.1 bfd",
        "exit",
    ]
    text = bird_config.render(watched)
    assert "  bfd on;" in text and "protocol bfd {" in text and bird_config.read_prefixes(text) == ("203.0.113.1/32",)
