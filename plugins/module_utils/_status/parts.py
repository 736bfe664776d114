# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What our pages are made of: the page itself, its tables and their cells. Pure.

Everything that is not from these files is escaped; a policy inside the page lets nothing else run and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import typing as t

from .drawing import escape
from .style import SCRIPT, STYLE

#: Longer tables are folded, so that a reader on a phone comes to the next one.
UNFOLDED = 60

Cell = tuple[str, str]  # (class, HTML)
#: A table of the page has at most so many rows, the troubled ones first; the JSON has all.
ROWS = 1000
#: Names of clusters in one cell.
NAMED = 6


def whole(
    title: str, heading: str, under: str, verdict: tuple[str, str], body: str, footer: str, style: str = ""
) -> str:
    """A complete page. under, body: HTML; verdict: (grade, words); style: more of it than pages have in common."""
    css = STYLE + style
    policy = f"default-src 'none'; img-src data:; style-src {_hash(css)}; script-src {_hash(SCRIPT)}; base-uri 'none'; form-action 'none'"
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n',
            f"<title>{escape(title)}</title>\n",
            f'<link rel="icon" href="data:,">\n<style>{css}</style>\n</head>\n<body>\n',
            f'<header><h1>{escape(heading)}</h1><p>{under}</p><span class="verdict {escape(verdict[0])}">{escape(verdict[1])}</span></header>\n<main>\n',
            body,
            f"</main>\n<footer>{escape(footer)}</footer>\n",
            f"<script>{SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


def moment(text: str) -> str:
    """A moment of ISO 8601 as HTML."""
    return f'<time datetime="{escape(text)}">{escape(shown_time(text))}</time>'


def shown_time(text: str) -> str:
    """A moment of ISO 8601 for people."""
    return text.replace("T", " ").replace("Z", " UTC")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def number(key: str, value: float | None, shown: str | None = None) -> str:
    """A number with its name: readers see it short, programs (and our tests) take it from data-v."""
    text = f"{value:,}" if shown is None and value is not None else shown or ""
    raw = "" if value is None else str(value)
    name = f' data-k="{escape(key)}"' if key else ""
    return f'<span{name} data-v="{raw}">{escape(text)}</span>'


def table(
    title: str,
    key: str,
    columns: str,
    rows: t.Sequence[t.Sequence[Cell]],
    total: int,
    note: str = "",
    merged: bool = False,
    unfolded: bool = False,
    above: str = "",
) -> str:
    """A section with a table; columns: their heads, those of numbers with a #. Nothing at all for no rows.

    unfolded: open, however long it is; above: HTML in front of the table.
    """
    if not total:
        return ""
    if total > len(rows) and not merged:
        note = (note + " " if note else "") + f"Shown are {len(rows):,} of {total:,}, troubled ones first."
    heads = [("num", text[1:]) if text.startswith("#") else ("", text) for text in columns.split("|")]
    head = "".join(f'<th scope="col" class="{css}">{escape(text)}</th>' for css, text in heads)
    body = "".join(
        "<tr>{0}</tr>".format(
            "".join(
                '<td class="{0}" data-l="{1}">{2}</td>'.format(
                    css if cell else (css + " none").strip(), escape(heads[column][1]), cell
                )
                for column, (css, cell) in enumerate(row)
            )
        )
        for row in rows
    )
    return (
        '<details id="{0}"{1}><summary><h2>{2}</h2><span class="count">{3}</span></summary><div class="body">{4}<div class="scroll">'
        '<table aria-label="{2}"><thead><tr>{5}</tr></thead><tbody>{6}</tbody></table></div></div></details>\n'
    ).format(
        key,
        " open" if unfolded or total <= UNFOLDED else "",
        escape(title),
        number("count." + key, total),
        (note and f'<p class="note">{escape(note)}</p>') + above,
        head,
        body,
    )


def pill(css: str, text: t.Any) -> Cell:
    return "", f'<span class="pill {css}">{escape(text)}</span>'


def text_cell(value: t.Any, css: str = "") -> Cell:
    return css, escape(value if value is not None else "")


def number_cell(key: str, value: float | None, shown: str | None = None) -> Cell:
    return "num", number(key, value, shown)


def plain_rows(rows: t.Iterable[t.Mapping[str, t.Any]], *columns: tuple[str, str]) -> list[list[Cell]]:
    """Rows of nothing but texts; columns: (field, class)."""
    return [
        [text_cell(", ".join(r[name]) if isinstance(r[name], list) else r[name], css) for name, css in columns]
        for r in rows
    ]


def merged_rows(rows: t.Iterable[t.Mapping[str, t.Any]], where: str, fields: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """Rows that differ in their place only, as one, with all places."""
    found: dict[tuple[str, ...], dict[str, t.Any]] = {}
    for row in rows:
        key = tuple(str(row[name]) for name in fields)
        found.setdefault(key, dict(row, places=[]))["places"].append(str(row[where]))
    for row in found.values():
        names = list(dict.fromkeys(row["places"]))
        row["places"] = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")
    return list(found.values())
