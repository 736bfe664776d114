# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workflow in slices by ansible-runner: transmit, worker and process over SSH, on two hosts of the lab as execution nodes."""

from __future__ import annotations

import os
import pathlib
import signal
import time

import pytest
from slices_lab import Controller, DoubleOfAwx, guide_line

TOPOLOGY = str(pathlib.Path(__file__).with_name("slices_lab.json"))
#: Seconds for which the lock of a workflow holds that nobody ends. A job renews it every 10.
BETWEEN = 40


@pytest.fixture(scope="module")
def controller(fabric, tmp_path_factory):
    return Controller(fabric, tmp_path_factory.mktemp("controller"))


@pytest.fixture
def joined(fabric, controller):
    """The mesh is set up, whichever tests ran before: everything as it was built."""
    if not all(fabric.wireguard(node) for node in controller.nodes):
        controller.workflow()
    return controller.state()


def wait_for(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def test_an_execution_node_has_what_a_job_needs(controller):
    assert "failed=0" in controller.run("set -o pipefail; " + guide_line("validate |"))


def test_an_execution_node_that_is_not_there_is_named(controller):
    shown = controller.run(guide_line("slices.py").replace("exec-1 exec-2", "exec-9"), good=False)
    assert (
        "plan on exec-9: FAILED" in shown
        and 'exec-9" port 22' in shown
        and "Traceback" not in shown
        and "converge" not in shown
    ), shown


def test_two_slices_on_two_execution_nodes_build_what_one_run_does(fabric, controller):
    controller.one_run("site")
    fabric.all_reach()
    one = controller.state()
    assert all(row["wireguard"] for name, row in one.items() if name in controller.nodes)
    controller.one_run("teardown")
    assert not any(row["wireguard"] for name, row in controller.state().items() if name in controller.nodes)

    shown = controller.workflow()
    assert "6 nodes in 2 slices" in shown and "FAILED" not in shown, shown
    parts = [controller.visited("converge-1"), controller.visited("converge-2")]
    assert parts == [controller.nodes[0::2], controller.nodes[1::2]]  # by name, every second
    fabric.all_reach()
    sliced = controller.state()
    for name in one:
        assert sliced[name] == one[name], name
    assert not controller.leases()
    assert not list((controller.data / "artifacts").glob(".workflow-*"))  # the copy with the key


def test_a_second_workflow_and_one_run_after_it_change_nothing(fabric, controller, joined):
    with fabric.witness() as writes:
        shown = controller.workflow()
    own = [row for row in writes if row.split()[0] in controller.nodes or "/leases" not in row]
    assert "no cluster has news" in shown and not own, own
    shown = controller.one_run("site")
    assert "changed=0" in shown and "changed=1" not in shown
    assert controller.state() == joined


def test_a_limit_converges_these_nodes_and_no_other(fabric, controller, joined):
    for node in ("aws-node-2", "gcp-node-3"):
        fabric.sh(node, "ip", "link", "delete", sorted(fabric.wireguard(node))[0])
    controller.workflow("--limit 'aws-node-*'", good=False)
    assert controller.visited("converge-1") + controller.visited("converge-2") == [
        "aws-node-1",
        "aws-node-3",
        "aws-node-2",
    ]
    assert fabric.wireguard("aws-node-2") and not fabric.wireguard(
        "gcp-node-3"
    )  # and the proof, which is of all, said so
    controller.workflow("--limit gcp-node-3,aws-node-1", "--slices 1")
    assert controller.visited("converge-1") == ["aws-node-1", "gcp-node-3"]
    fabric.all_reach()


def test_a_slice_that_plans_something_else_changes_nothing(fabric, controller, joined):
    """Between the plan and its own planning something changed: here before the second execution node is asked for its slice."""
    kubectl = f"{(fabric.state / 'kubernetes').read_text().strip()}/kubectl --kubeconfig {fabric.state / 'gcp' / 'kubeconfig'}"
    program = controller.program(
        "late-ssh",
        'if [ "$1" = exec-2 ]; then\n'
        f"  {kubectl} annotate --overwrite node gcp-node-2 aws.wireguard.semaphore.uw.io/endpoint=10.22.22.28:51999 >/dev/null\n"
        'fi\nexec ssh "$@"',
    )
    shown = controller.workflow("--rsh", str(program), good=None)
    assert (
        "plan_differs" in shown
        and "converge-2 on exec-2: FAILED" in shown
        and "what differs: node gcp/gcp-node-2" in " ".join(shown.split())
    ), shown
    assert controller.visited("converge-2") == [], "it planned something else, and went on"
    # what somebody wrote by hand is left alone without adopt, so the same hand takes it away again
    fabric.kubectl("gcp", "annotate", "node", "gcp-node-2", "aws.wireguard.semaphore.uw.io/endpoint-")
    controller.workflow()
    assert controller.state() == joined and not controller.leases()


def test_a_slice_that_is_killed_keeps_nobody_and_the_next_workflow_goes_on(fabric, controller, joined):
    controller.one_run("teardown")
    # the playbook of the second slice ends at once with SIGKILL when it is seen there
    hunter = controller.program(
        "killing-ssh",
        'if [ "$1" = exec-2 ]; then\n'
        "  (for n in $(seq 600); do ssh exec-2 pkill -KILL -f bin/ansible-playbook.*slices.converge && exit; sleep 0.1; done) >/dev/null 2>&1 &\n"
        'fi\nexec ssh "$@"',
    )
    shown = controller.workflow("--rsh", str(hunter), good=False)
    assert "converge-1 on exec-1: ok" in shown and "converge-2 on exec-2: FAILED" in shown, shown
    assert "publish on exec-1: ok" in shown and "end on exec-1: FAILED" in shown, (
        shown
    )  # the others went on; the end reports that nothing was proven
    wait_for(lambda: not controller.leases(), 60, "the lock was not given back")
    controller.workflow()
    fabric.all_reach()
    assert controller.state() == joined


def test_a_workflow_with_a_killed_controller_frees_the_fabric_after_its_bound(fabric, controller, joined):
    controller.one_run("teardown")
    controller.extra(multicluster_workflow_between=BETWEEN)
    running = controller.start(guide_line("slices.py") + " --workflow killed", "killed")
    wait_for(
        lambda: (controller.folder / "killed").read_text().count("nodes in 2 slices") or running.poll() is not None,
        300,
        "no plan",
    )
    time.sleep(3)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    held = controller.leases()
    assert {spec["holderIdentity"] for spec in held.values()} == {"workflow killed"} and len(held) == 2, held
    begun = time.monotonic()
    controller.workflow()  # waits for the lock, as every run does
    assert time.monotonic() - begun < BETWEEN + 300
    fabric.all_reach()
    assert controller.state() == joined and not controller.leases()
    controller.extra()


def test_the_double_of_awx_passes_what_a_running_awx_has_to(fabric, controller, joined, tmp_path):
    """The jobs are real, by ansible-runner over SSH: what AWX itself does about them is the double's."""
    controller.one_run("teardown")
    double = DoubleOfAwx(controller, tmp_path)
    try:
        code, shown = double.check()
    finally:
        double.stop()
    assert code == 0, shown[-8000:]
    fabric.ran(" ".join(line for line in shown.splitlines() if "passed" in line))
    fabric.all_reach()
    assert controller.state() == joined and not controller.leases()
