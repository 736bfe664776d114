# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BGP facts, annotations, devices, areas, the provider's words."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import providers
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import (
    equinix_records,
    instances,
    node_annotations as na,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp import values as bgp
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st

NODE = bgp.NodeBgp("n1", "10.66.1.5", 65000, 65530, ("169.254.255.9", "169.254.255.10"), "Abcdef1234")
P = "metal.equinix.com/"


def test_a_project_that_has_bgp_is_never_written():
    assert bgp.project_bgp({}, 65000, "Abcdef1234").post["md5"] == "Abcdef1234"
    assert "md5" not in bgp.project_bgp({"id": "x", "status": "Disabled"}, 65000).post
    read = {"id": "x", "status": "Requested", "asn": 65100, "md5": "Zz1", "max_prefix": 10}
    assert bgp.project_bgp(read, 65000) == (None, 65100, "Zz1", 10)
    assert bgp.project_bgp(read, 65000, "own", adopt=False) == (None, 65000, "own", 10)
    assert bgp.session_answer(422, "Address family already has session with ipv4") == (True, False)
    assert [bgp.session_answer(status, "x")[0] for status in (201, 422, 404, None)] == [True, False, False, False]


def test_gaps_are_filled_from_the_configuration():
    record = {"address_family": 4, "customer_ip": "10.0.0.1", "peer_ips": ["169.254.255.1"], "customer_as": 65111}
    found = bgp.node_bgp("n", [{"address_family": 6}, record], 1, 2, "pw")
    assert (found.local_asn, found.peer_asn, found.password) == (65111, 2, "pw")
    for records in (None, [], [{"address_family": 6}], [{"address_family": "ipv4"}]):
        with pytest.raises(ValueRefused, match="no_ipv4_neighbor"):
            bgp.node_bgp("n", records)
    for asn in ("65000", -1, 2**32, 1.5, True):
        with pytest.raises(ValueRefused, match="api"):
            bgp.node_bgp("n", [dict(record, customer_as=asn)])


def test_spellings():
    legacy = na.node_annotations(NODE, na.Scheme(na.LEGACY))
    assert legacy == {
        P + "node-asn": "65000",
        P + "peer-asns": "65530",
        P + "peer-ips": "169.254.255.10,169.254.255.9",
        P + "src-ip": "10.66.1.5",
        P + "peer-asn": "65530",
        P + "peer-ip": "169.254.255.10,169.254.255.9",
    }
    assert P + "peer-ip" not in na.node_annotations(NODE, na.Scheme(na.LEGACY, singular=False))
    own = na.node_annotations(NODE, na.Scheme(na.LEGACY, {"peer_ip": "e/x", "local_asn": "e/{{n}}"}))
    assert own["e/x"] and own["e/{{n}}"] == "65000" and P + "peer-ip" not in own and P + "peer-asn" in own
    indexed = na.node_annotations(
        NODE,
        na.Scheme(na.INDEXED, {"peer_ip": "e/{{n}}-{{n}}", "source_ip": "e/src"}, publish_password=True),
        "10.66.1.0/25",
    )
    assert (
        indexed["e/0-{{n}}"] == "169.254.255.10"
        and indexed["e/1-{{n}}"] == "169.254.255.9"
        and indexed["e/src"] == "10.66.1.5"
    )
    assert (
        indexed[P + "bgp-peers-1-bgp-pass"] == "QWJjZGVmMTIzNA==" and indexed[P + "network-4-private"] == "10.66.1.0/25"
    )
    both = na.node_annotations(NODE, na.Scheme(na.BOTH, {"local_asn": "e/{{n}}", "source_ip": "e/src"}))
    assert {"e/0", "e/1", "e/src", P + "node-asn", P + "bgp-peers-0-src-ip"} <= set(both) and P + "peer-ip" not in both


def test_passwords_are_not_published_and_published_ones_go():
    scheme = na.Scheme()
    desired = na.node_annotations(NODE, scheme)
    assert not [key for key in desired if "pass" in key] and "QWJj" not in str(desired)
    existing = dict(
        desired,
        **{
            P + "bgp-peers-0-bgp-pass": "QWJj",
            P + "bgp-peers-2-peer-ip": "x",
            P + "bgp-peers-x-peer-ip": "x",
            "a/b": "c",
        },
    )
    patch = patch_of(existing, NODE, scheme)
    assert patch == {P + "bgp-peers-0-bgp-pass": None, P + "bgp-peers-2-peer-ip": None}
    assert na.password_keys(patch, scheme) == {P + "bgp-peers-0-bgp-pass"}


def patch_of(existing, node, scheme, **options):
    objects = {node.name: {"metadata": {"name": node.name, "annotations": existing}}}
    unused, patches = na.plan_node_annotations("c", [node], {}, objects, scheme, "multicluster.network/f", **options)
    return patches[0].values if patches else {}


KEYS = st.sampled_from(
    [P + "node-asn", P + "bgp-peers-0-peer-ip", P + "bgp-peers-7-src-ip", P + "bgp-peers-07-src-ip", "a/b"]
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(KEYS, st.text(max_size=3)), st.sampled_from([na.LEGACY, na.INDEXED, na.BOTH]), st.integers(0, 3))
def test_one_patch_settles_and_touches_nothing_unowned(existing, names, count):
    scheme = na.Scheme(names)
    node = NODE._replace(peers=tuple(f"169.254.255.{n}" for n in range(count)))
    patch = patch_of(existing, node, scheme)
    after = {key: value for key, value in dict(existing, **patch).items() if value is not None}
    assert patch_of(after, node, scheme) == {}
    assert after.get("a/b") == existing.get("a/b") and after.get(P + "bgp-peers-07-src-ip") == existing.get(
        P + "bgp-peers-07-src-ip"
    )


def test_private_network():
    row = {
        "address": "10.66.1.5",
        "public": False,
        "management": True,
        "address_family": 4,
        "parent_block": {"network": "10.66.1.0", "cidr": 25},
    }
    assert na.private_network([dict(row, public=True), dict(row, management=False), row]) == "10.66.1.0/25"
    for rows in (
        [],
        [dict(row, parent_block=None)],
        [dict(row, parent_block={"network": "x", "cidr": 25})],
        [dict(row, parent_block={"network": "10.0.0.0"})],
    ):
        with pytest.raises(ValueRefused, match="no_private_network"):
            na.private_network(rows)


V4 = [
    {"address": a, "public": p, "address_family": 4}
    for a, p in (("10.0.0.1", False), ("10.0.0.2", False), ("192.0.2.1", True), ("192.0.2.2", True))
]
DEVICE = instances.Device("d1", "n1", "active", "slug", "Name", "da", "da11", tuple(V4))


def test_devices():
    assert instances.device_of("n1", "", [DEVICE]) == DEVICE and instances.device_of("n2", "", [DEVICE]) is None
    assert (
        instances.device_of("other", "packet://d1", [DEVICE]) == DEVICE
        and instances.device_of("n1", "packet://d2", [DEVICE]) is None
    )
    for name, ident, devices, reason in (
        ("", "", [DEVICE], "bad_format"),
        ("n1", "", [DEVICE, DEVICE._replace(id="d2")], "claimed_twice"),
        ("n1", "aws://d1", [DEVICE], "wrong_provider"),
        ("n1", "packet://a://b", [DEVICE], "bad_format"),
    ):
        with pytest.raises(ValueRefused, match=reason):
            instances.device_of(name, ident, devices)
    single = instances.node_addresses(DEVICE, None, instances.Variant(address_list=instances.SINGLE))
    assert [row["address"] for row in single] == ["n1", "10.0.0.2", "192.0.2.2"]
    assert [row["address"] for row in instances.node_addresses(DEVICE, "10.0.0.2")] == [
        "n1",
        "10.0.0.2",
        "10.0.0.1",
        "192.0.2.1",
        "192.0.2.2",
    ]
    with pytest.raises(ValueRefused, match="no_public_ip"):
        instances.node_addresses(DEVICE._replace(addresses=tuple(V4[:1])))
    facts = instances.node_facts(DEVICE, [instances.UNINITIALIZED])
    assert (
        facts.provider_id == "equinixmetal://d1"
        and facts.taint_removed
        and facts.labels["topology.kubernetes.io/region"] == "da"
    )
    assert facts.labels["failure-domain.beta.kubernetes.io/region"] == "da"
    assert facts.labels.get("beta.kubernetes.io/instance-type") == facts.labels.get("node.kubernetes.io/instance-type")
    assert ("failure-domain.beta.kubernetes.io/zone" in facts.labels) == ("topology.kubernetes.io/zone" in facts.labels)
    known = instances.node_facts(DEVICE, [], "packet://d1")
    assert (known.provider_id, known.labels, known.taint_removed) == ("packet://d1", {}, False)
    assert instances.zone_of(DEVICE, instances.Variant(zone_from="facility")) == "da11"
    assert instances.region_of(DEVICE._replace(metro=""), instances.Variant()) == "da11"


def test_addresses_are_the_same_in_an_order_that_nobody_reads() -> None:
    rows = ("InternalIP", "10.0.0.1"), ("ExternalIP", "192.0.2.1"), ("ExternalIP", "203.0.113.9")
    internal, external, held = ({"type": kind, "address": text} for kind, text in rows)
    assert instances.same_addresses([external, held, internal], [external, internal, held])
    assert not instances.same_addresses([external, held], [held, external]), (
        "the first of a type is the one that counts"
    )
    assert not instances.same_addresses([external, internal], [external, internal, held])
    assert instances.same_addresses([], []) and not instances.same_addresses([], [internal])


def test_fates():
    off = DEVICE._replace(state="inactive")
    assert instances.fate_of(True, None, [], True) == (False, None)
    assert instances.fate_of(True, off, [instances.SHUTDOWN]) == (False, False)
    assert instances.fate_of(False, None, []) == (False, None) and instances.fate_of(False, None, [], True) == (
        True,
        None,
    )
    assert instances.fate_of(False, off, []) == (False, True) and instances.fate_of(
        False, off, [instances.SHUTDOWN]
    ) == (False, None)
    assert instances.fate_of(False, DEVICE._replace(state="powering_off"), [], True) == (False, None)


def test_absent_takes_every_owned_key_and_no_other():
    scheme = na.Scheme(na.BOTH)
    desired = na.node_annotations(NODE, scheme, "10.66.1.0/25")
    existing = dict(desired, **{P + "peer-ip": "x", P + "bgp-peers-x-peer-ip": "x", "a/b": "c"})
    assert patch_of(existing, NODE, scheme, absent=True) == dict.fromkeys([*desired, P + "peer-ip"])


def test_words():
    words = [providers.failure_reason(status, True) for status in (200, 204, 401, 403, 404, 422, 429, 500, None)]
    assert (
        words == ["", "", "auth", "auth", "api", "quota", "api", "api", "api"]
        and providers.failure_reason(422) == "api"
    )
    assert (
        providers.may_repeat(None, "GET")
        and not providers.may_repeat(None, "POST")
        and not providers.may_repeat(401, "GET")
    )
    assert providers.retired_warning("") and not providers.retired_warning("https://double")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["id", "href", "address", "cidr", "code", "tags"]), inner, max_size=3)
    ),
    max_leaves=4,
)


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["address", "cidr", "state", "metro", "assignments", "plan", "ip_addresses", "hostname"]), JSON
    ),
    JSON,
)
def test_any_record_is_owned_or_left_out(record, ident):
    for row in (record, dict(record, id=ident), dict(record, id="x", tags=["t"])):
        kept, notes = equinix_records.reservations([row, {"id": "good", "address": "192.0.2.1"}])
        assert kept[-1].id == "good" and len(kept) + len(notes) == 2
        assert all(item.id.replace("-", "").replace("_", "").isalnum() for item in kept)
    assert equinix_records.device(dict(record, id="x")).id == "x"


@settings(max_examples=40, deadline=None)
@given(JSON)
def test_any_error_body_is_text(body):
    assert isinstance(equinix_records.error_message(body), str)
    assert equinix_records.error_message({"errors": ["one", "two"]}) == "one; two"
