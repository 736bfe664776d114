# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is news, and how much of it makes one event."""

from __future__ import annotations

import copy
import json
import pathlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.changes import (
    NAMES,
    Change,
    ChangeTracker,
    Debounce,
    digest,
    is_own,
)
from hypothesis import given, strategies as st

FIXTURES = pathlib.Path(__file__).parents[4] / "fixtures" / "cni"


def node(name="n1", **more):
    body = {
        "metadata": {
            "name": name,
            "uid": "u",
            "resourceVersion": "1",
            "labels": {},
            "annotations": {"k": "v"},
            "managedFields": [],
        },
        "spec": {"podCIDR": "10.2.3.0/24", "taints": []},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.66.23.31"}], "conditions": []},
    }
    body.update(more)
    return body


def touched(**parts):
    """The node with parts changed: section__key=value."""
    obj = node()
    for path, value in parts.items():
        section, key = path.split("__")
        obj[section] = dict(obj[section], **{key: value})
    return obj


@pytest.mark.parametrize(
    "changed",
    [
        touched(metadata__resourceVersion="2"),
        touched(metadata__managedFields=[{"manager": "kubelet"}]),
        touched(metadata__generation=7),
        touched(status__conditions=[{"type": "Ready", "lastHeartbeatTime": "now"}]),
        touched(status__images=["a"]),
        touched(spec__taints=[{"key": "node.kubernetes.io/unreachable"}]),
        touched(metadata__annotations={"k": "v", "kilo.squat.ai/last-seen": "1"}),
    ],
)
def test_noise_is_no_news(changed):
    tracker = ChangeTracker("Node")
    assert tracker.replace([node()]) == [Change("Node", "", "n1", "added")]
    assert tracker.observe("MODIFIED", changed) is None and tracker.replace([changed]) == []


@pytest.mark.parametrize(
    "changed",
    [
        touched(metadata__annotations={"k": "other"}),
        touched(metadata__labels={"a": "b"}),
        touched(metadata__uid="another"),
        touched(metadata__deletionTimestamp="now"),
        touched(spec__podCIDR="10.2.4.0/24"),
        touched(status__addresses=[]),
    ],
)
def test_what_plans_read_is_news(changed):
    tracker = ChangeTracker("Node")
    tracker.replace([node()])
    assert tracker.observe("MODIFIED", changed) == Change("Node", "", "n1", "changed")
    assert tracker.observe("MODIFIED", changed) is None


def test_leases_and_events_are_never_news():
    for kind in ("Lease", "Event"):
        tracker = ChangeTracker(kind)
        assert tracker.replace([node()]) == [] and tracker.observe("ADDED", node("x")) is None


@pytest.mark.parametrize(
    "labels",
    [
        {"app.kubernetes.io/managed-by": "multicluster.network"},
        {"managed-by": "semaphore-policy"},
        {"endpointslice.kubernetes.io/managed-by": "semaphore-service-mirror"},
    ],
)
def test_what_we_made_is_no_news(labels):
    owned = {"metadata": {"name": "a", "namespace": "b", "labels": labels}}
    tracker = ChangeTracker("Service")
    assert (
        is_own(owned)
        and tracker.replace([owned]) == []
        and tracker.observe("MODIFIED", owned) is None
        and tracker.observe("DELETED", owned) is None
    )
    plain = {"metadata": {"name": "a", "namespace": "b"}}
    assert tracker.observe("ADDED", plain).type == "added"
    assert tracker.observe("MODIFIED", owned).type == "removed"  # it became owned


def test_a_list_after_an_outage_gives_the_differences():
    tracker = ChangeTracker("Node")
    tracker.replace([node("a"), node("b"), node("c")])
    assert tracker.replace([node("a"), dict(node("b"), spec={"podCIDR": "10.9.0.0/24"}), node("d")]) == [
        Change("Node", "", "b", "changed"),
        Change("Node", "", "c", "removed"),
        Change("Node", "", "d", "added"),
    ]


@pytest.mark.parametrize(
    "hostile",
    [{}, {"metadata": None}, {"metadata": {"name": 7}}, {"metadata": []}, {"metadata": {"labels": "x"}, "spec": 3}],
)
def test_hostile_objects_are_passed_over(hostile):
    tracker = ChangeTracker("Node")
    assert (
        tracker.replace([hostile]) == []
        and tracker.observe("ADDED", hostile) is None
        and tracker.observe("DELETED", hostile) is None
    )


def test_pods_count_by_address_and_readiness():
    pod = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"nodeName": "x"},
        "status": {"podIP": "10.2.3.4", "startTime": "1"},
    }
    assert digest("Pod", pod) == digest("Pod", dict(pod, status={"podIP": "10.2.3.4", "startTime": "2"}))
    ready = dict(pod, status={"podIP": "10.2.3.4", "conditions": [{"type": "Ready", "status": "True"}]})
    assert digest("Pod", pod) != digest("Pod", ready) != digest("Pod", dict(pod, status={"podIP": "10.2.3.5"}))


def test_quiet_ends_a_collection_and_so_does_time():
    box = Debounce(window=1, longest=5)
    assert box.due(0) is None
    box.add("aws", Change("Node", "", "a", "added"), 10.0)
    assert box.due(10.2) == pytest.approx(0.8) and box.due(11.0) == 0
    for tenth in range(60):
        box.add("aws", Change("Service", "ns", "s%d" % (tenth % 3), "changed"), 10.0 + tenth / 10)
    assert box.due(14.9) > 0 and box.due(15.0) == 0
    assert box.take() == [
        {"cluster": "aws", "kind": "Node", "names": ["a"], "count": 1, "types": ["added"]},
        {"cluster": "aws", "kind": "Service", "names": ["ns/s0", "ns/s1", "ns/s2"], "count": 3, "types": ["changed"]},
    ]
    assert box.take() == [] and box.due(99) is None


def test_many_names_are_counted_and_cut():
    box = Debounce()
    for number in range(250):
        box.add("aws", Change("Pod", "n", "p%03d" % number, "added"), 0)
    (event,) = box.take()
    assert event["count"] == 250 and len(event["names"]) == NAMES


@given(st.lists(st.floats(min_value=0, max_value=3), min_size=1, max_size=60))
def test_nothing_waits_longer_than_longest(gaps):
    box, now, first = Debounce(window=1, longest=5), 0.0, None
    for gap in gaps:
        left = box.due(now)
        if left is not None and left <= gap:
            assert now + left - first <= 5 + 1e-9
            assert box.take()
            first = None
        now += gap
        first = now if first is None else first
        box.add("c", Change("Node", "", "n", "changed"), now)
        assert now - first <= 5 + 1e-9


def test_settings_that_make_no_sense():
    with pytest.raises(ValueError):
        Debounce(window=6, longest=5)


def applied(value, manager="multicluster.network/demo", key="aws.wireguard.semaphore.uw.io/pubKey"):
    """A node that has an annotation, and who applied it."""
    fields = {"f:metadata": {"f:annotations": {"f:" + key: {}}}}
    rows = [
        {"manager": manager, "operation": "Apply", "fieldsV1": fields},
        {"manager": "kubelet"},
        "x",
        {"manager": manager, "fieldsV1": []},
    ]
    obj = touched(metadata__annotations={"k": "v", key: value})
    obj["metadata"]["managedFields"] = rows
    return obj


def test_what_a_run_published_itself_is_no_news():
    tracker = ChangeTracker("Node")
    tracker.replace([node()])
    assert (
        tracker.observe("MODIFIED", applied("key-1")) is None and tracker.observe("MODIFIED", applied("key-2")) is None
    )
    assert tracker.replace([applied("key-3")]) == []


def test_what_somebody_else_writes_into_it_is_news():
    tracker = ChangeTracker("Node")
    tracker.replace([applied("key-1")])
    assert tracker.observe("MODIFIED", applied("stolen", manager="kubectl-annotate")).type == "changed"
    assert (
        tracker.observe("MODIFIED", applied("stolen", manager="multicluster.network.example/demo")) is None
    )  # no owner of the fabric, so unchanged


# --- ranges of pods that a network plugin keeps (tests/fixtures/cni) -----------------------------------------------


def recorded(name: str, kind: str) -> dict[str, t.Any]:
    items = json.loads((FIXTURES / (name + ".json")).read_text())["items"]
    return {item["metadata"]["name"]: item for item in items if item["kind"] == kind}


def names_of(kind: str, before: str, after: str) -> set[str]:
    tracker = ChangeTracker(kind)
    tracker.replace(recorded(before, kind).values())
    return {change.name for change in tracker.replace(recorded(after, kind).values())}


def test_pods_that_come_in_a_block_of_their_node_are_no_news_and_a_block_is() -> None:
    first, second = recorded("ipam-0-tunnel-only", "IPAMBlock"), recorded("ipam-1-one-pod", "IPAMBlock")
    assert first["192-168-185-64-26"] != second["192-168-185-64-26"]
    assert names_of("IPAMBlock", "ipam-0-tunnel-only", "ipam-1-one-pod") == set()
    assert names_of("IPAMBlock", "ipam-1-one-pod", "ipam-2-70-allocations") == {"192-168-185-128-26"}
    assert names_of("BlockAffinity", "ipam-1-one-pod", "ipam-2-70-allocations") == {"cal-node-1-192-168-185-128-26"}


def test_borrowed_addresses_and_a_block_that_moves_are_news() -> None:
    before = recorded("ipam-3-borrowed", "IPAMBlock")["10-251-0-0-26"]
    tracker = ChangeTracker("IPAMBlock")
    tracker.replace([before])
    lent = copy.deepcopy(before)
    lent["spec"]["attributes"][1]["secondary"]["node"] = "cal-node-1"  # it is one of the node's own now
    assert tracker.observe("MODIFIED", lent) and not tracker.observe("MODIFIED", copy.deepcopy(lent))
    moved = names_of("BlockAffinity", "ipam-3-borrowed", "ipam-9-block-moved")
    assert moved == {"ghost-1-10-251-0-64-26", "cal-node-2-10-251-0-64-26"}


@pytest.mark.parametrize(
    "spec", [None, 7, {"allocations": 7}, {"allocations": [0, "x", 9, None, True], "attributes": [7]}]
)
def test_a_block_that_is_none_is_no_trouble(spec: t.Any) -> None:
    assert digest("IPAMBlock", {"metadata": {"name": "x"}, "spec": spec})


def test_of_a_cilium_node_only_its_ranges_count() -> None:
    node: dict[str, t.Any] = {"metadata": {"name": "a"}, "spec": {"ipam": {"podCIDRs": ["10.0.0.0/24"]}, "health": {}}}
    more = copy.deepcopy(node)
    more["spec"]["health"] = {"ipv4": "10.0.0.9"}
    more["spec"]["ipam"]["pools"] = {"requested": [{"pool": "default"}]}
    assert digest("CiliumNode", node) == digest("CiliumNode", more)
    more["spec"]["ipam"]["pools"]["allocated"] = [{"pool": "default", "cidrs": ["10.11.0.0/27"]}]
    assert digest("CiliumNode", node) != digest("CiliumNode", more)
