# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a DNS server sends, read strictly; and servers that do not answer, are slow or hostile, over real sockets."""

from __future__ import annotations

import ipaddress
import json
import pathlib
import socket
import struct
import threading
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.trace import ask as trace_ask
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import dns_query
from hypothesis import given, strategies as st

HOSTILE = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "dns_replies.json").read_text("utf-8")
)
NAME = "web.shop.svc.cluster.local"
LABEL = st.from_regex(r"\A[A-Za-z0-9_-]{1,20}\Z")


def reply(
    query: bytes, addresses: t.Sequence[str] = (), code: int = 0, more: bytes = b"", count: int | None = None
) -> bytes:
    """An answer to a query, its names as pointers to the question."""
    kind = struct.unpack(">H", query[-4:-2])[0]
    body = b"".join(
        struct.pack(">HHHIH", 0xC00C, kind, 1, 5, len(ipaddress.ip_address(text).packed))
        + ipaddress.ip_address(text).packed
        for text in addresses
    )
    head = query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(addresses) if count is None else count, 0, 0)
    return head + query[12:] + more + body


class Server:
    """A DNS server on this machine that answers what it is asked to; ``asked`` are the names that came."""

    def __init__(self, answer: t.Callable[[bytes, str], t.Sequence[bytes]], family: int = socket.AF_INET) -> None:
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        self.port = self.socket.getsockname()[1]
        self.asked: list[str] = []
        self.answer = answer
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                data, sender = self.socket.recvfrom(4096)
            except OSError:
                return
            if not data:
                return
            labels, at = [], 12
            while data[at]:
                labels.append(data[at + 1 : at + 1 + data[at]].decode())
                at += 1 + data[at]
            self.asked.append(".".join(labels))
            for packet in self.answer(data, self.asked[-1]):
                self.socket.sendto(packet, sender)

    def close(self) -> None:
        with socket.socket(self.socket.family, socket.SOCK_DGRAM) as one:
            one.sendto(b"", self.socket.getsockname())
        self.thread.join(5)
        self.socket.close()


@pytest.fixture
def serve() -> t.Iterator[t.Callable[..., Server]]:
    made: list[Server] = []

    def start(*arguments: t.Any, **more: t.Any) -> Server:
        made.append(Server(*arguments, **more))
        return made[-1]

    yield start
    for one in made:
        one.close()


def ask(server: Server, names: t.Sequence[str] = (NAME,), version: int = 4, wait: float = 5.0) -> dns_query.Answer:
    address = "127.0.0.1" if server.socket.family == socket.AF_INET else "::1"
    return dns_query.ask(dns_query.Question(None, address, server.port, tuple(names), version), wait)


def test_the_first_name_that_has_addresses_counts(serve: t.Any) -> None:
    there = {NAME: ["10.3.0.9", "10.3.0.10"], "later.example": ["192.0.2.1"]}
    server = serve(lambda query, name: [reply(query, there[name]) if name in there else reply(query, code=3)])
    found = ask(server, ["web.default.svc.cluster.local", NAME, "later.example"])
    assert found == ("answered", NAME, ("10.3.0.9", "10.3.0.10"), "") and server.asked == [
        "web.default.svc.cluster.local",
        NAME,
    ]
    assert ask(server, ["nobody.example", "nor.example"]).outcome == "no_name"


def test_both_families_of_server_and_of_address(serve: t.Any) -> None:
    server = serve(lambda query, name: [reply(query, ["fd00::9"])], family=socket.AF_INET6)
    assert ask(server, version=6)[:3] == ("answered", NAME, ("fd00::9",))
    four = serve(lambda query, name: [reply(query, ["fd00::9"]) if query[-3] == 28 else reply(query)])
    assert ask(four, version=6).addresses == ("fd00::9",) and ask(four, version=4).outcome == "no_address"


@pytest.mark.parametrize(("code", "detail"), [(2, "SERVFAIL"), (5, "REFUSED"), (9, "code 9")])
def test_a_server_that_fails_is_reported_by_its_code(serve: t.Any, code: int, detail: str) -> None:
    assert ask(serve(lambda query, name: [reply(query, code=code)]))[::3] == ("failed", detail)


def test_an_unresponsive_server_is_asked_twice_and_a_lost_answer_does_no_harm(serve: t.Any) -> None:
    unreachable = serve(lambda query, name: [])
    assert ask(unreachable, wait=0.4).outcome == "no_answer" and len(unreachable.asked) == 2
    second = serve(lambda query, name: [reply(query, ["10.3.0.9"])] if len(second.asked) > 1 else [])
    assert ask(second, wait=2.0).addresses == ("10.3.0.9",)


def test_what_is_no_answer_to_the_question_is_not_read(serve: t.Any) -> None:
    def forged(query: bytes, name: str) -> list[bytes]:
        other = dns_query.encode_query(struct.unpack(">H", query[:2])[0], "other.example", 1)
        wrong = bytes([query[0] ^ 1]) + query[1:]
        return [b"", b"x", reply(wrong, ["10.9.9.9"]), reply(other, ["10.9.9.9"]), query, reply(query, ["10.3.0.9"])]

    assert ask(serve(forged)).addresses == ("10.3.0.9",)


def test_nobody_there_is_an_answer_too() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    found = dns_query.ask(dns_query.Question(None, "127.0.0.1", port, (NAME,), 4), 1.0)
    assert found.outcome == "failed" and "refused" in found.detail
    assert dns_query.ask(dns_query.Question("/nowhere", "127.0.0.1", port, (NAME,), 4), 1.0).outcome == "failed"
    assert dns_query.ask(dns_query.Question(None, "127.0.0.1", port, ("a" * 64,), 4), 1.0).outcome == "failed"


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case["name"])
def test_hostile_replies_give_what_they_should(case: t.Mapping[str, t.Any]) -> None:
    found = dns_query.read_reply(bytes.fromhex(case["reply"]), 7, "a.b", 1)
    assert (None if found is None else list(found.addresses)) == case["addresses"]


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_none(data: bytes) -> None:
    head = dns_query.encode_query(7, "a.b", 1)
    for packet in (data, head[:12] + data, head + data, reply(head, more=data, count=9)):
        found = dns_query.read_reply(packet, 7, "a.b", 1)
        assert found is None or all(ipaddress.ip_address(text).version == 4 for text in found.addresses)


@given(
    st.lists(LABEL, min_size=1, max_size=6), st.lists(st.ip_addresses(v=6), max_size=9, unique=True), st.integers(0, 15)
)
def test_what_was_said_comes_back(labels: list[str], addresses: list[t.Any], code: int) -> None:
    query = dns_query.encode_query(7, ".".join(labels), 28)
    found = dns_query.read_reply(reply(query, [str(one) for one in addresses], code), 7, ".".join(labels).upper(), 28)
    assert found == (code, tuple(str(one) for one in addresses))


@pytest.mark.parametrize("name", ["", ".", "a..b", "a" * 64, ".".join(["a" * 60] * 5), "\u00e9.example"])
def test_a_name_without_a_form_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="DNS name"):
        dns_query.encode_query(1, name, 1)


def test_flows_are_asked_for_and_an_unresponsive_server_once(serve: t.Any) -> None:
    unreachable = serve(lambda query, name: [])
    good = serve(lambda query, name: [reply(query, ["10.3.0.9"])])
    asks = {"names": [NAME], "servers": ["127.0.0.1"]}
    rows = [
        {"id": "0", "version": 4, "ask": dict(asks, port=unreachable.port)},
        {"id": "1", "version": 4, "ask": dict(asks, port=unreachable.port, names=["other"])},
        {"id": "2", "version": 4, "ask": dict(asks, servers=["x"])},
        {"id": "3", "version": 4},
        {"id": "4", "version": 4, "ask": dict(asks, port=good.port)},
    ]
    found = trace_ask.ask_names(rows[:4], {row["id"]: None for row in rows}, 0.3)
    assert [(row["flow"], row["outcome"]) for row in found] == [("0", "no_answer"), ("1", "no_answer"), ("2", "failed")]
    assert set(unreachable.asked) == {NAME}
    assert trace_ask.ask_names(rows[4:], {"4": None}, 5.0) == [
        {
            "flow": "4",
            "server": "127.0.0.1",
            "outcome": "answered",
            "name": NAME,
            "addresses": ["10.3.0.9"],
            "detail": "",
        }
    ]
    # of a flow that starts elsewhere nothing is asked
    assert trace_ask.ask_names(rows, {}, 5.0) == []
