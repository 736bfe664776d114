# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a set looks where it is written (Calico's GlobalNetworkSet, Cilium's CiliumCIDRGroup), and how policies name it (semaphore 6.4)."""

from __future__ import annotations

import re
import typing as t

from ..._values.refused import ValueRefused, quoted
from ..._values.text import list_of, mapping, parse_cluster_name
from .members import CLUSTER_LABEL, NAME_LABEL, NAMESPACE_LABEL, Member, NamedSet, set_labels, set_name


class Target(t.NamedTuple):
    """One kind of object that holds networks. ``field`` names the list in its spec."""

    api_version: str
    kind: str
    plural: str
    field: str

    def path(self, name: str = "") -> str:
        base = f"/apis/{self.api_version}/{self.plural}"
        return base + "/" + name if name else base


CALICO_V3 = Target("projectcalico.org/v3", "GlobalNetworkSet", "globalnetworksets", "nets")
CALICO_CRD = Target("crd.projectcalico.org/v1", "GlobalNetworkSet", "globalnetworksets", "nets")
CILIUM_V2 = Target("cilium.io/v2", "CiliumCIDRGroup", "ciliumcidrgroups", "externalCIDRs")
CILIUM_V2ALPHA1 = Target("cilium.io/v2alpha1", "CiliumCIDRGroup", "ciliumcidrgroups", "externalCIDRs")

#: What the option ``target`` means: the first that is served is used.
TARGETS: dict[str, tuple[Target, ...]] = {
    "auto": (CALICO_V3, CALICO_CRD, CILIUM_V2, CILIUM_V2ALPHA1),
    "calico": (CALICO_V3, CALICO_CRD),
    "cilium": (CILIUM_V2, CILIUM_V2ALPHA1),
    "projectcalico.org/v3": (CALICO_V3,),
    "crd.projectcalico.org/v1": (CALICO_CRD,),
    "cilium.io/v2": (CILIUM_V2,),
    "cilium.io/v2alpha1": (CILIUM_V2ALPHA1,),
}


def manifest(target: Target, desired: NamedSet) -> dict[str, t.Any]:
    return {
        "apiVersion": target.api_version,
        "kind": target.kind,
        "metadata": {"name": desired.name, "labels": set_labels(desired.member)},
        "spec": {target.field: list(desired.nets)},
    }


def nets_of(target: Target, obj: t.Mapping[str, t.Any]) -> list[t.Any]:
    """The networks of an object; whatever else is there counts as none."""
    return list_of(mapping(obj, "spec").get(target.field))


# -- in policies -----------------------------------------------------------------------------------------------------

_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")


def calico_selector(cluster: str, namespace: str, name: str) -> dict[str, str]:
    """{selector, namespaceSelector} of a rule's source. Texts that are no label values are refused: they would be code.

    A namespaced policy sees global sets only with ``namespaceSelector: global()``; a GlobalNetworkPolicy needs none.
    """
    parse_cluster_name(cluster)
    for text in (namespace, name):
        if not isinstance(text, str) or not _VALUE.match(text):
            raise ValueRefused("name_invalid", f"{quoted(text)} is not a label's value")
    terms = ((NAME_LABEL, name), (NAMESPACE_LABEL, namespace), (CLUSTER_LABEL, cluster))
    return {
        "selector": " && ".join(f"{label} == '{value}'" for label, value in terms),
        "namespaceSelector": "global()",
    }


def cilium_rule(cluster: str, namespace: str, name: str) -> dict[str, t.Any]:
    """{fromCIDRSet} of an ingress rule of a CiliumNetworkPolicy."""
    calico_selector(cluster, namespace, name)
    return {"fromCIDRSet": [{"cidrGroupRef": set_name(Member(cluster, namespace, name))}]}
