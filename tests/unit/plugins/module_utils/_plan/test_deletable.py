# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may patch an object and not delete it writes our labels and our field manager's name into it: our rights do not delete it for him."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.peers import peer_labels
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.sources import Target as PeerTarget
from ansible_collections.multicluster.network.plugins.module_utils._plan.deletable import makers, may_delete
from ansible_collections.multicluster.network.plugins.module_utils._plan.object_plan import Key, Read, plan_objects
from ansible_collections.multicluster.network.plugins.module_utils._plan.objects import field_manager
from ansible_collections.multicluster.network.plugins.module_utils._services.exports import Exports, Listed, Options
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.exports import Listed as McsListed
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.names import (
    SERVICE_LABEL,
    derived_name,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.plan import Here, remove_all
from ansible_collections.multicluster.network.plugins.module_utils._services.mirror_plan import plan_cluster
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.members import (
    Member,
    set_labels,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.set_plan import plan_sets
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.targets import CALICO_CRD

US, MIRRORS = field_manager("t"), "semaphore"
MIRROR_LABELS = {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
FORGED = {
    "manager": US,
    "operation": "Apply",
    "fieldsV1": {"f:metadata": {"f:labels": {"f:mirrored-svc": {}}}, "f:spec": {"f:ports": {}}},
}
THEIRS = {"manager": "helm", "operation": "Update", "fieldsV1": {"f:spec": {"f:ports": {}, "f:type": {}}}}


def made(kind, name, labels, *record, namespace=MIRRORS, **more):
    meta = {
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "managedFields": list(record),
        "uid": "u",
        "resourceVersion": "1",
    }
    return dict({"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": {"ports": [{"port": 80}]}}, **more)


def swept(obj, adopt=False, state="present"):
    """(deleted, reasons) of a run after which nothing in the mirror namespace has a source any more."""
    options = Options(
        MIRRORS, None, None, None, {"aws": "aws", "gcp": "gcp"}, {}, adopt=adopt, max_deletes=-1, confirm_empty=("aws",)
    )
    here = Listed(
        [obj] if obj["kind"] == "Service" else [],
        [],
        [obj] if obj["kind"] == "EndpointSlice" else [],
        "slices",
        "discovery.k8s.io/v1",
    )
    exports = {name: Exports({}, {}, [], {}, []) for name in ("aws", "gcp")}
    plan, writes = plan_cluster("gcp", here, exports if state == "present" else {}, [], options, US, state=state)
    return [write.key.name for write in writes if write.manifest is None], [refusal.reason for refusal in plan.refused]


@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize("adopt", [False, True])
def test_a_service_with_our_labels_and_our_manager_stays(adopt, state):
    assert swept(made("Service", "vault", MIRROR_LABELS, THEIRS, FORGED), adopt, state) == ([], ["not_ours"])
    assert swept(made("Service", "gl-vault", {"global-svc": "true"}, THEIRS, FORGED), adopt, state) == (
        [],
        ["not_ours"],
    )


@pytest.mark.parametrize("adopt", [False, True])
def test_a_slice_with_our_labels_and_our_manager_stays(adopt):
    labels = {
        "mirrored-endpoint-slice": "true",
        "mirror-endpointslice-sync-name": "aws",
        "kubernetes.io/service-name": "gl-shop-73736d-web",
    }
    record = dict(THEIRS, manager="kube-controller-manager", fieldsV1={"f:endpoints": {}, "f:addressType": {}})
    for entries in ((record, dict(FORGED, fieldsV1={"f:endpoints": {}})), (record,)):
        expected = ["not_ours"] if adopt or len(entries) == 2 else []
        assert swept(made("EndpointSlice", "gl-vault-x7k2p", labels, *entries), adopt) == ([], expected)


def test_labels_alone_are_not_swept_with_adopt():
    assert swept(made("Service", "vault", MIRROR_LABELS, THEIRS), adopt=True) == ([], ["not_ours"])


@pytest.mark.parametrize("record", [(FORGED,), (FORGED, THEIRS)], ids=["owned alone", "edited"])
def test_what_is_owned_goes(record):
    assert swept(made("Service", "aws-shop-73736d-web", MIRROR_LABELS, *record)) == (["aws-shop-73736d-web"], [])


def test_what_the_original_made_goes_with_adopt():
    assert swept(made("Service", "aws-shop-73736d-web", MIRROR_LABELS, THEIRS)) == ([], [])
    assert swept(made("Service", "aws-shop-73736d-web", MIRROR_LABELS, THEIRS), adopt=True) == (
        ["aws-shop-73736d-web"],
        [],
    )


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_purge_leaves_what_somebody_else_made(state):
    key, obj = (
        Key("v1", "ConfigMap", "shop", "prices"),
        made("ConfigMap", "prices", {}, THEIRS, FORGED, namespace="shop"),
    )
    read = Read({key: obj}, frozenset([key]), frozenset(), {})
    plan, writes = plan_objects("aws", {}, read, US, state=state, max_deletes=-1)
    assert writes == [] and [(row.object, row.reason) for row in plan.refused] == [
        ("ConfigMap aws/shop/prices", "not_ours")
    ]
    plan, writes = plan_objects("aws", {key: obj}, read, US, state="absent")
    assert writes == [] and [row.reason for row in plan.refused] == ["not_ours"]
    alone = Read({key: made("ConfigMap", "prices", {}, FORGED, namespace="shop")}, frozenset([key]), frozenset(), {})
    assert [write.manifest for write in plan_objects("aws", {}, alone, US, state=state, max_deletes=-1)[1]] == [None]


def test_what_controllers_add_is_no_making():
    token = dict(FORGED, manager="kube-controller-manager", operation="Update", fieldsV1={"f:data": {"f:token": {}}})
    account = dict(token, fieldsV1={"f:secrets": {}})
    assert (
        makers(made("Secret", "t", {}, FORGED, token), US)
        == makers(made("ServiceAccount", "a", {}, FORGED, account), US)
        == []
    )
    assert makers(made("Secret", "t", {}, FORGED, dict(token, fieldsV1={"f:data": {}, "f:type": {}})), US) == [
        "kube-controller-manager"
    ]
    assert makers(made("ConfigMap", "c", {}, FORGED, token), US) == ["kube-controller-manager"]


def test_metadata_and_status_of_others_are_no_making():
    for entry in ({"f:metadata": {"f:annotations": {"f:a": {}}}}, {"f:status": {"f:x": {}}}):
        assert may_delete(made("Service", "x", {}, FORGED, dict(THEIRS, fieldsV1=entry)), US, True)
    assert may_delete(made("Service", "x", {}, FORGED, dict(THEIRS, subresource="scale")), US, True)


def imports(*objects):
    spaces = [{"metadata": {"name": "shop"}, "status": {"phase": "Active"}}]
    kinds = {
        kind: [obj for obj in objects if obj["kind"] == kind] for kind in ("ServiceImport", "Service", "EndpointSlice")
    }
    base = {name: [] for name in McsListed._fields}
    base.update(
        namespaces=spaces,
        imports=kinds["ServiceImport"],
        services=kinds["Service"],
        slices=kinds["EndpointSlice"],
        version="multicluster.x-k8s.io/v1alpha1",
        discovery="discovery.k8s.io/v1",
    )
    return Here("gcp", McsListed(**base), US)


def test_an_import_of_another_implementation_stays():
    unowned = made("ServiceImport", "web", {}, THEIRS, FORGED, namespace="shop")
    planned = remove_all(imports(unowned), US)
    assert planned.writes == [] and [row.reason for row in planned.plan.refused] == ["not_ours"]
    assert imports(unowned).mine == set() and imports(unowned).units == {}


def test_an_owned_import_that_was_edited_goes_with_what_is_named_after_it():
    edited = made("ServiceImport", "web", {}, FORGED, THEIRS, namespace="shop")
    derived = made("Service", derived_name("shop", "web"), {SERVICE_LABEL: "web"}, FORGED, namespace="shop")
    assert len(remove_all(imports(edited, derived), US).writes) == 2
    unlabelled = copy.deepcopy(derived)
    unlabelled["metadata"].update(labels={}, managedFields=[FORGED, THEIRS])
    assert len(remove_all(imports(edited, unlabelled), US).writes) == 2
    strange = copy.deepcopy(derived)
    strange["metadata"].update(name="derived-vault", managedFields=[FORGED, THEIRS])
    assert [write.key.kind for write in remove_all(imports(edited, strange), US).writes] == []


def test_a_set_of_somebody_else_stays():
    labels = set_labels(Member("aws", "shop", "web"))
    for adopt, record in ((False, (THEIRS, FORGED)), (True, (THEIRS, FORGED)), (True, (THEIRS,))):
        planned = plan_sets(
            "gcp",
            CALICO_CRD,
            {"office": made("GlobalNetworkSet", "office", labels, *record)},
            {"aws": {}},
            US,
            adopt,
            absent=True,
        )
        assert planned.writes == [] and [row.reason for row in planned.plan.refused] == ["not_ours"]
    own = made("GlobalNetworkSet", "aws-shop-web", labels, THEIRS, FORGED)
    assert len(plan_sets("gcp", CALICO_CRD, {"aws-shop-web": own}, {"aws": {}}, US, absent=True).writes) == 1


def test_a_peer_of_somebody_else_stays():
    labels = peer_labels("m", "aws")
    target = PeerTarget(
        "gcp",
        [made("Peer", "office", labels, THEIRS, FORGED), made("Peer", "m--aws--node-1", labels, THEIRS, FORGED)],
        US,
    )
    assert not target.owned("office") and not target.may_remove("office", True)
    assert target.owned("m--aws--node-1") and target.may_remove("m--aws--node-1", False)
