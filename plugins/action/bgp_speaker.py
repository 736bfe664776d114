# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A BGP speaker on a node, with the routes that the run has found for its cluster."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.plugin_utils.speaker_task import SpeakerAction


class ActionModule(SpeakerAction):
    """See DOCUMENTATION of the module."""

    def take(self, options: dict[str, t.Any], found: dict[str, t.Any], node: str) -> None:
        """A node that is excluded, or not ready for too long, keeps its sessions and announces nothing."""
        options["routes"] = [] if node in (found.get("left_out") or {}) else found.get("routes") or []
