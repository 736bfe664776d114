# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a large fabric as one text: Ansible looks at every value of a module's arguments several times, and there are millions. Pure."""

from __future__ import annotations

import base64
import json
import typing as t
import zlib

from .._values.refused import ValueRefused

#: What the text may unfold to.
MOST_BYTES = 2_000_000_000


def pack(value: t.Any) -> str:
    """JSON, compressed, in base64."""
    return base64.b64encode(zlib.compress(json.dumps(value, separators=(",", ":")).encode("utf-8"), 1)).decode("ascii")


def unpack(text: str) -> t.Any:
    """The inverse. Raises ValueRefused ``bad_type``."""
    try:
        worker = zlib.decompressobj()
        data = worker.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
        if not worker.eof:
            raise ValueError("it does not end")
        return json.loads(data.decode("utf-8"))
    except (ValueError, zlib.error) as error:
        raise ValueRefused("bad_type", "this is no packed text: {0}".format(error)) from None
