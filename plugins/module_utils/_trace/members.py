# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packets to members of a discovery service, such as machines with Talos Linux, which nobody can ask anything. Pure.

The host that sends is all that reports. Proven is what its kernel saw come back through the member's tunnel; broken, what its kernel itself stops, or a
member that does not shake hands; all between them is not proven, and the reason is in the report.
"""

from __future__ import annotations

import typing as t

from .._values.text import dicts_of, mapping, text_of
from . import causes
from .causes import BACK, FORWARD, LIKELY, OUT, PROVEN, Fault, argument, place_text, printable
from .diagnosis import ANSWERED, ARRIVES, FAILS, OPEN, REFUSED, Finding, Flow, Judge, Seen, lost_of
from .expected import Walk, Walker
from .facts import Device, Node, Peer, parse_node
from .mesh import Mesh
from .observed import Counted, counted
from .reach.classes import Range, ranges
from .tunnels import SESSION

Data = dict[str, t.Any]
#: As many as a service has of one mesh, and refusals that a node shows.
_MOST = 2000
#: The end of a flow to an address of nobody in the inventory.
STRANGER = "nobody of the inventory"
#: What to do, where the other end is a machine on which no play runs.
_FIXES = {
    causes.ALLOWED_IPS_LACK_TARGET: "status names what of the member was refused; pod_cidrs and node_cidrs of its cluster grant what it may announce",
    causes.DEVICE_MISSING: "run the mesh again on {host}; it makes the device",
    causes.NO_HANDSHAKE: (
        "let UDP between {host} and the endpoint pass in both directions; on the machine, look whether it is up and knows {host} "
        "(talosctl get kubespanpeerstatuses)"
    ),
    causes.NOT_EXPLAINED: "look on the machine itself (talosctl get kubespanpeerstatuses, its firewall), since no trace can ask it",
    causes.PEER_MISSING: "status names what of the member was refused; pod_cidrs and node_cidrs of its cluster grant what it may announce",
}


class Member(t.NamedTuple):
    """A member as a host knows it. ``claims``: the networks that it announces."""

    name: str
    public_key: str
    claims: tuple[Range, ...]

    @property
    def label(self) -> str:
        """As status and verify call it."""
        return f"discovery/{printable(self.name, 80)}"


class Known(t.NamedTuple):
    """What one host knows. ``service``: why the service is not connected, empty where it is; ``refused``: object -> text."""

    device: str
    members: tuple[Member, ...]
    service: str
    refused: t.Mapping[str, str]

    def of_key(self, key: str) -> Member | None:
        """The member with a key."""
        return next((one for one in self.members if one.public_key == key), None)

    def claimant(self, version: int, number: int) -> Member | None:
        """The first member that announces an address."""
        return next(
            (
                one
                for one in self.members
                if any(row[0] == version and row[1] <= number <= row[2] for row in one.claims)
            ),
            None,
        )


def parse_known(given: t.Any) -> Known | None:
    """``members`` of a host's facts; None for a host without a discovery service."""
    if not isinstance(given, dict) or not given.get("device"):
        return None
    members = tuple(
        Member(text_of(row.get("name")), text_of(row.get("public_key")), ranges(row.get("networks")))
        for row in dicts_of(given.get("members"))[:_MOST]
        if row.get("public_key")
    )
    service = mapping(given, "service")
    state = text_of(service.get("state"))
    why = "" if state == "connected" else printable(service.get("message") or "the watcher has not asked it yet")
    refused = {
        text_of(row.get("object")): f"{printable(row.get('message') or '')} [{printable(row.get('reason') or '')}]"
        for row in dicts_of(given.get("refused"))[:_MOST]
    }
    return Known(str(given["device"]), members, why, refused)


class Followed(t.NamedTuple):
    """What came of a flow to a member. ``row``: of the report's table, with proven, not proven or broken, and why."""

    flow: Flow
    there: Walk
    back: Walk
    verdict: str
    finding: Finding | None
    row: Data


class MemberWalker(Walker):
    """The way on the host that sends, into the member's tunnel and out of it."""

    def there(self, flow: Flow, known: Known, member: Member) -> Walk:
        """Up to the tunnel, which is no step: its row has more."""
        here, packet = self.nodes[flow.start], flow.packet
        iif = self._way_in(here, packet) if flow.from_pod else None
        fault = self._reverse(here, packet, iif, 0) if iif else None
        if fault is not None:
            return Walk((), False, fault)
        step, fault, unknown = self._leave(here, _placeholder(here, known, member), packet, iif, FORWARD)
        steps = (step._replace(source="the discovery service"),) if step is not None else ()
        if fault is None and step is not None:
            fault = self._tunnel(here, known, member, flow)
        return Walk(steps, fault is None and not unknown, self._with_refusal(fault, known, member), unknown)

    def back(self, flow: Flow, known: Known) -> Walk:
        """Out of the tunnel to the sender."""
        here, packet = self.nodes[flow.start], flow.packet.back()
        fault = self._reverse(here, packet, known.device, 0)
        if fault is not None:
            return Walk((), False, fault)
        step, fault, unknown = self._deliver(here, packet, known.device)
        return Walk((step,) if step is not None else (), fault is None and not unknown, fault, unknown)

    def _tunnel(self, here: Node, known: Known, member: Member, flow: Flow) -> Fault | None:
        device = here.devices[known.device]
        show = "wg show " + argument(device.name)
        if not device.up:
            text = f"the device {device.name} of {here.host} is down"
            return Fault(causes.DEVICE_DOWN, here.host, OUT, text, here.host, show, device=argument(device.name))
        peer = device.peer_for(flow.packet.version, flow.packet.dst)
        if peer is None or peer.public_key != member.public_key:
            return self.tunnels.wrong_peer(here, device, _placeholder(here, known, member), flow.packet, peer)
        if peer.endpoint is None and peer.age is None:
            text = f"{member.label} has never called {here.host}, and announces no endpoint at which {here.host} could call it"
            return Fault(causes.NO_HANDSHAKE, here.host, OUT, text, here.host, show)
        return None

    def _with_refusal(self, fault: Fault | None, known: Known, member: Member) -> Fault | None:
        """What the host refused of the member comes before everything that follows from it."""
        why = known.refused.get(member.label) or known.service
        if fault is None or not why or fault.cause not in (causes.PEER_MISSING, causes.ALLOWED_IPS_LACK_TARGET):
            return fault
        return fault._replace(text=f"{fault.text}; {why}")


def _placeholder(here: Node, known: Known, member: Member) -> Node:
    """The member as a node of which nothing is known but its key: what a host lacks for it has the same names as for any other node."""
    node = parse_node(member.label, here.cluster, {})
    return node._replace(devices={known.device: Device(known.device, member.public_key, 0, 0, True, ())})


class MemberJudge(Judge):
    """Judges flows to members, by the host that sends alone."""

    def judge_member(self, flow: Flow, there: Walk, back: Walk, tunnel: Tunnel) -> tuple[str, Finding | None, str]:
        """(arrives, does not arrive or not explained; the finding; proven, not proven or broken, with the reason)."""
        verdict, finding, text = self._judged(flow, there, back, tunnel)
        proof = {ARRIVES: "proven", FAILS: "broken"}.get(verdict, "not proven")
        return verdict, finding, f"{proof}: {text or (finding.text if finding is not None else '')}"

    def _fix(self, cause: str, where: str) -> str:
        return _FIXES[cause].format(host=where) if cause in _FIXES else super()._fix(cause, where)

    def _fix_of(self, fault: Fault) -> str:
        return _FIXES[fault.cause].format(host=fault.at) if fault.cause in _FIXES else super()._fix_of(fault)

    def _judged(self, flow: Flow, there: Walk, back: Walk, tunnel: Tunnel) -> tuple[str, Finding | None, str]:
        sent = self.seen.sent.get(flow.id) or ()
        first = sent[0].outcome if sent else ""
        if first in (ANSWERED, REFUSED):
            around = self._around(flow, tunnel)
            if around:
                return OPEN, self._open(flow, FORWARD, around, flow.start), ""
            lost = lost_of(sent)
            if first == REFUSED:
                place = place_text(flow.packet.version, flow.packet.dst, flow.packet.port)
                text = f"{place} refuses the connection, through its tunnel ({tunnel.text})"
                return FAILS, self._finding(flow, causes.PORT_CLOSED, FORWARD, flow.end, text), ""
            if lost is not None and flow.packet.protocol == "icmp":
                return FAILS, self._dropped(flow, True) or self._black_hole(flow, lost), ""
            return ARRIVES, None, f"answered through its tunnel ({tunnel.text})"
        found = self._dropped(flow) or self._retargeted(flow) or self._one_way(flow, there, FORWARD)
        if found is not None:
            return (OPEN if found.cause == causes.NOT_EXPLAINED else FAILS), self._with_report(flow, found), ""
        if not tunnel.session:
            return FAILS, self._finding(flow, causes.NO_HANDSHAKE, FORWARD, flow.start, *tunnel.silence), ""
        if back.fault is not None and (not sent or self.seen.passage(flow.id, flow.start, BACK).events):
            return FAILS, self._of(flow, back.fault, BACK, LIKELY if not sent else back.fault.confidence), ""
        if not sent:
            return OPEN, None, f"no packet was sent; {tunnel.text}"
        why = "UDP promises no answer" if flow.udp else "no answer came"
        text = f"{flow.start} sent it into the tunnel of {flow.end} ({tunnel.text}), and {why}"
        return OPEN, self._with_report(flow, self._open(flow, FORWARD, text, flow.start)), ""

    def _around(self, flow: Flow, tunnel: Tunnel) -> str:
        """That packets went, or the answer came, by another way than the tunnel: whoever answered need not be the member."""
        outs = self.seen.passage(flow.id, flow.start, FORWARD).outs
        came = self.seen.passage(flow.id, flow.start, BACK).iif
        if outs and tunnel.device not in outs:
            return f"an answer came, and {flow.start} sends it by {', '.join(map(printable, outs))}, not through the tunnel of {flow.end}"
        if came and came != tunnel.device:
            return f"an answer came by {printable(came)}, not through the tunnel of {flow.end}"
        if not outs and not tunnel.session:
            return f"an answer came, and {flow.end} has shaken no hands"
        return ""


class Tunnel(t.NamedTuple):
    """A host's end of the tunnel to a member, after the packets. ``peer`` None where the device has none of its key."""

    device: str
    label: str
    peer: Peer | None
    counted: Counted

    @property
    def session(self) -> bool:
        """Whether it has keys for packets."""
        return self.counted.age is not None and self.counted.age <= SESSION

    @property
    def text(self) -> str:
        """Handshake and packets, for people."""
        words = ["no handshake yet" if self.counted.age is None else f"handshake {self.counted.age:.0f} s ago"]
        if self.counted.rx is not None and self.counted.tx is not None:
            words.append(f"{self.counted.tx:,} bytes sent and {self.counted.rx:,} received meanwhile")
        return ", ".join(words)

    @property
    def silence(self) -> tuple[str, str, str]:
        """(text, command, how sure) of a member that does not shake hands."""
        where = place_text(*self.peer.endpoint) if self.peer is not None and self.peer.endpoint else "no endpoint"
        text = f"{self.label} is called at {where} and does not shake hands: {self.text}"
        sure = PROVEN if self.counted.tx else LIKELY
        return text, f"wg show {argument(self.device)}", sure


class Members:
    """Follows flows to members. known: host -> what it knows of them."""

    def __init__(
        self, nodes: t.Mapping[str, Node], mesh: Mesh, seen: Seen, known: t.Mapping[str, Known], flows: t.Sequence[Flow]
    ) -> None:
        self.nodes, self.mesh, self.seen, self.known = nodes, mesh, seen, known
        self._judge = MemberJudge(nodes, mesh, seen, flows)

    def follow(self, flow: Flow | None) -> Followed | None:
        """A flow to a target that nobody of the inventory has; None where no member has it either."""
        here = self.nodes.get(flow.start) if flow is not None else None
        known = self.known.get(flow.start) if flow is not None else None
        if flow is None or here is None or known is None:
            return None
        flow = self._chosen(flow)
        device = here.devices.get(known.device)
        peer = device.peer_for(flow.packet.version, flow.packet.dst) if device is not None else None
        member = known.of_key(peer.public_key) if peer else known.claimant(flow.packet.version, flow.packet.dst)
        if member is None:
            return None
        flow = flow._replace(end=member.label, to_pod=False)
        walker = MemberWalker(self.nodes, self.mesh._replace(whole=known.device))
        there, back = walker.there(flow, known, member), walker.back(flow, known)
        after = (self.seen.after.get(flow.start) or {}).get(known.device)
        tunnel = Tunnel(
            known.device,
            member.label,
            device.peer(member.public_key) if device is not None else None,
            counted(device, after, member.public_key),
        )
        verdict, finding, said = self._judge.judge_member(flow, there, back, tunnel)
        return Followed(flow, there, back, verdict, finding, _row(flow, member, tunnel, verdict, said))

    def _chosen(self, flow: Flow) -> Flow:
        """With the target that its packets really went to, where a Service has several."""
        gone = self.seen.passage(flow.id, flow.start, FORWARD).targets & flow.targets
        return (
            flow
            if flow.packet.dst in gone or len(gone) != 1
            else flow._replace(packet=flow.packet._replace(dst=min(gone)))
        )


def _row(flow: Flow, member: Member, tunnel: Tunnel, verdict: str, said: str) -> Data:
    return {
        "flow": flow.id,
        "direction": FORWARD,
        "where": flow.start,
        "what": "member",
        "expected": f"{member.label} shakes hands as peer {printable(member.public_key)} and answers",
        "observed": said,
        "verdict": {ARRIVES: "ok", FAILS: "differs"}.get(verdict, "unknown"),
        "command": f"wg show {argument(tunnel.device)}",
        "source": "the discovery service",
    }
