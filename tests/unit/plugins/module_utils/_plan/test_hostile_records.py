# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records of owners and labels as a hostile API server may send them: nothing of one cluster's objects ends a run with a traceback."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan import objects, sole_owner
from ansible_collections.multicluster.network.plugins.module_utils._services import mirror_writes
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets import set_plan
from hypothesis import example, given, settings, strategies as st

US = objects.field_manager("t")
NAMES = st.sampled_from(
    [
        "f:metadata",
        "f:spec",
        "f:labels",
        "f:annotations",
        "f:ports",
        'k:{"port":80}',
        "k:[]",
        "k:nonsense",
        'v:"a"',
        ".",
        "f:",
        "f:status",
        "f:app.kubernetes.io/managed-by",
        "f:ownerReferences",
        'k:{"uid":"x"}',
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)
MANAGERS, OPERATIONS = st.sampled_from([US, US, "kubectl", 7, None]), st.sampled_from(["Apply", "Update", 3])
ENTRIES = st.fixed_dictionaries(
    {"fieldsV1": TREES, "manager": MANAGERS, "operation": OPERATIONS},
    optional={"subresource": st.sampled_from(["", "status", 1])},
)
RECORDS = SCALARS | st.lists(SCALARS | ENTRIES, max_size=3)
LABELS = (
    SCALARS
    | st.lists(SCALARS, max_size=2)
    | st.dictionaries(st.sampled_from(["app.kubernetes.io/managed-by", "a"]), TREES, max_size=2)
)
METADATA = st.fixed_dictionaries({"name": st.just("web")}, optional={"managedFields": RECORDS, "labels": LABELS})
OBJECTS = st.fixed_dictionaries({"kind": st.just("Service"), "spec": TREES, "metadata": METADATA})


def seen(tree, labels):
    """An object that ended a run once."""
    return {
        "kind": "Service",
        "metadata": {"labels": labels, "managedFields": [{"manager": US, "operation": "Apply", "fieldsV1": tree}]},
    }


MANIFEST = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "labels": {"a": "b"}},
    "spec": {"ports": [{"port": 80, "protocol": "TCP"}]},
}


@settings(max_examples=400)
@given(OBJECTS)
@example(seen({"f:metadata": "x"}, {}))
@example(seen({"f:metadata": {"f:labels": "x"}}, {}))
@example(seen({"f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}}}, ["app.kubernetes.io/managed-by"]))
def test_no_record_of_owners_ends_a_run(obj):
    assert objects.is_owned(obj, US) in (True, False)
    for tree in (objects.owned_tree(obj, US, "Apply"), objects.whole_tree(obj)):
        assert isinstance(tree, dict)
        objects.differences(MANIFEST, obj, tree)
        objects.stale_fields(tree, MANIFEST)
    objects.other_owners(obj, US, [("metadata", "labels", "a"), ("spec", "ports")])
    assert all(isinstance(value, str) for value in objects.labels_of(obj).values())
    sole_owner.others(obj, US)
    sole_owner.sole_record(obj, US)
    sole_owner.surplus(MANIFEST, obj, US)
    mirror_writes.owned(obj, US)
    set_plan.owned_by(obj, US)


@pytest.mark.parametrize("depth", [39, 40, 41, 200])
def test_trees_of_any_depth_are_united(depth):
    def deep(last):
        tree = {last: {}}
        for dummy in range(depth):
            tree = {"f:a": tree}
        return tree

    assert isinstance(objects.merge_trees([deep("f:b"), deep("f:c")]), dict)
    assert isinstance(objects.merge_trees([{"f:a": 1}, {"f:a": "x"}], depth=1), dict)
