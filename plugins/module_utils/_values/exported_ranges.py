# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How other clusters see the pods and nodes of one: one-to-one by prefix (translation 1 and 7).

This is the one place where an address of a pod, or of a node, becomes the one that other clusters see. Whoever writes such an address for another cluster
takes it from here, after the claim was checked that the own address is in its cluster's ranges. Nodes compute with it too.
"""

from __future__ import annotations

import typing as t

from .addresses import Network, address_number, parse_network
from .prefix_sets import BITS, PrefixSet, VersionSpan, address_text, prefixes, span
from .refused import ValueRefused

#: {pod range: exported range}, as the inventory has them.
Texts = t.Mapping[str, str]


class Pair(t.NamedTuple):
    """A pod range and what other clusters see in its place, as (version, first, last) of the first and as what is added to its addresses."""

    span: VersionSpan
    shift: int

    @property
    def version(self) -> int:
        """Of both."""
        return self.span[0]

    @property
    def exported(self) -> tuple[int, int]:
        """First and last address that other clusters see."""
        return self.span[1] + self.shift, self.span[2] + self.shift


class ExportedRanges:
    """The mapping of one cluster. Empty: everything is exported as it is.

    ``pairs``: {pod range: exported range}. ``former``: mappings of before; their exported ranges are accepted too while
    they are listed; a range there may be exported as itself. ``nodes``: {node range: exported range}; a node with an own address in
    one of them is reached at the other; ``former_nodes``: those of before, at which it is reached too while they are listed. Ranges in
    canonical CIDR form, checked already (``pair_of``).
    """

    __slots__ = ("_former", "_known", "_nodes", "_pairs", "_sources", "former", "former_nodes", "nodes", "pairs")

    def __init__(
        self,
        pairs: Texts | None = None,
        former: t.Sequence[Texts] = (),
        nodes: Texts | None = None,
        former_nodes: t.Sequence[Texts] = (),
    ) -> None:
        self.pairs, self.former, self.nodes = dict(pairs or {}), [dict(one) for one in former], dict(nodes or {})
        self.former_nodes = [dict(one) for one in former_nodes]
        self._nodes = [pair_of(source, target) for source, target in self.nodes.items()]
        self._pairs = [pair_of(source, target) for source, target in self.pairs.items()]
        self._former = [pair_of(source, target) for one in former for source, target in one.items()]
        self._sources = PrefixSet.of_spans(pair.span for pair in self._pairs)
        self._known: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._pairs or self._former or self.of_nodes)

    @property
    def of_nodes(self) -> bool:
        """Whether other clusters reach nodes at exported addresses, present or former ones."""
        return bool(self._nodes or any(self.former_nodes))

    @property
    def of_pods(self) -> bool:
        """Whether pods are seen, or were seen, at other addresses than their own."""
        return bool(self._pairs or self._former)

    def to_json(self) -> dict[str, t.Any]:
        """As plan of the mesh and nodes have it; ``ExportedRanges(**json)`` is the reverse."""
        found: dict[str, t.Any] = {"pairs": dict(self.pairs), "former": [dict(one) for one in self.former]}
        if self.of_nodes:
            found["nodes"] = dict(self.nodes)
        if any(self.former_nodes):
            found["former_nodes"] = [dict(one) for one in self.former_nodes]
        return found

    @property
    def exported_nodes(self) -> dict[str, str]:
        """{what is accepted from other clusters, now or because it was: the node range that it means}."""
        return {target: source for one in (self.nodes, *self.former_nodes) for source, target in one.items()}

    def node_address(self, text: str) -> str | None:
        """What other clusters see of a node's own address; None where they do not see it. Raises ValueRefused for what is no address."""
        return self._moved_address(text, self._nodes)

    def node_addresses(self, text: str) -> list[str]:
        """Where other clusters reach the node with this own address: the present exported address first, then those of before."""
        found = [
            self._moved_address(text, [pair_of(*pair) for pair in one.items()])
            for one in (self.nodes, *self.former_nodes)
        ]
        return list(dict.fromkeys(address for address in found if address is not None))

    @property
    def translated(self) -> PrefixSet:
        """The pod ranges that other clusters see as something else."""
        return self._sources

    @property
    def hidden(self) -> PrefixSet:
        """Those that no other cluster sees as they are, now or before."""
        same = [source for one in self.former for source, target in one.items() if source == target]
        return self._sources - PrefixSet.of_texts(same)

    @property
    def accepted(self) -> dict[str, str]:
        """{what is accepted from other clusters: the pod range that it means}, without what means itself."""
        rows = [*self.pairs.items(), *(row for one in self.former for row in one.items())]
        return {target: source for source, target in rows if source != target}

    def address(self, text: str) -> str:
        """What other clusters see of one address, the same where it is not translated. Raises ValueRefused for what is no address."""
        if not self._pairs and not self._nodes:
            return text
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._moved_address(text, (*self._pairs, *self._nodes)) or text
        return found

    @staticmethod
    def _moved_address(text: str, pairs: t.Iterable[Pair]) -> str | None:
        version, number = address_number(text)
        pair = next((one for one in pairs if _holds(one, version, number)), None)
        return None if pair is None else address_text(version, number + pair.shift)

    def own_address(self, text: str) -> str:
        """The reverse: the address that a pod or node really has."""
        version, number = address_number(text)
        former = [pair_of(*pair) for one in self.former_nodes for pair in one.items()]
        for pair in (*self._pairs, *self._former, *self._nodes, *former):
            if version == pair.version and pair.exported[0] <= number <= pair.exported[1]:
                return address_text(version, number - pair.shift)
        return text

    def network(self, text: str) -> str:
        """The same of the network of one address, as sets of addresses have it."""
        address, slash, length = text.partition("/")
        return self.address(address) + slash + length

    def networks(self, networks: t.Iterable[Network]) -> list[Network]:
        """What other clusters see of pod ranges, in their order; one of which only a part is translated becomes its parts."""
        return [one for network in networks for one in (self._seen(network) if self._pairs else [network])]

    def accepted_networks(self, networks: t.Iterable[Network]) -> list[Network]:
        """As networks, with what is accepted in addition because it was exported before."""
        given = list(networks)
        found = self.networks(given)
        for network in given:
            for pair in self._former:
                found += [one for one in _moved(network, pair) if one not in found]
        return found

    def _seen(self, network: Network) -> list[Network]:
        parts = [part for pair in self._pairs for part in _moved(network, pair)]
        if not parts:
            return [network]
        rest = PrefixSet.of([network]) - self._sources
        return parts + [parse_network(text) for text in rest.cidrs()]


def pair_of(source: str, target: str) -> Pair:
    """A pod range with its exported one. Raises ValueRefused where one of them is no network in canonical form, or they are not alike."""
    own, seen = parse_network(source), parse_network(target)
    for network, text in ((own, source), (seen, target)):
        if str(network) != text:
            raise ValueRefused("bad_cidr", f"{text} has bits behind its prefix; write {network}")
    if own.version != seen.version or own.prefixlen != seen.prefixlen:
        raise ValueRefused("bad_cidr", f"{source} and {target} are not of one family and length")
    return Pair(span(own), int(seen.network_address) - int(own.network_address))


def _holds(pair: Pair, version: int, number: int) -> bool:
    return version == pair.version and pair.span[1] <= number <= pair.span[2]


def _moved(network: Network, pair: Pair) -> list[Network]:
    """The part of a network that is inside a pair's pod range, as other clusters see it."""
    version, first, last = span(network)
    low, high = max(first, pair.span[1]), min(last, pair.span[2])
    if version != pair.version or low > high:
        return []
    return [
        parse_network(f"{address_text(version, begin)}/{length}")
        for begin, length in prefixes([(low + pair.shift, high + pair.shift)], version)
    ]


def free_range(length: int, pool: Network, taken: PrefixSet) -> str | None:
    """The first range of this length in a pool of which nothing is taken, None where there is none. ``taken``: canonical ranges."""
    version, first, last = span(pool)
    if length < pool.prefixlen:
        return None
    size, spans = 1 << (BITS[version] - length), taken.spans(version)
    for low, high in (*spans, (last + 1, last + 1)):
        if first + size - 1 > last:
            return None
        if first + size <= low:
            return f"{address_text(version, first)}/{length}"
        if high >= first:
            first = -(-(high + 1) // size) * size
    return None
