# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mirrors as EndpointSlices, and global services, which are made of them."""

from __future__ import annotations

import pathlib

import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import mirror as service_mirror
from api_server import slices_version
from mirror_clusters import (  # pylint: disable=unused-import
    FLUENTD,
    LABEL,
    PORTS,
    SHARED,
    dead,
    endpoints,
    fluentd,
    in_zone,
    other,
    piece,
    reasons,
    service,
    two,
)

__all__ = ["fluentd", "other", "two"]
PATRONI = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "patroni_endpoints.yml"


def test_auto_means_slices_where_v1_is_served(fluentd):
    """Decision 17: EndpointSlices where discovery.k8s.io/v1 is served, Endpoints elsewhere."""
    two = fluentd
    two.put("aws", piece("sys-log", "fluentd", "-abc", "10.2.3.19", labels=LABEL))
    assert not two.run()["failures"]
    found = two.names("gcp", "Endpoints"), two.names("gcp", "EndpointSlice", api_version=slices_version())
    assert found == (([], [FLUENTD + "-4-0"]) if slices_version().endswith("/v1") else ([FLUENTD], []))
    mark = two.mark()
    assert not two.run()["changed"] and two.writes(mark) == {"aws": [], "gcp": []}


def test_slices_where_they_are_forced(fluentd):
    """Also where only discovery.k8s.io/v1beta1 is served: then in that version."""
    two = fluentd
    two.put("aws", piece("sys-log", "fluentd", "-abc", "10.2.3.19", "10.2.4.19", labels=LABEL))
    hostile = ["fd00:2::1"]  # outside of what aws is granted
    if slices_version().endswith("beta1"):
        hostile.append("fe80::1")  # later servers refuse it themselves
    two.put("aws", piece("sys-log", "fluentd", "-def", *hostile, labels=LABEL, family="IPv6"))
    assert not two.run(mirror_as="endpoints")["failures"] and two.names("gcp", "Endpoints") == [FLUENTD]
    result = two.run(mirror_as="slices")
    kinds = [(change["action"], change["kind"]) for change in result["plan"]["changes"]]
    assert kinds == [("create", "EndpointSlice"), ("delete", "Endpoints")], "the new form before the old one goes"
    made = two.get("gcp", "EndpointSlice", FLUENTD + "-4-0", api_version=slices_version())
    assert made["metadata"]["labels"] == {
        "mirrored-svc": "true",
        "mirror-svc-prefix-sync": "aws",
        "kubernetes.io/service-name": FLUENTD,
        "endpointslice.kubernetes.io/managed-by": "multicluster.network",
    }
    assert [one["addresses"] for one in made["endpoints"]] == [["10.2.3.19"], ["10.2.4.19"]]
    assert in_zone("eu-1").items() <= made["endpoints"][0].items()
    assert set(reasons(result)) == {
        ("aws/sys-log/fluentd", "special_address" if ip == "fe80::1" else "outside_grant") for ip in hostile
    }
    mark = two.mark()
    assert not two.run(mirror_as="slices")["changed"] and two.writes(mark) == {"aws": [], "gcp": []}
    two.put("aws", piece("sys-log", "fluentd", "-abc", "10.2.3.19", labels=LABEL))
    assert two.run(mirror_as="slices")["plan"]["update"] == 1
    result = two.run(mirror_as="endpoints")
    assert [(change["action"], change["kind"]) for change in result["plan"]["changes"]] == [
        ("create", "Endpoints"),
        ("delete", "EndpointSlice"),
    ]
    assert not two.run(mirror_as="endpoints")["changed"]


def test_global_services(two):
    more = {"global_selector": "mirror.semaphore.uw.io/global-service=true", "mirror_selector": None}
    two.put("aws", service("shop", "cart", ports=PORTS[:1], labels=SHARED), piece("shop", "cart", "-a1", "10.2.3.4"))
    two.put(
        "gcp",
        service("shop", "cart", ports=PORTS[:1], labels=SHARED),
        piece("shop", "cart", "-g1", "10.4.7.4", "10.4.7.5"),
    )
    result = two.run(**more)
    assert (result["refused"], result["failures"]) == ([], [])
    for cluster in ("aws", "gcp"):
        made = two.get(cluster, "Service", "gl-shop-73736d-cart")
        assert made["metadata"]["labels"] == {"global-svc": "true"}
        assert made["metadata"]["annotations"] == {"global-svc-clusters": "aws,gcp"}
        assert two.names(cluster, "EndpointSlice", api_version=slices_version()) == ["gl-cart-a1", "gl-cart-g1"]
    one = two.get("gcp", "EndpointSlice", "gl-cart-a1", api_version=slices_version())
    assert one["metadata"]["labels"] == {
        "mirrored-endpoint-slice": "true",
        "mirror-endpointslice-sync-name": "aws",
        "kubernetes.io/service-name": "gl-shop-73736d-cart",
        "endpointslice.kubernetes.io/managed-by": "semaphore-service-mirror",
    }
    mark = two.mark()
    assert not two.run(**more)["changed"] and two.writes(mark) == {"aws": [], "gcp": []}

    two.put("gcp", service("shop", "cart", ports=PORTS, labels=SHARED))
    result = two.run(**more)
    assert set(reasons(result)) == {("gcp/shop/cart", "ports_conflict"), ("aws/shop/cart", "ports_conflict")}
    assert len(two.get("gcp", "Service", "gl-shop-73736d-cart")["spec"]["ports"]) == 2, (
        "a cluster's own Service decides there"
    )
    assert len(two.get("aws", "Service", "gl-shop-73736d-cart")["spec"]["ports"]) == 1

    mark = two.mark()
    result = service_mirror.run(dead(two.request(max_deletes=-1, **more)))
    assert not result["changed"] and two.writes(mark)["gcp"] == [], "a cluster that cannot be listed stays in"

    two.drop("aws", "Service", "shop", "cart")
    two.drop("aws", "EndpointSlice", "shop", "cart-a1", slices_version())
    assert ("gcp: aws", "delete_budget") in reasons(two.run(**more))
    two.run(confirm_empty=["aws"], **more)
    for cluster in ("aws", "gcp"):
        assert two.get(cluster, "Service", "gl-shop-73736d-cart")["metadata"]["annotations"] == {
            "global-svc-clusters": "gcp"
        }
        assert two.names(cluster, "EndpointSlice", api_version=slices_version()) == ["gl-cart-g1"]
    two.drop("gcp", "Service", "shop", "cart")
    result = two.run(confirm_empty=["aws", "gcp", "global services"], **more)
    assert two.names("gcp", "Service") == two.names("aws", "Service") == []
    assert not two.run(**more)["changed"]


def test_endpoints_with_labels_of_their_own_are_left_out_with_the_true_reason(two):
    """As Patroni writes them; Kubernetes makes a slice of them with the labels of the Endpoints."""
    docs = list(yaml.safe_load(PATRONI.read_text()))
    two.put("aws", *docs)
    labels = {
        "application": "spilo",
        "spilo-role": "master",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }
    two.put("aws", piece("shop", "pg", "-x7k2d", "10.2.3.61", labels=labels))
    for form in ("endpoints", "slices"):
        result = two.run(mirror_as=form)
        ((where, reason, text),) = [(row["object"], row["reason"], row["message"]) for row in result["refused"]]
        assert (where, reason) == ("aws/shop/pg", "label_missing")
        assert (
            "Endpoints 'pg'" in text
            and "has not the label 'mirror.semaphore.uw.io/mirror-service=true', so 1 endpoint is left out" in text
        )
        assert result["failures"] == [] and result["sources"]["aws"]["without_endpoints"] == 0
        assert not [said for said in result["warnings"] if "no endpoints" in said]
    # the other half: one that has the label is mirrored, and the one without it is still named
    two.put("aws", piece("shop", "pg", "-hand", "10.2.3.62", labels=LABEL))
    result = two.run(mirror_as="slices")
    assert (
        reasons(result) == [("aws/shop/pg", "label_missing")] and "slice 'pg-x7k2d'" in result["refused"][0]["message"]
    )
    (name,) = two.names("gcp", "EndpointSlice", api_version=slices_version())
    made = two.get("gcp", "EndpointSlice", name, api_version=slices_version())
    assert [one["addresses"] for one in made["endpoints"]] == [["10.2.3.62"]]
    # what the sentence asks for ends it
    docs[1]["metadata"]["labels"].update(LABEL)
    two.put("aws", docs[1], piece("shop", "pg", "-x7k2d", "10.2.3.61", labels=dict(labels, **LABEL)))
    for form in ("slices", "endpoints"):
        assert reasons(two.run(mirror_as=form)) == []
    ready = two.get("gcp", "Endpoints", "aws-shop-73736d-pg")["subsets"][0]["addresses"]
    assert [row["ip"] for row in ready] == ["10.2.3.61"]


def test_endpoints_that_were_all_refused_are_not_missing(two):
    two.put("aws", service("shop", "far"), endpoints("shop", "far", "10.99.0.1"))
    result = two.run(mirror_as="endpoints")
    assert reasons(result) == [("aws/shop/far", "outside_grant")]
    assert result["sources"]["aws"]["without_endpoints"] == 0 and not [
        said for said in result["warnings"] if "no endpoints" in said
    ]
