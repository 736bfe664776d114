# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Diffs as lines for people. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.multicluster.network.plugins.plugin_utils.digest_space import printable

#: Lines of one file in a diff; the file itself is on the host.
FILE_LINES = 3
#: Kinds of a node's objects in the order in which a person needs them: what packets depend on first.
_WEIGHTS = {
    kind: number
    for number, kind in enumerate(
        [
            "peer",
            "route",
            "rule",
            "link",
            "address",
            "nftables",
            "speaker",
            "setting",
            "node",
            "unit",
            "credentials",
            "key",
            "secret",
            "folder",
            "file",
        ]
    )
}


def _headings(text: str, before: t.Any, after: t.Any) -> t.Iterator[tuple[str, str]]:
    """(changed line, the line without indent above it where that one has not changed, or "") of a unified diff of before and after."""
    sides = [_objects_above(side) for side in (before, after)]
    at = [0, 0]
    for line in text.splitlines():
        hunk = re.match(r"@@ -([0-9]+)(?:,[0-9]+)? [+]([0-9]+)", line)
        if hunk:
            at = [int(hunk.group(1)) - 1, int(hunk.group(2)) - 1]
        elif line[:1] == " ":
            at = [at[0] + 1, at[1] + 1]
        elif line[:1] in ("+", "-") and not line.startswith(("+++", "---")):
            side = int(line[0] == "+")
            known = line[1:2] in (" ", "\t") and at[side] < len(sides[side])
            yield line, sides[side][at[side]] if known else ""
            at[side] += 1


def _objects_above(text: t.Any) -> list[str]:
    """For each line of a text the last one without indent so far."""
    found: list[str] = []
    for line in text.splitlines() if isinstance(text, str) else ():
        found.append(line if line[:1] not in (" ", "\t", "") else found[-1] if found else "")
    return found


def short_diff(text: str, whole: bool, before: t.Any = None, after: t.Any = None) -> list[str]:
    """The changed lines of a diff, each object by its name. Of a file's own text only the beginning, unless the whole is asked for.

    before, after: the texts that were compared, for the names of objects of which only some lines changed.
    """
    if whole:
        return [printable(line) for line in text.splitlines()]
    shown: list[str] = []
    of_file, left_out, object_is = 0, 0, ""
    for line, heading in _joined(_by_weight(_headings(text, before, after))):
        if line[1:2] not in (" ", "\t"):  # an object; what is indented belongs to it
            of_file, object_is = 1 if re.match(r"[+-](file|unit) ", line) else 0, line[1:]
        elif heading and heading != object_is:
            of_file, object_is = 1 if re.match(r"(file|unit) ", heading) else 0, heading
            shown.append(printable(" " + heading))
        if line[1:2] in (" ", "\t") and of_file:
            of_file += 1
            if of_file > FILE_LINES + 1:
                left_out += 1
                continue
        shown.append(printable(line))
    if left_out:
        shown.append(f"({left_out} lines of files: -v shows them)")
    return shown


#: What Ansible puts around each line of a diff where a terminal has colours, also around the empty rest behind its end.
_COLOURED = re.compile(r"^(?:\x1b\[[0-9;]*m)+|\x1b\[0m$", re.MULTILINE)


def uncoloured(text: str) -> str:
    """A diff of Ansible's without the colours that it puts around lines; escapes inside a line stay what they are, text of others."""
    return _COLOURED.sub("", text)


def _by_weight(lines: t.Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same lines, the objects first that packets depend on. A diff that has other lines than those of our objects keeps its order."""
    blocks: list[tuple[str, list[tuple[str, str]]]] = []  # (the object, its lines)
    for line, heading in lines:
        about = line[1:] if line[1:2] not in (" ", "\t") else heading
        if not blocks or (about and about != blocks[-1][0]):
            blocks.append((about, []))
        blocks[-1][1].append((line, heading))
    if all(about.split(" ")[0] in _WEIGHTS for about, unused in blocks):
        blocks.sort(key=lambda block: _WEIGHTS[block[0].split(" ")[0]])
    return [row for unused, rows in blocks for row in rows]


#: Objects that are shown in one line where all of one comes or goes: a first run makes hundreds of them.
_SHORT_KINDS = ("peer", "route", "rule", "link", "address")
_FIELD = re.compile(r"[+-]  (?P<name>[a-z][a-z_ ]*):(?: (?P<value>.+))?", re.ASCII)
_ITEM = re.compile(r"[+-]  (?:  )?- (?P<value>[^:{}]*(?::\S[^{}]*)?)", re.ASCII)


def _joined(lines: t.Sequence[tuple[str, str]]) -> t.Iterator[tuple[str, str]]:
    """The same lines, those of an object that comes or goes as a whole in one: ``+route 10.4.0.0/16: device wireguard.gcp, table 254``."""
    at = 0
    while at < len(lines):
        line, heading = lines[at]
        end = at + 1
        while end < len(lines) and lines[end][0][:1] == line[:1] and lines[end][0][1:2] in (" ", "\t"):
            end += 1
        fields = _fields([row for row, unused in lines[at + 1 : end]]) if line[1:].startswith(_SHORT_KINDS) else None
        if fields is None:
            yield from lines[at:end]
        else:
            yield line + (": " + ", ".join(fields) if fields else ""), heading
        at = end


def _fields(rows: t.Sequence[str]) -> list[str] | None:
    """``name value`` of each field that has one; None for what has another form than fields and lists."""
    found: list[tuple[str, list[str]]] = []
    for row in rows:
        field, item = _FIELD.fullmatch(row), _ITEM.fullmatch(row)
        if field:
            found.append((field["name"], [field["value"]] if field["value"] else []))
        elif item and found:
            found[-1][1].append(item["value"])
        else:
            return None
    return [f"{name} {' '.join(values)}" for name, values in found if values and values not in (["[]"], ["{}"], ["''"])]
