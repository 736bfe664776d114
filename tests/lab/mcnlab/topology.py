# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a lab consists of: clusters, their ranges, their nodes. Read from JSON, checked at once, never changed."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import pathlib
import re
import typing as t

from . import world
from .errors import LabError

TOPOLOGIES = pathlib.Path(__file__).resolve().parent.parent / "topologies"
DEFAULT = TOPOLOGIES / "two.json"
PODS = ("namespaces", "real")
NODES = ("systemd", "light")
#: Who connects a cluster's real pods: the lab by plain routes, or nothing, as kubeadm leaves a cluster.
CNIS = ("lab", "none")
#: What a lab is made of as a whole: its key, and its possible values, the default first.
KINDS = {"pods": PODS, "nodes": NODES}
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")
_Thing = t.TypeVar("_Thing", "Pod", "Node", "Cluster")


@dataclasses.dataclass(frozen=True)
class Pod:
    name: str
    node: str
    addresses: tuple[str, ...]  # of address texts, one per family


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    cluster: str
    address: str
    address6: str | None
    pod_cidrs: tuple[str, ...]
    pod_count: int
    like: tuple[str, ...] = ()  # of world.KINDS
    more_addresses: tuple[str, ...] = ()  # InternalIPs that the Node names first, of a network that no other node is in

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(a for a in (self.address, self.address6) if a)

    def address_of(self, family: int) -> str | None:
        """The node's own address of IP version 4 or 6."""
        return self.address if family == 4 else self.address6

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The node's pods: the 10th, 11th, ... address of each of its pod ranges."""
        return tuple(
            Pod(
                name=f"{self.name}-pod-{index + 1}",
                node=self.name,
                addresses=tuple(str(ipaddress.ip_network(cidr)[10 + index]) for cidr in self.pod_cidrs),
            )
            for index in range(self.pod_count)
        )


@dataclasses.dataclass(frozen=True)
class Cluster:
    name: str
    pod_cidrs: tuple[str, ...]
    service_cidrs: tuple[str, ...]
    node_cidrs: tuple[str, ...]
    variables: dict[str, t.Any]  # more inventory variables of the cluster, as they are
    nodes: tuple[Node, ...]
    cni: str = CNIS[0]

    def seen(self, address: str) -> str:
        """The address at which pods of other clusters see one of this cluster's, by its inventory variable exported_pod_cidrs."""
        own = ipaddress.ip_address(address)
        for text, target in self.variables.get("exported_pod_cidrs", {}).items():
            source = ipaddress.ip_network(text)
            if own in source:
                return str(ipaddress.ip_network(target)[int(own) - int(source[0])])
        return address

    def uplink_of(self, address: str) -> tuple[int, str]:
        """(prefix length, gateway) of the node range which holds a node's address; the gateway is its first address."""
        for text in self.node_cidrs:
            network = ipaddress.ip_network(text)
            if ipaddress.ip_address(address) in network:
                return network.prefixlen, str(network[1])
        raise LabError(f"cluster {self.name}: {address} is in none of its node_cidrs {list(self.node_cidrs)}")


@dataclasses.dataclass(frozen=True)
class Topology:
    clusters: tuple[Cluster, ...]
    source: dict[str, t.Any]
    real_pods: bool = False  # nodes run a kubelet, and no namespaces replace pods
    light: bool = False  # nodes have no systemd

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(node for cluster in self.clusters for node in cluster.nodes)

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for node in self.nodes for pod in node.pods)

    def cluster(self, name: str) -> Cluster:
        return _by_name("cluster", name, self.clusters)

    def node(self, name: str) -> Node:
        return _by_name("node", name, self.nodes)

    def pod(self, name: str) -> Pod:
        return _by_name("pod", name, self.pods)


def _by_name(kind: str, name: str, things: tuple[_Thing, ...]) -> _Thing:
    for thing in things:
        if thing.name == name:
            return thing
    raise LabError(f"no {kind} {name!r} in this lab; it has {', '.join(thing.name for thing in things) or 'none'}")


def find(name: str) -> pathlib.Path:
    """A topology file by its path, or by its name among those that are shipped (``three``, ``three.json``)."""
    for candidate in (pathlib.Path(name), TOPOLOGIES / name, TOPOLOGIES / f"{name}.json"):
        if candidate.is_file():
            return candidate
    raise LabError(f"no topology file {name}; shipped: {', '.join(sorted(p.stem for p in TOPOLOGIES.glob('*.json')))}")


def read(path: pathlib.Path) -> dict[str, t.Any]:
    try:
        source: dict[str, t.Any] = json.loads(path.read_text())
        return source
    except (OSError, ValueError) as error:
        raise LabError(f"topology {path}: {error}") from error


def parse(source: dict[str, t.Any]) -> Topology:
    """Build a Topology from the JSON shape ``{clusters: {name: {pod_cidrs, ..., nodes: {node: {...}}}}, pods: "real", nodes: "light"}``."""
    clusters, seen = [], set()
    for key, kinds in KINDS.items():
        if source.get(key, kinds[0]) not in kinds:
            raise LabError(f"topology: {key} are {' or '.join(kinds)}, not {source[key]!r}")
    kind, light = source.get("pods", PODS[0]), source.get("nodes") == "light"
    if light and kind == "real":
        raise LabError("topology: light nodes have nothing that could run a kubelet: real pods need nodes with systemd")
    try:
        for cluster_name, body in source["clusters"].items():
            nodes = []
            for node_name, node in body["nodes"].items():
                for name in (cluster_name, node_name):
                    if not _NAME.match(name) or len(name) > 30:
                        raise LabError(f"{name!r} is not a name of at most 30 of a-z, 0-9 and -")
                if node_name in seen:
                    raise LabError(f"two nodes are called {node_name}")
                seen.add(node_name)
                nodes.append(
                    Node(
                        name=node_name,
                        cluster=cluster_name,
                        address=str(ipaddress.IPv4Address(node["address"])),
                        address6=str(ipaddress.IPv6Address(node["address6"])) if node.get("address6") else None,
                        pod_cidrs=_cidrs(node["pod_cidrs"]),
                        pod_count=0 if kind == "real" else int(node.get("pods", 1)),
                        like=_like(node_name, node.get("like", [])),
                        more_addresses=tuple(
                            str(ipaddress.ip_address(text)) for text in node.get("more_addresses", [])
                        ),
                    )
                )
            cluster = Cluster(
                name=cluster_name,
                pod_cidrs=_cidrs(body["pod_cidrs"]),
                service_cidrs=_cidrs(body["service_cidrs"]),
                node_cidrs=_cidrs(body["node_cidrs"]),
                variables=dict(body.get("variables", {})),
                nodes=tuple(nodes),
                cni=_cni(cluster_name, body.get("cni", CNIS[0]), kind),
            )
            if not nodes:
                raise LabError(f"cluster {cluster_name} has no nodes")
            for node in nodes:
                for address in node.addresses:
                    cluster.uplink_of(address)
            clusters.append(cluster)
    except (KeyError, TypeError, ValueError) as error:
        raise LabError(f"topology: {type(error).__name__}: {error}") from error
    return Topology(tuple(clusters), source, kind == "real", light)


def _like(name: str, words: list[str]) -> tuple[str, ...]:
    unknown = [key for key in words if key not in world.KINDS]
    if unknown:
        raise LabError(f"node {name} is like {', '.join(unknown)}; it may be like {', '.join(world.KINDS)}")
    return tuple(words)


def _cni(cluster: str, chosen: str, pods: str) -> str:
    if chosen not in CNIS:
        raise LabError(f"cluster {cluster} has the cni {chosen}; it may have {' or '.join(CNIS)}")
    if chosen == "none" and pods != "real":
        raise LabError(f'cluster {cluster}: only real pods can be without a network: give the topology "pods": "real"')
    return chosen


def merge(stored: dict[str, t.Any] | None, desired: dict[str, t.Any] | None) -> dict[str, t.Any]:
    """What is there plus what is asked for; a cluster that runs already cannot get other ranges or nodes."""
    merged = {"clusters": dict((stored or {}).get("clusters", {}))}
    for key, choices in KINDS.items():
        kinds = [source[key] for source in (stored, desired) if source and key in source]
        if stored and key in (desired or {}) and stored.get(key, choices[0]) != kinds[-1]:
            raise LabError(
                f"the lab runs already with {key} as {stored.get(key, choices[0])}: use another --name, or `down` first"
            )
        if kinds:
            merged[key] = kinds[0]
    for name, body in ((desired or {}).get("clusters", {})).items():
        running = merged["clusters"].get(name, body)
        # Inventory variables may change at any time; what is built cannot.
        if {**running, "variables": None} != {**body, "variables": None}:
            raise LabError(f"cluster {name} runs already with another description: use another --name, or `down` first")
        merged["clusters"][name] = body
    return merged


def _cidrs(texts: list[str]) -> tuple[str, ...]:
    return tuple(str(ipaddress.ip_network(text)) for text in texts)
