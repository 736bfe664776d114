# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Having the kernel report which rules a packet meets: the table that asks for it, and the reports (nftrace).

The table has the kernel's owner flag: it ends with the socket that made it. Whatever becomes of the process that holds the
socket, nothing of the table stays, and neither another trace nor a flush of the ruleset takes it away before.
"""

from __future__ import annotations

import errno
import socket
import struct
import typing as t

from ..errors import LinuxError, os_reason
from ..netlink.messages import NetlinkRefused, NetlinkSocket, attribute, attributes, from_kernel, messages
from . import codec
from .headers import ECHO, ECHO_REPLY, ICMP, TCP, UDP
from .netlink import NETLINK_NETFILTER, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, BatchRefused, Message, NetfilterSocket
from .rules import RULE_CHAIN, RULE_EXPRESSIONS, RULE_HANDLE, RULE_TABLE

#: Every table of a trace is called this and its id; what the kernel reports about them is no news to another trace.
PREFIX = "multicluster_trace_"
FAMILY = "inet"
#: NFT_TABLE_F_OWNER, of Linux 5.12.
OWNED = 0x2
NO_OWNER = "this kernel has no tables that end with their owner (nf_tables' owner flag, Linux 5.12), and a trace shall leave nothing behind"

_TRACE_MESSAGE, _TRACE_GROUP = 10 << 8 | 17, 9
_TABLE, _CHAIN, _HANDLE, _TYPE, _VERDICT, _ID, _NETWORK, _TRANSPORT = 1, 2, 3, 4, 5, 6, 8, 9
_IIF, _OIF, _MARK, _POLICY = 10, 12, 14, 16
_KINDS = {1: "policy", 2: "return", 3: "rule"}
_VERDICTS = {0: "drop", 1: "accept", 2: "stolen", 3: "queue", 4: "repeat"}
_CONTROL = {-1: "continue", -2: "break", -3: "jump", -4: "goto", -5: "return"}
_FAMILY_NAMES = {number: name for name, number in codec.FAMILIES.items()}
_ADD_MEMBERSHIP, _SOL_NETLINK, _SO_RCVBUFFORCE = 1, 270, 33
#: The kernel keeps so many bytes of events for us while we are busy.
_EVENT_BUFFER = 32 << 20
#: Datagrams of one read, so that whoever asks the recorder is answered meanwhile.
_MOST_DATAGRAMS = 256

#: The first chain of a hook and the last: what is seen by one and not by the other ended between them, with or without an event.
WATCHED = ("prerouting", "input", "forward", "output", "postrouting")
_MARKING = ("prerouting", "output")
#: Behind the joining of fragments (-400), which have no ports, and before everybody else.
_FIRST, _LAST = -399, (1 << 31) - 2
ERRORS, NUMBERS = "errors", "numbers"

_NETWORK_BASE, _TRANSPORT_BASE = 1, 2
_META_NFPROTO, _META_L4PROTO, _META_NFTRACE = 15, 16, 12
_IP = {4: b"\x02", 6: b"\x0a"}
#: How many bytes behind an ICMP error's own header the quoted packet's ports are, and where the quoted protocol is.
_QUOTED = {4: (8 + 20, 8 + 9), 6: (8 + 40, 8 + 6)}
#: Packets a second that one rule has reported: another connection that happens to use the same number must not drown the trace.
_RATE, _BURST = 2000, 4000


class Mark(t.NamedTuple):
    """What is looked for: a port of TCP or UDP (protocol is IP's number), or the identifier of ICMP's echo."""

    version: int
    protocol: int
    number: int


class Event(t.NamedTuple):
    """One report of the kernel about one packet. ``packet`` is the same for all events of it; the headers come with the first of each hook.

    kind: ``rule``, ``return`` (the end of a chain), ``policy`` (of a base chain). target: the chain of a jump or goto.
    iif and oif are indexes, 0 for none.
    """

    packet: int
    family: str
    table: str
    chain: str
    handle: int | None
    kind: str
    verdict: str
    target: str | None
    mark: int
    iif: int
    oif: int
    network: bytes | None
    transport: bytes


# --- what the kernel reports ---------------------------------------------------------------------------------------


@from_kernel("a trace of nftables")
def decode_event(body: bytes) -> Event:
    """A message of the trace group, without netlink's header."""
    if len(body) < 4:
        raise ValueError(f"{len(body)} bytes")
    found = dict(attributes(body[4:]))
    read = codec.read_u32
    kind = _KINDS.get(read(found[_TYPE]), "other")
    if kind == "rule" and _HANDLE not in found:  # some kernels say so of the end of a chain
        kind = "return"
    verdict, target = "", None
    if kind == "policy":
        verdict = _VERDICTS.get(read(found[_POLICY]), "other") if _POLICY in found else ""
    elif _VERDICT in found:
        verdict, target = _verdict(found[_VERDICT])
    return Event(
        read(found[_ID]),
        _FAMILY_NAMES.get(body[0], str(body[0])),
        codec.read_text(found.get(_TABLE, b"")),
        codec.read_text(found.get(_CHAIN, b"")),
        int.from_bytes(found[_HANDLE], "big") if _HANDLE in found else None,
        kind,
        verdict,
        target,
        _number(found, _MARK),
        _number(found, _IIF),
        _number(found, _OIF),
        found.get(_NETWORK),
        found.get(_TRANSPORT, b""),
    )


def _number(found: t.Mapping[int, bytes], kind: int) -> int:
    return codec.read_u32(found[kind]) if kind in found else 0


def _verdict(raw: bytes) -> tuple[str, str | None]:
    parts = dict(attributes(raw))
    code = struct.unpack(">i", parts[codec.VERDICT_CODE])[0]
    chain = codec.read_text(parts[codec.VERDICT_CHAIN]) if codec.VERDICT_CHAIN in parts else None
    # the upper half of drop and queue is the reason, or the number of the queue
    return _CONTROL.get(code) or _VERDICTS.get(code & 0xFF, "other"), chain


class TraceSocket(NetlinkSocket):
    """Receives every traced packet of this network namespace. ``lost``: how often the kernel had more than the socket could take; ``unreadable`` likewise."""

    def __init__(self) -> None:
        super().__init__(NETLINK_NETFILTER, "nftables")
        self.lost = self.unreadable = 0
        try:
            for option in (_SO_RCVBUFFORCE, socket.SO_RCVBUF):
                try:
                    self._socket.setsockopt(socket.SOL_SOCKET, option, _EVENT_BUFFER)
                    break
                except OSError:
                    continue
            self._socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, _TRACE_GROUP)
            self._socket.setblocking(False)
        except OSError as error:
            self.close()
            raise LinuxError("listen to", "nftables", os_reason(error)) from None

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> list[Event]:
        """What has come so far, and no more than a bite of it."""
        events: list[Event] = []
        for _turn in range(_MOST_DATAGRAMS):
            try:
                size, sender = self._socket.recvfrom_into(self._buffer)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise LinuxError("listen to", "nftables", os_reason(error)) from None
                self.lost += 1
                continue
            if sender[0] != 0:  # only the kernel (port 0) is believed
                continue
            try:
                for kind, _flags, _sequence, body in messages(bytes(self._view[:size])):
                    if kind == _TRACE_MESSAGE:
                        events.append(decode_event(body))
            except (LinuxError, ValueError):
                self.unreadable += 1
        return events


# --- the table that asks for it ------------------------------------------------------------------------------------


class TraceTable:
    """The table of one trace, there as long as this is open. Raises LinuxError.

    ``quotes``: handle of a rule -> (index of the mark, whether the quoted packet was the traced one and not an answer to it).
    """

    def __init__(self, name: str, marks: t.Sequence[Mark]) -> None:
        self.name = name
        self.quotes: dict[int, tuple[int, bool]] = {}
        self._socket = NetfilterSocket()
        try:
            self._make(marks)
        except BatchRefused as error:
            self.close()
            if error.what == "table" and error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                raise LinuxError("make", "nftables table " + name, NO_OWNER) from None
            raise LinuxError("make", f"nftables table {name} ({error.what})", error.text or str(error)) from None
        except NetlinkRefused as error:
            self.close()
            raise LinuxError("make", "nftables table " + name, str(error)) from None
        except BaseException:
            self.close()
            raise

    def _make(self, marks: t.Sequence[Mark]) -> None:
        new = NLM_F_CREATE | NLM_F_EXCL
        table = attribute(codec.TABLE_NAME, codec.text(self.name)) + attribute(codec.TABLE_FLAGS, codec.u32(OWNED))
        orders = [Message(codec.NEWTABLE, new, table, "table")]
        item = {"name": NUMBERS, "type": "inet_service", "flags": []}
        orders.append(Message(codec.NEWSET, new, codec.encode_set(self.name, item, 1), "set"))
        spans = [(number, number) for number in sorted({mark.number for mark in marks})]
        orders += [
            Message(codec.NEWSETELEM, NLM_F_CREATE, body, "numbers")
            for body in codec.encode_elements(self.name, NUMBERS, 2, False, spans)
        ]
        orders.append(Message(codec.NEWCHAIN, new, codec.encode_chain(self.name, {"name": ERRORS}), "chain " + ERRORS))
        for hook in WATCHED:
            for place, priority in (("first", _FIRST), ("last", _LAST)):
                chain: dict[str, t.Any] = {
                    "name": f"{hook}_{place}",
                    "type": "filter",
                    "hook": hook,
                    "priority": priority,
                    "policy": "accept",
                }
                orders.append(
                    Message(codec.NEWCHAIN, new, codec.encode_chain(self.name, chain), "chain " + chain["name"])
                )
        quoting, of = _quoting_rules(marks)
        chains = [(hook + "_first", rule) for hook in _MARKING for rule in _marking_rules(marks)] + [
            (ERRORS, rule) for rule in quoting
        ]
        orders += [
            Message(codec.NEWRULE, NLM_F_CREATE | NLM_F_APPEND, self._rule(chain, rule), "rule of chain " + chain)
            for chain, rule in chains
        ]
        self._socket.commit(FAMILY, orders)
        self.quotes = dict(zip(self._handles(ERRORS), of))

    def _rule(self, chain: str, expressions: t.Sequence[bytes]) -> bytes:
        body = attribute(RULE_TABLE, codec.text(self.name)) + attribute(RULE_CHAIN, codec.text(chain))
        return body + codec.nest(RULE_EXPRESSIONS, b"".join(codec.nest(1, item) for item in expressions))

    def _handles(self, chain: str) -> list[int]:
        asked = attribute(RULE_TABLE, codec.text(self.name)) + attribute(RULE_CHAIN, codec.text(chain))
        answers = self._socket.dump(codec.GETRULE, codec.FAMILIES[FAMILY], asked)
        return [int.from_bytes(dict(attributes(body))[RULE_HANDLE], "big") for _family, body in answers]

    def close(self) -> None:
        """The table goes with it."""
        self._socket.close()


def _expression(name: str, *fields: tuple[int, bytes]) -> bytes:
    data = b"".join(attribute(kind, value) for kind, value in fields)
    return attribute(1, codec.text(name)) + codec.nest(2, data)


def _load_meta(key: int) -> bytes:
    return _expression("meta", (1, codec.u32(1)), (2, codec.u32(key)))


def _load_payload(offset: int, length: int) -> bytes:
    return _expression(
        "payload", (1, codec.u32(1)), (2, codec.u32(_TRANSPORT_BASE)), (3, codec.u32(offset)), (4, codec.u32(length))
    )


def _equals(value: bytes) -> bytes:
    return _expression("cmp", (1, codec.u32(1)), (2, codec.u32(0)), (3 | 0x8000, attribute(1, value)))


def _in_numbers() -> bytes:
    return _expression("lookup", (1, codec.text(NUMBERS)), (2, codec.u32(1)), (4, codec.u32(1)))


def _is_protocol(number: int) -> list[bytes]:
    return [_load_meta(_META_L4PROTO), _equals(bytes([number]))]


def _reported() -> list[bytes]:
    """From here on the kernel reports the packet."""
    limit = _expression(
        "limit",
        (1, struct.pack(">Q", _RATE)),
        (2, struct.pack(">Q", 1)),
        (3, codec.u32(_BURST)),
        (4, codec.u32(0)),
        (5, codec.u32(0)),
    )
    value = _expression("immediate", (1, codec.u32(1)), (2 | 0x8000, attribute(1, b"\x01")))
    return [limit, value, _expression("meta", (2, codec.u32(_META_NFTRACE)), (3, codec.u32(1)))]


def _jump(chain: str) -> bytes:
    verdict = codec.nest(
        codec.DATA_VERDICT,
        attribute(codec.VERDICT_CODE, codec.u32(-3)) + attribute(codec.VERDICT_CHAIN, codec.text(chain)),
    )
    return _expression("immediate", (1, codec.u32(0)), (2 | 0x8000, verdict))


def _marking_rules(marks: t.Sequence[Mark]) -> list[list[bytes]]:
    """Of the first chains: packets with one of the numbers, and ICMP errors to the chain that looks at what they quote."""
    desired = {mark.protocol for mark in marks}
    rules = []
    for protocol in sorted(desired & {TCP, UDP}):
        rules += [[*_is_protocol(protocol), _load_payload(offset, 2), _in_numbers(), *_reported()] for offset in (0, 2)]
    for version in sorted({mark.version for mark in marks}):
        if ICMP[version] in desired:
            rules.append([*_is_protocol(ICMP[version]), _load_payload(4, 2), _in_numbers(), *_reported()])
        rules.append([*_is_protocol(ICMP[version]), _jump(ERRORS)])
    return rules


def _quoting_rules(marks: t.Sequence[Mark]) -> tuple[list[list[bytes]], list[tuple[int, bool]]]:
    """A rule a mark and direction, since events do not show what an ICMP error quotes: the rule that met it shows which packet it was."""
    rules, of = [], []
    for index, mark in enumerate(marks):
        ports, protocol = _QUOTED[mark.version]
        start = [
            _load_meta(_META_NFPROTO),
            _equals(_IP[mark.version]),
            _load_payload(protocol, 1),
            _equals(bytes([mark.protocol])),
        ]
        number = struct.pack(">H", mark.number)
        for owned in (True, False):
            if mark.protocol in (TCP, UDP):
                quoted = [_load_payload(ports + (0 if owned else 2), 2), _equals(number)]
            else:
                kind = (ECHO if owned else ECHO_REPLY)[mark.version]
                quoted = [_load_payload(ports, 1), _equals(bytes([kind])), _load_payload(ports + 4, 2), _equals(number)]
            rules.append([*start, *quoted, *_reported()])
            of.append((index, owned))
    return rules, of
