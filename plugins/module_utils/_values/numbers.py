# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Strict numbers. Python's int() takes blanks, signs, underscores and foreign digits; the specs do not."""

from __future__ import annotations

import re

from .refused import ValueRefused, quoted

_DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,18})\Z")


def parse_decimal(text: object, reason: str = "bad_number") -> int:
    """A non-negative decimal of at most 19 digits without sign, blanks or leading zeros, or an int."""
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            raise ValueRefused(reason, "{0} is negative".format(text))
        return text
    if not isinstance(text, str) or not _DECIMAL.match(text):
        raise ValueRefused(reason, "{0} is not a plain decimal number".format(quoted(text)))
    return int(text)


def parse_port(text: object, reason: str = "port_out_of_range") -> int:
    """A UDP or TCP port, 1 to 65535."""
    port = parse_decimal(text, reason)
    if not 1 <= port <= 65535:
        raise ValueRefused(reason, "port {0} is not between 1 and 65535".format(port))
    return port
