# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each of several inventories has alone. Only files are read, no program is run and no plugin that asks anybody."""

from __future__ import annotations

import os
import pathlib
import typing as t

from ansible.errors import AnsibleError
from ansible.inventory.data import InventoryData
from ansible.plugins.loader import inventory_loader
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.groups import Claim

_VARIABLE = "multicluster_cluster"
#: Where kubespray and Ansible itself say how a host is reached, the first that is there counts.
_ADDRESSES = ("ansible_host", "access_ip", "ip")
_SKIPPED = ("group_vars", "host_vars")
_PLUGINS = ("ansible.builtin.yaml", "ansible.builtin.ini")


def read_sources(paths: t.Sequence[str], loader: t.Any) -> dict[str, dict[str, Claim]]:
    """{inventory: {host: Claim}} of the inventories that are files or folders of files; others are left out."""
    found = {}
    for path in paths:
        source = pathlib.Path(path)
        if source.exists():
            data, base = InventoryData(), source if source.is_dir() else source.parent
            for file in _files(path):
                _parse(file, data, loader)
            data.reconcile_inventory()
            found[path] = _claims(data, base, loader)
    return found


def _files(path: str) -> list[str]:
    folder = pathlib.Path(path)
    if not folder.is_dir():
        return [path]
    names = sorted(
        file.name for file in folder.iterdir() if not file.name.startswith(".") and file.name not in _SKIPPED
    )
    return [file for name in names for file in _files(str(folder / name))]


def _parse(file: str, data: InventoryData, loader: t.Any) -> None:
    """Add a file's hosts and groups. What cannot be read here was said by Ansible already, or is asked of somebody else."""
    if os.access(file, os.X_OK):
        return
    for name in _PLUGINS:
        plugin = inventory_loader.get(name)
        try:
            if plugin.verify_file(file):
                plugin.parse(data, loader, file, cache=False)
                return
        except (AnsibleError, OSError, ValueError, TypeError, AttributeError):
            continue


def _claims(data: InventoryData, base: pathlib.Path, loader: t.Any) -> dict[str, Claim]:
    said = {name: _said(group.vars, base, "group_vars", name, loader) for name, group in data.groups.items()}
    claims = {}
    for name, host in data.hosts.items():
        own = _said(host.vars, base, "host_vars", name, loader)
        groups = sorted(host.get_groups(), key=lambda group: (group.depth, group.priority, group.name))
        rows = [(group.name, said[group.name][_VARIABLE]) for group in groups if said[group.name].get(_VARIABLE)]
        if own.get(_VARIABLE):
            rows.append(("", own[_VARIABLE]))
        group, cluster = rows[-1] if rows else ("", None)
        address = next((own[key] for key in _ADDRESSES if own.get(key)), None)
        rivals = [
            (other, theirs)
            for other, theirs in rows
            if theirs != cluster and group and not _related(data, group, other)
        ]
        claims[name] = Claim(cluster, group, address, tuple(rivals))
    return claims


def _related(data: InventoryData, group: str, other: str) -> bool:
    """Whether one of two groups is within the other, which is how a value is meant to be overridden."""
    return (
        data.groups[other] in data.groups[group].get_ancestors()
        or data.groups[group] in data.groups[other].get_ancestors()
    )


def _said(inline: t.Mapping[str, t.Any], base: pathlib.Path, folder: str, name: str, loader: t.Any) -> dict[str, str]:
    """Our variable and addresses of a group or host; templates count as nothing."""
    values = dict(inline)
    try:
        for file in loader.find_vars_files(str(base / folder), name):
            values.update(loader.load_from_file(file, cache="none", unsafe=True) or {})
    except (AnsibleError, OSError, ValueError, TypeError):
        pass  # such as a vault without its password; Ansible itself complains where it matters
    return {
        key: str(values[key])
        for key in (_VARIABLE, *_ADDRESSES)
        if isinstance(values.get(key), str) and "{{" not in values[key]
    }
