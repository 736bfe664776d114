# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a Service to the route in a real router's kernel, with the reconciler's own process and nodes that are reached over SSH. In order.

What it took is printed. The bound is that of a machine without other work; on any other one this fails and reports that nothing is proven.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

import pytest
import yaml
from bgp_lab import NODES, ROUTER, Router, api, make_service

MODULE = "ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.program"
#: From a Service to the router, in seconds.
BOUND = 5.0
TIMES, BURST = 10, 10
SERVICES = "/api/v1/namespaces/default/services/"
STATE = {}


def play(fabric, *arguments, **variables):
    return fabric.play("load_balancers", *arguments, inventory=STATE["inventory"], variables=variables)


@pytest.fixture(scope="module", autouse=True)
def surroundings(fabric, tmp_path_factory):
    """The router, and an inventory with nodes that are reached over SSH."""
    folder = STATE["inventory"] = tmp_path_factory.mktemp("inventory")
    (folder / "hosts.yml").symlink_to(fabric.state / "inventory-ssh" / "hosts.yml")
    more = {
        "all": {
            "vars": {"multicluster_capabilities": ["load_balancers"]},
            "children": {
                "clusters": {
                    "hosts": {
                        "aws": {"load_balancers_settings": {"load_balancer": "empty://", "pool": ["203.0.113.0/26"]}}
                    }
                },
                "aws_nodes": {
                    "vars": {
                        "bgp_speaker_asn": 65000,
                        "bgp_speaker_install": False,
                        "bgp_speaker_neighbors": [{"address": ROUTER, "asn": 65530}],
                    }
                },
            },
        }
    }
    (folder / "more.yml").write_text(yaml.safe_dump(more))
    router = STATE["router"] = Router(fabric)
    router.start()
    try:
        yield
    finally:
        router.stop()
        end()


def begin():
    """The service's main program, as its unit runs it."""
    folder = STATE["inventory"].parent
    config = {
        "fabric": "default",
        "inventory": str(STATE["inventory"]),
        "capabilities": ["load_balancers"],
        "clusters": [],
        "watch": [],
        "command": [
            str(pathlib.Path(sys.executable).with_name("ansible-playbook")),
            "-i",
            str(STATE["inventory"]),
            "-e",
            "multicluster_lock=fabric",
        ],
    }
    (folder / "reconciler.json").write_text(json.dumps(config))
    STATE["log"] = folder / "reconciler.log"
    with STATE["log"].open("a") as log:
        STATE["process"] = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(folder / "reconciler.json")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(os.environ, ANSIBLE_NOCOLOR="1"),
        )


def end():
    process = STATE.pop("process", None)
    if process is not None and process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)


def said(text):
    """The lines of the service that have this in them."""
    return [line for line in STATE["log"].read_text().splitlines() if line.startswith("part=") and text in line]


def until(what, within=180.0):
    deadline = time.monotonic() + within
    while not what():
        assert time.monotonic() < deadline, STATE["log"].read_text()[-6000:]
        time.sleep(0.05)


def address(number):
    return f"203.0.113.{number}"


def shown(seconds):
    each = " ".join(f"{one:.1f}" for one in seconds)
    return f"median {statistics.median(seconds):.1f} s, most {max(seconds):.1f} s of {len(seconds)}: {each}"


def bare_start():
    """Seconds that Ansible needs to start and do nothing, on this machine, now."""
    begun = time.monotonic()
    program = str(pathlib.Path(sys.executable).with_name("ansible-playbook"))
    subprocess.run([program, "--version"], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    return time.monotonic() - begun


def test_the_service_begins_alongside_speakers_that_run(fabric):
    make_service(fabric, "first")
    play(fabric).ok()
    STATE["router"].wait(address(0), NODES)
    begin()
    # what it finds announced is the playbook's matter, once
    until(lambda: said("part=playbooks event=ended playbook=load_balancers result=0"))
    until(lambda: said("part=speakers event=notified"))


def test_a_service_is_in_the_router_within_the_bound(fabric):
    plays, calls, took, starts = len(said("part=playbooks")), len(said("part=speakers event=notified")), [], []
    for number in range(1, TIMES + 1):
        begun = time.monotonic()
        make_service(fabric, f"web-{number}")
        STATE["router"].wait(address(number), NODES)
        took.append(time.monotonic() - begun)
        starts.append(bare_start())
    fabric.ran("from a Service to both nodes' routes in the router: " + shown(took))
    fabric.ran(
        "node calls: "
        + ", ".join(re.findall(r"seconds=([0-9.]+)", " ".join(said("part=speakers event=notified")[calls:])))
    )
    assert len(said("part=playbooks")) == plays, "no play of its own for any of them"
    machine = f"a bare start of Ansible takes {statistics.median(starts):.1f} s now; load {os.getloadavg()[0]:.1f}"
    fabric.ran(machine)
    assert max(took) <= BOUND, f"{BOUND} s are not proven: {shown(took)}, and {machine}"
    assert not said("event=failed") and not said('event="not notified"')


def test_many_at_once_are_one_node_call_or_two(fabric):
    calls = len(said("part=speakers event=notified"))
    begun = time.monotonic()
    for number in range(TIMES + 1, TIMES + 1 + BURST):
        make_service(fabric, f"web-{number}")
    for number in range(TIMES + 1, TIMES + 1 + BURST):
        STATE["router"].wait(address(number), NODES)
    took = time.monotonic() - begun
    until(lambda: said("part=speakers event=notified")[calls:])
    number = len(said("part=speakers event=notified")) - calls
    fabric.ran(f"{BURST} Services at once: {took:.1f} s until the router has all, {number} node calls")
    assert number <= 1 + BURST / 2


def test_a_node_that_may_not_announce_stops_without_a_play(fabric):
    plays = len(said("part=playbooks"))
    label = "node.kubernetes.io/exclude-from-external-load-balancers"
    for value, desired in (("", {"aws-node-1"}), (None, set(NODES))):
        begun = time.monotonic()
        api(fabric).merge_patch("/api/v1/nodes/aws-node-2", {"metadata": {"labels": {label: value}}}, "test")
        STATE["router"].wait(address(1), desired)
        fabric.ran(f"{'excluded' if value == '' else 'back'} after {time.monotonic() - begun:.1f} s")
    assert len(said("part=playbooks")) == plays


def test_a_service_that_goes_is_withdrawn_and_released(fabric):
    begun = time.monotonic()
    api(fabric).delete(SERVICES + "web-1")
    STATE["router"].wait(address(1), [])
    fabric.ran(f"withdrawn after {time.monotonic() - begun:.1f} s")
    until(
        lambda: (
            address(1) not in api(fabric).get("/api/v1/namespaces/kube-system/configmaps/metal-ccm-static-pool")["data"]
        )
    )


def test_a_node_that_was_away_is_notified_by_the_playbook(fabric):
    """A node call that not every node got asks for the whole playbook, which is repeated."""
    fabric.lab("node-stop", "aws-node-2")
    make_service(fabric, "late")
    STATE["router"].wait(address(1), ["aws-node-1"], 120.0)
    until(lambda: said('event="not notified"'))
    fabric.lab("node-rebuild", "aws-node-2")
    STATE["router"].wait(address(1), NODES, 180.0)


def test_another_life_of_the_service_goes_on(fabric):
    process = STATE["process"]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    make_service(fabric, "meanwhile")
    begin()
    STATE["router"].wait(address(BURST + TIMES + 1), NODES, 180.0)
    end()
    with fabric.witness() as writes:
        play(fabric).ok()
    assert not [write for write in writes if "/leases" not in str(write)], writes
