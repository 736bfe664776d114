# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An affiliate as annotations of its Node, written and read (kubespan 5.2).

An affiliate is plain data: ``node_id hostname nodename machine_type operating_system public_key kubespan_address
api_server_port`` (text, the port a number) and the lists ``addresses additional_addresses exclude_advertised_networks
endpoints``. Empty and missing are the same.
"""

from __future__ import annotations

import typing as t

from ..._values.addresses import parse_address
from ..._values.prefix_sets import address_text
from ..._values.refused import ValueRefused
from ..._values.text import mapping, parse_port
from .endpoints import parse_addr_port, prefix_text
from .generations import MAX_NODE_ID, Generation

Affiliate = dict[str, t.Any]

NODE_ID = "cluster.talos.dev/node-id"
SELF_IPS = "networking.talos.dev/self-ips"
API_SERVER_PORT = "networking.talos.dev/api-server-port"
KUBESPAN_IP = "networking.talos.dev/kubespan-ip"
PUBLIC_KEY = "networking.talos.dev/kubespan-public-key"
ASSIGNED_PREFIXES = "networking.talos.dev/assigned-prefixes"
ENDPOINTS = "networking.talos.dev/kubespan-endpoints"
EXCLUDED = "networking.talos.dev/kubespan-exclude-advertised-networks"
#: Every key, in the order of the specification. EXCLUDED is unknown to the old generation.
KEYS = (NODE_ID, SELF_IPS, API_SERVER_PORT, KUBESPAN_IP, PUBLIC_KEY, ASSIGNED_PREFIXES, ENDPOINTS, EXCLUDED)
CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
#: Longest list that is read from one annotation; a Node may carry 256 KiB of them.
MAX_ITEMS = 1024

LISTS = ("addresses", "additional_addresses", "exclude_advertised_networks", "endpoints")
SCALARS = ("hostname", "nodename", "operating_system", "public_key", "kubespan_address", "api_server_port")


def encode(affiliate: t.Mapping[str, t.Any], gen: Generation | None = None) -> dict[str, t.Any]:
    """Every annotation of an affiliate; the empty text means that the annotation is to be removed.

    A public key that is still Pending is passed on as it is.
    """
    port = affiliate.get("api_server_port")
    values: dict[str, t.Any] = {
        NODE_ID: affiliate.get("node_id") or "",
        SELF_IPS: ",".join(affiliate.get("addresses") or ()),
        API_SERVER_PORT: str(port) if port else "",
        KUBESPAN_IP: affiliate.get("kubespan_address") or "",
        PUBLIC_KEY: affiliate.get("public_key") or "",
        ASSIGNED_PREFIXES: ",".join(affiliate.get("additional_addresses") or ()),
        ENDPOINTS: ",".join(affiliate.get("endpoints") or ()),
        EXCLUDED: ",".join(affiliate.get("exclude_advertised_networks") or ()),
    }
    if gen is not None and not gen.excluded_networks:
        values[EXCLUDED] = ""
    return values


def decode(node: t.Mapping[str, t.Any]) -> Affiliate | None:
    """The affiliate of a Node object, or None where it has no node id. Bad items are skipped one by one."""
    metadata, status = mapping(node, "metadata"), mapping(node, "status")
    annotations, labels = mapping(metadata, "annotations"), mapping(metadata, "labels")
    node_id = annotations.get(NODE_ID)
    if not isinstance(node_id, str) or not node_id or len(node_id.encode("utf-8", "surrogatepass")) > MAX_NODE_ID:
        return None
    key = annotations.get(PUBLIC_KEY)
    return {
        "node_id": node_id,
        "hostname": _hostname(status),
        "nodename": metadata.get("name") or "",
        "machine_type": "controlplane" if CONTROL_PLANE_LABEL in labels else "worker",
        "operating_system": mapping(status, "nodeInfo").get("osImage") or "",
        "api_server_port": _one(parse_port, annotations.get(API_SERVER_PORT)),
        "addresses": _items(_address, annotations.get(SELF_IPS)),
        "public_key": key if isinstance(key, str) else "",
        "kubespan_address": _one(_address, annotations.get(KUBESPAN_IP)),
        "additional_addresses": _items(prefix_text, annotations.get(ASSIGNED_PREFIXES)),
        "exclude_advertised_networks": _items(prefix_text, annotations.get(EXCLUDED)),
        "endpoints": _items(_endpoint, annotations.get(ENDPOINTS)),
    }


def _hostname(status: t.Mapping[str, t.Any]) -> str:
    rows = status.get("addresses")
    for row in rows if isinstance(rows, (list, tuple)) else ():
        if isinstance(row, dict) and row.get("type") == "Hostname" and isinstance(row.get("address"), str):
            return str(row["address"])
    return ""


def _address(text: object) -> str:
    address = parse_address(text)
    return address_text(address.version, int(address))


def _endpoint(text: object) -> str:
    return str(parse_addr_port(text))


def _one(parse: t.Callable[[object], t.Any], text: object) -> t.Any:
    try:
        return parse(text)
    except ValueRefused:
        return None


def _items(parse: t.Callable[[object], t.Any], text: object) -> list[t.Any]:
    if not isinstance(text, str) or not text:
        return []
    found = (_one(parse, item) for item in text.split(",", maxsplit=MAX_ITEMS)[:MAX_ITEMS])
    return [item for item in found if item is not None]
