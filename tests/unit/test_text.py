# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that came from outside is read as ASCII: no letter matches by case folding alone, no digit that int refuses passes."""

from __future__ import annotations

import ast
import pathlib
import re
import typing as t

import pytest

PLUGINS = pathlib.Path(__file__).resolve().parents[2] / "plugins"
SOURCES = sorted(PLUGINS.rglob("*.py"))
#: Of the functions of re, where the flags are.
FUNCTIONS = {
    "compile": 1,
    "match": 2,
    "fullmatch": 2,
    "search": 2,
    "findall": 2,
    "finditer": 2,
    "split": 3,
    "sub": 4,
    "subn": 4,
}
CLASSES = re.compile(r"\\[dDwWsSbB]", re.ASCII)
JUDGING = ("isdigit", "isalnum", "isalpha", "isdecimal", "isnumeric", "isidentifier")
FOLDING = ("lower", "upper", "casefold", "swapcase", "title", "capitalize")
#: Where something is folded alongside the helpers: our own words, the kernel's, or text that a pattern has just found to be ASCII.
FOLDED = {
    "_kubernetes/access.py",  # a fingerprint in hexadecimal digits
    "_plan/outcome.py",
    "_tenants/load_balancers.py",
    "_tenants/options.py",  # our own words
    "_mesh/kilo/peers.py",  # an object's name, which has to be upstream's
    "_mesh/fabric/variables.py",
    "_mesh/fabric/names.py",  # for "did you mean"
    "_status/redact.py",  # hexadecimal digits
}


def trees() -> t.Iterator[tuple[str, str, ast.AST]]:
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        yield str(path.relative_to(PLUGINS)).replace("module_utils/", "", 1), text, ast.parse(text)


def unsafe_patterns(tree: ast.AST) -> list[int]:
    """Lines of regular expressions with a meaning beyond ASCII."""
    found = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FUNCTIONS):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re") or not node.args:
            continue
        place = FUNCTIONS[node.func.attr]
        flags = [
            ast.dump(one)
            for one in [
                *node.args[place : place + 1],
                *(keyword.value for keyword in node.keywords if keyword.arg == "flags"),
            ]
        ]
        said = "".join(
            one.value for one in ast.walk(node.args[0]) if isinstance(one, ast.Constant) and isinstance(one.value, str)
        )
        wide = (
            CLASSES.search(said.replace("\\\\", ""))
            or "(?i" in said
            or any("IGNORECASE" in flag or "'I'" in flag for flag in flags)
        )
        if wide and not any("ASCII" in flag for flag in flags) and "(?a" not in said:
            found.append(node.lineno)
    return found


def unsafe_judgements(tree: ast.AST) -> list[int]:
    """Lines that ask Unicode whether something is a digit or a letter, without asking in the same condition whether it is ASCII."""
    calls = {
        node: node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args
    }
    safe = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            inside = [call for call in calls if any(call is one for one in ast.walk(node))]
            if any(calls[call] == "isascii" for call in inside):
                safe.update(inside)
    return sorted(call.lineno for call, name in calls.items() if name in JUDGING and call not in safe)


def test_every_pattern_means_ascii() -> None:
    found = {name: lines for name, _text, tree in trees() for lines in [unsafe_patterns(tree)] if lines}
    assert found == {}, "re.ASCII is missing"


def test_no_digit_or_letter_beyond_ascii_passes() -> None:
    found = {name: lines for name, _text, tree in trees() for lines in [unsafe_judgements(tree)] if lines}
    assert found == {}, "use _values.text"


def test_nothing_is_folded_beyond_ascii() -> None:
    found: dict[str, list[str]] = {}
    for name, text, tree in trees():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in FOLDING
                and not node.args
            ):
                found.setdefault(name, []).append(str(ast.get_source_segment(text, node)))
    assert not {name: said for name, said in found.items() if name not in FOLDED}, "use _values.text.lower"
    assert set(found) >= FOLDED, "an exception that nothing needs"


@pytest.mark.parametrize(
    "line",
    [
        r're.compile(r"\d+")',
        r're.compile("k", re.IGNORECASE)',
        r're.match("(?i)k", x)',
        r're.sub(r"a\s", "", x)',
        r're.compile("[" + y + r"]\w")',
    ],
)
def test_the_search_finds_what_it_is_for(line: str) -> None:
    assert unsafe_patterns(ast.parse(line)) == [1]
    assert (
        unsafe_patterns(
            ast.parse(
                line.replace("re.IGNORECASE", "re.I | re.ASCII")
                .replace('"(?i)', '"(?ai)')
                .replace(r'\d+")', r'\d+", re.ASCII)')
                .replace('"", x)', '"", x, 0, re.ASCII)')
                .replace(r'\w")', r'\w", re.ASCII)')
            )
        )
        == []
    )


def test_the_search_finds_digits_that_are_none() -> None:
    assert unsafe_judgements(ast.parse("x.isdigit() or x.isascii()")) == [1]
    assert unsafe_judgements(ast.parse("x and x.isascii() and x.isdigit()")) == []
