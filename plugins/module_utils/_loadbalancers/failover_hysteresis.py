# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hysteresis of the control plane's address: a server that flaps must not make it bounce between nodes."""

from __future__ import annotations

import typing as t


class Hysteresis(t.NamedTuple):
    """``failures`` probes in a row must fail; ``rest_s`` seconds must have passed since the last move. 1 and 0: the original."""

    failures: int = 3
    rest_s: float = 60


class FailureRecord(t.NamedTuple):
    """What is kept between runs. ``moved_at`` is a time of the caller's clock, None for never."""

    failures: int = 0
    moved_at: t.Optional[float] = None


def may_move(record: FailureRecord, hysteresis: Hysteresis, now: float) -> bool:
    """Whether, with one more failed probe at ``now``, the address may move. A clock that was set back does not hold it."""
    rested = record.moved_at is None or not 0 <= now - record.moved_at < hysteresis.rest_s
    return rested and record.failures + 1 >= hysteresis.failures
