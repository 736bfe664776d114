# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong at the kernel's door, in words for the person who runs the play."""

from __future__ import annotations

import contextlib
import errno
import os
import typing as t

#: The fix is a variable of the inventory, for most hosts are reached by an ordinary user.
NEEDS_ROOT = "this needs root: set ansible_become: true for the host; in a container it needs CAP_NET_ADMIN too"
#: When another program has a device's UDP port; the message names commands instead of the holder, since the port may be free again by the time it is looked up.
PORT_TAKEN = (
    "its UDP port is taken by another program or device, which `ss --udp --listening --numeric --processes` and `wg show all listen-port` name: end that, or "
    "set wireguard_port of the cluster, or wireguard_ports, to another one (in the KubeSpan mode port of kubespan_layout)"
)


class LinuxError(Exception):
    """An operation on this host that failed. ``operation`` and ``object`` name it, ``message`` has the reason.

    ``package`` names what to install when something is missing. No secret is ever part of the text.
    """

    def __init__(self, operation: str, obj: str, message: str, package: str | None = None) -> None:
        self.operation = operation
        self.object = obj
        self.message = message
        self.package = package
        super().__init__(f"failed to {operation} {obj}: {message}")

    def fields(self) -> dict[str, t.Any]:
        """The parts, as keys for a module's failure result."""
        shown = {"operation": self.operation, "object": self.object}
        if self.package:
            shown["missing_package"] = self.package
        return shown


def os_reason(error: OSError) -> str:
    """An OSError in the kernel's words, without paths or numbers that differ between hosts."""
    text = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.EPERM, errno.EACCES):
        text += f" ({NEEDS_ROOT})"
    return text


@contextlib.contextmanager
def failing(operation: str, obj: str) -> t.Iterator[None]:
    """For ``with``: an OSError inside becomes the LinuxError of this operation."""
    try:
        yield
    except OSError as error:
        raise LinuxError(operation, obj, os_reason(error)) from None
