# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes as semaphore-wireguard annotated them: taken over, changed, given back. What nodes themselves have is tests/kernel/test_node_released.py's."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import node_annotations
from recorded import content, load, owners, replay

US = "multicluster.network/t"
PREFIXES = ["*.wireguard.semaphore.uw.io/pubKey", "*.wireguard.semaphore.uw.io/endpoint"]
KEY = "gcp.wireguard.semaphore.uw.io/pubKey"
PATH = "/api/v1/nodes/aws-node-1"


@pytest.fixture
def node(server):
    """The Node of aws, as it was when upstream had run for the first time."""
    client = server.client()
    (recorded,) = load("semaphore-wireguard")["begun"]["aws"]
    yield replay(client, recorded)
    client.delete(PATH)


def notes_of(obj):
    return {
        key: value
        for key, value in (obj["metadata"].get("annotations") or {}).items()
        if ".wireguard.semaphore.uw.io/" in key
    }


def on_record(obj, key=KEY):
    return {
        manager
        for manager, dummy, fields in owners(obj)
        if "f:" + key in fields.get("f:metadata", {}).get("f:annotations", {})
    }


def test_taken_over_changed_and_given_back(server, node):
    client, notes = server.client(), notes_of(node)
    assert set(notes) == {KEY, "gcp.wireguard.semaphore.uw.io/endpoint"} and on_record(node) == {"semaphore-wireguard"}

    def run(values=None, **more):
        desired = {"aws": {"aws-node-1": dict(notes, **(values or {}))}}
        return node_annotations.run(
            dict(
                {
                    "fabric": "t",
                    "clusters": [server.access()],
                    "annotations": desired,
                    "prefixes": PREFIXES,
                    "timeout": 20,
                },
                **more,
            )
        )

    # what is as desired is nobody's business, and what differs is said
    mark = server.mark()
    assert (
        not run()["changed"]
        and [row["reason"] for row in run({KEY: "other"})["refused"]] == ["adoptable"]
        and server.writes(mark) == []
    )
    assert run(adopt=True)["plan"]["update"] == 1
    taken = client.get(PATH)
    assert content(taken) == content(node) and on_record(taken) == {US}
    mark = server.mark()
    assert not run()["changed"] and not run(adopt=True)["changed"] and server.writes(mark) == []
    # a key is rotated, a remote leaves, and comes back
    assert run({KEY: "rotated"})["changed"] and notes_of(client.get(PATH))[KEY] == "rotated"
    request = {
        "fabric": "t",
        "clusters": [server.access()],
        "annotations": {"aws": {"aws-node-1": {}}},
        "prefixes": PREFIXES,
        "timeout": 20,
    }
    assert (
        node_annotations.run(dict(request, max_deletes=-1, confirm_empty=["aws"]))["changed"]
        and notes_of(client.get(PATH)) == {}
    )
    assert run()["changed"] and notes_of(client.get(PATH)) == notes
    # given back: the same values, nobody's, so that upstream's own patch changes nothing
    assert node_annotations.run(dict(request, state="released"))["plan"]["update"] == 1
    left = client.get(PATH)
    assert content(left) == content(node) and on_record(left) == set()
    (returned,) = load("semaphore-wireguard")["returned"]["aws"]
    assert sorted(notes_of(returned)) == sorted(notes)
    before = left["metadata"]["resourceVersion"]
    client.strategic_patch(PATH, {"metadata": {"annotations": notes}}, "semaphore-wireguard")
    assert client.get(PATH)["metadata"]["resourceVersion"] == before, "upstream's patch has changed something"
    mark = server.mark()
    assert [row["reason"] for row in run({KEY: "other"})["refused"]] == ["adoptable"] and server.writes(mark) == []
