# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a trace: it shows what was found, and nothing of a stranger's text runs."""

from __future__ import annotations

import html.parser
import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._status import ways
from ansible_collections.multicluster.network.plugins.module_utils._trace import page

HOSTILE = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "status_page.json").read_text("utf-8")
)
TAGS = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "link",
        "style",
        "body",
        "header",
        "h1",
        "h3",
        "p",
        "time",
        "span",
        "main",
        "div",
        "svg",
        "g",
        "circle",
        "path",
        "text",
        "details",
        "summary",
        "h2",
        "table",
        "thead",
        "tr",
        "th",
        "tbody",
        "td",
        "footer",
        "script",
    ]
)
VOID = ("meta", "link")


class Reader(html.parser.HTMLParser):
    """Elements, attributes, and text of a page with elements that close in order."""

    def __init__(self):
        super().__init__()
        self.tags, self.open, self.attributes, self.texts = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"{tag} is closed out of order"

    def handle_data(self, data):
        self.texts.append(data)


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


def document(text="", flows=1, hops=3):
    """A trace that ends on gcp-node-1; ``text`` is wherever a stranger's text may be."""
    ways = [
        {
            "id": str(number),
            "number": 61000 + number,
            "protocol": text or "tcp",
            "version": 4,
            "source": {
                "kind": "pod",
                "name": text or f"aws/default/web-{number}",
                "address": text or "10.2.3.9",
                "host": "aws-node-1",
            },
            "target": {
                "kind": "service",
                "name": text or "gcp/sys-log/fluentd",
                "address": text or "10.5.0.7",
                "port": 8888,
                "backends": [],
            },
        }
        for number in range(flows)
    ]
    rows = [
        {
            "flow": str(way),
            "direction": "forward",
            "where": text or ("aws-node-1" if number < 2 else "gcp-node-1"),
            "what": text or f"hop {number}",
            "expected": text or "forwards",
            "observed": text or ("drop" if number == 2 else "seen"),
            "verdict": "differs" if number == 2 else "ok",
            "command": text or "nft list ruleset",
            "source": text or "route",
        }
        for way in range(flows)
        for number in range(hops)
    ]
    finding = {
        "cause": text or "forward_dropped",
        "where": text or "gcp-node-1",
        "flow": "0",
        "message": text or "chain FORWARD drops",
        "fix": text or "iptables -P",
        "confidence": text or "proven",
    }
    return {
        "fabric": text or "demo",
        "generated": text or "2026-11-23T12:00:00Z",
        "trace": {"flows": ways},
        "verdict": text or "does not arrive",
        "findings": [finding],
        "hops": rows,
    }


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_a_stranger_wrote_becomes_part_of_the_page(text):
    found = read(page.render(document(text)))
    assert set(found.tags) <= TAGS
    assert found.tags.count("script") == 1 and found.tags.count("style") == 1 and found.tags.count("meta") == 4
    names = {name for name, dummy in found.attributes}
    assert not [name for name in names if name.startswith("on")] and not names & {"style", "src"}
    assert [value for name, value in found.attributes if name == "href"] == ["data:,"]


def test_it_shows_the_finding_and_every_hop():
    text = page.render(document())
    found = read(text)
    assert "Trace from aws/default/web-0 to gcp/sys-log/fluentd" in found.texts
    for shown in (
        "forward_dropped",
        "chain FORWARD drops",
        "iptables -P",
        "proven",
        "does not arrive",
        "hop 0",
        "hop 1",
        "hop 2",
    ):
        assert shown in found.texts, shown
    assert text.count('<circle class="here"') == 1 and text.count('<circle class="dot ') == 3


def test_many_ways_are_counted_and_those_with_a_finding_are_drawn_first():
    given = document(flows=20)
    given["findings"][0]["flow"] = "19"
    text = page.render(given)
    assert "Trace from 20 places to gcp/sys-log/fluentd" in text
    assert text.count('<div class="map way">') == ways.DRAWN
    assert text.index("aws/default/web-19 (10.2.3.9) to") < text.index("aws/default/web-0 (10.2.3.9) to")


def test_a_trace_without_a_way_has_a_page_too():
    given = dict(document(hops=0), trace={}, verdict="does not arrive")
    assert "forward_dropped" in read(page.render(given)).texts
