# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses that the inventory gives to something else than Services: nodes, routers, pods, API servers (T17, CVE-2020-8554).

Who may write a Service, or a provider, could else have a node's or a router's address announced, and its traffic with it.
"""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_address
from .._values.prefix_sets import PrefixSet
from .._values.refused import ValueRefused
from .spans import Span, address_at, parse_span
from .static_pool import Pool


class Reserved:
    """``labelled``: what it is, in words -> networks, ranges and addresses. Raises ValueRefused ``bad_cidr``.

    An address of ``own``, the pool of the cluster itself, is only refused when the inventory names that very address as a host's: a pool
    may lie in the range of the nodes.
    """

    def __init__(self, own: Pool = Pool(()), labelled: t.Optional[t.Mapping[str, t.Iterable[object]]] = None) -> None:
        self._own = own
        self.labelled = {label: tuple(parse_span(text) for text in texts) for label, texts in sorted((labelled or {}).items())}
        self._all = PrefixSet.of_spans(span for spans in self.labelled.values() for span in spans)

    def hosts(self) -> t.List[str]:
        """The addresses in it that stand alone: no pool hands them out."""
        return sorted({address_at(span.version, span.first) for spans in self.labelled.values() for span in spans if span.first == span.last})

    def refuse(self, address: object, besides: t.Container[str] = ()) -> None:
        """Raise ValueRefused ``outside_grant`` for an address that is something else's. ``besides``: labels that do not count."""
        parsed = parse_address(address)
        if parsed not in self._all:
            return
        single = Span(parsed.version, int(parsed), int(parsed))
        pooled = str(parsed) in self._own
        for label, spans in self.labelled.items():
            for span in spans if label not in besides else ():
                if span == single or (not pooled and span.overlaps(single)):
                    text = "{0} belongs to the {1} of the inventory; only what a pool of load_balancers_settings has is for Services"
                    raise ValueRefused("outside_grant", text.format(parsed, label))
