# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Service in kube-system through which every node accepts the control plane's address (ccm 11.4): written, and taken back.

The address itself stays with its holder: who stops keeping it does not want the API servers to become unreachable.
"""

from __future__ import annotations

import copy
import typing as t

from ..._kubernetes.client import Client
from ..._kubernetes.errors import NotFound
from ..._loadbalancers.control_plane import endpoint_slices, endpoints, external_service, ingress_status, reports, uses_slices
from ..._loadbalancers.identities import CONTROL_PLANE_NAMESPACE, external_service_name
from ..._loadbalancers.ledger import ledger_name
from ..._loadbalancers.setup import Setup
from ..._plan.object_plan import merged_shape
from ..._plan.objects import differences, owners, stripped
from ..._plan.plan import Change, Plan
from .writes import CONFIGMAPS, Put, keep_ledger, put_all, read_ledger

BASE = "/api/v1/namespaces/{0}/".format(CONTROL_PLANE_NAMESPACE)
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{0}/endpointslices"


def converge(
    client: Client, setup: Setup, address: str, ports: t.Sequence[t.Mapping[str, t.Any]], endpoints_as: str, manager: str,
    plan: Plan, check: bool,
) -> None:  # fmt: skip
    """Write what differs. Raises ValueRefused ``no_ports``, KubeErrors."""
    name = external_service_name(setup.identity)
    existing = _get(client, BASE + "services/" + name)
    configured = setup.settings.number("api_server_port")
    wanted = external_service(setup.identity, address, ports, configured, existing, setup.our_class)
    puts = _puts(setup.cluster, "Service", BASE + "services", name, existing, wanted, 0)
    status = ingress_status(address)
    if not reports(existing, address):
        before = (existing or {}).get("status") or {}
        ident = "{0}/{1}/{2}".format(setup.cluster, CONTROL_PLANE_NAMESPACE, name)
        change = Change("update", "Service status", ident, before, status)
        puts.append(Put(change, BASE + "services/" + name + "/status", {"status": status}, stage=1))
    if uses_slices(client.server_version(), endpoints_as):
        sources = client.list(SLICES.format("default"), label_selector="kubernetes.io/service-name=kubernetes").items
        for mirror in endpoint_slices(setup.identity, sources):
            own = str(mirror["metadata"]["name"])
            path = SLICES.format(CONTROL_PLANE_NAMESPACE)
            puts += _puts(setup.cluster, "EndpointSlice", path, own, _get(client, path + "/" + own), mirror, 2)
    else:
        mirror = endpoints(setup.identity, client.get("/api/v1/namespaces/default/endpoints/kubernetes"))
        puts += _puts(setup.cluster, "Endpoints", BASE + "endpoints", name, _get(client, BASE + "endpoints/" + name), mirror, 2)
    if check or not puts:
        plan.changes += [put.change for put in puts]
        return
    done = put_all(client, puts, manager)
    plan.changes += done.changes
    plan.refused += done.refused
    if done.failed:
        raise done.failed[0]


def _puts(
    cluster: str, kind: str, base: str, name: str, existing: t.Optional[t.Mapping[str, t.Any]], wanted: t.Dict[str, t.Any], stage: int
) -> t.List[Put]:
    ident = "{0}/{1}/{2}".format(cluster, CONTROL_PLANE_NAMESPACE, name)
    if existing is None:
        return [Put(Change("create", kind, ident, None, wanted), base + "/" + name, wanted, "", stage, parent=base)]
    paths = differences(wanted, existing)
    if not paths:
        return []
    patch: t.Dict[str, t.Any] = {"metadata": {"resourceVersion": existing["metadata"].get("resourceVersion")}}
    shape = merged_shape(wanted, [path[:2] if path[0] in ("metadata", "spec") else path[:1] for path in paths])
    for top, inner in shape.items():
        if inner:
            patch.setdefault(top, {}).update({key: copy.deepcopy(wanted[top].get(key)) for key in inner})
        else:
            patch[top] = copy.deepcopy(wanted[top])
    shown = {top: patch[top] for top in shape}
    before = {top: {key: (existing.get(top) or {}).get(key) for key in shown[top]} if isinstance(shown[top], dict) else existing.get(top) for top in shown}
    return [Put(Change("update", kind, ident, before, shown), base + "/" + name, patch, "", stage)]


def _get(client: Client, path: str) -> t.Optional[t.Dict[str, t.Any]]:
    try:
        return client.get(path)
    except NotFound:
        return None


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
        keep_ledger(client, name, before, left, actual, manager)
