# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Peer states at their boundaries, rotation over time with a clock of its own, what survives a restart."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import LivePeer
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import states
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.peers import Peer
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.states import (
    DOWN,
    UNKNOWN,
    UP,
    Status,
)
from hypothesis import given, settings, strategies as st

E1, E2, E3 = "10.0.0.1:51820", "10.0.0.2:51820", "[2001:db8::3]:51820"
KEY = "83/SBv4fNR1O0TsSG4Wzo3dXmLAQbYOc13H8cHlSnxs="
T0 = 1_000_000.0


def peer(*endpoints: str) -> Peer:
    return Peer(KEY, "n", "fd00::1", [], list(endpoints), "beta")


@pytest.mark.parametrize(
    ("handshake", "change", "used", "state"),
    [
        (None, 0, True, UNKNOWN),
        (None, 14.999, True, UNKNOWN),
        (None, 15, True, DOWN),
        (15, 15, True, DOWN),
        (14.999, 15, True, UP),
        (274.999, 275, True, UP),
        (275, 275, True, DOWN),
        (100, 275, True, UP),
        (100, 99, True, DOWN),
        (274.999, 275.001, True, UP),
        (275, 275.001, True, DOWN),
        (None, None, True, DOWN),
        (None, None, False, UNKNOWN),
        (10, None, False, UP),
        (275, None, False, UNKNOWN),
        (20, 16, False, UNKNOWN),
    ],
)
def test_states(handshake: t.Any, change: t.Any, used: bool, state: str) -> None:
    assert states.peer_state(handshake, change, used) == state


def test_a_handshake_within_the_second_of_the_endpoint_counts() -> None:
    """A whole second less would make a good endpoint count as dead 15 s later."""
    peers = {KEY: peer(E1, E2)}
    known = states.run_pass(peers, {}, {KEY: LivePeer(E1)}, T0 + 0.5).statuses
    live = {KEY: LivePeer(E1, last_handshake=T0 + 0.75)}
    for age in (1, 31, 61, 121):
        done = states.run_pass(peers, known, live, T0 + age)
        known = done.statuses
        assert known[KEY].state == UP and not done.writes


def test_rotation_over_time() -> None:
    """Three endpoints, nothing answers, a pass every 30 s; then the third does."""
    known: dict[str, Status] = {}
    peers, live = {KEY: peer(E1, E2, E3)}, {KEY: LivePeer()}
    seen = []
    for tick in range(5):
        done = states.run_pass(peers, known, live, T0 + 30 * tick)
        known = done.statuses
        seen.append((done.decisions[KEY].state_before, done.writes.get(KEY), known[KEY].state))
        live = {KEY: LivePeer(known[KEY].endpoint)}
    assert seen == [
        (UNKNOWN, E1, UNKNOWN),
        (DOWN, E2, UNKNOWN),
        (DOWN, E3, UNKNOWN),
        (DOWN, E1, UNKNOWN),
        (DOWN, E2, UNKNOWN),
    ]
    live[KEY] = live[KEY]._replace(last_handshake=T0 + 121)
    done = states.run_pass(peers, known, live, T0 + 150)
    assert done.statuses[KEY].state == UP and not done.writes and done.decisions[KEY].write == E2
    # it stops answering: down after 275 s at the latest one pass later
    done = states.run_pass(peers, done.statuses, live, T0 + 121 + 275)
    assert done.decisions[KEY].state_before == DOWN and done.writes == {KEY: E3}


def test_early_passes_leave_a_new_endpoint_its_time() -> None:
    status = Status(last_used=E1, changed_at=T0)
    assert states.decide(status, [E1, E2], E1, None, T0 + 14.9).write == E1
    assert states.decide(status, [E1, E2], E1, None, T0 + 15).write == E2


def test_roaming() -> None:
    status = Status(last_used=E1, changed_at=T0 - 1000)
    roamed = states.decide(status, [E1, E2], "203.0.113.9:4000", T0 - 10, T0)
    assert roamed.write is None and roamed.status.state == UP and roamed.status.endpoint == "203.0.113.9:4000"
    lost = states.decide(roamed.status, [E1, E2], "203.0.113.9:4000", T0 - 10, T0 + 300)
    assert lost.write == E2  # after the last used one, not after the roamed one


def test_a_recreated_device_gets_its_endpoints_back() -> None:
    done = states.run_pass({KEY: peer(E1, E2)}, {KEY: Status(last_used=E2, changed_at=T0 - 20)}, {}, T0 - 10)
    assert done.writes == {KEY: E2}


def test_one_endpoint() -> None:
    status = Status(last_used=E1, changed_at=T0 - 100)
    same = states.decide(status, [E1], E1, None, T0)
    assert same.picked is None and same.write == E1 and same.status.state == DOWN
    roamed = states.decide(status, [E1], "203.0.113.9:1", None, T0)
    assert roamed.picked == E1 and roamed.status.changed_at == T0
    nothing = states.decide(Status(), [], None, None, T0)
    assert nothing.picked is None and nothing.write is None and nothing.status.state == UNKNOWN


def test_a_working_endpoint_is_adopted_after_a_restart() -> None:
    owned = states.decide(Status(), [E1, E2], "203.0.113.9:4000", T0 - 60, T0)
    assert owned.status.state == UP and owned.status.last_used == "203.0.113.9:4000" and owned.status.changed_at is None
    assert states.decide(owned.status, [E1, E2], "203.0.113.9:4000", T0 - 60, T0 + 30).status.state == UP
    forced = states.decide(Status(), [E1, E2], "203.0.113.9:4000", T0 - 60, T0, original=True)
    assert forced.write == E1 and forced.status.state == UNKNOWN
    stale = states.decide(Status(), [E1, E2], "203.0.113.9:4000", T0 - 275, T0)
    assert stale.write == E1


def test_duplicates_do_not_stall() -> None:
    status = Status(last_used=E1, changed_at=T0 - 100)
    assert states.decide(status, [E1, E1, E2], E1, None, T0).write == E2
    assert states.decide(status, [E1, E1, E2], E1, None, T0, original=True).write == E1


def test_clock_steps() -> None:
    ahead = Status(last_used=E1, changed_at=T0 + 5000)
    done = states.decide(ahead, [E1, E2], E1, T0 - 10, T0)
    assert done.write == E1 and done.status.changed_at == T0 and done.status.state == UNKNOWN
    assert states.decide(done.status, [E1, E2], E1, T0 + 5000, T0 + 20).status.state == UP  # a handshake of the future


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ENDPOINTS = st.lists(st.sampled_from([E1, E2, E3]), max_size=4)
AGE = st.none() | st.floats(0, 1000)


@settings(deadline=None, max_examples=60)
@given(
    ENDPOINTS,
    st.none() | st.sampled_from([E1, E2, E3, "203.0.113.1:1"]),
    st.none() | st.sampled_from([E1, E2, "203.0.113.9:9"]),
    AGE,
    AGE,
    st.booleans(),
)
def test_every_decision_makes_sense(
    announced: t.Any, used: t.Any, live: t.Any, handshake: t.Any, change: t.Any, original: bool
) -> None:
    status = Status(last_used=used, changed_at=None if change is None else T0 - change)
    done = states.decide(status, announced, live, None if handshake is None else T0 - handshake, T0, original)
    if done.picked is not None:
        assert (
            done.picked in announced
            and done.write == done.picked == done.status.last_used
            and done.status.state == UNKNOWN
        )
        assert done.status.changed_at == T0
    elif done.write is not None:
        assert done.write == done.status.last_used and live in (None, done.write)
    if done.state_before == UP and used is not None:
        assert not done.should_change and done.status.last_used == used
    # deciding again with what was written changes nothing more
    again = states.decide(done.status, announced, done.status.endpoint, None, T0 + 1, original)
    if done.picked is not None:
        assert again.picked is None


def test_passes_forget_and_begin() -> None:
    done = states.run_pass({KEY: peer(E1)}, {"gone": Status()}, {"stranger": LivePeer(E2)}, T0)
    assert set(done.statuses) == {KEY} and done.gone == ["gone"] and done.statuses[KEY].label == "beta"
    live = {KEY: LivePeer(E1, last_handshake=T0, rx_bytes=5, tx_bytes=7)}
    after = states.run_pass({KEY: peer(E1)}, done.statuses, live, T0 + 2).statuses[KEY]
    assert (after.rx_bytes, after.tx_bytes, after.last_handshake) == (5, 7, T0)


def test_state_file() -> None:
    known = {KEY: Status(last_used=E3, changed_at=T0), "x": Status()}
    text = states.render_state(known)
    assert states.parse_state(text) == {KEY: Status(last_used=E3, changed_at=T0)}


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "{}",
        '{"version": 2, "peers": {}}',
        '{"version": 1, "peers": []}',
        "[" * 100000,
        '{"version": 1, "peers": {"x": {"last_used": "10.0.0.1:1"}, "%s": {"last_used": "host:1"}, "%s": 7}}'
        % (KEY, KEY),
    ],
)
def test_a_broken_state_file_is_a_lost_one(text: t.Any) -> None:
    assert states.parse_state(text) == {}


@settings(deadline=None, max_examples=60)
@given(JSON)
def test_state_parser_never_breaks(value: t.Any) -> None:
    for content in (value, {"version": 1, "peers": value}, {"version": 1, "peers": {KEY: value}}):
        for known in states.parse_state(json.dumps(content)).values():
            assert known.last_used is not None
    absurd = {
        "version": 1,
        "peers": {KEY: {"last_used": E1, "changed_at": value if isinstance(value, float) else None}},
    }
    assert len(states.parse_state(json.dumps(absurd))) == 1


def test_status_texts() -> None:
    known = {
        KEY: Status(UP, E1, T0 - 41, 1268777, 1004052, E1, T0 - 500, "beta"),
        "evil": Status(UNKNOWN, label='x\x1b[2J"\n\\'),
    }
    rows = states.status_rows(known, T0)
    assert [(row["label"], row["handshake_age"], row["endpoint_change_age"]) for row in rows] == [
        ("beta", 41, 500),
        ('x\x1b[2J"\n\\', None, None),
    ]
    text = states.metrics(known)
    assert 'multicluster_kubespan_peer_state{peer="beta",public_key="%s",state="up"} 1' % KEY in text
    assert text.count("# TYPE") == 4 and 'peer="x?[2J\\"?\\\\"' in text
    assert text.endswith("\n") and all(line.isprintable() for line in text.splitlines())
