# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each decision about a tunnel by itself: peers, keys, endpoints and ranges."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._trace.causes import BACK, FORWARD
from trace_judged import ONE, TWO, cause, two_fixture, walk  # noqa: F401 pylint: disable=unused-import
from trace_worlds import TABLE, World, key_of, route


def test_the_device_is_that_of_the_plan(two: World) -> None:
    """The other end's device has another name there than any that fits by its key."""
    two.nodes[TWO]["devices"].insert(0, dict(two.device_of(TWO, ONE), name="zz", public_key=key_of("zz")))
    assert cause(walk(two)) == ""
    two.nodes[TWO]["devices"] = two.nodes[TWO]["devices"][:1]
    assert cause(walk(two)) == "device_missing"


def test_the_other_end_is_down(two: World) -> None:
    two.device_of(TWO, ONE)["up"] = False
    found = walk(two)
    assert (cause(found), found.fault and found.fault.at) == ("device_down", TWO)


def test_a_source_that_belongs_to_another_peer_there() -> None:
    world = World({"aws": 2, "gcp": 1})
    world.peer_of("gcp-0", "aws-1")["allowed_ips"].append(world.pods["aws-0"] + "/32")
    found = walk(world, "aws-0", "gcp-0")
    assert cause(found) == "allowed_ips_lack_source" and found.fault is not None and "alone" in found.fault.text


def test_a_target_that_belongs_to_another_peer_here() -> None:
    world = World({"aws": 1, "gcp": 2})
    world.peer_of("aws-0", "gcp-1")["allowed_ips"].append(world.pods["gcp-0"] + "/32")
    assert cause(walk(world, "aws-0", "gcp-0")) == "allowed_ips_lack_target"
    # and the right one is not there at all: another node's key is nobody's wrong one
    world.device_of("aws-0", "gcp-0")["peers"].remove(world.peer_of("aws-0", "gcp-0"))
    assert cause(walk(world, "aws-0", "gcp-0")) == "peer_missing"


@pytest.mark.parametrize("kubespan", [False, True], ids=["semaphore", "kubespan"])
@pytest.mark.parametrize("aside", [{ONE, TWO}, {ONE}, {TWO}, set()], ids=["both", "source", "target", "none"])
def test_while_keys_are_rotated_the_trace_names_the_device_that_carries(kubespan: bool, aside: set[str]) -> None:
    """Ends may be a step apart. The key of a device by which a node does not send may be one that the other end does not know yet."""
    world = World({"aws": 1, "gcp": 1}, kubespan=kubespan)
    bypass = {
        host: "wg-rotate.span" if kubespan else world.device(host, other).replace("wireguard.", "wg-rotate.")
        for host, other in ((ONE, TWO), (TWO, ONE))
    }
    for host, other in ((ONE, TWO), (TWO, ONE)):
        device, peer = world.device_of(host, other), world.peer_of(host, other)
        port = world.port(other, host) + 1000
        where = f"{world.uplink[other]}:{port}"
        row = dict(
            device, name=bypass[host], public_key=key_of("next", host), listen_port=world.port(host, other) + 1000
        )
        row["peers"] = [dict(peer, public_key=key_of("next", other), endpoint=where)]
        world.nodes[host]["devices"].append(row)
        if host in aside:
            world.nodes[host]["routes"].append(
                route(f"{world.pods[other]}/32", bypass[host], TABLE if kubespan else 254)
            )
    if aside == {ONE, TWO}:
        world.device_of(ONE, TWO)["public_key"] = key_of(
            "new"
        )  # the next step, which the other end has yet to learn of
    for source, target, direction in ((ONE, TWO, FORWARD), (TWO, ONE, BACK)):
        found = walk(world, source, target, direction)
        assert cause(found) == "", found.fault
        (step,) = [step for step in found.steps if step.what == "tunnel"]
        assert step.dev == (bypass[source] if source in aside else world.device(source, target))
        assert step.text.endswith("bypass device" if source in aside else "the device itself"), step.text
        assert "keys are being rotated" in step.text


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [(True, False, "no_handshake"), (False, True, "no_handshake"), (True, True, ""), (None, True, "")],
)
def test_one_preshared_key_is_too_few(two: World, here: t.Any, there: t.Any, expected: str) -> None:
    two.peer_of(ONE, TWO)["preshared"], two.peer_of(TWO, ONE)["preshared"] = here, there
    assert cause(walk(two)) == expected


def test_a_key_of_two_nodes_is_distinguished_from_either_end() -> None:
    for who in ("aws-0", "gcp-0"):
        world = World({"aws": 2, "gcp": 2})
        other = who[:-1] + "1"
        for device in world.nodes[other]["devices"]:
            device["public_key"] = next(one for one in world.nodes[who]["devices"] if one["name"] == device["name"])[
                "public_key"
            ]
        assert cause(walk(world, "aws-0", "gcp-0")) == "keys_shared", who


@pytest.mark.parametrize(
    ("endpoint", "planned", "fresh", "expected"),
    [
        ("{own}:{port}", None, False, ""),
        ("{own}:9", None, True, "stale_endpoint"),
        ("192.168.77.77:{port}", None, False, "stale_endpoint"),
        ("192.168.77.77:40001", None, False, "endpoint_moved"),
        # behind a NAT: where it should be found is none of its own addresses
        ("203.0.113.9:51820", ["203.0.113.9:51820"], False, ""),
        ("203.0.113.9:40001", ["203.0.113.9:51820"], False, "endpoint_moved"),
        ("203.0.113.9:40001", ["203.0.113.9:51820"], True, ""),
        ("203.0.113.7:51820", ["203.0.113.9:51820"], False, "endpoint_moved"),
        # nobody reports where it should be
        ("203.0.113.9:40001", [], True, ""),
        ("203.0.113.9:40001", [], False, "endpoint_moved"),
    ],
)
def test_where_a_peer_is_called(two: World, endpoint: str, planned: t.Any, fresh: bool, expected: str) -> None:
    two.peer_of(ONE, TWO)["endpoint"] = endpoint.format(own=two.uplink[TWO], port=two.port(TWO, ONE))
    for one, other in ((ONE, TWO), (TWO, ONE)):
        two.peer_of(one, other)["handshake_age"] = 20 if fresh else 500
    mesh = two.mesh()
    if planned is not None:
        mesh["endpoints"] = {TWO: planned}
    assert cause(walk(two, mesh=mesh)) == expected


def test_a_wrong_key_is_one_that_nobody_has_where_the_node_should_be(two: World) -> None:
    peer = two.peer_of(ONE, TWO)
    peer.update(public_key=key_of("nobody"), allowed_ips=["10.99.0.0/24"])
    assert cause(walk(two)) == "wrong_key"  # it takes no packet, and is where the node is
    peer["endpoint"] = "192.168.77.77:1"
    assert cause(walk(two)) == "peer_missing"
    other = World({"aws": 1, "gcp": 2})
    neighbour = other.peer_of("aws-0", "gcp-1")
    other.device_of("aws-0", "gcp-0")["peers"].remove(other.peer_of("aws-0", "gcp-0"))
    neighbour["endpoint"] = f"{other.uplink['gcp-0']}:1"  # of a node that is known: no key of nobody
    assert cause(walk(other, "aws-0", "gcp-0")) == "peer_missing"
