# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a configuration, as checks tell it."""

from __future__ import annotations

import typing as t


class Problem(t.NamedTuple):
    """One thing wrong with a configuration. ``remote`` is the index of the entry, ``key`` its setting."""

    reason: str
    remote: t.Optional[int]
    key: str
    message: str
