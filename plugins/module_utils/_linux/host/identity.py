# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is: its links with their hardware addresses, the addresses that it has, its name."""

from __future__ import annotations

import os
import socket
import typing as t

from ..netlink.ip_command import ip_json

Data = t.Dict[str, t.Any]
_SCOPES = {"0": "global", "200": "site", "253": "link", "254": "host"}
_ETHERNET = ("ether", "[1]", "1")


def read_host() -> Data:
    """``{"links": [{name, type, kind, mac}], "configured": [{address, device, up, scope}], "hostname", "operating_system"}``.

    type: ``ether`` or the kernel's number. up: in use, which for hardware needs a carrier. Raises LinuxError.
    """
    links: t.List[Data] = []
    configured: t.List[Data] = []
    for entry in ip_json(["address", "show"]):
        kind = entry.get("linkinfo", {}).get("info_kind") or None
        ethernet = str(entry.get("link_type")) in _ETHERNET
        links.append({"name": entry["ifname"], "type": "ether" if ethernet else str(entry.get("link_type")), "kind": kind, "mac": entry.get("address")})
        used = str(entry.get("operstate", "")).upper() in ("UP", "UNKNOWN") and "UP" in entry.get("flags", ())
        for address in entry.get("addr_info", ()):
            if "local" in address:
                configured.append(
                    {
                        "address": "{0}/{1}".format(address["local"], address["prefixlen"]),
                        "device": entry["ifname"],
                        "up": used and not (kind is None and "LOWER_UP" not in entry.get("flags", ())),
                        "scope": _SCOPES.get(str(address.get("scope")), str(address.get("scope"))),
                    }
                )
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
