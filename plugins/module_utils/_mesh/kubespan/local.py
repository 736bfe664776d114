# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one host says about itself: its own affiliate, from its configuration and facts (kubespan 4)."""

from __future__ import annotations

import typing as t

from ..._values.prefix_sets import address_text
from .annotations import Affiliate
from .config import Config
from .endpoints import additional_addresses, local_endpoints, node_addresses
from .generations import GENERATIONS, Generation, Layout
from .identity import mesh_address


class Host(t.NamedTuple):
    """Facts of a host. ``configured`` as node_addresses has it; ``cluster_networks``: pods and services of its cluster.

    ``public``: addresses that others see it with. ``pod_cidrs``: of its own Node. ``more``: further networks to announce.
    """

    cluster: str
    node: str
    node_id: str
    mac: str
    public_key: t.Any
    hostname: str = ""
    machine_type: str = "worker"
    operating_system: str = ""
    api_server_port: t.Optional[int] = None
    configured: t.Sequence[t.Mapping[str, t.Any]] = ()
    cluster_networks: t.Sequence[str] = ()
    pod_cidrs: t.Sequence[str] = ()
    public: t.Sequence[str] = ()
    more: t.Sequence[str] = ()
    exclude_interfaces: t.Sequence[str] = ()
    exclude: t.Sequence[str] = ()


def local_affiliate(
    host: Host, config: Config, mesh_id: str, layout: Layout = Layout(), gen: Generation = GENERATIONS["current"]
) -> Affiliate:
    """The affiliate that the host announces, as a record of the inventory (``declared``). The key may be Pending.

    Raises what its parsers raise: invalid_mac, bad_cidr, bad_address.
    """
    own = mesh_address(mesh_id, host.mac)
    ula = address_text(6, int(own))
    addresses = node_addresses(host.configured, host.cluster_networks, host.exclude_interfaces, host.exclude)
    extra = config.extra_announced_endpoints if gen.extra_endpoints else []
    excluded = config.exclude_advertised_networks if gen.excluded_networks else []
    return {
        "cluster": host.cluster,
        "node": host.node,
        "declared": True,
        "node_id": host.node_id,
        "hostname": host.hostname,
        "nodename": host.node,
        "machine_type": host.machine_type,
        "operating_system": host.operating_system,
        "api_server_port": host.api_server_port if host.machine_type == "controlplane" else None,
        "public_key": host.public_key,
        "kubespan_address": ula,
        "addresses": addresses,
        "additional_addresses": additional_addresses(
            config.advertise_kubernetes_networks,
            gen,
            host.pod_cidrs,
            [str(item["address"]) for item in host.configured if item.get("up", True)],
            host.cluster_networks,
            host.more,
        ),
        "exclude_advertised_networks": list(excluded or ()),
        "endpoints": local_endpoints(addresses, ula, host.public, config.endpoint_filters, extra, layout.port),
    }
