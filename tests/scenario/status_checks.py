# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a status document shows, compared with what the kernels and the API servers have themselves."""

from __future__ import annotations

import ipaddress
import json


def listed(fabric, cluster, kind, *arguments):
    return json.loads(fabric.kubectl(cluster, "get", kind, "--all-namespaces", *arguments, "-o", "json"))["items"]


def kernels(fabric, devices):
    """(host, public key of a peer) -> what wg shows of it, on devices with names that begin so."""
    return {
        (node, key): dict(peer, device=name)
        for node in fabric.nodes
        for name, device in fabric.wireguard(node).items()
        if name.startswith(devices)
        for key, peer in device["peers"].items()
    }


def check_tunnels(document, before, after):
    """Every tunnel of the document is between two dumps of wg: counters and handshakes only go up."""
    rows = {(row["host"], row["public_key"]): row for row in document["tunnels"]}
    assert set(rows) == set(before) == set(after) and len(rows) == len(document["tunnels"])
    for key, row in rows.items():
        for mine, theirs in (("rx", "rx"), ("tx", "tx"), ("handshake", "handshake")):
            assert before[key][theirs] <= row[mine] <= after[key][theirs], (key, mine)
        assert row["endpoint"] in (before[key]["endpoint"], after[key]["endpoint"])
        assert sorted(map(ipaddress.ip_network, row["allowed_ips"]), key=str) == sorted(
            map(ipaddress.ip_network, before[key]["allowed_ips"]), key=str
        )
        assert row["device"] == before[key]["device"]
        assert row["state"] == ("never" if not row["handshake"] else "up" if row["age"] <= 180 else "stale")


def check_services(fabric, document):
    """Mirrors and their endpoints, as kubectl counts them."""
    desired = {}
    for cluster in fabric.clusters:
        behind = {}
        for item in listed(fabric, cluster, "endpoints", "-l", "mirrored-svc=true"):
            key = (item["metadata"]["namespace"], item["metadata"]["name"])
            behind.setdefault(key, set()).update(
                a["ip"]
                for s in item.get("subsets") or ()
                for a in (s.get("addresses") or []) + (s.get("notReadyAddresses") or [])
            )
        for item in listed(
            fabric, cluster, "endpointslices", "-l", "endpointslice.kubernetes.io/managed-by=multicluster.network"
        ):
            key = (item["metadata"]["namespace"], item["metadata"]["labels"]["kubernetes.io/service-name"])
            behind.setdefault(key, set()).update(a for e in item["endpoints"] or () for a in e["addresses"])
        for item in listed(fabric, cluster, "services", "-l", "mirrored-svc=true"):
            key = (item["metadata"]["namespace"], item["metadata"]["name"])
            desired[(cluster, *key)] = (item["spec"]["clusterIP"], len(behind.get(key, ())))
    shown = {
        (row["cluster"], row["namespace"], row["name"]): (row["cluster_ip"], row["endpoints"])
        for row in document["services"]
    }
    assert shown == desired
    return desired


def check_sums(document):
    """The numbers on top are those of the rows."""
    s = document["summary"]
    assert s["tunnels"] == len(document["tunnels"]) == sum(row["tunnels"] for row in document["links"])
    assert s["tunnels_up"] == sum(1 for row in document["tunnels"] if row["state"] == "up")
    assert s["rx"] == sum(row["rx"] for row in document["tunnels"]) == sum(row["rx"] for row in document["nodes"])
    assert s["endpoints"] == sum(row["endpoints"] for row in document["services"])
    assert (s["drift"], s["refused"], s["failures"]) == tuple(
        len(document[name]) for name in ("drift", "refused", "failures")
    )


def check_metrics(document, text):
    """The text has exactly the tunnels of the document, under upstream's names."""
    found = {}
    for line in text.splitlines():
        if line.startswith("semaphore_wg_peer_") and "_info" not in line:
            name, dummy, rest = line.partition("{")
            labels, dummy, value = rest.rpartition("} ")
            pairs = dict(pair.split("=", 1) for pair in labels.split(","))
            found[name, pairs["node"].strip('"'), pairs["public_key"].strip('"')] = int(value)
    names = {"receive_bytes_total": "rx", "transmit_bytes_total": "tx", "last_handshake_seconds": "handshake"}
    assert found == {
        ("semaphore_wg_peer_" + name, row["host"], row["public_key"]): row[field]
        for name, field in names.items()
        for row in document["tunnels"]
    }
