# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python's cyclic garbage collector, held back while thousands of small objects are made that have no cycles."""

from __future__ import annotations

import functools
import gc
import typing as t

Function = t.TypeVar("Function", bound=t.Callable[..., t.Any])


def without_collector(function: Function) -> Function:
    """Decorator: the collector does not run inside; afterwards it is as it was.

    It would walk all peers again and again as they grow in number, which takes as long as making them.
    """

    @functools.wraps(function)
    def held_back(*arguments: t.Any, **named: t.Any) -> t.Any:
        if not gc.isenabled():
            return function(*arguments, **named)
        gc.disable()
        try:
            return function(*arguments, **named)
        finally:
            gc.enable()

    return held_back  # type: ignore[return-value]
