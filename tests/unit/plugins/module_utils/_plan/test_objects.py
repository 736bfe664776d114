# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Comparing objects by their managed fields; ownership; annotation patterns; manifests of rights."""

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan import annotations, object_plan, objects
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

US = "multicluster.network/t"


def fields(manager, tree, operation="Apply", **more):
    return dict({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": tree}, **more)


def obj(*entries, **more):
    return dict({"metadata": {"name": "x", "managedFields": list(entries)}}, **more)


@pytest.mark.parametrize(
    "entries, labels, owned",
    [
        ([], {}, False),
        ([fields(US, {"f:spec": {"f:a": {}}})], {}, True),
        ([fields(US, {"f:spec": {"f:a": {}}}, "Update")], {}, False),
        ([fields("multicluster.network/other", {"f:spec": {"f:a": {}}})], {}, False),
        ([fields(US, {"f:metadata": {"f:annotations": {"f:x": {}}}})], {}, False),
        (
            [fields(US, {"f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}}})],
            {"app.kubernetes.io/managed-by": "multicluster.network"},
            True,
        ),
        (
            [fields(US, {"f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}}})],
            {"app.kubernetes.io/managed-by": "Helm"},
            False,
        ),
        (
            [fields("kubectl", {"f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}}})],
            {"app.kubernetes.io/managed-by": "multicluster.network"},
            False,
        ),
        ([fields(US, {"f:status": {"f:a": {}}}, subresource="status")], {}, False),
    ],
)
def test_is_owned(entries, labels, owned):
    one = obj(*entries)
    one["metadata"]["labels"] = labels
    assert objects.is_owned(one, US) is owned


PORTS = {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}}}
SETS = {"f:metadata": {"f:finalizers": {'v:"a"': {}}}}


@pytest.mark.parametrize(
    "desired, actual, tree, expected",
    [
        ({"spec": {"a": 1}}, {"spec": {"a": 1, "b": 2}}, None, []),
        ({"spec": {"a": 1}}, {"spec": {"a": "1"}}, None, []),
        ({"spec": {"a": True}}, {"spec": {"a": 1}}, None, [("spec", "a")]),
        ({"spec": {"a": 2}}, {"spec": {}}, None, [("spec", "a")]),
        ({"spec": {"a": []}}, {"spec": {}}, None, []),
        ({"metadata": {"labels": {}}}, {"metadata": {}}, None, []),
        ({"spec": {"podSelector": {}}}, {"spec": {}}, None, [("spec", "podSelector")]),
        ({"spec": {"requests": {"cpu": "1000m"}}}, {"spec": {"requests": {"cpu": "1"}}}, None, []),
        ({"spec": {"requests": {"memory": "1Gi"}}}, {"spec": {"requests": {"memory": "1073741824"}}}, None, []),
        ({"data": {"v": "1000m"}}, {"data": {"v": "1"}}, None, [("data", "v")]),
        ({"spec": {"ports": [{"port": 80}]}}, {"spec": {"ports": [{"port": 80, "protocol": "TCP"}]}}, None, []),
        (
            {"spec": {"ports": [{"port": 80}]}},
            {"spec": {"ports": [{"port": 79, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]}},
            PORTS,
            [],
        ),
        (
            {"spec": {"ports": [{"port": 80}]}},
            {"spec": {"ports": [{"port": 79}, {"port": 80}]}},
            None,
            [("spec", "ports")],
        ),
        ({"spec": {"l": ["a", "b"]}}, {"spec": {"l": ["b", "a"]}}, None, [("spec", "l")]),
        ({"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": ["b", "a"]}}, SETS, []),
        (
            {"metadata": {"finalizers": ["c"]}},
            {"metadata": {"finalizers": ["b", "a"]}},
            SETS,
            [("metadata", "finalizers")],
        ),
        ({"spec": {"a": {"b": 1}}}, {"spec": {"a": "x"}}, None, [("spec", "a")]),
        ({"spec": {"a": [1]}}, {"spec": {"a": {}}}, None, [("spec", "a")]),
    ],
)
def test_differences(desired, actual, tree, expected):
    assert objects.differences(desired, actual, tree) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_a_manifest_equals_itself_and_what_contains_it(data):
    manifest = objects.normalise({"metadata": {"name": "x"}, "spec": data})
    actual = copy.deepcopy(manifest)
    actual["status"], actual["metadata"]["uid"] = {"x": 1}, "u"
    assert objects.differences(manifest, actual) == []


@given(JSON, JSON)
def test_comparing_any_data_never_breaks(desired, tree):
    objects.differences({"spec": desired}, {"spec": tree}, {"f:spec": tree})
    objects.stale_fields({"f:spec": tree}, {"spec": desired})
    objects.merge_trees([{"f:spec": tree}, {"f:spec": desired}])


def test_stale_fields():
    tree = {
        "f:metadata": {"f:name": {}, "f:labels": {"f:a": {}, "f:b": {}}},
        "f:data": {"f:x": {}},
        "f:spec": PORTS["f:spec"],
    }
    manifest = {"metadata": {"name": "x", "labels": {"a": "1"}}, "data": {"x": "1"}, "spec": {"ports": [{"port": 81}]}}
    assert objects.stale_fields(tree, manifest) == [
        ("metadata", "labels", "b"),
        ("spec", "ports", '{"port":80,"protocol":"TCP"}'),
    ]


def test_normalise():
    given_manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "status": {"x": 1},
        "data": {"n": 5, "b": True, "none": None},
        "metadata": {"name": "x", "uid": "u", "resourceVersion": "5", "managedFields": [], "annotations": {"a": 1.5}},
        "spec": {"n": 5, "status": "kept"},
    }
    assert objects.normalise(given_manifest) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"n": "5", "b": "true"},
        "metadata": {"name": "x", "annotations": {"a": "1.5"}},
        "spec": {"n": 5, "status": "kept"},
    }


@pytest.mark.parametrize(
    "text, number",
    [("1", 1), ("1k", 1000), ("1Ki", 1024), ("2e3", 2000), ("0.5", 0.5), ("1E", 10**18), ("x", None), ("", None)],
)
def test_quantity(text, number):
    value = objects.quantity(text)
    assert (None if value is None else float(value)) == number


def plan(desired, actual, purgeable=(), **more):
    parsed = dict(object_plan.parse_manifest(manifest, "objects[0]") for manifest in desired)
    read = object_plan.Read(actual, set(purgeable), set(), {})
    return object_plan.plan_objects("aws", parsed, read, US, **more)


ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []}
ROLE_KEY = object_plan.Key("rbac.authorization.k8s.io/v1", "ClusterRole", "", "r")


def test_an_object_that_is_going_is_neither_deleted_again_nor_written():
    going = obj(fields(US, {"f:rules": {}}), rules=[1])
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    manifest = dict(ROLE, rules=[{"verbs": ["get"]}])
    result, writes = plan([manifest], {ROLE_KEY: going})
    assert writes == [] and [refusal.reason for refusal in result.refused] == ["terminating"]
    assert plan([manifest], {ROLE_KEY: going}, [ROLE_KEY], state="absent")[1] == []


@pytest.mark.parametrize(
    "manifest",
    [
        None,
        {},
        {"metadata": 5},
        dict(ROLE, kind="../x"),
        dict(ROLE, apiVersion="a/b/c"),
        dict(ROLE, apiVersion="../v1"),
        dict(ROLE, metadata={"name": "a/b"}),
        dict(ROLE, metadata={"name": "x", "namespace": ".."}),
        dict(ROLE, metadata={}),
        ROLE,
    ],
)
def test_manifests_that_are_refused(manifest):
    with pytest.raises(ValueRefused) as error:
        object_plan.parse_manifest(manifest, "objects[3]")
    assert error.value.reason == "manifest_invalid"


@pytest.mark.parametrize("text", ["*", "", None, "**a/b", "a*b*/c", "*/", "a", "x y/*", "*.io"])
def test_patterns_that_would_own_too_much(text):
    with pytest.raises(ValueRefused):
        annotations.Pattern(text)


def test_patterns():
    match = annotations.Pattern("*.wireguard.semaphore.uw.io/pubKey")
    assert match("gcp.wireguard.semaphore.uw.io/pubKey") and not match("gcp.wireguard.semaphore.uw.io/pubKeyX")
    assert not match("a/gcp.wireguard.semaphore.uw.io/pubKey") and not match("gcpXwireguard.semaphore.uw.io/pubKey")
    assert annotations.Pattern("kilo.squat.ai/*")("kilo.squat.ai/key") and annotations.Pattern("a.io/b")("a.io/b")


@pytest.mark.parametrize(
    "values", [{"A B": "x"}, {"a/b/c": "x"}, {"a": ["x"]}, {"a": "x" * 300_000}, {5: "x"}, {"UP.io/a": "x"}]
)
def test_annotations_that_are_refused(values):
    result, patches = annotations.plan_annotations("aws", {"n": values}, {"n": obj()}, US)
    assert patches == [] and [refusal.reason for refusal in result.refused] == ["annotation_invalid"]


def test_rights_name_no_wildcard_and_no_secret():
    text = json.dumps(access_manifests(["mesh", "mesh_read", "ippools"]))
    assert "*" not in text and "secrets" not in text and "watch" not in text
    with pytest.raises(ValueRefused):
        access_manifests(["everything"])
    for manifest in access_manifests(["mesh"]):
        assert objects.ownable(manifest)
