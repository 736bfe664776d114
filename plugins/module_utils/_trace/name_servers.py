# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DNS server of a cluster's pods, and what it really answered alongside what the objects make expected. Pure.

The objects say what a name should lead to; the server may have loaded an older Corefile, have another one, or not answer at all.
"""

from __future__ import annotations

import typing as t

from .._values.text import list_of, mapping
from . import causes
from .causes import argument, printable
from .facts import Node
from .objects import Address, Cluster, addresses

DNS_NAMESPACE = "kube-system"
#: What the Service is called, and the label by which others know it.
_NAMES = ("kube-dns", "coredns")
_LABEL = ("k8s-app", "kube-dns")
ANSWERED, UNREACHABLE, FAILED = "answered", "no_answer", "failed"


class Server(t.NamedTuple):
    """Where pods ask."""

    addresses: tuple[Address, ...]
    port: int


class Resolved(t.NamedTuple):
    """What the server said to one flow's source."""

    server: str
    outcome: str
    name: str
    addresses: tuple[Address, ...]
    detail: str


def server_of(cluster: Cluster, namespace: str) -> Server | None:
    """The Service of a cluster that answers its pods' names."""
    named = [cluster.services.get((namespace, name)) for name in _NAMES]
    labelled = [
        one
        for one in cluster.services.values()
        if one.namespace == namespace and one.labels.get(_LABEL[0]) == _LABEL[1]
    ]
    for service in (*named, *labelled):
        ports = [port.port for port in service.ports if port.protocol == "UDP"] if service is not None else []
        if service is not None and ports and service.addresses:
            return Server(service.addresses, 53 if 53 in ports else ports[0])
    return None


def parse_resolved(rows: t.Any, flow: str) -> Resolved | None:
    """What trace_node returns for a flow's name; None where it asked nobody."""
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and str(row.get("flow")) == flow:
            found = row.get("addresses")
            words = [printable(row.get(key) or "") for key in ("server", "outcome", "name", "detail")]
            return Resolved(
                words[0], words[1], words[2], addresses(found[:64] if isinstance(found, list) else ()), words[3]
            )
    return None


def asks_of(row: t.Mapping[str, t.Any]) -> tuple[str, tuple[Address, ...]]:
    """(the name that should be there, the addresses that it should have) of a flow; empty for one that asks nothing."""
    asks = mapping(row, "ask")
    names, desired = list_of(asks.get("names")), list_of(asks.get("expected"))
    return (str(names[-1]) if names else "", addresses(desired))


def fault_of(row: t.Mapping[str, t.Any], resolved: Resolved | None, source: Node | None) -> tuple[str, str] | None:
    """(cause, sentence) where the answer is none, or another than the objects make expected."""
    name, desired = asks_of(row)
    if resolved is None or not name:
        return None
    host = str(mapping(row, "source").get("host"))
    if resolved.outcome in (UNREACHABLE, FAILED):
        why = "gave no answer" if resolved.outcome == UNREACHABLE else f"could not answer ({resolved.detail or '?'})"
        text = f"the DNS server {resolved.server}, asked from {host} for {printable(resolved.name or name)}, {why}"
        if resolved.outcome == UNREACHABLE and source is not None and source.kube_proxy is False:
            return (
                causes.KUBE_PROXY_OFF,
                f"no kube-proxy runs on {host}, and nothing else turns {resolved.server} into an address of the DNS server",
            )
        return causes.DNS_FAILS, text
    if resolved.outcome == ANSWERED and set(resolved.addresses) & set(desired):
        return None
    answer = ", ".join(causes.place_text(*one) for one in resolved.addresses[:5]) or resolved.detail or resolved.outcome
    should = ", ".join(causes.place_text(*one) for one in desired[:5])
    asked = printable(resolved.name or name)
    text = f"the DNS server {resolved.server} answers {answer} for {asked}; by the objects of the cluster it is {should}, as {printable(name)}"
    return causes.DNS_DIFFERS, text


def command(resolved: Resolved) -> str:
    """How to ask by hand, in the pod."""
    return f"dig +short {argument(resolved.name or 'NAME')} @{argument(resolved.server)}"
