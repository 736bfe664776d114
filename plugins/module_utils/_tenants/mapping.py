# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One pass over everything: two sets of objects in, the writes of every object out (8)."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted
from .deletion import leaving_routings, plan_collection, plan_deletion, plan_leaving, plan_orphans
from .fields import deleting, get, uid
from .interfaces import plan_interface, plan_virtual_ip
from .links import network_state
from .load_balancers import plan_load_balancer
from .nat_gateways import plan_nat_gateway
from .networks import plan_network
from .object_turn import ObjectTurn
from .profile import APINET, KINDS, LOAD_BALANCER, NAT_GATEWAY, NETWORK, NETWORK_INTERFACE, VIRTUAL_IP
from .view import Index, NotRead, View

_PLANS: t.Dict[str, t.Callable[[ObjectTurn], None]] = {
    NETWORK: plan_network,
    VIRTUAL_IP: plan_virtual_ip,
    LOAD_BALANCER: plan_load_balancer,
    NAT_GATEWAY: plan_nat_gateway,
}


def plan_pass(view: View, now: str) -> t.List[ObjectTurn]:
    """The turn of every selected object and of every twin that nobody wants. ``now``: RFC 3339, seconds, UTC."""
    turns: t.List[ObjectTurn] = []
    for kind in KINDS:
        if kind in view.options.kinds:
            turns.extend(_kind(view, kind, now))
    return turns


def _kind(view: View, kind: str, now: str) -> t.Iterator[ObjectTurn]:
    try:
        sources = view.mapped(kind)
    except NotRead:
        return  # nothing is known about this kind, so nothing is done about it
    try:
        index = Index(view) if kind == NETWORK_INTERFACE else None
    except NotRead as error:
        index = None
        for source in sources:
            turn = ObjectTurn(view, kind, source)
            turn.fail("source_incomplete", str(error))
            yield turn
        return
    for source in sources:
        yield _one(view, kind, source, index, now)
    try:
        if view.options.leaving and kind == LOAD_BALANCER:
            yield from leaving_routings(view)
        extra = plan_collection(view, kind) + plan_orphans(view, kind)
    except NotRead:
        return
    yield from extra


def _one(view: View, kind: str, source: t.Dict[str, t.Any], index: t.Optional[Index], now: str) -> ObjectTurn:
    turn = ObjectTurn(view, kind, source)
    try:
        if not uid(source):
            turn.fail("uid_missing", "the object has no uid")
        elif deleting(source):
            plan_deletion(turn, index)
        elif view.options.leaving:
            plan_leaving(turn)
        else:
            turn.finalize()
            if index is not None:
                plan_interface(turn, index, now)
            else:
                _PLANS[kind](turn)
    except NotRead as error:
        turn.refuse("source_incomplete", str(error))
        if kind == NETWORK and error.side == APINET and not deleting(source):
            # as after a refused write: a network that was not ready yet says so, one that was stays so
            turn.status({"state": network_state(get(source, "status", "state"), False)})
    except ValueRefused as error:
        turn.refuse(error.reason, error.message)
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        # an object that no schema has checked must not stop the others
        turn.refuse("malformed", "the object cannot be read: {0}".format(quoted(error)))
    return turn
