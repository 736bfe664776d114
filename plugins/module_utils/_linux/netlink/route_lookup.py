# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the kernel sends a packet: its own decision, with all rules, tables and marks, many questions a send."""

from __future__ import annotations

import os
import socket
import struct
import typing as t

from .messages import NetlinkSocket, attribute
from .route_codec import RTA_DST, RTM_GETROUTE, decode_route

RTA_SRC, RTA_IIF, RTA_MARK = 2, 3, 16
RTM_F_LOOKUP_TABLE = 0x1000
_NETLINK_ROUTE = 0
_ROUTE = struct.Struct("=BBBBBBBBI")
_U32 = struct.Struct("=I")


def look_up(questions: t.Sequence[t.Mapping[str, t.Any]]) -> t.List[t.Dict[str, t.Any]]:
    """One answer for each question ``{dst, src, iif, mark}``, of which all but dst may be missing.

    With ``iif`` it is a packet that comes in by that device and is passed on, else one of the host itself. The answer is
    ``{"error": None, "type", "dev", "via", "src", "table"}``, or ``{"error": the kernel's words}`` where it has no way.
    Raises LinuxError.
    """
    if not questions:
        return []
    names = dict(socket.if_nameindex())
    indexes = {name: index for index, name in names.items()}
    netlink = NetlinkSocket(_NETLINK_ROUTE, "ways of packets")
    try:
        found = netlink.ask_each(RTM_GETROUTE, [_body(question, indexes) for question in questions])
    finally:
        netlink.close()
    return [_answer(one, names) for one in found]


def _body(question: t.Mapping[str, t.Any], indexes: t.Mapping[str, int]) -> bytes:
    family = socket.AF_INET6 if ":" in question["dst"] else socket.AF_INET
    whole = 128 if family == socket.AF_INET6 else 32
    parts = [attribute(RTA_DST, socket.inet_pton(family, question["dst"]))]
    if question.get("src"):
        parts.append(attribute(RTA_SRC, socket.inet_pton(family, question["src"])))
    if question.get("iif"):
        parts.append(attribute(RTA_IIF, _U32.pack(indexes.get(question["iif"], 0))))
    if question.get("mark"):
        parts.append(attribute(RTA_MARK, _U32.pack(question["mark"])))
    flags = RTM_F_LOOKUP_TABLE if whole == 32 else 0
    return _ROUTE.pack(family, whole, whole if question.get("src") else 0, 0, 0, 0, 0, 0, flags) + b"".join(parts)


def _answer(found: t.Union[int, bytes], names: t.Mapping[int, str]) -> t.Dict[str, t.Any]:
    if isinstance(found, int):
        return {"error": os.strerror(found)}
    route = decode_route(found, names) or {}
    return {"error": None, "type": route.get("type"), "dev": route.get("dev"), "via": route.get("via"), "src": route.get("src"), "table": route.get("table")}
