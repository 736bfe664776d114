# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nftables table as data: named sets, two base chains, rules as lists of statements (kubespan 11).

A statement is a small map, so that a codec, the text below and comparisons all read one thing:

``{match: "mark", mask, value}``, ``{match: "oifname", value}``, ``{match: "daddr", family, set}``,
``{match: "tcp_flags", mask, value}``, ``{match: "mss_above", value}``, ``{set: "mss", value}``,
``{set: "mark", mask, xor}``, ``{verdict: "accept"}``.
"""

from __future__ import annotations

import typing as t

from .generations import DEFAULT_MTU, GENERATIONS, Generation, Layout, clamp_to

Data = dict[str, t.Any]
Rule = list[Data]

FAMILY = "inet"
PRIORITY_FILTER = 0
TCP_SYN, TCP_RST = 0x02, 0x04
KEY_TYPES = {4: "ipv4_addr", 6: "ipv6_addr"}
_ALL_BITS = 0xFFFFFFFF


def table(layout: Layout = Layout(), mtu: int = DEFAULT_MTU, gen: Generation = GENERATIONS["current"]) -> Data:
    """The table without elements: ``{family, name, sets: [...], chains: [...]}``.

    Rules refer to the sets by name, and one on an empty set matches nothing: rules change only with layout and MTU.
    """
    return {
        "family": FAMILY,
        "name": layout.table_name,
        "sets": [
            {"name": layout.set_name(version), "type": KEY_TYPES[version], "version": version, "flags": ["interval"]}
            for version in (4, 6)
        ],
        "chains": [
            _chain(layout.chain_prerouting, "filter", "prerouting", [_exception(layout)] + _marking(layout)),
            _chain(layout.chain_output, "route", "output", _outgoing(layout, mtu, gen)),
        ],
    }


def _chain(name: str, kind: str, hook: str, rules: list[Rule]) -> Data:
    return {"name": name, "type": kind, "hook": hook, "priority": PRIORITY_FILTER, "policy": "accept", "rules": rules}


def _exception(layout: Layout) -> Rule:
    """WireGuard's own packets go their ordinary way."""
    return [{"match": "mark", "mask": layout.mark_mask, "value": layout.mark_from_wireguard}, {"verdict": "accept"}]


def _marking(layout: Layout) -> list[Rule]:
    """Every bit of the mark outside of the mask survives."""
    mark = {"set": "mark", "mask": _ALL_BITS & ~layout.mark_mask, "xor": layout.mark_to_wireguard}
    return [[_daddr(layout, version), dict(mark), {"verdict": "accept"}] for version in (4, 6)]


def _daddr(layout: Layout, version: int) -> Data:
    return {"match": "daddr", "family": version, "set": layout.set_name(version)}


def _outgoing(layout: Layout, mtu: int, gen: Generation) -> list[Rule]:
    rules = [_exception(layout)]
    if gen.loopback_exception:
        rules.append([{"match": "oifname", "value": "lo"}, {"verdict": "accept"}])
    for version in (4, 6):
        limit = clamp_to(mtu, version, gen)
        if limit is not None:
            rules.append(
                [
                    _daddr(layout, version),
                    {"match": "tcp_flags", "mask": TCP_SYN | TCP_RST, "value": TCP_SYN},
                    {"match": "mss_above", "value": limit},
                    {"set": "mss", "value": limit},
                ]
            )
    return rules + _marking(layout)
