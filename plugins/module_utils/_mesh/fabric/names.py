# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and values of the inventory's variables.

A name that begins like one of the collection's and is none would have no effect, silently; an empty text or a number where there is a list
would count as something else, silently.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
import typing as t

from ..._values.refused import quoted
from .variables import Finding

#: Findings beyond these are counted only: an inventory of another project has one per name, whatever the number of hosts.
MAX_FINDINGS = 100
#: How near a name must be to be what was meant; nearer still where the name need not be meant for us at all.
_NEAR, _VERY_NEAR = 0.6, 0.85
_LONGEST = 64
#: A name with more of these has another meaning.
_MOST_SLIPS = 3

Hosts = t.Sequence[str]
#: What Ansible takes as yes or no.
_BOOLS = frozenset(
    [
        "yes",
        "Yes",
        "YES",
        "no",
        "No",
        "NO",
        "y",
        "Y",
        "n",
        "N",
        "true",
        "True",
        "TRUE",
        "false",
        "False",
        "FALSE",
        "on",
        "On",
        "ON",
        "off",
        "Off",
        "OFF",
        "t",
        "T",
        "f",
        "F",
        "1",
        "0",
        "1.0",
        "0.0",
    ]
)

Rows = t.Iterable[tuple[str, t.Any, Hosts]]


class Known(t.NamedTuple):
    """The names of the collection.

    ``names``: every variable; ``prefixes``: what our variables begin with; ``unowned``: names of others that begin so too;
    ``command_line``: variables that Ansible reads before it knows hosts;
    ``choices``: {variable: values that it, or an entry of its list, may have}; ``of_hosts``: variables that single hosts carry;
    ``types``: {variable: a key of _TYPES}; ``former``: {what a variable was called: its name now}; ``shared``: those
    of them that others have too; ``former_words``: the same of capabilities and playbooks, which the variables ``words_in`` name.
    """

    names: frozenset[str]
    prefixes: tuple[str, ...]
    unowned: frozenset[str]
    command_line: frozenset[str]
    choices: t.Mapping[str, tuple[str, ...]]
    of_hosts: frozenset[str]
    types: t.Mapping[str, str]
    former: t.Mapping[str, str]
    shared: frozenset[str]
    former_words: t.Mapping[str, str]
    words_in: frozenset[str]


def check_names(
    given: t.Mapping[str, Hosts],
    known: Known,
    place: t.Callable[[Hosts], str],
    elsewhere: t.Collection[str] = (),
    unowned: t.Iterable[str] = (),
) -> list[Finding]:
    """What is wrong with names of variables, as many hosts as may have them.

    given: {variable: hosts that have it}. place: hosts to words such as ``group aws_nodes``. elsewhere: what was given on the
    command line. unowned: names and patterns that the inventory declares to be something else's.
    """
    spared, typos = _Spared(known, unowned), _Typos(known.names)
    found: list[Finding] = []
    for name in sorted(given):
        if spared.covers(name):
            continue
        if name in known.former:
            if name not in known.shared or known.former[name] not in given:
                found.append(_renamed(name, _where(name, given, place, elsewhere), known))
        elif name in known.command_line and name not in elsewhere:
            found.append(_no_effect(name, place(given[name]), known))
        elif name in known.names:
            continue
        elif name.startswith(known.prefixes):
            found.append(_unknown(name, _where(name, given, place, elsewhere), known))
        else:
            typo_of = typos.of(name)
            near = typo_of or (_nearest(name, known.names, _VERY_NEAR) if _resembles(name, known) else None)
            if near:
                message = f"{quoted(name)} is no variable of this collection; did you mean {near}?"
                where = _where(name, given, place, elsewhere)
                level = "error" if typo_of else "warning"
                found.append(
                    Finding(where, name[:_LONGEST], "misspelt_variable", message + _WAY_OUT.format(quoted(name)), level)
                )
    return _bounded(found)


def check_choices(
    rows: Rows, known: Known, place: t.Callable[[Hosts], str], elsewhere: t.Collection[str] = ()
) -> list[Finding]:
    """Values that are none of a variable's choices, or former names. rows: (variable, value, the hosts that have this value)."""
    found: list[Finding] = []
    for name, value, hosts in rows:
        choices, where = known.choices.get(name), "command line" if name in elsewhere else place(hosts)
        if name in known.words_in:
            found += [
                Finding(where, name, "former_name", message) for message in renamed_words(value, known.former_words)
            ]
        if not choices:
            continue
        if name.endswith("_capabilities") and not isinstance(value, (list, tuple)):
            shown = value if isinstance(value, str) and value in choices else choices[0]
            message = f"{name} is a list, not {quoted(value)}; write {name}: [{shown}]"
            found.append(Finding(where, name, "bad_type", message))
            continue
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        for item in dict.fromkeys(str(item) for item in items if [str(other) for other in items].count(str(item)) > 1):
            found.append(Finding(where, name, "bad_choice", f"{quoted(item)} is there twice; write it once"))
        for item in items:
            if item not in choices and item not in known.former_words:
                near = _nearest(str(item), choices, _NEAR)
                message = f"{quoted(item)} is none of {', '.join(choices)}{(f'; did you mean {near}?' if near else '')}"
                found.append(Finding(where, name, "bad_choice", message))
    return _bounded(found)


def renamed_words(value: t.Any, former: t.Mapping[str, str]) -> list[str]:
    """A message for each capability or playbook that a value calls by a former name.

    value: a name, a list of names, or rows of what is followed, ``[{playbooks: [name], capability: name}]``. former: {old: new}.
    """
    return [f"{name} is {former[name]} now" for name in dict.fromkeys(_words(value)) if name in former]


def _words(value: t.Any) -> list[str]:
    if isinstance(value, t.Mapping):
        value = [value.get("playbooks"), value.get("capability")]
    if isinstance(value, (list, tuple)):
        return [name for item in value for name in _words(item)]
    return [value] if isinstance(value, str) else []


_WAY_OUT = " If it is something else's, list it in multicluster_foreign_variables: [{0}]"


class _Spared:
    """Names that somebody else answers for."""

    def __init__(self, known: Known, unowned: t.Iterable[str]) -> None:
        self._names, self._patterns = set(known.unowned), []
        for item in unowned:
            if any(char in item for char in "*?["):
                self._patterns.append(item)
            else:
                self._names.add(item)

    def covers(self, name: str) -> bool:
        return name in self._names or any(fnmatch.fnmatchcase(name, pattern) for pattern in self._patterns)


class _Typos:
    """Names that are one slip of a finger away from one of the collection's: a letter too many, missing or wrong, or two swapped."""

    def __init__(self, names: t.Iterable[str]) -> None:
        self._by_length: dict[int, list[str]] = {}
        for name in sorted(names):
            self._by_length.setdefault(len(name), []).append(name)

    def of(self, name: str) -> str | None:
        """The variable that was meant, wherever the slip is, also in the prefix. Cheap enough for every name of an inventory."""
        lengths = (len(name), len(name) - 1, len(name) + 1)
        return next(
            (known for length in lengths for known in self._by_length.get(length, ()) if _one_slip(name, known)), None
        )


def _one_slip(one: str, other: str) -> bool:
    at = next(
        (index for index, (left, right) in enumerate(zip(one, other)) if left != right), min(len(one), len(other))
    )
    left, right = one[at:], other[at:]
    return (
        left[1:] == right[1:]
        or left[1:] == right
        or left == right[1:]
        or (left[1::-1] == right[:2] and left[2:] == right[2:])
    )


def _slips(one: str, other: str) -> int:
    """How many letters are too many, missing, wrong or swapped with the next one."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, 1):
        before, last, row = row, before, [index]
        for column, desired in enumerate(other, 1):
            best = min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != desired))
            if last and column > 1 and letter == other[column - 2] and desired == one[index - 2]:
                best = min(best, last[column - 2] + 1)
            row.append(best)
    return row[-1]


def _where(
    name: str, given: t.Mapping[str, Hosts], place: t.Callable[[Hosts], str], elsewhere: t.Collection[str]
) -> str:
    return "command line" if name in elsewhere else place(given[name])


def _no_effect(name: str, where: str, known: Known) -> Finding:
    near = _nearest(name, known.of_hosts, _VERY_NEAR)
    message = f"{name} has no effect in the inventory, since Ansible reads it before it knows any host; write -e {name}=... instead"
    if near:
        message += f"; or did you mean {near}?"
    return Finding(where, name, "command_line_only", message)


def _renamed(name: str, where: str, known: Known) -> Finding:
    message = f"{name} is {known.former[name]} now and has no effect under its former name."
    return Finding(
        where,
        name,
        "former_name",
        message + _WAY_OUT.format(quoted(name)),
        "warning" if name in known.shared else "error",
    )


def _unknown(name: str, where: str, known: Known) -> Finding:
    near = _meant(name, known)
    message = f"{quoted(name)} is no variable of this collection and has no effect"
    message += f"; did you mean {near}?" if near else "; remove it."
    return Finding(where, name[:_LONGEST], "unknown_variable", message + _WAY_OUT.format(quoted(name)))


def _meant(name: str, known: Known) -> str | None:
    """What a name with one of our prefixes was meant to be. A prefix alone makes any two names alike, so what follows it decides."""
    text = _plain(name)
    rest = len(text) - max(len(prefix) for prefix in known.prefixes if name.startswith(prefix))
    allowed = min(_MOST_SLIPS, max(1, rest // 3))
    slips = {near: _slips(text, near) for near in difflib.get_close_matches(text, sorted(known.names), 5, _NEAR)}
    return next((near for near in sorted(slips, key=lambda near: slips[near]) if slips[near] <= allowed), None)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")[:_LONGEST]


def _nearest(name: str, names: t.Iterable[str], cutoff: float) -> str | None:
    found = difflib.get_close_matches(_plain(name), sorted(names), 1, cutoff)
    return found[0] if found else None


def _resembles(name: str, known: Known) -> bool:
    """Whether a name begins almost as the collection's do, a test that is cheap enough for every name of an inventory."""
    if len(name) > _LONGEST or "_" not in name or name.startswith(("ansible_", "__")):
        return False
    for prefix in known.prefixes:
        head = "_".join(name.lower().split("_")[: prefix.count("_")]) + "_"
        if head[:1] == prefix[:1] and abs(len(head) - len(prefix)) <= 2 and len(prefix) > 5:
            matcher = difflib.SequenceMatcher(None, head, prefix)
            if matcher.quick_ratio() >= _VERY_NEAR and matcher.ratio() >= _VERY_NEAR:
                return True
    return False


def _bounded(found: list[Finding]) -> list[Finding]:
    if len(found) <= MAX_FINDINGS:
        return found
    message = f"{len(found) - MAX_FINDINGS} more of this kind"
    return [*found[:MAX_FINDINGS], found[MAX_FINDINGS]._replace(variable="", message=message)]


def check_types(
    rows: Rows,
    types: t.Mapping[str, str],
    groups: t.Collection[str],
    place: t.Callable[[Hosts], str],
    elsewhere: t.Collection[str] = (),
) -> list[Finding]:
    """What is wrong with values. rows: (variable, value, the hosts that have it); types: {variable: seconds, group, names or bool}.

    groups: all that the inventory has. place: hosts to words. elsewhere: what was given on the command line.
    """
    found = []
    for name, value, hosts in rows:
        fits, advice = _TYPES[types[name]]
        if not fits(value, groups):
            where = "command line" if name in elsewhere else place(hosts)
            shown = "empty" if value is None or value == "" else quoted(str(value))
            found.append(Finding(where, name, "bad_type", f"{name} is {shown}; {advice.format(name)}, or leave it out"))
    return found


def _is_seconds(value: t.Any, dummy: t.Collection[str]) -> bool:
    try:
        return not isinstance(value, bool) and 0 <= float(value) < math.inf
    except (TypeError, ValueError):
        return False


def _is_group(value: t.Any, groups: t.Collection[str]) -> bool:
    return isinstance(value, str) and value in groups


def _are_names(value: t.Any, dummy: t.Collection[str]) -> bool:
    rows = [value] if isinstance(value, str) else value
    return isinstance(rows, (list, tuple)) and all(isinstance(row, str) and row for row in rows)


def _is_bool(value: t.Any, dummy: t.Collection[str]) -> bool:
    return isinstance(value, bool) or (value is not None and str(value) in _BOOLS)


#: A type of values -> whether a value is one, and what to write.
_TYPES: dict[str, tuple[t.Callable[[t.Any, t.Collection[str]], bool], str]] = {
    "seconds": (_is_seconds, "write seconds, such as {0}: 600"),
    "group": (_is_group, "write the name of a group that the inventory has, such as {0}: clusters"),
    "names": (_are_names, "write a list of names, such as {0}: [status_page_url]"),
    "bool": (_is_bool, "write {0}: true or {0}: false"),
}
