# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets of policy routing rules on a real kernel, `ip` as the witness."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

pytestmark = pytest.mark.other_kernel

MARK = {"priority": 32500, "fwmark": "0x40/0x60", "table": "180"}
MANY = [
    MARK,
    {"priority": 100, "src": "10.0.0.0/8", "iif": "lo", "table": "main", "suppress_prefixlength": 0},
    {"priority": 100, "dst": "fd00::/8", "table": "7000", "oif": "eth9"},
    {"priority": 101, "invert": True, "fwmark": "0xca6c", "table": "51820", "family": "ipv4"},
    {"priority": 102, "action": "unreachable", "src": "192.0.2.0/24"},
    {"priority": 102, "action": "blackhole", "src": "198.51.100.0/24"},
]
KERNELS = {"0", "32766", "32767"}


def shown(node):
    """All rules but the kernel's, as ip prints them."""
    lines = [" ".join(line.split()) for option in ("-4", "-6") for line in node.run("ip", option, "rule").splitlines()]
    return [line for line in lines if line.split(":")[0] not in KERNELS]


def run(node, check=False, **desired):
    return node.flow("ip_rules", desired, check)


class Watch:
    """What `ip monitor rule` sees meanwhile."""

    def __init__(self, node, wait_for):
        self.node, self.wait_for = node, wait_for

    def __enter__(self):
        self.process = subprocess.Popen(self.node.command("ip", "monitor", "rule"), stdout=subprocess.PIPE, text=True)
        namespace = f"/proc/{self.process.pid}/net/netlink"

        def listening():
            with pathlib.Path(namespace).open(encoding="ascii") as file:
                return any(
                    int(line.split()[3], 16)
                    for line in file.readlines()[1:]
                    if line.split()[2] == str(self.process.pid)
                )

        assert self.wait_for(listening)
        return self

    def __exit__(self, *_error):
        # a rule of our own, at a place that nobody uses, comes last
        self.node.run("ip", "rule", "add", "priority", "9", "table", "99")
        self.lines = []
        for line in self.process.stdout:
            if line.startswith("9:"):
                break
            self.lines.append(" ".join(line.split()))
        self.node.run("ip", "rule", "del", "priority", "9")
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def test_whole_life(node, wait_for):
    assert run(node, rules=MANY, check=True)["plan"]["create"] == 7
    assert shown(node) == []
    made = run(node, rules=MANY)
    assert made["plan"]["create"] == 7 and not made["warnings"] and not made["refused"] and len(made["rules"]) == 7
    assert made["stats"]["netlink_writes"] == 7
    assert shown(node) == [
        "100: from 10.0.0.0/8 iif lo lookup main suppress_prefixlength 0 proto 109",
        "101: not from all fwmark 0xca6c lookup 51820 proto 109",
        "102: from 192.0.2.0/24 unreachable proto 109",
        "102: from 198.51.100.0/24 blackhole proto 109",
        "32500: from all fwmark 0x40/0x60 lookup 180 proto 109",
        "100: from all to fd00::/8 oif eth9 [detached] lookup 7000 proto 109",
        "32500: from all fwmark 0x40/0x60 lookup 180 proto 109",
    ]
    with Watch(node, wait_for) as watch:
        again = run(node, rules=MANY)
    assert watch.lines == [] and not again["changed"] and again["stats"]["netlink_writes"] == 0
    assert again["rules"] == made["rules"]
    less = run(node, rules=[MARK])
    assert less["plan"]["delete"] == 5 and len(shown(node)) == 2
    assert run(node, state="absent")["plan"]["delete"] == 2
    assert shown(node) == [] and not run(node, state="absent")["changed"]


def test_a_rule_changes_without_a_gap(node, wait_for):
    run(node, rules=[MARK])
    with Watch(node, wait_for) as watch:
        changed = run(node, rules=[dict(MARK, table="181")])
    assert changed["plan"]["update"] == 2 and not changed["warnings"]
    mark = "from all fwmark 0x40/0x60 lookup"
    once = [
        f"32501: {mark} 181 proto 109",
        f"Deleted 32500: {mark} 180 proto 109",
        f"32500: {mark} 181 proto 109",
        f"Deleted 32501: {mark} 181 proto 109",
    ]
    assert watch.lines == once + once
    assert shown(node) == [f"32500: {mark} 181 proto 109"] * 2


def test_nobody_is_pushed_aside_by_a_replacement(node):
    neighbours = [dict(MARK, priority=32501), dict(MARK, priority=32499, table="7")]
    run(node, rules=[MARK, *neighbours])
    changed = run(node, rules=[dict(MARK, table="181"), *neighbours])
    assert changed["plan"]["update"] == 2 and not changed["warnings"] and len(shown(node)) == 6
    kept = run(node, rules=[dict(MARK, table="182")], purge=False)
    assert (
        kept["plan"]["update"] == 2 and kept["plan"]["delete"] == 0 and not kept["warnings"] and len(shown(node)) == 6
    )


def test_unowned_rules_stay_are_refused_or_adopted(node):
    for words in (
        "priority 32500 fwmark 0x40/0x60 table 180 proto static",
        "priority 32500 fwmark 0x1 table 7",
        "priority 200 from 10.1.0.0/16 table 8",
        "priority 201 table 9 proto 109",
    ):
        node.run("ip", "rule", "add", *words.split())
    node.run("ip", "-6", "rule", "add", *["priority", "32500", "fwmark", "0x40/0x60", "table", "999"])
    before = shown(node)
    desired = [MARK, {"priority": 200, "src": "10.1.0.0/16", "table": "80"}]
    refused = run(node, rules=desired, priority_min=202)
    assert not refused["changed"] and shown(node) == before
    assert sorted(entry["reason"] for entry in refused["refused"]) == ["adoptable", "bad_rule", "not_ours"]
    refused = run(node, rules=desired)
    assert [entry["reason"] for entry in refused["refused"]] == ["not_ours", "adoptable", "not_ours"]
    assert refused["plan"]["delete"] == 1  # owned by its number, desired by nobody
    adopted = run(node, rules=desired, adopt=True)
    assert adopted["plan"]["update"] == 3 and not adopted["warnings"]
    assert shown(node) == [
        "200: from 10.1.0.0/16 lookup 80 proto 109",
        "32500: from all fwmark 0x1 lookup 7",
        "32500: from all fwmark 0x40/0x60 lookup 180 proto 109",
        "32500: from all fwmark 0x40/0x60 lookup 180 proto 109",
    ]
    assert not run(node, rules=desired, adopt=True)["changed"]
    assert run(node, state="absent")["plan"]["delete"] == 3
    assert shown(node) == ["32500: from all fwmark 0x1 lookup 7"]


def test_an_inverted_rule_is_not_adopted_where_its_opposite_would_be_deleted(node):
    """The kernel does not compare the inversion when it looks for the rule to delete, and takes the first that has the rest."""
    node.run("ip", "rule", "add", *["priority", "101", "fwmark", "0xca6c", "iif", "lo", "table", "51820"])
    node.run("ip", "rule", "add", *["priority", "101", "not", "fwmark", "0xca6c", "table", "51820"])
    before = shown(node)
    desired = [{"priority": 101, "invert": True, "fwmark": "0xca6c", "table": "51820", "family": "ipv4"}]
    refused = run(node, rules=desired, adopt=True)
    assert shown(node) == before and not refused["changed"] and len(refused["refused"]) == 1
    assert "would delete another rule of the same priority" in refused["refused"][0]["message"]


def test_a_rule_that_has_more_is_no_duplicate(node):
    """The kernel deletes the first rule that has what is named: an owned one must be distinguished from one with more in it."""
    more = dict(MARK, iif="lo")
    run(node, rules=[more, MARK])
    left = run(node, rules=[more])
    assert left["plan"]["delete"] == 2 and not left["warnings"]
    assert shown(node) == ["32500: from all fwmark 0x40/0x60 iif lo lookup 180 proto 109"] * 2


def test_what_a_killed_run_leaves_goes_with_the_next(node):
    run(node, rules=[MARK])
    node.run("ip", "rule", "add", *["priority", "32501", "fwmark", "0x40/0x60", "table", "181", "proto", "109"])
    node.run("ip", "rule", "del", "priority", "32500")
    healed = run(node, rules=[MARK])
    assert (healed["plan"]["create"], healed["plan"]["delete"]) == (1, 1)
    assert len(shown(node)) == 2 and not run(node, rules=[MARK])["changed"]


def test_bad_rules_are_refused_by_index_and_the_rest_goes_on(node):
    bad = [
        {"priority": 0, "table": "180"},
        {"priority": 32766, "table": "180"},
        {"priority": 5, "table": "0"},
        {"priority": 5, "table": "180", "fwmark": "0x41/0x40"},
        {"priority": 5, "table": "180", "fwmark": "64/x"},
        {"priority": 5, "table": "180", "src": "10.0.0.0/8", "dst": "fd00::/8"},
        {"priority": 5, "table": "7", "src": "10/8"},
        {"priority": 5, "table": "180", "iif": "a/b"},
        {"priority": 5, "table": "180", "suppress_prefixlength": 129},
        {"priority": 5, "action": "blackhole", "table": "180"},
        {"priority": 5, "table": "180", "src": "10.0.0.0/8", "family": "both"},
        MARK,
        dict(MARK, table="181"),
    ]
    result = run(node, rules=bad)
    assert len(result["refused"]) == len(bad) - 2 + 2 and len(shown(node)) == 2
    assert {entry["reason"] for entry in result["refused"]} >= {"bad_rule", "bad_table", "bad_mark", "claimed_twice"}
