# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drawing of what would be lost, in a real browser: what is lost is red and the rest is green, no complaint and no request."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._trace import page
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach import answers, what_if
from chromium import Chromium

SIZES = {"two": {"aws": 2, "gcp": 2}, "five-hundred": {"aws": 200, "gcp": 150, "azure": 100, "metal": 50}}
WINDOWS = {"desktop": (1280, 900), "phone": (390, 844)}
#: Computed colours of everything that the drawing has, of the SVG that is shown.
COLOURS = """(() => {
  const title = one => (one.querySelector("title") || one.closest("g").querySelector("title")).textContent;
  const shown = [...document.querySelectorAll("svg")].filter(svg => getComputedStyle(svg).display !== "none");
  const all = (what, style) => shown.flatMap(svg => [...svg.querySelectorAll(what)].map(one => [title(one), getComputedStyle(one)[style]]));
  return JSON.stringify({dots: all(".dot", "fill"), lines: all(".link path", "stroke")});
})()"""


def mesh(sizes):
    """A plan in which everybody reaches everybody."""
    names = sorted(sizes)
    nodes = {
        f"{name}-{number}": {
            "cluster": name,
            "node_name": f"n{number}",
            "pod_cidrs": [f"10.{10 + place}.{number}.0/24"],
        }
        for place, name in enumerate(names)
        for number in range(sizes[name])
    }
    peers = {
        name: [
            {"node": row["node_name"], "public_key": host, "endpoint": "1.2.3.4:5", "allowed_ips": row["pod_cidrs"]}
            for host, row in nodes.items()
            if row["cluster"] == name
        ]
        for name in names
    }
    clusters = {
        local: {
            "remotes": {
                remote: {
                    "device": "wireguard." + remote,
                    "routes": [{"dst": f"10.{10 + place}.0.0/16"}],
                    "peers": peers[remote],
                    "complete": True,
                }
                for place, remote in enumerate(names)
                if remote != local
            }
        }
        for local in names
    }
    return {"nodes": nodes, "clusters": clusters}


@pytest.fixture(scope="module")
def browser():
    one = Chromium()
    yield one
    one.close()


@pytest.mark.parametrize("window", sorted(WINDOWS))
@pytest.mark.parametrize("size", sorted(SIZES))
def test_what_would_be_lost_is_red(browser, tmp_path, size, window):
    given = mesh(SIZES[size])
    assert len(MeshPlan.from_json(given).nodes) == sum(SIZES[size].values())
    rows = what_if.parse(["away=aws-0", "key=gcp-1"])
    trace = answers.answered({"flows": [], "findings": []}, {}, rows, {"mesh": given})
    document = {
        "fabric": "demo <b>",
        "generated": "2026-11-28T12:00:00Z",
        "trace": trace,
        "verdict": "nothing to follow",
        "findings": [],
        "hops": [],
    }
    path = tmp_path / "lost.html"
    path.write_text(page.render(document), "utf-8")
    with browser.page(path.as_uri(), *WINDOWS[window]) as tab:
        found = json.loads(tab.value(COLOURS))
        if os.environ.get("MCN_PICTURES"):
            pathlib.Path(os.environ["MCN_PICTURES"]).mkdir(parents=True, exist_ok=True)
            tab.picture(f"{os.environ['MCN_PICTURES']}/lost-{size}-{window}.png")
        assert tab.complaints() == [] and tab.requests() == [path.as_uri()]
        assert tab.value("document.documentElement.scrollWidth") == WINDOWS[window][0]
    reds = {colour for title, colour in found["dots"] if title.startswith(("aws-0:", "gcp-1:"))}
    assert len(reds) == 1
    others = {colour for title, colour in found["dots"] if ": keeps" in title}
    assert not others & reds
    lines = {}
    for title, colour in found["lines"]:
        lines.setdefault(title, set()).add(colour)
    lost = {title for title, colours in lines.items() if reds <= colours}
    assert lost == {title for title in lines if " lost" in title} and lost
