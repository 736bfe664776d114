# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of iptables that a packet between two other hosts meets, and base chains of nftables that drop what no rule of theirs lets pass."""

from __future__ import annotations

from ..._dataplane.iptables_walk import kept
from ..errors import LinuxError
from ..nftables.table import list_base_chains
from ..programs import find_program, run_for

_PROGRAMS = {"4": "iptables-save", "6": "ip6tables-save"}
_SECONDS = 20


def read_rules() -> dict[str, list[str]]:
    """{"4": lines, "6": lines} as iptables_walk.walk takes them, empty where the program is missing or there are too many. Raises LinuxError."""
    found = {}
    for version, name in _PROGRAMS.items():
        program = find_program(name)
        if program is None:
            continue
        ended = run_for("read", name, [program], _SECONDS)
        if ended.returncode:
            raise LinuxError("read", name, ended.stderr.decode("utf-8", "replace").strip()[:200])
        found[version] = kept(ended.stdout.decode("utf-8", "replace"))
    return found


def dropping_chains() -> list[str]:
    """``family table chain`` of each base chain of the hook forward that drops by its policy. Raises LinuxError."""
    tables = list_base_chains()
    return [
        f"{table['family']} {table['name']} {chain['name']}"
        for table in tables
        for chain in table["chains"]
        if chain["hook"] == "forward" and chain["policy"] == "drop"
    ]
