# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers of the groups in which nodes are backups for addresses: VRRP's virtual router ids, of which a segment has 255.

Addresses that every node can deliver share ``SPREAD`` groups, by a hash of the address. One that depends on where pods run has a group for what it
depends on (the health ports), since such a group moves to other nodes. Its number is recorded: a group with a changed number is without a holder
until nodes have agreed anew.
"""

from __future__ import annotations

import hashlib
import typing as t

from ..._values.refused import ValueRefused

MOST = 255
#: Numbers for addresses that every node can deliver; the others are for those that depend on ports.
SPREAD = 64

Ports = tuple[int, ...]


def weight(*words: t.Any) -> bytes:
    """The same everywhere and for ever: what has the greatest weight is chosen (rendezvous hashing)."""
    return hashlib.sha256("\0".join(str(part) for part in words).encode("utf-8")).digest()


def parse_reserved(numbers: t.Iterable[t.Any]) -> frozenset[int]:
    """Numbers that other programs have. Raises ValueRefused."""
    found = set()
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= MOST:
            raise ValueRefused("bad_format", f"layer2_reserved_vrids are numbers from 1 to {MOST}")
        found.add(number)
    if not set(range(1, SPREAD + 1)) - found:
        raise ValueRefused("bad_format", f"layer2_reserved_vrids leaves none of 1 to {SPREAD}")
    return frozenset(found)


def number_groups(
    desired: t.Mapping[str, Ports], recorded: t.Mapping[str, int], reserved: frozenset[int] = frozenset()
) -> tuple[dict[str, int], dict[str, ValueRefused]]:
    """Address -> number, and why the others have none. ``desired``: address -> the ports that it depends on; ``recorded``: numbers of earlier runs.

    A number that was recorded stays while it is allowed and nobody else's; who comes later takes what is free. Beyond the last one addresses are refused
    (``quota``).
    """
    shared = sorted(set(range(1, SPREAD + 1)) - reserved)
    own = sorted(set(range(SPREAD + 1, MOST + 1)) - reserved)
    numbers = _recorded(desired, recorded, frozenset(own))
    free = [number for number in own if number not in numbers.values()]
    found, refused = {}, {}
    for address in sorted(desired):
        ports = desired[address]
        if not ports:
            found[address] = _chosen(shared, address)
            continue
        if ports not in numbers:
            if not free:
                text = "all {0} groups for Services with externalTrafficPolicy: Local are taken, of {1} of a segment; see layer2_reserved_vrids"
                refused[address] = ValueRefused("quota", text.format(len(own), MOST))
                continue
            numbers[ports] = _chosen(free, *ports)
            free.remove(numbers[ports])
        found[address] = numbers[ports]
    return found, refused


def _chosen(numbers: t.Sequence[int], *words: t.Any) -> int:
    return max(numbers, key=lambda number: weight(number, *words))


def _recorded(desired: t.Mapping[str, Ports], recorded: t.Mapping[str, int], own: frozenset[int]) -> dict[Ports, int]:
    """Of each set of ports the number that its first address has on record, unless an earlier one has it."""
    numbers: dict[Ports, int] = {}
    for address in sorted(desired):
        ports, number = desired[address], recorded.get(address, 0)
        if ports and ports not in numbers and number in own and number not in numbers.values():
            numbers[ports] = number
    return numbers
