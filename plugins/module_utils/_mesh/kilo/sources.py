# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sources of all meshes: nodes sorted into valid and skipped, claims checked, Peers built once for every target."""

from __future__ import annotations

import typing as t

from ..._plan.deletable import may_delete
from ..._plan.objects import is_owned, labels_of
from ..._plan.plan import Refusal
from ..._values.addresses import Address
from ..._values.refused import ValueRefused
from ..._values.text import in_short
from ..fabric.claims import label_of
from .claims import Checked, Source, check_kilo
from .endpoints import INVALID, NONE, PUBLIC, with_kilo_endpoint
from .meshes import MeshFinding, check_definition, mesh_id, validate_meshes
from .nodes import (
    DUPLICATE,
    Filtered,
    Grouped,
    announced,
    by_location,
    filter_nodes,
    grouped,
    is_transient,
    while_leaders_move,
    while_renumbered,
)
from .peers import (
    Existing,
    Peer,
    PeerOptions,
    anchor_cidrs,
    choose_anchor,
    desired_peers,
    endpoint_addresses,
    is_peer_name,
    mesh_keepalive,
    peer_endpoint,
    peer_name,
    peer_routes,
    without,
)
from .validation import WRITE_REASONS, check_node, plain_pods, plain_ranges
from .values import MESH_LABEL, SOURCE_LABEL, WIREGUARD_IP, Node, ip_or_none, parse_cidr


class Settings(t.NamedTuple):
    """The options of a run. ``confirm_empty``: clusters of which it is right that they have no node any more; ``targets``: those into which Peers
    are written, none for all."""

    manager: str
    endpoint_policy: str = "require"
    internal_ip_routes: str = "always"
    own_endpoint_routes: bool = False
    roaming_keepalive: int = 25
    all_pod_cidrs: bool = False
    group_locations: bool = True
    anchor_choice: str = "sticky"
    learnt_endpoints: str = "before_external_ip"
    kilo_endpoints: str = PUBLIC
    node_keepalive: bool = False
    force_internal_ip: bool = False
    resolved: t.Mapping[str, t.Sequence[str]] = {}
    strict_keys: bool = True
    strict_endpoints: bool = True
    keep_transient: bool = True
    node_cidrs: t.Mapping[str, t.Sequence[str]] = {}
    state: str = "present"
    adopt: bool = False
    max_deletes: int | None = None
    confirm_empty: t.Container[str] = ()
    purge_meshes: bool = False
    targets: t.Sequence[str] = ()

    def gets_peers(self, cluster: str) -> bool:
        """Whether Peers are written into a cluster, which may be kept by somebody else."""
        return not self.targets or cluster in self.targets

    def options(self, mesh: t.Mapping[str, t.Any], entry: t.Mapping[str, t.Any]) -> PeerOptions:
        """What holds for one entry: its own endpoint policy, else its mesh's, else the run's."""
        policy = entry.get("endpoint_policy") or mesh.get("endpoint_policy") or self.endpoint_policy
        return PeerOptions(
            policy,
            self.internal_ip_routes,
            self.own_endpoint_routes,
            self.roaming_keepalive,
            all_pod_cidrs=True,
            resolved=self.resolved,
        )


class Gathered(t.NamedTuple):
    """What was read: the nodes of each cluster in the order of names, Peers of each target, why others failed.

    A cluster that is missing in ``nodes`` or ``peers`` could not be read completely; ``unreachable`` has the reason. ``objects``
    has the Nodes of each cluster by name, as listed.
    """

    nodes: t.Mapping[str, t.Sequence[Node]]
    peers: t.Mapping[str, list[dict[str, t.Any]]]
    unreachable: t.Mapping[str, str]
    ready: t.Mapping[str, t.Container[str]] = {}
    objects: t.Mapping[str, t.Mapping[str, t.Mapping[str, t.Any]]] = {}


class Target:
    """The Peers of one target, as read."""

    def __init__(self, name: str, objects: t.Iterable[t.Mapping[str, t.Any]], manager: str) -> None:
        self.name, self._manager = name, manager
        self.objects: dict[str, t.Mapping[str, t.Any]] = {}
        rows = []
        for obj in objects:
            ident = str(obj["metadata"].get("name"))
            self.objects[ident] = obj
            rows.append(Peer(ident, labels_of(obj), peer_spec(obj)))
        self.existing = Existing(rows)
        self._owned: dict[str, bool] = {}

    def owned(self, name: str) -> bool:
        """True when the Peer was applied by our field manager, and its name or its record shows that nobody else made it."""
        if name not in self._owned:
            obj = self.objects.get(name)
            self._owned[name] = obj is not None and may_delete(
                obj, self._manager, is_owned(obj, self._manager), _named(name, obj)
            )
        return self._owned[name]

    def may_remove(self, name: str, adopt: bool) -> bool:
        """Whether the Peer may be deleted: it is owned, or may be upstream's by its name where that is asked for."""
        return self.owned(name) or (adopt and name in self.objects and _named(name, self.objects[name]))


def _named(name: str, obj: t.Mapping[str, t.Any]) -> bool:
    """Whether a Peer's name is that of a node of the mesh and cluster of its labels, which can be forged, where names cannot."""
    labels = labels_of(obj)
    mesh, cluster = labels.get(MESH_LABEL), labels.get(SOURCE_LABEL)
    return bool(mesh and cluster and is_peer_name(name, mesh, cluster))


def peer_spec(obj: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A listed Peer's spec. What a server sends against its own schema is made text, so that it can be compared."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return {}
    key, allowed = spec.get("publicKey"), spec.get("allowedIPs")
    if isinstance(key, str) and isinstance(allowed, list) and all(isinstance(item, str) for item in allowed):
        return spec
    return dict(
        spec, publicKey=str(key), allowedIPs=[str(item) for item in allowed] if isinstance(allowed, list) else []
    )


class SourcePlan(t.NamedTuple):
    """One source of one mesh, ready for every target.

    ``peers`` built Peers by node; ``node_of`` {Peer name: node} of all nodes that the cluster lists; ``led_by`` {node: the
    leader with the Peer that carries it}; ``reasons`` {node: reason} of skipped nodes; ``kept`` nodes that keep their live Peers although they are skipped.
    """

    mesh: t.Mapping[str, t.Any]
    entry: t.Mapping[str, t.Any]
    options: PeerOptions
    keepalive: int
    peers: dict[str, Peer]
    nodes: dict[str, Node]
    node_of: dict[str, str]
    led_by: dict[str, str]
    reasons: dict[str, str]
    kept: frozenset[str]
    anchor: str | None
    extras: list[str]
    left_out: t.Mapping[str, t.Container[str]]
    bootstrapping: bool

    @property
    def without_endpoint(self) -> bool:
        """True when the whole cluster is left out, at least partly for want of endpoints, and has no Peer that stays."""
        return not self.peers and not self.kept and NONE in self.reasons.values()

    def routes(self, name: str) -> list[str]:
        """Every range of a node's Peer, those that its configured endpoint kept out included."""
        node = self.nodes[name]
        extras = self.extras if name == self.anchor else ()
        wireguard = parse_cidr(node.annotation(WIREGUARD_IP))
        return peer_routes(node, self.entry, wireguard, extras, self.options, self.left_out.get(name, ()))


class Sources(t.NamedTuple):
    """Everything before targets are looked at. ``plans`` {(mesh name, cluster): SourcePlan}."""

    meshes: list[t.Mapping[str, t.Any]]
    findings: list[MeshFinding]
    plans: dict[tuple[str, str], SourcePlan]
    refused: list[Refusal]
    warnings: list[str]
    checked: Checked


def usable_meshes(
    meshes: t.Sequence[t.Mapping[str, t.Any]],
) -> tuple[list[t.Mapping[str, t.Any]], list[MeshFinding]]:
    """The meshes that no finding names, and all findings: only what is wrong is left out (gaps G15 to G17)."""
    findings = [finding for mesh in meshes for finding in check_definition(mesh)]
    names = [mesh.get("name") for mesh in meshes]
    for mesh in meshes:
        if names.count(mesh.get("name")) > 1:
            message = f'mesh "{mesh.get("name")}" is defined more than once; its Peers carry the name alone'
            findings.append(MeshFinding((mesh_id(mesh),), "definition_invalid", message))
    broken = {ident for finding in findings for ident in finding.meshes}
    findings += validate_meshes([mesh for mesh in meshes if mesh_id(mesh) not in broken])
    blocked = {ident for finding in findings for ident in finding.meshes}
    return [mesh for mesh in meshes if mesh_id(mesh) not in blocked], findings


class _Draft(t.NamedTuple):
    mesh: t.Mapping[str, t.Any]
    entry: t.Mapping[str, t.Any]
    options: PeerOptions
    filtered: Filtered
    live: dict[str, t.Mapping[str, t.Any]]
    node_of: dict[str, str]
    led_by: dict[str, str]
    kept: list[str]


def plan_sources(
    meshes: t.Sequence[t.Mapping[str, t.Any]], gathered: Gathered, targets: t.Mapping[str, Target], settings: Settings
) -> Sources:
    """Filter, check and build every source of every mesh that may go on."""
    usable, findings = usable_meshes(meshes)
    drafts: dict[tuple[str, str], _Draft] = {}
    for mesh in usable:
        for entry in mesh["clusters"]:
            if entry["name"] in gathered.nodes:
                nodes = gathered.nodes[entry["name"]]
                drafts[mesh["name"], entry["name"]] = _draft(mesh, entry, nodes, targets, settings)
    by_cluster: dict[str, Source] = {}
    for (dummy, cluster), draft in sorted(drafts.items(), key=lambda item: item[0]):
        source = by_cluster.setdefault(cluster, Source(cluster, [], [], {}, []))
        source.entries.append(draft.entry)
        known = {node.name for node in source.nodes}
        source.nodes.extend(node for node in draft.filtered.valid if node.name not in known)
        source.live.update(draft.live)
        source.kept.extend(name for name in draft.kept if name not in source.kept)
    checked = check_kilo(list(by_cluster.values()), settings.node_cidrs, settings.internal_ip_routes, settings.resolved)
    found = Sources(usable, findings, {}, list(checked.routes), list(checked.warnings), checked)
    reported: set[Refusal] = set()
    for key, draft in drafts.items():
        found.plans[key] = _finish(draft, checked, gathered, settings, found.warnings)
        for refusal in _refusals(draft, checked):
            if refusal not in reported:
                reported.add(refusal)
                found.refused.append(refusal)
        _say_renumbered(found.plans[key], found.warnings)
    for cluster in sorted(by_cluster):
        if not settings.group_locations and by_location(gathered.nodes[cluster]):
            text = "cluster {0}: Kilo runs with the granularity location, so only leaders have a WireGuard address"
            found.warnings.append(text.format(cluster) + "; set group_locations, or use the granularity full")
    return found


def _draft(
    mesh: t.Mapping[str, t.Any],
    entry: t.Mapping[str, t.Any],
    nodes: t.Sequence[Node],
    targets: t.Mapping[str, Target],
    settings: Settings,
) -> _Draft:
    options = settings.options(mesh, entry)
    node_of = {peer_name(mesh["name"], entry["name"], node.name): node.name for node in nodes}
    live: dict[str, t.Mapping[str, t.Any]] = {}
    for name in sorted(targets):
        if len(live) == len(nodes):
            break
        own = targets[name].existing.own(mesh["name"], entry["name"])
        for ident, peer in own.items():
            node = node_of.get(ident)
            if node is not None and node not in live and (settings.adopt or targets[name].owned(ident)):
                live[node] = peer.spec
    holders: dict[str, str] = {}
    for node, spec in live.items():
        for route in spec.get("allowedIPs") or ():
            address, dummy, length = str(route).partition("/")
            if length in ("32", "128") and ip_or_none(address) is not None:
                holders.setdefault(address, node)
    # what a node announces is settled here, so that everything behind takes its ranges as they are
    nodes = [with_kilo_endpoint(announced(node, settings.all_pod_cidrs), settings.kilo_endpoints) for node in nodes]
    if settings.strict_endpoints:
        nodes, entry = [plain_pods(node) for node in nodes], plain_ranges(entry)
    groups = Grouped(nodes, {}, {})
    if settings.group_locations and by_location(nodes):
        groups = grouped(nodes, entry, live)
    filtered = filter_nodes(groups.nodes, entry, options.policy, holders)
    filtered.skipped.update(dict.fromkeys(groups.twice, "claimed_twice"))
    filtered.messages.update(groups.twice)
    filtered = _taken_by_kilo(filtered, entry, settings)
    kept = []
    if settings.keep_transient:
        kept = [name for name, reason in filtered.skipped.items() if name in live and _stays(reason, settings)]
        filtered = while_leaders_move(filtered, groups.nodes, live, kept)
        filtered = while_renumbered(filtered, live, kept)
    return _Draft(mesh, entry, options, filtered, live, node_of, groups.led_by, kept)


def _taken_by_kilo(filtered: Filtered, entry: t.Mapping[str, t.Any], settings: Settings) -> Filtered:
    """Without the nodes with a Peer that Kilo would refuse, as far as this run is strict."""
    result = Filtered([], dict(filtered.skipped), dict(filtered.messages))
    for node in filtered.valid:
        try:
            check_node(node, entry, settings.strict_keys, settings.strict_endpoints, settings.resolved)
        except ValueRefused as error:
            name = node.name
            result.skipped[name], result.messages[name] = error.reason, error.message
        else:
            result.valid.append(node)
    return result


def _stays(reason: str, settings: Settings) -> bool:
    """True for a reason why a node gets nothing new, and which is none to take away what exists."""
    return (
        is_transient(reason)
        or reason in WRITE_REASONS
        or reason == DUPLICATE
        or (reason == INVALID and settings.strict_endpoints)
    )


def _say_renumbered(source: SourcePlan, warnings: list[str]) -> None:
    names = sorted(name for name in source.kept if source.reasons.get(name) == DUPLICATE)
    if names:
        text = (
            "cluster {0}: the Peers of {1} stay as they are: the nodes announce WireGuard addresses of each other, as they do for "
            "about half a minute while Kilo renumbers them; run again then"
        )
        warnings.append(text.format(source.entry["name"], in_short(names, 5)))


def carried(draft: _Draft, valid: t.Sequence[Node], warnings: list[str]) -> list[str]:
    """The ranges of the whole cluster for one node to carry, but none with the endpoint of a node of the cluster: packets
    to that endpoint would be sent into the tunnel."""
    extras = anchor_cidrs(draft.entry, valid)
    if not extras or draft.options.own_endpoint_routes:
        return extras
    held: set[Address] = set()
    for node in valid:
        endpoint = peer_endpoint(node, draft.entry, draft.options.policy)[0]
        held.update(endpoint_addresses(endpoint, draft.options.resolved))
    found = without(extras, held)
    text = "mesh {0}: no node of cluster {1} announces {2}: nodes of the cluster are reached at addresses of this range"
    for route in extras:
        if route not in found:
            warnings.append(text.format(draft.mesh["name"], draft.entry["name"], route))
    return found


def _finish(draft: _Draft, checked: Checked, gathered: Gathered, settings: Settings, warnings: list[str]) -> SourcePlan:
    cluster, mesh = draft.entry["name"], draft.mesh
    refused = {name: refusal for (where, name), refusal in checked.refused.items() if where == cluster}
    valid = [node for node in draft.filtered.valid if node.name not in refused]
    reasons = dict(draft.filtered.skipped)
    reasons.update((node.name, refused[node.name].reason) for node in draft.filtered.valid if node not in valid)
    anchor = valid[0].name if valid else None
    extras = carried(draft, valid, warnings)
    if settings.anchor_choice == "sticky":
        desired = frozenset(extras)
        carriers = sorted(
            name for name, spec in draft.live.items() if desired and desired <= set(spec.get("allowedIPs") or ())
        )
        # a node that is only away for a moment still carries them: two carriers would be one too many
        anchor = choose_anchor(valid, next(iter(carriers), None), gathered.ready.get(cluster, ()))
        if carriers and carriers[0] in draft.kept:
            anchor = carriers[0]
    keepalive = mesh_keepalive(entry.get("persistentKeepalive") for entry in mesh["clusters"])
    peers = desired_peers(
        mesh["name"], draft.entry, valid, keepalive, draft.options, anchor, checked.left_out.get(cluster), extras
    )
    names = [node.name for node in valid]
    return SourcePlan(
        mesh,
        draft.entry,
        draft.options,
        keepalive,
        dict(zip(names, peers)),
        dict(zip(names, valid)),
        draft.node_of,
        draft.led_by,
        reasons,
        frozenset(draft.kept),
        anchor,
        extras,
        checked.left_out.get(cluster, {}),
        draft.filtered.bootstrapping,
    )


def _refusals(draft: _Draft, checked: Checked) -> t.Iterator[Refusal]:
    cluster = draft.entry["name"]
    for name, reason in draft.filtered.skipped.items():
        yield Refusal(label_of(cluster, name), reason, draft.filtered.messages[name])
    for node in draft.filtered.valid:
        refusal = checked.refused.get((cluster, node.name))
        if refusal is not None:
            yield refusal
