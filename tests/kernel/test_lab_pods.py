# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods of a container runtime that keeps its mounts to itself: the node finds them by their processes."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

LAB = pathlib.Path(__file__).resolve().parents[1] / "lab"
FIND = "import json; from {0} import find_pods; print(json.dumps(find_pods(['198.18.3.0/24'], 5)))".format(
    "ansible_collections.multicluster.network.plugins.module_utils._linux.host.pods"
)
POD = "ip link add eth0 type veth peer name other; ip address add 198.18.3.10/32 dev eth0; exec sleep infinity"


@pytest.fixture(name="leader")
def leader_fixture():
    """The first process of a node: own network, mounts and processes."""
    with subprocess.Popen(
        [
            "unshare",
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "sh",
            "-c",
            "echo ready; while :; do sleep 1; done",
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as outer:
        assert outer.stdout.readline() == "ready\n"
        children = pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text(encoding="ascii").split()
        yield int(children[0])
        os.kill(int(children[0]), signal.SIGKILL)


def found(leader):
    command = ["nsenter", "--target", str(leader), "--net", "--mount", "--pid", sys.executable, "-B", "-c", FIND]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
    )
    return json.loads(done.stdout)["pods"]


def test_a_runtime_with_mounts_of_its_own_hides_no_pod(leader, tmp_path):
    """As the lab starts containerd and kubelet: their namespace of processes is in the node's, and ends with it."""
    assert found(leader) == []
    programs = {
        "containerd": ["/bin/sh", "-c", "touch /run/containerd/containerd.sock; exec sleep infinity"],
        "import": ["/bin/true"],
        "kubelet": ["unshare", "--net", "/bin/sh", "-c", POD],
    }
    (tmp_path / "settings.json").write_text(
        json.dumps(
            {
                "name": "aws-node-1",
                "folder": str(tmp_path),
                "netns": f"/proc/{leader}/ns/net",
                "leader": leader,
                "mark": ["MCN_LAB_OWNER", str(tmp_path)],
                "path": os.environ["PATH"],
                "programs": {},
                "images": "none",
                "cgroup": f"mcn-test-{leader}",
                "hierarchies": [],
                "commands": programs,
            }
        ),
        encoding="utf-8",
    )
    subprocess.run(
        ["/usr/bin/python3", "-B", str(LAB / "mcnlab" / "pod_init.py"), str(tmp_path / "settings.json")],
        check=True,
        timeout=60,
    )
    init = int((tmp_path / "init.pid").read_text(encoding="ascii"))
    try:
        deadline = time.monotonic() + 60
        while not found(leader) and time.monotonic() < deadline:
            time.sleep(0.2)
        (pod,) = found(leader)
        assert pod["addresses"] == ["198.18.3.10"] and pod["netns"].startswith("/proc/"), (
            tmp_path / "init.log"
        ).read_text(encoding="utf-8")
    finally:
        os.kill(init, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while found(leader) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert found(leader) == [], "who ends the first process ends the pods"
