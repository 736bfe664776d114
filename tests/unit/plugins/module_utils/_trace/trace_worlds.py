# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small fabrics as raw facts, and a simulator of packets through them that shares no code with what is tested.

It knows addresses as ipaddress does, scans lists in the plainest way, and has things that no fact shows: networks that lose UDP, rules that drop.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import ipaddress
import typing as t

MARK, TABLE = 0x40, 180


def key_of(*words: t.Any) -> str:
    return base64.b64encode(hashlib.sha256("/".join(map(str, words)).encode()).digest()).decode()


class World:
    """``nodes``: {host: facts}; ``seats``: {host: (cluster, node)}; ``pods``: {host: address}. Breaks change these, or the lists of what is hidden."""

    def __init__(self, clusters: t.Mapping[str, int], kubespan: bool = False) -> None:
        self.kubespan = kubespan
        self.nodes: dict[str, dict[str, t.Any]] = {}
        self.seats: dict[str, tuple[str, str]] = {}
        self.pods: dict[str, str] = {}
        self.uplink: dict[str, str] = {}
        #: (from host, to host) that lose UDP; hosts -> hook that drops; hosts with pods that answer nothing; hosts that rewrite sources
        self.lost: set[tuple[str, str]] = set()
        self.drops: dict[str, str] = {}
        self.mute: set[str] = set()
        self.closed: set[str] = set()
        self.small_only: set[tuple[str, str]] = set()
        self.rewriting: set[str] = set()
        #: hosts with queues into tunnels, or out of them, that lose everything; pairs that have different preshared keys
        self.stuck: set[str] = set()
        self.deaf: set[str] = set()
        self.other_psk: set[frozenset[str]] = set()
        for index, (cluster, count) in enumerate(sorted(clusters.items())):
            for number in range(count):
                host = f"{cluster}-{number}"
                self.seats[host] = (cluster, f"node-{number}")
                self.pods[host] = f"10.{10 + index}.{number}.7"
                self.uplink[host] = f"192.168.{index}.{10 + number}"
        self.clusters = {cluster: f"10.{10 + index}.0.0/16" for index, cluster in enumerate(sorted(clusters))}
        for host in self.seats:
            self.nodes[host] = self._facts(host)
        self.after: dict[str, t.Any] = {}

    def device(self, here: str, there: str) -> str:
        return "kubespan" if self.kubespan else "wireguard." + self.seats[there][0]

    def own_key(self, here: str, there: str) -> str:
        return key_of(here) if self.kubespan else key_of(here, self.seats[there][0])

    def port(self, here: str, there: str) -> int:
        return 51820 if self.kubespan else 51820 + sorted(self.clusters).index(self.seats[there][0])

    def _subnet(self, host: str) -> str:
        return str(ipaddress.ip_network(self.pods[host] + "/24", strict=False))

    def _facts(self, host: str) -> dict[str, t.Any]:
        cluster = self.seats[host][0]
        links = [
            {"name": "lo", "kind": "", "up": True, "mtu": 65536, "owned": False, "addresses": ["127.0.0.1/8"]},
            {
                "name": "eth0",
                "kind": "veth",
                "up": True,
                "mtu": 1500,
                "owned": False,
                "addresses": [self.uplink[host] + "/16"],
            },
            {"name": "veth1", "kind": "veth", "up": True, "mtu": 1500, "owned": False, "addresses": []},
        ]
        routes = [
            route("0.0.0.0/0", "eth0", via="192.168.255.1"),
            route("192.168.0.0/16", "eth0"),
            route(self.pods[host] + "/32", "veth1"),
            dict(route(self.uplink[host] + "/32", "eth0", 255), type="local"),
        ]
        rules = [rule(0, 255), rule(32766, 254), rule(32767, 253)]
        others = [one for one in self.seats if one != host and (self.kubespan or self.seats[one][0] != cluster)]
        devices: dict[str, dict[str, t.Any]] = {}
        for other in others:
            name = self.device(host, other)
            if name not in devices:
                devices[name] = {
                    "name": name,
                    "public_key": self.own_key(host, other),
                    "listen_port": self.port(host, other),
                    "fwmark": 0,
                    "up": True,
                }
                devices[name]["peers"] = []
                links.append(
                    {"name": name, "kind": "wireguard", "up": True, "mtu": 1420, "owned": True, "addresses": []}
                )
                if self.kubespan:
                    routes.append(route("0.0.0.0/0", name, TABLE))
                    rules.append(dict(rule(32500, TABLE), fwmark=MARK, fwmask=0x60))
                else:
                    routes.append(route(self.clusters[self.seats[other][0]], name))
            devices[name]["peers"].append(
                {
                    "public_key": self.own_key(other, host),
                    "endpoint": f"{self.uplink[other]}:{self.port(other, host)}",
                    "allowed_ips": [self._subnet(other), self.uplink[other] + "/32"],
                    "handshake_age": 20,
                    "rx": 1000,
                    "tx": 1000,
                }
            )
        if not self.kubespan:  # nodes of one cluster know the ways to each other's pods
            for other in self.seats:
                if other != host and self.seats[other][0] == cluster:
                    routes.append(route(self._subnet(other), "eth0", via=self.uplink[other]))
        spans = [
            [int(net.network_address), int(net.broadcast_address)]
            for net in (ipaddress.ip_network(self._subnet(other)) for other in others)
        ]
        return {
            "links": links,
            "routes": routes,
            "rules": rules,
            "devices": list(devices.values()),
            "sets": [{"table": "talos_kubespan", "name": "kubespan_targets_ipv4", "version": 4, "spans": spans}]
            if self.kubespan
            else [],
            "tables": [
                {
                    "family": "inet",
                    "name": "filter",
                    "chains": [{"name": "forward", "hook": "forward", "priority": 0, "policy": "accept"}],
                }
            ],
            "settings": {"forwarding": {"4": True, "6": True}, "rp_filter": {"all": 0, "eth0": 0}},
            "errors": [],
            "pods": [{"addresses": [self.pods[host]], "netns": "pod", "device": "veth1"}],
            "units": [{"name": "multicluster-network-watch-t.service", "active": "active"}] if self.kubespan else [],
            "legacy_iptables": False,
        }

    def mesh(self) -> dict[str, t.Any]:
        devices: dict[str, dict[str, str]] = {}
        if not self.kubespan:
            devices = {
                one: {other: "wireguard." + other for other in self.clusters if other != one} for one in self.clusters
            }
        endpoints: dict[str, list[str]] = {}
        for host in self.seats:
            for other in self.seats:
                if other != host:
                    endpoints.setdefault(host, []).append(f"{self.uplink[host]}:{self.port(host, other)}")
        return {"devices": devices, "whole": "kubespan" if self.kubespan else "", "endpoints": endpoints, "shared": {}}

    # -- breaking ------------------------------------------------------------------------------------------------------

    def device_of(self, host: str, other: str) -> dict[str, t.Any]:
        return next(one for one in self.nodes[host]["devices"] if one["name"] == self.device(host, other))

    def peer_of(self, host: str, other: str) -> dict[str, t.Any]:
        return next(
            one for one in self.device_of(host, other)["peers"] if one["public_key"] == self.own_key(other, host)
        )

    # -- packets -------------------------------------------------------------------------------------------------------

    def look_up(self, host: str, dst: str, src: str, iif: str | None, mark: int) -> dict[str, t.Any] | None:
        address = ipaddress.ip_address(dst)
        for one in sorted(self.nodes[host]["rules"], key=lambda row: row["priority"]):
            if one["src"] and ipaddress.ip_address(src) not in ipaddress.ip_network(one["src"]):
                continue
            if one["dst"] and address not in ipaddress.ip_network(one["dst"]):
                continue
            if one["iif"] and one["iif"] != (iif or "lo"):
                continue
            if one["fwmark"] is not None and mark & one["fwmask"] != one["fwmark"]:
                continue
            if one["action"] != "to_table":
                return None
            holding = [
                row
                for row in self.nodes[host]["routes"]
                if row["table"] == one["table"] and address in ipaddress.ip_network(row["dst"])
            ]
            holding = [
                row
                for row in holding
                if row["dev"] is None
                or any(link["name"] == row["dev"] and link["up"] for link in self.nodes[host]["links"])
            ]
            if holding:
                best = min(holding, key=lambda row: (-ipaddress.ip_network(row["dst"]).prefixlen, row["metric"]))
                return None if best["type"] in ("unreachable", "blackhole", "prohibit") else best
        return None

    def marked(self, host: str, dst: str) -> int:
        number = int(ipaddress.ip_address(dst))
        return (
            MARK
            if any(first <= number <= last for one in self.nodes[host]["sets"] for first, last in one["spans"])
            else 0
        )

    def best_peer(self, device: t.Mapping[str, t.Any], address: str) -> dict[str, t.Any] | None:
        found, longest = None, -1
        for peer in device["peers"]:
            for text in peer["allowed_ips"]:
                net = ipaddress.ip_network(text)
                if ipaddress.ip_address(address) in net and net.prefixlen > longest:
                    found, longest = peer, net.prefixlen
        return found

    def send(
        self, src_host: str, dst_host: str, size: int, events: list[t.Any], flow: str, protocol: str = "icmp"
    ) -> str:
        """One packet of a pod to a pod, and its answer. Returns the outcome; events get what each node's recorder sees."""
        if not self._go(src_host, dst_host, size, events, flow, "forward"):
            return "no_answer"
        if dst_host in self.mute:
            return "no_answer"
        if not self._go(dst_host, src_host, min(size, 100) if protocol == "tcp" else size, events, flow, "back"):
            return "no_answer"
        return "refused" if dst_host in self.closed and protocol == "tcp" else "answered"

    def _go(self, start: str, end: str, size: int, events: list[t.Any], flow: str, direction: str) -> bool:
        src, dst = self.pods[start], self.pods[end]
        host, iif = start, "veth1"
        for dummy in range(5):
            note = Recorder(events, host, flow, direction, iif)
            note("prerouting", src, dst)
            if not self._accepted(host, src, dst, iif):
                return False
            found = self.look_up(host, dst, src, iif, self.marked(host, dst))
            if found is None or found["type"] == "local" or not self.nodes[host]["settings"]["forwarding"]["4"]:
                return False
            if host in self.drops and self.drops[host] == direction:
                note("forward", src, dst, "drop", table="filter")
                return False
            note("forward", src, dst)
            note("postrouting", src, dst, oif=found["dev"])
            tunnel = next((one for one in self.nodes[host]["devices"] if one["name"] == found["dev"]), None)
            if tunnel is not None:
                if host in self.rewriting:
                    note("postrouting", src, dst, "accept", "masquerade", "nat", oif=found["dev"])
                    src = self.uplink[host]
                arrived = self._through(host, tunnel, src, dst, size)
                if arrived is None:
                    return False
                host, iif = arrived
                continue
            if found["dev"] == "veth1":
                return dst == self.pods[host]
            if found["via"] is None and dst not in self.uplink.values():
                return False
            gateway = found["via"] or dst
            neighbour = next((one for one in self.uplink if self.uplink[one] == gateway), None)
            if neighbour is None:
                return False
            host, iif = neighbour, "eth0"
        return False

    def _accepted(self, host: str, src: str, dst: str, iif: str) -> bool:
        settings = self.nodes[host]["settings"]["rp_filter"]
        level = max(settings.get("all", 0), settings.get(iif, 0))
        if not level:
            return True
        found = self.look_up(host, src, dst, None, 0)
        numbered = any(
            "." in text for link in self.nodes[host]["links"] if link["name"] == iif for text in link["addresses"]
        )
        return found is not None and found["type"] == "unicast" and ((level == 2 and numbered) or found["dev"] == iif)

    def _listens(self, caller: str, endpoint: str | None) -> tuple[str, dict[str, t.Any]] | None:
        """Who has a socket at an endpoint."""
        for host, facts in self.nodes.items():
            for device in facts["devices"]:
                if endpoint == f"{self.uplink[host]}:{device['listen_port']}" and device["up"]:
                    return host, device
        return None

    def _through(self, host: str, device: dict[str, t.Any], src: str, dst: str, size: int) -> tuple[str, str] | None:
        """A packet through WireGuard: (host, device) where it comes out."""
        peer = self.best_peer(device, dst)
        if peer is None or not peer["endpoint"] or not device["up"]:
            return None
        if host in self.stuck:
            return None
        ends = self._listens(host, peer["endpoint"])
        self._count(host, device, peer["public_key"], "tx")
        if ends is None or (host, ends[0]) in self.lost or ((host, ends[0]) in self.small_only and size > 1000):
            return None
        other, inner = ends
        theirs = next((one for one in inner["peers"] if one["public_key"] == device["public_key"]), None)
        if inner["public_key"] != peer["public_key"] or theirs is None:
            return None
        session, known = ((one["handshake_age"] or 999) <= 180 for one in (peer, theirs))
        if session and not known:
            return None  # with keys that the other has lost
        self._count(other, inner, device["public_key"], "rx")
        if not session:  # a new session needs an answer
            back = self._listens(other, theirs["endpoint"])
            self._count(other, inner, device["public_key"], "tx")
            if frozenset((host, other)) in self.other_psk:
                return None
            if (other, host) in self.lost or (back is None and theirs["endpoint"] is None):
                return None
            self._count(host, device, peer["public_key"], "rx")
        if self.best_peer(inner, src) is not theirs or other in self.deaf:
            return None
        return other, inner["name"]

    def _count(self, host: str, device: t.Mapping[str, t.Any], key: str, which: str) -> None:
        after = self.after.setdefault(host, copy.deepcopy(self.nodes[host]["devices"]))
        for one in after:
            if one["name"] == device["name"]:
                for peer in one["peers"]:
                    if peer["public_key"] == key:
                        peer[which] += 100

    # -- a whole trace -------------------------------------------------------------------------------------------------

    def flow(self, src: str, dst: str, ident: str = "0", protocol: str = "icmp", about: str = "") -> dict[str, t.Any]:
        port = 8080 if protocol == "tcp" else None
        backend = {"address": self.pods[dst], "port": port, "cluster": self.seats[dst][0], "host": dst}
        found = {
            "id": ident,
            "number": 61000 + int(ident.rstrip("r")) * 2 + bool(about),
            "protocol": protocol,
            "version": 4,
            "source": {
                "kind": "pod",
                "name": src,
                "cluster": self.seats[src][0],
                "host": src,
                "address": self.pods[src],
            },
            "target": {
                "kind": "pod",
                "name": dst,
                "cluster": self.seats[dst][0],
                "address": self.pods[dst],
                "port": port,
                "backends": [backend],
            },
        }
        return dict(found, about=about) if about else found

    def trace(
        self, src: str, dst: str, protocol: str = "icmp", reverse: bool = True
    ) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
        """(trace of trace_plan, results of trace_node by host)."""
        flows = [self.flow(src, dst, "0", protocol)]
        flows += [self.flow(dst, src, "0r", "icmp", "0")] if reverse else []
        events: list[tuple[str, dict[str, t.Any]]] = []
        self.after = {}
        sent: dict[str, list[t.Any]] = {}
        for flow, start, end in zip(flows, (src, dst), (dst, src)):
            for size in (64, 1400):
                outcome = self.send(start, end, size, events, flow["id"], flow["protocol"])
                sent.setdefault(start, []).append(
                    {"flow": flow["id"], "size": size, "outcome": outcome, "detail": "", "milliseconds": 1}
                )
        results = {}
        for host in self.nodes:
            mine = [event for where, event in events if where == host]
            results[host] = {
                "armed": {"armed": True, "reason": "", "facts": self.nodes[host], "answers": []},
                "sent": {"sent": sent.get(host, [])},
                "collected": {"events": mine, "devices": self.after.get(host, self.nodes[host]["devices"])},
            }
        plan = {
            "id": "00c0ffee",
            "number": 61000,
            "flows": flows,
            "nodes": sorted(self.nodes),
            "names": [],
            "findings": [],
            "mesh": self.mesh(),
            "hosts": {host: {"cluster": seat[0], "node": seat[1]} for host, seat in self.seats.items()},
        }
        return plan, results


class Recorder:
    """Events of one passage."""

    def __init__(self, events: list[t.Any], host: str, flow: str, direction: str, iif: str) -> None:
        self.events, self.host, self.flow, self.direction, self.iif = events, host, flow, direction, iif

    def __call__(
        self,
        hook: str,
        src: str,
        dst: str,
        verdict: str = "accept",
        rule: str | None = None,
        table: str = "multicluster_trace_00c0ffee",
        oif: str = "",
    ) -> None:
        self.events.append(
            (
                self.host,
                {
                    "flow": self.flow,
                    "seen": len(self.events),
                    "table": table,
                    "family": "inet",
                    "chain": hook,
                    "handle": 3,
                    "rule": rule,
                    "type": "rule",
                    "verdict": verdict,
                    "iif": self.iif,
                    "oif": oif,
                    "mark": 0,
                    "src": src,
                    "dst": dst,
                    "sport": 61000,
                    "dport": 0,
                    "length": 84,
                    "direction": self.direction,
                },
            )
        )


def route(
    dst: str, dev: str | None, table: int = 254, via: str | None = None, kind: str = "unicast", metric: int = 0
) -> dict[str, t.Any]:
    return {
        "version": 4,
        "table": table,
        "dst": dst,
        "type": kind,
        "dev": dev,
        "via": via,
        "src": None,
        "metric": metric,
        "scope": "global",
        "protocol": 4,
        "mtu": None,
        "mtu_locked": False,
    }


def rule(
    priority: int, table: int | None, src: str | None = None, dst: str | None = None, action: str = "to_table"
) -> dict[str, t.Any]:
    found: dict[str, t.Any] = dict.fromkeys(
        [
            "protocol",
            "fwmark",
            "fwmask",
            "iif",
            "oif",
            "tos",
            "suppress_prefixlength",
            "suppress_ifgroup",
            "ipproto",
            "sport",
            "dport",
            "uidrange",
            "goto",
            "l3mdev",
        ]
    )
    return dict(
        found, version=4, priority=priority, action=action, table=table, src=src, dst=dst, invert=False, other=[]
    )
