# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What a sweep may delete: objects in the mirror namespace that carry our labels and have no source any more.

A source list that is unknown (None) never deletes anything (semaphore 2.3, T14).
"""

from __future__ import annotations

import typing as t

from .global_services import GLOBAL
from .global_slices import CLUSTER_LABEL, MIRRORED_SLICE
from .mirror_services import is_mirror
from .names import global_name, global_slice_name, mirror_name

#: Names of local objects with their labels.
Labelled = t.Mapping[str, t.Mapping[str, str]]
Keys = t.Iterable[t.Tuple[str, str]]


def stale_mirrors(prefix: str, sources: t.Optional[Keys], local: Labelled, sweep: bool = True) -> t.List[str]:
    """Mirrors of one prefix whose Service is not among ``sources`` (namespace, name)."""
    if not sweep or sources is None:
        return []
    wanted = {mirror_name(prefix, *key).name for key in sources}
    return sorted(name for name, labels in local.items() if is_mirror(labels, prefix) and name not in wanted)


def stale_global_services(sources: t.Optional[Keys], local: Labelled, sweep: bool = True) -> t.List[str]:
    """Global Services that no cluster exports; ``sources`` is None unless every cluster was listed."""
    if not sweep or sources is None:
        return []
    wanted = {global_name(*key).name for key in sources}
    return sorted(name for name, labels in local.items() if labels.get(GLOBAL) == "true" and name not in wanted)


def stale_slices(cluster: str, sources: t.Optional[t.Iterable[str]], local: Labelled, sweep: bool = True) -> t.List[str]:
    """Copies of one cluster's slices (by name) that are gone there."""
    if not sweep or sources is None:
        return []
    wanted = {global_slice_name(name).name for name in sources}
    return sorted(
        name
        for name, labels in local.items()
        if labels.get(MIRRORED_SLICE) == "true" and labels.get(CLUSTER_LABEL) == cluster and name not in wanted
    )
