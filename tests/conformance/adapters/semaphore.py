# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Semaphore's vectors: node mesh and configuration. Fields are renamed, nothing is decided here."""

from __future__ import annotations

import itertools
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._mesh import (
    peers_wanted,
    semaphore_annotations,
    semaphore_config,
    semaphore_device,
    semaphore_peers,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh import key_file
from ansible_collections.multicluster.network.plugins.module_utils._plan.backoff import delays
from ansible_collections.multicluster.network.plugins.module_utils._policy import policy_config
from ansible_collections.multicluster.network.plugins.module_utils._services import mirror_config
from ansible_collections.multicluster.network.plugins.module_utils._values import remote_access, settings
from ansible_collections.multicluster.network.plugins.module_utils._values.json_text import parse_json
from ansible_collections.multicluster.network.plugins.module_utils._values.private_keys import decode_key_text
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.module_utils._values.x25519 import public_key

from ..outcome import Internal, Unhandled
from . import semaphore_services
from . import semaphore_dns_policy

Input = t.Mapping[str, t.Any]
Answer = t.Dict[str, t.Any]


def first(data: Input, *names: str) -> t.Any:
    """The value under the first of several names that a vector may use for one thing."""
    return next((data[name] for name in names if name in data), None)


def refusing(function: t.Callable[[Input], Answer]) -> t.Callable[[Input], Answer]:
    """A refused value is an answer: its reason word."""

    def answer(data: Input) -> Answer:
        try:
            return function(data)
        except ValueRefused as error:
            return {"error": error.word, "valid": False, "ok": False}

    return answer


# --- device ------------------------------------------------------------------------------------------------------


def device_name(data: Input) -> Answer:
    return semaphore_device.device_name(data["cluster"], data.get("device_alias"))


def interface_name(data: Input) -> Answer:
    return semaphore_device.interface_name(data["name"])


def key_path(data: Input) -> Answer:
    name = first(data, "cluster", "remote", "name")
    device = data.get("device") or semaphore_device.device_of(name)
    directory = first(data, "key_dir", "dir", "directory", "wg_key_path", "key_path", "path")
    path = key_file.key_path(device, directory) if directory else key_file.key_path(device)
    return {"path": path, "file": path, "key_path": path, "key_file": path}


def key_load(data: Input) -> Answer:
    answer = key_file.key_load(data.get("file"))
    return dict(answer, public_key=public_key(decode_key_text(data["file"]))) if answer["action"] == key_file.USE else answer


def device_plan(data: Input) -> Answer:
    data = dict(data, **data["remote"]) if isinstance(data.get("remote"), dict) else data
    plan = semaphore_device.device_plan(
        first(data, "cluster", "name", "remote"),
        [first(data, "pod_subnet", "podSubnet")],
        first(data, "mtu", "wgDeviceMTU"),
        first(data, "listen_port", "wgListenPort"),
        data.get("device_alias"),
    )
    return dict(plan, route=plan["routes"][0])


#: What a vector may call the properties of a device.
_PROPERTIES = {
    "type": ("type", "kind", "link_type"),
    "mtu": ("mtu",),
    "txqueuelen": ("txqueuelen", "tx_queue_length", "qlen"),
    "listen_port": ("listen_port", "port"),
    "firewall_mark": ("firewall_mark", "fwmark"),
    "up": ("up",),
    "addresses": ("addresses",),
}


def device_existing(data: Input) -> Answer:
    existing = first(data, "existing", "device", "current", "actual")
    given = first(data, "wanted", "desired", "plan", "config", "remote")
    given = given if isinstance(given, dict) else data
    wanted = device_plan(dict({"cluster": "gcp", "pod_subnet": "10.4.0.0/16"}, **given))
    existing = existing if isinstance(existing, dict) else data
    known = {name: first(existing, *names) for name, names in _PROPERTIES.items()}
    known = {name: value for name, value in known.items() if value is not None}
    todo = semaphore_device.converge_device(wanted, known)
    kept = [item for item in known.get("addresses") or () if item not in todo["remove_addresses"]]
    return {
        "action": todo["action"],
        "error": todo["reason"],
        "recreated": False,
        "recreate": False,
        "kept": todo["action"] != "create",
        "set": todo["set"],
        "changed": sorted(todo["set"]),
        "mtu": wanted["mtu"],
        "txqueuelen": wanted["txqueuelen"],
        "listen_port": wanted["listen_port"],
        "up": wanted["up"],
        "type": known.get("type", wanted["type"]),
        "addresses": kept,
        "addresses_kept": kept,
        "addresses_after": kept,
        "addresses_removed": todo["remove_addresses"],
        "removed_addresses": todo["remove_addresses"],
        "peers": existing.get("peers"),
        "peers_touched": False,
        "peers_changed": False,
        "peers_kept": True,
    }


#: Words in a vector's event -> our event; the first that occurs counts.
_EVENTS = (
    ("reboot", "reboot"),
    ("config", "absent"),
    ("absent", "absent"),
    ("remote_removed", "absent"),
    ("restart", "stop"),
    ("stop", "stop"),
    ("shutdown", "stop"),
    ("terminat", "stop"),
    ("uninstall", "stop"),
    ("agent", "stop"),
    ("daemonset", "stop"),
    ("exit", "stop"),
    ("crash", "stop"),
    ("kill", "stop"),
    ("sigterm", "stop"),
    ("unreachable", "remote_unreachable"),
    ("down", "remote_unreachable"),
    ("lost", "remote_unreachable"),
    ("outage", "remote_unreachable"),
    ("deleted", "remote_emptied"),
    ("gone", "remote_emptied"),
)


def teardown(data: Input) -> Answer:
    event = next((ours for word, ours in _EVENTS if word in data["event"]), None)
    if event is None:
        raise Unhandled("event {0}".format(data["event"]))
    remove_keys = any("key" in name and value is True for name, value in data.items())
    gone = semaphore_device.teardown(event, remove_keys)
    answer = {"{0}_removed".format(what): value for what, value in gone.items()}
    return dict(answer, keys_removed=gone["key"], routes_removed=gone["route"])


# --- annotations -------------------------------------------------------------------------------------------------


def _addresses(data: Input) -> t.Any:
    status = (data.get("node") or {}).get("status") or {}
    return first(dict(status, **data), "node_addresses", "addresses")


def annotations(data: Input) -> Answer:
    return semaphore_annotations.node_annotations(data["local"], data.get("remotes") or [], _addresses(data))


def endpoint(data: Input) -> Answer:
    address_type = data.get("endpoint_address_type") or "InternalIP"
    port = semaphore_device.parse_listen_port(first(data, "listen_port", "port"))
    return {"endpoint": semaphore_annotations.endpoint(_addresses(data), port, address_type)}


def patch_body(data: Input) -> Answer:
    values = first(data, "annotations", "patch")
    if values is None and "remotes" in data:
        values = annotations(data)["patch"]
    if values is None:
        values = {
            semaphore_annotations.key_of(data["remote"], "pubKey"): first(data, "public_key", "pubKey"),
            semaphore_annotations.key_of(data["remote"], "endpoint"): data.get("endpoint"),
        }
    body = semaphore_annotations.patch_body(values)
    kind = semaphore_annotations.PATCH_TYPE
    answer = {"body": body, "patch": body, "content_type": kind, "patch_type": "strategic", "type": "strategic-merge"}
    return dict(body, **answer)


def annotation_key_valid(data: Input) -> Answer:
    return semaphore_annotations.annotation_key_valid(data["cluster"])


def peer_annotations_present(data: Input) -> Answer:
    found = first(data, "node_annotations", "annotations")
    return {"present": semaphore_annotations.announces(data["local"], found)}


# --- peers -------------------------------------------------------------------------------------------------------


def peers(data: Input) -> Answer:
    subnet = first(data, "pod_subnet", "podSubnet")
    subnets = first(data, "pod_subnets") or ([subnet] if subnet else None)
    answer = semaphore_peers.peers(data["local"], data.get("nodes") or [], data.get("current_peers"), subnets)
    known = first(data, "dns", "resolver", "resolve", "resolved", "hosts")
    if isinstance(known, dict):
        known = {name: [found] if isinstance(found, str) else found or [] for name, found in known.items()}
        for row in answer["peers"]:
            row["endpoint"] = next(iter(peers_wanted.literal_endpoints(row["endpoint"], known)), None)
    return answer


def sync_decision(data: Input) -> Answer:
    done = data.get("initial_list_done", True)
    current = data.get("current") or {}
    return {"sync": semaphore_peers.sync_decision(data["local"], current, data["event"], data["node"], done)}


def backoff(data: Input) -> Answer:
    drawn = first(data, "random", "rand", "draws")
    if data.get("jitter") and drawn is None:
        raise Internal("a drawn delay cannot be compared")
    draw = itertools.cycle(drawn if isinstance(drawn, list) else [drawn]).__next__ if data.get("jitter") else None
    return {"delays_s": list(delays(data["attempts"], data["min_s"], data["max_s"], data.get("factor", 2), draw))}


def peers_outage(data: Input) -> Answer:
    raise Internal("start-up and health of a daemon; a converge run leaves the peers of an unread remote alone")


# --- configuration -----------------------------------------------------------------------------------------------

_SETTINGS = {
    "wireguard": semaphore_config.SETTINGS,
    "service-mirror": mirror_config.SETTINGS,
    "policy": policy_config.SETTINGS,
}


def parse(data: Input) -> Answer:
    if data["component"] == "wireguard":
        return semaphore_config.parse_wireguard(data["raw"])
    if data["component"] == "service-mirror":
        answer = mirror_config.parse_mirror(data["raw"], data.get("overrides"))
        routing = answer["features"].get("routing")
        return dict(answer, features=dict(answer["features"], local_first=routing, routing_strategy=routing))
    raise Unhandled("component {0}".format(data["component"]))


def _flags(data: Input) -> t.Dict[str, t.Any]:
    return {name.lstrip("-").replace("_", "-"): value for name, value in (data.get("flags") or {}).items()}


def env(data: Input) -> Answer:
    known = _SETTINGS[data["component"]]
    wanted = first(data, "setting", "option", "flag", "name", "key")
    flags, variables = _flags(data), data.get("env") or {}
    named = [item for item in known if wanted and wanted.lstrip("-").replace("_", "-") in (item.flag, item.variable)]
    found = (named or settings.mentioned(known, flags, variables) or [settings.Setting("", "")])[0]
    return {"effective": settings.effective(found, flags, variables, first(data, "file_value", "file"))}


def local_kubeconfig(data: Input) -> Answer:
    flag = first(data, "flag", "kube_config", "kube_config_flag", "flag_kube_config")
    if flag is None:
        flag = settings.effective(settings.Setting("kube-config", "SSM_KUBE_CONFIG"), _flags(data), data.get("env"))
    names = ("file_value", "file", "config_value", "kubeConfigPath", "local_kubeconfig", "config_kubeconfig", "config", "raw", "localCluster")
    given = first(data, *names)
    if given == data.get("raw") and given is not None:
        given = parse_json(given)
    if isinstance(given, dict):
        given = (given.get("localCluster") or given).get("kubeConfigPath")
    path = mirror_config.local_kubeconfig(flag, given)
    used = path or "in-cluster"
    return {"used": used, "effective": used, "kubeconfig": used, "path": path, "uses": used, "in_cluster": not path}


def startup(data: Input) -> Answer:
    component = data["component"]
    files = data.get("files") or {}
    if component == "policy":
        word = policy_config.start_error(_flags(data), data.get("env"), files)
    elif component == "service-mirror":
        word = _mirror_start(data)
    elif "remote" in data:
        found = next(semaphore_config.start_problems(data["remote"], files), None)
        word = found.word if found else None
    else:
        flags = dict(_flags(data))
        for name in ("node_name", "clusters_config", "wg_key_path", "listen_address"):
            if name in data:
                flags[name.replace("_", "-")] = data[name]
        word = settings.first_missing(semaphore_config.SETTINGS, flags, data.get("env"))
    return {"ok": word is None, "error": word}


def _mirror_start(data: Input) -> t.Optional[str]:
    if "remote" in data:
        found = next(remote_access.start_access_problems(data["remote"], data.get("files") or {}), None)
        return found.word if found else None
    config = parse_json(data["raw"]) if "raw" in data else data.get("config")
    labels = config.get("global") if isinstance(config, dict) else data.get("global")
    if labels is None:
        names = ("globalSvcRoutingStrategyLabel", "routing_label", "routing_strategy_label", "global_svc_routing_strategy_label")
        label = first(data, *names)
        labels = None if label is None else {"globalSvcRoutingStrategyLabel": label}
    if labels is not None:
        found = next(mirror_config.start_problems(labels), None)
        return found.word if found else None
    flags = dict(_flags(data))
    for name in ("config", "config_path", "config_file"):
        if name in data:
            flags["config"] = data[name]
    return settings.first_missing(mirror_config.SETTINGS, flags, data.get("env"))


def zones(data: Input) -> Answer:
    numbered = ["zone-{0}".format(number) for number in range(data.get("count") or 0)]
    given = data.get("zones") or numbered or list(mirror_config.DEFAULT_ZONES)
    found = next(mirror_config.zone_problems(given), None)
    word = found.word if found else None
    return {"ok": word is None, "valid": word is None, "error": word, "zones": given}


prepare = semaphore_dns_policy.prepare

HANDLERS: t.Dict[str, t.Dict[str, t.Callable[[Input], Answer]]] = {
    **semaphore_dns_policy.HANDLERS,
    "wg_device_name": {
        "device_name": device_name,
        "interface_name": interface_name,
        "key_path": refusing(key_path),
        "key_load": key_load,
        "device_plan": refusing(device_plan),
        "device_existing": refusing(device_existing),
        "teardown": teardown,
    },
    "wg_annotations": {
        "annotations": refusing(annotations),
        "endpoint": refusing(endpoint),
        "patch_body": refusing(patch_body),
        "annotation_key_valid": annotation_key_valid,
        "peer_annotations_present": peer_annotations_present,
    },
    "wg_peers": {"peers": peers, "sync_decision": sync_decision, "outage": peers_outage, "backoff": backoff},
    "config_validation": {
        "parse": parse,
        "env": env,
        "local_kubeconfig": local_kubeconfig,
        "startup": startup,
        "zones": zones,
    },
}
HANDLERS.update(semaphore_services.HANDLERS)
