# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Results of tasks as lines for people. Pure: what is shown, and never where."""

from __future__ import annotations

import re
import textwrap
import typing as t

Data = t.Mapping[str, t.Any]
#: A line that is longer goes on in the result, which -vvv shows.
LONGEST = 600
#: Kinds of objects that a step's line names; the rest is a number.
SHOWN_KINDS = 6
#: Lines that a task shows without a cut. More of them are looked at: tables in which nothing is wrong are left out.
SHORT = 10
#: Lines of one file in a diff; the file itself is on the host.
FILE_LINES = 3
#: How a run names what it left undone outside of --limit (outcome.undone_lines).
LIMITED = "a run without --limit does the rest"
#: What the last line of a run begins with.
NEXT = "next: "
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
#: What a line of a diff begins with.
_SIGNS = ("+", "-")
#: What people copy stays in one piece.
_COMMAND = re.compile(r"ansible-playbook \S+(?: -\S+(?: [^\s-]\S*)?)*|ip link set \S+ up", re.ASCII)
#: What is wrong says so by one of these. A table that has one is shown as it is.
_WRONG = re.compile(
    r"fail|broken|not proven|refused|unreachable|lost|missing|error|unknown|none\b|never", re.IGNORECASE | re.ASCII
)
_HEADER = re.compile(r"^[A-Z][A-Z_]{2,}( [a-z]+)*(  |$)")
_LOST = re.compile(
    r"lost [\d,]+ pairs? |a run stops before its first write|Service \S+ keeps no endpoint|address \S+ of \S+ (has no node|is announced by none)",
    re.ASCII,
)
_RISKED = re.compile(
    r"(risked|still broken|moved|without a path for (?:a while|at most \d+ s)) [\d,]+ pairs? |not proven: |address \S+ of \S+ moves ",
    re.ASCII,
)
_ACTIONS = (("create", "created"), ("update", "changed"), ("delete", "removed"))
#: The same in check mode, which writes nothing.
_WOULD = {"created": "would create", "changed": "would change", "removed": "would remove"}
#: A cluster that a line of ours blames, and all those that the last play blames.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
_BLAMED = re.compile(
    r"(?:\d+ failed, first: )?(?:[a-z_ ]{1,40}, )?(?:node \S{1,253} of )?cluster ([a-z][a-z0-9-]{0,62}): ", re.ASCII
)
_ALL_BLAMED = re.compile(r"\d+ failed in ([a-z][a-z0-9-]{0,62}(?:, [a-z][a-z0-9-]{0,62})*), first: ", re.ASCII)
_HOUSEKEEPING = (
    "include_role",
    "include_tasks",
    "set_fact",
    "debug",
    "validate_argument_spec",
    "meta",
    "mesh_changes",
    "mesh_report",
    "run_changes",
    "run_failure",
    "run_guard",
    "run_outcome",
    "run_pods",
    "run_round",
    "run_show",
    "run_survey",
)


def one_line(value: t.Any) -> str:
    """Text of others as one line, of which nothing moves a cursor."""
    text = " ".join(str(value).split())
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= LONGEST else text[: LONGEST - 4] + " ..."


def loss(line: str) -> str:
    """``lost``, ``risked`` or ``gained`` for a line of a comparison of paths, as module_utils/_trace/changes.py and answers.py write them; else empty."""
    if _LOST.match(line):
        return "lost"
    if _RISKED.match(line):
        return "risked"
    return "gained" if line.startswith("gained ") else ""


def is_housekeeping(action: str) -> bool:
    """Whether a task only serves the playbook."""
    return str(action).rsplit(".", maxsplit=1)[-1] in _HOUSEKEEPING


def counts(data: Data) -> dict[tuple[str, str], int]:
    """(what was done, kind) -> how often, from the plan of a module of this collection."""
    plan = data.get("plan")
    if not isinstance(plan, dict):
        return {}
    found: dict[tuple[str, str], int] = {}
    rows = _rows(plan.get("changes"))
    for action, done in _ACTIONS:
        number = plan.get(action)
        if not isinstance(number, int):
            continue
        kinds = [str(row.get("kind")) for row in rows if row.get("action") == action]
        for kind in kinds:
            found[done, kind] = found.get((done, kind), 0) + 1
        if number > len(kinds):  # a result names the first of many changes only
            found[done, "object"] = found.get((done, "object"), 0) + number - len(kinds)
    refused = data.get("refused")
    if isinstance(refused, list) and refused:
        found["refused", ""] = len(refused)
    return found


def topology(data: Data) -> str:
    """What a plan of the mesh is about: ``7 nodes in 2 clusters: 14 devices, 24 peers; 3 refused``."""
    mesh = data.get("mesh")
    if (
        not isinstance(mesh, dict)
        or not isinstance(mesh.get("nodes"), dict)
        or not isinstance(mesh.get("clusters"), dict)
    ):
        return ""
    devices = peers = 0
    for node in mesh["nodes"].values():
        cluster = mesh["clusters"].get(str(node.get("cluster"))) if isinstance(node, dict) else None
        remotes = cluster.get("remotes") if isinstance(cluster, dict) else None
        for remote in remotes.values() if isinstance(remotes, dict) else ():
            devices += 1
            peers += len(remote.get("peers") or ()) if isinstance(remote, dict) else 0
    text = f"{len(mesh['nodes'])} nodes in {len(mesh['clusters'])} clusters"
    if devices:
        text += f": {devices} devices"
    if peers:  # without a key of any node, as in validate, no one knows how many there will be
        text += f", {peers} peers"
    refused = _rows(data.get("refused"))
    return text + (f"; {len(refused)} refused" if refused else "")


def _rows(value: t.Any) -> list[Data]:
    """A list of dictionaries; what else a result may have there is none."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def step_line(
    name: str,
    states: t.Mapping[str, int],
    done: t.Mapping[tuple[str, str], int],
    reported: str,
    seconds: float,
    planned: bool = False,
) -> str:
    """One play as a line; ``planned`` where all its changes are those of check mode."""
    total = sum(states.values())
    words = _WOULD if planned else {}
    parts = [
        f"{states[state]} {words.get(state, state)}"
        for state in ("changed", "failed", "unreachable")
        if states.get(state)
    ]
    whole = f"{total} hosts" if total > 1 else ""
    if not parts:
        parts = ["ok"] if reported else ["nothing to change"]
    if total == 1 and states.get("changed"):
        parts = [words.get("changed", "changed")]
    texts = [", ".join(text for text in (whole, *parts) if text)]
    if reported:
        texts.append(reported)
    objects = _objects(done, words)
    if objects:
        texts.append(objects)
    return f"{name}: {'; '.join(texts)} ({seconds:.1f} s)"


def _objects(done: t.Mapping[tuple[str, str], int], words: t.Mapping[str, str]) -> str:
    texts = []
    for unused, word in _ACTIONS:
        rows = sorted(
            ((number, kind) for (action, kind), number in done.items() if action == word),
            key=lambda row: (-row[0], row[1]),
        )
        if rows:
            shown = [_number(number, kind) for number, kind in rows[:SHOWN_KINDS]]
            rest = sum(number for number, kind in rows[SHOWN_KINDS:])
            texts.append(f"{words.get(word, word)} {', '.join(shown + ([f'{rest} more'] if rest else []))}")
    refused = sum(number for (action, unused), number in done.items() if action == "refused")
    if refused:
        texts.append(f"{refused} refused")
    return "; ".join(texts)


def _number(number: int, kind: str) -> str:
    """``1 link``, ``2 links``, ``2 addresses``."""
    ending = (
        ""
        if number == 1 or kind.endswith("s") and not kind.endswith("ss")
        else "es"
        if kind.endswith(("ss", "x"))
        else "s"
    )
    return f"{number} {kind}{ending}"


def is_of_items(data: Data) -> bool:
    """Whether a failure is the sum of a loop's, which were told."""
    return isinstance(data.get("results"), list)


def error_lines(data: Data) -> list[str]:
    """What failed, one line for each error; never none."""
    message = data.get("msg")
    rows = list(message) if isinstance(message, (list, tuple)) else [message]
    lines = [one_line(row) for row in rows if row not in (None, "")]
    if not lines:
        lines = [
            one_line(data[name])
            for name in ("reason", "stderr", "module_stderr", "exception", "stdout", "module_stdout")
            if data.get(name)
        ][:1]
    elif len(lines) == 1:
        # a module that failed over several clusters tells the first in its message
        failures = data.get("failures")
        if isinstance(failures, list) and len(failures) > 1:
            reported = [_failure(row) for row in failures if isinstance(row, dict)]
            lines = (
                reported
                if reported and str(failures[0].get("message") if isinstance(failures[0], dict) else "") in str(message)
                else lines + reported
            )
        for name in ("module_stderr", "stderr"):
            if data.get(name) and any(
                said in lines[0] for said in ("MODULE FAILURE", "Module failure", "deserialization failed")
            ):
                lines.append(one_line(str(data[name]).strip().splitlines()[-1] if str(data[name]).strip() else ""))
        findings = data.get("findings")
        if (
            isinstance(findings, list)
            and len(findings) > 1
            and all(isinstance(row, dict) and row.get("message") for row in findings)
        ):
            lines = [one_line(f"{row.get('where')}: {row.get('variable')}: {row['message']}") for row in findings]
    return [line for line in lines if line] or ["failed without a message; -vvv shows the result"]


def clusters_at_fault(data: Data) -> list[str]:
    """The clusters that a failure names, in its rows or in its lines."""
    failures = data.get("failures")
    if isinstance(failures, list) and failures:
        return sorted(
            {
                row["cluster"]
                for row in _rows(failures)
                if isinstance(row.get("cluster"), str) and _NAME.fullmatch(row["cluster"])
            }
        )
    found: set[str] = set()
    for line in error_lines(data):
        several, single = _ALL_BLAMED.match(line), _BLAMED.match(line)
        found.update(several.group(1).split(", ") if several else [single.group(1)] if single else [])
    return sorted(found)


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


def _failure(row: Data) -> str:
    operation = f"cannot {row['operation']}: " if row.get("operation") else ""
    return one_line(f"cluster {row.get('cluster')}: {operation}{row.get('message')} [{row.get('reason')}]")


def detail_lines(host: str, data: Data) -> list[str]:
    """What a result changed, object by object."""
    plan = data.get("plan")
    rows = _rows(plan.get("changes")) if isinstance(plan, dict) else None
    if not rows:
        return [f"{host}: changed"] if data.get("changed") else []
    return [f"{host}: {row.get('action')} {row.get('kind')} {one_line(row.get('id'))}" for row in rows]


def debug_lines(data: Data) -> list[str]:
    """What a debug task shows. With ``var`` its name is the key."""
    if "msg" in data:
        message = data["msg"]
    else:
        message = {
            name: value
            for name, value in data.items()
            if not name.startswith("_") and name not in ("changed", "failed", "warnings", "deprecations")
        }
    if isinstance(message, dict):
        rows: t.Iterable[t.Any] = _outline(message)
    else:
        rows = (
            message
            if isinstance(message, (list, tuple))
            else str(message).splitlines()
            if isinstance(message, str)
            else [message]
        )
    return ["".join(char if char.isprintable() else "?" for char in str(row)) for row in rows]


def _outline(data: t.Mapping[t.Any, t.Any], indent: str = "") -> t.Iterator[str]:
    """A dictionary for people: a line for each value, what has no parts of its own in one line."""
    for key, value in data.items():
        if isinstance(value, dict) and any(isinstance(one, (dict, list)) and one for one in value.values()):
            yield f"{indent}{key}:"
            yield from _outline(value, indent + "  ")
        elif isinstance(value, dict):
            rows = [
                f"{name} {one}"
                for name, one in value.items()
                if not isinstance(one, (dict, list)) and one not in ("", None)
            ]
            yield f"{indent}{key}: {', '.join(rows) or 'none'}"
        elif isinstance(value, list) and value:
            yield f"{indent}{key}:"
            yield from (f"{indent}  {row}" for row in value)
        else:
            yield f"{indent}{key}: {'none' if value in ('', None, []) else value}"


def without_tables(lines: t.Sequence[str]) -> tuple[list[str], int]:
    """(the lines without those tables in which nothing is wrong, how many were left out). Paragraphs end with an empty line."""
    if len(lines) <= SHORT:
        return list(lines), 0
    kept: list[str] = []
    left_out = 0
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            paragraph.append(line)
            continue
        is_table = len(paragraph) > 4 and bool(_HEADER.match(paragraph[0]))
        if is_table and not any(_WRONG.search(row) for row in paragraph[1:]):
            left_out += len(paragraph)
        else:
            kept += paragraph
        paragraph = []
    return kept, left_out


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
        return [_printable(line) for line in text.splitlines()]
    shown: list[str] = []
    of_file, left_out, object_is = 0, 0, ""
    for line, heading in _joined(_by_weight(_headings(text, before, after))):
        if line[1:2] not in (" ", "\t"):  # an object; what is indented belongs to it
            of_file, object_is = 1 if re.match(r"[+-](file|unit) ", line) else 0, line[1:]
        elif heading and heading != object_is:
            of_file, object_is = 1 if re.match(r"(file|unit) ", heading) else 0, heading
            shown.append(_printable(" " + heading))
        if line[1:2] in (" ", "\t") and of_file:
            of_file += 1
            if of_file > FILE_LINES + 1:
                left_out += 1
                continue
        shown.append(_printable(line))
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


def fitted(line: str, columns: int) -> list[str]:
    """A line as lines that a terminal of so many columns holds, broken between words; 0: as it is.

    What begins with a command of ours, and a path, stay in one piece, since they are copied.
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


def _printable(line: str) -> str:
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
        """The lines that are shown of a diff, with whose they are above them; none where there is no room left."""
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
    """Failures of one task with the same cause are one: the first host says it, the others are named."""

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


def end_line(
    rows: t.Mapping[str, t.Mapping[str, int]],
    seconds: float,
    planned: t.Collection[str] = (),
    at_fault: t.Mapping[str, t.Sequence[t.Sequence[str] | None]] | None = None,
) -> str:
    """The last line but one, with the names of hosts that failed. Hosts of ``planned`` have changes of check mode only.

    at_fault: {host: for each of its failures the clusters that are to blame, or None where it is the host}. Failures that were
    rescued come first there and count nowhere.
    """
    changed = sum(1 for host, row in rows.items() if row["changed"] and host not in planned)
    would = sum(1 for host, row in rows.items() if row["changed"] and host in planned)
    texts = [f"{len(rows)} hosts, {changed} changed"]
    if would:
        texts[0] += f", {would} would change"
    blamed = {
        host: list((at_fault or {}).get(host, ()))[-row["failures"] :] for host, row in rows.items() if row["failures"]
    }
    for word, names in (
        ("failed", [host for host in sorted(blamed) if None in blamed[host] or not blamed[host]]),
        ("not reached", [host for host, row in sorted(rows.items()) if row["unreachable"]]),
    ):
        if names:
            texts.append(f"{len(names)} {word}: {some(names, 20)}")
    for_all = [clusters for failures in blamed.values() for clusters in failures if clusters is not None]
    if for_all:
        clusters = sorted({name for names in for_all for name in names})
        texts.append("clusters at fault: " + some(clusters, 20) if clusters else "the run failed")
    if len(texts) == 1:
        texts.append("nothing failed")
    return f"done after {seconds:.0f} s: {'; '.join(texts)}"


def next_line(
    rows: t.Mapping[str, t.Mapping[str, int]],
    planned: t.Collection[str],
    check: bool,
    open_ends: t.Sequence[str] = (),
    limited: bool = False,
) -> str:
    """What to do after a run, its very last line. check: the run was one of --check; open_ends: what else is to be read, such as ``warnings``.

    limited: the run has named what it left undone outside of --limit.
    """
    if any(row["failures"] or row["unreachable"] for row in rows.values()):
        return "next: fix what failed, see above, and run the same command again"
    if check and planned:
        return "next: run the same command without --check, which writes it"
    rest = "run the same command without --limit, which does the rest"
    if open_ends:
        return f"next: read the {' and '.join(open_ends)} above{', and ' + rest if limited else ''}"
    return f"next: {rest}" if limited else "next: nothing to do"
