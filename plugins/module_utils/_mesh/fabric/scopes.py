# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that a run reads once for the whole fabric, and that hosts say differently.

Ansible evaluates such a variable at one host, the first of the play. A value on another host has no effect; one on the first
host alone counts for all. Both without a message, so the inventory check refuses them.
"""

from __future__ import annotations

import typing as t

from ..._values.refused import quoted
from .variables import Finding

#: The hosts at which a role that runs once is evaluated.
CLUSTERS, BOTH = "clusters", "both"
_SECRET = ("secret", "password", "token", "psk")


def is_secret(variable: str) -> bool:
    """Whether the value of a variable must not be shown, by its name."""
    return any(part in variable for part in _SECRET)


def check_scopes(
    rows: t.Iterable[tuple[str, t.Any, t.Sequence[str]]],
    read_at: t.Mapping[str, str],
    clusters: t.Collection[str],
    nodes: t.Collection[str],
) -> list[Finding]:
    """Findings ``differs_by_host``, one for a variable.

    rows: (variable, value, hosts that have it). read_at: {variable: clusters or both}, where a run reads it once; other
    variables are not looked at. clusters, nodes: hosts of the fabric; what other hosts say is none of our business.
    """
    fabric = {*clusters, *nodes}
    said: dict[str, dict[str, t.Any]] = {}
    for name, value, hosts in rows:
        if name in read_at:
            said.setdefault(name, {}).update((host, value) for host in hosts if host in fabric)
    found = []
    for name, values in sorted(said.items()):
        if not values:
            continue
        readers = {CLUSTERS: set(clusters), BOTH: fabric}[read_at[name]]
        first = min(values)
        other = next((host for host in sorted(values) if values[host] != values[first]), None)
        unset = sorted(readers - set(values))
        if other is None and not unset:
            continue
        said_first = first if is_secret(name) else f"{first} has {quoted(str(values[first]))}"
        if other is not None:
            difference = (
                f"{first} and {other} say different things"
                if is_secret(name)
                else f"{said_first}, {other} has {quoted(str(values[other]))}"
            )
        else:
            difference = f"{(f'{first} has a value' if is_secret(name) else said_first)}, {unset[0]} has none"
        message = f"{name} is read once for the whole fabric, so that it cannot differ by host: {difference}; write it once, in group_vars/all"
        found.append(Finding("group all", name, "differs_by_host", message))
    return found
