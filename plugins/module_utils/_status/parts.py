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

Cell = t.Tuple[str, str]  # (class, HTML)


def whole(title: str, heading: str, under: str, verdict: t.Tuple[str, str], body: str, footer: str, style: str = "") -> str:
    """A page that stands alone. under, body: HTML; verdict: (grade, words); style: more of it than pages have in common."""
    css = STYLE + style
    policy = "default-src 'none'; img-src data:; style-src {0}; script-src {1}; base-uri 'none'; form-action 'none'".format(_hash(css), _hash(SCRIPT))
    return "".join([
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        '<meta http-equiv="Content-Security-Policy" content="{0}">\n'.format(escape(policy)),
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n',
        "<title>{0}</title>\n".format(escape(title)),
        '<link rel="icon" href="data:,">\n<style>{0}</style>\n</head>\n<body>\n'.format(css),
        '<header><h1>{0}</h1><p>{1}</p><span class="verdict {2}">{3}</span></header>\n<main>\n'.format(
            escape(heading), under, escape(verdict[0]), escape(verdict[1])
        ),
        body,
        "</main>\n<footer>{0}</footer>\n".format(escape(footer)),
        "<script>{0}</script>\n</body>\n</html>\n".format(SCRIPT),
    ])  # fmt: skip


def moment(text: str) -> str:
    """A moment of ISO 8601 as HTML."""
    return '<time datetime="{0}">{1}</time>'.format(escape(text), escape(shown_time(text)))


def shown_time(text: str) -> str:
    """A moment of ISO 8601 for people."""
    return text.replace("T", " ").replace("Z", " UTC")


def _hash(text: str) -> str:
    return "'sha256-{0}'".format(base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii"))


def number(key: str, value: t.Optional[float], shown: t.Optional[str] = None) -> str:
    """A number that says which one it is: readers see it short, programs (and our tests) take it from data-v."""
    text = "{0:,}".format(value) if shown is None and value is not None else shown or ""
    raw = "" if value is None else str(value)
    name = ' data-k="{0}"'.format(escape(key)) if key else ""
    return '<span{0} data-v="{1}">{2}</span>'.format(name, raw, escape(text))


def table(title: str, key: str, columns: str, rows: t.Sequence[t.Sequence[Cell]], total: int, note: str = "", merged: bool = False) -> str:
    """A section with a table; columns: their heads, those of numbers with a #. Nothing at all for no rows."""
    if not total:
        return ""
    if total > len(rows) and not merged:
        note = (note + " " if note else "") + "Shown are {0:,} of {1:,}, troubled ones first.".format(len(rows), total)
    heads = [("num", text[1:]) if text.startswith("#") else ("", text) for text in columns.split("|")]
    head = "".join('<th scope="col" class="{0}">{1}</th>'.format(css, escape(text)) for css, text in heads)
    body = "".join(
        "<tr>{0}</tr>".format(
            "".join(
                '<td class="{0}" data-l="{1}">{2}</td>'.format(css if cell else (css + " none").strip(), escape(heads[column][1]), cell)
                for column, (css, cell) in enumerate(row)
            )
        )
        for row in rows
    )
    return (
        '<details id="{0}"{1}><summary><h2>{2}</h2><span class="count">{3}</span></summary><div class="body">{4}<div class="scroll">'
        '<table aria-label="{2}"><thead><tr>{5}</tr></thead><tbody>{6}</tbody></table></div></div></details>\n'
    ).format(
        key, " open" if total <= UNFOLDED else "", escape(title), number("count." + key, total),
        note and '<p class="note">{0}</p>'.format(escape(note)), head, body,
    )  # fmt: skip


def pill(css: str, text: t.Any) -> Cell:
    return "", '<span class="pill {0}">{1}</span>'.format(css, escape(text))


def text_cell(value: t.Any, css: str = "") -> Cell:
    return css, escape(value if value is not None else "")


def number_cell(key: str, value: t.Optional[float], shown: t.Optional[str] = None) -> Cell:
    return "num", number(key, value, shown)
