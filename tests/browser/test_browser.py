# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page in a real browser, small and large, wide and narrow: no complaint, no request, every number the document's."""

from __future__ import annotations

import json
import os
import pathlib
import sys

import fabrics
import pytest
from ansible_collections.multicluster.network.plugins.module_utils._status import model, page, prometheus
from chromium import Chromium

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "unit"))

import status_schema  # pylint: disable=wrong-import-position

HOSTILE = json.loads(
    (pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "hostile" / "status_page.json").read_text("utf-8")
)
SIZES = {"two": {"aws": 2, "gcp": 2}, "five-hundred": {"aws": 200, "gcp": 150, "azure": 100, "metal": 50}}
WINDOWS = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser():
    one = Chromium()
    yield one
    one.close()


@pytest.fixture(scope="module", params=sorted(SIZES))
def fabric(request, tmp_path_factory):
    """(name, document, path of the page)."""
    large = request.param != "two"
    facts = fabrics.facts(
        SIZES[request.param],
        unreachable=("aws-node-7", "metal-node-3") if large else (),
        services=40 if large else 3,
        sets=25 if large else 2,
    )
    facts["drift"] = [
        {
            "where": "aws-node-1",
            "kind": "route",
            "name": "10.4.0.0/16 dev wireguard.gcp table main",
            "action": "create",
            "difference": "missing",
            "owner": "nobody",
            "since": None,
            "note": "it is gone; nobody has it",
        },
        {
            "where": "gcp",
            "kind": "Service",
            "name": "sys-semaphore/" + HOSTILE[0],
            "action": "update",
            "difference": "differs: spec",
            "owner": "kubectl-edit",
            "since": "2026-11-22T01:02:03Z",
            "note": "by Update",
        },
    ]
    facts["refused"] = [
        {"where": "mesh", "object": text, "reason": "outside_grant", "message": text} for text in HOSTILE
    ]
    document = model.build(facts)
    assert status_schema.problems(document) == []
    path = tmp_path_factory.mktemp("page") / (request.param + ".html")
    path.write_text(page.render(document), "utf-8")
    return request.param, document, path


def expected(document):
    """The numbers that a page must show, and nothing else."""
    found = {"summary." + name: value for name, value in document["summary"].items()}
    for row in document["links"]:
        names = ("up", "tunnels", "stale", "unknown", "oldest", "latency", "rx", "tx")
        found.update((f"link.{row['a']}.{row['b']}.{name}", row[name]) for name in names)
        found[f"link.{row['a']}.{row['b']}.never"] = row["never"] + row["missing"]
    for row in document["nodes"]:
        found.update(
            (f"node.{row['host']}.{name}", row[name])
            for name in ("up", "peers", "unknown", "oldest", "key_age", "rx", "tx", "routes")
        )
    for row in document["tunnels"]:
        found.update(
            (f"tunnel.{row['host']}.{row['public_key']}.{name}", row[name]) for name in ("age", "latency", "rx", "tx")
        )
    for row in document["services"]:
        found.update(
            (f"service.{row['cluster']}.{row['namespace']}.{row['name']}.{name}", row[name])
            for name in ("ready", "endpoints")
        )
    found.update(("set.{cluster}.{name}".format(**row), row["networks"]) for row in document["sets"])
    found.update(
        ("address.{cluster}.{address}".format(**row), len(row["announced_by"])) for row in document["addresses"]
    )
    parts = ("drift", "refused", "failures", "links", "nodes", "tunnels", "services", "sets", "addresses", "history")
    found.update(("count." + name, len(document[name])) for name in parts)
    found["count.why"] = sum(document["verdict"]["counts"].values())
    return found


@pytest.mark.parametrize("window", sorted(WINDOWS))
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_opens_without_a_complaint_or_a_request(browser, fabric, window, dark):
    name, document, path = fabric
    if dark and name != "two":
        pytest.skip("colours do not depend on the size")
    width, height = WINDOWS[window]
    with browser.page(path.as_uri(), width, height, dark) as opened:
        assert opened.requests() == [path.as_uri()]
        assert opened.complaints() == []
        assert opened.value("document.documentElement.scrollWidth") == width, "the page is wider than the window"
        shown = opened.numbers()
        desired = expected(document)
        assert {key: values for key, values in shown.items() if values != [desired.get(key, "nothing")]} == {}
        assert {"summary.tunnels_up", "summary.nodes", "count.tunnels"} <= set(shown)
        assert (
            opened.value(
                "[...document.querySelectorAll('.map svg')].filter(e=>e.getBoundingClientRect().width>0).length"
            )
            == 1
        )
        assert opened.value("document.querySelectorAll('svg.wide .dot').length") == len(document["nodes"])
        assert opened.value("window.hacked===undefined&&document.querySelectorAll('script').length") == 1
        folder = os.environ.get("MCN_PICTURES")
        if folder:
            pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
            opened.picture(f"{folder}/{name}-{window}-{'dark' if dark else 'light'}.png")


def test_no_part_of_a_heading_is_broken(browser, fabric):
    """A cell is as wide as its longest part, unless it holds an address, a key or a sentence."""
    dummy, dummy_document, path = fabric
    with browser.page(path.as_uri(), 1280, 900) as opened:
        broken = opened.value("""(()=>{const bad=[];document.querySelectorAll('details').forEach(d=>{d.open=true});
          document.querySelectorAll('th,td:not(.mono):not(.long):not(.key)').forEach(cell=>{
            const range=document.createRange();
            const walk=document.createTreeWalker(cell,NodeFilter.SHOW_TEXT);
            while(walk.nextNode()){const text=walk.currentNode.data;
              for(const m of text.matchAll(/[A-Za-z]{1,18}/g)){range.setStart(walk.currentNode,m.index);range.setEnd(walk.currentNode,m.index+m[0].length);
                const tops=new Set([...range.getClientRects()].map(r=>Math.round(r.top)));if(tops.size>1){bad.push(m[0]);}}}});
          return bad.slice(0,20)})()""")
        assert broken == []


def test_a_line_leads_to_its_pairs(browser, fabric):
    dummy, document, path = fabric
    with browser.page(path.as_uri(), 1280, 900) as opened:
        opened.value("document.querySelector('#links td a').click()")
        assert opened.value("document.getElementById('tunnels').open") is True
        place = opened.value(
            "(()=>{const a=document.querySelector('#links td a');const e=document.getElementById(a.getAttribute('href').slice(1));"
            "const box=e.getBoundingClientRect();return [Math.round(box.top),box.height>0,location.hash]})()"
        )
        assert -1 <= place[0] < 900 and place[1] and place[2].startswith("#pair-"), place
        row = document["links"][0]
        shown = opened.value(
            "[...document.querySelectorAll('#tunnels tbody tr')].filter(r=>!r.hidden).map(r=>r.textContent)"
        )
        assert shown and all(row["a"] in text and row["b"] in text for text in shown)
        assert opened.complaints() == []


def test_filters_and_sorting_work(browser, fabric):
    dummy, document, path = fabric
    with browser.page(path.as_uri()) as opened:
        shown = "[...document.querySelectorAll('#services tbody tr')].filter(row=>!row.hidden)"
        assert opened.value(shown + ".length") == len(document["services"])
        opened.value(
            "(()=>{const i=document.querySelector('#services input');i.value='aws gcp service-0';i.dispatchEvent(new Event('input'))})()"
        )
        some = [
            row for row in document["services"] if all(text in json.dumps(row) for text in ("aws", "gcp", "service-0"))
        ]
        assert opened.value(shown + ".length") == len(some) > 0
        opened.value("document.querySelector('#services th:last-child').click()")
        numbers = opened.value(
            "[...document.querySelectorAll('#services tbody tr td:last-child [data-v]')].map(e=>Number(e.dataset.v))"
        )
        assert numbers == sorted(numbers) and len(numbers) == len(document["services"])
        assert opened.complaints() == []


def test_it_is_the_same_without_its_script(browser, fabric):
    dummy, document, path = fabric
    with browser.page(path.as_uri(), script=False) as opened:
        assert opened.value("document.querySelectorAll('input').length") == 0
        assert opened.value("document.querySelectorAll('#services tbody tr').length") == len(document["services"])
        assert opened.complaints() == [] and opened.requests() == [path.as_uri()]


def test_the_policy_stops_what_an_escape_would_let_through(browser, tmp_path):
    """The second line of defence, tried: with a script and a picture of a stranger put in by hand."""
    text = page.render(model.build(fabrics.facts({"aws": 1, "gcp": 1})))
    path = tmp_path / "broken.html"
    bad = "<script>window.hacked=1</script><img src='https://192.0.2.1/x.png' onerror='window.hacked=2'>"
    path.write_text(text.replace("</main>", bad + "</main>"), "utf-8")
    with browser.page(path.as_uri()) as opened:
        assert opened.value("window.hacked===undefined")
        assert len([one for one in opened.complaints() if "Content Security Policy" in str(one)]) >= 2


def test_metrics_and_page_tell_the_same(fabric):
    dummy, document, dummy_path = fabric
    lines = prometheus.text(document).splitlines()
    up = sum(int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("multicluster_node_peers_up{"))
    rx = sum(int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("multicluster_node_receive_bytes_total{"))
    assert (up, rx) == (document["summary"]["tunnels_up"], document["summary"]["rx"])
