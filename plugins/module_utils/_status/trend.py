# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the fabric was at earlier runs, as a small line on the page and as blocks on a terminal. Pure; every text is escaped."""

from __future__ import annotations

import datetime
import itertools
import typing as t

from .drawing import escape

Data = t.Mapping[str, t.Any]

#: Points of one line on the page, blocks of one line on a terminal: the latest ones.
POINTS, BLOCKS = 200, 30
WIDTH, HEIGHT = 240.0, 36.0
_LEVELS = "▁▂▃▄▅▆▇█"
#: What is drawn: (title, the number of a run, of how many; None: the fewer the better, of its own most).
LINES: tuple[tuple[str, str, str | None], ...] = (
    ("nodes that answer", "nodes_answered", "nodes"),
    ("tunnels up", "tunnels_up", "tunnels"),
    ("things drifted", "drift", None),
)


def shares(history: t.Sequence[Data], name: str, whole: str | None) -> list[float]:
    """One number of each run between 0 and 1: of all, or of the most that there was.

    Where there was nothing at all, it is 1 of all and 0 of the most. Others may write the file, so numbers may be any.
    """
    most = max((row[name] for row in history), default=0)
    found = []
    for row in history:
        total = row[whole] if whole else most
        found.append(max(0.0, min(1.0, row[name] / total)) if total > 0 else (1.0 if whole else 0.0))
    return found


def lines(history: t.Sequence[Data]) -> str:
    """The lines of LINES as HTML; nothing for a first run. A row of the history is drawn from its first to its last run, so a line has steps."""
    rows = history[-POINTS:]
    if len(rows) < 2:
        return ""
    return '<div class="trends">{0}</div>\n'.format("".join(_line(rows, *one) for one in LINES))


def _line(rows: t.Sequence[Data], title: str, name: str, whole: str | None) -> str:
    each = list(itertools.accumulate((_seconds(row[name]) for row in rows for name in ("first", "last")), max))
    moments = list(zip(each[::2], each[1::2]))  # none before its predecessor
    begin, span = each[0], max(1.0, each[-1] - each[0])
    points = []
    for (first, last), share in zip(moments, shares(rows, name, whole)):
        height = HEIGHT - 3 - share * (HEIGHT - 6)
        points += [f"{(moment - begin) / span * WIDTH:.1f},{height:.1f}" for moment in dict.fromkeys((first, last))]
    now, numbers = rows[-1], [row[name] for row in rows]
    text = f"{now[name]:,} of {now[whole]:,}" if whole else f"{now[name]:,}"
    worst = f"at least {min(numbers):,}" if whole else f"at most {max(numbers):,}"
    label = f"{title}: {text} now, {worst} since {rows[0]['first']}"
    return (
        f'<figure><svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" aria-label="{escape(label)}" preserveAspectRatio="none">'
        f'<title>{escape(label)}</title><polyline points="{" ".join(points)}"/></svg>'
        f"<figcaption>{escape(title)}: {escape(text)}</figcaption></figure>"
    )


def blocks(history: t.Sequence[Data]) -> str:
    """The share of tunnels that were up in the latest runs, a block for each row of the history; nothing for a first run or no tunnels."""
    rows = history[-BLOCKS:]
    if len(rows) < 2 or not any(row["tunnels"] for row in rows):
        return ""
    return "".join(_LEVELS[int(share * (len(_LEVELS) - 1))] for share in shares(rows, "tunnels_up", "tunnels"))


def _seconds(moment: str) -> float:
    """Seconds of a moment of texts.moment; 0 for one that is none, since others may write the file."""
    try:
        return (
            datetime.datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc).timestamp()
        )
    except ValueError:
        return 0.0
