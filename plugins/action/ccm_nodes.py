# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Completes the module from the inventory; see DOCUMENTATION of the module."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.setup import STATIC
from ansible_collections.multicluster.network.plugins.plugin_utils.load_balancer_settings import LoadBalancerAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept


class ActionModule(Kept, LoadBalancerAction):
    """See DOCUMENTATION of the module."""

    of_hosts = True

    def concerns(self, row: t.Mapping[str, t.Any]) -> bool:
        """Clusters of one's own hardware have no devices to ask for."""
        return bool(row.get("provider", STATIC) != STATIC)
