# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""service_imports between two real API servers. The audit logs say what was really asked and written."""

from __future__ import annotations

import copy
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import service_imports
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import InventoryRefused
from api_server import slices_version
from mcs_clusters import (
    DEFINITION,
    SERVICE_LABEL,
    SOURCE_LABEL,
    SPACES,
    VERSIONS,
    definitions,
    derived_name,
    ends_of,
    gone,
    namespace,
    other,
    pair,
    reasons,
    service,
    wait_for,
)
from mirror_clusters import dead

__all__ = ["other", "pair"]
WEB = ("shop", "web")


def test_one_service_of_two_clusters(pair):
    pair.export("aws", WEB, "10.2.3.1", "10.2.3.2")
    pair.export("gcp", WEB, "10.4.3.1")
    mark = pair.mark()
    result = pair.run(check=True)
    assert (
        result["changed"]
        and result["failures"] == result["refused"] == []
        and pair.writes(mark) == {"aws": [], "gcp": []}
    )
    assert "addresses of Service shop/" + derived_name(*WEB) in str(result["diff"]["after"])

    result = pair.run()
    assert (result["failures"], result["refused"], result["warnings"]) == ([], [], [])
    assert result["sources"]["aws"] == {"listed": True, "exports": 1, "valid": 1, "conflicts": 0} and result[
        "imports"
    ] == {"aws": 1, "gcp": 1}
    for name in ("aws", "gcp"):
        derived, imported = pair.derived(name, WEB), pair.imported(name, WEB)
        assert "selector" not in derived["spec"] and imported["spec"]["ips"] == derived["spec"]["clusterIPs"]
        assert imported["spec"]["ipFamilies"] == ["IPv4"] and imported["spec"]["type"] == "ClusterSetIP"
        assert imported["spec"]["ports"] == [{"name": "http", "protocol": "TCP", "port": 80}]
        assert imported["status"]["clusters"] == [{"cluster": "aws"}, {"cluster": "gcp"}]
        assert imported["status"]["endpointSliceObjects"] == "Present"
        found = pair.slices(name, WEB)
        assert {source: sorted(rows) for source, rows in found.items()} == {
            "aws": ["10.2.3.1", "10.2.3.2"],
            "gcp": ["10.4.3.1"],
        }
        assert pair.said(name, WEB) == {
            "Valid": ("True", "Valid"),
            "Ready": ("True", "Exported"),
            "Conflict": ("False", "NoConflicts"),
        }

    mark = pair.mark()
    result = pair.run()
    assert not result["changed"] and pair.writes(mark) == {"aws": [], "gcp": []}
    for asked in pair.asked(mark).values():
        assert {verb for verb, path, status in asked} == {"list"} and len([row for row in asked if row[2] == 200]) == 5

    pair.unexport("aws", WEB)
    result = pair.run()
    assert result["failures"] == [] and {source: sorted(rows) for source, rows in pair.slices("aws", WEB).items()} == {
        "gcp": ["10.4.3.1"]
    }
    assert pair.imported("aws", WEB)["status"]["clusters"] == [{"cluster": "gcp"}]
    pair.unexport("gcp", WEB)
    assert reasons(pair.run()) == [] and all(
        pair.imported(name, WEB) is pair.derived(name, WEB) is None for name in ("aws", "gcp")
    )
    assert pair.slices("aws", WEB) == {}
    assert not pair.run()["changed"]


def test_a_cluster_with_an_id_that_does_not_sort_last_joins(pair):
    """status.clusters is a map-list: the server keeps the order in which its entries came (decision 72)."""
    pair.export("gcp", WEB, "10.4.3.1")
    assert reasons(pair.run()) == []
    pair.export("aws", WEB, "10.2.3.1")
    assert reasons(pair.run()) == []
    assert [row["cluster"] for row in pair.imported("aws", WEB)["status"]["clusters"]] == ["gcp", "aws"], (
        "the server's own order"
    )
    mark = pair.mark()
    result = pair.run()
    assert not result["changed"] and result["plan"]["changes"] == [] and pair.writes(mark) == {"aws": [], "gcp": []}
    pair.unexport("gcp", WEB)
    assert reasons(pair.run()) == [] and pair.imported("aws", WEB)["status"]["clusters"] == [{"cluster": "aws"}]


def everything(pair):
    """All objects of the namespaces that tests use, but for what servers count and who wrote what."""
    found = {}
    for name, client in pair.clients.items():
        for api_version, kind in (
            (VERSIONS[0], "ServiceExport"),
            (VERSIONS[0], "ServiceImport"),
            ("v1", "Service"),
            (slices_version(), "EndpointSlice"),
        ):
            for obj in client.list(client.resource(api_version, kind).path()).items:
                meta = obj["metadata"]
                if meta["namespace"] in SPACES:
                    meta.pop("resourceVersion")
                    meta["managedFields"] = sorted(
                        {row["manager"] for row in meta.get("managedFields") or ()} - {"before-first-apply"}
                    )
                    found[name, kind, meta["namespace"], meta["name"]] = obj
    return found


def test_absent_leaves_everything_as_it_was(pair):
    pair.export("aws", WEB, "10.2.3.1")
    pair.export("gcp", WEB, "10.4.3.1", ports=[{"name": "http", "port": 81, "targetPort": 8080}])
    pair.claim("aws", ("shop", "missing"))
    before = everything(pair)
    pair.run()
    assert pair.said("aws", ("shop", "missing"))["Valid"] == ("False", "NoService") and everything(pair) != before
    mark = pair.mark()
    checked = pair.run(check=True, state="absent")
    assert checked["plan"]["delete"] == 6 and pair.writes(mark) == {"aws": [], "gcp": []}
    result = pair.run(state="absent")
    assert result["failures"] == [] and result["plan"]["delete"] == 6
    assert everything(pair) == before
    mark = pair.mark()
    assert not pair.run(state="absent")["changed"] and pair.writes(mark) == {"aws": [], "gcp": []}


def test_headless_with_names_of_pods(pair):
    place = ("shop", "db")
    pair.export("aws", place, clusterIP="None")
    pair.put(
        "aws",
        ends_of(*place, "10.2.3.1", hostname="db-0"),
        ends_of(*place, "10.2.3.2", suffix="-y", hostname="db-1", conditions={"ready": False}),
    )
    pair.export("gcp", place, "10.4.3.1", clusterIP="None")
    assert pair.run()["failures"] == []
    for name in ("aws", "gcp"):
        imported = pair.imported(name, place)
        assert (
            imported["spec"]["type"] == "Headless"
            and "ips" not in imported["spec"]
            and imported["spec"]["ipFamilies"] == ["IPv4"]
        )
        assert pair.derived(name, place) is None
        found = pair.slices(name, place)
        assert {ip: (row.get("hostname"), row["conditions"]["ready"]) for ip, row in found["aws"].items()} == {
            "10.2.3.1": ("db-0", True),
            "10.2.3.2": ("db-1", False),
        }
        assert sorted(found["gcp"]) == ["10.4.3.1"]
    assert not pair.run()["changed"]


def test_the_oldest_decides_and_everybody_is_reported(pair):
    pair.export(
        "gcp",
        WEB,
        "10.4.3.1",
        labels={"tier": "one"},
        annotations={"note": "gcp"},
        sessionAffinity="ClientIP",
        sessionAffinityConfig={"clientIP": {"timeoutSeconds": 10}},
    )
    pair.run()
    time.sleep(1.1)  # stamps have whole seconds
    ports = [
        {"name": "http", "port": 81, "targetPort": 8080},
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353},
    ]
    ends = [{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "dns", "port": 5353, "protocol": "UDP"}]
    pair.export("aws", WEB, "10.2.3.1", ports=ports, ends=ends, labels={"tier": "two"})
    address = pair.imported("aws", WEB)["spec"]["ips"]
    assert pair.run()["failures"] == []
    for name in ("aws", "gcp"):
        imported, derived = pair.imported(name, WEB), pair.derived(name, WEB)
        assert [(port["name"], port["protocol"], port["port"]) for port in imported["spec"]["ports"]] == [
            ("http", "TCP", 80),
            ("dns", "UDP", 53),
        ]
        assert imported["metadata"]["labels"] == {"tier": "one"} and imported["metadata"]["annotations"] == {
            "note": "gcp"
        }
        for spec in (imported["spec"], derived["spec"]):
            assert spec["sessionAffinity"] == "ClientIP" and spec["sessionAffinityConfig"] == {
                "clientIP": {"timeoutSeconds": 10}
            }
        assert imported["spec"]["ips"] == derived["spec"].get("clusterIPs", [derived["spec"]["clusterIP"]])
        status, reason = pair.said(name, WEB)["Conflict"]
        assert (status, reason) == (
            "True",
            "PortConflict,SessionAffinityConflict,SessionAffinityConfigConflict,LabelsConflict,AnnotationsConflict",
        )
        message = pair.conditions(name, WEB)["Conflict"]["message"]
        assert (
            "cluster gcp decides: its export is the oldest" in message and "ports (1 of 2 clusters differs)" in message
        )
    assert pair.imported("aws", WEB)["spec"]["ips"] == address, "constant for the life of the import"
    path = pair.clients["gcp"].resource(slices_version(), "EndpointSlice").path("shop")
    ports = {
        obj["metadata"]["labels"][SOURCE_LABEL]: obj["ports"]
        for obj in pair.clients["gcp"].list(path, label_selector=SOURCE_LABEL).items
    }
    assert {source: [port["name"] for port in found] for source, found in ports.items()} == {
        "gcp": ["http"],
        "aws": ["dns"],
    }, "81 is not the port of http"
    assert not pair.run()["changed"]


def test_types_that_differ_leave_endpoints_out(pair):
    pair.export("aws", WEB, "10.2.3.1")
    pair.run()
    time.sleep(1.1)
    pair.export("gcp", WEB, "10.4.3.1", clusterIP="None")
    assert pair.run()["failures"] == []
    for name in ("aws", "gcp"):
        assert pair.imported(name, WEB)["spec"]["type"] == "ClusterSetIP" and sorted(pair.slices(name, WEB)) == ["aws"]
        assert (
            pair.said(name, WEB)["Conflict"] == ("True", "TypeConflict") and pair.said(name, WEB)["Valid"][0] == "True"
        )
    assert pair.imported("aws", WEB)["status"]["clusters"] == [{"cluster": "aws"}, {"cluster": "gcp"}]


def test_what_cannot_be_exported_has_a_reason(pair):
    pair.put(
        "aws",
        service("shop", "name", [{"port": 80, "protocol": "TCP"}], {}, type="ExternalName", externalName="example.org"),
    )
    for place in (("shop", "name"), ("shop", "nothing"), ("kube-system", "dns"), ("default", "kubernetes")):
        pair.claim("aws", place)
    long = "n" * 63
    pair.export(
        "aws",
        ("shop", long),
        "10.2.3.1",
        "10.4.3.9",
        "10.9.9.9",
        labels={"a": "b", "topology.kubernetes.io/zone": "x", "big": "v" * 64, "bad key": "x"},
        annotations={"multicluster.network/x": "y"},
    )
    try:
        result = pair.run()
        assert result["failures"] == []
        assert pair.said("aws", ("shop", "name"))["Valid"] == ("False", "InvalidServiceType")
        assert pair.said("aws", ("shop", "nothing"))["Valid"] == ("False", "NoService")
        for place in (("kube-system", "dns"), ("default", "kubernetes")):
            assert pair.said("aws", place) == {"Valid": ("False", "Refused"), "Ready": ("False", "Pending")}
            assert ("aws/" + "/".join(place), "outside_grant") in reasons(result)
        assert (
            pair.slices("gcp", ("shop", long)) == {"aws": pair.slices("aws", ("shop", long))["aws"]}
            and len(pair.slices("gcp", ("shop", long))["aws"]) == 1
        )
        carried = pair.imported("gcp", ("shop", long))["metadata"]
        assert carried["labels"] == {"a": "b"} and "annotations" not in carried
        assert ("aws/shop/" + long, "outside_grant") in reasons(result) and result["imports"] == {"aws": 1, "gcp": 1}
        assert "topology.kubernetes.io/zone" in pair.conditions("aws", ("shop", long))["Valid"]["message"]
    finally:
        for place in (("kube-system", "dns"), ("default", "kubernetes")):
            pair.unexport("aws", place)


def test_what_others_own_is_left_alone(pair):
    theirs = {
        "apiVersion": VERSIONS[0],
        "kind": "ServiceImport",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"type": "ClusterSetIP", "ports": [{"port": 1}], "ips": ["192.0.2.1"]},
    }
    pair.put("gcp", theirs)
    pair.export("aws", WEB, "10.2.3.1")
    pair.put("gcp", service("bank", derived_name("bank", "till"), [{"port": 80, "protocol": "TCP"}], {}))
    pair.export("aws", ("bank", "till"), "10.2.3.2")
    mark = pair.mark()
    result = pair.run()
    assert ("ServiceImport gcp/shop/web", "not_ours") in reasons(result) and (
        "ServiceImport gcp/bank/till",
        "not_ours",
    ) in reasons(result)
    assert pair.imported("gcp", WEB)["spec"]["ips"] == ["192.0.2.1"] and pair.imported("aws", WEB) is not None
    assert (
        pair.said("aws", WEB)["Ready"] == ("False", "Failed")
        and "gcp" in pair.conditions("aws", WEB)["Ready"]["message"]
    )
    assert pair.writes(mark)["gcp"] == []
    assert not pair.run()["changed"]
    pair.drop("gcp", "ServiceImport", "shop", "web", VERSIONS[0])
    pair.run()
    assert pair.said("aws", WEB)["Ready"] == ("True", "Exported") and pair.imported("gcp", WEB)["spec"]["ips"] != [
        "192.0.2.1"
    ]


def test_hand_edits_are_repaired(pair):
    pair.export("aws", WEB, "10.2.3.1")
    pair.run()
    before = everything(pair)
    base = f"/apis/{VERSIONS[0]}/namespaces/shop/serviceimports/web"
    pair.clients["gcp"].merge_patch(base, {"spec": {"ports": [{"port": 9}], "sessionAffinity": "ClientIP"}}, "somebody")
    derived = "/api/v1/namespaces/shop/services/" + derived_name(*WEB)
    pair.clients["gcp"].merge_patch(
        derived, {"spec": {"selector": {"app": "mine"}}, "metadata": {"labels": {SERVICE_LABEL: None}}}, "somebody"
    )
    assert pair.run()["failures"] == []
    after = everything(pair)
    for found in (before, after):
        for obj in found.values():
            obj["metadata"].pop("generation", None)
            obj["metadata"].pop("managedFields", None)
    assert after == before
    pair.drop("gcp", "ServiceImport", *WEB, api_version=VERSIONS[0])
    pair.drop("gcp", "Service", "shop", derived_name(*WEB))
    pair.run()
    made = pair.imported("gcp", WEB)
    owner = (
        pair.clients["gcp"]
        .list(pair.clients["gcp"].resource(slices_version(), "EndpointSlice").path("shop"))
        .items[0]["metadata"]["ownerReferences"]
    )
    assert owner == [
        {
            "apiVersion": VERSIONS[0],
            "kind": "ServiceImport",
            "name": "web",
            "uid": made["metadata"]["uid"],
            "controller": False,
        }
    ]
    assert not pair.run()["changed"]


def test_times_change_only_when_the_status_does(pair):
    pair.export("aws", WEB, "10.2.3.1")
    pair.run()
    first = pair.conditions("aws", WEB)
    assert {row["observedGeneration"] for row in first.values()} == {1}
    time.sleep(1.1)
    pair.claim("aws", WEB, labels={"a": "b"})
    pair.drop("aws", "Service", *WEB)
    pair.run(max_deletes=-1)
    second = pair.conditions("aws", WEB)
    assert {row["observedGeneration"] for row in second.values()} == {2} and sorted(second) == ["Ready", "Valid"]
    assert second["Valid"]["lastTransitionTime"] > first["Valid"]["lastTransitionTime"]
    time.sleep(1.1)
    pair.claim("aws", WEB, labels={"a": "c"})
    pair.run()
    assert pair.conditions("aws", WEB)["Valid"] == dict(second["Valid"], observedGeneration=3)


def test_a_cluster_that_is_away_for_a_while(pair):
    pair.export("aws", WEB, "10.2.3.1")
    pair.run()
    time.sleep(1.1)
    pair.export(
        "gcp",
        WEB,
        "10.4.3.1",
        ports=[{"name": "more", "port": 8, "targetPort": 8}],
        ends=[{"name": "more", "port": 8, "protocol": "TCP"}],
    )
    pair.run()
    before = everything(pair)
    mark = pair.mark()
    result = service_imports.run(dead(pair.request()))
    assert [row["cluster"] for row in result["failures"]] == ["aws"] and pair.writes(mark) == {"aws": [], "gcp": []}
    pair.put("gcp", ends_of(*WEB, "10.4.3.2", ports=[{"name": "more", "port": 8, "protocol": "TCP"}]))
    service_imports.run(dead(pair.request()))
    found = pair.slices("gcp", WEB)
    assert {source: sorted(rows) for source, rows in found.items()} == {"aws": ["10.2.3.1"], "gcp": ["10.4.3.2"]}
    assert pair.imported("gcp", WEB)["spec"] == before["gcp", "ServiceImport", "shop", "web"]["spec"]
    assert pair.conditions("gcp", WEB) == {
        row["type"]: row for row in before["gcp", "ServiceExport", "shop", "web"]["status"]["conditions"]
    }
    pair.export("gcp", ("shop", "fresh"), "10.4.3.7")
    service_imports.run(dead(pair.request()))
    assert pair.said("gcp", ("shop", "fresh"))["Ready"] == ("False", "Pending")
    pair.unexport("gcp", WEB)
    service_imports.run(dead(pair.request()))
    assert pair.imported("gcp", WEB) is not None and sorted(pair.slices("gcp", WEB)) == ["aws"]
    assert pair.imported("gcp", WEB)["status"]["clusters"] == [{"cluster": "aws"}]
    assert pair.run()["failures"] == [] and pair.said("gcp", ("shop", "fresh"))["Ready"] == ("True", "Exported")


def test_endpoints_of_who_is_away_for_long(pair):
    pair.export("aws", WEB, "10.2.3.1")
    pair.run()
    service_imports.run(dead(pair.request(stale_after=1)))
    path = pair.clients["gcp"].resource(slices_version(), "EndpointSlice").path("shop")
    noted = pair.clients["gcp"].list(path).items[0]
    assert noted["endpoints"] and "multicluster.network/unreachable-since" in noted["metadata"]["annotations"]
    time.sleep(2.1)
    service_imports.run(dead(pair.request(stale_after=1)))
    assert pair.slices("gcp", WEB) == {"aws": {}} and pair.imported("gcp", WEB)["status"]["clusters"] == [
        {"cluster": "aws"}
    ]
    mark = pair.mark()
    assert not service_imports.run(dead(pair.request(stale_after=1)))["changed"] and pair.writes(mark)["gcp"] == []
    pair.run(stale_after=1)
    assert (
        sorted(pair.slices("gcp", WEB)["aws"]) == ["10.2.3.1"]
        and "annotations" not in pair.clients["gcp"].list(path).items[0]["metadata"]
    )


def test_many_that_go_at_once_stop_at_the_budget(pair):
    places = [("shop", f"s{number}") for number in range(8)]
    for place in places:
        pair.export("aws", place, "10.2.3.1")
    pair.run()
    for place in places[:6]:
        pair.unexport("aws", place)
    mark = pair.mark()
    result = pair.run()
    assert set(reasons(result)) == {("aws", "delete_budget"), ("gcp", "delete_budget")} and pair.writes(mark) == {
        "aws": [],
        "gcp": [],
    }
    result = pair.run(max_deletes=6)
    assert result["plan"]["delete"] == 36 and result["imports"] == {"aws": 2, "gcp": 2}


def test_namespaces_decide_where_imports_are(pair):
    pair.put("aws", namespace("only-here"))
    pair.export("aws", ("only-here", "web"), "10.2.3.1")
    try:
        assert pair.run()["imports"] == {"aws": 1, "gcp": 0} and pair.said("aws", ("only-here", "web"))["Ready"] == (
            "True",
            "Exported",
        )
        pair.put("gcp", namespace("only-here"))
        assert pair.run()["imports"] == {"aws": 1, "gcp": 1}
        # without a controller for namespaces it stays terminating for ever
        pair.clients["aws"].delete("/api/v1/namespaces/only-here")
        result = pair.run()
        assert result["failures"] == [] and pair.imported("gcp", ("only-here", "web")) is None
        assert pair.imported("aws", ("only-here", "web")) is not None, "what goes with its namespace is left alone"
        pair.unexport("aws", ("only-here", "web"))
        pair.export("gcp", ("only-here", "web"), "10.4.3.1")
        assert pair.run()["failures"] == [] and not pair.run()["changed"]
    finally:
        for name in ("aws", "gcp"):
            finish(pair.clients[name], "only-here")


def finish(client, space):
    """What the controller of namespaces would do."""
    for api_version, kind in (
        (VERSIONS[0], "ServiceExport"),
        (VERSIONS[0], "ServiceImport"),
        ("v1", "Service"),
        (slices_version(), "EndpointSlice"),
    ):
        resource = client.resource(api_version, kind)
        for obj in client.list(resource.path(space)).items:
            client.delete(resource.path(space, obj["metadata"]["name"]))
    path = "/api/v1/namespaces/" + space
    client.delete(path)
    found = client.find(path)
    if found is not None:
        client._object("update", "PUT", path + "/finalize", None, dict(found, spec={"finalizers": []}))


def test_a_cluster_that_lost_its_namespaces_is_not_empty(pair):
    grant = copy.deepcopy(DEFINITION)
    grant["clusters"]["aws"]["mcs_namespaces"] = "exports=yes"
    pair.put(
        "aws", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"exports": "yes"}}}
    )
    pair.export("aws", WEB, "10.2.3.1")
    pair.run(definition=grant)
    assert pair.slices("gcp", WEB)
    pair.unexport("aws", WEB)
    pair.put("aws", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    mark = pair.mark()
    result = pair.run(definition=grant)
    assert ("aws", "source_incomplete") in reasons(result) and pair.writes(mark) == {"aws": [], "gcp": []}
    pair.run(definition=grant, max_deletes=5)
    assert pair.imported("gcp", WEB) is None


def test_two_clusters_with_one_id_are_refused_before_anything_is_asked(pair):
    twice = copy.deepcopy(DEFINITION)
    twice["clusters"]["gcp"]["multicluster_cluster_id"] = "aws"
    mark = pair.mark()
    with pytest.raises(InventoryRefused, match="duplicate_cluster_id"):
        pair.run(definition=twice)
    assert pair.asked(mark) == {"aws": [], "gcp": []}


def test_the_id_of_the_inventory_counts_and_the_clusters_own_id_is_reported(pair):
    own = copy.deepcopy(DEFINITION)
    own["clusters"]["aws"]["multicluster_cluster_id"] = "eu-1"
    pair.put("aws", PROPERTIES)
    wait_for(pair.clients["aws"], "about.k8s.io/v1alpha1", "ClusterProperty")
    try:
        pair.put(
            "aws",
            {
                "apiVersion": "about.k8s.io/v1alpha1",
                "kind": "ClusterProperty",
                "metadata": {"name": "cluster.clusterset.k8s.io"},
                "spec": {"value": "other"},
            },
        )
        pair.export("aws", WEB, "10.2.3.1")
        result = pair.run(definition=own)
        assert result["warnings"] == [
            "cluster aws: its ClusterProperty has the id 'other', the inventory has 'eu-1' (multicluster_cluster_id), which counts"
        ]
        assert sorted(pair.slices("gcp", WEB)) == ["eu-1"] and pair.imported("gcp", WEB)["status"]["clusters"] == [
            {"cluster": "eu-1"}
        ]
        # another id is another source, and nothing is left of the former one
        pair.run()
        assert sorted(pair.slices("gcp", WEB)) == ["aws"] and pair.imported("gcp", WEB)["status"]["clusters"] == [
            {"cluster": "aws"}
        ]
    finally:
        pair.clients["aws"].delete(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterproperties.about.k8s.io"
        )


PROPERTIES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "clusterproperties.about.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/2149"},
    },
    "spec": {
        "group": "about.k8s.io",
        "scope": "Cluster",
        "names": {"kind": "ClusterProperty", "plural": "clusterproperties", "singular": "clusterproperty"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"value": {"type": "string"}}}},
                    }
                },
            }
        ],
    },
}


def test_a_cluster_without_the_api_is_refused_and_keeps_its_part(pair):
    pair.export("aws", WEB, "10.2.3.1")
    pair.export("gcp", WEB, "10.4.3.1")
    pair.run()
    gone(pair.clients["gcp"])
    mark = pair.mark()
    result = pair.run(install_crds=False)
    (row,) = result["refused"]
    assert (
        (row["object"], row["reason"]) == ("gcp", "kind_not_served")
        and "install_crds: true" in row["message"]
        and result["failures"] == []
    )
    assert sorted(pair.slices("aws", WEB)) == ["aws", "gcp"] and pair.writes(mark) == {"aws": [], "gcp": []}
    checked = pair.run(check=True)
    assert pair.writes(mark) == {"aws": [], "gcp": []}
    assert [change["kind"] for change in checked["plan"]["changes"][:2]] == ["CustomResourceDefinition"] * 2
    result = pair.run()
    assert result["failures"] == [] and result["imports"] == {"aws": 1, "gcp": 1}
    assert sorted(pair.slices("gcp", WEB)) == ["aws"], "its exports went with the API"
    assert not pair.run()["changed"]


def test_the_older_version_alongside_the_newer_one(pair):
    gone(pair.clients["gcp"])
    pair.put(
        "gcp",
        *[
            dict(
                one,
                spec=dict(
                    one["spec"],
                    versions=[
                        dict(version, storage=True)
                        for version in one["spec"]["versions"]
                        if version["name"] == "v1alpha1"
                    ],
                ),
            )
            for one in definitions()
        ],
    )
    wait_for(pair.clients["gcp"], VERSIONS[1], "ServiceImport")
    wait_for(pair.clients["gcp"], VERSIONS[1], "ServiceExport")
    pair.export("aws", WEB, "10.2.3.1")
    pair.put(
        "gcp",
        service(*WEB, [{"name": "http", "protocol": "TCP", "port": 80}], {}),
        ends_of(*WEB, "10.4.3.1"),
        {"apiVersion": VERSIONS[1], "kind": "ServiceExport", "metadata": {"name": "web", "namespace": "shop"}},
    )
    try:
        assert pair.run()["failures"] == []
        old, new = pair.get("gcp", "ServiceImport", "web", "shop", VERSIONS[1]), pair.imported("aws", WEB)
        assert set(old["spec"]) == {"type", "ports", "sessionAffinity", "ips"} and set(new["spec"]) >= {
            "ipFamilies",
            "ips",
        }
        assert old["status"]["clusters"] == new["status"]["clusters"] == [{"cluster": "aws"}, {"cluster": "gcp"}]
        assert sorted(pair.slices("gcp", WEB)) == sorted(pair.slices("aws", WEB)) == ["aws", "gcp"]
        exported = pair.get("gcp", "ServiceExport", "web", "shop", VERSIONS[1])
        assert {row["type"]: row["status"] for row in exported["status"]["conditions"]} == {
            "Valid": "True",
            "Ready": "True",
            "Conflict": "False",
        }
        mark = pair.mark()
        assert not pair.run()["changed"] and pair.writes(mark) == {"aws": [], "gcp": []}
        # the newer version is served from now on: the same objects are known again by it
        pair.put("gcp", *definitions())
        wait_for(pair.clients["gcp"], VERSIONS[0], "ServiceImport")
        assert pair.run()["failures"] == [] and pair.imported("gcp", WEB)["spec"]["ipFamilies"] == ["IPv4"]
        assert not pair.run()["changed"]
    finally:
        gone(pair.clients["gcp"])
        pair.run()


def test_a_definition_without_a_field_for_slices_is_served_as_before(pair):
    """``endpointSliceObjects`` came in 2026: a definition of release v0.5.0 refuses an apply that has it."""
    older = definitions()
    for one in older:
        for version in one["spec"]["versions"]:
            version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"].pop("endpointSliceObjects", None)
    pair.put("gcp", *older)
    wait_until_stored(pair, False)
    try:
        pair.export("aws", WEB, "10.2.3.1")
        assert reasons(pair.run()) == []
        assert pair.imported("aws", WEB)["status"]["endpointSliceObjects"] == "Present"
        assert pair.imported("gcp", WEB)["status"] == {"clusters": [{"cluster": "aws"}]}
        mark = pair.mark()
        assert not pair.run()["changed"]
        assert {verb for verb, path, status in pair.asked(mark)["gcp"]} == {"list"}
        # the newer definition: the next status that is written brings the field to all imports
        pair.put("gcp", *definitions())
        wait_until_stored(pair, True)
        assert not pair.run()["changed"]
        pair.export("aws", ("shop", "api"), "10.2.3.7")
        assert reasons(pair.run()) == []
        for place in (WEB, ("shop", "api")):
            assert pair.imported("gcp", place)["status"]["endpointSliceObjects"] == "Present"
        assert not pair.run()["changed"]
    finally:
        pair.put("gcp", *definitions())
        wait_until_stored(pair, True)


def wait_until_stored(pair, stores):
    """Until the API server prunes, or keeps, the field of slices: it takes a definition's schema over a moment after it was written."""
    probe = {
        "apiVersion": VERSIONS[0],
        "kind": "ServiceImport",
        "metadata": {"name": "probe", "namespace": "shop"},
        "spec": {"type": "Headless", "ports": []},
    }
    path = f"/apis/{VERSIONS[0]}/namespaces/shop/serviceimports"
    client, ends = pair.clients["gcp"], time.monotonic() + 120
    client.create(path, probe, "probe")
    try:
        while True:
            patch = {"status": {"clusters": [], "endpointSliceObjects": "Absent"}}
            found = client.merge_patch(path + "/probe/status", patch, "probe")["status"]
            if ("endpointSliceObjects" in found) == stores:
                return
            assert time.monotonic() < ends, found
            time.sleep(0.2)
    finally:
        client.delete(path + "/probe")


def test_who_was_first_goes_on_to_decide_where_that_is_asked(pair):
    pair.export("gcp", WEB, "10.4.3.1", labels={"tier": "gcp"})
    time.sleep(1.1)
    pair.export("aws", WEB, "10.2.3.1", labels={"tier": "aws"})
    pair.run(keep_first=True)
    assert pair.imported("aws", WEB)["metadata"]["labels"] == {"tier": "gcp"}
    # made anew, the export is the younger one
    time.sleep(1.1)
    pair.unexport("gcp", WEB)
    pair.claim("gcp", WEB, labels={"tier": "gcp"})
    pair.run(keep_first=True)
    assert (
        pair.imported("aws", WEB)["metadata"]["labels"] == {"tier": "gcp"}
        and "came first" in pair.conditions("aws", WEB)["Conflict"]["message"]
    )
    assert not pair.run(keep_first=True)["changed"]
    pair.run()
    assert (
        pair.imported("gcp", WEB)["metadata"]["labels"] == {"tier": "aws"}
        and "annotations" not in pair.imported("gcp", WEB)["metadata"]
    )


def test_exports_that_flap_leave_nothing_behind(pair):
    before = everything(pair)
    for turn in range(4):
        pair.export("aws", WEB, "10.2.3.1", clusterIP="None" if turn % 2 else None)
        assert pair.run()["failures"] == []
        assert (pair.derived("gcp", WEB) is None) == bool(turn % 2)
        pair.unexport("aws", WEB)
        pair.drop("aws", "Service", *WEB)
        if turn % 2:
            assert pair.run()["failures"] == []
    pair.drop(*("aws", "EndpointSlice", "shop", "web-x"), api_version=slices_version())
    assert everything(pair) == before


def test_options_that_make_no_sense(pair):
    for more in ({"max_endpoints_per_slice": 10}, {"max_endpoints_per_slice": 0}, {"stale_after": -1}, {"timeout": 0}):
        (option,) = more
        with pytest.raises(ValueError, match=option):
            pair.run(**more)
