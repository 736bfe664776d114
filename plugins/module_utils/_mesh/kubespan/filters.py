# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Endpoint filters: ordered lists of networks to take and, with ``!``, to leave (kubespan 7.2)."""

from __future__ import annotations

import ipaddress
import typing as t

from ..._values.addresses import Address, Network, parse_address, parse_network
from ..._values.refused import ValueRefused, quoted

WORD = "invalid_filter"
#: More items than any operator writes; every item is compared with every candidate.
MAX_FILTERS = 256


class Filter(t.NamedTuple):
    """One item of a filter."""

    takes: bool
    network: Network


def parse_filters(texts: object) -> t.Optional[t.List[Filter]]:
    """A filter, or None where none is configured. One bad item refuses the whole list (``invalid_filter``)."""
    if texts is None:
        return None
    if not isinstance(texts, (list, tuple)) or len(texts) > MAX_FILTERS:
        raise ValueRefused(WORD, "endpoint filters are a list of at most {0} items".format(MAX_FILTERS))
    return [_parse_item(text) for text in texts]


def _parse_item(text: object) -> Filter:
    if not isinstance(text, str):
        raise ValueRefused(WORD, "{0} is no endpoint filter".format(quoted(text)))
    takes = not text.startswith("!")
    rest = text if takes else text[1:]
    if "/" in rest:
        return Filter(takes, parse_network(rest, WORD))
    return Filter(takes, ipaddress.ip_network(parse_address(rest, WORD)))


def apply_filters(filters: t.Optional[t.Sequence[Filter]], candidates: t.Iterable[Address]) -> t.List[Address]:
    """Candidates in the order of the filter. Unset keeps all, an empty list keeps none; families never match each other."""
    candidates = list(candidates)
    if filters is None:
        return candidates
    result: t.Dict[Address, None] = {}
    for item in filters:
        for address in candidates:
            if address.version != item.network.version or address not in item.network:
                continue
            if item.takes:
                result.setdefault(address)
            else:
                result.pop(address, None)
    return list(result)
