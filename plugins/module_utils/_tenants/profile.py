# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every string that differs between the generations of the tenant network API, in one table (18.5)."""

from __future__ import annotations

import typing as t

NETWORK, VIRTUAL_IP, LOAD_BALANCER = "Network", "VirtualIP", "LoadBalancer"
NAT_GATEWAY, NETWORK_INTERFACE = "NATGateway", "NetworkInterface"
LOAD_BALANCER_ROUTING, NAT_GATEWAY_AUTOSCALER, PREFIX, IP = "LoadBalancerRouting", "NATGatewayAutoscaler", "Prefix", "IP"
NETWORK_ID, IP_ADDRESS, NAT_TABLE = "NetworkID", "IPAddress", "NATTable"
DAEMON_SET, INSTANCE, NODE = "DaemonSet", "Instance", "Node"

#: The source kinds that are mapped, in the order of one pass.
KINDS = (NETWORK, VIRTUAL_IP, LOAD_BALANCER, NAT_GATEWAY, NETWORK_INTERFACE)
#: Source kind -> kind of its main twin.
TWIN_KINDS = {kind: IP if kind == VIRTUAL_IP else kind for kind in KINDS}
#: Main twin -> what goes with it, for API servers without a garbage collector.
DEPENDENTS = {LOAD_BALANCER: LOAD_BALANCER_ROUTING, NAT_GATEWAY: NAT_GATEWAY_AUTOSCALER}
#: Kinds of the network side that have no namespace.
CLUSTER_KINDS = (NETWORK_ID, IP_ADDRESS, NODE)


class Profile(t.NamedTuple):
    """Names of one generation."""

    name: str
    source: str
    ipam: str
    apinet: str
    provider_prefix: str
    link_prefix: str
    #: of our finalizers, and of labels that the network side writes
    finalizer_prefix: str
    field_manager: str
    watch_filter_label: str
    managed_by_annotation: str
    #: the topology key of zones
    zone: str

    def link(self, kind: str, what: str) -> str:
        """The key of a link label: ``what`` is name, namespace or uid."""
        return "{0}{1}-{2}".format(self.link_prefix, kind.lower(), what)

    def finalizer(self, kind: str) -> str:
        return self.finalizer_prefix + kind.lower()

    def group_version(self, side: str, kind: str) -> str:
        if side != SOURCE:
            return self.apinet
        return self.ipam if kind == PREFIX else self.source


_PLURALS = {IP_ADDRESS: "ipaddresses", PREFIX: "prefixes"}


def plural(kind: str) -> str:
    """A kind's name in paths. None of them has to be looked up, so a run asks nothing but its lists."""
    return _PLURALS.get(kind, kind.lower() + "s")


#: The two servers.
SOURCE, APINET = "source", "apinet"


def _profile(name: str, domain: str, provider_prefix: str) -> Profile:
    return Profile(
        name=name,
        source="networking.{0}/v1alpha1".format(domain),
        ipam="ipam.{0}/v1alpha1".format(domain),
        apinet="core.apinet.{0}/v1alpha1".format(domain),
        provider_prefix=provider_prefix,
        link_prefix="apinetlet.{0}/".format(domain),
        finalizer_prefix="apinet.{0}/".format(domain),
        field_manager="{0}/apinetlet".format(domain),
        watch_filter_label="common.{0}/watch-filter".format(domain),
        managed_by_annotation="common.{0}/managed-by".format(domain),
        zone="topology.core.apinet.{0}/zone".format(domain),
    )


ONMETAL = _profile("onmetal", "api.onmetal.de", "onmetal-api-net://")
IRONCORE = _profile("ironcore", "ironcore.dev", "ironcore-net://")
PROFILES: t.Dict[str, Profile] = {profile.name: profile for profile in (ONMETAL, IRONCORE)}
