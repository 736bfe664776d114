# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One private key file: gather, plan, apply, verify. Only public keys come out (semaphore 3.3)."""

from __future__ import annotations

import typing as t

from ..._dataplane.key_plan import KeyPlan, parse_key_desired, plan_key
from ..._linux.stats import Stats
from ..._linux.wireguard.keys import KeyFile
from ..._plan.plan import to_wire
from .single import converge

Data = dict[str, t.Any]


def gather(key: KeyFile) -> Data:
    """``{"state": absent|key|unusable, "public_key": text|None, "mode", "message", "stats"}``."""
    stats = Stats()
    return dict(key.state(), stats=stats.as_dict(reads=1))


def apply(key: KeyFile, planned: KeyPlan) -> Data:
    """Do what was planned; nothing planned, nothing written. Returns stats. Raises LinuxError."""
    stats = Stats()
    if planned.work == "ensure":
        key.ensure()
    elif planned.work == "rotate":
        key.rotate()
    elif planned.work == "remove":
        key.remove()
    return stats.as_dict(file_writes=1 if planned.work else 0)


def run(request: t.Mapping[str, t.Any], check: bool) -> Data:
    """The whole way, for the module: its result as plain JSON, ``diff`` and ``warnings`` included. Raises ValueRefused, LinuxError."""
    desired = parse_key_desired(request)
    key = KeyFile(desired["path"])
    result, after, dummy = converge(
        lambda: gather(key),
        lambda actual: plan_key(desired, actual),
        lambda actual, planned: apply(key, planned),
        check,
    )
    answer: Data = to_wire(dict(result, path=desired["path"], public_key=after.public_key))
    return answer
