# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who gave a Service its address before us, what he wrote on it alongside, and what shows that he is still at work (moving here, and back).

What a controller leaves on Services when it is removed claims that it serves them, for people and for its next installation. It goes when the
address is owned and the controller is gone; while it is at work it would come back at once.
"""

from __future__ import annotations

import typing as t

from .._plan.objects import labels_of, owners
from .._values.text import dicts_of, lower, mapping
from .services import FINALIZER

Object = t.Mapping[str, t.Any]


class Former(t.NamedTuple):
    """One controller. ``mark`` decides whether an object is its; ``annotations`` and ``labels`` (with the value, or nothing for any) are its own
    wherever they are, ``claims`` are annotations that their owners may have written, too: its own where one of ``managers`` did.

    ``conditions`` of the status have these types. ``images`` are what its workloads run; ``pools`` the apiVersions and kind of what makes it
    work where its program runs for other reasons.
    """

    name: str
    title: str
    managers: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    labels: t.Mapping[str, str] = {}
    conditions: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    pools: tuple[tuple[str, ...], str] = ((), "")


METALLB = Former(
    "metallb",
    "MetalLB",
    annotations=("metallb.io/ip-allocated-from-pool", "metallb.universe.tf/ip-allocated-from-pool"),
    images=("metallb/", "metallb-"),
)
KUBE_VIP = Former(
    "kube-vip",
    "kube-vip",
    managers=("kube-vip", "kube-vip-cloud-provider"),
    annotations=("kube-vip.io/vipHost", "kube-vip.io/hwaddr", "kube-vip.io/requestedIP"),
    claims=("kube-vip.io/loadbalancerIPs", "kube-vip.io/serviceInterface"),
    labels={"implementation": "kube-vip", "ipam-address": ""},
    images=("kube-vip",),
)
CILIUM = Former(
    "cilium",
    "Cilium",
    managers=("cilium-operator", "cilium-operator-generic"),
    conditions=("cilium.io/IPAMRequestSatisfied", "io.cilium/lb-ipam-request-satisfied"),
    pools=(("cilium.io/v2", "cilium.io/v2alpha1"), "CiliumLoadBalancerIPPool"),
)
#: Of any maker. It shows by the finalizer, which services.FINALIZER and the release of an address deal with.
CLOUD = Former("cloud", "a cloud controller", images=("cloud-controller-manager", "cloud-provider"))
FORMERS = (METALLB, KUBE_VIP, CILIUM, CLOUD)


class Marks(t.NamedTuple):
    """What a former controller left on one Service."""

    former: Former
    annotations: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [*self.annotations, *self.labels, *self.conditions]


def former_of(obj: Object) -> Former | None:
    """Who serves, or served, a Service: the one with the marks that it has, else who wrote its status; None where nothing shows it."""
    for former in FORMERS:
        if marks_of(obj, former).names:
            return former
    if not ingress_of(obj):
        return None
    writers = owners(obj, "status", "loadBalancer", "ingress")
    if FINALIZER in ((obj.get("metadata") or {}).get("finalizers") or ()):
        return CLOUD
    return next((former for former in FORMERS if set(former.managers) & set(writers)), None)


def ingress_of(obj: Object) -> list[t.Any]:
    return list(((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ())


def marks_of(obj: Object, former: Former) -> Marks:
    """What it left; nothing for a Service that it never served."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    labels = labels_of(obj)
    own = [name for name in former.annotations if name in annotations]
    tags = [name for name, value in former.labels.items() if name in labels and value in ("", labels[name])]
    if tags == ["ipam-address"]:
        tags = []  # on its own, a label that anybody may use
    said = [str(row.get("type")) for row in _conditions(obj) if row.get("type") in former.conditions]
    if own or tags or said:
        own += [
            name
            for name in former.claims
            if name in annotations and set(owners(obj, "metadata", "annotations", name)) & set(former.managers)
        ]
    return Marks(former, tuple(own), tuple(tags), tuple(said))


def _conditions(obj: Object) -> list[dict[str, t.Any]]:
    return dicts_of(mapping(obj, "status").get("conditions"))


def without(obj: Object, marks: Marks) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    """The merge patches that take marks from a Service and from its status; empty where there is nothing to take."""
    meta: dict[str, t.Any] = {}
    if marks.annotations:
        meta["annotations"] = dict.fromkeys(marks.annotations)
    if marks.labels:
        meta["labels"] = dict.fromkeys(marks.labels)
    rest = [row for row in _conditions(obj) if row.get("type") not in marks.conditions]
    return meta, {"conditions": rest or None} if marks.conditions else {}


def at_work(former: Former, workloads: t.Iterable[tuple[str, str]], pools: t.Collection[str]) -> list[str]:
    """What of it is there and works: workloads (label, image) that run its program, or the names of its pools."""
    if former.pools[1]:
        return [f"{former.pools[1]} {name}" for name in sorted(pools)]
    return sorted({label for label, image in workloads if any(part in lower(image) for part in former.images)})
