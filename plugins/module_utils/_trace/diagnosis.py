# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where expected and observed part: one finding, the first on the way. Pure.

What the facts say stops a packet counts only where nothing was seen behind it, and where it was seen up to there. All else is "not explained".
"""

from __future__ import annotations

import typing as t

from .._status.remedies import masquerade_fix
from . import causes
from .causes import BACK, FORWARD, IN, LIKELY, OUT, PROVEN, UNEXPLAINED, Fault, place_text, printable
from .expected import Walk
from .facts import Device, Node, Tracking
from .mesh import Mesh
from .observed import INPUT, LARGE, NOT_TRANSLATED, Counted, Event, Passage, Sent, counted, is_of_mesh
from .routing import Packet
from .tunnels import SESSION

ARRIVES, FAILS, OPEN = "arrives", "does not arrive", "not explained"
ANSWERED, REFUSED = "answered", "refused"
#: Outcomes with an error of the kernel, or of a router on the way.
_REPORTED = ("failed", "unreachable", "icmp_error")
NOTHING = Passage("", "", frozenset(), "", (), frozenset(), frozenset(), None, None, 0)


class Finding(t.NamedTuple):
    """What is wrong. ``where``: the host, or the cluster, that has to be looked at."""

    flow: str
    cause: str
    direction: str
    where: str
    text: str
    fix: str
    command: str
    confidence: str


def _hides(event: Event) -> bool:
    """Whether a rule is one of those by which the mesh's table drops what is not translated."""
    return is_of_mesh(event) and event.chain in NOT_TRANSLATED


def lost_of(sent: t.Iterable[Sent]) -> Sent | None:
    """The first of the large packets to which nothing came back, not even that it is too large."""
    return next((one for one in sent if one.size >= LARGE and one.outcome == "no_answer"), None)


def _session(end: Counted) -> bool:
    """Whether an end of a tunnel has keys for packets."""
    return end.age is not None and end.age <= SESSION


class Flow(t.NamedTuple):
    """One flow, with the hosts of both ends. ``pod``: whether it starts in a pod. ``udp``: no answer is promised."""

    id: str
    packet: Packet
    start: str
    end: str
    from_pod: bool
    to_pod: bool = True
    #: The flow that this one is only sent back for, to tell one direction of a tunnel from the other.
    about: str = ""
    #: Every address that its packets may go to: as it is dialled, and those behind it.
    targets: frozenset[int] = frozenset()

    @property
    def udp(self) -> bool:
        """Whether nobody need answer."""
        return self.packet.protocol == "udp"


class Seen(t.NamedTuple):
    """Everything observed. ``armed``: the hosts that recorded; ``passages`` by (flow, host, direction); ``after``: devices at the end, by host."""

    armed: frozenset[str]
    passages: t.Mapping[tuple[str, str, str], Passage]
    sent: t.Mapping[str, t.Sequence[Sent]]
    after: t.Mapping[str, t.Mapping[str, Device]]
    #: The hosts with a recorder that missed some of what the kernel reported.
    overrun: frozenset[str] = frozenset()
    #: Of each host, its table of tracked connections before and after.
    tracking: t.Mapping[str, tuple[Tracking | None, Tracking | None]] = {}

    def passage(self, flow: str, host: str, direction: str) -> Passage:
        """What a host saw; nothing where it saw nothing."""
        return self.passages.get((flow, host, direction), NOTHING)


class Judge:
    """Judges flows one by one over the same facts."""

    def __init__(self, nodes: t.Mapping[str, Node], mesh: Mesh, seen: Seen, flows: t.Sequence[Flow] = ()) -> None:
        self.nodes, self.mesh, self.seen, self.flows = nodes, mesh, seen, flows

    def judge(self, flow: Flow, there: Walk, back: Walk) -> tuple[str, Finding | None]:
        """(arrives, does not arrive or not explained; the finding). Both walks are by the facts alone."""
        sent = self.seen.sent.get(flow.id) or ()
        first = sent[0].outcome if sent else ""
        if first == ANSWERED and self._answered_by_another(flow):
            address = place_text(flow.packet.version, flow.packet.dst)
            text = f"an answer came, and {flow.end} saw nothing of the packet: somebody before it answers for {address}"
            return OPEN, self._open(flow, FORWARD, text, flow.start)
        if first == ANSWERED:
            lost = lost_of(sent)
            if lost is not None and flow.packet.protocol != "icmp" and self._large_came(flow):
                return ARRIVES, None  # what a program answers to a packet out of its turn is its own matter
            return (
                (ARRIVES, None) if lost is None else (FAILS, self._dropped(flow, True) or self._black_hole(flow, lost))
            )
        dropped = self._dropped(flow)
        answer = self._answer_of_another(flow)
        if answer is not None and (dropped is None or dropped.direction == BACK):
            return OPEN, answer  # what is dropped then may be dropped for that
        if dropped is not None:
            return FAILS, dropped
        if first == REFUSED:
            return FAILS, self._retargeted(flow) or self._refused(flow)
        found = self._retargeted(flow) or self._one_way(flow, there, FORWARD)
        if found is not None:
            return (OPEN if found.cause == causes.NOT_EXPLAINED else FAILS), self._with_report(flow, found)
        if flow.udp and self._delivered(flow):
            return (FAILS, self._unheard(flow)) if self._nobody_listens(flow) else (ARRIVES, None)
        found = self._unreachable(flow) or self._one_way(flow, back, BACK)
        if found is None and not sent and there.arrived and back.arrived and not self.seen.armed:
            return OPEN, None
        found = found or self._no_answer(flow)
        return (OPEN if found.cause == causes.NOT_EXPLAINED else FAILS), self._with_report(flow, found)

    # -- findings ------------------------------------------------------------------------------------------------------

    def _fix(self, cause: str, where: str) -> str:
        """What to do about a cause on a host."""
        return causes.FIXES[cause].format(host=where)

    def _fix_of(self, fault: Fault) -> str:
        """The same for a fault, which may name a device."""
        return fault.fix

    def _open(self, flow: Flow, direction: str, text: str, where: str) -> Finding:
        cause = causes.NOT_EXPLAINED
        return Finding(flow.id, cause, direction, where, text, self._fix(cause, where), "", UNEXPLAINED)

    def _with_report(self, flow: Flow, found: Finding) -> Finding:
        """What nobody explains, with the error that the source got when it sent."""
        sent = self.seen.sent.get(flow.id) or ()
        if found.cause != causes.NOT_EXPLAINED or not sent or sent[0].outcome not in _REPORTED or not sent[0].detail:
            return found
        return found._replace(text=f"{found.text}; the source received: {printable(sent[0].detail)}")

    def _no_answer(self, flow: Flow) -> Finding:
        """Everything leads there and back."""
        outs = self.seen.passage(flow.id, flow.start, BACK).outs
        if outs:
            text = f"the answer was last seen as {flow.start} sent it back by {', '.join(map(printable, outs))}, and its sender did not take it"
            return self._open(flow, BACK, text, flow.start)
        return self._open(flow, FORWARD, f"the facts lead to {flow.end} and back, and no answer came", flow.end)

    def _of(self, flow: Flow, fault: Fault, direction: str, confidence: str) -> Finding:
        if fault.cause == causes.NOT_EXPLAINED:
            return self._open(flow, direction, fault.text, fault.at)
        fix = self._fix_of(fault)
        return Finding(flow.id, fault.cause, direction, fault.at, fault.text, fix, fault.command, confidence)

    def _finding(
        self, flow: Flow, cause: str, direction: str, where: str, text: str, command: str = "", confidence: str = PROVEN
    ) -> Finding:
        fix = masquerade_fix(text, where) if cause == causes.MASQUERADED else self._fix(cause, where)
        return Finding(flow.id, cause, direction, where, text, fix, command, confidence)

    def _black_hole(self, flow: Flow, lost: Sent) -> Finding:
        text = f"small packets are answered, one of {lost.size} bytes that may not be cut is not, and no error reports how large it may be"
        command = f"ip route get {place_text(flow.packet.version, flow.packet.dst)}"
        return self._finding(flow, causes.MTU_BLACK_HOLE, FORWARD, flow.start, text, command)

    def _dropped(self, flow: Flow, large: bool = False) -> Finding | None:
        """The first rule on the way that dropped it, whosever it is; large: where small packets are let through."""
        for direction, hosts in ((FORWARD, (flow.start, flow.end)), (BACK, (flow.end, flow.start))):
            for host in dict.fromkeys(hosts):
                found = self.seen.passage(flow.id, host, direction)
                event = found.large_drop if large else found.drop
                if event is not None and _hides(event):
                    return self._not_translated(flow, direction, host, f"its table drops it: {event.place}")
                if event is not None:
                    what = f"packets of {event.length} bytes, no small ones," if large else "it"
                    text = f"{host} drops {what} in the hook {printable(event.hook or '?')}: {event.place}"
                    command = "nft -a list chain {0} {1} {2}".format(
                        *map(causes.argument, (event.family, event.table, event.chain))
                    )
                    return self._finding(flow, causes.FORWARD_DROPPED, direction, host, text, command)
        return None

    def _not_translated(self, flow: Flow, direction: str, host: str, why: str) -> Finding:
        """An address that another cluster does not see came to a tunnel, or out of one: no rule of NAT has decided its connection, or another one."""
        rule = self.seen.passage(flow.id, host, direction).rewrite
        text = f"{host} does not translate it ({why})"
        if rule is not None:
            text += f"; another rule of NAT decided before the mesh's: {rule.place}"
        return self._finding(
            flow, causes.TRANSLATION_MISSING, direction, host, text, "nft list tables; conntrack -L", PROVEN
        )

    def _left_as_it_was(self, flow: Flow, direction: str, host: str) -> Finding | None:
        """Whether a packet went into a tunnel with the address that its pod has in its own cluster."""
        packet = flow.packet if direction == FORWARD else flow.packet.back()
        found, node = self.seen.passage(flow.id, host, direction), self.nodes.get(host)
        outs = [dev for dev in found.outs if node is not None and dev in node.devices]
        if packet.sent is None or not outs or packet.sent in found.sources or packet.src not in found.sources:
            return None
        own, seen = (place_text(packet.version, number) for number in (packet.src, packet.sent))
        return self._not_translated(
            flow, direction, host, f"it leaves by {printable(outs[0])} with {own} and should have {seen}"
        )

    def _refused(self, flow: Flow) -> Finding:
        place = place_text(flow.packet.version, flow.packet.dst, flow.packet.port)
        unreachable = self._nobody_listens(flow)
        if self._delivered(flow) or unreachable or flow.end not in self.seen.armed:
            confidence = PROVEN if self._delivered(flow) or unreachable else LIKELY
            return self._finding(
                flow, causes.PORT_CLOSED, FORWARD, flow.end, f"{place} refuses the connection", "", confidence
            )
        return self._open(flow, FORWARD, f"somebody before {flow.end} refuses the connection to {place}", flow.start)

    def _unheard(self, flow: Flow) -> Finding:
        """A datagram that was delivered where nobody listens. The refusal may stay out: kernels send only so many in a second."""
        text = f"{flow.end} delivered it, and no process listens on {place_text(flow.packet.version, flow.packet.dst, flow.packet.port)}"
        return self._finding(flow, causes.PORT_CLOSED, FORWARD, flow.end, text, "", LIKELY)

    def _large_came(self, flow: Flow) -> bool:
        """Whether a large packet was delivered to the target's pod: then no size on the way is to blame."""
        node = self.nodes.get(flow.end)
        device = node.pods.get((flow.packet.version, flow.packet.arrived.dst)) if node is not None else None
        return bool(device) and device in self.seen.passage(flow.id, flow.end, FORWARD).large_outs

    def _retargeted(self, flow: Flow) -> Finding | None:
        """It goes to an address that is none of those of the target: whatever happens there is nothing that the facts of the target's way tell."""
        for host in dict.fromkeys((flow.start, flow.end)):
            found = self.seen.passage(flow.id, host, FORWARD)
            strange = sorted(found.targets - {flow.packet.dst} - flow.targets)
            if strange:
                text = (
                    f"on {host} it becomes one to {place_text(flow.packet.version, strange[0])} instead of {place_text(flow.packet.version, flow.packet.dst)}"
                    + (f" by {found.redirect.place}" if found.redirect else "")
                )
                return self._open(flow, FORWARD, text, host)
        return None

    def _answered_by_another(self, flow: Flow) -> bool:
        """Whether who has the target saw nothing, though it would have: nobody else may answer for what is no Service.

        Out of a tunnel of the mesh a packet meets the hooks; what a cluster's own network does inside of it may go by them.
        """
        start, end = self.nodes.get(flow.start), self.nodes.get(flow.end)
        if start is None or end is None or start is end or self.mesh.device(start, end) is None:
            return False
        if (
            not flow.targets <= {flow.packet.dst, flow.packet.arrived.dst}
            or not {flow.start, flow.end} <= self.seen.armed - self.seen.overrun
        ):
            return False
        here, there = (self.seen.passage(flow.id, host, FORWARD).events for host in (flow.start, flow.end))
        return bool(here) and not there

    def _answer_of_another(self, flow: Flow) -> Finding | None:
        """Its answer comes from an address that was not asked: whoever asked does not know it."""
        for host in dict.fromkeys((flow.end, flow.start)):
            strange = sorted(self.seen.passage(flow.id, host, BACK).sources - {flow.packet.dst} - flow.targets)
            if strange:
                wrong, right = (place_text(flow.packet.version, address) for address in (strange[0], flow.packet.dst))
                text = f"the answer comes from {wrong} instead of {right}, on {host}"
                return self._open(flow, BACK, text, host)
        return None

    def _nobody_listens(self, flow: Flow) -> bool:
        node = self.nodes.get(flow.end)
        known = node.listeners.get((flow.packet.version, flow.packet.arrived.dst)) if node is not None else None
        return (
            known is not None and flow.packet.port is not None and (flow.packet.protocol, flow.packet.port) not in known
        )

    def _delivered(self, flow: Flow) -> bool:
        """Whether the target's node delivered it."""
        found = self.seen.passage(flow.id, flow.end, FORWARD)
        if INPUT in found.hooks and not flow.to_pod:
            return True
        node = self.nodes.get(flow.end)
        tunnels = node.devices if node is not None else {}
        device = node.pods.get((flow.packet.version, flow.packet.arrived.dst)) if node is not None else None
        if device and device not in found.outs:
            return False
        return (
            found.drop is None
            and any(dev not in tunnels for dev in found.outs)
            and (flow.start != flow.end or bool(found.outs))
        )

    def _unreachable(self, flow: Flow) -> Finding | None:
        """The packet was delivered, and nothing came out of the target."""
        if (
            not self._delivered(flow)
            or flow.end not in self.seen.armed
            or self.seen.passage(flow.id, flow.end, BACK).events
        ):
            return None
        place = place_text(flow.packet.version, flow.packet.dst, flow.packet.port)
        text = f"{flow.end} sent it to {place}, and nothing came back from there"
        return self._finding(flow, causes.TARGET_UNREACHABLE, FORWARD, flow.end, text)

    def _one_way(self, flow: Flow, walk: Walk, direction: str) -> Finding | None:
        """What is wrong with one direction; None where it came to its end, or nothing shows otherwise."""
        hosts = [flow.start, flow.end] if direction == FORWARD else [flow.end, flow.start]
        hosts = list(dict.fromkeys(hosts))
        rewritten = self._rewritten(flow, direction, hosts) or self._left_as_it_was(flow, direction, hosts[0])
        last = self._last(flow, direction, hosts)
        fault = walk.fault
        if fault is not None:
            if not self.seen.armed:
                return self._of(flow, fault, direction, LIKELY)
            if self._agrees(flow, fault, direction, hosts, last):
                # what diverts it comes before what rewrites it on the way out
                sure = last is not None or fault.host not in self.seen.armed
                return (rewritten if fault.stage != IN else None) or self._of(
                    flow, fault, direction, fault.confidence if sure else LIKELY
                )
        if rewritten is not None:
            return rewritten
        if last is None:
            if hosts[0] in self.seen.armed and direction == FORWARD:
                return self._open(flow, direction, f"{hosts[0]} saw nothing of it leave its source", hosts[0])
            if walk.unknown and direction == FORWARD:
                return self._open(flow, direction, walk.unknown, hosts[0])
            return None
        index, stage = last
        if index == len(hosts) - 1:
            if stage == IN and not self._at_end(flow, direction, hosts):
                return self._not_tracked(flow, direction, hosts[-1]) or self._open(
                    flow, direction, f"last seen as it came into {hosts[-1]}, which did not pass it on", hosts[-1]
                )
            return None
        if hosts[index + 1] not in self.seen.armed:
            if walk.unknown or fault is not None:
                return self._open(
                    flow, direction, f"last seen on {hosts[index]}; {hosts[index + 1]} did not record", hosts[index]
                )
            return None
        if stage == IN:
            return self._not_tracked(flow, direction, hosts[index]) or self._open(
                flow, direction, f"last seen as it came into {hosts[index]}, which did not pass it on", hosts[index]
            )
        return self._between(flow, walk, direction, hosts[index], hosts[index + 1])

    def _not_tracked(self, flow: Flow, direction: str, host: str) -> Finding | None:
        """It came in and no further, and the host can track no further connection: the kernel drops it before any rule of NAT."""
        before, after = self.seen.tracking.get(host) or (None, None)
        full = next((one for one in (after, before) if one is not None and 0 < one.most <= one.used), None)
        if full is None:
            return None
        text = f"{host} drops it: its table of tracked connections is full ({full.used:,} of {full.most:,})"
        counted_before, counted_after = (one.dropped if one is not None else None for one in (before, after))
        lost = 0 if counted_before is None or counted_after is None else counted_after - counted_before
        if lost > 0:
            text += f"; {lost:,} packets could not be tracked meanwhile"
        command = "sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max"
        return self._finding(
            flow, causes.CONNTRACK_FULL, direction, host, text, command, PROVEN if lost > 0 else LIKELY
        )

    def _at_end(self, flow: Flow, direction: str, hosts: t.Sequence[str]) -> bool:
        """Whether it was delivered to the end itself where that is no pod."""
        found = self.seen.passage(flow.id, hosts[-1], direction)
        return INPUT in found.hooks and not (flow.to_pod if direction == FORWARD else flow.from_pod)

    def _last(self, flow: Flow, direction: str, hosts: t.Sequence[str]) -> tuple[int, int] | None:
        """The last place where it was seen: (index of the host, stage)."""
        for index in range(len(hosts) - 1, -1, -1):
            stage = self.seen.passage(flow.id, hosts[index], direction).stage
            if stage is not None:
                return index, stage
        return None

    def _agrees(
        self, flow: Flow, fault: Fault, direction: str, hosts: t.Sequence[str], last: tuple[int, int] | None
    ) -> bool:
        """Whether what was seen is what a fault would leave to be seen."""
        if fault.host not in hosts:
            return False
        index = hosts.index(fault.host)
        outs = self.seen.passage(flow.id, fault.host, direction).outs
        if fault.dev is not None and fault.dev in outs:
            return True
        if last is None:
            # a host that records sees at least what it sends itself
            return fault.host not in self.seen.armed and not any(host in self.seen.armed for host in hosts[:index])
        if last[0] > index:
            return False
        if last[0] < index:
            return fault.host not in self.seen.armed and last[1] == OUT
        return last[1] == IN if fault.stage == IN else last[1] == OUT

    def _rewritten(self, flow: Flow, direction: str, hosts: t.Sequence[str]) -> Finding | None:
        """The source is another one than was sent, though it went through a tunnel."""
        desired = flow.packet.src if direction == FORWARD else flow.packet.dst
        for index, host in enumerate(hosts):
            found = self.seen.passage(flow.id, host, direction)
            tunnels = self.nodes[host].devices if host in self.nodes else {}
            inside = index > 0 or any(dev in tunnels for dev in found.outs)
            strange = (
                sorted(found.sources - {desired, flow.packet.inside.src}) if direction == FORWARD and inside else []
            )
            if strange:
                rule = self.seen.passage(flow.id, hosts[max(0, index - 1)], direction).rewrite
                came, right = (place_text(flow.packet.version, one) for one in (strange[0], flow.packet.inside.src))
                text = f"it comes to {host} from {came} instead of {right}" + (f" by {rule.place}" if rule else "")
                at = hosts[max(0, index - 1)]
                return self._finding(flow, causes.MASQUERADED, direction, at, text, "nft list ruleset")
            if found.rewrite is not None and index == 0 and any(dev in tunnels for dev in found.outs):
                later = self.seen.passage(flow.id, hosts[-1], direction)
                if len(hosts) > 1 and not later.events:
                    text = f"{host} rewrites its source before it enters the tunnel: {found.rewrite.place}"
                    return self._finding(flow, causes.MASQUERADED, direction, host, text, "nft list ruleset")
        return None

    # -- between two nodes ---------------------------------------------------------------------------------------------

    def _between(self, flow: Flow, walk: Walk, direction: str, host: str, other: str) -> Finding:
        """It left one node and never came to the next: what the tunnel's ends counted shows more."""
        outs = self.seen.passage(flow.id, host, direction).outs
        where = f"last seen as it left {host} by {', '.join(map(printable, outs)) or '?'}; {other} did not see it"
        desired = next((step.dev for step in walk.steps if step.host == host and step.dev is not None), None)
        if desired is not None and outs and desired not in outs:
            where += f"; routes and rules of {host} lead to {printable(desired)}, so a mark or a rewriting on its way there decided otherwise"
        here, there = self.nodes.get(host), self.nodes.get(other)
        device = next((here.devices[dev] for dev in outs if dev in here.devices), None) if here is not None else None
        if here is None or there is None or device is None or walk.fault is not None and walk.fault.host == host:
            return self._open(flow, direction, where, host)
        inner = next(
            (
                one
                for one in there.devices.values()
                if device.peer(one.public_key) is not None and one.peer(device.public_key) is not None
            ),
            None,
        )
        if inner is None:
            return self._open(flow, direction, where, host)
        mine = counted(device, (self.seen.after.get(host) or {}).get(device.name), inner.public_key)
        theirs = counted(inner, (self.seen.after.get(other) or {}).get(inner.name), device.public_key)
        return self._udp(flow, direction, (host, device, mine), (other, inner, theirs), where)

    def _udp(
        self,
        flow: Flow,
        direction: str,
        mine: tuple[str, Device, Counted],
        theirs: tuple[str, Device, Counted],
        where: str,
    ) -> Finding:
        host, device, here = mine
        other, inner, there = theirs
        command = f"wg show {causes.argument(device.name)}"
        if here.rx is None or there.rx is None:
            return self._open(flow, direction, where, host)
        if not here.tx:
            return self._open(flow, direction, where + ", and its tunnel sent nothing", host)
        session, theirs_too = _session(here), _session(there)
        # what the other end sends is counted here where both have the session, or where it has none and calls
        called = self._sent_into(other, inner.name) and (session or not theirs_too)
        if not there.rx and here.rx:
            text = f"{host} receives from {other}, which receives nothing from it: UDP from {host} to {other} is lost; {where}"
            # an answer that is not taken, for the sake of a preshared key, is counted as little as one that is lost
            ends = (device.peer(inner.public_key), inner.peer(device.public_key))
            sure = session or theirs_too or all(peer is not None and peer.preshared is False for peer in ends)
            return self._finding(
                flow, causes.UDP_BLOCKED_ONE_WAY, direction, other, text, command, PROVEN if sure else LIKELY
            )
        if not there.rx and called:
            text = (
                f"{host} and {other} both send, and neither receives from the other: UDP between them is lost; {where}"
            )
            return self._finding(flow, causes.UDP_BLOCKED, direction, host, text, command)
        if not session:
            why = "got no answer"
            if there.rx and here.rx:
                why = "each receives from the other, and no session comes about (do their preshared keys differ?)"
            elif there.rx:
                why = "which heard it; its answer was lost, or is not taken (do their preshared keys differ?)"
            text = f"{host} called {other}, {why}; {where}"
            return self._finding(flow, causes.NO_HANDSHAKE, direction, host, text, command, LIKELY)
        return self._open(flow, direction, where, host)

    def _sent_into(self, host: str, device: str) -> bool:
        """Whether a host sent a packet of any flow into a tunnel."""
        return any(key[1] == host and device in found.outs for key, found in self.seen.passages.items())
