#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse playbooks and roles that carry more of a program than they do today.

tests/orchestration.json has four counts: private variables (``__name``) of playbooks and roles, expressions with more than two filters, uses
of ``map('extract', hostvars)``, and playbooks at the top. A tree with more of one fails; ``--write`` lowers the counts.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
import typing as t

import jinja2
import yaml

REPO = pathlib.Path(__file__).resolve().parents[1]
COUNTS = pathlib.Path("tests/orchestration.json")
FOLDERS = ("playbooks", "roles")
#: Filters that one expression may have.
MOST = 2
#: Keys of tasks and of assert that hold expressions without braces.
BARE = ("when", "failed_when", "changed_when", "until", "that")
_PRIVATE = re.compile(r"\b__[a-z][a-z0-9_]+")
_EXTRACT = re.compile(r"map\(\s*['\"]extract['\"]\s*,\s*hostvars")
_JINJA = jinja2.Environment()  # only the lexer is used

Places = dict[str, list[str]]


def filters(template: str) -> list[int]:
    """How many filters each expression and statement of a template has. Raises jinja2.TemplateSyntaxError."""
    found: list[int] = []
    for _line, kind, text in _JINJA.lex(template):
        if kind in ("variable_begin", "block_begin"):
            found.append(0)
        elif kind == "operator" and text == "|" and found:
            found[-1] += 1
    return found


def expressions(document: t.Any, key: str = "") -> t.Iterator[str]:
    """Every template of a YAML document."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from expressions(value, str(name))
    elif isinstance(document, list):
        for value in document:
            yield from expressions(value, key)
    elif isinstance(document, str):
        if "{{" in document or "{%" in document:
            yield document
        elif key in BARE:
            yield "{{ " + document + " }}"


def measured(root: pathlib.Path) -> Places:
    """{what is counted: its names or places}, sorted."""
    private: set[str] = set()
    found: Places = {"private_variables": [], "long_expressions": [], "extracts": [], "playbooks": []}
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.yml")):
        name, text = str(path.relative_to(root)), path.read_text(encoding="utf-8")
        private.update(_PRIVATE.findall(text))
        if "/files/" in name or "/meta/" in name:
            continue
        for template in expressions(yaml.safe_load(text)):
            short = " ".join(template.split())[:100]
            found["extracts"] += [f"{name}: {short}" for _match in _EXTRACT.finditer(template)]
            found["long_expressions"] += [f"{name}: {short}" for number in filters(template) if number > MOST]
    found["private_variables"] = sorted(private)
    found["playbooks"] = sorted(path.name for path in (root / "playbooks").glob("*.yml"))
    return found


def problems(found: Places, allowed: t.Mapping[str, int]) -> list[str]:
    """A message for each count that has risen."""
    return [
        f"{name}: {len(places)} and {allowed.get(name, 0)} are allowed: " + "; ".join(places)
        for name, places in found.items()
        if len(places) > allowed.get(name, 0)
    ]


def main(arguments: t.Sequence[str], root: pathlib.Path = REPO) -> int:
    """``orchestration.py [--write | --show]``."""
    found = measured(root)
    if "--show" in arguments:
        print("\n".join(f"{name}: {place}" for name, places in found.items() for place in places))
        return 0
    allowed: dict[str, int] = json.loads((root / COUNTS).read_text(encoding="utf-8"))
    risen = problems(found, allowed)
    if risen:
        hint = "Let an action plugin keep the value in the run context: see the guide on design"
        print("\n".join([*risen, hint]), file=sys.stderr)
        return 1
    if "--write" in arguments:
        now = {name: len(places) for name, places in found.items()}
        (root / COUNTS).write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
