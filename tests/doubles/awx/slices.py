# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a sliced job of AWX gets: the inventory with every n-th host in the order of their names, those of all groups; groups keep their variables."""

from __future__ import annotations


def host_names(tree):
    """All hosts of an inventory in the order of their names."""
    return sorted({host for group in tree.values() for host in group.get("hosts") or {}})


def sliced(tree, number, count):
    """An inventory of groups with hosts, vars and children as the slice ``number`` (from 1) of ``count`` has it."""
    kept = set(host_names(tree)[number - 1 :: count])
    return {
        name: dict(group, hosts={host: given for host, given in (group.get("hosts") or {}).items() if host in kept})
        for name, group in tree.items()
    }


def effective_artifacts(*jobs):
    """What a workflow passes on after these jobs, in the order in which they finished: one mapping, of which later ones win."""
    found = {}
    for artifacts in jobs:
        found.update(artifacts)
    return found
