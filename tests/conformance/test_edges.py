# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The vectors at the edges: every one has an adapter and none fails."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.multicluster.network.tests.conformance import run

EDGES = sorted((pathlib.Path(__file__).resolve().parent / "vectors" / "edges").glob("*.json"))


@pytest.mark.parametrize("path", EDGES, ids=[path.stem for path in EDGES])
def test_no_edge_fails(path: pathlib.Path) -> None:
    groups = run.run_file(path)
    assert sum(counts["total"] for counts in groups.values()) > 0
    wrong = {
        name: counts["messages"].get(name, "unhandled")
        for counts in groups.values()
        for name in counts["failing"] + counts["unhandled_ids"]
    }
    assert wrong == {}
