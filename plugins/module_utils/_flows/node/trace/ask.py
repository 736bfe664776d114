# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of a trace's flows, asked where the source would ask them: what its DNS server answers, alongside what the cluster's objects make expected."""

from __future__ import annotations

import typing as t

from ...._linux.host import dns_query
from ...._values.addresses import parse_address
from ...._values.refused import ValueRefused
from ...._values.text import list_of, parse_port
from .record import clean

Data = dict[str, t.Any]
#: Names of one flow: a search list has six at most, and the name itself.
_MOST_NAMES, _MOST_SERVERS, _MOST_ADDRESSES = 8, 3, 32


class Names(t.NamedTuple):
    """What one flow asks."""

    names: tuple[str, ...]
    servers: tuple[str, ...]
    port: int
    version: int


def parse_names(raw: t.Mapping[str, t.Any]) -> Names | None:
    """``ask`` of a flow of trace_plan; None for one that asks nobody. Raises ValueRefused."""
    asks = raw.get("ask")
    if not isinstance(asks, dict):
        return None
    names, servers = list_of(asks.get("names")), list_of(asks.get("servers"))
    if not names or not servers:
        return None
    texts = tuple(str(parse_address(text)) for text in servers[:_MOST_SERVERS])
    return Names(
        tuple(str(name) for name in names[:_MOST_NAMES]),
        texts,
        parse_port(asks.get("port", 53)),
        6 if raw.get("version") == 6 else 4,
    )


def ask_names(rows: t.Iterable[t.Mapping[str, t.Any]], places: t.Mapping[str, str | None], wait: float) -> list[Data]:
    """[{flow, server, outcome, name, addresses, detail}]. places: network namespace by flow. A server that does not respond is asked once from each of them."""
    found: list[Data] = []
    known: dict[tuple[t.Any, ...], dns_query.Answer] = {}
    unreachable: set[tuple[str | None, str]] = set()
    for raw in rows:
        flow = str(raw.get("id"))
        if flow not in places:
            continue
        try:
            asks = parse_names(raw)
        except ValueRefused as error:
            found.append(
                {
                    "flow": flow,
                    "server": "",
                    "outcome": dns_query.FAILED,
                    "name": "",
                    "addresses": [],
                    "detail": error.message,
                }
            )
            continue
        if asks is None:
            continue
        netns = places[flow]
        for server in asks.servers:
            key = (netns, server, asks)
            if key not in known:
                question = dns_query.Question(netns, server, asks.port, asks.names, asks.version)
                gone = dns_query.Answer(dns_query.UNREACHABLE, "", (), "no answer to an earlier question")
                known[key] = gone if (netns, server) in unreachable else dns_query.ask(question, wait)
            answer = known[key]
            if answer.outcome == dns_query.UNREACHABLE:
                unreachable.add((netns, server))
            if answer.outcome != dns_query.UNREACHABLE or server == asks.servers[-1]:
                found.append(
                    {
                        "flow": flow,
                        "server": server,
                        "outcome": answer.outcome,
                        "name": answer.name,
                        "addresses": list(answer.addresses[:_MOST_ADDRESSES]),
                        "detail": clean(answer.detail),
                    }
                )
                break
    return found
