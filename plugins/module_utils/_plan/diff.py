# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans as text: one block an object, sorted, the same bytes for the same plan."""

from __future__ import annotations

import typing as t


def render(value: t.Any, indent: int = 0) -> t.List[str]:
    """Plain data as indented ``key: value`` lines with sorted keys. Lists keep their order."""
    pad = "  " * indent
    lines: t.List[str] = []
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            lines.extend(_entry(pad + "{0}:".format(scalar(str(key))), value[key], indent))
    elif isinstance(value, (list, tuple)):
        for item in value:
            lines.extend(_entry(pad + "-", item, indent))
    else:
        lines.append(pad + scalar(value))
    return lines


def _entry(head: str, value: t.Any, indent: int) -> t.List[str]:
    if isinstance(value, (dict, list, tuple)) and value:
        return [head] + render(value, indent + 1)
    return ["{0} {1}".format(head, scalar(value))]


def scalar(value: t.Any) -> str:
    """One value on one line; foreign control characters cannot break out of it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    text = str(value)
    return text if text.isprintable() else ascii(text)
