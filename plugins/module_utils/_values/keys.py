# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""WireGuard keys as text: 32 bytes in canonical base64, the private one as its file holds it (semaphore 3.3).

The public key of a private key is computed here (X25519, RFC 7748), for hosts that have neither wireguard-tools nor cryptography.
Python's integers do not run in constant time. That is fine here: a key is multiplied once or twice in a run, by root, on the host
that owns it, and nobody else can time it.
"""

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
    base64.b64encode(raw[:31] + bytes((raw[31] | top,))).decode("ascii")
    for raw in map(bytes.fromhex, _LOW_ORDER)
    for top in (0, 0x80)
)
#: Public keys by the digest of their private ones: a run meets each key several times (file and device, before and after), and a multiplication costs more
#: than reading a device. The private keys themselves are not kept.
_KNOWN: dict[bytes, str] = {}
_MOST_KNOWN = 256
# of Curve25519
_P = 2**255 - 19
_A24 = 121665
_BASE_POINT = (9).to_bytes(32, "little")


def parse_key(text: object, reason: str = "bad_public_key") -> str:
    """A key's text, unchanged. Only the one canonical spelling of 32 bytes passes."""
    if not isinstance(text, str) or not _KEY.match(text):
        raise ValueRefused(reason, f"{quoted(text)} is not 32 bytes in canonical base64")
    return text


def key_bytes(text: str) -> bytes:
    """The 32 bytes of a key that parse_key accepted."""
    return base64.b64decode(text)


def raw_bytes(text: object, strict: bool = True) -> bytes:
    """The bytes of base64 in any spelling; none of what is no text or no base64."""
    try:
        return base64.b64decode(text.encode("utf-8", "replace"), validate=strict) if isinstance(text, str) else b""
    except ValueError:  # binascii.Error is one
        return b""


def encode_key(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def is_weak(text: str) -> bool:
    """True for keys that agree with every peer on the same secret (all-zero and low-order points).

    text: what parse_key accepted, which has one spelling only.
    """
    return text in _LOW_ORDER_TEXTS


def fingerprint(secret: str) -> str:
    """A stable, short name for a secret in diffs: it distinguishes two secrets and reveals neither."""
    return "sha256:" + hashlib.sha256(b"multicluster.network fingerprint\0" + secret.encode("utf-8")).hexdigest()[:12]


def decode_key_text(text: str) -> bytes:
    """The 32 bytes in a private key file's text; one trailing newline, of either kind, is tolerated.

    Raises ValueRefused with a message that never quotes the text, which may be most of a private key.
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


def clamp(private: bytes) -> bytes:
    """The 32 bytes as every implementation uses them (RFC 7748 section 5, decodeScalar25519)."""
    raw = bytearray(private)
    if len(raw) != 32:
        raise ValueError(f"a private key has 32 bytes, not {len(raw)}")
    raw[0] &= 248
    raw[31] &= 127
    raw[31] |= 64
    return bytes(raw)


def x25519(private: bytes, point: bytes = _BASE_POINT) -> bytes:
    """Scalar multiplication on Curve25519, by the Montgomery ladder of RFC 7748 section 5."""
    scalar = int.from_bytes(clamp(private), "little")
    if len(point) != 32:
        raise ValueError(f"a point has 32 bytes, not {len(point)}")
    x_1 = (int.from_bytes(point, "little") & (2**255 - 1)) % _P
    x_2, z_2, x_3, z_3 = 1, 0, x_1, 1
    swap = 0
    for position in range(254, -1, -1):
        bit = (scalar >> position) & 1
        if swap != bit:
            x_2, x_3, z_2, z_3 = x_3, x_2, z_3, z_2
        swap = bit
        a, b = x_2 + z_2, x_2 - z_2
        aa, bb = a * a % _P, b * b % _P
        e = aa - bb
        da, cb = (x_3 - z_3) * a % _P, (x_3 + z_3) * b % _P
        x_3, z_3 = (da + cb) ** 2 % _P, x_1 * (da - cb) ** 2 % _P
        x_2, z_2 = aa * bb % _P, e * (aa + _A24 * e) % _P
    if swap:
        x_2, z_2 = x_3, z_3
    return (x_2 * pow(z_2, _P - 2, _P) % _P).to_bytes(32, "little")


def public_key(private: bytes) -> str:
    """The public key of a private key's 32 bytes, as base64 text."""
    digest = hashlib.sha256(private).digest()
    found = _KNOWN.get(digest)
    if found is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        found = _KNOWN[digest] = encode_key(x25519(private))
    return found
