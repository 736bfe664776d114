# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator sets for KubeSpan, in Talos' names, checked (kubespan 2), and what a host reports about itself with it (4)."""

from __future__ import annotations

import typing as t

from ..._values.addresses import parse_network
from ..._values.keys import raw_bytes
from ..._values.prefix_sets import address_text
from ..._values.refused import ValueRefused, quoted
from .annotations import Affiliate
from .endpoints import additional_addresses, local_endpoints, node_addresses, parse_endpoints, parse_filters
from .generations import DEFAULT_MTU, GENERATIONS, Generation, Layout, check_mtu
from .identity import mesh_address

_FLAGS = ("enabled", "advertiseKubernetesNetworks", "allowDownPeerBypass", "harvestExtraEndpoints")
_LISTS = ("endpoints", "excludeAdvertisedNetworks", "peerEndpoints")


class Config(t.NamedTuple):
    """A checked configuration. The lists are None where they are unset; texts are as they were given."""

    enabled: bool
    force_routing: bool
    advertise_kubernetes_networks: bool
    harvest_extra_endpoints: bool
    mtu: int
    endpoint_filters: list[str] | None
    exclude_advertised_networks: list[str] | None
    peer_endpoint_filters: list[str] | None
    extra_announced_endpoints: list[str]


def parse_config(document: object, legacy: bool = False, gen: Generation = GENERATIONS["current"]) -> Config:
    """Check a document. ``legacy``: the single-document form, in which an MTU of 0 means the default.

    Words: bad_option, bad_mtu, invalid_filter, bad_cidr, bad_endpoint.
    """
    if not isinstance(document, dict):
        raise ValueRefused("bad_option", "a KubeSpan configuration is a map")
    for name in document:
        if name not in _FLAGS + ("mtu", "filters", "extraAnnouncedEndpoints"):
            raise ValueRefused("bad_option", f"{quoted(name)} is no option of KubeSpan")
    flags = {name: _flag(document, name) for name in _FLAGS}
    filters = document.get("filters")
    filters = {} if filters is None else filters
    if not isinstance(filters, dict) or not set(filters) <= set(_LISTS):
        raise ValueRefused("bad_option", f"filters has {', '.join(_LISTS)}")
    parse_filters(filters.get("endpoints"))
    parse_filters(filters.get("peerEndpoints"))
    excluded = filters.get("excludeAdvertisedNetworks")
    if excluded is not None:
        if not isinstance(excluded, (list, tuple)):
            raise ValueRefused("bad_cidr", "excludeAdvertisedNetworks is a list of networks")
        for text in excluded:
            parse_network(text)
    mtu = document.get("mtu")
    if mtu is None or (legacy and mtu == 0 and not isinstance(mtu, bool)):
        mtu = DEFAULT_MTU
    extra = document.get("extraAnnouncedEndpoints")
    return Config(
        flags["enabled"],
        not flags["allowDownPeerBypass"],
        flags["advertiseKubernetesNetworks"],
        flags["harvestExtraEndpoints"] or gen.harvests_always,
        check_mtu(mtu),
        _copy(filters.get("endpoints")),
        _copy(excluded),
        _copy(filters.get("peerEndpoints")),
        [str(endpoint) for endpoint in parse_endpoints([] if extra is None else extra)],
    )


def _flag(document: t.Mapping[str, t.Any], name: str) -> bool:
    value = document.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueRefused("bad_option", f"{name} is {quoted(value)}, not true or false")
    return bool(value)


def _copy(texts: t.Any) -> list[str] | None:
    return None if texts is None else list(texts)


def parse_mesh(mesh_id: object, secret: object) -> tuple[str, bytes]:
    """Id and secret of the mesh (decision 36). The id is opaque text, the secret 32 bytes in standard base64.

    Words: bad_mesh_id, bad_mesh_secret; no message quotes the secret.
    """
    if not isinstance(mesh_id, str) or not mesh_id or len(mesh_id.encode("utf-8", "surrogatepass")) > 256:
        raise ValueRefused("bad_mesh_id", "the mesh id is a text of 1 to 256 bytes")
    raw = raw_bytes(secret)
    if len(raw) != 32 or raw == bytes(32):
        raise ValueRefused(
            "bad_mesh_secret",
            "mesh_secret is not 32 bytes, other than zeros, in standard base64; openssl rand -base64 32 makes one",
        )
    return mesh_id, raw


class Host(t.NamedTuple):
    """Facts of a host. ``configured`` as node_addresses has it; ``cluster_networks``: pods and services of its cluster.

    ``pod_cidrs``: of its own Node. ``more``: further networks to announce. ``balanced``, ``own``: as node_addresses has them.
    """

    cluster: str
    node: str
    node_id: str
    mac: str
    public_key: t.Any
    hostname: str = ""
    operating_system: str = ""
    configured: t.Sequence[t.Mapping[str, t.Any]] = ()
    cluster_networks: t.Sequence[str] = ()
    pod_cidrs: t.Sequence[str] = ()
    more: t.Sequence[str] = ()
    exclude_interfaces: t.Sequence[str] = ()
    exclude: t.Sequence[str] = ()
    balanced: t.Sequence[str] = ()
    own: t.Sequence[str] = ()


def local_affiliate(
    host: Host,
    config: Config,
    mesh_id: str,
    layout: Layout = Layout(),
    gen: Generation = GENERATIONS["current"],
    public: t.Sequence[str] = (),
) -> Affiliate:
    """The affiliate that the host announces, as a record of the inventory (``declared``). The key may be Pending.

    public: addresses at which others see it.

    Raises what its parsers raise: invalid_mac, bad_cidr, bad_address.
    """
    own = mesh_address(mesh_id, host.mac)
    ula = address_text(6, int(own))
    addresses = node_addresses(
        host.configured, host.cluster_networks, host.exclude_interfaces, host.exclude, host.balanced, host.own
    )
    extra = config.extra_announced_endpoints if gen.extra_endpoints else []
    excluded = config.exclude_advertised_networks if gen.excluded_networks else []
    return {
        "cluster": host.cluster,
        "node": host.node,
        "declared": True,
        "node_id": host.node_id,
        "hostname": host.hostname,
        "nodename": host.node,
        "machine_type": "worker",
        "operating_system": host.operating_system,
        "api_server_port": None,
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
        "endpoints": local_endpoints(addresses, ula, public, config.endpoint_filters, extra, layout.port),
    }
