# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The vectors of the cloud controller: Services and the control plane's address. For the options see ccm.py."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import providers
from ansible_collections.multicluster.network.plugins.module_utils._io import json_api
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import (
    control_plane,
    equinix_records,
    reservations,
    service_plan,
    services,
    settings,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

Input = t.Mapping[str, t.Any]
Answer = t.Any
#: How vectors write that there was no answer.
NO_ANSWER = ("timeout", "refused")


def places(config: Input) -> service_plan.Places:
    names = {
        "metro": "metro",
        "facility": "facility",
        "metro_annotation": "annotation_eip_metro",
        "facility_annotation": "annotation_eip_facility",
    }
    given = {field: config[name] for field, name in names.items() if config.get(name)}
    return service_plan.Places(host_facility=facility_of_host(config.get("metadata_facility")), **given)


def facility_of_host(facility: t.Any) -> str:
    """As the product learns it: out of the document of the host's metadata."""
    if not facility:
        return ""
    document = json.dumps(
        {"id": "4e47", "hostname": "n1", "plan": "c3", "facility": facility, "network": {"addresses": []}}
    ).encode()
    return providers.host_facility("https://metadata.test", send=lambda *unused: json_api.Answer(200, {}, document))


def reservations_of(records: t.Iterable[t.Any]) -> list[reservations.Reservation]:
    return [equinix_records.reservation(record) for record in records]


def failure(status: t.Any, ordering: bool = False) -> str:
    """The error class of an answer's status, or nothing."""
    return providers.failure_reason(status if isinstance(status, int) else None, ordering)


def owner(config: Input) -> reservations.Owner:
    adopted = config.get("adopt_identities")
    return reservations.Owner(
        config.get("identity") or reservations.DEFAULT_IDENTITY,
        config.get("cluster_uid") or "",
        tuple(reservations.IDENTITIES if adopted is None else adopted),
    )


def context(data: Input) -> service_plan.Context:
    config = data["config"]
    return service_plan.Context(
        owner(config),
        places(config),
        backend=_backend(config),
        our_class=config.get("load_balancer_class") or "",
        control_plane_tag=config.get("eip_tag") or "",
        max_prefixes=config.get("max_prefixes"),
        release_unrecorded=True,
        on_duplicate=reservations.FIRST,
        reclaim_policy=config.get("reclaim_policy") or service_plan.DELETE,
        gc_orphans=config.get("gc_orphans", True),
        reports_status=_backend(config) == settings.EMPTY,
    )


def _backend(config: Input) -> str:
    named = config.get("backend") or settings.parse_load_balancer(config.get("loadbalancer") or "").type
    return settings.METALLB if named == settings.DISABLED else named


def _service(row: Input) -> services.Service:
    return services.Service(
        row["namespace"],
        row["name"],
        row.get("type") or services.LOAD_BALANCER,
        row.get("loadBalancerIP") or "",
        row.get("annotations") or {},
        row.get("loadBalancerClass") or "",
    )


class _Run:
    """Carries out the plan against the answers that a vector gives."""

    def __init__(self, data: Input) -> None:
        self.data, self.context = data, context(data)
        self.actions: list[dict[str, t.Any]] = []
        self.error: str | None = None
        self.orders = 0
        self.states: dict[str, str] = {}
        self.held: list[reservations.Reservation] = []
        self.mapped = data.get("mapped_cidrs") or ()
        listed = data.get("services")
        self.services = None if listed is None else [_service(row) for row in listed]

    def run(self) -> Answer:
        self.error = self._status("list_response")
        if self.error is None:
            self.held = reservations_of(self.data.get("reservations") or ())
            self._each()
        return {"actions": self.actions, "error": self.error, "_state": self.states}

    def _status(self, name: str, ordering: bool = False) -> str | None:
        answer = self.data.get(name)
        if answer is None:
            return None
        return failure(answer.get("status"), ordering) or None

    def _each(self) -> None:
        failing = bool(self.data.get("service_list_error"))
        removing = self.data.get("mode") == "remove"
        for service in self.services or () if not failing else ():
            try:
                if removing:
                    self._apply(service, service_plan.removal_of(service, self.held, self.context))
                else:
                    self._add(service)
            except ValueRefused as refused:
                self.error = self.error or refused.reason
        if self.data.get("mode") != "sync":
            return
        if self.services is None or failing:
            self.error = self.error or "kubernetes"
        confirmed = bool(self.data.get("confirmed_empty_service_list"))
        swept = service_plan.orphans(None if failing else self.services, self.held, self.context, confirmed)
        self._apply(None, swept)

    def _add(self, service: services.Service) -> None:
        further = service_plan.users_addresses(self.services or (), self.held, self.context)
        outcome = service_plan.outcome_of(service, self.held, self.context, further)
        if outcome.state:
            self.states[service.key] = outcome.state
        self._apply(service, outcome)

    def _apply(self, service: services.Service | None, outcome: service_plan.Outcome) -> None:
        for action in outcome.actions:
            row: dict[str, t.Any] = {"action": action.action, "service": action.service}
            if action.action == service_plan.RESERVE:
                self.actions.append(dict(row, body=action.request))
                self._reserved(t.cast(services.Service, service), t.cast(Input, action.request))
                return  # what follows was only a forecast
            if action.action in (service_plan.MAP, service_plan.UNMAP):
                row["cidr"] = action.address
                if action.action == service_plan.MAP and action.address in self.mapped:
                    continue
            else:
                row.update(ip=action.address, id=action.id)
            self.actions.append(row)
            if action.action == service_plan.SET_ADDRESS and self._status("service_update_response"):
                self.error = self.error or "kubernetes"
                return
            if action.action == service_plan.RELEASE and (self.data.get("release_response") or {}).get("status") != 404:
                self.error = self.error or self._status("release_response")

    def _reserved(self, service: services.Service, request: Input) -> None:
        answer = self._ordered()
        reason = failure(answer.get("status"), ordering=True) if answer is not None else ""
        if reason:
            self.error = self.error or reason
        elif answer is not None:
            # a record carries the tags that were asked for, also where a vector shortens it
            self.held.append(
                equinix_records.reservation(dict(answer["body"], tags=answer["body"].get("tags") or request["tags"]))
            )
            self._add(service)

    def _ordered(self) -> dict[str, t.Any] | None:
        several = self.data.get("reserve_responses")
        if several is None:
            return self.data.get("reserve_response")
        self.orders += 1
        return several[self.orders - 1]


def service_reconcile(data: Input) -> Answer:
    return _Run(data).run()


def ip_states(data: Input) -> Answer:
    held = equinix_records.reservation(data["reservation"]) if data.get("reservation") else None
    found = services.states(data.get("service_ip") or "", held, data.get("mapped_cidrs") or ())
    return dict(found._asdict(), ready=found.ready)


def _node(row: Input) -> control_plane.Node:
    addresses = tuple((item["type"], item["address"]) for item in row.get("addresses") or ())
    return control_plane.Node(
        row["name"],
        row.get("labels") or {},
        row.get("provider_id") or "",
        addresses,
        bool(row.get("unschedulable")),
        bool(row.get("deleting")),
    )


def control_plane_failover(data: Input) -> Answer:
    config, event = data["config"], data.get("event") or {}
    rules = control_plane.Rules(
        config.get("eip_tag") or "",
        config.get("api_server_port") or 0,
        config.get("node_api_server_port") or 0,
        bool(config.get("use_host_ip")),
        on_duplicate=reservations.FIRST,
    )
    gone = _node(event["deleted_node"]) if event.get("deleted_node") else None
    happened = control_plane.Event(
        event.get("type") or control_plane.RESYNC,
        event.get("node") or "",
        bool(event.get("became_unschedulable")),
        gone,
    )
    probes: list[str] = []
    calls: list[t.Any] = []
    error = None
    try:
        if data.get("list_response") and failure(data["list_response"].get("status")):
            raise ValueRefused(failure(data["list_response"].get("status")), "the list failed")
        run = control_plane.decide(
            reservations_of(data.get("reservations") or ()), [_node(row) for row in data["nodes"]], rules, happened
        )
        decision = _drive(run, data.get("health") or {}, probes)
        if decision.unassign:
            calls.append(["DELETE", "/ips/" + decision.unassign])
            error = _failed(data, "unassign_response")
        if decision.moves and error is None:
            calls.append(["POST", f"/devices/{decision.device}/ips", {"address": decision.address}])
            error = _failed(data, "assign_response")
    except ValueRefused as refused:
        error = refused.reason
    return {"api_calls": calls, "error": error, "_probes": probes}


def _failed(data: Input, name: str) -> str | None:
    return (failure(data[name]["status"]) or None) if data.get(name) else None


def _drive(run: control_plane.Probes, health: Input, probes: list[str]) -> control_plane.Decision:
    try:
        url = next(run)
        while True:
            probes.append(url)
            status = health.get(url)
            url = run.send(status if isinstance(status, int) else None)
    except StopIteration as stop:
        return t.cast(control_plane.Decision, stop.value)


def external(data: Input) -> Answer:
    config = data["config"]
    identity = reservations.parse_identity(data.get("identity") or reservations.DEFAULT_IDENTITY)
    ports = (data.get("kubernetes_service") or {}).get("ports") or []
    source = data.get("kubernetes_endpoints") or {}
    subsets = [{"addresses": [{"ip": ip} for ip in source.get("addresses") or ()], "ports": source.get("ports") or []}]
    converged = data.get("existing") == "converged"
    before = None if converged else _as_object((data.get("existing") or {}).get("service"))
    mirror = control_plane.endpoints(identity, {"subsets": subsets})
    slices = data.get("kubernetes_endpointslices")
    if slices:
        made_slices = control_plane.endpoint_slices(identity, [_slice(row) for row in slices])
        rows = [{"ip": ip} for item in made_slices for one in item["endpoints"] for ip in one["addresses"]]
        mirror["subsets"] = [{"addresses": rows, "ports": made_slices[0]["ports"] if made_slices else []}]

    def made(existing: Input | None) -> dict[str, t.Any]:
        return control_plane.external_service(
            identity, config["eip"], ports, config.get("api_server_port") or 0, existing
        )

    if converged:
        before = made(None)
    service = made(before)
    meta, spec = service["metadata"], service["spec"]
    status = control_plane.ingress_status(config["eip"])
    return {
        "service": dict(
            spec,
            namespace=meta["namespace"],
            name=meta["name"],
            annotations=meta["annotations"],
            labels=meta.get("labels"),
            selector=spec.get("selector"),
            status_ingress=[row["ip"] for row in status["loadBalancer"]["ingress"]],
        ),
        "endpoints": {
            "addresses": [item["ip"] for item in mirror["subsets"][0]["addresses"]],
            "ports": mirror["subsets"][0]["ports"],
            "namespace": mirror["metadata"]["namespace"],
            "name": mirror["metadata"]["name"],
        },
        "changed": service != before,
    }


def _slice(row: Input) -> Input:
    return {
        "metadata": {"name": row["name"], "labels": row.get("labels")},
        "endpoints": [{"addresses": row["addresses"]}],
        "ports": row.get("ports") or [],
    }


def _as_object(row: Input | None) -> dict[str, t.Any] | None:
    if row is None:
        return None
    meta = {key: row[key] for key in ("annotations", "labels") if key in row}
    return {"metadata": meta, "spec": {key: value for key, value in row.items() if key not in meta}}
