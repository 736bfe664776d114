# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Service in kube-system through which every node accepts the control plane's address, with its endpoints: written, taken back, or left (ccm 11.4)."""

from __future__ import annotations

import copy
import typing as t

from ..._kubernetes.client import Client
from ..._loadbalancers.control_plane import (
    endpoint_slices,
    endpoints,
    external_service,
    ingress_status,
    reports,
    uses_slices,
)
from ..._loadbalancers.ledger import NAMESPACE, ledger_name
from ..._loadbalancers.reservations import CONTROL_PLANE_NAMESPACE, external_service_name
from ..._loadbalancers.services import FINALIZER
from ..._loadbalancers.setup import Setup
from ..._plan.objects import differences, owners, stripped
from ..._plan.plan import Change, Plan
from ..._plan.sole_owner import taken_record, transferred, tree_of
from ..._values.refused import quoted
from .writes import Put, keep_ledger, let_go, put_all, read_ledger

BASE = f"/api/v1/namespaces/{CONTROL_PLANE_NAMESPACE}/"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{0}/endpointslices"
_BASES = {
    "Service": BASE + "services",
    "Endpoints": BASE + "endpoints",
    "EndpointSlice": SLICES.format(CONTROL_PLANE_NAMESPACE),
}


def write_service(
    client: Client,
    setup: Setup,
    address: str,
    ports: t.Sequence[t.Mapping[str, t.Any]],
    endpoints_as: str,
    manager: str,
    plan: Plan,
    check: bool,
    adopt: bool = False,
) -> None:
    """Write what differs. What others wrote under these names is theirs until ``adopt``, and owned by us alone then. Raises ValueRefused ``no_ports``,
    KubeErrors."""
    name = external_service_name(setup.identity)
    existing = client.find(BASE + "services/" + name)
    configured = setup.settings.number("api_server_port")
    desired = external_service(setup.identity, address, ports, configured, existing, setup.our_class)
    taking = _Taking(setup.cluster, manager, adopt, plan)
    puts = _object_puts(setup.cluster, "Service", name, existing, desired, 0)
    status = ingress_status(address)
    puts = taking.puts("Service", existing, puts)
    if not reports(existing, address) and not taking.refused:
        before = (existing or {}).get("status") or {}
        ident = f"{setup.cluster}/{CONTROL_PLANE_NAMESPACE}/{name}"
        change = Change("update", "Service status", ident, before, status)
        puts.append(Put(change, BASE + "services/" + name + "/status", {"status": status}, stage=1))
    if uses_slices(client.server_version(), endpoints_as):
        sources = client.list(SLICES.format("default"), label_selector="kubernetes.io/service-name=kubernetes").items
        for mirror in endpoint_slices(setup.identity, sources):
            own = str(mirror["metadata"]["name"])
            there = client.find(f"{_BASES['EndpointSlice']}/{own}")
            made = _object_puts(setup.cluster, "EndpointSlice", own, there, mirror, 2)
            puts += taking.puts("EndpointSlice", there, made)
    else:
        mirror = endpoints(setup.identity, client.get("/api/v1/namespaces/default/endpoints/kubernetes"))
        there = client.find(BASE + "endpoints/" + name)
        puts += taking.puts("Endpoints", there, _object_puts(setup.cluster, "Endpoints", name, there, mirror, 2))
    _carry_out(client, puts, manager, plan, check)


def _carry_out(client: Client, puts: t.Sequence[Put], manager: str, plan: Plan, check: bool) -> None:
    if check or not puts:
        plan.changes += [put.change for put in puts]
        return
    done = put_all(client, puts, manager)
    plan.changes += done.changes
    plan.refused += done.refused
    if done.failed:
        raise done.failed[0]


def _object_puts(
    cluster: str,
    kind: str,
    name: str,
    existing: t.Mapping[str, t.Any] | None,
    desired: dict[str, t.Any],
    stage: int,
) -> list[Put]:
    ident, base = f"{cluster}/{CONTROL_PLANE_NAMESPACE}/{name}", _BASES[kind]
    if existing is None:
        return [Put(Change("create", kind, ident, None, desired), base + "/" + name, desired, "", stage, parent=base)]
    paths = differences(desired, existing)
    if not paths:
        return []
    patch: dict[str, t.Any] = {"metadata": {"resourceVersion": existing["metadata"].get("resourceVersion")}}
    shape = tree_of([path[:2] if path[0] in ("metadata", "spec") else path[:1] for path in paths])
    for top, inner in shape.items():
        if inner:
            patch.setdefault(top, {}).update({key: copy.deepcopy(desired[top].get(key)) for key in inner})
        else:
            patch[top] = copy.deepcopy(desired[top])
    shown = {top: patch[top] for top in shape}
    before = {
        top: {key: (existing.get(top) or {}).get(key) for key in shown[top]}
        if isinstance(shown[top], dict)
        else existing.get(top)
        for top in shown
    }
    return [Put(Change("update", kind, ident, before, shown), base + "/" + name, patch, "", stage)]


#: Kind, and the field that only who wrote the whole object is on record for.
_FIELDS = {"Service": ("spec", "loadBalancerIP"), "Endpoints": ("subsets",), "EndpointSlice": ("endpoints",)}


class _Taking:
    """Objects of these names that somebody else wrote: left alone and refused, or with ``adopt`` owned by us alone from now on."""

    def __init__(self, cluster: str, manager: str, adopt: bool, plan: Plan) -> None:
        self.cluster, self.manager, self.adopt, self.plan = cluster, manager, adopt, plan
        self.refused = False

    def puts(self, kind: str, existing: t.Mapping[str, t.Any] | None, puts: list[Put]) -> list[Put]:
        """The writes of one object, which may be one for the record alone."""
        theirs = (
            [name for name in owners(existing, *_FIELDS[kind]) if name != self.manager] if existing is not None else []
        )
        if existing is None or not theirs:
            return puts
        ident = f"{self.cluster}/{CONTROL_PLANE_NAMESPACE}/{existing['metadata']['name']}"
        if not self.adopt:
            owned = self.manager in owners(existing, *_FIELDS[kind])
            if puts and not owned:
                self.refused = True
                text = f"{quoted(', '.join(theirs[:3]))} wrote it; set control_plane_address_adopt to take it over"
                self.plan.refuse(f"{kind} {ident}", "adoptable", text)
            return puts if owned else []
        meta = existing["metadata"]
        record = {"managedFields": taken_record(existing, self.manager), "resourceVersion": meta.get("resourceVersion")}
        if puts:
            body = puts[0].body or {}
            return [puts[0]._replace(body=dict(body, metadata=dict(body.get("metadata") or {}, **record)))]
        change = Change("update", kind, ident, {"owner": ", ".join(theirs)}, {"owner": self.manager})
        return [Put(change, f"{_BASES[kind]}/{meta['name']}", {"metadata": record})]


Found = t.Iterator[tuple[str, str, t.Mapping[str, t.Any]]]


def _written(client: Client, setup: Setup) -> Found:
    """Kind, path and object of what goes under the names of the Service for the address, whoever wrote it. Raises KubeErrors."""
    name = external_service_name(setup.identity)
    own = "metadata.name=" + name
    found = [("Service", BASE + "services", obj) for obj in client.list(BASE + "services", field_selector=own).items]
    found += [
        ("Endpoints", BASE + "endpoints", obj) for obj in client.list(BASE + "endpoints", field_selector=own).items
    ]
    if client.serves("discovery.k8s.io/v1", "EndpointSlice"):
        path = SLICES.format(CONTROL_PLANE_NAMESPACE)
        slices = client.list(path, label_selector="kubernetes.io/service-name=" + name).items
        # those that Kubernetes made of the Endpoints go with these
        found += [("EndpointSlice", path, obj) for obj in slices if not obj["metadata"].get("ownerReferences")]
    for kind, base, obj in found:
        yield kind, f"{base}/{obj['metadata']['name']}", obj


def release_service(client: Client, setup: Setup, tag: str, manager: str, plan: Plan, check: bool) -> None:
    """What is owned stays, and is on record as applied by the upstream controller, which applies without force. Raises KubeErrors, ValueRefused."""
    puts, heir = [], setup.identity + "-auto"
    for kind, path, obj in list(_written(client, setup)):
        record = transferred(obj, lambda row: row.get("manager") == manager, heir, "Apply")
        if record is None:
            continue
        meta = obj["metadata"]
        change = Change(
            "update",
            kind,
            f"{setup.cluster}/{CONTROL_PLANE_NAMESPACE}/{meta['name']}",
            {"owner": manager},
            {"owner": heir},
        )
        puts.append(
            Put(change, path, {"metadata": {"resourceVersion": meta.get("resourceVersion"), "managedFields": record}})
        )
    _carry_out(client, puts, manager, plan, check)
    _forget(client, setup, tag, manager, plan, check)


def remove_service(client: Client, setup: Setup, tag: str, manager: str, plan: Plan, check: bool) -> None:
    """Delete what ``manager`` wrote; what others wrote under these names is refused as ``not_ours``. Raises KubeErrors, ValueRefused."""
    for kind, path, obj in list(_written(client, setup)):
        meta = obj["metadata"]
        ident = f"{setup.cluster}/{CONTROL_PLANE_NAMESPACE}/{meta['name']}"
        if manager not in owners(obj, *_FIELDS[kind]):
            if kind != "EndpointSlice":
                plan.refuse(f"{kind} {ident}", "not_ours", "somebody else wrote it; it is left alone")
            continue
        plan.delete(kind, ident, stripped(obj))
        if check:
            continue
        if FINALIZER in (meta.get("finalizers") or ()):  # of the cloud controller from which it was taken over
            done = put_all(client, [let_go(obj, ident, path)], manager)
            if done.failed:
                raise done.failed[0]
        client.delete(path, uid=meta.get("uid"))
    _forget(client, setup, tag, manager, plan, check)


def _forget(client: Client, setup: Setup, tag: str, manager: str, plan: Plan, check: bool) -> None:
    """The address leaves the record; those of Services stay in it."""
    name = ledger_name(setup.identity, setup.static)
    before, actual = read_ledger(client, name)
    left = {ident: entry for ident, entry in before.items() if entry.service or tag not in entry.tags}
    if left == before:
        return
    gone = sorted(before[ident].address for ident in before if ident not in left)
    plan.update("ConfigMap", f"{setup.cluster}/{NAMESPACE + '/' + name}", {"addresses": gone}, {"addresses": []})
    if not check:
        keep_ledger(client, name, before, left, actual, manager)
