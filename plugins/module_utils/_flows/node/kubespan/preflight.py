# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else uses KubeSpan's marks, priorities, tables, port and names on this host: read before the first write, and named."""

from __future__ import annotations

import typing as t

from ...._dataplane.constants import is_our_alias
from ...._linux.host import settings, users
from ...._linux.netlink.routes import read_routes
from ...._linux.netlink.rules import read_rules
from ...._mesh.kubespan.generations import GENERATIONS, Generation, Layout
from ...._mesh.kubespan.nft import FAMILY
from ...._mesh.kubespan.preflight import Conflict, conflicts
from ...._mesh.kubespan.routing import desired_rule, is_owned

Data = dict[str, t.Any]


def gather(
    layout: Layout, owner: str, gen: Generation = GENERATIONS["current"], leaving: t.Collection[str] = ()
) -> Data:
    """The facts of kubespan_preflight.conflicts. owner: our mark; leaving: our devices that go before the mesh's comes. Raises LinuxError.

    What is owned is distinguished from others' by the same marks as everywhere, so a host that runs the mesh has no conflicts.
    """
    links, wireguard = users.read_link_kinds(), users.read_wireguard()
    served = {device["name"] for device in wireguard}
    own = {device["listen_port"] for device in wireguard if device["name"] in (layout.device, *leaving)}
    tables = [dict(table, owned=is_our_alias(table["owner"], owner)) for table in users.read_tables()]
    desired = {version: desired_rule(version, layout, gen) for version in (4, 6)}
    present = (
        {(FAMILY, layout.table_name)} if any(t["owned"] and t["name"] == layout.table_name for t in tables) else set()
    )
    marks = [
        user
        for user in users.read_mark_users()
        if user["table"] not in present
        and not ("rule" in user and is_owned(user["rule"], desired[user["rule"]["version"]], gen))
    ]
    return {
        "rules": {version: read_rules(version) for version in (4, 6)},
        "routes": read_routes(layout.route_table),
        "links": [dict(link, kind="wireguard" if link["name"] in served else link["kind"]) for link in links],
        "wireguard": [device for device in wireguard if device["name"] not in leaving],
        "udp_ports": [port for port in users.read_udp_ports() if port not in own],
        "tables": tables,
        "marks": marks,
        # the filter of our own device is set by us; the larger one counts
        "rp_filter": {"all": settings.reverse_path_filter("all")},
    }


def find(
    layout: Layout, owner: str, gen: Generation = GENERATIONS["current"], leaving: t.Collection[str] = ()
) -> list[Conflict]:
    """What is in the way of a mesh on this host, errors first. Raises LinuxError."""
    return conflicts(gather(layout, owner, gen, leaving), layout, gen)
