# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The owners of fields of mirrors: hand edits are drift and repaired, and what was taken over is solely owned."""

from __future__ import annotations

import copy

import pytest
from api_server import slices_version
from mirror_clusters import FLUENTD, NAMESPACE, PORTS, endpoints, fluentd, namespace, other, piece, service, two  # pylint: disable=unused-import

__all__ = ["fluentd", "other", "two"]
LABELS = {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
ORIGINAL = "semaphore-service-mirror"
FIRST = dict(PORTS[0])
#: What a hand may change in a mirror that we would not have written, as merge patches of its spec.
EDITS = {
    "sticky": {"sessionAffinity": "ClientIP"},
    "sticky for an hour": {
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 3600}},
    },
    "a node port": {"type": "NodePort"},
    "a load balancer": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["192.0.2.0/24"]},
    "somebody's addresses": {"externalIPs": ["192.0.2.7"]},
    "what is not ready too": {"publishNotReadyAddresses": True},
    "a port more": {"ports": PORTS + [{"name": "more", "protocol": "TCP", "port": 9999, "targetPort": 9999}]},
    "another target": {"ports": [dict(FIRST, targetPort=1), PORTS[1]]},
    "an application protocol": {"ports": [dict(FIRST, appProtocol="http"), PORTS[1]]},
    "a port less": {"ports": [FIRST]},
    "a port under another number": {"ports": [dict(FIRST, port=1), PORTS[1]]},
    "a selector": {"selector": {"app": "mine"}},
}


def content(obj):
    """All of an object but what identifies it, and for how long."""
    spec = {name: value for name, value in obj.get("spec", {}).items() if name not in ("clusterIP", "clusterIPs")}
    return {
        "spec": spec,
        "subsets": obj.get("subsets"),
        "endpoints": obj.get("endpoints"),
        "ports": obj.get("ports"),
        "labels": obj["metadata"]["labels"],
    }


def managers(obj):
    return {
        entry["manager"]
        for entry in obj["metadata"]["managedFields"]
        if "f:spec" in entry["fieldsV1"] or "f:subsets" in entry["fieldsV1"]
    }


@pytest.mark.parametrize("how", ["kubectl patch", "kubectl apply --server-side"])
@pytest.mark.parametrize("edit", sorted(EDITS))
def test_what_a_hand_changed_in_a_mirror_is_drift_and_repaired(fluentd, edit, how):
    two = fluentd
    two.run(mirror_as="endpoints")
    before = content(two.get("gcp", "Service", FLUENTD))
    path = two.clients["gcp"].resource("v1", "Service").path(NAMESPACE, FLUENTD)
    if how == "kubectl patch":
        two.clients["gcp"].merge_patch(path, {"spec": copy.deepcopy(EDITS[edit])}, "kubectl-patch")
    else:
        manifest = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": FLUENTD, "namespace": NAMESPACE},
            "spec": copy.deepcopy(EDITS[edit]),
        }
        if edit == "a port under another number":
            manifest["spec"]["ports"][0]["name"] = "other"  # applied, it comes alongside the one that is there
        two.clients["gcp"].apply(path, manifest, "somebody", force=True)
    assert content(two.get("gcp", "Service", FLUENTD)) != before or edit == "a port less"
    result = two.run(mirror_as="endpoints", check=True)
    assert result["changed"] and result["plan"]["changes"]
    result = two.run(mirror_as="endpoints")
    assert result["changed"] and not result["failures"] and not result["refused"]
    assert content(two.get("gcp", "Service", FLUENTD)) == before
    mark = two.mark()
    assert not two.run(mirror_as="endpoints")["changed"] and two.writes(mark)["gcp"] == []


@pytest.mark.parametrize("form", ["endpoints", "slices"])
def test_what_a_hand_changed_in_endpoints_is_drift_and_repaired(fluentd, form):
    two = fluentd
    two.put(
        "aws",
        piece("sys-log", "fluentd", "-abc", "10.2.3.19", labels={"mirror.semaphore.uw.io/mirror-service": "true"}),
    )
    two.run(mirror_as=form)
    kind, version = ("Endpoints", "v1") if form == "endpoints" else ("EndpointSlice", slices_version())
    name = two.names("gcp", kind, api_version=version)[0]
    resource = two.clients["gcp"].resource(version, kind)
    before = content(two.get("gcp", kind, name, api_version=version))
    if form == "endpoints":
        edits = [
            {"subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": before["subsets"][0]["ports"]}]},
            {"subsets": None},
        ]
    else:
        edits = [{"endpoints": [{"addresses": ["192.0.2.1"]}]}, {"ports": []}, {"endpoints": []}]
    for edit in edits:
        two.clients["gcp"].merge_patch(resource.path(NAMESPACE, name), edit, "kubectl-patch")
        assert content(two.get("gcp", kind, name, api_version=version)) != before
        assert two.run(mirror_as=form)["plan"]["update"] == 1
        assert content(two.get("gcp", kind, name, api_version=version)) == before
        mark = two.mark()
        assert not two.run(mirror_as=form)["changed"] and two.writes(mark)["gcp"] == []


def original(two, **spec):
    """A mirror as the upstream program makes it: with one POST for the Service and one for its Endpoints."""
    client = two.clients["gcp"]
    two.put("gcp", namespace(NAMESPACE))
    client.create(
        client.resource("v1", "Service").path(NAMESPACE), service(NAMESPACE, FLUENTD, labels=LABELS, **spec), ORIGINAL
    )
    made = endpoints(NAMESPACE, FLUENTD, *sorted(("10.2.3.19", "10.2.4.19", "10.2.7.18")), labels=LABELS)
    client.create(client.resource("v1", "Endpoints").path(NAMESPACE), made, ORIGINAL)


def test_an_adopted_mirror_is_solely_owned_and_loses_a_port(fluentd):
    two = fluentd
    original(two)
    mark = two.mark()
    result = two.run(mirror_as="endpoints")
    assert [row["reason"] for row in result["refused"]] == ["adoptable"] and two.writes(mark)["gcp"] == []
    assert two.run(mirror_as="endpoints", adopt=True)["plan"]["update"] == 2
    for kind in ("Service", "Endpoints"):
        assert managers(two.get("gcp", kind, FLUENTD)) == {"multicluster.network/t"}
    mark = two.mark()
    assert not two.run(mirror_as="endpoints")["changed"] and two.writes(mark)["gcp"] == []
    two.clients["aws"].merge_patch(
        "/api/v1/namespaces/sys-log/services/fluentd", {"spec": {"ports": PORTS[:1]}}, "the-user"
    )
    assert two.run(mirror_as="endpoints")["changed"]
    assert [port["name"] for port in two.get("gcp", "Service", FLUENTD)["spec"]["ports"]] == ["http"]
    mark = two.mark()
    assert not two.run(mirror_as="endpoints")["changed"] and two.writes(mark)["gcp"] == []


def test_what_the_original_had_more_goes_when_it_is_adopted(fluentd):
    two = fluentd
    original(
        two,
        sessionAffinity="ClientIP",
        ports=PORTS + [{"name": "old", "protocol": "TCP", "port": 7777, "targetPort": 7777}],
    )
    assert two.run(mirror_as="endpoints", adopt=True)["plan"]["update"] == 2
    spec = two.get("gcp", "Service", FLUENTD)["spec"]
    assert spec["sessionAffinity"] == "None" and [port["name"] for port in spec["ports"]] == ["http", "forward"]
    mark = two.mark()
    assert not two.run(mirror_as="endpoints")["changed"] and two.writes(mark)["gcp"] == []


def test_what_was_adopted_half_is_healed_without_being_asked(fluentd):
    """An apply alone leaves the former owner on record for every value that is equal: that is how it was done before."""
    two = fluentd
    original(two)
    client = two.clients["gcp"]
    for kind in ("Service", "Endpoints"):
        path = client.resource("v1", kind).path(NAMESPACE, FLUENTD)
        made = client.get(path)
        manifest = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": FLUENTD, "namespace": NAMESPACE, "labels": LABELS},
        }
        manifest.update({"spec": {"ports": PORTS}} if kind == "Service" else {"subsets": made["subsets"]})
        client.apply(path, manifest, "multicluster.network/t", force=True)
        assert len(managers(client.get(path))) == 2
    assert two.run(mirror_as="endpoints", check=True)["plan"]["update"] == 2
    result = two.run(mirror_as="endpoints")
    assert (result["plan"]["update"], result["refused"], result["failures"]) == (2, [], [])
    for kind in ("Service", "Endpoints"):
        assert managers(two.get("gcp", kind, FLUENTD)) == {"multicluster.network/t"}
    mark = two.mark()
    assert not two.run(mirror_as="endpoints")["changed"] and two.writes(mark)["gcp"] == []


def test_metadata_of_others_stays(fluentd):
    two = fluentd
    two.run(mirror_as="endpoints")
    path = two.clients["gcp"].resource("v1", "Service").path(NAMESPACE, FLUENTD)
    two.clients["gcp"].merge_patch(
        path, {"metadata": {"labels": {"team": "blue"}, "annotations": {"note": "x"}}}, "kubectl-label"
    )
    assert not two.run(mirror_as="endpoints")["changed"]
    two.clients["gcp"].merge_patch(path, {"metadata": {"labels": {"mirrored-svc": "no"}}}, "kubectl-label")
    assert two.run(mirror_as="endpoints")["plan"]["update"] == 1
    labels = two.get("gcp", "Service", FLUENTD)["metadata"]["labels"]
    assert labels == dict(LABELS, team="blue")


def test_a_service_without_endpoints_is_mirrored_and_said(two):
    for number in range(7):
        two.put("aws", service("shop", "idle-%d" % number))
    two.put(
        "aws", service("sys-log", "fluentd"), endpoints("sys-log", "fluentd", "10.2.3.19"), endpoints("shop", "idle-0")
    )
    for repeat in range(2):
        result = two.run(mirror_as="endpoints")
        assert result["changed"] == (repeat == 0) and result["sources"]["aws"]["without_endpoints"] == 7
        [said] = [text for text in result["warnings"] if "no endpoints" in text]
        assert (
            said.startswith("cluster aws: 7 of")
            and "'shop/idle-4', ..." in said
            and "fluentd" not in said
            and "idle-5" not in said
        )
    for number in range(1, 7):
        two.drop("aws", "Service", "shop", "idle-%d" % number)
    result = two.run(mirror_as="endpoints", max_deletes=-1)
    assert [text for text in result["warnings"] if "1 of the Services that are mirrored has no endpoints" in text]


@pytest.mark.parametrize("how", ["labels and manager", "labels alone", "record"])
def test_what_is_made_to_look_owned_is_not_deleted_for_who_may_not(fluentd, how):
    """Whoever may patch a Service, and not delete it, applies our labels to it in our field manager's name."""
    two = fluentd
    two.run(mirror_as="endpoints")
    client = two.clients["gcp"]
    path = client.resource("v1", "Service").path(NAMESPACE, "vault")
    client.create(client.resource("v1", "Service").path(NAMESPACE), service(NAMESPACE, "vault", labels={}), "helm")
    forged = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "vault", "namespace": NAMESPACE, "labels": LABELS},
    }
    if how != "labels alone":
        forged["spec"] = {"ports": PORTS}
        done = client.apply(path, forged, "multicluster.network/t", force=True)
    if how == "record":  # whoever may patch an object may also write that nobody else did
        entries = done["metadata"]["managedFields"]
        alone = [one for one in entries if one["manager"] == "multicluster.network/t"]
        alone[0]["fieldsV1"]["f:spec"] = next(one for one in entries if one["manager"] == "helm")["fieldsV1"]["f:spec"]
        client.merge_patch(path, {"metadata": {"managedFields": alone}}, "kubectl-edit")
        assert {one["manager"] for one in client.get(path)["metadata"]["managedFields"]} == {"multicluster.network/t"}
    if how == "labels alone":
        client.merge_patch(path, {"metadata": {"labels": LABELS}}, "kubectl-label")
    uid = client.get(path)["metadata"]["uid"]
    expected = [] if how == "labels alone" else ["not_ours"]
    for more in ({}, {"adopt": True}, {"state": "absent"}, {"state": "absent", "adopt": True}):
        result = two.run(mirror_as="endpoints", **more)
        assert client.get(path)["metadata"]["uid"] == uid, more
        refused = [row["reason"] for row in result["refused"] if "vault" in row["object"]]
        assert refused == (["not_ours"] if more.get("adopt") else expected)
    assert two.names("gcp", "Service") == ["vault"]  # what is owned went
    client.delete(path)
