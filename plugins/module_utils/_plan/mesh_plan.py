# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a mesh as typed values, and the one JSON form in which it crosses to hosts, results and files. Pure.

``from_json`` parses a node or a cluster when it is first read: every task of a host gets the plan of the whole fabric and needs its own part.
A field with the comment ``optional`` is in the JSON form only where it differs from its default.
"""

from __future__ import annotations

import typing as t

from .._values.exported_ranges import ExportedRanges
from .._values.text import mapping

Data = dict[str, t.Any]
#: A peer, an affiliate, a route or a refusal in the form that results and the options of node_dataplane have.
Row = t.Mapping[str, t.Any]
Value_co = t.TypeVar("Value_co", covariant=True)
SEMAPHORE, KUBESPAN = "semaphore", "kubespan"


class Parsed(t.Mapping[str, Value_co]):
    """A mapping of JSON objects, each parsed when it is first read. What is no object is left out."""

    def __init__(self, rows: t.Any, parse: t.Callable[[Row], Value_co]) -> None:
        self._rows = {name: row for name, row in mapping(rows).items() if isinstance(row, dict)}
        self._parse = parse
        self._known: dict[str, Value_co] = {}

    def __getitem__(self, name: str) -> Value_co:
        if name not in self._known:
            self._known[name] = self._parse(self._rows[name])
        return self._known[name]

    def __iter__(self) -> t.Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class NodePlan(t.NamedTuple):
    """A host of the inventory: its Node, its pod ranges, and what of it is published there.

    ``annotations``: what the Node has to carry, deferred values among them; ``published``: what of them it carries; ``stale``: keys for
    clusters that the fabric does not have. ``exported_addresses``: {own address: the one at which other clusters reach it};
    ``former_addresses``: {own address: those of before, which are accepted too}.
    ``own_addresses``: of its Node, in a KubeSpan mesh; None where it has no Node. ``refused``: the reason why it takes no part. ``rotation``: {remote
    cluster: {phase, port, retired, preshared, former}}, see Record, while keys are rotated, with ``renewed`` where the device gets its next key;
    ``rotation_unread``: devices of which the plan knows nothing. ``preshared``: {remote cluster: generation of the preshared keys that its public key
    goes with}, where it goes with any.
    """

    cluster: str = ""
    node_name: str = ""
    publishable: bool = False
    annotations: t.Mapping[str, t.Any] = {}
    published: t.Mapping[str, str] = {}
    stale: t.Sequence[str] = ()
    refused: str = ""  # optional
    exported_addresses: t.Mapping[str, str] = {}  # optional
    former_addresses: t.Mapping[str, t.Sequence[str]] = {}  # optional
    pod_cidrs: t.Sequence[str] = ()
    own_addresses: t.Sequence[str] | None = None  # optional
    rotation: t.Mapping[str, Row] = {}  # optional
    rotation_unread: t.Sequence[str] = ()  # optional
    preshared: t.Mapping[str, int] = {}  # optional

    @classmethod
    def from_json(cls, raw: Row) -> NodePlan:
        """The inverse of to_json; keys that are missing have their defaults."""
        return cls(**_given(cls, raw))

    def to_json(self) -> Data:
        """See the module's first lines."""
        optional = ("refused", "exported_addresses", "former_addresses", "own_addresses", "rotation", "rotation_unread")
        return _json_form(self, (*optional, "preshared"))


class RemotePlan(t.NamedTuple):
    """What every node of a cluster has towards one other cluster: a device of WireGuard with its peers.

    ``pod_subnets``: at which its pods are reached. ``listen_port_known``: False where nodes keep the port that they have. ``complete``:
    False, with the ``reason``, where the other cluster could not be listed, so that its peers stay as they are. ``turned_away``: which of
    its nodes were refused, where they are most of all. ``borrowed``: allowed IPs inside those of another peer. ``ranges_known``: False
    where a peer keeps the ranges that it has. ``contested``: peers about which each node decides.
    """

    device: str = ""
    listen_port: int = 0
    mtu: int = 0
    txqueuelen: int = 0
    pod_subnets: t.Sequence[str] = ()
    routes: t.Sequence[Row] = ()
    private_key_file: str = ""
    listen_port_known: bool = True
    peers: t.Sequence[Row] = ()
    complete: bool = True
    reason: str | None = None
    turned_away: str = ""  # optional
    borrowed: t.Sequence[str] = ()  # optional
    ranges_known: bool = True  # optional
    contested: t.Sequence[Row] = ()  # optional

    @classmethod
    def from_json(cls, raw: Row) -> RemotePlan:
        """The inverse of to_json; keys that are missing have their defaults."""
        return cls(**_given(cls, raw))

    def to_json(self) -> Data:
        """See the module's first lines."""
        return _json_form(self, ("turned_away", "borrowed", "ranges_known", "contested"))


class ClusterPlan(t.NamedTuple):
    """What the nodes of one cluster have in common. ``keep_pod_addresses``: {ranges: [cidr], required: bool}, where the variable is not false.

    ``exported_pod_cidrs``: the JSON form of ExportedRanges, where other clusters see its pods or nodes at other addresses. ``rotation``: {remote
    cluster: peers of the bypass device, with the phase of each}, while keys are rotated.
    """

    remotes: t.Mapping[str, RemotePlan] = {}
    keep_pod_addresses: Row | None = None  # optional
    exported_pod_cidrs: Row | None = None  # optional
    rotation: t.Mapping[str, t.Sequence[Row]] = {}  # optional

    @property
    def exported(self) -> ExportedRanges:
        """How other clusters see its pods and nodes; as they are where nothing is mapped."""
        return ExportedRanges(**self.exported_pod_cidrs or {})

    @classmethod
    def from_json(cls, raw: Row) -> ClusterPlan:
        """The inverse of to_json; keys that are missing have their defaults."""
        return cls(**dict(_given(cls, raw), remotes=Parsed(raw.get("remotes"), RemotePlan.from_json)))

    def to_json(self) -> Data:
        """See the module's first lines."""
        return _json_form(self, ("keep_pod_addresses", "exported_pod_cidrs", "rotation"))


class KubespanPlan(t.NamedTuple):
    """A mesh of all nodes. Each gets the same ``affiliates`` and takes its own peers from them.

    ``complete``: False where clusters are ``unread``. ``contested``: affiliates of which each node decides which it takes; ``disputed``:
    node addresses that several of all these have. ``members``: {cluster: {pod_cidrs, node_cidrs}}, what members of a discovery service may
    have. ``balanced``: networks of load balancing. ``networks``: {cluster: [pod and service networks]}. ``rotation``: peers of the bypass device, with
    the phase of each, while keys are rotated.
    """

    subnet: str = ""
    affiliates: t.Sequence[Row] = ()
    complete: bool = True
    contested: t.Sequence[Row] = ()  # optional
    disputed: t.Sequence[str] = ()  # optional
    unread: t.Sequence[str] = ()  # optional
    turned_away: str = ""  # optional
    members: t.Mapping[str, Row] = {}  # optional
    balanced: t.Sequence[str] = ()  # optional
    networks: t.Mapping[str, t.Sequence[str]] = {}
    rotation: t.Sequence[Row] = ()  # optional

    @classmethod
    def from_json(cls, raw: Row) -> KubespanPlan:
        """The inverse of to_json; keys that are missing have their defaults."""
        return cls(**_given(cls, raw))

    def to_json(self) -> Data:
        """See the module's first lines."""
        return _json_form(self, ("contested", "disputed", "unread", "turned_away", "members", "balanced", "rotation"))


class MeshPlan(t.NamedTuple):
    """The whole of a fabric's mesh. ``kubespan`` is None in a mesh of clusters.

    ``overlay``: ranges that tunnels carry. ``refused``: [{object, reason, message}]; ``failures``: [{cluster, reason, message}];
    ``pod_ranges``: {cluster: {source, notes: [text]}}. What follows is None where the clusters were not asked for it: ``ip_pools``
    {cluster: [IPPool]}, ``without_host`` {cluster: [Node]}, ``pod_places`` {cluster: [finding]}, ``left_clusters`` {cluster: [cluster]},
    ``same_clusters`` [[cluster, cluster]]. ``rotation_step``: the step of a rotation of keys that was asked for.
    ``preshared``: the generation of preshared keys that the inventory asks for, 0 for none; ``preshared_used``: whether it or any node has one;
    ``preshared_id``: the fingerprint of the secret from which they derive.
    """

    mode: str = SEMAPHORE  # optional
    fabric: str = ""
    annotation_patterns: t.Sequence[str] = ()
    overlay: t.Sequence[str] = ()
    clusters: t.Mapping[str, ClusterPlan] = {}
    nodes: t.Mapping[str, NodePlan] = {}
    kubespan: KubespanPlan | None = None  # optional
    refused: t.Sequence[Row] = ()
    failures: t.Sequence[Row] = ()
    pod_ranges: t.Mapping[str, Row] = {}
    ip_pools: t.Mapping[str, t.Any] | None = None  # optional
    without_host: t.Mapping[str, t.Sequence[str]] | None = None  # optional
    pod_places: t.Mapping[str, t.Sequence[Row]] | None = None  # optional
    left_clusters: t.Mapping[str, t.Sequence[str]] | None = None  # optional
    same_clusters: t.Sequence[t.Sequence[str]] | None = None  # optional
    rotation_step: str = ""  # optional
    preshared: int = 0  # optional
    preshared_used: bool = False  # optional
    preshared_id: str = ""  # optional

    @classmethod
    def from_json(cls, raw: Row) -> MeshPlan:
        """The inverse of to_json; of an empty object the plan of no node, which is what a run without a mesh has."""
        span = raw.get("kubespan")
        return cls(
            **dict(
                _given(cls, raw),
                clusters=Parsed(raw.get("clusters"), ClusterPlan.from_json),
                nodes=Parsed(raw.get("nodes"), NodePlan.from_json),
                kubespan=KubespanPlan.from_json(span) if isinstance(span, dict) else None,
            )
        )

    def to_json(self) -> Data:
        """See the module's first lines."""
        optional = ("mode", "kubespan", "ip_pools", "without_host", "pod_places", "left_clusters", "same_clusters")
        return _json_form(self, (*optional, "rotation_step", "preshared", "preshared_used", "preshared_id"))

    @property
    def spans_nodes(self) -> bool:
        """Whether it is a KubeSpan mesh, which is one of nodes, whichever cluster they are of."""
        return self.mode == KUBESPAN

    def node(self, host: str) -> NodePlan:
        """What it has of a host; an empty one where it does not know it."""
        return self.nodes[host] if host in self.nodes else NodePlan()

    def cluster(self, name: str) -> ClusterPlan:
        """What it has of a cluster; an empty one where it does not know it."""
        return self.clusters[name] if name in self.clusters else ClusterPlan()


def _given(kind: t.Any, raw: Row) -> Data:
    """Of a JSON object what a class has fields for."""
    return {name: raw[name] for name in kind._fields if raw.get(name) is not None}


def _json_form(record: t.Any, optional: t.Collection[str]) -> Data:
    """A value's fields in their order, those that are optional only where they differ from their defaults."""
    defaults = record._field_defaults
    shown = {name: _plain(value) for name, value in record._asdict().items()}
    for name in optional:
        if shown[name] == defaults[name] or (defaults[name] == () and not shown[name]):
            del shown[name]
    return shown


def _plain(value: t.Any) -> t.Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, t.Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return list(value) if isinstance(value, tuple) else value
