# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One address for the API servers of a cluster, kept with a healthy one (ccm 11). One pass; a timer repeats it.

The cluster is asked through whichever of its API servers answers, since the address may be what is broken. Through a Service in kube-system every
node accepts the address (ccm 11.4): that is written, and taken back. The address itself stays with its holder: who stops keeping it does not want
the API servers to become unreachable.
"""

from __future__ import annotations

import calendar
import functools
import time
import typing as t

from ..._io.commands import run_hook
from ..._io.https import HealthProbe
from ..._kubernetes.access import AccessRefused, parse_access
from ..._kubernetes.argspec import limits
from ..._kubernetes.client import Client
from ..._kubernetes.clusters import contained, seconds_of
from ..._kubernetes.errors import KubeError
from ..._kubernetes.lease import Lease
from ..._loadbalancers import control_plane as rules_of
from ..._loadbalancers.control_plane import FailureRecord, Hysteresis, may_move
from ..._loadbalancers.ledger import NAMESPACE, Entry, Ledger, ledger_name
from ..._loadbalancers.pools import refuse_unowned
from ..._loadbalancers.reservations import PROVIDER_PREFIXES, Reservation
from ..._loadbalancers.setup import Setup
from ..._plan.objects import field_manager
from ..._plan.plan import Plan, Refusal
from ..._values.addresses import parse_address
from ..._values.refused import ValueRefused
from .control_plane_service import release_service, remove_service, write_service
from .converge import LEASE, guarded, now, read_setups
from .read import ClusterState, make_provider
from .writes import keep_ledger, read_ledger

STATIC_PREFIX = "static"


def run(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """The module's result. Raises ValueRefused for options that make no sense."""
    manager = field_manager(request["fabric"])
    setups, failures = read_setups(request)
    given = {str(entry["name"]): entry for entry in request["clusters"]}
    whole, shown, requests = Plan(), t.cast(dict[str, t.Any], {}), t.cast(dict[str, t.Any], {})
    for name in sorted(setups):
        setup = setups[name]
        if not setup.eip_tag:
            continue  # switched off, without a message (ccm 11)
        try:
            one = Reconcile(given[name], setup, parse_run_options(request), manager, check)
            contained(name, "read the nodes", one.gather)
            try:
                work = {"absent": one.remove, "released": one.release}.get(str(request.get("state")), one.keep)
                contained(name, "keep the address", functools.partial(guarded, one.client, work))
            finally:
                whole.extend(one.plan)
                shown[name], requests[name] = one.shown, dict(sorted(one.client.stats.items()))
        except KubeError as error:
            failures.append(error.failure())
        except AccessRefused as error:
            failures.append(
                {
                    "cluster": name,
                    "operation": "use the access",
                    "reason": error.reason,
                    "message": error.message,
                    "status": None,
                }
            )
    result = whole.result()
    result.update(
        control_planes=shown,
        failures=failures,
        stats={"requests": requests},
        diff=whole.diff(),
        warnings=whole.warnings,
    )
    return result


class RunOptions(t.NamedTuple):
    """What the user asks of a run. ``address`` is the inventory's, for one's own pool; ``lock_seconds`` to wait for another run."""

    address: str
    assign_command: t.Sequence[str]
    api_urls: t.Sequence[str]
    probe_ca: str
    probe_server_name: str
    probe_verify_tls: bool
    probe_timeout: float
    probe_interval: float
    hysteresis: Hysteresis
    external_service: bool
    endpoints_as: str
    lock_seconds: float
    timeout: float
    adopt: bool = False


def parse_run_options(request: t.Mapping[str, t.Any]) -> RunOptions:
    return RunOptions(
        request.get("address") or "",
        request.get("assign_command") or (),
        request.get("api_urls") or (),
        request.get("probe_ca") or "",
        request.get("probe_server_name") or "",
        request.get("probe_verify_tls") is not False,
        seconds_of(request, "probe_timeout", 5.0),
        float(request.get("probe_interval") or 0),
        Hysteresis(int(request.get("probe_failures") or 1), float(request.get("rest_seconds") or 0)),
        request.get("external_service") is not False,
        request.get("endpoints_as") or "auto",
        float(request.get("lock_wait") or 0),
        seconds_of(request, default=60.0),
        bool(request.get("adopt")),
    )


class Reconcile:
    """One cluster: gather() finds an API server that answers, keep() or remove() does the rest. ``shown`` is what the module returns of it."""

    client: Client
    nodes: list[t.Any]

    def __init__(
        self, entry: t.Mapping[str, t.Any], setup: Setup, options: RunOptions, manager: str, check: bool
    ) -> None:
        self.entry, self.setup, self.options, self.manager, self.check = entry, setup, options, manager, check
        self.plan = Plan()
        self.shown: dict[str, t.Any] = {}
        self.tag = setup.eip_tag
        self.before: Ledger = {}
        self.eip = Reservation("", "")

    def gather(self) -> None:
        """A client of the first API server that answers, and the cluster's Nodes. Raises the first failure, AccessRefused."""
        failures: list[KubeError] = []
        seconds = self.options.timeout
        # a server that only takes connections must not use up the time of the others
        bounds = limits(seconds)._replace(
            tries=1, connect_seconds=min(5.0, seconds), request_seconds=min(10.0, seconds)
        )
        # the single servers first: connections to the address break when it moves
        for url in [*self.options.api_urls, ""]:
            self.client = Client(parse_access(dict(self.entry, api_url=url) if url else self.entry), bounds)
            try:
                self.nodes = self.client.list("/api/v1/nodes").items
                return
            except KubeError as error:
                failures.append(error)
        raise failures[0]

    def keep(self) -> None:
        """Probe, choose, move, then the Service that makes nodes accept the address. Raises ValueRefused, KubeErrors."""
        service = self.client.get("/api/v1/namespaces/default/services/kubernetes")
        ports = (service.get("spec") or {}).get("ports") or []
        state, provider = self._provider()
        held = provider.list_addresses()
        decision = self._decide(held, ports, state)
        if decision is not None and decision.moves:
            self._move(decision, state, provider)
        address = (
            decision.address
            if decision is not None
            else rules_of.endpoint_reservation(held, self.tag, self.setup.on_duplicate).address
        )
        if self.options.external_service:
            options = self.options
            write_service(
                self.client,
                self.setup,
                address,
                ports,
                options.endpoints_as,
                self.manager,
                self.plan,
                self.check,
                options.adopt,
            )

    def remove(self) -> None:
        """Take back what is written besides the address. Raises ValueRefused, KubeErrors."""
        remove_service(self.client, self.setup, self.tag, self.manager, self.plan, self.check)

    def release(self) -> None:
        """Leave everything as it is, to the upstream controller. Raises ValueRefused, KubeErrors."""
        release_service(self.client, self.setup, self.tag, self.manager, self.plan, self.check)

    def _provider(self) -> tuple[ClusterState, t.Any]:
        state = ClusterState(self.setup.balancer)
        state.ledger_name = ledger_name(self.setup.identity, self.setup.static)
        state.ledger, state.ledger_object = read_ledger(self.client, state.ledger_name)
        self.before = dict(state.ledger)
        desired = self.options.address
        if self.setup.static and desired and not any(self.tag in entry.tags for entry in state.ledger.values()):
            text = str(parse_address(desired))
            if text in state.ledger:
                raise ValueRefused("claimed_twice", f"{text} is reserved for {state.ledger[text].service}")
            state.ledger[text] = Entry(text, text, parse_address(text).max_prefixlen, (self.tag,))
        if self.setup.static:
            self._check_record(state, str(parse_address(desired)) if desired else "")
        return state, make_provider(self.setup, state, now(), self.options.timeout)

    def _check_record(self, state: ClusterState, desired: str) -> None:
        """The record is a claim of the cluster, and the controller moves what is in it. Raises ValueRefused ``outside_grant``."""
        for entry in state.ledger.values():
            if self.tag not in entry.tags or not entry.address:
                continue
            refuse_unowned(entry.address, self.setup.others)
            if not desired:
                self.setup.reserved.refuse(entry.address, {"node_cidrs of cluster " + self.setup.cluster})
            if desired and entry.address != desired:
                text = "the ConfigMap {0}/{1} has {2} for the control plane and the inventory {3} (control_plane_address_ip); if the inventory is right, "
                text += "remove that entry"
                raise ValueRefused("outside_grant", text.format(NAMESPACE, state.ledger_name, entry.address, desired))

    def _decide(
        self, held: t.Sequence[t.Any], ports: t.Sequence[t.Any], state: ClusterState
    ) -> rules_of.Decision | None:
        settings, node_port = self.setup.settings, ports[0].get("targetPort") if ports else 0
        prefixes = (STATIC_PREFIX,) if self.setup.static else PROVIDER_PREFIXES
        rules = rules_of.Rules(
            self.tag,
            settings.number("api_server_port"),
            node_port if isinstance(node_port, int) else 0,
            bool(settings.values["eip_health_check_use_host_ip"]),
            tuple(prefixes),
            self.setup.on_duplicate,
        )
        nodes = [rules_of.node_of(obj) for obj in self.nodes]
        if self.setup.static:
            # the inventory's devices are the nodes themselves
            nodes = [node._replace(provider_id=f"{STATIC_PREFIX}://{node.name}") for node in nodes]
        eip = self.eip = rules_of.endpoint_reservation(held, self.tag, self.setup.on_duplicate)
        options = self.options
        ca = options.probe_ca or parse_access(self.entry).ca_pem
        probe = HealthProbe(ca, options.probe_server_name, options.probe_verify_tls, options.probe_timeout)
        event = self._event(nodes, eip, prefixes)
        try:
            decision = self._drive(
                rules_of.decide(held, nodes, rules, event), probe, bool(eip.assignments) and not event.node
            )
        finally:
            self.shown.update(address=eip.address, probes=probe.count)
        holder = decision.winner or decision.holder
        self.shown.update(holder=holder, healthy=decision.healthy is not False or decision.moves, moved=decision.moves)
        entry = next((one for one in state.ledger.values() if one.address == eip.address), None)
        if decision.moves and eip.assignments and not event.node and entry is not None and entry.time:
            record = FailureRecord(options.hysteresis.failures - 1, _seconds(entry.time))
            if not may_move(record, options.hysteresis, time.time()):
                self.plan.refuse(
                    "control plane of " + self.setup.cluster,
                    "resting",
                    f"{eip.address} was moved {entry.time}, and stays for {options.hysteresis.rest_s:.0f} s after a move",
                )
                self.shown.update(holder=decision.holder, healthy=False, moved=False)
                return None
        return decision

    def _event(self, nodes: t.Sequence[rules_of.Node], eip: t.Any, prefixes: t.Sequence[str]) -> rules_of.Event:
        """A holder that was cordoned gives the address away while others could take it."""
        device = eip.assignments[0].device if eip.assignments else ""
        for node in nodes:
            own = any(other == eip.address for unused, other in node.addresses) or any(
                node.provider_id == p + "://" + device for p in prefixes
            )
            free = [one for one in nodes if one.is_control_plane and not one.unschedulable and not one.deleting]
            if device and own and node.unschedulable and free:
                return rules_of.Event(rules_of.UPDATE, node.name, True)
        return rules_of.Event()

    def _drive(self, steps: t.Any, probe: HealthProbe, holder_first: bool) -> rules_of.Decision:
        """Answer the probes; the first one asks the holder, and one failure of it means nothing yet."""
        first = holder_first
        try:
            url = next(steps)
            while True:
                status = probe(url)
                if first:
                    for unused in range(self.options.hysteresis.failures - 1):
                        if status == 200:
                            break
                        time.sleep(self.options.probe_interval)
                        status = probe(url)
                    first = False
                url = steps.send(status)
        except StopIteration as stop:
            return t.cast(rules_of.Decision, stop.value)

    def _move(self, decision: rules_of.Decision, state: ClusterState, provider: t.Any) -> None:
        if self.check:
            self._note_holder(decision, decision.winner)
            return
        lease = Lease(self.client, NAMESPACE, LEASE + "-control-plane", self.manager)
        lease.acquire(self.options.lock_seconds)
        holder, noted = decision.holder, decision.winner
        try:
            if not self._still(state, provider):
                noted = holder
                self.plan.warnings.append(
                    f"{decision.address} was moved by somebody else meanwhile; the next pass looks again"
                )
                self.shown.update(moved=False)
                return
            if self.setup.static:
                if self.options.assign_command:
                    run_hook(
                        self.options.assign_command,
                        {"address": decision.address, "node": decision.winner, "previous": decision.holder},
                    )
                provider.move(decision.address, decision.winner)
                ident = next(one.id for one in state.ledger.values() if one.address == decision.address)
            else:
                # by the assignment's own id; should the second call fail, the next pass finds it unassigned (ccm 11.3)
                if decision.unassign:
                    provider.unassign(decision.unassign)
                    holder = ""
                ident = self._assign(decision, provider)
                state.ledger[ident] = Entry(ident, decision.address, 32, (self.tag,))
            state.ledger[ident] = state.ledger[ident]._replace(device=decision.device, time=now())
            lease.check()
            if not self.options.api_urls:
                self.gather()  # the former connection led to the former holder
            keep_ledger(self.client, state.ledger_name, self.before, state.ledger, state.ledger_object, self.manager)
        except ValueRefused as error:
            noted = holder
            self.plan.refused.append(Refusal("control plane of " + self.setup.cluster, error.reason, error.message))
            self.shown.update(holder=holder, moved=False, healthy=False)
        finally:
            lease.release()
            self._note_holder(decision, noted)

    def _note_holder(self, decision: rules_of.Decision, holder: str) -> None:
        """Who has the address now, where that is somebody else than before."""
        if holder != decision.holder:
            before = {"holder": decision.holder} if decision.holder else {}
            self.plan.update("Address", f"{self.setup.cluster}/{decision.address}", before, {"holder": holder})

    def _still(self, state: ClusterState, provider: t.Any) -> bool:
        """Whether the address is where it was when we decided: another run may have had the lease since."""
        if self.setup.static:
            fresh, state.ledger_object = read_ledger(self.client, state.ledger_name)
            self.before = dict(fresh)
            if not any(self.tag in entry.tags for entry in fresh.values()):
                fresh.update({ident: entry for ident, entry in state.ledger.items() if self.tag in entry.tags})
            state.ledger.clear()
            state.ledger.update(fresh)
        found = rules_of.endpoint_reservation(provider.list_addresses(), self.tag, self.setup.on_duplicate)
        return (found.address, found.assignments) == (self.eip.address, self.eip.assignments)

    def _assign(self, decision: rules_of.Decision, provider: t.Any) -> str:
        """The id of the reservation with the address that now points at the winner. Raises ValueRefused."""
        failed: ValueRefused | None = None
        try:
            provider.assign(decision.address, decision.device)
        except ValueRefused as error:
            if getattr(error, "status", None) is not None:
                raise
            failed = error  # no answer: the list shows whether it was done
        found = rules_of.endpoint_reservation(provider.list_addresses(), self.tag, self.setup.on_duplicate)
        if failed is not None and [one.device for one in found.assignments] != [decision.device]:
            raise failed
        return found.id


def _seconds(text: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None
