# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Units that carry a previous name of their playbook."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.action.systemd_unit import with_previous_names


@pytest.mark.parametrize(
    "playbook, units, previous",
    [
        ("network_sets", ["multicluster-network_sets.timer"], ["multicluster-policy.timer"]),
        (
            "load_balancers",
            ["multicluster-load_balancers.service"],
            ["multicluster-addresses.service", "multicluster-loadbalancers.service"],
        ),
        ("ccm.nodes", ["multicluster-ccm.nodes.timer"], ["multicluster-ccm_nodes.timer"]),
        ("site", ["multicluster-site.timer"], []),
        ("", ["multicluster-tenants.timer"], []),
    ],
)
def test_previous_names(playbook, units, previous):
    assert with_previous_names(playbook, units) == previous
