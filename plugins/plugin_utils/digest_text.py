# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Results of tasks as lines for people. Pure: what is shown, and never where."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.multicluster.network.plugins.plugin_utils.digest_space import some

Data = t.Mapping[str, t.Any]
#: A line that is longer goes on in the result, which -vvv shows.
LONGEST = 600
#: Kinds of objects that a step's line names; the rest is a number.
SHOWN_KINDS = 6
#: Lines that a task shows without a cut. More of them are looked at: tables in which nothing is wrong are left out.
SHORT = 10
#: How a run names what it left undone outside of --limit (outcome.undone_lines).
LIMITED = "a run without --limit does the rest"
#: What the last line of a run begins with.
NEXT = "next: "
#: What is wrong has one of these. A table that has one is shown as it is.
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
#: A cluster that a line of the collection blames, and all those that the last play blames.
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
    """``lost``, ``risked`` or ``gained`` for a line of a comparison of paths, as module_utils/_trace/reach/changes.py and answers.py write them; else empty."""
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
    for unused, verb in _ACTIONS:
        rows = sorted(
            ((number, kind) for (action, kind), number in done.items() if action == verb),
            key=lambda row: (-row[0], row[1]),
        )
        if rows:
            shown = [_number(number, kind) for number, kind in rows[:SHOWN_KINDS]]
            rest = sum(number for number, kind in rows[SHOWN_KINDS:])
            texts.append(f"{words.get(verb, verb)} {', '.join(shown + ([f'{rest} more'] if rest else []))}")
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
    """Whether a failure is the sum of a loop's, which were reported."""
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
        # a module that failed over several clusters has the first in its message
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
    for verb, names in (
        ("failed", [host for host in sorted(blamed) if None in blamed[host] or not blamed[host]]),
        ("not reached", [host for host, row in sorted(rows.items()) if row["unreachable"]]),
    ):
        if names:
            texts.append(f"{len(names)} {verb}: {some(names, 20)}")
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
