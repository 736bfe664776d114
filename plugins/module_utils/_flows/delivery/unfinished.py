# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run has changed on a node and not carried out yet: a note alongside the files, for whoever comes after a run that was killed.

The files alone do not tell it: they are as the next run wants them, and what runs was started before.
"""

from __future__ import annotations

import typing as t

from ..._linux import files


def left(note: str) -> frozenset[str]:
    """Paths that were changed, and nothing was reported of it."""
    return frozenset(files.read_lines(note))


def begin(note: str, paths: t.Iterable[str]) -> None:
    """Before the first of these is written. Raises OSError."""
    files.write_state(
        note,
        files.FileState("file", 0o600, "".join(path + "\n" for path in sorted({*left(note), *paths})).encode("utf-8")),
    )


def end(note: str, paths: t.Iterable[str]) -> None:
    """All of these have been carried out. Raises OSError."""
    rest = left(note) - set(paths)
    if rest:
        files.write_state(
            note, files.FileState("file", 0o600, "".join(path + "\n" for path in sorted(rest)).encode("utf-8"))
        )
    else:
        files.remove(note)
