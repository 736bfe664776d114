# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notices of the kernel that links, addresses, routes, rules or nftables changed; what changed is for a read to find."""

from __future__ import annotations

import select
import socket

_ROUTE, _NETFILTER = 0, 12
#: RTMGRP_LINK, IPV4_IFADDR, IPV4_ROUTE, IPV4_RULE, IPV6_IFADDR, IPV6_ROUTE; IPv6 rules have a number beyond the mask.
_GROUPS = 0x1 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400
_IPV6_RULE_GROUP, _NFTABLES_GROUP = 19, 7
_ADD_MEMBERSHIP, _SOL_NETLINK = 1, 270


class Monitor:
    """Subscribed from construction on, so no event between making it and waiting is lost."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        for protocol, mask, group in ((_ROUTE, _GROUPS, _IPV6_RULE_GROUP), (_NETFILTER, 0, _NFTABLES_GROUP)):
            try:
                heard = socket.socket(
                    socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol
                )
                heard.bind((0, mask))
                heard.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
            except OSError:
                continue  # then the timer alone finds what changed
            self._sockets.append(heard)

    def wait(self, seconds: float) -> bool:
        """Whether anything changed within the time; returns at once when it did."""
        ready = select.select(self._sockets, [], [], max(0.0, seconds))[0]
        self.forget()
        return bool(ready)

    def forget(self) -> None:
        """Everything heard so far is old news."""
        for heard in self._sockets:
            try:
                while heard.recv(1 << 16):
                    pass
            except OSError:  # empty, or more than the socket could hold: either way there is nothing to keep
                continue

    def close(self) -> None:
        for heard in self._sockets:
            heard.close()
