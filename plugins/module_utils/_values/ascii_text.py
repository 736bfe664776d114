# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Case, digits and blanks of ASCII alone.

``str.lower`` makes ``k`` of the Kelvin sign, ``str.isdigit`` takes digits that ``int`` refuses, ``str.strip`` takes away blanks
that no other program does: a name that only matches after such a change is another name, and somebody chose it for that.
"""

from __future__ import annotations

import string

BLANKS = " \t\r\n"
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def lower(text: str) -> str:
    """The text with A to Z in lower case; every other character stays what it is."""
    return text.translate(_LOWER)


def is_digits(text: str) -> bool:
    """True for one or more of 0 to 9."""
    return text.isascii() and text.isdigit()


def is_alnum(text: str) -> bool:
    """True for one or more ASCII letters and digits."""
    return text.isascii() and text.isalnum()


def is_graphic(text: str) -> bool:
    """True for text of visible ASCII characters alone: no blank anywhere, no control, nothing beyond ASCII."""
    return text.isascii() and text.isprintable() and " " not in text
