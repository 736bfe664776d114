# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""The file that a play writes and the watcher on the host reads: peers, mode and layout, but no secret (kubespan 16)."""

from __future__ import annotations

import json
import typing as t

from .._values.addresses import parse_address, parse_network
from .._values.keys import parse_key
from .._values.refused import ValueRefused
from .kubespan_endpoints import parse_endpoints
from .kubespan_generations import Generation, Layout, generation, make_layout
from .kubespan_mtu import check_mtu
from .kubespan_peers import Peer
from .kubespan_ranges import PrefixSet

VERSION = 1
_WORD = "bad_peers_file"


class PeersFile(t.NamedTuple):
    """Everything that the watcher needs besides the kernel. ``subnet``: the mesh's /64 as text."""

    peers: t.Dict[str, Peer]
    force_routing: bool
    fail_closed: bool
    harvest: bool
    mtu: int
    subnet: str
    layout: Layout
    generation: Generation


def render_peers_file(content: PeersFile) -> str:
    """The file's text: the same content always gives the same bytes."""
    peers = [
        {
            "public_key": peer.public_key,
            "node_id": peer.node_id,
            "address": peer.address,
            "allowed_ips": peer.allowed_ips,
            "endpoints": peer.endpoints,
            "label": peer.label,
        }
        for peer in content.peers.values()
    ]
    peers.sort(key=_key)
    fields = content._asdict()
    fields.update(version=VERSION, peers=peers, layout=content.layout._asdict(), generation=content.generation.name)
    return json.dumps(fields, indent=1, sort_keys=True) + "\n"


def _key(peer: t.Mapping[str, t.Any]) -> str:
    return str(peer["public_key"])


def parse_peers_file(text: str) -> PeersFile:
    """The inverse. ``bad_peers_file`` and the words of values; a watcher then keeps what it has and says so."""
    try:
        fields = json.loads(text)
        if fields["version"] != VERSION:
            raise ValueRefused(_WORD, "the peers file is of another version")
        peers = [_peer(item) for item in fields["peers"]]
        flags = [fields[name] for name in ("force_routing", "fail_closed", "harvest")]
        layout = make_layout(**fields["layout"])
        subnet = parse_network(fields["subnet"])
        parsed = PeersFile({}, *flags, check_mtu(fields["mtu"]), str(subnet), layout, generation(fields["generation"]))
    except ValueRefused:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueRefused(_WORD, "the peers file is incomplete or no JSON") from None
    if any(not isinstance(flag, bool) for flag in flags) or subnet.version != 6:
        raise ValueRefused(_WORD, "the peers file has a value of the wrong kind")
    for peer in peers:
        if peer.public_key in parsed.peers:
            raise ValueRefused(_WORD, "the peers file has a peer twice")
        parsed.peers[peer.public_key] = peer
    return parsed


def _peer(item: t.Mapping[str, t.Any]) -> Peer:
    texts = list(item["allowed_ips"])
    networks = PrefixSet.of([parse_network(text) for text in texts])
    endpoints = [str(endpoint) for endpoint in parse_endpoints(item["endpoints"])]
    address = str(parse_address(item["address"]))
    return Peer(parse_key(item["public_key"]), str(item["node_id"]), address, texts, networks, endpoints, str(item["label"]))
