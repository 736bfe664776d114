# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The vectors of the cloud controller: settings, nodes and BGP. Fields are renamed, nothing is decided here.

Options that restore upstream's behaviour, and why: empty_tag_disables follows the profile (decision 26 takes the
seed's side; the later releases count an empty variable as unset); publish_password true (decision 23 withholds it, the
vectors have the annotation); on_duplicate first and release_unrecorded true (decision 24 refuses both; upstream takes
the first match and keeps no record, for Services as for the control plane); gc_orphans true (on in the loop, which the vectors describe); in MetalLB's
configuration passwords plain (upstream has no other place for them); delete_nodes true unless the profile is target
(upstream deletes nodes without their device). The claims stage does not run (decision 29).
"""

from __future__ import annotations

import json
import types
import typing as t
import urllib.parse

from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    bgp as load_balancers_bgp,
    providers as load_balancers_equinix,
)
from ansible_collections.multicluster.network.plugins.module_utils._io import json_api
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import (
    equinix_records,
    instances,
    ledger,
    node_annotations,
    reservations,
    service_plan,
    services,
    settings,
    setup,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.bgp import values as bgp
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Plan
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

from ..outcome import Internal, Unhandled
from . import ccm_metallb, ccm_services

Input = t.Mapping[str, t.Any]
Answer = t.Any
_NAMES = {
    "local_asn": "annotation_local_asn",
    "peer_asn": "annotation_peer_asn",
    "peer_ip": "annotation_peer_ip",
    "source_ip": "annotation_src_ip",
    "password": "annotation_bgp_pass",
}


def refusing(function: t.Callable[[Input], Answer]) -> t.Callable[[Input], Answer]:
    """A refused value is an answer: its reason, and the key of a setting."""

    def answer(data: Input) -> Answer:
        try:
            return function(data)
        except ValueRefused as error:
            return {"error": error.reason, "key": getattr(error, "key", "")}

    return answer


def internal(data: Input) -> Answer:
    raise Internal("decision 52: the loop of a daemon")


def config_precedence(data: Input) -> Answer:
    seed = data.get("profile") == "seed"
    read = settings.read_settings(
        data.get("env") or {}, data.get("file"), data.get("parameters"), empty_tag_disables=seed
    )
    values: dict[str, t.Any] = dict(read.values)
    schemes = node_annotations.Scheme(node_annotations.LEGACY if seed else node_annotations.INDEXED, _overrides(values))
    for datum, name in (schemes.legacy() if seed else schemes.indexed()).items():
        values[_NAMES[datum]] = name
    host = data.get("metadata_facility") or ""
    places = service_plan.Places(str(values["metro"]), str(values["facility"]), ccm_services.facility_of_host(host))
    if seed and places.host_facility:
        values["facility"] = service_plan.location_of({}, places).get("facility", "")
    for name in ("annotation_peer_asn", "annotation_peer_ip") if seed else ():
        values[name + "s"] = values[name]  # the seed's names of these two
    if seed:  # the seed's default; 0 is the collection's, which finds the same
        values["api_server_port"] = values["api_server_port"] or 6443
    values["base_url"] = values["base_url"] or load_balancers_equinix.PUBLIC_URL
    parsed = settings.parse_load_balancer(values["loadbalancer"])
    return dict(values, loadbalancer_enabled=parsed.enabled, warnings=read.warnings, printable=read.printable())


def _overrides(values: Input) -> dict[str, str]:
    return {datum: str(values[name]) for datum, name in _NAMES.items() if values.get(name)}


def eip_location(data: Input) -> Answer:
    return service_plan.location_of(data.get("service_annotations"), ccm_services.places(data.get("config") or {}))


def lb_setting_parse(data: Input) -> Answer:
    found = settings.parse_load_balancer(data["setting"] or "")
    return dict(found._asdict(), uses_bgp=found.uses_bgp, enabled=found.enabled, warning=bool(found.warnings))


def eip_tags(data: Input) -> Answer:
    owner = reservations.Owner(
        reservations.parse_identity(data.get("identity") or reservations.DEFAULT_IDENTITY),
        data.get("cluster_uid") or "",
    )
    tags = reservations.service_tags(owner, data["namespace"], data["name"])
    return {"tags": tags, "load_balancer_name": reservations.load_balancer_name(tags)}


def tag_match(data: Input) -> Answer:
    matching = [
        index for index, tags in enumerate(data["reservations"] or []) if reservations.carries(tags, data["tags"] or [])
    ]
    return {"_first_index": matching[0] if matching else -1}


def node_selector(data: Input) -> Answer:
    return bgp.selected_nodes(data["nodes"], data.get("selector") or "")


def provider_id(data: Input) -> Answer:
    return {"device_id": reservations.parse_provider_id(data["provider_id"])}


def bgp_project(data: Input) -> Answer:
    config = data["config"]
    if not settings.parse_load_balancer(config.get("loadbalancer", "")).uses_bgp:
        return {"post": None, "effective": {}, "error": None}
    read = {"status": ccm_services.NO_ANSWER[0]} if data["get_response"] is None else data["get_response"]
    if (
        isinstance(read.get("status"), int) or read.get("status") in ccm_services.NO_ANSWER
    ):  # an HTTP answer, not the configuration
        return {"post": None, "effective": {}, "error": ccm_services.failure(read["status"])}
    plan = bgp.project_bgp(read, _asns(config)[0], config.get("bgp_pass") or "", adopt=data.get("profile") != "seed")
    error = ccm_services.failure(data["post_response"].get("status")) if data.get("post_response") else ""
    effective = {"local_asn": plan.local_asn, "md5": plan.password or None, "max_prefix": plan.max_prefixes}
    return {"post": plan.post, "effective": effective, "error": error or None}


def bgp_node(data: Input) -> Answer:
    double = Double([data["post_response"]] if data.get("post_response") else [])
    if data.get("event") == "node_removed" or "node" in data:
        nodes = [data["node"]] if data.get("node") else []
        plan = Plan()
        state = types.SimpleNamespace(
            nodes={row["name"]: {"metadata": row, "spec": {"providerID": row["provider_id"]}} for row in nodes}
        )
        load_balancers_bgp.gather(
            _setup({"provider": "equinix_metal"}), double.provider(), state, "remove", False, plan
        )
        return {"requests": double.shown(), "ok": not plan.refused}
    try:
        changed, good = double.provider().ensure_node_bgp("D"), True
    except ValueRefused:
        changed = good = False
    return {"request": double.shown()[0], "requests": double.shown(), "ok": good, "changed": changed}


def bgp_neighbors(data: Input) -> Answer:
    found = bgp.node_bgp("", (data.get("body") or {}).get("bgp_neighbors"), *_asns(data.get("config") or {}))
    return dict(found._asdict(), peers=list(found.peers))


def _asns(config: Input) -> tuple[int, int]:
    """The configured ones or their defaults, as every run has them."""
    defaults = {item.name: item.default for item in settings.SETTINGS}
    return config.get("local_asn") or defaults["local_asn"], config.get("peer_asn") or defaults["peer_asn"]


def annotations(data: Input) -> Answer:
    config = data.get("config") or {}
    scheme = node_annotations.Scheme(
        data.get("scheme") or node_annotations.BOTH,
        _overrides(config),
        config.get("annotation_legacy_singular", True),
        config.get("publish_bgp_password", True),
        config.get("annotation_domain") or reservations.DEFAULT_DOMAIN,
    )
    if config.get("annotation_network_ipv4_private"):
        scheme = scheme._replace(private_network=config["annotation_network_ipv4_private"])
    network = data.get("private_network") or ""
    if "device_addresses" in data:
        network = node_annotations.private_network(data["device_addresses"])
    facts = (
        [bgp.node_bgp("n", [data["neighbor"]], *_asns(config), password=config.get("bgp_pass") or "")]
        if data.get("neighbor")
        else []
    )
    existing = dict(data.get("existing_annotations") or {})
    objects = {"n": {"metadata": {"name": "n", "annotations": existing}}}
    private = {"n": network} if network else {}
    plan, patches = node_annotations.plan_node_annotations(
        "c", facts, private, objects, scheme, "multicluster.network/vectors", adopt=True
    )
    if plan.refused:
        return {"error": plan.refused[0].reason}
    patch = patches[0].values if patches else {}
    if data.get("compare") == "patch":
        return {"patch": dict(patch, metadata={"annotations": patch}) if patch else None}
    return {key: value for key, value in dict(existing, **patch).items() if value is not None}


def _variant(data: Input) -> instances.Variant:
    config = data.get("config") or {}
    seed = data.get("profile") == "seed"
    return instances.Variant(
        config.get("region_from") or ("facility" if seed else "metro"),
        config.get("zone_from") or "none",
        config.get("address_list") or (instances.SINGLE if seed else instances.ALL),
        "plan_name" if seed else "plan",
    )


def node_addresses(data: Input) -> Answer:
    device = equinix_records.device(dict({"id": "device"}, **data["device"]))
    return instances.node_addresses(device, data.get("provided_node_ip"), _variant(data))


def instance(data: Input) -> Answer:
    try:
        return _instance(data)
    except ValueRefused as error:
        return {"error": error.reason, "node_deleted": False, "taint_removed": False}


def _instance(data: Input) -> Answer:
    node, variant = data["node"], _variant(data)
    if data.get("get_response"):
        reason = ccm_services.failure(data["get_response"]["status"])
        if reason:
            raise ValueRefused(reason, "the device cannot be read")
    records = data.get("devices") or [item for page in data.get("device_pages") or () for item in page]
    device = instances.device_of(
        node.get("name"), node.get("provider_id") or "", [equinix_records.device(item) for item in records], variant
    )
    delete = bool((data.get("config") or {}).get("delete_nodes", data.get("profile") != "target"))
    taints = [item["key"] for item in node.get("taints") or ()]
    fate = instances.fate_of(node.get("ready", True), device, taints, delete)
    if device is None:
        return {"found": False, "exists": False, "shutdown": False, "taint_removed": False, "node_deleted": fate.delete}
    if node.get("taints") is None and not node.get("provider_id"):
        taints = [instances.UNINITIALIZED]  # a node without a provider ID is a new one
    error = None
    try:
        facts = instances.node_facts(device, taints, node.get("provider_id") or "", variant=variant)
    except ValueRefused as refused:  # the node keeps its taint; what is known of the device is known
        error, facts = refused.reason, instances.NodeFacts(node.get("provider_id") or "", {}, [], False)
    return {
        "error": error,
        "found": True,
        "exists": True,
        "shutdown": instances.is_shut_down(device),
        "shutdown_taint": fate.shutdown,
        "node_deleted": fate.delete,
        "taint_removed": facts.taint_removed,
        "provider_id": facts.provider_id,
        "device_id": device.id,
        "instance_type": device.plan_name if variant.type_from == "plan_name" else device.plan,
        "region": instances.region_of(device, variant),
        "zone": instances.zone_of(device, variant),
        "addresses": facts.addresses,
        "labels": facts.labels,
    }


def garbage_collection(data: Input) -> Answer:
    rows = ccm_services.reservations_of(data["reservations"])
    found = reservations.sweep(rows, ccm_services.owner(data), bool(data.get("force")))
    shown = found._asdict()
    if not data.get("confirm"):
        shown.update(release=[], would_release=found.release)
    return shown


def _setup(given: Input) -> setup.Setup:
    return setup.parse_setup(dict(given, cluster="c"), {"METAL_API_KEY": "k", "METAL_PROJECT_ID": "P"}, None)


class _Capable:
    """A provider that can some things and counts what is asked of it."""

    predicts = False

    def __init__(self, capabilities: t.Iterable[str]) -> None:
        self._capabilities, self.asked = frozenset(capabilities), 0

    def capabilities(self) -> frozenset[str]:
        """What the vector describes."""
        return self._capabilities

    def read_project_bgp(self) -> Input:
        """Switched on."""
        self.asked += 1
        return {"id": "b1", "status": "enabled", "asn": 65000}

    def node_bgp_info(self, device: str, name: str) -> bgp.NodeBgp:
        """One router."""
        self.asked += 1
        return bgp.NodeBgp(name, "10.0.0.1", 65000, 65530, ("169.254.255.1",))


def provider_contract(data: Input) -> Answer:
    given = {"provider": data["provider"]}
    if data["provider"] == "equinix_metal":
        made = load_balancers_equinix.EquinixMetal(
            "k", "P", (data.get("config") or {}).get("base_url") or "", plain_http=True
        )
        warnings = made.warnings()
        return {"warning": warnings[0].partition(":")[0] if warnings else None}
    if "capabilities" in data:
        can = data["capabilities"]
        capable = _Capable(name for name in can if not isinstance(can, dict) or can[name])
        nodes = types.SimpleNamespace(nodes={"n": {"metadata": {"name": "n"}}})
        load_balancers_bgp.gather(_setup(given), capable, nodes, "sync", True, Plan())
        users = services.Service("default", "web", services.LOAD_BALANCER, "203.0.113.8", {}, "")
        outcome = service_plan.outcome_of(
            users, [], ccm_services.context({"config": {"cluster_uid": "u", "loadbalancer": "empty://"}})
        )
        return {
            "bgp_calls": capable.asked,
            "addresses_mapped": service_plan.MAP in [action.action for action in outcome.actions],
        }
    made = _setup(dict(given, pool=data.get("pool") or []))  # refuses a provider that nobody knows
    entries = [
        ledger.Entry(item["address"], item["address"], 32, tuple(item["tags"])) for item in data.get("existing") or ()
    ]
    static = load_balancers_equinix.StaticProvider(
        made, {entry.id: entry for entry in entries}, dict.fromkeys(data.get("used") or (), "")
    )
    answers = []
    for request in data["requests"] if "requests" in data else [data["request"]]:
        given_out = static.reserve_address({"tags": request["tags"]}, "")
        answers.append(
            {
                "address": given_out.address,
                "cidr": given_out.cidr,
                "state": given_out.state,
                "tags": list(given_out.tags),
            }
        )
    return dict(answers[-1], addresses=[answer["address"] for answer in answers])


class Double:
    """The provider's API: gives a vector's answers one after the other, the last one again and again."""

    def __init__(self, answers: t.Sequence[Input]) -> None:
        self.answers, self.sent, self.waits = (
            list(answers) or [{"status": "timeout"}],
            t.cast(list[dict[str, t.Any]], []),
            t.cast(list[float], []),
        )

    def provider(self, base_url: str = "") -> load_balancers_equinix.EquinixMetal:
        """The product's client of it."""
        return load_balancers_equinix.EquinixMetal(
            "k", "P", base_url, plain_http=True, send=self._send, sleep=self.waits.append
        )

    def shown(self) -> list[Answer]:
        """Requests as vectors write those of a device."""
        return [dict(row, path_suffix=row["path"].replace("/devices/D/", "/devices/{id}/")) for row in self.sent]

    def status(self) -> t.Any:
        """Of the last answer."""
        return self.answers[min(len(self.sent), len(self.answers)) - 1].get("status")

    def _send(
        self, method: str, url: str, headers: t.Mapping[str, str], body: bytes | None, _seconds: float
    ) -> json_api.Answer:
        parts = urllib.parse.urlsplit(url)
        self.sent.append(
            {
                "method": method,
                "url": url.partition("?")[0],
                "path": parts.path.partition("/metal/v1")[2] or parts.path,
                "headers": dict(headers),
                "body": json.loads(body) if body else None,
                "query": dict(urllib.parse.parse_qsl(parts.query)),
            }
        )
        row = self.answers[min(len(self.sent), len(self.answers)) - 1]
        if not isinstance(row.get("status"), int):
            return json_api.Answer(None, reason=str(row.get("status") or "no answer"))
        text = row["raw"] if "raw" in row else "" if row.get("body") is None else json.dumps(row["body"])
        return json_api.Answer(
            row["status"], {key.lower(): str(value) for key, value in (row.get("headers") or {}).items()}, text.encode()
        )


def api_client(data: Input) -> Answer:
    double = Double(data.get("responses") or [data["response"]])
    call = CALLS.get(data["operation"])
    if call is None:
        raise Unhandled(f"no call {data['operation']}")
    try:
        value = call(double.provider(data.get("base_url") or ""))
        answer: dict[str, t.Any] = {
            "ok": True,
            "status": double.status(),
            "result": value,
            "count": len(value) if isinstance(value, list) else None,
        }
        if isinstance(value, bool):
            answer["changed"] = value
        elif isinstance(value, list):
            answer["ids"] = [getattr(item, "id", None) for item in value]
    except ValueRefused as refused:
        answer = {
            "ok": False,
            "status": getattr(refused, "status", None),
            "error": refused.reason,
            "message": refused.message,
        }
    shown = dict(double.sent[0], times=len(double.sent)) if double.sent else {}
    return dict(answer, waits=double.waits, requests=double.sent, _request=shown, _requests=double.sent)


_ORDER = {"type": "public_ipv4", "quantity": 1, "tags": [], "fail_on_approval_required": True}
#: The operations, each on the project P, the device D, the reservation R, the assignment A.
CALLS: dict[str, t.Callable[[load_balancers_equinix.EquinixMetal], t.Any]] = {
    "list_reservations": lambda one: one.list_addresses(),
    "list_devices": lambda one: one.list_devices(),
    "get_device": lambda one: one.get_device("D"),
    "get_project_bgp": lambda one: one.read_project_bgp(),
    "enable_project_bgp": lambda one: one.enable_project_bgp(bgp.project_bgp({}, 65000, "")),
    "reserve": lambda one: one.order(_ORDER),
    "release": lambda one: one.release_address("R"),
    "assign": lambda one: one.assign("147.75.200.9", "D"),
    "unassign": lambda one: one.unassign("A"),
    "neighbors": lambda one: one.neighbours("D"),
    "sessions": lambda one: one.sessions("D"),
    "create_session": lambda one: one.ensure_node_bgp("D"),
    "update_reservation": lambda one: one.update_address("R", {}),
}


HANDLERS: dict[str, t.Callable[[Input], Answer]] = {
    "config_precedence": refusing(config_precedence),
    "eip_location": refusing(eip_location),
    "lb_setting_parse": refusing(lb_setting_parse),
    "eip_tags": refusing(eip_tags),
    "tag_match": tag_match,
    "node_selector": refusing(node_selector),
    "provider_id": refusing(provider_id),
    "service_reconcile": ccm_services.service_reconcile,
    "ip_states": ccm_services.ip_states,
    "bgp_project": refusing(bgp_project),
    "bgp_node": bgp_node,
    "bgp_neighbors": refusing(bgp_neighbors),
    "node_annotations": refusing(annotations),
    "node_addresses": refusing(node_addresses),
    "instances": instance,
    "control_plane_failover": ccm_services.control_plane_failover,
    "external_service": refusing(ccm_services.external),
    "metallb_configmap": refusing(ccm_metallb.configmap),
    "metallb_configmap_text": refusing(ccm_metallb.text),
    "metallb_crds": ccm_metallb.resources,
    "metallb_crd_names": ccm_metallb.names,
    "core_loop": internal,
    "garbage_collection": refusing(garbage_collection),
    "provider_contract": refusing(provider_contract),
    "api_client": api_client,
}
