# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exports and imports with real pods, the mesh and the reconciler: what a user of the API sees in both clusters.

The tests of this file build on each other, in their order.
"""

from __future__ import annotations

import functools
import re
import time

import pytest
from plane import export, namespace, service, shell, workload

NAME = "web.shop.svc.clusterset.local"
BOTH = ("aws", "gcp")
#: So many seconds a cluster's API server stays away.
AWAY = 60


@pytest.fixture(scope="module", autouse=True)
def shells(plane):
    for cluster in BOTH:
        plane.apply(cluster, namespace())
        plane.apply(cluster, shell())
    for cluster in BOTH:
        plane.kubectl(cluster, "wait", "-n", "shop", "pod/shell", "--for=condition=Ready", "--timeout=180s")


def answers(plane, cluster, name=NAME, times=20):
    """The clusters with pods that answered HTTP under a name."""
    command = f"for n in $(seq {times}); do curl -s -m 2 http://{name}/ || true; done"
    return set(re.findall(r"of (\w+)$", plane.run(cluster, command), re.MULTILINE))


def conditions(plane, cluster, name="web"):
    rows = plane.found(cluster, "serviceexports.multicluster.x-k8s.io", name)["status"]["conditions"]
    return {row["type"]: (row["status"], row["reason"]) for row in rows}


def addresses(plane, cluster, source, name="web"):
    """Those that slices in one cluster have of another."""
    slices = plane.found(
        cluster,
        "endpointslices",
        **{"multicluster.kubernetes.io/service-name": name, "multicluster.kubernetes.io/source-cluster": source},
    )
    return sorted(
        address for item in slices or () for endpoint in item["endpoints"] or () for address in endpoint["addresses"]
    )


def pods(plane, cluster, name="web"):
    items = plane.found(cluster, "pods", app=name)
    return sorted(item["status"]["podIP"] for item in items if "deletionTimestamp" not in item["metadata"])


def both(plane, ask, what, within=120.0):
    """Until it is so in both clusters."""
    for cluster in BOTH:
        plane.eventually(functools.partial(ask, cluster), f"{what} in {cluster}", within)


def imported(plane, cluster, name="web"):
    return plane.found(cluster, "serviceimports.multicluster.x-k8s.io", name)


def answered_by(plane, *desired):
    """Until pods of exactly these clusters answer, asked from both."""
    both(
        plane, lambda cluster: answers(plane, cluster) == set(desired), f"it is not {' and '.join(desired)} who answers"
    )


def test_one_name_is_answered_by_pods_of_both_clusters(plane):
    for cluster in BOTH:
        plane.apply(cluster, workload(cluster), service(), export())
    answered_by(plane, *BOTH)
    for cluster in BOTH:
        assert conditions(plane, cluster) == {
            "Valid": ("True", "Valid"),
            "Ready": ("True", "Exported"),
            "Conflict": ("False", "NoConflicts"),
        }
    assert answers(plane, "aws", "web.shop.svc.cluster.local") == {"aws"}, "the cluster's own name stays its own"


def test_a_deployment_is_scaled_and_rolled(plane):
    plane.kubectl("gcp", "scale", "-n", "shop", "deployment/web", "--replicas=3")
    plane.eventually(
        lambda: len(pods(plane, "gcp")) == 3 and addresses(plane, "aws", "gcp") == pods(plane, "gcp"),
        "three pods are not known in aws",
    )
    before = set(pods(plane, "gcp"))
    plane.kubectl("gcp", "rollout", "restart", "-n", "shop", "deployment/web")
    plane.kubectl("gcp", "rollout", "status", "-n", "shop", "deployment/web", "--timeout=180s")

    def known():
        now = pods(plane, "gcp")
        return len(now) == 3 and not before & set(now) and addresses(plane, "aws", "gcp") == now

    plane.eventually(known, "the new pods are not known in aws")
    answered_by(plane, *BOTH)


def test_pods_of_a_headless_service_have_names_with_their_cluster(plane):
    for cluster in BOTH:
        plane.apply(
            cluster,
            workload(cluster, "db", kind="StatefulSet", replicas=2),
            service("db", clusterIP="None"),
            export("db"),
        )
    for source in BOTH:
        both(
            plane,
            lambda cluster, source=source: len(addresses(plane, cluster, source, "db")) == 2,
            "not known: the pods of " + source,
        )
        for number in (0, 1):
            ask = f"curl -s -m 2 http://db-{number}.{source}.db.shop.svc.clusterset.local:8080/"
            desired = f"db-{number} of {source}"
            both(
                plane,
                lambda cluster, ask=ask, desired=desired: desired in plane.run(cluster, ask),
                desired + " does not answer",
            )
    every = sorted(pods(plane, "aws", "db") + pods(plane, "gcp", "db"))
    both(
        plane,
        lambda cluster: sorted(plane.run(cluster, "dig +short db.shop.svc.clusterset.local").split()) == every,
        "the name does not name all pods",
    )
    for cluster in BOTH:
        assert not imported(plane, cluster, "db")["spec"].get("ips")


def test_what_the_older_export_has_of_ports_holds_and_both_are_reported(plane):
    plane.apply("gcp", service(port=8081))
    both(
        plane,
        lambda cluster: conditions(plane, cluster)["Conflict"] == ("True", "PortConflict"),
        "the conflict is not reported",
    )
    answered_by(plane, "aws")
    for cluster in BOTH:
        assert [row["port"] for row in imported(plane, cluster)["spec"]["ports"]] == [80]
    plane.apply("gcp", service())
    both(
        plane, lambda cluster: conditions(plane, cluster)["Conflict"] == ("False", "NoConflicts"), "the conflict stays"
    )
    answered_by(plane, *BOTH)


def test_an_import_exists_as_long_as_one_export_does(plane):
    ips = imported(plane, "gcp")["spec"]["ips"]
    plane.kubectl("aws", "delete", "-n", "shop", "serviceexport.multicluster.x-k8s.io/web")
    answered_by(plane, "gcp")
    assert imported(plane, "gcp")["spec"]["ips"] == ips
    plane.kubectl("gcp", "delete", "-n", "shop", "serviceexport.multicluster.x-k8s.io/web")
    both(plane, lambda cluster: imported(plane, cluster) is None, "the import stays")
    both(plane, lambda cluster: "NXDOMAIN" in plane.run(cluster, f"nslookup {NAME}. || true"), "the name stays")
    for cluster in BOTH:
        left = plane.found(cluster, "services,endpointslices", **{"multicluster.kubernetes.io/service-name": "web"})
        assert not left, [item["metadata"]["name"] for item in left]


def test_a_cluster_that_is_away_for_a_while_keeps_its_endpoints(plane):
    for cluster in BOTH:
        plane.apply(cluster, export())
    answered_by(plane, *BOTH)
    before = addresses(plane, "aws", "gcp")
    plane.lab("api-stop", "gcp")
    plane.kubectl("aws", "scale", "-n", "shop", "deployment/web", "--replicas=2")
    plane.kubectl("aws", "rollout", "status", "-n", "shop", "deployment/web", "--timeout=180s")
    plane.eventually(lambda: len(addresses(plane, "aws", "aws")) == 2, "the cluster that is there is not served")
    end = time.monotonic() + AWAY
    while time.monotonic() < end:
        assert addresses(plane, "aws", "gcp") == before and answers(plane, "aws") == set(BOTH)
        time.sleep(2)
    plane.lab("api-start", "gcp")
    plane.eventually(
        lambda: addresses(plane, "gcp", "aws") == pods(plane, "aws"),
        "what happened meanwhile did not arrive",
        within=240,
    )
