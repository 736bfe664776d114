# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""BGP facts of project and node: what a provider says, and what follows from it (ccm 7, decision 42)."""

from __future__ import annotations

import typing as t

from ..._values.ascii_text import lower
from ..._values.refused import ValueRefused, quoted
from ..._values.selectors import matches, parse_selector


class NodeBgp(t.NamedTuple):
    """What a speaker on one node needs: ``peers`` are the routers' addresses in the order they were given."""

    name: str
    source_ip: str = ""
    local_asn: int = 0
    peer_asn: int = 0
    peers: t.Tuple[str, ...] = ()
    password: str = ""
    multihop: bool = False


class ProjectBgp(t.NamedTuple):
    """What to do about a project's BGP: ``post`` None when nothing, and the values that count from then on."""

    post: t.Optional[t.Dict[str, t.Any]]
    local_asn: int
    password: str
    max_prefixes: t.Optional[int]


USE_CASE = "kubernetes-load-balancer"
ALREADY = "already has session"
SESSION_REQUEST = {"address_family": "ipv4"}


def selected_nodes(nodes: t.Iterable[t.Mapping[str, t.Any]], selector: str) -> t.List[str]:
    """Names of the nodes (``name``, ``labels``) that a selector takes. Raises ValueRefused ``invalid_node_selector``."""
    terms = parse_selector(selector, "invalid_node_selector")
    return [node["name"] for node in nodes if matches(terms, node.get("labels"))]


def project_bgp(answer: t.Optional[t.Mapping[str, t.Any]], local_asn: int, password: str = "", adopt: bool = True) -> ProjectBgp:
    """From the project's BGP configuration as it was read. What is switched on is never written again.

    ``adopt`` False keeps the configured ASN, as the seed did. The caller must not come here when the read failed.
    """
    config = answer or {}
    present = bool(config.get("id")) and lower(str(config.get("status") or "")) != "disabled"
    if not present:
        post: t.Dict[str, t.Any] = {"deployment_type": "local", "asn": local_asn, "use_case": USE_CASE}
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


def session_answer(status: t.Optional[int], message: str) -> t.Tuple[bool, bool]:
    """(good, changed) of the answer to a new session; status None when there was none."""
    if status == 201:
        return True, True
    return status == 422 and ALREADY in lower(message), False


def neighbour_of(records: t.Optional[t.Iterable[t.Mapping[str, t.Any]]]) -> t.Mapping[str, t.Any]:
    """The first record of IPv4. Raises ValueRefused ``no_ipv4_neighbor``."""
    for record in records or ():
        if record.get("address_family") == 4:
            return record
    raise ValueRefused("no_ipv4_neighbor", "the provider names no IPv4 neighbour")


def node_bgp(
    name: str, records: t.Optional[t.Iterable[t.Mapping[str, t.Any]]], local_asn: int = 0, peer_asn: int = 0, password: str = ""
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
        raise ValueRefused("api", "the provider gave {0} as an autonomous system".format(quoted(value)))
    return int(value)
