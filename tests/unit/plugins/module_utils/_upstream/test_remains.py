# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What points at the leftovers of upstream programs: named where it points at nothing else, and fields for which they are still on record."""

from __future__ import annotations

import copy
import json
import pathlib
import shlex

from ansible_collections.multicluster.network.plugins.module_utils._upstream.leftovers import leftovers, lines
from ansible_collections.multicluster.network.plugins.module_utils._upstream.owners import Marked, count, still
from ansible_collections.multicluster.network.plugins.module_utils._upstream.remains import DEFINITION, remains
from hypothesis import given, strategies as st

TESTS = pathlib.Path(__file__).resolve().parents[4]
HOSTILE = json.loads((TESTS / "fixtures" / "hostile" / "leftovers.json").read_text("utf-8"))
SPACE = "kilo-system"


def obj(kind, name, namespace="", **more):
    meta = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return dict({"kind": kind, "metadata": meta}, **more)


def workload(name, image="kilo-clustermesh-operator", account="operator", **labels):
    spec = {"serviceAccountName": account, "containers": [{"name": "one", "image": image}]}
    return obj(
        "Deployment",
        name,
        SPACE,
        spec={"template": {"metadata": {"labels": dict({"app": name}, **labels)}, "spec": spec}},
    )


def binding(name, *accounts, role="operator", kind="ClusterRoleBinding", role_kind="ClusterRole", namespace=""):
    subjects = [{"kind": "ServiceAccount", "namespace": SPACE, "name": account} for account in accounts]
    return obj(kind, name, namespace, roleRef={"kind": role_kind, "name": role}, subjects=subjects)


def found(around, workloads=None, meshes=()):
    workloads = [workload("operator"), workload("shop", "shop", "shop")] if workloads is None else workloads
    return remains("eu", leftovers("eu", workloads), workloads, around, meshes)


def named(rows):
    return {(one.kind, one.name) for one in rows}


def test_rights_of_none_but_their_accounts():
    role = obj("ClusterRole", "operator")
    assert named(found([role, binding("one", "operator")])) == {
        ("ClusterRole", "operator"),
        ("ClusterRoleBinding", "one"),
    }
    (first, second) = found([role, binding("one", "operator")])
    assert (first.command, second.command) == (
        "kubectl delete clusterrole operator",
        "kubectl delete clusterrolebinding one",
    )
    assert (
        "not needed once taken over: ClusterRole operator of kilo-clustermesh in cluster eu; kubectl delete clusterrole operator"
        in lines([first])
    )
    # somebody else is bound as well, by the same binding or by another
    assert named(found([role, binding("one", "operator", "shop")])) == set()
    assert named(found([role, binding("one", "operator"), binding("two", "shop")])) == {("ClusterRoleBinding", "one")}
    assert named(found([role, binding("one", "operator"), binding("two")])) == {("ClusterRoleBinding", "one")}
    # what Kubernetes brings, and parts of other roles, are everybody's
    for more in (
        {"kubernetes.io/bootstrapping": "rbac-defaults"},
        {"rbac.authorization.k8s.io/aggregate-to-view": "true"},
    ):
        shared = copy.deepcopy(role)
        shared["metadata"]["labels"] = more
        assert named(found([shared, binding("one", "operator")])) == {("ClusterRoleBinding", "one")}
    assert named(found([obj("ClusterRole", "system:node"), binding("one", "operator", role="system:node")])) == {
        ("ClusterRoleBinding", "one")
    }


def test_a_role_of_one_namespace_is_not_that_of_another():
    rows = found(
        [
            obj("Role", "lead", SPACE),
            obj("Role", "lead", "shop"),
            obj("ClusterRole", "lead"),
            binding("lead", "operator", role="lead", kind="RoleBinding", role_kind="Role", namespace=SPACE),
        ]
    )
    assert [(one.kind, one.namespace, one.name) for one in rows] == [
        ("Role", SPACE, "lead"),
        ("RoleBinding", SPACE, "lead"),
    ]
    assert rows[0].command == "kubectl --namespace kilo-system delete role lead"


def test_services_leases_and_webhooks():
    def webhook(*services):
        hooks = [{"clientConfig": {"service": {"namespace": SPACE, "name": name}}} for name in services]
        return obj("ValidatingWebhookConfiguration", "-".join(services) or "none", webhooks=hooks)

    workloads = [
        workload("operator", part="mesh"),
        workload("operator-ui", "ui", "ui", part="ui", tier="x"),
        workload("shop", "shop", "shop", tier="x"),
    ]
    around = [
        obj("Service", "metrics", SPACE, spec={"selector": {"part": "mesh"}}),
        obj("Service", "both", SPACE, spec={"selector": {"tier": "x"}}),
        obj("Service", "headless", SPACE, spec={}),
        obj("Service", "metrics", "shop", spec={"selector": {"part": "mesh"}}),
        obj("Lease", "lead", SPACE, spec={"holderIdentity": "operator-7d5f-x_12"}),
        obj("Lease", "ui", SPACE, spec={"holderIdentity": "operator-ui-7d5f-x"}),
        obj("Lease", "nobody", SPACE, spec={"holderIdentity": None}),
        webhook("metrics"),
        webhook("metrics", "both"),
        webhook(),
    ]
    assert named(found(around, workloads)) == {
        ("Service", "metrics"),
        ("Lease", "lead"),
        ("ValidatingWebhookConfiguration", "metrics"),
    }


def mesh(name="prod", **meta):
    clusters = [
        {"name": "eu", "local": True},
        {"name": "us", "kubeconfigSecretRef": {"name": "us", "key": "kubeconfig"}},
        {"name": "ap", "kubeconfigSecretRef": {"name": "shared"}},
    ]
    return {"metadata": dict({"name": name, "namespace": SPACE}, **meta), "spec": {"clusters": clusters}}


def test_the_only_clustermesh_with_its_secrets_and_its_kind():
    user = workload("shop", "shop", "shop")
    user["spec"]["template"]["spec"]["volumes"] = [{"secret": {"secretName": "shared"}}]
    definition = obj("CustomResourceDefinition", DEFINITION)
    workloads = [workload("operator"), user]
    rows = found([definition], workloads, [mesh(finalizers=["kilo-clustermesh.io/cleanup"])])
    assert named(rows) == {("ClusterMesh", "prod"), ("Secret", "us"), ("CustomResourceDefinition", DEFINITION)}
    assert rows[0].command == (
        'kubectl --namespace kilo-system patch clustermesh prod --type merge --patch \'{"metadata":{"finalizers":null}}\' && '
        "kubectl --namespace kilo-system delete clustermesh prod"
    )
    assert found([], workloads, [mesh()])[0].command == "kubectl --namespace kilo-system delete clustermesh prod"
    # several stay, and their Secrets and their kind with them
    assert found([definition], workloads, [mesh(), mesh("test")]) == []


def test_no_name_becomes_a_command_or_a_line_of_its_own():
    for name in HOSTILE["names"]:
        around = [
            obj("ClusterRole", name),
            binding(name, "operator", role=name),
            obj("Lease", name, SPACE, spec={"holderIdentity": "operator-1"}),
            obj("Service", name, SPACE, spec={"selector": {"app": "operator"}}),
        ]
        meshes = [
            {
                "metadata": {"name": name, "namespace": name, "finalizers": ["x"]},
                "spec": {"clusters": [{"kubeconfigSecretRef": {"name": name}}]},
            }
        ]
        for row in found(around, meshes=meshes):
            assert row.command == "" or shlex.split(row.command)[-1] == name, row
            assert "rm -rf" not in row.command and "$(" not in row.command
        for line in lines(found(around, meshes=meshes)):
            assert (
                line.isprintable() and line.isascii() and "{{" not in line and "$(" not in line and "rm -rf" not in line
            )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "name",
                    "namespace",
                    "kind",
                    "metadata",
                    "labels",
                    "spec",
                    "selector",
                    "subjects",
                    "roleRef",
                    "webhooks",
                    "clientConfig",
                    "service",
                    "holderIdentity",
                    "clusters",
                    "kubeconfigSecretRef",
                    "aggregationRule",
                )
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(
    st.sampled_from(
        ("ClusterRole", "RoleBinding", "ClusterRoleBinding", "Lease", "Service", "MutatingWebhookConfiguration", "Role")
    ),
    _JSON,
    _JSON,
)
def test_odd_forms_are_read_as_nothing_or_as_what_they_say(kind, body, one_mesh):
    around = [dict(body, kind=kind) if isinstance(body, dict) else body, binding("one", "operator")]
    rows = found(around, meshes=[one_mesh])
    assert all(isinstance(part, str) for row in rows for part in row) and rows == sorted(rows)
    assert all(line.isprintable() for line in lines(rows))


# -- fields --------------------------------------------------------------------------------------------------------


NODE = Marked("equinix", "v1", "Node", annotation="metal.equinix.com/")
CONTROLLER = "cloud-provider-equinix-metal"


def node(*records):
    fields = [
        {"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": tree, **more}
        for manager, tree, more in records
    ]
    return {"metadata": {"name": "metal-1", "managedFields": fields}}


def test_fields_for_which_a_program_is_still_on_record():
    taints, owned = {"f:spec": {"f:taints": {}}}, {"f:spec": {"f:providerID": {}}}
    both = node(
        (CONTROLLER, taints, {}),
        ("multicluster.network/t", owned, {}),
        ("kubelet", {"f:metadata": {"f:labels": {"f:a": {}}}}, {}),
    )
    row = {"program": "equinix", "kind": "Node", "manager": CONTROLLER, "fields": ["spec.taints"], "objects": 2}
    assert still(NODE, [both, copy.deepcopy(both)]) == [row]
    # before anything is taken over there is nothing owned, and afterwards nothing of theirs
    assert (
        still(NODE, [node((CONTROLLER, taints, {}))])
        == still(NODE, [node(("multicluster.network/t", owned, {}))])
        == []
    )
    # owner references are everybody's, and what was given back keeps the fabric's
    references = {"f:metadata": {"f:ownerReferences": {'k:{"uid":"u1"}': {}}}}
    assert still(NODE, [node((CONTROLLER, taints, {}), ("multicluster.network/t", references, {}))]) == []
    # an id that we give is no twin that we took
    twin = Marked("apinetlet", "core.apinet.api.onmetal.de/v1alpha1", "Network", applied=True)
    by = ("api.onmetal.de/apinetlet", {"f:spec": {"f:peerings": {}}}, {})
    given_id = node(by, ("multicluster.network/t", {"f:spec": {"f:id": {}}}, {}))
    assert still(twin, [given_id]) == []
    given_id["metadata"]["managedFields"][1]["operation"] = "Apply"
    assert [one["fields"] for one in still(twin, [given_id])] == [["spec.peerings"]]
    # status is everybody's; what a list's entry has is the list's
    tree = {"f:status": {"f:addresses": {}}, "f:spec": {"f:ports": {'k:{"port":80}': {"f:name": {}}}}}
    assert [
        one["fields"] for one in still(NODE, [node((CONTROLLER, tree, {}), ("multicluster.network/t", owned, {}))])
    ] == [["spec.ports"]]
    assert (
        still(NODE, [node((CONTROLLER, taints, {"subresource": "status"}), ("multicluster.network/t", owned, {}))])
        == []
    )


def test_of_somebody_elses_object_only_the_program_and_we_count():
    """MetalLB's ConfigMap is the user's."""
    marked = Marked("equinix", "v1", "ConfigMap", place=("metallb-system", "config"))
    config, owned = {"f:data": {"f:config": {}}}, {"f:metadata": {"f:annotations": {"f:x": {}}}}
    assert count(marked, [node(("kubectl", config, {}))]) == count(marked, [{"metadata": {"name": "config"}}]) == []
    rows = count(
        marked, [node(("kubectl", config, {}), (CONTROLLER, config, {}), ("multicluster.network/t", owned, {}))]
    )
    assert [(row["manager"], row["owned"]) for row in rows] == [(CONTROLLER, False), ("multicluster.network/t", True)]


def test_names_of_fields_are_claims():
    for name in HOSTILE["names"]:
        tree = {"f:metadata": {"f:annotations": {"f:" + name: {}}}}
        for row in still(NODE, [node((CONTROLLER, tree, {}), ("multicluster.network/t", tree, {}))]):
            assert all(
                text.isprintable() and "{{" not in text and "$(" not in text and " rm " not in text
                for text in row["fields"]
            ), row
    many = {"f:metadata": {"f:annotations": {"f:a%d" % number: {} for number in range(HOSTILE["thousands"])}}}
    (row,) = still(NODE, [node((CONTROLLER, many, {}), ("multicluster.network/t", many, {}))])
    assert len(row["fields"]) == 11 and row["fields"][-1] == f"and {HOSTILE['thousands'] - 10} more"
