# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links by name and number, as the kernel has them now."""

from __future__ import annotations

import socket
import typing as t

from ..errors import LinuxError, os_reason


def link_index(name: str) -> int:
    """The link's index. Raises LinuxError when it is gone."""
    try:
        return socket.if_nametoindex(name)
    except OSError as error:
        raise LinuxError("find", name, os_reason(error)) from None


def link_names() -> t.Set[str]:
    """Names of all links in this network namespace."""
    return {name for _index, name in socket.if_nameindex()}
