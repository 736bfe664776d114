# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices that one cluster's nodes would have: ports and MTUs, and no port twice (semaphore 3.1)."""

from __future__ import annotations

import functools
import typing as t

from ..._values.refused import ValueRefused, quoted
from .device import parse_listen_port, parse_mtu


class Problem(t.NamedTuple):
    """One thing that is wrong with the device towards the remote of this name. ``key``: wgListenPort or wgDeviceMTU."""

    reason: str
    remote: str
    key: str
    message: str


def problems(remotes: t.Sequence[t.Mapping[str, t.Any]]) -> t.Iterator[Problem]:
    """Everything that is wrong. remotes: ``{name, wgListenPort, wgDeviceMTU}`` of every device of one cluster's nodes."""
    for remote in remotes:
        yield from _refusals(remote["name"], "wgListenPort", functools.partial(parse_listen_port, remote["wgListenPort"]))
        yield from _refusals(remote["name"], "wgDeviceMTU", functools.partial(parse_mtu, remote["wgDeviceMTU"]))
    seen: t.Dict[int, str] = {}
    for remote in remotes:
        port = remote["wgListenPort"]
        if port in seen:
            message = "the devices towards {0} and {1} would both listen on port {2}; each needs its own"
            yield Problem("duplicate_listen_port", remote["name"], "wgListenPort", message.format(quoted(seen[port]), quoted(remote["name"]), port))
        seen.setdefault(port, remote["name"])


def _refusals(remote: str, key: str, check: t.Callable[[], object]) -> t.Iterator[Problem]:
    try:
        check()
    except ValueRefused as error:
        yield Problem(error.reason, remote, key, error.message)
