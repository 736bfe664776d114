#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse new uses of the words that docs/specs/words.md replaces.

tests/words.json has for each file how many uses of each word it still has. A file with more fails; ``--write`` lowers the counts after words
were replaced, and moves them after files were renamed, as long as no word is used more often in total.
"""

from __future__ import annotations

import collections
import itertools
import json
import pathlib
import re
import string
import sys
import typing as t

REPO = pathlib.Path(__file__).resolve().parents[1]
LIST, COUNTS = pathlib.Path("docs/specs/words.md"), pathlib.Path("tests/words.json")
#: What is read: files at the top, and everything of these kinds below the folders.
FILES = ("README.md", "CONTRIBUTING.md", "Makefile", "tests/run", "galaxy.yml", "mypy.ini", "ruff.toml")
FOLDERS = ("plugins", "roles", "playbooks", "extensions", "docs", "tests", "meta", "changelogs/fragments")
KINDS = (".py", ".yml", ".yaml", ".md", ".rst", ".j2", ".sh", ".toml", ".txt")
#: The list itself and its test; texts of other programs; what is written by specifications; what runs leave there.
SKIPPED = (
    str(LIST),
    "tests/words",
    "tests/unit/test_words.py",
    "tests/conformance/vectors",
    "tests/fixtures",
    "tests/output",
    "docs/conformance",
)
EVERYWHERE, HEADINGS, NAMES = "everywhere", "headings", "file names"
_SHOWN = 6
#: Letters of ASCII alone: ``lower()`` makes some others longer.
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

Counts = dict[str, dict[str, int]]


class Term(t.NamedTuple):
    """A word, what to say in its place, and where it is looked for."""

    word: str
    say: str
    where: str


class Use(t.NamedTuple):
    """One use of a word; line 0 is the file's name."""

    word: str
    line: int


def terms(text: str) -> list[Term]:
    """The rows of the first table of the list. Raises ValueError when there is none."""
    rows = re.search(r"^\| word \| say \| where \|\n\|[-|]+\|\n((?:\|.*\|\n)+)", text, re.M)
    if rows is None:
        raise ValueError(f"{LIST} has no table of words")
    found = []
    for row in rows[1].splitlines():
        words, say, where = (cell.strip() for cell in row.strip("|").split("|"))
        if where not in (EVERYWHERE, HEADINGS, NAMES):
            raise ValueError(f"{LIST}: {where!r} is neither {EVERYWHERE}, {HEADINGS} nor {NAMES}")
        found += [Term(word.strip(), say, where) for word in words.split(",")]
    return found


def is_word(text: str, start: int, end: int) -> bool:
    """Whether a match is a word of a sentence, of a snake_case, CamelCase or CAPITAL name: no part of another word, no ``--option``."""
    found, before, after = text[start:end], text[start - 1 : start], text[end : end + 1]
    if found.isupper():
        return not before.isalpha() and not after.isalpha()
    if not found[1:].islower() or after.islower():
        return False
    return not before.isupper() if found[0].isupper() else not before.isalpha() and text[start - 2 : start] != "--"


def positions(text: str, lowered: str, word: str) -> t.Iterator[int]:
    """Where the word is in a text, whatever its case. lowered: the text in small letters."""
    start = lowered.find(word)
    while start >= 0:
        if is_word(text, start, start + len(word)):
            yield start
        start = lowered.find(word, start + 1)


class Finder:
    """Finds uses of the words in one file."""

    def __init__(self, known: t.Iterable[Term]) -> None:
        self.terms = {term.word: term for term in known}

    def uses(self, path: pathlib.PurePath, text: str) -> list[Use]:
        """Every use in a file of this path, in order."""
        found, name = [], path.name
        lowered, lowered_name = text.translate(_LOWER), name.translate(_LOWER)
        for term in self.terms.values():
            if term.where != HEADINGS:
                found += [Use(term.word, 0) for _start in positions(name, lowered_name, term.word)]
            if term.where != NAMES:
                found += [
                    Use(term.word, text.count("\n", 0, start) + 1)
                    for start in positions(text, lowered, term.word)
                    if term.where == EVERYWHERE or in_heading(path.suffix, text, start)
                ]
        return sorted(found, key=lambda use: use.line)


def in_heading(kind: str, text: str, start: int) -> bool:
    """Whether a position is in a heading of a document, or in the name of a play or task."""
    begin, end = text.rfind("\n", 0, start) + 1, text.find("\n", start)
    rest = text[end + 1 :] if end >= 0 else ""
    return is_heading(kind, text[begin : end if end >= 0 else None], rest.partition("\n")[0])


def is_heading(kind: str, line: str, following: str) -> bool:
    """Whether a line is a heading of a document, or the name of a play or task."""
    if kind == ".md":
        return line.startswith("#")
    if kind == ".rst":
        mark = following.strip()
        return bool(line.strip()) and len(mark) > 3 and len(set(mark)) == 1 and mark[0] in "=-~^*\"'"
    return kind in (".yml", ".yaml") and bool(re.match(r"\s*(- )?name: ", line))


def files(root: pathlib.Path) -> t.Iterator[pathlib.PurePath]:
    """Paths below the root of all files that are read, sorted."""
    below = (
        path.relative_to(root)
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in KINDS and path.is_file() and not path.is_symlink()
    )
    named = (pathlib.PurePath(name) for name in FILES if (root / name).is_file())
    for path in itertools.chain(named, below):
        hidden = any(part.startswith(".") or part == "__pycache__" for part in path.parts)
        if not hidden and not str(path).startswith(SKIPPED):
            yield path


def all_uses(root: pathlib.Path, finder: Finder) -> dict[str, list[Use]]:
    """{path: its uses}, only of files that have some."""
    found = {}
    for path in files(root):
        uses = finder.uses(path, (root / path).read_text(encoding="utf-8"))
        if uses:
            found[str(path)] = uses
    return found


def counted(uses: t.Mapping[str, t.Sequence[Use]]) -> Counts:
    """{path: {word: how often}}."""
    return {
        path: dict(sorted(collections.Counter(use.word for use in rows).items())) for path, rows in sorted(uses.items())
    }


def problems(uses: t.Mapping[str, t.Sequence[Use]], allowed: Counts, finder: Finder) -> list[str]:
    """A message for each file and word above its count."""
    found = []
    for path, words in counted(uses).items():
        for word, count in words.items():
            most = allowed.get(path, {}).get(word, 0)
            if count > most:
                lines = [use.line for use in uses[path] if use.word == word]
                place = ", ".join(str(line) if line else "its name" for line in lines[:_SHOWN])
                more = ", ..." if len(lines) > _SHOWN else ""
                found.append(
                    f"{path}: {word!r} is used {count} times and {most} are allowed; say: {finder.terms[word].say} "
                    f"(uses in lines {place}{more})"
                )
    return found


def totals(counts: Counts) -> collections.Counter[str]:
    """{word: how often in all files}."""
    total: collections.Counter[str] = collections.Counter()
    for words in counts.values():
        total.update(words)
    return total


def written(counts: Counts) -> str:
    """The file of counts: one line for each file, so that changes of several people merge."""
    rows = [f" {json.dumps(path)}: {json.dumps(words)}" for path, words in sorted(counts.items())]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def main(arguments: t.Sequence[str]) -> int:
    """``words.py [--write]``."""
    finder = Finder(terms((REPO / LIST).read_text(encoding="utf-8")))
    uses = all_uses(REPO, finder)
    allowed: Counts = json.loads((REPO / COUNTS).read_text(encoding="utf-8"))
    if "--write" in arguments:
        before, now = totals(allowed), totals(counted(uses))
        risen = [
            f"{word!r} is used {now[word]} times and was {before[word]} times"
            for word in now
            if now[word] > before[word]
        ]
        if risen and allowed:
            print("\n".join(risen), f"{COUNTS} stays as it is: counts only go down", sep="\n", file=sys.stderr)
            return 1
        (REPO / COUNTS).write_text(written(counted(uses)), encoding="utf-8")
        return 0
    found = problems(uses, allowed, finder)
    if found:
        hint = f"See {LIST}. After a file was renamed or code moved to another file: tests/run words --write"
        print("\n".join([*found, hint]), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
