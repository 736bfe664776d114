# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proven, not proven, broken: what verify reports, how it ends, and that the page has the same. The tests build on each other, in their order."""

from __future__ import annotations

import contextlib
import json
import pathlib
import sys
import threading

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import NotFound
from service_lab import LABEL, client
from test_mesh import _extra_node

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "unit"))

import status_schema  # pylint: disable=wrong-import-position

PROXIES = True
STATE = {}


def status(fabric, **variables):
    """(run, document, page)."""
    folder = fabric.state / "verdict"
    run = fabric.play("status", variables=dict(variables, status_folder=str(folder)))
    document = json.loads((folder / "fabric-status.json").read_text())
    assert status_schema.problems(document) == []
    return run, document, (folder / "fabric-status.html").read_text()


def agree(fabric, value, words, **variables):
    """Verify and status give the same verdict, for the same reason, and end by the verdict."""
    run = fabric.play("verify", variables=variables)
    assert (run.rc == 0) == (value == "proven") and words in run.out, run.out[-4000:]
    assert ("all green" in run.out) == (value == "proven")
    shown, document, page = status(fabric, status_fail_on_findings=True, **variables)
    assert document["verdict"]["value"] == value, document["verdict"]
    assert (shown.rc == 0) == (value == "proven")
    reasons = document["verdict"]["broken"] + document["verdict"]["unproven"]
    assert value == "proven" or any(words in reason for reason in reasons), reasons
    assert ("all green" in page) == (value == "proven")
    return run, document


def test_a_joined_fabric_is_proven(fabric):
    run = fabric.play("site").ok()
    assert "all green" in run.out
    dummy, document = agree(fabric, "proven", "all green")
    assert document["links"][0]["latency"] is not None and document["summary"]["tunnels_unknown"] == 0


def test_without_a_ping_it_is_not_proven_and_the_variable_accepts_that(fabric):
    words = "so nothing was pinged from there"
    run, dummy = agree(fabric, "not proven", words, mesh_verify_pods=0)
    assert "verify_allow_unproven: true" in run.out
    run = fabric.play("verify", variables={"mesh_verify_pods": 0, "verify_allow_unproven": True}).ok()
    assert words in run.out and "all green" not in run.out
    shown, document, dummy = status(
        fabric, mesh_verify_pods=0, verify_allow_unproven=True, status_fail_on_findings=True
    )
    assert shown.rc == 0 and document["verdict"]["value"] == "not proven"
    assert fabric.play("site", variables={"mesh_verify_pods": 0}).rc != 0


def test_a_limit_is_the_scope_of_the_verdict(fabric):
    first = "scope: --limit aws_nodes: 2 of 4 nodes judged; not asked (outside --limit): nodes gcp-node-1, gcp-node-2"
    for playbook in ("verify", "site"):
        run = fabric.play(playbook, "--limit", "aws_nodes").ok()
        assert first in run.out and "all green inside --limit aws_nodes" in run.out
    folder = fabric.state / "limited"
    fabric.play(
        "status", "--limit", "aws_nodes", variables={"status_folder": str(folder), "status_fail_on_findings": True}
    ).ok()
    document = json.loads((folder / "fabric-status.json").read_text())
    assert document["verdict"]["value"] == "proven" and document["scope"]["judged"] == 2
    assert first in (folder / "fabric-status.html").read_text()
    run = fabric.play("verify", "--limit", "clusters")
    assert run.rc != 0 and "nothing was looked at: --limit clusters leaves no node and no" in run.out


def test_what_is_broken_outside_of_the_limit_is_not_asked_and_inside_it_is_broken(fabric):
    routes = json.loads(fabric.sh("aws-node-1", "ip", "-j", "route", "show", "dev", "wireguard.gcp"))
    gone = next(row["dst"] for row in routes if "/" in row["dst"])
    whole = " ".join(fabric.sh("aws-node-1", "ip", "route", "show", gone).split())
    fabric.sh("aws-node-1", "ip", "route", "del", gone)
    try:
        run = fabric.play("verify", "--limit", "gcp_nodes").ok()
        assert "not asked (outside --limit): nodes aws-node-1, aws-node-2" in run.out
        run = fabric.play("verify", "--limit", "aws_nodes")
        assert run.rc != 0 and "aws-node-1: route" in run.out and "is not as desired" in run.out
    finally:
        fabric.sh("aws-node-1", "ip", "route", "replace", *whole.split())
    agree(fabric, "proven", "all green")


@pytest.mark.parametrize(
    "deeds, words",
    [
        (
            ["route add 10.4.7.128/25 dev {uplink}"],
            "it is taken by route 10.4.7.128/25 dev {uplink} table main protocol 3",
        ),
        (
            ["route add default dev {uplink} table 100", "rule add to 10.4.7.128/25 table 100 priority 50"],
            "by rule 50: from all to 10.4.7.128/25 table 100",
        ),
    ],
    ids=["route", "rule"],
)
def test_what_sends_half_of_a_range_elsewhere_breaks_it(fabric, deeds, words):
    uplink = json.loads(fabric.sh("aws-node-1", "ip", "-j", "route", "get", "10.22.22.27"))[0]["dev"]
    deeds = [deed.format(uplink=uplink) for deed in deeds]
    for deed in deeds:
        fabric.sh("aws-node-1", "ip", *deed.split())
    try:
        dummy, document = agree(fabric, "broken", words.format(uplink=uplink))
        assert document["links"][0]["faults"], "all handshakes are fresh, and the line is not green"
        assert document["summary"]["tunnels_up"] == document["summary"]["tunnels"] and document["drift"] == []
    finally:
        for deed in reversed(deeds):
            fabric.sh("aws-node-1", "ip", *deed.replace(" add ", " del ").split())
    agree(fabric, "proven", "all green")


def test_a_refused_node_is_in_the_verdict(fabric):
    _extra_node(fabric, **{"aws.wireguard.semaphore.uw.io/pubKey": "not-a-key"})
    try:
        agree(fabric, "not proven", "mesh: refused gcp/extra-1")
    finally:
        fabric.kubectl("gcp", "delete", "node", "extra-1")


def test_a_blocked_port_is_reported_with_its_addresses(fabric):
    device = fabric.wireguard("aws-node-1")["wireguard.gcp"]
    key, peer = next((key, peer) for key, peer in device["peers"].items() if peer["endpoint"] == "10.22.22.27:51821")
    fabric.sh(
        "gcp-node-1",
        "nft",
        "add table inet blocked; add chain inet blocked in { type filter hook input priority -300; }; "
        "add rule inet blocked in ip saddr 10.66.23.31 udp dport 51821 drop",
    )
    # and the other side does not call, so that the tunnel begins anew
    fabric.sh(
        "aws-node-1",
        "nft",
        "add table inet blocked; add chain inet blocked in { type filter hook input priority -300; }; "
        "add rule inet blocked in ip saddr 10.22.22.27 udp dport 51821 drop",
    )
    try:
        fabric.sh("aws-node-1", "wg", "set", "wireguard.gcp", "peer", key, "remove")
        fabric.sh(
            "aws-node-1",
            "wg",
            "set",
            "wireguard.gcp",
            "peer",
            key,
            "endpoint",
            peer["endpoint"],
            "allowed-ips",
            ",".join(peer["allowed_ips"]),
            "persistent-keepalive",
            "25",
        )
        agree(
            fabric,
            "broken",
            "aws-node-1: no handshake with gcp/gcp-node-1: UDP from 10.66.23.31 port 51821 to 10.22.22.27:51821 got no answer",
        )
        found = fabric.play("preflight")
        assert "udp_unanswered" in found.out and "UDP from 10.66.23.31 port 51821 to 10.22.22.27:51821" in found.out
    finally:
        for node in ("gcp-node-1", "aws-node-1"):
            fabric.sh(node, "nft", "delete", "table", "inet", "blocked")
    fabric.all_reach(60)


def test_a_pod_outside_its_nodes_range_is_named(fabric):
    fabric.sh("aws-node-1", "ip", "link", "add", "cali1", "type", "veth", "peer", "name", "cali1p")
    fabric.sh("aws-node-1", "ip", "link", "set", "cali1", "up")
    fabric.sh("aws-node-1", "ip", "route", "add", "10.2.99.5/32", "dev", "cali1")
    try:
        agree(fabric, "broken", "1 pod with an address outside the ranges 10.2.3.0/24 of its Node (10.2.99.5)")
        found = fabric.play("preflight")
        assert found.rc != 0 and "pods_outside_node_range" in found.out and "10.2.99.5" in found.out
    finally:
        fabric.sh("aws-node-1", "ip", "link", "del", "cali1")


def test_an_unreachable_node_makes_nothing_greener(fabric):
    before = status(fabric)[1]
    fabric.lab("node-stop", "gcp-node-2")
    try:
        run, document, page = status(fabric)
        assert run.rc == 0 or "unreachable=1" in run.out
        assert document["summary"]["tunnels"] == before["summary"]["tunnels"]
        assert document["summary"]["tunnels_unknown"] == 2 and document["verdict"]["value"] == "broken"
        node = next(node for node in document["nodes"] if node["host"] == "gcp-node-2")
        assert not node["answered"] and node["why"] and "all green" not in page
    finally:
        fabric.lab("node-rebuild", "gcp-node-2")
    assert [row["verdict"] for row in document["history"]][-1] == "broken" and len(document["history"]) > 1


MIRRORS = "/api/v1/namespaces/sys-semaphore/services"
SERVICES = {"multicluster_capabilities": ["service_mirror"], "service_mirror_create_namespace": True}


@contextlib.contextmanager
def rival(fabric):
    """Somebody in gcp who takes every mirror away as soon as it is there; gives the names that he took."""
    stop, taken = threading.Event(), []

    def work():
        api = client(fabric, "gcp")
        while not stop.wait(0.05):
            for one in api.list(MIRRORS).items:
                taken.append(one["metadata"]["name"])
                with contextlib.suppress(NotFound):
                    api.delete(MIRRORS + "/" + taken[-1])

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield taken
    finally:
        stop.set()
        worker.join()


def test_an_accepted_write_is_no_proof(fabric):
    api = client(fabric, "aws")
    api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, "test")
    cart = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "cart", "namespace": "shop", "labels": {LABEL: "true"}},
        "spec": {"selector": {"app": "cart"}, "ports": [{"port": 80}]},
    }
    api.create("/api/v1/namespaces/shop/services", cart, "test")
    with rival(fabric) as taken:
        run = fabric.play("site", variables=SERVICES)
    assert taken and run.rc != 0, run.out[-4000:]
    assert (
        f"service_mirror: Service gcp/sys-semaphore/{taken[0]} is not as desired (create)" in run.out
        and "all green" not in run.out
    )

    run = fabric.play("site", variables=SERVICES).ok()
    assert "all green" in run.out and run.out.count(": Mirror the labelled Services") == 2, (
        "what was written is read again"
    )
    run = fabric.play("site", variables=SERVICES).ok()
    assert "all green" in run.out and run.out.count(": Mirror the labelled Services") == 1, (
        "what wrote nothing has read all of it"
    )


def test_capabilities_outside_of_the_limit_are_not_asked(fabric):
    run = fabric.play("verify", "--limit", "aws_nodes", variables=SERVICES).ok()
    assert "nodes gcp-node-1, gcp-node-2; capability service_mirror" in run.out
    run = fabric.play("verify", "--limit", "clusters", variables=SERVICES).ok()
    assert "scope: --limit clusters: 0 of 4 nodes judged" in run.out and "all green inside --limit clusters" in run.out
    fabric.play("service_mirror", variables=dict(SERVICES, service_mirror_state="absent")).ok()
