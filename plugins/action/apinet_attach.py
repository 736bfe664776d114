# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""apinet_attach, with a result that the run keeps."""

from __future__ import annotations

from ansible.plugins.action.normal import ActionModule as Normal
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept


class ActionModule(Kept, Normal):
    """See DOCUMENTATION of the module."""

    def kept_as(self) -> str:
        """What a tenant that leaves takes away is no round of the others."""
        return super().kept_as() + (".gone" if self._task.args.get("state") == "absent" else "")
