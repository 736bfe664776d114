# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of nftables as lists of statements, in nft's own spelling."""

from __future__ import annotations

import typing as t

Data = t.Dict[str, t.Any]
Rule = t.List[Data]


def rule_text(rule: Rule) -> str:
    """One rule in nft's own spelling."""
    return " ".join(_statement(item) for item in rule)


def _statement(item: Data) -> str:
    if "unknown" in item:  # what a rule of somebody else's has and ours never have
        return "[{unknown} {data}]".format(**item)
    kind = item.get("match")
    if kind == "mark":
        return "meta mark & 0x{0:08x} == 0x{1:08x}".format(item["mask"], item["value"])
    if kind == "oifname":
        return 'oifname "{0}"'.format(item["value"])
    if kind == "daddr":
        return "{0} daddr @{1}".format("ip" if item["family"] == 4 else "ip6", item["set"])
    if kind == "tcp_flags":
        return "tcp flags syn / syn,rst"
    if kind == "mss_above":
        return "tcp option maxseg size > {0}".format(item["value"])
    if item.get("set") == "mss":
        return "tcp option maxseg size set {0}".format(item["value"])
    if item.get("set") == "mark":
        # nft prints the and-mask with the bits of the or-value set; the kernel's expression is the same
        return "meta mark set meta mark & 0x{0:08x} | 0x{1:08x}".format(item["mask"] | item["xor"], item["xor"])
    return str(item["verdict"])
