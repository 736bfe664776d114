# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run did to the host, counted where it is done, so that ``stats`` can be held against ``wg show dump``."""

from __future__ import annotations

import time
import typing as t


class Stats:
    """Counters by name: ``reads``, ``wireguard_writes``, ``netlink_writes``, ``file_writes``; and ``seconds``."""

    NAMES = ("reads", "wireguard_writes", "netlink_writes", "file_writes")

    def __init__(self) -> None:
        self._counts = dict.fromkeys(self.NAMES, 0)
        self._started = time.monotonic()

    def add(self, name: str, number: int = 1) -> None:
        self._counts[name] += number

    def as_dict(self, **more: int) -> dict[str, t.Any]:
        """The counters with so many more, and the seconds since the start."""
        for name, number in more.items():
            self.add(name, number)
        return dict(self._counts, seconds=round(time.monotonic() - self._started, 4))


def total(*parts: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    shown: dict[str, t.Any] = dict.fromkeys(Stats.NAMES, 0)
    shown["seconds"] = 0.0
    for part in parts:
        for name, number in (part or {}).items():
            shown[name] = shown.get(name, 0) + number
    shown["seconds"] = round(shown["seconds"], 4)
    return shown


def now() -> float:
    """The host's clock, epoch seconds: the one that handshakes are stamped with."""
    return time.time()
