# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Orders of other pod ranges against the state that a node was confirmed to be, and against what its device has."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.node_spec import (
    NodeState,
    parse_node_device,
)
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import Dump, LivePeer, PeerStep
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.range_orders import (
    check_host,
    check_link,
    ordered_state,
    parse_orders,
    plan_ranges,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

A, B, C = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3))
DEVICE = "wireguard.gcp"


def state():
    peers = [
        {"public_key": key, "endpoint": f"192.0.2.{number}:51821", "allowed_ips": cidrs, "node": f"gcp-{number}"}
        for number, (key, cidrs) in enumerate(((A, ["10.4.1.0/26"]), (B, ["10.4.2.0/26"])), 1)
    ]
    row = {
        "name": DEVICE,
        "remote": "gcp",
        "node": "aws-1",
        "mtu": 1420,
        "txqueuelen": 1000,
        "listen_port": 51821,
        "private_key_file": "/key",
        "routes": ["10.4.0.0/16"],
        "peers": peers,
    }
    return NodeState("mesh", (parse_node_device(row, "mesh"),), node="aws-1")


def orders(peers, borrowed=(), device=DEVICE):
    return parse_orders({device: {"peers": peers, "borrowed": list(borrowed)}})


def ranges_of(found):
    return {peer.public_key: list(peer.allowed_ips) for peer in found.devices[0].peers}


def test_ranges_of_a_peer_change_and_nothing_else_of_the_state():
    before = state()
    after = ordered_state(before, orders({A: ["10.4.9.0/26", "10.4.1.0/26"]}))
    assert ranges_of(after) == {A: ["10.4.1.0/26", "10.4.9.0/26"], B: ["10.4.2.0/26"]}
    shown, was = after.to_json(), before.to_json()
    for one in (shown, was):
        for peer in one["devices"][0]["peers"]:
            del peer["allowed_ips"]
    assert shown == was
    assert ordered_state(before, orders({A: ["10.4.1.0/26"]})).to_json() == before.to_json()


def test_a_range_moves_from_one_peer_to_another():
    after = ordered_state(state(), orders({A: [], B: ["10.4.1.0/26", "10.4.2.0/26"]}))
    assert ranges_of(after) == {A: [], B: ["10.4.1.0/26", "10.4.2.0/26"]}


def test_a_borrowed_address_is_inside_the_range_of_another():
    after = ordered_state(state(), orders({B: ["10.4.2.0/26", "10.4.1.7/32"]}, ["10.4.1.7/32"]))
    assert ranges_of(after)[B] == ["10.4.1.7/32", "10.4.2.0/26"]
    assert after.devices[0].borrowed == ("10.4.1.7/32",)


@pytest.mark.parametrize(
    "given, text",
    [
        (orders({C: ["10.4.9.0/26"]}), f"device {DEVICE} has no peer {C}"),
        (orders({A: []}, device="wireguard.other"), "this node has no device 'wireguard.other' of the fabric"),
        (orders({A: ["10.9.9.0/26"]}), f"10.9.9.0/26 of peer {A} is outside of the routes"),
        (orders({A: ["10.4.2.0/26"]}), f"10.4.2.0/26 of peer {A} is peer {B}'s, which keeps it"),
        (orders({A: ["10.4.2.0/25"]}), f"10.4.2.0/26 of peer {A} is inside the ranges of another peer"),
        (orders({A: ["10.4.9.0/25"], B: ["10.4.9.0/26"]}), f"10.4.9.0/26 of peer {B} is inside the ranges"),
        (orders({A: ["10.4.1.0/26"], B: ["10.4.1.7/32"]}), f"10.4.1.7/32 of peer {B} is inside the ranges"),
    ],
)
def test_what_the_state_does_not_have_is_refused(given, text):
    with pytest.raises(ValueRefused, match="run the playbook mesh") as caught:
        ordered_state(state(), given)
    assert caught.value.reason == "no_peer" and caught.value.message.startswith(text)


@pytest.mark.parametrize("raw", [{A: ["10.4.0.0/33"]}, {"x": []}, {A: ["nonsense"]}])
def test_what_is_no_order_is_refused(raw):
    with pytest.raises(ValueRefused):
        orders(raw)


def live():
    peers = {
        A: LivePeer("198.51.100.9:4000", ("10.4.1.0/26",), 25, "fingerprint", 5.0),
        B: LivePeer("192.0.2.2:51821", ("10.4.2.0/26",)),
    }
    return Dump(51821, 0, None, peers)


def test_only_allowed_ips_are_sent():
    """An endpoint that roamed, a keepalive and a preshared key that somebody set: no matter of this."""
    (order,) = orders({A: ["10.4.1.0/26", "10.4.9.0/26"]})
    planned = plan_ranges(order, live())
    assert planned.steps == [PeerStep(A, update_only=True, allowed_ips=("10.4.9.0/26",))]
    assert [(change.action, change.fields) for change in planned.plan.changes] == [("update", ["allowed_ips"])]
    assert plan_ranges(orders({A: ["10.4.1.0/26"]})[0], live()).steps == []


def test_a_range_that_moves_has_an_owner_at_every_step():
    planned = plan_ranges(orders({A: [], B: ["10.4.1.0/26", "10.4.2.0/26"]})[0], live())
    assert planned.steps == [PeerStep(B, update_only=True, allowed_ips=("10.4.1.0/26",))]
    gone = plan_ranges(orders({A: []})[0], live())
    assert gone.steps == [PeerStep(A, update_only=True, replace_allowed_ips=True)]


def test_a_peer_that_somebody_removed_needs_a_whole_run():
    with pytest.raises(ValueRefused, match="although the confirmed state of this node has it"):
        plan_ranges(orders({C: []})[0], live())


@pytest.mark.parametrize(
    "link, text",
    [
        (None, "is not there"),
        ({"implementation": None, "alias": "multicluster.network/mesh"}, "left alone"),
        ({"implementation": "kernel", "alias": None}, "left alone"),
        ({"implementation": "kernel", "alias": "multicluster.network/other"}, "left alone"),
    ],
)
def test_a_link_of_another_program_is_left_alone(link, text):
    with pytest.raises(ValueRefused, match=text):
        check_link(DEVICE, link, "multicluster.network/mesh")
    check_link(DEVICE, {"implementation": "kernel", "alias": "multicluster.network/mesh"}, "multicluster.network/mesh")


def test_another_host_or_no_state():
    assert check_host(state(), "aws-1").host == check_host(state(), "").host == "aws-1"
    for found, node in ((None, "aws-1"), (NodeState("mesh", absent=True), ""), (state(), "aws-2")):
        with pytest.raises(ValueRefused):
            check_host(found, node)
