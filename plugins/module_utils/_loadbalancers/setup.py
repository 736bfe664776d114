# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory has for one cluster's load balancing, checked as a whole before anything is read (ccm 3)."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted, readable
from .bgp.routes import NOT_READY_SECONDS
from .bgp.values import BgpGrants, NodeBgp, parse_grants
from .layer2.groups import parse_reserved
from .layer2.segment import check_interface, parse_members
from .ledger import Ledger
from .metallb import config as metallb_config, resources as metallb_resources
from .named_pools import Grants, NamedPool, parse_named_pools
from .node_annotations import BOTH, Scheme
from .pools import Pool, Reserved, parse_span, shared
from .reservations import DEFAULT_DOMAIN, DEFAULT_IDENTITY, IDENTITIES, REFUSE, Owner, parse_identity
from .service_plan import DELETE, Context, Places
from .services import OTHER
from .settings import (
    CONFIGMAP,
    CUSTOM_RESOURCES,
    EMPTY,
    METALLB,
    LoadBalancer,
    Settings,
    known_load_balancer,
    parse_load_balancer,
    read_settings,
)

STATIC, EQUINIX = "static", "equinix_metal"
PROVIDERS = (STATIC, EQUINIX)
AUTO = "auto"
BY_LAYER2, BY_BOTH = "layer2", "both"
Given = t.Mapping[str, t.Any]
_PARAMETERS = (
    "api_key",
    "project_id",
    "base_url",
    "facility",
    "metro",
    "local_asn",
    "peer_asn",
    "bgp_pass",
    "bgp_node_selector",
    "eip_tag",
    "api_server_port",
    "eip_health_check_use_host_ip",
)
_NAMES = ("local_asn", "peer_asn", "peer_ip", "source_ip", "password")


class Setup(t.NamedTuple):
    """One cluster's, parsed once. ``settings`` are the controller's, ``others`` the pools of the other clusters, ``reserved`` what the
    inventory gives to something else than Services.

    ``cluster_uid``: the UID of the namespace kube-system as the inventory has it, or nothing. ``in_annotation``: Services get their address
    in the load balancer's annotation. ``speakers``: the nodes that announce, None where nobody said;
    ``families``: 4 and 6, of the networks that their sessions carry, None where that is not known. ``pool`` is what all ``pools`` have
    together; ``strict``: the inventory names pools. ``segments``: nodes that take over from each other without a router, by the name of their segment,
    as the module layer2_speaker takes them; ``reserved_groups``: numbers that are not for them. ``further_classes``: Services of these classes
    count like those without any.
    """

    cluster: str
    provider: str
    balancer: LoadBalancer
    identity: str
    pool: Pool
    nodes: tuple[NodeBgp, ...]
    grants: BgpGrants
    scheme: Scheme
    settings: Settings
    config_options: metallb_config.Options
    resource_options: metallb_resources.Options
    warnings: tuple[str, ...] = ()
    others: t.Mapping[str, Pool] = {}
    reserved: Reserved = Reserved()
    cluster_uid: str = ""
    adopted: tuple[str, ...] = IDENTITIES
    our_class: str = ""
    max_prefixes: int | None = None
    release_unrecorded: bool = False
    on_duplicate: str = REFUSE
    reclaim_policy: str = DELETE
    gc_orphans: bool = False
    metallb_mode: str = ""
    metadata_url: str = ""
    plain_http: bool = False
    in_annotation: bool = False
    announced_by: str = ""
    speakers: frozenset[str] | None = None
    families: frozenset[int] | None = None
    exclude_cordoned: bool = False
    not_ready_seconds: int = NOT_READY_SECONDS
    pools: tuple[NamedPool, ...] = ()
    strict: bool = False
    segments: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]] = {}
    reserved_groups: frozenset[int] = frozenset()
    further_classes: tuple[str, ...] = ()
    metallb_advertise: str = ""

    @property
    def eip_tag(self) -> str:
        """Of the control plane's address; nothing where that is not kept."""
        return self.settings.text("eip_tag")

    @property
    def static(self) -> bool:
        """Whether the addresses are the user's own."""
        return self.provider == STATIC

    @property
    def reads_namespaces(self) -> bool:
        """Whether a pool is for namespaces with certain labels."""
        return any(pool.namespace_selector is not None for pool in self.pools)

    def pool_grants(self, namespace_labels: t.Mapping[str, t.Mapping[str, str]]) -> Grants:
        return Grants(self.pools, namespace_labels, self.strict)

    def pool_of(self, address: object) -> str:
        """The name of the pool that has an address, or nothing."""
        return Grants(self.pools).name_of(address)

    def owner(self, uid: str) -> Owner:
        return Owner(self.identity, uid, self.adopted)

    def context(self, uid: str, recorded: Ledger, limit: int | None, host_facility: str = "") -> Context:
        """For the rules of Services. ``recorded``: our record of addresses. ``host_facility``: the host's location by its metadata."""
        text = self.settings.text
        places = Places(
            text("metro"),
            text("facility"),
            host_facility,
            text("annotation_eip_metro"),
            text("annotation_eip_facility"),
        )
        return Context(
            self.owner(uid),
            None if self.static else places,
            self.balancer.type,
            self.our_class,
            self.eip_tag,
            limit,
            frozenset(recorded),
            self.release_unrecorded,
            self.on_duplicate,
            self.reclaim_policy,
            self.gc_orphans,
            self.balancer.type == EMPTY,
            self.pool,
            frozenset(ident for ident, entry in recorded.items() if entry.retain),
        )

    def metallb(self, has_resources: bool) -> LoadBalancer:
        """With metallb_mode applied; ``has_resources``: the API server has MetalLB's kinds."""
        mode = self.metallb_mode
        if self.balancer.type != METALLB or not mode:
            return self.balancer
        if mode == AUTO:
            mode = CUSTOM_RESOURCES if has_resources else CONFIGMAP
        return self.balancer._replace(mode=mode, configmap=self.balancer.configmap or "config")


def parse_setups(
    given: t.Iterable[Given],
    env: t.Mapping[str, str],
    texts: t.Mapping[str, str | None],
    claims: t.Container[str] = (),
    refused: t.Mapping[str, ValueRefused] | None = None,
) -> tuple[dict[str, Setup], dict[str, ValueRefused]]:
    """Setups by cluster, and why the others have none: a wrong setting leaves its own cluster out, and no other.

    ``texts`` are configuration files by cluster, ``claims`` the clusters that keep theirs themselves, ``refused`` those with a file that cannot be
    had. The pool of a cluster that is left out is still its own: its addresses may be in use.
    """
    found: dict[str, Setup] = {}
    wrong = dict(refused or {})
    pools: dict[str, Pool] = {}
    for entry in given:
        name = str(entry["cluster"])
        twice = name in pools
        pools[name] = Pool((*pools.get(name, Pool(())).spans, *readable(parse_span, pool_texts(entry))))
        if name in wrong:
            continue
        try:
            if twice:
                raise ValueRefused("claimed_twice", "settings names the cluster twice")
            if entry.get("wrong"):
                raise ValueRefused("bad_setting", str(entry["wrong"]))
            found[name] = parse_setup(entry, env, texts.get(name), name in claims)
        except ValueRefused as error:
            # the message of a file that the cluster keeps names the file itself; what else is wrong is the inventory's
            label = "" if name in claims else f"load_balancers_settings of {name}: "
            wrong[name] = ValueRefused(error.reason, label + error.message)
    for one, other, address in shared(pools):  # neither may give it to a Service
        text = (
            f"the pools of {one} and {other} in load_balancers_settings both hold {address}; take it out of one of them"
        )
        for name in (one, other):
            wrong.setdefault(name, ValueRefused("claimed_twice", text))
    pools = {name: pool for name, pool in pools.items() if pool.spans}
    return {
        name: setup._replace(others={other: pool for other, pool in pools.items() if other != name})
        for name, setup in found.items()
        if name not in wrong
    }, wrong


def pool_texts(given: Given) -> list[object]:
    """The ranges of all pools of one cluster's settings, whatever else may be wrong with them."""
    rows = given.get("pools")
    lists = [
        given.get("pool"),
        *(
            row.get("addresses")
            for row in (rows if isinstance(rows, (list, tuple)) else ())
            if isinstance(row, t.Mapping)
        ),
    ]
    return [
        text for texts in lists for text in (texts if isinstance(texts, (list, tuple)) else [texts] if texts else [])
    ]


def spoken_families(given: Given) -> frozenset[int] | None:
    """4 and 6, of the networks that owned speakers carry; None where they are not given, where something else announces, or where there is no speaker."""
    families = given.get("bgp_families")
    if families is None or given.get("announced_by") == OTHER or not given.get("bgp_speakers"):
        return None
    return frozenset(int(version) for version in families)


def parse_setup(given: Given, env: t.Mapping[str, str], file: str | None, claim: bool = False) -> Setup:
    """One cluster's. ``claim``: the file is kept by the cluster, which only claims its contents. Raises ValueRefused, SettingRefused."""
    provider = given.get("provider") or STATIC
    if provider not in PROVIDERS:
        raise ValueRefused("unknown_provider", f"{quoted(provider)} is none of {', '.join(PROVIDERS)}")
    parameters = {name: given[name] for name in _PARAMETERS if given.get(name) is not None}
    if given.get("load_balancer") is not None:
        parameters["loadbalancer"] = given["load_balancer"]
    settings = read_settings(env, file, parameters, required=provider != STATIC)
    if claim and provider != STATIC:
        _check_claim(env, file, parameters)
    # cloud-provider-equinix-metal's own file may have any value, and is read as upstream reads it; an inventory has no such slips
    balancer = (known_load_balancer if given.get("load_balancer") else parse_load_balancer)(
        settings.text("loadbalancer")
    )
    names = {"source_ip": "annotation_src_ip", "password": "annotation_bgp_pass"}
    overrides = {datum: settings.text(names.get(datum, "annotation_" + datum)) for datum in _NAMES}
    domain = given.get("annotation_domain") or DEFAULT_DOMAIN
    private = settings.text("annotation_network_ipv4_private").replace(DEFAULT_DOMAIN, domain, 1)
    scheme = Scheme(
        given.get("annotation_scheme") or BOTH,
        {key: text for key, text in overrides.items() if text},
        given.get("annotation_legacy_singular") is not False,
        bool(given.get("publish_bgp_password")),
        domain,
        private,
    )
    tracking = given.get("metallb_peer_tracking") or metallb_config.NODE
    passwords = metallb_config.PLAIN if given.get("publish_bgp_password") else metallb_config.WITHHOLD
    label, dummy, value = (given.get("crd_label") or "cloud-provider=equinix-metal").partition("=")
    advertise = str(given.get("metallb_advertise") or "")
    if given.get("metallb_layer2") and advertise not in (BY_LAYER2, BY_BOTH):
        raise ValueRefused("bad_setting", "metallb_layer2 needs metallb_advertise: layer2 (or both)")
    layer2 = _layer2(given.get("metallb_layer2")) if advertise in (BY_LAYER2, BY_BOTH) else None
    pools, speakers = parse_named_pools(given.get("pool") or (), given.get("pools")), given.get("bgp_speakers")
    pool = Pool(tuple(sorted(span for one in pools for span in one.pool.spans)))
    return Setup(
        str(given["cluster"]),
        provider,
        balancer,
        parse_identity(given.get("identity") or DEFAULT_IDENTITY),
        pool,
        tuple(_node(row, settings) for row in given.get("bgp_nodes") or ()),
        parse_grants(given.get("bgp_grants")),
        scheme,
        settings,
        metallb_config.Options(tracking, given.get("metallb_source_address"), passwords, domain),
        metallb_resources.Options(
            balancer.namespace,
            tracking,
            given.get("metallb_peer_mode") or metallb_resources.NATIVE,
            metallb_resources.SECRETS,
            (label, value),
            given.get("advertisement") or "equinix-metal-bgp-adv",
            domain,
            advertise != BY_LAYER2,
            layer2,
        ),
        balancer.warnings + tuple(settings.warnings),
        reserved=Reserved(pool, given.get("reserved_ranges")),
        cluster_uid=str(given.get("cluster_uid") or "").strip(),
        adopted=tuple(given.get("adopt_identities") or IDENTITIES),
        our_class=given.get("load_balancer_class") or "",
        max_prefixes=given.get("max_prefixes"),
        release_unrecorded=bool(given.get("release_unrecorded")),
        on_duplicate=given.get("on_duplicate_reservation") or REFUSE,
        reclaim_policy=given.get("reclaim_policy") or DELETE,
        gc_orphans=bool(given.get("gc_orphans")),
        metallb_mode=given.get("metallb_mode") or "",
        metadata_url=str(given.get("metadata_url") or ""),
        plain_http=bool(given.get("allow_plain_http")),
        in_annotation=given.get("service_ip_field") == "annotation",
        announced_by=given.get("announced_by") or "",
        speakers=None if speakers is None else frozenset(speakers),
        families=spoken_families(given),
        exclude_cordoned=bool(given.get("exclude_cordoned")),
        not_ready_seconds=NOT_READY_SECONDS
        if given.get("not_ready_seconds") is None
        else int(given["not_ready_seconds"]),
        pools=pools,
        strict=bool(given.get("pools")),
        segments=_segments(given.get("layer2_nodes") or ()),
        reserved_groups=parse_reserved(given.get("layer2_reserved_vrids") or ()),
        further_classes=tuple(str(one) for one in given.get("load_balancer_classes") or ()),
        metallb_advertise=advertise,
    )


def _layer2(given: Given | None) -> metallb_resources.Layer2:
    """How MetalLB announces on the segment. Raises ValueRefused."""
    rows = given or {}
    selectors = tuple(
        {"matchLabels": {str(key): str(value) for key, value in row.items()}}
        for row in rows.get("node_selectors") or ()
    )
    return metallb_resources.Layer2(
        tuple(check_interface(str(name)) for name in rows.get("interfaces") or ()), selectors
    )


def _segments(rows: t.Iterable[Given]) -> dict[str, list[dict[str, t.Any]]]:
    """Segment -> its nodes. Raises ValueRefused as parse_members."""
    found: dict[str, list[dict[str, t.Any]]] = {}
    for row in sorted(rows, key=lambda row: (str(row["segment"]), str(row["name"]))):
        found.setdefault(str(row["segment"]), []).append(
            {"name": str(row["name"]), "addresses": list(row["addresses"])}
        )
    for members in found.values():
        parse_members(members)
    return found


def _check_claim(env: t.Mapping[str, str], file: str | None, parameters: t.Mapping[str, t.Any]) -> None:
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
            text = "the cluster's Secret has {0}, and api_key is not the Secret's; write {0} into load_balancers_settings, or leave api_key to the Secret"
            raise ValueRefused("outside_grant", text.format(name))


def _node(row: Given, settings: Settings) -> NodeBgp:
    return NodeBgp(
        str(row["name"]),
        str(row.get("source_ip") or ""),
        row.get("local_asn") or settings.number("local_asn"),
        row.get("peer_asn") or settings.number("peer_asn"),
        tuple(str(peer) for peer in row.get("peers") or ()),
        str(row.get("password") or settings.text("bgp_pass")),
        bool(row.get("multihop")),
    )
