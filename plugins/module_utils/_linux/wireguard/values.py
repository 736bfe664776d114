# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What both WireGuard back ends share: the shape of a dump, and secrets that stay inside.

A dump is ``{"listen_port": int, "fwmark": int, "public_key": text|None, "peers": {public key: peer}}``, a peer
``{"endpoint": text|None, "allowed_ips": [cidr], "persistent_keepalive": seconds, "preshared_key": fingerprint|None,
"last_handshake": epoch seconds with their fraction (0: never), "rx_bytes": int, "tx_bytes": int}``.
"""

from __future__ import annotations

import base64
import typing as t

from ..._values.keys import fingerprint
from ..errors import LinuxError
from .key_files import read_secret

NO_KEY = bytes(32)


def encode_key(raw: bytes) -> str:
    """32 bytes as text."""
    return base64.b64encode(raw).decode("ascii")


def new_dump() -> t.Dict[str, t.Any]:
    """A device without anything; also what an absent device dumps as."""
    return {"listen_port": 0, "fwmark": 0, "public_key": None, "peers": {}}


def new_peer() -> t.Dict[str, t.Any]:
    """A peer without anything."""
    return {
        "endpoint": None,
        "allowed_ips": [],
        "persistent_keepalive": 0,
        "preshared_key": None,
        "last_handshake": 0,
        "rx_bytes": 0,
        "tx_bytes": 0,
    }


def handshake_time(seconds: int, nanoseconds: int) -> float:
    """One number; a whole second less would make a handshake older than the endpoint that was set just before it."""
    return seconds + nanoseconds / 1e9 if seconds and nanoseconds else seconds


def merge_peer(peers: t.Dict[str, t.Dict[str, t.Any]], key: str, part: t.Dict[str, t.Any]) -> None:
    """Add a part of a peer. Later parts carry nothing but the key and more allowed IPs."""
    if key in peers:
        peers[key]["allowed_ips"].extend(part["allowed_ips"])
    else:
        peers[key] = part


def read_preshared_key(wanted: t.Optional[t.Mapping[str, t.Any]]) -> bytes:
    """The 32 bytes to send for a step's ``preshared_key``; all zero makes the peer forget its key.

    ``{"file": path}``, or ``{"raw": text}`` from a snapshot that was taken to put things back.
    """
    if wanted is None:
        return NO_KEY
    return base64.b64decode(wanted["raw"]) if "raw" in wanted else read_secret(wanted["file"])


def preshared_fingerprint(path: str) -> t.Optional[str]:
    """The fingerprint of a preshared key's file; None when it holds no key that can be read."""
    try:
        return fingerprint(encode_key(read_secret(path)))
    except LinuxError:
        return None
