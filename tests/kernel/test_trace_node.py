# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's part of a trace against the kernel: a router between two pods, and what stands in a packet's way there."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._values.packed import unpack
from conftest import DRIVER, MODULE_UTILS, flow_environment

pytestmark = pytest.mark.other_kernel

CLIENT, SERVER = {4: "198.18.1.10", 6: "fd00:1::10"}, {4: "198.18.2.10", 6: "fd00:2::10"}
SERVICE = {4: "198.18.9.9", 6: "fd00:9::9"}
NUMBER = 61234

#: Listens in the server: a TCP port that accepts, a UDP port that echoes, one that says nothing.
LISTENERS = """
import select, socket, sys
opened = []
for kind, port in ((socket.SOCK_STREAM, 8080), (socket.SOCK_DGRAM, 8081), (socket.SOCK_DGRAM, 8082)):
    made = socket.socket(socket.AF_INET6, kind)
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("::", port))
    if kind == socket.SOCK_STREAM:
        made.listen(2000)
    opened.append(made)
inside = socket.create_server(("127.0.0.1", 8090))
six = socket.create_server(("::", 8091), family=socket.AF_INET6)
print("ready", flush=True)
while True:
    for made in select.select(opened, [], [])[0]:
        if made.type == socket.SOCK_STREAM:
            made.accept()[0].close()
        else:
            data, sender = made.recvfrom(65536)
            if made.getsockname()[1] == 8081:
                made.sendto(b"hello", sender)
"""


class Router:
    """The node between the client's pod and the server's, each a namespace with a link to it."""

    def __init__(self, node):
        self.node = node
        node.run("sh", "-c", "mkdir -p /run/netns")
        for index, (name, addresses) in enumerate((("client", CLIENT), ("server", SERVER)), 1):
            node.run("ip", "netns", "add", name)
            # addresses are there at once
            for words in ((), ("ip", "netns", "exec", name)):
                node.run(
                    *words, "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.all.accept_dad=0"
                )
            node.run("ip", "link", "add", "veth-" + name, "type", "veth", "peer", "name", "eth0", "netns", name)
            node.run("ip", "link", "set", "veth-" + name, "up")
            node.run("ip", "-n", name, "link", "set", "lo", "up")
            node.run("ip", "-n", name, "link", "set", "eth0", "up")
            for version, address in addresses.items():
                length, gateway = (24, f"198.18.{index}.1") if version == 4 else (64, f"fd00:{index}::1")
                node.run("ip", "-n", name, "address", "add", f"{address}/{length}", "dev", "eth0")
                node.run("ip", "address", "add", f"{gateway}/{length}", "dev", "veth-" + name)
                node.run("ip", "-n", name, "route", "add", "default", "via", gateway)
        self._server = subprocess.Popen(
            node.command("ip", "netns", "exec", "server", sys.executable, "-c", LISTENERS),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._server.stdout.readline() == "ready\n"

    def close(self):
        self._server.kill()
        self._server.wait()
        self._server.stdout.close()

    def nft(self, text):
        self.node.run("nft", "-f", "-", stdin=text)

    def ruleset(self):
        return self.node.run("nft", "-s", "list", "ruleset")

    def remains(self):
        """What a trace must not leave: tables, abstract sockets, processes of the node's namespace."""
        sockets = [line for line in self.node.run("cat", "/proc/net/unix").splitlines() if "multicluster" in line]
        namespace = pathlib.Path(f"/proc/{self.node.pid}/ns/net").readlink()
        processes = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (process / "ns/net").readlink() == namespace and int(process.name) != self.node.pid:
                    processes.append(process.name)
            except OSError:
                continue
        return {"sockets": sockets, "processes": processes}


@pytest.fixture(name="router")
def router_fixture(node):
    made = Router(node)
    yield made
    made.close()


def flow(protocol="tcp", version=4, port=8080, number=NUMBER, target=None, backends=(), name="0"):
    return {
        "id": name,
        "number": number,
        "protocol": protocol,
        "version": version,
        "source": {
            "kind": "pod",
            "name": "one/default/client",
            "cluster": "one",
            "host": "router",
            "address": CLIENT[version],
        },
        "target": {
            "kind": "pod",
            "name": "two/default/server",
            "cluster": "two",
            "address": target or SERVER[version],
            "port": 0 if protocol == "icmp" else port,
            "backends": list(backends),
        },
    }


def ask(router, state, flows=(), trace="t1", **more):
    request = {
        "state": state,
        "fabric": "demo",
        "id": trace,
        "flows": list(flows),
        "questions": [],
        "lifetime": 30,
        "events": 400,
        "sizes": [],
        "wait_seconds": 1,
    }
    return router.node.flow("node.trace.answer", dict(request, **more))


def traced(router, *flows, **more):
    """(armed, sent by (flow, size), collected) of a whole trace; nothing of it stays."""
    before = router.ruleset()
    armed = ask(router, "armed", flows)
    assert armed["armed"], armed["reason"]
    sent = ask(router, "sent", flows, **more)["sent"]
    collected = ask(router, "collected")
    assert (
        collected["collected"] and not collected["lost"] and not collected["unreadable"] and not collected["errors"]
    ), collected
    assert router.ruleset() == before and router.remains() == {"sockets": [], "processes": []}
    return armed, sent, collected


def places(collected, direction="forward", name="0"):
    """Where packets of a flow were seen by the trace's own chains, in order, each once."""
    found = [
        row["chain"]
        for row in collected["events"]
        if row["ours"] and row["direction"] == direction and row["flow"] == name
    ]
    return list(dict.fromkeys(found))


PASSES = [
    "prerouting_first",
    "prerouting_last",
    "forward_first",
    "forward_last",
    "postrouting_first",
    "postrouting_last",
]


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


def ends(collected, direction="forward", name="0"):
    """The last word about a packet, as (family, table, chain, type, verdict), without repetitions."""
    last = {}
    for row in collected["events"]:
        if row["flow"] == name and row["direction"] == direction:
            last[row["packet"]] = row
    return {
        (row["family"], row["table"], row["chain"], row["type"], row["verdict"], row["rule"]) for row in last.values()
    }


FORWARD = """
add table inet foreign
add chain inet foreign forward {{ type filter hook forward priority {0}; policy {1}; }}
"""


@pytest.mark.parametrize("priority", (-450, -150, 0, 300))
def test_a_foreign_rule_that_drops_is_named(router, priority):
    router.nft(
        FORWARD.format(priority, "accept")
        + """
add chain inet foreign guard
add rule inet foreign guard ip daddr 198.18.2.10 tcp dport 8080 counter drop comment "closed for now"
add rule inet foreign forward jump guard
"""
    )
    _armed, sent, collected = traced(router, flow())
    assert [row["outcome"] for row in sent] == ["silent"]
    rule = 'ip daddr 198.18.2.10 tcp dport 8080 counter drop comment "closed for now"'
    assert ends(collected) == {("inet", "foreign", "guard", "rule", "drop", rule)}
    assert (
        places(collected)[:2] == PASSES[:2]
        and "postrouting_first" not in places(collected)
        and places(collected, "back") == []
    )


@pytest.mark.parametrize("version", (4, 6))
def test_a_policy_that_drops_is_named(router, version):
    router.nft(FORWARD.format(0, "drop"))
    _armed, sent, collected = traced(router, flow(version=version))
    assert [row["outcome"] for row in sent] == ["silent"]
    assert ends(collected) == {("inet", "foreign", "forward", "policy", "drop", None)}
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
    assert armed["facts"]["legacy_iptables"] and [row["outcome"] for row in sent] == ["silent"]
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
def test_who_rejects_is_named_and_its_word_is_seen(router, protocol, how, outcome, version):
    match = (
        "tcp dport 8080 "
        if protocol == "tcp"
        else "udp dport 8081 "
        if protocol == "udp"
        else "meta l4proto { icmp, icmpv6 } "
    )
    router.nft(FORWARD.format(0, "accept") + "add rule inet foreign forward iifname veth-client " + match + how)
    _armed, sent, collected = traced(router, flow(protocol, version, 8081 if protocol == "udp" else 8080))
    assert [row["outcome"] for row in sent] == [outcome], sent
    ((_family, table, chain, kind, verdict, rule),) = ends(collected)
    assert (table, chain, kind, verdict) == ("foreign", "forward", "rule", "drop") and "reject" in rule
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


def test_a_port_that_is_silent(router):
    _armed, sent, collected = traced(router, flow("udp", 4, 8082))
    assert (
        [row["outcome"] for row in sent] == ["silent"]
        and places(collected) == PASSES
        and places(collected, "back") == []
    )


@pytest.mark.parametrize("version", (4, 6))
@pytest.mark.parametrize("protocol,port", (("tcp", 8080), ("udp", 8081), ("icmp", 0)))
def test_a_large_packet_is_told_what_fits(router, protocol, port, version):
    for words in (("link", "set", "veth-server"), ("-n", "server", "link", "set", "eth0")):
        router.node.run("ip", *words, "mtu", "1400")
    _armed, sent, collected = traced(router, flow(protocol, version, port), sizes=[9000])
    assert [(row["size"], row["outcome"], row["mtu"]) for row in sent] == [
        (0, "answered", None),
        (1500, "icmp_error", 1400),
        (1400, "answered", None),
    ], sent
    errors = [row for row in collected["events"] if row["error"] == "too_big"]
    assert errors and {(row["direction"], row["mtu"], row["chain"]) for row in errors if row["ours"]} >= {
        ("back", 1400, "output_first")
    }
    assert {1500, 1400} <= {row["length"] for row in collected["events"] if row["direction"] == "forward"}


@pytest.mark.parametrize("version", (4, 6))
def test_an_mtu_black_hole_swallows_only_large_packets(router, version):
    router.node.run("ip", "link", "set", "veth-server", "mtu", "1400")
    router.nft("""
add table inet foreign
add chain inet foreign output { type filter hook output priority 0; }
add rule inet foreign output icmp type destination-unreachable drop
add rule inet foreign output icmpv6 type packet-too-big drop
""")
    _armed, sent, collected = traced(router, flow(version=version), sizes=[1500])
    assert [(row["size"], row["outcome"]) for row in sent] == [(0, "answered"), (1500, "silent")], sent
    assert {row[1:5] for row in ends(collected, "back")} >= {("foreign", "output", "rule", "drop")}


@pytest.mark.parametrize("version", (4, 6))
def test_without_forwarding_it_ends_before_the_hook(router, version):
    name = {4: "net.ipv4.ip_forward=0", 6: "net.ipv6.conf.all.forwarding=0"}[version]
    router.node.run("sysctl", "-qw", name)
    armed, sent, collected = traced(router, flow(version=version))
    assert sent[0]["outcome"] in ("silent", "icmp_error")
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
    assert sent[0]["outcome"] == "silent" and places(collected) == ["prerouting_first", "prerouting_last"]
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


def test_a_pod_without_a_way_says_so(router):
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


def test_the_host_itself_is_an_end(router):
    near = dict(flow(), source={"address": "198.18.2.1"})
    _armed, sent, collected = traced(router, near)
    assert sent[0]["outcome"] == "answered"
    assert places(collected) == ["output_first", "output_last", "postrouting_first", "postrouting_last"]
    assert places(collected, "back") == ["prerouting_first", "prerouting_last", "input_first", "input_last"]


def test_what_the_node_says_of_itself(router):
    armed = ask(router, "armed", [flow()], questions=[{"dst": "203.0.113.7", "hop": "uplink"}])
    facts, answers = armed["facts"], armed["answers"]
    assert facts["errors"] == []
    link = next(row for row in facts["links"] if row["name"] == "veth-client")
    assert (
        link["kind"] == "veth"
        and link["up"]
        and link["mtu"] == 1500
        and "198.18.1.1/24" in link["addresses"]
        and not link["ours"]
    )
    assert {"dst": "198.18.2.0/24", "dev": "veth-server", "table": 254}.items() <= next(
        row for row in facts["routes"] if row["dst"] == "198.18.2.0/24" and row["table"] == 254
    ).items()
    assert {row["priority"] for row in facts["rules"] if row["version"] == 4} >= {0, 32766, 32767}
    assert sorted(pod["addresses"] for pod in facts["pods"]) == [[CLIENT[4]], [SERVER[4]]]
    assert {(row["address"], row["protocol"], row["port"]) for row in facts["listeners"]} == {
        (SERVER[4], None, None),
        (SERVER[4], "tcp", 8080),
        (SERVER[4], "udp", 8081),
        (SERVER[4], "udp", 8082),
    }, "8090 is for the pod itself alone, 8091 for IPv6"
    assert {pod["addresses"][0]: pod["device"] for pod in facts["pods"]} == {
        CLIENT[4]: "veth-client",
        SERVER[4]: "veth-server",
    }
    assert (
        facts["kube_proxy"] == {"running": False, "how": "no process kube-proxy runs"}
        and facts["legacy_iptables"] is False
    )
    assert [table["name"] for table in facts["tables"]] == ["multicluster_trace_t1"] and len(
        facts["tables"][0]["chains"]
    ) == 10
    assert answers[0]["hop"] == "uplink" and answers[0]["answer"]["error"] == "Network is unreachable"
    ways = {row["way"]: (row["iif"], row["answer"]["dev"]) for row in answers if "way" in row}
    assert ways == {
        "out": ("veth-client", "veth-server"),
        "in": (None, "veth-server"),
        "back": ("veth-server", "veth-client"),
    }
    ask(router, "collected")


def test_questions_that_make_no_sense_get_their_answer(router):
    questions = [
        {"dst": SERVER[4], "number": 0},
        {"dst": "x"},
        {"dst": SERVER[4], "src": "::1"},
        {"dst": SERVER[4], "iif": "gone0"},
        {"src": "1.2.3.4"},
        {"dst": SERVER[4], "mark": "a"},
        {"dst": SERVER[6], "answer": "x"},
    ]
    armed = ask(router, "armed", questions=questions)
    said = [row["answer"] for row in armed["answers"]]
    assert said[0]["dev"] == said[6]["dev"] == "veth-server" and said[0]["error"] is said[6]["error"] is None
    for answer, words in zip(
        said[1:6], ("'x'", "not of one family", "no device 'gone0'", "address", "invalid literal")
    ):
        assert words in answer["error"]
    assert not armed["armed"] and armed["reason"] == "no flow is to be traced" and armed["facts"]["errors"] == []


def test_check_mode_records_and_sends_nothing(router):
    before = router.ruleset()
    request = {
        "fabric": "demo",
        "id": "t1",
        "flows": [flow()],
        "lifetime": 30,
        "events": 400,
        "sizes": [],
        "wait_seconds": 1,
        "questions": [],
    }
    armed = router.node.flow("node.trace.answer", dict(request, state="armed"), True)
    assert armed["armed"] is False and "check mode" in armed["reason"] and armed["facts"]["links"]
    assert router.node.flow("node.trace.answer", dict(request, state="sent"), True)["sent"] == []
    assert router.ruleset() == before and router.remains()["sockets"] == []


# --- others ---------------------------------------------------------------------------------------------------------


def test_two_traces_at_once_do_not_disturb_each_other(router):
    before = router.ruleset()
    first, second = flow(number=61001, name="a"), flow("udp", port=8081, number=61002, name="b")
    assert ask(router, "armed", [first], "one")["armed"] and ask(router, "armed", [second], "two")["armed"]
    again = ask(router, "armed", [first], "one")
    assert not again["armed"] and "its name is taken" in again["reason"]
    ask(router, "sent", [first], "one")
    ask(router, "sent", [second], "two")
    found = ask(router, "collected", trace="one")
    assert set(found["counts"]) == {"a"} and places(found, name="a") == PASSES
    assert not [row for row in found["events"] if row["table"] == "multicluster_trace_two"]
    ask(router, "sent", [second], "two")
    found = ask(router, "collected", trace="two")
    assert set(found["counts"]) == {"b"} and places(found, name="b") == PASSES
    assert router.ruleset() == before and router.remains() == {"sockets": [], "processes": []}


def test_a_flush_by_others_does_not_end_it(router):
    router.nft(FORWARD.format(0, "drop"))
    ask(router, "armed", [flow()])
    router.node.run("nft", "flush", "ruleset")
    assert ask(router, "sent", [flow()])["sent"][0]["outcome"] == "answered"
    assert places(ask(router, "collected")) == PASSES
    assert router.ruleset() == ""


def test_flows_may_share_a_number(router):
    flows = [
        flow(name="tcp"),
        flow("udp", port=8081, name="udp"),
        flow("icmp", name="icmp"),
        flow(version=6, name="six"),
        flow("udp", port=9, name="closed", version=6),
    ]
    _armed, sent, collected = traced(router, *flows)
    assert [row["outcome"] for row in sent] == ["answered"] * 4 + ["refused"]
    assert set(collected["counts"]) == {"tcp", "udp", "icmp", "six", "closed"}
    for name in collected["counts"]:
        assert places(collected, name=name) == PASSES and places(collected, "back", name) == PASSES
    assert {row["error"] for row in collected["events"] if row["flow"] == "closed" and row["direction"] == "back"} == {
        "port_unreachable"
    }


def test_others_who_use_our_number_are_left_out(router):
    router.node.run("ip", "-n", "client", "address", "add", "198.18.1.77/24", "dev", "eth0")
    ask(router, "armed", [flow()])
    script = "import socket; s = socket.socket(); s.bind(('198.18.1.77', 61234)); s.connect(('198.18.2.1', 9))"
    subprocess.run(
        router.node.command("ip", "netns", "exec", "client", sys.executable, "-c", script),
        capture_output=True,
        check=False,
        timeout=10,
    )
    collected = ask(router, "collected")
    assert collected["events"] == [] and collected["counts"] == {} and collected["others"] >= 2


def test_many_events_are_counted_and_few_are_kept(router):
    ask(router, "armed", [flow("icmp")], events=20)
    for _turn in range(5):
        ask(router, "sent", [flow("icmp")])
    collected = ask(router, "collected")
    assert len(collected["events"]) == 20 and collected["counts"]["0"] == 5 * 2 * len(PASSES)
    assert (
        collected["events"][0]["chain"] == "prerouting_first" and collected["events"][-1]["chain"] == "postrouting_last"
    )


def test_a_thousand_flows_at_once(router):
    kinds = (("tcp", 8080), ("udp", 8081), ("icmp", 0))
    flows = [
        flow(
            *kinds[number % 3][:1],
            version=4 + 2 * (number % 2),
            port=kinds[number % 3][1],
            number=20000 + number,
            name=str(number),
        )
        for number in range(1000)
    ]
    _armed, sent, collected = traced(router, *flows)
    assert {row["outcome"] for row in sent} == {"answered"} and len(sent) == 1000
    assert set(collected["counts"]) == {str(number) for number in range(1000)}
    for name in ("0", "1", "2", "997", "998", "999"):
        assert places(collected, name=name) == PASSES
    assert len(collected["events"]) <= 20000


HOSTILE = (
    "x; flush ruleset",
    "a\nb",
    "$(touch /tmp/owned)",
    "{{ lookup('env','HOME') }}",
    "\x1b[31mred",
    "<script>",
    "-f",
)

#: Makes a table with chains of any name; nft itself cannot.
MAKE_HOSTILE = """
import json, sys
from ansible_collections.multicluster.network.plugins.module_utils._linux.nftables import codec, netlink
names = json.load(sys.stdin)
new = netlink.NLM_F_CREATE
with netlink.NetfilterSocket() as opened:
    orders = [netlink.Message(codec.NEWTABLE, new, codec.encode_table(names[0]), "table")]
    for number, name in enumerate(names):
        chain = dict(name=name, type="filter", hook="forward", priority=number, policy="accept" if number + 1 < len(names) else "drop")
        orders.append(netlink.Message(codec.NEWCHAIN, new, codec.encode_chain(names[0], chain), "chain"))
    opened.commit("inet", orders)
"""


def test_names_of_others_are_only_shown(router):
    subprocess.run(
        router.node.command(sys.executable, "-c", MAKE_HOSTILE),
        input=json.dumps(HOSTILE),
        text=True,
        check=True,
        env=flow_environment(),
    )
    _armed, _sent, collected = traced(router, flow())
    met = list(dict.fromkeys(row["chain"] for row in collected["events"] if not row["ours"]))
    assert met == [name.replace("\n", "?").replace("\x1b", "?") for name in HOSTILE]
    assert {row[1:5] for row in ends(collected)} == {("x; flush ruleset", "-f", "policy", "drop")}
    assert not pathlib.Path("/tmp/owned").exists() and all(row["rule"] is None for row in collected["events"])


def as_nobody(router, script):
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", script]
    return subprocess.Popen(router.node.command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_another_user_is_not_answered(router):
    ask(router, "armed", [flow()])
    script = """
import socket
opened = socket.socket(socket.AF_UNIX)
opened.settimeout(5)
opened.connect("\\0multicluster_trace_t1")
try:
    opened.send(b"events")
    print(len(opened.recv(9)))
except OSError:
    print("closed")
"""
    said, _errors = as_nobody(router, script).communicate(timeout=20)
    assert said.strip() in ("0", "closed")
    assert ask(router, "collected")["collected"]


def test_another_user_is_not_believed(router):
    script = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0multicluster_trace_t1'); s.listen(); print('x', flush=True); s.accept()[0].recv(9)"
    holder = as_nobody(router, script)
    try:
        assert holder.stdout.readline()
        armed = ask(router, "armed", [flow()])
        assert not armed["armed"] and "its name is taken" in armed["reason"] and armed["facts"]["links"]
        collected = ask(router, "collected")
        assert not collected["collected"] and "somebody else" in collected["reason"]
    finally:
        holder.kill()
        holder.communicate()


# --- the end --------------------------------------------------------------------------------------------------------


def test_without_a_recorder_it_says_so(router):
    collected = ask(router, "collected", [flow()])
    assert (
        not collected["collected"]
        and "no recorder" in collected["reason"]
        and collected["events"] == []
        and collected["counters"]["links"]
    )


def test_it_ends_by_itself(router, wait_for):
    before = router.ruleset()
    assert ask(router, "armed", [flow()], lifetime=1)["armed"]
    assert router.ruleset() != before
    assert wait_for(lambda: router.remains() == {"sockets": [], "processes": []})
    assert router.ruleset() == before


def recorders(router):
    return [int(pid) for pid in router.remains()["processes"]]


def test_killed_at_any_moment_it_leaves_nothing(router, wait_for):
    """The recorder, while packets are on their way."""
    before = router.ruleset()
    for number in range(10):
        assert ask(router, "armed", [flow()])["armed"]
        busy = subprocess.Popen(
            router.node.command("ip", "netns", "exec", "client", "ping", "-q", "-f", "-c", "2000", SERVER[4]),
            stdout=subprocess.DEVNULL,
        )
        time.sleep(0.01 * number)
        victims = [
            pid
            for pid in recorders(router)
            if pid != busy.pid and b"trace" in pathlib.Path(f"/proc/{pid}/comm").read_bytes()
        ]
        assert victims
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        busy.kill()
        busy.wait()
        assert wait_for(lambda: router.remains() == {"sockets": [], "processes": []})
        assert router.ruleset() == before
        assert not ask(router, "collected")["collected"]


def test_a_module_killed_at_any_moment_leaves_nothing(router, wait_for):
    before = router.ruleset()
    request = {
        "state": "armed",
        "fabric": "demo",
        "id": "t1",
        "flows": [flow()],
        "questions": [],
        "lifetime": 1,
        "events": 400,
        "sizes": [],
        "wait_seconds": 1,
    }
    started = 0
    for number in range(12):
        module = subprocess.Popen(
            router.node.command(sys.executable, "-B", "-c", DRIVER),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=flow_environment(),
        )
        module.stdin.write(
            json.dumps({"flow": MODULE_UTILS + "_flows.node.trace.answer", "arguments": [request]}).encode()
        )
        module.stdin.close()
        time.sleep(0.03 * number)
        module.kill()
        module.wait()
        started += router.ruleset() != before
        assert wait_for(lambda: router.remains() == {"sockets": [], "processes": []}, 20)
        assert router.ruleset() == before
    print(f"the recorder stood when the module was killed: {started} times")


def test_a_kernel_without_the_owner_flag_is_named(router):
    """The kernel refuses a flag that it does not know, as an older one refuses this."""
    script = """
import json, sys
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.trace import answer as trace
from ansible_collections.multicluster.network.plugins.module_utils._linux.nftables import trace as codec
codec.OWNED = 0x4000
print(json.dumps(trace.run(json.load(sys.stdin))))
"""
    before = router.ruleset()
    request = {
        "state": "armed",
        "fabric": "demo",
        "id": "t1",
        "flows": [flow()],
        "questions": [],
        "lifetime": 30,
        "events": 400,
    }
    done = subprocess.run(
        router.node.command(sys.executable, "-c", script),
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
        env=flow_environment(),
    )
    armed = json.loads(done.stdout)
    assert not armed["armed"] and "Linux 5.12" in armed["reason"] and armed["answers"] and armed["facts"]["links"]
    assert router.ruleset() == before and router.remains()["sockets"] == []


@pytest.mark.parametrize(
    "change,words",
    (
        ({"number": 0}, "number"),
        ({"protocol": "sctp"}, "protocol"),
        ({"version": 5}, "version"),
        ({"source": {"address": "fd00::1"}}, "no address of IPv4"),
        ({"source": None}, "makes no sense"),
        ({"target": {"address": "198.18.2.10", "port": 70000}}, "port"),
        ({"target": {"address": "198.18.2.10; reboot", "port": 1}}, "reboot"),
    ),
)
def test_flows_that_make_no_sense_are_refused_and_the_others_go_on(router, change, words):
    armed = ask(router, "armed", [dict(flow(name="bad"), **change), flow()])
    (row,) = armed["refused"]
    assert row["object"] == "flow bad" and row["reason"] in ("bad_flow", "bad_address") and words in row["message"]
    assert armed["armed"] and {row["flow"] for row in armed["answers"]} == {"0"}
    assert ask(router, "collected")["collected"]


def test_a_name_that_is_none_is_refused(router, flow_failed):
    with pytest.raises(flow_failed, match="small letters"):
        ask(router, "armed", [flow()], trace="../x")


@pytest.mark.this_machine("Ansible")
def test_as_ansible_runs_it(router, tmp_path):
    """Ansible packs the module, runs it and takes it away again; the recorder goes on without it, and nobody waits for its end."""
    root = next(
        path for path in sys.path if path and (pathlib.Path(path) / "ansible_collections" / "multicluster").exists()
    )
    program = shutil.which("ansible") or pytest.fail("ansible is not there")
    environment = dict(
        os.environ,
        ANSIBLE_COLLECTIONS_PATH=root,
        ANSIBLE_REMOTE_TMP=str(tmp_path),
        ANSIBLE_LOCAL_TEMP=str(tmp_path / "local"),
        HOME=str(tmp_path),
    )

    def run(state, **more):
        arguments = json.dumps(dict(more, state=state, id="t1", flows=[flow()], lifetime=60))
        words = [
            program,
            "-i",
            "localhost,",
            "-c",
            "local",
            "-e",
            "ansible_python_interpreter=" + sys.executable,
            "localhost",
            "-m",
            "multicluster.network.trace_node",
            "-a",
            arguments,
        ]
        done = subprocess.run(
            router.node.command(*words), capture_output=True, text=True, check=False, timeout=50, env=environment
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return json.loads(done.stdout[done.stdout.index("{") :])

    before = router.ruleset()
    armed = run("armed")
    assert armed["armed"] is True and armed["changed"] is False and armed["facts"]["errors"] == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "trace" in path.name], "the module is gone"
    assert run("sent", sizes=[1400])["sent"][1]["outcome"] == "answered"
    collected = run("collected")
    assert collected["collected"] and places(collected) == PASSES and router.ruleset() == before
    assert router.remains() == {"sockets": [], "processes": []}


# --- samples --------------------------------------------------------------------------------------------------------

SAMPLES = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "trace"
SAMPLE_RULES = """
add table ip nat
add chain ip nat KUBE-SERVICES
add rule ip nat KUBE-SERVICES ip daddr 198.18.9.9 tcp dport 80 counter dnat to 198.18.2.10:8080 comment "default/web"
add chain ip nat PREROUTING { type nat hook prerouting priority -100; }
add rule ip nat PREROUTING jump KUBE-SERVICES
add table inet foreign
add chain inet foreign guard
add rule inet foreign guard ip daddr 198.18.2.10 tcp dport 8083 counter drop comment "no telnet"
add chain inet foreign forward { type filter hook forward priority 10; }
add rule inet foreign forward jump guard
"""


def shape(value):
    """Names and kinds, without the values."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items() if not name.startswith(("veth", "wireguard"))}
    return (
        sorted({json.dumps(shape(inner), sort_keys=True) for inner in value})
        if isinstance(value, list)
        else type(value).__name__
    )


@pytest.mark.this_machine("/dev/net/tun, by which wireguard-go makes its device")
def test_the_samples_have_todays_shape(router, tmp_path):
    """What the other side of a trace is tested with. MCN_TRACE_SAMPLES=1 writes them anew."""
    router.node.flow(
        "wireguard_device",
        {
            "name": "wireguard.gcp",
            "implementation": "userspace",
            "listen_port": 51821,
            "private_key_file": str(tmp_path / "key"),
            "generate_key": True,
            "peers": [
                {
                    "public_key": base64.b64encode(bytes([7]) * 32).decode(),
                    "endpoint": "198.18.7.27:51821",
                    "allowed_ips": ["10.4.7.0/24"],
                    "persistent_keepalive": 0,
                    "preshared_key": None,
                }
            ],
        },
        False,
    )
    router.node.run("ip", "link", "set", "wireguard.gcp", "up")
    router.nft(SAMPLE_RULES)
    flows = [
        flow(
            port=80,
            target=SERVICE[4],
            backends=[{"address": SERVER[4], "port": 8080, "cluster": "two", "host": "router"}],
        ),
        flow(port=8083, number=61235, name="1"),
        flow("icmp", number=61236, name="2"),
        flow(port=9999, number=61237, name="3"),
    ]
    for state, more in (("armed", {}), ("sent", {"sizes": [1500]}), ("collected", {})):
        result, path = ask(router, state, flows, **more), SAMPLES / (state + ".json")
        if os.environ.get("MCN_TRACE_SAMPLES"):
            path.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        found = [shape(json.loads(path.read_text("utf-8"))), shape(json.loads(json.dumps(result)))]
        assert found[0] == found[1], state


def test_a_chain_at_the_way_out_of_a_device_is_in_the_hook_of_that_name(router):
    for hook, name in (("ingress", "in"), ("egress", "out")):
        router.nft(
            f"add table netdev guard; add chain netdev guard {name} {{ type filter hook {hook} device lo priority 0; }}"
        )
    try:
        tables = ask(router, "armed", [flow()])["facts"]["tables"]
    finally:
        ask(router, "collected")
        router.nft("delete table netdev guard")
    (guard,) = [table for table in tables if table["name"] == "guard"]
    assert {chain["name"]: chain["hook"] for chain in guard["chains"]} == {"in": "ingress", "out": "egress"}


def test_what_was_recorded_comes_as_one_text_where_that_is_asked(router):
    assert ask(router, "armed", [flow()])["armed"]
    ask(router, "sent", [flow()])
    collected = ask(router, "collected", packed=True)
    events = unpack(collected["packed"])
    assert (
        collected["events"] == [] and len(events) == collected["counts"]["0"] and places({"events": events}) == PASSES
    )


#: Answers every question for an address of IPv4, in the network namespace where it runs and nowhere else.
NAME_SERVER = """
import socket, struct
made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
made.bind(("127.0.0.1", 5300))
print("ready", flush=True)
while True:
    data, sender = made.recvfrom(4096)
    record = struct.pack(">HHHIH4B", 0xC00C, 1, 1, 5, 4, 10, 5, 0, 9)
    made.sendto(data[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0) + data[12:] + record, sender)
"""


def test_a_name_is_asked_for_where_the_source_is(router):
    """A server on the loopback of the client's namespace answers the client, and nobody else."""
    names = {"names": ["web.shop.svc.cluster.local"], "servers": ["127.0.0.1"], "port": 5300}
    inside, outside = dict(flow("icmp"), ask=names), dict(flow("icmp", name="1", number=NUMBER + 1), ask=names)
    outside["source"] = dict(outside["source"], kind="node", address="198.18.1.1")
    server = subprocess.Popen(
        router.node.command("ip", "netns", "exec", "client", sys.executable, "-c", NAME_SERVER),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout.readline() == "ready\n"
        asked = ask(router, "sent", [inside, outside])["asked"]
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    assert [(row["flow"], row["outcome"], row["addresses"]) for row in asked] == [
        ("0", "answered", ["10.5.0.9"]),
        ("1", "failed", []),
    ]
    assert "refused" in asked[1]["detail"] and asked[0]["name"] == names["names"][0]
