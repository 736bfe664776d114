# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""From the nodes of a remote cluster to the peers of our device (semaphore 3.5).

Whether a node may claim what it publishes is decided elsewhere (claims.py); here text becomes values.
"""

from __future__ import annotations

import typing as t

from .._values.addresses import Network, network_key, parse_endpoint, parse_network
from .._values.keys import parse_key
from .._values.ranges import RangeSet, overlapping_pairs
from .._values.refused import ValueRefused, quoted
from .semaphore_annotations import announces, keys_for
from .semaphore_device import KEEPALIVE

SOURCES = ("pod_cidr", "pod_cidrs")
#: Kubernetes gives a node at most one range per family; anything near this limit is an attack, not a node.
MAX_POD_CIDRS = 256


def pod_cidrs_of(node: t.Mapping[str, t.Any], source: str = "pod_cidrs") -> t.List[Network]:
    """A node's pod ranges, host bits masked, in its own order. Raises ``bad_pod_cidr`` when there is none."""
    single, several = node.get("podCIDR"), node.get("podCIDRs")
    if source == "pod_cidr" or not several:
        several = [single] if single else (several or [])[:1] if isinstance(several, list) else []
    if not isinstance(several, list) or not several:
        raise ValueRefused("bad_pod_cidr", "the node has no pod range; {0} is none".format(quoted(several)))
    if len(several) > MAX_POD_CIDRS:
        raise ValueRefused("bad_pod_cidr", "the node has {0} pod ranges".format(len(several)))
    ranges: t.List[Network] = []
    for text in several:
        network = parse_network(text, "bad_pod_cidr")
        if network not in ranges:
            ranges.append(network)
    return ranges


def read_endpoint(text: object) -> t.Optional[str]:
    """The endpoint in canonical form; None for the empty text of a passive peer. Names are kept as they are."""
    return None if text in ("", None) else str(parse_endpoint(text))


def peer(public_key: t.Any, endpoint: t.Optional[str], allowed_ips: t.Iterable[str]) -> t.Dict[str, t.Any]:
    """One wanted peer as plain data; Semaphore uses no preshared keys."""
    return {
        "public_key": public_key,
        "endpoint": endpoint,
        "allowed_ips": list(allowed_ips),
        "persistent_keepalive": KEEPALIVE,
        "preshared_key": None,
    }


def read_published(local: str, published: t.Any) -> t.Optional[t.Tuple[str, t.Optional[str]]]:
    """(public key, endpoint or None) that a node publishes for us, or None when it does not.

    Raises ValueRefused (``bad_public_key``, ``bad_endpoint``).
    """
    if not isinstance(published, dict) or not announces(local, published):
        return None
    keys = keys_for(local)
    return parse_key(published[keys["pubKey"]]), read_endpoint(published[keys["endpoint"]])


def read_peer(local: str, node: t.Mapping[str, t.Any], source: str = "pod_cidrs") -> t.Optional[t.Dict[str, t.Any]]:
    """The peer that a remote node asks for, or None when it does not publish for us.

    node: {name, podCIDR, podCIDRs, annotations}. Raises ValueRefused (``bad_public_key``, ``bad_endpoint``,
    ``bad_pod_cidr``).
    """
    found = read_published(local, node.get("annotations"))
    return None if found is None else peer(*found, [str(network) for network in pod_cidrs_of(node, source)])


def peers(
    local: str,
    nodes: t.Iterable[t.Mapping[str, t.Any]],
    current: t.Optional[t.Iterable[str]] = None,
    pod_subnets: t.Optional[t.Iterable[str]] = None,
    source: str = "pod_cidrs",
) -> t.Dict[str, t.Any]:
    """The complete set of peers of one device.

    current: public keys on the device now; pod_subnets: the remote's ranges that we route. Returns {peers (by public
    key), removed: [key], skipped: [{node, reason, message}], warnings: [{node, reason, message}]}. Of two nodes with
    one key the last one listed counts.
    """
    wanted: t.Dict[str, t.Dict[str, t.Any]] = {}
    names: t.Dict[str, str] = {}
    skipped = []
    for node in nodes:
        name = str(node.get("name"))
        try:
            found = read_peer(local, node, source)
        except ValueRefused as error:
            skipped.append({"node": name, "reason": error.word, "message": error.message})
            continue
        if found is not None:
            wanted[found["public_key"]], names[found["public_key"]] = found, name
    return {
        "peers": [wanted[key] for key in sorted(wanted)],
        "removed": sorted(set(current or ()) - set(wanted)),
        "skipped": skipped,
        "warnings": _warnings(wanted, names, pod_subnets),
    }


def _warnings(
    wanted: t.Mapping[str, t.Mapping[str, t.Any]], names: t.Mapping[str, str], pod_subnets: t.Optional[t.Iterable[str]]
) -> t.List[t.Dict[str, str]]:
    ranges = [(parse_network(text), key) for key in wanted for text in wanted[key]["allowed_ips"]]
    found = []
    if pod_subnets:
        routed = RangeSet(parse_network(text) for text in pod_subnets)
        for network, key in sorted(ranges, key=lambda row: (network_key(row[0]), row[1])):
            if not routed.covers(network):
                found.append((names[key], "outside_pod_subnet", "no route leads to {0}".format(network)))
    for (outer, first), (inner, second) in overlapping_pairs(ranges, lambda a, b: bool(a == b)):
        message = "{0} overlaps {1} of node {2}; the peer configured last takes it".format(inner, outer, names[first])
        found.append((names[second], "overlaps_peer", message))
    return [{"node": node, "reason": reason, "message": message} for node, reason, message in found]


def sync_decision(
    local: str,
    current: t.Mapping[str, t.Mapping[str, t.Any]],
    event: str,
    node: t.Mapping[str, t.Any],
    initial_list_done: bool = True,
) -> bool:
    """Whether a watch event on a remote node makes a new full sync necessary.

    current: what was applied last, {public key: {endpoint, allowed_ips}}; event: added, modified or deleted. A node
    that withdrew its annotations is known by the pod ranges of its peer: that peer has to go.
    """
    if not initial_list_done:
        return False
    published = node.get("annotations") if isinstance(node.get("annotations"), dict) else {}
    public_key = published.get(keys_for(local)["pubKey"])  # type: ignore[union-attr]
    if event == "deleted":
        return public_key in current
    if not announces(local, published):
        return public_key in current or _live_ranges(node, current)
    try:
        found = read_peer(local, node)
    except ValueRefused:
        return True  # either its peer has to go or the refusal has to be reported
    if found is None:
        return False
    live = current.get(found["public_key"])
    if live is None:
        return True
    return (live.get("endpoint") or None) != found["endpoint"] or _ranges(live) != _ranges(found)


def _live_ranges(node: t.Mapping[str, t.Any], current: t.Mapping[str, t.Mapping[str, t.Any]]) -> bool:
    try:
        ranges = sorted(str(network) for network in pod_cidrs_of(node))
    except ValueRefused:
        return False
    return any(_ranges(row) == ranges for row in current.values())


def _ranges(row: t.Mapping[str, t.Any]) -> t.List[str]:
    return sorted(row.get("allowed_ips") or ())
