# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Worlds, walks and judged packets for tests of single decisions."""

from __future__ import annotations

import ipaddress
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._trace import node_results
from ansible_collections.multicluster.network.plugins.module_utils._trace.causes import FORWARD
from ansible_collections.multicluster.network.plugins.module_utils._trace.expected import Walk, Walker
from ansible_collections.multicluster.network.plugins.module_utils._trace.facts import parse_node
from ansible_collections.multicluster.network.plugins.module_utils._trace.routing import Packet
from trace_worlds import World

ONE, TWO = "aws-0", "gcp-0"


def number(text: str) -> int:
    return int(ipaddress.ip_address(text))


def walk(
    world: World,
    src: str = ONE,
    dst: str = TWO,
    direction: str = FORWARD,
    from_pod: bool = True,
    mesh: t.Any = None,
    answers: t.Any = None,
    target: str = "",
    version: int = 4,
) -> Walk:
    nodes = {
        host: parse_node(host, world.seats[host][0], facts, (answers or {}).get(host))
        for host, facts in world.nodes.items()
    }
    packet = Packet(
        version, number(world.pods[src] if from_pod else world.uplink[src]), number(target or world.pods[dst])
    )
    return Walker(nodes, node_results.parse_mesh(world.mesh() if mesh is None else mesh)).walk(
        packet, src, dst, from_pod, direction
    )


def cause(found: Walk) -> str:
    return found.fault.cause if found.fault is not None else "" if found.arrived else "unknown"


@pytest.fixture(name="two")
def two_fixture() -> World:
    return World({"aws": 1, "gcp": 1})
