# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Port blocks of a NAT gateway: who is served, through which address and ports (19.6), and how many addresses (19.7)."""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_address
from .._values.refused import ValueRefused, quoted
from .fields import Object, address_or_none, addresses, deleting, entries, family_of, get, items, name, text, uid

FIRST_PORT, LAST_PORT = 1024, 65535
PORTS = LAST_PORT - FIRST_PORT + 1

Block = tuple[str, int]


class NatPlan(t.NamedTuple):
    """``claims``: interface name -> uid of the claiming gateway afterwards, or None. ``table``: ips of the NATTable."""

    table: list[dict[str, t.Any]]
    used: int
    requested: int
    claims: dict[str, str | None]


def blocks_per_address(ports: t.Any) -> int:
    """How many interfaces one address serves. A block must fit into the port space."""
    if isinstance(ports, bool) or not isinstance(ports, int) or not 1 <= ports <= PORTS:
        raise ValueRefused("invalid_ports", f"{quoted(ports)} ports for each interface is not 1 to {PORTS}")
    served: int = PORTS // ports
    return served


def claim_of(interface: Object, family: str) -> str | None:
    """The uid of the gateway that claims an interface for a family."""
    for entry in entries(interface, "spec", "natGateways"):
        if entry.get("ipFamily") == family:
            return text(entry, "claimRef", "uid")
    return None


def address_of(interface: Object, family: str) -> str | None:
    found = [address_or_none(item) for item in items(interface, "spec", "ips")]
    return next((item for item in found if item and family_of(item) == family), None)


def suitable(interface: Object, family: str) -> bool:
    """Whether an interface can be behind NAT: an address of the family and no public one."""
    public = [
        entry.get("ipFamily") or (family_of(entry.get("ip")) if address_or_none(entry.get("ip")) else None)
        for entry in entries(interface, "spec", "publicIPs")
    ]
    return address_of(interface, family) is not None and family not in public


def plan_nat(gateway: Object, interfaces: t.Sequence[Object], table: t.Sequence[t.Mapping[str, t.Any]]) -> NatPlan:
    """The port blocks of one gateway, interfaces by name, addresses as listed, lowest free block first."""
    family = text(gateway, "spec", "ipFamily")
    size = get(gateway, "spec", "portsPerNetworkInterface")
    count = blocks_per_address(size)
    network = text(gateway, "spec", "networkRef", "name")
    owned = uid(gateway)
    offered = list(dict.fromkeys(addresses(gateway, "spec", "ips")))
    kept = _existing(table, offered, size, count)
    claims: dict[str, str | None] = {}
    served: dict[str, Block] = {}
    claimed: list[Object] = []
    new: list[Object] = []
    for interface in sorted(interfaces, key=name):
        claim = claim_of(interface, family)
        claims[name(interface)] = claim
        if text(interface, "spec", "networkRef", "name") != network:
            if claim == owned:
                claims[name(interface)] = None
        elif claim is not None and claim != owned:
            continue
        elif claim == owned and not suitable(interface, family):
            claims[name(interface)] = None
        elif claim == owned:
            if uid(interface) in kept:
                served[name(interface)] = kept[uid(interface)]
            else:
                claimed.append(interface)
        elif suitable(interface, family) and not deleting(interface):
            new.append(interface)
    used = set(served.values())
    free = ((address, number) for address in offered for number in range(count) if (address, number) not in used)
    requested = len(served) + len(claimed) + len(new)
    for interface in claimed + new:
        block = next(free, None)
        claims[name(interface)] = owned if block is not None else None
        if block is not None:
            served[name(interface)] = block
    rows = {name(interface): interface for interface in interfaces}
    return NatPlan(_table(served, rows, family, size), len(served), requested, claims)


def _existing(
    table: t.Sequence[t.Mapping[str, t.Any]], offered: t.Sequence[str], size: int, count: int
) -> dict[str, Block]:
    """uid -> block of the sections that still make sense."""
    found: dict[str, Block] = {}
    used: set[Block] = set()
    for row in table:
        address = address_or_none(row.get("ip"))
        for section in entries(row, "sections"):
            target, port = text(section, "targetRef", "uid"), section.get("port")
            if address not in offered or not target or isinstance(port, bool) or not isinstance(port, int):
                continue
            number, rest = divmod(port - FIRST_PORT, size)
            block = (str(address), number)
            fits = rest == 0 and 0 <= number < count and section.get("endPort") == port + size - 1
            if fits and block not in used:  # of two blocks of one interface the last counts, as upstream
                found[target] = block
                used.add(block)
    return found


def _table(
    served: t.Mapping[str, Block], rows: t.Mapping[str, Object], family: str, size: int
) -> list[dict[str, t.Any]]:
    sections: dict[str, list[dict[str, t.Any]]] = {}
    for called, (address, number) in served.items():
        interface, port = rows[called], FIRST_PORT + number * size
        target = {
            "uid": uid(interface),
            "name": called,
            "nodeRef": {"name": text(interface, "spec", "nodeRef", "name")},
        }
        row = {"ip": address_of(interface, family), "port": port, "endPort": port + size - 1, "targetRef": target}
        sections.setdefault(address, []).append(row)
    by_number = sorted(sections, key=lambda address: int(parse_address(address)))
    return [{"ip": ip, "sections": sorted(sections[ip], key=lambda section: section["port"])} for ip in by_number]


def desired_addresses(
    ports: int, current: int, requested: int, lowest: int, highest: int | None, upstream: bool = False
) -> int:
    """How many public addresses a gateway should have. ``upstream``: as onmetal-api-net, which grows late."""
    count = blocks_per_address(ports)
    if upstream:
        spare = count * current - requested
        desired = current - (abs(spare) // count if spare >= 0 else -(abs(spare) // count))
    else:
        desired = -(-requested // count)
    desired = max(desired, lowest or 0)
    return desired if highest is None else min(desired, highest)
