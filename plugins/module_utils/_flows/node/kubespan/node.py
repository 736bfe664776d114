# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a node is in the KubeSpan mesh, what it announces, and its peers, from what the play gives (kubespan 3 to 7).

``given``: {mesh_id, mesh_secret: text|None, affiliates, complete, cluster, node_name, cluster_networks, pod_cidrs, config: of
kubespan_config, mac, layout, generation, fail_closed: bool|None (as forced routing is), watcher, implementation, networks,
exclude_interfaces, exclude_addresses, balanced, own_addresses, private_key_file, discovery: {url, ca, cluster, pod_cidrs, node_cidrs, overlay}
or nothing, rotation: {device, routes, addresses} or nothing, next_key_for: see Device, rotation_unread: whether both stay as they are}.
"""

from __future__ import annotations

import os
import typing as t

from ...._linux import files
from ...._linux.host.facts import read_host
from ...._linux.wireguard.keys import KeyFile, preshared_fingerprint, write_new
from ...._mesh.kubespan.annotations import Affiliate, encode
from ...._mesh.kubespan.config import Host, local_affiliate, parse_config, parse_mesh
from ...._mesh.kubespan.endpoints import received_endpoints
from ...._mesh.kubespan.generations import Generation, Layout, generation, make_layout
from ...._mesh.kubespan.identity import choose_mac, make_node_id, mesh_address, mesh_subnet
from ...._mesh.kubespan.peers import Mesh, Peer, peers_of
from ...._plan.plan import Pending, Plan
from ...._values.generations import BYPASS_DEVICES, next_key_file
from ...._values.keys import fingerprint
from ...._values.prefix_sets import address_text
from ...._values.refused import ValueRefused
from .. import persistence
from ..parts import Part
from .dataplane import carried_over

if t.TYPE_CHECKING:
    from ...._mesh.kubespan.members import Members
    from .discovery import Found

Data = dict[str, t.Any]


def identity_path(fabric: str) -> str:
    """Node id and hardware address, kept with the key: a new network card does not make a new node."""
    return persistence.folder(fabric) + "/kubespan-identity.json"


def secret_path(fabric: str) -> str:
    return persistence.folder(fabric) + "/kubespan.psk"


def key_path(fabric: str) -> str:
    return persistence.folder(fabric) + "/kubespan.key"


def leftovers(fabric: str, previous: t.Mapping[str, t.Any] | None, remove_keys: bool) -> list[str]:
    """Files of a node that leaves: the mesh's secret and a next key always, its own key and name only where that is asked for."""
    key_file = (previous or {}).get("private_key_file") or key_path(fabric)
    paths = [secret_path(fabric), persistence.folder(fabric) + "/kubespan-members.json", next_key_file(key_file)]
    if remove_keys:
        paths += [identity_path(fabric), key_file]
    return paths


#: What of the inputs of an affiliate the state keeps.
INPUTS = (
    "cluster",
    "node_name",
    "cluster_networks",
    "pod_cidrs",
    "networks",
    "exclude_interfaces",
    "exclude_addresses",
    "balanced",
    "own_addresses",
    "config",
)


def affiliate_of(
    inputs: t.Mapping[str, t.Any],
    identity: t.Mapping[str, t.Any],
    public_key: t.Any,
    facts: t.Mapping[str, t.Any],
    mesh_id: str,
    layout: Layout,
    gen: Generation,
    public: t.Sequence[str] = (),
) -> Affiliate:
    """What a node announces. inputs: INPUTS of its options. public: addresses at which others see it (kubespan 7.1)."""
    host = Host(
        cluster=inputs["cluster"],
        node=inputs["node_name"],
        node_id=identity["node_id"],
        mac=identity["mac"],
        public_key=public_key,
        hostname=facts["hostname"],
        operating_system=facts["operating_system"],
        configured=facts["configured"],
        cluster_networks=inputs.get("cluster_networks") or (),
        pod_cidrs=inputs.get("pod_cidrs") or (),
        more=inputs.get("networks") or (),
        exclude_interfaces=sorted({*(inputs.get("exclude_interfaces") or ()), layout.device, BYPASS_DEVICES}),
        exclude=inputs.get("exclude_addresses") or (),
        balanced=inputs.get("balanced") or (),
        own=inputs.get("own_addresses") or (),
    )
    return local_affiliate(host, parse_config(inputs.get("config") or {}, gen=gen), mesh_id, layout, gen, public)


class KubespanNode(Part):
    """One node. From ``gather`` on: ``state`` as KubespanDataplane takes it, ``purge``: whether all peers are known, ``fingerprints`` of
    the secret that this run writes."""

    def __init__(self, fabric: str, given: t.Mapping[str, t.Any], previous: t.Mapping[str, t.Any] | None) -> None:
        self.fabric, self._given, self._previous = fabric, given, previous
        self.purge = bool(given.get("complete", True))
        self.secret: str | None = given.get("mesh_secret") or None
        self.state: Data = {}
        self.identity: Data = {}
        self.affiliate: Data = {}
        self.fingerprints: dict[str, str] = {}
        self.peers: list[Peer] = []
        self.found: Found | None = None
        self._members: Members = {}
        self._plan = Plan()

    def gather(self) -> Data:
        self._plan = Plan()
        given, gen, layout = (
            self._given,
            generation(self._given.get("generation") or "current"),
            make_layout(**self._given.get("layout") or {}),
        )
        mesh_id = given["mesh_id"]
        if self.secret:
            parse_mesh(mesh_id, self.secret)
        config = parse_config(given.get("config") or {}, gen=gen)
        facts = read_host()
        self.identity = self._identify(given, facts)
        key_file = self.state_key_file(given)
        found = KeyFile(key_file).state()
        # a key that cannot be read is the device's to refuse
        public_key = found["public_key"] or Pending(f"public key of {given.get('node_name') or 'this node'}")
        self.affiliate = affiliate_of(given, self.identity, public_key, facts, mesh_id, layout, gen)
        fail_closed = given.get("fail_closed")
        state: Data = {
            "layout": layout._asdict(),
            "generation": gen.name,
            "mtu": config.mtu,
            "force_routing": config.force_routing,
            "fail_closed": config.force_routing if fail_closed is None else bool(fail_closed),
            "watcher": bool(given.get("watcher", True)),
            "harvest": config.harvest_extra_endpoints,
            "implementation": given.get("implementation") or "auto",
            "private_key_file": key_file,
            "preshared_key_file": secret_path(self.fabric) if self.secret else None,
            "address": address_text(6, int(mesh_address(mesh_id, self.identity["mac"]))),
            "node_address": next((text for text in self.affiliate["addresses"] if ":" not in text), None),
            "subnet": str(mesh_subnet(mesh_id)),
            "peers": [
                peer.to_json()
                for peer in self._peers(given, config.peer_endpoint_filters, self._previous, layout.device)
            ],
        }
        before = (self._previous or {}).get("rotation") if given.get("rotation_unread") else given.get("rotation")
        state.update({"rotation": dict(before)} if before else {})
        following = (
            (self._previous or {}).get("next_key_for") if given.get("rotation_unread") else given.get("next_key_for")
        )
        state.update({"next_key_for": following} if following else {})
        if given.get("discovery"):
            self._discover(
                state,
                given["discovery"],
                lambda seen: affiliate_of(given, self.identity, public_key, facts, mesh_id, layout, gen, seen),
            )
        self.state = state if self.purge else carried_over(state, self._previous)
        self.peers = self._with_members()
        self._plan_secret()
        return {}

    def plan(self) -> Plan:
        return self._plan

    def state_key_file(self, given: t.Mapping[str, t.Any]) -> str:
        return given.get("private_key_file") or key_path(self.fabric)

    def _identify(self, given: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> Data:
        kept = persistence.load_json(identity_path(self.fabric)) or {}
        mac = choose_mac(given.get("mac"), kept.get("mac"), facts["links"])
        node_id = kept.get("node_id")
        if not isinstance(node_id, str) or not node_id:
            node_id = Pending(f"node id of {given.get('node_name') or 'this node'}")
        identity = {"node_id": node_id, "mac": mac}
        if identity != kept:
            if kept:
                self._plan.update("identity", identity_path(self.fabric), dict(kept), identity)
            else:
                self._plan.create("identity", identity_path(self.fabric), identity)
        return identity

    def _peers(
        self,
        given: t.Mapping[str, t.Any],
        filters: t.Sequence[str] | None,
        previous: t.Mapping[str, t.Any] | None,
        device: str,
    ) -> list[Peer]:
        own = self.identity["node_id"]
        affiliates: t.Sequence[Data] = given.get("affiliates") or ()
        if given.get("contested") or given.get("disputed") or given.get("unread"):
            from .. import contests as node_contests

            paths = (self.state_key_file(given), identity_path(self.fabric))
            affiliates, refused = node_contests.settle_affiliates(given, self.affiliate, previous, device, paths)
            self._plan.refused.extend(refused)
        specs = Mesh(affiliates).specs(None if isinstance(own, Pending) else own)
        for node_id, error in specs.ignored:
            self._plan.refuse(f"kubespan/{node_id}", error.reason, error.message)
        label = {peer.public_key: peer.label for peer in specs.peers.values()}
        for one, other in specs.overlaps:
            self._plan.warnings.append(
                f"{label[one]} announces addresses that {label[other]} has already; they stay there"
            )
        own_key = self.affiliate["public_key"]
        return [
            peer._replace(endpoints=received_endpoints(peer.endpoints, filters))
            for peer in specs.peers.values()
            # a node that was set up anew still finds its former self: same address and key, another id
            if peer.public_key != own_key and peer.address != self.affiliate["kubespan_address"]
        ]

    def _discover(
        self, state: Data, given: t.Mapping[str, t.Any], affiliate: t.Callable[[t.Sequence[str]], Data]
    ) -> None:
        """Ask the discovery service who is there. Raises LinuxError where packages are missing, ValueRefused."""
        from . import discovery  # not compiled on hosts without discovery

        if not state["watcher"]:
            raise ValueRefused(
                "bad_option",
                "kubespan_registries has discovery, and the watcher renews its records: set kubespan_watcher to true",
            )
        if not self.secret:
            raise ValueRefused(
                "bad_mesh_secret",
                "kubespan_registries has discovery, and its records are sealed with mesh_secret: set it",
            )
        state["discovery"] = discovery.settings_of(self._given, given)
        known, seen = discovery.load_members(self.fabric)
        key, node_id = (
            "" if isinstance(value, Pending) else value
            for value in (self.affiliate["public_key"], self.affiliate["node_id"])
        )
        secret = parse_mesh(self._given["mesh_id"], self.secret)[1]
        found = self.found = discovery.ask(state["discovery"], secret, known, (node_id, key))
        self._members = known if found.reading is None else found.reading.members
        self._plan.refused.extend(() if found.reading is None else found.reading.refused)
        if found.problem:
            self._plan.warnings.append(found.problem)
        if found.reading is None and not known:
            self.purge = False  # who is there is not known
        self.affiliate = affiliate(found.seen or seen)

    def _with_members(self) -> list[Peer]:
        if not self.state.get("discovery"):
            return peers_of(self.state)
        from . import discovery

        result = discovery.peers_with_members(self.fabric, self.state, self._members, self.affiliate)
        self._plan.refused.extend(result.refused)
        return result.peers

    def announcement(self) -> t.Iterator[Part]:
        """What keeps the node's record at the discovery service; nothing without one."""
        if self.found is not None and self.secret:
            from . import discovery

            secret = parse_mesh(self._given["mesh_id"], self.secret)[1]
            yield discovery.Announcement(self.fabric, self.state, secret, lambda: self.affiliate, self.found)

    def _plan_secret(self) -> None:
        path = secret_path(self.fabric)
        now = preshared_fingerprint(path)
        desired = fingerprint(self.secret) if self.secret else None
        if desired and desired != now:
            if now is None:
                self._plan.create("secret", path, {"mode": "0600", "fingerprint": desired})
            else:
                self._plan.update("secret", path, {"fingerprint": now}, {"fingerprint": desired})
        self.fingerprints = {path: desired} if desired else {}

    def _changed_files(self) -> list[str]:
        return [change.id for change in self._plan.changes]

    def snapshot(self, before: Data) -> None:
        before["keys"].extend(self._changed_files())

    def apply(self) -> Data:
        """Identity and secret, before anything that uses them."""
        paths = self._changed_files()
        files.make_folder(persistence.folder(self.fabric), 0o700)  # the device's key is there, too
        if identity_path(self.fabric) in paths:
            if isinstance(self.identity["node_id"], Pending):
                self.identity["node_id"] = make_node_id(os.urandom(32))
                self.affiliate["node_id"] = self.identity["node_id"]
            files.write_state(identity_path(self.fabric), files.json_file(0o600, self.identity))
        if secret_path(self.fabric) in paths and self.secret:
            write_new(secret_path(self.fabric), self.secret, replace=True)
        return {}

    def verify(self) -> list[str]:
        return []

    def harvested(self) -> list[t.Any] | None:
        """Where the watcher sees peers that are up: [{affiliate_id, endpoint}]; None where that is not asked for."""
        if not self.state["harvest"]:
            return None
        found = (persistence.load_json(persistence.run_files(self.fabric)[1]) or {}).get("harvested")
        return found if isinstance(found, list) else []

    def announced(self, public_key: str | None) -> Data:
        """What the node publishes, with what exists only now."""
        if public_key:
            self.affiliate["public_key"] = public_key
        return encode(self.affiliate, generation(self.state["generation"]))
