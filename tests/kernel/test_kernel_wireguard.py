# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What only the kernel's WireGuard does: its errors, and devices that another program made."""

from __future__ import annotations

import base64

import pytest

pytestmark = pytest.mark.kernel_wireguard
DESIRED = {"name": "wg0", "implementation": "auto", "listen_port": 51821, "peers": []}
KEY = base64.b64encode(b"k" * 32).decode()


@pytest.fixture(name="kernel_node")
def kernel_node_fixture(node, need_kernel_wireguard):
    need_kernel_wireguard(node)
    return node


def test_a_taken_port_is_named_and_the_next_run_goes_on(kernel_node, flow_failed):
    kernel_node.flow("wireguard_device", dict(DESIRED, name="wg1"), False)
    with pytest.raises(flow_failed, match="wg0: its UDP port is taken"):  # the kernel reports it when the link goes up
        kernel_node.flow("wireguard_device", DESIRED, False)
    kernel_node.flow("wireguard_device", dict(DESIRED, name="wg1", state="absent"), False)
    assert kernel_node.flow("wireguard_device", DESIRED, False)["device"]["up"]
    kernel_node.flow("wireguard_device", dict(DESIRED, name="wg1", listen_port=51822), False)
    with pytest.raises(flow_failed, match="wg0: its UDP port is taken"):
        kernel_node.flow("wireguard_device", dict(DESIRED, listen_port=51822), False)
    assert kernel_node.run("wg", "show", "wg0", "listen-port") != "0\n"


def test_a_kernel_device_stays_one(kernel_node):
    kernel_node.flow("wireguard_device", DESIRED, False)
    warned = kernel_node.flow("wireguard_device", dict(DESIRED, implementation="userspace"), False)
    assert not warned["changed"] and "stays one" in warned["warnings"][0]


def test_a_control_socket_of_the_same_name_does_not_hide_a_kernel_device(kernel_node):
    kernel_node.flow("wireguard_device", DESIRED, False)
    kernel_node.run(
        "/usr/bin/python3", "-c", "import socket; socket.socket(socket.AF_UNIX).bind('/run/wireguard/wg0.sock')"
    )
    again = kernel_node.flow("wireguard_device", DESIRED, False)
    assert not again["changed"] and again["device"]["implementation"] == "kernel"


def test_a_peer_without_anything_and_the_widest_one(kernel_node):
    peers = [
        {
            "public_key": KEY,
            "endpoint": "[2001:db8::1]:65535",
            "allowed_ips": ["0.0.0.0/0", "::/0"],
            "persistent_keepalive": 65535,
        },
        {"public_key": base64.b64encode(b"l" * 32).decode(), "allowed_ips": ["192.0.2.1/32", "2001:db8::/128"]},
    ]
    desired = dict(DESIRED, peers=peers, fwmark=0xFFFFFFFF)
    assert kernel_node.flow("wireguard_device", desired, False)["plan"]["create"] == 3
    assert not kernel_node.flow("wireguard_device", desired, False)["changed"]
    assert kernel_node.run("wg", "show", "wg0", "fwmark") == "0xffffffff\n"
