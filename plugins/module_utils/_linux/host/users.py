# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses what on a host: firewall marks, UDP ports, tables of nftables, WireGuard devices. Read only."""

from __future__ import annotations

import struct
import typing as t

from ..._values.text import lower
from ..errors import LinuxError
from ..files import read_lines
from ..netlink.links import read_links
from ..netlink.messages import NetlinkRefused, attributes
from ..netlink.rules import read_rules
from ..nftables import codec
from ..nftables.netlink import NetfilterSocket
from ..nftables.rules import RULE_CHAIN, RULE_TABLE, decode_expressions
from ..nftables.table import list_tables, read_table
from ..wireguard.device import read_device, socket_state

Data = dict[str, t.Any]
_ALL = 0xFFFFFFFF
_META_MARK = 3
_MARK = struct.Struct("=I")
#: iptables' own names of what reads and writes marks, and what it keeps about them.
_XT_MARK = struct.Struct("=II")
#: By revision: the later one can shift, too.
_XT_CONNMARK = {1: struct.Struct("=IIIB"), 2: struct.Struct("=IIIxxB")}
_CONNMARK_RESTORE = 2
_XT_NAME, _XT_REVISION, _XT_INFO = 1, 2, 3


def read_tables() -> list[Data]:
    """``[{family, name, owner}]`` of all tables of nftables; the owner of one that was taken over is in its chains."""
    found = []
    for table in list_tables():
        owner = table["owner"]
        if owner is None and table["family"] in codec.FAMILIES:
            whole = read_table(table["family"], table["name"], ())
            owners = {chain["owner"] for chain in whole["chains"]} if whole else set()
            owner = owners.pop() if len(owners) == 1 else None
        found.append({"family": table["family"], "name": table["name"], "owner": owner})
    return found


def read_mark_users() -> list[Data]:
    """``[{who, mark, mask, table}]``: which bits rules of nftables (iptables' own ones too) and of routing read or write.

    mark: the value that they look for or set; mask: the bits that they care for. table: (family, name) for nftables' rules.
    What eBPF programs or the old iptables do is not seen. Raises LinuxError.
    """
    found: dict[tuple[t.Any, ...], Data] = {}
    try:
        with NetfilterSocket() as netlink:
            answers = netlink.dump(codec.GETRULE)
    except NetlinkRefused as error:
        raise LinuxError("read", "rules of nftables", str(error)) from None
    names = {number: name for name, number in codec.FAMILIES.items()}
    for family, body in answers:
        parts = dict(attributes(body))
        table = (names.get(family, str(family)), codec.read_text(parts.get(RULE_TABLE, b"")))
        who = "nftables chain {0} {1} {2}".format(*table, codec.read_text(parts.get(RULE_CHAIN, b"")))
        for mark, mask in marks_of(decode_expressions(body)):
            found.setdefault((who, mark, mask), {"who": who, "mark": mark, "mask": mask, "table": table})
    for version in (4, 6):
        for rule in read_rules(version):
            if rule["fwmark"] is not None:
                who = f"IPv{version} rule {rule['priority']}"
                mask = _ALL if rule["fwmask"] is None else rule["fwmask"]
                entry = {"who": who, "mark": rule["fwmark"], "mask": mask, "table": None, "rule": rule}
                found.setdefault((who, rule["fwmark"], mask), entry)
    return [found[key] for key in sorted(found)]


def marks_of(expressions: t.Iterable[tuple[str, t.Mapping[str, t.Any]]]) -> list[tuple[int, int]]:
    """(mark, mask) of everything in a rule that looks at the packet's mark or changes it."""
    found: list[tuple[int, int]] = []
    mask, xor, loaded, value = _ALL, 0, False, None  # the register that everybody uses
    for name, fields in expressions:
        raw = fields.get("data")
        if name == "meta" and fields.get("key") == _META_MARK and "dreg" in fields:
            mask, xor, loaded, value = _ALL, 0, True, None
        elif name == "meta" and fields.get("key") == _META_MARK and "sreg" in fields:
            changed = (_ALL & ~mask | xor) if loaded else _ALL
            found.append((value if value is not None and not loaded else xor, changed))
            loaded = False
        elif (
            name == "bitwise" and loaded and len(fields.get("mask") or b"") == 4 and len(fields.get("xor") or b"") == 4
        ):
            mask, xor = _MARK.unpack(fields["mask"])[0] & mask, _MARK.unpack(fields["xor"])[0]
        elif name in ("cmp", "lookup") and loaded:
            found.append((_MARK.unpack(raw)[0] if isinstance(raw, bytes) and len(raw) == 4 else 0, mask))
        elif name == "immediate":
            loaded, value = False, _MARK.unpack(raw)[0] if isinstance(raw, bytes) and len(raw) == 4 else None
        elif name in ("match", "target") and "unknown" in fields:
            found.extend(_xtables(bytes.fromhex(fields["unknown"])))
        elif "dreg" in fields:
            loaded, value = False, None
    return found


def _xtables(data: bytes) -> t.Iterator[tuple[int, int]]:
    """The marks and masks of an extension of iptables."""
    parts = dict(attributes(data))
    name, info = codec.read_text(parts.get(_XT_NAME, b"")), parts.get(_XT_INFO, b"")
    if lower(name) == "mark" and len(info) >= _XT_MARK.size:
        mark, mask = _XT_MARK.unpack_from(info)
        yield mark, mask
    elif name == "CONNMARK" and len(info) >= 16:
        form = _XT_CONNMARK[1 if parts.get(_XT_REVISION) == codec.u32(1) else 2]
        _mark, _mask, of_packet, mode = form.unpack_from(info)
        if mode == _CONNMARK_RESTORE:
            yield 0, of_packet


def read_udp_ports() -> list[int]:
    """Local UDP ports that are taken, ascending. The kernel's own WireGuard sockets are not among them."""
    ports = set()
    for name in ("udp", "udp6"):
        for line in read_lines("/proc/self/net/" + name)[1:]:
            fields = line.split()
            if len(fields) > 2 and fields[2].endswith(":0000"):
                ports.add(int(fields[1].rsplit(":", maxsplit=1)[1], 16))
    return sorted(ports)


def read_wireguard() -> list[Data]:
    """``[{name, fwmark, listen_port}]`` of all WireGuard devices, whoever implements them, sorted by name."""
    found = []
    for link in read_link_kinds():
        if link["kind"] == "wireguard" or (link["kind"] == "tun" and socket_state(link["name"]) == "alive"):
            dump = read_device(link["name"], "kernel" if link["kind"] == "wireguard" else "userspace")
            found.append({"name": link["name"], "fwmark": dump.fwmark, "listen_port": dump.listen_port})
    return sorted(found, key=lambda device: device["name"])


def read_link_kinds() -> list[Data]:
    """``[{name, kind}]`` of all links; kind "" for hardware. A device that wireguard-go serves is a ``tun``."""
    return [{"name": link.name, "kind": link.kind} for link in read_links()]
