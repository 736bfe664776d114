# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traces over one full mesh of both families, which steers by marks and sets: what breaks only there, and what has another look there.

Part of tests/run trace.
"""

from __future__ import annotations

import contextlib

import pytest
import trace_breaks as lab
from trace_lab import assert_arrives, make_pod, nodes_now, reported, served, trace

TOPOLOGY = "dual"
MESH = {
    "multicluster_mesh": "kubespan",
    "mesh_id": "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=",
    "mesh_secret": "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
}
WATCHER = "multicluster-network-default-watch.service"
ENDS = {"aws/default/web": lab.A + "-pod-1", "gcp/default/log": lab.B + "-pod-1"}
PING = {"trace_from": "aws/default/web", "trace_to": "gcp/default/log"}
SIX = dict(PING, trace_family="6")
BREAKS = []


def breaks(cause, **how):
    return lab.breaks(cause, **dict({"asks": PING, "into": BREAKS}, **how))


def peer(fabric, node, other):
    """(key, settings) of the peer that a node has for another."""
    found = fabric.wireguard(node)["kubespan"]["peers"]
    return next((key, row) for key, row in found.items() if lab.PODS[other] in row["allowed_ips"])


def wg(fabric, node, *words):
    fabric.sh(node, "wg", "set", "kubespan", *words)


def empty_sets(fabric, node):
    """The sets as they are before the watcher has looked at the first peer."""
    names = fabric.sh(
        node, "sh", "-c", "nft list table inet talos_kubespan | sed -n 's/^[[:space:]]set \\(.*\\) {$/\\1/p'"
    ).split()
    assert names
    for name in names:
        fabric.sh(node, "nft", "flush", "set", "inet", "talos_kubespan", name)


@breaks("watcher_stopped")
def watcher_stopped(fabric):
    """It ended while it filled the sets anew."""
    fabric.sh(lab.A, "systemctl", "stop", WATCHER)
    empty_sets(fabric, lab.A)
    yield
    fabric.sh(lab.A, "systemctl", "start", WATCHER)


@breaks("watcher_stopped", asks=SIX, name="watcher_stopped_at_the_target")
def watcher_stopped_there(fabric):
    fabric.sh(lab.B, "systemctl", "stop", WATCHER)
    empty_sets(fabric, lab.B)
    yield
    fabric.sh(lab.B, "systemctl", "start", WATCHER)


def held(fabric, node):
    """Without the watcher, which would put right in a second what is broken here."""
    fabric.sh(node, "systemctl", "stop", WATCHER)


@breaks("peer_missing", fix="mesh")
def peer_missing(fabric):
    held(fabric, lab.B)
    wg(fabric, lab.B, "peer", peer(fabric, lab.B, lab.A)[0], "remove")
    yield


@breaks("allowed_ips_lack_source", fix="mesh")
def allowed_ips_lack_source(fabric):
    held(fabric, lab.B)
    key, row = peer(fabric, lab.B, lab.A)
    wg(
        fabric,
        lab.B,
        "peer",
        key,
        "allowed-ips",
        ",".join(text for text in row["allowed_ips"] if text != lab.PODS[lab.A]),
    )
    yield


@breaks("route_missing", fix="mesh")
def rule_missing(fabric):
    """The rule that leads marked packets to the mesh's table."""
    held(fabric, lab.A)
    fabric.sh(lab.A, "ip", "rule", "del", "priority", "32500")
    yield


@breaks("watcher_stopped", asks=SIX)
def table_missing(fabric):
    """The mesh's table of nftables is gone, and so is who would make it again."""
    held(fabric, lab.A)
    fabric.sh(lab.A, "nft", "delete", "table", "inet", "talos_kubespan")
    yield
    fabric.sh(lab.A, "systemctl", "start", WATCHER)
    fabric.play("mesh", variables=MESH).ok()


@breaks("not_explained", asks=SIX, fix=None)
def marking_missing(fabric):
    """The sets are full, and no rule looks at them."""
    held(fabric, lab.A)
    fabric.sh(
        lab.A,
        "sh",
        "-c",
        "for c in $(nft list table inet talos_kubespan | sed -n 's/^[[:space:]]chain \\(.*\\) {$/\\1/p'); do "
        "nft flush chain inet talos_kubespan $c; done",
    )
    yield
    fabric.play("mesh", variables=MESH).ok()


@breaks("route_missing", fix="mesh", name="table_of_routes_empty")
def routes_missing(fabric):
    held(fabric, lab.A)
    fabric.sh(lab.A, "ip", "route", "flush", "table", "180")
    yield


@breaks("route_missing", asks=SIX, fix="mesh", name="table_of_routes_empty_of_six")
def routes_missing_six(fabric):
    held(fabric, lab.A)
    fabric.sh(lab.A, "ip", "-6", "route", "flush", "table", "180")
    yield


@breaks("rule_shadowed")
def rule_shadowed(fabric):
    fabric.sh(lab.A, "ip", "route", "add", "default", *lab.uplink_route(fabric, lab.A), "table", "100")
    fabric.sh(lab.A, "ip", "rule", "add", "to", lab.PODS[lab.B], "table", "100", "priority", "50")
    yield
    fabric.sh(lab.A, "ip", "rule", "del", "to", lab.PODS[lab.B], "table", "100", "priority", "50")
    fabric.sh(lab.A, "ip", "route", "del", "default", "table", "100")


@breaks("device_down", fix="mesh")
def device_down(fabric):
    held(fabric, lab.B)
    fabric.sh(lab.B, "ip", "link", "set", "kubespan", "down")
    yield


@breaks("device_missing", fix="mesh")
def device_missing(fabric):
    held(fabric, lab.A)
    fabric.sh(lab.A, "ip", "link", "del", "kubespan")
    yield


@breaks("port_closed", asks=dict(SIX, trace_port=lab.PORT))
def port_closed(fabric):
    """The pod's server listens on IPv4 alone."""
    yield
    lab.HEALS.append(SIX)


@pytest.fixture(scope="module", autouse=True)
def ready(fabric):
    for name, pod in ENDS.items():
        make_pod(fabric, name, pod)
    fabric.play("site", variables=MESH).ok()
    fabric.all_reach()
    with contextlib.ExitStack() as stack:
        for pod in ENDS.values():
            stack.enter_context(served(fabric, pod))
        yield


@pytest.mark.parametrize(
    "question", [PING, SIX, dict(PING, trace_port=lab.PORT, trace_family="4")], ids=["ping", "six", "port"]
)
def test_what_arrives_leaves_nothing(fabric, question):
    before = nodes_now(fabric)
    dummy, document = assert_arrives(fabric, **question, **MESH)
    assert {hop["verdict"] for hop in document["hops"]} == {"ok"}, reported(document)
    assert nodes_now(fabric) == before


@pytest.mark.parametrize("case", BREAKS, ids=lambda one: one.name)
def test_a_cause_has_its_name_and_its_fix(fabric, case):
    lab.HEALS.clear()
    try:
        with case.broken(fabric):
            dummy, document = trace(fabric, **case.asks, **MESH)
            assert document["verdict"] != "arrives", reported(document)
            assert document["findings"][0]["cause"] == case.cause, reported(document)
            assert document["findings"][0]["fix"]
            if case.fix:
                assert case.fix in document["findings"][0]["fix"]
                fabric.play(case.fix, variables=MESH).ok()
        assert_arrives(fabric, **(lab.HEALS[0] if lab.HEALS else case.asks), **MESH)
    except BaseException:
        fabric.play("site", variables=MESH)
        raise
