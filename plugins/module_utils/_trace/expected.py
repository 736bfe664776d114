# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way that a packet should take: from node to node by what the nodes' kernels have, up to the first thing that stops it. Pure.

Each step says what decides, how to see it by hand and where it comes from. What the facts do not tell is ``unknown``: never a fault.
"""

from __future__ import annotations

import typing as t

from .._dataplane.constants import MAIN_TABLE, TABLE_NAMES
from .._mesh.kubespan.generations import PEER_DOWN_INTERVAL, Layout
from . import causes
from .causes import BACK, DELIVERED, FORWARD, IN, LIKELY, OUT, TUNNEL, Fault, argument, place_text, printable
from .facts import Device, Node, Peer, Route, Rule

LOCAL, LEAVES, BLOCKED, NOWHERE, UNKNOWN = "local", "leaves", "blocked", "nowhere", "unknown"
#: A session that is older than this is none (WireGuard's REJECT_AFTER_TIME), in seconds.
SESSION = 180


class Packet(t.NamedTuple):
    """What routing sees of a packet."""

    version: int
    src: int
    dst: int
    protocol: str = "icmp"
    port: t.Optional[int] = None

    def back(self) -> "Packet":
        """Its answer, which is for a port that nobody listens on."""
        return self._replace(src=self.dst, dst=self.src, port=None)


class Decision(t.NamedTuple):
    """Where a node's kernel sends a packet, and by what."""

    kind: str
    dev: t.Optional[str] = None
    via: t.Optional[str] = None
    route: t.Optional[Route] = None
    rule: t.Optional[Rule] = None


class Step(t.NamedTuple):
    """One thing that decides. ``dev``: by which the packet leaves there, if it is about that."""

    host: str
    stage: int
    what: str
    text: str
    command: str
    source: str
    dev: t.Optional[str] = None


class Walk(t.NamedTuple):
    """A way. ``arrived``: whether the facts lead to the target; ``fault``: what stops it; neither: it leaves what is known, as ``unknown`` says."""

    steps: t.Tuple[Step, ...]
    arrived: bool
    fault: t.Optional[Fault]
    unknown: str = ""


class Mesh(t.NamedTuple):
    """What the plan says. ``devices``: {cluster: {remote cluster: device}}; ``whole``: the one device of a KubeSpan mesh, "" for none. ``endpoints``:
    {host: where it should be found}. ``shared``: {public key: who have it}, of keys that several have."""

    devices: t.Mapping[str, t.Mapping[str, str]] = {}
    whole: str = ""
    endpoints: t.Mapping[str, t.Tuple[t.Tuple[int, int, int], ...]] = {}
    shared: t.Mapping[str, t.Tuple[str, ...]] = {}

    def device(self, here: Node, there: Node) -> t.Optional[str]:
        """The device by which one node reaches another, None where the mesh has none between them."""
        if self.whole:
            return self.whole
        return (self.devices.get(here.cluster) or {}).get(there.cluster)


_KERNEL_RULES = tuple((priority, table) for priority, table in ((0, 255), (32766, 254), (32767, 253)))


def rules_of(node: Node, version: int) -> t.Sequence[Rule]:
    """A node's rules; those that every kernel has where none were read."""
    every = (0, (1 << (32 if version == 4 else 128)) - 1)
    return node.rules.get(version) or [
        Rule(version, priority, "to_table", table, None, 0, every, every, None, None, False, None, True) for priority, table in _KERNEL_RULES
    ]


def selects(rule: Rule, src: t.Optional[int], dst: int, iif: t.Optional[str], mark: int) -> bool:
    """Whether a rule takes a packet, by those of its selectors that are understood."""
    found = rule.src[0] <= (src or 0) <= rule.src[1] and rule.dst[0] <= dst <= rule.dst[1] and rule.oif is None
    found = found and (rule.iif is None or rule.iif == (iif or "lo"))
    found = found and (rule.fwmark is None or mark & rule.fwmask == rule.fwmark & rule.fwmask)
    return found != rule.invert


def find_route(node: Node, version: int, table: int, dst: int) -> t.Optional[Route]:
    """The route of a table for an address: they are in order."""
    return next((route for route in node.routes.get((version, table), ()) if route.first <= dst <= route.last), None)


def decide(node: Node, version: int, dst: int, src: t.Optional[int], iif: t.Optional[str], mark: int) -> Decision:
    """What the node's kernel decides, from its rules and routes; its own word counts where it was asked the very question."""
    found = _decide(node, version, dst, src, iif, mark)
    said = node.answers.get((place_text(version, dst), place_text(version, src) if src is not None else None, iif, mark))
    if said is None or found.kind == BLOCKED:
        return found
    if said.get("error"):
        return found if found.kind == NOWHERE or not node.forwarding.get(version, True) else Decision(NOWHERE)
    kind = LOCAL if said.get("type") == "local" else LEAVES if said.get("type") == "unicast" else BLOCKED
    dev = said.get("dev") if isinstance(said.get("dev"), str) else None
    if (kind, dev) == (found.kind, found.dev) or kind == found.kind == LOCAL:
        return found
    table = said.get("table") if isinstance(said.get("table"), int) else None
    route = find_route(node, version, table, dst) if table is not None else None
    rule = next((rule for rule in rules_of(node, version) if rule.table == table), None) if table is not None else None
    return Decision(kind, dev, said.get("via") if isinstance(said.get("via"), str) else None, route, rule)


def _decide(node: Node, version: int, dst: int, src: t.Optional[int], iif: t.Optional[str], mark: int) -> Decision:
    for rule in rules_of(node, version):
        if not selects(rule, src, dst, iif, mark):
            continue
        if rule.action != "to_table" or rule.table is None:
            if rule.action == "nop":
                continue
            return Decision(BLOCKED, rule=rule) if rule.understood else Decision(UNKNOWN, rule=rule)
        route = find_route(node, version, rule.table, dst)
        if route is None or route.kind == "throw" or (rule.suppress is not None and route.length <= rule.suppress):
            continue
        if not rule.understood:
            return Decision(UNKNOWN, rule=rule)
        if route.kind in ("local", "broadcast", "anycast"):
            return Decision(LOCAL, route.dev, None, route, rule)
        if route.kind != "unicast":
            return Decision(BLOCKED, None, None, route, rule)
        if route.via == "several" or route.dev is None:
            return Decision(UNKNOWN, None, route.via, route, rule)
        return Decision(LEAVES, route.dev, route.via, route, rule)
    return Decision(NOWHERE)


def table_text(table: t.Optional[int]) -> str:
    """A table by the name that people know."""
    return "-" if table is None else TABLE_NAMES.get(table, str(table))


def route_text(route: t.Optional[Route]) -> str:
    """A route as people write it."""
    if route is None:
        return "no route"
    words = [] if route.kind == "unicast" else [route.kind]
    words.append("{0}/{1}".format(place_text(route.version, route.first), route.length))
    words += ["via", printable(route.via)] if route.via else []
    words += ["dev", printable(route.dev)] if route.dev else []
    return "route {0} table {1}".format(" ".join(words), table_text(route.table))


def rule_text(rule: Rule) -> str:
    """A rule as people write it."""
    words = ["rule {0}:".format(rule.priority)]
    words += ["not"] if rule.invert else []
    every = (0, (1 << (32 if rule.version == 4 else 128)) - 1)
    words += ["from {0}-{1}".format(*(place_text(rule.version, part) for part in rule.src))] if rule.src != every else []
    words += ["to {0}-{1}".format(*(place_text(rule.version, part) for part in rule.dst))] if rule.dst != every else []
    words += ["iif " + printable(rule.iif)] if rule.iif else []
    words += ["fwmark {0:#x}/{1:#x}".format(rule.fwmark, rule.fwmask)] if rule.fwmark is not None else []
    return " ".join([*words, "lookup {0}".format(table_text(rule.table)) if rule.table is not None else printable(rule.action)])


def by_text(decision: Decision) -> str:
    """What decided."""
    if decision.rule is not None and decision.route is None:
        return rule_text(decision.rule)
    text = route_text(decision.route)
    if decision.rule is not None and decision.rule.table not in TABLE_NAMES:
        return "{0} by {1}".format(text, rule_text(decision.rule))
    return text


def get_command(packet: Packet, iif: t.Optional[str], mark: int) -> str:
    """How to ask the kernel by hand."""
    words = ["ip route get", place_text(packet.version, packet.dst), "from", place_text(packet.version, packet.src)]
    words += ["iif", argument(iif)] if iif else []
    return " ".join(words + (["mark", hex(mark)] if mark else []))


def in_set(node: Node, version: int, number: int) -> bool:
    """Whether our table's set has an address."""
    return any(first <= number <= last for first, last in (node.sets or {}).get(version, ()))


def mark_of(node: Node, mesh: Mesh, version: int, dst: int) -> int:
    """The mark that our table gives a packet for an address."""
    if not in_set(node, version, dst):
        return 0
    rule = our_rule(node, mesh, version)
    return Layout().mark_to_wireguard if rule is None or not rule.fwmark else rule.fwmark


def our_rule(node: Node, mesh: Mesh, version: int) -> t.Optional[Rule]:
    """The rule of a KubeSpan mesh: by a mark, to the table that has its device."""
    for rule in rules_of(node, version):
        if rule.fwmark is None or rule.table in TABLE_NAMES or rule.table is None:
            continue
        if rule.table == Layout().route_table or any(route.dev == mesh.whole for route in node.routes.get((version, rule.table), ())):
            return rule
    return None


class Walker:
    """Ways through the facts of nodes, with what the mesh's plan says of them."""

    def __init__(self, nodes: t.Mapping[str, Node], mesh: Mesh, silent: t.Optional[t.Mapping[str, str]] = None) -> None:
        self.nodes, self.mesh, self.silent = nodes, mesh, silent or {}
        self._holders: t.Dict[str, t.List[str]] = {}
        for host in sorted(nodes):
            for device in nodes[host].devices.values():
                self._holders.setdefault(device.public_key, []).append(host)

    def walk(self, packet: Packet, start: str, end: str, from_pod: bool, direction: str = FORWARD) -> Walk:
        """The way of a packet from a node to another, which the cluster says has the target."""
        steps: t.List[Step] = []
        missing = next((host for host in (start, end) if host not in self.nodes), None)
        if missing is not None:
            return Walk((), False, None, "{0} did not say what it has{1}".format(missing, self._why(missing)))
        here, there = self.nodes[start], self.nodes[end]
        iif = self._way_in(here, packet) if from_pod else None
        if from_pod and iif:
            fault = self._reverse(here, packet, iif, 0)
            if fault is not None:
                return Walk(tuple(steps), False, fault)
        if here.host != there.host:
            step, fault, unknown = self._leave(here, there, packet, iif, direction)
            steps += [step] if step else []
            if fault is not None or unknown or step is None or step.dev is None:
                return Walk(tuple(steps), False, fault, unknown)
            device = here.devices.get(step.dev)
            if device is None:
                found = Walk(tuple(steps), False, None, "the mesh has no tunnel between {0} and {1}: what lies between them is not ours".format(start, end))
                if self.mesh.device(here, there) is not None:
                    return found
                iif = None  # an ordinary network between two nodes: its own devices are not known
            else:
                step, fault = self._tunnel(here, device, there, packet)
                steps += [step] if step else []
                if fault is not None:
                    return Walk(tuple(steps), False, fault)
                inner = self._device_of(there, here, device)
                iif = inner.name if inner else None
                fault = self._reverse(there, packet, iif, 0) if iif else None
                if fault is not None:
                    return Walk(tuple(steps), False, fault)
        step, fault, unknown = self._deliver(there, packet, iif)
        steps += [step] if step else []
        return Walk(tuple(steps), fault is None and not unknown, fault, unknown)

    def proxied(self, packet: Packet, start: str, dialled: t.Optional[int]) -> t.Optional[Fault]:
        """Why the address of a Service does not become that of an endpoint: who would do it does not run."""
        here = self.nodes.get(start)
        if here is None or dialled is None or dialled == packet.dst or here.kube_proxy is not False:
            return None
        found = decide(here, packet.version, dialled, packet.src, self._way_in(here, packet), 0)
        text = "no kube-proxy runs on {0}, and nothing else turns {1} into {2}".format(
            start, place_text(packet.version, dialled), place_text(packet.version, packet.dst)
        )
        dev = found.dev if found.kind == LEAVES else None
        return Fault(causes.KUBE_PROXY_OFF, start, IN, text, start, "nft list ruleset", dev, LIKELY)

    def _why(self, host: str) -> str:
        return ": " + printable(self.silent[host]) if self.silent.get(host) else ""

    # -- on a node -----------------------------------------------------------------------------------------------------

    def _way_in(self, node: Node, packet: Packet) -> t.Optional[str]:
        """The device by which a pod's packets come: the one that leads to the pod."""
        known = node.pods.get((packet.version, packet.src))
        if known:
            return known
        found = decide(node, packet.version, packet.src, None, None, 0)
        return found.dev if found.kind == LEAVES else None

    def _reverse(self, node: Node, packet: Packet, iif: str, mark: int) -> t.Optional[Fault]:
        """The reverse-path filter: IPv4 alone, the stricter of all and the device."""
        if packet.version != 4 or not node.rp_filter:
            return None
        level = max(node.rp_filter.get("all", 0), node.rp_filter.get(iif, 0))
        if level == 0:
            return None
        mark = mark_of(node, self.mesh, 4, packet.src) if node.valid_mark else mark
        found = decide(node, 4, packet.src, packet.dst, None, mark)
        link = node.links.get(iif)
        # a device without an address of its own is as strict when it should be loose
        loose = level == 2 and (link is None or link.numbered)
        if found.kind == UNKNOWN or (found.kind == LEAVES and (loose or found.dev == iif)):
            return None
        text = "{0} takes nothing from {1} by {2}: its way back is {3}, and the reverse-path filter of {2} is {4}".format(
            node.host, place_text(4, packet.src), printable(iif), by_text(found), "strict" if level == 1 else "loose"
        )
        if iif in node.devices and self._own_route(node, 4, iif, packet.back(), self.mesh.whole)[0] is None:
            text += "; a route to it by {0} is missing".format(printable(iif))
            return Fault(causes.ROUTE_MISSING, node.host, IN, text, node.host, get_command(packet.back(), None, mark))
        return Fault(causes.REVERSE_PATH_FILTER, node.host, IN, text, node.host, "sysctl net.ipv4.conf.{0}.rp_filter".format(argument(iif)))

    def _leave(
        self, here: Node, there: Node, packet: Packet, iif: t.Optional[str], direction: str
    ) -> t.Tuple[t.Optional[Step], t.Optional[Fault], str]:
        """How the packet leaves a node for another."""
        version, mark = packet.version, mark_of(here, self.mesh, packet.version, packet.dst) if self.mesh.whole else 0
        wanted = self.mesh.device(here, there) or self._guess(here, there, packet)
        command = get_command(packet, iif, mark)
        if iif is not None and not here.forwards(version, iif):
            text = "{0} passes nothing on: forwarding of IPv{1} is off".format(here.host, version)
            name = "net.ipv4.ip_forward" if version == 4 else "net.ipv6.conf.all.forwarding"
            return None, Fault(causes.FORWARDING_OFF, here.host, IN, text, here.host, "sysctl " + name), ""
        found = decide(here, version, packet.dst, packet.src, iif, mark)
        if found.kind == UNKNOWN:
            return None, None, "{0} decides by {1}, which asks for more than is known here".format(here.host, by_text(found))
        if wanted is not None and (found.kind != LEAVES or found.dev != wanted):
            device = here.devices.get(found.dev or "")
            if device is not None and self._leads(device, there, packet):
                wanted = device.name  # by another tunnel of the same node
            else:
                return None, self._diverted(here, there, packet, wanted, found, direction, command), ""
        elif wanted is None and found.kind != LEAVES:
            text = "{0} has no way to {1}: {2}".format(here.host, place_text(version, packet.dst), by_text(found))
            return None, Fault(causes.ROUTE_MISSING, here.host, IN, text, here.host, command), ""
        source = "pod_cidrs of cluster {0}".format(there.cluster) if here.cluster != there.cluster else "the cluster's own network"
        text = "{0} to {1}".format(by_text(found), printable(found.dev))
        if mark:
            text = "mark {0:#x}, {1}".format(mark, text)
        return Step(here.host, OUT, "route", text, command, source, found.dev), None, ""

    def _leads(self, device: Device, there: Node, packet: Packet) -> bool:
        peer = device.peer_for(packet.version, packet.dst)
        return peer is not None and there.host in self._holders.get(peer.public_key, ())

    def _guess(self, here: Node, there: Node, packet: Packet) -> t.Optional[str]:
        """The tunnel between two nodes by their keys, where no plan says it."""
        if self.mesh.devices or self.mesh.whole:
            return None
        keys = {device.public_key for device in there.devices.values()}
        for device in here.devices.values():
            if any(peer.public_key in keys for peer in device.peers):
                return device.name
        return next((name for name, device in here.devices.items() if device.peer_for(packet.version, packet.dst) is not None), None)

    def _diverted(
        self, here: Node, there: Node, packet: Packet, wanted: str, found: Decision, direction: str, command: str
    ) -> Fault:
        """Why a packet does not leave by the device that it should."""
        version, target = packet.version, place_text(packet.version, packet.dst)
        dev = found.dev if found.kind == LEAVES else None
        show = "ip -d link show {0}".format(argument(wanted))

        def fault(cause: str, text: str, hand: str = command, confidence: str = causes.PROVEN) -> Fault:
            return Fault(cause, here.host, IN, text, here.host, hand, dev, confidence)

        link, device = here.links.get(wanted), here.devices.get(wanted)
        if link is None and device is None and "links" not in here.left_out:
            return fault(causes.DEVICE_MISSING, "{0} has no device {1}, by which it reaches cluster {2}".format(here.host, wanted, there.cluster), show)
        if link is not None and not link.up:
            return fault(causes.DEVICE_DOWN, "the device {1} of {0} is down".format(here.host, wanted), show)
        took = "{0} sends {1} by {2}".format(here.host, target, by_text(found)) if found.kind == LEAVES else "{0}: {1} for {2}".format(
            here.host, by_text(found) if found.kind != NOWHERE else "no route", target
        )  # fmt: skip
        if self.mesh.whole:
            early = self._not_marked(here, there, device, packet, fault, took)
            if early is not None:
                return early
        own, rule = self._own_route(here, version, wanted, packet, self.mesh.whole)
        if own is None:
            what = "its rule for marked packets" if self.mesh.whole and our_rule(here, self.mesh, version) is None else "a route to it by " + wanted
            return fault(causes.ROUTE_MISSING, "{0}; {1} is missing".format(took, what))
        if direction == BACK and found.kind == LEAVES:
            return fault(causes.ANSWER_ANOTHER_WAY, "the answer does not go back by {0}: {1}".format(wanted, took))
        if found.kind == NOWHERE:
            return fault(causes.NOT_EXPLAINED, "{0}, though {1} is there".format(took, route_text(own)), confidence=causes.UNEXPLAINED)
        if found.rule is not None and rule is not None and found.rule != rule:
            text = "{0}; {1} comes before {2}".format(took, rule_text(found.rule), rule_text(rule))
            return fault(causes.RULE_SHADOWED, text)
        if found.kind == BLOCKED and found.route is None:
            return fault(causes.RULE_SHADOWED, took)
        return fault(causes.ROUTE_SHADOWED, "{0}; it is narrower than ours, or has a better metric: {1}".format(took, route_text(own)))

    def _not_marked(
        self, here: Node, there: Node, device: t.Optional[Device], packet: Packet, fault: t.Callable[..., Fault], took: str
    ) -> t.Optional[Fault]:
        """Why the table of a KubeSpan mesh does not mark a packet; None where it does."""
        version, target = packet.version, place_text(packet.version, packet.dst)
        if in_set(here, version, packet.dst):
            return None
        text = "{0}; {1} is in no set of the mesh's table".format(took, target)
        if device is not None:
            peer = device.peer_for(version, packet.dst)
            known = self._device_of(there, here, device) is not None  # else nobody can tell whose key that of a peer is
            if known and (peer is None or not self._is_of(peer, there)):
                return self._wrong_peer(here, device, there, packet, peer)._replace(stage=IN, dev=fault("not_explained", "").dev)
        if here.watcher is False:
            return fault(causes.WATCHER_STOPPED, text + ", and the mesh's watcher, which fills them, does not run", "systemctl status 'multicluster*watch*'")
        if device is not None and peer is not None and (peer.age is None or peer.age > PEER_DOWN_INTERVAL):
            why = "no handshake" if peer.age is None else "no handshake for {0:.0f} s".format(peer.age)
            return fault(causes.NO_HANDSHAKE, "{0}: its peer counts as down, {1}".format(text, why), "wg show " + argument(device.name), LIKELY)
        return fault(causes.NOT_EXPLAINED, text, confidence=causes.UNEXPLAINED)

    def _own_route(
        self, here: Node, version: int, wanted: str, packet: Packet, whole: str
    ) -> t.Tuple[t.Optional[Route], t.Optional[Rule]]:
        """The route by the mesh's device that holds the target, with the rule that leads to it."""
        ours = our_rule(here, self.mesh, version) if whole else None
        if whole and ours is None:
            return None, None
        for rule in rules_of(here, version):
            if whole and rule is not ours:
                continue
            if rule.table is None or (not whole and rule.fwmark is not None):
                continue
            for route in here.routes.get((version, rule.table), ()):
                if route.first <= packet.dst <= route.last and route.dev == wanted and route.kind == "unicast":
                    return route, rule
        return None, None

    # -- between nodes -------------------------------------------------------------------------------------------------

    def _device_of(self, there: Node, here: Node, device: Device) -> t.Optional[Device]:
        """The other end's device of a tunnel."""
        name = self.mesh.device(there, here)
        if name is not None:
            return there.devices.get(name)
        found = [one for one in there.devices.values() if one.peer(device.public_key) is not None]
        found = found or [one for one in there.devices.values() if device.peer(one.public_key) is not None] or list(there.devices.values())
        return found[0] if found else None

    def _is_of(self, peer: Peer, there: Node) -> bool:
        return any(device.public_key == peer.public_key for device in there.devices.values())

    def _shared(self, key: str) -> t.Tuple[str, ...]:
        """Who have a key, where it is more than one."""
        holders = sorted({*self._holders.get(key, ()), *self.mesh.shared.get(key, ())})
        return tuple(holders) if len(self._holders.get(key, ())) > 1 or len(self.mesh.shared.get(key, ())) > 1 else ()

    def _tunnel(self, here: Node, device: Device, there: Node, packet: Packet) -> t.Tuple[t.Optional[Step], t.Optional[Fault]]:
        """Through WireGuard: both ends must know each other, and each the other's inner addresses."""
        version, show = packet.version, "wg show " + argument(device.name)
        if not device.up:
            return None, Fault(causes.DEVICE_DOWN, here.host, OUT, "the device {0} of {1} is down".format(device.name, here.host), here.host, show)
        inner = self._device_of(there, here, device)
        if inner is None:
            name = self.mesh.device(there, here)
            if name is None and not there.devices:
                name = "of WireGuard"
            if name is None:
                return None, None
            text = "{0} has no device {1}, by which it reaches cluster {2}".format(there.host, name, here.cluster)
            return None, Fault(causes.DEVICE_MISSING, here.host, TUNNEL, text, there.host, "ip -d link show {0}".format(argument(name)))
        if not inner.up:
            text = "the device {0} of {1} is down".format(inner.name, there.host)
            return None, Fault(causes.DEVICE_DOWN, here.host, TUNNEL, text, there.host, "ip -d link show {0}".format(argument(inner.name)))
        peer = device.peer_for(version, packet.dst)
        for key, who in ((inner.public_key, there), (device.public_key, here)):
            shared = self._shared(key)
            if shared:
                return None, self._one_key(here, shared, key, who, show)
        if peer is None or peer.public_key != inner.public_key:
            return None, self._wrong_peer(here, device, there, packet, peer)
        other = inner.peer(device.public_key)
        hand = "wg show {0} allowed-ips".format(argument(inner.name))
        if other is None:
            return None, self._unknown_caller(here, device, there, inner, packet)
        if inner.peer_for(version, packet.src) is not other:
            taken = inner.peer_for(version, packet.src)
            text = "{0} takes {1} from no peer".format(there.host, place_text(version, packet.src)) if taken is None else (
                "{0} takes {1} from the peer {2} alone".format(there.host, place_text(version, packet.src), printable(taken.public_key))
            )
            return None, Fault(causes.ALLOWED_IPS_LACK_SOURCE, here.host, TUNNEL, text, there.host, hand)
        if peer.preshared is not None and other.preshared is not None and peer.preshared != other.preshared:
            one, two = (here.host, there.host) if peer.preshared else (there.host, here.host)
            text = "{0} has a preshared key for {1}, which has none for it: they get no session".format(one, two)
            return None, Fault(causes.NO_HANDSHAKE, here.host, TUNNEL, text, here.host, show)
        fault = self._endpoint(here, device, there, inner, peer, other)
        if fault is not None:
            return None, fault
        place = place_text(*peer.endpoint) if peer.endpoint else "no endpoint of its own"
        age = "no handshake yet" if peer.age is None else "handshake {0:.0f} s ago".format(peer.age)
        text = "peer {0} at {1}, {2}".format(printable(peer.public_key), place, age)
        return Step(here.host, TUNNEL, "tunnel", text, show, "Node annotations of {0}".format(there.host), device.name), None

    def _one_key(self, here: Node, shared: t.Sequence[str], key: str, who: Node, hand: str) -> Fault:
        """Several nodes have one key."""
        text = "{0} have one key, {1}: WireGuard knows only one of them".format(" and ".join(map(printable, shared)), printable(key))
        return Fault(causes.KEYS_SHARED, here.host, TUNNEL, text, who.host, hand)

    def _wrong_peer(self, here: Node, device: Device, there: Node, packet: Packet, peer: t.Optional[Peer]) -> Fault:
        """Why no packet for the target goes to the node that has it."""
        target, hand = place_text(packet.version, packet.dst), "wg show {0} allowed-ips".format(argument(device.name))
        inner = self._device_of(there, here, device)
        shared = self._shared(inner.public_key) if inner is not None else ()
        if inner is not None and shared:
            return self._one_key(here, shared, inner.public_key, there, hand)
        right = device.peer(inner.public_key) if inner is not None else None
        if right is not None:
            to = "to no peer" if peer is None else "to the peer " + printable(peer.public_key)
            text = "{0} sends {1} {2}: the allowed IPs of the peer {3} lack it".format(here.host, target, to, printable(right.public_key))
            return Fault(causes.ALLOWED_IPS_LACK_TARGET, here.host, OUT, text, here.host, hand)
        stranger = peer if peer is not None and not self._holders.get(peer.public_key) else self._at_endpoint(device, there)
        if stranger is not None:
            text = "{0} has the key {1} for {2}, whose own is {3}".format(
                here.host, printable(stranger.public_key), there.host, printable(inner.public_key) if inner else "another"
            )
            return Fault(causes.WRONG_KEY, here.host, OUT, text, here.host, hand)
        text = "{0} has no peer for {1}".format(here.host, there.host)
        return Fault(causes.PEER_MISSING, here.host, OUT, text, here.host, hand)

    def _at_endpoint(self, device: Device, there: Node) -> t.Optional[Peer]:
        """A peer with a key that nobody has, where the node should be found."""
        places = set(there.own) | {place[:2] for place in self.mesh.endpoints.get(there.host, ())}
        for peer in device.peers:
            if peer.endpoint is not None and peer.endpoint[:2] in places and not self._holders.get(peer.public_key):
                return peer
        return None

    def _unknown_caller(self, here: Node, device: Device, there: Node, inner: Device, packet: Packet) -> Fault:
        """Why the other end does not know who calls."""
        hand = "wg show {0} allowed-ips".format(argument(inner.name))
        taken = inner.peer_for(packet.version, packet.src)
        stranger = taken if taken is not None and not self._holders.get(taken.public_key) else self._at_endpoint(inner, here)
        if stranger is not None:
            text = "{0} has the key {1} for {2}, whose own is {3}".format(
                there.host, printable(stranger.public_key), here.host, printable(device.public_key)
            )
            return Fault(causes.WRONG_KEY, here.host, TUNNEL, text, there.host, hand)
        return Fault(causes.PEER_MISSING, here.host, TUNNEL, "{0} has no peer for {1}".format(there.host, here.host), there.host, hand)

    def _endpoint(self, here: Node, device: Device, there: Node, inner: Device, peer: Peer, other: Peer) -> t.Optional[Fault]:
        """Whether the peer is called where it listens. Behind a NAT nobody but the peer itself can know."""
        if peer.endpoint is None or not there.own:
            return None
        version, number, port = peer.endpoint
        planned = self.mesh.endpoints.get(there.host, ())
        mine = (version, number) in there.own
        if mine and (port == inner.listen_port or not inner.listen_port):
            return None
        behind = bool(planned) and not any(place[:2] in there.own for place in planned)
        fresh = peer.age is not None and peer.age <= SESSION and other.age is not None and other.age <= SESSION
        if (behind or not planned) and not mine and (peer.endpoint in planned or fresh):
            return None
        hand = "wg show {0} endpoints".format(argument(device.name))
        where = ", ".join(place_text(*place) for place in planned[:3]) or "port {0}".format(inner.listen_port)
        text = "{0} calls {1} at {2}; it should be found at {3}".format(here.host, there.host, place_text(*peer.endpoint), where)
        # a port that nobody listens on was chosen by a translation in between
        translated = not mine and port != inner.listen_port and port not in {place[2] for place in planned}
        cause = causes.ENDPOINT_MOVED if behind or translated else causes.STALE_ENDPOINT
        return Fault(cause, here.host, TUNNEL, text, here.host, hand, confidence=LIKELY)

    # -- at the end ----------------------------------------------------------------------------------------------------

    def _deliver(self, there: Node, packet: Packet, iif: t.Optional[str]) -> t.Tuple[t.Optional[Step], t.Optional[Fault], str]:
        """On the node that has the target."""
        version, target = packet.version, place_text(packet.version, packet.dst)
        mark = mark_of(there, self.mesh, version, packet.dst) if self.mesh.whole else 0
        command = get_command(packet, iif, mark)
        found = decide(there, version, packet.dst, packet.src, iif, mark)
        own = (version, packet.dst) in there.own
        if own or found.kind == LOCAL:
            return Step(there.host, DELIVERED, "target", "an address of the node itself", command, "", None), None, ""
        if found.kind == UNKNOWN:
            return None, None, "{0} decides by {1}, which asks for more than is known here".format(there.host, by_text(found))
        if iif is not None and not there.forwards(version, iif):
            text = "{0} passes nothing on: forwarding of IPv{1} is off".format(there.host, version)
            name = "net.ipv4.ip_forward" if version == 4 else "net.ipv6.conf.all.forwarding"
            return None, Fault(causes.FORWARDING_OFF, there.host, IN, text, there.host, "sysctl " + name), ""
        device = there.pods.get((version, packet.dst))
        right = found.kind == LEAVES and (found.dev == device if device else self._inward(there, found))
        if not right:
            text = "{0} has no way to its pod {1}: {2}".format(there.host, target, by_text(found) if found.kind != NOWHERE else "no route")
            dev = found.dev if found.kind == LEAVES else None
            taken = found.rule is not None and found.rule.priority not in (0, 32766, 32767)
            own_route = any(
                route.first <= packet.dst <= route.last and route.dev == device and route.kind == "unicast"
                for route in there.routes.get((version, MAIN_TABLE), ())
            )  # fmt: skip
            cause = causes.ROUTE_MISSING if not (device and own_route) else causes.RULE_SHADOWED if taken else causes.ROUTE_SHADOWED
            return None, Fault(cause, there.host, IN, text, there.host, command, dev), ""
        step = Step(there.host, DELIVERED, "target", "{0} to the pod {1}".format(by_text(found), target), command, "the cluster's CNI", found.dev)
        return step, None, ""

    def _inward(self, node: Node, found: Decision) -> bool:
        """Whether a way leads to a pod of the node: not into a tunnel, nor to another machine."""
        if found.dev in node.devices or found.route is None or found.route.length == 0:
            return False
        link = node.links.get(found.dev or "")
        if link is not None and link.kind == "wireguard":
            return False
        if not found.via:
            return True
        return found.via in {place_text(*key) for key in node.own}
