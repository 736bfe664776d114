# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a node is in the mesh: ULA from mesh id and MAC, node id (kubespan 3)."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import typing as t

from ..._values.addresses import Address
from ..._values.refused import ValueRefused, quoted

PURPOSES = {"bootstrap": 1, "kubespan": 2, "siderolink": 3, "virtual_siderolink": 4}
_PAIRS = re.compile(r"[0-9a-f]{2}(?:([:-])[0-9a-f]{2})(?:\1[0-9a-f]{2})*\Z", re.IGNORECASE | re.ASCII)
_DOTTED = re.compile(r"[0-9a-f]{4}(?:\.[0-9a-f]{4})+\Z", re.IGNORECASE | re.ASCII)
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def parse_mac(text: object) -> bytes:
    """The 6 or 8 bytes of a hardware address in colon, dash or dotted form; ``invalid_mac`` for everything else."""
    if not isinstance(text, str) or len(text) > 64 or not (_PAIRS.match(text) or _DOTTED.match(text)):
        raise ValueRefused("invalid_mac", f"{quoted(text)} is no MAC address")
    raw = bytes.fromhex(re.sub("[.:-]", "", text))
    if len(raw) not in (6, 8):
        raise ValueRefused("invalid_mac", f"{quoted(text)} has {len(raw)} bytes; an address is made from 6 or 8")
    return raw


def mesh_subnet(mesh_id: str) -> ipaddress.IPv6Network:
    """The /64 of a mesh. The id is opaque text: it is hashed as it is, never decoded or trimmed."""
    raw = bytearray(hashlib.sha256(mesh_id.encode("utf-8", "surrogatepass")).digest()[-16:])
    raw[0] = 0xFD
    raw[7] = PURPOSES["kubespan"]
    return ipaddress.IPv6Network((bytes(raw[:8]) + bytes(8), 64))


def mesh_address(mesh_id: str, mac: object) -> ipaddress.IPv6Address:
    """A node's ULA: the mesh's /64 and the modified EUI-64 of the MAC."""
    raw = bytearray(parse_mac(mac))
    if len(raw) == 6:
        raw[3:3] = b"\xff\xfe"
    raw[0] ^= 0x02
    return ipaddress.IPv6Address(int(mesh_subnet(mesh_id).network_address) | int.from_bytes(raw, "big"))


def looks_like_ula(address: Address, purpose: str = "kubespan") -> bool:
    """Talos' test: two bytes. A site's own ULA with a fourth group that ends in 02 passes it too."""
    raw = address.packed
    return len(raw) == 16 and raw[0] == 0xFD and raw[7] == PURPOSES[purpose]


def first_mac(links: t.Iterable[t.Mapping[str, t.Any]]) -> str | None:
    """The MAC of the first physical link: ARP type Ethernet, no link kind, first by name as bytes.

    links: ``{name, type: "ether" or 1, kind: text or None, mac}``.
    """
    physical = [link for link in links if link.get("type") in ("ether", 1) and not link.get("kind") and link.get("mac")]
    return (
        min(physical, key=lambda link: str(link["name"]).encode("utf-8", "surrogateescape"))["mac"]
        if physical
        else None
    )


def choose_mac(explicit: str | None, persisted: str | None, links: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """The MAC of a node's identity (decision 36): the variable's, else the one kept with the key, else the first link's.

    A persisted MAC outlives new and renamed NICs, so that the address of a node stays.
    """
    mac = explicit or persisted or first_mac(links)
    if not mac:
        raise ValueRefused("mac_missing", "the host has no physical Ethernet link to take a MAC from; set kubespan_mac")
    parse_mac(mac)
    return mac


def make_node_id(raw: bytes) -> str:
    """The text of a new node id, from 32 random bytes."""
    if len(raw) != 32:
        raise ValueRefused("bad_node_id", f"a node id is made from 32 bytes, not {len(raw)}")
    number, digits = int.from_bytes(raw, "big"), []
    while number:
        number, digit = divmod(number, 62)
        digits.append(_BASE62[digit])
    return "".join(reversed(digits)) or "0"
