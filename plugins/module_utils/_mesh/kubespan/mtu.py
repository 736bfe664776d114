# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""MTU and MSS arithmetic (kubespan 11.4, 22.4)."""

from __future__ import annotations

import typing as t

from ..._values.refused import ValueRefused, quoted
from .generations import MIN_MTU, Generation


def check_mtu(value: object) -> int:
    """An MTU of the tunnel: 1280, the least that IPv6 allows, to 65535."""
    if isinstance(value, bool) or not isinstance(value, int) or not MIN_MTU <= value <= 65535:
        raise ValueRefused("bad_mtu", "{0} is no MTU from {1} to 65535".format(quoted(value), MIN_MTU))
    return value


def clamp_to(mtu: int, version: int, gen: Generation) -> t.Optional[int]:
    """The largest MSS a SYN towards a target may announce, or None in a generation that does not clamp."""
    return None if gen.mss_overhead is None else mtu - gen.mss_overhead[version]
