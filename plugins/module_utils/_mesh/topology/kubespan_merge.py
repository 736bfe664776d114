# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Affiliates of several sources as one list: the inventory, each cluster's Node annotations (kubespan 5.1, decision 36)."""

from __future__ import annotations

import typing as t

from ..kubespan.annotations import LISTS, SCALARS, Affiliate


def raw_key(source: str, node_id: str) -> str:
    """The key of a raw record: ``<source>/<node id>``."""
    return "{0}/{1}".format(source, node_id)


def cluster_source(cluster: str) -> str:
    """The source that one cluster's Node annotations are."""
    return "k8s:{0}".format(cluster)


def merge(raw: t.Mapping[str, t.Mapping[str, t.Any]]) -> t.List[Affiliate]:
    """One affiliate a node id, sorted by it. Raw records are merged in ascending order of their keys.

    Lists are united in the order in which items are first seen; of scalars the later that is not empty wins. ``sources``
    lists who knew the node.
    """
    merged: t.Dict[str, Affiliate] = {}
    for key in sorted(raw):
        record = raw[key]
        target = merged.setdefault(record["node_id"], {"node_id": record["node_id"], "sources": []})
        target["sources"].append(key.partition("/")[0])
        for name in LISTS:
            target[name] = list(dict.fromkeys([*target.get(name, ()), *(record.get(name) or ())]))
        for name in SCALARS:
            target[name] = record.get(name) or target.get(name)
        kind = record.get("machine_type")
        if kind and (kind != "unknown" or not target.get("machine_type")):
            target["machine_type"] = kind
        for name in ("cluster", "node", "declared"):
            if record.get(name):
                target.setdefault(name, record[name])
    return [merged[node_id] for node_id in sorted(merged)]
