# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Service, with its endpoints, that makes every node accept the control plane's address (ccm 11.4)."""

from __future__ import annotations

import copy
import typing as t

from .._values.refused import ValueRefused
from .identities import CONTROL_PLANE_NAMESPACE, external_service_name

NO_POOL = "disabled-metallb-do-not-use-any-address-pool"
POOL_ANNOTATIONS = ("metallb.universe.tf/address-pool", "metallb.io/address-pool")
Manifest = t.Dict[str, t.Any]
#: Endpoints are deprecated from here on.
SLICES_FROM = (1, 33)


def eip_port(ports: t.Sequence[t.Mapping[str, t.Any]], configured: int = 0) -> int:
    """The port on which the address listens. Raises ValueRefused ``no_ports`` or ``port_unknown``."""
    if not ports:
        raise ValueRefused("no_ports", "the Service default/kubernetes has no ports")
    port = configured or ports[0].get("targetPort")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise ValueRefused("port_unknown", "the API servers' port has no number")
    return port


def external_service(
    identity: str,
    address: str,
    ports: t.Sequence[t.Mapping[str, t.Any]],
    configured_port: int = 0,
    existing: t.Optional[t.Mapping[str, t.Any]] = None,
    load_balancer_class: str = "",
) -> Manifest:
    """The whole Service as it should be: what exists keeps its cluster IP, node ports and foreign metadata."""
    wanted_ports = [{key: port[key] for key in ("name", "port", "protocol", "targetPort", "appProtocol") if key in port} for port in ports]
    first = eip_port(ports, configured_port)
    wanted_ports[0]["port"] = first
    service: Manifest = copy.deepcopy(dict(existing)) if existing else {"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {}}
    meta, spec = service.setdefault("metadata", {}), service.setdefault("spec", {})
    meta.update(name=external_service_name(identity), namespace=CONTROL_PLANE_NAMESPACE)
    meta["annotations"] = dict(meta.get("annotations") or {}, **dict.fromkeys(POOL_ANNOTATIONS, NO_POOL))
    node_ports = {port.get("name", ""): port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
    for port in wanted_ports:
        if port.get("name", "") in node_ports:
            port["nodePort"] = node_ports[port.get("name", "")]
    spec.update(type="LoadBalancer", loadBalancerIP=address, ports=wanted_ports)
    spec.pop("selector", None)
    if load_balancer_class and not existing:
        spec["loadBalancerClass"] = load_balancer_class  # immutable, so only when the Service is made
    return service


def ingress_status(address: str) -> Manifest:
    """Its status, written through the sub-resource."""
    return {"loadBalancer": {"ingress": [{"ip": address}]}}


def reports(existing: t.Optional[t.Mapping[str, t.Any]], address: str) -> bool:
    """Whether the Service's status says so already. API servers from 1.30 on add a mode to each address, which is no difference."""
    rows = (((existing or {}).get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return [row.get("ip") for row in rows if isinstance(row, dict)] == [address]


def uses_slices(version: t.Tuple[int, int], mode: str = "auto") -> bool:
    """Whether EndpointSlices are written; mode auto, endpoints or slices."""
    return version >= SLICES_FROM if mode == "auto" else mode == "slices"


def endpoints(identity: str, source: t.Mapping[str, t.Any]) -> Manifest:
    """Endpoints with the addresses and ports of those of default/kubernetes."""
    subsets = [
        {
            "addresses": [{"ip": item["ip"]} for item in subset.get("addresses") or ()],
            "ports": [dict(port) for port in subset.get("ports") or ()],
        }
        for subset in source.get("subsets") or ()
    ]
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": _meta(identity), "subsets": subsets}


def endpoint_slices(identity: str, sources: t.Iterable[t.Mapping[str, t.Any]]) -> t.List[Manifest]:
    """One slice for each of default/kubernetes; other slices of that namespace are not ours to copy."""
    slices = []
    mine = [
        item
        for item in sources
        if (item.get("metadata") or {}).get("namespace", "default") == "default"
        and ((item.get("metadata") or {}).get("labels") or {}).get("kubernetes.io/service-name") == "kubernetes"
    ]
    for index, item in enumerate(sorted(mine, key=lambda item: str(item["metadata"].get("name")))):
        meta = _meta(identity)
        meta["name"] += "" if len(mine) == 1 else "-{0}".format(index)
        meta["labels"] = {"kubernetes.io/service-name": external_service_name(identity)}
        slices.append({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": meta,
            "addressType": item.get("addressType", "IPv4"),
            "endpoints": [
                {key: one[key] for key in ("addresses", "conditions") if key in one} for one in item.get("endpoints") or ()
            ],
            "ports": [dict(port) for port in item.get("ports") or ()],
        })  # fmt: skip
    return slices


def _meta(identity: str) -> Manifest:
    return {"name": external_service_name(identity), "namespace": CONTROL_PLANE_NAMESPACE}
