# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Peers by difference, against a small model of cryptokey routing."""

from __future__ import annotations

import base64
import ipaddress

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_plan import (
    endpoint_drifted,
    plan_peers,
)
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import (
    LivePeer,
    Peer,
    PeerStep,
    Preshared,
    handshake_age,
    is_fresh,
    sorted_cidrs,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Pending
from hypothesis import given, settings, strategies as st

NOW = 1_800_000_000.0
KEYS = [base64.b64encode(bytes([number]) * 32).decode() for number in range(1, 6)]
BASE = ipaddress.ip_network("10.0.0.0/29")
ADDRESSES = list(BASE)
PREFIXES = [str(network) for length in range(29, 33) for network in BASE.subnets(new_prefix=length)]


def live_peer(allowed_ips=(), endpoint=None, keepalive=0, psk=None, handshake=0):
    return LivePeer(endpoint, tuple(sorted_cidrs(allowed_ips)), keepalive, psk, handshake, 1, 2)


def desired_peer(key, allowed_ips=(), endpoints=(), keepalive=0, psk=None):
    return Peer(
        key, endpoints[0] if endpoints else None, tuple(sorted_cidrs(allowed_ips)), keepalive, psk, tuple(endpoints)
    )


class Model:
    """Cryptokey routing: each network has one peer at most, adding it moves it, the longest prefix decides."""

    def __init__(self, live):
        self.peers = set(live)
        self.owner = {cidr: key for key, peer in live.items() for cidr in peer.allowed_ips}

    def apply(self, step):
        key = step.public_key
        if step.remove:
            self.peers.discard(key)
            self.owner = {cidr: holder for cidr, holder in self.owner.items() if holder != key}
            return
        if key not in self.peers:
            assert not step.update_only, "an update of a peer that is not there would be lost"
            self.peers.add(key)
        if step.replace_allowed_ips:
            self.owner = {cidr: holder for cidr, holder in self.owner.items() if holder != key}
        for cidr in step.allowed_ips:
            self.owner[cidr] = key

    def lookup(self, address):
        best = None
        for cidr, key in self.owner.items():
            network = ipaddress.ip_network(cidr)
            if address in network and (best is None or network.prefixlen > best[0]):
                best = (network.prefixlen, key)
        return best[1] if best else None


owners = st.dictionaries(st.sampled_from(PREFIXES), st.sampled_from(KEYS), max_size=10)
extra_keys = st.sets(st.sampled_from(KEYS), max_size=3)


def grouped(owner, extra):
    peers = {key: [] for key in extra}
    for cidr, key in owner.items():
        peers.setdefault(key, []).append(cidr)
    return peers


@settings(max_examples=400)
@given(owners, extra_keys, owners, extra_keys, st.booleans())
def test_ends_as_desired_and_no_address_is_ever_homeless(before, idle_before, after, idle_after, purge):
    live = {key: live_peer(cidrs) for key, cidrs in grouped(before, idle_before).items()}
    desired = [desired_peer(key, cidrs) for key, cidrs in grouped(after, idle_after).items()]
    peers = plan_peers("wg", desired, live, NOW, purge=purge)

    model, goal = Model(live), Model({p.public_key: live_peer(p.allowed_ips) for p in desired})
    covered = [a for a in ADDRESSES if model.lookup(a) and goal.lookup(a)]
    for step in peers.steps:
        model.apply(step)
        assert all(model.lookup(address) for address in covered)
    shown = {key: peer.shown()["allowed_ips"] for key, peer in peers.after.items()}
    assert shown == {key: sorted_cidrs(c for c, k in model.owner.items() if k == key) for key in model.peers}
    if purge:
        assert (model.owner, model.peers) == (goal.owner, goal.peers)
    else:
        assert goal.owner.items() <= model.owner.items() and goal.peers <= model.peers
    assert peers.plan.changed == bool(peers.steps)

    again = {key: live_peer(cidrs) for key, cidrs in shown.items()}
    repeat = plan_peers("wg", desired, again, NOW, purge=purge)
    assert repeat.steps == [] and not repeat.plan.changed


@settings(max_examples=200)
@given(owners, extra_keys)
def test_only_changed_peers_are_sent(owner, idle):
    live = {key: live_peer(cidrs) for key, cidrs in grouped(owner, idle).items()}
    desired = [desired_peer(key, peer.allowed_ips) for key, peer in live.items()]
    if desired:
        desired[0] = desired[0]._replace(keepalive=25)
    peers = plan_peers("wg", desired, live, NOW)
    assert [step.public_key for step in peers.steps] == [w.public_key for w in desired[:1]]
    assert all(not step.allowed_ips and step.endpoint is None for step in peers.steps)


def test_swap_is_two_additions():
    live = {KEYS[0]: live_peer(["10.0.0.0/32"]), KEYS[1]: live_peer(["10.0.0.1/32"])}
    desired = [desired_peer(KEYS[0], ["10.0.0.1/32"]), desired_peer(KEYS[1], ["10.0.0.0/32"])]
    steps = plan_peers("wg", desired, live, NOW).steps
    assert [(step.remove, step.replace_allowed_ips) for step in steps] == [(False, False), (False, False)]


def test_rotated_key_takes_the_ranges_before_the_old_peer_goes():
    live = {KEYS[0]: live_peer(["10.0.0.0/29"], "192.0.2.1:1")}
    peers = plan_peers("wg", [desired_peer(KEYS[1], ["10.0.0.0/29"], ["192.0.2.1:1"])], live, NOW)
    assert [(step.remove, step.public_key) for step in peers.steps] == [(False, KEYS[1]), (True, KEYS[0])]
    assert peers.steps[0].update_only is False


def test_pending_key_is_shown_and_deferred_and_the_old_peer_carries_its_range_until_then():
    pending = Pending("public key of gcp-node-1")
    live = {KEYS[0]: live_peer(["10.0.0.0/30"]), KEYS[1]: live_peer(["10.0.0.4/30"])}
    peers = plan_peers("wg", [desired_peer(pending, ["10.0.0.0/29"])], dict(live), NOW)
    assert peers.steps == []
    assert [c.action for c in peers.plan.changes] == ["create", "delete", "delete"]
    assert peers.plan.changes[0].id == "wg (public key of gcp-node-1, known after apply)"
    other = plan_peers("wg", [desired_peer(pending, ["10.0.0.0/30"])], dict(live), NOW)
    assert [step.public_key for step in other.steps] == [KEYS[1]]
    shrunk = [desired_peer(KEYS[0], ["10.0.0.0/31"]), desired_peer(pending, ["10.0.0.2/31"])]
    steps = plan_peers("wg", shrunk, {KEYS[0]: live[KEYS[0]]}, NOW).steps
    assert not any(step.replace_allowed_ips for step in steps)


def test_kept_peers_are_left_as_they_are():
    live = {KEYS[0]: live_peer(["10.0.0.0/30"], "192.0.2.1:1"), KEYS[1]: live_peer()}
    peers = plan_peers("wg", [], live, NOW, kept={KEYS[0]})
    assert peers.steps == [PeerStep(KEYS[1], remove=True)]
    assert peers.after[KEYS[0]].endpoint == "192.0.2.1:1"


ROAMED, FRESH, STALE = "198.51.100.9:4", NOW - 20, NOW - 181


@pytest.mark.parametrize(
    "choices, endpoint, handshake, last, drifted",
    [
        ([], ROAMED, 0, None, False),
        (["192.0.2.1:1"], "192.0.2.1:1", 0, None, False),
        (["192.0.2.1:1", "[2001:db8::1]:1"], "[2001:db8::1]:1", 0, None, False),
        (["192.0.2.1:1"], None, FRESH, None, True),
        (["192.0.2.1:1"], ROAMED, FRESH, None, False),
        (["192.0.2.1:1"], ROAMED, NOW + 500, None, False),
        (["192.0.2.1:1"], ROAMED, STALE, None, True),
        (["192.0.2.1:1"], ROAMED, 0, None, True),
        (["192.0.2.1:1"], ROAMED, FRESH, "192.0.2.1:1", False),
        (["192.0.2.1:1"], ROAMED, STALE, "192.0.2.1:1", True),
        (["192.0.2.2:1"], ROAMED, FRESH, "192.0.2.1:1", True),
    ],
)
def test_a_roamed_endpoint_is_not_drift(choices, endpoint, handshake, last, drifted):
    assert endpoint_drifted(choices, live_peer(endpoint=endpoint, handshake=handshake), NOW, last) is drifted


@pytest.mark.parametrize(
    ("last", "age", "fresh"),
    [(0, None, False), (None, None, False), (NOW - 7.9, 7, True), (NOW - 181, 181, False), (NOW + 3, 0, True)],
)
def test_a_handshake_has_an_age_and_is_fresh_for_as_long_as_its_session(last, age, fresh):
    assert (handshake_age(last, NOW), is_fresh(last, NOW)) == (age, fresh)


def test_a_handshake_from_before_the_clock_was_set_back_has_no_age():
    """A dead peer would be one of 0 seconds ago until the clock is there again."""
    assert handshake_age(NOW + 3600, NOW) is None and not is_fresh(NOW + 3600, NOW)


def test_roamed_endpoint_is_shown_as_it_is():
    live = {KEYS[0]: live_peer(endpoint=ROAMED, handshake=FRESH)}
    peers = plan_peers("wg", [desired_peer(KEYS[0], endpoints=["192.0.2.1:1"])], live, NOW)
    assert peers.steps == [] and peers.plan.unchanged == 1 and peers.after[KEYS[0]].endpoint == ROAMED


def test_preshared_key_is_compared_by_fingerprint_and_forgotten_when_unwanted():
    live = {KEYS[0]: live_peer(psk="sha256:a"), KEYS[1]: live_peer(psk="sha256:b"), KEYS[2]: live_peer(psk="sha256:c")}
    desired = [
        desired_peer(KEYS[0], psk=Preshared("/a", fingerprint="sha256:a")),
        desired_peer(KEYS[1], psk=Preshared("/x", fingerprint="sha256:x")),
        desired_peer(KEYS[2]),
    ]
    steps = plan_peers("wg", desired, live, NOW).steps
    assert [(s.public_key, s.preshared.file) for s in steps] == [(KEYS[1], "/x"), (KEYS[2], None)]
