# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Services keep no endpoint with hypotheses, and where addresses of load balancers go. Pure; objects are what clusters claim."""

from __future__ import annotations

import typing as t

from ..._loadbalancers.layer2.groups import number_groups
from ..._loadbalancers.layer2.segment import order
from ..._plan.seen_addresses import Seen
from ..._services.mcs.names import derived_name
from ..._services.mirror_services import is_mirror
from ..._services.names import global_name, mirror_name
from ..._values.refused import ValueRefused
from ..._values.selectors import Requirement, matches, parse_selector
from ..causes import place_text
from ..names import Settings
from ..objects import Address, Cluster, Id, Service
from .consequences import Consequences
from .what_if import AWAY, LABEL, SERVICE, Hypothesis

Data = dict[str, t.Any]
#: (cluster, host of the inventory or "")
Place = tuple[str, str]
Selector = t.Sequence[Requirement]


class Selectors(t.NamedTuple):
    """What of Services is shared by its labels; None: nothing."""

    mirror: Selector | None
    everywhere: Selector | None

    @classmethod
    def parse(cls, mirror: str, everywhere: str) -> Selectors:
        """Of their texts. Raises ValueRefused."""
        return cls(parse_selector(mirror) if mirror else None, parse_selector(everywhere) if everywhere else None)


class Speaker(t.NamedTuple):
    """How a node announces addresses: by a segment, by BGP, or not."""

    segment: str = ""
    bgp: bool = False


class LastEnds:
    """Services and addresses of clusters before and after hypotheses."""

    def __init__(
        self,
        clusters: t.Mapping[str, Cluster],
        rows: t.Sequence[Hypothesis],
        pairs: Consequences,
        seen: Seen,
        settings: Settings,
        selectors: Selectors,
    ) -> None:
        self.clusters, self.pairs, self.settings = clusters, pairs, settings
        self.selectors = selectors
        #: Services that are gone, and those that are not shared any more.
        self._gone = {_service_id(row.name) for row in rows if row.kind == SERVICE}
        self._unshared = {_service_id(row.where) for row in rows if row.kind == LABEL and self._ends_share(row)}
        self._away = frozenset(name for name in pairs.after.away)
        #: Clusters that are gone as such: of their own Services nothing is said.
        self._whole = {row.name for row in rows if row.kind == AWAY and row.name in clusters}
        self._carried: dict[tuple[str, str], tuple[bool, bool]] = {}
        self._own: dict[tuple[str, Address], Place] = {}
        self._seen: dict[Address, Place] = {}
        for cluster in clusters.values():
            hosts = {name: seat.host for name, seat in cluster.seats.items()}
            for seat in cluster.seats.values():
                self._seen.update((address, (cluster.name, seat.host)) for address in seat.addresses)
            for pod in cluster.pods.values():
                place = (cluster.name, hosts.get(pod.node, ""))
                for address in pod.addresses:
                    self._own[cluster.name, address] = place
                    self._seen[seen.address(cluster.name, address)] = place

    def _ends_share(self, row: Hypothesis) -> bool:
        """Whether a Service is shared by its labels, and would not be with the label of a hypothesis."""
        cluster, *key = row.where.split("/")
        service = self.clusters[cluster].services.get((key[0], key[1])) if cluster in self.clusters else None
        if service is None:
            return False
        labels = {name: value for name, value in service.labels.items() if name != row.name}
        if row.value is not None:
            labels[row.name] = str(row.value)
        asked = [one for one in self.selectors if one is not None]
        return any(matches(one, service.labels) and not matches(one, labels) for one in asked)

    def services(self) -> list[Data]:
        """[{cluster, namespace, name, endpoints, why}] of Services that have an endpoint which is reached, and would have none."""
        found = []
        emptied = self._emptied()
        for cluster in self.clusters.values():
            if cluster.name in self._whole:
                continue
            for key, rows in sorted(cluster.behind.items()):
                service = cluster.services.get(key)
                ready = {one.address for one in rows if one.ready}
                if service is None or not ready:
                    continue
                states = [self._alive(cluster.name, key, address, emptied) for address in sorted(ready)]
                if any(before for before, _after in states) and not any(after for _before, after in states):
                    found.append(
                        {
                            "cluster": cluster.name,
                            "namespace": key[0],
                            "name": key[1],
                            "endpoints": sum(before for before, _after in states),
                        }
                    )
        return found

    def _emptied(self) -> dict[tuple[str, Id], set[str]]:
        """(cluster, Service) -> clusters of which it loses all endpoints, since what it is made from is gone there."""
        found: dict[tuple[str, Id], set[str]] = {}
        for source, namespace, name in sorted(self._gone | self._unshared):
            if (source, namespace, name) in self._gone:
                found.setdefault((source, (namespace, name)), set()).update(self.clusters)
            prefix = self.settings.prefixes.get(source) or source
            mirror, whole = mirror_name(prefix, namespace, name).name, global_name(namespace, name).name
            for cluster in self.clusters.values():
                for key, service in cluster.services.items():
                    if key[1] == mirror and is_mirror(service.labels, prefix) and cluster.name != source:
                        found.setdefault((cluster.name, key), set()).update(self.clusters)
                    elif key[1] == whole or (
                        (source, namespace, name) in self._gone and key == (namespace, derived_name(namespace, name))
                    ):
                        found.setdefault((cluster.name, key), set()).add(source)
        return found

    def _alive(
        self, cluster: str, key: Id, address: Address, emptied: t.Mapping[tuple[str, Id], set[str]]
    ) -> tuple[bool, bool]:
        """Whether an endpoint is reached from a cluster before, and with the hypotheses. One of which nobody knows where it is counts."""
        place = self._own.get((cluster, address)) or self._seen.get(address)
        if place is None:
            return True, not emptied.get((cluster, key), set()).issuperset(self.clusters)
        there, host = place
        before = after = True
        if there != cluster and host:
            if (cluster, host) not in self._carried:
                self._carried[cluster, host] = self.pairs.carries(cluster, host)
            before, after = self._carried[cluster, host]
        if host in self._away or there in self._whole or there in emptied.get((cluster, key), ()):
            after = False
        return before, after

    def addresses(self, speakers: t.Mapping[str, Speaker], reserved: t.Mapping[str, frozenset[int]]) -> list[Data]:
        """[{cluster, namespace, name, address, before, after, message}] of load-balancer addresses that other nodes would announce, or none.

        speakers: host -> how it announces. reserved: cluster -> VRRP ids that its groups do not have.
        """
        found = []
        for cluster in self.clusters.values():
            for key, service in sorted(cluster.services.items()):
                gone = (cluster.name, *key) in self._gone
                for address in service.balanced:
                    text = place_text(*address)
                    nodes = self._capable(cluster, key, service)
                    before = _announcers(text, service, nodes, speakers, reserved.get(cluster.name, frozenset()))
                    left = {} if gone else {host: node for host, node in nodes.items() if host not in self._away}
                    after = _announcers(text, service, left, speakers, reserved.get(cluster.name, frozenset()))
                    if before != after or (gone and nodes) or bool(nodes) != bool(left):
                        found.append(_address(cluster.name, key, text, before, after, bool(left)))
        return found

    def _capable(self, cluster: Cluster, key: Id, service: Service) -> dict[str, str]:
        """host -> node of nodes that can deliver: with ``Local`` those that have a ready endpoint."""
        nodes = {seat.host: name for name, seat in cluster.seats.items() if seat.host}
        if not service.local:
            return nodes
        ready = {one.address for one in cluster.behind.get(key, ()) if one.ready}
        hosts = {self._own.get((cluster.name, address), ("", ""))[1] for address in ready}
        return {host: name for host, name in nodes.items() if host in hosts}


def _announcers(
    address: str,
    service: Service,
    nodes: t.Mapping[str, str],
    speakers: t.Mapping[str, Speaker],
    reserved: frozenset[int],
) -> list[str]:
    """Hosts that announce an address: all with BGP, and one of each segment."""
    found = [host for host in nodes if speakers.get(host, Speaker()).bgp]
    segments: dict[str, dict[str, str]] = {}
    for host, node in nodes.items():
        segment = speakers.get(host, Speaker()).segment
        if segment:
            segments.setdefault(segment, {})[node] = host
    for members in segments.values():
        if service.local:  # the number of its group is in a record: any of them
            found += list(members.values())
            continue
        number = number_groups({address: ()}, {}, reserved)[0].get(address, 0)
        found.append(members[order(number, members)[0]])
    return sorted(set(found))


def _address(cluster: str, key: Id, address: str, before: list[str], after: list[str], left: bool) -> Data:
    if not left:
        text = "has no node that could have it"
    elif before and not after:
        text = f"is announced by none, before by {_names(before)}"
    else:
        text = f"moves from {_names(before)} to {_names(after)}"
    return {
        "cluster": cluster,
        "namespace": key[0],
        "name": key[1],
        "address": address,
        "before": before,
        "after": after,
        "message": text,
    }


def _names(hosts: t.Sequence[str]) -> str:
    return ", ".join(hosts[:5]) + (f" and {len(hosts) - 5} more" if len(hosts) > 5 else "") if hosts else "none"


def _service_id(text: str) -> tuple[str, str, str]:
    parts = text.split("/")
    if len(parts) != 3:
        raise ValueRefused("bad_format", f"{text} is no cluster/namespace/name")
    return parts[0], parts[1], parts[2]


def names_of(clusters: t.Mapping[str, Cluster]) -> frozenset[str]:
    """cluster/namespace/name of all Services."""
    return frozenset("/".join((name, *key)) for name, cluster in clusters.items() for key in cluster.services)
