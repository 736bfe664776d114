# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""load_balancers without a process of its own, where it may, with the inventory's settings, or only its options for the reconciler."""

from __future__ import annotations

import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.multicluster.network.plugins.modules import load_balancers
from ansible_collections.multicluster.network.plugins.plugin_utils.load_balancer_settings import LoadBalancerAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept


class ActionModule(Kept, LoadBalancerAction):
    """See DOCUMENTATION of the module."""

    module = load_balancers

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> str | None:
        """The settings, each with the task's options for all clusters."""
        if boolean(options.pop("pending", False)) and not self._pending():
            self.keeps = False
            return "this run has found nothing that is to be given back"
        why = super().fill(options, variables)
        if "gc_orphans" in options:
            everywhere = boolean(options.pop("gc_orphans"))
            options["settings"] = [dict({"gc_orphans": everywhere}, **row) for row in options["settings"]]
        return why

    def _pending(self) -> bool:
        """Whether the run has found what is to be given back, or what stays until its cluster is confirmed to be empty."""
        found = (self.hostvars.context.get(self.kept_as()) or {}).get("load_balancers") or {}
        return any(row.get("releases") or row.get("kept") for row in found.values())

    def within(self, options: dict[str, t.Any], inside: t.Collection[str]) -> list[str]:
        """The settings of the clusters inside; what the others have is reserved in each of them."""
        outside = sorted(row["cluster"] for row in options["settings"] if row["cluster"] not in inside)
        options["settings"] = [row for row in options["settings"] if row["cluster"] in inside]
        return outside

    def left(self, options: t.Mapping[str, t.Any]) -> bool:
        """Whether a cluster is left."""
        return bool(options["settings"])
