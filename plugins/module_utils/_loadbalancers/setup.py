# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory says of one cluster's load balancing, checked as a whole before anything is read (ccm 3)."""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_network
from .._values.refused import ValueRefused, quoted
from .bgp.claims import BgpGrants
from .bgp.values import NodeBgp
from .identities import DEFAULT_DOMAIN, IDENTITIES, parse_identity
from .ledger import Ledger
from .load_balancer_setting import CONFIGMAP, CUSTOM_RESOURCES, EMPTY, METALLB, LoadBalancer, known_load_balancer, parse_load_balancer
from .metallb import config as metallb_config, resources as metallb_resources
from .node_annotations import BOTH, Scheme
from .pools import Pool, Reserved, Span, address_at, parse_pool, readable_spans
from .reservations import Owner
from .service_plan import Context, Places
from .settings import Settings, read_settings

STATIC, EQUINIX = "static", "equinix_metal"
PROVIDERS = (STATIC, EQUINIX)
AUTO = "auto"
Given = t.Mapping[str, t.Any]
_PARAMETERS = ("api_key", "project_id", "base_url", "facility", "metro", "local_asn", "peer_asn", "bgp_pass", "bgp_node_selector", "eip_tag",
               "api_server_port", "eip_health_check_use_host_ip")  # fmt: skip
_NAMES = ("local_asn", "peer_asn", "peer_ip", "source_ip", "password")


class Setup(t.NamedTuple):
    """One cluster's. ``given`` are the options as the module has them, ``values`` the controller's settings;

    ``others`` the pools of the other clusters, ``reserved`` what the inventory gives to something else than Services.
    """

    cluster: str
    provider: str
    balancer: LoadBalancer
    identity: str
    pool: Pool
    nodes: t.Tuple[NodeBgp, ...]
    grants: BgpGrants
    scheme: Scheme
    settings: Settings
    given: Given
    warnings: t.Tuple[str, ...] = ()
    others: t.Mapping[str, Pool] = {}
    reserved: Reserved = Reserved()

    @property
    def cluster_uid(self) -> str:
        """The UID of the namespace kube-system as the inventory has it, empty where it says nothing."""
        return str(self.given.get("cluster_uid") or "").strip()

    @property
    def selector(self) -> str:
        """Which nodes speak BGP."""
        return str(self.settings.values["bgp_node_selector"])

    @property
    def static(self) -> bool:
        """Whether the addresses are the user's own."""
        return self.provider == STATIC

    def owner(self, uid: str) -> Owner:
        """Whose addresses we look for."""
        return Owner(self.identity, uid, tuple(self.given.get("adopt_identities") or IDENTITIES))

    def context(self, uid: str, recorded: Ledger, limit: t.Optional[int], host_facility: str = "") -> Context:
        """For the rules of Services. ``recorded``: our record of addresses. ``host_facility``: where the host's metadata say that it stands."""
        values = self.settings.values
        places = Places(str(values["metro"]), str(values["facility"]), host_facility,
                        str(values["annotation_eip_metro"]), str(values["annotation_eip_facility"]))  # fmt: skip
        return Context(
            self.owner(uid),
            None if self.static else places,
            self.balancer.type,
            self.given.get("load_balancer_class") or "",
            str(values["eip_tag"]),
            limit,
            frozenset(recorded),
            bool(self.given.get("release_unrecorded")),
            self.given.get("on_duplicate_reservation") or "refuse",
            self.given.get("reclaim_policy") or "delete",
            bool(self.given.get("gc_orphans")),
            self.balancer.type == EMPTY,
            self.pool,
            frozenset(ident for ident, entry in recorded.items() if entry.retain),
        )

    def metallb(self, has_resources: bool) -> LoadBalancer:
        """With metallb_mode applied; ``has_resources``: the API server has MetalLB's kinds."""
        mode = self.given.get("metallb_mode")
        if self.balancer.type != METALLB or not mode:
            return self.balancer
        if mode == AUTO:
            mode = CUSTOM_RESOURCES if has_resources else CONFIGMAP
        return self.balancer._replace(mode=mode, configmap=self.balancer.configmap or "config")

    def config_options(self) -> metallb_config.Options:
        """For MetalLB's ConfigMap."""
        return metallb_config.Options(
            self.given.get("metallb_peer_tracking") or metallb_config.NODE,
            self.given.get("metallb_source_address"),
            metallb_config.PLAIN if self.given.get("publish_bgp_password") else metallb_config.WITHHOLD,
            self.domain,
        )

    def resource_options(self) -> metallb_resources.Options:
        """For MetalLB's custom resources."""
        label, _equals, value = (self.given.get("crd_label") or "cloud-provider=equinix-metal").partition("=")
        return metallb_resources.Options(
            self.balancer.namespace,
            self.given.get("metallb_peer_tracking") or metallb_config.NODE,
            self.given.get("metallb_peer_mode") or metallb_resources.NATIVE,
            metallb_resources.SECRETS,
            (label, value),
            self.given.get("advertisement") or "equinix-metal-bgp-adv",
            self.domain,
        )

    @property
    def domain(self) -> str:
        """Of annotations and labels."""
        return self.given.get("annotation_domain") or DEFAULT_DOMAIN


def parse_setups(
    given: t.Iterable[Given], env: t.Mapping[str, str], texts: t.Mapping[str, t.Optional[str]],
    claims: t.Container[str] = (), refused: t.Optional[t.Mapping[str, ValueRefused]] = None,
) -> t.Tuple[t.Dict[str, Setup], t.Dict[str, ValueRefused]]:  # fmt: skip
    """Setups by cluster, and why the others have none: a wrong setting leaves its own cluster out, and no other.

    ``texts`` are configuration files by cluster, ``claims`` the clusters that keep theirs themselves, ``refused`` those whose file cannot be
    had. The pool of a cluster that is left out is still its own: its addresses may be in use.
    """
    found: t.Dict[str, Setup] = {}
    wrong = dict(refused or {})
    pools: t.Dict[str, Pool] = {}
    for entry in given:
        name = str(entry["cluster"])
        twice = name in pools
        pools[name] = Pool((*pools.get(name, Pool(())).spans, *readable_spans(entry.get("pool") or ())))
        if name in wrong:
            continue
        try:
            if twice:
                raise ValueRefused("claimed_twice", "settings names the cluster twice")
            if entry.get("wrong"):
                raise ValueRefused("bad_setting", str(entry["wrong"]))
            found[name] = parse_setup(entry, env, texts.get(name), name in claims)
        except ValueRefused as error:
            # what a cluster keeps itself has its own words; the rest is the inventory's
            label = "" if name in claims else "load_balancers_settings of {0}: ".format(name)
            wrong[name] = ValueRefused(error.reason, label + error.message)
    wrong.update({name: error for name, error in _overlaps(pools).items() if name not in wrong})
    pools = {name: pool for name, pool in pools.items() if pool.spans}
    return {
        name: setup._replace(others={other: pool for other, pool in pools.items() if other != name})
        for name, setup in found.items() if name not in wrong
    }, wrong  # fmt: skip


def _overlaps(pools: t.Mapping[str, Pool]) -> t.Dict[str, ValueRefused]:
    """The clusters whose pools share an address: neither may give it to a Service."""
    refused: t.Dict[str, ValueRefused] = {}
    widest: t.Optional[t.Tuple[Span, str]] = None
    for span, name in sorted((span, name) for name, pool in pools.items() for span in pool.spans):
        if widest is not None and widest[0].overlaps(span) and widest[1] != name:
            text = "the pools of {0} and {1} in load_balancers_settings both hold {2}; take it out of one of them"
            error = ValueRefused("claimed_twice", text.format(widest[1], name, address_at(span.version, span.first)))
            refused.update({other: error for other in (widest[1], name) if other not in refused})
        if widest is None or (span.version, span.last) > (widest[0].version, widest[0].last):
            widest = (span, name)
    return refused


def parse_setup(given: Given, env: t.Mapping[str, str], file: t.Optional[str], claim: bool = False) -> Setup:
    """One cluster's. ``claim``: the text of the file is the cluster's own word. Raises ValueRefused, SettingRefused."""
    provider = given.get("provider") or STATIC
    if provider not in PROVIDERS:
        raise ValueRefused("unknown_provider", "{0} is none of {1}".format(quoted(provider), ", ".join(PROVIDERS)))
    parameters = {name: given[name] for name in _PARAMETERS if given.get(name) is not None}
    if given.get("load_balancer") is not None:
        parameters["loadbalancer"] = given["load_balancer"]
    settings = read_settings(env, file, parameters, required=provider != STATIC)
    if claim and provider != STATIC:
        _check_claim(env, file, parameters)
    # the original's own file may say what it likes, and is read as the original reads it; an inventory has no such slips
    balancer = (known_load_balancer if given.get("load_balancer") else parse_load_balancer)(settings.values["loadbalancer"])
    values = settings.values
    names = {"source_ip": "annotation_src_ip", "password": "annotation_bgp_pass"}
    overrides = {datum: str(values[names.get(datum, "annotation_" + datum)]) for datum in _NAMES}
    domain = given.get("annotation_domain") or DEFAULT_DOMAIN
    private = str(values["annotation_network_ipv4_private"]).replace(DEFAULT_DOMAIN, domain, 1)
    scheme = Scheme(
        given.get("annotation_scheme") or BOTH, {key: text for key, text in overrides.items() if text},
        given.get("annotation_legacy_singular") is not False, bool(given.get("publish_bgp_password")), domain, private,
    )  # fmt: skip
    grants = given.get("bgp_grants") or {}
    pool = parse_pool(given.get("pool") or ())
    return Setup(
        str(given["cluster"]), provider, balancer, parse_identity(given.get("identity") or "metal-ccm"), pool,
        tuple(_node(row, values) for row in given.get("bgp_nodes") or ()),
        BgpGrants(frozenset(grants.get("local_asns") or ()), frozenset(grants.get("peer_asns") or ()),
                  tuple(parse_network(text) for text in grants.get("peers") or ()),
                  tuple(parse_network(text) for text in grants.get("sources") or ())),
        scheme, settings, given, balancer.warnings + tuple(settings.warnings), reserved=Reserved(pool, given.get("reserved_ranges")),
    )  # fmt: skip


def _check_claim(env: t.Mapping[str, str], file: t.Optional[str], parameters: t.Mapping[str, t.Any]) -> None:
    """A cluster that keeps its settings itself may choose for its own token where that goes, and never for the inventory's.

    It could have the token sent to a server of its own, or name another cluster's project or control plane. Raises ValueRefused
    ``outside_grant``.
    """
    own = read_settings({}, file, {}, required=False).values
    without = read_settings(env, None, parameters, required=False).values
    if not without["api_key"]:
        return
    for name in ("base_url", "project_id", "eip_tag"):
        if own[name] and not without[name] and not (name == "eip_tag" and "eip_tag" in parameters):
            text = "the cluster's Secret says {0}, and api_key is not the Secret's; write {0} into load_balancers_settings, or leave api_key to the Secret"
            raise ValueRefused("outside_grant", text.format(name))


def _node(row: Given, values: t.Mapping[str, t.Any]) -> NodeBgp:
    return NodeBgp(
        str(row["name"]), str(row.get("source_ip") or ""), row.get("local_asn") or values["local_asn"], row.get("peer_asn") or values["peer_asn"],
        tuple(str(peer) for peer in row.get("peers") or ()), str(row.get("password") or values["bgp_pass"] or ""), bool(row.get("multihop")),
    )  # fmt: skip
