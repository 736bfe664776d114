# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events of a trace: what the kernel reports of packets that anybody may have sent, with names that anybody may have given."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.trace import (
    record as trace_record,
)
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._linux.netlink.messages import attribute
from ansible_collections.multicluster.network.plugins.module_utils._linux.nftables import headers, trace
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

SOURCE, TARGET, NUMBER = "10.0.0.1", "10.0.1.1", 61234
TABLE = trace.PREFIX + "t1"
FLOW = {
    "id": "0",
    "number": NUMBER,
    "protocol": "tcp",
    "version": 4,
    "source": {"address": SOURCE},
    "target": {"address": TARGET, "port": 80, "backends": []},
}


def u32(number):
    return struct.pack(">I", number)


def ipv4(src, dst, protocol=6, length=60, fragment=0x4000):
    ends = ipaddress.IPv4Address(src).packed + ipaddress.IPv4Address(dst).packed
    return struct.pack(">BBHHHBBH", 0x45, 0, length, 1, fragment, 63, protocol, 0) + ends


def tcp(sport, dport, flags=2):
    return struct.pack(">HHIIBBHHH", sport, dport, 1, 0, 0x50, flags, 1000, 0, 0)


def body(kind=3, packet=7, table="filter", chain="FORWARD", handle=4, verdict=0, network=None, transport=b"", more=()):
    parts = [
        (1, table.encode() + b"\0"),
        (2, chain.encode() + b"\0"),
        (4, u32(kind)),
        (6, u32(packet)),
        (10, u32(2)),
        (12, u32(3)),
        (14, u32(5)),
    ]
    parts += [(3, handle.to_bytes(8, "big"))] if handle else []
    parts += [(16, u32(verdict))] if kind == 1 else [(5, attribute(1, struct.pack(">i", verdict)))]
    parts += [(8, network), (9, transport)] if network is not None else []
    return struct.pack("=BBH", 2, 0, 0) + b"".join(attribute(*part) for part in [*parts, *more])


def record(flows=(FLOW,), quotes=None, most=400):
    return trace_record.Record(
        [trace_record.parse_flow(raw) for raw in flows], TABLE, quotes or {}, most, "dev{0}".format
    )


@pytest.mark.parametrize(
    "code,expected",
    (
        (0, "drop"),
        (1, "accept"),
        (-1, "continue"),
        (-5, "return"),
        (0x20000, "drop"),
        (0x10003, "queue"),
        (77, "other"),
    ),
)
def test_verdicts(code, expected):
    event = trace.decode_event(body(verdict=code))
    assert (event.verdict, event.kind, event.family, event.table, event.chain, event.handle) == (
        expected,
        "rule",
        "ip",
        "filter",
        "FORWARD",
        4,
    )


def test_a_jump_names_its_chain():
    raw = attribute(1, struct.pack(">i", -3)) + attribute(2, b"guard\0")
    event = trace.decode_event(
        struct.pack("=BBH", 1, 0, 0)
        + attribute(4, u32(3))
        + attribute(6, u32(1))
        + attribute(3, bytes(8))
        + attribute(5, raw)
    )
    assert (event.verdict, event.target) == ("jump", "guard")


def test_a_policy_and_the_end_of_a_chain():
    assert trace.decode_event(body(kind=1, verdict=0, handle=None))[5:7] == ("policy", "drop")
    assert trace.decode_event(body(kind=2, verdict=-5, handle=None))[5:7] == ("return", "return")
    assert trace.decode_event(body(kind=3, verdict=-1, handle=None)).kind == "return", "what newer kernels say of it"


@given(st.binary(max_size=400))
def test_garbage_is_an_event_or_a_named_refusal(raw):
    try:
        trace.decode_event(raw)
    except LinuxError as error:
        assert "cannot be understood" in error.message


@given(cut=st.integers(0, 400), flip=st.integers(0, 400), value=st.integers(0, 255))
def test_a_real_event_that_is_cut_or_changed(cut, flip, value):
    raw = bytearray(body(network=ipv4(SOURCE, TARGET), transport=tcp(NUMBER, 80)))
    raw[flip % len(raw)] = value
    kept = record()
    try:
        kept.take(trace.decode_event(bytes(raw[: max(4, cut)])), 1)
        kept.take(trace.decode_event(bytes(raw)), 2)
    except LinuxError as error:
        assert "cannot be understood" in error.message
    for row in kept.result()["events"]:
        assert row["flow"] == "0" and row["table"].isprintable() and row["chain"].isprintable()


@given(
    first=st.sampled_from((b"", b"\x45", b"\x60", b"\x4f")),
    rest=st.binary(max_size=60),
    transport=st.binary(max_size=30),
)
def test_headers_of_anything(first, rest, transport):
    found = headers.read_headers(first + rest, transport)
    if found is not None:
        assert ipaddress.ip_address(found.src).version == ipaddress.ip_address(found.dst).version == found.version


def test_headers_say_what_they_are():
    found = headers.read_headers(ipv4(SOURCE, TARGET) + bytes(20), tcp(NUMBER, 80, 0x12))
    assert found == headers.Headers(4, SOURCE, TARGET, 6, 60, 63, True, NUMBER, 80, None, ("syn", "ack"))
    assert headers.read_headers(ipv4(SOURCE, TARGET, fragment=0x2010), tcp(1, 2)).sport is None, (
        "the middle of a packet has no ports"
    )
    found = headers.read_headers(ipv4(SOURCE, TARGET, 1), struct.pack(">BBHHH", 3, 4, 0, 0, 1400))
    assert (found.error, found.mtu, found.number) == ("too_big", 1400, None)
    found = headers.read_headers(
        struct.pack(">IHBB", 6 << 28, 8, 58, 64) + bytes(32), struct.pack(">BBHI", 2, 0, 0, 1280)
    )
    assert (found.error, found.mtu, found.length) == ("too_big", 1280, 48)
    found = headers.read_headers(
        struct.pack(">IHBB", 6 << 28, 8, 58, 64) + bytes(32), struct.pack(">BBHHH", 128, 0, 0, 99, 1)
    )
    assert (found.error, found.number) == (None, 99)


def take(kept, *rows):
    for seen, row in enumerate(rows):
        kept.take(trace.decode_event(body(**row)), seen)
    return kept.result()


def test_what_a_packet_becomes_is_followed_and_its_answer_known():
    """NAT gives it another address that nobody knew of; the answer comes with that."""
    found = take(
        record(),
        {"network": ipv4(SOURCE, TARGET), "transport": tcp(NUMBER, 80)},
        {"network": ipv4(SOURCE, "10.9.9.9"), "transport": tcp(NUMBER, 8080)},
        {"packet": 8, "network": ipv4("10.9.9.9", SOURCE), "transport": tcp(8080, NUMBER, 0x12)},
        {"packet": 9, "network": ipv4("10.7.7.7", "10.8.8.8"), "transport": tcp(NUMBER, 80)},
        {"packet": 10},
    )
    assert [(row["packet"], row["direction"], row["dst"]) for row in found["events"]] == [
        (7, "forward", TARGET),
        (7, "forward", "10.9.9.9"),
        (8, "back", SOURCE),
    ]
    assert found["counts"] == {"0": 3} and found["others"] == 1


def test_a_port_that_masquerading_chose_is_no_number_of_another_flow():
    """A pod that asks its own Service is masqueraded to a random port (kube-proxy), which may well be the number of another flow to the same pod."""
    service, gate, chosen = "10.5.0.8", "10.0.1.254", NUMBER + 1
    closed = dict(
        FLOW,
        id="closed",
        number=chosen,
        target={"address": TARGET, "port": 81, "backends": [{"address": TARGET, "port": 81}]},
    )
    itself = dict(
        FLOW,
        source={"address": TARGET},
        target={"address": service, "port": 8080, "backends": [{"address": TARGET, "port": 80}]},
    )
    found = take(
        record([closed, itself]),
        {"packet": 1, "network": ipv4(SOURCE, TARGET), "transport": tcp(chosen, 81)},
        {"packet": 2, "network": ipv4(TARGET, service), "transport": tcp(NUMBER, 8080)},
        {"packet": 2, "network": ipv4(TARGET, TARGET), "transport": tcp(NUMBER, 80)},
        {"packet": 2, "network": ipv4(gate, TARGET), "transport": tcp(chosen, 80)},
        {"packet": 3, "network": ipv4(TARGET, gate), "transport": tcp(80, chosen, 0x12)},
        {"packet": 3, "network": ipv4(TARGET, TARGET), "transport": tcp(80, NUMBER, 0x12)},
        {"packet": 3, "network": ipv4(service, TARGET), "transport": tcp(8080, NUMBER, 0x12)},
        {"packet": 4, "network": ipv4(TARGET, SOURCE), "transport": tcp(81, chosen, 0x14)},
    )
    assert [(row["packet"], row["flow"], row["direction"]) for row in found["events"]] == [
        (1, "closed", "forward"),
        *[(2, "0", "forward")] * 3,
        *[(3, "0", "back")] * 3,
        (4, "closed", "back"),
    ]


@pytest.mark.parametrize(
    ("ends", "ports", "direction"),
    [
        ((SOURCE, "10.9.9.9"), (NUMBER, 81), "forward"),  # given another target before this node
        (("10.9.9.9", TARGET), (NUMBER, 80), "forward"),  # masqueraded before this node
        (("10.9.9.9", TARGET), (NUMBER, 81), None),  # of somebody else, to another program of the target
        ((TARGET, SOURCE), (80, NUMBER), "back"),
        (("10.9.9.9", SOURCE), (80, NUMBER), "back"),  # answered by another
        ((TARGET, "10.9.9.9"), (80, NUMBER), None),  # to somebody who did not ask here
    ],
)
def test_flow_of_a_packet(ends, ports, direction):
    found = take(record(), {"network": ipv4(*ends), "transport": tcp(*ports)})
    assert ([row["direction"] for row in found["events"]], found["others"]) == (
        ([direction], 0) if direction else ([], 1)
    )


def test_a_number_of_a_packet_that_is_another_one_now():
    found = take(
        record(),
        {"network": ipv4(SOURCE, TARGET), "transport": tcp(NUMBER, 80)},
        {"network": ipv4("10.7.7.7", "10.8.8.8"), "transport": tcp(5, NUMBER)},
        {},
    )
    assert found["counts"] == {"0": 1} and found["others"] == 1


def test_an_error_is_of_the_flow_that_it_quotes():
    second = dict(FLOW, id="1", number=61235)
    error = {"network": ipv4("10.0.0.254", SOURCE, 1), "transport": struct.pack(">BBHI", 3, 13, 0, 0)}
    quotes = {11: (0, True), 12: (0, False), 13: (1, True), 14: (1, False)}
    found = take(
        record((FLOW, second), quotes),
        dict(error, table=TABLE, chain=trace.ERRORS, handle=13),
        dict(error),
        dict(error, packet=99),
    )
    assert [(row["flow"], row["direction"], row["error"], row["table"]) for row in found["events"]] == [
        ("1", "back", "prohibited", "filter")
    ]


def test_events_of_another_trace_are_nobodys():
    rows = [{"table": trace.PREFIX + "other", "network": ipv4(SOURCE, TARGET), "transport": tcp(NUMBER, 80)}]
    assert take(record(), *rows) == {"events": [], "counts": {}, "others": 0}


ports = st.sampled_from((NUMBER, 61235, 80))
sources = st.sampled_from((SOURCE, TARGET, "10.9.9.9", "10.8.8.8"))


@given(
    st.lists(st.tuples(st.integers(1, 40), sources, sources, ports, ports, st.booleans()), max_size=120),
    st.integers(2, 30),
)
def test_no_more_is_kept_than_fits_and_all_is_counted(rows, most):
    flows = (FLOW, dict(FLOW, id="1", number=61235))
    kept = record(flows, most=most)
    found = take(
        kept,
        *(
            {"packet": packet, "network": ipv4(src, dst) if first else None, "transport": tcp(sport, dport)}
            for packet, src, dst, sport, dport, first in rows
        ),
    )
    for name in ("0", "1"):
        mine = [row for row in found["events"] if row["flow"] == name]
        assert len(mine) == min(found["counts"].get(name, 0), most // 2 * 2)
        assert all({row["src"], row["dst"]} & {SOURCE, TARGET, "10.9.9.9", "10.8.8.8"} for row in mine)
    assert sorted(row["seen"] for row in found["events"]) == [row["seen"] for row in found["events"]]


def test_memory_is_bounded():
    kept = record(most=1000)
    for packet in range(20000):
        address = str(ipaddress.IPv4Address(0x0B000000 + packet))
        kept.take(
            trace.decode_event(body(packet=packet, network=ipv4(SOURCE, address), transport=tcp(NUMBER, 80))), packet
        )
    assert len(kept._packets) <= 4096 and len(kept._known[0]) <= 40
    found = kept.result()
    assert len(found["events"]) == 1000 and found["counts"]["0"] == 20000
    assert (found["events"][0]["seen"], found["events"][-1]["seen"]) == (0, 19999)


names = st.sampled_from(("id", "number", "protocol", "version", "source", "target", "address", "port", "backends"))
values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)


@given(
    st.recursive(
        values, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=9), max_leaves=20
    )
)
def test_a_flow_of_anything_is_refused_by_name(raw):
    try:
        flow = trace_record.parse_flow(raw)
    except ValueRefused as error:
        assert error.reason in ("bad_flow", "bad_address")
    else:
        assert flow.version in (4, 6)


@pytest.mark.parametrize(
    "change",
    (
        {"number": 65536},
        {"number": "x"},
        {"protocol": "esp"},
        {"version": 6},
        {"source": {}},
        {"target": {"address": TARGET}},
        {"target": []},
        {"target": {"address": TARGET, "port": 80, "backends": [{"address": "::1", "port": 80}]}},
        {"target": {"address": TARGET, "port": -1}},
    ),
)
def test_a_flow_that_makes_no_sense(change):
    with pytest.raises(ValueRefused):
        trace_record.parse_flow(dict(FLOW, **change))


@pytest.mark.parametrize("name", ("x; flush ruleset", "-f", "a b", "", "x" * 200, "{", "a\nb", "\u0660", "$x", "#"))
def test_no_name_of_others_is_read_by_nft(name, monkeypatch):
    from ansible_collections.multicluster.network.plugins.module_utils._linux.nftables import text

    monkeypatch.setattr(text, "_run", lambda *unused, **named: pytest.fail("nft was asked"))
    assert (
        text.list_rules("ip", name, "chain")
        == {}
        == text.list_rules("ip", "filter", name)
        == text.list_rules(name, "filter", "chain")
    )


def test_texts_of_rules_by_their_handles(monkeypatch):
    from ansible_collections.multicluster.network.plugins.module_utils._linux.nftables import text

    listing = """table ip filter { # handle 1
\tchain FORWARD { # handle 2
\t\ttype filter hook forward priority 0; policy drop;
\t\tip daddr { 10.0.0.1, 10.0.0.2,
\t\t\t   10.0.0.3 } drop # handle 4
\t\tcounter accept comment "all # handle 9" # handle 5
\t}
}
"""
    monkeypatch.setattr(text, "_run", lambda *unused, **named: listing)
    assert text.list_rules("ip", "filter", "FORWARD") == {
        4: "ip daddr { 10.0.0.1, 10.0.0.2, 10.0.0.3 } drop",
        5: 'counter accept comment "all # handle 9"',
    }
