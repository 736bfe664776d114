# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a node waits for the handshakes of its tunnels: what it reads again, and for how long it leaves the devices alone."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import EMPTY, LivePeer
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import handshakes

ASKED = {"tunnels": [{"device": "one", "peers": ["a"]}, {"device": "two", "peers": ["b"]}], "quiet": False}


class Clock:
    """A clock that moves when somebody sleeps, and devices with peers that meet at one time of it and part at another."""

    def __init__(self, monkeypatch, met, reading=0.0):
        self.now, self.worked, self.met, self.reading = 0.0, 0.0, met, reading
        self.slept, self.reads = [], []
        monkeypatch.setattr(handshakes, "time", self)
        monkeypatch.setattr(handshakes, "read_device", self.read)

    def monotonic(self):
        return self.now

    def time(self):
        return 1000 + self.now

    def process_time(self):
        return self.worked

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def read(self, name):
        self.reads.append(name)
        self.worked += self.reading
        (key,) = [tunnel["peers"][0] for tunnel in ASKED["tunnels"] if tunnel["device"] == name]
        begin, end = self.met[name]
        there = begin <= self.now < end
        return EMPTY._replace(peers={key: LivePeer(last_handshake=self.time() if there else 0)})


def test_a_device_with_all_its_handshakes_is_not_read_again_until_all_have_theirs(monkeypatch):
    clock = Clock(monkeypatch, {"one": (0, 999), "two": (3, 999)})
    assert handshakes.run(dict(ASKED, timeout=60))["missing"] == []
    assert clock.reads == ["one", "two", "two", "two", "two", "one", "two"]
    assert clock.slept == [0.5, 1.0, 2.0]


def test_a_session_that_was_lost_while_others_came_is_waited_for(monkeypatch):
    clock = Clock(monkeypatch, {"one": (0, 2), "two": (3, 999)})
    assert [row["device"] for row in handshakes.run(dict(ASKED, timeout=10))["missing"]] == ["one"]
    assert clock.now == 10


@pytest.mark.parametrize("reading, longest", [(0.0, 2.0), (0.004, 4.0), (1.0, 10.0)])
def test_reading_many_peers_takes_a_small_part_of_the_time(monkeypatch, reading, longest):
    clock = Clock(monkeypatch, {"one": (999, 999), "two": (999, 999)}, reading)
    missing = handshakes.run(dict(ASKED, timeout=100))["missing"]
    assert [row["device"] for row in missing] == ["one", "two"]
    assert max(clock.slept) == pytest.approx(longest)
    assert clock.now == 100
