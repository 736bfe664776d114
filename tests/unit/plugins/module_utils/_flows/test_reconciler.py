# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which playbooks run, in which order, and again after a failure."""

from __future__ import annotations

import json
import pathlib
import sys
import threading

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler import playbooks, program
from ansible_collections.multicluster.network.plugins.module_utils._io.commands import run_playbook

REPO = pathlib.Path(__file__).resolve().parents[5]
WATCH = [
    {"resource": "nodes", "playbooks": ["mesh"]},
    {"resource": "services", "playbooks": ["service_mirror", "load_balancers"]},
    {"resource": "endpointslices", "playbooks": ["service_mirror"]},
]


def taken(pending, now):
    found = []
    while True:
        book = pending.take(now)
        if book is None:
            return found
        found.append(book)


def test_changes_choose_playbooks_in_the_order_of_the_configuration():
    pending = playbooks.Pending(WATCH)
    assert taken(pending, 0) == [] and pending.wait(0, 5) == 5
    pending.add([{"kind": "Endpoints"}, {"kind": "Node"}, {"kind": "Service"}, {"kind": "EndpointSlice"}], 0)
    assert pending.wait(0, 5) == 0
    assert taken(pending, 0) == ["mesh", "service_mirror", "load_balancers"]
    assert taken(pending, 99) == []


@pytest.mark.parametrize(
    "capability, books", [("load_balancers", ["mesh", "load_balancers"]), ("service_mirror", ["mesh"])]
)
def test_a_new_node_runs_bgp_right_after_its_mesh(capability, books):
    """The rows that the role ships, as it hands them over."""
    rows = yaml.safe_load((REPO / "roles" / "reconciler" / "defaults" / "main.yml").read_text("utf-8"))[
        "reconciler_watch"
    ]
    pending = playbooks.Pending([row for row in rows if row.get("capability", capability) == capability])
    pending.add([{"kind": "Node"}], 0)
    assert taken(pending, 0) == books


def test_a_failed_run_comes_again_later_each_time_and_at_once_after_a_change():
    pending = playbooks.Pending(WATCH, first=5, longest=60)
    pending.add([{"kind": "Node"}], 0)
    now = 0
    for pause in (5, 10, 20, 40, 60, 60):
        assert taken(pending, now) == ["mesh"]
        pending.ended("mesh", False, now)
        assert taken(pending, now + pause - 1) == [] and pending.wait(now, 999) == pause
        now += pause
    pending.add([{"kind": "Node"}], now - 1)
    assert taken(pending, now - 1) == ["mesh"]
    pending.ended("mesh", True, now)
    assert taken(pending, now + 999) == []


def test_a_playbook_is_ended_with_its_workers(tmp_path):
    stop = threading.Event()
    assert run_playbook([sys.executable, "-c", "raise SystemExit(3)"], 60, stop) == 3
    assert run_playbook([str(tmp_path / "nothing")], 60, stop) == 127
    assert run_playbook(["sleep", "60"], 0.5, stop) == 124
    stop.set()
    assert run_playbook(["sleep", "60"], 60, stop) == 124


@pytest.mark.parametrize(
    "text, expected", [("{", "error"), (json.dumps({"clusters": [], "watch": WATCH, "command": []}), "no clusters")]
)
def test_a_configuration_that_is_wrong_is_reported(tmp_path, capsys, text, expected):
    (tmp_path / "config").write_text(text)
    assert program.main([str(tmp_path / "config")]) == 1
    assert expected in capsys.readouterr().out
    assert program.main([]) == 2
