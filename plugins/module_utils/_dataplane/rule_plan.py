# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Owned sets of policy routing rules: those with our protocol number, between two priorities (decision 32; kubespan 17).

Where rules of one priority change, copies of the new ones are set at a priority alongside it while the old ones are
replaced: no packet finds the place empty, and the kernel, which deletes the first rule that has what is named, can only
meet the rule that is meant.
"""

from __future__ import annotations

import re
import typing as t

from .._plan.plan import Plan
from .._values.addresses import parse_network
from .._values.refused import ValueRefused, quoted
from .._values.text import check_interface_name, parse_decimal
from .constants import KERNEL_PRIORITIES, ROUTE_PROTOCOL, TABLE_NAMES, TABLES

Data = dict[str, t.Any]

ACTIONS = {"lookup": "to_table", "blackhole": "blackhole", "unreachable": "unreachable", "prohibit": "prohibit"}
FAMILIES = {"ipv4": (4,), "ipv6": (6,), "both": (4, 6)}
_SELECTORS = ("src", "dst", "iif", "oif", "fwmark", "fwmask", "invert")
_ALL = 0xFFFFFFFF
_MARK = re.compile(r"(?:0[xX][0-9a-fA-F]{1,8}|0|[1-9][0-9]{0,9})\Z")
#: What the kernel does not compare when it looks for the rule to delete: an inverted rule may be taken for its opposite.
_NOT_COMPARED = frozenset(("invert",))
#: What is neither written nor left in an owned rule.
_FURTHER = ("tos", "suppress_ifgroup", "ipproto", "sport", "dport", "uidrange", "goto", "l3mdev", "other")


class RulePlan(Plan):
    """A plan and its ``steps`` for _linux.netlink.rules.apply_rules, in order. rules: the set as it will be."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Data] = []
        self.rules: list[Data] = []


class RuleSpec(t.NamedTuple):
    """An owned set of rules, of priorities from ``first`` to ``last``; ``rules`` are as a caller gave them, see RouteSpec."""

    present: bool
    protocol: int
    first: int
    last: int
    rules: tuple[t.Mapping[str, t.Any], ...]
    adopt: bool
    purge: bool


def parse_rules(raw: t.Mapping[str, t.Any]) -> RuleSpec:
    """From what a caller gave: the fields of RuleSpec, and ``state`` (present or absent). Raises ValueRefused."""
    protocol = parse_decimal(ROUTE_PROTOCOL if raw.get("protocol") is None else raw["protocol"], "bad_protocol")
    if not 5 <= protocol <= 255:
        raise ValueRefused("bad_protocol", f"{protocol} is not between 5 and 255; lower numbers are reserved")
    limits = (raw.get("priority_min"), 1), (raw.get("priority_max"), _ALL)
    first, last = (parse_decimal(default if value is None else value, "bad_priority") for value, default in limits)
    if not 1 <= first <= last <= _ALL:
        raise ValueRefused("bad_priority", f"priorities from {first} to {last} are no range")
    return RuleSpec(
        raw.get("state") != "absent",
        protocol,
        first,
        last,
        tuple(raw.get("rules") or ()),
        bool(raw.get("adopt")),
        raw.get("purge") is not False,
    )


def parse_mark(text: object) -> tuple[int, int]:
    """``0x40/0x60``, ``0x40`` or ``64`` as (mark, mask). Reason: bad_mark."""
    parts = str(text).split("/") if isinstance(text, (str, int)) and not isinstance(text, bool) else []
    if not 1 <= len(parts) <= 2 or not all(_MARK.match(part) for part in parts):
        raise ValueRefused("bad_mark", f"{quoted(text)} is no mark, and no mark with a mask")
    mark, mask = int(parts[0], 0), int(parts[1], 0) if len(parts) == 2 else _ALL
    if max(mark, mask) > _ALL or mark & ~mask:
        raise ValueRefused(
            "bad_mark", f"{quoted(text)} matches no packet: the mark must lie within its mask, and 32 bits"
        )
    return mark, mask


def parse_rule(raw: t.Mapping[str, t.Any], desired: RuleSpec) -> list[Data]:
    """One expected rule, in each of its families, as a dump would show it. Reason: bad_rule, bad_mark, bad_table."""
    priority = parse_decimal(raw.get("priority"), "bad_rule")
    if priority in KERNEL_PRIORITIES or not desired.first <= priority <= desired.last:
        raise ValueRefused("bad_rule", f"priority {priority} is reserved")
    action = raw.get("action") or "lookup"
    if action not in ACTIONS:
        raise ValueRefused("bad_rule", f"{quoted(action)} is not an action")
    networks = {name: parse_network(raw[name], "bad_rule") for name in ("src", "dst") if raw.get(name)}
    versions = _versions(raw.get("family"), [network.version for network in networks.values()])
    mark, mask = parse_mark(raw["fwmark"]) if raw.get("fwmark") not in (None, "") else (None, None)
    suppress = raw.get("suppress_prefixlength")
    if suppress is not None and parse_decimal(suppress, "bad_rule") > 128:
        raise ValueRefused("bad_rule", f"{quoted(suppress)} is no prefix length")
    if action != "lookup" and (suppress is not None or raw.get("table") is not None):
        raise ValueRefused("bad_rule", "only a rule that looks up a table has a table or suppress_prefixlength")
    rule = {
        "priority": priority,
        "action": ACTIONS[action],
        "table": _table(raw.get("table")) if action == "lookup" else None,
        "protocol": desired.protocol,
        "fwmark": mark,
        "fwmask": mask,
        "src": str(networks["src"]) if "src" in networks else None,
        "dst": str(networks["dst"]) if "dst" in networks else None,
        "iif": check_interface_name(raw["iif"]) if raw.get("iif") else None,
        "oif": check_interface_name(raw["oif"]) if raw.get("oif") else None,
        "invert": bool(raw.get("invert")),
        "suppress_prefixlength": None if suppress is None else int(suppress),
    }
    for name in ("src", "dst"):  # a dump does not tell "from all" from a rule without
        if name in networks and networks[name].prefixlen == 0:
            rule[name] = None
    return [dict(rule, version=version) for version in versions]


def _versions(family: str | None, of_networks: t.Sequence[int]) -> tuple[int, ...]:
    family = family or ("both" if not of_networks else f"ipv{of_networks[0]}")
    if family not in FAMILIES:
        raise ValueRefused("bad_rule", f"{quoted(family)} is not a family")
    if any((version,) != FAMILIES[family] for version in of_networks):
        raise ValueRefused("bad_rule", "src and dst must be of the rule's one family")
    return FAMILIES[family]


def _table(value: object) -> int:
    number = TABLES.get(str(value)) or parse_decimal(value, "bad_table") if isinstance(value, (str, int)) else 0
    if not 1 <= number <= _ALL:
        raise ValueRefused("bad_table", f"{quoted(value)} is no routing table")
    return number


def rule_id(rule: t.Mapping[str, t.Any]) -> str:
    """``32500: from all fwmark 0x40/0x60 lookup 180 (IPv4)``, in the spelling of ip."""
    words = [f"{rule['priority']}:"] + (["not"] if rule.get("invert") else [])
    words.append(f"from {rule.get('src') or 'all'}")
    words += ["to " + rule["dst"]] if rule.get("dst") else []
    if rule.get("fwmark") is not None:
        mask = "" if rule.get("fwmask") in (None, _ALL) else f"/0x{rule['fwmask']:x}"
        words.append(f"fwmark 0x{rule['fwmark']:x}{mask}")
    words += [f"{name} {rule[name]}" for name in ("iif", "oif") if rule.get(name)]
    action = rule.get("action") or "to_table"
    words.append(f"lookup {TABLE_NAMES.get(rule['table'], rule['table'])}" if action == "to_table" else action)
    if rule.get("suppress_prefixlength") is not None:
        words.append(f"suppress_prefixlength {rule['suppress_prefixlength']}")
    return f"{' '.join(words)} (IPv{rule['version']})"


def plan_rules(desired: RuleSpec, actual: t.Mapping[int, t.Sequence[t.Mapping[str, t.Any]]]) -> RulePlan:
    """Compare. actual: {4: [...], 6: [...]}, all rules of the host."""
    plan = RulePlan()
    expected = _expected(plan, desired)
    adopted: list[t.Mapping[str, t.Any]] = []
    inseparable = _inseparable(desired, expected, actual) if desired.adopt else frozenset()
    for key in list(expected):
        rule = expected[key]
        unowned = _unowned(desired, rule, actual)
        if key in inseparable:
            message = "the kernel would delete another rule of the same priority in place of the one to take over; remove one of them first"
            plan.refuse(rule_id(rule), "not_ours", message)
            del expected[key]
        elif unowned and not desired.adopt:
            same = all(_does_same(other, rule) for other in unowned)
            message = (
                "a rule with this priority that selects the same has another owner (protocol {0}); it is left alone"
            )
            plan.refuse(
                rule_id(rule), "adoptable" if same else "not_ours", message.format(unowned[0].get("protocol") or "none")
            )
            del expected[key]
        else:
            adopted.extend(unowned)
    places: dict[tuple[int, int], list[Data]] = {}
    for rule in expected.values():
        places.setdefault(_where(rule), []).append(rule)
    owned = [rule for version in (4, 6) for rule in actual[version] if _owned(rule, desired)]
    for own in owned:
        places.setdefault(_where(own), [])
    purge = desired.purge or not desired.present
    for place in sorted(places, key=lambda place: (not places[place], place)):  # those that nothing replaces go last
        here = [rule for rule in owned if _where(rule) == place]
        theirs = [rule for rule in adopted if _where(rule) == place]
        taken = {priority for version, priority in places if version == place[0]} | {
            rule["priority"] for rule in actual[place[0]]
        }
        _place(plan, places[place], here, theirs, taken, purge)
    plan.rules = sorted(plan.rules, key=lambda rule: (rule["version"], rule["priority"], rule_id(rule)))
    return plan


def _unowned(
    desired: RuleSpec, rule: Data, actual: t.Mapping[int, t.Sequence[t.Mapping[str, t.Any]]]
) -> list[t.Mapping[str, t.Any]]:
    return [
        r
        for r in actual[rule["version"]]
        if not _owned(r, desired) and _where(r) == _where(rule) and _selects_same(r, rule)
    ]


def _inseparable(
    desired: RuleSpec, expected: t.Mapping[t.Any, Data], actual: t.Mapping[int, t.Sequence[t.Mapping[str, t.Any]]]
) -> set[t.Any]:
    """Expected rules with unowned twins that cannot be deleted alone: a deletion takes the first rule that has all selectors it names."""
    refused: set[t.Any] = set()
    while True:
        taken = {key: _unowned(desired, rule, actual) for key, rule in expected.items() if key not in refused}
        gone = [rule for rules in taken.values() for rule in rules]
        more = {
            key
            for key, rules in taken.items()
            for rule in rules
            if any(
                other not in gone and _where(other) == _where(rule) and _would_hit(rule, other)
                for other in actual[expected[key]["version"]]
            )
        }
        if not more:
            return refused
        refused |= more


def _would_hit(request: t.Mapping[str, t.Any], rule: t.Mapping[str, t.Any]) -> bool:
    return all(_nothing(value) or name in _NOT_COMPARED or rule.get(name) == value for name, value in request.items())


def _place(
    plan: RulePlan,
    expected: t.Sequence[Data],
    owned: t.Sequence[t.Mapping[str, t.Any]],
    adopted: t.Sequence[t.Mapping[str, t.Any]],
    taken: t.Container[int],
    purge: bool,
) -> None:
    """The rules of one family and priority. taken: priorities that copies cannot have."""
    right = [rule for rule in expected if any(_same(rule, other) for other in owned)]
    missing = [rule for rule in expected if rule not in right]
    wrong = [rule for rule in owned if not any(_same(other, rule) for other in expected)]
    plan.unchanged += len(right)
    plan.rules.extend(expected)
    kept: list[Data] = []
    if not purge:
        kept = [dict(rule) for rule in wrong if not any(_selects_same(rule, other) for other in expected)]
        wrong = [rule for rule in wrong if rule not in kept]
        plan.rules.extend(_view(rule) for rule in kept)
    # of two rules the one with more selectors first: it would be taken for the other
    gone = sorted([*wrong, *adopted], key=_set_fields, reverse=True)
    for rule in missing:
        before = next((other for other in gone if _selects_same(other, rule)), None)
        if before is None:
            plan.create("rule", rule_id(rule), _view(rule))
        else:
            plan.update("rule", rule_id(rule), _view(before), _view(rule))
    for own in wrong:
        if not any(_selects_same(own, other) for other in missing):
            plan.delete("rule", rule_id(own), _view(own))
    if not gone:
        plan.steps.extend({"op": "add", "rule": rule} for rule in missing)
    elif not expected:
        plan.steps.extend({"op": "delete", "rule": dict(rule)} for rule in gone)
    else:
        alongside = _free_place(expected[0]["priority"], taken)
        copies = [dict(rule, priority=alongside) for rule in [*expected, *kept]]
        plan.steps.extend({"op": "add", "rule": rule} for rule in copies)
        plan.steps.extend(
            {"op": "delete", "rule": dict(rule)}
            for rule in sorted([*gone, *right, *kept], key=_set_fields, reverse=True)
        )
        plan.steps.extend({"op": "add", "rule": rule} for rule in [*expected, *kept])
        plan.steps.extend({"op": "delete", "rule": rule} for rule in sorted(copies, key=_set_fields, reverse=True))


def _expected(plan: Plan, desired: RuleSpec) -> dict[tuple[t.Any, ...], Data]:
    expected: dict[tuple[t.Any, ...], Data] = {}
    for index, raw in enumerate(desired.rules if desired.present else ()):
        try:
            rules = parse_rule(raw, desired)
        except ValueRefused as error:
            plan.refuse(f"rules[{index}]", error.reason, error.message)
            continue
        for rule in rules:
            key = _where(rule) + tuple(rule[name] for name in _SELECTORS)
            if key in expected and expected[key] != rule:
                message = "another rule of this set with the same priority selects the same packets"
                plan.refuse(rule_id(rule), "claimed_twice", message)
            else:
                expected[key] = rule
    return expected


def _where(rule: t.Mapping[str, t.Any]) -> tuple[int, int]:
    return rule["version"], rule["priority"]


def _owned(rule: t.Mapping[str, t.Any], desired: RuleSpec) -> bool:
    if rule["priority"] in KERNEL_PRIORITIES:
        return False
    return rule.get("protocol") == desired.protocol and desired.first <= rule["priority"] <= desired.last


def _free_place(priority: int, taken: t.Container[int]) -> int:
    """The nearest priority that no rule of the family has, the next one if it can be."""
    for distance in range(1, 1 << 16):
        for place in (priority + distance, priority - distance):
            if 0 < place <= _ALL and place not in taken and place not in KERNEL_PRIORITIES:
                return place
    raise ValueRefused("bad_rule", f"no priority near {priority} is free")


def _set_fields(rule: t.Mapping[str, t.Any]) -> int:
    """How many fields a rule sets."""
    return sum(not _nothing(value) for value in rule.values())


def _nothing(value: t.Any) -> bool:
    return value is None or value is False or value == [] or value == ""


def _selects_same(one: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> bool:
    if any(not _nothing(rule.get(name)) for rule in (one, other) for name in _FURTHER if name != "goto"):
        return False
    return all(
        (one.get(name) or None) == (other.get(name) or None) if name == "invert" else one.get(name) == other.get(name)
        for name in _SELECTORS
    )


def _does_same(one: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> bool:
    return all(one.get(name) == other.get(name) for name in ("action", "table", "suppress_prefixlength", "goto"))


def _same(one: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> bool:
    return _selects_same(one, other) and _does_same(one, other) and one.get("protocol") == other.get("protocol")


def _view(rule: t.Mapping[str, t.Any]) -> Data:
    names = ("version", "priority", "action", "table", "protocol", "suppress_prefixlength") + _SELECTORS
    return {name: rule.get(name) for name in names}
