# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Owned sets of rules, on a kernel of a few lines: it refuses duplicates and deletes the first rule that has what is named."""

from __future__ import annotations

import ipaddress

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane import rule_plan
from ansible_collections.multicluster.network.plugins.module_utils._linux.netlink import rules as kernel_rules
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import routing as kubespan_routing
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import example, given, strategies as st


class Kernel:
    """Rules in their order, as the kernel keeps them. ``gaps``: moments when a watched mark had no table."""

    def __init__(self, rules=()):
        self.rules = {4: [], 6: []}
        for rule in rules:
            self.apply([{"op": "add", "rule": rule}])

    def apply(self, steps):
        for step in steps:
            rule = dict(kernel_rules.new_rule(step["rule"]["version"]), **step["rule"])
            here = self.rules[rule["version"]]
            if step["op"] == "add":
                assert rule not in here, "the kernel would say that it exists"
                here.append(rule)
                here.sort(key=lambda r: r["priority"])  # stable: behind others of the same priority
            else:
                said = {
                    name: value
                    for name, value in rule.items()
                    if value is not None and value is not False and value != [] and name != "invert"
                }
                found = [
                    other for other in here if all(other[name] == value for name, value in said.items())
                ]  # a suppressed length of 0 counts
                assert found, "nothing to delete"
                here.remove(found[0])


def table_of(kernel, version, mark):
    for rule in kernel.rules[version]:
        if rule["fwmask"] is None or mark & rule["fwmask"] == rule["fwmark"]:
            return rule["table"]
    return None


raw_rules = st.lists(
    st.fixed_dictionaries(
        {"priority": st.integers(100, 103), "table": st.integers(1, 4).map(str)},
        optional={
            "fwmark": st.sampled_from(["0x40/0x60", "0x20/0x60", "0x1"]),
            "iif": st.sampled_from(["lo", "eth0"]),
            "family": st.sampled_from(["ipv4", "ipv6", "both"]),
            "invert": st.booleans(),
            "suppress_prefixlength": st.sampled_from([0, 8]),
        },
    ),
    max_size=6,
)
other_rules = st.lists(
    st.builds(
        lambda version, priority, table, mark: {
            "version": version,
            "priority": priority,
            "table": table,
            "protocol": 4,
            "fwmark": mark,
            "fwmask": mark and 0xFFFFFFFF,
        },
        st.sampled_from([4, 6]),
        st.integers(99, 104),
        st.integers(1, 4),
        st.sampled_from([None, 1, 0x40]),
    ),
    max_size=4,
    unique_by=lambda rule: tuple(sorted((key, str(value)) for key, value in rule.items())),
)


_MARKED = {"priority": 100, "table": "3", "iif": "eth0", "fwmark": "0x20/0x60"}


@example(
    [dict(_MARKED, invert=True), dict(_MARKED, suppress_prefixlength=0)], [dict(_MARKED, table="1")], [], False, False
)
@example(
    [dict(_MARKED, suppress_prefixlength=0), dict(_MARKED, invert=True)], [dict(_MARKED, table="1")], [], False, False
)
@example([dict(_MARKED, suppress_prefixlength=0), dict(_MARKED, invert=True)], [], [], False, True)
@given(raw_rules, raw_rules, other_rules, st.booleans(), st.booleans())
def test_one_pass_brings_what_is_desired_and_touches_no_unowned_rule(first, second, unowned, adopt, purge):
    kernel = Kernel(unowned)
    for raw in (first, second):
        desired = rule_plan.parse_rules({"rules": raw, "adopt": adopt, "purge": purge})
        plan = rule_plan.plan_rules(desired, kernel.rules)
        kernel.apply(plan.steps)
        again = rule_plan.plan_rules(desired, kernel.rules)
        assert not again.steps and not again.changes and bool(plan.steps) == plan.changed
        live = [rule for version in (4, 6) for rule in kernel.rules[version] if rule["protocol"] == 109]
        assert len(live) == len(again.rules) == len(plan.rules)
        if not adopt:
            assert [rule for version in (4, 6) for rule in kernel.rules[version] if rule["protocol"] == 4] == [
                dict(kernel_rules.new_rule(rule["version"]), **rule)
                for version in (4, 6)
                for rule in sorted(unowned, key=lambda rule: rule["priority"])
                if rule["version"] == version
            ]
    gone = rule_plan.plan_rules(rule_plan.parse_rules({"state": "absent"}), kernel.rules)
    kernel.apply(gone.steps)
    assert not [rule for version in (4, 6) for rule in kernel.rules[version] if rule["protocol"] == 109]


@given(st.integers(1, 4), st.integers(1, 4))
def test_a_marked_packet_always_finds_one_of_both_tables(before, after):
    kernel = Kernel()
    sets = [
        rule_plan.parse_rules({"rules": [{"priority": 32500, "fwmark": "0x40/0x60", "table": str(number)}]})
        for number in (before, after)
    ]
    kernel.apply(rule_plan.plan_rules(sets[0], kernel.rules).steps)
    for step in rule_plan.plan_rules(sets[1], kernel.rules).steps:
        kernel.apply([step])
        assert {table_of(kernel, version, 0x40) for version in (4, 6)} <= {before, after}
    assert table_of(kernel, 4, 0x40) == after


@pytest.mark.parametrize(
    "text, found",
    [("0x40/0x60", (0x40, 0x60)), (64, (64, 0xFFFFFFFF)), ("0x0/0x60", (0, 0x60)), ("7", (7, 0xFFFFFFFF))],
)
def test_marks(text, found):
    assert rule_plan.parse_mark(text) == found


@pytest.mark.parametrize(
    "text",
    ["", "0x", "0x1/", "/0x1", "1/2/3", "0x100000000", " 1", "1 ", "0x20/0x40", True, None, "٣", "-1", "4294967296"],
)
def test_marks_that_are_none(text):
    with pytest.raises(ValueRefused) as refused:
        rule_plan.parse_mark(text)
    assert refused.value.reason == "bad_mark"


@pytest.mark.parametrize(
    "raw, reason",
    [
        ({"protocol": 4}, "bad_protocol"),
        ({"protocol": 256}, "bad_protocol"),
        ({"priority_min": 0}, "bad_priority"),
        ({"priority_min": 9, "priority_max": 8}, "bad_priority"),
    ],
)
def test_sets_that_are_none(raw, reason):
    with pytest.raises(ValueRefused) as refused:
        rule_plan.parse_rules(raw)
    assert refused.value.reason == reason


def test_a_selector_of_zero_selects():
    """suppress_prefixlength 0 is something else than none, also for KubeSpan's own rule."""
    right = kubespan_routing.desired_rule(4)
    assert kubespan_routing.plan_rule([dict(kernel_rules.new_rule(4), **right)], 4) == []
    for more in (
        {"suppress_prefixlength": 0},
        {"other": [12]},
        {"action": "blackhole", "table": None},
        {"invert": True},
    ):
        steps = kubespan_routing.plan_rule([dict(kernel_rules.new_rule(4), **dict(right, **more))], 4)
        assert [step["op"] for step in steps] == ["delete", "add"]
    assert kubespan_routing.plan_rule([dict(right, suppress_prefixlength=0xFFFFFFFF)], 4) == []


versions = st.sampled_from([4, 6])


@given(
    versions.flatmap(
        lambda v: st.fixed_dictionaries(
            {
                "version": st.just(v),
                "priority": st.integers(0, 2**32 - 1),
                "action": st.sampled_from(["to_table", "blackhole", "prohibit"]),
            },
            optional={
                "protocol": st.integers(1, 255),
                "fwmark": st.integers(0, 2**32 - 1),
                "fwmask": st.integers(0, 2**32 - 1),
                "iif": st.sampled_from(["lo", "wireguard.gcp"]),
                "oif": st.sampled_from(["eth0"]),
                "invert": st.booleans(),
                "tos": st.integers(1, 30),
                "suppress_prefixlength": st.integers(0, 128),
                "ipproto": st.integers(1, 255),
                "sport": st.just([1, 65535]),
                "src": st.ip_addresses(v=v).map(lambda a: f"{a}/{a.max_prefixlen}"),
                "uidrange": st.just([0, 99]),
            },
        )
    ),
    st.integers(1, 2**32 - 1),
)
def test_rules_of_the_kernel_are_read_back(rule, table):
    rule = dict(kernel_rules.new_rule(rule["version"]), **rule)
    rule["table"] = table if rule["action"] == "to_table" else None
    if rule["fwmask"] is not None and rule["fwmark"] is None:
        rule["fwmark"] = 0
    assert kernel_rules.decode_rule(kernel_rules.encode_rule(rule)) == rule


def test_a_mapped_address_is_read_as_it_is_written():
    rule = dict(
        kernel_rules.new_rule(6),
        action="to_table",
        table=1,
        priority=1,
        src=str(ipaddress.ip_network("::ffff:0:0/128")),
    )
    assert kernel_rules.decode_rule(kernel_rules.encode_rule(rule)) == rule


def test_a_rule_that_cannot_be_deleted_alone_is_not_taken_over():
    twin = {"version": 4, "priority": 100, "table": 1, "protocol": 4}
    unowned = [dict(twin, fwmark=mark, fwmask=mark and 0xFFFFFFFF) for mark in (1, None)]
    kernel = Kernel(unowned)
    desired = rule_plan.parse_rules({"rules": [{"priority": 100, "table": "1", "family": "ipv4"}], "adopt": True})
    plan = rule_plan.plan_rules(desired, kernel.rules)
    assert not plan.steps and [refusal.reason for refusal in plan.refused] == ["not_ours"]
