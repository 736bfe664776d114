# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's part of a trace against the kernel: a router between two pods, and what blocks a packet there."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest
from trace_router import (  # pylint: disable=unused-import
    CLIENT,
    FORWARD,
    PASSES,
    SERVER,
    SERVICE,
    ask,
    ends,
    flow,
    places,
    router_fixture,  # noqa: F401
    traced,
)

pytestmark = pytest.mark.other_kernel


@pytest.mark.parametrize("version", (4, 6))
@pytest.mark.parametrize("protocol,port", (("tcp", 8080), ("udp", 8081), ("icmp", 0)))
def test_packets_are_seen_both_ways(router, protocol, port, version):
    armed, sent, collected = traced(router, flow(protocol, version, port))
    assert [(row["outcome"], row["size"]) for row in sent] == [("answered", 0)], sent
    assert places(collected) == PASSES and places(collected, "back") == PASSES
    first = collected["events"][0]
    assert (first["src"], first["dst"], first["iif"], first["verdict"]) == (
        CLIENT[version],
        SERVER[version],
        "veth-client",
        "accept",
    )
    assert collected["counts"]["0"] == len(collected["events"]) and collected["others"] == 0
    assert armed["facts"]["errors"] == []


@pytest.mark.parametrize("priority", (-450, -150, 0, 300))
def test_an_unowned_rule_that_drops_is_named(router, priority):
    router.nft(
        FORWARD.format(priority, "accept")
        + """
add chain inet unowned guard
add rule inet unowned guard ip daddr 198.18.2.10 tcp dport 8080 counter drop comment "closed for now"
add rule inet unowned forward jump guard
"""
    )
    _armed, sent, collected = traced(router, flow())
    assert [row["outcome"] for row in sent] == ["no_answer"]
    rule = 'ip daddr 198.18.2.10 tcp dport 8080 counter drop comment "closed for now"'
    assert ends(collected) == {("inet", "unowned", "guard", "rule", "drop", rule)}
    assert (
        places(collected)[:2] == PASSES[:2]
        and "postrouting_first" not in places(collected)
        and places(collected, "back") == []
    )


@pytest.mark.parametrize("version", (4, 6))
def test_a_policy_that_drops_is_named(router, version):
    router.nft(FORWARD.format(0, "drop"))
    _armed, sent, collected = traced(router, flow(version=version))
    assert [row["outcome"] for row in sent] == ["no_answer"]
    assert ends(collected) == {("inet", "unowned", "forward", "policy", "drop", None)}
    row = next(row for row in collected["events"] if row["verdict"] == "drop")
    assert (row["hook"], row["priority"], row["iif"], row["oif"]) == ("forward", 0, "veth-client", "veth-server")


def test_iptables_of_today_are_named_too(router):
    """Docker's way: a policy of iptables' own chain, and a rule with a translation of nft's."""
    router.node.run("iptables-nft", "-A", "FORWARD", "-p", "tcp", "--dport", "8080", "-j", "DROP")
    _armed, _sent, collected = traced(router, flow())
    ((_family, table, chain, kind, verdict, rule),) = ends(collected)
    assert (table, chain, kind, verdict) == ("filter", "FORWARD", "rule", "drop") and "8080" in rule and "drop" in rule


def test_legacy_iptables_tell_nothing_but_the_place_is_known(router):
    done = subprocess.run(
        router.node.command("iptables-legacy", "-I", "FORWARD", "-j", "DROP"),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("this kernel has no legacy iptables")
    armed, sent, collected = traced(router, flow())
    assert armed["facts"]["legacy_iptables"] and [row["outcome"] for row in sent] == ["no_answer"]
    assert places(collected)[-1] == "forward_first", "it came to the hook and did not leave it"


@pytest.mark.parametrize("version", (4, 6))
@pytest.mark.parametrize(
    "protocol,how,outcome",
    (
        ("tcp", "reject with icmpx type admin-prohibited", "icmp_error"),
        ("udp", "reject with icmpx type port-unreachable", "icmp_error"),
        ("icmp", "reject with icmpx type host-unreachable", "icmp_error"),
        ("tcp", "reject with tcp reset", "refused"),
    ),
)
def test_who_rejects_is_named_and_its_message_is_seen(router, protocol, how, outcome, version):
    match = (
        "tcp dport 8080 "
        if protocol == "tcp"
        else "udp dport 8081 "
        if protocol == "udp"
        else "meta l4proto { icmp, icmpv6 } "
    )
    router.nft(FORWARD.format(0, "accept") + "add rule inet unowned forward iifname veth-client " + match + how)
    _armed, sent, collected = traced(router, flow(protocol, version, 8081 if protocol == "udp" else 8080))
    assert [row["outcome"] for row in sent] == [outcome], sent
    ((_family, table, chain, kind, verdict, rule),) = ends(collected)
    assert (table, chain, kind, verdict) == ("unowned", "forward", "rule", "drop") and "reject" in rule
    assert places(collected, "back")[0] == "output_first", "the router's own answer"
    back = next(row for row in collected["events"] if row["direction"] == "back")
    if outcome == "refused":
        assert "rst" in back["flags"]
    else:
        router_address = {4: "198.18.1.1", 6: "fd00:1::1"}[version]
        assert (
            back["error"] == sent[0]["error"]
            and sent[0]["sender"] == back["src"] == router_address
            and back["dst"] == CLIENT[version]
        )


@pytest.mark.parametrize("version", (4, 6))
@pytest.mark.parametrize("protocol,port", (("tcp", 8080), ("udp", 8081)))
def test_a_service_changes_the_destination(router, protocol, port, version):
    family, to = ("ip", "{0}:{1}") if version == 4 else ("ip6", "[{0}]:{1}")
    router.nft(f"""
add table {family} nat
add chain {family} nat services
add rule {family} nat services {family} daddr {SERVICE[version]} {protocol} dport 80 dnat to {to.format(SERVER[version], port)} comment "default/web"
add chain {family} nat prerouting {{ type nat hook prerouting priority -100; }}
add rule {family} nat prerouting jump services
""")
    backend = {"address": SERVER[version], "port": port, "cluster": "two", "host": "router"}
    for number, backends in ((61001, (backend,)), (61002, ())):  # who does not know the endpoints follows the packet
        _armed, sent, collected = traced(router, flow(protocol, version, 80, number, SERVICE[version], backends))
        assert [row["outcome"] for row in sent] == ["answered"]
        forward = [row for row in collected["events"] if row["direction"] == "forward"]
        seen = list(dict.fromkeys((row["dst"], row["dport"]) for row in forward))
        assert seen == [(SERVICE[version], 80), (SERVER[version], port)]
        turned = [row for row in forward if row["chain"] == "services"]
        assert (
            turned[0]["verdict"] == "accept"
            and "dnat to" in turned[0]["rule"]
            and 'comment "default/web"' in turned[0]["rule"]
        )
        assert {row["hook"] for row in turned} == {"prerouting"}, "a chain that is jumped to has the hook of its packet"
        back = [row for row in collected["events"] if row["direction"] == "back" and row["chain"] == "postrouting_last"]
        assert {(row["src"], row["sport"]) for row in back} == {(SERVICE[version], 80)}


def test_masquerading_is_seen(router):
    router.nft("""
add table ip nat
add chain ip nat postrouting { type nat hook postrouting priority 100; }
add rule ip nat postrouting oifname veth-server masquerade
""")
    _armed, sent, collected = traced(router, flow())
    assert [row["outcome"] for row in sent] == ["answered"]
    left = {
        row["src"]
        for row in collected["events"]
        if row["chain"] == "postrouting_last" and row["direction"] == "forward"
    }
    assert left == {"198.18.2.1"}
    came = {
        row["dst"] for row in collected["events"] if row["chain"] == "prerouting_first" and row["direction"] == "back"
    }
    assert came == {"198.18.2.1"}


@pytest.mark.parametrize("version", (4, 6))
@pytest.mark.parametrize("protocol", ("tcp", "udp"))
def test_a_closed_port_refuses(router, protocol, version):
    _armed, sent, collected = traced(router, flow(protocol, version, 9))
    assert [row["outcome"] for row in sent] == ["refused"], sent
    back = [row for row in collected["events"] if row["direction"] == "back"]
    assert places(collected) == PASSES and places(collected, "back") == PASSES
    assert {row["src"] for row in back} == {SERVER[version]}
    assert (
        all("rst" in row["flags"] for row in back)
        if protocol == "tcp"
        else {row["error"] for row in back} == {"port_unreachable"}
    )


def test_a_port_that_does_not_answer(router):
    _armed, sent, collected = traced(router, flow("udp", 4, 8082))
    assert (
        [row["outcome"] for row in sent] == ["no_answer"]
        and places(collected) == PASSES
        and places(collected, "back") == []
    )


@pytest.mark.parametrize("version", (4, 6))
@pytest.mark.parametrize("protocol,port", (("tcp", 8080), ("udp", 8081), ("icmp", 0)))
def test_a_large_packet_gets_the_size_that_fits(router, protocol, port, version):
    for words in (("link", "set", "veth-server"), ("-n", "server", "link", "set", "eth0")):
        router.node.run("ip", *words, "mtu", "1400")
    _armed, sent, collected = traced(router, flow(protocol, version, port), sizes=[9000])
    assert [(row["size"], row["outcome"], row["mtu"]) for row in sent] == [
        (0, "answered", None),
        (1500, "icmp_error", 1400),
        (1400, "answered", None),
    ], sent
    errors = [row for row in collected["events"] if row["error"] == "too_big"]
    assert errors and {(row["direction"], row["mtu"], row["chain"]) for row in errors if row["owned"]} >= {
        ("back", 1400, "output_first")
    }
    assert {1500, 1400} <= {row["length"] for row in collected["events"] if row["direction"] == "forward"}


@pytest.mark.parametrize("version", (4, 6))
def test_an_mtu_black_hole_swallows_only_large_packets(router, version):
    router.node.run("ip", "link", "set", "veth-server", "mtu", "1400")
    router.nft("""
add table inet unowned
add chain inet unowned output { type filter hook output priority 0; }
add rule inet unowned output icmp type destination-unreachable drop
add rule inet unowned output icmpv6 type packet-too-big drop
""")
    _armed, sent, collected = traced(router, flow(version=version), sizes=[1500])
    assert [(row["size"], row["outcome"]) for row in sent] == [(0, "answered"), (1500, "no_answer")], sent
    assert {row[1:5] for row in ends(collected, "back")} >= {("unowned", "output", "rule", "drop")}


@pytest.mark.parametrize("version", (4, 6))
def test_without_forwarding_it_ends_before_the_hook(router, version):
    name = {4: "net.ipv4.ip_forward=0", 6: "net.ipv6.conf.all.forwarding=0"}[version]
    router.node.run("sysctl", "-qw", name)
    armed, sent, collected = traced(router, flow(version=version))
    assert sent[0]["outcome"] in ("no_answer", "icmp_error")
    assert armed["facts"]["settings"]["forwarding"][str(version)] == 0
    assert places(collected) in (
        ["prerouting_first", "prerouting_last"],
        ["prerouting_first", "prerouting_last", "input_first", "input_last"],
    )


def test_the_reverse_path_filter_counts(router):
    # neighbours are known: the filter is for their questions, too
    mac = json.loads(router.node.run("ip", "-j", "link", "show", "veth-client"))[0]["address"]
    router.node.run(
        "ip", "-n", "client", "neigh", "replace", "198.18.1.1", "lladdr", mac, "dev", "eth0", "nud", "permanent"
    )
    router.node.run("ip", "route", "add", CLIENT[4] + "/32", "dev", "veth-server")
    router.node.run("sysctl", "-qw", "net.ipv4.conf.veth-client.rp_filter=1")
    armed, sent, collected = traced(router, flow())
    assert sent[0]["outcome"] == "no_answer" and places(collected) == ["prerouting_first", "prerouting_last"]
    name = "IPReversePathFilter"
    assert collected["counters"]["ip"][name] > armed["facts"]["counters"]["ip"][name]
    assert armed["facts"]["settings"]["rp_filter"]["veth-client"] == 1


FILLING = (pathlib.Path(__file__).parent / "tracked_connections.py").read_text(encoding="utf-8")


def test_a_packet_that_cannot_be_tracked_is_seen_as_it_comes_in(router):
    router.nft("table inet cni { chain in { type filter hook prerouting priority 0; ct state new accept; }; }")
    router.node.run(sys.executable, "-c", FILLING, "fill")
    armed, sent, collected = traced(router, flow())
    before, after = armed["facts"]["counters"]["tracking"], collected["counters"]["tracking"]
    assert sent[0]["outcome"] != "answered" and places(collected) == ["prerouting_first"], collected["events"]
    assert before["count"] == before["most"] == after["count"] and after["dropped"] > before["dropped"]
    router.node.run(sys.executable, "-c", FILLING, "flush")
    assert traced(router, flow())[1][0]["outcome"] == "answered"


def test_a_pod_without_a_way_reports_it(router):
    router.node.run("ip", "-n", "client", "route", "del", "default")
    _armed, sent, collected = traced(router, flow())
    assert [(row["outcome"], row["detail"]) for row in sent] == [
        ("unreachable", "Network is unreachable")
    ] and collected["events"] == []
    _armed, sent, _collected = traced(router, dict(flow(), source={"address": "198.18.77.7"}))
    assert sent[0]["outcome"] == "failed" and "198.18.77.7" in sent[0]["detail"]


def test_a_port_in_use_is_named(router):
    holder = subprocess.Popen(
        router.node.command(
            "ip",
            "netns",
            "exec",
            "client",
            sys.executable,
            "-c",
            "import socket; s = socket.create_server(('198.18.1.10', 61234)); print('x', flush=True); s.accept()",
        ),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout.readline()
        ask(router, "armed", [flow()])
        sent = ask(router, "sent", [flow()])["sent"]
        assert sent[0]["outcome"] == "failed" and "61234" in sent[0]["detail"]
        ask(router, "collected")
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
