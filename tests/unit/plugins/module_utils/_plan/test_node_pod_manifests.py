# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DaemonSet of node pods, the choice of a pod, and the shell line by which a pod proves which one it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import node_pod
from ansible_collections.multicluster.network.plugins.module_utils._plan import node_pod_manifests as pods
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def test_the_objects():
    namespace, daemon_set = pods.node_pod_manifests("demo", "example.com/python:3.12")
    assert namespace["metadata"]["name"] == daemon_set["metadata"]["namespace"] == "multicluster-node-demo"
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    spec = daemon_set["spec"]["template"]["spec"]
    assert spec["hostNetwork"] and spec["hostPID"] and spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["priorityClassName"] == "system-node-critical" and spec["automountServiceAccountToken"] is False
    assert {volume["hostPath"]["path"] for volume in spec["volumes"]} == {
        "/var/lib/multicluster-network",
        "/var/lib/semaphore-wireguard",
    }
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "100m", "memory": "50Mi"}}


def test_a_namespace_of_the_user_is_not_made():
    (daemon_set,) = pods.node_pod_manifests("demo", "image", namespace="kube-system")
    assert daemon_set["metadata"]["namespace"] == "kube-system"


def test_nothing_in_them_changes_with_a_release_or_is_secret():
    """The digest is that of the first release that had them: another text would restart the pods of every user."""
    import hashlib

    text = json.dumps(pods.node_pod_manifests("demo", "image")[1]["spec"]["template"]["spec"], sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "7e3a24f07ead03c7"
    assert [
        entry["name"]
        for entry in pods.node_pod_manifests("demo", "i")[1]["spec"]["template"]["spec"]["containers"][0]["env"]
    ] == [
        node_pod.VARIABLE,
        pods.NODE_VARIABLE,
        pods.UID_VARIABLE,
    ]
    assert node_pod.VARIABLE == pods.FABRIC_VARIABLE


@pytest.mark.parametrize("fabric", ["Big", "a_b", "x" * 46, "", "a/b"])
def test_fabrics_with_a_name_that_no_object_can_have(fabric):
    with pytest.raises(ValueRefused, match="multicluster_fabric"):
        pods.node_pod_manifests(fabric, "image")


def test_an_image_is_asked_for():
    with pytest.raises(ValueRefused, match="node_access_image"):
        pods.node_pod_manifests("demo", "")


def shell(words, data=b"", **environment):
    """How it ended, without the proof that begins the output of the right pod."""
    done = subprocess.run(
        words, input=data, env={"PATH": os.environ["PATH"], **environment}, capture_output=True, check=False
    )
    assert done.stdout.startswith(pods.PROOF) != (done.returncode == pods.OTHER_POD and not done.stdout)
    done.stdout = done.stdout.removeprefix(pods.PROOF)
    return done


RIGHT = {pods.UID_VARIABLE: "u1", pods.NODE_VARIABLE: "n1"}
POD = pods.NodePod("a", "u1", "n1")


def test_a_command_line_is_run_as_it_is():
    command = "printf '%s|' \"$0\" 'a  b' \"it's\"; cat; exit 3"
    done = shell(pods.command_words(POD, command, None), b"", **RIGHT)
    assert (done.returncode, done.stdout) == (3, b"/bin/sh|a  b|it's|")


def test_input_ends_after_its_length():
    """It is never closed."""
    done = shell(pods.command_words(POD, "cat; exit 5", 4), b"abcdefgh", **RIGHT)
    assert (done.returncode, done.stdout) == (5, b"abcd")
    assert shell(pods.command_words(POD, "cat", 0), b"abc", **RIGHT).stdout == b""


def test_input_that_a_command_leaves_is_read_all_the_same():
    """Else the server would lose what the kubelet has still to report, see exec_stream."""
    reader, writer = os.pipe()
    words = pods.command_words(POD, "echo out; exit 9", 300_000)
    environment = {"PATH": os.environ["PATH"], **RIGHT}
    with os.fdopen(writer, "wb") as feed:
        process = subprocess.Popen(words, stdin=reader, stdout=subprocess.PIPE, env=environment)
        os.close(reader)
        assert [process.stdout.readline() for _line in range(2)] == [pods.PROOF, b"out\n"]
        feed.write(b"x" * 299_999)  # no broken pipe
        feed.flush()
        assert process.poll() is None
        feed.write(b"x")
        feed.flush()
        assert process.wait(20) == 9
    process.stdout.close()


@pytest.mark.parametrize("other", [{pods.UID_VARIABLE: "u2"}, {pods.NODE_VARIABLE: "n2"}, {pods.NODE_VARIABLE: ""}])
def test_another_pod_runs_nothing(other, tmp_path):
    """Threat T50: the server answers exec with another pod."""
    done = shell(pods.command_words(POD, f"touch {tmp_path}/ran", None), **{**RIGHT, **other})
    assert done.returncode == pods.OTHER_POD and not (tmp_path / "ran").exists()


def test_a_command_with_the_same_exit_code_is_no_other_pod():
    done = shell(pods.command_words(POD, "exit 213", None), **RIGHT)
    assert done.returncode == pods.OTHER_POD


def test_the_container_starts_what_the_play_has_brought(tmp_path):
    """Without ``boot`` where the program came after the container: a change may be waiting for its confirmation."""
    loop = pods.node_pod_manifests("demo", "image")[1]["spec"]["template"]["spec"]["containers"][0]["command"][2]
    loop = loop.replace("/var/lib/multicluster-network/", f"{tmp_path}/")
    loop = loop.replace("\nwhile True", "\nprint('begun', flush=True)\nwhile True")
    program = "import sys; print(sys.argv[1:], flush=True)"
    (tmp_path / "demo").mkdir()
    seen = []
    for before in (True, False):
        agent = tmp_path / "demo" / "agent"
        agent.unlink(missing_ok=True)
        if before:
            agent.write_text(program)
        process = subprocess.Popen([sys.executable, "-c", loop, "demo"], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "begun\n"
        if not before:
            agent.write_text(program)
        seen.append([process.stdout.readline().strip() for _line in range(2)])
        process.kill()
        process.communicate()
    assert seen == [["['pod', 'demo', 'boot']", "['pod', 'demo']"], ["['pod', 'demo']"] * 2]
