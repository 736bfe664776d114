# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SIGKILL at random points, then a normal run: everything converges, nothing is lost, nothing is left over.

MCN_KILLS sets how many (4, one of each victim, by itself; 60 in make test-all); MCN_SEED repeats a run.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest

KILLS = int(os.environ.get("MCN_KILLS", "4"))
SEED = int(os.environ.get("MCN_SEED", "20"))
VICTIMS = ("ansible-playbook", "module", "api", "etcd")
STATE = {}


def modules_of(fabric):
    """Pids of modules that run inside this lab's nodes, and in no other."""
    spaces = set()
    for node in fabric.nodes:
        leader = (fabric.state / "nodes" / node / "leader").read_text().split()[0]
        spaces.add(os.readlink("/proc/{0}/ns/mnt".format(leader)))
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"AnsiballZ_node_" in (entry / "cmdline").read_bytes() and os.readlink(entry / "ns" / "mnt") in spaces:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def play_and_kill(fabric, book, victim, delay, generator):
    """Start a playbook, end something with SIGKILL after a delay, wait for what is left; returns what was killed."""
    process = subprocess.Popen(
        ["ansible-playbook", "-i", str(fabric.inventory), "multicluster.network." + book],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, start_new_session=True,
    )
    time.sleep(delay)
    killed = 0
    if victim == "ansible-playbook":
        os.killpg(process.pid, signal.SIGKILL)
        killed = 1
    elif victim == "module":
        deadline = time.monotonic() + 20
        while not killed and process.poll() is None and time.monotonic() < deadline:
            for pid in modules_of(fabric):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
            time.sleep(0.02)
    else:
        cluster = generator.choice(fabric.clusters)
        name = {"api": "kube-apiserver", "etcd": "etcd"}[victim]
        pid = int((fabric.state / cluster / "run" / (name + ".pid")).read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        killed = 1
    process.wait(timeout=300)
    fabric.lab("up", "--topology", fabric.topology)
    return killed


def test_a_mesh_to_compare_with(fabric):
    fabric.play("site").ok()
    STATE["mesh"] = fabric.everything()


@pytest.mark.parametrize("number", range(KILLS))
def test_after_a_kill_a_normal_run_converges(fabric, number):
    generator = random.Random(SEED * 1000 + number)
    victim = VICTIMS[number % len(VICTIMS)]
    # something to do: peers, routes, devices and annotations are away when the run starts
    for node in fabric.nodes:
        remote = "gcp" if node.startswith("aws") else "aws"
        what = generator.randrange(3)
        if what == 0:
            fabric.sh(node, "ip", "link", "del", "wireguard." + remote)
        elif what == 1:
            fabric.sh(node, "ip", "route", "flush", "dev", "wireguard." + remote)
        else:
            for key in fabric.wireguard(node)["wireguard." + remote]["peers"]:
                fabric.sh(node, "wg", "set", "wireguard." + remote, "peer", key, "remove")
    cluster = generator.choice(fabric.clusters)
    for node in fabric.nodes:
        if node.startswith(cluster):
            keys = [key + "-" for key in fabric.annotations(cluster, node) if ".wireguard.semaphore.uw.io/" in key]
            fabric.kubectl(cluster, "annotate", "node", node, *keys)
    killed = play_and_kill(fabric, "mesh", victim, generator.uniform(0.5, 8.0), generator)
    assert killed or victim == "module"
    run = fabric.play("site").ok()
    assert "all green" in run.out
    fabric.all_reach()
    after = fabric.everything()
    for name, state in STATE["mesh"].items():
        assert after[name] == state, "{0} after kill {1} of {2}".format(name, number, victim)
    assert not fabric.play("site").ok().changed


def test_after_a_killed_teardown_a_normal_one_leaves_nothing(fabric):
    generator = random.Random(SEED)
    play_and_kill(fabric, "teardown", "ansible-playbook", generator.uniform(2.0, 5.0), generator)
    fabric.play("teardown", variables={"node_dataplane_remove_keys": True}).ok()
    for node in fabric.nodes:
        assert not fabric.wireguard(node)
        left = fabric.sh(node, "find", "/etc/systemd/system", "/usr/local/lib", "/var/lib/semaphore-wireguard", "-name", "*multicluster-network*", check=False)
        assert not left.strip(), left
