# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel did not take is reported so that one can look for it."""

from __future__ import annotations

import types

from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_plan import endpoint_drifted
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import LivePeer
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import parts
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.parts import differing
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Plan


def test_what_still_differs_shows_in_which_of_its_settings():
    todo = Plan()
    todo.update("link", "wireguard.aws", {"mtu": 1420, "up": True}, {"mtu": 1390, "up": True})
    todo.create("peer", "k", {})
    assert differing(todo) == ["update link wireguard.aws (mtu)", "create peer k"]


def test_a_peer_that_sends_from_its_former_port_until_it_is_called_is_no_failure(monkeypatch):
    """Its packets move the endpoint back that was written a moment ago."""
    live = LivePeer("192.0.2.1:51820", last_handshake=1000.0)
    found = {"link": None, "wireguard": types.SimpleNamespace(peers={"k": live}, listen_port=51821), "stats": {}}

    def plan(device, actual, last):
        todo = Plan()
        if endpoint_drifted(["192.0.2.1:51830"], actual["wireguard"].peers["k"], 1001.0, last.get("k")):
            todo.update("peer", "wireguard.gcp k", {"endpoint": "192.0.2.1:51820"}, {"endpoint": "192.0.2.1:51830"})
        return todo

    monkeypatch.setattr(parts.wireguard_device, "gather", lambda device: found)
    monkeypatch.setattr(parts.wireguard_device, "plan", plan)
    monkeypatch.setattr(parts, "last_endpoints", lambda previous, name: {"k": "192.0.2.1:51820"})
    devices = parts.Devices(types.SimpleNamespace(devices=()), None)
    row = {"wireguard": None, "name": "wireguard.gcp", "contested": (), "peers_known": False}
    devices.rows = [types.SimpleNamespace(**row)]
    monkeypatch.setattr(devices, "gather", lambda: setattr(devices, "actual", [found]))
    devices.gather()
    # it has another port than the one that was configured last, so the new one is sent
    assert len(devices.plan().changes) == 1
    assert devices.verify() == []
    live = live._replace(last_handshake=0)
    found["wireguard"].peers["k"] = live
    assert len(devices.verify()) == 1, "nobody can have moved it, so the kernel did not take it"
