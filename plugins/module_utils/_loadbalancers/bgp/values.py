# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""BGP facts of project and node: what a provider returns, and what follows from it (ccm 7, decision 42); and what of it may be true.

What a provider returns must be inside what the inventory grants (decision 29, T16): one that could choose autonomous systems and routers freely could
hand our traffic to anyone.
"""

from __future__ import annotations

import typing as t

from ..._plan.plan import Refusal
from ..._values.addresses import Network, parse_address, parse_network, special_kind
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused, quoted
from ..._values.selectors import matches, parse_selector
from ..._values.text import lower


class NodeBgp(t.NamedTuple):
    """What a speaker on one node needs: ``peers`` are the routers' addresses in the order they were given."""

    name: str
    source_ip: str = ""
    local_asn: int = 0
    peer_asn: int = 0
    peers: tuple[str, ...] = ()
    password: str = ""
    multihop: bool = False


class ProjectBgp(t.NamedTuple):
    """What to do about a project's BGP: ``post`` None when nothing, and the values that count from then on."""

    post: dict[str, t.Any] | None
    local_asn: int
    password: str
    max_prefixes: int | None


USE_CASE = "kubernetes-load-balancer"
ALREADY = "already has session"
SESSION_REQUEST = {"address_family": "ipv4"}


def selected_nodes(nodes: t.Iterable[t.Mapping[str, t.Any]], selector: str) -> list[str]:
    """Names of the nodes (``name``, ``labels``) that a selector takes. Raises ValueRefused ``invalid_node_selector``."""
    terms = parse_selector(selector, "invalid_node_selector")
    return [node["name"] for node in nodes if matches(terms, node.get("labels"))]


def project_bgp(
    answer: t.Mapping[str, t.Any] | None, local_asn: int, password: str = "", adopt: bool = True
) -> ProjectBgp:
    """From the project's BGP configuration as it was read. What is switched on is never written again.

    ``adopt`` False keeps the configured ASN, as the seed did. The caller must not come here when the read failed.
    """
    config = answer or {}
    present = bool(config.get("id")) and lower(str(config.get("status") or "")) != "disabled"
    if not present:
        post: dict[str, t.Any] = {"deployment_type": "local", "asn": local_asn, "use_case": USE_CASE}
        if password:
            post["md5"] = password
        return ProjectBgp(post, local_asn, password, None)
    asn, limit = config.get("asn"), config.get("max_prefix")
    return ProjectBgp(
        None,
        asn if adopt and _is_number(asn) and asn else local_asn,
        str(config.get("md5") or "") if adopt else password,
        limit if _is_number(limit) else None,
    )


def session_answer(status: int | None, message: str) -> tuple[bool, bool]:
    """(good, changed) of the answer to a new session; status None when there was none."""
    if status == 201:
        return True, True
    return status == 422 and ALREADY in lower(message), False


def neighbour_of(records: t.Iterable[t.Mapping[str, t.Any]] | None) -> t.Mapping[str, t.Any]:
    """The first record of IPv4. Raises ValueRefused ``no_ipv4_neighbor``."""
    for record in records or ():
        if record.get("address_family") == 4:
            return record
    raise ValueRefused("no_ipv4_neighbor", "the provider names no IPv4 neighbour")


def node_bgp(
    name: str,
    records: t.Iterable[t.Mapping[str, t.Any]] | None,
    local_asn: int = 0,
    peer_asn: int = 0,
    password: str = "",
) -> NodeBgp:
    """A node's facts from the provider's neighbour records; configuration fills gaps only."""
    record = neighbour_of(records)
    peers = record.get("peer_ips") or ()
    return NodeBgp(
        name,
        str(record.get("customer_ip") or ""),
        _number(record.get("customer_as")) or local_asn,
        _number(record.get("peer_as")) or peer_asn,
        tuple(str(peer) for peer in peers) if isinstance(peers, (list, tuple)) else (),
        str(record.get("md5_password") or "") or password,
        record.get("multihop") is True,
    )


def _is_number(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: t.Any) -> int:
    if value is None:
        return 0
    if not _is_number(value) or not 0 <= value < 2**32:
        raise ValueRefused("api", f"the provider gave {quoted(value)} as an autonomous system")
    return int(value)


class BgpGrants(t.NamedTuple):
    """What the inventory grants; an empty field grants every usual value. Peers may be link-local (169.254.255.1)."""

    local_asns: frozenset[int] = frozenset()
    peer_asns: frozenset[int] = frozenset()
    peers: tuple[Network, ...] = ()
    sources: tuple[Network, ...] = ()


def parse_grants(given: t.Mapping[str, t.Any] | None) -> BgpGrants:
    """From a module's options or the inventory. Raises ValueRefused ``bad_cidr``."""
    given = given or {}
    local, remote = (frozenset(given.get(name) or ()) for name in ("local_asns", "peer_asns"))
    peers, sources = (tuple(parse_network(text) for text in given.get(name) or ()) for name in ("peers", "sources"))
    return BgpGrants(local, remote, peers, sources)


def check_bgp_claims(nodes: t.Iterable[NodeBgp], grants: BgpGrants) -> tuple[list[NodeBgp], list[Refusal]]:
    """Nodes with granted facts, and refusals by name; the rest goes on."""
    kept: list[NodeBgp] = []
    refused: list[Refusal] = []
    sources: dict[str, str] = {}
    for node in sorted(nodes):
        try:
            _check(node, grants)
            holder = sources.setdefault(node.source_ip, node.name)
            if holder != node.name:
                raise ValueRefused("claimed_twice", f"the source address {node.source_ip} is also that of {holder}")
            kept.append(node)
        except ValueRefused as error:
            refused.append(Refusal(f"node {node.name}", error.reason, error.message))
    return kept, refused


def _check(node: NodeBgp, grants: BgpGrants) -> None:
    for asn, granted, which in (
        (node.local_asn, grants.local_asns, "local"),
        (node.peer_asn, grants.peer_asns, "peer"),
    ):
        # 23456 is in place of what does not fit, the last of each range is reserved (RFC 7607, 6793, 7300)
        if asn in (0, 23456, 65535, 2**32 - 1) or not 0 < asn < 2**32:
            raise ValueRefused("outside_grant", f"the {which} autonomous system {asn} is nobody's")
        if granted and asn not in granted:
            raise ValueRefused(
                "outside_grant", f"the {which} autonomous system {asn} is not granted by {which}_asns of the grants"
            )
    if not node.peers or len(node.peers) > 16:
        raise ValueRefused("no_ipv4_neighbor", f"{len(node.peers)} routers are named")
    _check_address(node.source_ip, grants.sources, (), "sources")
    for peer in node.peers:
        _check_address(peer, grants.peers, ("link_local",), "peers")
    if node.source_ip in node.peers or len(set(node.peers)) < len(node.peers):
        raise ValueRefused("claimed_twice", "an address occurs twice among the routers and the source")
    if not node.password.isprintable() or not node.password.isascii() or len(node.password) > 80:
        raise ValueRefused("bad_format", "the password is not up to 80 printable characters")


def _check_address(text: str, granted: tuple[Network, ...], may_be: t.Container[str], option: str) -> None:
    address = parse_address(text)
    kind = special_kind(address)
    if kind is not None and kind not in may_be:
        raise ValueRefused("special_address", f"{quoted(text)} is {kind}")
    if granted and address not in PrefixSet.of(granted):
        raise ValueRefused("outside_grant", f"{quoted(text)} is in no range of {option} of the grants")


def prefix_limit(granted: int | None, provider: int | None) -> int | None:
    """How many prefixes may be announced: the provider can lower the inventory's limit, never raise it."""
    limits = [limit for limit in (granted, provider) if limit is not None and limit >= 0]
    return min(limits) if limits else None
