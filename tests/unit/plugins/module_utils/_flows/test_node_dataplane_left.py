# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel did not take is told so that one can look for it."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._flows.node.parts import differing
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Plan


def test_what_still_differs_says_in_which_of_its_settings():
    todo = Plan()
    todo.update("link", "wireguard.aws", {"mtu": 1420, "up": True}, {"mtu": 1390, "up": True})
    todo.create("peer", "k", {})
    assert differing(todo) == ["update link wireguard.aws (mtu)", "create peer k"]
