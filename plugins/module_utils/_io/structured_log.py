# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of a program that stays: one line an event, ``key=value``, for journalctl, grep and log collectors."""

from __future__ import annotations

import json
import re
import sys
import threading
import typing as t

#: A value that needs no quotes.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]{1,200}\Z")
#: So many texts are remembered, to say each only once.
_REMEMBERED = 10_000


class Log:
    """Lines of ``part`` (a capability, the program) and ``event``. Names and texts of clusters are not trusted: nothing of them moves a
    terminal's cursor or makes a second line."""

    def __init__(self, write: t.Callable[[str], t.Any] | None = None) -> None:
        self._write = write or sys.stdout.write
        self._lock = threading.Lock()
        self._reported: set[str] = set()

    def say(self, part: str, event: str, **more: t.Any) -> None:
        """One line."""
        self._line(_line(part, event, more))

    def once(self, part: str, event: str, **more: t.Any) -> None:
        """One line, unless it was said before."""
        line = _line(part, event, more)
        with self._lock:
            if line in self._reported:
                return
            if len(self._reported) >= _REMEMBERED:
                self._reported.clear()
            self._reported.add(line)
        self._line(line)

    def _line(self, line: str) -> None:
        with self._lock:
            self._write(line + "\n")
            if self._write == sys.stdout.write:
                sys.stdout.flush()


def _line(part: str, event: str, more: t.Mapping[str, t.Any]) -> str:
    return " ".join(f"{name}={_shown(value)}" for name, value in (("part", part), ("event", event), *more.items()))


def _shown(value: t.Any) -> str:
    if isinstance(value, (list, tuple)):
        value = ",".join(str(one) for one in value)
    text = str(value)
    if _PLAIN.match(text):
        return text
    return json.dumps("".join(char if char.isprintable() else "?" for char in text[:2000]))
