# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one error of every parser: a value that is refused, with its reason."""

from __future__ import annotations

import typing as t

T = t.TypeVar("T")


class ValueRefused(ValueError):
    """A text that is not the value it claims to be.

    ``reason`` is a name of the specs (``bad_public_key``, ``bad_pod_cidr``, ...), ``message``
    one sentence for a person. Text that came from a remote side is quoted and cut at 200 characters,
    so that a hostile value can fill neither a log nor a terminal.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        self.message = message
        super().__init__(f"{reason}: {message}")


def quoted(text: object) -> str:
    """Show untrusted text safely: printable ASCII only, at most 200 characters."""
    shown = ascii(text if isinstance(text, str) else str(text))
    return shown if len(shown) <= 200 else shown[:197] + "..."


def readable(parse: t.Callable[[t.Any], T], texts: t.Iterable[t.Any]) -> list[T]:
    """What the parser makes of the texts, without those that it refuses."""
    found = []
    for text in texts:
        try:
            found.append(parse(text))
        except ValueRefused:
            continue
    return found
