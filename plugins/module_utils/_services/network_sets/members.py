# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network sets from pods: who is in which set, what of it the inventory grants, and under which name (semaphore 6.2, 6.3)."""

from __future__ import annotations

import calendar
import re
import typing as t
import zlib

from ..._plan.plan import Refusal
from ..._values.addresses import (
    network_key,
    parse_address,
    parse_network,
    plain_address,
    plain_network_key,
    special_kind,
)
from ..._values.exported_ranges import ExportedRanges
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused, quoted
from ..._values.text import dicts_of, mapping

NAME_LABEL = "policy.semaphore.uw.io/name"
NAMESPACE_LABEL = "policy.semaphore.uw.io/namespace"
CLUSTER_LABEL = "policy.semaphore.uw.io/cluster"
MANAGED_BY_LABEL, MANAGED_BY = "managed-by", "semaphore-policy"
#: Phases in which a pod has no address any more, whatever its status still has.
FINISHED = ("Succeeded", "Failed")
#: A pod is gone this long after the time at which it should have been; clocks differ.
TERMINATION_SLACK_SECONDS = 60.0
#: Bytes of networks in one object. The API server's store takes 1.5 MB in all.
SHARD_BYTES = 600_000
#: Nobody gives a pod more addresses; what does is not read (T21).
MOST_ADDRESSES = 16
# Calico and Cilium take DNS subdomains with labels that may be longer than 63 characters.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\Z")
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?\Z")


class Member(t.NamedTuple):
    """What a set represents: pods of one cluster and namespace that have one value of the label."""

    cluster: str
    namespace: str
    value: str

    @property
    def label(self) -> str:
        return "{0}/{1}/{2}".format(*self)


class Origin(t.NamedTuple):
    """Where an address of a set comes from: a pod's name, and whether it is the address of its node."""

    pod: str
    host: bool


#: {member: {network: origin}}
Members = dict[Member, dict[str, Origin]]


class NamedSet(t.NamedTuple):
    """A set as an object: its name, what it represents, its networks in order."""

    name: str
    member: Member
    nets: tuple[str, ...]


class Clash(t.NamedTuple):
    """A set that gets no object, and the name it would have had."""

    name: str
    refusal: Refusal


def members_of(
    cluster: str, pods: t.Iterable[t.Any], include_host_network: bool = False, now: float | None = None
) -> tuple[Members, list[Refusal]]:
    """The addresses of a cluster's pods by set, and what of them could not be read.

    Host-network and finished pods are left out, and with ``now`` (seconds since 1970) those that should long be gone:
    their addresses may belong to others. Readiness does not matter. Never raises for what a cluster sends.
    """
    members: Members = {}
    refused: list[Refusal] = []
    for pod in pods:
        try:
            _add_pod(cluster, pod, include_host_network, now, members, refused)
        except ValueRefused as error:
            refused.append(Refusal(_pod_label(cluster, pod), error.reason, error.message))
    return members, refused


def _add_pod(
    cluster: str, pod: t.Any, include_host: bool, now: float | None, members: Members, refused: list[Refusal]
) -> None:
    metadata, spec, status = (mapping(pod, name) for name in ("metadata", "spec", "status"))
    value = mapping(metadata, "labels").get(NAME_LABEL)
    host = spec.get("hostNetwork") is True
    if value is None or status.get("phase") in FINISHED or (host and not include_host) or _overdue(metadata, now):
        return
    namespace = metadata.get("namespace")
    if not isinstance(namespace, str) or not _NAMESPACE.match(namespace):
        raise ValueRefused("name_invalid", f"{quoted(namespace)} is not a namespace")
    if not isinstance(value, str) or not _VALUE.match(value):
        raise ValueRefused("name_invalid", f"{quoted(value)} is not a label's value")
    member = Member(cluster, namespace, value)
    origin = Origin(str(metadata.get("name")), host)
    for text in _addresses(status):
        try:
            net = _host_net(text)
        except ValueRefused as error:
            refused.append(Refusal(_pod_label(cluster, pod), error.reason, error.message))
            continue
        nets = members.setdefault(member, {})
        # an address of a pod beats the same one of a node: it is the narrower claim
        if net not in nets or nets[net].host:
            nets[net] = origin


def _host_net(text: t.Any) -> str:
    """The network of one address, as it is printed."""
    if isinstance(text, str) and plain_address(text) is not None:
        return text + "/32"
    address = parse_address(text)
    return f"{address}/{address.max_prefixlen}"


def host_nets(status: t.Mapping[str, t.Any]) -> list[str]:
    """The networks of a pod's addresses; none where its status cannot be read."""
    try:
        return [_host_net(text) for text in _addresses(status)]
    except ValueRefused:
        return []


def _addresses(status: t.Mapping[str, t.Any]) -> list[t.Any]:
    """Every podIPs entry; podIP where there are none."""
    found = [entry.get("ip") for entry in dicts_of(status.get("podIPs"))]
    if len(found) > MOST_ADDRESSES:
        raise ValueRefused("bad_address", f"it has {len(found)} addresses")
    return [text for text in found if text] or ([status["podIP"]] if status.get("podIP") else [])


def _overdue(metadata: t.Mapping[str, t.Any], now: float | None) -> bool:
    """True when the time at which the pod had to be gone has passed."""
    text = metadata.get("deletionTimestamp")
    if now is None or not isinstance(text, str):
        return False
    due = seconds_of_time(text)
    return due is not None and now > due + TERMINATION_SLACK_SECONDS


def seconds_of_time(text: str) -> float | None:
    """Seconds since 1970 of a time as API servers write it; None for anything else."""
    found = re.match(
        r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]{1,9})?Z\Z", text, re.ASCII
    )
    if not found:
        return None
    try:
        return float(calendar.timegm(tuple(int(part) for part in found.groups()) + (0, 0, 0)))
    except (ValueError, OverflowError):
        return None


def _pod_label(cluster: str, pod: t.Any) -> str:
    metadata = mapping(pod, "metadata")
    parts = [cluster] + [str(metadata.get(name))[:253] for name in ("namespace", "name")]
    return "/".join(part if part.isprintable() else ascii(part) for part in parts)


def as_seen(members: Members, exported: ExportedRanges) -> Members:
    """The members of a cluster with the addresses at which other clusters see its pods (translation 4); those of nodes as they are."""
    if not exported:
        return members
    return {
        member: {net if origin.host else exported.network(net): origin for net, origin in nets.items()}
        for member, nets in members.items()
    }


def check_members(
    cluster: str, members: Members, grants: t.Mapping[str, t.Iterable[str]]
) -> tuple[Members, list[Refusal]]:
    """The members with those networks that the cluster may claim, and a refusal for each other one (decision 29, threat T13).

    Every run goes through it, between reading pods and building sets. It has no off switch.

    grants: {pod_cidrs, node_cidrs} of this cluster. A pod's address is in its pod ranges, a host-network pod's in its
    node ranges; each is one host and never a special address. Words: special_address, outside_grant.
    """
    pods, nodes = (PrefixSet.of_texts(grants.get(name) or ()) for name in ("pod_cidrs", "node_cidrs"))
    kept: Members = {}
    refused: list[Refusal] = []
    for member in sorted(members):
        good: dict[str, Origin] = {}
        for net, origin in members[member].items():
            # nearly all, quickly
            number = plain_address(net[:-3]) if net.endswith("/32") else None
            if number is not None and member.cluster == cluster and (nodes if origin.host else pods).has_v4(number):
                good[net] = origin
                continue
            network = parse_network(net)
            address = network.network_address
            label = f"{cluster}/{member.namespace}/{origin.pod}"
            kind = special_kind(address)
            if member.cluster != cluster:
                refused.append(Refusal(label, "outside_grant", f"{cluster} reports pods of cluster {member.cluster}"))
            elif network.prefixlen != network.max_prefixlen or kind is not None:
                refused.append(
                    Refusal(label, "special_address", f"{net} is no address of one pod ({kind or 'network'})")
                )
            elif address not in (nodes if origin.host else pods):
                what = "node_cidrs" if origin.host else "pod_cidrs"
                refused.append(Refusal(label, "outside_grant", f"{address} is in none of the {what} of {cluster}"))
            else:
                good[net] = origin
        if good:
            kept[member] = good
    return kept, refused


def set_name(member: Member) -> str:
    """``<cluster>-<namespace>-<label value>``. Raises ValueRefused ``name_invalid`` where that is no object's name."""
    name = "-".join(member)
    if len(name) > 253 or not _NAME.match(name):
        raise ValueRefused(
            "name_invalid", f"{quoted(name)} cannot name an object: lower-case letters, digits, hyphens and dots only"
        )
    return name


def set_labels(member: Member) -> dict[str, str]:
    """The four labels, by which policies find a set and semaphore-policy its own."""
    return {
        MANAGED_BY_LABEL: MANAGED_BY,
        CLUSTER_LABEL: member.cluster,
        NAME_LABEL: member.value,
        NAMESPACE_LABEL: member.namespace,
    }


def name_sets(
    members: t.Mapping[Member, t.Iterable[str]],
    holders: t.Mapping[str, Member] | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> tuple[list[NamedSet], list[Clash]]:
    """One or more objects for every member, sorted by name; no name is used by two members, and none mixes two.

    ``a-b``/``c`` and ``a``/``b-c`` make one name, as do cluster ``x`` with namespace ``2-y`` and ``x-2`` with ``y``. The
    member that already holds the name (``holders``: name -> member) keeps it, else the first in order; the others get no
    object, since admitting too little is an error that shows and admitting too much is one that does not.
    """
    holders = holders or {}
    taken: dict[str, Member] = {}
    named: list[NamedSet] = []
    clashes: list[Clash] = []
    ranked = []
    for member in sorted(members):
        try:
            name = set_name(member)
        except ValueRefused as error:
            clashes.append(Clash("-".join(member), Refusal(member.label, error.reason, error.message)))
            continue
        nets = sorted_nets(members[member])
        if nets:
            ranked.append((holders.get(name) != member, member, name, nets))
    for dummy, member, name, nets in sorted(ranked):
        shards = _shards(name, nets, shard_bytes)
        owners = [taken.get(one, member) for one in shards]
        # a name that belongs to a set which is not being computed now is not free either
        owners += [holders[one] for one in shards if one in holders and holders[one] not in members]
        other = next((owner for owner in owners if owner != member), None)
        if other is not None:
            message = f"its set would be called {name} like that of {other.label}, which keeps the name"
            clashes.append(Clash(name, Refusal(member.label, "claimed_twice", message)))
            continue
        taken.update((one, member) for one in shards)
        named += [NamedSet(one, member, tuple(part)) for one, part in shards.items() if part]
    return sorted(named), clashes


def sorted_nets(nets: t.Iterable[str]) -> list[str]:
    """Networks without duplicates, IPv4 first, by address."""
    return sorted(set(nets), key=lambda net: plain_network_key(net) or network_key(parse_network(net)))


def _shards(name: str, nets: t.Sequence[str], shard_bytes: int) -> dict[str, list[str]]:
    """{object name: networks}. A network always goes to the same one of N, so that one change is one write.

    N is a power of two and so seldom changes. The first part has the plain name.
    """
    count = 1
    while sum(len(net) + 3 for net in nets) > shard_bytes * count:
        count *= 2
    shards: dict[str, list[str]] = {name if part == 0 else f"{name}.part-{part + 1}": [] for part in range(count)}
    names = list(shards)
    for net in nets:
        shards[names[zlib.crc32(net.encode()) % count]].append(net)
    return shards
