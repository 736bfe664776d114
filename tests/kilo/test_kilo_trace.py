# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traces over the tunnels of Kilo's agents, each node with its own: no mesh of the collection is there, so both ends are found by their keys."""

from __future__ import annotations

import contextlib
import ipaddress
import json

import pytest
from trace_lab import assert_arrives, make_pod, nodes_now, reported, served, trace

#: With the granularity location, leaders that are no ends carry the packets: what they do is not followed.
pytestmark = pytest.mark.parametrize("fabric", ["full"], indirect=True, scope="module")
ENDS = {"eu/default/web": "eu-1-pod-1", "us/default/log": "us-2-pod-1"}
THERE = {"trace_from": "eu/default/web", "trace_to": "us/default/log", "clustermesh_fabric": "t"}
BACK = dict(THERE, trace_from=THERE["trace_to"], trace_to=THERE["trace_from"])
JOINED = {"clustermesh_kilo_endpoints": "any", "clustermesh_fabric": "t"}


@pytest.fixture(scope="module", autouse=True)
def ready(fabric):
    fabric.play("clustermesh", variables=JOINED).ok()
    fabric.joined()
    with contextlib.ExitStack() as stack:
        for name, pod in ENDS.items():
            make_pod(fabric, name, pod)
            stack.enter_context(served(fabric, pod))
        yield


@pytest.mark.parametrize("question", [THERE, BACK], ids=["there", "back"])
def test_what_arrives_leaves_nothing(fabric, question):
    before = nodes_now(fabric)
    dummy, document = assert_arrives(fabric, **question)
    assert nodes_now(fabric) == before
    assert {hop["verdict"] for hop in document["hops"]} == {"ok"}, reported(document)
    assert {"route", "tunnel", "target"} <= {hop["what"] for hop in document["hops"]}


@contextlib.contextmanager
def lacking(fabric, gone):
    """The Peer of eu-1 in the other cluster without the range of its pods, or gone as a whole; the agents follow."""
    name = "t--eu--eu-1"
    spec = fabric.peers("us")[name]["spec"]
    pods = ipaddress.ip_network("10.2.3.0/24")
    left = [text for text in spec["allowedIPs"] if not ipaddress.ip_network(text).overlaps(pods)]
    assert len(left) < len(spec["allowedIPs"])

    def known():
        return any(str(pods) in row["allowed_ips"] for row in fabric.wireguard("us-2")["kilo0"]["peers"].values())

    less = json.dumps({"spec": {"allowedIPs": left}})
    fabric.kubectl("us", *(["delete", "peers", name] if gone else ["patch", "peers", name, "--type=merge", "-p", less]))
    fabric.until("the agents follow", lambda: not known())
    try:
        yield
    finally:
        fabric.play("clustermesh", variables=JOINED).ok()
        fabric.until("the agents follow", known)


@pytest.mark.parametrize(
    "question,gone,cause",
    [
        (THERE, False, "allowed_ips_lack_source"),
        (BACK, False, "allowed_ips_lack_target"),
        (THERE, True, "peer_missing"),
    ],
    ids=["source", "target", "peer"],
)
def test_a_peer_that_lacks_something_is_named_and_its_fix_works(fabric, question, gone, cause):
    with lacking(fabric, gone):
        dummy, document = trace(fabric, **question)
        found = document["findings"][0]
        assert (found["cause"], found["where"]) == (cause, "us-2"), reported(document)
        assert "clustermesh" in found["fix"]
    # the other end keeps the session that this one has lost, until WireGuard gives it up
    assert_arrives(fabric, within=90.0, **question)
