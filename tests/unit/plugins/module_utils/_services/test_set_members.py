# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who gets into a set, and under which name."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import network_sets
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.members import (
    Member,
    check_members,
    members_of,
    name_sets,
    set_labels,
    set_name,
    sorted_nets,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.set_plan import (
    plan_release,
    plan_sets,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.targets import (
    CALICO_V3,
    calico_selector,
    cilium_rule,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

HOSTILE = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "network_sets.json").read_text("utf-8")
)
NOW = 1_700_000_000.0


def pod(space, value, address, **more):
    return {
        "metadata": {"namespace": space, "name": "p", "labels": {"policy.semaphore.uw.io/name": value}},
        "status": {"podIP": address},
        **more,
    }


def sets_of(pods, **options):
    """({set name: networks}, words) through every stage."""
    members, unreadable = members_of("gcp", pods, now=NOW, **options)
    kept, beyond = check_members("gcp", members, HOSTILE["grants"])
    named, clashes = name_sets(kept)
    return {one.name: list(one.nets) for one in named}, [r.reason for r in unreadable + beyond] + [
        c.refusal.reason for c in clashes
    ]


@pytest.mark.parametrize("case", HOSTILE["cases"], ids=lambda case: case["why"])
def test_hostile_pods_one_by_one(case):
    admitted, words = sets_of([case["pod"]])
    assert words == ([case["word"]] if case["word"] else [])
    assert not admitted or admitted == HOSTILE["admitted"]


def test_hostile_pods_together_leave_the_good_one():
    admitted, words = sets_of([case["pod"] for case in HOSTILE["cases"]])
    assert admitted == HOSTILE["admitted"]
    # five pods share one label that cannot name a set
    assert sorted(set(words)) == sorted({case["word"] for case in HOSTILE["cases"] if case["word"]})


def test_host_network_on_request_is_in_the_nodes_ranges():
    host = {"hostNetwork": True}
    pods = [pod("web", "app", "10.22.22.27", spec=host), pod("web", "app", "10.4.1.1", spec=host)]
    assert sets_of(pods) == ({}, [])
    assert sets_of(pods, include_host_network=True) == ({"gcp-web-app": ["10.22.22.27/32"]}, ["outside_grant"])


@pytest.mark.parametrize(
    "when,gone",
    [
        ("2023-11-14T22:13:20Z", False),  # now
        ("2023-11-14T22:12:30Z", False),  # 50 s ago: clocks differ
        ("2023-11-14T22:12:10Z", True),
        ("2023-11-14T22:12:10.123456Z", True),
        ("2039-01-01T00:00:00Z", False),
        ("yesterday", False),
        ("9999-99-99T99:99:99Z", False),
        (17, False),
    ],
)
def test_pods_that_should_be_gone(when, gone):
    one = pod("web", "app", "10.4.1.1")
    one["metadata"]["deletionTimestamp"] = when
    assert bool(members_of("gcp", [one], now=NOW)[0]) is not gone
    assert members_of("gcp", [one])[0], "without a clock nothing is too old"


def test_one_address_of_two_pods_stays_when_one_goes():
    pods = [pod("web", "app", "10.4.1.1"), pod("web", "app", "10.4.1.1")]
    assert sets_of(pods)[0] == sets_of(pods[:1])[0] == {"gcp-web-app": ["10.4.1.1/32"]}


def test_names_and_labels_of_the_seed():
    member = Member("gcp", "sys-log", "forwarder")
    assert set_name(member) == "gcp-sys-log-forwarder"
    assert set_labels(member) == {
        "managed-by": "semaphore-policy",
        "policy.semaphore.uw.io/cluster": "gcp",
        "policy.semaphore.uw.io/name": "forwarder",
        "policy.semaphore.uw.io/namespace": "sys-log",
    }
    long = Member("c" * 60, "n" * 63, "v" * 63)
    assert len(set_name(long)) == 188


@pytest.mark.parametrize(
    "members,holder,kept",
    [
        ([("gcp", "a-b", "c"), ("gcp", "a", "b-c")], None, ("gcp", "a", "b-c")),
        ([("gcp", "a-b", "c"), ("gcp", "a", "b-c")], ("gcp", "a-b", "c"), ("gcp", "a-b", "c")),
        ([("aws", "2-web", "x"), ("aws-2", "web", "x")], None, ("aws", "2-web", "x")),
        ([("aws", "2-web", "x"), ("aws-2", "web", "x")], ("aws-2", "web", "x"), ("aws-2", "web", "x")),
        # a set of a cluster that could not be read keeps its name, too
        ([("aws", "2-web", "x")], ("aws-2", "web", "x"), None),
    ],
)
def test_equal_names(members, holder, kept):
    desired = {Member(*one): [f"10.4.1.{number}/32"] for number, one in enumerate(members)}
    name = set_name(Member(*members[0]))
    named, clashes = name_sets(desired, {name: Member(*holder)} if holder else {})
    assert [(one.name, tuple(one.member)) for one in named] == ([(name, kept)] if kept else [])
    assert {clash.refusal.reason for clash in clashes} == {"claimed_twice"} and len(clashes) + len(named) == len(
        members
    )
    assert all(list(one.nets) == desired[one.member] for one in named)


PARTS = st.lists(st.sampled_from(["a", "b", "part", "2", "73736d"]), min_size=1, max_size=4).map("-".join)
VALUES = st.builds("{0}{1}".format, PARTS, st.sampled_from(["", ".part-2", ".part-3", ".v1"]))
MEMBERS = st.builds(Member, PARTS, PARTS, VALUES)
NETS = st.lists(st.integers(0, 4000).map(lambda n: f"10.4.{n // 250}.{n % 250}/32"), min_size=1, max_size=30)


@given(
    st.dictionaries(MEMBERS, NETS, max_size=12),
    st.dictionaries(VALUES, MEMBERS, max_size=3),
    st.sampled_from([60, 200, 10**6]),
)
def test_no_name_twice_and_no_set_of_two(members, holders, size):
    """Proven for names made of the very pieces that collide: no name is used twice, no address gets into another's set."""
    named, clashes = name_sets(members, holders, size)
    assert len({one.name for one in named}) == len(named)
    refused = {clash.refusal.object for clash in clashes}
    for member, nets in members.items():
        mine = [one for one in named if one.member == member]
        if member.label in refused:
            assert not mine
        else:
            assert sorted_nets(net for one in mine for net in one.nets) == sorted_nets(nets)
            assert sum(len(one.nets) for one in mine) == len(set(nets))
    again, dummy = name_sets(dict(reversed(list(members.items()))), holders, size)
    assert again == named


def test_large_sets_are_sharded_and_one_change_is_one_object():
    member = Member("gcp", "web", "app")
    nets = [f"10.4.{n // 250}.{n % 250}/32" for n in range(10_000)]
    assert len(name_sets({member: nets})[0]) == 1, "10,000 pods of one family are one object"
    before = {one.name: one.nets for one in name_sets({member: nets}, shard_bytes=60_000)[0]}
    assert sorted(before) == ["gcp-web-app", "gcp-web-app.part-2", "gcp-web-app.part-3", "gcp-web-app.part-4"]
    assert max(map(len, before.values())) < 1.2 * 2500
    after = {one.name: one.nets for one in name_sets({member: nets[1:]}, shard_bytes=60_000)[0]}
    assert sum(before[name] != after[name] for name in before) == 1


def test_networks_are_sorted_by_address():
    assert sorted_nets(["fd00::1/128", "10.4.10.1/32", "10.4.9.1/32", "10.4.9.1/32"]) == [
        "10.4.9.1/32",
        "10.4.10.1/32",
        "fd00::1/128",
    ]


def test_selector_of_the_seed():
    found = calico_selector("gcp", "sys-log", "forwarder")
    assert found["selector"] == (
        "policy.semaphore.uw.io/name == 'forwarder' && policy.semaphore.uw.io/namespace == 'sys-log' && "
        "policy.semaphore.uw.io/cluster == 'gcp'"
    )
    assert found["namespaceSelector"] == "global()"
    assert cilium_rule("gcp", "sys-log", "forwarder") == {"fromCIDRSet": [{"cidrGroupRef": "gcp-sys-log-forwarder"}]}


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_selectors_hold_no_injected_code(cluster, namespace, name):
    try:
        text = calico_selector(cluster, namespace, name)["selector"]
    except ValueRefused:
        return
    assert text.count("'") == 6 and "(" not in text and "|" not in text and "\n" not in text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "metadata",
                        "spec",
                        "status",
                        "labels",
                        "policy.semaphore.uw.io/name",
                        "namespace",
                        "podIP",
                        "podIPs",
                        "ip",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=25,
    )
)
def test_no_answer_of_a_cluster_breaks_the_reading(anything):
    members, dummy = members_of("gcp", [anything], now=NOW)
    kept, refused = check_members("gcp", members, HOSTILE["grants"])
    named, dummy = name_sets(kept)
    assert all(net.endswith(("/32", "/128")) for one in named for net in one.nets) and isinstance(refused, list)


def _set(labels, manager="multicluster.network/f"):
    fields = {"f:spec": {"f:nets": {}}}
    managed = [{"manager": manager, "operation": "Apply", "fieldsV1": fields}] if manager else []
    return {
        "metadata": {"name": "gcp-x", "labels": labels, "managedFields": managed},
        "spec": {"nets": ["10.4.0.1/32"]},
    }


@pytest.mark.parametrize(
    "labels, owned",
    [
        ({"managed-by": "semaphore-policy", "policy.semaphore.uw.io/cluster": "gcp"}, True),
        (
            {
                "managed-by": "semaphore-policy",
                "policy.semaphore.uw.io/cluster": "gcp",
                "policy.semaphore.uw.io/name": "x",
            },
            True,
        ),
        ({"managed-by": "semaphore-policy", "policy.semaphore.uw.io/cluster": "aws"}, False),
        ({"managed-by": "semaphore-policy"}, False),
        ({"policy.semaphore.uw.io/cluster": "gcp"}, False),
    ],
)
def test_a_set_is_its_clusters_by_two_labels(labels, owned):
    """Somebody took off the others: the set would admit its addresses for ever if nobody knew it."""
    for manager, adopt in (("multicluster.network/f", False), (None, True)):
        existing = {"gcp-x": _set(labels, manager)}
        planned = plan_sets(
            "local", CALICO_V3, existing, {"gcp": {}}, "multicluster.network/f", adopt=adopt, max_deletes=-1
        )
        assert [change.action for change in planned.plan.changes] == (["delete"] if owned else [])
    released = plan_release("local", CALICO_V3, {"gcp-x": _set(labels)}, ["gcp"], "multicluster.network/f")
    assert bool(released.writes) == owned


@pytest.mark.parametrize(
    "more, deleted",
    [
        ({}, False),
        ({"confirm_empty": ["gcp"]}, False),
        ({"confirm_empty": ["gcp"], "max_deletes": 0}, False),
        ({"confirm_empty": ["gcp"], "max_deletes": 1}, True),
        ({"max_deletes": -1}, True),
    ],
)
def test_a_wrong_range_of_the_inventory_deletes_no_set(more, deleted):
    """All pods of gcp are refused, so it wants no set any more, and is not empty."""
    members = {"gcp": members_of("gcp", [pod("shop", "db", "10.4.7.9")], now=NOW)[0]}
    kept, refused = check_members("gcp", members["gcp"], {"pod_cidrs": ["10.99.0.0/16"], "node_cidrs": []})
    assert [row.reason for row in refused] == ["outside_grant"]
    owned = _set(
        {"managed-by": "semaphore-policy", "policy.semaphore.uw.io/cluster": "gcp", "policy.semaphore.uw.io/name": "db"}
    )
    read = network_sets.Read({}, {"aws": (CALICO_V3, {"gcp-shop-db": owned})}, [])
    request = dict({"clusters": [{"name": "aws"}, {"name": "gcp"}]}, **more)
    whole = network_sets.plan(request, read, {"gcp": kept}, ["gcp"], "multicluster.network/f", {}, refused)[0]
    assert [change.action for change in whole.changes] == (["delete"] if deleted else [])
    if not deleted and more.get("max_deletes") is None:
        (row,) = whole.refused
        assert (
            row.reason == "delete_budget"
            and "1 pod was refused, the first is gcp/shop/p [outside_grant]. Correct the grant of cluster gcp"
            in row.message
        )
