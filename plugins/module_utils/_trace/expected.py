# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way that a packet should take: from node to node by what the nodes' kernels have, up to the first thing that stops it. Pure.

Each step has what decides, how to see it by hand and where it comes from. What the facts do not have is ``unknown``: never a fault.
"""

from __future__ import annotations

import typing as t

from .._dataplane.constants import MAIN_TABLE
from .._mesh.kubespan.generations import PEER_DOWN_INTERVAL
from . import causes
from .causes import BACK, DELIVERED, FORWARD, IN, LIKELY, OUT, Fault, Step, argument, place_text, printable
from .facts import Device, Node
from .mesh import Mesh, in_set, mark_of, our_rule, own_route
from .routing import (
    BLOCKED,
    LEAVES,
    LOCAL,
    NOWHERE,
    UNKNOWN,
    Decision,
    Packet,
    by_text,
    decide,
    get_command,
    route_text,
    rule_text,
)
from .tunnels import Tunnels


class Walk(t.NamedTuple):
    """A way. ``arrived``: whether the facts lead to the target; ``fault``: what stops it; neither: it leaves what is known, for the reason in ``unknown``."""

    steps: tuple[Step, ...]
    arrived: bool
    fault: Fault | None
    unknown: str = ""


class Walker:
    """Ways through the facts of nodes, with what the mesh's plan has of them."""

    def __init__(self, nodes: t.Mapping[str, Node], mesh: Mesh, unreachable: t.Mapping[str, str] | None = None) -> None:
        self.nodes, self.mesh, self.unreachable = nodes, mesh, unreachable or {}
        self.tunnels = Tunnels(nodes, mesh)

    def walk(self, packet: Packet, start: str, end: str, from_pod: bool, direction: str = FORWARD) -> Walk:
        """The way of a packet from a node to another, which has the target by the cluster's report."""
        steps: list[Step] = []
        missing = next((host for host in (start, end) if host not in self.nodes), None)
        if missing is not None:
            return Walk((), False, None, f"{missing} did not say what it has{self._why(missing)}")
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
                found = Walk(
                    tuple(steps),
                    False,
                    None,
                    f"the mesh has no tunnel between {start} and {end}: what is between them is not of the mesh",
                )
                if self.mesh.device(here, there) is not None:
                    return found
                iif = None  # an ordinary network between two nodes: its own devices are not known
            else:
                steps += _translated(here, OUT, device.name, "source", packet.version, packet.src, packet.inside.src)
                step, fault = self.tunnels.go_through(here, device, there, packet.inside)
                steps += [step] if step else []
                if fault is not None:
                    return Walk(tuple(steps), False, fault)
                inner = self.tunnels.device_of(there, here, device)
                iif = inner.name if inner else None
                steps += _translated(there, IN, iif or "", "target", packet.version, packet.dst, packet.arrived.dst)
                packet = packet.arrived
                fault = self._reverse(there, packet, iif, 0) if iif else None
                if fault is not None:
                    return Walk(tuple(steps), False, fault)
        step, fault, unknown = self._deliver(there, packet, iif)
        steps += [step] if step else []
        return Walk(tuple(steps), fault is None and not unknown, fault, unknown)

    def proxied(
        self, packet: Packet, start: str, dialled: int | None, forwarders: t.Sequence[str] = ()
    ) -> Fault | None:
        """Why the address of a Service does not become that of an endpoint: the process that would forward it does not run.

        ``forwarders``: the hosts of which one would do it; without any the source's own. An address of a load balancer of another cluster
        is forwarded by a node of that cluster, whatever runs at the source.
        """
        here, hosts = self.nodes.get(start), list(forwarders or [start])
        others = [self.nodes.get(host) for host in hosts]
        if here is None or dialled is None or dialled == packet.dst:
            return None
        if not all(node is not None and node.kube_proxy is False for node in others):
            return None
        found = decide(here, packet.version, dialled, packet.src, self._way_in(here, packet), 0)
        turned = f"{place_text(packet.version, dialled)} into {place_text(packet.version, packet.dst)}"
        text = f"no kube-proxy runs on {', '.join(hosts[:3])}, and nothing else turns {turned}"
        dev = found.dev if found.kind == LEAVES else None
        stage = IN if hosts == [start] else OUT
        return Fault(causes.KUBE_PROXY_OFF, start, stage, text, hosts[0], "nft list ruleset", dev, LIKELY)

    def _why(self, host: str) -> str:
        return ": " + printable(self.unreachable[host]) if self.unreachable.get(host) else ""

    # -- on a node -----------------------------------------------------------------------------------------------------

    def _way_in(self, node: Node, packet: Packet) -> str | None:
        """The device by which a pod's packets come: the one that leads to the pod."""
        known = node.pods.get((packet.version, packet.src))
        if known:
            return known
        found = decide(node, packet.version, packet.src, None, None, 0)
        return found.dev if found.kind == LEAVES else None

    def _reverse(self, node: Node, packet: Packet, iif: str, mark: int) -> Fault | None:
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
        text = (
            "{0} takes nothing from {1} by {2}: its way back is {3}, and the reverse-path filter of {2} is {4}".format(
                node.host,
                place_text(4, packet.src),
                printable(iif),
                by_text(found),
                "strict" if level == 1 else "loose",
            )
        )
        if iif in node.devices and own_route(node, self.mesh, 4, iif, packet.back())[0] is None:
            text += f"; a route to it by {printable(iif)} is missing"
            return Fault(causes.ROUTE_MISSING, node.host, IN, text, node.host, get_command(packet.back(), None, mark))
        hand = f"sysctl net.ipv4.conf.{argument(iif)}.rp_filter"
        return Fault(causes.REVERSE_PATH_FILTER, node.host, IN, text, node.host, hand, device=argument(iif))

    def _still(self, node: Node, version: int, iif: str | None) -> Fault | None:
        """Whether a node passes nothing on of what comes in by a device."""
        if iif is None or node.forwards(version, iif):
            return None
        if node.forwarding.get(version) is False:
            text = f"{node.host} passes nothing on: forwarding of IPv{version} is off"
            name = "net.ipv4.ip_forward" if version == 4 else "net.ipv6.conf.all.forwarding"
        else:
            text = f"{node.host} passes nothing on that comes in by {printable(iif)}: its forwarding of IPv{version} is off"
            name = f"net.ipv{version}.conf.{printable(iif).replace('.', '/')}.forwarding"
        return Fault(causes.FORWARDING_OFF, node.host, IN, text, node.host, "sysctl " + argument(name))

    def _leave(
        self, here: Node, there: Node, packet: Packet, iif: str | None, direction: str
    ) -> tuple[Step | None, Fault | None, str]:
        """How the packet leaves a node for another."""
        version, mark = packet.version, mark_of(here, self.mesh, packet.version, packet.dst) if self.mesh.whole else 0
        desired = self.mesh.device(here, there) or self.tunnels.guess(here, there, packet)
        command = get_command(packet, iif, mark)
        still = self._still(here, version, iif)
        if still is not None:
            return None, still, ""
        found = decide(here, version, packet.dst, packet.src, iif, mark)
        if found.kind == UNKNOWN:
            return None, None, f"{here.host} decides by {by_text(found)}, which asks for more than is known here"
        if desired is not None and (found.kind != LEAVES or found.dev != desired):
            device = here.devices.get(found.dev or "")
            if device is not None and self.tunnels.leads(device, there, packet):
                desired = device.name  # by another tunnel of the same node
            else:
                return None, self._diverted(here, there, packet, desired, found, direction, command), ""
        elif desired is None and found.kind != LEAVES:
            text = f"{here.host} has no way to {place_text(version, packet.dst)}: {by_text(found)}"
            return None, Fault(causes.ROUTE_MISSING, here.host, IN, text, here.host, command), ""
        source = (
            f"pod_cidrs of cluster {there.cluster}" if here.cluster != there.cluster else "the cluster's own network"
        )
        text = f"{by_text(found)} to {printable(found.dev)}"
        if mark:
            text = f"mark {mark:#x}, {text}"
        return Step(here.host, OUT, "route", text, command, source, found.dev), None, ""

    def _diverted(
        self, here: Node, there: Node, packet: Packet, desired: str, found: Decision, direction: str, command: str
    ) -> Fault:
        """Why a packet does not leave by the device that it should."""
        version, target = packet.version, place_text(packet.version, packet.dst)
        dev = found.dev if found.kind == LEAVES else None
        show = f"ip -d link show {argument(desired)}"

        def fault(cause: str, text: str, hand: str = command, confidence: str = causes.PROVEN) -> Fault:
            return Fault(cause, here.host, IN, text, here.host, hand, dev, confidence)

        link, device = here.links.get(desired), here.devices.get(desired)
        if link is None and device is None and "links" not in here.left_out:
            return fault(
                causes.DEVICE_MISSING,
                f"{here.host} has no device {desired}, by which it reaches cluster {there.cluster}",
                show,
            )
        if link is not None and not link.up:
            return fault(causes.DEVICE_DOWN, f"the device {desired} of {here.host} is down", show)._replace(
                device=argument(desired)
            )
        took = (
            f"{here.host} sends {target} by {by_text(found)}"
            if found.kind == LEAVES
            else "{0}: {1} for {2}".format(here.host, by_text(found) if found.kind != NOWHERE else "no route", target)
        )
        if self.mesh.whole:
            early = self._not_marked(here, there, device, packet, fault, took)
            if early is not None:
                return early
        own, rule = own_route(here, self.mesh, version, desired, packet)
        if own is None and device is not None and not self.mesh.devices and not self.mesh.whole:
            peer = device.peer_for(version, packet.dst)  # tunnels of another program, which has routes by its peers
            if peer is None or not self.tunnels.is_of(peer, there):
                return self.tunnels.wrong_peer(here, device, there, packet, peer)._replace(stage=IN, dev=dev)
        if own is None:
            what = (
                "its rule for marked packets"
                if self.mesh.whole and our_rule(here, self.mesh, version) is None
                else "a route to it by " + desired
            )
            return fault(causes.ROUTE_MISSING, f"{took}; {what} is missing")
        if direction == BACK and found.kind == LEAVES:
            return fault(causes.ANSWER_ANOTHER_WAY, f"the answer does not go back by {desired}: {took}")
        if found.kind == NOWHERE:
            return fault(
                causes.NOT_EXPLAINED, f"{took}, though {route_text(own)} is there", confidence=causes.UNEXPLAINED
            )
        if found.rule is not None and rule is not None and found.rule != rule:
            text = f"{took}; {rule_text(found.rule)} comes before {rule_text(rule)}"
            return fault(causes.RULE_SHADOWED, text)
        if found.kind == BLOCKED and found.route is None:
            return fault(causes.RULE_SHADOWED, took)
        return fault(
            causes.ROUTE_SHADOWED,
            f"{took}; it is narrower than the owned route, or has a better metric: {route_text(own)}",
        )

    def _not_marked(
        self, here: Node, there: Node, device: Device | None, packet: Packet, fault: t.Callable[..., Fault], took: str
    ) -> Fault | None:
        """Why the table of a KubeSpan mesh does not mark a packet; None where it does."""
        version, target = packet.version, place_text(packet.version, packet.dst)
        if in_set(here, version, packet.dst):
            return None
        missing = here.sets is None and "sets" not in here.left_out
        text = "{0}; {1}".format(
            took, "the mesh's table of nftables is missing" if missing else f"{target} is in no set of the mesh's table"
        )
        if device is not None:
            peer = device.peer_for(version, packet.dst)
            known = (
                self.tunnels.device_of(there, here, device) is not None
            )  # else the owner of a peer's key is not known
            if known and (peer is None or not self.tunnels.is_of(peer, there)):
                return self.tunnels.wrong_peer(here, device, there, packet, peer)._replace(
                    stage=IN, dev=fault("not_explained", "").dev
                )
        if here.watcher is False:
            return fault(
                causes.WATCHER_STOPPED,
                text + ", and the mesh's watcher, which fills them, does not run",
                "systemctl status 'multicluster*watch*'",
            )
        if device is not None and peer is not None and (peer.age is None or peer.age > PEER_DOWN_INTERVAL):
            why = "no handshake" if peer.age is None else f"no handshake for {peer.age:.0f} s"
            return fault(
                causes.NO_HANDSHAKE,
                f"{text}: its peer counts as down, {why}",
                "wg show " + argument(device.name),
                LIKELY,
            )
        if missing:
            return fault(causes.ROUTE_MISSING, text, "nft list tables")
        return fault(causes.NOT_EXPLAINED, text, confidence=causes.UNEXPLAINED)

    def _deliver(self, there: Node, packet: Packet, iif: str | None) -> tuple[Step | None, Fault | None, str]:
        """On the node that has the target."""
        version, target = packet.version, place_text(packet.version, packet.dst)
        mark = mark_of(there, self.mesh, version, packet.dst) if self.mesh.whole else 0
        command = get_command(packet, iif, mark)
        found = decide(there, version, packet.dst, packet.src, iif, mark)
        device = there.pods.get((version, packet.dst))
        if not device and ((version, packet.dst) in there.own or found.kind == LOCAL):
            return Step(there.host, DELIVERED, "target", "an address of the node itself", command, "", None), None, ""
        if found.kind == UNKNOWN:
            return None, None, f"{there.host} decides by {by_text(found)}, which asks for more than is known here"
        still = self._still(there, version, iif)
        if still is not None:
            return None, still, ""
        right = found.kind == LEAVES and (found.dev == device if device else self._inward(there, found))
        if not right:
            text = f"{there.host} has no way to its pod {target}: {by_text(found) if found.kind != NOWHERE else 'no route'}"
            dev = found.dev if found.kind == LEAVES else None
            taken = found.rule is not None and found.rule.priority not in (0, 32766, 32767)
            own_route = any(
                route.first <= packet.dst <= route.last and route.dev == device and route.kind == "unicast"
                for route in there.routes.get((version, MAIN_TABLE), ())
            )
            cause = (
                causes.ROUTE_MISSING
                if not (device and own_route)
                else causes.RULE_SHADOWED
                if taken
                else causes.ROUTE_SHADOWED
            )
            return None, Fault(cause, there.host, IN, text, there.host, command, dev), ""
        step = Step(
            there.host,
            DELIVERED,
            "target",
            f"{by_text(found)} to the pod {target}",
            command,
            "the cluster's CNI",
            found.dev,
        )
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


def _translated(node: Node, stage: int, device: str, what: str, version: int, before: int, after: int) -> list[Step]:
    """A translation of a packet between clusters that have the same ranges, on the node that has the pod (translation 5)."""
    text = f"{what} {place_text(version, before)} becomes {place_text(version, after)}"
    source = f"exported_pod_cidrs of cluster {node.cluster}"
    row = Step(node.host, stage, "translation", text, "nft list tables", source, device)
    return [row] if before != after else []
