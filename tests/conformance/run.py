# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the conformance vectors and counts the results.

    python tests/conformance/run.py [--vectors DIR] [--report FILE] [--require FILE]

System = file name, one adapter each (adapters/<system>.py, dashes as underscores) with ``HANDLERS``:
{group: {op: function} or function}. A function takes the vector's input (the whole vector where it has none) and
returns the answer, or raises Unhandled, Internal or Ruled. The exit code is 1 when a vector failed, a file could not be
read or a requirement is not met, else 0; unhandled vectors count against it only where they are required.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import sys
import typing as t

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import tree

    tree.mount()
    __package__ = "ansible_collections.multicluster.network.tests.conformance"

from .judges import judge
from .outcome import WORDS, Internal, Ruled, Unhandled, Verdict

HERE = pathlib.Path(__file__).resolve().parent
#: Keys of a file that are no groups.
NO_GROUPS = ("meta", "conventions")
Report = dict[str, dict[str, dict[str, t.Any]]]


def main(arguments: t.Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="run the conformance vectors")
    parser.add_argument("--vectors", type=pathlib.Path, default=HERE / "vectors", help="folder of JSON files")
    parser.add_argument("--report", type=pathlib.Path, help="write the counts there as JSON")
    parser.add_argument("--require", type=pathlib.Path, help="groups that must be without failed and unhandled")
    options = parser.parse_args(arguments)
    report = run(options.vectors)
    for line in table(report):
        print(line)
    unmet = check_required(report, json.loads(options.require.read_text("utf-8"))) if options.require else []
    for line in unmet:
        print(f"required: {line}")
    if options.report:
        options.report.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", "utf-8")
    if not report:
        print(f"no vectors in {options.vectors}")
    failed = any(counts["failed"] for groups in report.values() for counts in groups.values())
    return 1 if failed or unmet or not report else 0


def run(folder: pathlib.Path) -> Report:
    """Every vector of every file in a folder: {system: {group: counts and ids}}."""
    return {path.stem: run_file(path) for path in sorted(folder.glob("*.json"))}


def run_file(path: pathlib.Path) -> dict[str, dict[str, t.Any]]:
    """One file. A file that is no collection of vectors is one failure in the group ``(file)``."""
    try:
        content = json.loads(path.read_text("utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it holds no groups of vectors")
    except (OSError, ValueError, RecursionError) as error:
        return {"(file)": _count([("(file)", {}, Verdict("failed", f"{path.name}: {error}"))])}
    handlers = load_handlers(path.stem, content)
    report = {}
    for group, vectors in groups_of(content):
        rows = []
        for index, vector in enumerate(vectors):
            known = isinstance(vector, dict)
            ident = vector.get("id") if known else None
            name = f"{group}[{index}]" if ident in (None, "") else str(ident)
            rows.append((name, vector if known else {}, run_vector(path.stem, group, vector, handlers)))
        report[group] = _count(rows)
    return report


def groups_of(content: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, list[t.Any]]]:
    """(group, vectors) of a file; nested groups are ``parent.child``."""
    for name, value in content.items():
        if name.startswith("_") or name in NO_GROUPS:
            continue
        if isinstance(value, list):
            yield name, value
        elif isinstance(value, dict):
            for child, vectors in groups_of(value):
                yield f"{name}.{child}", vectors


def load_handlers(system: str, content: t.Mapping[str, t.Any] | None = None) -> t.Mapping[str, t.Any]:
    """An adapter's table; a system without adapter has an empty one, a broken adapter answers with its error.

    An adapter with a function ``prepare`` gets the file's content first: some files have tables alongside their groups.
    """
    name = system.replace("-", "_")
    if not (HERE / "adapters" / f"{name}.py").exists():
        return {}
    try:
        module = importlib.import_module(f".adapters.{name}", __package__)
        if content is not None and hasattr(module, "prepare"):
            module.prepare(content)
    except Exception as error:  # pylint: disable=broad-except
        return _Broken(f"the adapter cannot be loaded: {error!r}")
    return t.cast(t.Mapping[str, t.Any], module.HANDLERS)


class _Broken(dict[str, t.Any]):
    """Replaces the table of an adapter that cannot be loaded, so that this shows in every result."""

    def __init__(self, message: str) -> None:
        super().__init__()
        self._message = message

    def get(self, key: t.Any, default: t.Any = None) -> t.Any:
        def fail(_vector: t.Any) -> t.NoReturn:
            raise RuntimeError(self._message)

        return fail


def run_vector(system: str, group: str, vector: t.Any, handlers: t.Mapping[str, t.Any]) -> Verdict:
    """One vector's verdict. Whatever goes wrong in an adapter fails this vector only."""
    if not isinstance(vector, dict):
        return Verdict("failed", f"not a vector: {vector!r:.100}")
    handler = handlers.get(group)
    if isinstance(handler, t.Mapping):
        handler = handler.get(vector.get("op"))
    if handler is None:
        return Verdict("unhandled")
    try:
        answer = handler(vector["input"] if isinstance(vector.get("input"), dict) and "op" in vector else vector)
        return judge(system, group, vector, answer)
    except Unhandled as error:
        return Verdict("unhandled", str(error))
    except Internal as error:
        return Verdict("internal", str(error))
    except Ruled as error:
        return Verdict("ruled", str(error))
    except Exception as error:  # pylint: disable=broad-except
        optional = bool(vector.get("optional")) or vector.get("level") == "optional"
        return Verdict("optional_failed" if optional else "failed", f"{type(error).__name__}: {error}")


Row = tuple[str, t.Mapping[str, t.Any], Verdict]


def _count(rows: t.Sequence[Row]) -> dict[str, t.Any]:
    counts: dict[str, t.Any] = _words(rows)
    counts["failing"] = _ids(rows, "failed")
    for result in ("unhandled", "ruled", "internal", "deviates", "optional_failed"):
        counts[f"{result}_ids"] = _ids(rows, result)
    counts["messages"] = {ident: verdict.message for ident, _vector, verdict in rows if verdict.message}
    parts: dict[str, list[Row]] = {}
    for row in rows:
        component = (row[1].get("input") or {}).get("component") if isinstance(row[1].get("input"), dict) else None
        if component:
            parts.setdefault(str(component), []).append(row)
    if parts:
        counts["components"] = {name: dict(_words(part), failing=_ids(part, "failed")) for name, part in parts.items()}
    return counts


def _words(rows: t.Sequence[Row]) -> dict[str, t.Any]:
    words: dict[str, t.Any] = dict.fromkeys(WORDS, 0)
    for _ident, _vector, verdict in rows:
        words[verdict.result] += 1
    words["total"] = len(rows)
    return words


def _ids(rows: t.Sequence[Row], result: str) -> list[str]:
    return [ident for ident, _vector, verdict in rows if verdict.result == result]


def table(report: Report) -> t.Iterator[str]:
    """The printed counts: one line a group, failures with their reason below."""
    for system, groups in report.items():
        for group, counts in groups.items():
            shown = ", ".join(f"{counts[result]} {result}" for result in WORDS if counts[result])
            yield f"{system} {group}: {shown or 'nothing'}"
            for name, part in counts.get("components", {}).items():
                inner = ", ".join(f"{part[result]} {result}" for result in WORDS if part[result])
                yield f"    component {name}: {inner}"
            for ident in counts["failing"]:
                yield f"    failed {ident}: {counts['messages'].get(ident, '')}"


def check_required(report: Report, required: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """Requirements that are not met: {system: [group or ``group#component=name``]}."""
    unmet = []
    for system, selections in required.items():
        for selection in selections:
            group, _hash, part = selection.partition("#component=")
            counts = report.get(system, {}).get(group)
            if counts is not None and part:
                counts = counts.get("components", {}).get(part)
            if counts is None:
                unmet.append(f"{system} {selection} has no vectors")
            elif counts["failed"] or counts["unhandled"]:
                text = "{0} {1}: {2} failed, {3} unhandled"
                unmet.append(text.format(system, selection, counts["failed"], counts["unhandled"]))
    return unmet


if __name__ == "__main__":
    sys.exit(main())
