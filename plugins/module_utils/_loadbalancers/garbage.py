# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses that clusters left behind (ccm 9.7)."""

from __future__ import annotations

import typing as t

from .reservations import Owner, Reservation, is_ours


class Sweep(t.NamedTuple):
    """Ids: to release, to keep, and blocked since they still point at a device."""

    release: t.List[str]
    keep: t.List[str]
    blocked: t.List[str]


def sweep(reservations: t.Iterable[Reservation], owner: Owner, force: bool = False) -> Sweep:
    """What a gone cluster left. Raises ValueRefused ``missing_cluster_uid``."""
    _tag = owner.cluster_tag  # refuses at once, also for an empty list
    found = Sweep([], [], [])
    for item in reservations:
        if not is_ours(item, owner):
            found.keep.append(item.id)
        elif item.assignments and not force:
            found.blocked.append(item.id)
        else:
            found.release.append(item.id)
    return found
