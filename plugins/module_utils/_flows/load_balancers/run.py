# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One pass over one cluster: what its Services need, asked of the provider, told to the cluster (ccm 9, 13)."""

from __future__ import annotations

import typing as t

from ..._io.host_metadata import host_facility
from ..._kubernetes.client import Client
from ..._kubernetes.errors import KubeError
from ..._loadbalancers.address_claims import AddressRules, check_address_claims
from ..._loadbalancers.address_states import NAMED, Row, sentences, silence, states, unannounced
from ..._loadbalancers.bgp.values import NodeBgp
from ..._loadbalancers.ledger import Entry, Ledger, believed, holders
from ..._loadbalancers.live_addresses import Settling, give_up, parse_given, settle
from ..._loadbalancers.load_balancer_setting import EMPTY
from ..._loadbalancers.reservations import Reservation, matches_of, service_tags
from ..._loadbalancers.service_plan import RELEASE, RESERVE, RETAIN, UNMAP, Action, Context, CostPlan, cost_plan, mapped_networks, orphans, removal_of
from ..._loadbalancers.services import LOAD_BALANCER, Service, address_of, counts, left_alone, retains
from ..._loadbalancers.setup import Setup
from ..._plan.budget import check_budget
from ..._plan.plan import Change, Plan, Refusal
from ..._values.addresses import parse_address
from ..._values.refused import ValueRefused
from . import backends, bgp as bgp_facts, services as service_writes
from .ledger_store import keep_ledger
from .read import State, make_provider, read_state
from .writes import Put, put_all

_KEY = t.Tuple[str, str]
KEPT = "no Service wants an address any more, and {0}{1} stay until you say that this is right: load_balancers_confirm_empty: [{2}]"


class Report(t.NamedTuple):
    """The plan, or what of it took place; failures; what the module shows of the cluster; calls of the provider."""

    plan: Plan
    failed: t.List[KubeError]
    shown: t.Dict[str, t.Any]
    calls: int


class Proof(t.NamedTuple):
    """Whose reservations a cluster's are, where clusters share a provider: the UID that was checked against those of the others, None
    for one that was refused or did not answer; and why nothing may be released by it, or None."""

    uid: t.Optional[str]
    unproven: t.Optional[ValueRefused]


def nothing() -> None:
    """The check before each write of a run that writes nothing."""


class Run:
    """``dry``: nothing is written and nothing ordered; ``check`` is called before every write and raises when it must not be."""

    def __init__(
        self, client: Client, setup: Setup, request: t.Mapping[str, t.Any], manager: str,
        check: t.Callable[[], None] = nothing, now: str = "", dry: bool = False, proof: t.Optional[Proof] = None,
    ) -> None:  # fmt: skip
        self.client, self.setup, self.request, self.manager = client, setup, request, manager
        self.check, self.dry = check, dry
        self.plan, self.failed = Plan(), t.cast(t.List[KubeError], [])
        self.plan.warnings += setup.warnings
        self.mode = "absent" if request.get("state") == "absent" else request.get("mode") or "sync"
        self.refusals: t.Dict[str, Refusal] = {}
        self.state: State = read_state(client, setup)
        self.proof = proof
        if proof is not None and setup.balancer.enabled and self.state.uid != proof.uid:
            raise ValueRefused("claimed_twice", "the UID of its namespace kube-system changed while this run read it; nothing of it is touched")
        if setup.static:
            self.state.ledger, left_out = believed(
                self.state.ledger, setup.others, setup.reserved, {str(setup.settings.values["eip_tag"])} - {""}
            )
            for address, error in left_out:
                self._refuse("reservation {0}/{1}".format(setup.cluster, address), error.reason, "the cluster's record has it: " + error.message)
        self.provider = make_provider(setup, self.state, now, float(request.get("timeout") or 120.0))
        self.held: t.List[Reservation] = self.provider.list_addresses() if setup.balancer.enabled else []
        self.ledger: Ledger = self.state.ledger
        self.before = dict(self.ledger)
        self.nodes: t.List[NodeBgp] = []
        self.releases: t.List[str] = []
        self.kept: t.List[str] = []
        self.host_facility = ""
        self._settle()

    # -- what belongs to the pass ------------------------------------------------------------------------------------

    def report(self) -> Report:
        """Do all of it."""
        told = backends.BackendPlan([], [], [], frozenset())
        cost = CostPlan([], [], 0, 0, None, [], {}, orphans(None, [], self._context(None)))
        if self.setup.balancer.enabled:
            facts = bgp_facts.gather(self.setup, self.provider, self.state, self.mode, self.dry, self.plan)
            self.nodes, limit = facts.nodes, facts.limit
            cost = self._addresses(limit)
            if self.mode != "remove":
                bgp_facts.annotate(self.client, self.setup, self.state, facts, self.request, self.manager, self.plan, self.failed, self.mode, self.dry)
            told = self._tell(cost, facts)
            self._release(cost, told)
        self.plan.warnings += self.provider.warnings()
        shown = self._shown(cost, told)
        self.plan.warnings += sentences(self.setup.cluster, shown["unannounced"])
        return Report(self.plan, self.failed, shown, getattr(self.provider, "calls", 0))

    def _context(self, limit: t.Optional[int]) -> Context:
        return self.setup.context(self.state.uid, self.state.ledger, limit, self.host_facility)

    def _selected(self, key: str) -> bool:
        named = self.request.get("services") or ()
        return not named or key in named

    def _rules(self) -> AddressRules:
        context = self._context(None)
        return AddressRules(context.owner, context.backend, context.our_class, context.control_plane_tag, holders(self.ledger), self.setup.others,
                            self.setup.reserved)  # fmt: skip

    def _settle(self) -> None:
        """What is given up looks as if it were not there; what is in use and stands in the status only stays where it can be ours."""
        if not (self.setup.balancer.enabled and self.mode in ("sync", "add")):
            return
        rules, given = self._rules(), parse_given(self.request.get("renumber") or ())
        annotation = self.setup.given.get("service_ip_field") == "annotation"
        services = give_up(self.state.services, self.held, rules, self.setup.pool, given, annotation)
        adopt = bool(self.request.get("adopt"))
        self.state.services = settle(services, self.held, Settling(rules, self.setup.pool, adopt, self._selected))

    def _adopt(self) -> None:
        """Addresses of the pool that Services have already, from another controller, become reservations of theirs."""
        if not (self.setup.static and self.request.get("adopt") and self.mode in ("sync", "add")):
            return
        context = self._context(None)
        for service in check_address_claims(self.state.services, self.held, self._rules())[0]:
            text = address_of(service, context.backend) if counts(service, context.our_class) and self._selected(service.key) else ""
            if not text or text not in self.setup.pool or matches_of(self.held, context.owner, service.namespace, service.name):
                continue
            address = str(parse_address(text))
            if any(item.address == address for item in self.held):
                continue  # two Services share it, and the first one holds it
            tags = tuple(service_tags(context.owner, service.namespace, service.name))
            self.ledger[address] = Entry(address, address, parse_address(address).max_prefixlen, tags, service.key, "", self.provider.now)
            self.held.append(self.ledger[address].reservation())
            self.plan.create("Reservation", "{0}/{1}".format(self.setup.cluster, service.key), {"address": address, "tags": list(tags), "adopted": True})

    def _addresses(self, limit: t.Optional[int]) -> CostPlan:
        self._adopt()
        cost = self._costs(limit)
        if any(reason == "no_location" for dummy, reason, dummy_message in cost.refused) and self.mode in ("sync", "add"):
            cost = self._placed(cost, limit)
        if self.mode in ("sync", "add") and cost.orders:
            self._order(cost)
            cost = self._costs(limit)
        for key, reason, message in cost.refused:
            if self._selected(key) and (self.mode in ("sync", "add") or reason not in ("adoptable", "outside_grant")):
                self._refuse("service " + key, reason, message)
        if self.mode in ("sync", "add"):
            self._note_retained()
        self._keep_ledger()
        if self.mode in ("sync", "add"):
            self._write(self._service_puts([action for key in cost.outcomes if self._served(key, cost) for action in cost.outcomes[key].actions]))
        for key, outcome in cost.outcomes.items():
            self.plan.warnings += ["{0}/{1}: {2}".format(self.setup.cluster, key, note) for note in outcome.notes]
        return cost

    def _placed(self, cost: CostPlan, limit: t.Optional[int]) -> CostPlan:
        """The last resort, as in the original: the facility of the host, asked only where a Service knows no other place."""
        url = self.setup.given.get("metadata_url")
        if not url:
            return cost
        try:
            self.host_facility = host_facility(str(url), bool(self.setup.given.get("allow_plain_http")))
        except ValueRefused as error:
            return cost._replace(refused=[(key, reason, error.message if reason == error.reason else text) for key, reason, text in cost.refused])
        return self._costs(limit)

    def _served(self, key: str, cost: CostPlan) -> bool:
        """Whether a Service has an address, or would have one: an order that was refused has no consequences."""
        if not any(action.action == RESERVE for action in cost.outcomes[key].actions):
            return self._selected(key)
        return self._selected(key) and self.dry and "service {0}/{1}".format(self.setup.cluster, key) not in self.refusals

    def _costs(self, limit: t.Optional[int]) -> CostPlan:
        context = self._context(limit)
        kept, refused = check_address_claims(self.state.services, self.held, self._rules())
        for refusal in refused:
            self._refuse(*refusal)
        kept = [service for service in kept if self._is_believed(service, context)]
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
                self._refuse("service " + service.key, error.reason, "the provider says that it is reserved for it: " + error.message)
                return False
        return True

    def _refuse(self, obj: str, reason: str, message: str) -> None:
        label = obj.replace("service ", "service {0}/".format(self.setup.cluster), 1)
        if label not in self.refusals:
            self.refusals[label] = Refusal(label, reason, message)
            self.plan.refused.append(self.refusals[label])

    # -- orders ------------------------------------------------------------------------------------------------------

    def _order(self, cost: CostPlan) -> None:
        for order in cost.orders:
            key, request = order["service"], order["request"]
            if not self._selected(key):
                continue
            ident = "{0}/{1}".format(self.setup.cluster, key)
            place = {name: request[name] for name in ("metro", "facility") if name in request}
            if self.dry and not getattr(self.provider, "predicts", False):
                self.plan.create("Reservation", ident, dict(place, tags=request["tags"], address="(known after apply)"))
                continue
            try:
                self.check()
                made = self.provider.reserve_address(request, key)
            except ValueRefused as error:
                self._refuse("service " + key, error.reason, error.message)
                if error.reason == "auth":
                    break
                continue
            self.held.append(made)
            self.plan.create("Reservation", ident, dict(place, tags=list(made.tags), address=made.address, state=made.state))
            if not self.setup.static:
                self.ledger[made.id] = Entry(made.id, made.address, made.cidr, made.tags, key, "", self.provider.now)
                self._keep_ledger()  # at once: without this record it could never be released again

    def _note_retained(self) -> None:
        """Which addresses their Services want kept: it stands in an annotation that goes with the Service."""
        our_class = self._context(None).our_class
        wishes = {item.key: retains(item) for item in self.state.services if not left_alone(item, our_class)}
        for ident, entry in self.ledger.items():
            wish = wishes.get(entry.service, entry.retain)
            if wish == entry.retain or not self._selected(entry.service):
                continue
            self.ledger[ident] = entry._replace(retain=wish)
            sides = [{"address": entry.address, "retain": value} for value in (entry.retain, wish)]
            if ident in self.before:  # a new one is told as such
                self.plan.update("Reservation", "{0}/{1}".format(self.setup.cluster, entry.service), *sides)

    def _keep_ledger(self) -> None:
        """Write the record if it differs, over what the control plane's address has made of it since it was read."""
        for item in self.held:
            entry = self.ledger.get(item.id)
            if entry is not None and entry.address != item.address and not self.setup.static:
                self.ledger[item.id] = entry._replace(address=item.address, cidr=item.cidr)  # a pending one has come
        if self.ledger == self.before:
            return
        if self.dry:
            self.state.ledger_object = dict(self.state.ledger_object or {"metadata": {"resourceVersion": ""}})
        else:
            self.state.ledger_object = keep_ledger(
                self.client, self.state.ledger_name, self.before, self.ledger, self.state.ledger_object, self.manager, self.check
            )
        self.before = dict(self.ledger)

    # -- Services and the back end -----------------------------------------------------------------------------------

    def _service_puts(self, actions: t.Iterable[Action]) -> t.List[Put]:
        return service_writes.puts(self.setup, self.state, actions)

    def _write(self, puts: t.Sequence[Put]) -> None:
        if self.dry:
            self.plan.changes += [put.change for put in puts]
            return
        done = put_all(self.client, puts, self.manager, self.check, bool(self.request.get("leave_conflicts")))
        self.plan.changes += done.changes
        self.plan.refused += done.refused
        self.failed += done.failed

    def _tell(self, cost: CostPlan, facts: bgp_facts.Facts) -> backends.BackendPlan:
        networks: t.Dict[_KEY, str] = {}
        gone: t.List[_KEY] = []
        if self.mode in ("sync", "add"):
            for key, network in mapped_networks(cost).items():
                if self.mode == "sync" or self._selected(key):
                    networks[t.cast(_KEY, tuple(key.split("/", 1)))] = network
        elif self.mode == "remove":
            gone = [t.cast(_KEY, tuple(key.split("/", 1))) for key in self.request.get("services") or ()]
        reserved = frozenset(item.network for item in self.held if item.address)
        refused = (*self.refusals.values(), *facts.refused)
        wanted = backends.BackendRequest(
            self.mode, networks, self.nodes, facts.alive, facts.whole, reserved, tuple(gone), refused,
            bool(self.request.get("adopt")), self.request.get("max_deletes"), self.setup.cluster in (self.request.get("confirm_empty") or ()),
        )  # fmt: skip
        told = backends.plan_backend(self.client, self.setup, self.state.backend, wanted, self.manager)
        self.plan.refused += told.refused
        self.plan.warnings += ["{0}: {1}".format(self.setup.cluster, note) for note in told.notes]
        self._write(told.puts)
        return told

    # -- what nobody uses any more -----------------------------------------------------------------------------------

    def _release(self, cost: CostPlan, told: backends.BackendPlan) -> None:
        context, actions = self._context(None), t.cast(t.List[Action], [])
        notes: t.List[str] = []
        confirmed = self.setup.cluster in (self.request.get("confirm_empty") or ())
        if self.mode == "sync":
            swept = orphans(self.state.services, self.held, context, confirmed)
            actions, notes = swept.actions, list(swept.notes)
        elif self.mode in ("remove", "absent"):
            for service in self._leaving(context):
                try:
                    outcome = removal_of(service, self.held, context)
                except ValueRefused as error:
                    self._refuse("service " + service.key, error.reason, error.message)
                    continue
                actions, notes = actions + outcome.actions, notes + list(outcome.notes)
                kept = context.reclaim_policy == RETAIN or retains(service) or left_alone(service, context.our_class)
                if service.set_by_us and not kept:
                    actions.append(Action("clear_service_ip", service.key, address_of(service, context.backend)))
            if self.mode == "absent":
                swept = orphans([item for item in self.state.services if not counts(item, context.our_class)], self.held,
                                context._replace(gc_orphans=True), True)  # fmt: skip
                actions = actions + [action for action in swept.actions if action not in actions]
        self.plan.warnings += ["{0}: {1}".format(self.setup.cluster, note) for note in notes]
        releases = self._unmapped([action for action in actions if action.action == RELEASE], told)
        if releases and self.proof is not None and self.proof.unproven is not None:
            for action in releases:
                name = "reservation {0}/{1}".format(self.setup.cluster, action.address or action.id)
                self._refuse(name, self.proof.unproven.reason, self.proof.unproven.message)
            releases = []
        ours = [item for item in self.held if item.id in context.recorded]
        refusal = None
        if self.mode == "sync":
            refusal = check_budget(self.setup.cluster, "reservation", len(ours), len(releases), len(ours) - len(releases),
                                   self.request.get("max_deletes"), confirmed or bool(cost.outcomes))  # fmt: skip
        if refusal is not None:
            if len(ours) == len(releases) and self.request.get("max_deletes") != 0:
                self.kept = sorted(str(action.address or action.id) for action in releases)
                refusal = refusal._replace(message=KEPT.format(", ".join(self.kept[:NAMED]), "" if len(self.kept) <= NAMED else ", ...", self.setup.cluster))
                if self.request.get("release") is not False:
                    self.plan.warnings.append("{0}: {1}".format(self.setup.cluster, refusal.message))
            self.plan.refused.append(refusal)
            return
        self.releases = [str(action.address or action.id) for action in releases]
        if self.request.get("release") is False:
            return
        self._write(self._service_puts([action for action in actions if action.action not in (RELEASE, UNMAP, RESERVE)]))
        for action in releases:
            self._give_back(action)
        for ident in [ident for ident in self.ledger if not self._exists(ident)]:
            if not self.setup.static:
                del self.ledger[ident]  # somebody else released it
        self._keep_ledger()

    def _unmapped(self, releases: t.Sequence[Action], told: backends.BackendPlan) -> t.List[Action]:
        """Without those whose address the load balancer still announces: what could not be taken from it is not given back either."""
        networks = {item.id: item.network for item in self.held}
        left = [action for action in releases if networks.get(action.id) not in told.mapped]
        for action in releases:
            if action not in left:
                name = "reservation {0}/{1}".format(self.setup.cluster, action.address or action.id)
                self._refuse(name, "not_ours", "the load balancer still has its address in a pool that is not ours; it is given back when that is gone")
        return left

    def _exists(self, ident: str) -> bool:
        return any(item.id == ident for item in self.held)

    def _leaving(self, context: Context) -> t.List[Service]:
        if self.mode == "absent":
            return [item for item in self.state.services if counts(item, context.our_class)]
        known = {item.key: item for item in self.state.services}
        return [known.get(key) or Service(key.partition("/")[0], key.partition("/")[2], "") for key in self.request.get("services") or ()]

    def _give_back(self, action: Action) -> None:
        entry = self.ledger.get(action.id)
        ident = "{0}/{1}".format(self.setup.cluster, (entry.service if entry else "") or action.id)
        change = Change("delete", "Reservation", ident, {"address": str(action.address), "id": action.id}, None)
        try:
            if not self.dry:
                self.check()
            if not self.dry or getattr(self.provider, "predicts", False):
                self.provider.release_address(action.id)
        except ValueRefused as error:
            self._refuse("service " + ident.partition("/")[2], error.reason, error.message)
            return
        self.plan.changes.append(change)
        self.held = [item for item in self.held if item.id != action.id]
        self.ledger.pop(action.id, None)

    # -- what the module shows ---------------------------------------------------------------------------------------

    def _announced(self, cost: CostPlan) -> t.Set[str]:
        """What nodes announce afterwards: of all Services, also in a run that handles some of them."""
        if self.mode == "absent":
            return set()
        gone = set(self.request.get("services") or ()) if self.mode == "remove" else set()
        return {network for key, network in mapped_networks(cost).items() if key not in gone}

    def _shown(self, cost: CostPlan, told: backends.BackendPlan) -> t.Dict[str, t.Any]:
        owner, rows, served = self.setup.owner(self.state.uid), [], t.cast(t.List[Row], [])
        mapped = mapped_networks(cost) if self.mode in ("sync", "add") else {}
        given = self.setup.given
        why = silence(self.setup.balancer.type, given.get("announced_by") or "", given.get("bgp_speakers"), told.silent)
        planned = {change.id: change for change in self.plan.changes if change.kind == "Service"}
        for service in sorted(self.state.services):
            if service.type != LOAD_BALANCER or not self.setup.balancer.enabled or not counts(service, self.setup.given.get("load_balancer_class") or ""):
                continue
            mine = next(iter(matches_of(self.held, owner, service.namespace, service.name)), None)
            has = address_of(service, self.setup.balancer.type)
            change = planned.get("{0}/{1}".format(self.setup.cluster, service.key))
            if change is not None and isinstance(change.after, dict):
                has = str(change.after.get("address", has))
            served.append(Row(service.key, has if service.key in mapped else "", change is None, has in service.ingress))
            found = states(has, mine, told.mapped)
            rows.append(dict(found._asdict(), service=service.key, address=has, ready=found.ready, state=found.state,
                             reservation=mine.id if mine is not None else ""))  # fmt: skip
        announce = sorted(self._announced(cost)) if self.setup.balancer.type == EMPTY else []
        return {
            "provider": self.setup.provider,
            "load_balancer": self.setup.balancer.type,
            "services": rows,
            "announce": announce,
            "unannounced": unannounced(served, self.setup.balancer.type, why),
            "nodes": [node.name for node in self.nodes],
            "releases": self.releases,
            "kept": self.kept,
            "cost": {
                "orders": [order["service"] for order in cost.orders] if self.dry else [],
                "before": cost.before, "after": cost.after, "limit": cost.limit,
            },
        }  # fmt: skip
