# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Capabilities in pairs, over two real API servers: they come, a second run writes nothing, a cluster leaves and comes back, they go and nothing stays.

A capability that is alone has nobody to disturb. ``make test`` runs one pair that shares objects, `tests/run pairs_full` all of them. Those of the mesh and of
announcements need nodes: tests/scenario/test_pairs_nodes.py.
"""

from __future__ import annotations

import itertools
import json
import os

import pytest
import yaml
from mcs_clusters import other, pair  # pylint: disable=unused-import
from test_leave import held
from test_limit import CAPABILITIES, play, whole  # pylint: disable=unused-import
from test_mcs_playbooks import COREFILE, corefile, fabric  # pylint: disable=unused-import

__all__ = ["fabric", "other", "pair", "whole"]
#: Both write the Corefile's section, and one of them Services and slices.
QUICK = {("mcs", "coredns_rewrite")}
FULL = pytest.mark.skipif("MCN_FULL" not in os.environ, reason="NOT RUN: this pair, with MCN_FULL=1")
PAIRS = [
    pytest.param(names, marks=pytest.mark.takes_long if names in QUICK else FULL, id="+".join(names))
    for names in itertools.combinations(CAPABILITIES, 2)
]


def state(pair):
    """Everything that two capabilities may write of both clusters, by name, and the Corefiles."""
    return {name: (held(pair, name), corefile(pair, name)) for name in pair.servers}


def unreachable(pair, whole, book, *arguments):
    mark = pair.mark()
    code, shown = play(whole, book, *arguments)
    assert code == 0 and pair.writes(mark) == {"aws": [], "gcp": []}, (book, pair.writes(mark), shown[-4000:])


@pytest.fixture(name="swept")
def sweep(whole):
    """What a test that failed leaves is none of the next one's."""
    yield
    play(whole, "teardown", "-e", json.dumps({"multicluster_capabilities": CAPABILITIES}))


@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize("names", PAIRS)
def test_two_come_change_and_go(pair, whole, names):
    tree = yaml.safe_load((whole / "hosts.yml").read_text())
    tree["all"]["vars"]["multicluster_capabilities"] = list(names)
    for one in tree["all"]["children"]["clusters"]["hosts"].values():
        one["load_balancers_settings"]["announced_by"] = "other"
    (whole / "hosts.yml").write_text(yaml.safe_dump(tree))
    before = state(pair)

    code, shown = play(whole, "site")
    assert code == 0, shown[-5000:]
    come = state(pair)
    assert come != before or names == ("network_sets", "load_balancers"), "they have something to write"
    unreachable(pair, whole, "site")
    assert play(whole, "verify")[0] == 0

    code, shown = play(whole, "leave", "-e", "cluster=aws")
    assert code == 0, shown[-5000:]
    left = state(pair)
    assert left["aws"] == before["aws"] and "cluster.aws" not in left["gcp"][1], left
    assert not [one for one in left["gcp"][0] if one[1].startswith("sys-semaphore/aws-")], left["gcp"]
    unreachable(pair, whole, "leave", "-e", "cluster=aws")

    assert play(whole, "site")[0] == 0
    assert state(pair) == come, "it comes back to the same"
    unreachable(pair, whole, "site")
    code, shown = play(whole, "teardown")
    assert code == 0, shown[-5000:]
    assert state(pair) == before and corefile(pair, "gcp") == COREFILE
