# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks a node's kernel where packets for the peers of its WireGuard devices go. Reads only."""

from __future__ import annotations

import typing as t

from ..._dataplane import paths
from ..._linux.netlink.routes import look_up, read_all_routes
from ..._linux.netlink.rules import read_rules
from ..._values.addresses import parse_address
from ..._values.refused import ValueRefused

Data = t.Dict[str, t.Any]


def read(devices: t.Iterable[t.Mapping[str, t.Any]], pods: t.Iterable[str] = (), mark: int = 0) -> Data:
    """{asked: count, elsewhere: [the first of what does not leave by its device], more: count of the rest}.

    devices: [{name, peers: [{allowed_ips}]}]; pods: addresses of pods of this node; mark: what packets for the peers carry.
    Raises LinuxError.
    """
    tunnels = [{"device": d["name"], "mark": mark, "ranges": [cidr for peer in d["peers"] for cidr in peer["allowed_ips"]]} for d in devices]
    routes = read_all_routes()
    rules = [rule for version in (4, 6) for rule in read_rules(version)]
    asked = paths.questions(tunnels, routes, rules, _ways_in(pods))
    found = paths.elsewhere(asked, look_up(asked), routes, rules)
    return {"asked": len(asked), "elsewhere": found[: paths.SHOWN], "more": max(0, len(found) - paths.SHOWN)}


def strays(pod_cidrs: t.Sequence[str], cluster_cidrs: t.Sequence[str], devices: t.Collection[str]) -> t.List[str]:
    """Addresses of pods here that are not from the node's own ranges, by the routes to them."""
    return paths.stray_hosts(read_all_routes(), pod_cidrs, cluster_cidrs, devices) if cluster_cidrs else []


def _ways_in(pods: t.Iterable[str]) -> t.List[Data]:
    """By which device each pod's packets come in: the one that leads to it. An address of the host itself comes in by none."""
    addresses = list(pods)
    answers = look_up([{"dst": address} for address in addresses])
    return [
        {"address": address, "iif": answer["dev"]}
        for address, answer in zip(addresses, answers)
        if answer["error"] is None and answer["type"] == "unicast" and answer["dev"]
    ]


def sources(endpoints: t.Sequence[t.Optional[str]], fwmark: int = 0) -> t.List[t.Optional[str]]:
    """For each peer's endpoint, the address that this host's packets to it leave with; None where there is no way."""
    hosts = [_host(endpoint) for endpoint in endpoints]
    answers = iter(look_up([{"dst": host, "mark": fwmark} for host in hosts if host]))
    return [(next(answers).get("src") if host else None) for host in hosts]


def _host(endpoint: t.Any) -> str:
    text = str(endpoint or "").rpartition(":")[0].strip("[]")
    try:
        return str(parse_address(text))
    except ValueRefused:
        return ""  # none, or one with a scope
