# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A keepalived on a node, with the addresses that the run has found for its cluster."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.plugin_utils.speaker_task import SpeakerAction


class ActionModule(SpeakerAction):
    """See DOCUMENTATION of the module."""

    def take(self, options: dict[str, t.Any], found: dict[str, t.Any], node: str) -> None:
        """A node that is excluded, or not ready for too long, leaves everything to the others."""
        segment = str(options.get("segment") or "")
        options["nodes"] = (found.get("segments") or {}).get(segment) or []
        options["routes"] = [route for route in found.get("routes") or () if "group" in route]
        options["left_out"] = str((found.get("left_out") or {}).get(node) or "")
