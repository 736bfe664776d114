# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments that the modules of the tenant networks share. Fresh dictionaries at every call."""

from __future__ import annotations

import typing as t

from ..._tenants.options import SWITCHES
from ..._tenants.profile import KINDS, PROFILES


def side_spec(source: t.Optional[bool] = None) -> t.Dict[str, t.Any]:
    """The network side; with ``source`` (required or not) the tenant-facing side as well."""
    found: t.Dict[str, t.Any] = {
        "apinet": {"type": "str", "required": True},
        "apinet_namespace": {"type": "str", "required": True},
        "profile": {"type": "str", "choices": list(PROFILES), "default": "onmetal"},
    }
    if source is not None:
        found["source"] = {"type": "str", "required": True} if source else {"type": "str"}
    return found


def runner_spec() -> t.Dict[str, t.Any]:
    return {
        "fabric": {"type": "str", "required": True},
        "lock_wait": {"type": "float", "default": 30.0},
        "fail_on_failures": {"type": "bool", "default": True},
        "fail_on_refused": {"type": "bool", "default": False},
    }


def mapping_spec() -> t.Dict[str, t.Any]:
    return {
        "watch_namespace": {"type": "str"},
        "watch_filter": {"type": "str"},
        "kinds": {"type": "list", "elements": "str", "choices": sorted(KINDS)},
        "switches": {"type": "list", "elements": "str", "choices": sorted(SWITCHES), "default": []},
        "collect": {"type": "bool", "default": True},
        "min_public_ips": {"type": "int", "default": 1},
        "max_public_ips": {"type": "int", "default": 10},
        "adopt": {"type": "bool", "default": False},
        "use_original_manager": {"type": "bool", "default": False},
        "max_deletes": {"type": "int"},
        "confirm_empty": {"type": "list", "elements": "str", "default": []},
    }
