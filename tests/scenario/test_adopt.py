# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook adopt over nodes that semaphore-wireguard joined: looked at, planned, taken, run again, given back. No tunnel notices.

The program does not run here; devices, keys, routes and annotations are made by hand as it makes them (semaphore 3). tests/originals has the program itself.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "originals"))

from wireguard_lab import KEYS, NAME, PORT, WireguardFabric, without_leases  # pylint: disable=wrong-import-position

US, DOMAIN = "multicluster.network/default", ".wireguard.semaphore.uw.io/"


class JoinedFabric(WireguardFabric):
    """What upstream's agents leave on nodes and in their clusters."""

    def join(self):
        objects = {obj["metadata"]["name"]: obj for items in self.node_objects().values() for obj in items}
        addresses = {
            name: next(row["address"] for row in obj["status"]["addresses"] if row["type"] == "InternalIP")
            for name, obj in objects.items()
        }
        keys = {node: self._device(node) for node in self.nodes}
        for node in self.nodes:
            remote = self.remote_of(self.cluster_of(node))
            for other in self.nodes_of(remote):
                self.sh(
                    node,
                    "wg",
                    "set",
                    self.device_of(node),
                    "peer",
                    keys[other],
                    "endpoint",
                    f"{addresses[other]}:{PORT}",
                    "persistent-keepalive",
                    "25",
                    "allowed-ips",
                    objects[other]["spec"]["podCIDR"],
                )
            notes = {"pubKey": keys[node], "endpoint": f"{addresses[node]}:{PORT}"}
            words = [f"{remote}{DOMAIN}{name}={value}" for name, value in notes.items()]
            self.kubectl(self.cluster_of(node), "annotate", "node", node, "--field-manager=" + NAME, *words)

    def _device(self, node):
        """Device, key, port and route of a node; its public key."""
        remote = self.remote_of(self.cluster_of(node))
        device, file = self.device_of(node), f"{KEYS}/{self.device_of(node)}.key"
        subnet = self.tree["clusters"]["hosts"][remote]["pod_cidrs"][0]
        self.sh(
            node,
            "sh",
            "-c",
            " && ".join(
                (
                    "mkdir -p " + KEYS,
                    f"(umask 077; wg genkey > {file})",
                    f"(ip link add {device} type wireguard 2>/dev/null || wireguard-go {device} >/dev/null 2>&1)",
                    f"ip link set {device} mtu 1420 txqueuelen 1000",
                    f"wg set {device} private-key {file} listen-port {PORT}",
                    f"ip link set {device} up",
                    f"ip route replace {subnet} dev {device} scope link",
                )
            ),
        )
        return self.sh(node, "wg", "show", device, "public-key").strip()


@pytest.fixture(scope="module")
def fabric():
    made = JoinedFabric(os.environ.get("MCN_LAB_PREFIX", "sc-") + "adopt", None)
    made.lab("down")
    made.lab("up", "--topology", made.topology)
    made.ran("lab up")
    try:
        made.join()
        made.all_reach()
        yield made
    finally:
        made.lab("down")


def adopt(fabric, step, *arguments):
    return fabric.play("adopt", "-e", "adopt_step=" + step, *arguments)


def same_wire(before, after):
    """All that a peer can notice; not our mark, and routes but for who made them."""
    for node, (devices, mtu, queue, dummy, up, routes) in before.items():
        now = after[node]
        assert (now[0], now[1], now[2], now[4], now[5].replace(" proto 109", "")) == (
            devices,
            mtu,
            queue,
            up,
            routes.replace(" proto 109", ""),
        ), node


def test_looking_and_planning_write_nothing(fabric):
    before, announced = fabric.wire(), fabric.announced()
    with fabric.witness() as writes:
        looked = adopt(fabric, "look").ok()
        refused = adopt(fabric, "plan")
        planned = adopt(fabric, "plan", "--check", "--diff").ok()
    assert "2 Node of " + NAME in looked.out
    assert refused.rc != 0 and "runs in check mode only" in " ".join(refused.out.split())
    assert without_leases(writes) == [] and fabric.wire() == before and fabric.announced() == announced
    assert (
        "wireguard.gcp" in planned.out and "+peer" not in planned.out and "-peer" not in planned.out and planned.changed
    )
    assert all(names == {NAME} for names in fabric.on_record().values())


def test_taken_over_and_no_echo_is_lost(fabric):
    before, announced = fabric.wire(), fabric.announced()
    with fabric.echoes() as results, fabric.witness() as writes:
        assert "all green" in adopt(fabric, "take").ok().out
    assert results and all(sent > 100 for dummy, sent, lost in results) and [row for row in results if row[2]] == []
    same_wire(before, fabric.wire())
    assert fabric.announced() == announced and not [line for line in writes if " wg: " in line]
    assert all(names == {US} for names in fabric.on_record().values()), fabric.on_record()
    assert all(rows[3] == US for rows in fabric.wire().values())


def test_a_second_run_writes_nothing(fabric):
    with fabric.witness() as writes:
        run = adopt(fabric, "take").ok()
    assert not run.changed and without_leases(writes) == []
    assert "still on record" not in run.out, "nothing of upstream's is left on Nodes"


def test_given_back_as_it_was(fabric):
    before, announced = fabric.wire(), fabric.announced()
    fabric.play("semaphore.release").ok()
    same_wire(before, fabric.wire())
    assert fabric.announced() == announced and not any(US in names for names in fabric.on_record().values())
    assert all(rows[3] is None and "proto 109" not in rows[5] for rows in fabric.wire().values())
    # and without a variable of adopt it stays another owner's
    before = fabric.wire()
    with fabric.witness() as writes:
        run = fabric.play("mesh")
    assert "adoptable" in run.out and fabric.wire() == before and without_leases(writes) == []
    assert json.dumps(sorted(map(sorted, fabric.on_record().values()))).count(US) == 0
