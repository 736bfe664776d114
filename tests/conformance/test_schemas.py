# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The schemas in README.md: every operation that is answered has a row there, and every vector keeps to the fields of its row."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

import pytest
from ansible_collections.multicluster.network.tests.conformance import run

HERE = pathlib.Path(__file__).resolve().parent
FILES = sorted((HERE / "vectors").rglob("*.json"))
#: What every vector of a file may have: what it is about, and how it is judged.
COMMON = frozenset(
    [
        "id",
        "op",
        "why",
        "name",
        "note",
        "source",
        "origin",
        "basis",
        "profile",
        "mode",
        "level",
        "quirk",
        "optional",
        "compare",
        "unordered",
        "order_matters",
        "expect",
        "expected",
        "preferred",
        "upstream",
        "accept_also",
        "accept_actions",
        "not_expected",
        "forbidden",
        "state",
        "no_requests",
    ]
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def schemas() -> dict[str, dict[str, set[str]]]:
    """system -> operation or group -> every name of its row in backticks."""
    found: dict[str, dict[str, set[str]]] = {}
    system, general = "", t.cast(set[str], set())
    for line in (HERE / "README.md").read_text("utf-8").splitlines():
        if line.startswith("### "):
            system, general = _NAME.findall(line)[0] if "kilo" not in line else "kilo-clustermesh", set()
        if not line.startswith("|"):
            general |= _quoted(line)  # what is said before a table holds for all of its rows
        cells = line.strip().strip("|").split("|")
        if not system or not line.startswith("| ") or len(cells) < 3 or cells[0].strip() in ("op", "group"):
            continue
        words = general | _quoted(line)
        for name in re.findall(r"`([^`]*)`", cells[0]) or ["*"]:
            found.setdefault(system, {})[name] = words
    return found


def _quoted(line: str) -> set[str]:
    return {name for text in re.findall(r"`([^`]*)`", line) for name in _NAME.findall(text)}


def vectors(path: pathlib.Path) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """(operation or group, vector)."""
    for group, rows in run.groups_of(json.loads(path.read_text("utf-8"))):
        for vector in rows:
            yield str(vector["op"]) if "op" in vector and path.stem == "semaphore" else group, vector


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(HERE / "vectors")) for path in FILES])
def test_vectors_keep_to_the_fields_that_are_written_down(path: pathlib.Path) -> None:
    schema = schemas()[path.stem]
    unowned = set()
    for name, vector in vectors(path):
        row = schema.get(name, schema.get("*"))
        if row is None:
            continue  # answered by nobody: the next test asks for that
        given = vector["input"] if path.stem == "semaphore" else vector
        unowned |= {
            (name, field)
            for field in given
            if field not in row
            and (path.stem == "semaphore" or field not in COMMON)
            and not field.startswith(("expected_", "compare_"))
        }
    assert not unowned


@pytest.mark.parametrize("system", sorted(schemas()))
def test_what_is_answered_is_written_down(system: str) -> None:
    handlers = run.load_handlers(system)
    names = {op for group in handlers.values() for op in group} if system == "semaphore" else set(handlers)
    text = (HERE / "README.md").read_text("utf-8")
    missing = {name for name in names if name not in schemas()[system] and f"`{name}`" not in text}
    assert not missing or "*" in schemas()[system]
