# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How policies name a set (semaphore 6.4)."""

from __future__ import annotations

import re
import typing as t

from .._values.names import parse_cluster_name
from .._values.refused import ValueRefused, quoted
from .network_sets import CLUSTER_LABEL, NAME_LABEL, NAMESPACE_LABEL, Member, set_name

_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")


def calico_selector(cluster: str, namespace: str, name: str) -> t.Dict[str, str]:
    """{selector, namespaceSelector} of a rule's source. Texts that are no label values are refused: they would be code.

    A namespaced policy sees global sets only with ``namespaceSelector: global()``; a GlobalNetworkPolicy needs none.
    """
    parse_cluster_name(cluster)
    for text in (namespace, name):
        if not isinstance(text, str) or not _VALUE.match(text):
            raise ValueRefused("name_invalid", "{0} is not a label's value".format(quoted(text)))
    terms = ((NAME_LABEL, name), (NAMESPACE_LABEL, namespace), (CLUSTER_LABEL, cluster))
    return {
        "selector": " && ".join("{0} == '{1}'".format(label, value) for label, value in terms),
        "namespaceSelector": "global()",
    }


def cilium_rule(cluster: str, namespace: str, name: str) -> t.Dict[str, t.Any]:
    """{fromCIDRSet} of an ingress rule of a CiliumNetworkPolicy."""
    calico_selector(cluster, namespace, name)
    return {"fromCIDRSet": [{"cidrGroupRef": set_name(Member(cluster, namespace, name))}]}
