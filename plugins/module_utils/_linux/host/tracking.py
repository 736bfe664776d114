# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of tracked connections: how full it is, and whether the kernel lists it."""

from __future__ import annotations

from ..netlink.conntrack import read_dropped
from . import settings


def read_tracking() -> dict[str, int | None] | None:
    """{count, most, dropped} of this network namespace; None where no connection is tracked. Raises LinuxError.

    dropped: packets that could not be tracked, as where the table is full, since the namespace is there; None where the kernel does not say.
    """
    count, most = (settings.read("net", "netfilter", "nf_conntrack_" + name) for name in ("count", "max"))
    return None if count is None or most is None else {"count": count, "most": most, "dropped": read_dropped()}


def has_list() -> bool:
    """Whether single connections can be found and forgotten. Loads that part of the kernel. Raises LinuxError."""
    return read_dropped() is not None
