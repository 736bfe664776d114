# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""X25519 (RFC 7748): the public key of a private key, on hosts that have neither wireguard-tools nor cryptography.

Python's integers do not run in constant time. That is fine here: a key is multiplied once or twice in its life, by
root, on the host that owns it, and nobody else can time it.
"""

from __future__ import annotations

import base64

_P = 2**255 - 19
_A24 = 121665
_BASE_POINT = (9).to_bytes(32, "little")


def clamp(private: bytes) -> bytes:
    """The 32 bytes as every implementation uses them (RFC 7748 section 5, decodeScalar25519)."""
    raw = bytearray(private)
    if len(raw) != 32:
        raise ValueError("a private key has 32 bytes, not {0}".format(len(raw)))
    raw[0] &= 248
    raw[31] &= 127
    raw[31] |= 64
    return bytes(raw)


def x25519(private: bytes, point: bytes = _BASE_POINT) -> bytes:
    """Scalar multiplication on Curve25519, by the Montgomery ladder of RFC 7748 section 5."""
    scalar = int.from_bytes(clamp(private), "little")
    if len(point) != 32:
        raise ValueError("a point has 32 bytes, not {0}".format(len(point)))
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
    return base64.b64encode(x25519(private)).decode("ascii")
