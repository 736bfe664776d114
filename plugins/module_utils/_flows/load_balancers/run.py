# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run for one cluster: its options, and what its stages share (ccm 9, 13)."""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client
from ..._kubernetes.clusters import seconds_of
from ..._kubernetes.errors import KubeError
from ..._loadbalancers.address_claims import AddressRules, GivenUp, check_address_claims, parse_renumber
from ..._loadbalancers.bgp.remembered import REMEMBERED
from ..._loadbalancers.bgp.routes import Route, routes_of
from ..._loadbalancers.cost_plan import CostPlan, Order, cost_plan
from ..._loadbalancers.layer2.groups import number_groups
from ..._loadbalancers.ledger import Ledger, holders
from ..._loadbalancers.reservations import Reservation, matches_of
from ..._loadbalancers.service_events import Notice
from ..._loadbalancers.service_plan import Context, PartKey
from ..._loadbalancers.services import Service, address_of, counts
from ..._loadbalancers.setup import Setup
from ..._plan.plan import Plan, Refusal
from ..._values.addresses import parse_address
from ..._values.refused import ValueRefused
from .backends import ABSENT, ADD, REMOVE, SYNC
from .providers import REMEMBERS
from .read import ClusterState
from .writes import DryRun, Put

RELEASED = "released"


class Report(t.NamedTuple):
    """The plan, or what of it took place; failures; what the module shows of the cluster; calls of the provider; the notices for Services."""

    plan: Plan
    failed: list[KubeError]
    shown: dict[str, t.Any]
    calls: int
    notices: t.Sequence[Notice] = ()


class Proof(t.NamedTuple):
    """Who owns a cluster's reservations, where clusters share a provider: the UID that was checked against those of the others, None
    for one that was refused or did not answer; and why nothing may be released by it, or None."""

    uid: str | None
    unproven: ValueRefused | None


class RunOptions(t.NamedTuple):
    """What the user asks of one run for one cluster. ``mode`` sync, add, remove, absent or released; ``services`` those that it handles, none for all;
    ``release``: whether this run gives back what nobody uses; ``confirmed``: whether confirm_empty names the cluster; ``keep``: for whom Services keep
    their addresses with absent (migration.KEEP)."""

    mode: str = SYNC
    services: tuple[str, ...] = ()
    renumber: GivenUp = GivenUp()
    adopt: bool = False
    release: bool = True
    confirmed: bool = False
    max_deletes: int | None = None
    leave_conflicts: bool = False
    timeout: float = 120.0
    keep: str = ""

    @property
    def gives(self) -> bool:
        """Whether Services get addresses in this run."""
        return self.mode in (SYNC, ADD)

    def handles(self, key: str) -> bool:
        return not self.services or key in self.services


def parse_run_options(request: t.Mapping[str, t.Any], cluster: str, own_speakers: bool = True) -> RunOptions:
    """From the module's options. ``own_speakers``: whether our own speakers announce. Raises ValueRefused ``bad_cidr``."""
    return RunOptions(
        str(request["state"]) if request.get("state") in (ABSENT, RELEASED) else request.get("mode") or SYNC,
        tuple(request.get("services") or ()),
        parse_renumber(request.get("renumber") or ()),
        bool(request.get("adopt")),
        request.get("release") is not False and (request.get("release_spoken") is not False or not own_speakers),
        cluster in (request.get("confirm_empty") or ()),
        request.get("max_deletes"),
        bool(request.get("leave_conflicts")),
        seconds_of(request),
        str(request.get("keep_addresses") or ""),
    )


class Run:
    """What the stages of one run read and change: the cluster as it was read, the record of addresses, and what came of it so far."""

    def __init__(
        self,
        client: Client,
        setup: Setup,
        options: RunOptions,
        manager: str,
        proof: Proof | None = None,
        began: float = 0.0,
    ) -> None:
        self.client, self.setup, self.options, self.manager, self.proof = client, setup, options, manager, proof
        self.began = began  # seconds since 1970: for how long a node is not ready
        self.effects = DryRun()
        self.outcome, self.failed = Plan(), t.cast(list[KubeError], [])
        self.refusals: dict[str, Refusal] = {}
        self.state = ClusterState(setup.balancer)
        self.provider: t.Any = None
        self.listed: t.Sequence[Reservation] = ()
        self.held: list[Reservation] = []
        self.noted: dict[str, str | None] = {}
        self.written: Ledger = {}
        self.releases: list[str] = []
        self.kept: list[str] = []
        self.host_facility = ""
        #: Parts of Services with orders that were refused in this run.
        self.unserved: set[PartKey] = set()
        #: Those for which an order was made in this run.
        self.asked: set[PartKey] = set()
        #: Entries of this run's orders. Those of orders that were refused, or that nobody answered, stay for the next run, which asks again.
        self.begun: set[str] = set()
        #: Services that our record has.
        self.served: set[str] = set()
        #: Addresses of the pools that this run gave out.
        self.given: list[str] = []
        #: Services that another controller gave their addresses, as the result has them.
        self.former: list[dict[str, t.Any]] = []

    @property
    def ledger(self) -> Ledger:
        """The record of addresses as it will be written."""
        return self.state.ledger

    def context(self, limit: int | None) -> Context:
        """What planning of costs needs to know of this run. ``limit``: addresses that BGP sessions allow, None for any number."""
        context = self.setup.context(self.state.uid, self.state.ledger, limit, self.host_facility)
        return context._replace(
            grants=self.setup.pool_grants(self.state.namespace_labels), unserved=frozenset(self.unserved)
        )

    def rules(self) -> AddressRules:
        """The rules by which claims of Services to addresses are checked."""
        context = self.context(None)
        return AddressRules(
            context.owner,
            context.backend,
            context.our_class,
            context.control_plane_tag,
            holders(self.ledger),
            self.setup.others,
            self.setup.reserved,
            context.grants,
        )

    def refuse(self, obj: str, reason: str, message: str) -> None:
        """Refuse an object, once; ``service NAME`` gets the cluster's name."""
        label = obj.replace("service ", f"service {self.setup.cluster}/", 1)
        if label not in self.refusals:
            self.refusals[label] = Refusal(label, reason, message)
            self.outcome.refused.append(self.refusals[label])

    def write(self, puts: t.Sequence[Put]) -> None:
        """Write objects, and keep what came of it."""
        done = self.effects.put(puts)
        self.outcome.changes += done.changes
        self.outcome.refused += done.refused
        self.failed += done.failed

    def keep_ledger(self) -> None:
        """Write the record if it differs, over what the control plane's address has made of it since it was read."""
        for item in self.held:
            entry = self.ledger.get(item.id)
            if entry is not None and entry.address != item.address and not self.setup.static:
                self.ledger[item.id] = entry._replace(address=item.address, cidr=item.cidr)  # a pending one has come
        notes = dict(self.noted)
        if self.options.gives and REMEMBERS in self.provider.capabilities():
            notes[REMEMBERED] = self.provider.remembered() or None
        if self.ledger != self.written or (self.ledger and notes != self.noted):
            state = self.state
            news = notes if notes != self.noted else {}
            state.ledger_object = self.effects.keep_ledger(
                state.ledger_name, self.written, self.ledger, state.ledger_object, news
            )
            self.written, self.noted = dict(self.ledger), notes

    def costs(self, limit: int | None) -> CostPlan:
        """What every Service has and lacks, by what is held now; refuses claims that are not granted."""
        context = self.context(limit)
        kept, claims = check_address_claims(self.state.services, self.held, self.rules())
        for refusal in claims:
            self.refuse(*refusal)
        kept = [service for service in kept if self._is_believed(service, context)]
        if self.setup.static:
            for service in kept:
                has = address_of(service, context.backend) if counts(service, context.our_class) else ""
                if has:
                    self.provider.taken.setdefault(str(parse_address(has)), service.key)
            kept = [
                service
                for service in kept
                if service.required or not service.families or part_of(service) not in self.unserved
            ]
        return cost_plan(kept, self.held, context._replace(gc_orphans=False))

    def _is_believed(self, service: Service, context: Context) -> bool:
        """Whether a provider answers with addresses for a Service that can be meant; if not, nothing is ordered in their place either."""
        if self.setup.static or not counts(service, context.our_class):
            return True
        for item in matches_of(self.held, context.owner, service.namespace, service.name):
            try:
                if item.address:
                    self.setup.reserved.refuse(item.address)
            except ValueRefused as error:
                self.refuse(
                    "service " + service.key,
                    error.reason,
                    "the provider reports a reservation for it: " + error.message,
                )
                return False
        return True

    def networks(self, cost: CostPlan) -> dict[str, tuple[str, ...]]:
        """Service -> its networks, without the Services that this run removes."""
        gone = self.options.services if self.options.mode == REMOVE else ()
        return {key: networks for key, networks in cost.networks.items() if key not in gone}

    def routes(self, cost: CostPlan) -> list[Route]:
        """The routes to these networks, with the ports that tell whether a node can deliver."""
        return routes_of(self.networks(cost), self.state.objects)

    def groups(self, cost: CostPlan) -> tuple[dict[str, int], dict[str, ValueRefused]]:
        """Address -> the number of its group, and why others have none; nothing where no nodes back each other up."""
        if not self.setup.segments:
            return {}, {}
        desired = {route.network.partition("/")[0]: route.health_ports for route in self.routes(cost)}
        recorded = {entry.address: entry.group for entry in self.ledger.values()}
        return number_groups(desired, recorded, self.setup.reserved_groups)


def part_of(service: Service) -> PartKey:
    """The name and the IP version of a part of a Service."""
    return service.key, service.version


def version_of(order: Order) -> int:
    """The IP version of the address that an order asks for."""
    return int(order.request.get("version", 4))
