# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What a screen has room for, and what it has already said. Pure: text of others is made harmless here, before it is shown."""

from __future__ import annotations

import re
import textwrap
import typing as t

#: What a line of a diff begins with.
_SIGNS = ("+", "-")
#: What people copy stays in one piece.
_COMMAND = re.compile(r"ansible-playbook \S+(?: -\S+(?: [^\s-]\S*)?)*|ip link set \S+ up", re.ASCII)


def some(names: t.Sequence[str], most: int = 5) -> str:
    """Names for a line; those that have no room are counted."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


class Said:
    """What a screen has already said of causes: the last play sums up what others failed of, and nothing is said twice."""

    #: Shorter texts are no causes.
    LEAST = 30

    def __init__(self) -> None:
        self._known: set[str] = set()

    def add(self, lines: t.Iterable[str]) -> None:
        self._known.update(text for text in map(_cause, lines) if len(text) >= self.LEAST)

    def has(self, line: str) -> bool:
        return _cause(line) in self._known

    def shortened(self, line: str) -> str:
        """A line without the cause at its end that was said: ``2 failed in gcp, see above``; the same line where it is news."""
        summed = _SUMMED.match(line)
        return f"{summed.group(1)}, see above" if summed and self.has(summed.group(2)) else line

    def news(self, lines: t.Sequence[str]) -> list[str]:
        """The lines of a report without the causes that were said before it."""
        fresh: list[str] = []
        refused = 0
        for line in lines:
            if line.strip() and self.has(line):
                if line.startswith(_REFUSED_ROW):
                    refused += 1
                    continue
                if fresh and fresh[-1].endswith(":") and not fresh[-1].startswith(" "):
                    fresh[-1] += " see above"
                continue
            if fresh and fresh[-1].endswith(": see above") and line.startswith(" "):
                fresh[-1] = fresh[-1][: -len(" see above")]  # others follow
            fresh.append(line)
        self.add(fresh)
        return [*fresh, f"{_REFUSED_ROW}{refused}, see above"] if refused else fresh


#: How a cause may begin and end, by where it is said.
_SUMMED = re.compile(r"(\d+ (?:failed|problems)(?: in [^:]{1,400}?)?), first: (.*)$", re.DOTALL | re.ASCII)
#: How the table at the end of a run begins a refusal.
_REFUSED_ROW = "refused: "
_PLACE = re.compile(
    r"\s*(?:(?:[a-z_]{1,40}: )?refused:? (?=\S+: )|"
    r"(?:[a-z_]{1,40}, )?(?:node \S{1,253} of )?cluster [a-z][a-z0-9-]{0,62}: |[a-z_]{1,40}: (?=\d+ problems|cluster ))",
    re.ASCII,
)
_REASON = re.compile(r" \[[a-z_]{1,60}\]$", re.ASCII)


def _cause(line: str) -> str:
    """A line without where it is said, and without its reason."""
    text = _REASON.sub("", line.strip())
    while True:
        place = _PLACE.match(text)
        summed = _SUMMED.match(text)
        if not place and not summed:
            return text
        text = text[place.end() :] if place else summed.group(2) if summed else text


def fitted(line: str, columns: int) -> list[str]:
    """A line as lines that a terminal of so many columns holds, broken between words; 0: as it is.

    What begins with a command of the collection, and a path, stay in one piece, since they are copied.
    """
    if not columns or len(line) <= columns:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    lead = indent + (line.lstrip(" ")[:1] if line.lstrip(" ")[:1] in _SIGNS else "")  # what was added goes on as added
    given = _COMMAND.sub(lambda found: found.group().replace(" ", "\0"), line[len(lead) :])
    rows = textwrap.wrap(
        given,
        columns,
        initial_indent=lead,
        subsequent_indent=lead + "    ",
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
        expand_tabs=False,
        replace_whitespace=False,
    )
    return [row.replace("\0", " ") for row in rows] or [line]


def printable(line: str) -> str:
    """A line that moves no cursor."""
    return "".join(char if char.isprintable() or char == "\t" else "?" for char in line)


class Room:
    """How many lines of diffs a screen has, for each host and for all of them; 0 is no bound. Every line that found no room is counted."""

    def __init__(self, of_one: int, whole: int) -> None:
        self._of_one, self._whole = of_one, whole
        self._shown: dict[str, int] = {}
        self._all = 0
        self._left_out: dict[str, int] = {}

    def take(self, who: str, lines: t.Sequence[str]) -> list[str]:
        """The lines that are shown of a diff, under the name of their host; none where there is no room left."""
        shown = self._shown.get(who, 0)
        room = len(lines)
        if self._of_one:
            room = min(room, self._of_one - shown)
        if self._whole:
            room = min(room, self._whole - self._all - 1)
        room = max(room, 0)
        if room < len(lines):
            self._left_out[who] = self._left_out.get(who, 0) + len(lines) - room
        if not room:
            return []
        self._shown[who] = shown + room
        self._all += room + 1
        title = f"{who}:" if room == len(lines) else f"{who}: {room:,} of {len(lines):,} lines"
        return [title] + ["  " + line for line in lines[:room]]

    def left_out(self, details: str | None) -> list[str]:
        """One line on what was not shown, and where it is; none where everything was. ``details``: the file that has all, or None."""
        if not self._left_out:
            return []
        where = (
            f"{details} has all of them, and so has -v"
            if details
            else "-v shows all of them, MULTICLUSTER_DIGEST_DETAILS=FILE keeps them"
        )
        names = some(sorted(self._left_out), 3)
        return [f"{sum(self._left_out.values()):,} lines of diffs left out, of {names}: {where}"]


class Repeats:
    """Failures of one task with the same cause are one: it is shown for the first host, and the others are named."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str, str], str] = {}
        self._others: dict[tuple[str, str, str], list[str]] = {}

    def is_news(self, how: str, who: str, task: str, line: str) -> bool:
        """Whether it is shown; otherwise the host is named later. how: what such a line begins with."""
        key = (how, task, line.replace(who, "*"))
        first = self._first.setdefault(key, who)
        if first != who and who not in self._others.setdefault(key, []):
            self._others[key].append(who)
        return first == who

    def lines(self) -> list[str]:
        """One line for each cause that others had, too; then none of them is kept."""
        found = [
            f"{key[0]} {some(sorted(names), 20)}: {key[1]}: the same as {self._first[key]}"
            for key, names in self._others.items()
            if names
        ]
        self._first, self._others = {}, {}
        return found


class Alike:
    """Warnings that differ in their host's name alone are one, and there is room for so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: dict[str, int] = {}

    def is_news(self, host: str, text: str) -> bool:
        """Whether it is shown; otherwise it is counted."""
        key = text.replace(host, "*")
        self._seen[key] = self._seen.get(key, 0) + 1
        return self._seen[key] == 1 and len(self._seen) <= self._most

    def __len__(self) -> int:
        return len(self._seen)

    def left_out(self) -> list[str]:
        """One line on those that were only counted."""
        shown = min(len(self._seen), self._most)
        count = sum(self._seen.values()) - shown
        return (
            [f"{count:,} more warnings, {'of other hosts' if len(self._seen) == shown else '-v shows them'}"]
            if count
            else []
        )


class Held:
    """Warnings of refusals, until the table at the end of a run has named them; what it does not name is shown last, so many of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._texts: dict[str, None] = {}
        self._seen: set[str] = set()

    def take(self, host: str, text: str) -> bool:
        """Whether a warning is one of a refusal; then it is kept here, once where several hosts refuse alike."""
        if not text.startswith("refused "):
            return False
        key = text.replace(host, "*")
        if key not in self._seen:
            self._seen.add(key)
            self._texts[text] = None
        return True

    def __len__(self) -> int:
        return len(self._seen)

    def shown(self, lines: t.Iterable[str]) -> None:
        """Drop those that lines of the table have; one line may speak for several clusters."""
        for line in lines:
            if line.startswith("refused: "):
                self._texts = {text: None for text in self._texts if text.partition(": ")[2] not in line}

    def rest(self) -> list[str]:
        """The others; then none of them is kept."""
        found, self._texts = list(self._texts), {}
        more = len(found) - self._most
        return [*found[: self._most], f"{more:,} more refusals, -v shows them"] if more > 0 else found
