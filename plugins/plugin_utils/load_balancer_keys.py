# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with a cluster's load_balancers_settings, in texts that name what to fix."""

from __future__ import annotations

import difflib
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.arguments import settings_spec
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.named_pools import parse_named_pools
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.settings import known_load_balancer
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused, quoted

VARIABLE = "load_balancers_settings"


def wrong_settings(settings: t.Any) -> list[str]:
    """What to fix in the variable of one cluster, each as a sentence about it."""
    if not isinstance(settings, t.Mapping):
        return [
            f'it is a dictionary, such as {{load_balancer: "empty://", pool: [203.0.113.0/27]}}, not a {type(settings).__name__}'
        ]
    found = []
    known = settings_spec()
    for key in settings:
        if str(key) not in known:
            near = difflib.get_close_matches(str(key), sorted(known), 1, 0.6)
            found.append(f"{quoted(key)} is no setting{(f'; did you mean {near[0]}?' if near else '')}")
            continue
        option = known[str(key)]
        if (
            option["type"] == "str"
            and isinstance(settings[key], str)
            and settings[key] not in option.get("choices", [settings[key]])
        ):
            found.append(f"{key}: {quoted(settings[key])} is none of {', '.join(option['choices'])}")
    checks: tuple[tuple[str, t.Callable[[t.Any], t.Any], t.Any], ...] = (
        ("load_balancer", known_load_balancer, str),
        ("pool", lambda texts: parse_named_pools(texts, None), (list, tuple)),
        ("pools", lambda rows: parse_named_pools((), rows), (list, tuple)),
    )
    for key, check, kinds in checks:
        try:
            rows = settings.get(key)
            if isinstance(rows, kinds) and not (key == "pools" and wrong_types(dict(settings, cluster="-"))):
                check(rows)
        except ValueRefused as error:
            found.append(f"{key}: {error.message}")
    found = found or wrong_types(dict(settings, cluster="-"))
    if not found and settings.get("pool") and settings.get("pools"):
        try:
            parse_named_pools(settings["pool"], settings["pools"])
        except ValueRefused as error:
            found.append(f"pool and pools: {error.message}")
    return found


def wrong_types(row: t.Mapping[str, t.Any]) -> list[str]:
    """What the module would say of the types of one entry of its settings: it would refuse the entries of all clusters with it."""
    return [str(text) for text in ArgumentSpecValidator(settings_spec()).validate(row).error_messages]
