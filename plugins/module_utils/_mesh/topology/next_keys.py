# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of peers with the keys that a step of a rotation gives them. Pure."""

from __future__ import annotations

import collections
import typing as t

from ..._values.keys import is_weak

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
