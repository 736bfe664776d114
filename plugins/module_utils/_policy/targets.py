# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a set looks where it is written: Calico's GlobalNetworkSet, Cilium's CiliumCIDRGroup."""

from __future__ import annotations

import typing as t

from .network_sets import NamedSet, labels_of


class Target(t.NamedTuple):
    """One kind of object that holds networks. ``field`` names the list in its spec."""

    api_version: str
    kind: str
    plural: str
    field: str

    def path(self, name: str = "") -> str:
        """Path of all of them, or of one."""
        base = "/apis/{0}/{1}".format(self.api_version, self.plural)
        return base + "/" + name if name else base


CALICO_V3 = Target("projectcalico.org/v3", "GlobalNetworkSet", "globalnetworksets", "nets")
CALICO_CRD = Target("crd.projectcalico.org/v1", "GlobalNetworkSet", "globalnetworksets", "nets")
CILIUM_V2 = Target("cilium.io/v2", "CiliumCIDRGroup", "ciliumcidrgroups", "externalCIDRs")
CILIUM_V2ALPHA1 = Target("cilium.io/v2alpha1", "CiliumCIDRGroup", "ciliumcidrgroups", "externalCIDRs")

#: What the option ``target`` stands for: the first that is served is used.
TARGETS: t.Dict[str, t.Tuple[Target, ...]] = {
    "auto": (CALICO_V3, CALICO_CRD, CILIUM_V2, CILIUM_V2ALPHA1),
    "calico": (CALICO_V3, CALICO_CRD),
    "cilium": (CILIUM_V2, CILIUM_V2ALPHA1),
    "projectcalico.org/v3": (CALICO_V3,),
    "crd.projectcalico.org/v1": (CALICO_CRD,),
    "cilium.io/v2": (CILIUM_V2,),
    "cilium.io/v2alpha1": (CILIUM_V2ALPHA1,),
}


def manifest(target: Target, wanted: NamedSet) -> t.Dict[str, t.Any]:
    """A set as an object of its target."""
    return {
        "apiVersion": target.api_version,
        "kind": target.kind,
        "metadata": {"name": wanted.name, "labels": labels_of(wanted.member)},
        "spec": {target.field: list(wanted.nets)},
    }


def nets_of(target: Target, obj: t.Mapping[str, t.Any]) -> t.List[t.Any]:
    """The networks of an object; whatever else stands there counts as none."""
    spec = obj.get("spec")
    nets = spec.get(target.field) if isinstance(spec, dict) else None
    return nets if isinstance(nets, list) else []
