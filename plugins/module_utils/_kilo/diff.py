# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Peers of one source in one target: what to create, update and delete (kilo 13.2)."""

from __future__ import annotations

import typing as t

from .peers import Peer
from .values import MESH_LABEL, SOURCE_LABEL


class PeerDiff(t.NamedTuple):
    """``create`` Peers; ``update`` {name: spec}; ``delete`` names; ``held`` {name wanted: name that has its key}."""

    create: t.List[Peer]
    update: t.Dict[str, t.Dict[str, t.Any]]
    delete: t.List[str]
    held: t.Dict[str, str]


def same_spec(first: t.Mapping[str, t.Any], second: t.Mapping[str, t.Any]) -> bool:
    """True when two specs make the same peer: the order of allowed IPs is free, an empty field is an absent one."""
    if first == second:
        return True
    return _plain(first) == _plain(second)


def _plain(spec: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    plain = {name: value for name, value in spec.items() if value not in (None, "", 0, {}, [])}
    if isinstance(plain.get("endpoint"), dict):
        plain["endpoint"] = _without_empty(plain["endpoint"])
    if isinstance(plain.get("allowedIPs"), (list, tuple)):
        plain["allowedIPs"] = sorted(map(str, plain["allowedIPs"]))
    return plain


def _without_empty(value: t.Any) -> t.Any:
    if not isinstance(value, dict):
        return value
    return {name: _without_empty(item) for name, item in value.items() if item not in (None, "", {})}


def changed_fields(first: t.Mapping[str, t.Any], second: t.Mapping[str, t.Any]) -> t.List[str]:
    """Names of the fields in which two specs differ."""
    one, other = _plain(first), _plain(second)
    return sorted(name for name in set(one) | set(other) if one.get(name) != other.get(name))


class Existing:
    """The Peers of one target, found by mesh and source and by key. Read it once, ask it for every source."""

    def __init__(self, peers: t.Iterable[Peer]) -> None:
        self._own: t.Dict[t.Tuple[t.Any, t.Any], t.Dict[str, Peer]] = {}
        self._keys: t.Dict[t.Any, t.List[Peer]] = {}
        own, keys = self._own, self._keys
        for peer in sorted(peers, key=_name):
            group = peer.labels.get(MESH_LABEL), peer.labels.get(SOURCE_LABEL)
            own.setdefault(group, {})[peer.name] = peer
            keys.setdefault(peer.spec.get("publicKey"), []).append(peer)

    def own(self, mesh: str, source: str) -> t.Mapping[str, Peer]:
        """The Peers that carry both labels, by name."""
        return self._own.get((mesh, source), {})

    def groups(self) -> t.List[t.Tuple[t.Any, t.Any]]:
        """(mesh, source) labels that occur."""
        return sorted(self._own, key=repr)

    def holder(self, key: t.Any, going: t.Container[str] = ()) -> t.Optional[Peer]:
        """The Peer that has a key, the first by name; those in ``going`` do not count."""
        return next((peer for peer in self._keys.get(key, ()) if peer.name not in going), None)


def diff_peers(
    mesh: str,
    source: str,
    existing: Existing,
    desired: t.Sequence[Peer],
    leaving: t.AbstractSet[str] = frozenset(),
) -> PeerDiff:
    """What makes a target hold the desired Peers of (mesh, source). Sorted by name.

    WireGuard has one entry for a key, so a Peer that is to be made while another name holds its key is not made but noted
    in ``held``. Peers of our own that are about to go (and those ``leaving`` anyway) hold nothing. Peers of other meshes
    and sources are never deleted or changed.
    """
    own = existing.own(mesh, source)
    diff = PeerDiff([], {}, [], {})
    wanted = {peer.name: peer for peer in desired}
    diff.delete.extend(sorted(name for name in own if name not in wanted))
    going = leaving | set(diff.delete)
    for name in sorted(wanted):
        peer = wanted[name]
        if name in own:
            if not same_spec(own[name].spec, peer.spec):
                diff.update[name] = dict(peer.spec)
            continue
        holder = existing.holder(peer.spec.get("publicKey"), going)
        if holder is None or holder.name == name:
            diff.create.append(peer)
        else:
            diff.held[name] = holder.name
    return diff


def _name(peer: Peer) -> str:
    return peer.name
