# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NAT gateways and the autoscaler of their addresses (13)."""

from __future__ import annotations

from .fields import addresses, entries, get, uid
from .links import controller_reference
from .load_balancers import network_of
from .object_turn import DEPENDENT, TWIN, ObjectTurn
from .profile import NAT_GATEWAY, NAT_GATEWAY_AUTOSCALER

DEFAULT_PORTS = 2048


def plan_nat_gateway(turn: ObjectTurn) -> None:
    """One NAT gateway that is not being deleted. Its addresses are the network side's and survive."""
    source, options = turn.subject, turn.options
    network = network_of(turn)
    if network is None:
        return
    ports = get(source, "spec", "portsPerNetworkInterface")
    spec = {
        "ipFamily": get(source, "spec", "ipFamily"),
        "networkRef": {"name": uid(network)},
        "portsPerNetworkInterface": DEFAULT_PORTS if ports is None else ports,
    }
    twin = turn.apply(TWIN, turn.manifest(NAT_GATEWAY, spec=spec))
    if twin is None:
        return
    limits = {
        "natGatewayRef": {"name": uid(source)},
        "minPublicIPs": options.min_public_ips,
        "maxPublicIPs": options.max_public_ips,
    }
    owner = controller_reference(twin, options.profile)
    if turn.apply(DEPENDENT, turn.manifest(NAT_GATEWAY_AUTOSCALER, owner, spec=limits)) is None:
        return
    found = addresses(twin, "spec", "ips")
    if not found or len(found) < len(entries(twin, "spec", "ips")):
        turn.wait("address_not_allocated", "the network side has not given every address yet")
    turn.status({"ips": found})
