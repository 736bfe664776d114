# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole Semaphore mesh in one pass: inventory and Node listings to what every node gets (semaphore 3, decision 49).

Annotations that this run is going to write count as written (decision 31): a fresh fabric is planned in one pass, with
the public keys that only the hosts can make as deferred values.
"""

from __future__ import annotations

import functools
import typing as t

from ..._dataplane.node_spec import Contested
from ..._plan.budget import why_refused
from ..._plan.mesh_plan import ClusterPlan, MeshPlan, NodePlan, RemotePlan
from ..._plan.objects import field_manager
from ..._plan.plan import Pending, Refusal
from ..._values.addresses import Network, host_cidr, parse_endpoint, parse_network
from ..._values.keys import parse_key
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused
from ..fabric.claims import OVERLAY_RANGES, Claim, OverlayGuard, label_of, open_claims, outside_grant, read_claim
from ..fabric.inventory import Fabric
from ..fabric.node_listing import Listing
from ..fabric.pod_range_readers import NODE
from ..fabric.pod_ranges import NodeRanges, Ranges, read_clusters
from ..semaphore.annotations import PATTERNS, announces, chosen_endpoint, cluster_of_key, endpoint, key_of
from ..semaphore.device import KEEPALIVE, announced_ports, written_port
from ..semaphore.peers import pod_cidrs_of
from .exported_nodes import NodeAddresses, exported_nodes, parted

_TRANSLATED = (
    "it runs upstream semaphore-wireguard, which takes pod ranges of {0} from spec.podCIDR, and other clusters see {1} of {0} at "
    "other addresses (exported_pod_cidrs); manage the cluster with this collection, or remove the mapping"
)
_NOT_TRANSLATING = (
    "it runs upstream semaphore-wireguard, which translates no address, and {0} has exported_pod_cidrs; manage its nodes with this "
    "collection, or remove the mapping"
)


class Pods(t.NamedTuple):
    """A node's pod ranges as values and as text. ``borrowed``: addresses inside the range of another node; None: the Node's own podCIDRs."""

    networks: t.Sequence[Network]
    cidrs: list[str]
    borrowed: t.Sequence[Network] | None = None


def plan_semaphore_mesh(
    fabric: Fabric,
    listings: t.Mapping[str, t.Any],
    reported: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
) -> MeshPlan:
    """Everything the mesh should be, with Pending values (``to_wire`` of its ``to_json`` makes JSON of it).

    listings: {cluster: {"nodes": [Node objects], "ranges": pod_range_readers.Objects} or {"error": {reason, message}}}; a cluster that is
    missing counts as not readable. reported: {host: {annotation: value}}, what hosts reported of themselves in this run, which comes
    before what is in their cluster.

    The peers of a remote are [{node, public_key, endpoint, allowed_ips, persistent_keepalive, preshared_key}]; those that are contested have
    declared, reported, greedy, host and key_file too. An unreachable local cluster's nodes still get their devices and peers; they are not
    ``publishable``. ``stale`` are Semaphore's keys for clusters that the fabric does not have, whoever wrote them: only those of our own
    field manager may be removed.
    """
    read, sources = read_clusters(fabric.clusters, listings)
    refused = [refusal for listing in read.values() for refusal in listing.refused]
    refused += [refusal for found in sources.values() for refusal in found.refused]
    remotes = {cluster: _remotes(fabric, cluster, read[cluster]) for cluster in fabric.clusters}
    nodes = _nodes(fabric, read, remotes, refused, reported or {})
    unusable = [refusal for refusal in refused if refusal.reason != "node_missing"]
    hosts = {(node.cluster, node.node_name): host for host, node in nodes.items()}
    ranges = _pod_ranges(fabric, read, sources)
    exported = fabric.exported()
    # what other clusters see of pods is inside of what the inventory exports; _View checks what the nodes claim by themselves
    grants = fabric.seen_grants()
    overlay = {
        name: dict(row, pod_cidrs=[*row["pod_cidrs"], *fabric.clusters[name]["pod_cidrs"]])
        for name, row in grants.items()
    }
    guard = OverlayGuard(overlay)
    addresses, strays = exported_nodes(exported, read, PrefixSet.of_texts(fabric.balanced()))
    refused += strays
    for host, node in nodes.items():
        found = ranges.get((node.cluster, node.node_name))
        own_ranges = [*found.cidrs, *map(str, found.borrowed or ())] if isinstance(found, Pods) else []
        seen_at = addresses.get((node.cluster, node.node_name))
        present, former = parted(seen_at, exported[node.cluster]) if seen_at else ({}, {})
        nodes[host] = node._replace(exported_addresses=present, former_addresses=former, pod_cidrs=own_ranges)
    clusters: dict[str, ClusterPlan] = {}
    granted, balanced = _node_ranges(fabric), PrefixSet.of_texts(fabric.balanced())
    for local in sorted(fabric.clusters):
        seen: list[Refusal] = []
        strange = _unannounced(local, sources[local], read[local], ranges)
        if local in exported and exported[local].of_pods:
            strange = _TRANSLATED.format(local, ", ".join(exported[local].pairs))
        view = _View(fabric, local, guard, seen, reported or {}, granted, balanced, strange, addresses)
        claims = view.claims(read, hosts, nodes, ranges)
        own = _own_keys(local, nodes.values())
        kept, contested, turned_away = open_claims(claims, grants, own)
        seen.extend(turned_away)
        refused.extend(seen)
        by_remote: dict[str, list[dict[str, t.Any]]] = {}
        borrowed: dict[str, list[str]] = {}
        for claim in kept:
            by_remote.setdefault(claim.cluster, []).append(claim.peer.to_json())
            borrowed.setdefault(claim.cluster, []).extend(map(str, claim.borrowed))
        open_peers: dict[str, list[dict[str, t.Any]]] = {}
        for claim in contested:
            key_file = remotes[claim.cluster][local].private_key_file
            # the node decides by ranges alone, and a borrowed address is never its own range
            peer = claim.peer._replace(
                allowed_ips=tuple(map(str, claim.networks)) if claim.borrowed else claim.peer.allowed_ips
            )
            row = Contested(peer, claim.declared, claim.reported, claim.greedy, claim.host, key_file)
            open_peers.setdefault(claim.cluster, []).append(row.to_json())
        reached: dict[str, RemotePlan] = {}
        for name, remote in remotes[local].items():
            failure = read[name].failure
            inside = {claim.label for claim in [*kept, *contested] if claim.cluster == name}
            why = why_refused([row for row in [*unusable, *seen] if row.object.partition("/")[0] == name], inside)
            reached[name] = remote._replace(
                peers=by_remote.get(name, []),
                complete=failure is None,
                reason=failure["message"] if failure else None,
                turned_away=why if failure is None else "",
                borrowed=sorted(borrowed.get(name, ())),
                ranges_known=not sources[name].unsure,
                contested=open_peers.get(name, ()),
            )
        keep = fabric.clusters[local]["keep_pod_addresses"]
        clusters[local] = ClusterPlan(
            remotes=reached,
            keep_pod_addresses={"ranges": list(fabric.clusters[local]["pod_cidrs"]), "required": keep is True}
            if keep
            else None,
            exported_pod_cidrs=exported[local].to_json() if local in exported else None,
        )
    return MeshPlan(
        fabric=fabric.name,
        annotation_patterns=list(PATTERNS),
        overlay=sorted(
            {cidr for ranges in overlay.values() for key in OVERLAY_RANGES for cidr in ranges.get(key) or ()}
        ),
        clusters=clusters,
        nodes=nodes,
        refused=[refusal._asdict() for refusal in sorted(set(refused))],
        failures=[listing.failure for listing in read.values() if listing.failure],
        pod_ranges={cluster: found.shown() for cluster, found in sources.items()},
    )


def _remotes(fabric: Fabric, local: str, listing: Listing) -> dict[str, RemotePlan]:
    """What every node of a cluster has per remote.

    ``listen_port_known: false`` where nobody wrote a port and the nodes' own could not be read: a node keeps what it has.
    """
    own = [listing.nodes[name] for name in sorted(set(fabric.hosts_of(local).values())) if name in listing.nodes]
    remotes = fabric.remotes(local, announced_ports(own, fabric.clusters))
    return {
        name: remote._replace(
            listen_port_known=listing.failure is None or bool(written_port(fabric.clusters, local, name))
        )
        for name, remote in remotes.items()
    }


def mesh_without_listings(fabric: Fabric) -> MeshPlan:
    """The plan as far as the inventory alone gives it: no peers, no annotations, nothing that failed."""
    plan = plan_semaphore_mesh(fabric, {cluster: {"nodes": []} for cluster in fabric.clusters})
    nodes = {host: node._replace(refused="") for host, node in plan.nodes.items()}
    clusters = {
        name: part._replace(
            remotes={
                remote: settings._replace(complete=False, reason="the clusters were not asked")
                for remote, settings in part.remotes.items()
            }
        )
        for name, part in plan.clusters.items()
    }
    return plan._replace(clusters=clusters, nodes=nodes, refused=[], failures=[])


def node_part(plan: MeshPlan, host: str) -> dict[str, t.Any]:
    """What one host needs of the plan: {fabric, cluster, node_name, devices, annotations, published, stale}.

    devices: [{name, remote, mtu, txqueuelen, listen_port, listen_port_known, private_key_file, routes: [cidr], peers, peers_known, and
    contested, turned_away, borrowed and ranges_known where there are any}].
    """
    node = plan.nodes[host]
    devices = [
        {
            "name": settings.device,
            "remote": remote,
            "routes": [route["dst"] for route in settings.routes],
            "overlay": plan.overlay,
            "peers_known": settings.complete,
            "mtu": settings.mtu,
            "txqueuelen": settings.txqueuelen,
            "listen_port": settings.listen_port,
            "listen_port_known": settings.listen_port_known,
            "private_key_file": settings.private_key_file,
            "peers": settings.peers,
            **({"contested": settings.contested} if settings.contested else {}),
            **({"turned_away": settings.turned_away} if settings.turned_away else {}),
            **({"borrowed": settings.borrowed} if settings.borrowed else {}),
            **({} if settings.ranges_known else {"ranges_known": False}),
        }
        for remote, settings in sorted(plan.clusters[node.cluster].remotes.items())
    ]
    return dict(node.to_json(), fabric=plan.fabric, devices=devices)


def _nodes(
    fabric: Fabric,
    read: t.Mapping[str, Listing],
    remotes: t.Mapping[str, t.Mapping[str, RemotePlan]],
    refused: list[Refusal],
    reported: t.Mapping[str, t.Mapping[str, t.Any]],
) -> dict[str, NodePlan]:
    """What every inventory host publishes; those without a Node object publish nothing and are refused."""
    nodes = {}
    granted, balanced = _node_ranges(fabric), PrefixSet.of_texts(fabric.balanced())
    for host in sorted(fabric.nodes):
        cluster, name = fabric.nodes[host]["cluster"], fabric.nodes[host]["node_name"]
        nodes[host] = NodePlan(cluster, name)
        listing = read[cluster]
        if listing.failure:
            continue
        node = listing.nodes.get(name)
        if node is None:
            message = f"cluster {cluster} has no Node {name} for host {host}; write node_name if it has another name"
            refused.append(Refusal(label_of(cluster, name), "node_missing", message))
            nodes[host] = NodePlan(cluster, name, refused="node_missing")
            continue
        annotations: dict[str, t.Any] = {}
        where = functools.partial(_endpoint, fabric, fabric.nodes[host], node, granted[cluster], balanced)
        for remote, settings in remotes[cluster].items():
            try:
                annotations.update(_desired(node, remote, where(settings.listen_port), reported.get(host) or {}))
            except ValueRefused as error:
                refused.append(Refusal(label_of(cluster, name), error.reason, error.message))
                break
        present = node["annotations"]
        nodes[host] = NodePlan(
            cluster,
            name,
            publishable=bool(annotations),
            annotations=annotations,
            published={key: present[key] for key in annotations if isinstance(present.get(key), str)},
            stale=sorted(key for key in present if cluster_of_key(key) not in (None, *remotes[cluster])),
        )
    return nodes


def _node_ranges(fabric: Fabric) -> dict[str, PrefixSet]:
    """node_cidrs by cluster, where nodes of each may have their addresses; an empty one grants everything."""
    return {name: PrefixSet.of_texts(cluster["node_cidrs"]) for name, cluster in fabric.clusters.items()}


def _endpoint(
    fabric: Fabric,
    declared: t.Mapping[str, str],
    node: t.Mapping[str, t.Any],
    granted: PrefixSet,
    balanced: PrefixSet,
    port: int,
) -> str:
    """Where a host of the inventory is reached: at the inventory's endpoint, else at an address of its Node. Raises ValueRefused."""
    if declared.get("endpoint"):
        return chosen_endpoint(declared["endpoint"], port)
    return endpoint(
        node["addresses"], port, fabric.clusters[declared["cluster"]]["endpoint_address_type"], granted, balanced
    )


def _desired(node: t.Mapping[str, t.Any], remote: str, where: str, reported: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    published = reported.get(key_of(remote, "pubKey"), node["annotations"].get(key_of(remote, "pubKey")))
    try:
        public_key: t.Any = parse_key(published)
    except ValueRefused:
        public_key = Pending(f"public key of {node['name']} towards {remote}")
    return {
        key_of(remote, "pubKey"): public_key,
        key_of(remote, "endpoint"): where,
    }


def _pod_ranges(
    fabric: Fabric, read: t.Mapping[str, Listing], sources: t.Mapping[str, Ranges]
) -> dict[tuple[str, str], Pods | ValueRefused]:
    """Pod ranges per node, read once for all the clusters that look at it."""
    found: dict[tuple[str, str], Pods | ValueRefused] = {}
    for cluster, listing in read.items():
        source = fabric.clusters[cluster]["allowed_ips_source"]
        for name, node in listing.nodes.items():
            if sources[cluster].source != NODE:
                ranges = sources[cluster].nodes[name]
                if isinstance(ranges, NodeRanges):
                    found[(cluster, name)] = Pods(ranges.networks, list(map(str, ranges.networks)), ranges.borrowed)
                else:
                    found[(cluster, name)] = ranges
                continue
            try:
                networks = pod_cidrs_of(node, source)
                found[(cluster, name)] = Pods(networks, list(map(str, networks)))
            except ValueRefused as error:
                found[(cluster, name)] = error
    return found


def _unannounced(
    local: str,
    source: Ranges,
    listing: Listing,
    ranges: t.Mapping[tuple[str, str], Pods | ValueRefused],
) -> str:
    """Why upstream semaphore-wireguard cannot reach all pods of a cluster: it knows the Nodes' spec.podCIDR alone (pod_ranges 2.3). Empty where it can."""
    if source.source == NODE:
        return ""
    rows = []
    for name, node in sorted(listing.nodes.items()):
        found = ranges.get((local, name))
        announced = node.get("podCIDRs") or [node.get("podCIDR")]
        if not isinstance(found, Pods) or not found.networks:
            continue
        try:
            known = PrefixSet.of(parse_network(text) for text in announced if text)
        except (TypeError, ValueRefused):
            known = PrefixSet()
        missing = PrefixSet.of((*found.networks, *(found.borrowed or ()))) - known
        if missing:
            rows.append(f"{name} has {missing.cidrs()[0]} and spec.podCIDR {', '.join(known.cidrs()) or '(none)'}")
    if not rows:
        return ""
    text = "it runs upstream semaphore-wireguard, which takes pod ranges of {0} from spec.podCIDR, and {1:,} of its nodes have others ({2}; pod_ranges: {3})"
    return text.format(local, len(rows), rows[0], source.source)


class _View:
    """All other clusters as one cluster sees them."""

    def __init__(
        self,
        fabric: Fabric,
        local: str,
        guard: OverlayGuard,
        refused: list[Refusal],
        reported: t.Mapping[str, t.Mapping[str, t.Any]],
        granted: t.Mapping[str, PrefixSet],
        balanced: PrefixSet,
        strange: str,
        addresses: NodeAddresses,
    ) -> None:
        self._addresses = addresses
        self._granted, self._balanced = granted, balanced
        self._manager, self._strange = field_manager(fabric.name), strange
        self._exported = fabric.exported()
        self._pods = {name: PrefixSet.of_texts(fabric.clusters[name]["pod_cidrs"]) for name in self._exported}
        self._local, self._guard, self._refused, self._reported = local, guard, refused, reported
        self._key, self._endpoint = key_of(local, "pubKey"), key_of(local, "endpoint")

    def claims(
        self,
        read: t.Mapping[str, Listing],
        hosts: t.Mapping[tuple[str, str], str],
        nodes: t.Mapping[str, NodePlan],
        ranges: t.Mapping[tuple[str, str], Pods | ValueRefused],
    ) -> list[Claim]:
        """What the nodes of all other clusters ask of this one, sorted by cluster and node."""
        found: list[Claim] = []
        for cluster in sorted(read):
            if cluster == self._local:
                continue
            for name in sorted(read[cluster].nodes):
                annotations = read[cluster].nodes[name]["annotations"]
                host = hosts.get((cluster, name))
                desired = nodes[host].annotations if host is not None else {}
                label = label_of(cluster, name)
                if self._endpoint in desired:
                    # Our own run writes both annotations, so what it will write counts; what somebody else put there
                    # is only reported.
                    self._report(label, annotations, desired[self._endpoint])
                    annotations = desired
                elif not announces(self._local, annotations):
                    continue
                elif self._manager not in read[cluster].nodes[name]["managers"] and (
                    self._strange or (cluster in self._exported and self._exported[cluster].of_pods)
                ):
                    strange = self._strange or _NOT_TRANSLATING.format(cluster)
                    self._refuse(label, ValueRefused("ranges_unannounced", strange))
                    continue
                said = host is not None and annotations[self._key] == (self._reported.get(host) or {}).get(self._key)
                pods = ranges[(cluster, name)]
                try:
                    if isinstance(pods, ValueRefused):
                        raise pods
                    claim = read_claim(
                        cluster,
                        name,
                        annotations[self._key],
                        annotations[self._endpoint],
                        pods.networks,
                        pods.cidrs,
                        keepalive=KEEPALIVE,
                        borrowed=pods.borrowed,
                    )
                    self._check_endpoint(claim, said=self._endpoint in desired)
                    if (
                        self._exported and claim.address is not None
                    ):  # real ranges are in no grant that claims are settled by
                        self._guard.check(claim.address, claim.peer.endpoint)
                    claim = self._as_seen(
                        claim, managed=host is not None or self._manager in read[cluster].nodes[name]["managers"]
                    )
                    found.append(claim._replace(declared=host is not None, host=host, reported=said))
                except ValueRefused as error:
                    self._refuse(label, error)
        return found

    def _as_seen(self, claim: Claim, managed: bool) -> Claim:
        """The claim with the ranges at which this cluster sees the node's pods, and a managed node itself.

        Raises ValueRefused for what the node may not claim by itself.
        """
        exported = self._exported.get(claim.cluster)
        if exported is None:
            return claim
        for network in (*claim.networks, *claim.borrowed):
            if not self._pods[claim.cluster].covers(network):
                granted = self._pods[claim.cluster].cidrs()
                raise ValueRefused("outside_grant", outside_grant(str(network), claim.cluster, granted))
        nodes = self._addresses.get((claim.cluster, claim.node), {}) if managed else {}
        addresses = [parse_network(host_cidr(address)) for seen in nodes.values() for address in seen]
        networks = (*exported.accepted_networks(claim.networks), *addresses)
        borrowed = tuple(exported.accepted_networks(claim.borrowed))
        peer = claim.peer._replace(allowed_ips=(*map(str, networks), *map(str, borrowed)))
        return claim._replace(peer=peer, networks=networks, borrowed=borrowed)

    def _check_endpoint(self, claim: Claim, said: bool) -> None:
        """Raise ValueRefused for an endpoint that only the node itself reports, outside what its cluster is granted."""
        if said or claim.address is None:
            return
        granted = self._granted[claim.cluster]
        if claim.address in self._balanced:
            raise ValueRefused(
                "special_address", f"endpoint {claim.peer.endpoint} is an address that load balancing hands out"
            )
        if granted and claim.address not in granted:
            self._guard.check(claim.address, claim.peer.endpoint)  # no grant would make a node's of these
            message = "endpoint {0} is outside what the inventory grants; node_cidrs of clusters/{1} would grant it"
            raise ValueRefused("outside_grant", message.format(claim.peer.endpoint, claim.cluster))

    def _report(self, label: str, annotations: t.Mapping[str, t.Any], predicted: str) -> None:
        if self._key in annotations:
            try:
                parse_key(annotations[self._key])
            except ValueRefused as error:
                self._refuse(label, error)
        if annotations.get(self._endpoint) not in (None, "", predicted):
            try:
                address = parse_endpoint(annotations[self._endpoint]).address
                if address is not None:
                    self._guard.check(address, annotations[self._endpoint])
            except ValueRefused as error:
                self._refuse(label, error)

    def _refuse(self, label: str, error: ValueRefused) -> None:
        self._refused.append(Refusal(label, error.reason, f"{label}: {error.message}"))


def _own_keys(local: str, nodes: t.Iterable[NodePlan]) -> set[str]:
    """Public keys that our hosts in a cluster publish: nobody else may be a peer with one of them.

    Only hosts of the inventory count. If any Node object did, a node could publish a remote node's key on itself and
    so have that remote node refused.
    """
    return {
        value
        for node in nodes
        if node.cluster == local
        for key, value in node.published.items()
        if key.endswith("/pubKey")
    }
