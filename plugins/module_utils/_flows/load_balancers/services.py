# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The writes to Services: their address, and its report where nobody else reports it (ccm 9.3)."""

from __future__ import annotations

import functools
import typing as t

from ..._kubernetes.client import segment
from ..._loadbalancers.load_balancer_setting import KUBE_VIP, METALLB
from ..._loadbalancers.service_plan import CLEAR_ADDRESS, REPORT, SET_ADDRESS, Action
from ..._loadbalancers.setup import Setup
from ..._plan.pending import is_pending
from ..._plan.plan import Change
from .writes import Put

ANNOTATIONS = {METALLB: "metallb.io/loadBalancerIPs", KUBE_VIP: "kube-vip.io/loadbalancerIPs"}
Object = t.Mapping[str, t.Any]


def puts(setup: Setup, state: t.Any, actions: t.Iterable[Action]) -> t.List[Put]:
    """One patch for each Service and sub-resource."""
    found = []
    for action in actions:
        obj = state.objects.get(action.service)
        if obj is None or action.action not in (SET_ADDRESS, CLEAR_ADDRESS, REPORT):
            continue
        ident = "{0}/{1}".format(setup.cluster, action.service)
        meta = obj["metadata"]
        path = "/api/v1/namespaces/{0}/services/{1}".format(segment(str(meta["namespace"])), segment(str(meta["name"])))
        if is_pending(action.address):
            if action.action == SET_ADDRESS:
                found.append(Put(Change("update", "Service", ident, {"address": ""}, {"address": str(action.address)}), path, {}))
            continue
        if action.action == REPORT:
            body = {"status": {"loadBalancer": {"ingress": [{"ip": str(action.address)}]}}}
            before = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
            change = Change("update", "Service status", ident, {"ingress": before}, {"ingress": [{"ip": str(action.address)}]})
            found.append(Put(change, path + "/status", body, stage=1, again=functools.partial(_same, body)))
            continue
        found.append(_address(setup, obj, ident, path, str(action.address) if action.action == SET_ADDRESS else ""))
        if action.action == CLEAR_ADDRESS and setup.balancer.type not in ANNOTATIONS and (obj.get("status") or {}).get("loadBalancer"):
            change = Change("update", "Service status", ident, {"ingress": obj["status"]["loadBalancer"].get("ingress")}, {"ingress": []})
            found.append(Put(change, path + "/status", {"status": {"loadBalancer": {"ingress": None}}}, stage=1, again=lambda now: None))
    return found


def _same(body: t.Dict[str, t.Any], dummy: Object) -> t.Dict[str, t.Any]:
    return body


def _address(setup: Setup, obj: Object, ident: str, path: str, address: str) -> Put:
    annotation = ANNOTATIONS.get(setup.balancer.type, "") if setup.in_annotation else ""
    before = _held(obj, annotation)

    def patch(version: str) -> t.Dict[str, t.Any]:
        meta: t.Dict[str, t.Any] = {"resourceVersion": version}
        if annotation:
            meta["annotations"] = {annotation: address or None}
            return {"metadata": meta}
        return {"metadata": meta, "spec": {"loadBalancerIP": address or None}}

    def again(now: Object) -> t.Optional[t.Dict[str, t.Any]]:
        same = now["metadata"].get("uid") == obj["metadata"].get("uid") and _held(now, annotation) == before
        same = same and (now.get("spec") or {}).get("type") == (obj.get("spec") or {}).get("type")
        return patch(now["metadata"]["resourceVersion"]) if same else None

    change = Change("update", "Service", ident, {"address": before}, {"address": address})
    return Put(change, path, patch(obj["metadata"]["resourceVersion"]), again=again)


def _held(obj: Object, annotation: str) -> str:
    if annotation:
        return str((obj["metadata"].get("annotations") or {}).get(annotation) or "")
    return str((obj.get("spec") or {}).get("loadBalancerIP") or "")
