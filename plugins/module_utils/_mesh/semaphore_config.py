# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""The configuration of semaphore-wireguard: its JSON file, checks and normal form (semaphore 3.1).

The normal form is also what the inventory is turned into, so that both are checked by the same rules.
"""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_network
from .._values.json_text import Fields, parse_json
from .._values.ranges import overlapping_pairs
from .._values.refused import ValueRefused, quoted
from .._values.remote_access import (
    Problem,
    access_problems,
    name_problems,
    read_access,
    read_resync_period,
    start_access_problems,
)
from .._values.settings import Setting
from .semaphore_annotations import DEFAULT_PORT
from .semaphore_device import DEFAULT_MTU, check_device_name, parse_listen_port, parse_mtu

#: What the original's agent takes from its command line and environment.
SETTINGS = (
    Setting("node-name", "SWG_NODE_NAME", None, "node_name_missing"),
    Setting("clusters-config", "SWG_CLUSTERS_CONFIG", None, "config_path_missing"),
    Setting("wg-key-path", "SWG_WG_KEY_PATH", "/var/lib/semaphore-wireguard"),
    Setting("listen-address", "SWG_LISTEN_ADDRESS", ":7773"),
    Setting("log-level", "SWG_LOG_LEVEL", "info"),
)


def parse_wireguard(raw: str) -> t.Dict[str, t.Any]:
    """Text to {ok, config, error, message, warnings}: the first failing check in the specification's order counts."""
    warnings: t.List[str] = []
    try:
        config = read_wireguard(raw, warnings)
        found = next(problems(config), None)
        if found is not None:
            raise ValueRefused(found.word, found.message)
    except ValueRefused as error:
        return {"ok": False, "config": None, "error": error.word, "message": error.message, "warnings": warnings}
    return {"ok": True, "config": config, "error": None, "message": "", "warnings": warnings}


def read_wireguard(raw: str, warnings: t.List[str]) -> t.Dict[str, t.Any]:
    """JSON to the normal form with defaults; types are checked, meaning is not."""
    top = Fields(parse_json(raw), "", warnings)
    local = top.section("local")
    config: t.Dict[str, t.Any] = {
        "local": {"name": local.text("name"), "kubeConfigPath": local.text("kubeConfigPath")},
        "remotes": [],
    }
    if local.has("podSubnet"):
        config["local"]["podSubnet"] = local.text("podSubnet")
    local.warn_unknown()
    for index, item in enumerate(top.items("remotes")):
        entry = Fields(item, "remotes[{0}]".format(index), warnings)
        remote: t.Dict[str, t.Any] = read_access(entry)
        remote["podSubnet"] = entry.text("podSubnet")
        remote["wgDeviceMTU"] = entry.integer("wgDeviceMTU") or DEFAULT_MTU
        remote["wgListenPort"] = entry.integer("wgListenPort") or DEFAULT_PORT
        remote["resyncPeriodSeconds"] = read_resync_period(entry)
        entry.warn_unknown()
        config["remotes"].append(remote)
    top.warn_unknown()
    return config


def problems(config: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    """Everything that is wrong with a configuration in normal form, in the order of the checks.

    A remote may carry ``podSubnets`` beside ``podSubnet`` when its cluster has several ranges.
    """
    remotes = config["remotes"]
    if not config["local"]["name"]:
        yield Problem("local_name_missing", None, "name", "the local cluster has no name")
    if not remotes:
        yield Problem("no_remotes", None, "remotes", "there is no remote cluster")
    for index, remote in enumerate(remotes):
        yield from access_problems(index, remote)
        if not remote["podSubnet"]:
            message = "remote {0} has no podSubnet".format(quoted(remote["name"]))
            yield Problem("pod_subnet_missing", index, "podSubnet", message)
    yield from name_problems(config["local"]["name"], remotes)
    for index, remote in enumerate(remotes):
        yield from _refusals(index, "wgListenPort", lambda: parse_listen_port(remote["wgListenPort"]))
        yield from _refusals(index, "wgDeviceMTU", lambda: parse_mtu(remote["wgDeviceMTU"]))
    yield from _shared_ports(remotes)
    yield from _overlaps(config)


def _refusals(index: t.Optional[int], key: str, check: t.Callable[[], object]) -> t.Iterator[Problem]:
    try:
        check()
    except ValueRefused as error:
        yield Problem(error.word, index, key, error.message)


def _shared_ports(remotes: t.Sequence[t.Mapping[str, t.Any]]) -> t.Iterator[Problem]:
    seen: t.Dict[int, str] = {}
    for index, remote in enumerate(remotes):
        port = remote["wgListenPort"]
        if port in seen:
            yield Problem(
                "duplicate_listen_port",
                index,
                "wgListenPort",
                "the devices towards {0} and {1} would both listen on port {2}; each needs its own".format(
                    quoted(seen[port]), quoted(remote["name"]), port
                ),
            )
        seen.setdefault(port, remote["name"])


def _overlaps(config: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    labelled: t.List[t.Tuple[t.Any, t.Tuple[t.Optional[int], str]]] = []
    local = config["local"]
    sources = [(None, local["name"], [local.get("podSubnet")])] + [
        (index, remote["name"], remote.get("podSubnets") or [remote["podSubnet"]])
        for index, remote in enumerate(config["remotes"])
    ]
    for index, name, texts in sources:
        for text in texts:
            try:
                labelled.append((parse_network(text), (index, name)))
            except ValueRefused:
                continue  # reported by start_problems, as upstream reports it
    for (outer, (first, outer_name)), (inner, (second, inner_name)) in overlapping_pairs(labelled):
        yield Problem(
            "pod_subnet_overlap",
            second if second is not None else first,
            "podSubnet",
            "{0} of {1} overlaps {2} of {3}".format(inner, quoted(inner_name), outer, quoted(outer_name)),
        )


def start_problems(
    remote: t.Mapping[str, t.Any], files: t.Mapping[str, t.Optional[str]], index: t.Optional[int] = None
) -> t.Iterator[Problem]:
    """What upstream finds only when it starts: token, pod subnets, device name, in this order.

    files: path -> content of what could be read.
    """
    yield from start_access_problems(remote, files, index)
    for subnet in remote.get("podSubnets") or [remote.get("podSubnet")]:
        yield from _refusals(index, "podSubnet", lambda: parse_network(subnet, "pod_subnet_invalid"))
    alias = remote.get("deviceAlias")
    yield from _refusals(index, "name", lambda: check_device_name(remote["name"], alias))
