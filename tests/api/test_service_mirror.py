# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""service_mirror between two real API servers. The audit logs say what was really asked and written (decision 44)."""

from __future__ import annotations

import contextlib
import copy

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Invalid
from ansible_collections.multicluster.network.plugins.module_utils._plan.objects import stripped
from api_server import slices_version
from mirror_clusters import (  # pylint: disable=unused-import
    BASE,
    DEFINITION,
    FLUENTD,
    LABEL,
    NAMESPACE,
    PODS,
    PORTS,
    endpoints,
    fluentd,
    namespace,
    other,
    piece,
    reasons,
    service,
    two,
)

__all__ = ["fluentd", "other", "two"]


def test_seed_example_again_and_one_change(fluentd):
    two = fluentd
    mark = two.mark()
    result = two.run(check=True, mirror_as="endpoints")
    assert result["changed"] and result["failures"] == [] and two.writes(mark) == {"aws": [], "gcp": []}
    assert "10.2.3.19" in result["diff"]["after"]

    result = two.run(mirror_as="endpoints")
    assert (result["refused"], result["failures"]) == ([], [])
    mirror = two.get("gcp", "Service", FLUENTD)
    assert mirror["metadata"]["labels"] == {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
    assert "annotations" not in mirror["metadata"] and "selector" not in mirror["spec"]
    assert mirror["spec"]["type"] == "ClusterIP" and mirror["spec"]["clusterIP"].startswith("10.")
    assert [(port["name"], port["port"]) for port in mirror["spec"]["ports"]] == [("http", 8888), ("forward", 8889)]
    ends = two.get("gcp", "Endpoints", FLUENTD)
    assert ends["metadata"]["labels"] == {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
    assert [address["ip"] for address in ends["subsets"][0]["addresses"]] == sorted(PODS)
    assert ends["subsets"][0]["addresses"][0]["targetRef"] == {"kind": "Pod", "name": "p-10.2.3.19"}
    assert "nodeName" not in ends["subsets"][0]["addresses"][0]
    assert two.names("aws", "Service") == []

    mark = two.mark()
    result = two.run(mirror_as="endpoints")
    assert not result["changed"] and result["plan"]["unchanged"] == 2
    for asked in two.asked(mark).values():
        # one list of each kind; where there is no discovery.k8s.io/v1, that one is answered by 404
        assert sorted((verb, path) for verb, path, status in asked if status == 200) == [
            ("list", "/api/v1/endpoints"),
            ("list", "/api/v1/services"),
            ("list", f"/apis/{slices_version()}/namespaces/sys-semaphore/endpointslices"),
        ]
        assert {verb for verb, path, status in asked} == {"list"} and len(asked) == (
            3 if slices_version().endswith("/v1") else 4
        )

    two.put("aws", endpoints("sys-log", "fluentd", "10.2.3.77", *PODS[1:]))
    mark = two.mark()
    result = two.run(mirror_as="endpoints")
    assert result["plan"]["update"] == 1
    assert two.writes(mark) == {"aws": [], "gcp": [("patch", BASE + NAMESPACE + "/endpoints/" + FLUENTD, 200)]}

    two.put("aws", service("sys-log", "fluentd", labels={}))
    result = two.run(mirror_as="endpoints")
    assert reasons(result) == [("gcp: aws", "delete_budget"), ("gcp: aws", "delete_budget")]
    result = two.run(mirror_as="endpoints", confirm_empty=["aws"])
    assert result["plan"]["delete"] == 2 and two.names("gcp", "Service") == []
    assert not two.run(mirror_as="endpoints")["changed"]


def test_both_directions_and_empty_endpoints(two):
    two.put("aws", service("shop", "a"), endpoints("shop", "a"))
    two.put("gcp", service("shop", "b", clusterIP="None"), endpoints("shop", "b", "10.4.7.2", not_ready=["10.4.7.3"]))
    result = two.run(mirror_as="endpoints")
    assert result["refused"] == result["failures"] == []
    assert two.names("gcp", "Endpoints") == ["aws-shop-73736d-a"]
    assert two.get("aws", "Service", "gcp-shop-73736d-b")["spec"]["clusterIP"] == "None"
    subset = two.get("aws", "Endpoints", "gcp-shop-73736d-b")["subsets"][0]
    assert (subset["addresses"][0]["ip"], subset["notReadyAddresses"][0]["ip"]) == ("10.4.7.2", "10.4.7.3")
    mark = two.mark()
    assert not two.run(mirror_as="endpoints")["changed"] and two.writes(mark) == {"aws": [], "gcp": []}
    # an Endpoints object without any address is known again, too
    two.drop("aws", "Service", "shop", "a")
    two.drop("aws", "Endpoints", "shop", "a")
    assert two.run(mirror_as="endpoints", confirm_empty=["aws"])["plan"]["delete"] == 2
    assert two.names("gcp", "Endpoints") == [] and two.names("aws", "Endpoints") == ["gcp-shop-73736d-b"]


def test_service_changes_follow(fluentd):
    two = fluentd
    two.run(mirror_as="endpoints")
    before = two.get("gcp", "Service", FLUENTD)
    affinity = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}
    two.put(
        "aws",
        service(
            "sys-log",
            "fluentd",
            ports=PORTS[:1] + [{"name": "dns", "port": 53, "protocol": "UDP"}],
            type="NodePort",
            **affinity,
        ),
    )
    assert two.run(mirror_as="endpoints")["plan"]["update"] == 1
    mirror = two.get("gcp", "Service", FLUENTD)
    assert [(port["name"], port["port"], port["protocol"], "nodePort" in port) for port in mirror["spec"]["ports"]] == [
        ("http", 8888, "TCP", False),
        ("dns", 53, "UDP", False),
    ]
    assert mirror["spec"]["sessionAffinity"] == "ClientIP" and mirror["spec"]["type"] == "ClusterIP"
    assert (
        mirror["spec"]["clusterIP"] == before["spec"]["clusterIP"]
        and mirror["metadata"]["uid"] == before["metadata"]["uid"]
    )
    two.drop("aws", "Service", "sys-log", "fluentd")
    two.put("aws", service("sys-log", "fluentd"), endpoints("sys-log", "fluentd", *PODS))
    assert two.run(mirror_as="endpoints")["plan"]["update"] == 1
    assert two.get("gcp", "Service", FLUENTD)["spec"]["sessionAffinity"] == "None"
    assert not two.run(mirror_as="endpoints")["changed"]
    # headless cannot be changed in place
    two.drop("aws", "Service", "sys-log", "fluentd")
    two.put("aws", service("sys-log", "fluentd", clusterIP="None"), endpoints("sys-log", "fluentd", *PODS))
    result = two.run(mirror_as="endpoints")
    assert (result["plan"]["create"], result["plan"]["delete"], result["failures"]) == (2, 2, [])
    assert (
        two.get("gcp", "Service", FLUENTD)["spec"]["clusterIP"] == "None"
        and two.get("gcp", "Endpoints", FLUENTD)["subsets"]
    )
    assert not two.run(mirror_as="endpoints")["changed"]


def test_hand_edits_are_repaired(fluentd):
    two = fluentd
    two.run(mirror_as="endpoints")
    changed = two.get("gcp", "Endpoints", FLUENTD)
    for obj in (dict(changed, subsets=[{"addresses": [{"ip": "10.4.7.9"}]}]),):
        obj["metadata"] = {"name": FLUENTD, "namespace": NAMESPACE}
        two.put("gcp", dict(obj, apiVersion="v1", kind="Endpoints"))
    patch = {
        "spec": {"selector": {"app": "mine"}, "sessionAffinity": "ClientIP"},
        "metadata": {"labels": {"mirrored-svc": "no"}},
    }
    two.clients["gcp"].merge_patch(BASE + NAMESPACE + "/services/" + FLUENTD, patch, "somebody")
    two.run(mirror_as="endpoints")
    assert [a["ip"] for a in two.get("gcp", "Endpoints", FLUENTD)["subsets"][0]["addresses"]] == sorted(PODS)
    mirror = two.get("gcp", "Service", FLUENTD)
    assert mirror["metadata"]["labels"]["mirrored-svc"] == "true"
    assert "selector" not in mirror["spec"], "a selector would replace our endpoints"
    two.drop("gcp", "Service", NAMESPACE, FLUENTD)
    assert two.run(mirror_as="endpoints")["plan"]["create"] == 2, "the server took the Endpoints away with the Service"


def test_a_port_that_got_another_number_is_repaired(fluentd):
    """Its name stays, and alongside the owned one it would be there twice, which is no valid Service."""
    two = fluentd
    two.run()
    path = BASE + NAMESPACE + "/services/" + FLUENTD
    for port in (9999, 8888):
        wrong = (
            [{"name": "http", "protocol": "TCP", "port": port}]
            if port == 9999
            else [{"name": "other", "protocol": "TCP", "port": 8888}]
        )
        two.clients["gcp"].merge_patch(path, {"spec": {"ports": wrong}}, "kubectl-edit")
        result = two.run()
        assert result["changed"] and not result["failures"]
        assert [(row["name"], row["port"]) for row in two.clients["gcp"].get(path)["spec"]["ports"]] == [
            ("http", 8888),
            ("forward", 8889),
        ]
        mark = two.mark()
        assert not two.run()["changed"] and not two.writes(mark)["gcp"]


def test_unowned_and_upstream_objects(fluentd):
    two = fluentd
    unowned = service(NAMESPACE, FLUENTD, labels={"team": "blue"}, selector={"app": "mine"})
    two.put("gcp", namespace(NAMESPACE), unowned)
    for adopt in (False, True):
        mark = two.mark()
        result = two.run(mirror_as="endpoints", adopt=adopt)
        assert reasons(result) == [("aws/sys-log/fluentd", "not_ours")] and two.writes(mark)["gcp"] == []
    two.drop("gcp", "Service", NAMESPACE, FLUENTD)

    labels = {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
    stale = "aws-sys-log-73736d-gone"
    for name in (FLUENTD, stale):
        two.put("gcp", service(NAMESPACE, name, labels=labels), endpoints(NAMESPACE, name, "10.2.3.1", labels=labels))
    address = two.get("gcp", "Service", FLUENTD)["spec"]["clusterIP"]
    mark = two.mark()
    result = two.run(mirror_as="endpoints")
    assert reasons(result) == [("aws/sys-log/fluentd", "adoptable")] and two.writes(mark)["gcp"] == []
    assert two.run(mirror_as="endpoints", adopt=True, check=True)["plan"]["update"] == 2
    result = two.run(mirror_as="endpoints", adopt=True)
    assert (result["plan"]["update"], result["plan"]["delete"], result["refused"]) == (2, 2, [])
    assert two.names("gcp", "Service") == [FLUENTD]
    assert two.get("gcp", "Service", FLUENTD)["spec"]["clusterIP"] == address
    assert not two.run(mirror_as="endpoints")["changed"]


def test_hostile_sources(two):
    two.put("aws", service("shop", "good"), endpoints("shop", "good", "10.2.3.4"))
    # Endpoints take some of these, slices of old servers all of them; what the server refuses we need not refuse
    taken = set()
    for number, ip in enumerate(
        (
            "239.1.1.1",
            "255.255.255.255",
            "240.0.0.1",
            "10.3.0.1",
            "10.5.0.9",
            "10.4.7.2",
            "10.22.22.27",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "::ffff:10.2.3.4",
            "64:ff9b::a9fe:a9fe",
            "10.6.0.1",
            "::1",
        )
    ):
        name = f"evil-{number}"
        two.put("aws", service("shop", name))
        for form in (
            endpoints("shop", name, ip, "10.2.3.5"),
            piece("shop", name, "-x", ip, labels=LABEL, family="IPv6" if ":" in ip else "IPv4"),
        ):
            with contextlib.suppress(Invalid):
                two.put("aws", form)
                taken.add(ip)
                break
    assert taken >= {
        "255.255.255.255",
        "240.0.0.1",
        "10.3.0.1",
        "10.5.0.9",
        "10.4.7.2",
        "10.22.22.27",
        "100.64.0.1",
        "10.6.0.1",
    }
    two.put(
        "aws",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "names", "namespace": "shop", "labels": LABEL},
            "spec": {"type": "ExternalName", "externalName": "metadata.google.internal"},
        },
    )
    two.put(
        "aws",
        service(
            "shop",
            "grabs",
            externalIPs=["10.22.22.27"],
            type="LoadBalancer",
            loadBalancerIP="10.5.0.1",
            selector={"a": "b"},
        ),
    )
    two.put("aws", service("shop", "s" * 60))
    for form in ("endpoints", "slices"):
        result = two.run(mirror_as=form, max_deletes=-1)
        words = dict(reasons(result))
        assert words["aws/shop/names"] == "unsupported_type" and words["aws/shop/" + "s" * 60] == "name_too_long"
        assert set(words.values()) <= {"special_address", "outside_grant", "unsupported_type", "name_too_long"}
        assert not result["failures"]
        api_version, kind = ("v1", "Endpoints") if form == "endpoints" else (slices_version(), "EndpointSlice")
        found = [
            two.get("gcp", kind, name, api_version=api_version)
            for name in two.names("gcp", kind, api_version=api_version)
        ]
        ips = {a["ip"] for obj in found for subset in obj.get("subsets") or () for a in subset.get("addresses", ())}
        ips |= {ip for obj in found for one in obj.get("endpoints") or () for ip in one["addresses"]}
        assert ips <= {"10.2.3.4", "10.2.3.5"} and (form == "slices" or ips == {"10.2.3.4", "10.2.3.5"})
        grabs = two.get("gcp", "Service", "aws-shop-73736d-grabs")
        assert (
            not {"externalIPs", "loadBalancerIP", "selector"} & set(grabs["spec"])
            and grabs["spec"]["type"] == "ClusterIP"
        )


@pytest.mark.parametrize("form", ["endpoints", "slices"])
def test_a_service_that_becomes_a_name_in_dns_keeps_its_mirror(two, form):
    """The mirror stays, with its address and its endpoints, and the run reports it by name; without the label it goes as any other."""
    two.put(
        "aws",
        service("shop", "moved"),
        endpoints("shop", "moved", "10.2.3.4"),
        piece("shop", "moved", "-x", "10.2.3.4", labels=LABEL),
    )
    assert two.run(mirror_as=form)["plan"]["create"] == 2
    before = two.get("gcp", "Service", "aws-shop-73736d-moved")
    two.drop("aws", "Service", "shop", "moved")
    two.put(
        "aws",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "moved", "namespace": "shop", "labels": LABEL},
            "spec": {"type": "ExternalName", "externalName": "shop.example.org"},
        },
    )
    mark = two.mark()
    result = two.run(mirror_as=form, max_deletes=-1)
    assert (
        reasons(result) == [("aws/shop/moved", "unsupported_type")]
        and not result["changed"]
        and two.writes(mark)["gcp"] == []
    )
    assert two.get("gcp", "Service", "aws-shop-73736d-moved") == before
    two.drop("aws", "Service", "shop", "moved")
    assert two.run(mirror_as=form, max_deletes=-1)["plan"]["delete"] == 2 and two.names("gcp", "Service") == []


def test_colliding_names(two):
    definition = copy.deepcopy(DEFINITION)
    two.put("aws", namespace("2-web"))
    two.put("aws", service("shop", "x-73736d-y"), service("2-web", "api"))
    result = two.run(prefixes={"aws": "p", "gcp": "p-2"}, definition=definition)
    assert reasons(result) == []
    two.put("gcp", service("shop", "z"))
    with pytest.raises(ValueError, match="duplicate_service_prefix"):
        two.run(prefixes={"aws": "p", "gcp": "p"})
    two.drop("aws", "Service", "2-web", "api")


def test_budget_and_sweeps(two):
    for number in range(12):
        two.put("aws", service("shop", f"s{number}"), endpoints("shop", f"s{number}", "10.2.3.4"))
    assert not two.run(mirror_as="endpoints")["failures"]
    for number in range(6):
        two.drop("aws", "Service", "shop", f"s{number}")
        two.drop("aws", "Endpoints", "shop", f"s{number}")
    mark = two.mark()
    result = two.run(mirror_as="endpoints")
    assert reasons(result) == [("gcp: aws", "delete_budget")] * 2 and two.writes(mark)["gcp"] == []
    assert not two.run(mirror_as="endpoints", service_sync=False, max_deletes=-1)["changed"]
    result = two.run(mirror_as="endpoints", max_deletes=6)
    assert result["plan"]["delete"] == 12 and len(two.names("gcp", "Service")) == 6
    mark = two.mark()
    assert not two.run(mirror_as="endpoints", sources=["gcp"])["changed"], (
        "sources that a run does not speak of are left alone"
    )
    result = two.run(state="absent", sources=["aws"], mirror_as="endpoints")
    assert result["plan"]["delete"] == 12 and two.names("gcp", "Service") == two.names("gcp", "Endpoints") == []
    assert two.writes(mark)["aws"] == []


def test_namespace(fluentd):
    two = fluentd
    result = two.run(mirror_namespace="not-there", create_namespace=False, mirror_as="endpoints")
    assert [(row["cluster"], row["reason"]) for row in result["failures"]] == [("gcp", "mirror_namespace_missing")]
    assert (
        "set create_namespace: true. The playbook preflight finds this before a run" in result["failures"][0]["message"]
    )
    assert not result["changed"]
    result = two.run(mirror_namespace="made-by-us", mirror_as="endpoints", check=True)
    assert [change["kind"] for change in result["plan"]["changes"]] == ["Namespace", "Service", "Endpoints"]
    result = two.run(mirror_namespace="made-by-us", mirror_as="endpoints")
    assert result["plan"]["create"] == 3 and not result["failures"]
    assert not two.run(mirror_namespace="made-by-us", mirror_as="endpoints")["changed"]
    two.run(mirror_namespace="made-by-us", mirror_as="endpoints", state="absent")
    assert two.names("gcp", "Service", "made-by-us") == []


def test_what_was_taken_over_is_given_back_as_it_was(fluentd):
    """Decision 1: adopted on request, and released unchanged in form; from then on it is the upstream program's again."""
    two = fluentd
    labels = {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
    two.put(
        "gcp",
        namespace(NAMESPACE),
        service(NAMESPACE, FLUENTD, labels=labels),
        endpoints(NAMESPACE, FLUENTD, *sorted(PODS), labels=labels),
    )
    kinds = ("Service", "Endpoints")
    assert two.run(mirror_as="endpoints", adopt=True)["plan"]["update"] == 2
    before = [stripped(two.get("gcp", kind, FLUENTD)) for kind in kinds]
    assert two.run(state="released", sources=["gcp"])["plan"]["update"] == 0
    assert two.run(state="released", check=True)["plan"]["update"] == 2
    mark = two.mark()
    result = two.run(state="released")
    assert (result["plan"]["update"], result["plan"]["delete"], result["failures"]) == (2, 0, [])
    assert [entry[0] for entry in two.writes(mark)["gcp"]] == ["patch", "patch"] and two.writes(mark)["aws"] == []
    assert [stripped(two.get("gcp", kind, FLUENTD)) for kind in kinds] == before
    assert not two.run(state="released")["changed"]
    assert not two.run(state="absent")["changed"] and two.names("gcp", "Service") == [FLUENTD]
    assert reasons(two.run(mirror_as="endpoints")) == [("aws/sys-log/fluentd", "adoptable")]


def test_mirrors_in_slices_are_not_given_back(fluentd):
    two = fluentd
    two.put("aws", piece("sys-log", "fluentd", "-abc", "10.2.3.19", labels=LABEL))
    two.run(mirror_as="slices")
    mark = two.mark()
    result = two.run(state="released")
    assert (
        reasons(result) == [("Service gcp/sys-semaphore/" + FLUENTD, "unsupported_type")]
        and two.writes(mark)["gcp"] == []
    )
    two.run(mirror_as="endpoints")
    assert two.run(state="released")["plan"]["update"] == 2
