# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fabric in which everything was looked at and is as it should be, for tests that take one thing away."""

from __future__ import annotations

import base64
import hashlib

HOSTS = {
    "aws-1": ("aws", "10.66.23.31", "10.2.3.0/24"),
    "aws-2": ("aws", "10.66.23.32", "10.2.4.0/24"),
    "gcp-1": ("gcp", "10.22.22.27", "10.4.7.0/24"),
    "gcp-2": ("gcp", "10.22.22.28", "10.4.8.0/24"),
}
CAPABILITIES = ("service_mirror", "coredns_rewrite", "network_sets", "load_balancers", "tenants")


def key(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def others(host):
    return [name for name in HOSTS if HOSTS[name][0] != HOSTS[host][0]]


def pod(host):
    return HOSTS[host][2].replace(".0/24", ".10")


def mesh():
    """As mesh_plan returns it."""
    clusters = {}
    for local, remote in (("aws", "gcp"), ("gcp", "aws")):
        peers = [
            {"node": name, "public_key": key(name), "endpoint": address + ":51821", "allowed_ips": [cidr]}
            for name, (cluster, address, cidr) in HOSTS.items()
            if cluster == remote
        ]
        clusters[local] = {
            "remotes": {remote: {"device": "wireguard." + remote, "peers": peers, "complete": True, "reason": None}}
        }
    nodes = {
        name: {"cluster": cluster, "node_name": name, "pod_cidrs": [cidr]}
        for name, (cluster, dummy, cidr) in HOSTS.items()
    }
    return {
        "fabric": "default",
        "clusters": clusters,
        "nodes": nodes,
        "refused": [],
        "failures": [],
        "annotation_patterns": [],
    }


def probe(host):
    """As node_probe returns it."""
    return {
        "pods": [{"addresses": [pod(host)], "in_namespace": True}],
        "strays": [],
        "others": [],
        "errors": [],
        "bgp": None,
        "pings": [
            {
                "source": pod(host),
                "target": pod(name),
                "node": name,
                "ok": True,
                "milliseconds": 0.4,
                "size": 1420,
                "full": 1420,
            }
            for name in others(host)
        ],
        "peers": [
            {
                "device": "wireguard." + HOSTS[name][0],
                "public_key": key(name),
                "endpoint": HOSTS[name][1] + ":51821",
                "handshake_age": 11,
                "allowed_ips": [HOSTS[name][2]],
                "listen_port": 51821,
                "source": HOSTS[host][1],
            }
            for name in others(host)
        ],
        "paths": {"asked": 4, "elsewhere": [], "more": 0},
        "units": [
            {
                "name": "multicluster-network-default.service",
                "active": "active",
                "result": "success",
                "enabled": "enabled",
            }
        ],
    }


def result(**more):
    """A module's result in check mode, with nothing to do."""
    return dict({"plan": {"changes": []}, "refused": [], "failures": []}, **more)


def facts():
    """Of evidence.judge: proven."""
    announcing = {"load_balancers": {"aws": {"announce": ["203.0.113.1/32"], "nodes": ["aws-1"]}}}
    plans = {
        name: result(**(announcing if name == "load_balancers" else {}))
        for name in (*CAPABILITIES, "annotations", "pools")
    }
    found = {host: {"drift": result(), "probe": probe(host)} for host in HOSTS}
    found["aws-1"]["probe"]["bgp"] = {
        "announces": ["203.0.113.1/32"],
        "sessions": [{"neighbor": "10.66.23.1", "state": "Established"}],
    }
    return {
        "mesh": mesh(),
        "found": found,
        "declared": list(HOSTS),
        "capabilities": list(CAPABILITIES),
        "plans": plans,
        "applied": {},
    }
