# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writing links, addresses and routes through pyroute2, which is imported here and only when something is written."""

from __future__ import annotations

import contextlib
import typing as t

from ..errors import LinuxError, os_reason


@contextlib.contextmanager
def rtnetlink(operation: str, obj: str) -> t.Iterator[t.Any]:
    """pyroute2's IPRoute; its errors become LinuxError with this operation and object."""
    try:
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError
    except ImportError:
        raise LinuxError(
            operation, obj, "the Python library pyroute2 is missing (package python3-pyroute2)", "python3-pyroute2"
        ) from None
    try:
        with IPRoute() as route:
            yield route
    except NetlinkError as error:
        raise LinuxError(operation, obj, os_reason(OSError(error.code, ""))) from None
    except OSError as error:
        raise LinuxError(operation, obj, os_reason(error)) from None
