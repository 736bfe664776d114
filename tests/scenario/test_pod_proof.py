# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is proven is proven of pods, and of packets of every size: a node that forwards nothing to them and a way that loses large packets turn every
verdict red, in both modes of the mesh, and a node without pods is not proven. The tests build on each other, in their order."""

from __future__ import annotations

import json
import subprocess

import pytest
from test_kubespan import MESH

TOPOLOGY = "dual"
MODES = {"semaphore": {}, "kubespan": MESH}
#: A router of the way answers nothing where a packet is too big, as behind PPPoE and in some clouds.
QUIET = """add table inet quiet
add chain inet quiet o { type filter hook output priority 0 ; }
add rule inet quiet o icmp type destination-unreachable drop
add rule inet quiet o icmpv6 type packet-too-big drop
"""
#: What Docker and many hardening guides set.
DROP = "add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0 ; policy drop ; }"


def underlay(fabric, *command, stdin=None):
    """Run a command where the way between the nodes is."""
    words = ["ip", "netns", "exec", fabric.namespace("underlay"), *command]
    subprocess.run(words, check=True, capture_output=True, text=True, input=stdin)


def words_of(fabric, variables):
    """(exit code, output) of each play that judges, and the verdict of the status document."""
    folder = fabric.state / "proof"
    runs = {book: fabric.play(book, variables=variables) for book in ("verify", "site")}
    runs["status"] = fabric.play(
        "status", variables=dict(variables, status_folder=str(folder), status_fail_on_findings=True)
    )
    return runs, json.loads((folder / "fabric-status.json").read_text(encoding="utf-8"))["verdict"]


def red(fabric, variables, value, words):
    runs, verdict = words_of(fabric, variables)
    assert verdict["value"] == value and any(words in reason for reason in verdict["broken"] + verdict["unproven"]), (
        verdict
    )
    for book, run in runs.items():
        assert run.rc != 0 and "all green" not in run.out, (book, run.out[-3000:])
    for book in ("verify", "site"):
        assert words in runs[book].out, (book, runs[book].out[-3000:])
    return runs


@pytest.fixture(params=MODES, scope="module")
def variables(request, fabric):
    """Of a mesh that is joined in one of its modes and goes afterwards."""
    run = fabric.play("site", variables=MODES[request.param]).ok()
    assert "all green" in run.out and "node 0." not in run.out, run.out[-3000:]
    yield MODES[request.param]
    fabric.play("teardown", variables=dict(MODES[request.param], teardown_confirm=True)).ok()


def test_a_node_that_forwards_nothing_turns_every_verdict_red(fabric, variables):
    fabric.sh("gcp-node-1", "nft", DROP)
    try:
        unreachable = {row["source"] for row in fabric.reaches() if row["cross"] and not row["ok"]}
        assert unreachable, "the breakage breaks"
        runs = red(fabric, variables, "broken", "does not reach pod")
        assert "forward_dropped" in runs["verify"].out and "FAIL" in runs["verify"].out
    finally:
        fabric.sh("gcp-node-1", "nft", "delete", "table", "ip", "filter")
    assert "all green" in fabric.play("verify", variables=variables).ok().out


def test_a_trace_without_ends_follows_pods_or_nothing(fabric, variables):
    """There is no Pod object in this lab: kernels have the pods. Underlay addresses are none."""

    def traced(**ends):
        path = fabric.state / "trace.json"
        fabric.play("trace", variables=dict(variables, trace_family="4", trace_document=str(path), **ends)).ok()
        return json.loads(path.read_text(encoding="utf-8"))

    whole = traced()
    assert whole["verdict"] == "arrives" and whole["agreement"]["arrive"] == 12, whole["table"]
    assert {flow["source"]["address"].split(".")[1] for flow in whole["trace"]["flows"]} == {"2", "4"}, (
        "pods' ranges alone"
    )
    between = traced(trace_from="aws/aws-node-1", trace_to="gcp/gcp-node-1")
    address = traced(trace_from="aws/aws-node-2" if variables else "any", trace_to="10.4.7.10")
    assert between["verdict"] == ("arrives" if variables else "nothing to follow"), between["table"]
    ways = [row["verdict"] for row in address["flows"] if "10.4.7.10" not in row["source"]]
    assert ways and set(ways) == {"arrives"} and "gcp-node-1" in address["trace"]["nodes"], address["table"]
    if variables:  # with a watcher that sets a device up again
        fabric.sh("gcp-node-1", "nft", DROP)
    else:
        fabric.sh("gcp-node-1", "ip", "link", "set", "wireguard.aws", "down")
    try:
        assert traced()["verdict"] == "does not arrive"
    finally:
        fabric.sh(
            "gcp-node-1",
            *(
                ["nft", "delete", "table", "ip", "filter"]
                if variables
                else ["ip", "link", "set", "wireguard.aws", "up"]
            ),
        )
    fabric.play("site", variables=variables).ok()


def test_a_node_without_its_pods_is_not_proven_by_its_own_address(fabric, variables):
    """The bridge's address is still there and answers; a reboot brings the pod back, as it does on a real node."""
    fabric.sh("gcp-node-1", "kill", *fabric.sh("gcp-node-1", "pgrep", "-x", "sleep").split())
    red(fabric, variables, "not proven", "gcp-node-1: has no network namespace with an address of its pod ranges")
    assert fabric.play("verify", variables=dict(variables, verify_allow_unproven=True)).ok().out.count("all green") == 0
    fabric.lab("node-rebuild", "gcp-node-1")
    fabric.all_reach(60)
    assert "all green" in fabric.play("verify", variables=variables).ok().out


def test_a_way_that_loses_large_packets_turns_every_verdict_red(fabric, variables):
    """1400 bytes on the wire: less 60 for WireGuard over IPv4, and WireGuard pads to 16. With the MTU that the verdict names it is green."""
    underlay(fabric, "ip", "link", "set", "gcp-node-1", "mtu", "1400")
    underlay(fabric, "nft", "-f", "-", stdin=QUIET)
    try:
        runs = red(fabric, variables, "broken", "packets of more than 1,328 bytes do not reach pod")
        assert "FAIL > 1328 B" in runs["verify"].out and "[mtu_black_hole]" in runs["verify"].out
        right = {"kubespan_config": {"mtu": 1328}} if variables else {"wireguard_mtu": 1328}
        assert ("kubespan_config: {mtu: 1328}" if variables else "wireguard_mtu: 1328") in runs["verify"].out
        assert "all green" in fabric.play("site", variables=dict(variables, **right)).ok().out
    finally:
        underlay(fabric, "nft", "delete", "table", "inet", "quiet")
        underlay(fabric, "ip", "link", "set", "gcp-node-1", "mtu", "1500")
