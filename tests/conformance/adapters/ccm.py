# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The vectors of the cloud controller: settings, nodes and BGP. Fields are renamed, nothing is decided here.

Options that bring the original's behaviour back, and why: empty_tag_disables follows the profile (decision 26 takes the
seed's side; the later releases count an empty variable as unset); publish_password true (decision 23 withholds it, the
vectors have the annotation); on_duplicate first and release_unrecorded true (decision 24 refuses both; the original takes
the first match and keeps no record, for Services as for the control plane); gc_orphans true (on in the loop, which the vectors describe); in MetalLB's
configuration passwords plain (the original has no other place for them); delete_nodes true unless the profile is target
(the original deletes nodes whose device is gone). The claims stage does not run (decision 29).
"""

from __future__ import annotations

import json
import typing as t
import urllib.parse

from ansible_collections.multicluster.network.plugins.module_utils._flows import load_balancers_equinix as equinix_metal
from ansible_collections.multicluster.network.plugins.module_utils._io import json_api
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import (
    areas,
    bgp,
    equinix_records,
    garbage,
    identities,
    instances,
    load_balancer_setting,
    locations,
    node_annotations,
    provider,
    reservations,
    settings,
    setup,
    static_pool,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

from ..outcome import Internal, Unhandled
from . import ccm_metallb, ccm_services

Input = t.Mapping[str, t.Any]
Answer = t.Any
_NAMES = {"local_asn": "annotation_local_asn", "peer_asn": "annotation_peer_asn", "peer_ip": "annotation_peer_ip",
          "source_ip": "annotation_src_ip", "password": "annotation_bgp_pass"}  # fmt: skip


def refusing(function: t.Callable[[Input], Answer]) -> t.Callable[[Input], Answer]:
    """A refused value is an answer: its reason word, and the key of a setting."""

    def answer(data: Input) -> Answer:
        try:
            return function(data)
        except ValueRefused as error:
            return {"error": error.word, "key": getattr(error, "key", "")}

    return answer


def internal(data: Input) -> Answer:
    raise Internal("decision 52: the loop of a daemon")


def config_precedence(data: Input) -> Answer:
    seed = data.get("profile") == "seed"
    read = settings.read_settings(data.get("env") or {}, data.get("file"), data.get("parameters"), empty_tag_disables=seed)
    values: t.Dict[str, t.Any] = dict(read.values)
    schemes = node_annotations.Scheme(node_annotations.LEGACY if seed else node_annotations.INDEXED, _overrides(values))
    for datum, name in (schemes.legacy() if seed else schemes.indexed()).items():
        values[_NAMES[datum]] = name
    host = data.get("metadata_facility") or (data.get("metadata") or {}).get("facility") or ""
    places = locations.Places(str(values["metro"]), str(values["facility"]), ccm_services.facility_of_host(host))
    if seed and places.host_facility:
        values["facility"] = locations.location_of({}, places).get("facility", "")
    if seed:  # the seed's default; 0 is ours, which finds the same
        values["api_server_port"] = values["api_server_port"] or 6443
    for name in ("annotation_peer_asn", "annotation_peer_ip"):
        values[name + "s"] = values[name]
    values["base_url"] = values["base_url"] or equinix_metal.PUBLIC_URL
    parsed = load_balancer_setting.parse_load_balancer(values["loadbalancer"])
    return dict(values, loadbalancer_enabled=parsed.enabled, warnings=read.warnings, printable=read.printable())


def _overrides(values: Input) -> t.Dict[str, str]:
    found = {datum: values.get(name) or values.get(name + "s") for datum, name in _NAMES.items()}
    return {datum: str(name) for datum, name in found.items() if name}


def eip_location(data: Input) -> Answer:
    return locations.location_of(data.get("service_annotations"), ccm_services.places(data.get("config") or {}))


def lb_setting_parse(data: Input) -> Answer:
    found = load_balancer_setting.parse_load_balancer(data["setting"] or "")
    return dict(found._asdict(), uses_bgp=found.uses_bgp, enabled=found.enabled, warning=bool(found.warnings))


def eip_tags(data: Input) -> Answer:
    owner = reservations.Owner(identities.parse_identity(data.get("identity") or identities.DEFAULT_IDENTITY), data.get("cluster_uid") or "")
    tags = reservations.service_tags(owner, data["namespace"], data["name"])
    return {"tags": tags, "load_balancer_name": reservations.load_balancer_name(tags)}


def tag_match(data: Input) -> Answer:
    return {"_first_index": reservations.first_match(data["reservations"] or [], data["tags"] or [])}


def node_selector(data: Input) -> Answer:
    return bgp.selected_nodes(data["nodes"], data.get("selector") or "")


def provider_id(data: Input) -> Answer:
    return {"device_id": identities.parse_provider_id(data["provider_id"])}


def bgp_project(data: Input) -> Answer:
    config = data["config"]
    if not load_balancer_setting.parse_load_balancer(config.get("loadbalancer", "")).uses_bgp:
        return {"post": None, "effective": {}, "error": None}
    read = data.get("get_response")
    status = data.get("get_status", read.get("status") if read is not None else ccm_services.NO_ANSWER[0])
    answered = isinstance(status, int) or status in ccm_services.NO_ANSWER  # else it is the configuration's own status
    if answered and ccm_services.failure(status):
        return {"post": None, "effective": {}, "error": ccm_services.failure(status)}
    plan = bgp.project_bgp(
        read.get("body") if answered and read and "body" in read else {} if read is None else read,
        _asns(config)[0], config.get("bgp_pass") or "", adopt=data.get("profile") != "seed",
    )  # fmt: skip
    error = ccm_services.failure(data["post_response"].get("status")) if data.get("post_response") else ""
    effective = {"local_asn": plan.local_asn, "md5": plan.password or None, "max_prefix": plan.max_prefixes}
    return {"post": plan.post, "effective": effective, "error": error or None}


def bgp_node(data: Input) -> Answer:
    if data.get("event") in ("node_removed", "remove"):
        return {"requests": []}
    node = data["node"] if isinstance(data.get("node"), dict) else {}
    try:
        identities.parse_provider_id(data.get("provider_id", node.get("provider_id", "D")))
    except ValueRefused as error:
        return {"requests": [], "ok": False, "changed": False, "skipped": True, "error": error.word}
    answer = data.get("post_response") or {}
    message = equinix_records.error_message(answer.get("body"))
    good, changed = bgp.session_answer(answer.get("status"), message)
    request = {"method": "POST", "path_suffix": "/devices/{id}/bgp/sessions", "body": bgp.SESSION_REQUEST}
    return {"request": request, "requests": [request], "ok": good, "changed": changed}


def bgp_neighbors(data: Input) -> Answer:
    found = bgp.node_bgp("", (data.get("body") or {}).get("bgp_neighbors"), *_asns(data.get("config") or {}))
    return dict(found._asdict(), peers=list(found.peers))


def _asns(config: Input) -> t.Tuple[int, int]:
    """The configured ones or their defaults, as every run has them."""
    defaults = {item.name: item.default for item in settings.SETTINGS}
    return config.get("local_asn") or defaults["local_asn"], config.get("peer_asn") or defaults["peer_asn"]


def annotations(data: Input) -> Answer:
    config = data.get("config") or {}
    existing = dict(data.get("existing_annotations") or {})
    scheme = node_annotations.Scheme(
        data.get("scheme") or config.get("annotation_scheme") or node_annotations.BOTH,
        _overrides(config),
        config.get("annotation_legacy_singular", True),
        config.get("publish_bgp_password", True),
        config.get("annotation_domain") or identities.DEFAULT_DOMAIN,
    )
    if config.get("annotation_network_ipv4_private"):
        scheme = scheme._replace(private_network=config["annotation_network_ipv4_private"])
    network = data.get("private_network") or ""
    if "device_addresses" in data:
        network = node_annotations.private_network(data["device_addresses"])
    wanted: t.Dict[str, str] = {}
    patch = None
    if data.get("neighbor"):
        facts = bgp.node_bgp("", [data["neighbor"]], *_asns(config), password=config.get("bgp_pass") or "")
        wanted = node_annotations.node_annotations(facts, scheme, network)
        patch = node_annotations.annotation_patch(existing, wanted, scheme)
    elif network:
        wanted = {scheme.private_network: network}
    if data.get("compare") == "patch":
        return {"patch": dict(patch, metadata={"annotations": patch}) if patch else None}
    final = dict(existing, **wanted)
    return {key: value for key, value in final.items() if (patch or {}).get(key, "") is not None}


def _variant(data: Input) -> instances.Variant:
    config = dict(data.get("config") or {}, **(data.get("options") or {}))
    seed = data.get("profile") == "seed"
    return instances.Variant(
        config.get("region_from") or ("facility" if seed else "metro"),
        config.get("zone_from") or "none",
        data.get("address_list") or config.get("address_list") or (instances.SINGLE if seed else instances.ALL),
        "plan_name" if seed else "plan",
    )


def node_addresses(data: Input) -> Answer:
    device = equinix_records.device(dict({"id": "device"}, **data["device"]))
    return instances.node_addresses(device, data.get("provided_node_ip"), _variant(data))


def instance(data: Input) -> Answer:
    try:
        return _instance(data)
    except ValueRefused as error:
        return {"error": error.word, "node_deleted": False, "taint_removed": False}


def _instance(data: Input) -> Answer:
    node, variant = data["node"], _variant(data)
    for name, answer in data.items():
        status = answer.get("status") if isinstance(answer, dict) else answer if name.endswith("status") else None
        if (isinstance(status, int) and status != 404 or status in ccm_services.NO_ANSWER) and ccm_services.failure(status):
            raise ValueRefused(ccm_services.failure(status), "the device cannot be read")
    records = data.get("devices") or [item for page in data.get("device_pages") or () for item in page]
    device = instances.device_of(node.get("name"), node.get("provider_id") or "", [equinix_records.device(item) for item in records], variant)
    options = dict({"delete_nodes": data.get("delete_nodes", data.get("profile") != "target")}, **(data.get("config") or {}), **(data.get("options") or {}))
    delete = bool(options["delete_nodes"])
    taints = [item.get("key") if isinstance(item, dict) else item for item in node.get("taints") or ()]
    fate = instances.fate_of(node.get("ready", True), device, taints, delete)
    if device is None:
        return {"found": False, "exists": False, "shutdown": False, "taint_removed": False, "node_deleted": fate.delete}
    if node.get("taints") is None and not node.get("provider_id"):
        taints = [instances.UNINITIALIZED]  # a node without a provider ID is a new one
    error = None
    try:
        facts = instances.node_facts(device, taints, node.get("provider_id") or "", variant=variant)
    except ValueRefused as refused:  # the node keeps its taint; what is known of the device is known
        error, facts = refused.word, instances.NodeFacts(node.get("provider_id") or "", {}, [], False)
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
    owner = ccm_services.owner(data)
    found = garbage.sweep(rows, owner, bool(data.get("force") or data.get("forced")))
    shown = found._asdict()
    if not data.get("confirm"):
        shown.update(release=[], would_release=found.release, candidates=found.release, listed=found.release)
    return shown


def provider_contract(data: Input) -> Answer:
    if data.get("provider") == "equinix_metal":
        warnings = provider.retired_warning((data.get("config") or {}).get("base_url"))
        return {"warning": warnings[0].partition(":")[0] if warnings else None}
    if "capabilities" in data:
        balancer = load_balancer_setting.parse_load_balancer(data.get("loadbalancer") or "empty://")
        can = data["capabilities"]
        jobs = areas.areas(balancer, "", [name for name in can if not isinstance(can, dict) or can[name]])
        calls = [job for job in jobs if job in (areas.PROJECT_BGP, areas.NODE_BGP)]
        return {"bgp_calls": len(calls), "addresses_mapped": areas.ADDRESSES in jobs}
    if data.get("provider") != "static" or "pool" not in data:
        setup.parse_setup({"cluster": "c", "provider": data.get("provider")}, {"METAL_API_KEY": "k", "METAL_PROJECT_ID": "p"}, None)
        raise Unhandled("needs a provider")
    held = [reservations.Reservation(item, item) for item in data.get("used") or () if isinstance(item, str)]
    held += [reservations.Reservation(item["address"], item["address"], tags=tuple(item.get("tags") or ()))
             for item in (*(data.get("used") or ()), *(data.get("existing") or ()), *(data.get("reservations") or ())) if isinstance(item, dict)]
    requests = data.get("requests") or [data["request"]]
    answers = []
    for request in requests:
        made, new = static_pool.reserve(static_pool.parse_pool(data["pool"]), held, request["tags"])
        held += [made] if new else []
        answers.append({"address": made.address, "cidr": made.cidr, "state": made.state, "tags": list(made.tags)})
    return dict(answers[-1], addresses=[answer["address"] for answer in answers])


def api_client(data: Input) -> Answer:
    beside = {key: value for key, value in data.items() if key != "id"}  # the vector's own
    given = dict(beside, **(data.get("input") or {}), **(data.get("args") or {}), **(data.get("config") or {}))
    answers = list(data.get("responses") or [data.get("response") or {}])
    sent: t.List[t.Dict[str, t.Any]] = []

    def send(method: str, url: str, headers: t.Mapping[str, str], body: t.Optional[bytes], seconds: float) -> json_api.Answer:
        parts = urllib.parse.urlsplit(url)
        sent.append({"method": method, "url": url.partition("?")[0], "path": parts.path.partition("/metal/v1")[2] or parts.path,
                     "headers": dict(headers), "body": json.loads(body) if body else None, "query": dict(urllib.parse.parse_qsl(parts.query))})
        row = answers[min(len(sent), len(answers)) - 1]
        if not isinstance(row.get("status"), int):
            return json_api.Answer(None, reason=str(row.get("status") or row.get("error") or "no answer"))
        text = row.get("raw") if "raw" in row else "" if row.get("body") is None else json.dumps(row["body"])
        return json_api.Answer(row["status"], {key.lower(): str(value) for key, value in (row.get("headers") or {}).items()}, text.encode())

    waits: t.List[float] = []
    try:
        one = equinix_metal.EquinixMetal(given.get("api_key") or "k", given.get("project_id") or "P", given.get("base_url") or "",
                                         plain_http=True, send=send, sleep=waits.append)
        value = _call(one, data["operation"], given)
        answer: t.Dict[str, t.Any] = {"ok": True, "status": answers[min(len(sent), len(answers)) - 1].get("status"), "result": value,
                                      "count": len(value) if isinstance(value, list) else None}
        if isinstance(value, bool):
            answer["changed"] = value
        elif isinstance(value, list):
            answer["ids"] = [getattr(item, "id", None) for item in value]
    except ValueRefused as refused:
        answer = {"ok": False, "status": getattr(refused, "status", None), "error": refused.word, "message": refused.message}
    shown = dict(sent[0], times=len(sent)) if sent else {}
    return dict(answer, waits=waits, delays=waits, requests=sent, _request=shown, _requests=sent)


def _call(one: equinix_metal.EquinixMetal, operation: str, given: Input) -> t.Any:
    ident = given.get("id") or given.get("device_id") or given.get("device") or "D"
    calls: t.Dict[str, t.Callable[[], t.Any]] = {
        "list_reservations": one.list_addresses,
        "list_addresses": one.list_addresses,
        "list_devices": one.list_devices,
        "get_device": lambda: one.get_device(ident),
        "get_project_bgp": one.read_project_bgp,
        "project_bgp": one.read_project_bgp,
        "enable_project_bgp": lambda: one.enable_project_bgp(bgp.project_bgp({}, given.get("asn") or 65000, given.get("md5") or "")),
        "reserve": lambda: one.order(given.get("body") or {"type": "public_ipv4", "quantity": 1, "tags": given.get("tags") or [],
                                                           "fail_on_approval_required": True,
                                                           **{name: given[name] for name in ("metro", "facility") if given.get(name)}}),
        "sessions": lambda: one.sessions(ident),
        "release": lambda: one.release_address(given.get("id") or "R"),
        "unassign": lambda: one.unassign(given.get("id") or "A"),
        "assign": lambda: one.assign(given.get("address") or "147.75.200.9", ident),
        "neighbors": lambda: one.neighbours(ident),
        "bgp_neighbors": lambda: one.neighbours(ident),
        "get_neighbors": lambda: one.neighbours(ident),
        "list_neighbors": lambda: one.neighbours(ident),
        "create_session": lambda: one.ensure_node_bgp(ident),
        "create_bgp_session": lambda: one.ensure_node_bgp(ident),
        "ensure_node_bgp": lambda: one.ensure_node_bgp(ident),
        "update_reservation": lambda: one.update_address(given.get("id") or "R", given.get("body") or {}),
    }
    name = operation if operation in calls else next((known for words, known in _OTHER_NAMES if all(word in operation for word in words)), "")
    if name not in calls:
        raise Unhandled("no call {0}".format(operation))
    return calls[name]()


#: Other names of the same calls, by the words in them; the first that fits counts.
_OTHER_NAMES = (
    (("neighb",), "neighbors"), (("list", "session"), "sessions"), (("get", "session"), "sessions"), (("session",), "create_session"),
    (("enable", "node"), "create_session"), (("enable", "bgp"), "enable_project_bgp"), (("bgp",), "project_bgp"),
    (("unassign",), "unassign"), (("assign",), "assign"), (("release",), "release"), (("delete",), "release"), (("reserve_",), "reserve"),
    (("device", "list"), "list_devices"), (("device",), "get_device"), (("list",), "list_reservations"), (("update",), "update_reservation"),
)  # fmt: skip


HANDLERS: t.Dict[str, t.Callable[[Input], Answer]] = {
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
