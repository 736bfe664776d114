# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whom echoes are awaited of: rounds are counted, with sockets that nothing answers."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import echoes


class Socket:
    """Takes packets, and has no answers."""

    def __init__(self, sent):
        self._sent = sent

    def sendto(self, _packet, address):
        self._sent[-1].append(address[0])

    def close(self):
        """Nothing is open."""


@pytest.fixture
def rounds(monkeypatch):
    """What was asked in each round: [[target]]; each wait is over at once."""
    sent = []
    monkeypatch.setattr(echoes._Pod, "open", lambda pod: pod._sockets.append(Socket(sent)))
    monkeypatch.setattr(echoes, "_take", lambda _pods, _seconds: pytest.fail("no answer is to be awaited"))
    ask = echoes._ask

    def counted(pods, _wait):
        sent.append([])
        ask(pods, 0)
        sent[-1].append("awaited" if any(pod.waits() for pod in pods) else "not awaited")

    monkeypatch.setattr(echoes, "_ask", counted)
    return sent


def job(target, **more):
    return {"netns": None, "source": "10.2.0.1", "target": target, "mtu": None, **more}


def test_who_cannot_answer_is_asked_once_and_not_awaited(rounds):
    rows = echoes.ping_all([job("10.4.0.1", awaited=False), job("10.4.0.2", awaited=False)], 9, 2.0)
    assert rounds == [["10.4.0.1", "10.4.0.2", "not awaited"]]
    assert [row["ok"] for row in rows] == [False, False]


def test_others_are_asked_in_all_rounds(rounds):
    echoes.ping_all([job("10.4.0.1", awaited=False), job("10.4.0.2", awaited=True), job("10.4.0.3")], 3, 2.0)
    assert rounds == [
        ["10.4.0.1", "10.4.0.2", "10.4.0.3", "awaited"],
        ["10.4.0.2", "10.4.0.3", "awaited"],
        ["10.4.0.2", "10.4.0.3", "awaited"],
    ]
