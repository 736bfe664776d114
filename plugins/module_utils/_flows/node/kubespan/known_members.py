# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node knows of the members of a discovery service, out of its own files and its own kernel: for traces, which ask no member anything."""

from __future__ import annotations

import typing as t

from ...._linux.host.links import read_link
from ...._linux.netlink import links, routes
from ...._linux.wireguard.device import read_device
from ...._mesh.kubespan import members as found_members
from ...._mesh.kubespan.generations import make_layout
from ...._mesh.kubespan.peers import peers_of
from ...._values.addresses import parse_address, special_kind
from ...._values.refused import ValueRefused
from .. import persistence

Data = dict[str, t.Any]


def read_members(fabric: str) -> Data | None:
    """{device, members: [{name, public_key, networks, allowed_ips or None}], service, refused: [{object, reason, message}]}; None without a service.

    ``networks`` is what a member claims, its KubeSpan address first; ``allowed_ips`` what the device takes from it, None where it is no peer.
    ``service``: {state, reason, message} as the watcher last showed it, empty before its first pass. Raises LinuxError, OSError.
    """
    found = persistence.load_state(fabric)
    state = (found.kubespan if found is not None else None) or {}
    if not state.get("discovery"):
        return None
    name = make_layout(**state["layout"]).device
    link = read_link(name)
    peers = read_device(name, link["implementation"]).peers if link is not None and link["implementation"] else {}
    planned = {peer.public_key for peer in peers_of(state)}
    members, _seen = found_members.of_json(persistence.load_json(persistence.members_path(fabric)))
    shown = (persistence.load_json(persistence.run_files(fabric)[1]) or {}).get("discovery") or {}
    rows = []
    for node_id in sorted(members):
        affiliate = members[node_id].affiliate
        key = str(affiliate.get("public_key") or "")
        if not key or key in planned:
            continue
        own = [affiliate.get("kubespan_address"), *(affiliate.get("addresses") or ())]
        rows.append(
            {
                "name": str(affiliate.get("nodename") or node_id),
                "public_key": key,
                "networks": [str(text) for text in (*own, *(affiliate.get("additional_addresses") or ())) if text],
                "allowed_ips": list(peers[key].allowed_ips) if key in peers else None,
            }
        )
    return {
        "device": name,
        "members": rows,
        "service": {part: str(shown.get(part) or "") for part in ("state", "reason", "message")} if shown else {},
        "refused": list(shown.get("refused") or ()),
    }


def read_ends(fabric: str, targets: t.Iterable[str]) -> Data | None:
    """What makes this node and members ends of a trace: {members: of read_members, own: addresses, sources}; None without a service.

    ``sources``: from which of its addresses the kernel would send to each of the targets that is an address, and to each member's. Raises LinuxError.
    """
    known = read_members(fabric)
    if known is None:
        return None
    claimed = [text for member in known["members"] for text in member["networks"] if "/" not in text]
    asked = [text for text in dict.fromkeys([*targets, *claimed]) if _is_usable(text)]
    ways = routes.look_up([{"dst": text} for text in asked])
    sources = {text: str(way["src"]) for text, way in zip(asked, ways) if way.get("src")}
    found = [address.text.partition("/")[0] for link in links.read_links() for address in link.addresses]
    return {"members": known["members"], "own": sorted(filter(_is_usable, set(found))), "sources": sources}


def _is_usable(text: str) -> bool:
    """Whether it is an address that a node can have."""
    try:
        return special_kind(parse_address(text)) is None
    except ValueRefused:
        return False
