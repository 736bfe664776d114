# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python's cyclic garbage collector, held back while thousands of objects are made that form no cycles."""

from __future__ import annotations

import contextlib
import gc
import typing as t


@contextlib.contextmanager
def gc_paused() -> t.Iterator[None]:
    """For ``with`` and as a decorator: no cyclic garbage collection meanwhile, in any thread; afterwards it is as it was.

    Every so many new objects the collector looks at all of them again, which takes longer than making them (decision 47).
    Whoever switched it off switches it on again: where threads overlap, the last one to end may go on without the pause.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
