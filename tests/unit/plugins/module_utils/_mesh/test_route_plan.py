# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Owned sets of routes: owned ones are changed, others never."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.route_plan import (
    parse_routes,
    plan_routes,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def live(dst, dev="wg", protocol=109, **more):
    version = 6 if ":" in dst else 4
    route = {"dst": dst, "type": "unicast", "dev": dev, "via": None, "src": None, "metric": 1024 if version == 6 else 0}
    route.update(scope="global" if version == 6 else "link", protocol=protocol)
    return dict(route, **more)


def plan(routes, actual, links=("wg", "wg2"), need=False, **more):
    desired = parse_routes(dict({"devices": ["wg", "wg2"], "routes": routes}, **more))
    return plan_routes(desired, {"routes": list(actual), "links": list(links)}, need)


DESIRED = {"dst": "10.4.0.0/16", "dev": "wg"}


def shown(planned):
    return [(change.action, change.id) for change in planned.changes]


def test_create_keep_and_purge_in_that_order():
    planned = plan([DESIRED, {"dst": "fd44::/48", "dev": "wg"}], [live("fd44::/48"), live("10.9.0.0/16")])
    assert shown(planned) == [
        ("create", "10.4.0.0/16 dev wg table main"),
        ("delete", "10.9.0.0/16 dev wg table main"),
    ]
    assert planned.unchanged == 1
    assert plan([], [live("10.9.0.0/16")], purge=False).changes == []


@pytest.mark.parametrize(
    "unowned, reason",
    [
        (live("10.4.0.0/16", protocol=3), "adoptable"),
        (live("10.4.0.0/16", protocol=4, dev="eth0"), "not_ours"),
        (live("10.4.0.0/16", dev="eth0"), "not_ours"),
        (live("10.4.0.0/16", dev=None, via="several", protocol=3), "not_ours"),
    ],
)
def test_an_unowned_route_is_refused_unless_adopted(unowned, reason):
    refused = plan([DESIRED], [unowned])
    assert refused.changes == [] and [r.reason for r in refused.refused] == [reason]
    adopted = plan([DESIRED], [unowned], adopt=True)
    assert shown(adopted) == [("update", "10.4.0.0/16 dev wg table main")] and not adopted.refused


def test_unowned_routes_are_never_purged():
    actual = [
        live("10.9.0.0/16", protocol=3),
        live("10.8.0.0/16", dev="eth0"),
        live("10.4.0.0/16", metric=50, protocol=3),
    ]
    assert plan([], actual, state="absent").changes == []
    assert shown(plan([DESIRED], actual)) == [("create", "10.4.0.0/16 dev wg table main")]


def test_change_in_place_and_change_of_metric():
    assert shown(plan([dict(DESIRED, dev="wg2")], [live("10.4.0.0/16")])) == [
        ("update", "10.4.0.0/16 dev wg2 table main")
    ]
    assert shown(plan([dict(DESIRED, metric=7)], [live("10.4.0.0/16")])) == [
        ("create", "10.4.0.0/16 dev wg table main metric 7"),
        ("delete", "10.4.0.0/16 dev wg table main"),
    ]


def test_gateways_come_after_the_routes_that_lead_to_them():
    planned = plan([{"dst": "10.1.0.0/16", "dev": "wg", "via": "10.9.0.1"}, {"dst": "10.9.0.0/24", "dev": "wg"}], [])
    assert [route["dst"] for route in planned.replacements] == ["10.9.0.0/24", "10.1.0.0/16"]


@pytest.mark.parametrize(
    "route, reason",
    [
        ({"dst": "10.4.0.0", "dev": "wg"}, "bad_route"),
        ({"dst": "10.4.0.0/16", "dev": "eth0"}, "bad_route"),
        ({"dst": "10.4.0.0/16", "dev": "wg", "via": "fd00::1"}, "bad_route"),
        ({"dst": "10.4.0.0/16", "type": "unreachable"}, "bad_route"),
        ({"dst": "10.4.0.0/16", "dev": None}, "device_name_invalid_char"),
        ({"dst": "10.4.0.0/16", "dev": "wg2"}, "device_missing"),
        ({"dst": "10.4.0.0/16", "dev": "wg", "scope": "here"}, "bad_route"),
    ],
)
def test_one_bad_route_is_refused_and_the_other_made(route, reason):
    planned = plan([route, {"dst": "10.5.0.0/16", "dev": "wg"}], [], links=["wg"], need=True)
    assert [r.reason for r in planned.refused] == [reason]
    assert shown(planned) == [("create", "10.5.0.0/16 dev wg table main")]


def test_two_routes_of_one_destination_and_metric():
    planned = plan([DESIRED, dict(DESIRED, dev="wg2"), DESIRED], [])
    assert [r.reason for r in planned.refused] == ["claimed_twice"] and len(planned.changes) == 1


def test_a_table_of_ones_own():
    routes = [{"dst": "0.0.0.0/0", "dev": "wg"}, {"dst": "::/0", "type": "unreachable", "metric": 9}]
    planned = plan(routes, [live("10.9.0.0/16", dev="eth0")], devices=None, table=180)
    assert shown(planned) == [
        ("create", "0.0.0.0/0 dev wg table 180"),
        ("create", "unreachable ::/0 table 180 metric 9"),
        ("delete", "10.9.0.0/16 dev eth0 table 180"),
    ]


@pytest.mark.parametrize(
    "desired, reason",
    [
        ({"devices": None}, "devices_missing"),
        ({"devices": None, "table": 254}, "devices_missing"),
        ({"table": 255}, "bad_table"),
        ({"table": "local"}, "bad_table"),
        ({"protocol": 2}, "bad_protocol"),
        ({"devices": ["a b"]}, "device_name_has_space"),
    ],
)
def test_a_set_without_bounds_is_refused(desired, reason):
    with pytest.raises(ValueRefused) as error:
        parse_routes(dict({"devices": ["wg"]}, **desired))
    assert error.value.reason == reason
