# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A play that cuts its own path to a node, over SSH through the underlay: the node puts back what it had (decision 45).

The controller is the gateway of the node range, where every connection of the lab's SSH inventory comes from.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time

import pytest

NODE, CONTROLLER = "aws-node-1", "10.66.23.1"
OTHER = "gcp-node-1"
#: Seconds until the node takes a change back; half of it is what applying may take on a busy machine.
TIMER = 30
STATE = {}
#: A new connection for every task: nothing that survives a change can be taken for a proof.
FRESH = {"ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o ControlPersist=no", "ANSIBLE_TIMEOUT": "5"}
BAD = {
    "a route takes the controller's address": {"routes": ["10.4.0.0/16", CONTROLLER + "/32"]},
    "the controller's address is the node's own": {"addresses": [CONTROLLER + "/32"]},
}


def ssh_inventory(fabric):
    return fabric.state / "inventory-ssh" / "hosts.yml"


def play(fabric, book, *arguments, inventory=None, environment=None, **variables):
    os.environ.update(FRESH if environment is None else environment)
    try:
        return fabric.play(book, *arguments, inventory=inventory or ssh_inventory(fabric), variables=variables or None)
    finally:
        for name in FRESH:
            os.environ.pop(name, None)


def change(fabric, node, bad, seconds=TIMER, inventory=None, **variables):
    return play(
        fabric,
        "mesh",
        "--limit",
        node,
        inventory=inventory,
        node_dataplane_device_settings=bad,
        node_dataplane_rollback_seconds=seconds,
        **variables,
    )


def reachable(fabric, node, inventory=None):
    done = subprocess.run(
        ["ansible", "-i", str(inventory or ssh_inventory(fabric)), node, "-m", "ping"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ, **FRESH),
    )
    return done.returncode == 0


def pending(fabric, node):
    return (
        fabric.lab(
            "exec", node, "--", "test", "-e", "/var/lib/multicluster-network/default/transaction.json", check=False
        ).returncode
        == 0
    )


class Pending(threading.Thread):
    """Watches from inside the node how long a change waits for its confirmation."""

    def __init__(self, fabric, node):
        super().__init__(daemon=True)
        self.fabric, self.node, self.seconds, self.over = fabric, node, None, False

    def run(self):
        began = None
        while not self.over:
            waits = pending(self.fabric, self.node)
            if waits and began is None:
                began = time.monotonic()
            if began is not None and not waits:
                self.seconds = time.monotonic() - began
                return
            time.sleep(0.1)


def state(fabric, *nodes):
    """Everything a run may leave behind, but not which units run: after a restart the boot unit does."""
    shown = fabric.snapshot(*nodes)
    for snapshot in shown.values():
        snapshot.pop("units")
    return shown


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def outcome(fabric, node):
    return json.loads(fabric.sh(node, "cat", "/run/multicluster-network/default.json"))["outcome"]


def test_site_over_ssh_keeps_its_changes(fabric):
    """With connections that persist, as most people have them: they are let go before the confirmation."""
    run = play(fabric, "site", environment={}).ok()
    assert "all green" in run.out
    STATE["good"] = state(fabric, *fabric.nodes)
    for node in fabric.nodes:
        assert not pending(fabric, node) and outcome(fabric, node) == "confirmed"
        assert "rollback" not in fabric.sh(node, "systemctl", "list-timers", "--all")
    with fabric.witness() as writes:
        assert not play(fabric, "site").ok().changed
    assert not writes


def assert_taken_back(fabric, name, node, make):
    """``make`` runs a play that cuts the node off: it fails, and the node has taken the change back by itself."""
    before = json.loads(fabric.sh(node, "cat", "/run/multicluster-network/default.json"))["id"]
    watch = Pending(fabric, node)
    watch.start()
    run = make()
    watch.over = True
    watch.join()
    fabric.ran(f"{name}: pending for {watch.seconds or -1:.1f} s of {TIMER}")
    assert run.rc != 0 and run.recap[node]["failed"] == 1, run.out[-3000:]
    assert "rolled back" in run.out or "put back" in run.out, run.out[-3000:]
    assert outcome(fabric, node) == "rolled_back"
    assert json.loads(fabric.sh(node, "cat", "/run/multicluster-network/default.json"))["id"] != before, (
        "the change was never made:\n" + run.out[-3000:]
    )
    # within 5 s of its time, as the line above shows; here a busy machine may take longer
    assert watch.seconds is not None and watch.seconds < TIMER + 30
    assert reachable(fabric, node)


@pytest.mark.parametrize("name", sorted(BAD))
def test_what_cuts_the_controller_off_is_taken_back(fabric, name):
    assert_taken_back(fabric, name, NODE, lambda: change(fabric, NODE, BAD[name]))
    assert state(fabric, NODE)[NODE] == STATE["good"][NODE]


@pytest.mark.parametrize("family, rule", [("inet", "tcp dport 22 drop"), ("ip", f"ip saddr {CONTROLLER} drop")])
def test_a_drop_rule_is_taken_back(fabric, family, rule):
    """A firewall that forgets the controller, among the tables that the play gives the node."""
    tables = [
        {
            "name": "guard",
            "family": family,
            "chains": [{"name": "in", "hook": "input", "priority": "raw", "rules": [rule]}],
        }
    ]
    assert_taken_back(fabric, rule, NODE, lambda: change(fabric, NODE, {}, node_dataplane_tables=tables))
    assert "guard" not in fabric.sh(NODE, "nft", "list", "tables")
    assert state(fabric, NODE)[NODE] == STATE["good"][NODE]


def test_a_policy_of_dropping_is_taken_back_and_other_tables_stay(fabric):
    """Other tables, such as those of iptables, are nobody's business here."""
    fabric.sh(
        NODE,
        "nft",
        "add table ip filter; add chain ip filter INPUT { type filter hook input priority filter; policy accept; }",
    )
    fabric.sh(NODE, "nft", "add rule ip filter INPUT ip saddr 192.0.2.99 drop")
    before = fabric.sh(NODE, "nft", "list", "ruleset")
    tables = [{"name": "guard", "chains": [{"name": "in", "hook": "input", "policy": "drop"}]}]
    assert_taken_back(fabric, "policy drop", NODE, lambda: change(fabric, NODE, {}, node_dataplane_tables=tables))
    assert fabric.sh(NODE, "nft", "list", "ruleset") == before
    fabric.sh(NODE, "nft", "delete table ip filter")
    assert state(fabric, NODE)[NODE] == STATE["good"][NODE]


def test_without_the_rollback_the_same_play_loses_the_node(fabric):
    """The control: what the tests above do is worth something."""
    run = subprocess.Popen(
        [
            "ansible-playbook",
            "-i",
            str(ssh_inventory(fabric)),
            "multicluster.network.mesh",
            "--limit",
            NODE,
            "-e",
            json.dumps(
                {
                    "node_dataplane_device_settings": BAD["a route takes the controller's address"],
                    "node_dataplane_rollback_seconds": 0,
                }
            ),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ, **FRESH),
        start_new_session=True,
    )
    wait_until(lambda: CONTROLLER + " dev wireguard" in fabric.sh(NODE, "ip", "route"))
    time.sleep(TIMER + 5)
    assert not reachable(fabric, NODE)
    run.kill()
    run.wait()
    wait_until(lambda: not fabric.sh(NODE, "pgrep", "-f", "AnsiballZ", check=False).strip())
    fabric.play("mesh", "--limit", NODE).ok()
    assert state(fabric, NODE)[NODE] == STATE["good"][NODE] and reachable(fabric, NODE)


def test_a_reboot_in_between_boots_the_confirmed_state(fabric):
    """The power goes while the change waits."""
    worker = threading.Thread(target=change, args=(fabric, NODE, BAD["a route takes the controller's address"], 90))
    worker.start()
    wait_until(lambda: CONTROLLER + " dev wireguard" in fabric.sh(NODE, "ip", "route"))
    fabric.lab("node-rebuild", NODE)
    wait_until(lambda: reachable(fabric, NODE))
    assert not pending(fabric, NODE)
    assert state(fabric, NODE)[NODE] == STATE["good"][NODE]
    worker.join()
    assert state(fabric, NODE)[NODE] == STATE["good"][NODE]


def test_a_batch_is_taken_back_with_its_lost_node(fabric):
    """The canary batch has one good node and one that is lost: both have their old state, the next batch was not begun."""
    run = play(
        fabric,
        "mesh",
        "--limit",
        "aws-node-1,aws-node-2,gcp-node-1",
        multicluster_serial=[2, 1],
        node_dataplane_device_settings="{{ {'mtu': 1300} | combine({'routes': ['10.4.0.0/16', '"
        + CONTROLLER
        + "/32']} if inventory_hostname == 'aws-node-1' else {}) }}",
        node_dataplane_rollback_seconds=2 * TIMER,
    )
    assert run.rc != 0
    for node in ("aws-node-1", "aws-node-2"):
        assert run.recap[node]["failed"] == 1, run.out[-3000:]
    assert not run.recap.get("gcp-node-1", {}).get("changed")
    wait_until(lambda: not any(pending(fabric, node) for node in fabric.nodes))
    assert state(fabric, *fabric.nodes) == STATE["good"]


SLOW_SSH = """#!/bin/sh
# connections after the first FAST ones take SECONDS longer; the first one is the change itself
case " $* " in *" -O "*) exec ssh "$@" ;; esac
echo >>{count}
[ "$(wc -l <{count})" -le {fast} ] || sleep {seconds}
exec ssh "$@"
"""


def slow_controller(folder, fast, seconds):
    """Variables of a controller that needs some seconds for each connection after the first ones."""
    folder.mkdir()
    program = folder / "ssh"
    program.write_text(SLOW_SSH.format(count=folder / "count", fast=fast, seconds=seconds))
    program.chmod(0o755)
    return {"ansible_ssh_executable": str(program)}


def mtu(fabric):
    """None where there is no device yet."""
    return (
        int(fabric.sh(NODE, "sh", "-c", "cat /sys/class/net/wireguard.gcp/mtu 2>/dev/null || echo 0").strip()) or None
    )


def test_a_healthy_node_keeps_its_change_though_the_controller_is_slow(fabric, tmp_path):
    """A confirmation that takes two thirds of the node's patience is no lost node."""
    slow = slow_controller(tmp_path / "slow", 1, 2 * TIMER // 3)
    change(fabric, NODE, {"mtu": 1300}, **slow).ok()
    assert outcome(fabric, NODE) == "confirmed" and mtu(fabric) == 1300


def test_what_the_controller_needs_is_measured_and_counted_in(fabric, tmp_path):
    """Its confirmation comes too late; the change is made once more with the time that the node measured, and kept."""
    before = mtu(fabric)
    run = change(
        fabric,
        NODE,
        {"mtu": 1310},
        **slow_controller(tmp_path / "once", 1, TIMER + 10),
        node_dataplane_rollback_max_seconds=TIMER,
    )
    assert run.rc != 0 and mtu(fabric) == before
    assert f"it waited {TIMER} s (node_dataplane_rollback_seconds), and the confirmation arrived " in run.out, run.out[
        -3000:
    ]
    change(fabric, NODE, {"mtu": 1310}, **slow_controller(tmp_path / "again", 1, TIMER + 10)).ok()
    assert outcome(fabric, NODE) == "confirmed" and mtu(fabric) == 1310


def test_check_mode_has_a_limit_of_its_own_and_names_it(fabric, tmp_path):
    before = state(fabric, NODE)[NODE]
    slow = slow_controller(tmp_path / "long", 0, 20)
    assert play(fabric, "mesh", "--limit", NODE, "--check", node_dataplane_rollback_seconds=TIMER, **slow).ok().changed
    run = play(fabric, "mesh", "--limit", NODE, "--check", node_dataplane_check_seconds=5, **slow)
    words = NODE + ": comparing the node with the plan did not end within 5 s"
    assert run.rc != 0 and words in run.out and "raise node_dataplane_check_seconds" in run.out, run.out[-3000:]
    assert state(fabric, NODE)[NODE] == before and not pending(fabric, NODE)
    play(fabric, "mesh", "--limit", NODE).ok()
    assert mtu(fabric) == 1420


def test_the_path_through_the_tunnel_itself(fabric, tmp_path):
    """The controller reaches the node only over a device that the play takes down, or takes the address from."""
    fabric.play(
        "mesh",
        "--limit",
        OTHER,
        variables={
            "node_dataplane_device_settings": {"addresses": ["10.4.7.254/32"]},
        },
    ).ok()
    good = state(fabric, OTHER)[OTHER]
    # sshd listens on the uplink; a relay takes connections where only the tunnel leads, from a pod of the other cluster
    fabric.sh(
        OTHER,
        "systemd-run",
        "--quiet",
        "--unit=relay",
        "--socket-property=ListenStream=0.0.0.0:2222",
        "/lib/systemd/systemd-socket-proxyd",
        "10.22.22.27:22",
    )
    proxy = f"/usr/bin/python3 {fabric.lab_program} pod-exec --name {fabric.name} aws-node-1-pod-1 -- nc -q 1 %h %p"
    words = f"'-o' 'ProxyCommand={proxy}' '-o' 'StrictHostKeyChecking=no' '-o' 'UserKnownHostsFile=/dev/null' '-o' 'ConnectTimeout=5'"
    inventory = tmp_path / "through.yml"
    text = ssh_inventory(fabric).read_text()
    inventory.write_text(text)
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars" / (OTHER + ".yml")).write_text(
        json.dumps({"ansible_host": "10.4.7.254", "ansible_port": 2222, "ansible_ssh_common_args": words})
    )
    wait_until(lambda: reachable(fabric, OTHER, inventory))
    for bad in ({"addresses": ["10.4.7.254/32"], "up": False}, {"addresses": ["10.4.7.253/32"]}):
        run = change(fabric, OTHER, bad, inventory=inventory)
        assert run.rc != 0 and run.recap[OTHER]["failed"] == 1, run.out[-3000:]
        wait_until(lambda: reachable(fabric, OTHER, inventory))
        assert outcome(fabric, OTHER) == "rolled_back" and state(fabric, OTHER)[OTHER] == good
    # and an MTU that is none never reaches the node
    run = change(fabric, OTHER, {"addresses": ["10.4.7.254/32"], "mtu": 68}, seconds=10 * TIMER, inventory=inventory)
    assert run.rc != 0 and ("mtu_out_of_range" in run.out or "68 is not between" in run.out), run.out[-3000:]
    assert state(fabric, OTHER)[OTHER] == good
