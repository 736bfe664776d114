# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON from a server that may be hostile: bounded in depth, quick for large answers."""

from __future__ import annotations

import json
import typing as t

from .._values.gc_pause import gc_paused

_OTHER = bytes(code for code in range(256) if code not in b"[]{}")


def memory_of(body: bytes) -> int:
    """About how many bytes a JSON text needs in memory once decoded, alongside itself; counted without making any of its values.

    An object of six bytes is two hundred in memory, so the length of a text bounds nothing. The weights are those of CPython from 3.9 on,
    rounded up: what real objects need is about half of what this returns, since their keys and many of their texts are the same ones.
    """
    empty = body.count(b"{}")
    return (
        190 * (body.count(b"{") - empty)
        + 64 * empty
        + 90 * body.count(b"[")
        + 30 * body.count(b",")
        + 30 * body.count(b'"')
        + len(body)
    )


def deeper_than(body: bytes, limit: int) -> bool:
    """True when the JSON text nests deeper than ``limit``, or its brackets do not match at all.

    Works by whole-text operations, without a Python step per character: escapes, strings and everything that is no
    bracket are removed, then innermost pairs are, once for each level.
    """
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    rest = b"".join(body.split(b'"')[::2]).translate(None, _OTHER)
    for dummy in range(limit):
        if not rest:
            return False
        rest = rest.replace(b"{}", b"").replace(b"[]", b"")
    return bool(rest)


def decode(body: bytes, depth: int) -> t.Any:
    """JSON bytes -> data. Raises ValueError with a short text that quotes nothing of the body."""
    if deeper_than(body, depth):
        raise ValueError(f"the answer nests deeper than {depth} levels or is cut off")
    with gc_paused():
        try:
            value = json.loads(body.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
            if b"\\ud" in body or b"\\uD" in body:
                json.dumps(value, ensure_ascii=False).encode(
                    "utf-8"
                )  # half of a letter is no text: it could be neither hashed nor printed
            return value
        except (ValueError, RecursionError):
            raise ValueError("the answer is no complete JSON document") from None


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number without end is no JSON")
    return number


def _no_constant(name: str) -> t.NoReturn:
    raise ValueError(f"{name} is no JSON")
