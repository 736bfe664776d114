# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider returned for the routers of devices, kept alongside our record so that it need not be asked for each of them in every run (ccm 14.4). Pure.

It holds as long as what it depends on: the session of the device, its private address, and the project's BGP settings. A password is never kept.
"""

from __future__ import annotations

import json
import typing as t

from ..._values.refused import ValueRefused
from ..._values.text import parse_json
from .values import NodeBgp

#: Annotation of our record.
REMEMBERED = "multicluster.network/bgp-neighbours"
#: Devices of which is asked all the same in each run, in turn: a change that nothing else shows is noticed too.
AGAIN = 2
#: Annotations of an object have 256 KiB together.
MOST_BYTES = 200 * 1024


class Neighbours(t.NamedTuple):
    """Of one device: its session of IPv4, and the facts but for the password."""

    session: str
    source_ip: str
    local_asn: int
    peer_asn: int
    peers: tuple[str, ...]
    multihop: bool

    def facts(self, name: str, password: str) -> NodeBgp:
        return NodeBgp(name, self.source_ip, self.local_asn, self.peer_asn, self.peers, password, self.multihop)


def neighbours(session: str, facts: NodeBgp) -> Neighbours:
    """The inverse."""
    return Neighbours(session, facts.source_ip, facts.local_asn, facts.peer_asn, facts.peers, facts.multihop)


def parse_remembered(text: t.Any) -> dict[str, Neighbours]:
    """By device. What cannot be read was never remembered."""
    found: dict[str, Neighbours] = {}
    try:
        rows = parse_json(text, "config_parse") if isinstance(text, str) else {}
    except ValueRefused:
        return {}
    for device, row in rows.items() if isinstance(rows, dict) else ():
        if (
            isinstance(row, list)
            and len(row) == 6
            and all(isinstance(one, str) for one in row[:2])
            and isinstance(row[4], list)
        ):
            numbers = all(isinstance(one, int) and not isinstance(one, bool) and 0 < one < 2**32 for one in row[2:4])
            if numbers and isinstance(row[5], bool) and all(isinstance(one, str) for one in row[4]):
                found[device] = Neighbours(row[0], row[1], row[2], row[3], tuple(row[4]), row[5])
    return found


def remembered_text(rows: t.Mapping[str, Neighbours]) -> str:
    """The inverse; nothing where it is more than fits."""
    text = (
        json.dumps({device: list(row) for device, row in rows.items()}, sort_keys=True, separators=(",", ":"))
        if rows
        else ""
    )
    return text if len(text) <= MOST_BYTES else ""


def still_true(row: Neighbours, session: str, local_asn: int, addresses: t.Iterable[t.Mapping[str, t.Any]]) -> bool:
    """``session``: that the device has now; ``local_asn``: of the project; ``addresses``: of the device."""
    private = {item.get("address") for item in addresses if item.get("public") is False}
    return bool(session) and (row.session, row.local_asn) == (session, local_asn) and row.source_ip in private


def asked_again(devices: t.Iterable[str], seconds: float) -> frozenset[str]:
    """Some of them, others half a minute later, until all had their turn."""
    ordered = sorted(devices)
    first = int(seconds) // 30 * AGAIN
    return frozenset(ordered[(first + step) % len(ordered)] for step in range(min(AGAIN, len(ordered))))
