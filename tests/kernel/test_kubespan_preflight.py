# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other users of KubeSpan's numbers and names on a real host, found and named."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest


def found(node, **layout):
    reported = node.flow("status", {"fabric": "demo", "checks": True, "kubespan": layout})["node"]
    return [(entry["level"], entry["reason"], entry["message"]) for entry in reported["conflicts"]]


def test_an_empty_host_has_none(node):
    assert found(node) == []


@pytest.mark.parametrize(
    "commands, level, reason, part",
    [
        (["ip rule add priority 32500 table 7"], "error", "priority_taken", "IPv4 rule 32500 to table 7"),
        (["ip -6 rule add priority 32501 table 7"], "error", "priority_taken", "IPv6 rule 32501"),
        (
            ["ip rule add priority 100 fwmark 0x20/0x20 table 7"],
            "error",
            "mark_taken",
            "IPv4 rule 100 uses mark bits 0x20",
        ),
        (["ip rule add priority 100 table 180 from 10.0.0.0/8"], "warning", "table_shared", "rule 100"),
        (["ip rule add priority 100 table 7"], "warning", "rule_before", "rule 100"),
        (["ip route add unreachable default table 180"], "error", "table_taken", "table 180"),
        (["ip route add blackhole 10.9.0.0/16 table 180"], "warning", "table_shared", "10.9.0.0/16"),
        (["ip link add kubespan type veth"], "error", "not_ours", "device kubespan is a veth"),
        (["nft add table inet talos_kubespan"], "error", "adoptable", "inet talos_kubespan"),
        (
            ["nft add table ip f; add chain ip f c; add rule ip f c meta mark & 0xff == 0x40 accept"],
            "error",
            "mark_taken",
            "nftables chain ip f c uses mark bits 0xff",
        ),
        (
            ["nft add table ip f; add chain ip f c; add rule ip f c meta mark set 0xca6c"],
            "warning",
            "mark_taken",
            "0xffffffff",
        ),
        (
            ["nft add table ip f; add chain ip f c; add rule ip f c meta mark set meta mark or 0x20"],
            "error",
            "mark_taken",
            "bits 0x20",
        ),
    ],
)
def test_each_is_named(node, commands, level, reason, part):
    for command in commands:
        node.run(
            *command.split(" ", maxsplit=1)[:1],
            *(command.split(" ", maxsplit=1)[1:] if command.startswith("nft") else command.split()[1:]),
        )
    mine = [entry for entry in found(node) if entry[1] == reason]
    assert any(entry[0] == level and part in entry[2] for entry in mine), found(node)


def test_bits_of_others_that_are_no_conflict(node):
    node.run(
        "nft",
        "add table ip f; add chain ip f c; add rule ip f c meta mark & 0x4000 == 0x4000 accept; add rule ip f c meta mark set meta mark or 0x8000",
    )
    node.run("nft", "add rule ip f c ip saddr 10.0.0.1 ct mark set 0x40; add rule ip f c tcp dport 64 accept")
    node.run("ip", "rule", "add", "priority", "100", "fwmark", "0x80000/0xff0000", "table", "7")
    node.run("ip", "route", "add", "blackhole", "10.9.0.0/16", "table", "181")
    assert found(node) == []


def test_marks_of_iptables(node):
    if not shutil.which("iptables-nft") and not shutil.which("iptables-nft", path="/usr/sbin:/sbin"):
        pytest.skip("iptables is not installed")
    node.run("iptables-nft", "-t", "mangle", "-A", "PREROUTING", "-j", "MARK", "--set-xmark", "0x4000/0x4000")
    assert found(node) == []
    node.run("iptables-nft", "-t", "mangle", "-A", "PREROUTING", "-j", "MARK", "--set-xmark", "0x40/0x60")
    node.run("iptables-nft", "-t", "mangle", "-A", "OUTPUT", "-j", "CONNMARK", "--restore-mark")
    levels = {message.split(" uses")[0]: level for level, _reason, message in found(node)}
    assert levels == {"nftables chain ip mangle PREROUTING": "error", "nftables chain ip mangle OUTPUT": "warning"}


def test_a_port_that_is_taken(node, wait_for):
    script = "import socket, time; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 51820)); time.sleep(600)"
    holder = subprocess.Popen(node.command(sys.executable, "-c", script))
    try:
        assert wait_for(lambda: [entry for entry in found(node) if entry[1] == "port_taken"])
        assert [entry for entry in found(node, port=51821) if entry[1] == "port_taken"] == []
    finally:
        holder.kill()
        holder.wait()
