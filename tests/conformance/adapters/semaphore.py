# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Semaphore's vectors: the table of all groups, and what is left of upstream's configuration files, which the collection does not read yet."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._services import global_services
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

from . import semaphore_dns_policy, semaphore_mesh, semaphore_services

Input = t.Mapping[str, t.Any]
Answer = dict[str, t.Any]


def zones(data: Input) -> Answer:
    given = data.get("zones") or list(global_services.DEFAULT_ZONES)
    try:
        global_services.check_zones(given)
    except ValueRefused as error:
        return {"ok": False, "error": error.reason, "zones": given}
    return {"ok": True, "error": None, "zones": given}


prepare = semaphore_dns_policy.prepare

HANDLERS: dict[str, dict[str, t.Callable[[Input], Answer]]] = {
    **semaphore_dns_policy.HANDLERS,
    **semaphore_mesh.GROUPS,
    **semaphore_services.HANDLERS,
    "config_validation": {"zones": zones},
}
