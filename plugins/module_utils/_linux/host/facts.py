# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is: its links and addresses, name, kernel with its parts, units, journal, programs. Read only, no domain."""

from __future__ import annotations

import os
import socket
import typing as t

from ..files import read_lines
from ..netlink.links import ETHERNET, read_links
from ..programs import FAILURES, MERGED, find_program, run
from .systemd import running

Data = dict[str, t.Any]

_SECONDS = 20
_UNIT_FIELDS = {
    "Id": "name",
    "LoadState": "load",
    "ActiveState": "active",
    "SubState": "sub",
    "Result": "result",
    "UnitFileState": "enabled",
}
#: A kernel part is there when it is loaded, built in, or a file that can be loaded.
_LOADED, _BUILTIN, _FILE, _MISSING = "loaded", "builtin", "available", "missing"


def read_host() -> Data:
    """``{"links": [{name, type, kind, mac}], "configured": [rows], "hostname", "operating_system"}``. Rows are
    ``{address, device, kind, up, scope, permanent, protocol}``.

    type: ``ether`` or the kernel's number. up: in use, which for hardware needs a carrier. permanent, protocol: as links.Address has them. Raises LinuxError.
    """
    found = read_links()
    links = [
        {
            "name": link.name,
            "type": "ether" if link.hardware == ETHERNET else str(link.hardware),
            "kind": link.kind or None,
            "mac": link.mac,
        }
        for link in found
    ]
    configured: list[Data] = [
        {
            "address": address.text,
            "device": link.name,
            "kind": link.kind,
            "up": link.in_use,
            "scope": address.scope,
            "permanent": address.permanent,
            "protocol": address.protocol,
        }
        for link in found
        for address in link.addresses
    ]
    return {"links": links, "configured": configured, "hostname": socket.gethostname(), "operating_system": _system()}


def _system() -> str:
    for line in read_lines("/etc/os-release"):
        name, _equals, value = line.strip().partition("=")
        if name == "PRETTY_NAME":
            return value.strip("\"'")
    return ""


def read_kernel(parts: t.Sequence[str] = ()) -> Data:
    """``{"release", "machine", "parts": {name: loaded|builtin|available|missing}}``."""
    system = os.uname()
    folder = "/lib/modules/" + system.release
    files = read_lines(folder + "/modules.dep")
    builtin = read_lines(folder + "/modules.builtin")
    loaded = {line.split(" ", 1)[0] for line in read_lines("/proc/modules")}
    found = {}
    for name in parts:
        if name.replace("-", "_") in loaded or os.path.isdir("/sys/module/" + name.replace("-", "_")):
            found[name] = _LOADED
        elif any(_is_part(line, name) for line in builtin):
            found[name] = _BUILTIN
        else:
            found[name] = _FILE if any(_is_part(line.split(":", 1)[0], name) for line in files) else _MISSING
    return {"release": system.release, "machine": system.machine, "parts": found}


def _is_part(path: str, name: str) -> bool:
    return os.path.basename(path).split(".ko", maxsplit=1)[0].replace("-", "_") == name.replace("-", "_")


def exists(path: str) -> bool:
    return os.path.lexists(path)


def has_legacy_iptables() -> bool:
    """Whether tables of the old iptables are in use here: what their rules do to a packet, nftables does not tell."""
    return any(
        line.strip()
        for name in ("ip_tables_names", "ip6_tables_names")
        for line in read_lines("/proc/self/net/" + name)
    )


#: Why packets end without a rule, by the kernel's names.
_IP_COUNTERS = {
    "Ip": (
        "InHdrErrors",
        "InAddrErrors",
        "ForwDatagrams",
        "InUnknownProtos",
        "InDiscards",
        "OutDiscards",
        "OutNoRoutes",
        "FragFails",
    ),
    "IpExt": ("InNoRoutes", "InTruncatedPkts"),
    "TcpExt": ("IPReversePathFilter",),
}
_IP6_COUNTERS = (
    "InHdrErrors",
    "InTooBigErrors",
    "InNoRoutes",
    "InAddrErrors",
    "InDiscards",
    "OutForwDatagrams",
    "OutDiscards",
    "OutNoRoutes",
    "FragFails",
)


def read_ip_counters() -> dict[str, int]:
    """The kernel's counters of packets that end without a rule, by its own names (``Ip6`` in front for IPv6)."""
    found: dict[str, int] = {}
    for name in ("snmp", "netstat"):
        lines = read_lines("/proc/self/net/" + name)
        for heads, numbers in zip(lines[::2], lines[1::2]):
            desired = _IP_COUNTERS.get(heads.partition(":")[0], ())
            pairs = zip(heads.split(), numbers.split())
            found.update((head, int(number)) for head, number in pairs if head in desired)
    for line in read_lines("/proc/self/net/snmp6"):
        words = line.split()
        if len(words) == 2 and words[0].startswith("Ip6") and words[0][3:] in _IP6_COUNTERS:
            found[words[0]] = int(words[1])
    return found


def read_units(names: t.Sequence[str]) -> list[Data]:
    """``[{name, load, active, sub, result, enabled}]`` of systemd units; empty where systemd does not run."""
    if not names or not running():
        return []
    words = ["systemctl", "show", "--no-pager", "--property=" + ",".join(_UNIT_FIELDS), "--", *names]
    found = []
    for block in _output(words).strip().split("\n\n"):
        pairs = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if pairs:
            found.append({name: pairs.get(field, "") for field, name in _UNIT_FIELDS.items()})
    return found


def read_journal(units: t.Sequence[str], lines: int) -> list[str]:
    """The last lines of the journal of some units, oldest first."""
    if not units or not running():
        return []
    words = ["journalctl", "--no-pager", "--quiet", "--output=short-iso", f"--lines={lines}"]
    return _output(words + ["--unit=" + unit for unit in units]).splitlines()


def read_versions(programs: t.Mapping[str, t.Sequence[str]]) -> dict[str, str]:
    """Program -> the first line of what it prints as its version; "" where it is missing. programs: name -> arguments."""
    found = {}
    for name, arguments in programs.items():
        path = find_program(name)
        found[name] = next(iter(_output([path, *arguments]).splitlines()), "") if path else ""
    return found


def _output(words: t.Sequence[str]) -> str:
    try:
        done = run(
            words,
            _SECONDS,
            stderr=MERGED,
            env={"LC_ALL": "C", "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), "SYSTEMD_PAGER": ""},
        )
    except FAILURES:
        return ""
    return done.stdout.decode("utf-8", "replace")
