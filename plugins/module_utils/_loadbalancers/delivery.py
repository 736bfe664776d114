# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node may announce right now, by the answers of its own kube-proxy.

A port that answers 200 means that the node can deliver, one that answers anything else means that it cannot, and that counts at once. No answer
decides nothing yet: kube-proxy restarts now and then, and its rules stay meanwhile. So the last answer holds for a while (``SILENCE_SECONDS``).
"""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused
from .bgp.speaker import parse_prefixes

#: How long the last answer of a port holds that does not answer any more.
SILENCE_SECONDS = 10.0
GOOD = 200


class Heard(t.NamedTuple):
    """The last answer of a port, and when it came (a clock that only goes forward)."""

    good: bool
    at: float


Memory = t.Mapping[int, Heard]


class Desired(t.NamedTuple):
    """A network and the ports that have to agree before it is announced."""

    network: str
    health_ports: tuple[int, ...] = ()


class Decision(t.NamedTuple):
    """The networks to announce, why each of the others is withheld, and what stops all of them, if anything does."""

    announced: list[str]
    withheld: dict[str, str]
    stopped: str = ""


def parse_routes(prefixes: t.Iterable[object], rows: t.Iterable[t.Mapping[str, t.Any]]) -> tuple[Desired, ...]:
    """Networks without a condition, and routes; each network once, with the ports of all that name it. Raises ValueRefused."""
    found: dict[str, set[int]] = {text: set() for text in parse_prefixes(prefixes)}
    for row in rows:
        ports = [int(port) for port in row.get("health_ports") or ()]
        if any(not 0 < port < 65536 for port in ports):
            raise ValueRefused("bad_format", "health_ports are numbers from 1 to 65535")
        found.setdefault(parse_prefixes([row["network"]])[0], set()).update(ports)
    return tuple(Desired(network, tuple(sorted(found[network]))) for network in parse_prefixes(found))


def heard(memory: Memory, answers: t.Mapping[int, int | None], now: float) -> dict[int, Heard]:
    """The memory after one round of questions: ports that were not asked are forgotten."""
    found = {}
    for port, status in answers.items():
        if status is not None:
            found[port] = Heard(status == GOOD, now)
        elif port in memory:
            found[port] = memory[port]
    return found


def trusted(memory: Memory, announced: t.Iterable[Desired], node_port: int, now: float) -> dict[int, Heard]:
    """The memory of a follower that has just begun: what is announced was right until now."""
    ports = {port for route in announced for port in (*route.health_ports, node_port) if port}
    return {**{port: Heard(True, now) for port in ports}, **memory}


def judge(routes: t.Iterable[Desired], memory: Memory, node_port: int, known: bool, now: float) -> Decision:
    """What holds now.

    ``node_port``: kube-proxy's own, which counts for everything on the node, 0 for none. It counts once it has ever answered (``known``): there are
    clusters without kube-proxy, and nothing must be withdrawn there.
    """
    stops = _stopped(memory, node_port, now) if node_port and known else ""
    announced, withheld = [], {}
    for route in routes:
        why = stops or next((text for text in (_stopped(memory, port, now) for port in route.health_ports) if text), "")
        if why:
            withheld[route.network] = why
        else:
            announced.append(route.network)
    return Decision(announced, withheld, stops)


def _stopped(memory: Memory, port: int, now: float) -> str:
    last = memory.get(port)
    if last is None:
        return f"port {port} of this node does not answer"
    if not last.good:
        return f"port {port} of this node reports that it cannot deliver"
    return (
        f"port {port} of this node has not responded for {SILENCE_SECONDS:g} s"
        if now - last.at > SILENCE_SECONDS
        else ""
    )
