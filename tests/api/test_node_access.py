# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of node pods on a real API server: made, left alone, put back after an edit, and removed (threat T50)."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects

NAME = "multicluster-node-pods-t"
DAEMON_SET = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{NAME}"


def run(server, state="present", check=False, namespace="kube-system"):
    """In a namespace that is there: nothing here would end one that is removed."""
    pods = {"image": "example.com/node-pod:1", "namespace": namespace}
    request = {"fabric": "pods-t", "clusters": [server.access()], "node_pods": pods, "state": state}
    result = cluster_objects.run(request, check=check)
    assert not result["refused"]
    return result


@pytest.fixture
def pods(server):
    result = run(server)
    assert result["plan"]["create"] == 1 and not result["failures"]
    yield server.client()
    server.client().delete(DAEMON_SET)


def test_a_namespace_of_their_own(server):
    changes = run(server, check=True, namespace="")["plan"]["changes"]
    assert [(row["kind"], row["id"]) for row in changes] == [
        ("Namespace", f"aws/{NAME}"),
        ("DaemonSet", f"aws/{NAME}/{NAME}"),
    ]


def test_a_second_run_writes_nothing(server, pods):
    """What the server fills in (defaults of a pod, a count) is no difference."""
    mark = server.mark()
    assert not run(server)["changed"]
    assert {row[0] for row in server.audit(mark)} <= {"get", "list"}


def test_removed_once(server, pods):
    assert run(server, "absent")["plan"]["delete"] == 1 and not run(server, "absent")["changed"]


EDITS = {
    "image": {"containers": [{"name": "node", "image": "evil.example.com/x:1"}]},
    "command": {"containers": [{"name": "node", "command": ["/bin/sh", "-c", "steal"]}]},
    "host path": {"volumes": [{"name": "state", "hostPath": {"path": "/etc"}}]},
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_a_namespace_admin_is_never_accepted(server, pods, edit):
    """The run fails and names the writer, before anything is sent to a node: its first play is this one."""
    pods.strategic_patch(DAEMON_SET, {"spec": {"template": {"spec": EDITS[edit]}}}, "kubectl-edit")
    result = run(server)
    [failure] = result["failures"]
    assert failure["reason"] == "conflict" and "kubectl-edit" in failure["message"]
