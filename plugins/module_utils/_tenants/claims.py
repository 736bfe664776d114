# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage between reading and mapping: what a tenant's object claims must be his (decision 29, T23).

A source object is written by a tenant. Through a provider ID, a uid or a peering it may name what belongs to another.
Such an object, or the part of it, is left out by name while everything else goes on; the mapping itself never asks.
"""

from __future__ import annotations

import functools
import typing as t

from .._plan.plan import Refusal
from .._values.refused import ValueRefused, quoted
from .._values.text import parse_subdomain
from .fields import Object, deleting, entries, get, name, namespace, text, uid
from .links import LONGEST_LABEL, claimer, interface_id_or_none, linked, message, parse_network_id, unowned
from .networks import accepted
from .options import (
    DEPENDENTS,
    KINDS,
    LOAD_BALANCER,
    LOAD_BALANCER_ROUTING,
    NETWORK,
    NETWORK_INTERFACE,
    PEERING,
    SOURCE,
    TWIN_KINDS,
    selected,
)
from .view import NotRead, View


class Claims(t.NamedTuple):
    """What the stage decides: objects left out, objects that go on without a part, and why."""

    left_out: set[tuple[str, str, str]]
    changed: list[dict[str, t.Any]]
    refused: list[Refusal]


def check_claims(view: View) -> Claims:
    """Judge every selected source object against both servers."""
    view.narrow((), ())
    lookup = _Lookup(view)
    result = Claims(set(), [], [])
    for kind in KINDS:
        if kind not in view.options.kinds or (SOURCE, kind) in view.unread:
            continue
        holders = _by_uid(view, kind)
        for source in view.every(SOURCE, kind):
            if not selected(source, view.options):
                continue
            try:
                _check(lookup, kind, source, holders, result)
            except ValueRefused as error:
                result.left_out.add((kind, namespace(source), name(source)))
                result.refused.append(Refusal(_label(kind, source), error.reason, error.message))
            except NotRead:
                continue  # the mapping fails this object by name; nothing is concluded here
    return result


def apply_claims(view: View) -> list[Refusal]:
    """Check and narrow the view: objects left out are treated as not selected, so they still exist for lookups."""
    found = check_claims(view)
    view.narrow(found.left_out, found.changed)
    return found.refused


class _Lookup:
    """Twins by what a provider ID may name, indexed when first asked for."""

    def __init__(self, view: View) -> None:
        self.view = view

    @functools.cached_property
    def interfaces(self) -> dict[str, dict[str, t.Any]]:
        """uid -> interface twin."""
        return {uid(twin): twin for twin in self.view.twins(NETWORK_INTERFACE)}

    @functools.cached_property
    def claimed(self) -> dict[str, dict[str, t.Any]]:
        """uid of the claimer -> an interface twin that it holds."""
        holders = [
            (claimer(NETWORK_INTERFACE, twin, self.view.options.profile), twin) for twin in self.interfaces.values()
        ]
        return {holder: twin for holder, twin in holders if holder is not None}

    @functools.cached_property
    def networks(self) -> dict[tuple[str, str], str]:
        """(name, uid or id, its value) -> the name of the network twin that has it, which is its owner's uid."""
        found = {}
        for twin in self.view.twins(NETWORK):
            parts = {"name": name(twin), "uid": uid(twin), "id": text(twin, "spec", "id")}
            found.update({part: name(twin) for part in parts.items() if part[1]})
        return found


def _label(kind: str, source: Object) -> str:
    return f"{kind} {namespace(source)}/{name(source)}"


def _by_uid(view: View, kind: str) -> dict[str, list[dict[str, t.Any]]]:
    found: dict[str, list[dict[str, t.Any]]] = {}
    for source in view.every(SOURCE, kind):
        found.setdefault(uid(source), []).append(source)
    return found


def _check(lookup: _Lookup, kind: str, source: Object, holders: t.Mapping[str, list[t.Any]], result: Claims) -> None:
    view = lookup.view
    ident = uid(source)
    # it becomes the name of an object and part of a path
    parse_subdomain(ident, "uid_invalid")
    if len(ident) > LONGEST_LABEL or len(name(source)) > LONGEST_LABEL:
        raise ValueRefused("name_too_long", f"a name or uid of more than {LONGEST_LABEL} characters fits no label")
    twin = lookup.claimed.get(ident) if kind == NETWORK_INTERFACE else view.twin(TWIN_KINDS[kind], ident)
    link = linked(kind, twin, view.options.profile) if twin is not None else None
    if len(holders[ident]) > 1:
        live = [
            other for other in holders[ident] if link and (namespace(other), name(other)) == (link.namespace, link.name)
        ]
        if not live or live[0] is not source:
            raise ValueRefused("claimed_twice", f"{len(holders[ident])} objects have the uid {quoted(ident)}")
    if link is not None and link.uid and link.uid != ident:
        raise ValueRefused("not_ours", f"the twin {quoted(ident)} belongs to the uid {quoted(link.uid)}")
    if kind != NETWORK_INTERFACE:
        for twin_kind in (TWIN_KINDS[kind], DEPENDENTS.get(TWIN_KINDS[kind], "")):
            made = view.twin(twin_kind, ident) if twin_kind else None
            reason = unowned(kind, made, view.options) if made is not None else ""
            if reason:
                raise ValueRefused(reason, message(reason, twin_kind))
    if deleting(source):
        return
    if kind == NETWORK:
        _check_network(lookup, source, result)
    elif kind == NETWORK_INTERFACE:
        _check_interface(lookup, source)
    elif kind == LOAD_BALANCER:
        _check_routing(lookup, source, result)


def _check_network(lookup: _Lookup, source: Object, result: Claims) -> None:
    """A preset provider ID must not name a network of the network side that is another's."""
    view = lookup.view
    given = text(source, "spec", "providerID")
    if given:
        try:
            found = parse_network_id(given, view.options.profile)
        except ValueRefused:
            found = None
        own = view.twin(NETWORK, uid(source)) or {}
        if (
            found is not None
            and found.namespace == view.options.apinet_namespace
            and found[1:] != (name(own), text(own, "spec", "id"), uid(own))
        ):
            known = lookup.networks
            owners = {known.get(part) for part in (("name", found.name), ("uid", found.uid), ("id", found.id))}
            if owners - {None, uid(source)}:
                raise ValueRefused("outside_grant", f"the provider ID {quoted(given)} names a network of another")
    if PEERING in view.options.switches:
        _check_peerings(view, source, result)


def _check_peerings(view: View, source: Object, result: Claims) -> None:
    """An incoming peering must be the peer's own wish: the named network has this uid and asks for us."""
    refused = []
    for incoming, entry in accepted(source):
        within = text(incoming, "namespace") or namespace(source)
        peer = view.source(NETWORK, within, text(incoming, "name"))
        if peer is None and _live(view, source, entry, incoming):
            continue  # nothing is known about the peer (any more), so what is live stays and nothing is added
        asks = [
            text(other, "networkRef", "namespace") or within
            for other in entries(peer, "spec", "peerings")
            if text(other, "networkRef", "name") == name(source)
        ]
        if peer is None or uid(peer) != text(incoming, "uid") or namespace(source) not in asks:
            refused.append(incoming)
            message = f"the peer {quoted(within + '/' + text(incoming, 'name'))} does not ask for this peering"
            result.refused.append(Refusal(_label(NETWORK, source), "outside_grant", message))
    if refused:
        kept = [entry for entry in entries(source, "spec", "incomingPeerings") if entry not in refused]
        result.changed.append(dict(source, spec=dict(source["spec"], incomingPeerings=kept)))


def _live(view: View, source: Object, entry: Object, incoming: Object) -> bool:
    """Whether a peering is realised already, with the very network that the incoming entry names."""
    peer = view.twin(NETWORK, text(incoming, "uid")) if text(incoming, "uid") else None
    twin = view.twin(NETWORK, uid(source))
    link = linked(NETWORK, peer, view.options.profile) if peer is not None else None
    place = (text(incoming, "namespace") or namespace(source), text(incoming, "name"))
    if link is None or (link.namespace, link.name) != place:
        return False
    pair = (text(entry, "name"), text(peer, "spec", "id"))
    return pair in [(text(other, "name"), text(other, "id")) for other in entries(twin, "spec", "peerings")]


def _check_interface(lookup: _Lookup, source: Object) -> None:
    """The twin must be in the interface's own network: a provider ID is only text that a tenant may write."""
    view = lookup.view
    found = interface_id_or_none(text(source, "spec", "providerID"), view.options.profile)
    if found is None:
        return
    if not found.uid:
        raise ValueRefused("outside_grant", "the provider ID names no uid")
    twin = lookup.interfaces.get(found.uid)
    if twin is None:
        return
    network = view.source(NETWORK, namespace(source), text(source, "spec", "networkRef", "name"))
    if not _within(twin, network):
        if claimer(NETWORK_INTERFACE, twin, view.options.profile) == uid(source):
            return  # owned already; a network that went away must not tear the interface off
        raise ValueRefused("outside_grant", "the provider ID names an interface of another network")


def _check_routing(lookup: _Lookup, source: Object, result: Claims) -> None:
    """A destination's target must be in the load balancer's network; without that it stays a plain address."""
    view = lookup.view
    routing = view.source(LOAD_BALANCER_ROUTING, namespace(source), name(source))
    network = view.source(NETWORK, namespace(source), text(source, "spec", "networkRef", "name"))
    destinations, hostile = [], False
    twins = lookup.interfaces if routing is not None else {}
    for destination in entries(routing, "destinations"):
        found = interface_id_or_none(get(destination, "targetRef", "providerID"), view.options.profile)
        if found is not None and found.uid in twins and not _within(twins[found.uid], network):
            destination = {key: value for key, value in destination.items() if key != "targetRef"}
            hostile = True
            message = f"the destination {quoted(found.uid)} names an interface of another network"
            result.refused.append(Refusal(_label(LOAD_BALANCER_ROUTING, source), "outside_grant", message))
        destinations.append(destination)
    if hostile and routing is not None:
        result.changed.append(dict(routing, destinations=destinations))


def _within(twin: Object, network: Object | None) -> bool:
    return network is not None and bool(uid(network)) and text(twin, "spec", "networkRef", "name") == uid(network)
