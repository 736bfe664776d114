# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy routing rules: read by one dump a family, written step by step in the order that is given.

A rule is ``{"version": 4|6, "priority": int, "action": name, "table": int|None, "protocol": int|None (not set), "fwmark",
"fwmask", "src", "dst", "iif", "oif", "tos", "invert", "suppress_prefixlength", "suppress_ifgroup", "ipproto", "sport",
"dport", "uidrange", "goto", "l3mdev", "other"}``; what a rule has not is None, or False. ``other``: numbers of attributes
that are not understood, so that a rule with one never equals a rule without.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
import typing as t

from ..errors import LinuxError
from .messages import (
    ADDRESS_FAMILIES,
    NLM_F_CREATE,
    NLM_F_EXCL,
    NetlinkRefused,
    RouteSocket,
    attribute,
    attributes,
    from_kernel,
)

Rule = dict[str, t.Any]

RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
_HEADER = struct.Struct("=BBBBBBBBI")
_INVERT = 2
_UNSET = 0xFFFFFFFF
ACTIONS = {"to_table": 1, "goto": 2, "nop": 3, "blackhole": 6, "unreachable": 7, "prohibit": 8}
_ACTION_NAMES = {number: name for name, number in ACTIONS.items()}
_DST, _SRC, _IIF, _GOTO, _PRIORITY, _FWMARK, _SUPPRESS_IFGROUP, _SUPPRESS_PREFIXLENGTH = 1, 2, 3, 4, 6, 10, 13, 14
_TABLE, _FWMASK, _OIF, _PAD, _L3MDEV, _UIDRANGE, _PROTOCOL, _IPPROTO, _SPORT, _DPORT = (
    15,
    16,
    17,
    18,
    19,
    20,
    21,
    22,
    23,
    24,
)
_NUMBERS = {_PRIORITY: "priority", _FWMARK: "fwmark", _FWMASK: "fwmask", _TABLE: "table", _GOTO: "goto"}
_NAMES = {_IIF: "iif", _OIF: "oif"}
_BYTES = {_PROTOCOL: "protocol", _IPPROTO: "ipproto", _L3MDEV: "l3mdev"}
_SUPPRESSORS = {_SUPPRESS_IFGROUP: "suppress_ifgroup", _SUPPRESS_PREFIXLENGTH: "suppress_prefixlength"}
_RANGES = {_SPORT: "sport", _DPORT: "dport"}
#: Realms and the like, which a kernel sends for every rule with nothing in them.
_PLAIN = (_PAD,)


def read_rules(version: int) -> list[Rule]:
    """All rules of a family in the kernel's order, those of the kernel included. Raises LinuxError."""
    with RouteSocket("routing rules") as netlink:
        try:
            answers = netlink.dump_messages(
                RTM_GETRULE, _HEADER.pack(ADDRESS_FAMILIES[version], 0, 0, 0, 0, 0, 0, 0, 0)
            )
        except NetlinkRefused as error:
            raise LinuxError("read", f"IPv{version} rules", str(error)) from None
    return [decode_rule(answer) for answer in answers if answer[0] == ADDRESS_FAMILIES[version]]


def new_rule(version: int) -> Rule:
    """A rule without any selector or action."""
    rule: Rule = dict.fromkeys(
        [
            "priority",
            "table",
            "protocol",
            "fwmark",
            "fwmask",
            "src",
            "dst",
            "iif",
            "oif",
            "tos",
            "suppress_prefixlength",
            "suppress_ifgroup",
            "ipproto",
            "sport",
            "dport",
            "uidrange",
            "goto",
            "l3mdev",
        ]
    )
    return dict(rule, version=version, priority=0, action="to_table", invert=False, other=[])


@from_kernel("a rule of policy routing")
def decode_rule(body: bytes) -> Rule:
    """One answer of a dump."""
    family, dst_length, src_length, tos, table, _res1, _res2, action, flags = _HEADER.unpack_from(body)
    version = 6 if family == socket.AF_INET6 else 4
    rule = new_rule(version)
    rule.update(
        action=_ACTION_NAMES.get(action, str(action)),
        invert=bool(flags & _INVERT),
        tos=tos or None,
        table=table or None,
    )
    for kind, value in attributes(body[_HEADER.size :]):
        if kind in _NUMBERS:
            rule[_NUMBERS[kind]] = struct.unpack("=I", value)[0]
        elif kind in _NAMES:
            rule[_NAMES[kind]] = value.rstrip(b"\0").decode("utf-8", "replace")
        elif kind in _BYTES:
            rule[_BYTES[kind]] = value[0] or None
        elif kind in _SUPPRESSORS:
            number = struct.unpack("=I", value)[0]
            rule[_SUPPRESSORS[kind]] = None if number == _UNSET else number
        elif kind in _RANGES:
            rule[_RANGES[kind]] = list(struct.unpack("=HH", value))
        elif kind == _UIDRANGE:
            rule["uidrange"] = list(struct.unpack("=II", value))
        elif kind in (_SRC, _DST):
            length = src_length if kind == _SRC else dst_length
            # as what is desired is written: the C library writes mapped addresses otherwise
            rule["src" if kind == _SRC else "dst"] = f"{ipaddress.ip_address(value)}/{length}"
        elif kind not in _PLAIN and any(value):
            rule["other"].append(kind)
    if rule["fwmask"] is not None and rule["fwmark"] is None:
        rule["fwmark"] = 0
    if rule["action"] != "to_table":
        rule["table"] = None
    return rule


def encode_rule(rule: t.Mapping[str, t.Any]) -> bytes:
    """The body of RTM_NEWRULE and RTM_DELRULE. Names that are missing count as None."""
    family = ADDRESS_FAMILIES[rule["version"]]
    lengths, body = [], b""
    for name, kind in (("dst", _DST), ("src", _SRC)):
        address, _slash, length = (rule.get(name) or "").partition("/")
        lengths.append(int(length) if address else 0)
        body += attribute(kind, socket.inet_pton(family, address)) if address else b""
    table = rule.get("table") or 0
    for kind, name in _NUMBERS.items():
        if rule.get(name) is not None:
            body += attribute(kind, struct.pack("=I", rule[name]))
    for kind, name in _NAMES.items():
        if rule.get(name):
            body += attribute(kind, rule[name].encode("utf-8") + b"\0")
    for kind, name in _BYTES.items():
        if rule.get(name):
            body += attribute(kind, bytes([rule[name]]))
    for kind, name in _SUPPRESSORS.items():
        if rule.get(name) is not None:
            body += attribute(kind, struct.pack("=I", rule[name]))
    for kind, name in _RANGES.items():
        if rule.get(name):
            body += attribute(kind, struct.pack("=HH", *rule[name]))
    if rule.get("uidrange"):
        body += attribute(_UIDRANGE, struct.pack("=II", *rule["uidrange"]))
    action = ACTIONS[rule.get("action") or "to_table"]
    flags = _INVERT if rule.get("invert") else 0
    small = table if table < 256 else 0
    return _HEADER.pack(family, lengths[0], lengths[1], rule.get("tos") or 0, small, 0, 0, action, flags) + body


def apply_rules(steps: t.Sequence[t.Mapping[str, t.Any]]) -> int:
    """Steps ``{"op": "add" or "delete", "rule"}`` one by one, in this order; returns how many the kernel took.

    What is there already, or gone already, is as it should be. The first step that the kernel refuses ends it with a
    LinuxError: those after it may have relied on it (a rule is added before the one that it replaces goes).
    """
    if not steps:
        return 0
    written = 0
    with RouteSocket("routing rules") as netlink:
        for step in steps:
            adding = step["op"] == "add"
            kind, flags = (RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL) if adding else (RTM_DELRULE, 0)
            try:
                netlink.order(kind, flags, encode_rule(step["rule"]))
                written += 1
            except NetlinkRefused as error:
                if error.errno not in ((errno.EEXIST,) if adding else (errno.ENOENT, errno.ESRCH)):
                    what = "IPv{version} rule {priority}".format(**step["rule"])
                    unknown = error.errno == errno.EAFNOSUPPORT
                    reason = "this kernel does not know rules of this family" if unknown else str(error)
                    raise LinuxError("add" if adding else "delete", what, reason) from None
    return written
