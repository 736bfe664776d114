# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""MetalLB's configuration up to 0.12, as a document: our peers and pools in it, everybody else's left alone (ccm 10.3).

MetalLB reads it strictly and refuses all of it for one unknown key, so nothing is written that an older version does
not know. Documents are never changed in place. A peer has a node selector for its node, and some that select nothing but remember which Services use it.
"""

from __future__ import annotations

import copy
import typing as t

from ..._values.addresses import parse_network
from ..._values.refused import ValueRefused, readable
from ..bgp.values import NodeBgp
from ..pools import parse_span
from ..reservations import DEFAULT_DOMAIN

HOSTNAME = "kubernetes.io/hostname"
Selector = dict[str, t.Any]
ServiceKey = tuple[str, str]


class Spelling(t.NamedTuple):
    """How one generation spells the fields of a selector, and the domain of the labels that no node has."""

    labels: str
    expressions: str
    domain: str = DEFAULT_DOMAIN

    def node(self, name: str) -> Selector:
        return {self.labels: {HOSTNAME: name}}

    def service(self, key: ServiceKey) -> Selector:
        """Selects nothing."""
        return {self.labels: {self._label("namespace"): key[0], self._label("name"): key[1]}}

    def node_of(self, selector: t.Any) -> str:
        """The one node that it selects, or nothing."""
        labels = self._only_labels(selector)
        name = labels.get(HOSTNAME) if len(labels) == 1 else None
        return name if isinstance(name, str) else ""

    def service_of(self, selector: t.Any) -> ServiceKey | None:
        """The Service that it remembers, or None; one of the two labels alone is another owner's selector."""
        labels = self._only_labels(selector)
        namespace, name = labels.get(self._label("namespace")), labels.get(self._label("name"))
        if len(labels) == 2 and isinstance(namespace, str) and isinstance(name, str):
            return namespace, name
        return None

    def services(self, selectors: t.Iterable[t.Any]) -> set[ServiceKey]:
        return {key for key in map(self.service_of, selectors) if key is not None}

    def with_services(self, selectors: t.Sequence[t.Any], services: t.Iterable[ServiceKey]) -> list[t.Any]:
        """The selectors with exactly these Services behind what else is there, sorted. Ones we can keep, we keep as they are."""
        kept = {self.service_of(selector): selector for selector in selectors}
        others = [selector for selector in selectors if self.service_of(selector) is None]
        return others + [kept.get(key) or self.service(key) for key in sorted(services)]

    def is_owned(self, selectors: t.Any) -> bool:
        """One node first, then nothing but Services."""
        return (
            isinstance(selectors, list)
            and bool(selectors)
            and bool(self.node_of(selectors[0]))
            and all(self.service_of(selector) is not None for selector in selectors[1:])
        )

    def _label(self, part: str) -> str:
        return f"nomatch.{self.domain}/service-{part}"

    def _only_labels(self, selector: t.Any) -> dict[str, t.Any]:
        if (
            not isinstance(selector, dict)
            or selector.get(self.expressions)
            or set(selector) - {self.labels, self.expressions}
        ):
            return {}
        labels = selector.get(self.labels)
        return labels if isinstance(labels, dict) else {}


NODE, SERVICE = "node", "service"
WITHHOLD, PLAIN = "withhold", "plain"
PEERS, POOLS, SELECTORS = "peers", "address-pools", "node-selectors"
Document = dict[str, t.Any]
Pair = tuple[str, str]


class Options(t.NamedTuple):
    """``tracking``: peers are those of nodes, or go with the last Service. ``source_address`` None: with Services only.

    ``passwords`` withhold leaves what is there; plain writes them into the ConfigMap, which many can read.
    """

    tracking: str = NODE
    source_address: bool | None = None
    passwords: str = WITHHOLD
    domain: str = DEFAULT_DOMAIN

    @property
    def spelling(self) -> Spelling:
        """Of node selectors in the ConfigMap."""
        return Spelling("match-labels", "match-expressions", self.domain)

    @property
    def writes_source(self) -> bool:
        """Whether new peers say their source address (known to MetalLB since 0.11)."""
        return self.source_address if self.source_address is not None else self.tracking == SERVICE


class Config:
    """One document being changed. ``managed`` are the (node, router) pairs that we wrote, now and before; ``notes`` for people."""

    def __init__(
        self, document: t.Mapping[str, t.Any] | None, options: Options = Options(), managed: t.Iterable[Pair] = ()
    ) -> None:
        self.document: Document = copy.deepcopy(dict(document or {}))
        self.options = options
        self.managed = set(managed)
        self.notes: list[str] = []
        check_document(self.document)

    # -- pools -----------------------------------------------------------------------------------------------------

    def add_service(
        self, key: ServiceKey, network: str, nodes: t.Iterable[NodeBgp] = (), reserved: t.Container[str] = ()
    ) -> None:
        """Map a Service's network; where peers go with Services, also those of the nodes. ``reserved`` as in remove_service."""
        name = "/".join(key)
        desired = parse_network(network)
        for pool in self._pools():
            if network in reserved and _is_bare(pool, key, network):
                pool["name"] = name
        for pool in self._pools():
            users = pool_users(pool)
            if name in users and pool.get("addresses") != [network]:
                self._drop_user(pool, name)
        for pool in self._pools():
            users = pool_users(pool)
            if users and pool.get("addresses") == [network]:
                pool["name"] = ",".join(sorted(users | {name}))
                break
        else:
            if any(covers(pool, desired) for pool in self._pools()):
                # MetalLB would refuse the whole configuration for two pools that overlap; this one serves the address.
                self.notes.append(f"{network} is in another pool already; it is left to that pool")
            else:
                pool = {"protocol": "bgp", "name": name, "addresses": [network], "auto-assign": False}
                self.document[POOLS] = self._pools() + [pool]
        if self.options.tracking == SERVICE:
            for node in nodes:
                self._ensure_node(node, {key})

    def remove_service(self, key: ServiceKey, network: str = "", reserved: t.Container[str] = ()) -> None:
        """Take a Service out of its pool and out of the peers; what nobody uses any more goes.

        ``reserved`` networks: some releases named a pool like the bare Service; such a one is owned if its only address
        is one of them.
        """
        name = "/".join(key)
        for pool in list(self._pools()):
            if name in pool_users(pool):
                self._drop_user(pool, name)
            elif network in reserved and _is_bare(pool, key, network):
                self.document[POOLS].remove(pool)
        for peer in list(self._peers()):
            selectors = peer.get(SELECTORS) or []
            used_by = self.options.spelling.services(selectors)
            if key in used_by:
                self._set_services(peer, used_by - {key})

    def sync_services(
        self, services: t.Mapping[ServiceKey, str], nodes: t.Iterable[NodeBgp] = (), reserved: t.Container[str] = ()
    ) -> None:
        """Exactly these Services: other owned ones go first, so that an address can change hands. Networks must be good ones."""
        spelling = self.options.spelling
        gone = {tuple(user.split("/", 1)) for user in self.users()}
        gone |= {key for peer in self._peers() for key in spelling.services(peer.get(SELECTORS) or [])}
        for key in sorted(gone - set(services)):
            self.remove_service(t.cast(ServiceKey, key))
        nodes = list(nodes)
        for key in sorted(services):
            self.add_service(key, services[key], nodes, reserved)

    def users(self) -> set[str]:
        """The Services (``namespace/name``) of our pools."""
        return {user for pool in self._pools() for user in pool_users(pool)}

    def holds(self, nodes: t.Iterable[NodeBgp]) -> bool:
        """Whether it has pools or peers such as we write, for Services or for these nodes. Those of cloud-provider-equinix-metal look the same."""
        current = {(node.name, router) for node in nodes for router in node.peers}
        spelling = self.options.spelling
        return bool(self.users()) or any(
            (node, str(peer.get("peer-address"))) in current or spelling.services(peer[SELECTORS])
            for peer, node in self._owned_peers()
        )

    def _pools(self) -> list[dict[str, t.Any]]:
        return self.document.get(POOLS) or []

    def _drop_user(self, pool: dict[str, t.Any], name: str) -> None:
        users = pool_users(pool) - {name}
        if users:
            pool["name"] = ",".join(sorted(users))
        else:
            self.document[POOLS] = [other for other in self._pools() if other is not pool]

    # -- peers -----------------------------------------------------------------------------------------------------

    def add_nodes(self, nodes: t.Iterable[NodeBgp]) -> None:
        """Peers of these nodes; where peers go with Services, for those that are known already."""
        for node in nodes:
            self._ensure_node(node, set())

    def remove_node(self, name: str) -> None:
        """The node is gone from the cluster, and its peers with it."""
        self._drop_peers(lambda node, _router, _selectors: node == name)
        self.managed = {pair for pair in self.managed if pair[0] != name}

    def sync_nodes(
        self, nodes: t.Iterable[NodeBgp], cluster_nodes: t.Container[str] | None = None, key: ServiceKey | None = None
    ) -> None:
        """Exactly the peers of these nodes. ``cluster_nodes``: also those without BGP (else: the nodes given); ``key``: for a Service."""
        rows = list(nodes)
        for node in rows:
            self._ensure_node(node, {key} if key else set())
        self._drop_peers(self._stale(rows, cluster_nodes))
        self.managed &= {(node.name, router) for node in rows for router in node.peers}

    def stale_peers(
        self, nodes: t.Iterable[NodeBgp], cluster_nodes: t.Container[str] | None = None
    ) -> list[frozenset[str]]:
        """The node of each peer that sync_nodes would take away; none where peers go with Services."""
        if self.options.tracking == SERVICE:
            return []
        stale = self._stale(list(nodes), cluster_nodes)
        return [
            frozenset([node])
            for peer, node in self._owned_peers()
            if stale(node, str(peer.get("peer-address")), peer[SELECTORS])
        ]

    def count_peers(self) -> int:
        return len(self._owned_peers())

    def _stale(
        self, rows: t.Sequence[NodeBgp], cluster_nodes: t.Container[str] | None
    ) -> t.Callable[[str, str, list[t.Any]], bool]:
        current = {(node.name, router) for node in rows for router in node.peers}
        alive = cluster_nodes if cluster_nodes is not None else {node.name for node in rows}

        def stale(node: str, router: str, selectors: list[t.Any]) -> bool:
            if (node, router) in current:
                return False
            return (
                node not in alive or (node, router) in self.managed or bool(self.options.spelling.services(selectors))
            )

        return stale

    def _ensure_node(self, node: NodeBgp, services: set[ServiceKey]) -> None:
        spelling = self.options.spelling
        if self.options.tracking == SERVICE and not services:
            services = {key for peer in self._peers() for key in spelling.services(peer.get(SELECTORS) or [])}
            if not services:
                return  # nobody uses a peer yet
        for router in node.peers:
            found = [
                peer
                for peer in self._peers()
                if peer.get("peer-address") == router and _serves(peer.get(SELECTORS), node.name, spelling)
            ]
            peer = found[0] if found else {}
            self._describe(peer, node, router)
            if self.options.tracking == SERVICE:
                selectors = peer[SELECTORS]
                merged = spelling.services(s for other in (found or [peer]) for s in other[SELECTORS])
                peer[SELECTORS] = spelling.with_services(selectors, merged | services)
            if not found:
                self.document[PEERS] = self._peers() + [peer]
            elif len(found) > 1:  # an earlier release appended instead of changing
                self.document[PEERS] = [
                    other for other in self._peers() if not any(other is extra for extra in found[1:])
                ]
            self.managed.add((node.name, router))

    def _describe(self, peer: dict[str, t.Any], node: NodeBgp, router: str) -> None:
        peer.update({"my-asn": node.local_asn, "peer-asn": node.peer_asn, "peer-address": router})
        if self.options.writes_source or peer.get("source-address"):
            peer["source-address"] = node.source_ip
        peer.setdefault(SELECTORS, [self.options.spelling.node(node.name)])
        if self.options.passwords == WITHHOLD:
            if node.password and peer.get("password") != node.password:
                self.notes.append(f"the password of {node.name} is withheld from the ConfigMap")
        elif node.password:
            peer["password"] = node.password
        elif peer.get("password"):
            del peer["password"]

    def _set_services(self, peer: dict[str, t.Any], services: set[ServiceKey]) -> None:
        spelling = self.options.spelling
        rest = spelling.with_services(peer[SELECTORS], services)
        only_node = len(rest) == 1 and bool(spelling.node_of(rest[0]))
        if services or not only_node or self.options.tracking == NODE:
            peer[SELECTORS] = rest
        else:
            self.document[PEERS] = [other for other in self._peers() if other is not peer]

    def _drop_peers(self, gone: t.Callable[[str, str, list[t.Any]], bool]) -> None:
        dropped = [
            peer for peer, node in self._owned_peers() if gone(node, str(peer.get("peer-address")), peer[SELECTORS])
        ]
        if dropped:
            self.document[PEERS] = [peer for peer in self._peers() if not any(peer is other for other in dropped)]

    def _owned_peers(self) -> list[tuple[dict[str, t.Any], str]]:
        """Our peers, each with its node."""
        spelling = self.options.spelling
        owned = [peer for peer in self._peers() if spelling.is_owned(peer.get(SELECTORS))]
        return [(peer, spelling.node_of(peer[SELECTORS][0])) for peer in owned]

    def _peers(self) -> list[dict[str, t.Any]]:
        return self.document.get(PEERS) or []


def _serves(selectors: t.Any, node: str, spelling: Spelling) -> bool:
    """Whether an owned peer is this node's; selectors that others added do not change its owner."""
    if not isinstance(selectors, list) or not selectors or spelling.node_of(selectors[0]) != node:
        return False
    return spelling.is_owned(selectors) or bool(spelling.services(selectors))


def check_document(document: t.Any) -> None:
    """Raises ValueRefused ``config_parse`` for what MetalLB could not read either."""
    if not isinstance(document, dict):
        raise ValueRefused("config_parse", "the configuration is no mapping")
    for name in (PEERS, POOLS):
        rows = document.get(name)
        if rows is not None and not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
            raise ValueRefused("config_parse", f"{name} is no list of mappings")


def pool_users(pool: t.Mapping[str, t.Any]) -> set[str]:
    """The Services (``namespace/name``) of an owned pool; nothing for any other pool."""
    name = pool.get("name")
    if not isinstance(name, str) or not _is_mapping(pool):
        return set()
    users = name.split(",")
    return set(users) if all(len(user.split("/")) == 2 and all(user.split("/")) for user in users) else set()


def _is_mapping(pool: t.Mapping[str, t.Any]) -> bool:
    return pool.get("protocol") == "bgp" and pool.get("auto-assign") is False


def _is_bare(pool: t.Mapping[str, t.Any], key: ServiceKey, network: str) -> bool:
    return pool.get("name") == key[1] and _is_mapping(pool) and pool.get("addresses") == [network]


def covers(pool: t.Mapping[str, t.Any], network: t.Any) -> bool:
    """Whether a pool has an address of the network; what cannot be read has none."""
    spans = readable(parse_span, pool.get("addresses") or ())
    return any(
        span.version == network.version and span.first <= int(network[-1]) and int(network[0]) <= span.last
        for span in spans
    )


def managed_text(pairs: t.Iterable[Pair]) -> str:
    """The annotation ``<domain>/managed-peers``: what we wrote, for the run that takes it away."""
    return ",".join(f"{node}={router}" for node, router in sorted(pairs))


def parse_managed(text: str | None) -> set[Pair]:
    """The inverse; what is no pair is left out, since anyone may write annotations."""
    rows = [part.partition("=") for part in (text or "")[:262144].split(",")]
    return {(node, router) for node, mark, router in rows if node and mark and router}
