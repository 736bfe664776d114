# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of others, cut to a length, and times as the document has them. Pure."""

from __future__ import annotations

import datetime
import typing as t

#: No text that a stranger wrote is kept longer than this.
TEXT = 300


def cut(value: t.Any, length: int = TEXT) -> str:
    """Text of a stranger: no control characters, no more than so many characters."""
    text = "" if value is None else str(value)
    if len(text) <= length and text.isprintable():
        return text
    text = "".join(char if char.isprintable() else " " for char in text[: length + 1])
    return text if len(text) <= length else text[: length - 1] + "…"


def moment(epoch: float) -> str:
    return datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
