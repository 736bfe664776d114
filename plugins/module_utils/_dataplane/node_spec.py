# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one node shall be in a run, and what it was last confirmed to be. Read once, from a module's arguments or the state file. Pure."""

from __future__ import annotations

import typing as t

from .._plan.budget import check_budget
from .._plan.plan import Refusal
from .._values.addresses import parse_network
from .._values.generations import bypass_device, is_bypass_key, is_preshared_file
from .._values.keys import fingerprint, raw_bytes
from .._values.prefix_sets import PrefixSet
from .._values.refused import ValueRefused, quoted
from .constants import OWNER
from .device_spec import Device, parse_device
from .peer_spec import Key, LivePeer, Peer, Peers, parse_peers, with_fingerprints

Data = dict[str, t.Any]
Raw = t.Mapping[str, t.Any]
FORMAT = 1


def alias_of(fabric: str) -> str:
    """The ownership mark of a fabric's links (decision 32)."""
    return f"{OWNER}/{fabric}"


class Contested(t.NamedTuple):
    """A peer that another node claims too, and what decides between them where this node has no record, see contests.

    ``declared``: the inventory names its node; ``reported``: its host said so in this run; ``greedy``: it claims what covers others.
    ``host`` and ``key_file``: where its key is.
    """

    peer: Peer
    declared: bool = False
    reported: bool = False
    greedy: bool = False
    host: str | None = None
    key_file: str | None = None

    def to_json(self) -> Data:
        """The form that module arguments have."""
        return dict(self.peer.to_json(), **{name: value for name, value in self._asdict().items() if name != "peer"})


class NodeDevice(t.NamedTuple):
    """The WireGuard device towards one remote cluster, and its ``routes``.

    ``peers_known``: False where the remote could not be read; then its peers stay as they are. ``turned_away``: which of its nodes were
    read and refused, where they are most of all. ``listen_port_known``: False where nobody could say which port the plan meant.
    ``borrowed``: allowed IPs of peers that lie inside those of another peer, which is no contest. ``ranges_known``: False where the plan
    could not see all that has ranges of nodes. ``kept_only``: it is about to go, so it stays where it is there and is not made where it is not.
    """

    wireguard: Device
    remote: str = ""
    node: str | None = None
    routes: tuple[str, ...] = ()
    peers_known: bool = True
    contested: tuple[Contested, ...] = ()
    turned_away: str = ""
    listen_port_known: bool = True
    borrowed: tuple[str, ...] = ()
    ranges_known: bool = True
    kept_only: bool = False

    @property
    def name(self) -> str:
        """The device's name."""
        return self.wireguard.name

    @property
    def key_file(self) -> str:
        """Where its private key is."""
        return str(self.wireguard.private_key_file)

    @property
    def peers(self) -> tuple[Peer, ...]:
        """Those that are known and understood."""
        return self.wireguard.peers.peers if self.wireguard.peers else ()

    def with_peers(self, peers: t.Iterable[Peer]) -> NodeDevice:
        """With these in place of its peers, one of each key. A device without known peers stays so."""
        if self.wireguard.peers is None:
            return self
        unique = {peer.public_key: peer for peer in reversed(list(peers))}
        ordered = tuple(reversed(list(unique.values())))
        return self._replace(wireguard=self.wireguard._replace(peers=self.wireguard.peers._replace(peers=ordered)))

    def ready(self) -> NodeDevice:
        """With only those peers that can be configured now; deferred ones are no change of this run.

        While any is deferred no peer is removed: the one that works now may belong to the node with the key that is still to come.
        """
        ready = [peer for peer in self.peers if not peer.deferred]
        return self if len(ready) == len(self.peers) else self.with_peers(ready).kept()

    def kept(self) -> NodeDevice:
        """Without removing any peer."""
        return self._replace(wireguard=self.wireguard._replace(purge_peers=False))

    def to_json(self) -> Data:
        """What the state file keeps of it."""
        device = self.wireguard
        return {
            "name": device.name,
            "remote": self.remote,
            "node": self.node,
            "implementation": device.implementation,
            "mtu": device.mtu,
            "txqueuelen": device.txqueuelen,
            "listen_port": device.listen_port,
            "private_key_file": device.private_key_file,
            "addresses": None if device.addresses is None else list(device.addresses),
            "up": device.up,
            "routes": list(self.routes),
            "overlay": list(device.overlay),
            "peers": [peer.to_json() for peer in sorted(self.peers, key=lambda peer: str(peer.public_key))],
            **({"borrowed": list(self.borrowed)} if self.borrowed else {}),
            **({"either_way": True} if device.either_way else {}),
            **({"next_key_for": device.next_key_for} if device.next_key_for else {}),
            **({"fwmark": device.fwmark} if device.fwmark else {}),
        }


def parse_node_device(raw: Raw, fabric: str, adopt: bool = False) -> NodeDevice:
    """A device as the plan of the fabric, a module's arguments or the state file has it. Raises ValueRefused."""
    known = raw.get("peers_known") is not False
    names = (
        "name",
        "implementation",
        "mtu",
        "txqueuelen",
        "listen_port",
        "private_key_file",
        "addresses",
        "up",
        "overlay",
        "retired_key",
        "next_key_for",
        "copied_from",
        "copied_key",
        "either_way",
        "fwmark",
    )
    device = parse_device(
        dict(
            {name: raw.get(name) for name in names},
            alias=alias_of(fabric),
            adopt=adopt,
            generate_key=True,
            flush_ipv4=True,
            peers=raw.get("peers") or () if known else None,
            purge_peers=known and not raw.get("keep_peers"),
        )
    )
    contested, device = _parse_contested(device, raw.get("contested") or ())
    node = raw.get("node")
    return NodeDevice(
        device,
        str(raw.get("remote") or device.name),
        node if isinstance(node, str) else None,
        tuple(raw.get("routes") or ()),
        known,
        contested,
        raw.get("turned_away") or "",
        raw.get("listen_port_known") is not False,
        tuple(raw.get("borrowed") or ()),
        raw.get("ranges_known") is not False,
        bool(raw.get("kept_only")),
    )


def _parse_contested(device: Device, rows: t.Iterable[Raw]) -> tuple[tuple[Contested, ...], Device]:
    """The contested peers, and the device with the refusals of those that are not understood."""
    found: list[Contested] = []
    refused = Peers()
    for row in rows:
        one = parse_peers(device.name, [row])  # several may well have the same key
        refused = Peers((), refused.refused + one.refused, refused.kept | one.kept)
        marks = {name: bool(row.get(name)) for name in ("declared", "reported", "greedy")}
        found.extend(Contested(peer, **marks, host=row.get("host"), key_file=row.get("key_file")) for peer in one.peers)
    if device.peers is not None:
        peers = device.peers
        device = device._replace(peers=Peers(peers.peers, peers.refused + refused.refused, peers.kept | refused.kept))
    return tuple(found), device


class NodeState(t.NamedTuple):
    """What a node was confirmed to be, or will be once its change is. ``absent``: it leaves, and nothing is left to confirm."""

    fabric: str
    devices: tuple[NodeDevice, ...] = ()
    key_files: tuple[str, ...] = ()
    kubespan: Data | None = None
    tables: tuple[Data, ...] = ()
    node: str | None = None
    absent: bool = False

    def device(self, name: str) -> NodeDevice | None:
        """One by its name."""
        return next((device for device in self.devices if device.name == name), None)

    @property
    def host(self) -> str | None:
        """The inventory's name of the host that it was made for; None when it does not say."""
        names = [
            name for name in (self.node, *(device.node for device in self.devices)) if name and name != "this node"
        ]
        return names[0] if names else None

    @property
    def all_key_files(self) -> set[str]:
        """Every key file that the fabric made on this node, those of remotes that left included."""
        return {*self.key_files, *(device.key_file for device in self.devices)}

    def to_json(self) -> Data:
        """The form of the state file, format 1.

        A release that does not know a key leaves it alone, and refuses a table of a kind that it does not know: hence two keys for tables.
        """
        shown: Data = {
            "fabric": self.fabric,
            "format": FORMAT,
            "devices": [device.to_json() for device in self.devices],
        }
        if self.absent:
            return dict(shown, absent=True)
        shown["key_files"] = list(self.key_files)
        early = [table for table in self.tables if table.get("before_routes")]
        tables = [table for table in self.tables if not table.get("before_routes")]
        for name, value in (
            ("kubespan", self.kubespan),
            ("tables", tables),
            ("address_tables", early),
            ("node", self.node),
        ):
            if value:
                shown[name] = value
        return shown

    @classmethod
    def of_json(cls, found: Raw) -> NodeState:
        """The inverse, of what journal.is_state accepted. Raises ValueRefused."""
        node = found.get("node")
        return cls(
            found["fabric"],
            tuple(parse_node_device(row, found["fabric"]) for row in found["devices"]),
            tuple(found.get("key_files") or ()),
            found.get("kubespan"),
            (*(found.get("tables") or ()), *(found.get("address_tables") or ())),
            node if isinstance(node, str) else None,
            bool(found.get("absent")),
        )


class NodeSpec(t.NamedTuple):
    """What one run wants of a node.

    ``kubespan``: of kubespan_node, ``{"state": as resolved before}`` at boot, or None. ``tables``: of the module nft_table. ``node``: the
    host's name in the inventory, ``hosts`` those of all. ``accepted``: paths and settings of others that are right as they are.
    ``rollback_seconds``: 0, or after how many seconds the host takes the change back unless it is confirmed. ``reports``: whether what
    others set around the mesh is reported. ``released``: the node leaves, and what it has stays for whoever goes on with it. ``unread_devices``: names
    of devices of which the plan knows nothing: they stay as they were confirmed. ``preshared_keys``: {file: key in base64} of this node's own peers.
    """

    fabric: str
    devices: tuple[NodeDevice, ...] = ()
    kubespan: Raw | None = None
    tables: tuple[Data, ...] = ()
    node: str | None = None
    hosts: tuple[str, ...] = ()
    persist: bool = False
    adopt: bool = False
    remove_keys: bool = False
    key_files: tuple[str, ...] = ()
    max_deletes: int | None = None
    confirm_empty: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    rollback_seconds: int = 0
    reports: bool = True
    released: bool = False
    unread_devices: tuple[str, ...] = ()
    preshared_keys: t.Mapping[str, str] = {}

    @property
    def empty(self) -> bool:
        """Whether the node leaves."""
        return not (self.devices or self.kubespan or self.tables)


def parse_node(raw: Raw) -> NodeSpec:
    """From a module's arguments: the fields of NodeSpec, its devices as parse_node_device takes them. Raises ValueRefused."""
    fabric, adopt = raw["fabric"], bool(raw.get("adopt"))
    keys = _parse_preshared_keys(raw.get("preshared_keys") or {})
    devices = tuple(parse_node_device(row, fabric, adopt) for row in raw.get("devices") or ())
    if keys:
        known = {path: fingerprint(key) for path, key in keys.items()}
        devices = tuple(with_known_secrets(device, known) for device in devices)
    return NodeSpec(
        fabric=fabric,
        devices=devices,
        kubespan=raw.get("kubespan") or None,
        tables=tuple(raw.get("tables") or ()),
        node=raw.get("node"),
        hosts=tuple(raw.get("hosts") or ()),
        persist=raw.get("persist") is not False,
        adopt=adopt,
        remove_keys=bool(raw.get("remove_keys")),
        key_files=tuple(raw.get("key_files") or ()),
        max_deletes=raw.get("max_deletes"),
        confirm_empty=tuple(raw.get("confirm_empty") or ()),
        accepted=tuple(raw.get("accepted") or ()),
        rollback_seconds=int(raw.get("rollback_seconds") or 0),
        released=bool(raw.get("released")),
        unread_devices=tuple(raw.get("unread_devices") or ()),
        preshared_keys=keys,
    )


def _parse_preshared_keys(given: t.Mapping[t.Any, t.Any]) -> dict[str, str]:
    """{file: key} as it came. Raises ValueRefused ``bad_preshared_key`` without a key in its message."""
    for path, key in given.items():
        if not is_preshared_file(path) or len(raw_bytes(key)) != 32:
            raise ValueRefused("bad_preshared_key", f"{quoted(path)} is no file of a preshared key, or it has none")
    return dict(given)


def with_known_secrets(device: NodeDevice, known: t.Mapping[str, str]) -> NodeDevice:
    """A device with peers of which the files of preshared keys are written in the same run. known: {file: fingerprint}."""
    contested = tuple(
        row._replace(peer=with_fingerprints([row.peer], known)[0]) if row.peer.preshared else row
        for row in device.contested
    )
    return device.with_peers(with_fingerprints(device.peers, known))._replace(contested=contested)


def spec_of_state(state: NodeState) -> NodeSpec:
    """A confirmed state as a run's wish: nothing is recorded, and no budget asks."""
    kept = {"state": state.kubespan} if state.kubespan else None
    return NodeSpec(state.fabric, state.devices, kept, state.tables, state.node, max_deletes=-1, reports=False)


def with_unread_devices(spec: NodeSpec, previous: NodeState | None) -> NodeSpec:
    """A wish with the devices of which the plan knows nothing, as they were confirmed, and with no other route to what they lead to.

    Nor does it know then which devices have a next key to come.
    """
    found = [device for device in (previous.devices if previous else ()) if device.name in spec.unread_devices]
    if not found:
        return spec
    names, taken = {device.name for device in found}, {cidr for device in found for cidr in device.routes}
    others = []
    for device in spec.devices:
        if device.name in names:
            continue
        before = previous.device(device.name) if previous and bypass_device(device.name) in names else None
        following = before.wireguard.next_key_for if before else device.wireguard.next_key_for
        routes = tuple(cidr for cidr in device.routes if cidr not in taken)
        others.append(device._replace(routes=routes, wireguard=device.wireguard._replace(next_key_for=following)))
    return spec._replace(devices=(*others, *found))


def with_kept_ways(spec: NodeSpec, previous: NodeState | None) -> NodeSpec:
    """A wish in which a device has the address of both ways from the first rotation of its key on, see HOST_ADDRESS.

    It stays on the device, so it stays in the record as well: a boot brings back what the node had.
    """
    kept = {device.name for device in (previous.devices if previous else ()) if device.wireguard.either_way}
    if kept.isdisjoint(device.name for device in spec.devices):
        return spec
    devices = (
        device._replace(wireguard=device.wireguard._replace(either_way=True)) if device.name in kept else device
        for device in spec.devices
    )
    return spec._replace(devices=tuple(devices))


def with_own_port(device: NodeDevice, previous: NodeState | None) -> NodeDevice:
    """A device keeps the port of the confirmed state where the plan could not know its port."""
    if device.listen_port_known:
        return device
    before = previous.device(device.name) if previous else None
    port = (before.wireguard.listen_port if before else None) or device.wireguard.listen_port
    return device._replace(wireguard=device.wireguard._replace(listen_port=port), listen_port_known=True)


def with_own_ranges(device: NodeDevice, previous: NodeState | None) -> NodeDevice:
    """A device with ranges of peers that the plan could not know: each peer keeps those of the confirmed state, inside the routes of the device.

    A list that may not be read any more is no reason to take from pods what they have (threat T14).
    """
    before = previous.device(device.name) if previous and not device.ranges_known else None
    if before is None:
        return device
    routes = PrefixSet.of_texts(device.routes)
    held = {
        peer.public_key: peer.allowed_ips
        for peer in before.peers
        if peer.allowed_ips and all(routes.covers(parse_network(text)) for text in peer.allowed_ips)
    }
    peers = [peer._replace(allowed_ips=held.get(peer.public_key, peer.allowed_ips)) for peer in device.peers]
    return device.with_peers(peers)._replace(borrowed=tuple(sorted({*device.borrowed, *before.borrowed})))


def last_endpoints(previous: NodeState | None, device: str) -> dict[str, str]:
    """Public key -> endpoint as we configured it last: a peer that roamed since is no drift (asks 14, 16)."""
    known = previous.device(device) if previous else None
    return {str(peer.public_key): peer.endpoint for peer in known.peers if peer.endpoint} if known else {}


def peer_budget(
    source: str,
    live: t.Mapping[str, LivePeer],
    after: t.Mapping[Key, LivePeer],
    desired: t.Collection[Peer],
    spec: NodeSpec,
    turned_away: str = "",
) -> Refusal | None:
    """None, or why no peer of a device may be removed in this run (decision 38). live and after: its peers now, and by the plan."""
    kept = PrefixSet.of_texts(cidr for peer in desired for cidr in peer.allowed_ips)
    lost = 0
    for key in set(live).difference(t.cast(t.Iterable[str], after)):
        ranges = PrefixSet.of_texts(live[key].allowed_ips)
        lost += not ranges or bool(ranges - kept)  # what another peer takes over is a rotated key, and no loss
    confirmed = source in spec.confirm_empty
    return check_budget(
        source, "peers", len(live), lost, len(desired), spec.max_deletes, confirmed, turned_away, claimed=True
    )


def state_to_keep(spec: NodeSpec, previous: NodeState | None, kubespan: Data | None = None) -> NodeState:
    """What the boot unit shall restore: the desired state without deferred values.

    Where this run may not remove peers, those confirmed before are carried over, so that a reboot removes none either.
    """
    devices = []
    for device in spec.devices:
        peers = [peer for peer in device.peers if not peer.deferred]
        before = previous.device(device.name) if previous else None
        borrowed = device.borrowed
        if before and not (device.peers_known and device.wireguard.purge_peers):
            taken = {peer.public_key for peer in peers} | {cidr for peer in peers for cidr in peer.allowed_ips}
            peers += [peer for peer in before.peers if taken.isdisjoint([peer.public_key, *peer.allowed_ips])]
            borrowed = tuple(sorted({*borrowed, *before.borrowed}))
        keeping = device.wireguard._replace(peers=Peers(tuple(peers)), purge_peers=True)
        kept = device._replace(
            wireguard=keeping, peers_known=True, contested=(), turned_away="", borrowed=borrowed, ranges_known=True
        )
        devices.append(kept)
    keys = {device.key_file for device in devices}
    if previous and not spec.remove_keys:
        keys |= {path for path in previous.all_key_files if not is_bypass_key(path)}
    ordered = tuple(sorted(devices, key=lambda device: device.name))
    return NodeState(spec.fabric, ordered, tuple(sorted(keys)), kubespan, spec.tables, spec.node)
