# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Semaphore's vectors: configuration, and the table of all groups. Fields are renamed, nothing is decided here."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._policy import policy_config
from ansible_collections.multicluster.network.plugins.module_utils._services import mirror_config
from ansible_collections.multicluster.network.plugins.module_utils._values import remote_access, settings
from ansible_collections.multicluster.network.plugins.module_utils._values.json_text import parse_json

from ..outcome import Internal, Unhandled
from . import semaphore_dns_policy, semaphore_mesh, semaphore_services

Input = t.Mapping[str, t.Any]
Answer = t.Dict[str, t.Any]


def first(data: Input, *names: str) -> t.Any:
    """The value under the first of several names that a vector may use for one thing."""
    return next((data[name] for name in names if name in data), None)


# --- configuration -----------------------------------------------------------------------------------------------

_SETTINGS = {
    "service-mirror": mirror_config.SETTINGS,
    "policy": policy_config.SETTINGS,
}


def parse(data: Input) -> Answer:
    if data["component"] == "service-mirror":
        answer = mirror_config.parse_mirror(data["raw"], data.get("overrides"))
        routing = answer["features"].get("routing")
        return dict(answer, features=dict(answer["features"], local_first=routing, routing_strategy=routing))
    raise Unhandled("component {0}".format(data["component"]))


def _flags(data: Input) -> t.Dict[str, t.Any]:
    return {name.lstrip("-").replace("_", "-"): value for name, value in (data.get("flags") or {}).items()}


def env(data: Input) -> Answer:
    if data["component"] not in _SETTINGS:
        raise Unhandled("component {0}".format(data["component"]))
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
    else:
        raise Internal("a start-up check of the agent: nobody gives a run its flags or its token files")
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
    **semaphore_mesh.GROUPS,
    "config_validation": {
        "parse": parse,
        "env": env,
        "local_kubeconfig": local_kubeconfig,
        "startup": startup,
        "zones": zones,
    },
}
HANDLERS.update(semaphore_services.HANDLERS)
