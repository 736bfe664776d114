# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rules of iptables do with packets from one range to another, as ``iptables-save`` prints them. Pure.

Only what is certain is said: a rule with a match that is not understood may apply or not, and what comes after one that could have decided is open.
"""

from __future__ import annotations

import shlex
import typing as t

from .._values.addresses import Network, contains, overlaps, parse_network
from .._values.refused import ValueRefused

ACCEPT, DROP, MASQUERADE, RETURN, NOTHING, OPEN = "accept", "drop", "masquerade", "return", "nothing", "open"
_TARGETS = {
    "ACCEPT": ACCEPT,
    "DROP": DROP,
    "REJECT": DROP,
    "MASQUERADE": MASQUERADE,
    "SNAT": MASQUERADE,
    "NETMAP": OPEN,
    "RETURN": RETURN,
}
#: Chains of kube-proxy that concern addresses of Services alone; there are thousands of them.
_SERVICES = (
    "KUBE-SVC-",
    "KUBE-SEP-",
    "KUBE-EXT-",
    "KUBE-FW-",
    "KUBE-XLB-",
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-PROXY-FIREWALL",
)
#: Matches that are asked for by their options, or say nothing; and words that have a value.
_UNDERSTOOD = ("comment", "mark", "conntrack", "state")
_WITH_VALUE = ("-s", "-d", "-o", "-i", "-p", "-m", "-j", "-g", "--comment", "--ctstate", "--state", "--mark")
#: Chains nested deeper than this are no chains of a kernel, which refuses loops.
_DEEPEST = 30
#: More rules than these are not looked at.
MOST = 2000


class Packet(t.NamedTuple):
    """The first packet of a connection, of any protocol: from any address of ``source`` to any of ``target``, leaving by ``device``."""

    source: Network
    target: Network
    device: str


class Verdict(t.NamedTuple):
    """What happens, and the rule (or the policy of a chain) that does it."""

    what: str
    rule: str = ""


def kept(text: str) -> list[str]:
    """The lines of ``iptables-save`` that walk() needs; none where there are too many."""
    tables: dict[str, list[str]] = {}
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif table in ("nat", "filter") and line[:1] in (":", "-"):
            tables.setdefault(table, []).append(line)
    found: list[str] = []
    for table, start in (("nat", "POSTROUTING"), ("filter", "FORWARD")):
        rules: dict[str, list[str]] = {}
        for line in tables.get(table, ()):
            words = line.split()
            if line.startswith("-A") and len(words) > 1:
                rules.setdefault(words[1], []).append(line)
        reached, waiting = {start}, [start]
        while waiting:
            for line in rules.get(waiting.pop(), ()):
                for name in [
                    part
                    for part in line.split()
                    if part in rules and part not in reached and not part.startswith(_SERVICES)
                ]:
                    reached.add(name)
                    waiting.append(name)
        lines = [
            line for line in tables.get(table, ()) if line.lstrip(":").split()[:1] == [start] or _chain(line) in reached
        ]
        found += ["*" + table, *lines] if lines else []
    return found if len(found) <= MOST else []


def _chain(line: str) -> str:
    words = line.split()
    return words[1] if line.startswith("-A") and len(words) > 1 else ""


def walk(lines: t.Iterable[str], table: str, start: str, packet: Packet) -> Verdict:
    """What becomes of the packet in a built-in chain. NOTHING: no rule concerns it."""
    rules: dict[str, list[str]] = {}
    policy, here = "", ""
    for line in lines:
        if line.startswith("*"):
            here = line[1:].strip()
        elif here != table:
            continue
        elif line.startswith(":"):
            words = line[1:].split()
            policy = words[1] if len(words) > 1 and words[0] == start else policy
        elif _chain(line):
            rules.setdefault(_chain(line), []).append(line)
    found = _walk(rules, start, packet, 0)
    if found.what in (NOTHING, RETURN) and policy == "DROP":
        return Verdict(DROP, f"the policy of chain {start}")
    return found


def _walk(rules: t.Mapping[str, t.Sequence[str]], chain: str, packet: Packet, depth: int) -> Verdict:
    maybe = False
    for line in rules.get(chain, ()):
        hit, target = _match(line, packet)
        if hit is False:
            continue
        if target in _TARGETS:
            what = _TARGETS[target]
            found = Verdict(what, line)
            if what == RETURN and hit and not maybe:
                return Verdict(RETURN)
        elif target in rules:
            found = _walk(rules, target, packet, depth + 1) if depth < _DEEPEST else Verdict(OPEN)
            if found.what in (NOTHING, RETURN):
                continue
        else:
            continue  # a mark, a log line, a chain of Services
        if hit and not maybe:
            return found
        maybe = True
    return Verdict(OPEN if maybe else NOTHING)


def _match(line: str, packet: Packet) -> tuple[bool | None, str]:
    """Whether a rule matches (None: that is not known), and its target."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None, "NETMAP"
    answers: list[bool | None] = []
    target, index, flip = "", 2, False
    while index < len(words):
        option, value = words[index], words[index + 1] if index + 1 < len(words) else ""
        index += 2 if option in _WITH_VALUE else 1
        if option == "!":
            flip = True
            continue
        if option in ("-j", "-g"):
            target = value
            break  # what follows belongs to the target
        if option == "--comment" or (option == "-m" and value in _UNDERSTOOD):
            continue
        answer = _one(option, value, packet)
        answers.append(answer if answer is None or not flip else not answer)
        flip = False
    return (False if False in answers else None if None in answers else True), target


def _one(option: str, value: str, packet: Packet) -> bool | None:
    """The same of one match."""
    if option in ("-s", "-d"):
        return _within(packet.source if option == "-s" else packet.target, value)
    if option == "-o":
        return packet.device.startswith(value[:-1]) if value.endswith("+") else packet.device == value
    if option in ("--ctstate", "--state"):
        return "NEW" in value.split(",")
    return _unmarked(value) if option == "--mark" else None


def _within(network: Network, text: str) -> bool | None:
    try:
        given = parse_network(text if "/" in text else f"{text}/{network.max_prefixlen}")
    except ValueRefused:
        return None
    return True if contains(given, network) else None if overlaps(given, network) else False


def _unmarked(text: str) -> bool | None:
    """Whether a packet without a mark has this one."""
    try:
        return int(text.split("/")[0], 16) == 0
    except ValueError:
        return None
