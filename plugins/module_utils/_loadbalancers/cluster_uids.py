# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose reservations at a provider a cluster may use and release: the tags name a UID, and the UID is the cluster's own word (T15).

So a UID that two clusters answer with is nobody's, unless the inventory says whose (``cluster_uid``), and while one of the clusters
cannot be asked, another one's answer proves too little to give anything back.
"""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted

_MEND = "write cluster_uid into load_balancers_settings of the one whose it is (kubectl get namespace kube-system -o jsonpath={.metadata.uid})"


def check_uids(answers: t.Mapping[str, str], pinned: t.Mapping[str, str]) -> t.Dict[str, ValueRefused]:
    """Clusters whose UID cannot be believed, and why: ``outside_grant`` where the inventory says another one, else ``claimed_twice``.

    ``answers``: what each cluster says. ``pinned``: what the inventory says, of any of them, also of those that did not answer.
    """
    refused: t.Dict[str, ValueRefused] = {}
    users: t.Dict[str, t.List[str]] = {}
    for name in sorted(answers):
        uid = answers[name]
        if pinned.get(name) and uid != pinned[name]:
            text = "its namespace kube-system has the UID {0}, and cluster_uid of load_balancers_settings says {1}"
            refused[name] = ValueRefused("outside_grant", text.format(quoted(uid), quoted(pinned[name])))
        elif uid:
            users.setdefault(uid, []).append(name)
    for uid, names in users.items():
        owners = sorted(name for name in pinned if pinned[name] == uid)
        claimants = [name for name in names if name not in owners]
        if owners:
            text = "its namespace kube-system has the UID {0}, which is that of cluster {1} (cluster_uid of its load_balancers_settings)"
            refused.update((name, ValueRefused("claimed_twice", text.format(quoted(uid), owners[0]))) for name in claimants)
        elif len(claimants) > 1:
            text = "the clusters {0} say that they have one UID of the namespace kube-system, {1}; none of their addresses is touched: {2}"
            error = ValueRefused("claimed_twice", text.format(" and ".join(claimants[:5]), quoted(uid), _MEND))
            refused.update((name, error) for name in claimants)
    return refused


def unproven(name: str, silent: t.Collection[str], pinned: t.Mapping[str, str]) -> t.Optional[ValueRefused]:
    """Why a cluster's UID is not proof enough to release anything, or None. ``silent``: clusters whose UID is not known now."""
    others = sorted(other for other in silent if other != name and not pinned.get(other))
    if pinned.get(name) or not others:
        return None
    text = "nothing is given back while {0} cannot be asked, whose reservations could be the ones that carry the UID of {1}; {2}"
    return ValueRefused("source_incomplete", text.format(", ".join(others[:5]), name, _MEND))
