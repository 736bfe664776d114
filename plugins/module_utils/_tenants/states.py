# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the state of a twin is shown on its source object (16)."""

from __future__ import annotations

import typing as t

PENDING, AVAILABLE, ERROR, READY = "Pending", "Available", "Error", "Ready"

_INTERFACE = {READY: AVAILABLE, ERROR: ERROR, PENDING: PENDING}


def interface_state(twin_state: t.Any) -> str:
    """The state of an interface from the state of its twin: what is unknown or missing is pending."""
    return _INTERFACE.get(twin_state, PENDING) if isinstance(twin_state, str) else PENDING


def network_state(before: t.Any, allocated: bool) -> str:
    """The state of a network: pending until its ID is known, and never downgraded."""
    return AVAILABLE if allocated or before == AVAILABLE else PENDING
