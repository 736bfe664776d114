# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What both WireGuard back ends share: keys as text, peers while a dump is read, and secrets that stay inside."""

from __future__ import annotations

import base64
import typing as t

from ..._dataplane.peer_spec import LivePeer, Preshared
from ..._values.keys import fingerprint
from ..errors import LinuxError
from .key_files import read_secret

NO_KEY = bytes(32)


def encode_key(raw: bytes) -> str:
    """32 bytes as text."""
    return base64.b64encode(raw).decode("ascii")


class PeerReader:
    """Peers in the order in which they come. One with thousands of allowed IPs comes in several parts."""

    def __init__(self) -> None:
        self._fields: t.Dict[str, t.Dict[str, t.Any]] = {}
        self._ranges: t.Dict[str, t.List[str]] = {}

    def add(self, key: str, fields: t.Mapping[str, t.Any], ranges: t.Iterable[str]) -> None:
        """A part of a peer: those of LivePeer's fields that it says, and allowed IPs; later parts say nothing but more of these."""
        self._fields.setdefault(key, {}).update(fields)
        self._ranges.setdefault(key, []).extend(ranges)

    def peers(self) -> t.Dict[str, LivePeer]:
        """All of them, by public key."""
        return {key: LivePeer(allowed_ips=tuple(self._ranges[key]), **fields) for key, fields in self._fields.items()}


def handshake_time(seconds: int, nanoseconds: int) -> float:
    """One number; a whole second less would make a handshake older than the endpoint that was set just before it."""
    return seconds + nanoseconds / 1e9 if seconds and nanoseconds else seconds


def read_preshared_key(wanted: Preshared) -> bytes:
    """The 32 bytes to send for a step; all zero makes the peer forget its key."""
    if wanted.raw is not None:
        return base64.b64decode(wanted.raw)
    return NO_KEY if wanted.file is None else read_secret(wanted.file)


def preshared_fingerprint(path: str) -> t.Optional[str]:
    """The fingerprint of a preshared key's file; None when it holds no key that can be read."""
    try:
        return fingerprint(encode_key(read_secret(path)))
    except LinuxError:
        return None
