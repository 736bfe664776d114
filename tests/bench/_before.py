#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What this clone's benchmarks show compared with those of an earlier revision, on one machine in one run.

Run by `tests/run bench_before REVISION GROUP [ARGUMENTS of the group]`; MCN_TURNS is how often. The two take turns, each with its own code and its
own benchmark, and the median of each figure of the collection counts: where the benchmark compares with another program, its ratio to that, which was
measured in the same seconds, else the seconds. Rows are matched by their place, since their texts may differ between revisions. A group that ends with
another number of rows is no comparison, and a failure.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import typing as t

#: The columns of the collection's own figures, as the benchmarks of several revisions name them; those of a row are added.
COLUMN = re.compile(r"collection|our\w|service_mirror, s|controller s|nodes s")
#: The column of another program, which is the same one in both revisions.
OTHER = "theirs"
#: A cell such as ``12.5`` or ``flow 0.123``.
NUMBER = re.compile(r"(?:[a-z]+ )?(\d+(?:\.\d+)?)")
#: Figures outside of tables: those of `plans`.
SENTENCE = re.compile(r"^(?P<label>plan of .*?): (?P<figure>[\d.]+) s of CPU", re.M)
#: What a figure may be of the one before.
WORST = 1.05
#: A figure of fewer than so many of its last digits is noise.
DIGITS = 20


class Row(t.NamedTuple):
    """A figure of the collection; ``counts``: whether it is more than a few last digits."""

    label: str
    figure: float
    counts: bool


Rows = list[Row]


def figures(text: str) -> Rows:
    """The collection's figures of what a benchmark printed, one of each row, in its order."""
    found: Rows = []
    head: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            head = []
            found += [row_of(match["label"], [match["figure"]]) for match in SENTENCE.finditer(line)]
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not head:
            head = cells
            continue
        numbers = [NUMBER.fullmatch(cell) for name, cell in zip(head, cells) if COLUMN.fullmatch(name)]
        own = [match[1] for match in numbers if match is not None]
        if own and "for comparison" not in cells:
            row = row_of(", ".join(cell for cell in cells[:2] if cell), own)
            others = [NUMBER.fullmatch(cell) for name, cell in zip(head, cells) if name == OTHER]
            theirs = [float(match[1]) for match in others if match is not None]
            found.append(row._replace(figure=row.figure / theirs[-1]) if theirs and theirs[-1] else row)
    return found


def row_of(label: str, texts: t.Sequence[str]) -> Row:
    """A row of numbers that are added."""
    decimals = min(len(text.partition(".")[2]) for text in texts)
    figure = sum(map(float, texts))
    return Row(label, figure, figure >= DIGITS / 10**decimals)


def run(tree: pathlib.Path, group: str, more: t.Sequence[str]) -> Rows:
    """One run of a benchmark of a tree. A bar that it misses is its own to report, and no reason to stop here."""
    root = tree.parents[2]
    environment = dict(
        os.environ, PYTHONPATH=str(root), ANSIBLE_COLLECTIONS_PATH=f"{root}:{os.environ['MCN_NEIGHBOURS']}"
    )
    done = subprocess.run(
        [str(tree / "tests" / "bench" / "run"), group, *more],
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    found = figures(done.stdout)
    if not found:
        raise SystemExit(f"{tree}: {group} ended with {done.returncode} and without a figure:\n{done.stdout[-4000:]}")
    if done.returncode:  # the same number of rows may hide that both ended early
        sys.stderr.write(
            f"{group} of {tree} ended with {done.returncode}: {done.stdout.strip().splitlines()[-1][:300]}\n"
        )
    return found


def medians(turns: t.Sequence[Rows]) -> Rows:
    """Each row with the median of what it was. Raises SystemExit where turns differ in their rows."""
    if len({len(rows) for rows in turns}) != 1:
        raise SystemExit(f"the turns have {sorted({len(rows) for rows in turns})} rows: a run ended early")
    return [
        Row(same[0].label, statistics.median(row.figure for row in same), any(row.counts for row in same))
        for same in zip(*turns)
    ]


def compared(before: t.Sequence[Rows], now: t.Sequence[Rows]) -> list[tuple[Row, Row, float]]:
    """(before, now, now compared with before) of each row."""
    old, new = medians(before), medians(now)
    if len(old) != len(new):
        raise SystemExit(
            f"{len(old)} rows before and {len(new)} now: give the group arguments by which both show the same"
        )
    return [(was, row, row.figure / was.figure if was.figure else 1.0) for was, row in zip(old, new)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("group")
    parser.add_argument("more", nargs=argparse.REMAINDER)
    asked, count = parser.parse_args(), int(os.environ.get("MCN_TURNS", "3"))
    trees = [asked.before, pathlib.Path(__file__).absolute().parents[2]]
    turns: list[list[Rows]] = [[], []]
    for number in range(count):
        for side in (0, 1) if number % 2 else (1, 0):
            turns[side].append(run(trees[side], asked.group, asked.more))
            sys.stderr.write(f"turn {number + 1} of {count}, {'now' if side else 'before'}: done\n")
    print(f"| {asked.group} | before | now | compared with before |\n|---|---|---|---|")
    missed = []
    for was, row, ratio in compared(*turns):
        counts = was.counts or row.counts
        note = "" if counts else " (too small to count)"
        print(f"| {row.label} | {was.figure:.3f} | {row.figure:.3f} | {ratio:.3f}{note} |", flush=True)
        if ratio > WORST and counts:
            missed.append(row.label)
    if missed:
        raise SystemExit(f"more than {WORST} times what it was: " + "; ".join(missed))


if __name__ == "__main__":
    main()
