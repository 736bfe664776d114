# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Owners of pod addresses, by the objects of a network plugin and by the kernels of the nodes, watched meanwhile."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import subprocess
import time

CALICO = "crd.projectcalico.org"
KINDS = ("blockaffinities." + CALICO, "ipamblocks." + CALICO)
WATCH = "while :; do wg show all allowed-ips; echo; sleep 0.1; done"


def owners(ranges):
    """{address as a number: node} of {node: networks}; the longest prefix decides. Two nodes with one network are an error."""
    found = {}
    rows = [(network, node) for node, networks in ranges.items() for network in networks]
    for network, node in sorted(rows, key=lambda row: row[0].prefixlen):
        for number in range(int(network[0]), int(network[-1]) + 1):
            found[number] = node
    seen = [network for network, unused in rows]
    assert len(seen) == len(set(seen)), f"two nodes have one range: {rows}"
    return found


def calico(fabric, cluster):
    """{node: networks}, as Calico's IPAM has them now: confirmed blocks of nodes that are there, and addresses of pods in blocks of other nodes."""
    nodes = {item["metadata"]["name"] for item in fabric.objects(cluster, "nodes")}
    found = {node: set() for node in nodes}
    homes = {}
    for item in fabric.objects(cluster, KINDS[0]):
        spec = item["spec"]
        if spec["state"] == "confirmed" and spec["node"] in nodes:
            found[spec["node"]].add(ipaddress.ip_network(spec["cidr"]))
            homes[spec["cidr"]] = spec["node"]
    for item in fabric.objects(cluster, KINDS[1]):
        spec = item["spec"]
        base = int(ipaddress.ip_network(spec["cidr"])[0])
        for place, number in enumerate(spec["allocations"]):
            more = {} if number is None else spec["attributes"][number].get("secondary") or {}
            node = more.get("node")
            if node in nodes and "pod" in more and node != homes.get(spec["cidr"]):
                found[node].add(ipaddress.ip_network(base + place))
    return {node: networks for node, networks in found.items() if networks}


FIELDS = ("affinity", "allocations", "attributes", "cidr", "deleted", "node", "state", "type")


def trimmed(item):
    """The parts of an object from which addresses and owners are read, as they were written."""
    spec = {name: value for name, value in item["spec"].items() if name in FIELDS}
    for one in spec.get("attributes", ()):
        (one.get("secondary") or {}).pop("timestamp", None)
    metadata = {"name": item["metadata"]["name"]}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata, "spec": spec}


def keys(fabric):
    """{public key: node} of all devices, as they were at the first call: a node keeps its keys."""
    if not hasattr(fabric, "device_keys"):
        fabric.device_keys = {
            device["public_key"]: node for node in fabric.nodes for device in fabric.wireguard(node).values()
        }
    return fabric.device_keys


def of_text(text, names):
    """{node: networks} of what ``wg show all allowed-ips`` prints."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 2 and fields[1] in names:
            found.setdefault(names[fields[1]], set()).update(
                ipaddress.ip_network(one) for one in fields[2:] if one != "(none)"
            )
    return found


def now(fabric, node, names):
    """{node: networks}: the allowed IPs of a node's peers."""
    return of_text(fabric.sh(node, "wg", "show", "all", "allowed-ips"), names)


@contextlib.contextmanager
def watched(fabric, nodes):
    """Ten times a second the allowed IPs of all peers of the nodes; yields a list that has rows (node, {peer: networks}) when the block ends."""
    names, rows, running = keys(fabric), [], []
    for node in nodes:
        file = (fabric.state / f"allowed-{node}").open("w+b")
        command = fabric.machinery.machine(node).enter(["sh", "-c", WATCH])
        running.append(
            (node, file, subprocess.Popen(command, stdout=file, stdin=subprocess.DEVNULL, start_new_session=True))
        )
    time.sleep(1)
    try:
        yield rows
        time.sleep(1)
    finally:
        for node, file, process in running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
            file.seek(0)
            shown = file.read().decode().split("\n\n")[:-1]  # the last one may be cut
            file.close()
            assert len(shown) > 5, f"{node} was not watched"
            rows += [(node, of_text(text, names)) for text in shown]


def wrong(rows, before, after):
    """How many rows have an address with a node that is neither its owner before nor after; and how many rows there are."""
    first, last = owners(before), owners(after)
    bad, known = 0, {}
    for unused, found in rows:
        key = str(sorted((node, sorted(map(str, networks))) for node, networks in found.items()))
        if key not in known:
            seen = owners(found)
            addresses = set(seen) | set(first) | set(last)
            known[key] = [one for one in addresses if seen.get(one) not in (first.get(one), last.get(one))]
        bad += bool(known[key])
    return bad, len(rows)
