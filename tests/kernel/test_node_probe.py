# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where packets for a peer's ranges go: the kernel's own answer, with routes and rules of others in the way."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys

import pytest

FLOWS = "ansible_collections.multicluster.network.plugins.module_utils._flows.node"
KEY = base64.b64encode(bytes([7]) * 32).decode()
DEVICE = "wireguard.gcp"
RANGES = ["10.4.7.0/24", "10.4.8.0/24", "fd04::/64"]


@pytest.fixture(name="meshed")
def meshed_fixture(implementation, node, tmp_path):
    """A node with a device, one peer, an uplink, and a pod behind a link of its own."""
    node.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0p")
    for name in ("eth0", "eth0p"):
        node.run("ip", "link", "set", name, "up")
    node.run("ip", "address", "add", "10.66.23.31/24", "dev", "eth0")
    node.run("ip", "route", "add", "default", "via", "10.66.23.1")
    node.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
    node.flow(
        "wireguard_device",
        {
            "name": DEVICE,
            "implementation": implementation,
            "listen_port": 51821,
            "private_key_file": str(tmp_path / "key"),
            "generate_key": True,
            "peers": [
                {
                    "public_key": KEY,
                    "endpoint": "10.22.22.27:51821",
                    "allowed_ips": RANGES,
                    "persistent_keepalive": 0,
                    "preshared_key": None,
                }
            ],
        },
        False,
    )
    node.run("ip", "link", "set", DEVICE, "up")
    for cidr in ("10.4.0.0/16", "fd04::/48"):
        node.run("ip", "route", "add", cidr, "dev", DEVICE, "protocol", "109")
    node.run(
        "sh", "-c", "mkdir -p /run/netns && ip netns add pod && ip link add pod0 type veth peer name eth0 netns pod"
    )
    node.run("ip", "link", "set", "pod0", "up")
    node.run("ip", "-n", "pod", "address", "add", "198.18.3.10/32", "dev", "eth0")
    node.run("ip", "-n", "pod", "link", "set", "eth0", "up")
    node.run("ip", "route", "add", "198.18.3.10/32", "dev", "pod0")
    return node


def probe(node, **more):
    request = {
        "pod_cidrs": ["198.18.3.0/24"],
        "cluster_cidrs": ["198.18.0.0/16"],
        "max_pods": 1,
        "targets": [],
        "devices": [DEVICE],
        "tries": 1,
        "wait_seconds": 1,
    }
    found = node.flow("probe", dict(request, **more))
    assert found["errors"] == []
    return found


@contextlib.contextmanager
def planted(node, *commands):
    """Something of somebody else, for a while."""
    for command in commands:
        node.run(*("ip " + command).split())
    yield
    for command in reversed(commands):
        node.run(*("ip " + command.replace(" add ", " del ", 1)).split())


def test_all_leaves_by_the_tunnel(meshed):
    found = probe(meshed)
    assert found["paths"] == {"asked": 5, "elsewhere": [], "more": 0}, (
        "three ranges from the host, two of them from the pod"
    )
    assert [pod["addresses"] for pod in found["pods"]] == [["198.18.3.10"]] and found["strays"] == []
    peer = found["peers"][0]
    assert (peer["source"], peer["listen_port"], peer["handshake_age"]) == ("10.66.23.31", 51821, None)


HALF = "10.4.7.128/25"
DIVERSIONS = {
    "route": (
        ["route add 10.4.7.128/25 dev eth0"],
        "10.4.7.0/24",
        "by eth0; it is taken by route 10.4.7.128/25 dev eth0 table main protocol 3",
    ),
    "single address": (
        ["route add 10.4.8.77/32 via 10.66.23.1"],
        "10.4.8.0/24",
        "by eth0 via 10.66.23.1; it is taken by route 10.4.8.77/32",
    ),
    "same range": (["route add 10.4.7.0/24 dev eth0"], "10.4.7.0/24", "it is taken by route 10.4.7.0/24 dev eth0"),
    "blackhole": (
        ["route add blackhole 10.4.7.128/25"],
        "10.4.7.0/24",
        "the kernel has no way: Invalid argument; it is taken by route blackhole",
    ),
    "unreachable": (
        ["route add unreachable 10.4.8.0/24"],
        "10.4.8.0/24",
        "it is taken by route unreachable 10.4.8.0/24",
    ),
    "an address of our own": (
        ["address add 10.4.7.200/32 dev lo"],
        "10.4.7.0/24",
        "the kernel takes it as local; it is taken by route local 10.4.7.200/32",
    ),
    "IPv6": (
        ["-6 route add fd04:0:0:0:8000::/66 dev eth0"],
        "fd04::/64",
        "it is taken by route fd04::8000:0:0:0/66 dev eth0",
    ),
    "rule": (
        ["route add default dev eth0 table 100", "rule add to 10.4.7.128/25 table 100 priority 50"],
        "10.4.7.0/24",
        "it is taken by route 0.0.0.0/0 dev eth0 table 100 protocol 3 by rule 50: from all to 10.4.7.128/25 table 100",
    ),
    "rule for all": (
        ["route add 10.4.8.64/26 dev eth0 table 100", "rule add table 100 priority 50"],
        "10.4.8.0/24",
        "it is taken by route 10.4.8.64/26 dev eth0 table 100",
    ),
    "rule for pods": (
        ["route add default dev eth0 table 100", "rule add from 198.18.3.0/24 table 100 priority 50"],
        "10.4.7.0/24",
        "it is taken by route 0.0.0.0/0 dev eth0 table 100 protocol 3 by rule 50: from 198.18.3.0/24 table 100",
    ),
    "rule for some pods": (
        ["route add default dev eth0 table 100", "rule add from 198.18.3.128/25 table 100 priority 50"],
        "10.4.7.0/24",
        "protocol 3 by rule 50: from 198.18.3.128/25 table 100",
    ),
    "rule for the pods' link": (
        ["route add default dev eth0 table 100", "rule add iif pod0 table 100 priority 50"],
        "10.4.7.0/24",
        "rule 50: from all iif pod0 table 100",
    ),
}


@pytest.mark.parametrize("name", DIVERSIONS)
def test_what_is_sent_elsewhere_is_found_with_what_takes_it(meshed, name):
    commands, cidr, words = DIVERSIONS[name]
    with planted(meshed, *commands):
        rows = probe(meshed)["paths"]["elsewhere"]
        reported = [row["text"] for row in rows if row["range"] == cidr and row["device"] == DEVICE]
        assert any(words in text for text in reported), rows
        where = json.loads(meshed.run("ip", "-j", "route", "show", "table", "all"))
        assert where, "ip sees the same kernel"
    assert probe(meshed)["paths"]["elsewhere"] == []


def test_what_is_not_in_the_way_is_no_finding(meshed):
    """Wider routes, routes of one's own cluster, and rules that lead nowhere."""
    with planted(
        meshed,
        "route add 10.0.0.0/8 dev eth0",
        "route add 198.18.4.0/24 dev eth0",
        "rule add from 192.0.2.0/24 table 100 priority 50",
        "rule add to 10.4.7.128/25 table 101 priority 51",
    ):
        assert probe(meshed)["paths"]["elsewhere"] == []


def test_without_forwarding_the_pods_are_cut_off(meshed):
    meshed.run("sysctl", "-qw", "net.ipv4.ip_forward=0")
    rows = probe(meshed)["paths"]["elsewhere"]
    assert rows and all(row["source"] == "198.18.3.10" and "is forwarding on" in row["text"] for row in rows)


def test_packets_with_a_mark_take_the_table_of_the_mark(meshed):
    """As in a KubeSpan mesh: the rule and the table decide, not the main table."""
    meshed.run("ip", "route", "del", "10.4.0.0/16", "dev", DEVICE)
    assert probe(meshed)["paths"]["elsewhere"]
    with planted(
        meshed,
        "route add default dev " + DEVICE + " table 180",
        "-6 route add default dev " + DEVICE + " table 180",
        "rule add fwmark 0x40/0x60 table 180 priority 32500",
        "-6 rule add fwmark 0x40/0x60 table 180 priority 32500",
        "route add 10.4.7.128/25 dev eth0",
    ):
        assert probe(meshed, mark=0x40)["paths"]["elsewhere"] == [], (
            "a route in the main table takes nothing from the mesh"
        )
        with planted(meshed, "route add default dev eth0 table 100", "rule add to 10.4.7.128/25 table 100 priority 40"):
            rows = probe(meshed, mark=0x40)["paths"]["elsewhere"]
            assert rows and "rule 40: from all to 10.4.7.128/25 table 100" in rows[0]["text"]


def test_thousands_of_ranges_are_cheap(meshed):
    wide = [f"10.{10 + number // 250}.{number % 250}.0/24" for number in range(5000)]
    lines = "\n".join(f"route add {cidr.replace('.0/24', '.0/25')} dev eth0 protocol 109" for cidr in wide[::50])
    meshed.run("wg", "set", DEVICE, "peer", KEY, "allowed-ips", ",".join(wide))
    meshed.run("ip", "route", "add", "10.0.0.0/8", "dev", DEVICE)
    meshed.run("ip", "-batch", "-", stdin=lines)
    found = probe(meshed)
    assert found["paths"]["asked"] == 10000 and len(found["paths"]["elsewhere"]) == 20 and found["paths"]["more"] == 80
    print(f"10,000 questions and 5,000 ranges: {found.seconds:.2f} s for the whole probe")


def test_pods_outside_the_nodes_range_are_found(meshed):
    """By their namespaces, and by the host's routes to them, whichever the CNI leaves to be seen."""
    meshed.run(
        "sh", "-c", "ip netns add stray && ip link add pod1 type veth peer name eth0 netns stray && ip link set pod1 up"
    )
    meshed.run("ip", "-n", "stray", "address", "add", "198.18.99.5/32", "dev", "eth0")
    assert probe(meshed)["strays"] == ["198.18.99.5"]
    meshed.run("ip", "route", "add", "198.18.99.6/32", "dev", "pod1")
    assert probe(meshed)["strays"] == ["198.18.99.5", "198.18.99.6"]
    assert probe(meshed, pod_cidrs=["198.18.0.0/16"])["strays"] == []
    none = probe(meshed, pod_cidrs=["198.18.200.0/24"], cluster_cidrs=[])
    assert none["pods"] == [] and len(none["others"]) > 1


def test_a_pod_that_others_know_comes_first_as_long_as_it_is_there(meshed):
    meshed.run(
        "sh",
        "-c",
        "ip netns add second && ip link add pod1 type veth peer name eth0 netns second && ip link set pod1 up",
    )
    meshed.run("ip", "-n", "second", "address", "add", "198.18.3.20/32", "dev", "eth0")

    def first(known):
        return [pod["addresses"] for pod in probe(meshed, known=known)["pods"]]

    assert first([]) == [["198.18.3.10"]] and first(["198.18.3.20"]) == [["198.18.3.20"]]
    meshed.run("ip", "-n", "second", "address", "del", "198.18.3.20/32", "dev", "eth0")
    assert first(["198.18.3.20"]) == [["198.18.3.10"]]


def node_call(node, **request):
    """What node_dataplane adds to its result."""
    asked = dict({"pod_cidrs": ["198.18.3.0/24"], "max_pods": 1, "tries": 1, "wait_seconds": 1}, **request)
    code = f"import json, sys; from {FLOWS} import probe; print(json.dumps(probe.probe_node(json.loads(sys.argv[1]))))"
    return json.loads(meshed_python(node, code, json.dumps(asked)))


def meshed_python(node, code, *arguments):
    done = subprocess.run(
        node.command(sys.executable, "-B", "-c", code, *arguments),
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path)),
    )
    return done.stdout


def test_a_node_call_is_pods_alone_until_it_is_known_whom_to_reach(meshed):
    assert node_call(meshed) == {
        "pods": [{"addresses": ["198.18.3.10"], "in_namespace": True}],
        "strays": [],
        "others": [],
    }
    whole = node_call(meshed, targets=[{"node": "gcp-1", "address": "10.4.7.10"}], devices=[DEVICE])
    assert [(ping["node"], ping["source"], ping["ok"]) for ping in whole["pings"]] == [("gcp-1", "198.18.3.10", False)]
    assert whole["paths"]["asked"] and len(whole["peers"]) == 1
    assert not {"changed", "refused"} & set(whole), "those of the node's own plan are alongside it"


def test_what_cannot_be_probed_is_reported_alongside_what_could_be_compared(meshed):
    assert node_call(meshed, pod_cidrs=["no range"]) == {
        "failed": True,
        "msg": node_call(meshed, pod_cidrs=["no range"])["msg"],
    }
    assert "no range" in node_call(meshed, pod_cidrs=["no range"])["msg"]


def test_a_device_that_is_gone_is_named_and_the_rest_is_read(meshed):
    found = meshed.flow(
        "probe",
        {
            "pod_cidrs": ["198.18.3.0/24"],
            "max_pods": 1,
            "targets": [],
            "devices": [DEVICE, "wireguard.azr"],
            "tries": 1,
            "wait_seconds": 1,
        },
    )
    assert (
        [row["section"] for row in found["errors"]] == ["wireguard.azr"]
        and len(found["peers"]) == 1
        and found["paths"]["asked"]
    )


def test_the_device_of_a_crowded_node_is_shown(implementation, node, tmp_path):
    """Links come in the order in which they were made, and a mesh is often younger than hundreds of pods."""
    node.run(
        "ip",
        "-batch",
        "-",
        stdin="\n".join(f"link add pod{number} type veth peer name pod{number}p" for number in range(120)),
    )
    node.flow(
        "wireguard_device",
        {
            "name": DEVICE,
            "implementation": implementation,
            "listen_port": 51821,
            "private_key_file": str(tmp_path / "key"),
            "generate_key": True,
            "peers": [
                {
                    "public_key": KEY,
                    "endpoint": None,
                    "allowed_ips": RANGES,
                    "persistent_keepalive": 0,
                    "preshared_key": None,
                }
            ],
        },
        False,
    )
    node.run("ip", "address", "add", "10.99.0.1/32", "dev", DEVICE)
    found = node.flow("status", {"fabric": "mesh"})["node"]
    assert [device["name"] for device in found["devices"]] == [DEVICE], found["errors"]
    assert "10.99.0.1/32" in found["devices"][0]["addresses"]
    assert found["devices"][0]["mtu"] == 1420 and [peer["public_key"] for peer in found["devices"][0]["peers"]] == [KEY]


@pytest.fixture(name="answering")
def answering_fixture(meshed):
    """The pod reaches 160 addresses of the host of either family, and one that nobody has."""
    here = [f"address add 10.77.0.{number}/32 dev lo" for number in range(1, 161)]
    here += [f"-6 address add fd77::{number:x}/128 dev lo nodad" for number in range(1, 161)]
    here += ["address add 198.18.3.1/32 dev pod0", "-6 address add fd03::1/64 dev pod0 nodad"]
    for line in here:
        meshed.run("ip", *line.split())
    for line in (
        "-6 address add fd03::10/64 dev eth0 nodad",
        "route add 198.18.3.1 dev eth0",
        "route add default via 198.18.3.1",
        "-6 route add default via fd03::1",
    ):
        meshed.run("ip", "-n", "pod", *line.split())
    return meshed


def asked(node, *addresses, **more):
    found = probe(
        node,
        pod_cidrs=["198.18.3.0/24", "fd03::/64"],
        targets=[{"node": "n" + address, "address": address} for address in addresses],
        **more,
    )
    assert [row["target"] for row in found["pings"]] == list(addresses) and all(
        row["node"] == "n" + row["target"] for row in found["pings"]
    )
    assert all(set(row) == {"source", "target", "node", "ok", "milliseconds", "size", "full"} for row in found["pings"])
    return found


def test_a_pod_asks_hundreds_of_addresses_at_once(answering):
    four = [f"10.77.0.{number}" for number in range(1, 161)]
    six = [f"fd77::{number:x}" for number in range(1, 161)]
    found = asked(answering, *four, *six)
    assert all(row["ok"] and 0 <= row["milliseconds"] < 60000 for row in found["pings"]), [
        row for row in found["pings"] if not row["ok"]
    ][:3]
    assert {row["source"] for row in found["pings"]} == {"198.18.3.10", "fd03::10"}


def test_one_that_does_not_answer_is_named_and_the_others_are_not_held_up(answering):
    found = asked(answering, "10.77.0.1", "10.77.1.200", "10.77.0.2", "fd99::1", "fd77::1", tries=2)
    assert [row["ok"] for row in found["pings"]] == [True, False, True, False, True]
    assert [row["milliseconds"] is None for row in found["pings"]] == [False, True, False, True, False]


def test_an_answer_from_somebody_else_is_none(answering):
    """Whoever answers has to have the address that was asked."""
    lie = "ip saddr 10.77.0.3 ip daddr 198.18.3.10 icmp type echo-reply ip saddr set 10.77.0.4"
    answering.run(
        "nft", "-f", "-", stdin="table ip liar { chain c { type filter hook postrouting priority 200; " + lie + "; }; }"
    )
    found = asked(answering, "10.77.0.3", "10.77.0.4")
    assert [row["ok"] for row in found["pings"]] == [False, True]


@pytest.fixture(name="joined")
def joined_fixture(meshed, new_node, implementation, tmp_path, wait_for):
    """``meshed`` and the node behind its peer, joined by a link on which what the test wants is lost; the peer's pods are addresses of its lo."""
    other = new_node()
    meshed.run("ip", "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", str(other.pid))
    for node, octet in ((meshed, 1), (other, 2)):
        node.run("ip", "address", "add", f"192.0.2.{octet}/24", "dev", "wire")
        node.run("ip", "link", "set", "wire", "up")
    keys = [
        node.run("wg", "show", DEVICE, "public-key").strip() if node is meshed else None for node in (meshed, other)
    ]
    other.flow(
        "wireguard_device",
        {
            "name": DEVICE,
            "implementation": implementation,
            "listen_port": 51821,
            "private_key_file": str(tmp_path / "other"),
            "generate_key": True,
            "peers": [
                {
                    "public_key": keys[0],
                    "endpoint": "192.0.2.1:51821",
                    "allowed_ips": ["198.18.3.0/24", "fd03::/64"],
                    "persistent_keepalive": 0,
                    "preshared_key": None,
                }
            ],
        },
        False,
    )
    keys[1] = other.run("wg", "show", DEVICE, "public-key").strip()
    meshed.run(
        "wg",
        "set",
        DEVICE,
        "peer",
        KEY,
        "remove",
        "peer",
        keys[1],
        "endpoint",
        "192.0.2.2:51821",
        "allowed-ips",
        ",".join(RANGES),
    )
    for line in (
        f"link set {DEVICE} up",
        "address add 10.4.7.10/32 dev lo",
        "-6 address add fd04::10/128 dev lo nodad",
        "route add 198.18.3.0/24 dev " + DEVICE,
        "-6 route add fd03::/64 dev " + DEVICE,
    ):
        other.run("ip", *line.split())
    for line in ("address add 198.18.3.1/32 dev pod0", "-6 address add fd03::1/64 dev pod0 nodad"):
        meshed.run("ip", *line.split())
    for line in (
        "-6 address add fd03::10/64 dev eth0 nodad",
        "route add 198.18.3.1 dev eth0",
        "route add default via 198.18.3.1",
        "-6 route add default via fd03::1",
    ):
        meshed.run("ip", "-n", "pod", *line.split())
    meshed.other = other
    return meshed


def sizes(node, **more):
    """target -> (ok, size, full) of a probe over the tunnel."""
    targets = [{"node": "gcp-1", "address": address} for address in ("10.4.7.10", "fd04::10")]
    found = probe(node, pod_cidrs=["198.18.3.0/24", "fd03::/64"], targets=targets, tries=3, **more)
    return {row["target"]: (row["ok"], row["size"], row["full"]) for row in found["pings"]}


def test_a_packet_that_fills_the_tunnel_is_sent_once_more_to_who_answers(joined):
    assert sizes(joined) == {"10.4.7.10": (True, 1420, 1420), "fd04::10": (True, 1420, 1420)}
    counted = "table inet seen { chain c { type filter hook input priority -300; udp dport 51821 udp length > 1300 counter; }; }"
    joined.other.run("nft", "-f", "-", stdin=counted)
    sizes(joined)
    assert "packets 2 " in joined.other.run("nft", "list", "table", "inet", "seen"), "one a pair"
    joined.run("ip", "link", "set", DEVICE, "mtu", "1380")
    assert sizes(joined)["10.4.7.10"] == (True, 1380, 1380), "the device's own size, whatever it is"


def test_where_large_packets_are_lost_the_largest_that_passes_is_found(joined):
    """As a way of PPPoE or of a cloud that filters "too big". WireGuard pads to 16 bytes and adds 32, UDP adds 8."""
    lost = "table inet quiet { chain c { type filter hook input priority -300; udp dport 51821 udp length > 1340 drop; }; }"
    joined.other.run("nft", "-f", "-", stdin=lost)
    assert sizes(joined) == {"10.4.7.10": (True, 1296, 1420), "fd04::10": (True, 1296, 1420)}
    joined.run("ip", "link", "set", DEVICE, "mtu", "1296")
    assert sizes(joined)["10.4.7.10"] == (True, 1296, 1296), "with the MTU that was found nothing is lost"


def test_a_pod_that_sends_less_than_the_tunnel_carries_is_asked_for_that(joined):
    joined.run("ip", "-n", "pod", "link", "set", "eth0", "mtu", "1400")
    assert sizes(joined)["10.4.7.10"] == (True, 1400, 1400)


def test_a_router_that_sends_too_big_is_no_black_hole(joined):
    """A pod's kernel notes it, and its connections send less: so does the ping. Its source has to be an allowed IP, else WireGuard drops it."""
    joined.other.run(
        "sh",
        "-c",
        "ip netns add far && ip link add far0 type veth peer name eth0 netns far && ip link set far0 mtu 1320 up",
    )
    for line in (
        "address del 10.4.7.10/32 dev lo",
        "address add 10.4.7.1/32 dev " + DEVICE,
        "address add 10.4.7.1/32 dev far0",
        "route add 10.4.7.10/32 dev far0",
    ):
        joined.other.run("ip", *line.split())
    for line in (
        "link set eth0 mtu 1320 up",
        "address add 10.4.7.10/32 dev eth0",
        "route add 10.4.7.1 dev eth0",
        "route add default via 10.4.7.1",
    ):
        joined.other.run("ip", "-n", "far", *line.split())
    assert sizes(joined)["10.4.7.10"] == (True, 1320, 1320)


def test_without_a_tunnel_to_the_target_nothing_large_is_asked(joined):
    assert sizes(joined, devices=[])["10.4.7.10"] == (True, None, None)
