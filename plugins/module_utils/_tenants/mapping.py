# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One pass over everything: two sets of objects in, the writes of every object out (8)."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted
from .deletion import leaving_routings, plan_collection, plan_deletion, plan_leaving, plan_orphans
from .fields import deleting, get, uid
from .interfaces import plan_interface
from .load_balancers import plan_load_balancer
from .nat_gateways import plan_nat_gateway
from .networks import plan_network
from .profile import APINET, KINDS, LOAD_BALANCER, NAT_GATEWAY, NETWORK, NETWORK_INTERFACE, VIRTUAL_IP
from .states import network_state
from .view import Index, NotRead, View
from .virtual_ips import plan_virtual_ip
from .work import Work

_PLANS: t.Dict[str, t.Callable[[Work], None]] = {
    NETWORK: plan_network,
    VIRTUAL_IP: plan_virtual_ip,
    LOAD_BALANCER: plan_load_balancer,
    NAT_GATEWAY: plan_nat_gateway,
}


def plan_pass(view: View, now: str) -> t.List[Work]:
    """The turn of every selected object and of every twin that nobody wants. ``now``: RFC 3339, seconds, UTC."""
    works: t.List[Work] = []
    for kind in KINDS:
        if kind in view.options.kinds:
            works.extend(_kind(view, kind, now))
    return works


def _kind(view: View, kind: str, now: str) -> t.Iterator[Work]:
    try:
        sources = view.mapped(kind)
    except NotRead:
        return  # nothing is known about this kind, so nothing is done about it
    try:
        index = Index(view) if kind == NETWORK_INTERFACE else None
    except NotRead as error:
        index = None
        for source in sources:
            work = Work(view, kind, source)
            work.fail("source_incomplete", str(error))
            yield work
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


def _one(view: View, kind: str, source: t.Dict[str, t.Any], index: t.Optional[Index], now: str) -> Work:
    work = Work(view, kind, source)
    try:
        if not uid(source):
            work.fail("uid_missing", "the object has no uid")
        elif deleting(source):
            plan_deletion(work, index)
        elif view.options.leaving:
            plan_leaving(work)
        else:
            work.finalize()
            if index is not None:
                plan_interface(work, index, now)
            else:
                _PLANS[kind](work)
    except NotRead as error:
        work.steps = []
        work.fail("source_incomplete", str(error))
        if kind == NETWORK and error.side == APINET and not deleting(source):
            # as after a refused write: a network that was not ready yet says so, one that was stays so
            work.status({"state": network_state(get(source, "status", "state"), False)})
    except ValueRefused as error:
        work.steps = []
        work.fail(error.reason, error.message)
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        # an object that no schema has checked must not stop the others
        work.steps = []
        work.fail("malformed", "the object cannot be read: {0}".format(quoted(error)))
    return work
