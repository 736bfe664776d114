# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the fabric was, as lines and blocks."""

from __future__ import annotations

import pathlib
import re
import sys

from ansible_collections.multicluster.network.plugins.module_utils._status import model, page, screen, trend
from hypothesis import given, strategies as st

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "browser"))
import fabrics  # pylint: disable=wrong-import-position

NUMBERS = ("nodes", "nodes_answered", "tunnels", "tunnels_up", "drift", "refused", "failures")
NOON = "2026-11-22T12:00:00Z"


def row(first=NOON, last=NOON, **numbers):
    return {**dict.fromkeys(NUMBERS, 0), "first": first, "last": last, "runs": 1, "verdict": "", "cause": "", **numbers}


ROWS = [
    row(tunnels=8, tunnels_up=8, nodes=4, nodes_answered=4),
    row("2026-11-22T12:10:00Z", "2026-11-22T12:20:00Z", tunnels=8, tunnels_up=4, nodes=4, nodes_answered=3, drift=2),
    row("2026-11-22T12:30:00Z", "2026-11-22T12:40:00Z", tunnels=8, tunnels_up=8, nodes=4, nodes_answered=4),
]


def test_a_line_has_a_step_for_each_row_of_the_history():
    drawn = trend.lines(ROWS)
    points = re.findall(r'points="([^"]+)"', drawn)
    assert points[1] == "0.0,3.0 60.0,18.0 120.0,18.0 180.0,3.0 240.0,3.0"
    assert "tunnels up: 8 of 8 now, at least 4 since 2026-11-22T12:00:00Z" in drawn
    assert "things drifted: 0 now, at most 2" in drawn


def test_blocks_show_the_share_of_tunnels():
    assert trend.blocks(ROWS) == "█▄█"


def test_a_first_run_has_no_trend():
    assert trend.lines(ROWS[:1]) == trend.blocks(ROWS[:1]) == trend.lines([]) == trend.blocks([]) == ""


@given(
    st.lists(
        st.builds(
            row,
            st.sampled_from((NOON, "", "yesterday", "2026-11-22T12:10:00Z")),
            tunnels=st.integers(-3, 10**30),
            tunnels_up=st.integers(-3, 10**30),
            drift=st.integers(-3, 9),
        ),
        max_size=5,
    )
)
def test_no_history_breaks_it(rows):
    for name, whole in (("tunnels_up", "tunnels"), ("drift", None)):
        assert all(0 <= share <= 1 for share in trend.shares(rows, name, whole))
    assert len(trend.blocks(rows)) in (0, len(rows))
    for pair in " ".join(re.findall(r'points="([^"]+)"', trend.lines(rows))).split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= trend.WIDTH and 0 < y < trend.HEIGHT


def test_page_and_screen_have_it():
    given_facts = fabrics.facts({"aws": 2, "gcp": 2})
    document = model.build(given_facts)
    later = fabrics.facts({"aws": 2, "gcp": 2}, ("gcp-node-1",))
    later = model.build(dict(later, previous=document, now=given_facts["now"] + 60))
    assert "trends" not in page.render(document).split("</style>")[1]
    assert '<div class="trends">' in page.render(later)
    assert any(line.startswith("tunnels up at the latest 2 changes: █") for line in screen.lines(later, {}))
