# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking back what keeping the control plane's address wrote: the Service with its endpoints, and the record (ccm 11.4).

The address itself stays with its holder: who stops keeping it does not want the API servers to become unreachable.
"""

from __future__ import annotations

from ..._kubernetes.client import Client
from ..._loadbalancers.identities import CONTROL_PLANE_NAMESPACE, external_service_name
from ..._loadbalancers.ledger import ledger_name
from ..._loadbalancers.setup import Setup
from ..._plan.objects import owners, stripped
from ..._plan.plan import Plan
from .control_plane_service import BASE, SLICES
from .ledger_store import CONFIGMAPS, keep_ledger, read_ledger
from .run import nothing

#: Kind, and the field that only who wrote the whole object is on record for.
_FIELDS = {"Service": ("spec", "loadBalancerIP"), "Endpoints": ("subsets",), "EndpointSlice": ("endpoints",)}


def remove(client: Client, setup: Setup, tag: str, manager: str, plan: Plan, check: bool) -> None:
    """Delete what ``manager`` wrote; what others wrote under these names is refused as ``not_ours``. Raises KubeErrors, ValueRefused."""
    name = external_service_name(setup.identity)
    own = "metadata.name=" + name
    found = [("Service", BASE + "services", obj) for obj in client.list(BASE + "services", field_selector=own).items]
    found += [("Endpoints", BASE + "endpoints", obj) for obj in client.list(BASE + "endpoints", field_selector=own).items]
    if client.serves("discovery.k8s.io/v1", "EndpointSlice"):
        path = SLICES.format(CONTROL_PLANE_NAMESPACE)
        slices = client.list(path, label_selector="kubernetes.io/service-name=" + name).items
        # those that Kubernetes made of the Endpoints go with these
        found += [("EndpointSlice", path, obj) for obj in slices if not obj["metadata"].get("ownerReferences")]
    for kind, base, obj in found:
        meta = obj["metadata"]
        ident = "{0}/{1}/{2}".format(setup.cluster, CONTROL_PLANE_NAMESPACE, meta["name"])
        if manager not in owners(obj, *_FIELDS[kind]):
            if kind != "EndpointSlice":
                plan.refuse("{0} {1}".format(kind, ident), "not_ours", "somebody else wrote it; it is left alone")
            continue
        plan.delete(kind, ident, stripped(obj))
        if not check:
            client.delete("{0}/{1}".format(base, meta["name"]), uid=meta.get("uid"))
    _forget(client, setup, tag, manager, plan, check)


def _forget(client: Client, setup: Setup, tag: str, manager: str, plan: Plan, check: bool) -> None:
    """The address leaves the record; those of Services stay in it."""
    name = ledger_name(setup.identity, setup.static)
    before, actual = read_ledger(client, name)
    left = {ident: entry for ident, entry in before.items() if entry.service or tag not in entry.tags}
    if left == before:
        return
    gone = sorted(before[ident].address for ident in before if ident not in left)
    plan.update("ConfigMap", "{0}/{1}".format(setup.cluster, CONFIGMAPS.split("/")[-2] + "/" + name), {"addresses": gone}, {"addresses": []})
    if not check:
        keep_ledger(client, name, before, left, actual, manager, nothing)
