# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is: its links with their hardware addresses, the addresses that it has, its name."""

from __future__ import annotations

import os
import socket
import typing as t

from ..netlink.links import ETHERNET, read_links

Data = t.Dict[str, t.Any]


def read_host() -> Data:
    """``{"links": [{name, type, kind, mac}], "configured": [{address, device, up, scope}], "hostname", "operating_system"}``.

    type: ``ether`` or the kernel's number. up: in use, which for hardware needs a carrier. Raises LinuxError.
    """
    found = read_links()
    links = [
        {"name": link.name, "type": "ether" if link.hardware == ETHERNET else str(link.hardware), "kind": link.kind or None, "mac": link.mac}
        for link in found
    ]
    configured = [
        {"address": address.text, "device": link.name, "up": link.in_use, "scope": address.scope} for link in found for address in link.addresses
    ]
    return {"links": links, "configured": configured, "hostname": socket.gethostname(), "operating_system": _system()}


def _system() -> str:
    try:
        with open("/etc/os-release", encoding="utf-8", errors="replace") as source:
            for line in source:
                name, _equals, value = line.strip().partition("=")
                if name == "PRETTY_NAME":
                    return value.strip("\"'")
    except OSError:
        pass
    return ""


def set_reverse_path_filter(device: str, value: int) -> bool:
    """The reverse path filter of one device; the effective one is the larger of this and that of all. True when written."""
    path = "/proc/sys/net/ipv4/conf/{0}/rp_filter".format(device)
    try:
        with open(path, encoding="ascii") as source:
            if source.read().strip() == str(value):
                return False
        with open(path, "w", encoding="ascii") as target:
            target.write(str(value))
    except OSError:
        return False  # no such device, or no IPv4: there is nothing to filter
    return True


def reverse_path_filter(device: str) -> t.Optional[int]:
    """The device's own value; None where it has none."""
    try:
        with open("/proc/sys/net/ipv4/conf/{0}/rp_filter".format(device), encoding="ascii") as source:
            return int(source.read().strip())
    except (OSError, ValueError):
        return None


def new_random(size: int) -> bytes:
    """Random bytes of the kernel's."""
    return os.urandom(size)
