# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""KubeSpan's constants: what both generations share, and the two tables in which they differ (decision 14; kubespan 1.1, 21)."""

from __future__ import annotations

import typing as t

from ..._values.refused import ValueRefused, quoted
from ..._values.text import check_interface_name, parse_decimal, parse_port

DEFAULT_MTU = 1420
MIN_MTU = 1280
KEEPALIVE = 25
#: Reject after 180 s, rekey timeout 5 s, rekey attempts 90 s: after that nothing more can be expected of a session.
PEER_DOWN_INTERVAL = 275
#: How long a newly written endpoint may go without a handshake before the next is tried.
ENDPOINT_TIMEOUT = 15
RECONCILE_INTERVAL = 30
ROUTE_METRIC = 1
#: The worst metric but those that nobody can beat: the fallback loses against every real route.
FALLBACK_METRIC = 4278198272
#: rtnetlink's "static", which Talos uses for its rules and routes and which is part of how they are recognised.
PROTOCOL_STATIC = 4
#: Protocol limits of one affiliate, also our limits for what we read from anywhere.
MAX_ENDPOINTS = 64
MAX_NODE_ID = 256
TABLES_OF_THE_KERNEL = (0, 253, 254, 255)


class Generation(t.NamedTuple):
    """Where two generations differ. ``mss_overhead``: what a TCP segment's headers take off the MTU, None: no clamp."""

    name: str
    ulas_in_sets: bool
    loopback_exception: bool
    mss_overhead: t.Mapping[int, int] | None
    rule_protocol: int | None
    fixed_priority: bool
    pods_from_node: bool
    harvests_always: bool
    excluded_networks: bool
    extra_endpoints: bool


GENERATIONS: t.Mapping[str, Generation] = {
    "current": Generation("current", False, True, {4: 52, 6: 72}, PROTOCOL_STATIC, True, True, False, True, True),
    "v1.3": Generation("v1.3", True, False, None, None, False, False, True, False, False),
}


def generation(name: object) -> Generation:
    if not isinstance(name, str) or name not in GENERATIONS:
        raise ValueRefused("generation_unknown", f"{quoted(name)} is none of {', '.join(sorted(GENERATIONS))}")
    return GENERATIONS[name]


class Layout(t.NamedTuple):
    """Names and numbers on the host. The defaults are Talos'; two meshes on one host need different ones."""

    device: str = "kubespan"
    port: int = 51820
    table_name: str = "talos_kubespan"
    set_v4: str = "kubespan_targets_ipv4"
    set_v6: str = "kubespan_targets_ipv6"
    chain_prerouting: str = "kubespan_prerouting"
    chain_output: str = "kubespan_outgoing"
    mark_from_wireguard: int = 0x20
    mark_to_wireguard: int = 0x40
    route_table: int = 180
    rule_priority: int = 32500

    @property
    def mark_mask(self) -> int:
        """The only bits that are ever read or written."""
        return self.mark_from_wireguard | self.mark_to_wireguard

    def set_name(self, version: int) -> str:
        return self.set_v4 if version == 4 else self.set_v6


def make_layout(**values: t.Any) -> Layout:
    """A checked Layout. Words: device_name_*, port_out_of_range, bad_name, bad_mark, bad_table, bad_priority."""
    layout = Layout(**values)
    check_interface_name(layout.device)
    parse_port(layout.port)
    for name in (layout.table_name, layout.set_v4, layout.set_v6, layout.chain_prerouting, layout.chain_output):
        ok = (
            isinstance(name, str)
            and 0 < len(name) <= 31
            and name.isascii()
            and name.replace("_", "").isalnum()
            and name[0].isalpha()
        )
        if not ok:
            raise ValueRefused("bad_name", f"{quoted(name)} is no name for an nftables object")
    if layout.set_v4 == layout.set_v6 or layout.chain_prerouting == layout.chain_output:
        raise ValueRefused("bad_name", "two sets or two chains have the same name")
    for mark in (layout.mark_from_wireguard, layout.mark_to_wireguard):
        if isinstance(mark, bool) or not isinstance(mark, int) or not 0 < mark < 1 << 32 or mark & (mark - 1):
            raise ValueRefused("bad_mark", f"{quoted(mark)} is not a single bit of a firewall mark")
    if layout.mark_from_wireguard == layout.mark_to_wireguard:
        raise ValueRefused("bad_mark", "both marks are the same bit")
    if not parse_decimal(layout.route_table, "bad_table") < 1 << 32 or layout.route_table in TABLES_OF_THE_KERNEL:
        raise ValueRefused("bad_table", f"{quoted(layout.route_table)} is no routing table for this")
    # one above is needed for a moment when the rule is replaced; main is asked at 32766
    if not 1 <= parse_decimal(layout.rule_priority, "bad_priority") <= 32764:
        raise ValueRefused("bad_priority", f"a rule at {quoted(layout.rule_priority)} would not come before main")
    return layout


def check_mtu(value: object) -> int:
    """An MTU of the tunnel: 1280, the least that IPv6 allows, to 65535."""
    if isinstance(value, bool) or not isinstance(value, int) or not MIN_MTU <= value <= 65535:
        raise ValueRefused("bad_mtu", f"{quoted(value)} is no MTU from {MIN_MTU} to 65535")
    return value


def clamp_to(mtu: int, version: int, gen: Generation) -> int | None:
    """The largest MSS a SYN towards a target may announce, or None in a generation that does not clamp."""
    return None if gen.mss_overhead is None else mtu - gen.mss_overhead[version]
