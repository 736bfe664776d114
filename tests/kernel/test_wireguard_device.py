# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One contract for both back ends: the device flow on a real kernel, `wg` and `ip` as witnesses."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import subprocess
import time

import pytest

NAME = "wireguard.gcp"
KEYS = [base64.b64encode(bytes([number]) * 32).decode() for number in range(2, 8)]


@pytest.fixture(name="desired")
def desired_fixture(implementation, tmp_path):
    return {
        "name": NAME,
        "implementation": implementation,
        "listen_port": 51821,
        "private_key_file": str(tmp_path / "keys" / "wireguard.gcp.key"),
        "generate_key": True,
        "flush_ipv4": True,
        "peers": [
            peer(KEYS[0], "10.22.22.27:51821", ["10.4.7.0/24", "fd04::/64"], 25),
            peer(KEYS[1], None, ["10.4.8.0/24"]),
            peer(KEYS[2], "[2001:db8::7]:51821", []),
        ],
    }


def peer(key, endpoint, allowed_ips, keepalive=0, psk=None):
    return {
        "public_key": key,
        "endpoint": endpoint,
        "allowed_ips": allowed_ips,
        "persistent_keepalive": keepalive,
        "preshared_key": {"file": psk} if psk else None,
    }


def wg(node, name=NAME):
    """What wireguard-tools say: (device line, {public key: fields})."""
    lines = [line.split("\t") for line in node.run("wg", "show", name, "dump").splitlines()]
    for line in lines[1:]:
        line[3] = ",".join(sorted(line[3].split(",")))  # in the order in which they were set
    return lines[0], {line[0]: line[1:] for line in lines[1:]}


def link(node, name=NAME):
    return json.loads(node.run("ip", "-j", "-d", "address", "show", "dev", name))[0]


def run(node, desired, check=False, **change):
    return node.flow("wireguard_device", dict(desired, **change), check)


def assert_quiet(node, desired):
    """Another run changes nothing and sends nothing but reads; wg sees the same before and after."""
    before = wg(node)  # by key: wireguard-go lists its peers in another order every time
    again = run(node, desired)
    assert not again["changed"], again["diff"]
    assert again["stats"]["wireguard_writes"] == again["stats"]["netlink_writes"] == again["stats"]["file_writes"] == 0
    assert again["stats"]["reads"] == 2
    assert wg(node) == before
    return again


def test_whole_life(node, desired, implementation):
    planned = run(node, desired, check=True)
    assert planned["changed"] and planned["stats"]["netlink_writes"] == 0
    assert planned["plan"]["create"] == 5  # key, link, three peers
    assert node.run("ip", "link", "show", "dev", NAME, check=False) == ""
    assert not pathlib.Path(desired["private_key_file"]).exists()

    made = run(node, desired)
    assert made["changed"] and not made["warnings"] and not made["refused"]
    assert made["device"]["implementation"] == implementation
    device, peers = wg(node)
    private = pathlib.Path(desired["private_key_file"]).read_text(encoding="ascii")
    assert device[0] == private and device[1] == made["public_key"] and device[2:] == ["51821", "off"]
    assert private not in json.dumps(made)
    assert peers[KEYS[0]][:3] == ["(none)", "10.22.22.27:51821", "10.4.7.0/24,fd04::/64"] and peers[KEYS[0]][6] == "25"
    assert peers[KEYS[1]][1:3] == ["(none)", "10.4.8.0/24"] and peers[KEYS[1]][6] == "off"
    assert peers[KEYS[2]][1:3] == ["[2001:db8::7]:51821", "(none)"]
    shown = link(node)
    assert (shown["mtu"], shown["txqlen"], shown["ifalias"]) == (1420, 1000, "multicluster.network")
    assert "UP" in shown["flags"]
    assert not [address for address in shown["addr_info"] if address["family"] == "inet"]
    again = assert_quiet(node, desired)
    assert again["peers"] == made["peers"] and again["device"] == made["device"]

    desired["peers"][0]["persistent_keepalive"] = 10
    desired["peers"][1]["allowed_ips"] = ["10.4.9.0/24"]
    desired["mtu"], desired["fwmark"] = 1380, 0xCA6C
    before = wg(node)
    assert run(node, desired, check=True)["plan"]["update"] == 3
    assert wg(node) == before
    changed = run(node, desired)
    assert changed["plan"]["update"] == 3 and not changed["warnings"]
    device, peers = wg(node)
    assert device[3] == "0xca6c" and link(node)["mtu"] == 1380
    assert peers[KEYS[0]][6] == "10" and peers[KEYS[1]][2] == "10.4.9.0/24"
    assert_quiet(node, desired)

    desired["peers"].pop()
    removed = run(node, desired)
    assert removed["plan"]["delete"] == 1 and removed["stats"]["wireguard_writes"] == 1
    assert KEYS[2] not in wg(node)[1]

    assert run(node, desired, check=True, state="absent")["changed"]
    gone = run(node, desired, state="absent")
    assert gone["changed"] and gone["device"] is None and gone["plan"]["delete"] == 3
    assert node.run("ip", "link", "show", "dev", NAME, check=False) == ""
    assert node.run("ls", "/run/wireguard") == ""
    assert not run(node, desired, state="absent")["changed"]
    assert pathlib.Path(desired["private_key_file"]).exists()


def test_the_kernel_gives_it_no_address(node, desired):
    """As of the kernel's own WireGuard: network plugins that take every device with an address for an uplink leave it alone."""
    run(node, desired)
    assert "UP" in link(node)["flags"] and link(node)["addr_info"] == []
    node.run("ip", "link", "set", NAME, "down")
    run(node, desired)
    assert "UP" in link(node)["flags"] and link(node)["addr_info"] == []


def test_what_was_changed_by_hand_comes_back(node, desired):
    run(node, desired)
    node.run("wg", "set", NAME, "listen-port", "4", "peer", KEYS[3], "allowed-ips", "10.4.7.0/24")
    node.run("ip", "address", "add", "10.9.9.9/24", "dev", NAME)
    node.run("ip", "address", "add", "fd09::9/64", "dev", NAME)
    node.run("ip", "link", "set", NAME, "mtu", "1300")
    fixed = run(node, desired)
    assert not fixed["warnings"]
    device, peers = wg(node)
    assert device[2] == "51821" and KEYS[3] not in peers and peers[KEYS[0]][2] == "10.4.7.0/24,fd04::/64"
    addresses = [a["local"] for a in link(node)["addr_info"]]
    assert "10.9.9.9" not in addresses and "fd09::9" in addresses
    node.run("ip", "link", "set", NAME, "down")
    assert run(node, desired)["device"]["up"] and "UP" in link(node)["flags"]
    assert_quiet(node, desired)


def test_peers_of_others_stay_without_purge(node, desired):
    run(node, desired)
    node.run("wg", "set", NAME, "peer", KEYS[3], "allowed-ips", "10.77.0.0/16")
    assert not run(node, desired, purge_peers=False)["changed"]
    assert not run(node, desired, peers=None)["changed"]
    assert run(node, desired)["plan"]["delete"] == 1


def test_addresses(node, desired):
    desired["addresses"] = ["10.9.0.1/24", "fd09::1/64"]
    run(node, desired)
    assert_quiet(node, desired)
    desired["addresses"] = ["10.9.0.2/24"]  # deleting the first address of a network takes the second one along
    assert not run(node, desired)["warnings"]
    kept = [a["local"] for a in link(node)["addr_info"] if not a["local"].startswith("fe80")]
    assert kept == ["10.9.0.2"]
    assert_quiet(node, desired)


def test_preshared_key_is_set_compared_and_never_shown(node, desired, tmp_path):
    secrets = [base64.b64encode(os.urandom(32)).decode() for _number in range(2)]
    file = tmp_path / "psk"
    file.write_text(secrets[0] + "\n")
    desired["peers"][0]["preshared_key"] = {"file": str(file)}
    results = [run(node, desired)]
    assert wg(node)[1][KEYS[0]][0] == secrets[0]
    results.append(assert_quiet(node, desired))
    file.write_text(secrets[1])
    results.append(run(node, desired))
    assert results[-1]["plan"]["update"] == 1 and wg(node)[1][KEYS[0]][0] == secrets[1]
    desired["peers"][0]["preshared_key"] = None
    results.append(run(node, desired))
    assert wg(node)[1][KEYS[0]][0] == "(none)"
    assert not any(secret in json.dumps(result) for secret in secrets for result in results)
    desired["peers"][0]["preshared_key"] = {"file": str(tmp_path / "missing")}
    refused = run(node, desired)
    assert not refused["changed"] and refused["refused"][0]["reason"] == "bad_preshared_key"


def test_one_bad_peer_does_not_stop_the_others(node, desired):
    desired["peers"] += [peer("bad", None, []), peer(KEYS[4], "gone.invalid:1", ["10.4.10.0/24"])]
    made = run(node, desired)
    assert sorted(entry["reason"] for entry in made["refused"]) == ["bad_endpoint", "bad_public_key"]
    assert set(wg(node)[1]) == set(KEYS[:3])


def test_rotated_device_key(node, desired):
    first = run(node, desired)
    path = desired["private_key_file"]
    node.flow("wireguard_key", {"path": path, "rotate_from": first["public_key"]}, False)
    second = run(node, desired)
    assert second["public_key"] != first["public_key"] and wg(node)[0][1] == second["public_key"]
    assert_quiet(node, desired)


def test_unowned_links_are_refused_and_adopted_on_request_only(node, desired, implementation):
    node.run("ip", "link", "add", NAME, "type", "veth", "peer", "name", "other")
    for change in ({}, {"adopt": True}, {"state": "absent", "adopt": True}):
        refused = run(node, desired, **change)
        assert not refused["changed"] and refused["refused"][0]["reason"] == "not_ours"
    node.run("ip", "link", "del", NAME)
    if implementation == "kernel":
        node.run("ip", "link", "add", NAME, "type", "wireguard")
    else:
        node.run("wireguard-go", NAME)
    node.run("wg", "set", NAME, "listen-port", "7", "peer", KEYS[0])
    before = wg(node)
    for change in ({}, {"state": "absent"}):
        refused = run(node, desired, **change)
        assert not refused["changed"] and refused["refused"][0]["reason"] == "adoptable"
    assert wg(node) == before
    assert run(node, desired, check=True, adopt=True)["changed"]
    adopted = run(node, desired, adopt=True)
    assert not adopted["refused"] and adopted["device"]["alias"] == "multicluster.network"
    assert_quiet(node, desired)


def test_many_peers_come_in_several_messages(node, desired):
    count = 1500
    desired["peers"] = [
        peer(
            base64.b64encode(b"k" * 30 + number.to_bytes(2, "little")).decode(),
            "192.0.2.1:51820",
            [f"10.{number // 256}.{number % 256}.0/24"],
            25,
        )
        for number in range(10, 10 + count)
    ]
    made = run(node, desired)
    assert made["plan"]["create"] == count + 2 and len(wg(node)[1]) == count
    assert_quiet(node, desired)
    desired["peers"][700]["allowed_ips"].append("172.16.0.0/24")
    changed = run(node, desired)
    assert (changed["plan"]["update"], changed["stats"]["wireguard_writes"]) == (1, 1)
    assert_quiet(node, desired)


def test_a_peer_with_thousands_of_ranges(node, desired):
    ranges = [f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}/32" for i in range(5000)]
    desired["peers"] = [peer(KEYS[0], None, ranges)]
    run(node, desired)
    assert_quiet(node, desired)
    desired["peers"][0]["allowed_ips"] = ranges[100:]
    assert not run(node, desired)["warnings"]
    assert len(wg(node)[1][KEYS[0]][2].split(",")) == 4900


def test_twenty_peers_with_the_addresses_of_110_pods_each(node, desired):
    """As where Pods are the source of ranges: an unchanged run writes nothing, and a further pod is one message."""
    keys = [base64.b64encode(bytes([number]) * 32).decode() for number in range(1, 21)]
    pods = [f"10.251.{i >> 8}.{i & 255}/32" for i in range(20 * 110)]
    desired["peers"] = [peer(key, None, pods[at::20]) for at, key in enumerate(keys)]
    begun = time.monotonic()
    run(node, desired)
    assert_quiet(node, desired)
    held = [len(fields[2].split(",")) for fields in wg(node)[1].values()]
    assert held == [110] * 20 and time.monotonic() - begun < 60
    desired["peers"][7]["allowed_ips"].append("10.251.100.1/32")
    changed = run(node, desired)
    assert (changed["plan"]["update"], changed["stats"]["wireguard_writes"]) == (1, 1)
    assert_quiet(node, desired)


class Pair:
    """Two nodes and a tunnel: a has the peer b, and pings b's inner address."""

    def __init__(self, first, second, desired, tmp_path):
        self.a, self.b = first, second
        first.run("ip", "link", "add", "under", "type", "veth", "peer", "name", "under", "netns", str(second.pid))
        for node, address in ((first, "192.0.2.1"), (second, "192.0.2.2")):
            node.run("ip", "address", "add", address + "/24", "dev", "under")
            node.run("ip", "link", "set", "under", "up")
        self.wants = {}
        for node, end in ((first, "a"), (second, "b")):
            path = str(tmp_path / ("key-" + end))
            key = node.flow("wireguard_key", {"path": path}, False)["public_key"]
            self.wants[end] = dict(desired, private_key_file=path, peers=[], flush_ipv4=False, up=True)
            self.wants[end]["key"] = key
        self.wants["a"]["addresses"] = ["10.99.1.1/24"]
        self.wants["b"]["addresses"] = ["10.99.0.1/24"]
        self.wants["a"]["peers"] = [peer(self.wants["b"]["key"], "192.0.2.2:51821", ["10.99.0.0/24"])]
        self.wants["b"]["peers"] = [peer(self.wants["a"]["key"], "192.0.2.1:51821", ["10.99.1.0/24"])]
        for node, end, there in ((first, "a", "10.99.0.0/24"), (second, "b", "10.99.1.0/24")):
            assert not run(node, self.wants[end])["warnings"]
            node.flow("ip_routes", {"devices": [NAME], "routes": [{"dst": there, "dev": NAME}]}, False)

    def ping(self, count=1, interval=0.2):
        return subprocess.Popen(
            self.a.command("ping", "-q", "-c", str(count), "-i", str(interval), "-W", "3", "10.99.0.1"),
            stdout=subprocess.PIPE,
            text=True,
        )


def lost(ping):
    output = ping.communicate(timeout=60)[0]
    sent, received = [int(part.split()[0]) for part in output.splitlines()[-2].split(",")[:2]] if output else (1, 0)
    return sent - received


@pytest.fixture(name="pair")
def pair_fixture(node, new_node, desired, tmp_path, packets_before_others):
    pair = Pair(node, new_node(), desired, tmp_path)
    with packets_before_others(pair.a, pair.b):
        yield pair


def test_a_roamed_endpoint_is_not_drift(pair, wait_for):
    assert lost(pair.ping(3)) == 0
    pair.b.run("wg", "set", NAME, "listen-port", "4444")
    pair.b.run("ping", "-q", "-c", "2", "-i", "0.2", "-W", "3", "10.99.1.1")

    def roamed():
        return wg(pair.a)[1][pair.wants["b"]["key"]][1] == "192.0.2.2:4444"

    assert wait_for(roamed)
    again = assert_quiet_apart_from_counters(pair.a, pair.wants["a"])
    assert again["peers"][0]["endpoint"] == "192.0.2.2:4444"
    assert lost(pair.ping(2)) == 0 and roamed()
    moved = dict(pair.wants["a"], peers=[dict(pair.wants["a"]["peers"][0], endpoint="192.0.2.3:51821")])
    key = pair.wants["b"]["key"]
    result = pair.a.flow("wireguard_device", moved, False, {key: "192.0.2.2:51821"})
    assert result["plan"]["update"] == 1 and result["diff"]["after"].count("192.0.2.3:51821") == 1


def assert_quiet_apart_from_counters(node, desired):
    again = run(node, desired)
    assert not again["changed"] and again["stats"]["wireguard_writes"] == 0, again["diff"]
    return again


def test_allowed_ips_are_split_and_merged_without_losing_a_packet(pair):
    assert lost(pair.ping(3)) == 0
    ping = pair.ping(count=1500, interval=0.002)
    time.sleep(0.3)
    moves = 0
    for ranges in (
        ["10.99.0.0/25", "10.99.0.128/25"],
        ["10.99.0.0/24"],
        ["10.99.0.1/32", "10.99.0.0/30"],
        ["10.99.0.0/16"],
    ):
        pair.wants["a"]["peers"][0]["allowed_ips"] = ranges
        assert run(pair.a, pair.wants["a"])["changed"]
        moves += 1
        if ping.poll() is not None:
            break
    assert moves >= 2, "the ping ended too early to prove anything"
    assert lost(ping) == 0


def test_an_allowed_ip_moves_between_peers_and_is_never_homeless(pair, new_node, desired, tmp_path):
    """Two nodes have the inner address; the range moves between them while it is being pinged.

    A reply that is under way at the very moment comes from a peer that owns the address no more and is dropped by
    WireGuard, whoever moves it and how; so one try of five without any loss is the proof, with longer times between pings.
    """
    third = new_node()
    third.run("ip", "link", "add", "under", "type", "bridge")  # a name that is taken shows a mistake in the wiring
    third.run("ip", "link", "del", "under")
    pair.a.run("ip", "link", "add", "under2", "type", "veth", "peer", "name", "under", "netns", str(third.pid))
    pair.a.run("ip", "address", "add", "198.51.100.1/24", "dev", "under2")
    pair.a.run("ip", "link", "set", "under2", "up")
    third.run("ip", "address", "add", "198.51.100.3/24", "dev", "under")
    third.run("ip", "link", "set", "under", "up")
    path = str(tmp_path / "key-c")
    key = third.flow("wireguard_key", {"path": path}, False)["public_key"]
    wants = dict(pair.wants["b"], private_key_file=path, key=key)
    wants["peers"] = [peer(pair.wants["a"]["key"], "198.51.100.1:51821", ["10.99.1.0/24"])]
    run(third, wants)
    third.flow("ip_routes", {"devices": [NAME], "routes": [{"dst": "10.99.1.0/24", "dev": NAME}]}, False)
    to_b, to_c = pair.wants["a"]["peers"][0], peer(key, "198.51.100.3:51821", [])
    tries = []
    for number in range(1, 6):
        for holder in (to_c, to_b):  # both tunnels up before the ping starts
            to_b["allowed_ips"], to_c["allowed_ips"] = [], []
            holder["allowed_ips"] = ["10.99.0.0/24"]
            run(pair.a, pair.wants["a"], peers=[to_b, to_c])
            assert lost(pair.ping(2)) == 0
        ping = pair.ping(count=100, interval=0.02 * number)
        time.sleep(0.3)
        to_b["allowed_ips"], to_c["allowed_ips"] = [], ["10.99.0.0/24"]
        moved = run(pair.a, pair.wants["a"], peers=[to_b, to_c])
        assert (moved["plan"]["update"], moved["stats"]["wireguard_writes"]) == (2, 1)
        assert ping.poll() is None
        tries.append(lost(ping))
        if tries[-1] == 0:
            break
    assert min(tries) == 0, tries
