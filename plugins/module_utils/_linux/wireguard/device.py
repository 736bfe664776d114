# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One WireGuard device, whoever implements it."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import typing as t

from ..._dataplane.peer_spec import Dump
from ..errors import LinuxError
from .control_socket import UserspaceDevice, socket_path
from .netlink import KernelDevice

Device = t.Union[KernelDevice, UserspaceDevice]

KERNEL, USERSPACE = "kernel", "userspace"


def open_device(name: str, kind: str | None = None) -> Device:
    """A device with ``kind`` (kernel or userspace), ``writes`` (messages sent that change something) and

    * ``dump()``: a Dump,
    * ``secrets()``: ``{"private_key": text|None, "preshared": {public key: text}}``, for a root-only snapshot and nobody else,
    * ``configure(private_key=bytes, listen_port=int, fwmark=int)``: sets what is given,
    * ``apply(steps)``: PeerSteps, in order,
    * ``close()``.

    kind: when the caller knows it from the link. Otherwise a control socket that answers decides, as ``wg`` does.
    Every method raises LinuxError.
    """
    if kind is None:
        kind = USERSPACE if socket_state(name) == "alive" else KERNEL
    return UserspaceDevice(name) if kind == USERSPACE else KernelDevice(name)


def read_device(name: str, kind: str | None = None) -> Dump:
    """What a device is now, kind as for open_device. Raises LinuxError."""
    with contextlib.closing(open_device(name, kind)) as device:
        return device.dump()


def socket_state(name: str) -> str:
    """``absent``, ``stale`` (nobody listens any more), ``alive``, or ``other`` (no socket at all) for a name."""
    path = socket_path(name)
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return "other"
    except FileNotFoundError:
        return "absent"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        probe.settimeout(5.0)
        try:
            probe.connect(path)
        except OSError as error:
            if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
                return "stale"
            raise LinuxError("reach", name, "its control socket does not answer") from None
    return "alive"


def remove_stale_socket(name: str) -> bool:
    """Remove the control socket that a killed wireguard-go left behind. True when there was one."""
    if socket_state(name) != "stale":
        return False
    try:
        os.unlink(socket_path(name))
    except FileNotFoundError:
        return False
    return True
