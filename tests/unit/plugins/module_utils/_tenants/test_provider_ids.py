# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Provider IDs, links and options: form only, read strictly."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._tenants import fields, links
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import (
    IRONCORE,
    ONMETAL,
    parse_options,
    selected,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

PART = st.text(st.characters(exclude_characters="/", exclude_categories=("Cs",)), max_size=30)
LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
NODE = st.lists(LABEL, min_size=1, max_size=4).map(".".join)


@given(PART, PART, NODE, PART)
def test_interface_ids_come_back(namespace: str, name: str, node: str, uid: str) -> None:
    parts = links.InterfaceID(namespace, name, node, uid)
    for profile in (ONMETAL, IRONCORE):
        assert links.parse_interface_id(links.format_id(parts, profile), profile) == parts


@given(PART, PART, PART, PART)
def test_network_ids_come_back(namespace: str, name: str, ident: str, uid: str) -> None:
    parts = links.NetworkID(namespace, name, ident, uid)
    assert links.parse_network_id(links.format_id(parts)) == parts


@given(st.one_of(st.text(max_size=400), st.none(), st.integers(), st.lists(st.text(max_size=3), max_size=3)))
def test_whatever_is_given_parses_or_is_refused_by_reason(text: object) -> None:
    try:
        found = links.parse_interface_id(text)
    except ValueRefused as error:
        assert error.reason in ("segment_count", "invalid_node")
        assert links.interface_id_or_none(text) is None
    else:
        assert "/" not in "".join(found)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a/b/c", "segment_count"),
        ("a/b/c/d/", "segment_count"),
        ("onmetal-api-net://onmetal-api-net://a/b/c/d", "segment_count"),
        ("ironcore-net://ns/name/node/uid", "segment_count"),
        ("a/b//d", "invalid_node"),
        ("a/b/node\n/d", "invalid_node"),
        ("a/b/Node/d", "invalid_node"),
        ("a/b/-n/d", "invalid_node"),
        ("a/b/n-/d", "invalid_node"),
        ("a/b/n..m/d", "invalid_node"),
        ("a/b/n\u0661/d", "invalid_node"),
        ("a/b/" + "n" * 254 + "/d", "invalid_node"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        links.parse_interface_id(text)
    assert caught.value.reason == reason
    assert caught.value.message


def test_an_interface_id_is_a_network_id_and_a_bare_one_is_enough() -> None:
    assert links.parse_network_id("n/i/node/u").id == "node"
    assert links.parse_interface_id("n/i/" + "n" * 253 + "/u").uid == "u"


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
        ("::ffff:102:304", "::ffff:1.2.3.4"),
        ("10.0.0.1", "10.0.0.1"),
        ("010.0.0.1", None),
        ("", None),
        (None, None),
        (7, None),
        ("10.0.0.1/32", None),
    ],
)
def test_addresses_are_canonical(given_text: object, shown: object) -> None:
    assert fields.address_or_none(given_text) == shown


def test_an_embedded_address_counts_as_ipv6_and_host_bits_stay() -> None:
    assert fields.family_of("::ffff:1.2.3.4") == "IPv6"
    assert fields.canonical_prefix("2001:DB8::7/64") == "2001:db8::7/64"


@pytest.mark.parametrize("state", ["", None, "Unknown", {}, 5, "Pending"])
def test_unknown_states_are_pending(state: object) -> None:
    assert links.interface_state(state) == "Pending"


def test_states() -> None:
    assert [links.interface_state(state) for state in ("Ready", "Error")] == ["Available", "Error"]
    assert [links.network_state(before, False) for before in ("", "Error", "Available")] == [
        "Pending",
        "Pending",
        "Available",
    ]


def test_links_need_their_labels() -> None:
    source = {"metadata": {"namespace": "team-a", "name": "n", "uid": "u"}}
    labels = links.link_labels("Network", source)
    twin = {"metadata": {"labels": labels}}
    assert links.linked("Network", twin) == links.Link("team-a", "n", "u")
    assert links.claimer("Network", twin) == "u"
    del labels[ONMETAL.link("Network", "uid")]
    assert links.claimer("Network", twin) is None
    assert links.linked("Network", twin) == links.Link("team-a", "n", "")
    assert links.linked("VirtualIP", twin) is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "apinet_namespace_missing"),
        ({"apinet_namespace": ""}, "apinet_namespace_missing"),
        ({"apinet_namespace": "a", "kinds": ["Pod"]}, "unknown_kinds"),
        ({"apinet_namespace": "a", "switches": ["magic"]}, "unknown_switches"),
        ({"apinet_namespace": "a", "profile": "other"}, "unknown_profile"),
        ({"apinet_namespace": "a", "min_public_ips": 3, "max_public_ips": 2}, "public_ips_range"),
    ],
)
def test_options_are_refused_before_anything_is_done(options: dict, reason: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        parse_options(options)
    assert caught.value.reason == reason


def test_selection() -> None:
    options = parse_options({"apinet_namespace": "a", "watch_namespace": "team-a", "watch_filter": "blue"})
    label = {ONMETAL.watch_filter_label: "blue"}
    assert selected({"metadata": {"namespace": "team-a", "labels": label}}, options)
    assert not selected({"metadata": {"namespace": "team-b", "labels": label}}, options)
    assert not selected({"metadata": {"namespace": "team-a"}}, options)
    annotated = {"namespace": "team-a", "labels": label, "annotations": {ONMETAL.managed_by_annotation: ""}}
    assert not selected({"metadata": annotated}, options)
