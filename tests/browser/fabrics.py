# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fabrics for the page: what modules recorded on a small one, repeated to any size. The same input gives the same bytes."""

from __future__ import annotations

import base64
import hashlib

NOW = 1795311932
PORT = 51821


def key(text):
    """A public key that nobody has."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def hosts_of(sizes):
    """{cluster: [host]}."""
    return {name: [f"{name}-node-{index + 1}" for index in range(size)] for name, size in sizes.items()}


def device(host, name, peers):
    """One device of node_info."""
    rows = [
        {
            "public_key": public,
            "endpoint": endpoint,
            "allowed_ips": [allowed],
            "keepalive": 25,
            "handshake": 0 if age is None else NOW - age,
            "rx": rx,
            "tx": tx,
            "preshared": False,
        }
        for public, endpoint, allowed, age, rx, tx in peers
    ]
    return {
        "name": name,
        "kind": "wireguard",
        "alias": "multicluster.network/default",
        "owned": True,
        "up": True,
        "mtu": 1420,
        "addresses": [],
        "public_key": key(host + name),
        "listen_port": PORT,
        "fwmark": 0,
        "peers": rows,
    }


def node(host, device_peers):
    """As node_info returns it. device_peers: [(device, [(key, endpoint, allowed ip, age or None, rx, tx)])]."""
    return {
        "now": NOW + 0.25,
        "errors": [],
        "host": {
            "hostname": host,
            "operating_system": "Debian GNU/Linux 12 (bookworm)",
            "kernel": "6.1.0-28-amd64",
            "machine": "x86_64",
            "parts": {"wireguard": "loaded", "nf_tables": "loaded", "tun": "builtin"},
            "addresses": [],
        },
        "devices": [device(host, name, peers) for name, peers in device_peers],
        "routes": [
            {"table": 254, "dst": f"10.{index}.0.0/16", "type": "unicast", "dev": name, "protocol": 109}
            for index, (name, dummy) in enumerate(device_peers)
        ],
        "rules": [],
        "tables": [],
        "bgp": None,
        "pending": None,
        "units": [
            {
                "name": "multicluster-network-default.service",
                "load": "loaded",
                "active": "inactive",
                "sub": "dead",
                "result": "success",
                "enabled": "enabled",
            }
        ],
    }


def peers_of(reported):
    """As node_probe returns the same peers."""
    return [
        {
            "device": one["name"],
            "public_key": peer["public_key"],
            "endpoint": peer["endpoint"],
            "allowed_ips": peer["allowed_ips"],
            "handshake_age": NOW - peer["handshake"] if peer["handshake"] else None,
            "listen_port": one["listen_port"],
            "source": "10.100.0.1",
        }
        for one in reported["devices"]
        for peer in one["peers"]
    ]


def facts(sizes, unreachable=(), services=3, sets=2):
    """Facts of model.build for a Semaphore mesh of clusters with so many nodes each. unreachable: hosts that did not answer."""
    hosts = hosts_of(sizes)
    place = {host: (number, index) for number, name in enumerate(hosts) for index, host in enumerate(hosts[name])}
    mesh = {
        "mode": None,
        "fabric": "default",
        "nodes": {},
        "clusters": {},
        "refused": [],
        "failures": [],
        "annotation_patterns": [],
    }
    nodes = {}
    for cluster, members in hosts.items():
        mesh["clusters"][cluster] = {"remotes": {}}
        for host in members:
            mesh["nodes"][host] = {"cluster": cluster, "node_name": host, "pod_cidrs": []}
            devices = []
            for remote in hosts:
                if remote == cluster:
                    continue
                peers, published = [], []
                for other in hosts[remote]:
                    number, index = place[other]
                    dice = (place[host][1] * 31 + index * 17 + number) % 997
                    poor = place[host][1] % 9 == 4
                    age = None if poor and dice == 3 else 200 + dice if poor and dice % 211 == 7 else dice % 120
                    address = f"10.{100 + number}.{index // 250}.{index % 250 + 1}"
                    peers.append(
                        (
                            key(other + "wireguard." + cluster),
                            f"{address}:{PORT}",
                            f"10.{2 + number}.{index % 256}.0/24",
                            age,
                            148 * dice + index,
                            92 * dice + 31 * index,
                        )
                    )
                    published.append({"node": other, "public_key": key(other + "wireguard." + cluster)})
                mesh["clusters"][cluster]["remotes"][remote] = {"device": "wireguard." + remote, "peers": published}
                devices.append(("wireguard." + remote, peers))
            nodes[host] = None if host in unreachable else node(host, devices)
    names = list(hosts)
    clusters = {}
    for number, name in enumerate(names):
        others = [other for other in names if other != name]
        clusters[name] = {
            "version": "1.31",
            "nodes": sizes[name],
            "kilo_peers": [],
            "services": [
                {
                    "namespace": "sys-semaphore",
                    "name": f"{others[i % len(others)]}-shop-73736d-service-{i}",
                    "kind": "mirror",
                    "source": others[i % len(others)],
                    "cluster_ip": f"10.3.{i // 250}.{i % 250 + 1}",
                    "ports": ["80/TCP", "443/TCP"],
                    "endpoints": 2 + i % 7,
                    "ready": 2 + i % 6,
                }
                for i in range(services if others else 0)
            ],
            "sets": [
                {
                    "name": f"{others[i % len(others)]}-shop-web-{i}",
                    "source": others[i % len(others)],
                    "label": "web",
                    "networks": 3 + i,
                    "shown": [f"10.{2 + number}.{i}.{j}/32" for j in range(5)],
                }
                for i in range(sets if others else 0)
            ],
            "addresses": [{"address": f"203.0.113.{10 + number}", "service": "shop/front", "holder": "shop/front"}],
        }
    probes, plans = {}, {}
    for host, reported in nodes.items():
        if reported is not None:
            pings = [
                {
                    "source": "10.1.0.1",
                    "target": "10.1.0.2",
                    "node": other,
                    "ok": True,
                    "milliseconds": 0.4 + place[other][1] % 7 / 10,
                }
                for other in list(mesh["nodes"])[:: max(1, len(mesh["nodes"]) // 20)]
                if mesh["nodes"][other]["cluster"] != mesh["nodes"][host]["cluster"] and other not in unreachable
            ]
            probes[host] = {
                "pods": [{"addresses": ["10.1.0.1"]}],
                "pings": pings,
                "errors": [],
                "paths": {"asked": 1, "elsewhere": [], "more": 0},
                "units": [],
                "strays": [],
                "peers": peers_of(reported),
            }
            plans[host] = {"plan": {"changes": []}, "refused": []}
    return {
        "fabric": "default",
        "now": NOW,
        "mesh": mesh,
        "nodes": nodes,
        "probes": probes,
        "node_plans": plans,
        "unreachable": dict.fromkeys(unreachable, "unreachable: no route to host"),
        "clusters": clusters,
        "drift": [],
        "refused": [],
        "failures": [],
        "tenants": None,
        "previous": None,
    }
