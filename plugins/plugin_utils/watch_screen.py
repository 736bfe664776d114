# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the callback ``watch`` draws: the lines of ``status``, fitted into a terminal and coloured by what they report. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._status import screen
from ansible_collections.multicluster.network.plugins.module_utils._status.texts import cut
from ansible_collections.multicluster.network.plugins.module_utils._status.verdict import BROKEN, PROVEN, UNPROVEN
from ansible_collections.multicluster.network.plugins.plugin_utils.digest_space import fitted

RED, GREEN, YELLOW, BOLD, PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1m", "\x1b[0m"
_COLOURS = {BROKEN: RED, UNPROVEN: YELLOW, PROVEN: GREEN}
#: Lines of the output of a run that left no document.
FAILED_LINES = 12
NEXT = "next: "
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Picture(t.NamedTuple):
    """What is to be drawn. document: of the latest run that left one, or None; error: output of a later run that left none; note: the first line."""

    note: str
    document: t.Mapping[str, t.Any] | None
    error: str = ""


def lines(picture: Picture, columns: int, rows: int, coloured: bool) -> list[str]:
    """At most ``rows`` lines of at most ``columns`` characters each, without what colours them; 0 rows: all of them, and none of them is cut."""
    found = [(row, BOLD) for row in fitted(picture.note, columns)]
    if picture.error:
        failed = [cut(_ESCAPES.sub("", row), 1000) for row in picture.error.splitlines() if row.strip()]
        found += [(row, RED) for line in [failed[0], *failed[1:][-FAILED_LINES:]] for row in fitted(line, columns)]
    if picture.document is not None:
        verdict, texts = picture.document["verdict"]["value"], screen.lines(picture.document, {}, columns)
        texts = [text for text in texts if not text.startswith(NEXT)]  # the next run comes by itself
        found += [
            (row, _colour(text, index == 0, verdict))
            for index, text in enumerate(texts)
            for row in fitted(text, columns)
        ]
    if rows and len(found) > rows:
        found = [*found[: rows - 1], (f"... and {len(found) - rows + 1:,} more lines", PLAIN)]
    if rows:
        found = [(cut(row, columns), colour) for row, colour in found]
    return [f"{colour}{row}{PLAIN}" if coloured and colour != PLAIN and row else row for row, colour in found]


def _colour(text: str, first: bool, verdict: str) -> str:
    """The first line and reasons have the colour of the whole, the row of a cluster that of its last cell."""
    if first or text.startswith("  "):
        return _COLOURS.get(verdict, PLAIN)
    return next((colour for value, colour in _COLOURS.items() if text.endswith("  " + value)), PLAIN)
