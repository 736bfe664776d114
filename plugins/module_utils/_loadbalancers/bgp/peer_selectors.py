# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node selectors of BGP peers: one for the node, and some that select nothing but remember which Services use the peer (ccm 10.3)."""

from __future__ import annotations

import typing as t

from ..identities import DEFAULT_DOMAIN

HOSTNAME = "kubernetes.io/hostname"
Selector = t.Dict[str, t.Any]
ServiceKey = t.Tuple[str, str]


class Spelling(t.NamedTuple):
    """How one generation spells the fields of a selector, and the domain of the labels that no node has."""

    labels: str
    expressions: str
    domain: str = DEFAULT_DOMAIN

    def node(self, name: str) -> Selector:
        """Selects one node."""
        return {self.labels: {HOSTNAME: name}}

    def service(self, key: ServiceKey) -> Selector:
        """Selects nothing."""
        return {self.labels: {self._label("namespace"): key[0], self._label("name"): key[1]}}

    def node_of(self, selector: t.Any) -> str:
        """The one node that it selects, or nothing."""
        labels = self._only_labels(selector)
        name = labels.get(HOSTNAME) if len(labels) == 1 else None
        return name if isinstance(name, str) else ""

    def service_of(self, selector: t.Any) -> t.Optional[ServiceKey]:
        """The Service that it remembers, or None; half of the two labels is somebody else's selector."""
        labels = self._only_labels(selector)
        namespace, name = labels.get(self._label("namespace")), labels.get(self._label("name"))
        if len(labels) == 2 and isinstance(namespace, str) and isinstance(name, str):
            return namespace, name
        return None

    def services(self, selectors: t.Iterable[t.Any]) -> t.Set[ServiceKey]:
        """Every Service that is remembered."""
        return {key for key in map(self.service_of, selectors) if key is not None}

    def with_services(self, selectors: t.Sequence[t.Any], services: t.Iterable[ServiceKey]) -> t.List[t.Any]:
        """The selectors with exactly these Services behind what else is there, sorted. Ones we can keep, we keep as they are."""
        kept = {self.service_of(selector): selector for selector in selectors}
        others = [selector for selector in selectors if self.service_of(selector) is None]
        return others + [kept.get(key) or self.service(key) for key in sorted(services)]

    def is_ours(self, selectors: t.Any) -> bool:
        """One node first, then nothing but Services."""
        return (
            isinstance(selectors, list)
            and bool(selectors)
            and bool(self.node_of(selectors[0]))
            and all(self.service_of(selector) is not None for selector in selectors[1:])
        )

    def _label(self, part: str) -> str:
        return "nomatch.{0}/service-{1}".format(self.domain, part)

    def _only_labels(self, selector: t.Any) -> t.Dict[str, t.Any]:
        if not isinstance(selector, dict) or selector.get(self.expressions) or set(selector) - {self.labels, self.expressions}:
            return {}
        labels = selector.get(self.labels)
        return labels if isinstance(labels, dict) else {}
