# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""DNS names to addresses, many at once: one dead name costs its time-out once, not once a name."""

from __future__ import annotations

import socket
import typing as t

_THREADS = 16


def resolve(names: t.Sequence[str], seconds: float | None = None) -> dict[str, list[str]]:
    """Name -> addresses as text; an empty list when it does not resolve. The caller judges the addresses.

    Names that have no answer after ``seconds`` do not resolve; those in front come first.
    """
    if not names:
        return {}
    from concurrent.futures import ThreadPoolExecutor, wait  # only runs with names in their endpoints pay for it

    pool = ThreadPoolExecutor(max_workers=min(_THREADS, len(names)))
    try:
        asked = {name: pool.submit(_resolve, name) for name in names}
        answered = wait(asked.values(), seconds).done
        return {name: future.result() if future in answered else [] for name, future in asked.items()}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _resolve(name: str) -> list[str]:
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return []
    return sorted({str(answer[4][0]) for answer in answers if "%" not in str(answer[4][0])})
