# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything about one node that a picture of the fabric needs, in one call: WireGuard, routes, rules, tables, units, and where its kernel sends packets for
the peers of its devices. Reads only."""

from __future__ import annotations

import os
import re
import typing as t

from ..._dataplane import paths
from ..._dataplane.constants import MAIN_TABLE, OWNER, ROUTE_PROTOCOL, is_our_alias
from ..._dataplane.peer_spec import LivePeer
from ..._linux.daemons import frr
from ..._linux.errors import LinuxError
from ..._linux.files import read_state, stamp
from ..._linux.host import facts, iptables, pods, service_proxy, settings, tracking, users
from ..._linux.netlink.links import read_links
from ..._linux.netlink.routes import look_up, read_all_routes, read_routes
from ..._linux.netlink.rules import read_rules
from ..._linux.nftables.table import read_table
from ..._linux.nftables.text import compile_chains
from ..._linux.programs import find_program
from ..._linux.stats import now
from ..._linux.wireguard.device import read_device
from ..._mesh.kubespan.generations import Layout
from ..._values.addresses import readable_address
from ..._values.refused import ValueRefused
from ..speakers.bgp import follow as speaker_follow
from ..speakers.layer2 import follow as layer2
from . import persistence, transaction
from .kubespan import preflight as kubespan_preflight

Data = dict[str, t.Any]


def read_paths(devices: t.Iterable[t.Mapping[str, t.Any]], addresses: t.Iterable[str] = (), mark: int = 0) -> Data:
    """{asked: count, elsewhere: [the first of what does not leave by its device], more: count of the rest}.

    devices: [{name, peers: [{allowed_ips}]}]; addresses: of pods of this node; mark: what packets for the peers carry.
    Raises LinuxError.
    """
    tunnels = [
        {"device": d["name"], "mark": mark, "ranges": [cidr for peer in d["peers"] for cidr in peer["allowed_ips"]]}
        for d in devices
    ]
    routes = read_all_routes()
    rules = [rule for version in (4, 6) for rule in read_rules(version)]
    asked = paths.questions(tunnels, routes, rules, _ways_in(list(addresses)))
    found = paths.elsewhere(asked, look_up(asked), routes, rules)
    return {"asked": len(asked), "elsewhere": found[: paths.SHOWN], "more": max(0, len(found) - paths.SHOWN)}


def stray_pods(pod_cidrs: t.Sequence[str], cluster_cidrs: t.Sequence[str], devices: t.Collection[str]) -> list[str]:
    """Addresses of pods here that are not from the node's own ranges, by the routes to them."""
    return paths.stray_hosts(read_all_routes(), pod_cidrs, cluster_cidrs, devices) if cluster_cidrs else []


def _ways_in(addresses: t.Sequence[str]) -> list[Data]:
    """By which device each pod's packets come in: the one that leads to it. An address of the host itself comes in by none."""
    answers = look_up([{"dst": address} for address in addresses])
    return [
        {"address": address, "iif": answer["dev"]}
        for address, answer in zip(addresses, answers)
        if answer["error"] is None and answer["type"] == "unicast" and answer["dev"]
    ]


def source_addresses(endpoints: t.Sequence[str | None], fwmark: int = 0) -> list[str | None]:
    """For each peer's endpoint, the address that this host's packets to it leave with; None where there is no way."""
    hosts = [_host_of(endpoint) for endpoint in endpoints]
    answers = iter(look_up([{"dst": host, "mark": fwmark} for host in hosts if host]))
    return [(next(answers).get("src") if host else None) for host in hosts]


def _host_of(endpoint: t.Any) -> str:
    text = str(endpoint or "").rpartition(":")[0].strip("[]")
    return str(readable_address(text) or "")  # none, or one with a scope


#: What the kernel must be able to do, by the names of its parts.
PARTS = ("wireguard", "nf_tables", "tun")
PROGRAMS = {
    "ip": ["-V"],
    "nft": ["--version"],
    "wg": ["--version"],
    "wireguard-go": ["--version"],
    "systemctl": ["--version"],
    "python3": ["--version"],
    "vtysh": ["--version"],
}
#: So many pods are looked into at most, eight namespaces each.
_PODS = 20


def run(request: t.Mapping[str, t.Any]) -> Data:
    """The module's result. ``request``: {fabric, tables: [number], checks: bool, controller_time, kubespan: layout or None, support: bool, journal_lines,
    pod_cidrs, cluster_cidrs: with checks, the ranges of the node and of its cluster}.

    What cannot be read is named in ``errors`` and missing; the rest goes on. Never contains a private or preshared key.
    """
    node: Data = {"now": round(now(), 3), "errors": []}
    fabric = request["fabric"]
    units = [persistence.unit_name(fabric), persistence.watch_name(fabric)]
    tables = sorted({MAIN_TABLE, Layout().route_table, *(request.get("tables") or ())})
    sections: list[tuple[str, t.Callable[[], t.Any]]] = [
        ("host", _host),
        ("devices", _devices),
        ("routes", lambda: _routes(tables)),
        ("rules", _rules),
        ("tables", lambda: _tables(fabric)),
        ("units", lambda: [unit for unit in facts.read_units(units) if unit["load"] != "not-found"]),
        ("bgp", read_bgp),
        ("layer2", layer2.shown),
        ("service_proxy", service_proxy.read),
        ("tracking", tracking.read_tracking),
        ("discovery", lambda: read_discovery(fabric)),
        ("keys", lambda: _keys(fabric)),
        ("pending", lambda: (transaction.pending(fabric) or {}).get("id")),
    ]
    if request.get("checks"):
        node["pod_cidrs"] = list(request.get("pod_cidrs") or ())
        sections += [
            ("udp_ports", users.read_udp_ports),
            (
                "marks",
                lambda: [
                    {"who": row["who"], "mark": row["mark"], "mask": row["mask"]} for row in users.read_mark_users()
                ],
            ),
            ("rp_filter", lambda: {"all": settings.reverse_path_filter("all")}),
            ("uplinks", _uplinks),
            ("ipv6_off", settings.ipv6_off),
            ("filters", iptables.read_rules),
            ("forward_drops", iptables.dropping_chains),
            ("free_bytes", lambda: free_bytes(persistence.state_path(fabric))),
            ("ranges", _ranges),
            ("wireguard", _wireguard),
            ("prefix_nat", _prefix_nat),
            ("conntrack_list", tracking.has_list),
            ("strays", lambda: _strays(request)),
            ("sources", _sources),
        ]
        if request.get("kubespan") is not None:
            layout = Layout(**dict(Layout()._asdict(), **request["kubespan"]))
            owner = f"{OWNER}/{fabric}"
            sections.append(
                ("conflicts", lambda: [found._asdict() for found in kubespan_preflight.find(layout, owner)])
            )
        if request.get("controller_time"):
            node["skew"] = round(node["now"] - float(request["controller_time"]), 3)
    if request.get("support"):
        sections += [
            ("versions", lambda: facts.read_versions(PROGRAMS)),
            ("journal", lambda: facts.read_journal(units, int(request.get("journal_lines") or 200))),
            ("state", lambda: persistence.load_json(persistence.state_path(fabric))),
            ("configs", lambda: _configs(fabric)),
        ]
    read_sections(sections, node)
    return {"changed": False, "node": node, "refused": []}


def read_discovery(fabric: str) -> Data | None:
    """What the watcher shows of the discovery service, with ``labels`` of peers by public key; None without one."""
    shown = persistence.load_json(persistence.run_files(fabric)[1]) or {}
    if not isinstance(shown.get("discovery"), dict):
        return None
    labels = {row["public_key"]: row["label"] for row in shown.get("peers") or () if row.get("label")}
    return dict(shown["discovery"], labels=labels)


def free_bytes(path: str) -> int:
    """What an administrator can still write where a file is, or will be."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    room = os.statvfs(folder)
    return room.f_bfree * room.f_frsize


def read_sections(sections: t.Iterable[tuple[str, t.Callable[[], t.Any]]], found: Data) -> None:
    """Each section into what was found. One that cannot be read is named in its ``errors``, and the rest goes on."""
    for name, read in sections:
        try:
            found[name] = read()
        except (LinuxError, OSError, ValueError) as error:
            found["errors"].append({"section": name, "message": str(error)[:500]})


def _strays(request: t.Mapping[str, t.Any]) -> list[str]:
    """Addresses of pods here that are in the cluster's ranges and not in the node's."""
    own, cluster = request.get("pod_cidrs") or (), request.get("cluster_cidrs") or ()
    if not cluster or not own:
        return []
    owned = [link.name for link in read_links() if is_our_alias(link.alias)]
    return sorted({*pods.find_pods(own, _PODS, cluster)["strays"], *stray_pods(own, cluster, owned)})


def _sources() -> dict[str, str | None]:
    """Endpoint of a peer of an owned device -> the address that packets to it leave with."""
    found: dict[str, str | None] = {}
    for device in _devices():
        if device["owned"]:
            endpoints = [peer["endpoint"] or "" for peer in device["peers"]]
            found.update(zip(endpoints, source_addresses(endpoints, device["fwmark"] or 0)))
    return found


def _host() -> Data:
    found = facts.read_host()
    kernel = facts.read_kernel(PARTS)
    return {
        "hostname": found["hostname"],
        "operating_system": found["operating_system"],
        "kernel": kernel["release"],
        "machine": kernel["machine"],
        "parts": kernel["parts"],
        "addresses": sorted(row["address"] for row in found["configured"] if row["scope"] == "global"),
    }


def _devices() -> list[Data]:
    """Every WireGuard device, whoever made it, with its peers as the kernel has them."""
    kinds = {entry["name"]: entry for entry in users.read_wireguard()}
    found = []
    for link in read_links() if kinds else ():
        if link.name not in kinds:
            continue
        dump = read_device(link.name)
        found.append(
            {
                "name": link.name,
                "kind": link.kind,
                "alias": link.alias,
                "owned": is_our_alias(link.alias),
                "up": link.up,
                "mtu": link.mtu,
                "addresses": sorted(address.text for address in link.addresses),
                "public_key": dump.public_key,
                "listen_port": dump.listen_port,
                "fwmark": dump.fwmark,
                "peers": [_peer(key, dump.peers[key]) for key in sorted(dump.peers)],
            }
        )
    return sorted(found, key=lambda row: str(row["name"]))


def _keys(fabric: str) -> list[Data]:
    """[{path, since: epoch}] of the private keys of our devices: when each was written, and nothing of what is in it."""
    paths = sorted(set(_key_files(persistence.load_json(persistence.state_path(fabric)))))
    stamps = [(path, stamp(path)) for path in paths]
    return [{"path": path, "since": found[1] // 10**9} for path, found in stamps if found]


def _key_files(state: t.Any) -> t.Iterator[str]:
    """The paths that an owned state names as its devices' keys."""
    for name, value in state.items() if isinstance(state, dict) else ():
        if name == "private_key_file" and isinstance(value, str):
            yield value
        else:
            for one in value if isinstance(value, list) else [value]:
                yield from _key_files(one)


def _configs(fabric: str) -> Data:
    """Files that we write for other programs: units, and the speaker's configuration without its passwords."""
    found = {
        path: read_state(path)
        for path in (persistence.unit_files(fabric)[0], speaker_follow.running_daemon().config_file())
    }
    secret = re.compile(r"(?m)(\bpassword\s+)\S+", re.ASCII)
    return {
        path: secret.sub(r"\1[redacted]", state.content.decode("utf-8", "replace"))
        for path, state in found.items()
        if state and state.kind == "file"
    }


def _uplinks() -> list[Data]:
    """Devices of default routes, by which tunnels leave, with their MTU."""
    mtus = {link.name: link.mtu for link in read_links()}
    owned = {device["name"] for device in users.read_wireguard()}
    defaults = {
        (route["dev"], route["version"])
        for route in read_routes(MAIN_TABLE)
        if route["dst"] in ("0.0.0.0/0", "::/0") and route["dev"]
    }
    return [
        {"device": name, "version": version, "mtu": mtus[name]}
        for name, version in sorted(defaults)
        if name in mtus and name not in owned
    ]


def _ranges() -> list[str]:
    """Networks that this host has on its own links."""
    owned = {link.name for link in read_links() if is_our_alias(link.alias)}
    return sorted(
        row["address"]
        for row in facts.read_host()["configured"]
        if row["scope"] == "global" and row["device"] not in owned
    )


def _wireguard() -> str:
    """``kernel``, ``userspace``, ``no_tun`` (wireguard-go is there and its device is not), or ``missing``."""
    if facts.read_kernel(["wireguard"])["parts"]["wireguard"] != "missing":
        return "kernel"
    if find_program("wireguard-go") is None:
        return "missing"
    return "userspace" if facts.exists("/dev/net/tun") else "no_tun"


def _prefix_nat() -> str:
    """Why nft and the kernel do not take a map of prefixes, seen in a network namespace that goes again; empty where they do."""
    rule = "snat ip prefix to ip saddr map { 192.0.2.0/24 : 192.0.2.0/24 }"
    chain = {"name": "out", "type": "nat", "hook": "postrouting", "priority": 99, "policy": "accept", "rules": [rule]}
    try:
        compile_chains({"family": "inet", "name": "probe", "sets": [], "chains": [chain]})
    except LinuxError as error:
        return error.message
    return ""


def read_bgp() -> Data | None:
    """What our speaker announces, and to whom; None where there is none."""
    if not facts.exists(frr.RUN):
        return None
    daemon = speaker_follow.running_daemon()
    try:
        sessions = daemon.sessions()
        announces, uncarried = speaker_follow.announced(daemon)
    except ValueRefused:
        return None
    reported = speaker_follow.read_status()
    held = {} if reported.get("stopped") else reported.get("withheld") or {}
    since = speaker_follow.parse_since(reported.get("since"))
    return {
        "announces": announces,
        "uncarried": uncarried,
        "withheld": sorted(held),
        "since": {network: since[network] for network in announces if network in since},
        "sessions": [{"neighbor": name, "state": sessions[name]} for name in sorted(sessions)],
    }


def _peer(key: str, peer: LivePeer) -> Data:
    return {
        "public_key": key,
        "endpoint": peer.endpoint,
        "allowed_ips": sorted(peer.allowed_ips),
        "keepalive": peer.keepalive,
        "handshake": int(peer.last_handshake),
        "rx": peer.rx_bytes,
        "tx": peer.tx_bytes,
        "preshared": peer.preshared_key is not None,
    }


def _routes(tables: t.Sequence[int]) -> list[Data]:
    """Routes of the tables that we write, without those that the kernel makes by itself."""
    found = [
        route
        for table in tables
        for route in read_routes(table)
        if route["protocol"] not in (0, 2) or route["protocol"] == ROUTE_PROTOCOL
    ]
    names = ("table", "dst", "type", "dev", "via", "metric", "protocol", "mtu")
    return [{name: route.get(name) for name in names} for route in found][:2000]


def _rules() -> list[Data]:
    names = ("version", "priority", "action", "table", "protocol", "fwmark", "fwmask", "src", "dst", "iif", "oif")
    found = [rule for version in (4, 6) for rule in read_rules(version)]
    return [
        {name: rule[name] for name in names if rule[name] is not None}
        for rule in found
        if rule["priority"] not in (0, 32766, 32767)
    ][:500]


def _tables(fabric: str) -> list[Data]:
    """All tables of nftables with their owners; of owned ones also the sets with how much is in each."""
    found = []
    for table in users.read_tables():
        row = dict(table, owned=is_our_alias(table["owner"], f"{OWNER}/{fabric}"))
        if row["owned"]:
            whole = read_table(table["family"], table["name"]) or {"sets": [], "chains": []}
            row["sets"] = [{"name": item["name"], "elements": len(item["elements"] or ())} for item in whole["sets"]]
            row["chains"] = [{"name": chain["name"], "rules": len(chain["rules"])} for chain in whole["chains"]]
        found.append(row)
    return found
