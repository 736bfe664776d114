# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""WireGuard keys as text: 32 bytes in canonical base64, the private one as its file holds it (semaphore 3.3)."""

from __future__ import annotations

import base64
import hashlib
import re

from .refused import ValueRefused, quoted

# 43 characters hold 258 bits: the last two of the last character are zero in the canonical spelling.
_KEY = re.compile(r"[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=\Z")

# Points of small order on Curve25519 (RFC 7748 section 6.1): every private key agrees with them on zero.
_LOW_ORDER = (
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
)
# The unused top bit is masked by every implementation, so each has a second spelling.
_LOW_ORDER_TEXTS = frozenset(
    base64.b64encode(raw[:31] + bytes((raw[31] | top,))).decode("ascii") for raw in map(bytes.fromhex, _LOW_ORDER) for top in (0, 0x80)
)


def parse_key(text: object, reason: str = "bad_public_key") -> str:
    """A key's text, unchanged. Only the one canonical spelling of 32 bytes passes."""
    if not isinstance(text, str) or not _KEY.match(text):
        raise ValueRefused(reason, "{0} is not 32 bytes in canonical base64".format(quoted(text)))
    return text


def key_bytes(text: str) -> bytes:
    """The 32 bytes of a key that parse_key accepted."""
    return base64.b64decode(text)


def is_weak(text: str) -> bool:
    """True for keys that agree with every peer on the same secret (all-zero and low-order points).

    text: what parse_key accepted, which has one spelling only.
    """
    return text in _LOW_ORDER_TEXTS


def fingerprint(secret: str) -> str:
    """A stable, short name for a secret in diffs: it tells two secrets apart and reveals neither."""
    return "sha256:" + hashlib.sha256(b"multicluster.network fingerprint\0" + secret.encode("utf-8")).hexdigest()[:12]


def decode_key_text(text: str) -> bytes:
    """The 32 bytes in a private key file's text; one trailing newline, of either kind, is tolerated.

    Raises ValueRefused whose message never quotes the text, which may be most of a private key.
    """
    if text.endswith("\n"):
        text = text[: -2 if text.endswith("\r\n") else -1]
    try:
        raw = key_bytes(parse_key(text))
    except ValueRefused:
        raise ValueRefused("bad_private_key", "the file does not hold 32 bytes in canonical base64") from None
    if raw == bytes(32):
        raise ValueRefused("bad_private_key", "the file holds the all-zero key, which WireGuard takes as no key")
    return raw
