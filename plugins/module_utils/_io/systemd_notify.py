# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Telling systemd how a service is: ready, alive, reloading, stopping (sd_notify). Without systemd nothing happens."""

from __future__ import annotations

import os
import socket
import typing as t


def notify(text: str, environment: t.Mapping[str, str] | None = None) -> None:
    """Send lines such as ``READY=1`` to the socket that systemd names. Does not raise: a service runs without being watched, too."""
    path = (os.environ if environment is None else environment).get("NOTIFY_SOCKET")
    if not path:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.settimeout(1.0)  # whoever does not listen must not stop us
            channel.connect("\0" + path[1:] if path.startswith("@") else path)
            channel.sendall(text.encode("utf-8"))
    except OSError:
        pass


def watchdog_seconds(environment: t.Mapping[str, str] | None = None) -> float | None:
    """How often systemd wants to hear that the service is alive: half of its limit; None when it does not watch."""
    environment = os.environ if environment is None else environment
    try:
        limit = int(environment["WATCHDOG_USEC"])
    except (KeyError, ValueError):
        return None
    if environment.get("WATCHDOG_PID") not in (None, str(os.getpid())):
        return None
    return limit / 2_000_000
