# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of an nft set as elements to delete and to add."""

from __future__ import annotations

import typing as t

from .._values.prefix_sets import Span, Spans


class Delta(t.NamedTuple):
    """Elements to delete, then elements to add, in one transaction; both are ranges as the kernel has them."""

    delete: t.List[Span]
    add: t.List[Span]

    def __bool__(self) -> bool:
        return bool(self.delete or self.add)


def set_delta(current: t.Iterable[Span], wanted: Spans) -> Delta:
    """From a set's elements as they are, adjacent and foreign ones included, to the wanted ranges.

    Elements are whole: one that only overlaps a wanted range is deleted and the wanted one added. Nothing is merged, so
    that every element can be named again.
    """
    have, want = set(current), set(wanted)
    return Delta(sorted(have - want), sorted(want - have))
