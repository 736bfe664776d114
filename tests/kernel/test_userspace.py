# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What only wireguard-go has: a process, a control socket, and a package that may be missing."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import threading

import pytest

DESIRED = {"name": "wg0", "implementation": "userspace", "listen_port": 51821, "peers": []}

pytestmark = pytest.mark.skipif(not shutil.which("wireguard-go"), reason="wireguard-go is not installed")


def daemons(node):
    """Process ids of wireguard-go in this node's network namespace."""
    namespace = pathlib.Path(f"/proc/{node.pid}/ns/net").readlink()
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns/net").readlink() == namespace:
                program = (process / "comm").read_text(encoding="ascii")
                found += [int(process.name)] if program.startswith("wireguard-go") else []
        except OSError:
            continue
    return found


def test_one_process_that_holds_nothing_of_the_run_and_ends_with_its_link(node, wait_for):
    node.flow("wireguard_device", DESIRED, False)
    (pid,) = daemons(node)
    targets = [str(pathlib.Path(f"/proc/{pid}/fd/{fd}").readlink()) for fd in ("0", "1", "2")]
    assert targets == ["/dev/null"] * 3
    assert os.getsid(pid) != os.getsid(0)
    assert pathlib.Path(f"/proc/{pid}/cwd").readlink() == pathlib.Path("/")
    node.flow("wireguard_device", DESIRED, False)
    assert daemons(node) == [pid]
    node.flow("wireguard_device", dict(DESIRED, state="absent"), False)
    assert wait_for(lambda: not daemons(node))
    assert node.run("ls", "/run/wireguard") == ""


def test_a_stale_socket_does_not_stop_it(node, wait_for):
    node.flow("wireguard_device", DESIRED, False)
    (pid,) = daemons(node)
    os.kill(pid, signal.SIGKILL)
    assert wait_for(lambda: not daemons(node))
    assert node.run("ls", "/run/wireguard") == "wg0.sock\n"
    made = node.flow("wireguard_device", DESIRED, False)
    assert made["changed"] and made["device"]["listen_port"] == 51821 and len(daemons(node)) == 1


def test_one_that_is_still_ending_is_waited_for(node):
    """Somebody deleted the device a moment ago: its process has the control socket until it ends."""
    node.flow("wireguard_device", DESIRED, False)
    (pid,) = daemons(node)
    os.kill(pid, signal.SIGSTOP)
    node.run("ip", "link", "delete", "wg0")
    timer = threading.Timer(2.0, os.kill, (pid, signal.SIGCONT))
    timer.start()
    try:
        assert node.flow("wireguard_device", DESIRED, False)["changed"]
    finally:
        timer.join()
    assert pid not in daemons(node) and len(daemons(node)) == 1


def test_one_that_ends_after_its_start_is_reported_with_the_cause_and_leaves_nothing(new_node, flow_failed):
    """Its parent ends well and its socket takes connections before it serves any, so the first question was 'reset by peer'."""
    node = new_node(user_namespace=True)
    node.run("sh", "-c", "echo 0 >/proc/sys/user/max_inotify_instances")
    for _round in range(5):
        with pytest.raises(flow_failed, match="start wireguard-go for wg0: .* raise fs.inotify.max_user_instances"):
            node.flow("wireguard_device", DESIRED, False)
        assert not daemons(node) and node.run("ls", "/run/wireguard") == ""
    node.run("sh", "-c", "echo 128 >/proc/sys/user/max_inotify_instances")
    assert node.flow("wireguard_device", DESIRED, False)["changed"]


def test_a_missing_program_names_its_package(node, flow_failed):
    program = shutil.which("wireguard-go")
    node.run("mount", "--bind", "/dev/null", program)
    with pytest.raises(flow_failed, match="wireguard-go is missing") as error:
        node.flow("wireguard_device", DESIRED, False)
    assert (error.value.kind, error.value.package) == ("LinuxError", "wireguard-go")


def test_without_the_kernel_the_value_kernel_fails_and_auto_falls_back(node, flow_failed):
    if "wireguard" in node.run("sh", "-c", "ip link add x type wireguard 2>&1 && echo wireguard || true"):
        pytest.skip("this kernel has WireGuard")
    with pytest.raises(flow_failed, match="no WireGuard"):
        node.flow("wireguard_device", dict(DESIRED, implementation="kernel"), False)
    made = node.flow("wireguard_device", dict(DESIRED, implementation="auto"), False)
    assert made["device"]["implementation"] == "userspace"
    warned = node.flow("wireguard_device", dict(DESIRED, implementation="kernel"), False)
    assert not warned["changed"] and "stays one" in warned["warnings"][0]


def test_a_key_that_cannot_be_read_leaves_no_half_made_device(node, flow_failed, tmp_path):
    desired = dict(DESIRED, private_key_file=str(tmp_path / "missing"))
    assert node.flow("wireguard_device", desired, True)["changed"]
    with pytest.raises(flow_failed, match="no such file"):
        node.flow("wireguard_device", desired, False)
    assert node.run("ip", "link", "show", "dev", "wg0", check=False) == "" and not daemons(node)
