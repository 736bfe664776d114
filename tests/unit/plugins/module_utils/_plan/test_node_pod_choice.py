# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the pods that a server lists is taken, and which the role has not written as they are (threat T50)."""

from __future__ import annotations

import copy
import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan import (
    node_pod_choice as choice,
    node_pod_edits as edits,
    node_pod_manifests as pods,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

IMAGE = "example.com/node-pod:1"


def written(image=IMAGE):
    """The spec of a pod, as a server gives it back: with what it fills in."""
    spec = copy.deepcopy(pods.node_pod_manifests("demo", image)[1]["spec"]["template"]["spec"])
    [container] = spec["containers"]
    for entry in container["env"]:
        if "valueFrom" in entry:
            entry["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
    container.update(resources={"requests": {"cpu": "1"}}, imagePullPolicy="IfNotPresent", terminationMessagePath="/x")
    spec.update(restartPolicy="Always", schedulerName="default-scheduler", securityContext={}, affinity={"a": 1})
    spec["tolerations"].append({"key": "node.kubernetes.io/not-ready", "operator": "Exists"})
    return spec


def item(name="a", node="n1", uid="u1", fabric="demo", created="2026-01-01T00:00:00Z", state=None, **metadata):
    return {
        "metadata": {
            "name": name,
            "uid": uid,
            "labels": {pods.LABEL: fabric},
            "creationTimestamp": created,
            **metadata,
        },
        "spec": {**written(), "nodeName": node},
        "status": {"phase": "Running", "containerStatuses": [{"name": "node", "state": state or {"running": {}}}]},
    }


def test_the_newest_pod_that_runs_is_taken():
    older, newer = item("a", uid="1"), item("b", uid="2", created="2026-01-02T00:00:00Z")
    leaving = item("c", uid="3", created="2026-01-03T00:00:00Z", deletionTimestamp="2026-01-04T00:00:00Z")
    assert choice.choose_pod([newer, older, leaving], "demo", "n1") == (pods.NodePod("b", "2", "n1"), "")


@pytest.mark.parametrize(
    "items,why",
    [
        ([], "there is no pod"),
        ([item(deletionTimestamp="2026-01-04T00:00:00Z")], "being deleted"),
        ([item(state={"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})], "ImagePullBackOff"),
        ([item(state={"terminated": {"reason": "Error"}})], "Error"),
        ([dict(item(), status={"phase": "Pending"})], "Pending"),
        ([dict(item(), status=None)], "no status"),
    ],
)
def test_no_pod_is_chosen_and_why(items, why):
    pod, reason = choice.choose_pod(items, "demo", "n1")
    assert pod is None and why in reason


@pytest.mark.parametrize("lie", [item(node="n2"), item(node=None), item(fabric="other")])
def test_a_server_that_lists_what_was_not_asked_for(lie):
    """Threat T50."""
    with pytest.raises(ValueRefused):
        choice.choose_pod([item(), lie], "demo", "n1")


HOSTILE = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "node_pods.json"
ROWS = json.loads(HOSTILE.read_text(encoding="utf-8"))["rows"]


def changed(row):
    """The spec of a pod in which somebody made the change of a row."""
    spec = written()
    *way, last = row["path"]
    inner = spec
    for step in way:
        inner = inner[step]
    if row["do"] == "append":
        inner[last].append(row["value"])
    elif row["do"] == "remove":
        del inner[last]
    else:
        inner[last] = row["value"]
    return spec


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['do']} {row['named']}" for row in ROWS])
def test_a_pod_that_the_role_has_not_written_is_refused_by_name(row):
    spec = changed(row)
    assert row["named"] in edits.edit_of(spec, "demo", IMAGE)
    with pytest.raises(ValueRefused, match="node_access") as refused:
        choice.choose_pod([item(), dict(item("b", uid="u2"), spec={**spec, "nodeName": "n1"})], "demo", "n1")
    assert refused.value.reason == "node_pod_edited" and "'b'" in refused.value.message


@pytest.mark.parametrize("nothing", [None, [], "x", {}])
def test_no_spec_at_all(nothing):
    assert edits.edit_of(nothing, "demo")


def test_what_servers_and_admission_fill_in_is_no_edit():
    assert edits.edit_of(written(), "demo", IMAGE) == "" == edits.edit_of(written(), "demo")


def test_a_pod_of_another_image_is_not_taken():
    old, new = item("a"), item("b", uid="u2")
    new["spec"]["containers"][0]["image"] = "example.com/node-pod:2"
    assert choice.choose_pod([old, new], "demo", "n1", "example.com/node-pod:2")[0].name == "b"
    pod, why = choice.choose_pod([old], "demo", "n1", "example.com/node-pod:2")
    assert pod is None and "node_access_image" in why and IMAGE in why
    assert choice.choose_pod([old], "demo", "n1")[0].name == "a"


def test_who_wrote_a_daemon_set():
    rows = [
        {"manager": "us", "fieldsV1": {"f:spec": {}}},
        {"manager": "kubectl-edit", "fieldsV1": {"f:spec": {}}},
        {"manager": "kube-controller-manager", "fieldsV1": {"f:status": {}}, "subresource": "status"},
        {"manager": "labels", "fieldsV1": {"f:metadata": {}}},
        "x",
    ]
    assert edits.writers({"metadata": {"managedFields": rows}}, "us") == ["kubectl-edit"]
    assert edits.writers({"metadata": {"managedFields": None}}, "us") == []


JUNK = [None, [], {}, "x", 7, True, [None], {"x": None}, [{"name": []}], {"name": {}}]


@pytest.mark.parametrize("junk", JUNK, ids=repr)
@pytest.mark.parametrize("path", sorted({tuple(row["path"]) for row in ROWS}), ids=str)
def test_whatever_a_server_sends_is_a_refusal_or_a_pod(path, junk):
    """Threat T53: never anything else, whatever is in the place of what is read."""
    for depth in range(1, len(path) + 1):
        spec = changed({"do": "none", "path": ["x"], "named": "", "value": None})
        inner = spec
        for step in path[: depth - 1]:
            inner = inner[step]
        try:
            inner[path[depth - 1]] = junk
        except IndexError:
            continue
        assert isinstance(edits.edit_of(spec, "demo", IMAGE), str)


@pytest.mark.parametrize("junk", JUNK, ids=repr)
@pytest.mark.parametrize("part", ["metadata", "spec", "status", "labels", "containerStatuses", "state"])
def test_strange_objects_are_refused_or_no_pod(part, junk):
    strange = item()
    if part == "labels":
        strange["metadata"]["labels"] = junk
    elif part == "containerStatuses":
        strange["status"]["containerStatuses"] = junk
    elif part == "state":
        strange["status"]["containerStatuses"][0]["state"] = junk
    else:
        strange[part] = junk
    try:
        pod, why = choice.choose_pod([strange], "demo", "n1")
    except ValueRefused:
        return
    assert pod is None and why
