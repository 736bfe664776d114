#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A trace of one pair of pods compared with plays of `ping` tasks: as many plays, hosts and tasks, so that the difference is what the trace itself costs.

Run by `tests/run bench trace_pair`. Boots a lab of two clusters, joins it once, then runs both in turn. A round counts only when the trace arrived.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "scenario"))

import trace_lab
from harness import Fabric

#: Seconds that a pair may cost beyond the play.
LIMIT = 3.0
ENDS = {"aws/default/web": "aws-node-1-pod-1", "gcp/default/log": "gcp-node-1-pod-1"}
#: The shape of the playbook: two tasks of the controller, three on each node of the way, one of the controller.
PLAYS = [("all:!clusters", 2, True), ("aws-node-1:gcp-node-1", 3, False), ("clusters", 1, True)]


def ping_book():
    """Plays that do nothing, in the shape of the trace."""
    plays = []
    for hosts, tasks, once in PLAYS:
        task = dict(
            {"name": "Ping", "ansible.builtin.ping": {}},
            **({"run_once": True, "delegate_to": "localhost"} if once else {}),
        )
        plays.append({"name": "Ping", "hosts": hosts, "gather_facts": False, "tasks": [task] * tasks})
    return json.dumps(plays)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    fabric = Fabric("pairbench")
    times = {"ping": [], "trace": []}
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ping = folder / "ping.yml"
        ping.write_text(ping_book(), encoding="utf-8")
        fabric.lab("down")
        fabric.lab("up", "--topology", "two")
        stack.callback(fabric.lab, "down")
        for name, pod in ENDS.items():
            trace_lab.make_pod(fabric, name, pod)
        fabric.play("site").ok()
        for pod in ENDS.values():
            stack.enter_context(trace_lab.served(fabric, pod))
        ends = dict(zip(("trace_from", "trace_to"), sorted(ENDS)))
        trace_lab.assert_arrives(fabric, **ends)
        for number in range(asked.rounds):
            for side in ("ping", "trace") if number % 2 else ("trace", "ping"):
                started = time.perf_counter()
                if side == "trace":
                    dummy, document = trace_lab.trace(fabric, **ends)
                    assert document["verdict"] == "arrives", trace_lab.reported(document)
                else:
                    subprocess.run(
                        ["ansible-playbook", "-i", str(fabric.inventory), str(ping)],
                        capture_output=True,
                        check=True,
                        stdin=subprocess.DEVNULL,
                    )
                times[side].append(time.perf_counter() - started)
    owned, other = (statistics.median(times[side]) for side in ("trace", "ping"))
    print(f"A trace of one pair; medians of {asked.rounds} interleaved runs, s")
    print("collection: `ansible-playbook multicluster.network.trace`; theirs: plays of `ping` tasks in its shape\n")
    print("| collection | theirs | ratio to theirs | beyond the play |")
    print("|---|---|---|---|")
    print(f"| {owned:.2f} | {other:.2f} | {owned / other:.2f} | {owned - other:.2f} (limit {LIMIT:.0f}) |")
    return 1 if owned - other > LIMIT else 0


def reaped():
    """What main returns, in a child: the first process of a namespace is the one that has to take up the lab's processes when they end."""
    child = os.fork()
    if not child:
        sys.exit(main())
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(reaped() if os.getpid() == 1 else main())
