# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Pauses between attempts: each twice the one before, up to a limit (semaphore 2.5)."""

from __future__ import annotations

import typing as t


def delays(
    attempts: int,
    first: float = 1,
    longest: float = 60,
    factor: float = 2,
    random: t.Optional[t.Callable[[], float]] = None,
) -> t.Iterator[float]:
    """Seconds to wait before each further attempt.

    random gives numbers from 0 to 1 and spreads a delay between the first and its own length before the limit is
    applied, so that many clients do not come back at the same moment.
    """
    length = first
    for _attempt in range(attempts):
        wanted = length if random is None else first + random() * (length - first)
        yield min(longest, wanted)
        # Beyond the limit nothing grows any more, and without jitter nothing has to: keep the number finite.
        length = min(length * factor, 1e12)
