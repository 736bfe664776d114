# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of node pods on a real API server: made, left alone, put back after an edit, and removed (threat T50)."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects

NAME = "multicluster-node-pods-t"
DAEMON_SET = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{NAME}"


def run(server, state="present", check=False, adopt=False, **options):
    """In a namespace that is there: nothing here would end one that is removed."""
    pods = {"image": "example.com/node-pod:1", "namespace": "kube-system", **options}
    request = {"fabric": "pods-t", "clusters": [server.access()], "node_pods": pods, "state": state, "adopt": adopt}
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


def containers(**changes):
    return {"containers": [{"name": "node", **changes}]}


#: What a namespace admin may write, and how the refusal names it.
EDITS = {
    "sidecar": ({"containers": [{"name": "spy", "image": "evil.example.com/x:1"}]}, "container 'spy'"),
    "init": ({"initContainers": [{"name": "spy", "image": "evil.example.com/x:1"}]}, "initContainers 'spy'"),
    "command": (containers(command=["/bin/sh", "-c", "steal"]), "command"),
    "arguments": (containers(args=["x"]), "args"),
    "hook": (containers(lifecycle={"postStart": {"exec": {"command": ["steal"]}}}), "lifecycle"),
    "variable": (containers(env=[{"name": "LD_PRELOAD", "value": "/x.so"}]), "variable 'LD_PRELOAD'"),
    "other node's name": (
        containers(env=[{"name": "MULTICLUSTER_NODE", "value": "n2", "valueFrom": None}]),
        "MULTICLUSTER_NODE",
    ),
    "security context": (containers(securityContext={"privileged": False}), "securityContext"),
    "no security context": (containers(securityContext=None), "securityContext"),
    "other folder": ({"volumes": [{"name": "state", "hostPath": {"path": "/etc"}}]}, "volume 'state'"),
    "further folder": ({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}, "volume 'root'"),
    "network": ({"hostNetwork": False}, "hostNetwork"),
    "token": ({"automountServiceAccountToken": True}, "automountServiceAccountToken"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_a_namespace_admin_is_never_accepted(server, pods, edit):
    """The run fails and names the writer, before anything is sent to a node: its first play is this one. Threat T50."""
    spec, named = EDITS[edit]
    pods.strategic_patch(DAEMON_SET, {"spec": {"template": {"spec": spec}}}, "kubectl-edit")
    mark = server.mark()
    result = run(server)
    [failure] = result["failures"]
    assert failure["reason"] == "node_pod_edited" and named in failure["message"]
    assert "kubectl-edit" in failure["message"] or "no longer on record" in failure["message"]
    assert {row[0] for row in server.audit(mark)} <= {"get", "list"}


def test_another_image_is_a_conflict_that_names_its_writer(server, pods):
    pods.strategic_patch(DAEMON_SET, {"spec": {"template": {"spec": containers(image="evil:1")}}}, "kubectl-edit")
    [failure] = run(server)["failures"]
    assert failure["reason"] == "conflict" and "kubectl-edit" in failure["message"]


def test_adopt_puts_an_edit_right(server, pods):
    spec = {"containers": [{"name": "spy", "image": "x"}, {"name": "node", "securityContext": {"privileged": False}}]}
    pods.strategic_patch(DAEMON_SET, {"spec": {"template": {"spec": spec}}}, "kubectl-edit")
    assert run(server, adopt=True)["changed"]
    [container] = pods.get(DAEMON_SET)["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "node" and container["securityContext"]["privileged"] is True
    assert not run(server)["changed"]


@pytest.mark.parametrize("change", [{"image": "example.com/node-pod:2"}, {"node_selector": {"pool": "a"}}])
def test_what_the_inventory_changes_is_no_edit(server, pods, change):
    assert run(server, **change)["plan"]["update"] == 1
    assert not run(server, **change)["changed"]


def test_a_restart_by_kubectl_is_no_edit(server, pods):
    annotations = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    pods.strategic_patch(DAEMON_SET, {"spec": {"template": {"metadata": {"annotations": annotations}}}}, "kubectl")
    assert not run(server)["changed"]
