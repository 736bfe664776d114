# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods as a node's kernel sees them: network namespaces that hold an address of the node's pod ranges.

No container runtime is asked, so it works with any: every pod has a namespace, and either a process in it or a
mount of it below /run/netns.
"""

from __future__ import annotations

import os
import typing as t

from ..._values.addresses import Network, contains, parse_address, parse_network
from ..._values.refused import ValueRefused
from ..._values.text import is_digits
from ..errors import LinuxError
from ..netlink.links import read_links

#: More namespaces than this are not looked into; a node runs 110 pods by default and rarely more than 500.
MAX_NAMESPACES = 1000
#: So many addresses are returned; one would be enough.
_MOST = 20


def find_pods(
    pod_cidrs: t.Sequence[str], limit: int, cluster_cidrs: t.Sequence[str] = (), first: t.Collection[str] = ()
) -> dict[str, list[t.Any]]:
    """{"pods": up to ``limit`` as {netns: path, addresses: [text]}, sorted by address, "strays", "others": [address]}.

    Where no pod namespace is found, an address of the node itself inside its pod ranges (a bridge's) replaces it, with
    netns None. ``strays`` are addresses inside ``cluster_cidrs`` that are not in the node's own ranges, ``others`` those
    outside both, of namespaces that have none inside: what was met on the way to the pods. ``first``: addresses of pods that
    come before all others as long as they are there; they are looked for to the end.
    """
    ranges, cluster = [parse_network(text) for text in pod_cidrs], [parse_network(text) for text in cluster_cidrs]
    first = frozenset(first)
    pods: list[dict[str, t.Any]] = []
    strays: set[str] = set()
    others: set[str] = set()
    for path in _namespaces():
        addresses = _addresses(path)
        inside = _within(addresses, ranges)
        if inside:
            pods.append({"netns": path, "addresses": inside})
        else:
            astray = _within(addresses, cluster)
            strays.update(astray)
            others.update(set(addresses) - set(astray))
        if len(pods) >= limit * 8 and first.issubset(address for pod in pods for address in pod["addresses"]):
            break
    if not pods:
        own = _within(_addresses(None), ranges)
        pods = [{"netns": None, "addresses": own}] if own else []
    pods.sort(key=lambda pod: (first.isdisjoint(pod["addresses"]), [_sort_key(text) for text in pod["addresses"]]))
    return {
        "pods": pods[:limit],
        "strays": sorted(strays, key=_sort_key)[:_MOST],
        "others": sorted(others, key=_sort_key)[:_MOST],
    }


def _namespaces() -> t.Iterator[str]:
    seen = {_inode("/proc/self/ns/net")}
    candidates: list[str] = []
    for folder in ("/run/netns", "/run/docker/netns"):
        try:
            candidates.extend(os.path.join(folder, name) for name in sorted(os.listdir(folder)))
        except OSError:
            continue
    candidates.extend(f"/proc/{pid}/ns/net" for pid in sorted(os.listdir("/proc")) if is_digits(pid))
    for path in candidates:
        inode = _inode(path)
        if inode is None or inode in seen:
            continue
        seen.add(inode)
        if len(seen) > MAX_NAMESPACES:
            return
        yield path


def _inode(path: str) -> tuple[int, int] | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return (info.st_dev, info.st_ino)


def _addresses(netns: str | None) -> list[str]:
    """What others can reach: neither loopback nor addresses of one link."""
    try:
        links = read_links(netns)
    except LinuxError:
        return []  # it went, or its processes did, while we looked
    texts = [
        address.text.partition("/")[0] for link in links for address in link.addresses if address.scope == "global"
    ]
    return sorted(texts, key=_sort_key)


def _within(addresses: t.Sequence[str], ranges: t.Sequence[Network]) -> list[str]:
    found = []
    for text in addresses:
        try:
            host = parse_network(f"{text}/{parse_address(text).max_prefixlen}")
        except ValueRefused:
            continue
        if any(contains(outer, host) for outer in ranges):
            found.append(text)
    return found


def _sort_key(text: str) -> tuple[int, int]:
    address = parse_address(text)
    return (address.version, int(address))
