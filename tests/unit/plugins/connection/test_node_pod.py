# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection node_pod over a double of an API server that runs commands on this machine, and misbehaves where a test asks for it (threat T50)."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader
from ansible_collections.multicluster.network.plugins.module_utils._plan.node_pod_manifests import node_pod_manifests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "module_utils" / "_kubernetes"))
from websocket_server import WebSocketServer, failure  # pylint: disable=wrong-import-position

SUCCESS = b'{"status": "Success"}'


def pod(node="n1", uid="u1", name="pod-1", **spec):
    written = node_pod_manifests("demo", "example.com/node-pod:1")[1]["spec"]["template"]["spec"]
    return {
        "metadata": {"name": name, "uid": uid, "labels": {"multicluster.network/node-pods": "demo"}},
        "spec": {**written, "nodeName": node, **spec},
        "status": {"containerStatuses": [{"name": "node", "state": {"running": {}}}]},
    }


def runs(node="n1", uid="u1", lose=0):
    """What a pod does: the command, with what it knows of itself. lose: bytes of the output that never arrive."""

    def act(peer, query):
        environment = {"PATH": os.environ["PATH"], "MULTICLUSTER_NODE": node, "MULTICLUSTER_POD_UID": uid}
        done = subprocess.Popen(query["command"], env=environment, stdin=-1, stdout=-1, stderr=-1, bufsize=0)
        first = done.stdout.readline()
        if first:
            peer.channel(1, first)
        data = peer.input(int(query["command"][7])) if "stdin" in query and first else b""
        out, errors = done.communicate(data)
        for number, text in ((1, out[: len(out) - lose]), (2, errors)):
            for begin in range(0, len(text), 32768):
                peer.channel(number, text[begin : begin + 32768])
        peer.end(failure(done.returncode) if done.returncode else SUCCESS)

    return act


@pytest.fixture
def connect(tmp_path):
    made = []

    def start(act=None, pods=None, **options):
        server = WebSocketServer(tmp_path, act or runs(), pods=[pod()] if pods is None else pods)
        made.append(server)
        connection = connection_loader.get("multicluster.network.node_pod", PlayContext())
        given = {
            "multicluster_cluster": "aws",
            "multicluster_fabric_clusters": {"aws": server.access},
            "multicluster_fabric": "demo",
            "inventory_hostname": "n1",
            "ansible_node_pod_wait": 0,
            "ansible_node_pod_timeout": 5,
        }
        connection.set_options(var_options={**given, **options})
        connection.server = server
        return connection

    yield start
    for server in made:
        server.close()


def test_commands_and_their_exit_codes(connect):
    connection = connect()
    assert connection.exec_command("echo out; echo err >&2; exit 4") == (4, b"out\n", b"err\n")
    assert connection.exec_command("cat", in_data=b"\0\xff" * 100000) == (0, b"\0\xff" * 100000, b"")
    lists = [query for path, query, _headers in connection.server.requests if path.endswith("/pods")]
    assert len(lists) == 1, "the pod is looked for once"
    assert lists[0]["fieldSelector"] == ["spec.nodeName=n1"]
    assert lists[0]["labelSelector"] == ["multicluster.network/node-pods=demo"]


def test_files_both_ways(connect, tmp_path):
    data = os.urandom(300001)
    (tmp_path / "source").write_bytes(data)
    connection = connect()
    connection.put_file(str(tmp_path / "source"), str(tmp_path / "it's there"))
    assert (tmp_path / "it's there").read_bytes() == data
    connection.fetch_file(str(tmp_path / "it's there"), str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data


def test_a_file_that_cannot_be_written_or_read(connect, tmp_path):
    (tmp_path / "source").write_bytes(b"x")
    with pytest.raises(AnsibleConnectionFailure, match="cannot write"):
        connect().put_file(str(tmp_path / "source"), str(tmp_path / "none" / "x"))
    with pytest.raises(AnsibleConnectionFailure, match="cannot read"):
        connect().fetch_file(str(tmp_path / "none"), str(tmp_path / "y"))


def test_a_file_that_arrives_in_part(connect, tmp_path):
    (tmp_path / "source").write_bytes(b"x" * 1000)
    with pytest.raises(AnsibleConnectionFailure, match="990 bytes .* instead of 1000"):
        connect(runs(lose=10)).fetch_file(str(tmp_path / "source"), str(tmp_path / "y"))


@pytest.mark.parametrize("lie", [{"node": "n2"}, {"uid": "u2"}])
def test_exec_that_another_pod_answers(connect, lie, tmp_path):
    with pytest.raises(AnsibleConnectionFailure, match="not_the_node"):
        connect(runs(**lie)).exec_command(f"touch {tmp_path}/ran")
    assert not (tmp_path / "ran").exists()


def test_a_list_with_a_pod_of_another_node(connect):
    with pytest.raises(AnsibleConnectionFailure, match="not_the_node"):
        connect(pods=[pod(node="n2")]).exec_command("true")


def commands(connection):
    """How often the server was asked to run something."""
    return sum(path.endswith("/exec") for path, _query, _headers in connection.server.requests)


def test_a_pod_with_a_sidecar_gets_nothing(connect):
    """Threat T50: by kubectl debug, a webhook, or a pod with our label that somebody else made."""
    spy = {"name": "spy", "image": "evil.example.com/x:1"}
    connection = connect(pods=[pod(), pod(uid="u2", name="pod-2", ephemeralContainers=[spy])])
    with pytest.raises(AnsibleConnectionFailure, match="pod-2.*ephemeralContainers 'spy'.*node_pod_edited"):
        connection.exec_command("cat", in_data=b"secret")
    assert commands(connection) == 0


def test_a_pod_of_another_image_gets_nothing(connect):
    """Threat T50: and it is waited for, since the DaemonSet may be about to replace it."""
    connection = connect(node_access_image="example.com/node-pod:2")
    with pytest.raises(AnsibleConnectionFailure, match="node-pod:1.*node-pod:2.*node_access_image.*no_node_pod"):
        connection.exec_command("true")
    assert commands(connection) == 0
    assert connect(node_access_image="example.com/node-pod:1").exec_command("true")[0] == 0


def test_a_node_with_another_machine_id(connect, tmp_path):
    """Threat T54: a machine under the name of another."""
    with pytest.raises(AnsibleConnectionFailure, match="node_machine_id"):
        connect(node_machine_id="0" * 32).exec_command(f"touch {tmp_path}/ran")
    assert not (tmp_path / "ran").exists()


def test_a_connection_that_breaks_off_is_a_lost_host(connect):
    def act(peer, query):
        peer.channel(1, b'multicluster node pod\n{"changed": false}')
        peer.stream.close()

    with pytest.raises(AnsibleConnectionFailure, match="unreachable"):
        connect(act).exec_command("true")


def test_another_pod_gets_no_input(connect):
    """Modules carry secrets: nothing of them is sent before the pod has proven which one it is."""

    def act(peer, query):
        peer.channel(2, b"multicluster node pod: not the one that was asked for: n2\n")
        time.sleep(0.3)  # for what would come
        peer.end(failure(213))
        with contextlib.suppress(EOFError, OSError):
            while True:
                received.append(peer.receive()[0])
        ended.set()

    received, ended = [], threading.Event()
    connection = connect(act)
    with pytest.raises(AnsibleConnectionFailure, match="not_the_node"):
        connection.exec_command("cat", in_data=b"secret" * 100000)
    assert ended.wait(20) and 2 not in received


def test_output_that_begins_otherwise(connect):
    def act(peer, query):
        peer.channel(1, b"multicluster mode pod\nall is well")
        peer.end()

    with pytest.raises(AnsibleConnectionFailure, match="does not begin as that of a node pod"):
        connect(act).exec_command("true")


def test_output_is_bounded(connect):
    def act(peer, query):
        peer.channel(1, b"multicluster node pod\n")
        while True:
            peer.channel(1, b"x" * 65536)

    with pytest.raises(AnsibleConnectionFailure, match="ansible_node_pod_output_mib"):
        connect(act, ansible_node_pod_output_mib=1).exec_command("true")


def test_no_pod_names_what_makes_one(connect):
    with pytest.raises(AnsibleConnectionFailure, match="node_access .*no_node_pod"):
        connect(pods=[]).exec_command("true")


def test_no_access_names_the_variables(connect):
    with pytest.raises(AnsibleConnectionFailure, match="multicluster_fabric_clusters .*ansible_node_pod_access"):
        connect(multicluster_fabric_clusters={}).exec_command("true")


def test_a_refused_access_is_a_lost_host_with_its_reason(connect):
    with pytest.raises(AnsibleConnectionFailure, match="remote_access_incomplete"):
        connect(multicluster_fabric_clusters={"aws": {"token": "x"}}).exec_command("true")


def test_access_of_a_host_that_is_a_cluster(connect):
    connection = connect()
    assert connect(multicluster_fabric_clusters={}, ansible_node_pod_access=connection.server.access).exec_command(
        "echo yes"
    ) == (0, b"yes\n", b"")
