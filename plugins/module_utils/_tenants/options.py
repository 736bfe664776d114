# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every string that differs between the generations of the tenant network API, in one table (18.5); what a run is given, and which source objects it may
touch (2)."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted
from .fields import Object, get, labels, namespace

NETWORK, VIRTUAL_IP, LOAD_BALANCER = "Network", "VirtualIP", "LoadBalancer"
NAT_GATEWAY, NETWORK_INTERFACE = "NATGateway", "NetworkInterface"
LOAD_BALANCER_ROUTING, NAT_GATEWAY_AUTOSCALER, PREFIX, IP = (
    "LoadBalancerRouting",
    "NATGatewayAutoscaler",
    "Prefix",
    "IP",
)
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
        return f"{self.link_prefix}{kind.lower()}-{what}"

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
        source=f"networking.{domain}/v1alpha1",
        ipam=f"ipam.{domain}/v1alpha1",
        apinet=f"core.apinet.{domain}/v1alpha1",
        provider_prefix=provider_prefix,
        link_prefix=f"apinetlet.{domain}/",
        finalizer_prefix=f"apinet.{domain}/",
        field_manager=f"{domain}/apinetlet",
        watch_filter_label=f"common.{domain}/watch-filter",
        managed_by_annotation=f"common.{domain}/managed-by",
        zone=f"topology.core.apinet.{domain}/zone",
    )


ONMETAL = _profile("onmetal", "api.onmetal.de", "onmetal-api-net://")
IRONCORE = _profile("ironcore", "ironcore.dev", "ironcore-net://")
PROFILES: dict[str, Profile] = {profile.name: profile for profile in (ONMETAL, IRONCORE)}


PEERING, VIP_RELEASE, STALE_UID, LB_NODE_AFFINITY = "peering", "vip_release", "stale_uid", "lb_node_affinity"
SWITCHES = (PEERING, VIP_RELEASE, STALE_UID, LB_NODE_AFFINITY)


class Options(t.NamedTuple):
    """Settings of the mapping.

    ``adopt``: write also twins that another program applied. ``leaving``: the selected source objects go, all of them.

    ``max_deletes``: negative for no limit, None for the default budget. ``always_apply``: send every manifest of a twin
    also when nothing differs, as apinetlet does, so that a server that refuses it shows as a failure.
    """

    apinet_namespace: str
    watch_namespace: str = ""
    watch_filter: str | None = None
    kinds: frozenset[str] = frozenset(KINDS)
    switches: frozenset[str] = frozenset()
    collect: bool = True
    min_public_ips: int = 1
    max_public_ips: int = 10
    max_deletes: int | None = None
    confirm_empty: bool = False
    always_apply: bool = False
    adopt: bool = False
    leaving: bool = False
    profile: Profile = ONMETAL


#: Kind -> what is read besides it, of the source and of the network side.
_READ_WITH = {
    NETWORK: ((), (NETWORK,)),
    VIRTUAL_IP: ((), (IP,)),
    LOAD_BALANCER: (
        (NETWORK, LOAD_BALANCER_ROUTING, PREFIX),
        (LOAD_BALANCER, LOAD_BALANCER_ROUTING, NETWORK_INTERFACE),
    ),
    NAT_GATEWAY: ((NETWORK,), (NAT_GATEWAY, NAT_GATEWAY_AUTOSCALER)),
    NETWORK_INTERFACE: ((NETWORK, VIRTUAL_IP, PREFIX), (NETWORK_INTERFACE,)),
}


def needed(options: Options) -> list[tuple[str, str]]:
    """(side, kind) of the lists that a run reads, each once."""
    found = {(SOURCE, kind) for kind in options.kinds}
    for kind in options.kinds:
        found.update((side, other) for side, others in zip((SOURCE, APINET), _READ_WITH[kind]) for other in others)
    if NETWORK in options.kinds and PEERING in options.switches:
        found.add((SOURCE, PREFIX))
    return sorted(found)


def parse_options(given: t.Mapping[str, t.Any]) -> Options:
    """Options from plain data. Raises ValueRefused before anything is done."""
    known = {key: value for key, value in given.items() if key in Options._fields and value is not None}
    if not known.get("apinet_namespace"):
        raise ValueRefused("apinet_namespace_missing", "apinet_namespace is required")
    known["kinds"] = _subset("kinds", known.get("kinds") or KINDS, KINDS)
    known["switches"] = _subset("switches", known.get("switches", ()), SWITCHES)
    profile = known.get("profile", ONMETAL)
    if not isinstance(profile, Profile):
        if profile not in PROFILES:
            raise ValueRefused("unknown_profile", f"{quoted(profile)} is none of {', '.join(PROFILES)}")
        known["profile"] = PROFILES[profile]
    options = Options(**known)
    if options.leaving and not options.watch_namespace:
        raise ValueRefused(
            "watch_namespace_missing", "watch_namespace is required: the namespace of the objects to delete"
        )
    if not 0 <= options.min_public_ips <= options.max_public_ips:
        raise ValueRefused("public_ips_range", "0 <= min_public_ips <= max_public_ips does not hold")
    return options


def _subset(option: str, given: t.Any, known: t.Sequence[str]) -> frozenset[str]:
    chosen = frozenset([given] if isinstance(given, str) else given)
    unknown = sorted(str(item) for item in chosen - frozenset(known))
    if unknown:
        raise ValueRefused("unknown_" + option, f"{option}: {quoted(unknown[0])} is none of {', '.join(known)}")
    return chosen


def selected(source: Object, options: Options) -> bool:
    """Whether a source object is to be mapped. The others still exist for lookups."""
    if not in_watch(namespace(source), options):
        return False
    if options.watch_filter and labels(source).get(options.profile.watch_filter_label) != options.watch_filter:
        return False
    return options.profile.managed_by_annotation not in (get(source, "metadata", "annotations") or {})


def in_watch(name: str, options: Options) -> bool:
    """Whether a source namespace is within the watched one."""
    return not options.watch_namespace or name == options.watch_namespace
