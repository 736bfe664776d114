# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""The configuration of semaphore-service-mirror: its JSON file, overrides and checks (semaphore 4.1)."""

from __future__ import annotations

import re
import typing as t

from .._values.json_text import Fields, parse_json
from .._values.refused import ValueRefused, quoted
from .._values.remote_access import Problem, access_problems, name_problems, read_access, read_resync_period
from .._values.selectors import parse_selector
from .._values.settings import Setting

#: Flag, variable; in the file they stand under ``global`` as FILE_KEYS says.
SETTINGS = (
    Setting("config", "SSM_CONFIG", None, "config_path_missing"),
    Setting("kube-config", "SSM_KUBE_CONFIG"),
    Setting("mirror-svc-label-selector", "SSM_MIRROR_SVC_LABEL_SELECTOR"),
    Setting("global-svc-label-selector", "SSM_GLOBAL_SVC_LABEL_SELECTOR"),
    Setting("global-svc-routing-strategy-label", "SSM_GLOBAL_SVC_TOPOLOGY_LABEL"),
    Setting("mirror-ns", "SSM_MIRROR_NS"),
    Setting("log-level", "SSM_LOG_LEVEL", "info"),
)
#: Override -> key under ``global``.
FILE_KEYS = {
    "mirror_svc_label_selector": "mirrorSvcLabelSelector",
    "global_svc_label_selector": "globalSvcLabelSelector",
    "global_svc_routing_strategy_label": "globalSvcRoutingStrategyLabel",
    "mirror_ns": "mirrorNamespace",
}
DEFAULT_ZONES = ("local",)
#: Kubernetes allows so many zone hints per endpoint.
MOST_ZONES = 8
#: Names of global services begin with it.
RESERVED_PREFIX = "gl"
_LABEL = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")


def parse_mirror(raw: str, overrides: t.Optional[t.Mapping[str, t.Optional[str]]] = None) -> t.Dict[str, t.Any]:
    """Text to {ok, config, features: {global_services, routing}, error, message, warnings}; the first failure counts.

    overrides: values of flags or environment by the names of FILE_KEYS; empty ones count as unset.
    """
    warnings: t.List[str] = []
    features: t.Dict[str, bool] = {}
    try:
        config = read_mirror(raw, overrides or {}, warnings)
        found = next(problems(config), None)
        if found is not None:
            raise ValueRefused(found.word, found.message)
        labels = config["global"]
        features["global_services"] = bool(labels["globalSvcLabelSelector"])
        features["routing"] = features["global_services"] and bool(labels["globalSvcRoutingStrategyLabel"])
    except ValueRefused as error:
        answer: t.Dict[str, t.Any] = {
            "ok": False,
            "config": None,
            "features": {},
            "error": error.word,
            "message": error.message,
        }
        return dict(answer, warnings=warnings)
    return {"ok": True, "config": config, "features": features, "error": None, "message": "", "warnings": warnings}


def read_mirror(raw: str, overrides: t.Mapping[str, t.Optional[str]], warnings: t.List[str]) -> t.Dict[str, t.Any]:
    """JSON to the normal form with defaults and overrides; types are checked, meaning is not."""
    top = Fields(parse_json(raw), "", warnings)
    shared = top.section("global")
    chosen: t.Dict[str, t.Any] = {key: overrides.get(name) or shared.text(key) for name, key in FILE_KEYS.items()}
    chosen["serviceSync"] = shared.boolean("serviceSync")
    chosen["endpointSliceSync"] = shared.boolean("endpointSliceSync")
    shared.warn_unknown()
    local = top.section("localCluster")
    here = {
        "name": local.text("name"),
        "kubeConfigPath": local.text("kubeConfigPath"),
        "zones": _zones(local),
    }
    local.warn_unknown()
    remotes = []
    for index, item in enumerate(top.items("remoteClusters")):
        entry = Fields(item, "remoteClusters[{0}]".format(index), warnings)
        remote: t.Dict[str, t.Any] = read_access(entry)
        remote["resyncPeriodSeconds"] = read_resync_period(entry)
        remote["servicePrefix"] = entry.text("servicePrefix")
        entry.warn_unknown()
        remotes.append(remote)
    top.warn_unknown()
    return {"global": chosen, "localCluster": here, "remoteClusters": remotes}


def _zones(local: Fields) -> t.List[str]:
    zones = local.items("zones")
    if not all(isinstance(zone, str) for zone in zones):
        raise ValueRefused("bad_json", "{0} is a list of texts".format(local.path("zones")))
    return zones or list(DEFAULT_ZONES)


def problems(config: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    """Everything that is wrong with a configuration in normal form, in the order of the checks.

    Without a global selector there are no global services, without a routing label nobody opts in; neither is wrong.
    """
    if not config["global"]["mirrorSvcLabelSelector"]:
        yield Problem("mirror_selector_missing", None, "mirrorSvcLabelSelector", "there is no selector for mirrors")
    if not config["global"]["mirrorNamespace"]:
        yield Problem("mirror_namespace_missing", None, "mirrorNamespace", "there is no namespace for mirrors")
    if not config["localCluster"]["name"]:
        yield Problem("local_name_missing", None, "name", "the local cluster has no name")
    remotes = config["remoteClusters"]
    if not remotes:
        yield Problem("no_remotes", None, "remoteClusters", "there is no remote cluster")
    for index, remote in enumerate(remotes):
        yield from access_problems(index, remote)
        if not remote["servicePrefix"]:
            message = "remote {0} has no servicePrefix".format(quoted(remote["name"]))
            yield Problem("service_prefix_missing", index, "servicePrefix", message)
    yield from name_problems(config["localCluster"]["name"], remotes)
    yield from prefix_problems(remotes)
    yield from zone_problems(config["localCluster"]["zones"])


def prefix_problems(remotes: t.Sequence[t.Mapping[str, t.Any]]) -> t.Iterator[Problem]:
    """Prefixes that make no names, or the same names as somebody else's. ``remotes``: rows with ``servicePrefix``."""
    seen: t.Set[str] = set()
    for index, remote in enumerate(remotes):
        prefix = remote["servicePrefix"]
        if not prefix:
            continue
        if prefix == RESERVED_PREFIX:
            message = "prefix gl is taken by the names of global services"
            yield Problem("reserved_service_prefix", index, "servicePrefix", message)
        elif not _LABEL.match(prefix):
            message = "prefix {0} is not a label that a Service's name can begin with".format(quoted(prefix))
            yield Problem("service_prefix_invalid", index, "servicePrefix", message)
        if prefix in seen:
            message = "two remotes have prefix {0} and would delete each other's mirrors".format(quoted(prefix))
            yield Problem("duplicate_service_prefix", index, "servicePrefix", message)
        seen.add(prefix)


def zone_problems(zones: t.Sequence[str]) -> t.Iterator[Problem]:
    """At most eight zones, since an endpoint can carry no more hints."""
    if len(zones) > MOST_ZONES:
        message = "{0} zones; an endpoint takes hints for {1} at most".format(len(zones), MOST_ZONES)
        yield Problem("too_many_zones", None, "zones", message)


def start_problems(config: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    """What upstream finds only when it starts: selectors that cannot be parsed."""
    for key, word in (
        ("mirrorSvcLabelSelector", "selector_syntax"),
        ("globalSvcLabelSelector", "selector_syntax"),
        ("globalSvcRoutingStrategyLabel", "routing_label_syntax"),
    ):
        try:
            parse_selector(config.get(key) or "", word)
        except ValueRefused as error:
            yield Problem(error.word, None, key, error.message)


def local_kubeconfig(override: t.Optional[str], file_value: t.Optional[str]) -> str:
    """The kubeconfig of the local cluster: flag or variable, then the file; empty means in-cluster."""
    return override or file_value or ""
