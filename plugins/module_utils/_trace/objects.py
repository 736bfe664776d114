# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of clusters as the trace needs them: nodes, pods, Services and what is behind them. Pure; all of it is what a cluster claims."""

from __future__ import annotations

import typing as t

from .._services.endpoints import from_endpoints, from_slice
from .._services.slices import SERVICE_NAME
from .._values.addresses import address_number
from .._values.refused import ValueRefused
from .._values.text import dicts_of, list_of, mapping
from .facts import Data
from .policies import Calico

Address = tuple[int, int]
#: (namespace, name)
Id = tuple[str, str]


class Seat(t.NamedTuple):
    """A node; ``host`` of the inventory, "" for none."""

    cluster: str
    name: str
    host: str
    addresses: tuple[Address, ...]


class Pod(t.NamedTuple):
    """A pod that has an address. ``own``: whether it has a network namespace of its own; ``dns``: whether it asks the cluster's DNS server."""

    cluster: str
    namespace: str
    name: str
    node: str
    addresses: tuple[Address, ...]
    own: bool
    ready: bool
    labels: t.Mapping[str, str]
    dns: bool = True


class Port(t.NamedTuple):
    """A port of a Service. ``target`` is a number or a name."""

    name: str
    protocol: str
    port: int


class Service(t.NamedTuple):
    """A Service. ``addresses``: of the cluster; ``outer``: of load balancers and external ones; ``balanced``: of load balancers alone; ``local``: whether
    only nodes with an endpoint deliver what comes to these."""

    cluster: str
    namespace: str
    name: str
    addresses: tuple[Address, ...]
    outer: tuple[Address, ...]
    headless: bool
    external: str
    ports: tuple[Port, ...]
    labels: t.Mapping[str, str]
    balanced: tuple[Address, ...] = ()
    local: bool = False


class Backend(t.NamedTuple):
    """One endpoint of a Service behind one of its ports."""

    address: Address
    port_name: str
    protocol: str
    port: int | None
    ready: bool


class Cluster(t.NamedTuple):
    """One cluster. ``behind``: {Service: backends}; ``imports``: {(namespace, name): ServiceImport}; ``corefile`` None: not read.
    ``unread``: kinds that the access may not list."""

    name: str
    seats: t.Mapping[str, Seat]
    pods: t.Mapping[Id, Pod]
    services: t.Mapping[Id, Service]
    behind: t.Mapping[Id, tuple[Backend, ...]]
    imports: t.Mapping[Id, Data]
    corefile: str | None
    unread: frozenset[str]
    policies: tuple[Data, ...] = ()
    calico: Calico = Calico()


def _meta(obj: t.Any) -> tuple[str, str]:
    meta = mapping(obj, "metadata")
    return str(meta.get("namespace") or ""), str(meta.get("name") or "")


def _texts(obj: t.Any, *path: str) -> dict[str, str]:
    return {str(key): str(value) for key, value in mapping(obj, *path).items()}


def addresses(texts: t.Iterable[t.Any]) -> tuple[Address, ...]:
    """Those of the texts that are addresses, once each."""
    found: dict[Address, None] = {}
    for text in texts:
        try:
            found[address_number(text)] = None
        except ValueRefused:
            continue
    return tuple(found)


def parse_cluster(name: str, read: t.Mapping[str, t.Any], hosts: t.Mapping[tuple[str, str], str]) -> Cluster:
    """``read``: {nodes, pods, services, endpoints, slices, imports, policies, calico, sets: [objects], corefile, unread};
    hosts: {(cluster, node): inventory host}."""
    seats = {}
    for obj in dicts_of(read.get("nodes")):
        node = _meta(obj)[1]
        rows = dicts_of(mapping(obj, "status").get("addresses"))
        rows.sort(key=lambda row: {"InternalIP": 0, "ExternalIP": 1}.get(str(row.get("type")), 2))
        seats[node] = Seat(name, node, hosts.get((name, node), ""), addresses(row.get("address") for row in rows))
    pods = {_meta(obj): pod for obj in dicts_of(read.get("pods")) for pod in [_pod(name, obj)] if pod is not None}
    services = {_meta(obj): _service(name, obj) for obj in dicts_of(read.get("services"))}
    imports = {_meta(obj): obj for obj in dicts_of(read.get("imports"))}
    corefile = read.get("corefile")
    return Cluster(
        name,
        seats,
        pods,
        services,
        _behind(read.get("endpoints"), read.get("slices")),
        imports,
        corefile if isinstance(corefile, str) else None,
        frozenset(read.get("unread") or ()),
        tuple(dicts_of(read.get("policies"))),
        Calico(tuple(dicts_of(read.get("calico"))), tuple(dicts_of(read.get("sets")))),
    )


def _pod(cluster: str, obj: Data) -> Pod | None:
    spec, status = mapping(obj, "spec"), mapping(obj, "status")
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    texts = [row.get("ip") for row in dicts_of(status.get("podIPs"))] or [status.get("podIP")]
    found = addresses(texts)
    if not found:
        return None
    ready = any(
        row.get("type") == "Ready" and row.get("status") == "True" for row in dicts_of(status.get("conditions"))
    )
    namespace, name = _meta(obj)
    own = spec.get("hostNetwork") is not True
    dns = spec.get("dnsPolicy") in (
        (None, "ClusterFirst", "ClusterFirstWithHostNet") if own else ("ClusterFirstWithHostNet",)
    )
    return Pod(
        cluster,
        namespace,
        name,
        str(spec.get("nodeName") or ""),
        found,
        own,
        ready,
        _texts(obj, "metadata", "labels"),
        dns,
    )


def _service(cluster: str, obj: Data) -> Service:
    spec, status = mapping(obj, "spec"), mapping(obj, "status", "loadBalancer")
    own = list_of(spec.get("clusterIPs")) or [spec.get("clusterIP")]
    outer = [row.get("ip") for row in dicts_of(status.get("ingress"))] + list_of(spec.get("externalIPs"))
    ports = tuple(
        Port(str(row.get("name") or ""), str(row.get("protocol") or "TCP"), row["port"])
        for row in dicts_of(spec.get("ports"))
        if isinstance(row.get("port"), int)
    )
    namespace, name = _meta(obj)
    external = str(spec.get("externalName") or "") if spec.get("type") == "ExternalName" else ""
    return Service(
        cluster,
        namespace,
        name,
        addresses(own),
        addresses(outer),
        spec.get("clusterIP") == "None",
        external,
        ports,
        _texts(obj, "metadata", "labels"),
        addresses(row.get("ip") for row in dicts_of(status.get("ingress")))
        if spec.get("type") == "LoadBalancer"
        else (),
        spec.get("externalTrafficPolicy") == "Local",
    )


def _behind(endpoints: t.Any, slices: t.Any) -> dict[Id, tuple[Backend, ...]]:
    """From slices, which kube-proxy reads; from Endpoints where a Service has none."""
    found: dict[Id, dict[tuple[t.Any, ...], Backend]] = {}
    for obj in dicts_of(slices):
        service = _texts(obj, "metadata", "labels").get(SERVICE_NAME)
        try:
            group = from_slice(obj) if service else None
        except ValueRefused:
            continue
        if group is not None:
            _add(found.setdefault((_meta(obj)[0], str(service)), {}), group)
    for obj in dicts_of(endpoints):
        key = _meta(obj)
        if key not in found:
            for group in from_endpoints(obj):
                _add(found.setdefault(key, {}), group)
    return {key: tuple(rows.values()) for key, rows in found.items()}


def _add(rows: dict[tuple[t.Any, ...], Backend], group: t.Any) -> None:
    for endpoint in group.endpoints:
        for address in addresses(endpoint.addresses):
            ports: t.Sequence[t.Mapping[str, t.Any]] = group.ports or ({},)
            for port in ports:
                number = port.get("port")
                one = Backend(
                    address,
                    str(port.get("name") or ""),
                    str(port.get("protocol") or "TCP"),
                    number if isinstance(number, int) else None,
                    endpoint.ready,
                )
                rows[address, one.port_name, one.protocol, one.port] = one
