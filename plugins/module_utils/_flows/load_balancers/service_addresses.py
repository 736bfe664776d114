# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses of one cluster's Services: reserved with the provider, written into the Services, announced, given back (ccm 9, 13)."""

from __future__ import annotations

import typing as t

from ..._loadbalancers.bgp.values import NodeBgp
from ..._loadbalancers.cost_plan import CostPlan
from ..._loadbalancers.metallb.config import ServiceKey
from ..._loadbalancers.services import sentences
from . import backends, bgp as bgp_facts, gathering, migration, orders, returns, shown
from .backends import ABSENT, REMOVE, SYNC
from .run import RELEASED, Report, Run
from .writes import CarriedOut, DryRun


class ServiceAddressReconciler(Run):
    """One cluster: gather() reads it, then plan() returns what would be done, or apply() does it.

    Both walk the same stages, since what a provider answers to an order decides what follows: addresses, BGP facts of nodes, the load
    balancer's configuration, and last what nobody uses any more. Only how a stage takes effect differs (writes.DryRun).
    """

    def gather(self, now: str = "", before: ServiceAddressReconciler | None = None) -> None:
        """Read the cluster and the provider, each list once. ``before``: who read them just now, as in read_state. Raises KubeErrors, ValueRefused."""
        gathering.gather(self, now, before)

    def plan(self) -> Report:
        """What would be done. Writes nothing, orders nothing."""
        return self._reconcile(DryRun())

    def apply(self, check: t.Callable[[], None]) -> Report:
        """Do it; ``check`` is called before every write and raises when it must not be."""
        return self._reconcile(CarriedOut(self.client, self.manager, check, self.options.leave_conflicts))

    def _reconcile(self, effects: DryRun) -> Report:
        self.effects = effects
        self.outcome.warnings += self.setup.warnings
        if self.options.mode == ABSENT and self.setup.balancer.enabled:
            migration.check_keep(self.options.keep, self.setup.balancer.type)
        backend = backends.BackendPlan([], [], [], frozenset())
        cost = CostPlan([], 0, 0, None, [], {})
        speakers: t.Sequence[NodeBgp] = ()
        if self.setup.balancer.enabled and self.options.mode == RELEASED:
            cost = self.costs(None)
            returns.hand_back(self)
        elif self.setup.balancer.enabled:
            orders.settle_claims(self)
            facts = bgp_facts.gather(
                self.setup, self.provider, self.state, self.options.mode, not effects.writes, self.outcome
            )
            speakers = facts.nodes
            cost = orders.give_addresses(self, facts.limit)
            if self.options.mode != REMOVE:
                bgp_facts.annotate(
                    self.client,
                    self.setup,
                    self.state,
                    facts,
                    self.manager,
                    self.outcome,
                    self.failed,
                    not effects.writes,
                    self.options.adopt,
                    self.options.mode == ABSENT,
                )
            backend = self._backend(cost, facts)
            returns.return_unused(self, cost, backend)
        self.outcome.warnings += self.provider.warnings()
        result = shown.shown(self, cost, backend, speakers)
        self.outcome.warnings += sentences(self.setup.cluster, result["unannounced"])
        return Report(self.outcome, self.failed, result, getattr(self.provider, "calls", 0), shown.notices(self, cost))

    def _backend(self, cost: CostPlan, facts: bgp_facts.Facts) -> backends.BackendPlan:
        options = self.options
        named = {
            key: networks for key, networks in cost.networks.items() if options.mode == SYNC or options.handles(key)
        }
        networks = {service_key(key): found for key, found in named.items()} if options.gives else {}
        gone = tuple(service_key(key) for key in options.services) if options.mode == REMOVE else ()
        request = backends.BackendRequest(
            options.mode,
            networks,
            facts.nodes,
            facts.alive,
            facts.whole,
            frozenset(item.network for item in self.held if item.address),
            gone,
            (*self.refusals.values(), *facts.refused),
            options.adopt,
            options.max_deletes,
            options.confirmed,
        )
        backend = backends.plan_backend(self.client, self.setup, self.state.backend, request, self.manager)
        self.outcome.refused += backend.refused
        self.outcome.warnings += [f"{self.setup.cluster}: {note}" for note in backend.notes]
        self.write(backend.puts)
        return backend


def service_key(text: str) -> ServiceKey:
    namespace, dummy, name = text.partition("/")
    return namespace, name
