# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Desired peers, one bad one at a time: it is refused by its key, the others pass."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import (
    LivePeer,
    names_to_resolve,
    parse_peers,
    settle_peers,
    usable,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Pending
from hypothesis import given, strategies as st

KEYS = [base64.b64encode(bytes([number]) * 32).decode() for number in range(2, 6)]
GOOD = {
    "public_key": KEYS[0],
    "endpoint": "192.0.2.1:51820",
    "allowed_ips": ["10.4.7.9/24"],
    "persistent_keepalive": 25,
}


def parse(*peers, live=None, own=None, resolved=None, fingerprints=None):
    return settle_peers("wg", parse_peers("wg", peers), live or {}, own, resolved or {}, fingerprints or {})


@pytest.mark.parametrize(
    "change, reason, kept",
    [
        ({"public_key": "short"}, "bad_public_key", False),
        ({"public_key": None}, "bad_public_key", False),
        ({"public_key": base64.b64encode(bytes(32)).decode()}, "weak_key", False),
        ({"public_key": KEYS[3]}, "own_key", False),
        ({"public_key": KEYS[1]}, "claimed_twice", False),
        ({"endpoint": "192.0.2.1"}, "bad_endpoint", True),
        ({"endpoint": "127.0.0.1:51820"}, "endpoint_special", True),
        ({"endpoint": "[fe80::1]:51820"}, "endpoint_special", True),
        ({"endpoint": "gone.example.com:51820"}, "bad_endpoint", True),
        ({"endpoint": "evil.example.com:51820"}, "bad_endpoint", True),
        ({"allowed_ips": ["10.4.7.0"]}, "bad_allowed_ip", True),
        ({"allowed_ips": ["10.9.0.0/24"]}, "claimed_twice", True),
        ({"persistent_keepalive": 65536}, "bad_keepalive", True),
        ({"preshared_key": "secret in the open"}, "bad_preshared_key", True),
        ({"preshared_key": {"file": "/missing"}}, "bad_preshared_key", True),
    ],
)
def test_one_bad_peer_is_refused_and_the_other_passes(change, reason, kept):
    other = {"public_key": KEYS[1], "endpoint": None, "allowed_ips": ["10.9.0.0/24"]}
    live = {KEYS[1]: LivePeer(allowed_ips=("10.9.0.0/24",))}
    peers, refused, keep = parse(
        other,
        dict(GOOD, **change),
        live=live,
        own=KEYS[3],
        resolved={"evil.example.com": ["127.0.0.1", "169.254.169.254"]},
    )
    assert [peer.public_key for peer in peers] == [KEYS[1]]
    assert [refusal.reason for refusal in refused] == [reason]
    assert keep == ({KEYS[0]} if kept else set())
    assert "in the open" not in str(refused)


def test_normal_form():
    peers, refused, _kept = parse(dict(GOOD, allowed_ips=["fd00::1/64", "10.4.7.9/24", "10.4.7.0/24"]))
    assert not refused
    assert peers[0].allowed_ips == ("10.4.7.0/24", "fd00::/64")
    assert peers[0].endpoints == ("192.0.2.1:51820",)


def test_names_resolve_ipv4_first_and_special_addresses_are_left_out():
    assert usable(["2001:db8::1", "192.0.2.9", "192.0.2.10", "127.0.0.1"], 7) == [
        "192.0.2.9:7",
        "192.0.2.10:7",
        "[2001:db8::1]:7",
    ]
    peers, _refused, _kept = parse(dict(GOOD, endpoint="a.example.com:7"), resolved={"a.example.com": ["192.0.2.9"]})
    assert peers[0].endpoints == ("192.0.2.9:7",)
    unresolved = parse_peers(
        "wg", [dict(GOOD, endpoint="a.example.com:7"), dict(GOOD, public_key=KEYS[1]), {"public_key": KEYS[2]}]
    )
    assert names_to_resolve(unresolved.peers) == ["a.example.com"]


def test_a_pending_key_passes_and_an_old_holder_keeps_a_contested_range():
    pending = Pending("public key of n1")
    peers, refused, kept = parse(
        dict(GOOD, public_key=pending),
        dict(GOOD, public_key=KEYS[2]),
        live={KEYS[2]: LivePeer(allowed_ips=("10.4.7.0/24",))},
    )
    assert [peer.public_key for peer in peers] == [KEYS[2]]
    assert [refusal.object for refusal in refused] == ["wg (public key of n1, known after apply)"]
    assert kept == set()


@given(st.dictionaries(st.sampled_from(["public_key", "endpoint", "allowed_ips", "preshared_key"]), st.text()))
def test_hostile_text_is_refused_never_raised(change):
    if "allowed_ips" in change:
        change = dict(change, allowed_ips=[change["allowed_ips"]])
    peers, refused, _kept = parse(dict(GOOD, **change))
    assert len(peers) + len(refused) == 1
    assert all(refusal.object.isprintable() and len(refusal.message) < 400 for refusal in refused)


def test_the_json_form_comes_back_as_the_same_peer():
    """What the state file keeps is what module arguments say, deferred keys and the records of who holds what included."""
    rows = [
        dict(GOOD, preshared_key={"file": "/psk"}, node="gcp-node-1", by_rank=True),
        {
            "public_key": Pending("public key of n1"),
            "endpoint": "a.example.com:7",
            "allowed_ips": ["fd00::/64", "10.4.8.0/24"],
        },
        {"public_key": KEYS[2]},
    ]
    first = parse_peers("wg", rows).peers
    assert parse_peers("wg", [peer.to_json() for peer in first]).peers == first
    assert first[0].to_json() == dict(rows[0], allowed_ips=["10.4.7.0/24"])
