# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's WireGuard: its generic netlink family, attributes packed by struct.

pyroute2 0.7.2 reads one dump message of several and always replaces allowed IPs; encoding 5,000 peers takes it more
than half a second, and this a few hundredths. Numbers are those of <linux/wireguard.h>.
"""

from __future__ import annotations

import errno
import socket
import struct
import typing as t

from ..._dataplane.peer_spec import EMPTY, Dump, PeerStep
from ..._values.keys import encode_key, fingerprint, key_bytes
from ..errors import PORT_TAKEN, LinuxError
from ..netlink.messages import (
    MAX_ATTRIBUTE,
    NLA_F_NESTED,
    GenericSocket,
    NetlinkRefused,
    attribute,
    attributes,
    from_kernel,
)
from .keys import NO_KEY, PeerReader, handshake_time, read_preshared_key

WG_CMD_GET_DEVICE, WG_CMD_SET_DEVICE = 0, 1
DEVICE_IFNAME, DEVICE_PRIVATE_KEY, DEVICE_PUBLIC_KEY, DEVICE_FLAGS = 2, 3, 4, 5
DEVICE_LISTEN_PORT, DEVICE_FWMARK, DEVICE_PEERS = 6, 7, 8
PEER_PUBLIC_KEY, PEER_PRESHARED_KEY, PEER_FLAGS, PEER_ENDPOINT, PEER_KEEPALIVE = 1, 2, 3, 4, 5
PEER_LAST_HANDSHAKE, PEER_RX_BYTES, PEER_TX_BYTES, PEER_ALLOWED_IPS = 6, 7, 8, 9
ALLOWED_IP_FAMILY, ALLOWED_IP_ADDRESS, ALLOWED_IP_MASK = 1, 2, 3
FLAG_REMOVE, FLAG_REPLACE_ALLOWED_IPS, FLAG_UPDATE_ONLY = 1, 2, 4

#: Peers a message; and bytes of one peer's allowed IPs before the rest goes into a message of its own.
PEERS_PER_MESSAGE = 600
_ALLOWED_IP_BYTES = 32_000
#: An allowed IP with all its headers: the nest, its family, its address, its prefix length.
_ALLOWED_IP = {4: struct.Struct("=HH HHH2x HH4s HHB3x"), 16: struct.Struct("=HH HHH2x HH16s HHB3x")}


def encode_allowed_ip(cidr: str) -> bytes:
    """One entry of WGPEER_A_ALLOWEDIPS."""
    text, _slash, length = cidr.partition("/")
    if ":" in text:
        family, raw = socket.AF_INET6, socket.inet_pton(socket.AF_INET6, text)
    else:
        family, raw = socket.AF_INET, socket.inet_aton(text)
    size = len(raw)
    return _ALLOWED_IP[size].pack(
        24 + size,
        NLA_F_NESTED,
        6,
        ALLOWED_IP_FAMILY,
        family,
        4 + size,
        ALLOWED_IP_ADDRESS,
        raw,
        5,
        ALLOWED_IP_MASK,
        int(length),
    )


def encode_endpoint(text: str) -> bytes:
    """A literal endpoint as sockaddr_in or sockaddr_in6."""
    host, _colon, port = text.rpartition(":")
    if host.startswith("["):
        raw = socket.inet_pton(socket.AF_INET6, host[1:-1])
        return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI16sI", int(port), 0, raw, 0)
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", int(port), socket.inet_pton(socket.AF_INET, host))


def decode_endpoint(raw: bytes) -> str | None:
    """The inverse; None for an address family that nobody knows."""
    family = struct.unpack_from("=H", raw)[0]
    port = struct.unpack_from("!H", raw, 2)[0]
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(socket.AF_INET, raw[4:8])}:{port}"
    if family == socket.AF_INET6:
        return f"[{socket.inet_ntop(socket.AF_INET6, raw[8:24])}]:{port}"
    return None


def encode_step(step: PeerStep) -> list[bytes]:
    """A step as one or (with thousands of allowed IPs) several peer attributes, in order."""
    key = attribute(PEER_PUBLIC_KEY, key_bytes(step.public_key))
    if step.remove:
        return [attribute(NLA_F_NESTED, key + attribute(PEER_FLAGS, struct.pack("=I", FLAG_REMOVE)))]
    flags = FLAG_UPDATE_ONLY if step.update_only else 0
    flags |= FLAG_REPLACE_ALLOWED_IPS if step.replace_allowed_ips else 0
    body = key + (attribute(PEER_FLAGS, struct.pack("=I", flags)) if flags else b"")
    if step.preshared is not None:
        body += attribute(PEER_PRESHARED_KEY, read_preshared_key(step.preshared))
    if step.endpoint is not None:
        body += attribute(PEER_ENDPOINT, encode_endpoint(step.endpoint))
    if step.keepalive is not None:
        body += attribute(PEER_KEEPALIVE, struct.pack("=H", step.keepalive))
    entries = [encode_allowed_ip(cidr) for cidr in step.allowed_ips]
    parts = _split(entries, _ALLOWED_IP_BYTES)
    later = key + attribute(PEER_FLAGS, struct.pack("=I", FLAG_UPDATE_ONLY))
    encoded = []
    for index, part in enumerate(parts or [[]]):
        nest = attribute(PEER_ALLOWED_IPS | NLA_F_NESTED, b"".join(part)) if part else b""
        encoded.append(attribute(NLA_F_NESTED, (later if index else body) + nest))
    return encoded


def encode_messages(name: str, steps: t.Iterable[PeerStep]) -> list[bytes]:
    """Steps as payloads of WG_CMD_SET_DEVICE, each within the limits of one message."""
    encoded = [peer for step in steps for peer in encode_step(step)]
    ifname = attribute(DEVICE_IFNAME, name.encode() + b"\0")
    chunks = _split(encoded, MAX_ATTRIBUTE - 4, PEERS_PER_MESSAGE)
    return [ifname + attribute(DEVICE_PEERS | NLA_F_NESTED, b"".join(chunk)) for chunk in chunks]


def _split(parts: list[bytes], limit: int, count: int = 1 << 30) -> list[list[bytes]]:
    groups: list[list[bytes]] = []
    size = limit + 1
    for part in parts:
        if size + len(part) > limit or len(groups[-1]) >= count:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += len(part)
    return groups


@from_kernel("WireGuard")
def decode_dump(answers: t.Iterable[bytes]) -> Dump:
    """A device from all messages of its dump: a peer with allowed IPs in several is one peer again.

    The private key in the answer is not looked at: the kernel sends the public key alongside it.
    """
    dump, peers = EMPTY, PeerReader()
    for answer in answers:
        for kind, value in attributes(answer):
            if kind == DEVICE_PUBLIC_KEY and value != NO_KEY:
                dump = dump._replace(public_key=encode_key(value))
            elif kind == DEVICE_LISTEN_PORT:
                dump = dump._replace(listen_port=struct.unpack("=H", value)[0])
            elif kind == DEVICE_FWMARK:
                dump = dump._replace(fwmark=struct.unpack("=I", value)[0])
            elif kind == DEVICE_PEERS:
                for _index, peer in attributes(value):
                    key, reported, networks = decode_peer(peer)
                    fields, ranges = peers.part(key)
                    fields.update(reported)
                    ranges.extend(networks)
    return dump._replace(peers=peers.peers())


@from_kernel("WireGuard")
def decode_secrets(answers: t.Iterable[bytes]) -> dict[str, t.Any]:
    """Private and preshared keys of a dump, as described at wireguard.open_device."""
    found: dict[str, t.Any] = {"private_key": None, "preshared": {}}
    for answer in answers:
        for kind, value in attributes(answer):
            if kind == DEVICE_PRIVATE_KEY and value != NO_KEY:
                found["private_key"] = encode_key(value)
            elif kind == DEVICE_PEERS:
                for _index, peer in attributes(value):
                    fields = dict(attributes(peer))
                    if fields.get(PEER_PRESHARED_KEY, NO_KEY) != NO_KEY:
                        found["preshared"][encode_key(fields[PEER_PUBLIC_KEY])] = encode_key(fields[PEER_PRESHARED_KEY])
    return found


def decode_peer(data: bytes) -> tuple[str, dict[str, t.Any], list[str]]:
    """(public key, fields of LivePeer, allowed IPs) of one entry of WGDEVICE_A_PEERS. The preshared key leaves as its fingerprint."""
    key = ""
    ranges: list[str] = []
    peer: dict[str, t.Any] = {}
    for kind, value in attributes(data):
        if kind == PEER_PUBLIC_KEY:
            key = encode_key(value)
        elif kind == PEER_PRESHARED_KEY and value != NO_KEY:
            peer["preshared_key"] = fingerprint(encode_key(value))
        elif kind == PEER_ENDPOINT:
            peer["endpoint"] = decode_endpoint(value)
        elif kind == PEER_KEEPALIVE:
            peer["keepalive"] = struct.unpack("=H", value)[0]
        elif kind == PEER_LAST_HANDSHAKE:
            peer["last_handshake"] = handshake_time(*struct.unpack_from("=qq", value))
        elif kind == PEER_RX_BYTES:
            peer["rx_bytes"] = struct.unpack("=Q", value)[0]
        elif kind == PEER_TX_BYTES:
            peer["tx_bytes"] = struct.unpack("=Q", value)[0]
        elif kind == PEER_ALLOWED_IPS:
            ranges.extend(_decode_allowed_ip(entry) for _index, entry in attributes(value))
    return key, peer, ranges


def _decode_allowed_ip(entry: bytes) -> str:
    address, length = "", 0
    for kind, value in attributes(entry):
        if kind == ALLOWED_IP_ADDRESS:
            address = socket.inet_ntop(socket.AF_INET if len(value) == 4 else socket.AF_INET6, value)
        elif kind == ALLOWED_IP_MASK:
            length = value[0]
    return f"{address}/{length}"


class KernelDevice:
    """One device of the kernel's WireGuard. Methods as described at wireguard.open_device."""

    kind = "kernel"

    def __init__(self, name: str) -> None:
        self.name = name
        self.writes = 0
        self._socket = GenericSocket("wireguard")

    def dump(self) -> Dump:
        return decode_dump(self._read())

    def secrets(self) -> dict[str, t.Any]:
        return decode_secrets(self._read())

    def _read(self) -> list[bytes]:
        ifname = attribute(DEVICE_IFNAME, self.name.encode() + b"\0")
        try:
            return list(self._socket.dump(WG_CMD_GET_DEVICE, ifname))
        except NetlinkRefused as error:
            raise self._failed("read", error) from None

    def configure(
        self,
        private_key: bytes | None = None,
        listen_port: int | None = None,
        fwmark: int | None = None,
    ) -> None:
        body = b""
        if private_key is not None:
            body += attribute(DEVICE_PRIVATE_KEY, private_key)
        if listen_port is not None:
            body += attribute(DEVICE_LISTEN_PORT, struct.pack("=H", listen_port))
        if fwmark is not None:
            body += attribute(DEVICE_FWMARK, struct.pack("=I", fwmark))
        if body:
            self._send(attribute(DEVICE_IFNAME, self.name.encode() + b"\0") + body)

    def apply(self, steps: t.Sequence[PeerStep]) -> None:
        """Send steps in order; each message is applied by the kernel peer by peer, in order."""
        for payload in encode_messages(self.name, steps):
            self._send(payload)

    def _send(self, payload: bytes) -> None:
        self.writes += 1
        try:
            self._socket.send(WG_CMD_SET_DEVICE, payload)
        except NetlinkRefused as error:
            raise self._failed("configure", error) from None

    def _failed(self, operation: str, error: NetlinkRefused) -> LinuxError:
        if error.errno in (errno.ENODEV, errno.EOPNOTSUPP):
            return LinuxError(operation, self.name, "it is not a WireGuard device of the kernel")
        if error.errno == errno.EADDRINUSE:
            return LinuxError(operation, self.name, PORT_TAKEN)
        return LinuxError(operation, self.name, str(error))

    def close(self) -> None:
        self._socket.close()
