# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client in a loop, through kube-proxy and the tunnel, while its mirror is taken over from upstream, changes, and goes back: none fails."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess

import pytest
import yaml
from harness import LAB, Fabric
from program import Program
from service_lab import make_fluentd, pods_serve, until
from test_service_mirror import NAME, configuration

MIRROR, NAMESPACE = "aws-sys-log-73736d-fluentd", "sys-semaphore"
THEIRS = {
    "service_mirror_as": "endpoints",
    "service_mirror_endpoint_fields": "all",
    "service_mirror_destinations": ["gcp"],
}
#: Asks until it is asked to stop; prints how many answers came and how many did not.
CLIENT = """
import signal, sys, urllib.request
stop = []
signal.signal(signal.SIGTERM, lambda *unused: stop.append(1))
good = bad = 0
while not stop:
    try:
        good += urllib.request.urlopen(sys.argv[1], timeout=10).status == 200
    except OSError as error:
        bad += 1
        print("failed:", error, flush=True)
print(good, bad, flush=True)
"""


class Plane:
    """A cluster of the lab, as a program of others needs it."""

    def __init__(self, fabric, name):
        self.text = (fabric.state / name / "kubeconfig").read_text()
        self.port = int(yaml.safe_load(self.text)["clusters"][0]["cluster"]["server"].rpartition(":")[2])

    def audit(self, *unused):
        """Its requests are not waited for here."""
        return []

    def kubeconfig(self, user):
        del user
        return yaml.safe_load(self.text)


@pytest.fixture(scope="module")
def fabric(original):
    original(NAME)
    made = Fabric(os.environ.get("MCN_LAB_PREFIX", "") + "loop")
    made.lab("down")
    made.lab("up", "--topology", made.topology)
    made.ran("lab up")
    try:
        made.play("mesh").ok()
        with pods_serve(made):
            yield made
    finally:
        made.lab("down")


@contextlib.contextmanager
def asking(fabric, address):
    """A client in a pod of gcp meanwhile; yields a list that then has (answers, failures)."""
    words = [
        "/usr/bin/python3",
        str(LAB),
        "pod-exec",
        "--name",
        fabric.name,
        "gcp-node-1-pod-1",
        "--",
        "/usr/bin/python3",
        "-c",
        CLIENT,
        address,
    ]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    found = []
    try:
        yield found
    finally:
        os.killpg(process.pid, 15)
        said = process.communicate(timeout=60)[0]
        fabric.ran("client: " + said.strip()[-300:])
        found.append(tuple(map(int, said.strip().splitlines()[-1].split())))


def test_none_fails(fabric, original, tmp_path):
    make_fluentd(fabric)
    fabric.kubectl("gcp", "create", "namespace", NAMESPACE)
    program = Program(original(NAME), tmp_path, {name: Plane(fabric, name) for name in ("aws", "gcp")})
    configured = program.write("config.json", configuration(program, False))

    def start():
        program.start("-config", configured, "-kube-config", program.kubeconfig("gcp"))

    def there(kind):
        return fabric.kubectl("gcp", "-n", NAMESPACE, "get", kind, MIRROR, "--ignore-not-found", "-o", "name")

    try:
        start()
        until(lambda: there("service") and there("endpoints"))
        program.stop()
        address = f"http://{json.loads(fabric.kubectl('gcp', '-n', NAMESPACE, 'get', 'service', MIRROR, '-o', 'json'))['spec']['clusterIP']}:8888/"
        until(
            lambda: (
                "fluentd"
                in fabric.lab(
                    "pod-exec", "gcp-node-1-pod-1", "--", "curl", "-s", "-m", "5", address, check=False
                ).stdout
            )
        )
        with asking(fabric, address) as found:
            fabric.play("service_mirror", variables=dict(THEIRS, service_mirror_adopt=True)).ok()
            assert not fabric.play("service_mirror", variables=THEIRS).ok().changed
            fabric.play("service_mirror", variables=dict(THEIRS, service_mirror_state="released")).ok()
            start()
            until(lambda: program.log.read_text().count("updating endpoints"), 120)
    finally:
        program.stop()
    (good, bad), *dummy = found
    assert good > 50 and bad == 0, found
