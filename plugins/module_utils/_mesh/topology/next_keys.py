# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which devices get their next keys in a step of a rotation, and rows of peers with these. Pure."""

from __future__ import annotations

import collections
import typing as t

from ..._plan.mesh_plan import MeshPlan
from ..._values.keys import is_weak
from ..semaphore.rotation import Record

Data = dict[str, t.Any]


def replaced(peers: t.Sequence[t.Mapping[str, t.Any]], coming: t.Mapping[t.Any, str]) -> list[Data]:
    """The rows with ``public_key`` replaced by the next key. coming: {public key: next key}.

    A next key is a claim like every other: one that is weak, or that is not of one peer alone, is left until its node publishes it as its own, and the
    claims are checked.
    """
    count = collections.Counter([*(str(row["public_key"]) for row in peers), *coming.values()])
    usable = {key: after for key, after in coming.items() if count[after] == 1 and not is_weak(after)}
    rows = ((row, row["public_key"]) for row in peers)
    return [
        dict(row, public_key=usable[key]) if isinstance(key, str) and key in usable else dict(row) for row, key in rows
    ]


def rivals(peers: t.Iterable[t.Mapping[str, t.Any]], records: t.Mapping[str, Record]) -> set[str]:
    """The nodes of which another node has, or is to have, the next key. peers: rows with ``node`` and ``public_key``; records: by node."""
    claims: dict[str, set[str]] = {}
    for row in peers:
        claims.setdefault(str(row["public_key"]), set()).add(str(row["node"]))
    for node, record in records.items():
        if record.key and record.retired:
            claims.setdefault(record.key, set()).add(node)
    return {node for node, record in records.items() if record.key and len(claims.get(record.key, ())) > 1}


def marked(mesh: MeshPlan, renewed: t.Collection[tuple[str, str]]) -> MeshPlan:
    """The plan in which the rotations of these devices, {(host, remote)}, are ``renewed``."""
    nodes = {
        host: node._replace(
            rotation={
                remote: dict(row, renewed=True) if (host, remote) in renewed else row
                for remote, row in node.rotation.items()
            }
        )
        for host, node in mesh.nodes.items()
    }
    return mesh._replace(nodes=nodes)
