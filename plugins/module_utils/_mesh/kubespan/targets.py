# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sets of destinations that must go through the tunnel, and set changes as deltas (kubespan 11.6, 14, 17.4, 18.1)."""

from __future__ import annotations

import ipaddress
import typing as t

from ..._values.addresses import parse_network
from ..._values.prefix_sets import PrefixSet
from .generations import GENERATIONS, Generation
from .identity import looks_like_ula
from .states import UP


def targets(
    peers: t.Iterable[t.Tuple[t.Union[PrefixSet, t.Iterable[str]], str]],
    force_routing: bool = True,
    gen: Generation = GENERATIONS["current"],
    subnet: t.Optional[ipaddress.IPv6Network] = None,
) -> PrefixSet:
    """The union over all contributing peers, given as (allowed IPs, state); adjacent prefixes become one range.

    allowed IPs: texts, or their set. subnet: the mesh's own /64, whose addresses are no
    targets in the current generation. Without it the original's test applies to each prefix, which leaves a site's
    addresses out that only look alike: their traffic would then not be protected.
    """
    chosen = [allowed for allowed, state in peers if force_routing or state == UP]
    if not gen.ulas_in_sets and subnet is None:
        texts = (text for allowed in chosen for text in (allowed.cidrs() if isinstance(allowed, PrefixSet) else allowed))
        networks = (parse_network(text) for text in texts)
        return PrefixSet.of(network for network in networks if not looks_like_ula(network.network_address))
    sets = [allowed for allowed in chosen if isinstance(allowed, PrefixSet)]
    union = PrefixSet.union([*sets, PrefixSet.of_texts(text for allowed in chosen if not isinstance(allowed, PrefixSet) for text in allowed)])
    return union if gen.ulas_in_sets or subnet is None else union - PrefixSet.of([subnet])
