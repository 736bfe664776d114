# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What source clusters claim against what the inventory grants them: endpoints and ports (decisions 18 and 29, T7 to T9).

One pure stage between reading and building, without a switch to turn it off. API servers take most of these addresses:
they forward into their own nodes, pods and services whatever an EndpointSlice names.
"""

from __future__ import annotations

import re
import typing as t

from .._plan.plan import Refusal
from .._values.addresses import Address, Network, parse_address, parse_network, plain_address, special_kind
from .._values.exported_ranges import ExportedRanges
from .._values.prefix_sets import PrefixSet
from .._values.refused import ValueRefused, quoted
from .._values.text import in_short
from .endpoints import Endpoint, Group
from .mirror_services import Object

Grants = t.Mapping[str, t.Mapping[str, t.Iterable[str]]]
#: None: it holds; else (reason, why).
Verdict = t.Optional[tuple[str, str]]
RANGES = ("pod_cidrs", "service_cidrs", "node_cidrs", "wireguard_cidrs")
#: More endpoints of one Service than any cluster has are an attack on our memory (T21).
MOST_ENDPOINTS = 50_000
MOST_PORTS = 250
_HOSTNAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_OBJECT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?\Z")
_PORT_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_SHOWN = 5
_NEW = ("", "")
_IN_CLEAR = (
    "is a node's, of a pod on the host's network, and packets to it would leave unencrypted; exported_node_cidrs of its cluster "
    "takes them through the tunnels, and allow_host_network: clear accepts that they do not"
)


def host_network_too(request: t.Mapping[str, t.Any]) -> bool:
    """Whether endpoints on nodes' own addresses are written: the option ``allow_host_network`` of a module, which is off unless it is set."""
    return str(request.get("allow_host_network")) in ("true", "True", "clear")


class Guard:
    """The addresses that each source may name.

    ``servers``: addresses of API servers that the inventory names; nobody may name any of them. ``own_servers``: {cluster:
    addresses that the cluster itself calls its API server}; that cluster may not name them, to others it means nothing.
    ``allow_host_network``: node ranges count too. A node range that two clusters share does not identify the owner of an
    address, so it grants nothing. Without it an address in a source's own node range is ``host_network_in_clear``: the mesh
    carries pods, and packets to a node would leave outside of its tunnels (translation 7). ``exported``: how other clusters see pods of
    those that have a mapping, and its nodes. A source names addresses as its pods and nodes have them, also where another cluster has the same ones.
    """

    def __init__(
        self,
        grants: Grants,
        servers: t.Iterable[str] = (),
        own_servers: t.Mapping[str, t.Iterable[str]] | None = None,
        allow_host_network: bool = True,
        exported: t.Mapping[str, ExportedRanges] | None = None,
    ) -> None:
        mappings = exported or {}
        ranges = {
            name: {key: [parse_network(text) for text in given.get(key) or ()] for key in RANGES}
            for name, given in grants.items()
        }
        seen = {
            name: dict(own, pod_cidrs=_seen_networks(mappings[name], own["pod_cidrs"])) if name in mappings else own
            for name, own in ranges.items()
        }
        self._granted = {}
        self._others = {}
        self._nodes = {name: PrefixSet.of(own["node_cidrs"]) for name, own in ranges.items()}
        self._kinds = "pod and node ranges" if allow_host_network else "pod ranges"
        for name, own in ranges.items():
            carried = PrefixSet.of_texts(mappings[name].nodes) if name in mappings else PrefixSet()
            nodes = own["node_cidrs"] if allow_host_network else []
            self._granted[name] = PrefixSet.of(own["pod_cidrs"] + nodes) | carried
            of_others = [
                net for other, theirs in seen.items() if other != name for key in RANGES for net in theirs[key]
            ]
            # nobody else sees the addresses that its mapping hides
            others = PrefixSet.of(of_others)
            if name in mappings:
                others = others - mappings[name].hidden - carried
            self._others[name] = others | PrefixSet.of(own["service_cidrs"] + own["wireguard_cidrs"])
        common = _addresses(servers)
        self._servers = {name: common | _addresses((own_servers or {}).get(name) or ()) for name in ranges}
        self._server_texts = {name: {str(address) for address in found} for name, found in self._servers.items()}
        self._known: dict[str, dict[str, Verdict]] = {}

    def refusal(self, source: str, text: str) -> Verdict:
        """None when the source may name this address, else (reason, why)."""
        known = self.known(source)
        if text not in known:
            known[text] = None if self._plainly_holds(source, text) else self._judge(source, text)
        return known[text]

    def known(self, source: str) -> dict[str, Verdict]:
        """What was judged before of this source, by address."""
        return self._known.setdefault(source, {})

    def _plainly_holds(self, source: str, text: str) -> bool:
        """True for nearly all addresses of honest sources, quickly. False decides nothing."""
        number = plain_address(text)
        return (
            number is not None
            and source in self._granted
            and self._granted[source].has_v4(number)
            and not self._others[source].has_v4(number)
            and text not in self._server_texts[source]
        )

    def _judge(self, source: str, text: str) -> Verdict:
        try:
            address: Address = parse_address(text)
        except ValueRefused:
            return "special_address", "is no address"
        kind = special_kind(address)
        if kind:
            return "special_address", f"is {kind.replace('_', ' ')}"
        if source not in self._granted:
            return "outside_grant", "is named by a cluster that the inventory does not have"
        if address in self._servers[source]:
            return "special_address", "is an API server's"
        if address in self._others[source]:
            return "outside_grant", "is in a range of another cluster, or of services"
        if address not in self._granted[source]:
            if address in self._nodes[source]:
                return "host_network_in_clear", _IN_CLEAR
            return "outside_grant", f"is outside the {self._kinds} that the inventory grants {source}"
        return None


def _seen_networks(mapping: ExportedRanges, pods: t.Sequence[Network]) -> list[Network]:
    return [*mapping.accepted_networks(pods), *map(parse_network, mapping.exported_nodes)]


def _addresses(texts: t.Iterable[str]) -> set[Address]:
    found = set()
    for text in texts:
        try:
            found.add(parse_address(text))
        except ValueRefused:
            continue  # a name; its addresses are not known here
    return found


def check_groups(groups: t.Sequence[Group], source: str, label: str, guard: Guard) -> tuple[list[Group], list[Refusal]]:
    """The groups without what does not hold, and one refusal for each reason. ``label`` names the source object."""
    bad: dict[str, list[str]] = {}
    kept = []
    room = MOST_ENDPOINTS
    known = guard.known(source)
    for group in groups:
        if not ports_hold(group.ports):
            bad.setdefault("ports_invalid", []).append("a port that no Service can have")
            continue
        if len(group.endpoints) > room:
            bad.setdefault("source_incomplete", []).append(f"more than {MOST_ENDPOINTS} endpoints")
        endpoints = []
        either, six = group.family is None, group.family == "IPv6"
        for endpoint in group.endpoints[: max(0, room)]:
            texts, dummy, hostname, zone, node, target = endpoint
            # nearly all are one address that holds, and a pod
            if len(texts) == 1 and not (hostname or zone or node):
                verdict = known.get(texts[0], _NEW)
                if (
                    (guard.refusal(source, texts[0]) if verdict is _NEW else verdict) is None
                    and (either or (":" in texts[0]) == six)
                    and (target is None or _target_holds(target))
                ):
                    endpoints.append(endpoint)
                    continue
            held = _endpoint(endpoint, group.family, source, guard, bad)
            if held is not None:
                endpoints.append(held)
        room -= len(group.endpoints)
        kept.append(group._replace(endpoints=tuple(endpoints)))
    refusals = []
    for reason in sorted(bad):
        reported = sorted(set(bad[reason]))
        refusals.append(Refusal(label, reason, f"left out: {in_short(reported, _SHOWN, '; ')}"))
    return kept, refusals


def _endpoint(
    endpoint: Endpoint, family: str | None, source: str, guard: Guard, bad: dict[str, list[str]]
) -> Endpoint | None:
    """The endpoint with what of it holds, None without any address that does."""
    held = []
    for text in endpoint.addresses[:100]:
        refused = guard.refusal(source, text)
        if refused is None and family is not None and (":" in text) != (family == "IPv6"):
            refused = ("special_address", "is not of its slice's family")
        if refused is None:
            held.append(text)
        else:
            bad.setdefault(refused[0], []).append(f"{quoted(text)} {refused[1]}")
    if not held:
        return None
    if len(held) != len(endpoint.addresses):
        endpoint = endpoint._replace(addresses=tuple(held))
    return endpoint if endpoint.bare else _named(endpoint, bad)


def _named(endpoint: Endpoint, bad: dict[str, list[str]]) -> Endpoint:
    """The endpoint without those names that cannot be any."""
    if endpoint.hostname and not _HOSTNAME.match(endpoint.hostname):
        bad.setdefault("name_invalid", []).append(f"the hostname {quoted(endpoint.hostname)}")
        endpoint = endpoint._replace(hostname=None)
    if endpoint.zone and not _OBJECT.match(endpoint.zone):
        endpoint = endpoint._replace(zone=None)
    if endpoint.node and not _OBJECT.match(endpoint.node):
        endpoint = endpoint._replace(node=None)
    return endpoint if _target_holds(endpoint.target) else endpoint._replace(target=None)


def _target_holds(target: t.Mapping[str, str] | None) -> bool:
    if not target:
        return True
    whole = "".join(target.values())  # one look at all of them; nearly always that is the end of it
    if len(whole) <= 253:
        return whole.isprintable()
    return all(len(value) <= 253 and value.isprintable() for value in target.values())


def ports_hold(ports: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    """True when a Service or slice could have these ports."""
    return len(ports) <= MOST_PORTS and all(_port_holds(port) for port in ports)


def _port_holds(port: t.Any) -> bool:
    if not isinstance(port, dict):
        return False
    number, target = port.get("port"), port.get("targetPort")
    if not _is_port(number) or port.get("protocol", "TCP") not in _PROTOCOLS:
        return False
    if target is not None and not _is_port(target) and not (isinstance(target, str) and _PORT_NAME.match(target)):
        return False
    application = port.get("appProtocol")
    if application is not None and not (
        isinstance(application, str) and len(application) <= 253 and application.isprintable()
    ):
        return False
    name = port.get("name", "")
    return name in ("", None) or (isinstance(name, str) and bool(_PORT_NAME.match(name)))


def _is_port(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535


def check_service(service: Object) -> None:
    """Raises ValueRefused ports_invalid for ports that no Service can have, and for none where some are needed."""
    spec = service.get("spec")
    ports = spec.get("ports") if isinstance(spec, dict) else None
    if ports is None and isinstance(spec, dict) and spec.get("clusterIP") == "None":
        return
    if not isinstance(ports, list) or not ports or not ports_hold(ports):
        raise ValueRefused("ports_invalid", "it has ports that no Service can have, or none")
    keys = {(port.get("protocol", "TCP"), port["port"]) for port in ports}
    names = {port.get("name") for port in ports}
    if len(keys) < len(ports) or (len(ports) > 1 and len(names) < len(ports)):
        raise ValueRefused("ports_invalid", "two of its ports are the same")
    affinity = spec.get("sessionAffinityConfig") if isinstance(spec, dict) else None
    if affinity is not None and not _affinity_holds(affinity):
        raise ValueRefused("ports_invalid", "its session affinity is none")


def _affinity_holds(config: t.Any) -> bool:
    client = config.get("clientIP") if isinstance(config, dict) else None
    seconds = client.get("timeoutSeconds") if isinstance(client, dict) else None
    return (
        isinstance(config, dict)
        and set(config) <= {"clientIP"}
        and isinstance(client, dict)
        and set(client) <= {"timeoutSeconds"}
        and (seconds is None or (isinstance(seconds, int) and not isinstance(seconds, bool) and 0 < seconds <= 86400))
    )
