# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The follower of a node's layer 2 speaker: what the node can deliver, as its kube-proxy reports it, with or without a play.

A play writes ``speaker.json``: the groups, the addresses of each, and their health ports. The follower asks those ports twice a second and writes
to a file for each group whether this node can deliver; keepalived reads it at once and hands the group over to the next node, or is its backup again.
"""

from __future__ import annotations

import hashlib
import json
import typing as t

from ...._linux import files
from ...._linux.daemons import keepalived
from ...._linux.host.links import change_addresses
from ...._linux.netlink.links import read_links
from ...._loadbalancers.delivery import Decision, Desired
from ...._loadbalancers.layer2.segment import Segment, parse_segment
from .. import follower

STATE = keepalived.FOLDER + "/speaker.json"
STATUS = "/run/multicluster-network/layer2-speaker.json"
KEPT = "/var/lib/multicluster-network-layer2/known.json"
VERSION = 1
YES, NO = b"0\n", b"1\n"


class State(t.NamedTuple):
    """What a play wants. ``left_out``: why this node announces nothing, or nothing; ``digest`` distinguishes one state from another."""

    segment: Segment
    interface: str
    node_port: int
    left_out: str
    digest: str

    @property
    def desired(self) -> tuple[Desired, ...]:
        """Groups by their numbers, as networks with a condition are decided."""
        return tuple(Desired(str(group.number), group.health_ports) for group in self.segment.groups)


def parse_state(text: str) -> State:
    """Of ``speaker.json``. Raises ValueRefused, and ValueError for what is no such state."""
    given = json.loads(text)
    if not isinstance(given, dict) or given.get("version") != VERSION:
        raise ValueError("this is no state of a layer 2 speaker")
    return State(
        parse_segment(given),
        str(given["interface"]),
        int(given["node_port"]),
        str(given["left_out"]),
        hashlib.sha256(text.encode("utf-8")).hexdigest()[:16],
    )


def load_state() -> State | None:
    """None where there is none. Raises ValueRefused, ValueError."""
    return follower.load_state(STATE, parse_state)


class Follower(follower.Follower):
    """Reports to keepalived for each group whether this node can deliver."""

    lock = "multicluster-layer2"

    def __init__(self) -> None:
        super().__init__(KEPT, STATUS)

    def _round(self, starting: bool) -> None:
        """``starting``: nothing that an earlier one said is believed."""
        state = load_state()
        if state is None:
            return
        holds = self._decide(state, starting)
        _write_groups(state, frozenset(holds.announced))
        withheld = {
            address: holds.withheld[str(group.number)]
            for group in state.segment.groups
            for address in group.addresses
            if str(group.number) in holds.withheld
        }
        self._say(
            {
                "version": VERSION,
                "state": state.digest,
                "interface": state.interface,
                "withheld": withheld,
                "stopped": holds.stopped,
            }
        )

    def _decide(self, state: State, starting: bool) -> Decision:
        if state.left_out:
            why = f"this node is left out: {state.left_out}"
            return Decision([], {desired.network: why for desired in state.desired}, why)

        def delivered() -> list[str]:
            return (
                [] if starting else [desired.network for desired in state.desired if read_group(desired.network) == YES]
            )

        return self.ports.decide(
            state.desired, state.node_port, ("127.0.0.1", "::1", *state.segment.me.addresses), delivered
        )


def _path(number: str) -> str:
    return f"{keepalived.TRACK}/{number}"


def read_group(number: str) -> bytes:
    """What keepalived was notified of a group last; empty for nothing."""
    return files.content(_path(number)) or b""


def _write_groups(state: State, delivered: t.Container[str]) -> None:
    """Only what differs is written: keepalived reads a file whenever it is."""
    desired = {one.network: YES if one.network in delivered else NO for one in state.desired}
    for number, text in desired.items():
        if read_group(number) != text:
            files.write_state(_path(number), files.FileState("file", 0o644, text))
    for name in files.list_folder(keepalived.TRACK):
        if name not in desired:
            files.remove(_path(name))


def read_status() -> follower.Status:
    """The state that the follower reports; {} when there is none."""
    return follower.read_status(STATUS)


def held(interface: str, addresses: t.Container[str]) -> dict[str, str]:
    """Those of the addresses that this node has now, as keepalived puts them there: address -> with its length. Raises LinuxError."""
    texts = [address.text for link in read_links() if link.name == interface for address in link.addresses]
    return {
        text.partition("/")[0]: text
        for text in texts
        if text.partition("/")[0] in addresses and text.endswith(("/32", "/128"))
    }


def shown() -> dict[str, t.Any] | None:
    """For the status: ``{interface, holds, withheld}``, the latter two networks; None where there is no speaker. Raises LinuxError, ValueError.

    ``withheld``: for want of a pod. Nothing of a node that can deliver nothing at all.
    """
    state = load_state()
    if state is None:
        return None
    status = read_status()
    withheld = {} if status.get("stopped") else status.get("withheld") or {}
    return {
        "interface": state.interface,
        "holds": sorted(held(state.interface, state.segment.addresses).values()),
        "withheld": sorted(_network(address) for address in state.segment.addresses if address in withheld),
    }


def _network(address: str) -> str:
    return f"{address}/{128 if ':' in address else 32}"


def clean() -> list[str]:
    """Take what keepalived left behind when it was killed: another node has it by then. Returns the addresses. Raises LinuxError, ValueError."""
    state = load_state()
    if state is None:
        return []
    left = held(state.interface, state.segment.addresses)
    if left:
        change_addresses(state.interface, (), sorted(left.values()))
    return sorted(left)


def config_digest() -> bytes:
    """Of what keepalived reads when it starts or reloads; empty for nothing."""
    found = files.content(keepalived.CONFIG)
    return hashlib.sha256(found).hexdigest().encode("ascii") if found is not None else b""


def note_loaded() -> None:
    """Keepalived has read its file."""
    files.write_state(keepalived.LOADED, files.FileState("file", 0o644, config_digest()))


def is_loaded() -> bool:
    """Whether what runs is what is in the file: a play may have been killed between writing it and notifying keepalived."""
    found = files.read_state(keepalived.LOADED)
    return found is not None and found.content == config_digest()


def start() -> int:
    """Just before the daemon: what is left behind goes, and what this node can deliver right now is written down. Returns the exit status."""
    return follower.start(_start)


def _start() -> None:
    files.make_folder(keepalived.TRACK)
    clean()
    Follower().round(starting=True)
    note_loaded()


def follow() -> None:
    """For ever."""
    follower.follow(Follower())
