# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the mesh's nodes announce against what the inventory grants their clusters (decisions 4, 29, 39; threats T1 to T6).

Runs between merging and building peers, always. Key, ULA and prefixes hold or are refused together with the node; a node
address or endpoint that does not hold is left out and named, for every host has addresses that concern nobody else.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ..._plan.plan import Refusal
from ..._values.addresses import Address, overlaps, parse_address, parse_network, special_kind
from ..._values.prefix_sets import PrefixSet, RangeOwners
from ..._values.refused import ValueRefused, quoted
from ..fabric.claims import MAX_ALLOWED_IPS, Claim, Grants, OverlayGuard, label_of, open_claims, read_claim
from ..kubespan.annotations import Affiliate
from ..kubespan.endpoints import host_network, parse_addr_port
from ..kubespan.generations import MAX_ENDPOINTS

#: Name of the grant that the mesh's own /64 is; every cluster of the fabric has it.
MESH_RANGE = "kubespan_subnet"


class Checked(t.NamedTuple):
    """``affiliates`` that hold, in their order, without what was left out; ``refused`` has what and why.

    ``contested`` are good by themselves, but share a key, a node id or an address with another one; ``disputed`` are node addresses
    that several of all these have. Each node decides about both.
    """

    affiliates: list[Affiliate]
    refused: list[Refusal]
    contested: list[Affiliate]
    disputed: list[str]


def check_affiliates(
    affiliates: t.Iterable[t.Any],
    grants: Grants,
    subnet: ipaddress.IPv6Network,
    own_keys: t.Iterable[str] = (),
    ranges: t.Sequence[str] = ("pod_cidrs",),
    balanced: t.Iterable[str] = (),
) -> Checked:
    """Check merged affiliates, which carry ``cluster``, ``node`` and, for hosts of the inventory, ``declared: True``.

    grants and own_keys as open_claims has them; ranges: what of its cluster's grants a node may announce as
    prefixes. balanced: what load balancing hands out, which no node has
    (threat T48). Node addresses must lie in ``node_cidrs``. An affiliate without a key is no peer and is left out in silence.
    """
    widened = {name: dict(granted, **_mesh(granted, subnet)) for name, granted in grants.items()}
    refused: list[Refusal] = []
    rows: list[Affiliate] = []
    claims: list[Claim] = []
    for affiliate in affiliates:
        if isinstance(affiliate, dict) and not affiliate.get("public_key"):
            continue
        try:
            claims.append(_claim(affiliate, subnet, len(rows)))
            rows.append(affiliate)
        except ValueRefused as error:
            refused.append(_refusal(affiliate if isinstance(affiliate, dict) else {}, error))
    kept, contested, found = open_claims(claims, widened, own_keys, [*ranges, MESH_RANGE])
    refused.extend(found)
    good = [(dict(rows[claim.row]), claim) for claim in kept]
    more = [(dict(rows[claim.row], greedy=claim.greedy), claim) for claim in contested]
    guard = OverlayGuard(widened)
    moving = PrefixSet.of_texts(balanced)
    disputed = _check_addresses(good + more, widened, subnet, refused, moving)
    for affiliate, dummy in good + more:
        affiliate["endpoints"] = _endpoints(affiliate, guard, refused, moving)
    return Checked(
        [affiliate for affiliate, dummy in good], refused, [affiliate for affiliate, dummy in more], disputed
    )


def _mesh(granted: t.Mapping[str, t.Iterable[str]], subnet: ipaddress.IPv6Network) -> dict[str, list[str]]:
    """The mesh's /64 as a grant, and among the ranges in which no endpoint may lie."""
    return {MESH_RANGE: [str(subnet)], "wireguard_cidrs": [*(granted.get("wireguard_cidrs") or ()), str(subnet)]}


def _refusal(affiliate: t.Mapping[str, t.Any], error: ValueRefused) -> Refusal:
    label = label_of(affiliate.get("cluster"), affiliate.get("node"))
    return Refusal(label, error.reason, f"{label}: {error.message}")


def _claim(affiliate: t.Any, subnet: ipaddress.IPv6Network, row: int) -> Claim:
    if not isinstance(affiliate, dict):
        raise ValueRefused("name_invalid", "a record is no affiliate")
    address = parse_address(affiliate.get("kubespan_address"), "bad_address")
    if address.version != 6 or address not in subnet:
        raise ValueRefused(
            "outside_grant", f"KubeSpan address {quoted(str(address))} is outside of the mesh's {subnet}"
        )
    prefixes = affiliate.get("additional_addresses") or []
    if not isinstance(prefixes, (list, tuple)) or len(prefixes) >= MAX_ALLOWED_IPS:
        raise ValueRefused("bad_pod_cidr", f"it announces more than {MAX_ALLOWED_IPS - 1} prefixes")
    networks = [host_network(address)]
    for text in prefixes:
        networks.append(parse_network(text, "bad_pod_cidr"))
        if overlaps(networks[-1], subnet):
            raise ValueRefused("outside_grant", f"{quoted(text)} shares addresses with the mesh's own {subnet}")
    excluded = affiliate.get("exclude_advertised_networks") or []
    if not isinstance(excluded, (list, tuple)) or len(excluded) > MAX_ALLOWED_IPS:
        raise ValueRefused("bad_cidr", f"it excludes more than {MAX_ALLOWED_IPS} networks, or none in a list")
    for text in excluded:
        parse_network(text)
    claim = read_claim(affiliate.get("cluster"), affiliate.get("node"), affiliate["public_key"], None, networks)
    return claim._replace(
        declared=bool(affiliate.get("declared")), things=(("node id", str(affiliate.get("node_id"))),), row=row
    )


def _moves(address: Address, balanced: PrefixSet) -> None:
    """Raise special_address for an address that moves from node to node: it would stay with one that is gone."""
    if address in balanced:
        message = "{0} is an address that load balancing hands out (floating_cidrs, pools of load_balancers_settings), no node's"
        raise ValueRefused("special_address", message.format(quoted(str(address))))


def _endpoints(affiliate: Affiliate, guard: OverlayGuard, refused: list[Refusal], balanced: PrefixSet) -> list[str]:
    kept: list[str] = []
    texts = affiliate.get("endpoints") or []
    if not isinstance(texts, (list, tuple)) or len(texts) > MAX_ENDPOINTS:
        message = f"it announces more than {MAX_ENDPOINTS} endpoints, or none in a list"
        refused.append(_refusal(affiliate, ValueRefused("bad_endpoint", message)))
        texts = list(texts)[:MAX_ENDPOINTS] if isinstance(texts, (list, tuple)) else []
    for text in texts:
        try:
            endpoint = parse_addr_port(text)
            guard.check(endpoint.address, text)
            _moves(endpoint.address, balanced)
        except ValueRefused as error:
            refused.append(_refusal(affiliate, error))
            continue
        if str(endpoint) not in kept:
            kept.append(str(endpoint))
    return kept


def _check_addresses(
    rows: t.Sequence[tuple[Affiliate, Claim]],
    grants: Grants,
    subnet: ipaddress.IPv6Network,
    refused: list[Refusal],
    balanced: PrefixSet,
) -> list[str]:
    """Leave out addresses that a node may not announce. Returns those that several announce."""
    routed: RangeOwners[str] = RangeOwners()
    for _affiliate, claim in rows:
        for network in claim.networks:
            routed.claim(network, claim.label)
    granted = {name: PrefixSet.of_texts(ranges.get("node_cidrs") or ()) for name, ranges in grants.items()}
    taken: dict[t.Any, set[str]] = {}
    desired = []
    for affiliate, claim in rows:
        texts = affiliate.get("addresses") or []
        affiliate["addresses"] = []
        if not isinstance(texts, (list, tuple)) or len(texts) > MAX_ALLOWED_IPS:
            message = f"it announces more than {MAX_ALLOWED_IPS} addresses, or none in a list"
            refused.append(_refusal(affiliate, ValueRefused("bad_address", message)))
            continue
        for place, text in enumerate(texts):
            try:
                address = parse_address(text)
                _moves(address, balanced)
            except ValueRefused as error:
                refused.append(_refusal(affiliate, error))
                continue
            if str(host_network(address)) == claim.peer.allowed_ips[0]:
                continue  # its own ULA again
            rank = (not claim.declared, claim.cluster, claim.node, place)
            desired.append((rank, address, affiliate))
    desired.sort(key=lambda row: row[0])
    for dummy, address, affiliate in desired:
        label = label_of(affiliate["cluster"], affiliate["node"])
        holder = routed.owner(host_network(address))
        kind = special_kind(address)
        if label in taken.get(address, ()):
            continue
        if kind is not None:
            problem = ValueRefused("special_address", f"{quoted(str(address))} is a {kind.replace('_', '-')} address")
        elif address in granted[affiliate["cluster"]] and not (address.version == 6 and address in subnet):
            if holder in (None, label):
                taken.setdefault(address, set()).add(label)
                affiliate["addresses"].append((address.version, int(address), str(address)))
                continue
            problem = ValueRefused(
                "claimed_twice", f"address {quoted(str(address))} is also claimed by {holder}, which keeps it"
            )
        else:
            text = "address {0} is outside what the inventory grants; node_cidrs of clusters/{1} would grant it"
            problem = ValueRefused("outside_grant", text.format(quoted(str(address)), affiliate["cluster"]))
        refused.append(_refusal(affiliate, problem))
    for row, unused in rows:
        row["addresses"] = [text for dummy, dummy2, text in sorted(row["addresses"])]
    return [str(address) for address, labels in taken.items() if len(labels) > 1]
