# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of a host that manage links: what keeps them away from owned links, where they run (kubespan 19).

systemd-networkd with ``[Match] Name=*`` configures every link, and removes rules and routes of others at its start; NetworkManager does much the same.
"""

from __future__ import annotations

import os
import typing as t

from ..programs import FAILURES, find_program, run

#: What each keeps there while it runs; the folder of networkd may be there without it.
NETWORKD, NETWORK_MANAGER = "/run/systemd/netif/state", "/run/NetworkManager"
_HEAD = "# Written by multicluster.network; remove it with the collection's teardown playbook.\n"
_SECONDS = 20


def paths(name: str) -> list[str]:
    """Every file that may be there for a name: of links of networkd, of its settings, of NetworkManager."""
    return [
        f"/etc/systemd/network/00-{name}.network",
        f"/etc/systemd/networkd.conf.d/50-{name}.conf",
        f"/etc/NetworkManager/conf.d/50-{name}.conf",
    ]


def texts(name: str, devices: t.Sequence[str]) -> dict[str, str]:
    """Path to text of those that this host needs for these devices."""
    link, settings, manager = paths(name)
    found: dict[str, str] = {}
    if devices and os.path.isfile(NETWORKD):
        found[link] = _HEAD + f"[Match]\nName={' '.join(devices)}\n\n[Link]\nUnmanaged=yes\n"
        found[settings] = _HEAD + "[Network]\nManageForeignRoutingPolicyRules=no\nManageForeignRoutes=no\n"
    if devices and os.path.isdir(NETWORK_MANAGER):
        found[manager] = (
            _HEAD + f"[keyfile]\nunmanaged-devices+={';'.join('interface-name:' + device for device in devices)}\n"
        )
    return found


def reload_managers(changed: t.Container[str], name: str) -> None:
    """Let those read their files again that these changed files are for; one that cannot be asked reads them at its next start."""
    link, settings, manager = paths(name)
    for files, program, words in (
        ((link, settings), "networkctl", ["reload"]),
        ((manager,), "nmcli", ["general", "reload", "conf"]),
    ):
        path = find_program(program) if any(file in changed for file in files) else None
        try:
            if path is not None:
                run([path, *words], _SECONDS)
        except FAILURES:
            continue
