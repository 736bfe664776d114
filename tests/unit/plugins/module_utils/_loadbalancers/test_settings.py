# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings, the load-balancer setting, provider IDs, ranges: nothing but values or a reason comes out of any text."""

from __future__ import annotations

import json

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import (
    named_pools,
    pools,
    reservations,
    service_plan,
    settings,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.setup import parse_setup
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

TWO = {"METAL_API_KEY": "k", "METAL_PROJECT_ID": "p"}


def reason_of(function, *arguments, **named):
    with pytest.raises(ValueRefused) as raised:
        function(*arguments, **named)
    return raised.value.reason


def read(env=(), file=None, **named):
    return settings.read_settings(dict(TWO, **dict(env)), file, **named).values


SAMPLES = {settings.TEXT: ("env", "file"), settings.NUMBER: ("64512", 64513), settings.BOOLEAN: ("false", True)}


@pytest.mark.parametrize("item", settings.SETTINGS, ids=[item.name for item in settings.SETTINGS])
def test_every_name_and_its_rank(item):
    env, file = SAMPLES[item.kind]
    if item.name == "bgp_node_selector":
        env, file = "env=a", "file=a"
    env_value = {settings.TEXT: env, settings.NUMBER: 64512, settings.BOOLEAN: False}[item.kind]
    others = {} if item.name in ("api_key", "project_id") else TWO
    for key in item.keys:
        rest = {} if others else {other: "x" for other in ("apiKey", "projectID") if other not in item.keys}
        text = json.dumps(dict(rest, **{key.upper(): file}))
        assert settings.read_settings(others, text).values[item.name] == file
        for variable in item.variables:
            assert settings.read_settings(dict(others, **{variable: env}), text).values[item.name] == env_value
            assert (
                settings.read_settings(dict(others, **{variable: env}), text, {item.name: file}).values[item.name]
                == file
            )
            old = variable.replace("METAL_", "PACKET_")
            assert settings.read_settings(dict(others, **{old: env}), text).values[item.name] == file
    if len(item.variables) > 1:
        newer, older = item.variables
        assert read({newer: "new", older: "old"})[item.name] == "new"
    if not item.missing:
        assert read()[item.name] == item.default


def test_what_is_missing_and_wrong():
    assert reason_of(settings.read_settings, {}) == "missing_api_key"
    assert reason_of(settings.read_settings, {"METAL_API_KEY": "k"}) == "missing_project_id"
    assert settings.read_settings({}, required=False).values["api_key"] == ""
    for text in (
        "",
        "[]",
        "1",
        '"x"',
        "{]",
        '{"localASN": "65000"}',
        '{"localASN": 1.5}',
        '{"localASN": true}',
        '{"metro": 1}',
        "\ud800",
    ):
        assert reason_of(read, (), text) == "config_parse"
    for number in ("-1", "+1", "1_0", "0x1", "\u0661", "1.0", "4294967296", "9" * 30):
        assert reason_of(read, {"METAL_LOCAL_ASN": number}) == "not_a_number"
    assert reason_of(read, {"METAL_EIP_HEALTH_CHECK_USE_HOST_IP": "yes"}) == "not_a_boolean"
    assert (
        read({"METAL_EIP_HEALTH_CHECK_USE_HOST_IP": "0"}, '{"eipHealthCheckUseHostIP": true}')[
            "eip_health_check_use_host_ip"
        ]
        is False
    )
    assert read((), '{"localASN": 0, "unknown": []}')["local_asn"] == 65000


def test_an_empty_tag_switches_the_feature_off_and_other_empty_variables_do_nothing():
    file = '{"eipTag": "t", "metro": "da"}'
    assert read({"METAL_EIP_TAG": ""}, file)["eip_tag"] == "" and read((), file)["eip_tag"] == "t"
    assert read({"METAL_EIP_TAG": ""}, file, empty_tag_disables=False)["eip_tag"] == "t"
    assert read({"METAL_METRO_NAME": ""}, file)["metro"] == "da"


def test_secrets_are_not_shown():
    found = settings.read_settings(
        {"METAL_API_KEY": "s3cret", "METAL_PROJECT_ID": "p"}, '{"bgpPass": "s3cret", "loadBalancerID": "x"}'
    )
    assert "s3cret" not in str(found.printable()) and len(found.warnings) == 1
    with pytest.raises(settings.SettingRefused) as raised:
        settings.read_settings({}, '{"apiKey": "s3cret"')
    assert "s3cret" not in str(raised.value)


#: All that is ever said of a file: its text holds the token.
SAID = {"the configuration file is no JSON object"} | {
    key + " in the configuration file has the wrong type" for item in settings.SETTINGS for key in item.keys
}


@given(
    st.text(max_size=30)
    | st.builds(
        json.dumps, st.dictionaries(st.sampled_from(["apiKey", "localASN", "eipTag"]), st.text() | st.integers())
    )
)
def test_any_file(text):
    try:
        values = settings.read_settings(TWO, text).values
    except settings.SettingRefused as refused:
        assert refused.reason == "config_parse" and refused.message in SAID
        return
    assert set(values) == {item.name for item in settings.SETTINGS}


@pytest.mark.parametrize(
    "text,type_,namespace,name,warned",
    [
        ("", "disabled", "", "", False),
        ("metallb-system:config", "disabled", "", "", True),
        ("nginx://", "disabled", "", "", True),
        ("metallb", "disabled", "", "", True),
        ("kube-vip://", "kube-vip", "", "", False),
        ("KUBE-VIP:", "kube-vip", "", "", False),
        ("empty:", "empty", "", "", False),
        ("metallb:", "metallb", "metallb-system", "config", False),
        ("MetalLB:///", "metallb", "metallb-system", "config", False),
        ("metallb://lb:conf", "metallb", "lb", "conf", False),
        ("metallb://:conf", "metallb", "metallb-system", "conf", False),
        ("metallb://lb:", "metallb", "lb", "config", False),
        ("metallb:///lb/conf/", "metallb", "lb", "conf", False),
        ("metallb:////conf", "metallb", "metallb-system", "conf", False),
        ("metallb://lb", "metallb", "metallb-system", "config", True),
        ("metallb:///lb/conf/more", "metallb", "lb", "conf", True),
        ("metallb:///../etc", "disabled", "", "", True),
        ("metallb:///ns?crdConfiguration=T", "metallb", "ns", "", False),
        ("metallb:///ns?crdConfiguration=0&x=1", "metallb", "ns", "config", False),
        ("emlb:///sv", "emlb", "", "", True),
    ],
)
def test_load_balancer(text, type_, namespace, name, warned):
    found = settings.parse_load_balancer(text)
    assert (found.type, found.namespace, found.configmap, bool(found.warnings)) == (type_, namespace, name, warned)
    assert found.enabled == found.uses_bgp == (type_ in ("metallb", "kube-vip", "empty"))


@given(
    st.text()
    | st.lists(st.sampled_from(["metallb", ":", "/", "?", "crdConfiguration=", "ns", "1", "&", "#"])).map("".join)
)
def test_any_load_balancer(text):
    try:
        found = settings.parse_load_balancer(text)
    except ValueRefused as refused:
        assert refused.reason == "bad_boolean"
        return
    assert found.type in ("disabled", "metallb", "kube-vip", "empty", "emlb")
    assert found.type != "metallb" or (
        found.namespace and found.mode in ("crd", "configmap") and "/" not in found.namespace
    )


@given(
    st.text(max_size=20)
    | st.builds("{0}://{1}".format, st.sampled_from(["equinixmetal", "packet", "aws"]), st.text(max_size=10))
)
def test_any_provider_id(text):
    try:
        device = reservations.parse_provider_id(text)
    except ValueRefused as refused:
        assert refused.reason in ("empty_provider_id", "wrong_provider", "bad_format")
        return
    assert device and not set(device) & set("/?#% \n") and text.endswith(device)


def test_locations():
    places = service_plan.Places("da", "ams1", "ny5")
    assert service_plan.location_of({"metal.equinix.com/eip-metro": ""}, places) == {"metro": "da"}
    assert service_plan.location_of(None, places._replace(metro="")) == {"facility": "ams1"}
    assert service_plan.location_of({"metal.equinix.com/eip-facility": "sv1"}, places) == {"facility": "sv1"}
    assert service_plan.location_of(None, service_plan.Places(host_facility="ny5")) == {"facility": "ny5"}
    assert reason_of(service_plan.location_of, {}, service_plan.Places()) == "no_location"


@given(st.text(max_size=40))
def test_any_span(text):
    try:
        found = pools.parse_span(text)
    except ValueRefused as refused:
        assert refused.reason == "bad_cidr"
        return
    assert found.first <= found.last


def lowest(pool, taken=(), version=4):
    """What a nameless pool gives to a Service that asks for nothing."""
    return named_pools.allocate(
        named_pools.Grants((named_pools.NamedPool("default", pool),)),
        named_pools.Wish("a", "b", version=version),
        named_pools.Held(dict.fromkeys(taken, "")),
    )


@given(st.lists(st.integers(0, 7), unique=True))
def test_a_pool_hands_out_the_lowest_free_address_once(taken):
    pool = pools.parse_pool(["203.0.113.8/30", "203.0.113.20-203.0.113.23"])
    every = [f"203.0.113.{n}" for n in (8, 9, 10, 11, 20, 21, 22, 23)]
    free = [address for n, address in enumerate(every) if n not in taken]
    if not free:
        assert reason_of(lowest, pool, [every[n] for n in taken]) == "quota"
        return
    assert lowest(pool, [every[n] for n in taken]) == free[0] and free[0] in pool


#: Addresses of both families, few enough to count them one by one: the last of IPv4, the first and some of IPv6.
PLACES = [
    *(f"255.255.255.{n}" for n in range(248, 256)),
    *(f"::{n or ''}" for n in range(8)),
    *(f"2001:db8::{n or ''}" for n in range(8)),
]
BOUNDS = st.tuples(st.integers(0, len(PLACES) - 1), st.integers(0, 7)).map(
    lambda pair: (pair[0], pair[0] // 8 * 8 + max(pair[0] % 8, pair[1]))
)


@given(st.dictionaries(st.sampled_from("abcd"), BOUNDS, max_size=4), st.sets(st.sampled_from(PLACES)))
def test_pools_of_both_families_against_single_addresses(bounds, taken):
    made = {name: pools.parse_pool([f"{PLACES[first]}-{PLACES[last]}"]) for name, (first, last) in bounds.items()}
    inside = {name: PLACES[first : last + 1] for name, (first, last) in bounds.items()}
    for name, pool in made.items():
        assert [place for place in PLACES if place in pool] == inside[name]
        version = 6 if ":" in inside[name][0] else 4
        free = [place for place in inside[name] if place not in taken]
        if free:
            assert lowest(pool, taken, version) == free[0]
        else:
            assert reason_of(lowest, pool, taken, version) == "quota"
        assert reason_of(lowest, pool, taken, 10 - version) == "quota"
    pairs = [
        (one, other, [place for place in inside[one] if place in inside[other]])
        for one in inside
        for other in inside
        if one < other
    ]
    assert sorted(pools.shared(made)) == sorted((one, other, both[0]) for one, other, both in pairs if both)


def test_a_large_range_costs_nothing_until_it_is_used():
    pool = pools.parse_pool(["2001:db8::/32", "10.0.0.0/8"])
    assert lowest(pool, version=6) == "2001:db8::"
    assert pools.shared({"a": pool, "b": pools.parse_pool(["2001:db8:ffff::/48"])}) == [("a", "b", "2001:db8:ffff::")]


def test_pools_that_overlap_are_refused():
    assert reason_of(pools.parse_pool, ["10.0.0.0/24", "10.0.0.9"]) == "claimed_twice"
    assert reason_of(pools.parse_pool, ["10.0.0.9-10.0.0.1"]) == "bad_cidr"


def test_settings_come_back_from_their_own_text():
    desired = {
        "api_key": "token",
        "project_id": "p",
        "metro": "da",
        "local_asn": 64512,
        "eip_health_check_use_host_ip": True,
        "facility": "",
    }
    found = settings.read_settings({}, settings.settings_text(desired)).values
    assert {name: found[name] for name in desired} == desired
    with pytest.raises(ValueRefused):
        settings.settings_text({"token": "x"})


@pytest.mark.parametrize(
    "given, reason",
    [
        ({"metallb_layer2": {"interfaces": ["eth0"]}}, "bad_setting"),
        ({"metallb_advertise": "bgp", "metallb_layer2": {"interfaces": ["eth0"]}}, "bad_setting"),
        ({"metallb_advertise": "both", "metallb_layer2": {"interfaces": ["eth0 eth1"]}}, "bad_format"),
        ({"layer2_reserved_vrids": [300]}, "bad_format"),
        (
            {
                "layer2_nodes": [
                    {"name": "n1", "segment": "a", "addresses": ["10.0.0.1"]},
                    {"name": "n2", "segment": "a", "addresses": ["10.0.0.1"]},
                ]
            },
            "claimed_twice",
        ),
    ],
)
def test_settings_of_a_segment_that_cannot_be(given, reason):
    with pytest.raises(ValueRefused) as caught:
        parse_setup(
            dict(given, cluster="aws", load_balancer="metallb:///metallb-system?crdConfiguration=true"), {}, None
        )
    assert caught.value.reason == reason


def test_how_metallb_announces():
    def options(**given):
        return parse_setup(
            dict(given, cluster="aws", load_balancer="metallb:///metallb-system?crdConfiguration=true"), {}, None
        ).resource_options

    assert options().layer2 is None and options().by_bgp
    both = options(metallb_advertise="both", metallb_layer2={"interfaces": ["eth0"], "node_selectors": [{"rack": "1"}]})
    assert (
        both.by_bgp
        and both.layer2.interfaces == ("eth0",)
        and both.layer2.node_selectors == ({"matchLabels": {"rack": "1"}},)
    )
    assert not options(metallb_advertise="layer2").by_bgp
