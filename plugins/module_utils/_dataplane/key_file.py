# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a device's private key lives, and what to do with what is found there (semaphore 3.3)."""

from __future__ import annotations

#: Where the original keeps its keys; an installation of it is adopted in place.
KEY_DIRECTORY = "/var/lib/semaphore-wireguard"

GENERATE, USE, ERROR = "generate", "use", "error"


def key_action(state: str) -> str:
    """What to do with a key file that is ``absent``, a ``key`` or ``unusable``: a file that exists is never written."""
    return {"absent": GENERATE, "key": USE}.get(state, ERROR)
