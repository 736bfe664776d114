# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Units of systemd: a table of what a host may have and what is done then."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.unit_plan import (
    FoundUnit,
    parse_units,
    plan_units,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

SERVICE, TIMER = "[Service]\nExecStart=/bin/true\n", "[Timer]\nOnActiveSec=1\n\n[Install]\nRequiredBy=timers.target\n"
UNITS = [{"name": "x.service", "content": SERVICE}, {"name": "x.timer", "content": TIMER}]
IDLE = FoundUnit(SERVICE, "0644", False, False, True)
RUNS = FoundUnit(TIMER, "0644", True, True, True)


def planned(service, timer, **more):
    """The plan's work, and what it shows as changed."""
    plan = plan_units(parse_units({"units": UNITS, **more}), {"x.service": service, "x.timer": timer})
    work = {name: getattr(plan, name) for name in ("enable", "start", "restart", "remove") if getattr(plan, name)}
    if plan.write:
        work["write"] = [path.rsplit("/", 1)[1] for path in plan.write]
    return work, [(change.action, change.kind, change.id) for change in plan.changes]


@pytest.mark.parametrize(
    "service, timer, work",
    [
        (None, None, {"write": ["x.service", "x.timer"], "enable": ["x.timer"], "start": ["x.timer"]}),
        (IDLE, RUNS, {}),
        (IDLE, RUNS._replace(enabled=False), {"enable": ["x.timer"]}),
        (IDLE, RUNS._replace(active=False), {"start": ["x.timer"]}),
        # the run that wrote it did not come to restart it
        (IDLE, RUNS._replace(current=False), {"restart": ["x.timer"]}),
        (IDLE, RUNS._replace(text=TIMER + "#\n"), {"write": ["x.timer"], "restart": ["x.timer"]}),
        (IDLE, RUNS._replace(mode="0666"), {"write": ["x.timer"], "restart": ["x.timer"]}),
        # what a timer starts is only read again
        (IDLE._replace(text=SERVICE + "#\n"), RUNS, {"write": ["x.service"]}),
    ],
)
def test_what_is_done(service, timer, work):
    found, changes = planned(service, timer)
    assert found == work and bool(changes) == bool(work)


def test_without_systemd_as_in_the_build_of_an_image():
    still = {"active": None, "current": None}
    assert planned(IDLE._replace(**still), RUNS._replace(**still))[1] == []
    assert planned(IDLE._replace(**still), RUNS._replace(enabled=False, **still))[1] == [("update", "unit", "x.timer")]


def test_a_service_that_systemd_has_not_read_again_is_a_change_without_a_restart():
    assert planned(IDLE._replace(current=False), RUNS) == ({}, [("update", "unit", "x.service")])


def test_what_leaves():
    gone = {"state": "absent"}
    work, changes = planned(IDLE, RUNS, **gone)
    assert work == {"remove": ["x.service", "x.timer"]}
    assert [(action, kind) for action, kind, _id in changes] == [("delete", k) for k in ("file", "file", "unit")]
    assert planned(None, None, **gone) == ({}, [])


def test_further_units_leave_while_these_stay():
    found = {"x.service": IDLE, "x.timer": RUNS, "old.timer": RUNS}
    plan = plan_units(parse_units({"units": UNITS, "remove": ["old.timer"]}), found)
    assert plan.remove == ["old.timer"] and not plan.write and not plan.start


@pytest.mark.parametrize(
    "given, message",
    [
        ({"units": [{"name": "../x.service", "content": "a"}]}, "no name of a service or timer"),
        ({"units": [{"name": "x.mount", "content": "a"}]}, "no name of a service or timer"),
        ({"units": [{"name": "x.timer"}]}, "has no content"),
        ({"units": [UNITS[0], UNITS[0]]}, "listed twice"),
        ({"units": UNITS, "remove": ["x.timer"]}, "in units and in remove"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(ValueRefused, match=message):
        parse_units(given)
