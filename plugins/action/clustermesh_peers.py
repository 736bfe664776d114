# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""clustermesh_peers of the mesh that the inventory's clusters form."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.plugin_utils.clustermesh_definition import ClustermeshAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept


class ActionModule(Kept, ClustermeshAction):
    """See DOCUMENTATION of the module."""

    written = "targets"
