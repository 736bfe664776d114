# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What needs the library kubernetes and what does not, against a real API server, in a Python that has it and in one that has not (decision 67)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

#: Blocks the library if its argument is so, then lists nodes.
PROGRAM = """
import json, sys
given = json.load(sys.stdin)
if not given["with"]:
    sys.modules["kubernetes"] = None
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import KubeError
try:
    print(json.dumps({"nodes": len(Client(parse_access(given["access"])).list("/api/v1/nodes").items)}))
except KubeError as error:
    print(json.dumps({"error": str(error)}))
assert ("kubernetes" in sys.modules and sys.modules["kubernetes"] is not None) == given["imported"], "imported without need, or not at all"
"""


def asked(access, library, imported):
    """What the program prints in a process of its own."""
    given = json.dumps({"access": access, "with": library, "imported": imported})
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def by_program(server, tmp_path):
    """Access by a kubeconfig with a program that prints the token."""
    config = server.kubeconfig()
    version = "client.authentication.k8s.io/v1beta1"
    token = config["users"][0]["user"].pop("token")
    (tmp_path / "printed").write_text(
        json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": {"token": token}})
    )
    config["users"][0]["user"]["exec"] = {
        "apiVersion": version,
        "command": "cat",
        "args": [str(tmp_path / "printed")],
        "interactiveMode": "Never",
    }
    return {"name": "aws", "kubeconfig": config, "allow": ["exec"]}


@pytest.mark.parametrize("library", [True, False], ids=["with", "without"])
def test_a_token_needs_no_library(server, library):
    assert "nodes" in asked(server.access(), library, False)
    assert "nodes" in asked({"name": "aws", "kubeconfig": server.kubeconfig()}, library, False)


def test_a_program_needs_it_and_the_message_names_it(by_program):
    assert "nodes" in asked(by_program, True, True)
    assert "the Python library kubernetes is missing" in asked(by_program, False, False)["error"]
