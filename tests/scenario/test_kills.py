# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SIGKILL at random points, then a normal run: everything converges, nothing is lost, nothing is left over.

Victims are ansible-playbook with its workers, ansible-playbook alone (its workers go on without it for a while), both while they take
their lock, modules on nodes, API servers and etcd. Every second one goes over SSH. The run that follows is a plain one that waits for no
lock, and has no statement on a reboot.

MCN_KILLS sets how many (6, one of each victim, by itself; 60 in make test-all); MCN_SEED repeats a run, MCN_KILLS_FROM goes on with one.
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
from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import run_lock
from ansible_collections.multicluster.network.plugins.module_utils._io import local_lock
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import processes

KILLS = int(os.environ.get("MCN_KILLS", "6"))
FROM = int(os.environ.get("MCN_KILLS_FROM", "0"))
SEED = int(os.environ.get("MCN_SEED", "20"))
VICTIMS = ("ansible-playbook", "lock", "module", "playbook alone", "api", "etcd")
STATE = {}


def modules_of(fabric):
    """Pids of modules that run inside this lab's nodes, and in no other."""
    spaces = set()
    for node in fabric.nodes:
        leader = (fabric.state / "nodes" / node / "leader").read_text().split()[0]
        spaces.add(pathlib.Path(f"/proc/{leader}/ns/mnt").readlink())
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (
                    b"AnsiballZ_node_" in (entry / "cmdline").read_bytes()
                    and (entry / "ns" / "mnt").readlink() in spaces
                ):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def locks():
    """Files of locks that are held now, by any run of this user."""
    folder = pathlib.Path(local_lock.folder())
    found = [run_lock.read_record(str(folder), path.name) for path in folder.glob("*.lock")] if folder.exists() else []
    return [record for record in found if processes.lives(record.get("watchdog"), record.get("watchdog_born"))]


def while_locking(process, generator):
    """Wait for a moment of taking the lock: the worker that asks for it starts, its file exists, or a little later."""
    moment, deadline = generator.randrange(3), time.monotonic() + 60
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None and time.monotonic() < deadline:
        if moment == 0 and children.exists() and children.read_text().split():
            break
        if moment and any(record.get("pid") == process.pid for record in locks()):
            break
        time.sleep(0.005)
    time.sleep(generator.uniform(0, 0.3) if moment == 2 else generator.uniform(0, 0.05))


def play_and_kill(fabric, book, victim, delay, generator, inventory=None):
    """Start a playbook, end something with SIGKILL after a delay, wait for what is left; returns what was killed."""
    process = subprocess.Popen(
        ["ansible-playbook", "-i", str(inventory or fabric.inventory), "multicluster.network." + book],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    killed = 0
    if victim == "lock":
        while_locking(process, generator)
        if generator.randrange(2):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=300)
        return 1
    time.sleep(delay)
    if victim in ("ansible-playbook", "playbook alone"):
        if victim == "playbook alone":
            os.kill(process.pid, signal.SIGKILL)
        else:
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


@pytest.mark.parametrize("number", range(FROM, KILLS))
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
    over_ssh = fabric.state / "inventory-ssh" / "hosts.yml" if number % 2 else None
    killed = play_and_kill(fabric, "site", victim, generator.uniform(0.5, 12.0), generator, over_ssh)
    assert killed or victim == "module"
    # half a minute is what a watchdog that is on its way out may need; nothing may be locked for longer
    run = fabric.play("site", inventory=over_ssh, variables={"multicluster_lock_wait": 30}).ok()
    assert "all green" in run.out and "lock_held" not in run.out
    assert "reboot" not in run.out.lower() and "restart the host" not in run.out
    fabric.all_reach()
    after = fabric.everything()
    for name, state in STATE["mesh"].items():
        assert after[name] == state, f"{name} after kill {number} of {victim}"
    if number % 5 == 4 or number == KILLS - 1:
        assert not fabric.play("site").ok().changed
    deadline = time.monotonic() + 60  # a watchdog gives its lock back a moment after its run
    while any(not processes.lives(record.get("pid"), record.get("born")) for record in locks()):
        assert time.monotonic() < deadline, locks()
        time.sleep(0.2)


def test_after_a_killed_teardown_a_normal_one_leaves_nothing(fabric):
    generator = random.Random(SEED)
    play_and_kill(fabric, "teardown", "ansible-playbook", generator.uniform(2.0, 5.0), generator)
    fabric.play("teardown", variables={"node_dataplane_remove_keys": True}).ok()
    for node in fabric.nodes:
        assert not fabric.wireguard(node)
        left = fabric.sh(
            node,
            "find",
            "/etc/systemd/system",
            "/usr/local/lib",
            "/var/lib/semaphore-wireguard",
            "-name",
            "*multicluster-network*",
            check=False,
        )
        assert not left.strip(), left
