# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""MetalLB's custom resources from 0.13.2 on (ccm 10.4): their names, the labels that tell whom they serve, and what they should be.

Objects without our label are never changed; one of them under a name that we need is a conflict.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import re
import typing as t

from ..._values.addresses import parse_network
from ..._values.refused import ValueRefused
from ..bgp.values import NodeBgp
from ..reservations import DEFAULT_DOMAIN
from .config import NODE, SERVICE, ServiceKey, Spelling, covers

POOL, ADVERTISEMENT, PEER, SECRET = "IPAddressPool", "BGPAdvertisement", "BGPPeer", "Secret"
LAYER2 = "L2Advertisement"
_DROPPED = re.compile(r"[^A-Za-z0-9-]")
#: What a label's name and value may have.
LONGEST = 63


class PoolNames(t.NamedTuple):
    """A pool's name, and the label of one Service that uses it. ``hashed``: the label does not tell the name."""

    pool: str
    label_key: str
    label_value: str
    hashed: bool


def pool_names(key: ServiceKey) -> PoolNames:
    """For a Service (namespace, name)."""
    label_key, label_value = "service-" + key[1], "namespace-" + key[0]
    hashed = hashed_names(key)
    return (
        hashed
        if len(label_key) > LONGEST or len(label_value) > LONGEST
        else PoolNames(hashed.pool, label_key, label_value, False)
    )


def hashed_names(key: ServiceKey) -> PoolNames:
    """The same with a digest for a label, for names that are too long and names that meet."""
    pool = ".".join(_DROPPED.sub("", part) for part in key)
    digest = hashlib.sha256("/".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return PoolNames(pool, "service-" + digest, "hashed", True)


def shared_peer_name(router: str) -> str:
    """Of the one peer that all nodes share towards a router; colons are no part of names."""
    return router.replace(":", "-").strip("-")


def secret_name(peer: str) -> str:
    """Of the Secret with a peer's password."""
    return "bgp-password-" + peer


NATIVE, FRR, NONE = "native", "frr", "none"
SECRETS, PLAIN = "secret", "plain"
Object = dict[str, t.Any]
Id = tuple[str, str]
VERSIONS = {
    POOL: "metallb.io/v1beta1",
    ADVERTISEMENT: "metallb.io/v1beta1",
    PEER: "metallb.io/v1beta2",
    SECRET: "v1",
    LAYER2: "metallb.io/v1beta1",
}


class Layer2(t.NamedTuple):
    """How MetalLB announces by ARP and NDP: from these interfaces and nodes, from all where none are named. ``name``: of our L2Advertisement."""

    interfaces: tuple[str, ...] = ()
    node_selectors: tuple[t.Mapping[str, t.Any], ...] = ()
    name: str = "multicluster-network-layer2"


class Options(t.NamedTuple):
    """``peers`` native, frr (one per router, shared by all nodes) or none; ``passwords`` secret or plain.

    ``by_bgp``: whether addresses are announced to peers; ``layer2``: how on the segment, None where they are not.
    """

    namespace: str = "metallb-system"
    tracking: str = NODE
    peers: str = NATIVE
    passwords: str = SECRETS
    label: tuple[str, str] = ("cloud-provider", "equinix-metal")
    advertisement: str = "equinix-metal-bgp-adv"
    domain: str = DEFAULT_DOMAIN
    by_bgp: bool = True
    layer2: Layer2 | None = None

    @property
    def spelling(self) -> Spelling:
        """Of node selectors in BGPPeers."""
        return Spelling("matchLabels", "matchExpressions", self.domain)


class Resources:
    """The objects of one namespace being changed; ``objects`` maps (kind, name) to what they should be."""

    def __init__(self, existing: t.Iterable[t.Mapping[str, t.Any]], options: Options = Options()) -> None:
        self.options = options
        self.objects: dict[Id, Object] = {}
        self.notes: list[str] = []
        for obj in existing:
            self.objects[str(obj.get("kind")), str((obj.get("metadata") or {}).get("name"))] = copy.deepcopy(dict(obj))

    # -- pools and the advertisement -------------------------------------------------------------------------------

    def add_service(self, key: ServiceKey, networks: t.Sequence[str], nodes: t.Iterable[NodeBgp] = ()) -> None:
        """Map a Service's networks, one for each family: in one pool, since MetalLB takes both out of one.

        Raises ValueRefused ``conflict`` or ``asn_mismatch``, before anything is changed.
        """
        rows = self._rows(list(nodes), False) if self.options.tracking == SERVICE else []
        desired, addresses = [parse_network(network) for network in networks], list(networks)
        own = pool_names(key).pool
        name = next((other for other in self._owned(POOL) if self._addresses(other) == addresses), own)
        unowned = [other for kind, other in self.objects if kind == POOL and not self.is_owned(POOL, other)]
        if any(covers(self._spec(POOL, other), network) for other in unowned for network in desired):
            # MetalLB refuses pools that overlap; the user's serves the address
            self.notes.append(f"{' and '.join(addresses)} is in a pool of another owner; it is left to that pool")
            self._ensure(rows, {key})
            return
        self._check(POOL, name)
        if self.options.by_bgp:
            self._check(ADVERTISEMENT, self.options.advertisement)
        if self.options.layer2 is not None:
            self._check(LAYER2, self.options.layer2.name)
        for other in self._pools_of(key):
            if other != name or (self._addresses(other) != addresses and self._users(other) - {key}):
                self._drop_user(other, key)
        if (POOL, name) in self.objects and self._users(name) - {key} and self._addresses(name) != addresses:
            # named after us, but others still use its old address
            name = f"{own}-{hashed_names(key).label_key[len('service-') :]}"
        pool = self._make(POOL, name)
        pool["spec"].update(addresses=addresses, autoAssign=False)
        self._label_user(pool, key)
        self._advertise(name)
        self._ensure(rows, {key})

    def remove_service(self, key: ServiceKey) -> None:
        """Take a Service out; what nobody uses any more goes."""
        for name in self._pools_of(key):
            self._drop_user(name, key)
        spelling = self.options.spelling
        for name in self._owned(PEER):
            spec = self._spec(PEER, name)
            used_by = spelling.services(spec.get("nodeSelectors") or ())
            if key not in used_by:
                continue
            if used_by == {key} and self.options.tracking == SERVICE:
                self._delete_peer(name)
            else:
                spec["nodeSelectors"] = spelling.with_services(spec["nodeSelectors"], used_by - {key})

    def sync_services(
        self, services: t.Mapping[ServiceKey, t.Sequence[str]], nodes: t.Iterable[NodeBgp] = ()
    ) -> dict[ServiceKey, ValueRefused]:
        """Exactly these Services; other owned ones go first. One that is refused does not stop the others."""
        for key in sorted(self.services() - set(services)):
            self.remove_service(key)
        rows, refused = list(nodes), {}
        for key in sorted(services):
            try:
                self.add_service(key, services[key], rows)
            except ValueRefused as error:
                refused[key] = error
        return refused

    def services(self) -> set[ServiceKey]:
        """Those that use an owned pool or peer."""
        spelling = self.options.spelling
        known = {key for name in self._owned(POOL) for key in self._users(name)}
        return known | {
            key
            for name in self._owned(PEER)
            for key in spelling.services(self._spec(PEER, name).get("nodeSelectors") or ())
        }

    def networks(self) -> dict[ServiceKey, set[str]]:
        """What our pools have for each Service."""
        found: dict[ServiceKey, set[str]] = {}
        for name in self._owned(POOL):
            for key in self._users(name):
                found.setdefault(key, set()).update(str(one) for one in self._addresses(name))
        return found

    def _advertise(self, pool: str) -> None:
        if self.options.by_bgp:
            self._advertise_by(ADVERTISEMENT, self.options.advertisement, pool)
        else:
            self._withdraw_from(ADVERTISEMENT, self.options.advertisement, pool)
        layer2 = self.options.layer2
        if layer2 is None:
            self._withdraw_from(LAYER2, Layer2().name, pool)
            return
        self._advertise_by(LAYER2, layer2.name, pool)
        if self.is_owned(LAYER2, layer2.name):
            spec = self._spec(LAYER2, layer2.name)
            for key, rows in (
                ("interfaces", list(layer2.interfaces)),
                ("nodeSelectors", copy.deepcopy(list(layer2.node_selectors))),
            ):
                spec.pop(key, None)
                spec.update({key: rows} if rows else {})

    def _advertise_by(self, kind: str, default: str, pool: str) -> None:
        owned = self._owned(kind)
        if owned and default not in owned:
            return  # the user set the owner's label on one of his own: that one announces
        spec = self._make(kind, default)["spec"]
        names = list(spec.get("ipAddressPools") or ())
        spec["ipAddressPools"] = names if pool in names else names + [pool]

    def _withdraw_from(self, kind: str, default: str, pool: str) -> None:
        if not self.is_owned(kind, default):
            return
        spec = self._spec(kind, default)
        names = list(spec.get("ipAddressPools") or ())
        if pool in names:
            names.remove(pool)
            spec["ipAddressPools"] = names
            if not names:
                # an advertisement that names no pool announces all of them
                del self.objects[kind, default]

    def _users(self, name: str) -> set[ServiceKey]:
        meta = self.objects[POOL, name]["metadata"]
        users = set()
        for label, value in (meta.get("labels") or {}).items():
            if not label.startswith("service-"):
                continue
            text = (meta.get("annotations") or {}).get(f"{self.options.domain}/{label}")
            if text is not None and "/" in text:
                namespace, _slash, service = text.partition("/")
                users.add((namespace, service))
            elif str(value).startswith("namespace-"):
                users.add((str(value)[len("namespace-") :], label[len("service-") :]))
        return users

    def _label_user(self, pool: Object, key: ServiceKey) -> None:
        meta = pool["metadata"]
        labels = meta.setdefault("labels", {})
        if key in self._users(meta["name"]):
            return
        names = pool_names(key)
        if labels.get(names.label_key, names.label_value) != names.label_value:
            names = hashed_names(key)  # a Service of the same name in another namespace shares the address
        labels[names.label_key] = names.label_value
        if names.hashed:
            meta.setdefault("annotations", {})[f"{self.options.domain}/{names.label_key}"] = "/".join(key)

    def _drop_user(self, name: str, key: ServiceKey) -> None:
        meta = self.objects[POOL, name]["metadata"]
        for names in (pool_names(key), hashed_names(key)):
            annotation = f"{self.options.domain}/{names.label_key}"
            if (meta.get("labels") or {}).get(names.label_key) == names.label_value:
                del meta["labels"][names.label_key]
                (meta.get("annotations") or {}).pop(annotation, None)
        if not self._users(name):
            del self.objects[POOL, name]
            for kind, default in (
                (ADVERTISEMENT, self.options.advertisement),
                (LAYER2, (self.options.layer2 or Layer2()).name),
            ):
                self._withdraw_from(kind, default, name)

    def _pools_of(self, key: ServiceKey) -> list[str]:
        return [name for name in self._owned(POOL) if key in self._users(name)]

    def _addresses(self, name: str) -> list[str]:
        return list(self._spec(POOL, name).get("addresses") or ())

    # -- peers -----------------------------------------------------------------------------------------------------

    def sync_nodes(self, nodes: t.Iterable[NodeBgp], key: ServiceKey | None = None) -> None:
        """Exactly the peers of these nodes; where peers go with Services, only once there are Services. Raises as add_service."""
        rows = self._rows(list(nodes), True)
        made = self._ensure(rows, {key} if key else set())
        for name in self._owned(PEER):
            if name not in made and self.options.peers != NONE:
                self._delete_peer(name)

    def stale_peers(self, nodes: t.Iterable[NodeBgp]) -> list[frozenset[str]]:
        """The nodes of each peer that sync_nodes would take away; none where peers go with Services. Raises as add_service."""
        if self.options.peers == NONE or self.options.tracking == SERVICE:
            return []
        desired, spelling = {row[0] for row in self._rows(list(nodes), True)}, self.options.spelling
        stale = [self._spec(PEER, name).get("nodeSelectors") or () for name in self._owned(PEER) if name not in desired]
        return [frozenset(spelling.node_of(selector) for selector in selectors) - {""} for selectors in stale]

    def count_peers(self) -> int:
        return len(self._owned(PEER))

    def add_nodes(self, nodes: t.Iterable[NodeBgp]) -> None:
        """Peers of these nodes, alongside those that are there. Raises as add_service."""
        self._ensure(self._rows(list(nodes), False), set())

    def remove_node(self, node: str) -> None:
        spelling = self.options.spelling
        for name in self._owned(PEER):
            selectors = self._spec(PEER, name).get("nodeSelectors") or []
            rest = [selector for selector in selectors if spelling.node_of(selector) != node]
            if len(rest) == len(selectors):
                continue
            if any(spelling.service_of(selector) is None for selector in rest):
                self._spec(PEER, name)["nodeSelectors"] = rest
            else:
                self._delete_peer(name)

    def _rows(self, nodes: list[NodeBgp], exact: bool) -> list[Row]:
        """The peers of nodes; shared ones also serve the nodes that they serve already, unless the nodes are all there are."""
        if self.options.peers == NONE:
            return []
        rows = _own(nodes) if self.options.peers == NATIVE else _shared(nodes)
        for name, node, router, names in rows:
            self._check(PEER, name)
            spec = self.objects.get((PEER, name), {}).get("spec") or {}
            before = {self.options.spelling.node_of(selector) for selector in spec.get("nodeSelectors") or ()} - {""}
            if self.options.peers == FRR and not exact and before - set(names):
                if (spec.get("myASN"), spec.get("peerASN")) != (node.local_asn, node.peer_asn):
                    raise ValueRefused(
                        "asn_mismatch", f"other nodes use the router {router} with other autonomous systems"
                    )
                names[:] = sorted(before | set(names))
        return rows

    def _ensure(self, rows: list[Row], services: set[ServiceKey]) -> set[str]:
        spelling, by_service = self.options.spelling, self.options.tracking == SERVICE
        if by_service and not services:
            services = {
                key
                for name in self._owned(PEER)
                for key in spelling.services(self._spec(PEER, name).get("nodeSelectors") or ())
            }
            if not services:
                return set()  # nobody uses a peer yet
        for name, node, router, names in rows:
            peer = self._make(PEER, name)
            self._describe(peer, name, node, router)
            selectors = peer["spec"].get("nodeSelectors") or []
            used_by = spelling.services(selectors) | (services if by_service else set())
            unowned = [one for one in selectors if not spelling.node_of(one) and spelling.service_of(one) is None]
            peer["spec"]["nodeSelectors"] = spelling.with_services(
                [spelling.node(one) for one in names] + unowned, used_by
            )
        return {row[0] for row in rows}

    def _describe(self, peer: Object, name: str, node: NodeBgp, router: str) -> None:
        spec = peer["spec"]
        spec.update(
            myASN=node.local_asn, peerASN=node.peer_asn, peerAddress=router, peerPort=spec.get("peerPort") or 179
        )
        if self.options.peers == FRR:
            spec.pop("sourceAddress", None)
        else:
            spec["sourceAddress"] = node.source_ip
        spec.pop("password", None)
        spec.pop("passwordSecret", None)
        secret = secret_name(name)
        if node.password and self.options.passwords == SECRETS:
            spec["passwordSecret"] = {"name": secret, "namespace": self.options.namespace}
            made = self._make(SECRET, secret)
            del made["spec"]
            made.update(
                type="kubernetes.io/basic-auth",
                data={"password": base64.b64encode(node.password.encode()).decode("ascii")},
            )
        elif self.is_owned(SECRET, secret):
            del self.objects[SECRET, secret]
        if node.password and self.options.passwords == PLAIN:
            spec["password"] = node.password

    def _delete_peer(self, name: str) -> None:
        del self.objects[PEER, name]
        if self.is_owned(SECRET, secret_name(name)):
            del self.objects[SECRET, secret_name(name)]

    def _owned(self, kind: str) -> list[str]:
        return sorted(name for other, name in self.objects if other == kind and self.is_owned(kind, name))

    def is_owned(self, kind: str, name: str) -> bool:
        """True for an object with the label of the cloud controller, which we and cloud-provider-equinix-metal write."""
        key, value = self.options.label
        meta = self.objects.get((kind, name), {}).get("metadata") or {}
        return (meta.get("labels") or {}).get(key) == value

    def is_derived(self, kind: str, name: str) -> bool:
        """Whether an object has the name that cloud controllers give to one of its content.

        Whoever may patch an object can label it as theirs, and cannot change its name.
        """
        obj = self.objects.get((kind, name)) or {}
        if kind == POOL:
            pools = {(pool_names(key).pool, hashed_names(key)) for key in self._users(name)}
            return any(name in (pool, f"{pool}-{hashed.label_key[len('service-') :]}") for pool, hashed in pools)
        if kind == PEER:
            spec = obj.get("spec") or {}
            node, dash, index = name.rpartition("-")
            known = {self.options.spelling.node_of(one) for one in spec.get("nodeSelectors") or ()}
            alone = bool(dash) and index.isdigit() and index.isascii() and node in known
            return alone or name == shared_peer_name(str(spec.get("peerAddress") or ""))
        if kind == SECRET:
            peer = name[len(secret_name("")) :]
            return name == secret_name(peer) and self.is_derived(PEER, peer)
        return name in (self.options.advertisement, (self.options.layer2 or Layer2()).name)

    def _spec(self, kind: str, name: str) -> dict[str, t.Any]:
        spec: dict[str, t.Any] = self.objects[kind, name].setdefault("spec", {})
        return spec

    def _check(self, kind: str, name: str) -> None:
        if (kind, name) in self.objects and not self.is_owned(kind, name):
            raise ValueRefused("conflict", f"the {kind} {name} has another owner; it is left alone")

    def _make(self, kind: str, name: str) -> Object:
        """The owned object of this name, made if there is none. Raises ValueRefused ``conflict`` when another owner has the name."""
        self._check(kind, name)
        if (kind, name) not in self.objects:
            meta = {"name": name, "namespace": self.options.namespace, "labels": dict([self.options.label])}
            self.objects[kind, name] = {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": meta}
        self.objects[kind, name].setdefault("spec", {})
        return self.objects[kind, name]


Row = tuple[str, NodeBgp, str, list[str]]


def _own(nodes: t.Iterable[NodeBgp]) -> list[Row]:
    """(peer's name, facts, router, nodes) with one peer for each node and router."""
    return [
        (f"{node.name}-{index}", node, router, [node.name]) for node in nodes for index, router in enumerate(node.peers)
    ]


def _shared(nodes: t.Iterable[NodeBgp]) -> list[Row]:
    """One peer for each router. Raises ValueRefused ``asn_mismatch`` where its nodes differ."""
    rows: dict[str, list[NodeBgp]] = {}
    for node in sorted(nodes):
        for router in node.peers:
            rows.setdefault(router, []).append(node)
    for router, users in sorted(rows.items()):
        if len({(node.local_asn, node.peer_asn, node.password) for node in users}) > 1:
            raise ValueRefused(
                "asn_mismatch", f"the nodes that share the router {router} differ in autonomous systems or password"
            )
    return [
        (shared_peer_name(router), users[0], router, [node.name for node in users])
        for router, users in sorted(rows.items())
    ]
