# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What happens on a node to packets of pods to other clusters, by rules that real programs wrote (tests/fixtures/cni)."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.iptables_walk import (
    ACCEPT,
    DROP,
    MASQUERADE,
    NOTHING,
    OPEN,
    Packet,
    kept,
    walk,
)
from ansible_collections.multicluster.network.plugins.module_utils._status.preflight import find
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_network
from hypothesis import given, strategies as st

FIXTURES = pathlib.Path(__file__).parents[4] / "fixtures" / "cni"
FLANNEL, FELIX = [
    kept((FIXTURES / name).read_text("utf-8")) for name in ("flannel-iptables-save.txt", "felix-iptables-save.txt")
]


def packet(source, target, device="wireguard.aws"):
    return Packet(parse_network(source), parse_network(target), device)


def facts(**node):
    found = {"errors": [], "pod_cidrs": ["10.4.7.0/24"], "wireguard": "kernel", "devices": [], **node}
    grants = {"gcp": {"pod_cidrs": ["10.4.0.0/16"]}, "aws": {"pod_cidrs": ["10.2.0.0/16", "fd00:2::/64"]}}
    return {
        "grants": grants,
        "nodes": {"n": {"cluster": "gcp", "node": found}},
        "devices": {"n": [{"name": "wireguard.aws", "listen_port": 51821}]},
    }


def test_flannels_default_masquerades_and_the_rule_is_named():
    found = walk(FLANNEL, "nat", "POSTROUTING", packet("10.4.7.0/24", "10.2.0.0/16"))
    assert found.what == MASQUERADE and found.rule.startswith("-A FLANNEL-POSTRTG -s 10.4.0.0/16 ! -d 224.0.0.0/4")
    assert walk(FLANNEL, "nat", "POSTROUTING", packet("10.4.7.0/24", "10.4.8.0/24")).what == NOTHING, (
        "inside of its Network it does not"
    )
    (row,) = find(facts(filters={"4": FLANNEL}))
    assert (row["level"], row["reason"]) == ("error", "masqueraded") and "FLANNEL-POSTRTG" in row["message"]
    assert "net-conf.json" in row["message"] and "calico_ippools" not in row["message"]


def test_a_cluster_that_keeps_addresses_of_pods_needs_no_change_of_the_plugin():
    given = facts(filters={"4": FLANNEL})
    given["devices"]["n"][0]["keep"] = True
    assert find(given) == []
    given["devices"]["n"][0]["keep"] = "auto"
    assert find(given) == []
    given["devices"]["n"][0]["keep"] = False
    assert [row["reason"] for row in find(given)] == ["masqueraded"]


@pytest.mark.parametrize("keep,level", [("auto", "warning"), (True, "error")])
def test_a_node_that_cannot_have_the_table_is_named_with_the_variable(keep, level):
    given = facts(filters={"4": FLANNEL}, prefix_nat="the program nft is missing (package nftables)")
    given["devices"]["n"][0]["keep"] = keep
    found = {row["reason"]: row for row in find(given)}
    assert set(found) == {"masqueraded", "no_prefix_nat"} and found["no_prefix_nat"]["level"] == level
    assert (
        "keep_pod_addresses" in found["no_prefix_nat"]["message"]
        and "nft is missing" in found["no_prefix_nat"]["message"]
    )
    given["nodes"]["n"]["node"]["filters"] = {}
    assert [row["level"] for row in find(given)] == [level], "nothing masquerades"


def test_flannel_accepts_what_it_forwards_and_felix_is_not_guessed_at():
    assert walk(FLANNEL, "filter", "FORWARD", packet("10.4.7.0/24", "10.2.0.0/16")).what == ACCEPT
    assert walk(FELIX, "nat", "POSTROUTING", packet("192.168.185.64/26", "10.2.0.0/16")).what in (OPEN, NOTHING)
    assert walk(FELIX, "filter", "FORWARD", packet("192.168.185.64/26", "10.2.0.0/16")).what in (OPEN, NOTHING, ACCEPT)
    assert find(facts(filters={"4": FELIX}, pod_cidrs=["192.168.185.64/26"])) == []


@pytest.mark.parametrize(
    "lines,what",
    [
        ([":FORWARD DROP [0:0]"], DROP),
        ([":FORWARD ACCEPT [0:0]"], NOTHING),
        ([":FORWARD DROP [0:0]", "-A FORWARD -o wireguard.+ -j ACCEPT"], ACCEPT),
        ([":FORWARD DROP [0:0]", "-A FORWARD -o eth0 -j ACCEPT"], DROP),
        ([":FORWARD DROP [0:0]", "-A FORWARD -m set --match-set x src -j ACCEPT"], OPEN),
        (
            [
                ":FORWARD ACCEPT [0:0]",
                "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
                "-A FORWARD -d 10.0.0.0/8 -j REJECT --reject-with x",
            ],
            DROP,
        ),
        ([":FORWARD ACCEPT [0:0]", "-A FORWARD -j A", "-A A -s 10.4.7.1/32 -j DROP"], OPEN),
        ([":FORWARD ACCEPT [0:0]", "-A FORWARD -j A", "-A A -j RETURN", "-A A -j DROP"], NOTHING),
        ([":FORWARD ACCEPT [0:0]", "-A FORWARD -j A", "-A A -j A"], OPEN),
        ([":FORWARD ACCEPT [0:0]", "-A FORWARD -s '1 -j DROP"], OPEN),
    ],
)
def test_only_what_is_certain_is_said(lines, what):
    assert walk(["*filter", *lines], "filter", "FORWARD", packet("10.4.7.0/24", "10.2.0.0/16")).what == what
    reasons = [row["reason"] for row in find(facts(filters={"4": ["*filter", *lines]}))]
    assert reasons == (["forward_dropped"] if what == DROP else [])


WORDS = [
    "-A",
    "FORWARD",
    "X",
    "!",
    "-s",
    "-d",
    "-j",
    "-m",
    "mark",
    "--mark",
    "0x1/0x1",
    "'",
    "10.2.0.0/16",
    "DROP",
    "*filter",
    "-o",
    "",
]


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)))
def test_any_text_is_read(lines):
    walk(kept("\n".join(["*filter", *lines])), "filter", "FORWARD", packet("10.4.7.0/24", "10.2.0.0/16"))


def test_rules_of_thousands_of_services_are_left_out():
    text = ["*nat", ":POSTROUTING ACCEPT [0:0]", "-A POSTROUTING -j KUBE-SERVICES"] + [
        "-A KUBE-SERVICES -d 10.3.0.1/32 -j KUBE-SVC-A"
    ] * 5000
    assert kept("\n".join(text)) == text[:3]


def test_ipv6_off_is_named_by_its_setting_where_another_cluster_has_it():
    off = {"name": "net.ipv6.conf.all.disable_ipv6", "value": "1", "set_by": "/etc/sysctl.d/99-hard.conf sets 1"}
    (row,) = find(facts(ipv6_off=off))
    assert (
        row["reason"] == "family_off"
        and "net.ipv6.conf.all.disable_ipv6 = 1; /etc/sysctl.d/99-hard.conf sets 1" in row["message"]
    )
    assert "fd00:2::/64 of cluster aws" in row["message"]
    four = facts(ipv6_off=off)
    four["grants"]["aws"]["pod_cidrs"] = ["10.2.0.0/16"]
    assert find(four) == []


def test_chains_that_drop_by_policy_and_a_full_disk():
    (row,) = find(facts(forward_drops=["inet fw forward"]))
    assert (row["level"], row["reason"]) == ("warning", "forward_policy_drop") and "inet fw forward" in row["message"]
    assert [row["reason"] for row in find(facts(free_bytes=1 << 20))] == ["disk_full"] and find(
        facts(free_bytes=1 << 30)
    ) == []


def test_a_full_table_of_connections_and_a_kernel_without_their_list_are_named():
    given = facts(tracking={"count": 65536, "most": 65536, "dropped": 7}, conntrack_list=False)
    given["devices"]["n"][0]["keep"] = True
    found = {row["reason"]: row for row in find(given)}
    assert {name: row["level"] for name, row in found.items()} == {
        "conntrack_full": "error",
        "no_conntrack_list": "warning",
    }
    assert (
        "(65,536 of 65,536)" in found["conntrack_full"]["message"]
        and "nf_conntrack_max" in found["conntrack_full"]["message"]
    )
    given["devices"]["n"][0]["keep"] = False
    assert [row["reason"] for row in find(given)] == ["conntrack_full"], "nothing is translated there"
    for tracking in (None, {"count": 65535, "most": 65536, "dropped": 7}, {"count": 0, "most": 0, "dropped": None}):
        assert find(facts(tracking=tracking, conntrack_list=True)) == []
