# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""wireguard-go's control socket: the cross-platform text protocol (get=1 and set=1, keys in hexadecimal)."""

from __future__ import annotations

import errno
import socket
import typing as t

from ..._dataplane.peer_spec import EMPTY, Dump, PeerStep
from ..._values.keys import encode_key, fingerprint, key_bytes, public_key
from ..._values.text import is_digits
from ..errors import PORT_TAKEN, LinuxError, os_reason
from .keys import NO_KEY, PeerReader, handshake_time, read_preshared_key

SOCKET_DIRECTORY = "/var/run/wireguard"
#: 5,000 peers take about two megabytes.
_MAX_ANSWER = 64 * 1024 * 1024
_TIMEOUT = 20.0
R = t.TypeVar("R")


def socket_path(name: str) -> str:
    """Where wireguard-go listens for a device."""
    return f"{SOCKET_DIRECTORY}/{name}.sock"


def encode_steps(steps: t.Iterable[PeerStep]) -> list[str]:
    """Steps as lines of a set operation."""
    lines: list[str] = []
    for step in steps:
        lines.append("public_key=" + key_bytes(step.public_key).hex())
        if step.remove:
            lines.append("remove=true")
            continue
        if step.update_only:
            lines.append("update_only=true")
        if step.preshared is not None:
            lines.append("preshared_key=" + read_preshared_key(step.preshared).hex())
        if step.endpoint is not None:
            lines.append("endpoint=" + step.endpoint)
        if step.keepalive is not None:
            lines.append(f"persistent_keepalive_interval={step.keepalive}")
        if step.replace_allowed_ips:
            lines.append("replace_allowed_ips=true")
        lines.extend("allowed_ip=" + cidr for cidr in step.allowed_ips)
    return lines


def decode_dump(lines: t.Iterable[str]) -> Dump:
    """A device from the lines of a get operation.

    The private key is turned into the public one here and goes nowhere else.
    """
    device: dict[str, t.Any] = {}
    peers = PeerReader()
    fields, ranges = {}, []  # type: t.Dict[str, t.Any], t.List[str]
    for line in lines:
        key, equals, value = line.partition("=")
        if not equals:
            raise ValueError("a line without '='")
        if key == "public_key":
            fields, ranges = peers.part(encode_key(bytes.fromhex(value)))
        elif key == "private_key":
            device["public_key"] = public_key(bytes.fromhex(value)) if value.strip("0") else None
        elif key in ("listen_port", "fwmark"):
            device[key] = int(value)
        elif key == "preshared_key":
            raw = bytes.fromhex(value)
            fields["preshared_key"] = fingerprint(encode_key(raw)) if raw != NO_KEY else None
        elif key == "endpoint":
            fields["endpoint"] = value
        elif key == "persistent_keepalive_interval":
            fields["keepalive"] = int(value)
        elif key == "last_handshake_time_sec":
            fields["last_handshake"] = int(value)
        elif key == "last_handshake_time_nsec":
            fields["last_handshake"] = handshake_time(fields["last_handshake"], int(value))
        elif key in ("rx_bytes", "tx_bytes"):
            fields[key] = int(value)
        elif key == "allowed_ip":
            ranges.append(value)
    return EMPTY._replace(peers=peers.peers(), **device)


def decode_secrets(lines: t.Iterable[str]) -> dict[str, t.Any]:
    """Private and preshared keys of a get operation, as described at wireguard.open_device."""
    found: dict[str, t.Any] = {"private_key": None, "preshared": {}}
    peer = ""
    for line in lines:
        key, _equals, value = line.partition("=")
        if key in ("private_key", "public_key", "preshared_key"):
            raw = bytes.fromhex(value)
            if key == "public_key":
                peer = encode_key(raw)
            elif raw != NO_KEY and key == "private_key":
                found["private_key"] = encode_key(raw)
            elif raw != NO_KEY:
                found["preshared"][peer] = encode_key(raw)
    return found


class UserspaceDevice:
    """One device of wireguard-go. Methods as described at wireguard.open_device; each operation has its own connection."""

    kind = "userspace"

    def __init__(self, name: str) -> None:
        self.name = name
        self.writes = 0

    def dump(self) -> Dump:
        return self._read(decode_dump)

    def secrets(self) -> dict[str, t.Any]:
        return self._read(decode_secrets)

    def _read(self, decode: t.Callable[[list[str]], R]) -> R:
        lines = self._operation("read", ["get=1"])
        try:
            return decode(lines)
        except (ValueError, KeyError):
            # The line itself may be a private key: it is not repeated.
            raise LinuxError("read", self.name, "wireguard-go's answer is not understood") from None

    def configure(
        self,
        private_key: bytes | None = None,
        listen_port: int | None = None,
        fwmark: int | None = None,
    ) -> None:
        lines = []
        if private_key is not None:
            lines.append("private_key=" + private_key.hex())
        if listen_port is not None:
            lines.append(f"listen_port={listen_port}")
        if fwmark is not None:
            lines.append(f"fwmark={fwmark}")
        if lines:
            self._set(lines)

    def apply(self, steps: t.Sequence[PeerStep]) -> None:
        if steps:
            self._set(encode_steps(steps))

    def _set(self, lines: list[str]) -> None:
        self.writes += 1
        self._operation("configure", ["set=1"] + lines)

    def _operation(self, operation: str, lines: list[str]) -> list[str]:
        """Send one operation and return the lines of its answer without the closing errno."""
        try:
            data = self._talk(("\n".join(lines) + "\n\n").encode("ascii"))
        except OSError as error:
            raise LinuxError(operation, self.name, "wireguard-go: " + os_reason(error)) from None
        answer = data.decode("ascii", "replace").strip("\n").split("\n")
        key, _equals, number = answer.pop().partition("=")
        if key != "errno" or not is_digits(number[1:] if number.startswith("-") else number):
            raise LinuxError(operation, self.name, "wireguard-go's answer has no end")
        if int(number):
            if abs(int(number)) == errno.EADDRINUSE:
                raise LinuxError(operation, self.name, PORT_TAKEN)
            reason = os_reason(OSError(abs(int(number)), ""))
            raise LinuxError(operation, self.name, "wireguard-go refused: " + reason)
        return answer

    def _talk(self, request: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
            connection.settimeout(_TIMEOUT)
            connection.connect(socket_path(self.name))
            connection.sendall(request)
            parts: list[bytes] = []
            size = 0
            tail = b""
            # An answer ends with "errno=N" and an empty line; wireguard-go keeps the connection open after it.
            while not tail.endswith(b"\n\n"):
                part = connection.recv(1 << 16)
                if not part:
                    break
                parts.append(part)
                tail = (tail + part)[-2:]
                size += len(part)
                if size > _MAX_ANSWER:
                    raise OSError(errno.EMSGSIZE, "too long")
            return b"".join(parts)

    def close(self) -> None:
        """Nothing is held between operations."""
