# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""load_balancers in a process of its own, as ever, or only its options for the reconciler."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.modules import load_balancers
from ansible_collections.multicluster.network.plugins.plugin_utils.controller_task import ControllerAction


class ActionModule(ControllerAction):
    """See DOCUMENTATION of the module."""

    module = load_balancers
    runs_here = False
