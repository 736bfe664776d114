# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preshared keys of a Semaphore mesh: one for each pair of nodes, derived from a secret of the fabric and both public keys. Pure.

Nobody stores a list of them: who has the secret, which is the controller alone, computes the key of a pair again whenever it is needed, and a node gets
those of its own pairs. The derivation is HKDF (RFC 5869) with SHA-256, by the standard library, since nodes and controllers may lack ``cryptography``.
Both ends get the same key, because the two names and public keys take part in the order of their text.

A node has a *generation*, a number: which preshared keys the public key goes with that it publishes. 0 is none.
"""

from __future__ import annotations

import hashlib
import hmac
import typing as t

from ..._values.generations import NEXT, preshared_file
from ..._values.keys import encode_key, key_bytes, parse_key
from ..._values.refused import ValueRefused, quoted
from ..._values.text import parse_decimal
from .annotations import key_of

#: What the derivation is for, so that the same secret gives nothing else the same key.
_LABEL = b"multicluster.network preshared key"
OFF, LARGEST = 0, 999999


class End(t.NamedTuple):
    """One end of a tunnel: its Node as ``cluster/node``, and the public key of its device."""

    node: str
    public_key: str


def read_secret(text: object) -> bytes:
    """The 32 bytes of ``preshared_secret``. Raises ValueRefused ``bad_preshared_secret`` with none of the text in its message."""
    try:
        raw = key_bytes(parse_key(text.strip() if isinstance(text, str) else text))
    except ValueRefused:
        raw = b""
    if not any(raw):
        message = "preshared_secret is no 32 bytes in base64; make it by wg genpsk and keep it in a vault"
        raise ValueRefused("bad_preshared_secret", message)
    return raw


def pair_key(secret: bytes, fabric: str, generation: int, one: End, other: End) -> str:
    """The preshared key of a pair as text in base64, the same whichever end comes first. secret: of read_secret."""
    ends = sorted((one, other))
    info = b"\0".join(
        [_LABEL, fabric.encode(), str(generation).encode(), *(text.encode() for end in ends for text in end)]
    )
    return encode_key(hkdf(secret, _LABEL, info))


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """32 bytes by HKDF with SHA-256 (RFC 5869), which are one block of its output."""
    extracted = hmac.new(salt, secret, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()


def file_of(key_file: str, key: str) -> str:
    """Where a node keeps a preshared key: alongside the private key of its device, under a name that differs for two keys and reveals neither.

    A file never changes, so that a change that is taken back finds what it had.
    """
    return preshared_file(key_file, hashlib.sha256(b"multicluster.network preshared file\0" + key.encode()).hexdigest())


def generation_key(remote: str) -> str:
    """The annotation that has the generation of a node's public key towards a cluster."""
    return key_of(remote + NEXT, "preshared")


def read_generation(remote: str, annotations: t.Mapping[str, t.Any]) -> int:
    """The generation that a Node has; 0 where it has none. Raises ValueRefused ``bad_rotation``."""
    text = annotations.get(generation_key(remote))
    return OFF if text is None else parse_generation(text, generation_key(remote))


def parse_generation(given: object, name: str) -> int:
    """A generation that is in use. name: of what has it, for the message of ValueRefused ``bad_rotation``."""
    number = parse_decimal(given, "bad_rotation")
    if not 0 < number <= LARGEST:
        raise ValueRefused("bad_rotation", f"{name}: {quoted(given)} is no number from 1 to {LARGEST}")
    return number


def pair_generation(one: int, other: int) -> int:
    """The generation of a pair: the later one, so that a node which claims to have none does not take that of the other end away."""
    return max(one, other)
