# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An extension of Sphinx: long names in titles break where a reader would break them, and diagrams scroll by themselves on a phone."""

from __future__ import annotations

import re


def with_form(body: str) -> str:
    """The HTML of a page, with places to break after dots and underscores of its first title, and each diagram in a box of its own."""
    body = re.sub(
        r"(<h1>)(.*?)(<a class=|</h1>)",
        lambda found: found[1] + _breakable(found[2]) + found[3],
        body,
        count=1,
        flags=re.S,
    )
    return re.sub(r'<img [^>]*\.svg"[^>]*>', lambda found: f'<div class="diagram">{found[0]}</div>', body)


def _breakable(title: str) -> str:
    return re.sub(r"(?<=\w)([._])(?=\w)", r"\1<wbr>", title)


def setup(app: object) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("html-page-context", _form)
    return {"parallel_read_safe": True}


def _form(_app: object, _page: str, _template: str, context: dict[str, object], _doctree: object) -> None:
    if context.get("body"):
        context["body"] = with_form(str(context["body"]))
