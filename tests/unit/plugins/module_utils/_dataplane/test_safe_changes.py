# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which changes of a rotation of keys need no confirmation, and which ones do."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.safe_changes import (
    Tunnels,
    all_safe,
    sending,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Change, Plan
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_address
from ansible_collections.multicluster.network.plugins.module_utils._values.generations import HOST_ADDRESS

FOLDER = "/var/lib/semaphore-wireguard"
STATE = "/var/lib/multicluster-network/default/dataplane.json"
DEVICE, BYPASS = "wireguard.gcp", "wg-rotate.gcp"
LINK = {"mtu": 1420, "addresses": [], "public_key": "k"}
ROUTE = {"dst": "10.4.7.0/24", "metric": 0, "dev": DEVICE}


def tunnels(*routed: str, connected: str = "198.51.100.7") -> Tunnels:
    files = {DEVICE: f"{FOLDER}/{DEVICE}.key", BYPASS: f"{FOLDER}/{BYPASS}.key"}
    return Tunnels(files, set(routed), [STATE], {parse_address(connected)})


def of(action: str, *arguments: t.Any) -> Change:
    plan = Plan()
    getattr(plan, action)(*arguments)
    return plan.changes[0]


def link(device: str, **after: t.Any) -> Change:
    return of("update", "link", device, LINK, dict(LINK, **after))


def moved(before: str, after: str, dst: str = "10.4.7.0/24") -> Change:
    rows = [dict(ROUTE, dev=name, dst=dst) for name in (before, after)]
    return of("update", "route", f"{dst} dev {after}", *rows)


PREPARED = [
    of("create", "link", BYPASS, LINK),
    of("create", "key", f"{FOLDER}/{BYPASS}.key", {}),
    of("create", "peer", f"{BYPASS} key", {}),
    of("create", "secret", f"{FOLDER}/{BYPASS}.{'0' * 20}.psk", {}),
    link(DEVICE, addresses=[HOST_ADDRESS]),
    of("update", "setting", f"net/ipv4/conf/{BYPASS}/rp_filter", {"value": "1"}, {"value": "2"}),
    of("update", "file", STATE, {}, {}),
]


def test_a_bypass_device_comes_and_goes_without_a_confirmation() -> None:
    assert all_safe(PREPARED, tunnels(DEVICE))
    gone = [of("delete", "link", BYPASS, LINK), of("delete", "key", f"{FOLDER}/{BYPASS}.key", {})]
    assert all_safe(gone, tunnels(DEVICE))
    assert not all_safe(gone, tunnels(DEVICE, BYPASS))


def test_a_key_changes_without_a_confirmation_where_nothing_is_sent_by_its_device() -> None:
    renewed = [
        of("update", "key", f"{FOLDER}/{DEVICE}.key", {"public_key": "k"}, {"public_key": "l"}),
        link(DEVICE, public_key="l"),
        of("delete", "peer", f"{DEVICE} old", {}),
        of("create", "peer", f"{DEVICE} new", {}),
    ]
    assert all_safe(renewed, tunnels(BYPASS))
    for change in renewed:
        assert not all_safe([change], tunnels(DEVICE, BYPASS)), change


def test_a_route_moves_without_a_confirmation_where_no_connection_goes_there() -> None:
    assert all_safe([moved(DEVICE, BYPASS), moved(BYPASS, DEVICE)], tunnels(DEVICE, BYPASS))
    assert not all_safe([moved(DEVICE, BYPASS)], tunnels(DEVICE, connected="10.4.7.9"))
    assert not all_safe([moved(DEVICE, BYPASS, "2001:db8::/64")], tunnels(DEVICE, connected="2001:db8::9"))
    assert not all_safe([moved(DEVICE, "wg-rotate.aws")], tunnels(DEVICE))
    assert not all_safe([moved("eth0", DEVICE)], tunnels(DEVICE))
    idle = of("update", "peer", f"{BYPASS} key", {"persistent_keepalive": 25}, {"persistent_keepalive": 0})
    assert all_safe([idle], tunnels(DEVICE, BYPASS))


def test_a_device_sends_unless_all_ranges_of_its_peers_are_bypassed() -> None:
    ranges = {DEVICE: ["10.4.7.0/24", "10.4.8.0/24"], BYPASS: ["10.4.7.0/24", "10.4.8.0/24"]}
    whole = {DEVICE: ["10.4.0.0/16"]}
    assert sending([whole], ranges) == {DEVICE}
    assert sending([dict(whole, **{BYPASS: ["10.4.7.0/24"]})], ranges) == {DEVICE, BYPASS}
    aside = dict(whole, **{BYPASS: ["10.4.7.0/24", "10.4.8.0/24"]})
    assert sending([aside, aside], ranges) == {BYPASS}
    assert sending([aside, whole], ranges) == {DEVICE, BYPASS}
    assert sending([{}, {"eth0": ["0.0.0.0/0"]}], ranges) == {"eth0"}


@pytest.mark.parametrize(
    "change",
    [
        link(DEVICE, mtu=1280),
        link(DEVICE, addresses=["10.0.0.1/32"]),
        of("create", "link", "wireguard.aws", LINK),
        of("create", "peer", "wireguard.aws key", {}),
        of("update", "peer", f"{DEVICE} key", {"endpoint": None}, {"endpoint": "10.0.0.1:51821"}),
        of("update", "key", f"{FOLDER}/wireguard.aws.key", {}, {}),
        of("delete", "secret", "/var/lib/multicluster-network/default/kubespan.secret", {}),
        of("create", "file", STATE, {}),
        of("update", "file", "/etc/systemd/system/multicluster-network-default.service", {}, {}),
        of("create", "table", "inet mesh", {}),
        of("update", "setting", "net/ipv4/ip_forward", {}, {}),
        of("update", "setting", "net/ipv4/conf/all/rp_filter", {}, {}),
    ],
    ids=lambda change: f"{change.action} {change.kind}",
)
def test_whatever_else_changes_is_confirmed(change: Change) -> None:
    assert not all_safe([*PREPARED, change], tunnels(DEVICE))
