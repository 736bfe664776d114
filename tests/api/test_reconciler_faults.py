# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to the reconciler's machine, network and servers: nothing is lost, nothing is deleted wrongly, no change is missed.

After each fault both clusters hold what a run from scratch would write; that is asked of the module itself, in check mode. What must never have
been deleted is read from the destination's audit log.
"""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from faulty_server import Faulty, compact, revive
from mirror_clusters import endpoints, other, service, two  # pylint: disable=unused-import
from reconciler_process import Service
from test_reconciler import until

__all__ = ["other", "two"]
#: Minutes together; `tests/run continuous` has them.
FULL = pytest.mark.skipif(
    not os.environ.get("MCN_FULL"), reason="NOT RUN here: it takes minutes; `tests/run continuous` runs it"
)
COUNT = 12
SEED = 20261123


class Wire:
    """A piece of network in front of a server: ``mode`` passes, drops what comes without an answer (unreachable), or breaks (cut)."""

    def __init__(self, server):
        self._to = int(server.url.rpartition(":")[2])
        self.mode, self._open, self._lock = "pass", set(), threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, mode):
        self.mode = mode
        if mode == "cut":
            with self._lock:
                for end in self._open:
                    end.close()
                self._open.clear()

    def close(self):
        self.set("cut")
        self._listener.close()

    def _accept(self):
        while True:
            try:
                near, unused = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near):
        far = None
        try:
            while self.mode == "unreachable":
                time.sleep(0.05)
            if self.mode == "cut":
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            with self._lock:
                self._open.update((near, far))
            while True:
                ready = select.select((near, far), (), (), 0.1)[0]
                while self.mode == "unreachable":
                    time.sleep(0.05)  # what is on its way comes later, as TCP sends it again
                for end in ready:
                    data = end.recv(65536)
                    if not data:
                        return
                    (far if end is near else near).sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            for end in (near, far):
                if end is not None:
                    end.close()


class Fabric:
    """Two clusters with a dozen mirrored Services, the network in front of both, and the service that keeps them."""

    def __init__(self, two, folder):
        self.two, self.random = two, random.Random(SEED)
        self.wires = {name: Wire(server) for name, server in two.servers.items()}
        self.desired = {number: self.pods() for number in range(COUNT)}
        for number, ips in self.desired.items():
            two.put("aws", service("shop", f"s{number}"), endpoints("shop", f"s{number}", *ips))
        self.service = Service(two.servers, folder)
        self.write()
        self.begun = two.mark()["gcp"]

    def write(self, **more):
        urls = {name: wire.url for name, wire in self.wires.items()}
        # labels go from Services of the only exporting cluster here, which the limit would hold
        self.service.write(urls=urls, service_mirror_timeout=5, service_mirror_max_lost_pairs=-1, **more)

    def pods(self):
        return [f"10.2.{self.random.randrange(250)}.{self.random.randrange(1, 250)}" for unused in range(3)]

    def change(self):
        """A random change of the source, behind the reconciler's network."""
        number = self.random.randrange(COUNT)
        name = f"s{number}"
        what = self.random.random()
        if what < 0.7 or len(self.desired) < COUNT - 3:
            self.desired[number] = self.pods()
            self.two.put("aws", service("shop", name), endpoints("shop", name, *self.desired[number]))
        elif number in self.desired and what < 0.85:
            del self.desired[number]
            self.two.put("aws", service("shop", name, labels={"mirror.semaphore.uw.io/mirror-service": "no"}))
        elif number in self.desired:
            del self.desired[number]
            self.two.drop("aws", "Service", "shop", name)

    def mirrors(self):
        found = {}
        for obj in self.two.clients["gcp"].list("/api/v1/namespaces/sys-semaphore/endpoints").items:
            found[obj["metadata"]["name"]] = sorted(
                row["ip"] for subset in obj.get("subsets") or () for row in subset["addresses"]
            )
        return found

    def services(self):
        return set(self.two.names("gcp", "Service"))

    def expected(self):
        return {f"aws-shop-73736d-s{number}": sorted(ips) for number, ips in self.desired.items()}

    def settles(self, seconds=60.0):
        """The destination gets to what the source is, and a run from scratch has nothing to add."""
        try:
            until(lambda: self.mirrors() == self.expected() and self.services() == set(self.expected()), seconds)
        except AssertionError:
            raise AssertionError(
                f"{self.mirrors()}\nand not {self.expected()}\n{self.service.lines()[-6000:]}"
            ) from None
        result = self.two.run(mirror_as="endpoints", check=True)
        assert (result["plan"]["changes"], result["failures"]) == ([], [])

    def deleted(self):
        """Objects of mirrors that somebody deleted since the beginning."""
        return [
            row[1]
            for row in self.two.servers["gcp"].audit(self.begun)
            if row[0] == "delete" and "/leases/" not in row[1] and row[2] == 200
        ]


@pytest.fixture
def fabric(two, tmp_path):
    made = Fabric(two, tmp_path)
    made.service.start()
    made.service.reported("READY=1")
    made.settles()
    yield made
    for server in two.servers.values():
        revive(server)
    made.service.end(signal.SIGKILL)
    for wire in made.wires.values():
        wire.close()
    for client in two.clients.values():
        client.delete("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/multicluster-reconciler-t")


@pytest.mark.parametrize(
    "fault, cluster",
    [
        ("killed", "aws"),
        pytest.param("killed", "gcp", marks=FULL),
        pytest.param("stalled", "aws", marks=FULL),
        ("stalled", "gcp"),
        ("cut", "aws"),
        pytest.param("cut", "gcp", marks=FULL),
    ],
)
def test_a_server_or_its_network_that_fails(fabric, cluster, fault):
    before = set(fabric.mirrors())
    if fault == "killed":
        process = fabric.two.servers[cluster].processes[-1]
        process.kill()
        process.wait(10)
    else:
        fabric.wires[cluster].set({"stalled": "unreachable", "cut": "cut"}[fault])
    kept = cluster == "gcp" and fault == "killed"  # then nobody can be asked
    for unused in range(10):
        if cluster == "gcp" or fault != "killed":
            fabric.change()
        time.sleep(0.3)
    assert kept or cluster != "aws" or set(fabric.mirrors()) == before, (
        "the state of a source that is away is not known"
    )
    revive(fabric.two.servers[cluster])
    fabric.wires[cluster].set("pass")
    fabric.settles()


@FULL
def test_a_network_that_is_away_for_a_minute(fabric):
    fabric.wires["aws"].set("unreachable")
    end = time.monotonic() + 60
    while time.monotonic() < end:
        fabric.change()
        time.sleep(1)
    assert fabric.deleted() == []
    fabric.wires["aws"].set("pass")
    fabric.settles()


@pytest.mark.takes_long
def test_a_history_that_the_server_forgot(fabric):
    fabric.wires["aws"].set("cut")
    for unused in range(5):
        fabric.change()
    server = fabric.two.servers["aws"]
    compact(server, int(server.client().list("/api/v1/nodes").resource_version))
    for unused in range(5):
        fabric.change()
    server.processes[-1].kill()  # its own memory of what happened goes with it
    server.processes[-1].wait(10)
    revive(server)
    fabric.wires["aws"].set("pass")
    fabric.settles()
    assert 'code="410"' in fabric.service.page("/metrics")[1]


@pytest.mark.parametrize("points", [4, pytest.param(30, marks=FULL)])
def test_kill_9_at_many_points(fabric, points):
    for number in range(points):
        for unused in range(fabric.random.randrange(1, 4)):
            fabric.change()
        time.sleep(fabric.random.random() * 0.3 if number % 3 else fabric.random.random() * 4)
        fabric.service.end(signal.SIGKILL)
        fabric.change()
        fabric.service.start()
    fabric.service.reported("READY=1")
    fabric.settles()


#: Another wall clock for one process: it differs from the machine's by what a file has. The machine's own is everybody's.
CLOCK = """
import time
_real = time.time
def _shifted():
    try:
        with open({path!r}) as source:
            return _real() + float(source.read() or 0)
    except (OSError, ValueError):
        return _real()
time.time = _shifted
"""


@pytest.mark.takes_long
def test_a_clock_that_jumps(fabric, tmp_path):
    fabric.service.end()
    shift = tmp_path / "shift"
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(CLOCK.format(path=str(shift)), "utf-8")
    fabric.service.environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "clock"), os.environ["PYTHONPATH"]])}
    shift.write_text("86400", "utf-8")
    asked = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time())"],
        env=dict(os.environ, **fabric.service.environment),
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(asked.stdout) > time.time() + 80000, "the process has that clock"
    fabric.service.start()
    fabric.service.reported("READY=1")
    for seconds in (86400, -86400, 40 * 365 * 86400, 0):
        shift.write_text(str(seconds), "utf-8")
        for unused in range(4):
            fabric.change()
            time.sleep(0.2)
        fabric.settles()
    assert "event=lost" not in fabric.service.lines()


def test_requests_that_are_refused_for_a_while(fabric):
    """429 and 500 for some of the writes, from a server that is asked through a relay."""
    faults = {**dict.fromkeys(range(4, 12), 429), **dict.fromkeys(range(14, 24), 500), 26: "cut", 28: "cut"}
    with Faulty(fabric.two.servers["gcp"], faults) as relay:
        fabric.service.write(urls={"aws": fabric.wires["aws"].url, "gcp": relay.url}, service_mirror_timeout=5)
        until(lambda: fabric.service.lines().count("event=used") == 2, 60)
        for unused in range(30):
            fabric.change()
            time.sleep(0.1)
        fabric.settles(90)
        assert relay.met >= 20 and 'code="429"' in fabric.service.page("/metrics")[1]


@pytest.mark.takes_long
def test_two_reconcilers_and_changes_all_the_time(fabric, tmp_path):
    second = Service(fabric.two.servers, tmp_path, "two").start()
    try:
        second.reported("READY=1")
        for number in range(40):
            fabric.change()
            if number == 15:
                fabric.service.end(signal.SIGKILL)
            time.sleep(0.1)
        fabric.settles()
        assert "event=wrote" in second.lines()
        fabric.service.start()
        fabric.service.reported("READY=1")
        second.end()
        for unused in range(5):
            fabric.change()
        fabric.settles()
    finally:
        if second.process.poll() is None:
            second.end(signal.SIGKILL)
