# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses of one cluster's Services: reserved with the provider, written into the Services, announced, given back (ccm 9, 13)."""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client
from ..._kubernetes.clusters import seconds_of
from ..._kubernetes.errors import KubeError
from ..._loadbalancers.address_claims import (
    AddressRules,
    GivenUp,
    Settling,
    check_address_claims,
    give_up,
    parse_renumber,
    settle,
)
from ..._loadbalancers.bgp.remembered import REMEMBERED, parse_remembered
from ..._loadbalancers.bgp.routes import Route, all_left_out, left_out, routes_of
from ..._loadbalancers.bgp.values import NodeBgp
from ..._loadbalancers.layer2.groups import number_groups
from ..._loadbalancers.ledger import ORDERING, Entry, Ledger, believed, holders, ordered, ordering
from ..._loadbalancers.metallb.config import ServiceKey
from ..._loadbalancers.named_pools import usage
from ..._loadbalancers.reservations import Reservation, family_of, matches_of, service_tags
from ..._loadbalancers.service_events import GIVEN, NORMAL, Notice, given_text, refused
from ..._loadbalancers.service_plan import (
    CLEAR_ADDRESS,
    LEAVE,
    LET_GO,
    RELEASE,
    RESERVE,
    RETAIN,
    UNMAP,
    Action,
    Context,
    CostPlan,
    Order,
    PartKey,
    cost_plan,
    orphans,
    removal_of,
)
from ..._loadbalancers.services import (
    NAMED,
    Row,
    Service,
    address_of,
    alongside,
    counts,
    left_alone,
    of_family,
    parts_of,
    retains,
    sentences,
    silence,
    states,
    unannounced,
)
from ..._loadbalancers.settings import CONFIGMAP, EMPTY, METALLB
from ..._loadbalancers.setup import Setup
from ..._plan.budget import check_budget
from ..._plan.plan import Change, Plan, Refusal
from ..._values.addresses import parse_address
from ..._values.refused import ValueRefused
from . import backends, bgp as bgp_facts, moving, released
from .backends import ABSENT, ADD, REMOVE, SYNC
from .providers import REMEMBERS, host_facility
from .read import ClusterState, is_ours, make_provider, read_state
from .writes import CarriedOut, Foreseen, Put, notes_of, service_puts

RELEASED = "released"
KEPT = "no Service wants an address any more, and {0} stay until you say that this is right: load_balancers_confirm_empty: [{1}]"
KEPT_ALONGSIDE_REFUSED = (
    "{0} stay: this run refuses every Service of the cluster, the first is {1} [{2}]; mend what its refusal names"
)


class Report(t.NamedTuple):
    """The plan, or what of it took place; failures; what the module shows of the cluster; calls of the provider; what Services are told."""

    plan: Plan
    failed: list[KubeError]
    shown: dict[str, t.Any]
    calls: int
    notices: t.Sequence[Notice] = ()


class Proof(t.NamedTuple):
    """Whose reservations a cluster's are, where clusters share a provider: the UID that was checked against those of the others, None
    for one that was refused or did not answer; and why nothing may be released by it, or None."""

    uid: str | None
    unproven: ValueRefused | None


class RunOptions(t.NamedTuple):
    """What the user asks of one run for one cluster. ``mode`` sync, add, remove, absent or released; ``services`` those that it handles, none for all;
    ``release``: whether this run gives back what nobody uses; ``confirmed``: whether confirm_empty names the cluster; ``keep``: for whom Services keep
    their addresses with absent (moving.KEEP)."""

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


def parse_run_options(request: t.Mapping[str, t.Any], cluster: str, speaks: bool = True) -> RunOptions:
    """From the module's options. ``speaks``: whether it is speakers of ours that announce. Raises ValueRefused ``bad_cidr``."""
    return RunOptions(
        str(request["state"]) if request.get("state") in (ABSENT, RELEASED) else request.get("mode") or SYNC,
        tuple(request.get("services") or ()),
        parse_renumber(request.get("renumber") or ()),
        bool(request.get("adopt")),
        request.get("release") is not False and (request.get("release_spoken") is not False or not speaks),
        cluster in (request.get("confirm_empty") or ()),
        request.get("max_deletes"),
        bool(request.get("leave_conflicts")),
        seconds_of(request),
        str(request.get("keep_addresses") or ""),
    )


class ServiceAddressReconciler:
    """One cluster: gather() reads it, then plan() says what would be done, or apply() does it.

    Both walk the same stages, since what a provider answers to an order decides what follows: addresses, BGP facts of nodes, the load
    balancer's configuration, and last what nobody uses any more. Only how a stage takes effect differs (writes.Foreseen).
    """

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
        self.effects = Foreseen()
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
        #: Parts of Services whose orders were refused in this run.
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

    def gather(self, now: str = "", before: ServiceAddressReconciler | None = None) -> None:
        """Read the cluster and the provider, each list once. ``before``: who read them just now, as in read_state. Raises KubeErrors, ValueRefused."""
        setup = self.setup
        self.state = read_state(self.client, setup, before.state.answers if before is not None else None)
        if self.proof is not None and setup.balancer.enabled and self.state.uid != self.proof.uid:
            raise ValueRefused(
                "claimed_twice",
                "the UID of its namespace kube-system changed while this run read it; nothing of it is touched",
            )
        if setup.static:
            self.state.ledger, left_out = believed(self.ledger, setup.others, setup.reserved, {setup.eip_tag} - {""})
            for address, error in left_out:
                self._refuse(
                    f"reservation {setup.cluster}/{address}",
                    error.reason,
                    "the cluster's record has it: " + error.message,
                )
        self.noted = notes_of(self.state.ledger_object)
        if (
            before is not None
            and before.provider is not None
            and not setup.static
            and self.state.answers is before.state.answers
        ):
            self.provider, self.listed = before.provider, before.listed  # nobody was at work since it was asked
            self.provider.now = now
        else:
            self.provider = make_provider(setup, self.state, now, self.options.timeout)
            if REMEMBERS in self.provider.capabilities():
                self.provider.remember(parse_remembered(self.noted.get(REMEMBERED)), self.began)
            self.listed = self.provider.list_addresses() if setup.balancer.enabled else []
        self.held = list(self.listed)
        self.written = dict(self.ledger)
        self.served = {entry.service for entry in self.ledger.values()}
        for begun, entry in ordered(self.ledger, self.held) if not setup.static else ():
            del self.ledger[begun]
            self.ledger[entry.id] = entry
            shown = {"address": entry.address, "tags": list(entry.tags), "recorded": True}
            self.outcome.create("Reservation", f"{setup.cluster}/{entry.service}", shown)
        self.state.services = self._parts()

    def _parts(self) -> list[Service]:
        """The Services; one of both families as a part for each family of which addresses can be had for it, or are its own."""
        setup, state = self.setup, self.state
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
            own = {family_of(item) for item in matches_of(self.held, owner, service.namespace, service.name)}
            found += parts_of(service, had | own)
        return found

    def plan(self) -> Report:
        """What would be done. Writes nothing, orders nothing."""
        return self._reconcile(Foreseen())

    def apply(self, check: t.Callable[[], None]) -> Report:
        """Do it; ``check`` is called before every write and raises when it must not be."""
        return self._reconcile(CarriedOut(self.client, self.manager, check, self.options.leave_conflicts))

    # -- the stages --------------------------------------------------------------------------------------------------

    def _reconcile(self, effects: Foreseen) -> Report:
        self.effects = effects
        self.outcome.warnings += self.setup.warnings
        if self.options.mode == ABSENT and self.setup.balancer.enabled:
            moving.check_keep(self.options.keep, self.setup.balancer.type)
        backend = backends.BackendPlan([], [], [], frozenset())
        cost = CostPlan([], 0, 0, None, [], {})
        speakers: t.Sequence[NodeBgp] = ()
        if self.setup.balancer.enabled and self.options.mode == RELEASED:
            cost = self._costs(None)
            self._hand_back()
        elif self.setup.balancer.enabled:
            self._settle()
            facts = bgp_facts.gather(
                self.setup, self.provider, self.state, self.options.mode, not effects.writes, self.outcome
            )
            speakers = facts.nodes
            cost = self._addresses(facts.limit)
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
            self._release(cost, backend)
        self.outcome.warnings += self.provider.warnings()
        shown = self._shown(cost, backend, speakers)
        self.outcome.warnings += sentences(self.setup.cluster, shown["unannounced"])
        return Report(self.outcome, self.failed, shown, getattr(self.provider, "calls", 0), self._notices(cost))

    def _context(self, limit: int | None) -> Context:
        context = self.setup.context(self.state.uid, self.state.ledger, limit, self.host_facility)
        return context._replace(
            grants=self.setup.pool_grants(self.state.namespace_labels), unserved=frozenset(self.unserved)
        )

    def _rules(self) -> AddressRules:
        context = self._context(None)
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

    def _settle(self) -> None:
        """What is given up looks as if it were not there; what is in use and stands in the status only stays where it can be ours."""
        if self.options.gives:
            rules, pool = self._rules(), self.setup.pool
            services = give_up(
                self.state.services, self.held, rules, pool, self.options.renumber, self.setup.in_annotation
            )
            self.state.services = settle(
                services, self.held, Settling(rules, pool, self.options.adopt, self.options.handles)
            )

    def _adopt(self) -> None:
        """Addresses of the pool that Services have already, from another controller, become reservations of theirs; and so do reservations of a provider's
        that the original made for them, which else could never be given back."""
        if not (self.options.adopt and self.options.gives):
            return
        context = self._context(None)
        for service in check_address_claims(self.state.services, self.held, self._rules())[0]:
            text = (
                address_of(service, context.backend)
                if counts(service, context.our_class) and self.options.handles(service.key)
                else ""
            )
            if text and not self.setup.static:
                self._record(service, text, context)
                continue
            if (
                not text
                or text not in self.setup.pool
                or matches_of(self.held, context.owner, service.namespace, service.name, service.version)
            ):
                continue
            address = str(parse_address(text))
            if any(item.address == address for item in self.held):
                continue  # two Services share it, and the first one holds it
            tags = tuple(service_tags(context.owner, service.namespace, service.name))
            self.ledger[address] = Entry(
                address, address, parse_address(address).max_prefixlen, tags, service.key, "", self.provider.now
            )
            self.held.append(self.ledger[address].reservation())
            shown = {
                "address": address,
                "tags": list(tags),
                "adopted": True,
                **({"given_by": service.giver} if service.giver else {}),
            }
            self.outcome.create("Reservation", f"{self.setup.cluster}/{service.key}", shown)

    def _record(self, service: Service, text: str, context: Context) -> None:
        """A reservation with our tags and without a record of ours: only the one whose address its Service has, since anyone can write tags."""
        for item in matches_of(self.held, context.owner, service.namespace, service.name):
            if item.id not in self.ledger and item.address and item.address == text:
                self.ledger[item.id] = Entry(
                    item.id, item.address, item.cidr, item.tags, service.key, "", self.provider.now
                )
                shown = {"address": item.address, "tags": list(item.tags), "adopted": True}
                self.outcome.create("Reservation", f"{self.setup.cluster}/{service.key}", shown)

    def _addresses(self, limit: int | None) -> CostPlan:
        self._adopt()
        self._hand_over()
        cost = self._costs(limit)
        if self.options.gives and any(reason == "no_location" for dummy, reason, dummy_message in cost.refused):
            cost = self._placed(cost, limit)
        while self.options.gives and any(self._is_new(order) for order in cost.orders):
            self._order(cost)
            cost = self._costs(limit)
        for key, reason, message in cost.refused:
            if self.options.handles(key) and (self.options.gives or reason not in ("adoptable", "outside_grant")):
                self._refuse("service " + key, reason, message)
        if self.options.gives:
            self._note_retained()
            self._note_sharers(cost)
            self._note_groups(cost)
        self._keep_ledger()
        if self.options.gives:
            actions = [
                action for key in cost.outcomes if self._served(key, cost) for action in cost.outcomes[key].actions
            ]
            self._write(service_puts(self.setup, self.state, actions))
            self._take_marks(cost)
        for key, outcome in cost.outcomes.items():
            self.outcome.warnings += [f"{self.setup.cluster}/{key}: {note}" for note in outcome.notes]
        return cost

    def _take_marks(self, cost: CostPlan) -> None:
        """What a former controller wrote on Services whose addresses are ours by now."""
        if not self.options.adopt:
            return
        named = {key for entry in self.ledger.values() for key in (entry.service, *entry.sharers)}
        taken = [
            key for key in cost.networks if key in named and key in self.state.objects and self.options.handles(key)
        ]
        moved = moving.take_marks(self.client, self.setup.cluster, self.state.objects, taken, self.setup.balancer.type)
        self.former = moved.rows
        self.outcome.warnings += [f"{self.setup.cluster}: {note}" for note in moved.notes]
        self._write(moved.puts + moving.take_records(self.setup.cluster, self.state.objects, taken, self.manager))

    def _placed(self, cost: CostPlan, limit: int | None) -> CostPlan:
        """The last resort, as in the original: the facility of the host, asked only where a Service knows no other place."""
        if not self.setup.metadata_url:
            return cost
        try:
            self.host_facility = host_facility(self.setup.metadata_url, self.setup.plain_http)
        except ValueRefused as error:
            return cost._replace(
                refused=[
                    (key, reason, error.message if reason == error.reason else text)
                    for key, reason, text in cost.refused
                ]
            )
        return self._costs(limit)

    def _served(self, key: str, cost: CostPlan) -> bool:
        """Whether a Service has an address, or would have one: an order that was refused has no consequences."""
        if not self.options.handles(key) or not any(action.action == RESERVE for action in cost.outcomes[key].actions):
            return self.options.handles(key)
        return not self.effects.writes and f"service {self.setup.cluster}/{key}" not in self.refusals

    def _costs(self, limit: int | None) -> CostPlan:
        context = self._context(limit)
        kept, claims = check_address_claims(self.state.services, self.held, self._rules())
        for refusal in claims:
            self._refuse(*refusal)
        kept = [service for service in kept if self._is_believed(service, context)]
        if self.setup.static:
            for service in kept:
                has = address_of(service, context.backend) if counts(service, context.our_class) else ""
                if has:
                    self.provider.taken.setdefault(str(parse_address(has)), service.key)
            kept = [
                service
                for service in kept
                if service.required or not service.families or _part(service) not in self.unserved
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
                self._refuse(
                    "service " + service.key,
                    error.reason,
                    "the provider says that it is reserved for it: " + error.message,
                )
                return False
        return True

    def _refuse(self, obj: str, reason: str, message: str) -> None:
        label = obj.replace("service ", f"service {self.setup.cluster}/", 1)
        if label not in self.refusals:
            self.refusals[label] = Refusal(label, reason, message)
            self.outcome.refused.append(self.refusals[label])

    # -- orders ------------------------------------------------------------------------------------------------------

    def _is_new(self, order: Order) -> bool:
        """Whether nobody was asked for it in this run."""
        return self.options.handles(order.service) and (order.service, _version(order)) not in self.asked

    def _begin(self, orders: t.Iterable[Order]) -> dict[str, str]:
        """Note the orders before the provider is asked, all in one write; Service -> id of its entry. Nothing where the pool is ours."""
        if self.setup.static or not self.effects.writes:
            return {}
        entries = [
            ordering(order.request["tags"], order.service, self.provider.now) for order in orders if self._is_new(order)
        ]
        for entry in entries:
            self.begun.add(entry.id)
            self.ledger.setdefault(entry.id, entry)
        self._keep_ledger()
        return {entry.service: entry.id for entry in entries}

    def _order(self, cost: CostPlan) -> None:
        begun = self._begin(cost.orders)
        for order in cost.orders:
            key, request = order
            if not self._is_new(order):
                continue
            part = key, _version(order)
            self.asked.add(part)
            ident = f"{self.setup.cluster}/{key}"
            place = {name: request[name] for name in ("metro", "facility") if name in request}
            try:
                made = self.effects.reserve(self.provider, request, key)
                if made is None:
                    self.outcome.create(
                        "Reservation", ident, dict(place, tags=request["tags"], address="(known after apply)")
                    )
                    continue
            except ValueRefused as error:
                self.unserved.add(part)
                if not self._goes_without(part, error):
                    self._refuse("service " + key, error.reason, error.message)
                if error.reason == "auth":  # nobody else gets one either
                    self.asked.update((one.service, _version(one)) for one in cost.orders)
                    break
                continue
            self.held.append(made)
            self.given += [made.address] if self.setup.static else []
            self.outcome.create(
                "Reservation", ident, dict(place, tags=list(made.tags), address=made.address, state=made.state)
            )
            if not self.setup.static:
                self.ledger.pop(begun.get(key, ""), None)
                self.ledger[made.id] = Entry(made.id, made.address, made.cidr, made.tags, key, "", self.provider.now)
                self._keep_ledger()  # at once: without this record it could never be released again

    def _goes_without(self, part: PartKey, error: ValueRefused) -> bool:
        """Whether a Service that prefers both families is served by the other one alone."""
        parts = [item for item in self.state.services if item.key == part[0]]
        others = [item for item in parts if item.version != part[1] and (item.key, item.version) not in self.unserved]
        if error.reason != "quota" or not others or any(item.required for item in parts):
            return False
        self.outcome.warnings.append(
            f"{self.setup.cluster}/{part[0]}: it goes without an IPv{part[1]} address: {error.message}"
        )
        return True

    def _note_retained(self) -> None:
        """Which addresses their Services want kept: it stands in an annotation that goes with the Service."""
        our_class = self._context(None).our_class
        options = {item.key: retains(item) for item in self.state.services if not left_alone(item, our_class)}
        for ident, entry in self.ledger.items():
            wish = options.get(entry.service, entry.retain)
            if wish == entry.retain or not self.options.handles(entry.service) or ident.startswith(ORDERING):
                continue
            self.ledger[ident] = entry._replace(retain=wish)
            sides = [{"address": entry.address, "retain": value} for value in (entry.retain, wish)]
            if ident in self.written:  # a new one is reported as such
                self.outcome.update("Reservation", f"{self.setup.cluster}/{entry.service}", *sides)

    def _note_sharers(self, cost: CostPlan) -> None:
        """Who has an address alongside the Service that holds it: when that one goes, the address is theirs."""
        users: dict[str, set[str]] = {}
        for key, networks in cost.networks.items() if self.setup.static else ():
            for network in networks:
                users.setdefault(network.partition("/")[0], set()).add(key)
        for ident, entry in self.ledger.items():
            sharers = tuple(sorted(users.get(entry.address, set()) - {entry.service}))
            if sharers != entry.sharers and entry.service in users.get(entry.address, ()):
                self.ledger[ident] = entry._replace(sharers=sharers)
                sides = [{"address": entry.address, "sharers": list(value)} for value in (entry.sharers, sharers)]
                self.outcome.update("Reservation", f"{self.setup.cluster}/{entry.service}", *sides)

    def _note_groups(self, cost: CostPlan) -> None:
        """In which group nodes of a segment stand by for an address, where that has to be remembered."""
        numbers, refused = self._groups(cost)
        routes = {route.network.partition("/")[0]: route for route in self._routes(cost)}
        for address, error in refused.items():
            for key in routes[address].services:
                self._refuse("service " + key, error.reason, error.message)
        for ident, entry in self.ledger.items():
            route = routes.get(entry.address)
            number = numbers.get(entry.address, 0) if route is not None and route.health_ports else 0
            if number != entry.group:
                self.ledger[ident] = entry._replace(group=number)
                sides = [{"address": entry.address, "group": value} for value in (entry.group, number)]
                self.outcome.update("Reservation", f"{self.setup.cluster}/{entry.service}", *sides)

    def _groups(self, cost: CostPlan) -> tuple[dict[str, int], dict[str, ValueRefused]]:
        """Address -> the number of its group, and why others have none; nothing where no nodes stand in for each other."""
        if not self.setup.segments:
            return {}, {}
        desired = {route.network.partition("/")[0]: route.health_ports for route in self._routes(cost)}
        recorded = {entry.address: entry.group for entry in self.ledger.values()}
        return number_groups(desired, recorded, self.setup.reserved_groups)

    def _routes(self, cost: CostPlan) -> list[Route]:
        return routes_of(self._networks(cost), self.state.objects)

    def _hand_over(self) -> None:
        """An address whose Service is gone belongs to those that shared it then."""
        if not (self.setup.static and self.options.gives and self.options.mode == SYNC):
            return
        context = self._context(None)
        known = {item.key for item in self.state.services if counts(item, context.our_class)}
        for ident, entry in self.ledger.items():
            if not entry.sharers or not entry.service or entry.service in known or entry.retain:
                continue
            heirs = [
                item
                for item in self.state.services
                if item.key in entry.sharers and entry.address in (address_of(item, context.backend), *item.ingress)
            ]
            if heirs:
                heir = min(heirs, key=lambda item: item.key)
                tags = tuple(service_tags(context.owner, heir.namespace, heir.name))
                made = entry._replace(
                    service=heir.key, tags=tags, sharers=tuple(key for key in entry.sharers if key != heir.key)
                )
                self.ledger[ident] = made
                self.held = [made.reservation() if item.id == ident else item for item in self.held]
                sides = [{"address": entry.address, "service": one.service} for one in (entry, made)]
                self.outcome.update("Reservation", f"{self.setup.cluster}/{heir.key}", *sides)

    def _keep_ledger(self) -> None:
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

    # -- Services and the back end -----------------------------------------------------------------------------------

    def _write(self, puts: t.Sequence[Put]) -> None:
        done = self.effects.put(puts)
        self.outcome.changes += done.changes
        self.outcome.refused += done.refused
        self.failed += done.failed

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
        self._write(backend.puts)
        return backend

    def _hand_back(self) -> None:
        """Everything stays as it is, and none of it is ours any more: the original finds its own. Our record goes when all else is written."""
        ours = [item for item in self.state.services if counts(item, self._context(None).our_class)]
        mine = [item.key for item in ours if item.set_by_us or item.reported or item.key in self.served]
        before = len(self.failed)
        self._write(released.release_puts(self.client, self.setup, self.state, mine))
        gone = [ident for ident, entry in self.ledger.items() if entry.service]
        if not gone or len(self.failed) > before:
            return
        ident = f"{self.setup.cluster}/kube-system/{self.state.ledger_name}"
        self.outcome.update(
            "ConfigMap", ident, {"addresses": sorted(self.ledger[one].address for one in gone)}, {"addresses": []}
        )
        for one in gone:
            del self.ledger[one]
        self._keep_ledger()

    # -- what nobody uses any more -----------------------------------------------------------------------------------

    def _release(self, cost: CostPlan, backend: backends.BackendPlan) -> None:
        actions, notes = self._leftovers()
        self.outcome.warnings += [f"{self.setup.cluster}: {note}" for note in notes]
        releases = self._unmapped([action for action in actions if action.action == RELEASE], backend)
        if releases and self.proof is not None and self.proof.unproven is not None:
            for action in releases:
                name = f"reservation {self.setup.cluster}/{action.address or action.id}"
                self._refuse(name, self.proof.unproven.reason, self.proof.unproven.message)
            releases = []
        refusal = self._over_budget(cost, releases)
        if refusal is not None:
            self.outcome.refused.append(refusal)
            return
        self.releases = [str(action.address or action.id) for action in releases]
        if not self.options.release:
            return
        self._write(
            service_puts(
                self.setup, self.state, [action for action in actions if action.action not in (RELEASE, UNMAP, RESERVE)]
            )
        )
        for action in releases:
            self._give_back(action)
        self._let_go()
        written = {item.key: item.ours for item in self.state.services}
        self._write(
            moving.leave_puts(self.setup.cluster, self.state.objects, actions, self.options.keep, is_ours, written)
        )
        if not self.setup.static:
            for ident in set(self.ledger) - {item.id for item in self.held} - self.begun:
                del self.ledger[ident]  # somebody else released it, or nobody asks for it any more
        self._keep_ledger()

    def _let_go(self) -> None:
        """The finalizer of cloud controllers goes from Services of which nothing is left to give back: else they could never be deleted.

        Only from those that were ours: another controller that still serves one has something of its own to give back.
        """
        context = self._context(None)
        actions: list[Action] = []
        for service in {item.key: item for item in self.state.services}.values():
            goes = service.leaving or self.options.mode == ABSENT
            if not (service.held_back and goes and self.options.mode in (SYNC, ABSENT)) or left_alone(
                service, context.our_class
            ):
                continue
            kept = context.reclaim_policy == RETAIN or retains(service)
            rest = matches_of(self.held, context.owner, service.namespace, service.name)
            if (service.set_by_us or service.reported or service.key in self.served) and (kept or not rest):
                actions.append(Action(LET_GO, service.key))
        self._write(service_puts(self.setup, self.state, actions))

    def _leftovers(self) -> tuple[list[Action], list[str]]:
        """The steps for what no Service uses any more, and notes."""
        context, mode = self._context(None), self.options.mode
        if mode == SYNC:
            swept = orphans(self.state.services, self.held, context, self.options.confirmed)
            return swept.actions, list(swept.notes)
        actions: list[Action] = []
        notes: list[str] = []
        for service in self._leaving(context) if mode in (REMOVE, ABSENT) else ():
            try:
                outcome = removal_of(service, self.held, context)
            except ValueRefused as error:
                self._refuse("service " + service.key, error.reason, error.message)
                continue
            actions, notes = actions + outcome.actions, notes + list(outcome.notes)
            kept = context.reclaim_policy == RETAIN or retains(service) or left_alone(service, context.our_class)
            ours = service.set_by_us or (context.reports_status and service.reported and not service.address)
            if mode == ABSENT and self.options.keep:
                stays = (ours or service.reported or service.key in self.served) and not left_alone(
                    service, context.our_class
                )
                actions = [action for action in actions if action.action != CLEAR_ADDRESS]
                actions += (
                    [Action(LEAVE, service.key)]
                    if stays and service.key not in [one.service for one in actions if one.action == LEAVE]
                    else []
                )
            elif (
                ours
                and not kept
                and service.key not in [action.service for action in actions if action.action == CLEAR_ADDRESS]
            ):
                actions.append(Action(CLEAR_ADDRESS, service.key, address_of(service, context.backend)))
        if mode == ABSENT:
            others = [item for item in self.state.services if not counts(item, context.our_class)]
            actions += [
                action
                for action in orphans(others, self.held, context._replace(gc_orphans=True), True).actions
                if action not in actions
            ]
        return actions, notes

    def _over_budget(self, cost: CostPlan, releases: t.Sequence[Action]) -> Refusal | None:
        if self.options.mode != SYNC:
            return None
        ours = len([item for item in self.held if item.id in self.ledger])
        refusal = check_budget(
            self.setup.cluster,
            "reservation",
            ours,
            len(releases),
            ours - len(releases),
            self.options.max_deletes,
            self.options.confirmed or bool(cost.outcomes),
        )
        if refusal is None or ours != len(releases) or self.options.max_deletes == 0:
            return refusal
        self.kept = sorted(str(action.address or action.id) for action in releases)
        named = ", ".join(self.kept[:NAMED]) + ("" if len(self.kept) <= NAMED else ", ...")
        first = next((row for row in self.refusals.values() if row.object.startswith("service ")), None)
        # a cluster whose Services are all refused is not empty: to confirm that it were would mend nothing
        message = (
            KEPT.format(named, self.setup.cluster)
            if first is None
            else KEPT_ALONGSIDE_REFUSED.format(named, first.object, first.reason)
        )
        if self.options.release:
            self.outcome.warnings.append(f"{self.setup.cluster}: {message}")
        return refusal._replace(message=message)

    def _unmapped(self, releases: t.Sequence[Action], backend: backends.BackendPlan) -> list[Action]:
        """Without those whose address the load balancer still announces: what could not be taken from it is not given back either."""
        networks = {item.id: item.network for item in self.held}
        left = [action for action in releases if networks.get(action.id) not in backend.mapped]
        for action in releases:
            if action not in left:
                name = f"reservation {self.setup.cluster}/{action.address or action.id}"
                self._refuse(
                    name,
                    "not_ours",
                    "the load balancer still has its address in a pool that is not ours; it is given back when that is gone",
                )
        return left

    def _leaving(self, context: Context) -> list[Service]:
        if self.options.mode == ABSENT:
            return [item for item in self.state.services if counts(item, context.our_class)]
        found: list[Service] = []
        for key in self.options.services:
            gone = Service(key.partition("/")[0], key.partition("/")[2], "")
            found += [item for item in self.state.services if item.key == key] or [gone, gone._replace(version=6)]
        return found

    def _give_back(self, action: Action) -> None:
        entry = self.ledger.get(action.id)
        ident = f"{self.setup.cluster}/{(entry.service if entry else '') or action.id}"
        change = Change("delete", "Reservation", ident, {"address": str(action.address), "id": action.id}, None)
        try:
            self.effects.release(self.provider, action.id)
        except ValueRefused as error:
            self._refuse("service " + ident.partition("/")[2], error.reason, error.message)
            return
        self.outcome.changes.append(change)
        self.held = [item for item in self.held if item.id != action.id]
        self.ledger.pop(action.id, None)

    # -- what the module shows ---------------------------------------------------------------------------------------

    def _announced(self, cost: CostPlan) -> set[str]:
        """What nodes announce afterwards: of all Services, also in a run that handles some of them."""
        if self.options.mode == ABSENT:
            return set()
        return {network for networks in self._networks(cost).values() for network in networks}

    def _networks(self, cost: CostPlan) -> dict[str, tuple[str, ...]]:
        gone = self.options.services if self.options.mode == REMOVE else ()
        return {key: networks for key, networks in cost.networks.items() if key not in gone}

    def _speaking(self, cost: CostPlan) -> dict[str, t.Any]:
        """What our speakers need, alongside the networks: routes with the ports that say whether a node can deliver, and nodes that announce nothing."""
        if self.setup.balancer.type != EMPTY or self.options.mode == ABSENT:
            return {"routes": [], "left_out": {}, "segments": {}}
        numbers = self._groups(cost)[0]
        routes = [route._replace(group=numbers.get(route.network.partition("/")[0], 0)) for route in self._routes(cost)]
        out = left_out(self.state.nodes, self.setup.exclude_cordoned, self.setup.not_ready_seconds, self.began)
        return {"routes": [route.shown() for route in routes], "left_out": out, "segments": dict(self.setup.segments)}

    def _shown(self, cost: CostPlan, backend: backends.BackendPlan, speakers: t.Sequence[NodeBgp]) -> dict[str, t.Any]:
        setup, rows, served = self.setup, t.cast(dict[str, dict[str, t.Any]], {}), t.cast(list[Row], [])
        owner, balancer = setup.owner(self.state.uid), setup.balancer.type
        mapped = cost.networks if self.options.gives else {}
        why = silence(balancer, setup.announced_by, setup.speakers, backend.silent)
        speaking = self._speaking(cost)
        why = why or all_left_out(setup.speakers, speaking["left_out"])
        planned = {(change.kind, change.id): change for change in self.outcome.changes}
        for service in sorted(self.state.services, key=lambda item: item.key) if setup.balancer.enabled else ():
            if not counts(service, setup.our_class):
                continue
            mine = next(
                iter(
                    matches_of(
                        self.held, owner, service.namespace, service.name, service.version if setup.static else 0
                    )
                ),
                None,
            )
            has = address_of(service, balancer)
            ident = f"{setup.cluster}/{service.key}"
            change = planned.get(("Service", ident))
            if change is not None and isinstance(change.after, dict):
                has = of_family(str(change.after.get("address", has)), service)
            if (
                not has and balancer == EMPTY
            ):  # only the status and the record have it: of a second family, or where an annotation asks for it
                status = planned.get(("Service status", ident))
                has = of_family(",".join(network.partition("/")[0] for network in mapped.get(service.key, ())), service)
                has = has if has in service.ingress or status is not None else ""
            served.append(
                Row(service.key, has if service.key in mapped else "", change is None, has in service.ingress)
            )
            found = states(has, mine, backend.mapped)
            row = dict(
                found._asdict(),
                service=service.key,
                address=has,
                ready=found.ready,
                state=found.state,
                reservation=mine.id if mine is not None else "",
                addresses=[has] if has else [],
            )
            rows[service.key] = alongside(rows[service.key], row) if service.key in rows else row
        return {
            "provider": setup.provider,
            "load_balancer": balancer,
            "services": list(rows.values()),
            "pools": self._pools(),
            "announce": sorted(self._announced(cost)) if balancer == EMPTY else [],
            **speaking,
            "unannounced": unannounced(served, balancer, why, setup.families if balancer == EMPTY else None),
            "nodes": [node.name for node in speakers],
            "former": self.former,
            "releases": self.releases,
            "released": self.options.release,
            "kept": self.kept,
            "cost": {
                "orders": [] if self.effects.writes else [order.service for order in cost.orders],
                "before": cost.before,
                "after": cost.after,
                "limit": cost.limit,
            },
        }

    def _notices(self, cost: CostPlan) -> list[Notice]:
        """What the Events of Services say: to whom this run gave an address, and whom it refuses."""
        found: list[Notice] = []
        changed = {change.id for change in self.outcome.changes if change.kind in ("Service", "Service status")}
        for service in {item.key: item for item in self.state.services}.values():
            ident = f"{self.setup.cluster}/{service.key}"
            refusal = self.refusals.get("service " + ident)
            if refusal is not None:
                found.append(refused(service.namespace, service.name, service.uid, refusal.reason, refusal.message))
            elif self.options.gives and ident in changed and cost.networks.get(service.key):
                addresses = [network.partition("/")[0] for network in cost.networks[service.key]]
                text = given_text(
                    [(address, self.setup.pool_of(address) if self.setup.strict else "") for address in addresses]
                )
                found.append(Notice(service.namespace, service.name, service.uid, NORMAL, GIVEN, text))
        return found

    def _pools(self) -> list[dict[str, t.Any]]:
        """How the pools are used after this run, which says when it took the last address of one."""
        if not self.setup.static or not self.setup.balancer.enabled:
            return []
        rows = usage(self.setup.pools, self.provider.held())
        drawn = {(self.setup.pool_of(address), parse_address(address).version) for address in self.given}
        for row in rows:
            if row.free < 1 and (row.pool, row.family) in drawn:
                text = "{0}: this run takes the last IPv{1} address of the pool {2}, {3} in all; the next Service that wants one gets none"
                self.outcome.warnings.append(text.format(self.setup.cluster, row.family, row.pool, row.total))
        return [row._asdict() for row in rows]


def _part(service: Service) -> PartKey:
    return service.key, service.version


def _version(order: Order) -> int:
    return int(order.request.get("version", 4))


def service_key(text: str) -> ServiceKey:
    namespace, dummy, name = text.partition("/")
    return namespace, name
