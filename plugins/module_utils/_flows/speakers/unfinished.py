# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a speaker: what a plan shows of them, and what a run has changed and not carried out yet, as a note alongside the files
for the run that comes after one that was killed.

The files alone do not tell it: they are as the next run wants them, and what runs was started before.
"""

from __future__ import annotations

import typing as t

from ..._linux import files
from ..._linux.files import FileState
from ..._plan.plan import Plan


def note_files(
    plan: Plan,
    before: t.Mapping[str, FileState | None],
    desired: t.Mapping[str, FileState],
    shown: t.Callable[[str, FileState], dict[str, t.Any]] = lambda path, state: state.shown(),
) -> None:
    """Plan what is written, and that what is there and not desired goes."""
    for path in sorted(desired):
        old, new = before[path], desired[path]
        if old == new:
            plan.unchanged += 1
        elif old is None:
            plan.create("file", path, shown(path, new))
        else:
            plan.update("file", path, shown(path, old), shown(path, new))
    for path in sorted(path for path, old in before.items() if old is not None and path not in desired):
        plan.delete("file", path, {})


def left(note: str) -> frozenset[str]:
    """Paths that were changed, and nothing was reported of it."""
    return frozenset(files.read_lines(note))


def begin(note: str, paths: t.Iterable[str]) -> None:
    """Before the first of these is written. Raises OSError."""
    files.write_state(note, _note_of({*left(note), *paths}))


def end(note: str, paths: t.Iterable[str]) -> None:
    """All of these have been carried out. Raises OSError."""
    rest = left(note) - set(paths)
    if rest:
        files.write_state(note, _note_of(rest))
    else:
        files.remove(note)


def _note_of(paths: t.Iterable[str]) -> FileState:
    return files.text_file(0o600, "".join(path + "\n" for path in sorted(paths)))
