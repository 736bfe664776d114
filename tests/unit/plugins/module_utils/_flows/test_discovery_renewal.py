# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's record at the discovery service: for at most 30 minutes, announced again at half of them by the node's watcher, with jitter after failures."""

from __future__ import annotations

import binascii
import importlib.util
import pathlib
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.kubespan import discovery
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import members

DOUBLE = pathlib.Path(__file__).resolve().parents[4] / "doubles" / "discovery_service" / "server.py"
MESH = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
AFFILIATE = {
    "node_id": "edge",
    "nodename": "edge",
    "hostname": "edge.example",
    "machine_type": "worker",
    "public_key": "CvQ6mT6y+Q7KxcZDGrj2C51PMVG0dGomuLq+aH7CTR8=",
    "kubespan_address": "fd7a:6197:edb7:2302:5054:ff:feaa:1",
    "addresses": ["192.0.2.11"],
    "additional_addresses": ["10.244.1.0/24"],
    "endpoints": ["192.0.2.11:51820"],
}


@pytest.fixture(name="served")
def served_fixture(tmp_path):
    """(port, updates() as the service got them, lines of all that was sent)."""
    spec = importlib.util.spec_from_file_location("discovery_double", DOUBLE)
    double = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(double)
    log = tmp_path / "log"
    server, port, _state = double.serve(log=str(log))

    def updates():
        found = []
        for line in log.read_bytes().splitlines() if log.exists() else ():
            try:
                message = double.M["AffiliateUpdateRequest"].FromString(binascii.unhexlify(line))
            except Exception:  # pylint: disable=broad-except  # another message
                continue
            if message.affiliate_id and message.ttl.seconds:
                found.append(message)
        return found

    yield port, updates, lambda: b"".join(map(binascii.unhexlify, log.read_bytes().splitlines()))
    server.stop(0)


def test_a_record_lasts_half_an_hour_at_most_and_is_renewed_at_half_of_it():
    assert members.LIFETIME <= 1800 and members.RENEWED_AFTER * 2 == members.LIFETIME


def test_the_watcher_announces_again_when_half_of_the_lifetime_is_over(served, monkeypatch, tmp_path):
    """With a lifetime that is short for the test alone; what is sent has the real one, and nothing of the node in it."""
    port, updates, sent = served
    monkeypatch.setattr(discovery, "RENEWED_AFTER", 0.5)
    monkeypatch.setattr(discovery, "own_affiliate", lambda fabric, state, seen=(): AFFILIATE)
    monkeypatch.setattr(discovery, "_secret", lambda state: bytes(range(1, 33)))
    monkeypatch.setattr(discovery, "load_members", lambda fabric: ({}, []))
    monkeypatch.setattr(discovery.persistence, "folder", lambda fabric: str(tmp_path / "state"))
    joined = [True]
    follower = discovery.Follower("f", joined=lambda: joined[0])
    state = {"discovery": {"url": f"http://127.0.0.1:{port}", "mesh_id": MESH, "ca": ""}}
    follower.update(state)
    try:
        deadline = time.monotonic() + 60
        while len(updates()) < 3:
            assert time.monotonic() < deadline, follower.status
            time.sleep(0.1)
    finally:
        joined[0] = False
        follower.update(None)
    found = updates()
    assert {row.ttl.seconds for row in found} == {1800} and {row.affiliate_id for row in found} == {"edge"}
    assert len({bytes(row.affiliate_data)[:12] for row in found}) == len(found), "a nonce twice"
    assert len({tuple(map(bytes, row.affiliate_endpoints)) for row in found}) == 1, "equal endpoints look equal"
    everything = sent()
    raw = [bytes((192, 0, 2, 11)), bytes((10, 244, 1, 0)), binascii.a2b_base64(AFFILIATE["public_key"])]
    texts = [str(AFFILIATE[name]).encode() for name in ("hostname", "machine_type", "public_key", "kubespan_address")]
    for text in (*raw, *texts, b"192.0.2.11", b"10.244.1.0", bytes(range(1, 33))):
        assert text not in everything, text
