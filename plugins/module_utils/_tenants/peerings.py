# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Peerings of a network that both sides ask for (18.1). What cannot be looked up never shortens a live list."""

from __future__ import annotations

import typing as t

from .fields import Object, entries, get, namespace, text, uid
from .profile import NETWORK, PREFIX
from .work import Work


def _target(source: Object, entry: t.Mapping[str, t.Any]) -> t.Tuple[str, str]:
    reference = entry.get("networkRef") if isinstance(entry.get("networkRef"), dict) else {}
    return (text(reference, "namespace") or namespace(source), text(reference, "name"))


def accepted(source: Object) -> t.List[t.Tuple[t.Dict[str, t.Any], t.Dict[str, t.Any]]]:
    """(incoming entry, our entry) of the peerings that this network asks for as well, in the order of the incoming."""
    ours = {_target(source, entry): entry for entry in reversed(entries(source, "spec", "peerings"))}
    found = []
    for incoming in entries(source, "spec", "incomingPeerings"):
        entry = ours.get((text(incoming, "namespace") or namespace(source), text(incoming, "name")))
        if entry is not None and text(entry, "name"):
            found.append((incoming, entry))
    return found


def wanted_peerings(work: Work) -> t.List[t.Dict[str, t.Any]]:
    """spec.peerings of the twin."""
    twin = work.view.twin(NETWORK, uid(work.subject))
    present = {text(entry, "name"): entry for entry in entries(twin, "spec", "peerings")}
    wanted: t.Dict[str, t.Dict[str, t.Any]] = {}
    for incoming, entry in accepted(work.subject):
        label = text(entry, "name")
        peer = work.view.twin(NETWORK, text(incoming, "uid")) if text(incoming, "uid") else None
        ident = text(peer, "spec", "id")
        if ident:
            wanted.setdefault(label, _entry(work, entry, ident))
            continue
        # the peer is missing for now: an entry that is live stays as long as the peer itself exists
        alive = _peer_exists(work, incoming)
        if alive and label in present:
            wanted.setdefault(label, present[label])
        work.wait("peer_not_ready", "the network side has no network for the peering {0!r:.80} yet".format(label))
    return list(wanted.values())


def _peer_exists(work: Work, incoming: t.Mapping[str, t.Any]) -> bool:
    within = text(incoming, "namespace") or namespace(work.subject)
    peer = work.view.source(NETWORK, within, text(incoming, "name"))
    if peer is None:
        # a run that reads one namespace knows nothing about the others
        watched = work.options.watch_namespace
        return bool(watched) and within != watched
    return uid(peer) == text(incoming, "uid")


def _entry(work: Work, entry: t.Mapping[str, t.Any], ident: str) -> t.Dict[str, t.Any]:
    found: t.Dict[str, t.Any] = {"name": text(entry, "name"), "id": ident}
    prefixes = []
    for offered in entries(entry, "prefixes"):
        literal = text(offered, "prefix") or _allocated(work, text(offered, "prefixRef", "name"))
        if literal:
            prefixes.append({"name": text(offered, "name"), "prefix": literal})
    if prefixes:
        found["prefixes"] = prefixes
    return found


def _allocated(work: Work, reference: str) -> str:
    prefix = work.view.source(PREFIX, namespace(work.subject), reference) if reference else None
    return text(prefix, "spec", "prefix") if get(prefix, "status", "phase") == "Allocated" else ""
