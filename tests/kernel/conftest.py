# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes for the tests: each a network and a mount namespace of its own, gone with everything in it at the end."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import warnings

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scenario"))

from counted_traffic import packets_first, processes_alongside, roomy_sockets, wireguard_go

MODULE_UTILS = "ansible_collections.multicluster.network.plugins.module_utils."

#: Runs one flow in a node.
DRIVER = f"""
import importlib, json, sys, time
ask = json.load(sys.stdin)
sys.path.append({str(pathlib.Path(__file__).parent)!r})
from zygote import run
flow = importlib.import_module(ask["flow"])
started = time.monotonic()
try:
    answer = dict(result=run(flow, *ask["arguments"]))
except Exception as error:
    answer = dict(error=str(error), kind=type(error).__name__, package=getattr(error, "package", None))
    answer["fields"] = getattr(error, "fields", dict)()
answer["seconds"] = time.monotonic() - started
print(json.dumps(answer))
"""


#: How many times slower than a normal machine this one is; set in the emulated one, where flows run in a warm process.
SLOW = float(os.environ.get("MCN_SLOW", "1"))
TIMEOUT = 180 * SLOW  # a bound for what hangs; two other parts of the tests may hold both processors


def pytest_configure(config):
    config.addinivalue_line("markers", "kernel_wireguard: needs a kernel that has WireGuard")
    config.addinivalue_line(
        "markers", "takes_long: runs with the scenarios that it belongs to, not in `tests/run kernel`"
    )
    config.addinivalue_line("markers", "other_kernel: runs in the virtual machine too, on the kernel of a distribution")
    config.addinivalue_line(
        "markers", "this_machine(why): not in the virtual machine, which lacks what it names; `tests/run kernel` has it"
    )


class Answer(dict):
    """A flow's result, with ``seconds`` alongside it."""

    seconds = 0.0


class FlowFailed(Exception):
    """The flow raised; ``kind`` is its error's class, ``package`` what is missing, ``fields`` what a module adds to its failure."""

    def __init__(self, answer):
        self.fields = answer.get("fields")
        self.kind, self.package = answer["kind"], answer["package"]
        super().__init__(answer["error"])


_WARM = []


def flow_environment():
    return dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))


def warm_answer(question):
    """Ask the warm process, one for the whole session; it ends with its standard input."""
    if not _WARM:
        words = [
            sys.executable,
            "-B",
            str(pathlib.Path(__file__).with_name("zygote.py")),
            MODULE_UTILS + "_flows.node.",
        ]
        _WARM.append(
            subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=flow_environment()
            )
        )
    _WARM[0].stdin.write(json.dumps(question) + "\n")
    return json.loads(_WARM[0].stdout.readline())


class Node:
    """A process that sleeps in fresh namespaces, with an empty /run, and what is run alongside it.

    user_namespace: one of these, too, which has limits of its own.
    """

    def __init__(self, user_namespace=False):
        # a node of Kubernetes forwards
        forwards = " && ".join(
            "echo 1 >/proc/sys/net/" + name for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding")
        )
        script = f"mount -t tmpfs tmpfs /run && mkdir /run/wireguard && ip link set lo up && {forwards} && echo ready && exec sleep 3600"
        self._sleeper = subprocess.Popen(
            [
                "unshare",
                *(["-r"] if user_namespace else []),
                "-n",
                "-m",
                "--propagation",
                "private",
                "sh",
                "-c",
                script,
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._entered = ["-U", "-n", "-m"] if user_namespace else ["-n", "-m"]
        assert self._sleeper.stdout.readline() == "ready\n"
        self.pid = self._sleeper.pid

    def command(self, *words):
        """The words of a command that runs in this node."""
        return ["nsenter", "-t", str(self.pid), *self._entered, *words]

    def run(self, *words, check=True, stdin=None):
        """Run a command, return its output."""
        done = subprocess.run(
            self.command(*words), input=stdin, capture_output=True, text=True, check=False, timeout=TIMEOUT
        )
        assert not check or done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def flow(self, name, *arguments):
        """Run a flow (of nodes, or "room.name") in a process of its own. Output goes through pipes: a daemon that kept them would hang us here."""
        question = {
            "flow": MODULE_UTILS + ("_flows." if "." in name else "_flows.node.") + name,
            "arguments": arguments,
        }
        answer = warm_answer(dict(question, pid=self.pid)) if SLOW > 1 else self._fresh_answer(question)
        if "error" in answer:
            raise FlowFailed(answer)
        result = Answer(answer["result"])
        result.seconds = answer["seconds"]
        return result

    def _fresh_answer(self, question):
        done = subprocess.run(
            self.command(sys.executable, "-B", "-c", DRIVER),
            input=json.dumps(question),
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
            env=flow_environment(),
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def end_processes(self):
        """End whatever else runs in our network namespace, by its process id."""
        namespace = pathlib.Path(f"/proc/{self.pid}/ns/net").readlink()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (process / "ns/net").readlink() == namespace and int(process.name) != self.pid:
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue

    def close(self):
        """End everything in it, and so the node."""
        self.end_processes()
        self._sleeper.kill()
        self._sleeper.wait()
        self._sleeper.stdout.close()


@pytest.fixture(name="new_node")
def new_node_fixture():
    """A function that makes nodes; all are gone after the test."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root and namespaces")
    nodes = []

    def new_node(**options):
        nodes.append(Node(**options))
        return nodes[-1]

    yield new_node
    for node in nodes:
        node.close()


@pytest.fixture(name="two_nodes")
def two_nodes_fixture(new_node):
    """A function that makes the nodes ``a`` and ``b`` with addresses on a veth between them, ``under`` at both ends; each has files of its own."""

    def two_nodes(addresses):
        nodes = {"a": new_node(), "b": new_node()}
        peer = ("peer", "name", "under", "netns", str(nodes["b"].pid))
        nodes["a"].run("ip", "link", "add", "under", "type", "veth", *peer)
        for name, node in nodes.items():
            for folder in ("/var/lib", "/usr/local/lib", "/etc/systemd/system"):
                node.run("mount", "-t", "tmpfs", "tmpfs", folder)
            node.run("ip", "address", "add", addresses[name] + "/24", "dev", "under")
            node.run("ip", "link", "set", "under", "addrgenmode", "none", "up")
        return nodes

    return two_nodes


@pytest.fixture(name="node")
def node_fixture(new_node):
    """One node."""
    return new_node()


def kernel_wireguard_or_skip(node):
    made = subprocess.run(
        node.command("ip", "link", "add", "wgprobe", "type", "wireguard"), capture_output=True, check=False
    )
    if made.returncode:
        reason = (
            "THIS KERNEL HAS NO WIREGUARD: its back end is NOT tested here, only its messages are; see make kernel-vm"
        )
        warnings.warn(reason, stacklevel=2)
        pytest.skip(reason)
    node.run("ip", "link", "del", "wgprobe")


@pytest.fixture(name="room", scope="session", autouse=True)
def room_fixture():
    """A device of wireguard-go holds what comes while other tests take the processors: with the kernel's default it loses packets after a pause of 0.3 s."""
    with roomy_sockets():
        yield


@pytest.fixture(name="packets_before_others")
def packets_before_others_fixture():
    """A function of nodes; the block that it begins has their wireguard-go run before other processes."""
    return lambda *nodes: packets_first(lambda: processes_alongside([node.pid for node in nodes], wireguard_go))


@pytest.fixture(name="need_kernel_wireguard")
def need_kernel_wireguard_fixture():
    return kernel_wireguard_or_skip


@pytest.fixture(name="implementation", params=["userspace", pytest.param("kernel", marks=pytest.mark.kernel_wireguard)])
def implementation_fixture(request, node):
    """Both back ends, where this machine has them; the contract is one."""
    if request.param == "kernel":
        kernel_wireguard_or_skip(node)
    elif not shutil.which("wireguard-go"):
        pytest.skip("wireguard-go is not installed")
    return request.param


def wait_for(condition, seconds=60.0):
    """Poll until the condition holds; its last value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.02)


@pytest.fixture(name="wait_for")
def wait_for_fixture():
    return wait_for


@pytest.fixture(name="flow_failed")
def flow_failed_fixture():
    return FlowFailed
