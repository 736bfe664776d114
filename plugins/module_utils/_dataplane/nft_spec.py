# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person wants of a table of nftables, read strictly: names, chains, sets and their elements, rules as nft's own text."""

from __future__ import annotations

import re
import typing as t

from .._plan.plan import Refusal
from .._values.addresses import parse_address, parse_network
from .._values.prefix_sets import Span, merged, span
from .._values.refused import ValueRefused, quoted
from .._values.text import parse_decimal
from .constants import OWNER

Data = dict[str, t.Any]

FAMILIES = ("inet", "ip", "ip6")
HOOKS = ("prerouting", "input", "forward", "output", "postrouting")
CHAIN_TYPES = ("filter", "nat", "route")
SET_VERSIONS = {"ipv4_addr": 4, "ipv6_addr": 6, "inet_service": 0}
#: nft's words for priorities.
PRIORITIES = {"raw": -300, "mangle": -150, "dstnat": -100, "filter": 0, "security": 50, "srcnat": 100}
MAX_RULE = 8192
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}\Z")
_OWNER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")
_PRIORITY = re.compile(r"(?:(-?[0-9]{1,10})|([a-z]+)(?: *([+-]) *([0-9]{1,9}))?)\Z")
_QUOTED = re.compile(r'"[^"]*"')


def parse_table(raw: t.Mapping[str, t.Any]) -> Data:
    """``{table, owner, state, refused: [Refusal]}``, the first three as the flow wants them.

    Elements that are none are refused one by one (``bad_element``); anything else makes a table that nobody meant, so it
    raises ValueRefused: bad_name, bad_chain, bad_set, bad_rule.
    """
    family = raw.get("family") or "inet"
    if family not in FAMILIES:
        raise ValueRefused("bad_name", f"{quoted(family)} is not a family")
    owner = raw.get("owner")
    if owner is not None and not (isinstance(owner, str) and _OWNER_NAME.match(owner)):
        raise ValueRefused("bad_name", f"{quoted(owner)} is no name of an owner")
    refused: list[Refusal] = []
    table: dict[str, t.Any] = {
        "family": family,
        "name": _name(raw.get("name"), "table"),
        "sets": [_set(item, refused) for item in raw.get("sets") or ()],
        "chains": [_chain(chain, index) for index, chain in enumerate(raw.get("chains") or ())],
    }
    for part in ("sets", "chains"):
        names = [item["name"] for item in table[part]]
        for name in names:
            if names.count(name) > 1:
                raise ValueRefused("bad_name", f"two {part} have the name {name}")
    mark = f"{OWNER}/{owner}" if owner else OWNER
    return {"table": table, "owner": mark, "state": raw.get("state") or "present", "refused": refused}


def _name(value: object, what: str) -> str:
    if not isinstance(value, str) or not _NAME.match(value):
        raise ValueRefused("bad_name", f"{quoted(value)} is no name for a {what}")
    return value


def parse_priority(value: object) -> int:
    """A number, a name (``filter``), or a name with a distance (``mangle - 5``). Reason: bad_chain."""
    match = _PRIORITY.match(str(value)) if isinstance(value, (int, str)) and not isinstance(value, bool) else None
    if match is None or (match.group(2) and match.group(2) not in PRIORITIES):
        raise ValueRefused("bad_chain", f"{quoted(value)} is no priority")
    number = (
        int(match.group(1))
        if match.group(1)
        else PRIORITIES[match.group(2)] + int((match.group(3) or "") + (match.group(4) or "0"))
    )
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueRefused("bad_chain", f"priority {number} has more than 32 bits")
    return number


def _chain(raw: t.Mapping[str, t.Any], index: int) -> Data:
    name = _name(raw.get("name"), "chain")
    rules = [check_rule(rule, f"chains[{index}].rules[{number}]") for number, rule in enumerate(raw.get("rules") or ())]
    chain: Data = {"name": name, "type": None, "hook": None, "priority": 0, "policy": None, "rules": rules}
    if raw.get("hook") is None:
        if raw.get("type") or raw.get("policy") or raw.get("priority") is not None:
            raise ValueRefused("bad_chain", f"chain {name} has no hook, so it has no type, priority or policy")
        return chain
    kind, policy = raw.get("type") or "filter", raw.get("policy") or "accept"
    if raw["hook"] not in HOOKS or kind not in CHAIN_TYPES or policy not in ("accept", "drop"):
        raise ValueRefused(
            "bad_chain", f"chain {name}: {quoted(kind)} {quoted(raw['hook'])} {quoted(policy)} is no place for a chain"
        )
    priority = parse_priority("filter" if raw.get("priority") is None else raw["priority"])
    return dict(chain, type=kind, hook=raw["hook"], priority=priority, policy=policy)


def check_rule(text: object, where: str = "rule") -> str:
    """A rule in nft's language, on one line. What would end it and begin another command is refused as bad_rule."""
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_RULE:
        raise ValueRefused("bad_rule", f"{where}: {quoted(text)} is no rule")
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise ValueRefused("bad_rule", f"{where}: a rule has one line")
    plain = _QUOTED.sub("", text)
    found = [character for character in ';#\\"' if character in plain]
    if found:
        raise ValueRefused("bad_rule", f"{where}: {quoted(found[0])} outside of quotes would end the rule")
    return " ".join(text.split()) if '"' not in text else text.strip()


def _set(raw: t.Mapping[str, t.Any], refused: list[Refusal]) -> Data:
    name, kind = _name(raw.get("name"), "set"), raw.get("type")
    if kind not in SET_VERSIONS:
        raise ValueRefused("bad_set", f"set {name}: {quoted(kind)} is not a type of keys that is known here")
    interval = raw.get("interval") is not False
    spans: list[Span] = []
    for text in raw.get("elements") or ():
        try:
            found = parse_element(text, kind)
            if not interval and found[0] != found[1]:
                raise ValueRefused("bad_element", f"{quoted(text)} is a range, and the set has no intervals")
            spans.append(found)
        except ValueRefused as error:
            refused.append(Refusal(f"set {name}: {quoted(text)}", "bad_element", error.message))
    flags = ["interval"] if interval else []
    external = (raw.get("elements_owner") or "managed") == "external"
    elements = merged(spans) if interval else tuple(sorted(set(spans)))
    return {"name": name, "type": kind, "flags": flags, "elements": elements, "external": external}


def parse_element(text: object, kind: str) -> Span:
    """An address, a network, a port, or ``first-last`` as (first, last). Reason: bad_element."""
    version = SET_VERSIONS[kind]
    text = str(text) if isinstance(text, int) and not isinstance(text, bool) else text
    if not isinstance(text, str):
        raise ValueRefused("bad_element", f"{quoted(text)} is no element")
    first_text, dash, last_text = text.partition("-")
    if not version:
        first = parse_decimal(first_text, "bad_element")
        last = parse_decimal(last_text, "bad_element") if dash else first
        if first > last or last > 65535:
            raise ValueRefused("bad_element", f"{quoted(text)} is no port and no range of ports")
        return first, last
    if dash:
        ends = [parse_address(part, "bad_element") for part in (first_text, last_text)]
        if any(end.version != version for end in ends) or int(ends[0]) > int(ends[1]):
            raise ValueRefused("bad_element", f"{quoted(text)} is no range of {kind}")
        return int(ends[0]), int(ends[1])
    found, first, last = span(
        parse_network(text if "/" in text else f"{text}/{32 if version == 4 else 128}", "bad_element")
    )
    if found != version:
        raise ValueRefused("bad_element", f"{quoted(text)} is no element of type {kind}")
    return first, last
