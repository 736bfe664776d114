# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that a run may leave behind, as stable JSON: compare two of them with ``==`` or ``diff``."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import stat
import typing as t

from . import process
from .node_init import OWNED_FOLDERS

if t.TYPE_CHECKING:
    from .kubernetes import ControlPlane
    from .nodes import NodeMachine

DELETED = "deleted"
# Below the folders that a node writes to; what changes by itself is left out.
WATCHED = ("etc", "var/lib", "usr/local")
IGNORED = (
    "var/lib/systemd/",
    "var/lib/dbus/",
    "var/lib/private/",
    "etc/.pwd.lock",
    "etc/.updated",
    "etc/ld.so.cache",
    "etc/machine-id",
    "var/lib/dpkg/",
    "var/lib/apt/",
    "var/lib/nfs/",
    "var/lib/pcp/",
)
SERVER_SET = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
POOLS = "/apis/crd.projectcalico.org/v1/ippools"
LINK_KEYS = ("ifname", "link", "mtu", "operstate", "ifalias", "master", "flags", "link_type", "linkinfo")


def of_node(machine: NodeMachine) -> dict[str, t.Any]:
    """Links, addresses, routes of all tables, rules, nft ruleset, units, and changed files of a running node."""
    node = machine.node

    def tool(*command: str) -> list[t.Any]:
        text = process.run(machine.enter(list(command))).stdout.strip()
        return json.loads(text) if text else []

    links = [{key: link[key] for key in LINK_KEYS if key in link} for link in tool("ip", "-d", "-j", "link", "show")]
    for link in links:
        link.get("linkinfo", {}).pop("info_data", None)
    addresses = [
        {
            "dev": entry["ifname"],
            "local": f"{a['local']}/{a['prefixlen']}",
            "scope": a.get("scope"),
            "peer": a.get("address"),
        }
        for entry in tool("ip", "-j", "address", "show")
        if "ifname" in entry
        # A link-local address comes from the link's random hardware address.
        for a in entry.get("addr_info", [])
        if not a["local"].startswith("fe80:")
    ]
    routes = []
    for family in ("-4", "-6"):
        for route in tool("ip", "-j", "-d", family, "route", "show", "table", "all"):
            if str(route.get("dst", "")).startswith("fe80:"):
                continue
            route.pop("expires", None)
            route.pop("cache", None)
            route["flags"] = [flag for flag in route.get("flags", []) if flag not in ("linkdown",)]
            routes.append({"family": family[1:], **route})
    rules = [
        {"family": family[1:], **rule} for family in ("-4", "-6") for rule in tool("ip", "-j", family, "rule", "show")
    ]
    return {
        "node": node.name,
        "links": _sorted(links),
        "addresses": _sorted(addresses),
        "routes": _sorted(routes),
        "rules": _sorted(rules),
        "nft": _without_handles(tool("nft", "-j", "list", "ruleset")),
        "units": _units(machine),
        "files": changed_files(machine.upper),
    }


def _units(machine: NodeMachine) -> dict[str, str]:
    """unit → state of every service, timer, socket and path that is active or has failed; none where nothing could start one."""
    if machine.lab.topology.light:
        return {}
    words = [
        "systemctl",
        "list-units",
        "--plain",
        "--no-legend",
        "--no-pager",
        "--type=service,timer,socket,path",
        "--state=active,failed",
    ]
    lines = process.run(machine.enter(words)).stdout.splitlines()
    return {fields[0]: fields[2] for fields in (line.split(None, 4) for line in lines) if len(fields) > 3}


def of_cluster(plane: ControlPlane) -> dict[str, t.Any]:
    """Every Node and every Calico IPPool (none if that kind is not served), without what the server sets."""
    api = plane.api
    pools = api.get_or_none(POOLS)
    return {
        "cluster": plane.cluster.name,
        "nodes": [_content(item) for item in api.get("/api/v1/nodes")["items"]],
        "ippools": [_content(item) for item in (pools or {}).get("items", [])],
    }


def changed_files(upper: pathlib.Path, lower: pathlib.Path = pathlib.Path("/")) -> dict[str, t.Any]:
    """path → "mode kind digest" of whatever differs from the machine, read from the overlay's upper folder.

    A file that was copied up and is the same as before is no difference; a folder that the machine has not is one. That an
    owned folder of the machine is hidden from the node is none: another program of the machine may make or remove it meanwhile.
    """
    found = {}
    for top in WATCHED:
        for folder, names, files in os.walk(upper / top):
            for name in [*names, *files]:
                file = pathlib.Path(folder) / name
                path = str(file.relative_to(upper))
                if (path + "/").startswith(IGNORED) or path.startswith(IGNORED) or "__pycache__" in path:
                    continue
                if name in names and not file.is_symlink() and (lower / path).is_dir():
                    continue
                try:
                    text = _describe(file)
                except FileNotFoundError:
                    continue
                if os.path.lexists(lower / path) and text == _describe(lower / path):
                    continue
                if text == DELETED and path in OWNED_FOLDERS:
                    continue
                found["/" + path] = text
    return dict(sorted(found.items()))


def _describe(file: pathlib.Path) -> str:
    status = file.lstat()
    mode = f"{stat.S_IMODE(status.st_mode):04o} {status.st_uid}:{status.st_gid}"
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        return DELETED  # an overlay's whiteout
    if stat.S_ISLNK(status.st_mode):
        return f"link {file.readlink()}"
    if stat.S_ISDIR(status.st_mode):
        return f"{mode} folder"
    if not stat.S_ISREG(status.st_mode):
        return f"{mode} special"
    return f"{mode} file {hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"


def _content(item: dict[str, t.Any]) -> dict[str, t.Any]:
    metadata = {key: value for key, value in item["metadata"].items() if key not in SERVER_SET}
    return {**item, "metadata": metadata}


def _without_handles(ruleset: t.Any) -> list[t.Any]:
    """The ruleset in its order (which matters), without the handles that only count up."""
    items = ruleset.get("nftables", []) if isinstance(ruleset, dict) else ruleset
    kept = []
    for item in items:
        for kind, body in item.items():
            if kind != "metainfo":
                kept.append(
                    {kind: {k: v for k, v in body.items() if k != "handle"} if isinstance(body, dict) else body}
                )
    return kept


def _sorted(items: list[t.Any]) -> list[t.Any]:
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
