# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets that a plan empties: which pods make that a loss, and why."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.services.network_sets import NOT_ENDED
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.pod_ranges import UNFINISHED
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Refusal
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.lost_sets import (
    HOST_NETWORK,
    REFUSED,
    UNLABELLED,
    UNPROVEN,
    emptied_sets,
    lost_sets,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.members import (
    NAME_LABEL,
    Member,
    Origin,
    set_labels,
    set_name,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.set_plan import plan_sets
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.targets import CALICO_V3
from ansible_collections.multicluster.network.plugins.module_utils._values.exported_ranges import ExportedRanges
from hypothesis import given, strategies as st

MANAGER = "multicluster.network/f"
MEMBER = Member("gcp", "shop", "app")
NAME = set_name(MEMBER)
ORIGIN = Origin("only", False)
NO_RANGES = {"gcp": ExportedRanges((), ())}


def existing():
    fields = {"f:spec": {"f:nets": {}}, "f:metadata": {"f:labels": {}}}
    managed = {"manager": MANAGER, "operation": "Apply", "fieldsV1": fields, "time": "2026-01-01T10:00:00Z"}
    meta = {"name": NAME, "uid": "u", "labels": set_labels(MEMBER), "managedFields": [managed]}
    return {NAME: {"metadata": meta, "spec": {"nets": ["10.4.1.3/32"]}}}


def pod(value="other", address="10.4.1.3", made="2026-01-01T09:00:00Z", host=False, **more):
    labels = {} if value is None else {NAME_LABEL: value}
    meta = {"name": "only", "namespace": "shop", "labels": labels, "creationTimestamp": made, **more}
    return {"metadata": meta, "spec": {"hostNetwork": host}, "status": {"phase": "Running", "podIP": address}}


def lost(*pods, refused=(), listed=True, members=None):
    planned = plan_sets("aws", CALICO_V3, existing(), {"gcp": members or {}}, MANAGER, max_deletes=-1)
    emptied = emptied_sets("aws", CALICO_V3, existing(), planned.writes, {"gcp": members or {}}, MANAGER)
    return [loss.cause for loss in lost_sets(emptied, {"gcp": pods} if listed else {}, NO_RANGES, refused)]


@pytest.mark.parametrize(
    "given_pod, expected",
    [
        (pod(None), [UNLABELLED]),
        (pod("other"), [UNLABELLED]),
        (pod("app", host=True), [HOST_NETWORK]),
        (pod("app"), [REFUSED]),
        (pod(None, address="10.4.1.4"), []),
        (pod(None, deletionTimestamp="2026-01-01T11:00:00Z"), []),
        # the address is another pod's by now
        (pod(None, made="2026-01-01T10:30:00Z"), []),
        # clocks differ
        (pod(None, made="2026-01-01T10:00:30Z"), [UNLABELLED]),
    ],
)
def test_a_pod_that_the_set_was_made_of_is_lost(given_pod, expected):
    assert lost(given_pod) == expected


def test_the_refusal_is_the_reason():
    found = emptied_sets(
        "aws",
        CALICO_V3,
        existing(),
        plan_sets("aws", CALICO_V3, existing(), {"gcp": {}}, MANAGER, max_deletes=-1).writes,
        {"gcp": {}},
        MANAGER,
    )
    refused = [Refusal("gcp/shop/only", "outside_grant", "10.4.1.3 is in none of the pod_cidrs of gcp")]
    (row,) = lost_sets(found, {"gcp": [pod("app")]}, NO_RANGES, refused)
    assert row.name == "set_refused/gcp/aws" and "[outside_grant]" in row.message and row.local == "aws"


def test_pods_that_could_not_be_listed_prove_nothing_and_a_set_with_an_address_is_not_empty():
    assert lost(listed=False) == [UNPROVEN]
    assert lost() == []
    assert lost(pod(None), members={MEMBER: {"10.4.1.9/32": ORIGIN}}) == []


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=2), max_leaves=6
    )
)
def test_no_pod_breaks_the_comparison(anything):
    wrong = pod(None)
    wrong["status"] = {"podIPs": anything, "phase": anything}
    wrong["spec"] = anything
    assert set(lost(wrong)) <= {UNLABELLED}


def test_a_client_that_stays_asks_a_namespace_once_instead_of_following_it():
    assert NOT_ENDED != UNFINISHED and set(NOT_ENDED.split(",")) == set(UNFINISHED.split(","))
