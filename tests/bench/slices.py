#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first mesh of many nodes by the workflow in slices: on one execution node, and in two slices on two.

Run by `tests/run bench slices [--nodes 100]`. Jobs are those of extensions/runner/slices.py, from `transmit` to `process`. One machine has all of it,
so an execution node is a control group here with a bound of processor time (--processors), in which the worker, its forks (--forks) and what they do on
nodes run: two execution nodes have twice as much, as two machines would. The machine is not the limit as long as the bounds of both fit on it; how often
each group was held back by its bound is printed alongside the times. What counts is the time until the second round ends; the mesh is taken away in between.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile

from noop_play import LAB, REPO, STATE, run, topology

NAME = "slicebench"
BOUND, FROM_NODES = 1.6, 100
HOSTS = ("exec-1", "exec-2")
ENDS = re.compile(r"^\[ *([\d.]+) s\] (news-\d+ on |no cluster has news)", re.MULTILINE)


class Group:
    """A control group with at most so many processors, of either generation."""

    def __init__(self, name, processors, shares):
        old = pathlib.Path("/sys/fs/cgroup/cpu")
        self.old, self.folder = (
            old.is_dir(),
            (old if old.is_dir() else pathlib.Path("/sys/fs/cgroup")) / ("mcn-bench-" + name),
        )
        self.folder.mkdir(exist_ok=True)
        if self.old:
            (self.folder / "cpu.cfs_period_us").write_text("100000")
            (self.folder / "cpu.cfs_quota_us").write_text(str(int(100000 * processors)))
            (self.folder / "cpu.shares").write_text(str(1024 * shares))
        else:
            (self.folder.parent / "cgroup.subtree_control").write_text("+cpu")
            (self.folder / "cpu.max").write_text(f"{int(100000 * processors)} 100000")
            (self.folder / "cpu.weight").write_text(str(min(10000, 100 * shares)))

    def held_back(self):
        """(periods, those in which the bound was met)"""
        found = dict(line.split() for line in (self.folder / "cpu.stat").read_text().splitlines())
        return int(found["nr_periods"]), int(found["nr_throttled"])

    def remove(self):
        try:
            self.folder.rmdir()
        except OSError:
            sys.stderr.write(f"left behind: {self.folder}\n")


def private_data(folder, forks):
    """The lab's own inventory: what is measured is not how files get to an execution node."""
    data = folder / "fabric"
    for name in ("inventory", "env", "project"):
        (data / name).mkdir(parents=True)
    (data / "inventory" / "hosts.yml").write_text((STATE / NAME / "inventory" / "hosts.yml").read_text())
    given = {name: os.environ[name] for name in ("ANSIBLE_COLLECTIONS_PATH", "PYTHONPATH") if name in os.environ}
    (data / "env" / "envvars").write_text(json.dumps(dict(given, ANSIBLE_NOCOLOR="1")))
    (data / "env" / "cmdline").write_text(f"--forks {forks}")
    (data / "env" / "extravars").write_text(json.dumps({"verify_traces": 0}))
    return data


def workflow(data, rsh, hosts, venv):
    """Seconds until the second round has ended."""
    program = REPO / "extensions" / "runner" / "slices.py"
    tree = (
        pathlib.Path(os.environ["ANSIBLE_COLLECTIONS_PATH"].split(":")[0])
        / "ansible_collections"
        / "multicluster"
        / "network"
    )
    output = run(
        [sys.executable, str(tree / program.relative_to(REPO)), str(data), *hosts, "--rsh", str(rsh)],
        cwd=str(data.parent),
        env=dict(os.environ, PATH=f"{venv}/bin:{os.environ['PATH']}"),
    )
    sys.stderr.write("".join(f"    {line}\n" for line in output.splitlines() if re.match(r"\[ *[\d.]+ s\]", line)))
    return max(float(seconds) for seconds, unused in ENDS.findall(output))


def take_away():
    run(
        [
            "ansible-playbook",
            "-f",
            "20",
            "-i",
            str(STATE / NAME / "inventory" / "hosts.yml"),
            "multicluster.network.teardown",
        ],
        cwd=str(REPO),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--forks", type=int, default=5, help="of each job")
    parser.add_argument("--processors", type=float, default=0.5, help="of each execution node")
    parser.add_argument(
        "--shares", type=int, default=8, help="weight of an execution node against what else runs on the machine"
    )
    parser.add_argument("--keep", action="store_true", help="leave the lab running")
    asked = parser.parse_args()
    venv = pathlib.Path(os.environ["MCN_RUNNER"])
    groups = {name: Group(name, asked.processors, asked.shares) for name in HOSTS}
    times, held = {1: [], 2: []}, {}
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "topology.json").write_text(json.dumps(dict(topology(asked.nodes), nodes="light")))
        run([*LAB, "down", "--name", NAME])
        try:
            run([*LAB, "up", "--name", NAME, "--topology", str(folder / "topology.json")])
            rsh = folder / "rsh"
            rsh.write_text(
                f'#!/bin/sh\necho 0 > {groups["exec-1"].folder.parent}/mcn-bench-$1/cgroup.procs || exit\nshift\nexec sh -c "$*"\n'
            )
            rsh.chmod(0o755)
            data = private_data(folder, asked.forks)
            for unused in range(asked.rounds):
                for count in (1, 2):
                    before = {name: group.held_back() for name, group in groups.items()}
                    times[count].append(workflow(data, rsh, HOSTS[:count], venv))
                    for name in HOSTS[:count]:
                        periods, throttled = (now - then for now, then in zip(groups[name].held_back(), before[name]))
                        held[count, name] = f"{throttled / max(1, periods):.0%}"
                    take_away()
        finally:
            if not asked.keep:
                run([*LAB, "down", "--name", NAME])
            for group in groups.values():
                group.remove()
    one, two = (statistics.median(times[count]) for count in (1, 2))
    print(
        f"first mesh of {asked.nodes} nodes, {asked.forks} forks and {asked.processors:g} processors an execution node:"
    )
    for count, seconds in ((1, one), (2, two)):
        print(
            "  {0} execution node{1}  {2:7.1f} s  held back by the bound in {3} of the time".format(
                count, "s" if count > 1 else " ", seconds, " and ".join(held[count, name] for name in HOSTS[:count])
            )
        )
    print(f"  ratio              {one / two:7.2f}    bound {BOUND} from {FROM_NODES} nodes on")
    return 0 if one / two >= BOUND or asked.nodes < FROM_NODES else 1


if __name__ == "__main__":
    sys.exit(main())
