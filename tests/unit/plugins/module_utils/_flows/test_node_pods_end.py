# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long node pods stay after a run that could not remove them. What then happens is in tests/api/test_node_pods_end.py."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import node_pods_end


@pytest.mark.parametrize(
    "hosts,given,seconds", [(2, [], 90), (2, [None, "x"], 90), (100, [], 230), (2, [300, "20"], 330), (4, ["240"], 270)]
)
def test_longer_than_any_change_waits_for_its_confirmation(hosts, given, seconds):
    assert node_pods_end.settle_seconds(hosts, given) == seconds
