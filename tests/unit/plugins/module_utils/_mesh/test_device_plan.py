# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The owner of a link, what to set, in which order (semaphore 3.2, 3.6)."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.constants import is_our_alias
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.device_plan import plan_device
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.device_spec import Device, parse_device
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import EMPTY, Dump, LivePeer
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Pending
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

OWN, OTHER = (base64.b64encode(bytes([number]) * 32).decode() for number in (3, 4))
LINK = {
    "index": 4,
    "kind": "wireguard",
    "implementation": "kernel",
    "mtu": 1420,
    "txqueuelen": 1000,
    "alias": "multicluster.network",
    "up": True,
    "addresses": [],
}
DUMP = Dump(51820, 0, OWN, {})
KEY = {"state": "key", "public_key": OWN, "mode": "0600", "message": None}
DESIRED = {
    "name": "wireguard.gcp",
    "listen_port": 51820,
    "private_key_file": "/k",
    "generate_key": True,
    "flush_ipv4": True,
}


def actual(*found, dump=None, key=None):
    link = found[0] if found else LINK
    dump, key = dump or DUMP, key or KEY
    if link is None:
        dump = EMPTY
    return {"link": link, "wireguard": dump, "key": key, "resolved": {}, "preshared": {}, "now": 1e9, "stats": {}}


def plan(found, **change):
    return plan_device(parse_device(dict(DESIRED, **change)), found)


def test_nothing_to_do():
    planned = plan(actual())
    assert not planned.changed and planned.unchanged == 1
    assert not any(planned.work[name] for name in ("create", "link", "configure", "add_addresses", "remove_addresses"))
    assert planned.work["up"] is None


def test_fresh_host():
    planned = plan(actual(None, key=dict(KEY, state="absent", public_key=None, mode=None)))
    assert [(c.action, c.kind) for c in planned.changes] == [("create", "key"), ("create", "link")]
    assert planned.work["make_key"] and planned.work["create"] and planned.work["up"]
    assert planned.work["configure"] == {"listen_port": 51820, "private_key": True}
    assert isinstance(planned.device["public_key"], Pending)


def test_a_name_that_resolves_into_the_overlay_is_no_endpoint():
    """Threat T5: whoever answers for the name would lead the tunnel through itself."""
    peer = {
        "public_key": OTHER,
        "endpoint": "gw.example:51820",
        "allowed_ips": ["10.4.7.0/24"],
        "persistent_keepalive": 25,
    }
    found = dict(actual(), resolved={"gw.example": ["10.4.7.9"]})
    planned = plan(found, peers=[peer], overlay=["10.4.0.0/16"])
    assert [refusal.reason for refusal in planned.refused] == ["bad_endpoint"]
    found["resolved"] = {"gw.example": ["10.4.7.9", "192.0.2.7"]}
    planned = plan(found, peers=[peer], overlay=["10.4.0.0/16"])
    assert not planned.refused and planned.changes[-1].after["endpoint"] == "192.0.2.7:51820"


def test_a_key_that_another_part_of_the_plan_makes():
    planned = plan(actual(None, key=dict(KEY, state="absent", public_key=None, mode=None)), generate_key=False)
    assert [(c.action, c.kind) for c in planned.changes] == [("create", "link")]
    assert "make_key" not in planned.work and isinstance(planned.device["public_key"], Pending)


def test_addresses_are_flushed_and_ipv6_left_alone():
    planned = plan(actual(dict(LINK, addresses=["10.0.0.1/24", "fd00::1/64"])))
    assert planned.work["remove_addresses"] == ["10.0.0.1/24"]
    assert planned.device["addresses"] == ["fd00::1/64"]
    exact = plan(actual(dict(LINK, addresses=["10.0.0.1/24", "fd00::1/64"])), addresses=["10.0.0.2/24"])
    assert exact.work["add_addresses"] == ["10.0.0.2/24"]
    assert exact.work["remove_addresses"] == ["10.0.0.1/24", "fd00::1/64"]


@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize(
    "link, reason",
    [
        (dict(LINK, alias=None), "adoptable"),
        (dict(LINK, alias="multicluster.networks"), "adoptable"),
        (dict(LINK, alias="multicluster.network/other"), "adoptable"),
        (dict(LINK, kind="veth", implementation=None), "not_ours"),
        (dict(LINK, kind="", implementation=None, alias=None), "not_ours"),
    ],
)
def test_unowned_links_are_left_alone(link, reason, state):
    planned = plan(actual(link), state=state, alias="multicluster.network/east")
    assert not planned.changed and planned.work == {} and [r.reason for r in planned.refused] == [reason]
    adopted = plan(actual(link), state=state, alias="multicluster.network/east", adopt=True)
    assert adopted.changed == (reason == "adoptable")


def test_a_key_file_that_holds_no_key_stops_the_device():
    planned = plan(actual(None, key=dict(KEY, state="unusable", message="it is a symbolic link")))
    assert planned.work == {} and [r.reason for r in planned.refused] == ["bad_private_key"]


def test_absent_shows_peers_before_the_link_and_a_missing_device_is_fine():
    planned = plan(actual(dump=DUMP._replace(peers={OTHER: LivePeer()})), state="absent")
    assert [(c.action, c.kind) for c in planned.changes] == [("delete", "peer"), ("delete", "link")]
    assert planned.work == {"delete": True} and planned.device is None and planned.peers == []
    assert not plan(actual(None), state="absent").changed


def test_own_key_among_the_peers():
    planned = plan(actual(), peers=[{"public_key": OWN}, {"public_key": OTHER}])
    assert [r.reason for r in planned.refused] == ["own_key"]
    assert [step.public_key for step in planned.steps] == [OTHER]


def test_unmanaged_peers_stay():
    assert plan(actual(dump=DUMP._replace(peers={OTHER: LivePeer()})), peers=None).steps == []


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"name": "wireguard.toolong"}, "device_name_too_long"),
        ({"mtu": 575}, "mtu_out_of_range"),
        ({"listen_port": 0}, "port_out_of_range"),
        ({"fwmark": 2**32}, "bad_fwmark"),
        ({"alias": "mine"}, "bad_alias"),
        ({"alias": "multicluster.network " + "x" * 255}, "bad_alias"),
        ({"addresses": ["10.0.0.1"]}, "bad_address"),
        ({"private_key_file": "relative"}, "bad_key_file"),
    ],
)
def test_a_device_that_is_not_understood(change, reason):
    with pytest.raises(ValueRefused) as error:
        parse_device(dict(DESIRED, **change))
    assert error.value.reason == reason


def test_what_nobody_sets_is_the_default():
    assert parse_device({"name": "wg0"}) == Device("wg0")


def test_marks():
    assert is_our_alias("multicluster.network") and is_our_alias("multicluster.network/a b", "multicluster.network/a")
    assert is_our_alias("multicluster.network", "multicluster.network/a")
    assert not is_our_alias("multicluster.network/b", "multicluster.network/a")
    assert not is_our_alias(None) and not is_our_alias("multicluster.networker")
