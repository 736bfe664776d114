# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one node is for packets, in one reading: links, routes, rules, WireGuard, tables, settings, and the kernel's own answers."""

from __future__ import annotations

import typing as t

from ...._dataplane.constants import OWNER, is_our_alias
from ...._dataplane.peer_spec import handshake_age
from ...._linux.host import facts, pods, service_proxy, settings, tracking, users
from ...._linux.netlink import links, routes, rules, sockets
from ...._linux.nftables import table as nft
from ...._linux.stats import now
from ...._linux.wireguard.device import read_device
from ...._values.addresses import parse_address
from ...._values.refused import ValueRefused
from .. import persistence
from ..guard import FORWARDING
from ..kubespan.known_members import read_members
from ..status import read_sections
from ..tables import host_sources
from .record import Flow

Data = dict[str, t.Any]

#: A node with a full table of the internet has a million routes; a trace asks the kernel for its decision anyway.
_MOST_ROUTES = 20000
_ROUTE = ("version", "table", "dst", "type", "dev", "via", "src", "metric", "protocol", "mtu")
_MOST_PODS = 1000


def read_facts(fabric: str, flows: t.Sequence[Flow]) -> Data:
    """The facts of this node, now. What cannot be read is named in ``errors`` and missing."""
    found: Data = {"now": round(now(), 3), "errors": []}
    here = Pods(flows)
    read_sections(
        [
            ("links", _links),
            ("routes", lambda: _routes(found)),
            ("rules", lambda: [_short(rule) for version in (4, 6) for rule in rules.read_rules(version)]),
            ("devices", read_devices),
            ("tables", nft.list_base_chains),
            ("sets", lambda: _sets(fabric)),
            ("settings", _settings),
            ("pods", lambda: _pods(here)),
            ("kube_proxy", service_proxy.read),
            ("host_sources", lambda: list(host_sources(persistence.load_state(fabric)).values())),
            ("listeners", lambda: _listeners(flows, here)),
            ("members", lambda: read_members(fabric)),
            ("legacy_iptables", facts.has_legacy_iptables),
            ("units", lambda: facts.read_units([persistence.unit_name(fabric), persistence.watch_name(fabric)])),
            ("counters", read_counters),
        ],
        found,
    )
    return found


class Pods:
    """Network namespaces of this node that hold an address of the flows, looked for once."""

    def __init__(self, flows: t.Iterable[Flow]) -> None:
        texts = {address for flow in flows for address in (flow.source, *(address for address, _port in flow.targets))}
        self._ranges = [f"{text}/{parse_address(text).max_prefixlen}" for text in sorted(texts)]
        self._found: list[Data] | None = None

    def read(self) -> list[Data]:
        if self._found is None:
            self._found = pods.find_pods(self._ranges, _MOST_PODS)["pods"] if self._ranges else []
        return self._found

    def namespaces(self) -> dict[str, str | None]:
        """Address -> path of its namespace; None for an address of the host itself."""
        found: dict[str, str | None] = {
            address.text.partition("/")[0]: None for link in links.read_links() for address in link.addresses
        }
        found.update((address, pod["netns"]) for pod in self.read() for address in pod["addresses"] if pod["netns"])
        return found


def _links() -> list[Data]:
    found = links.read_links()
    names = {link.ifindex: link.name for link in found}
    return [
        {
            "name": link.name,
            "index": link.ifindex,
            "kind": link.kind,
            "up": link.up,
            "mtu": link.mtu,
            "master": names.get(link.master),
            "alias": link.alias,
            "owned": is_our_alias(link.alias),
            "addresses": sorted(address.text for address in link.addresses),
        }
        for link in found
    ]


def _pods(here: Pods) -> list[Data]:
    """``device``: the one behind which the pod is; None for an address of the host itself, and where the way to it leads to another machine."""
    rows = here.read()
    ways = routes.look_up([{"dst": row["addresses"][0]} for row in rows])
    own = {address.text.partition("/")[0] for link in links.read_links() for address in link.addresses}
    found = []
    for row, way in zip(rows, ways):
        near = row["netns"] and way.get("type") == "unicast" and (not way.get("via") or way["via"] in own)
        found.append({"addresses": row["addresses"], "netns": row["netns"], "device": way.get("dev") if near else None})
    return found


def _routes(found: Data) -> list[Data]:
    rows = [{name: route[name] for name in _ROUTE} for route in routes.read_all_routes()]
    if len(rows) > _MOST_ROUTES:
        found["errors"].append({"section": "routes", "message": f"{len(rows) - _MOST_ROUTES} routes are left out"})
    return rows[:_MOST_ROUTES]


def _short(rule: t.Mapping[str, t.Any]) -> Data:
    return {name: value for name, value in rule.items() if value is not None and value is not False and value != []}


def read_devices() -> list[Data]:
    """Every WireGuard device with its peers; the handshake's age in seconds is None where there was none."""
    moment = now()
    by_name = {link.name: link for link in links.read_links()}
    found = []
    for entry in users.read_wireguard():
        dump, link = read_device(entry["name"]), by_name.get(entry["name"])
        peers = [
            {
                "public_key": key,
                "endpoint": peer.endpoint,
                "allowed_ips": sorted(peer.allowed_ips),
                "handshake_age": handshake_age(peer.last_handshake, moment),
                "rx": peer.rx_bytes,
                "tx": peer.tx_bytes,
                "keepalive": peer.keepalive,
                "preshared": peer.preshared_key is not None,
            }
            for key, peer in sorted(dump.peers.items())
        ]
        found.append(
            {
                "name": entry["name"],
                "public_key": dump.public_key,
                "listen_port": dump.listen_port,
                "fwmark": dump.fwmark,
                "up": bool(link and link.up),
                "mtu": link.mtu if link else None,
                "owned": bool(link and is_our_alias(link.alias)),
                "peers": peers,
            }
        )
    return found


def _sets(fabric: str) -> list[Data]:
    """Sets of addresses in owned tables, each as the ranges that are in it: first and last address as numbers."""
    found = []
    for table in users.read_tables():
        if not is_our_alias(table["owner"], f"{OWNER}/{fabric}"):
            continue
        whole = nft.read_table(table["family"], table["name"]) or {"sets": []}
        for item in whole["sets"]:
            version = {"ipv4_addr": 4, "ipv6_addr": 6}.get(item["type"])
            if version is not None:
                spans = [[first, last] for first, last in item["elements"] or ()]
                found.append({"table": table["name"], "name": item["name"], "version": version, "spans": spans})
    return found


def _settings() -> Data:
    names = [link.name for link in links.read_links()]
    filters = {name: settings.reverse_path_filter(name) for name in ("all", "default", *names)}
    off = {name: settings.read("net", "ipv4", "conf", name, "forwarding") for name in names}
    return {
        "forwarding": {str(version): settings.read(*parts) for version, parts in FORWARDING.items()},
        "rp_filter": {name: value for name, value in filters.items() if value is not None},
        "src_valid_mark": settings.read("net", "ipv4", "conf", "all", "src_valid_mark"),
        "not_forwarding": sorted(name for name, value in off.items() if value == 0),
    }


def _listeners(flows: t.Sequence[Flow], here: Pods) -> list[Data]:
    """Who listens at the targets that are here: ``[{address: of the target, protocol, port}]``; a row without a port for each that was looked at."""
    namespaces = here.namespaces()
    desired = {address for flow in flows for address, _port in flow.targets}
    read = {
        netns: sockets.read_listeners(netns)
        for netns in {namespaces[address] for address in desired if address in namespaces}
    }
    found = []
    for address in sorted(desired & set(namespaces)):
        found.append({"address": address, "protocol": None, "port": None})
        for row in read[namespaces[address]]:
            # whether what listens takes packets to that address
            everybody = ("::",) if ":" in address else ("0.0.0.0", "" if row["only_v6"] else "::")
            if row["address"] == address or row["address"] in everybody:
                found.append({"address": address, "protocol": row["protocol"], "port": row["port"]})
    return found


def read_counters() -> Data:
    """What the kernel counts of packets that it did not take: by link, for reasons that have no rule, and since it could not track them."""
    return {"links": links.read_counters(), "ip": facts.read_ip_counters(), "tracking": tracking.read_tracking()}


def read_answers(flows: t.Sequence[Flow], questions: t.Sequence[t.Mapping[str, t.Any]]) -> list[Data]:
    """The kernel's answer to each question, and to those that the flows' ends on this node raise: the question with ``answer``."""
    there = links.link_names()
    rows = [_question(raw, there) for raw in questions] + _own_questions(flows)
    asked = [row for row in rows if "answer" not in row]
    for row, answer in zip(asked, routes.look_up(asked)):
        row["answer"] = answer
    return rows


def _question(raw: t.Mapping[str, t.Any], there: t.Container[str]) -> Data:
    """The question, with an answer at once where it is none for the kernel."""
    row: Data = dict(
        raw, dst=raw.get("dst"), src=raw.get("src") or None, iif=raw.get("iif") or None, mark=0, version=None
    )
    row.pop("answer", None)
    try:
        row["mark"] = int(raw.get("mark") or 0) & 0xFFFFFFFF
        row["version"] = parse_address(row["dst"]).version
        if row["src"] is not None and parse_address(row["src"]).version != row["version"]:
            raise ValueRefused("bad_address", f"{row['src']} and {row['dst']} are not of one family")
        if row["iif"] is not None and row["iif"] not in there:
            raise ValueRefused("bad_device", f"there is no device {row['iif']!r}")
        row.update({name: str(parse_address(row[name])) for name in ("dst", "src") if row[name] is not None})
    except (ValueError, TypeError) as error:
        row["answer"] = {"error": str(error)[:300]}
    return row


def _own_questions(flows: t.Sequence[Flow]) -> list[Data]:
    """out: where a packet of the pod goes; in: where the node hands on what comes for its pod; back: where the pod's answer goes."""
    ends = sorted(
        {address for flow in flows for address in (flow.source, *(address for address, _port in flow.targets))}
    )
    ways = dict(zip(ends, routes.look_up([{"dst": address} for address in ends])))
    own = {address.text.partition("/")[0] for link in links.read_links() for address in link.addresses}
    near = {
        address
        for address, way in ways.items()
        if address in own or (way["error"] is None and way["type"] == "unicast" and not way["via"])
    }

    def one(flow: Flow, way: str, src: str | None, dst: str, iif: str | None) -> Data:
        return {"flow": flow.id, "way": way, "dst": dst, "src": src, "iif": iif, "mark": 0, "version": flow.version}

    found = []
    for flow in flows:
        for address, _port in flow.targets:
            if flow.source in near:
                found.append(
                    one(flow, "out", flow.source, address, None if flow.source in own else ways[flow.source]["dev"])
                )
            if address in near:
                found.append(one(flow, "in", None, address, None))
                found.append(one(flow, "back", address, flow.source, None if address in own else ways[address]["dev"]))
    return found
