# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the watcher keeps across restarts: last used endpoint and its time, by public key (kubespan 16)."""

from __future__ import annotations

import json
import math
import typing as t

from ..._values.keys import parse_key
from ..._values.refused import ValueRefused
from .endpoints import parse_addr_port
from .states import Status

VERSION = 1


def render_state(statuses: t.Mapping[str, Status]) -> str:
    """The file's text; peers for which we never set an endpoint have no entry."""
    peers = {
        key: {"last_used": status.last_used, "changed_at": status.changed_at}
        for key, status in statuses.items()
        if status.last_used is not None
    }
    return json.dumps({"version": VERSION, "peers": peers}, indent=1, sort_keys=True) + "\n"


def parse_state(text: t.Optional[str]) -> t.Dict[str, Status]:
    """Statuses to start from. Whatever cannot be read counts as lost, which does no harm: working endpoints are adopted."""
    try:
        content = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict) or content.get("version") != VERSION or not isinstance(content.get("peers"), dict):
        return {}
    statuses = {}
    for key, entry in content["peers"].items():
        try:
            last_used = str(parse_addr_port(entry["last_used"]))
            statuses[parse_key(key)] = Status(last_used=last_used, changed_at=_time(entry.get("changed_at")))
        except (ValueRefused, AttributeError, KeyError, TypeError):
            continue
    return statuses


def _time(value: object) -> t.Optional[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        return None
    return float(value)
