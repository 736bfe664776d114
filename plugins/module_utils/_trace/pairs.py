# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairs of pods that did not respond in a verification, as flows: what is traced is exactly what failed. Pure."""

from __future__ import annotations

import itertools
import typing as t

from .._plan.seen_addresses import Seen
from .._values.addresses import address_number, parse_address
from .._values.text import mapping
from .causes import place_text

Data = dict[str, t.Any]


def failing(pings: t.Mapping[str, t.Iterable[t.Mapping[str, t.Any]]], most: int) -> list[dict[str, str]]:
    """[{host, address, target_host, target}]: the first failing pair of each pair of nodes, at most so many.

    pings: host -> rows {source, target, node, ok} of node_probe.
    """
    found: dict[frozenset[str], dict[str, str]] = {}
    for host in sorted(pings):
        for ping in pings[host]:
            if not ping["ok"]:
                row = {
                    "host": host,
                    "address": str(ping["source"]),
                    "target_host": str(ping["node"]),
                    "target": str(ping["target"]),
                }
                found.setdefault(frozenset((host, str(ping["node"]))), row)
    return list(found.values())[:most]


def flows(
    pairs: t.Iterable[t.Mapping[str, t.Any]],
    hosts: t.Mapping[str, t.Mapping[str, t.Any]],
    number: int,
    seen: Seen | None = None,
) -> list[Data]:
    """An echo for each pair, and one back, which shows whether the other side can send. hosts: {host: {cluster, node}}. Raises ValueRefused.

    The target of a pair is as its source sees it. seen: at which addresses clusters see pods of others.
    """
    found: list[Data] = []
    seen = seen or Seen()
    numbers = itertools.count(number)
    for index, pair in enumerate(pairs):
        ends = [
            _end(hosts, pair["host"], pair["address"], seen),
            _end(hosts, pair["target_host"], pair["target"], seen),
        ]
        if ends[0]["cluster"] != ends[1]["cluster"]:
            own = address_number(pair["target"])
            ends[1] = _end(hosts, pair["target_host"], place_text(*seen.own(ends[1]["cluster"], own)), seen)
        else:
            ends = [{key: value for key, value in end.items() if key != "seen"} for end in ends]
        found.append(_flow(str(index), next(numbers), *ends))
        found.append(dict(_flow(str(index) + "r", next(numbers), *reversed(ends)), about=str(index)))
    return found


def _end(hosts: t.Mapping[str, t.Mapping[str, t.Any]], host: t.Any, address: t.Any, seen: Seen) -> Data:
    """A pod at its own address, with the one at which other clusters see it where that is another."""
    cluster = str(mapping(hosts, str(host)).get("cluster") or "")
    text = str(parse_address(address))
    other = place_text(*seen.address(cluster, address_number(text)))
    return {
        **({"seen": other} if other != text else {}),
        "kind": "pod",
        "name": f"pod {address} of {host}",
        "cluster": cluster,
        "host": str(host),
        "address": text,
    }


def _flow(name: str, number: int, source: Data, target: Data) -> Data:
    dialled = target.get("seen", target["address"])
    backend = {"address": dialled, "port": None, "cluster": target["cluster"], "host": target["host"]}
    if dialled != target["address"]:
        backend["own"] = target["address"]
    version = parse_address(source["address"]).version
    return {
        "id": name,
        "number": number,
        "protocol": "icmp",
        "version": version,
        "source": source,
        "target": dict(target, address=dialled, port=None, backends=[backend]),
    }
