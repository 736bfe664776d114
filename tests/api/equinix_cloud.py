# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The double of Equinix Metal's API for tests: its process, and what a run against it is asked."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
import urllib.request

import pytest

DOUBLE = pathlib.Path(__file__).resolve().parents[1] / "doubles" / "equinix_metal" / "server.py"
PROJECT, TOKEN = "0d9f3c5e-5a3c-4d1e-9d5a-4f6d2f3b8a11", "token-of-the-double"
CRDS = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "crds" / "metallb.yml"
CONFIGMAPS = "/api/v1/namespaces/kube-system/configmaps"


class Double:
    """The running double."""

    def __init__(self, folder):
        port = folder / "port"
        self.process = subprocess.Popen([sys.executable, str(DOUBLE), str(port)], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not port.exists():
            assert time.monotonic() < deadline and self.process.poll() is None
            time.sleep(0.05)
        self.root = "http://127.0.0.1:" + port.read_text()

    def ask(self, route, **body):
        request = urllib.request.Request(
            self.root + "/_double" + route,
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read())

    def calls(self):
        return ["{method} {path}".format(**row) for row in self.ask("/log")]

    def held(self):
        return self.ask("/state")["reservations"]

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    one = Double(tmp_path_factory.mktemp("double"))
    yield one
    one.stop()


def request_for(server, double, more=None, **settings):
    given = dict(
        {
            "cluster": "aws",
            "provider": "equinix_metal",
            "load_balancer": "kube-vip://",
            "base_url": double.root + "/metal/v1",
            "allow_plain_http": True,
            "api_key": TOKEN,
            "project_id": PROJECT,
            "metro": "da",
            "gc_orphans": True,
        },
        **settings,
    )
    return dict({"fabric": "t", "clusters": [server.access()], "settings": [given], "timeout": 60}, **(more or {}))


def reasons(result):
    return {(one["object"], one["reason"]) for one in result["refused"]} | {
        (one["cluster"], one["reason"]) for one in result["failures"]
    }


def uid(client):
    return client.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
