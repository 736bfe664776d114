# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel did not take is told so that one can look for it."""

from __future__ import annotations

import types

from ansible_collections.multicluster.network.plugins.module_utils._flows.node import dataplane as node_dataplane
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Change


def test_what_still_differs_says_in_which_of_its_settings(monkeypatch):
    changes = [Change("update", "link", "wireguard.aws", {"mtu": 1420, "up": True}, {"mtu": 1390, "up": True}), Change("create", "peer", "k", None, {})]
    monkeypatch.setattr(node_dataplane.wireguard_device, "gather", lambda desired: {})
    monkeypatch.setattr(node_dataplane.wireguard_device, "plan", lambda *unused: types.SimpleNamespace(changes=changes))
    device = node_dataplane._Device.__new__(node_dataplane._Device)
    device.desired, device.last_endpoints = {}, None
    assert device.left() == ["update wireguard.aws (mtu)", "create k"]
