# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the cluster and the provider of one run, each list once (ccm 9)."""

from __future__ import annotations

from ..._loadbalancers.bgp.remembered import REMEMBERED, parse_remembered
from ..._loadbalancers.ledger import believed, ordered
from ..._loadbalancers.reservations import family_of, matches_of
from ..._loadbalancers.services import Service, counts, parts_of
from ..._loadbalancers.settings import CONFIGMAP, METALLB
from ..._values.refused import ValueRefused
from .providers import REMEMBERS
from .read import make_provider, read_state
from .run import Run
from .writes import notes_of


def gather(run: Run, now: str = "", before: Run | None = None) -> None:
    """Read the cluster and the provider, each list once. ``before``: who read them just now, as in read_state. Raises KubeErrors, ValueRefused."""
    setup = run.setup
    run.state = read_state(run.client, setup, before.state.answers if before is not None else None)
    if run.proof is not None and setup.balancer.enabled and run.state.uid != run.proof.uid:
        raise ValueRefused(
            "claimed_twice",
            "the UID of its namespace kube-system changed while this run read it; nothing of it is touched",
        )
    if setup.static:
        run.state.ledger, left_out = believed(run.ledger, setup.others, setup.reserved, {setup.eip_tag} - {""})
        for address, error in left_out:
            run.refuse(
                f"reservation {setup.cluster}/{address}",
                error.reason,
                "the cluster's record has it: " + error.message,
            )
    run.noted = notes_of(run.state.ledger_object)
    if (
        before is not None
        and before.provider is not None
        and not setup.static
        and run.state.answers is before.state.answers
    ):
        run.provider, run.listed = before.provider, before.listed  # nobody was at work since it was asked
        run.provider.now = now
    else:
        run.provider = make_provider(setup, run.state, now, run.options.timeout)
        if REMEMBERS in run.provider.capabilities():
            run.provider.remember(parse_remembered(run.noted.get(REMEMBERED)), run.began)
        run.listed = run.provider.list_addresses() if setup.balancer.enabled else []
    run.held = list(run.listed)
    run.written = dict(run.ledger)
    run.served = {entry.service for entry in run.ledger.values()}
    for begun, entry in ordered(run.ledger, run.held) if not setup.static else ():
        del run.ledger[begun]
        run.ledger[entry.id] = entry
        shown = {"address": entry.address, "tags": list(entry.tags), "recorded": True}
        run.outcome.create("Reservation", f"{setup.cluster}/{entry.service}", shown)
    run.state.services = _parts(run)


def _parts(run: Run) -> list[Service]:
    """The Services; one of both families as a part for each family of which addresses can be had for it, or are its own."""
    setup, state = run.setup, run.state
    if not setup.static:
        return [service._replace(families=()) for service in state.services]
    had = {span.version for span in setup.pool.spans}
    owner = setup.owner(state.uid)
    one_only = state.backend.balancer.type == METALLB and state.backend.balancer.mode == CONFIGMAP
    found: list[Service] = []
    for service in state.services:
        if len(service.families) < 2 or one_only or not counts(service, setup.our_class):
            found.append(service._replace(families=()))
            continue
        own = {family_of(item) for item in matches_of(run.held, owner, service.namespace, service.name)}
        found += parts_of(service, had | own)
    return found
