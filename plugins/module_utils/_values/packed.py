# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Large values as one text: Ansible looks at every value of arguments and results several times, and some have millions. Pure."""

from __future__ import annotations

import base64
import json
import typing as t
import zlib

from .refused import ValueRefused

#: What a packed text of our own may unfold to; texts of strangers get less.
MOST_BYTES = 2_000_000_000


def pack(value: t.Any) -> str:
    """A value of JSON as one text."""
    return base64.b64encode(zlib.compress(json.dumps(value, separators=(",", ":")).encode("utf-8"), 1)).decode("ascii")


def unpack(text: str, most: int = MOST_BYTES) -> t.Any:
    """The inverse of pack, of no more bytes than ``most``. Raises ValueRefused ``bad_type``."""
    try:
        worker = zlib.decompressobj()
        data = worker.decompress(base64.b64decode(text, validate=True), most)
        if not worker.eof:
            raise ValueError("it does not end")
        return json.loads(data.decode("utf-8"))
    except (ValueError, TypeError, RecursionError, zlib.error) as error:
        raise ValueRefused("bad_type", f"this is no packed text: {error}") from None
