# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks: a twin with labels only, its ID back into the provider ID, the state (9), and peerings that both sides ask for (18.1)."""

from __future__ import annotations

import typing as t

from .fields import Object, entries, get, name, namespace, text, uid
from .links import AVAILABLE, NetworkID, format_id, network_state
from .object_turn import MAIN, TWIN, ObjectTurn
from .options import NETWORK, PEERING
from .view import allocated_prefix


def plan_network(turn: ObjectTurn) -> None:
    """One network that is not being deleted."""
    source, options = turn.subject, turn.options
    before = get(source, "status", "state")
    spec = None
    if PEERING in options.switches:
        peerings = desired_peerings(turn)
        spec = {"peerings": peerings} if peerings else None
    manifest = turn.manifest(NETWORK, spec=spec)
    owned = [("spec", "peerings")] if PEERING in options.switches else []
    # a failed write must not leave a network that looks ready; one that was ready stays so
    refused = turn.status_step({"state": network_state(before, False)})
    twin = turn.apply(TWIN, manifest, owned, otherwise=refused)
    if twin is None:
        return
    ident = text(twin, "spec", "id")
    if not ident:
        turn.status({"state": network_state(before, False)})
        turn.wait("id_not_allocated", "the network side has not given an ID yet")
        return
    if not text(source, "spec", "providerID"):
        parts = NetworkID(options.apinet_namespace, name(twin), ident, uid(twin))
        turn.patch_source(MAIN, {"spec": {"providerID": format_id(parts, options.profile)}})
    turn.status({"state": AVAILABLE})


# -- peerings: what cannot be looked up never shortens a live list


def _target(source: Object, entry: t.Mapping[str, t.Any]) -> tuple[str, str]:
    reference = entry.get("networkRef") if isinstance(entry.get("networkRef"), dict) else {}
    return (text(reference, "namespace") or namespace(source), text(reference, "name"))


def accepted(source: Object) -> list[tuple[dict[str, t.Any], dict[str, t.Any]]]:
    """(incoming entry, our entry) of the peerings that this network asks for as well, in the order of the incoming."""
    owned = {_target(source, entry): entry for entry in reversed(entries(source, "spec", "peerings"))}
    found = []
    for incoming in entries(source, "spec", "incomingPeerings"):
        entry = owned.get((text(incoming, "namespace") or namespace(source), text(incoming, "name")))
        if entry is not None and text(entry, "name"):
            found.append((incoming, entry))
    return found


def desired_peerings(turn: ObjectTurn) -> list[dict[str, t.Any]]:
    """spec.peerings of the twin."""
    twin = turn.view.twin(NETWORK, uid(turn.subject))
    present = {text(entry, "name"): entry for entry in entries(twin, "spec", "peerings")}
    desired: dict[str, dict[str, t.Any]] = {}
    for incoming, entry in accepted(turn.subject):
        label = text(entry, "name")
        peer = turn.view.twin(NETWORK, text(incoming, "uid")) if text(incoming, "uid") else None
        ident = text(peer, "spec", "id")
        if ident:
            desired.setdefault(label, _entry(turn, entry, ident))
            continue
        # the peer is missing for now: an entry that is live stays as long as the peer itself exists
        alive = _peer_exists(turn, incoming)
        if alive and label in present:
            desired.setdefault(label, present[label])
        turn.wait("peer_not_ready", f"the network side has no network for the peering {label!r:.80} yet")
    return list(desired.values())


def _peer_exists(turn: ObjectTurn, incoming: t.Mapping[str, t.Any]) -> bool:
    within = text(incoming, "namespace") or namespace(turn.subject)
    peer = turn.view.source(NETWORK, within, text(incoming, "name"))
    if peer is None:
        # a run that reads one namespace knows nothing about the others
        watched = turn.options.watch_namespace
        return bool(watched) and within != watched
    return uid(peer) == text(incoming, "uid")


def _entry(turn: ObjectTurn, entry: t.Mapping[str, t.Any], ident: str) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {"name": text(entry, "name"), "id": ident}
    prefixes = []
    for offered in entries(entry, "prefixes"):
        called = text(offered, "prefixRef", "name")
        literal = text(offered, "prefix") or text(
            allocated_prefix(turn.view, namespace(turn.subject), called), "spec", "prefix"
        )
        if literal:
            prefixes.append({"name": text(offered, "name"), "prefix": literal})
    if prefixes:
        found["prefixes"] = prefixes
    return found
