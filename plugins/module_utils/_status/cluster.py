# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One cluster as the page shows it: Services from elsewhere, sets, addresses, Kilo's peers. Pure; objects are claims."""

from __future__ import annotations

import typing as t

from .._values.text import list_of, mapping
from . import pods_outside
from .texts import cut

Data = dict[str, t.Any]
Objects = t.Iterable[t.Mapping[str, t.Any]]

#: The marks of the upstream programs, on the wire (semaphore 7).
MIRROR, PREFIX = "mirrored-svc", "mirror-svc-prefix-sync"
GLOBAL, COPY, COPY_FROM = "global-svc", "mirrored-endpoint-slice", "mirror-endpointslice-sync-name"
SERVICE_NAME, SLICE_MANAGER = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
OUR_SLICES = "multicluster.network"
SET_NAME, SET_CLUSTER = "policy.semaphore.uw.io/name", "policy.semaphore.uw.io/cluster"
#: How many networks of a set the page names.
SHOWN = 5


def describe(read: t.Mapping[str, t.Any]) -> Data:
    """``read``: {version, nodes, services, endpoints, slices, sets, set_field, peers: [objects], ledger: {address: service}, pods: [objects] or None,
    all_pods: whether these are all}."""
    return {
        "version": read.get("version"),
        "nodes": len(read.get("nodes") or ()),
        "services": services(read.get("services") or (), read.get("endpoints") or (), read.get("slices") or ()),
        "sets": sets(read.get("sets") or (), str(read.get("set_field") or "nets")),
        "addresses": addresses(read.get("services") or (), read.get("ledger") or {}),
        "kilo_peers": kilo_peers(read.get("peers") or ()),
        "pods": None if read.get("pods") is None else pods_outside.pods(read["pods"]),
        "all_pods": bool(read.get("all_pods")),
        "backends": backends(read.get("endpoints") or (), read.get("slices") or ()),
    }


def backends(endpoints: Objects, slices: Objects) -> list[tuple[str, str, list[str]]]:
    """(namespace, name, addresses that take traffic) of Services from other clusters."""
    found: dict[tuple[str, str], set[str]] = {}
    for obj in endpoints:
        if mapping(obj, "metadata", "labels").get(MIRROR) == "true":
            rows = found.setdefault(_key(obj, str(obj["metadata"].get("name"))), set())
            for subset in list_of(obj.get("subsets")):
                rows.update(str(mapping(one).get("ip")) for one in list_of(mapping(subset).get("addresses")))
    for obj in slices:
        labels = mapping(obj, "metadata", "labels")
        rows = found.setdefault(_key(obj, str(labels.get(SERVICE_NAME))), set())
        for one in list_of(obj.get("endpoints")):
            if mapping(mapping(one).get("conditions")).get("ready") is not False:
                rows.update(map(str, list_of(mapping(one).get("addresses"))))
    return [(*key, sorted(found[key])) for key in sorted(found)]


def services(given: Objects, endpoints: Objects, slices: Objects) -> list[Data]:
    """Mirrors and global services with what is behind them: from Endpoints where the mirror has them, else from owned slices."""
    behind: dict[tuple[str, str], list[tuple[str, bool, str]]] = {}
    for obj in endpoints:
        if mapping(obj, "metadata", "labels").get(MIRROR) == "true":
            rows = behind.setdefault(_key(obj, str(obj["metadata"].get("name"))), [])
            for subset in list_of(obj.get("subsets")):
                for part, ready in (("addresses", True), ("notReadyAddresses", False)):
                    rows += [(str(mapping(one).get("ip")), ready, "") for one in list_of(mapping(subset).get(part))]
    for obj in slices:
        labels = mapping(obj, "metadata", "labels")
        if labels.get(COPY) != "true" and not (
            labels.get(MIRROR) == "true" and labels.get(SLICE_MANAGER) == OUR_SLICES
        ):
            continue
        rows = behind.setdefault(_key(obj, str(labels.get(SERVICE_NAME))), [])
        for one in list_of(obj.get("endpoints")):
            ready = mapping(mapping(one).get("conditions")).get("ready") is not False
            rows += [
                (str(address), ready, str(labels.get(COPY_FROM) or ""))
                for address in list_of(mapping(one).get("addresses"))
            ]
    found = []
    for obj in given:
        labels = mapping(obj, "metadata", "labels")
        if labels.get(MIRROR) != "true" and labels.get(GLOBAL) != "true":
            continue
        spec = mapping(obj.get("spec"))
        rows = sorted(set(behind.get(_key(obj, str(obj["metadata"].get("name"))), [])))
        sources = sorted({source for dummy, dummy_ready, source in rows if source})
        found.append(
            {
                "namespace": cut(obj["metadata"].get("namespace"), 63),
                "name": cut(obj["metadata"].get("name"), 63),
                "kind": "mirror" if labels.get(MIRROR) == "true" else "global",
                "source": cut(labels.get(PREFIX) or ", ".join(sources)),
                "cluster_ip": cut(spec.get("clusterIP"), 64),
                "ports": [
                    cut(f"{mapping(port).get('port')}/{mapping(port).get('protocol') or 'TCP'}", 40)
                    for port in list_of(spec.get("ports"))
                ][:20],
                "endpoints": len({(address, source) for address, dummy_ready, source in rows}),
                "ready": len({(address, source) for address, ready, source in rows if ready}),
            }
        )
    return sorted(found, key=_by_name)


def _key(obj: t.Mapping[str, t.Any], name: str) -> tuple[str, str]:
    return str(obj["metadata"].get("namespace")), name


def _by_name(row: Data) -> tuple[str, str]:
    return str(row.get("namespace") or ""), str(row["name"])


def sets(given: Objects, field: str) -> list[Data]:
    """Network sets that say of which cluster they are."""
    found = []
    for obj in given:
        labels = mapping(obj, "metadata", "labels")
        if SET_CLUSTER in labels:
            networks = [cut(item, 64) for item in list_of(mapping(obj.get("spec")).get(field))]
            found.append(
                {
                    "name": cut(obj["metadata"].get("name")),
                    "source": cut(labels[SET_CLUSTER], 63),
                    "label": cut(labels.get(SET_NAME), 63),
                    "networks": len(networks),
                    "shown": networks[:SHOWN],
                }
            )
    return sorted(found, key=_by_name)


def addresses(given: Objects, ledger: t.Mapping[str, str]) -> list[Data]:
    """Each address of each Service of type LoadBalancer, with the Service that our record has for it."""
    found = []
    for obj in given:
        spec, status = mapping(obj.get("spec")), mapping(mapping(obj.get("status")).get("loadBalancer"))
        if spec.get("type") != "LoadBalancer":
            continue
        shown = [mapping(row).get("ip") or mapping(row).get("hostname") for row in list_of(status.get("ingress"))]
        texts = [text for text in shown if text] or [text for text in (spec.get("loadBalancerIP"),) if text]
        service = f"{obj['metadata'].get('namespace')}/{obj['metadata'].get('name')}"
        found += [
            {"address": cut(text, 64), "service": cut(service), "holder": cut(ledger.get(str(text)))} for text in texts
        ]
    return sorted(found, key=lambda row: (row["address"], row["service"]))


def kilo_peers(given: Objects) -> list[Data]:
    """Peers of Kilo, whoever wrote them. A preshared key is never looked at."""
    found = []
    for obj in given:
        spec = mapping(obj.get("spec"))
        endpoint = mapping(spec.get("endpoint"))
        dns = mapping(endpoint.get("dnsOrIP"))
        place = dns.get("ip") or dns.get("dns") or endpoint.get("ip")
        managers = [
            str(mapping(row).get("manager")) for row in list_of((obj.get("metadata") or {}).get("managedFields"))
        ]
        found.append(
            {
                "name": cut(obj["metadata"].get("name")),
                "endpoint": cut(f"{place}:{endpoint.get('port')}" if place else "", 120),
                "allowed_ips": [cut(item, 64) for item in list_of(spec.get("allowedIPs"))][:50],
                "owner": cut(", ".join(sorted(set(managers)))),
            }
        )
    return sorted(found, key=_by_name)
