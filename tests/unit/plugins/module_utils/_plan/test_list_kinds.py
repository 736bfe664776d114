# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists as in their schema (decision 72): any order that a server may return is equal, and a change of one entry is found."""

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan import list_kinds
from ansible_collections.multicluster.network.plugins.module_utils._plan.objects import differences, whole_tree
from hypothesis import given, strategies as st

ROWS = sorted(
    (kind, path, keys)
    for kind, rows in list_kinds._LISTS.items()
    for path, keys in {**rows, **list_kinds._METADATA}.items()
)
#: Lists that we write with an order that means something, by kind.
ATOMIC = [
    ("Service", ("spec", "clusterIPs")),
    ("EndpointSlice", ("endpoints",)),
    ("EndpointSlice", ("ports",)),
    ("Endpoints", ("subsets",)),
    ("ServiceImport", ("spec", "ports")),
    ("ServiceImport", ("spec", "ips")),
    ("ClusterRole", ("rules",)),
    ("ClusterRoleBinding", ("subjects",)),
    ("GlobalNetworkSet", ("spec", "nets")),
    ("CiliumCIDRGroup", ("spec", "externalCIDRs")),
    ("Peer", ("spec", "allowedIPs")),
    ("IPAddressPool", ("spec", "addresses")),
    ("CustomResourceDefinition", ("spec", "versions")),
]


def entries(keys, names):
    """A list of this kind with so many entries; what is no key differs from entry to entry too."""
    return (
        list(names)
        if keys == list_kinds.SET
        else [{**dict.fromkeys(keys, name), "value": "of " + name} for name in names]
    )


def document(kind, path, items):
    """An object with the list at the path; what is behind ``*`` is in the one entry of a list."""
    made = items
    for name in reversed(path):
        made = [made] if name == "*" else {name: made}
    return {"apiVersion": "v1", "kind": kind, **made}


def keyed_tree(path, items, keys):
    """The server's record of such a list; nothing of lists within lists, of which it keeps none."""
    if "*" in path:
        return {}
    tree = (
        {"v:" + json.dumps(item): {} for item in items}
        if keys == list_kinds.SET
        else {"k:" + json.dumps({key: item[key] for key in keys}): {} for item in items}
    )
    for name in reversed(path):
        tree = {"f:" + name: tree}
    return tree


@pytest.mark.parametrize("kind, path, keys", ROWS, ids=[f"{kind} {'.'.join(path)}" for kind, path, dummy in ROWS])
@given(names=st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=6, unique=True), data=st.data())
def test_any_order_is_equal_and_a_change_is_found(kind, path, keys, names, data):
    items = entries(keys, names)
    returned = data.draw(st.permutations(copy.deepcopy(items)))
    with_more = [dict(item, filled="in by the server") if isinstance(item, dict) else item for item in returned]
    for record in ({}, keyed_tree(path, items, keys)):
        actual = dict(document(kind, path, with_more))
        actual.setdefault("metadata", {})
        actual["metadata"] = dict(
            actual["metadata"], managedFields=[{"manager": "m", "operation": "Apply", "fieldsV1": record}]
        )
        assert differences(document(kind, path, items), actual, whole_tree(actual)) == []
        assert differences(document(kind, path, items), actual) == []
        changed = data.draw(st.integers(0, len(items) - 1))
        other = (
            items[:changed]
            + ([items[changed] + "!"] if keys == list_kinds.SET else [dict(items[changed], value="!")])
            + items[changed + 1 :]
        )
        assert differences(document(kind, path, other), actual, whole_tree(actual)) != []
    assert list_kinds.same_list(kind, path, items, returned) and not list_kinds.same_list(
        kind, path, items[1:], returned
    )


@pytest.mark.parametrize("kind, path", ATOMIC)
def test_where_order_counts_it_counts(kind, path):
    one, other = document(kind, path, ["a", "b"]), document(kind, path, ["b", "a"])
    assert list_kinds.keys_of(kind, path) is None
    assert differences(one, other) == [path] and not list_kinds.same_list(kind, path, ["a", "b"], ["b", "a"])
