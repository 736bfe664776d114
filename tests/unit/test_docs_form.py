# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Titles and diagrams of the documentation's pages on a narrow screen."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def form():
    spec = importlib.util.spec_from_file_location("page_form", ROOT / "tests" / "docs" / "page_form.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            '<h1>a.b.bgp_speaker module – Configure it<a class="headerlink" href="#a.b_c">x</a></h1><h2>a.b</h2>',
            '<h1>a.<wbr>b.<wbr>bgp_<wbr>speaker module – Configure it<a class="headerlink" href="#a.b_c">x</a></h1><h2>a.b</h2>',
        ),
        ("<h1>The end.</h1><h1>a.b</h1>", "<h1>The end.</h1><h1>a.b</h1>"),
        ('<p>a.b</p><img alt="A" src="c.svg" />', '<p>a.b</p><div class="diagram"><img alt="A" src="c.svg" /></div>'),
        ('<img alt="A" src="c.png" />', '<img alt="A" src="c.png" />'),
        ("", ""),
    ],
)
def test_names_in_titles_may_break_and_diagrams_scroll(body, expected):
    assert form().with_form(body) == expected


def test_the_site_is_built_with_it():
    style = (ROOT / "tests" / "docs" / "site.css").read_text("utf-8")
    assert ".diagram img { max-width: none;" in style
    assert "extensions.append('page_form')" in (ROOT / "tests" / "run").read_text("utf-8")
