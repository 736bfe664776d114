# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Durations as Go writes them: ``10s``, ``1h30m``, ``500ms`` (semaphore 2.5)."""

from __future__ import annotations

import re
import typing as t
from fractions import Fraction

from .refused import ValueRefused, quoted

_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "\u00b5s": Fraction(1, 10**6),
    "\u03bcs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)", re.ASCII)
#: Go keeps durations in 63 bits of nanoseconds.
_LONGEST = Fraction(2**63 - 1, 10**9)


def parse_duration(text: object, word: str = "bad_duration") -> t.Union[int, float]:
    """Seconds, as an int where they are whole. ``0`` needs no unit, every other number does."""
    if not isinstance(text, str) or not text or len(text) > 64:
        raise ValueRefused(word, "{0} is not a duration such as 10s".format(quoted(text)))
    rest = text[1:] if text[0] in "+-" else text
    total = Fraction(0)
    if rest != "0":
        position = 0
        while position < len(rest):
            part = _PART.match(rest, position)
            if not part:
                raise ValueRefused(word, "{0} is not a duration such as 10s".format(quoted(text)))
            total += Fraction(part.group(1) if part.group(1)[-1] != "." else part.group(1)[:-1]) * _UNITS[part.group(2)]
            position = part.end()
        if position == 0 or total > _LONGEST:
            raise ValueRefused(word, "{0} is not a duration such as 10s".format(quoted(text)))
    return as_seconds(-total if text[0] == "-" else total)


def as_seconds(value: Fraction) -> t.Union[int, float]:
    """A fraction of seconds as the plainest number that holds it."""
    return int(value) if value.denominator == 1 else float(value)
