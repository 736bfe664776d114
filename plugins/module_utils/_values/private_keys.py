# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A WireGuard private key as its file holds it (semaphore 3.3)."""

from __future__ import annotations

import base64

from .keys import parse_key
from .refused import ValueRefused


def decode_key_text(text: str) -> bytes:
    """The 32 bytes in a key file's text; one trailing newline, of either kind, is tolerated.

    Raises ValueRefused whose message never quotes the text, which may be most of a private key.
    """
    if text.endswith("\n"):
        text = text[: -2 if text.endswith("\r\n") else -1]
    try:
        raw = base64.b64decode(parse_key(text), validate=True)
    except ValueRefused:
        raise ValueRefused("bad_private_key", "the file does not hold 32 bytes in canonical base64") from None
    if raw == bytes(32):
        raise ValueRefused("bad_private_key", "the file holds the all-zero key, which WireGuard takes as no key")
    return raw
