# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the two ends that a user wrote to flows: which node sends what to which address, and what is wrong before any packet is sent. Pure."""

from __future__ import annotations

import itertools
import typing as t

from .._mesh.kubespan.generations import Layout
from .._plan.mesh_plan import KubespanPlan, MeshPlan
from .._plan.seen_addresses import Seen
from . import causes, ends
from .causes import place_text
from .ends import End, Question
from .known_ends import Ends
from .names import Answer, Names
from .objects import Address, Cluster, Pod, Seat, addresses
from .policies import lacks_set, lacks_source

Data = dict[str, t.Any]
#: Source ports and ICMP identifiers by which our packets are known, and so many flows a trace has at most.
NUMBERS = (61000, 64999)
MOST_FLOWS = 2000
#: Endpoints of one Service that a trace names.
MOST_BACKENDS = 32


class Found(t.NamedTuple):
    """A finding that needs no packet."""

    cause: str
    where: str
    message: str
    command: str = ""
    question: int | None = None

    def row(self) -> Data:
        """As trace_report takes it. ``question``: which of several it is about."""
        fix = causes.FIXES[self.cause].format(host=self.where)
        more = {} if self.question is None else {"question": self.question}
        return {
            **more,
            "cause": self.cause,
            "where": self.where,
            "message": self.message,
            "fix": fix,
            "command": self.command,
            "confidence": causes.PROVEN,
        }


class Place(t.NamedTuple):
    """An end that packets go out of or into."""

    kind: str
    label: str
    cluster: str
    host: str
    addresses: tuple[Address, ...]
    namespace: str = ""
    labels: t.Mapping[str, str] = {}
    #: Whether it asks the cluster's DNS server.
    dns: bool = False


class Target(t.NamedTuple):
    """Where one source sends its packets: the address that it dials, and what is behind that."""

    kind: str
    label: str
    cluster: str
    dials: tuple[Address, ...]
    port: int | None
    backends: tuple[tuple[Address, int | None, str, str], ...]
    #: Of a Service's port; empty where the question has it.
    protocol: str = ""
    #: Of a name: what the source asks its DNS server, in this order.
    asked: tuple[str, ...] = ()


class Resolver:
    """Resolves one question over the clusters that could be read."""

    def __init__(
        self,
        clusters: t.Mapping[str, Cluster],
        names: Names | None = None,
        seen: t.Mapping[str, t.Sequence[str]] | None = None,
        plain: bool = False,
        translated: Seen | None = None,
        known: Ends | None = None,
    ) -> None:
        """seen: host -> addresses of pods that its kernel has. plain: packets from node to node are not carried by this mesh.

        translated: at which addresses clusters see pods of others. known: ends that hosts report and no cluster has.
        """
        self.clusters = clusters
        self.plain = plain
        self.translated = translated or Seen()
        self.known = known or Ends()
        self.names = names or Names(clusters, seen=self.translated)
        self.found: list[Found] = []
        self.asked: int | None = None
        self.policies: dict[str, str] = {}
        self.steps: list[Data] = []
        #: By address as other clusters see it, and by cluster and address as its own nodes do.
        self._owners: dict[Address, tuple[str, str]] = {}
        self._own: dict[tuple[str, Address], str] = {}
        self._pods: dict[tuple[str, Address], Pod] = {}
        for cluster in clusters.values():
            for seat in cluster.seats.values():
                for address in seat.addresses:
                    self._owners.setdefault(address, (cluster.name, seat.host))
            for pod in cluster.pods.values():
                if pod.own:
                    seat_of = cluster.seats.get(pod.node)
                    for address in pod.addresses:
                        self._pods[cluster.name, address] = pod
                        self._own[cluster.name, address] = seat_of.host if seat_of else ""
                        self._owners[self.translated.address(cluster.name, address)] = (
                            cluster.name,
                            seat_of.host if seat_of else "",
                        )
        self._seen = {str(host): addresses(texts) for host, texts in (seen or {}).items()}
        for cluster in clusters.values():
            for seat in cluster.seats.values():
                for address in self._seen.get(seat.host, ()):
                    self._own.setdefault((cluster.name, address), seat.host)
                    self._owners.setdefault(self.translated.address(cluster.name, address), (cluster.name, seat.host))
        for host, name, own in self.known.seats():
            for address in own:
                self._owners.setdefault(address, (name, host))

    def owner(self, address: Address, cluster: str) -> tuple[str, str]:
        """(cluster, inventory host) that has what a cluster sees at an address; empty for nobody's."""
        host = self._own.get((cluster, address))
        return self._owners.get(address, ("", "")) if host is None else (cluster, host)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def unknown(self, variable: str, end: End, why: str) -> None:
        """An end that does not exist."""
        one = Found(causes.NAME_UNKNOWN, end.cluster or variable, f"{variable} {end}: {why}", question=self.asked)
        if one not in self.found:
            self.found.append(one)

    def _cluster(self, variable: str, end: End) -> Cluster | None:
        cluster = self.clusters.get(end.cluster)
        if cluster is None:
            known = ", ".join(sorted(self.clusters)) or "none"
            self.unknown(variable, end, f"there is no cluster {end.cluster} that could be read; there are: {known}")
        return cluster

    def node(self, variable: str, end: End, asking: str = "") -> Place | None:
        """A node; one that no cluster has is a host of the inventory, or a member that a host knows. asking: that host."""
        cluster = self._cluster(variable, end)
        if cluster is None:
            return None
        seat = cluster.seats.get(end.name) or next(
            (one for one in cluster.seats.values() if one.host and one.host == end.name), None
        )
        host = self.known.host(cluster.name, end.name)
        member = self.known.member(asking, end.name) if asking and not host else None
        more = self.known.own(host) if host else member.addresses if member is not None else ()
        if seat is not None:
            found = tuple(dict.fromkeys((*seat.addresses, *more)))
            return Place(ends.NODE, "/".join((seat.cluster, seat.name)), seat.cluster, seat.host, found)
        if host or member is not None:
            label = f"discovery/{end.name}" if member is not None else f"{cluster.name}/{end.name}"
            return Place(ends.NODE, label, cluster.name, host, more)
        why = "" if not asking else f", and {asking} knows no member of a discovery service that has this name"
        self.unknown(variable, end, f"the cluster has no Node {end.name}{why}")
        return None

    def pod(self, variable: str, end: End) -> Place | None:
        """A pod."""
        cluster = self._cluster(variable, end)
        if cluster is None:
            return None
        pod = cluster.pods.get((end.namespace, end.name))
        if pod is None:
            more = ": the access may not list pods" if "pods" in cluster.unread else ""
            self.unknown(variable, end, f"the cluster has no pod {end.namespace}/{end.name} with an address{more}")
            return None
        return self.place_of_pod(pod)

    def place_of_pod(self, pod: Pod) -> Place:
        """The place of a pod; one of the host's network sends as the node itself."""
        seat = self.clusters[pod.cluster].seats.get(pod.node)
        kind = ends.POD if pod.own else ends.NODE
        label = "/".join((pod.cluster, pod.namespace, pod.name))
        return Place(
            kind, label, pod.cluster, seat.host if seat else "", pod.addresses, pod.namespace, pod.labels, pod.dns
        )

    def every(self) -> list[Place]:
        """One place of each node of the inventory: its first ready pod, else one that its kernel has. A node without a pod is none, and that is noted."""
        found = []
        for name in sorted(self.clusters):
            cluster = self.clusters[name]
            first: dict[str, Pod] = {}
            for key in sorted(cluster.pods):
                pod = cluster.pods[key]
                if pod.own and pod.ready:
                    first.setdefault(pod.node, pod)
            for seat in sorted(cluster.seats.values()):
                if seat.host and seat.name in first:
                    found.append(self.place_of_pod(first[seat.name]))
                elif seat.host and self._seen.get(seat.host):
                    found.append(self.place_of_seen(seat))
                elif seat.host:
                    self._note(
                        "no pod",
                        f"{seat.host} has no pod that could be found, so nothing is sent from there or to there; start one on it",
                    )
        return found

    def place_of_seen(self, seat: Seat) -> Place:
        """The place of a pod that a node's kernel has and no object shows: the first address of each family, which are one pod's where there is one."""
        first = tuple(
            next(one for one in self._seen[seat.host] if one[0] == version)
            for version in sorted({one[0] for one in self._seen[seat.host]})
        )
        return Place(ends.POD, f"pod {place_text(*first[0])} of {seat.host}", seat.cluster, seat.host, first)

    def _note(self, what: str, text: str) -> None:
        step = {"what": what, "text": text}
        self.steps += [step] if step not in self.steps else []

    def sources(self, question: Question) -> list[Place]:
        """The places that send."""
        end = question.source
        if end.kind == ends.ANY:
            return self.every()
        place = self.node(ends.FROM, end) if end.kind == ends.NODE else self.pod(ends.FROM, end)
        if place is not None and not place.host:
            self.unknown(
                ends.FROM, end, "no host of the inventory represents its node, so nothing can be sent from there"
            )
            return []
        return [] if place is None else [place]

    def targets(self, question: Question, source: Place) -> list[Target]:
        """Where a source sends its packets."""
        end, port = question.target, question.port
        if end.kind == ends.ANY:
            return [
                self._direct(place, port, source)
                for place in self.every()
                if place.label != source.label and place.host != source.host
            ]
        if end.kind == ends.NODE:
            place = self.node(ends.TO, end, source.host if self.known.host(source.cluster, source.host) else "")
            return [] if place is None else [self._direct(place, port, source)]
        if end.kind == ends.POD:
            place = self.pod(ends.TO, end)
            return [] if place is None else [self._direct(place, port, source)]
        if end.kind == ends.OBJECT:
            cluster = self._cluster(ends.TO, end)
            if cluster is None:
                return []
            key = (end.namespace, end.name)
            if key in cluster.pods and key not in cluster.services:
                return [self._direct(self.place_of_pod(cluster.pods[key]), port, source)]
        answer = self.names.ask(question, source.cluster, source.namespace)
        return self._answered(question, source, answer)

    def _answered(self, question: Question, source: Place, answer: Answer) -> list[Target]:
        """What a name, Service or address leads to."""
        self.steps += [dict(step) for step in answer.steps if dict(step) not in self.steps]
        for cause, where, message in answer.faults:
            one = Found(cause, where, message, question=self.asked)
            if one not in self.found:
                self.found.append(one)
        if answer.faults or not answer.dials:
            return []
        backends = []
        for address, port in answer.backends:
            cluster, host = self.owner(address, source.cluster)
            backends.append((address, port, cluster, host))
        return [
            Target(
                answer.kind,
                str(question.target),
                answer.cluster,
                answer.dials,
                answer.port,
                tuple(backends),
                answer.protocol,
                answer.asked,
            )
        ]

    # -- flows ---------------------------------------------------------------------------------------------------------

    def flows(self, questions: t.Sequence[Question], number: int) -> list[Data]:
        """The flows of all questions; one alone also gets those by which one direction of a tunnel is distinguished from the other."""
        found: list[Data] = []
        numbers = itertools.count(number)
        for index, question in enumerate(questions):
            self.asked = index if len(questions) > 1 else None
            self._flows(question, found, numbers, len(questions) == 1)
        return found

    def _flows(self, question: Question, found: list[Data], numbers: t.Iterator[int], back: bool) -> None:
        for source in self.sources(question):
            for target in self.targets(question, source):
                if self.plain and source.kind == target.kind == ends.NODE and not self._exported(source, target):
                    self._note(
                        "not the mesh",
                        (
                            f"packets from {source.label} to {target.label} are plain ones between nodes: "
                            "this mesh carries packets of pods, and its own packets take that way; "
                            "ask from a pod to a pod, or look at the network between the nodes"
                        ),
                    )
                    continue
                made = False
                for version in (question.family,) if question.family else (4, 6):
                    dst = next((one for one in target.dials if one[0] == version), None)
                    src = None if dst is None else self._sender(source, dst)
                    if src is None or dst is None:
                        continue
                    if len(found) >= MOST_FLOWS:
                        self._note(
                            "limit",
                            f"the first {MOST_FLOWS} flows are followed, and no more; ask for fewer, or for all pairs by trace_plan",
                        )
                        return
                    made = True
                    found.append(self._flow(len(found), next(numbers), question, source, target, src, dst))
                    self._policy(found[-1], source, target)
                    reverse = (
                        self._reverse(found[-1], next(numbers)) if back and question.source.kind != ends.ANY else None
                    )
                    found += [reverse] if reverse else []
                if not made and question.target.kind != ends.ANY:
                    self.unknown(ends.TO, question.target, f"it and {source.label} have no address of one family")

    def _sender(self, source: Place, dst: Address) -> Address | None:
        """The source's address for a target: of a node in a mesh with a discovery service the one that its kernel takes."""
        said = self.known.source(source.host, dst) if source.kind == ends.NODE else None
        return said or next((one for one in source.addresses if one[0] == dst[0]), None)

    def _flow(
        self, index: int, number: int, question: Question, source: Place, target: Target, src: Address, dst: Address
    ) -> Data:
        rows = [row for row in target.backends if row[0][0] == dst[0]][:MOST_BACKENDS]
        backends = [
            {
                "address": place_text(*address),
                "port": port,
                "cluster": cluster,
                "host": host,
                **self._own_form(source.cluster, cluster, address),
            }
            for address, port, cluster, host in rows
        ]
        there = [row["cluster"] for row in backends if row["cluster"] and row["cluster"] != source.cluster]
        seen = self.translated.address(source.cluster, src) if there else src
        return {
            **self._ask(source, target, dst[0]),
            **({} if self.asked is None else {"question": self.asked}),
            "id": str(index),
            "number": number,
            "protocol": target.protocol or question.protocol,
            "version": dst[0],
            "source": {
                "kind": source.kind,
                "name": source.label,
                "cluster": source.cluster,
                "host": source.host,
                "address": place_text(*src),
                **({"seen": place_text(*seen)} if seen != src else {}),
            },
            "target": {
                "kind": target.kind,
                "name": target.label,
                "cluster": target.cluster,
                "address": place_text(*dst),
                "port": target.port,
                "host": backends[0]["host"] if len(backends) == 1 else "",
                "backends": backends,
            },
        }

    def _ask(self, source: Place, target: Target, version: int) -> Data:
        """What the source asks its DNS server, and what the objects make expected of the answer."""
        server = self.names.server(source.cluster) if target.asked and source.dns else None
        if server is None:
            return {}
        dials = [place_text(*one) for one in target.dials if one[0] == version]
        servers = [place_text(*one) for one in server.addresses]
        return {
            "ask": {
                "names": list(target.asked),
                "servers": servers,
                "port": server.port,
                "expected": dials[:MOST_BACKENDS],
            }
        }

    def _policy(self, flow: Data, source: Place, target: Target) -> None:
        """What the policies that select the target say, where none of them lets the source in."""
        for address, dummy, name, dummy_host in target.backends:
            cluster = self.clusters.get(name)
            pod = self._pods.get((name, address if source.cluster == name else self.translated.own(name, address)))
            src = next((one for one in source.addresses if one[0] == address[0]), None)
            if cluster is None or pod is None or src is None:
                continue
            src = src if source.cluster == name else self.translated.address(source.cluster, src)
            mine = (source.namespace, source.labels) if source.cluster == name else None
            text = lacks_source(cluster.policies, pod.namespace, pod.labels, src, mine)
            text = text or lacks_set(cluster.calico, pod.namespace, pod.labels, src, mine)
            if text:
                self.policies[flow["id"]] = text
                return

    def _reverse(self, flow: Data, number: int) -> Data | None:
        """An echo from the target's own network namespace, which shows whether its node can send into the tunnel at all."""
        backend = next(
            (row for row in flow["target"]["backends"] if row["host"] and row["host"] != flow["source"]["host"]), None
        )
        if backend is None:
            return None
        source = flow["source"]
        own, seen = backend.get("own"), source.get("seen")
        if self.plain and source["kind"] == ends.NODE and seen is None and backend["cluster"] != source["cluster"]:
            return None  # other clusters reach it at no address, and answer to the one that its packets have
        kind = ends.NODE if flow["target"]["kind"] == ends.NODE else ends.POD
        return {
            "id": flow["id"] + "r",
            "about": flow["id"],
            "number": number,
            "protocol": ends.ICMP,
            "version": flow["version"],
            "source": {
                "kind": kind,
                "name": flow["target"]["name"],
                "cluster": backend["cluster"],
                "host": backend["host"],
                "address": own or backend["address"],
                **({"seen": backend["address"]} if own else {}),
            },
            "target": {
                "kind": source["kind"],
                "name": source["name"],
                "cluster": source["cluster"],
                "address": seen or source["address"],
                "port": None,
                "host": source["host"],
                "backends": [
                    {
                        "address": seen or source["address"],
                        "port": None,
                        "cluster": source["cluster"],
                        "host": source["host"],
                        **({"own": source["address"]} if seen else {}),
                    }
                ],
            },
        }

    def _exported(self, source: Place, target: Target) -> bool:
        """Whether a node of another cluster is reached through the tunnel, at another address than its own (translation 7)."""
        return any(self._own_form(source.cluster, target.cluster, one) for one in target.dials)

    def _own_form(self, local: str, cluster: str, address: Address) -> Data:
        """The address that a pod of another cluster has there, where it is another one."""
        own = address if cluster in ("", local) else self.translated.own(cluster, address)
        return {"own": place_text(*own)} if own != address else {}

    def _direct(self, place: Place, port: int | None, source: Place) -> Target:
        """A place as a target, at the addresses at which the source's cluster sees it."""
        apart = place.cluster != source.cluster
        dials = tuple(self.translated.address(place.cluster, one) if apart else one for one in place.addresses)
        return Target(
            place.kind,
            place.label,
            place.cluster,
            dials,
            port,
            tuple((address, port, place.cluster, place.host) for address in dials),
        )


def hosts_of(flows: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """The inventory hosts that packets of flows pass, sorted."""
    found = set()
    for flow in flows:
        found.update([flow["source"]["host"], *(row["host"] for row in flow["target"]["backends"])])
    return sorted(host for host in found if host)


def mesh_part(mesh: MeshPlan) -> Data:
    """Of the plan of the mesh what a walk needs: {devices, whole, endpoints, shared, ranges: {cluster: source of its pod ranges}}."""
    seats = {(node.cluster, node.node_name): host for host, node in mesh.nodes.items()}
    keys: dict[str, set[str]] = {}
    endpoints: dict[str, set[str]] = {}
    for (cluster, name), host in seats.items():
        for key, value in mesh.nodes[host].published.items():
            if str(key).endswith("/pubKey") and isinstance(value, str):
                keys.setdefault(value, set()).add(f"{cluster}/{name}")
    devices: dict[str, dict[str, str]] = {}
    for local, part in mesh.clusters.items():
        for remote, settings in part.remotes.items():
            devices.setdefault(local, {})[remote] = settings.device
            for peer in settings.peers:
                host = seats.get((remote, str(peer.get("node"))), "")
                if host and isinstance(peer.get("endpoint"), str):
                    endpoints.setdefault(host, set()).add(peer["endpoint"])
    kubespan = mesh.kubespan or KubespanPlan()
    for row in [*kubespan.affiliates, *kubespan.contested]:
        label = f"{row.get('cluster')}/{row.get('node')}"
        if isinstance(row.get("public_key"), str):
            keys.setdefault(row["public_key"], set()).add(label)
        host = seats.get((str(row.get("cluster")), str(row.get("node"))), "")
        if host:
            endpoints.setdefault(host, set()).update(
                text for text in row.get("endpoints") or () if isinstance(text, str)
            )
    return {
        "devices": devices,
        "whole": Layout().device if mesh.spans_nodes else "",
        "endpoints": {host: sorted(texts) for host, texts in sorted(endpoints.items())},
        "shared": {key: sorted(labels) for key, labels in sorted(keys.items()) if len(labels) > 1},
        "ranges": {name: str(row.get("source")) for name, row in sorted(mesh.pod_ranges.items())},
    }


def flow_at(flow: Data, cluster: str) -> Data:
    """A flow as nodes of a cluster see it: another cluster than the source's has the translated source, and both forms of its own pods."""
    source, target = flow["source"], flow["target"]
    rows = target.get("backends") or ()
    if cluster == source.get("cluster") or not ("seen" in source or any("own" in row for row in rows)):
        return flow
    own = [dict(row, address=row["own"]) for row in rows if "own" in row]
    return dict(
        flow,
        source=dict(source, address=source.get("seen", source["address"])),
        target=dict(target, backends=[*own, *rows]),
    )
