# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page: every number from the document, nothing of a stranger's text runs, nothing is fetched."""

from __future__ import annotations

import html.parser
import json
import pathlib
import re
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._status import drawing, model, page, prometheus

TESTS = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(TESTS / "browser"))

import fabrics  # pylint: disable=wrong-import-position

HOSTILE = json.loads((TESTS / "fixtures" / "hostile" / "status_page.json").read_text("utf-8"))
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
        "b",
        "small",
        "svg",
        "g",
        "circle",
        "path",
        "rect",
        "text",
        "ul",
        "li",
        "i",
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
        "a",
    ]
)
VOID = ("meta", "link")


class Reader(html.parser.HTMLParser):
    """Which elements and attributes a page has, and whether they close in order."""

    def __init__(self):
        super().__init__()
        self.tags, self.open, self.attributes, self.numbers = [], [], [], {}

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        found = dict(attrs)
        if "data-k" in found:
            self.numbers.setdefault(found["data-k"], []).append(
                json.loads(found["data-v"]) if found["data-v"] else None
            )
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"{tag} is closed out of order"


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


def everywhere(value, text):
    """Every text of some facts replaced, but what code decides by."""
    if isinstance(value, dict):
        keep = ("public_key", "state", "action", "since", "now", "device", "scope")
        return {key: (inner if key in keep else everywhere(inner, text)) for key, inner in value.items()}
    if isinstance(value, list):
        return [everywhere(inner, text) for inner in value]
    return text if isinstance(value, str) else value


def hostile_facts(reason):
    facts = fabrics.facts({"aws": 2, "gcp": 1}, services=1, sets=1)
    facts["nodes"] = {host: everywhere(node, reason) for host, node in facts["nodes"].items()}
    facts["clusters"] = {name: everywhere(read_, reason) for name, read_ in facts["clusters"].items()}
    for row in [row for read_ in facts["clusters"].values() for row in read_["services"]]:
        row["kind"] = "mirror"
    facts["clusters"]["aws"]["kilo_peers"] = [
        {"name": reason, "endpoint": reason, "allowed_ips": [reason], "owner": reason}
    ]
    facts["drift"] = [
        {
            "where": reason,
            "kind": reason,
            "name": reason,
            "action": "update",
            "difference": reason,
            "owner": reason,
            "since": reason,
            "note": reason,
        }
    ]
    facts["refused"] = [{"where": reason, "object": reason, "reason": reason, "message": reason}]
    facts["failures"] = [{"cluster": reason, "operation": reason, "reason": reason, "message": reason}]
    facts["tenants"] = {
        "interfaces": [dict.fromkeys(("name", "source", "network", "node", "state"), reason)],
        "counts": {"orphans": 1},
    }
    end = {"kind": reason, "name": reason, "address": reason, "host": reason, "port": reason}
    facts["trace"] = {
        "flows": [{"id": "0", "number": 61000, "protocol": reason, "version": reason, "source": end, "target": end}],
        "findings": [
            dict(dict.fromkeys(("cause", "where", "message", "fix", "command", "confidence"), reason), flow="0")
        ],
        "hops": [
            dict(
                dict.fromkeys(
                    ("direction", "where", "what", "expected", "observed", "verdict", "command", "source"), reason
                ),
                flow="0",
            )
        ],
    }
    facts["mesh"]["nodes"][reason] = {"cluster": reason, "node_name": reason}
    facts["nodes"][reason] = facts["nodes"]["aws-node-1"]
    facts["clusters"][reason] = facts["clusters"]["aws"]
    facts["fabric"] = reason
    facts["mesh"]["mode"] = reason
    return facts


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_a_stranger_wrote_becomes_part_of_the_page(text):
    found = read(page.render(model.build(hostile_facts(text))))
    assert set(found.tags) <= TAGS
    assert found.tags.count("script") == 1 and found.tags.count("style") == 1 and found.tags.count("meta") == 4
    names = {name for dummy, name, dummy_value in found.attributes}
    assert not [name for name in names if name.startswith("on")] and "style" not in names and "src" not in names
    links = {value for tag, name, value in found.attributes if name == "href"}
    assert all(re.match(r"#(?:pair-[0-9]+|tunnels|links)\Z", value) for value in links - {"data:,"}), links


@pytest.mark.parametrize("text", HOSTILE)
def test_no_label_breaks_a_line_of_the_metrics(text):
    line = re.compile(
        r'(?:# (?:HELP|TYPE) [a-z_]+ [^\n]+|[a-z_]+\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)*\} [0-9.e+-]+)\Z'
    )
    for one in prometheus.text(model.build(hostile_facts(text))).splitlines():
        assert line.match(one), one
        assert not one.startswith("fake_metric")


def test_without_its_script_the_policy_lets_nothing_be_fetched():
    text = page.render(model.build(fabrics.facts({"aws": 1, "gcp": 1})))
    policy = next(value for tag, name, value in read(text).attributes if name == "content" and "default-src" in value)
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert not re.search(
        r"(?:src|href|url\(|@import|https?:)",
        re.sub(r"<meta[^>]*>|href=\"(?:data:,|#[a-z0-9-]+)\"|data:", "", text).replace("img-src", ""),
    )


def test_every_number_is_that_of_the_document():
    document = model.build(fabrics.facts({"aws": 3, "gcp": 2, "metal": 1}, unreachable=("gcp-node-2",)))
    numbers = read(page.render(document)).numbers
    for name, value in document["summary"].items():
        assert numbers.get("summary." + name, [value]) == [value]
    for row in document["tunnels"]:
        key = f"tunnel.{row['host']}.{row['public_key']}."
        assert [numbers[key + name] for name in ("age", "rx", "tx")] == [[row["age"]], [row["rx"]], [row["tx"]]]
    for row in document["nodes"]:
        assert numbers[f"node.{row['host']}.peers"] == [row["peers"]]
    for row in document["services"]:
        key = "service.{cluster}.{namespace}.{name}.".format(**row)
        assert (numbers[key + "endpoints"], numbers[key + "ready"]) == ([row["endpoints"]], [row["ready"]])
    assert numbers["count.tunnels"] == [len(document["tunnels"])]


def test_sums_are_the_sums_of_their_rows():
    document = model.build(fabrics.facts({"aws": 5, "gcp": 4, "metal": 3}, unreachable=("gcp-node-2",)))
    s = document["summary"]
    assert (
        s["tunnels"]
        == sum(link["tunnels"] for link in document["links"])
        == sum(node["peers"] for node in document["nodes"])
    )
    assert (
        s["tunnels_up"]
        == sum(link["up"] for link in document["links"])
        == sum(cluster["up"] for cluster in document["clusters"])
    )
    assert (
        s["rx"]
        == sum(link["rx"] for link in document["links"])
        == sum(cluster["rx"] for cluster in document["clusters"])
    )
    assert (s["nodes"], s["nodes_answered"]) == (12, 11)
    assert all(
        sum(link[state] for state in ("up", "stale", "never", "missing", "unknown")) == link["tunnels"]
        for link in document["links"]
    )
    assert page.verdict(document) == ("bad", "broken")


def test_the_same_facts_give_the_same_bytes():
    one, other = (model.build(fabrics.facts({"aws": 3, "gcp": 2})) for dummy in range(2))
    assert page.render(one) == page.render(other) and prometheus.text(one) == prometheus.text(other)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 12, 30])
def test_any_number_of_clusters_is_drawn_inside_the_picture(count):
    document = model.build(fabrics.facts({f"c{index}": 2 for index in range(count)}))
    for tall in (False, True):
        drawn = drawing.draw(document, tall)
        if not count:
            assert drawn == ""
            continue
        width, height = map(float, re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', drawn).groups())
        discs = [
            tuple(map(float, row))
            for row in re.findall(r'class="disc[^"]*" cx="([0-9.-]+)" cy="([0-9.-]+)" r="([0-9.]+)"', drawn)
        ]
        assert len(discs) == count
        for x, y, radius in discs:
            assert radius <= x <= width - radius and radius <= y <= height - radius - 30
        for index, (x, y, radius) in enumerate(discs):
            for u, v, other in discs[:index]:
                assert (x - u) ** 2 + (y - v) ** 2 >= (radius + other) ** 2 * 0.99


def test_a_table_of_many_rows_shows_the_troubled_ones_first(monkeypatch):
    monkeypatch.setattr(page, "ROWS", 4)
    document = model.build(fabrics.facts({"aws": 6, "gcp": 5}))
    document["tunnels"][-1].update(state="missing", age=None, handshake=0)
    text = page.render(document)
    assert "Shown are 4 of 60, troubled ones first." in text
    keys = [key for key in read(text).numbers if key.startswith("tunnel.") and key.endswith(".age")]
    assert len(keys) == 4 and keys[0] == "tunnel.{host}.{public_key}.age".format(**document["tunnels"][-1])


def test_above_a_bound_tunnels_are_reported_by_node(monkeypatch):
    document = model.build(fabrics.facts({"aws": 2, "gcp": 2}))
    whole = prometheus.text(document)
    assert whole.count("\nsemaphore_wg_peer_last_handshake_seconds{") == 8 and 'left_out{fabric="default"} 0' in whole
    monkeypatch.setattr(prometheus, "TUNNELS", 3)
    short = prometheus.text(document)
    assert (
        "semaphore_wg_peer_info{" not in short
        and 'left_out{fabric="default"} 8' in short
        and "multicluster_node_receive_bytes_total{" in short
    )


def test_ages_are_by_the_nodes_own_clock():
    facts = fabrics.facts({"aws": 1, "gcp": 1})
    node_ = facts["nodes"]["aws-node-1"]
    node_["now"] -= 5000  # a clock that is slow
    for peer in node_["devices"][0]["peers"]:
        peer["handshake"] = int(node_["now"]) - 30
    row = next(row for row in model.build(facts)["tunnels"] if row["host"] == "aws-node-1")
    assert (row["age"], row["state"]) == (30, "up")


def test_a_handshake_from_before_the_clock_was_set_back_is_stale():
    facts = fabrics.facts({"aws": 1, "gcp": 1})
    node_ = facts["nodes"]["aws-node-1"]
    for peer in node_["devices"][0]["peers"]:
        peer["handshake"] = int(node_["now"]) + 3600
    row = next(row for row in model.build(facts)["tunnels"] if row["host"] == "aws-node-1")
    assert (row["age"], row["state"]) == (None, "stale")


@pytest.mark.parametrize(
    "seconds,shown",
    [(None, "never"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172800, "2 d")],
)
def test_ages_for_people(seconds, shown):
    assert page.human_age(seconds) == shown


@pytest.mark.parametrize(
    "count,shown", [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1 << 30, "1.0 GiB"), (1 << 52, "4096.0 TiB")]
)
def test_bytes_for_people(count, shown):
    assert page.human_bytes(count) == shown
