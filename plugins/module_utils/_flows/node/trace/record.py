# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a trace keeps of the kernel's events: which flow each belongs to, in which direction, and no more of them than fits.

The kernel reports every packet with one of our numbers. Whether it is a traced one its addresses show: those that the flow has,
and those that it was given here on its way (by NAT). Packets of others who happen to use such a number are left out,
also those of another traced flow that NAT gave this number for a port.
"""

from __future__ import annotations

import collections
import typing as t

from ...._linux.nftables.headers import ECHO, ICMP, PROTOCOL_NAMES, TCP, UDP, Headers, read_headers
from ...._linux.nftables.trace import ERRORS, PREFIX, Event, Mark
from ...._values.addresses import parse_address
from ...._values.refused import ValueRefused

Data = dict[str, t.Any]

PROTOCOLS = {"tcp": TCP, "udp": UDP}
FORWARD, BACK = "forward", "back"
#: So many flows of one trace on one node, and events of all of them together.
MOST_FLOWS, MOST_EVENTS = 4096, 20000
#: Packets under way that we remember, and addresses that one flow was given here.
_PACKETS, _LEARNED = 4096, 32
#: Names come from whoever made the table.
_NAME_LENGTH = 128


class Flow(t.NamedTuple):
    """One traced connection. ``targets``: addresses that its packets go to, before NAT and after it, with their ports (0 for ICMP)."""

    id: str
    protocol: str
    version: int
    number: int
    source: str
    targets: tuple[tuple[str, int], ...]

    @property
    def mark(self) -> Mark:
        return Mark(self.version, PROTOCOLS.get(self.protocol) or ICMP[self.version], self.number)


def parse_flow(raw: t.Mapping[str, t.Any]) -> Flow:
    """A flow of trace_plan. Raises ValueRefused."""
    try:
        source, target = str(raw["source"]["address"]), raw["target"]
        number, protocol, version = int(raw["number"]), str(raw["protocol"]), int(raw["version"])
        ends = [(str(row["address"]), int(row.get("port") or 0)) for row in (target, *(target.get("backends") or ()))]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ValueRefused("bad_flow", f"flow {str(raw)[:100]!r}: {error!r} is missing or makes no sense") from None
    if protocol not in ("tcp", "udp", "icmp") or version not in (4, 6) or not 0 < number < 65536:
        raise ValueRefused(
            "bad_flow", f"flow {raw.get('id')}: protocol {protocol}, version {version} or number {number} is none"
        )
    for text in (source, *(address for address, _port in ends)):
        if parse_address(text).version != version:
            raise ValueRefused("bad_flow", f"flow {raw.get('id')}: {text} is no address of IPv{version}")
    if any(not 0 <= port < 65536 for _address, port in ends) or (protocol != "icmp" and not ends[0][1]):
        raise ValueRefused("bad_flow", f"flow {raw.get('id')}: it needs a port from 1 to 65535")
    texts = tuple((str(parse_address(address)), port) for address, port in ends)
    return Flow(str(raw["id"]), protocol, version, number, str(parse_address(source)), texts)


class _Packet(t.NamedTuple):
    headers: Headers
    flow: int | None
    direction: str
    iif: int
    oif: int


class _Kept(t.NamedTuple):
    packet: _Packet
    event: Event
    seen: int


class Record:
    """Takes events, gives rows. quotes: as TraceTable has them. device: a name of an index."""

    def __init__(
        self,
        flows: t.Sequence[Flow],
        table: str,
        quotes: t.Mapping[int, tuple[int, bool]],
        most: int,
        device: t.Callable[[int], str],
    ) -> None:
        self._flows, self._table, self._quotes, self._device = flows, table, quotes, device
        each = max(2, min(most, MOST_EVENTS // max(1, len(flows))))
        #: The first ones and the last ones: the way in, and the end.
        self._first: dict[int, list[_Kept]] = {}
        self._last: dict[int, collections.deque[_Kept]] = {}
        self._names: dict[int, str] = {}
        self._half = each // 2
        self._counts: dict[int, int] = {}
        self._others = 0
        self._packets: collections.OrderedDict[int, _Packet] = collections.OrderedDict()
        self._by_number: dict[Mark, list[int]] = {}
        for index, flow in enumerate(flows):
            self._by_number.setdefault(flow.mark, []).append(index)
        self._known: list[set[str]] = [{flow.source, *(address for address, _port in flow.targets)} for flow in flows]
        #: What NAT made of a flow here: addresses of its source, places of its target, and its source with a port that is not its number.
        self._near: list[set[str]] = [{flow.source} for flow in flows]
        self._far: list[set[tuple[str, int]]] = [set(flow.targets) for flow in flows]
        self._renumbered: dict[tuple[str, Mark], int] = {}
        self._given = [0] * len(flows)

    def take(self, event: Event, seen: int) -> None:
        """seen: microseconds since the start."""
        if event.table != self._table and event.table.startswith(PREFIX):
            return
        packet = self._packet(event)
        if packet is None or packet.flow is None:
            self._others += packet is not None and event.network is not None
            return
        if event.table == self._table and event.kind != "policy":
            return
        self._keep(packet.flow, _Kept(packet, event, seen))

    def _packet(self, event: Event) -> _Packet | None:
        """What is known of the event's packet; the kernel shows its headers at the beginning of each hook."""
        before = self._packets.get(event.packet)
        headers = read_headers(event.network, event.transport) if event.network is not None else None
        if headers is None:
            return before
        index, direction = self._owner(headers, event, before)
        if index is not None:
            self._learn(index, headers, direction)
        for device in (event.iif, event.oif):
            if device and device not in self._names:  # at once: devices come and go
                self._names[device] = self._device(device)
        packet = _Packet(headers, index, direction, event.iif, event.oif)
        self._packets[event.packet] = packet
        self._packets.move_to_end(event.packet)
        if len(self._packets) > _PACKETS:
            self._packets.popitem(last=False)
        return packet

    def _owner(self, headers: Headers, event: Event, before: _Packet | None) -> tuple[int | None, str]:
        if headers.error is not None:
            if (
                event.table == self._table
                and event.chain == ERRORS
                and event.handle is not None
                and event.handle in self._quotes
            ):
                index, owned = self._quotes[event.handle]
                # what our own packet met comes back to its source
                return self._error_of(index, headers, BACK if owned else FORWARD)
            if before is not None and before.headers.error is not None:
                return before.flow, before.direction
            return None, FORWARD
        if (
            before is not None
            and before.flow is not None
            and before.headers.error is None
            and self._same(headers, before)
        ):
            return before.flow, before.direction
        return self._by_addresses(headers)

    def _error_of(self, index: int, headers: Headers, direction: str) -> tuple[int | None, str]:
        """Flows may share a number; then it is the one with the end that the error goes to."""
        found = [other for other in self._by_number[self._flows[index].mark] if headers.dst in self._known[other]]
        return (found[0] if found else None), direction

    def _same(self, headers: Headers, before: _Packet) -> bool:
        """Whether a number of a packet still means the packet that it meant before: addresses change on the way, never all of it."""
        was = before.headers
        if (
            headers.protocol != was.protocol
            or headers.version != was.version
            or headers.number != was.number
            or headers.flags != was.flags
        ):
            return False
        return (headers.src, headers.sport) == (was.src, was.sport) or (headers.dst, headers.dport) == (
            was.dst,
            was.dport,
        )

    def _by_addresses(self, headers: Headers) -> tuple[int | None, str]:
        """A way there has an end of the flow's, address and port; an answer goes to who asked."""
        best: tuple[int, int | None, str] = (0, None, FORWARD)
        for number, direction in self._numbers(headers):
            if number is None:
                continue
            near, far = self._ends(headers, direction)
            mark = Mark(headers.version, headers.protocol, number)
            given = self._renumbered.get((near, mark))
            for index in (*self._by_number.get(mark, ()), *(() if given is None else (given,))):
                flow = self._flows[index]
                asked = index == given or near in self._near[index]
                if direction == BACK and not asked:
                    continue
                score = (
                    asked
                    + (near == flow.source or index == given)
                    + (far in self._far[index])
                    + 2 * self._is_target(flow, far)
                )
                if score > best[0]:
                    best = (score, index, direction)
        return best[1], best[2]

    @staticmethod
    def _ends(headers: Headers, direction: str) -> tuple[str, tuple[str, int]]:
        """(address of who asked, place of who was asked)."""
        if direction == FORWARD:
            return headers.src, (headers.dst, headers.dport or 0)
        return headers.dst, (headers.src, headers.sport or 0)

    @staticmethod
    def _is_target(flow: Flow, place: tuple[str, int]) -> bool:
        return place in flow.targets or (place[0], 0) in flow.targets

    @staticmethod
    def _numbers(headers: Headers) -> t.Sequence[tuple[int | None, str]]:
        if headers.icmp is not None:
            return ((headers.number, FORWARD if headers.icmp[0] == ECHO[headers.version] else BACK),)
        return ((headers.sport, FORWARD), (headers.dport, BACK))

    def _learn(self, index: int, headers: Headers, direction: str) -> None:
        """What NAT gave it here: its answers come with that."""
        if headers.error is not None or self._given[index] >= _LEARNED:
            return
        near, far = self._ends(headers, direction)
        number = (
            headers.number if headers.icmp is not None else headers.sport if direction == FORWARD else headers.dport
        )
        new = {headers.src, headers.dst} - self._known[index]
        self._known[index] |= new
        if far not in self._far[index]:
            self._far[index].add(far)
            new.add(far[0])
        if number == self._flows[index].number:
            self._near[index].add(near)
        elif number is not None and direction == FORWARD:
            place = near, Mark(headers.version, headers.protocol, number)
            new |= set() if place in self._renumbered else {near}
            self._renumbered[place] = index
        self._given[index] += len(new)

    def _row(self, kept: _Kept) -> Data:
        packet, event, seen = kept
        headers = packet.headers
        iif, oif = (event.iif, event.oif) if event.network is not None else (packet.iif, packet.oif)
        return {
            "flow": self._flows[packet.flow or 0].id,
            "packet": event.packet,
            "seen": seen,
            "table": clean(event.table),
            "family": event.family,
            "chain": clean(event.chain),
            "handle": event.handle,
            "rule": None,
            "type": event.kind,
            "verdict": event.verdict,
            "to": clean(event.target) if event.target else None,
            "owned": event.table == self._table,
            "hook": event.chain.partition("_")[0] if event.table == self._table else None,
            "priority": None,
            "iif": self._names.get(iif),
            "oif": self._names.get(oif),
            "mark": event.mark,
            "src": headers.src,
            "dst": headers.dst,
            "proto": PROTOCOL_NAMES.get(headers.protocol, str(headers.protocol)),
            "sport": headers.sport,
            "dport": headers.dport,
            "length": headers.length,
            "ttl": headers.ttl,
            "flags": list(headers.flags),
            "error": headers.error,
            "mtu": headers.mtu,
            "direction": packet.direction,
        }

    def _keep(self, index: int, row: _Kept) -> None:
        self._counts[index] = self._counts.get(index, 0) + 1
        first = self._first.setdefault(index, [])
        if len(first) < self._half:
            first.append(row)
        else:
            self._last.setdefault(index, collections.deque(maxlen=self._half)).append(row)

    def result(self) -> Data:
        """{events, counts: {flow: all that there were}, others: packets with our numbers that were not traced}."""
        rows = [self._row(kept) for index in self._first for kept in (*self._first[index], *self._last.get(index, ()))]
        counts = {self._flows[index].id: count for index, count in self._counts.items()}
        return {
            "events": sorted(rows, key=lambda row: t.cast(int, row["seen"])),
            "counts": counts,
            "others": self._others,
        }


def clean(text: str, length: int = _NAME_LENGTH) -> str:
    """What somebody else wrote, for people: one line of plain signs, not too long."""
    shown = text[:length]
    if not shown.isprintable():
        shown = "".join(sign if sign.isprintable() else "?" for sign in shown)
    return shown + "..." if len(text) > length else shown
