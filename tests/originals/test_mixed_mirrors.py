# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mixed fleet of mirrors: those in aws by us, those in gcp by the real semaphore-service-mirror, of which we may only read."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import mirror as service_mirror
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests
from api_server import minor_version, slices_version
from mirror_clusters import NAMESPACE, PORTS, SHARED, Two, clear, endpoints, namespace, piece, service
from mirror_life import GLOBAL, MIRROR, MORE
from program import Program
from test_service_mirror import NAME, configuration

THEIRS = "gcp-shop-73736d-web"


class Mixed(Two):
    """``shared``: global services too."""

    shared = False

    def account(self, folder):
        """Our way into gcp: an account that only reads."""
        admin = self.servers["gcp"].access("gcp")
        made = {"fabric": "t", "clusters": [admin], "objects": access_manifests(["service_mirror_read"])}
        assert not cluster_objects.run(made)["failures"]
        request = {
            "fabric": "t",
            "clusters": [admin],
            "service_account": "multicluster-service-mirror-read",
            "namespace": "kube-system",
            "path": str(folder / "gcp-read"),
            "expires": 3600,
            "renew_before": 60,
            "state": "present",
        }
        assert not cluster_token.run(request)["failures"]
        self.entries = [self.servers["aws"].access("aws"), {"name": "gcp", "kubeconfig": str(folder / "gcp-read")}]

    def owned(self, **more):
        """A run; nothing that exists in gcp may have another version afterwards."""
        before = self.versions()
        options = {
            "clusters": self.entries,
            "sources": ["gcp"],
            "destinations": ["aws"],
            "mirror_as": "endpoints",
            "max_deletes": -1,
        }
        if self.shared:
            options["global_selector"] = "mirror.semaphore.uw.io/global-service=true"
        result = service_mirror.run(self.request(**dict(options, **more)))
        assert self.versions() == before, "our run wrote in the neighbour"
        return result

    def versions(self):
        found = {}
        client = self.clients["gcp"]
        for version, kind in (
            ("v1", "Service"),
            ("v1", "Endpoints"),
            ("v1", "Namespace"),
            (slices_version(), "EndpointSlice"),
        ):
            for obj in client.list(client.resource(version, kind).path()).items:
                found[kind, obj["metadata"].get("namespace"), obj["metadata"]["name"]] = obj["metadata"][
                    "resourceVersion"
                ]
        return found

    def ports(self, cluster, name):
        return [port["name"] for port in self.get(cluster, "Service", name)["spec"]["ports"]]

    def addresses(self, cluster, name):
        subsets = self.get(cluster, "Endpoints", name).get("subsets") or []
        return sorted(entry["ip"] for subset in subsets for entry in subset.get("addresses") or [])


@pytest.mark.parametrize("shared", [False, True], ids=["mirrors", "mirrors and global services"])
def test_alongside_each_other(original, server, second, tmp_path, shared):
    if shared and minor_version() < 21:
        pytest.skip("NOT RUN: upstream reads discovery.k8s.io/v1, which this Kubernetes does not have")
    two = Mixed(server, second)
    two.shared = shared
    for name in two.servers:
        two.put(name, namespace("sys-log"), namespace("shop"), namespace(NAMESPACE))
    two.account(tmp_path)
    program = Program(original(NAME), tmp_path, {"aws": server, "gcp": second})
    file = program.write("config.json", configuration(program, shared))
    program.start("-config", file, "-kube-config", program.kubeconfig("gcp"))
    try:
        alongside(two, program, shared)
    finally:
        program.stop()
        clear(two)


def alongside(two, program, shared):
    """Join, changes on either side, a source that is away, leave."""
    two.put("aws", service("sys-log", "fluentd"), endpoints("sys-log", "fluentd", "10.2.3.19"))
    two.put("gcp", service("shop", "web"), endpoints("shop", "web", "10.4.3.4"))
    if shared:
        two.put("aws", service("shop", "cart", labels=SHARED), piece("shop", "cart", "-aws01", "10.2.5.1"))
        two.put("gcp", service("shop", "cart", labels=SHARED), piece("shop", "cart", "-gcp01", "10.4.5.1"))
    # join: each side has the other's; theirs first, since what it writes meanwhile would look like the collection's
    program.until(
        "its mirror", lambda: MIRROR in two.names("gcp", "Service") and MIRROR in two.names("gcp", "Endpoints")
    )
    if shared:
        program.until("its slices", lambda: {"gl-cart-aws01", "gl-cart-gcp01"} <= slices(two, "gcp"))
    result = two.owned()
    assert result["changed"] and not result["failures"] and not result["refused"], result
    assert two.ports("aws", THEIRS) == ["http", "forward"] and two.addresses("aws", THEIRS) == ["10.4.3.4"]
    assert not two.owned()["changed"]
    if shared:
        for cluster in ("aws", "gcp"):
            program.until(
                "slices in " + cluster,
                lambda cluster=cluster: {"gl-cart-aws01", "gl-cart-gcp01"} <= slices(two, cluster),
            )
            assert two.get(cluster, "Service", GLOBAL)["metadata"]["annotations"]["global-svc-clusters"].count(",") == 1
    # a port and a pod more, and less again, on either side
    for ports, pods in ((PORTS + [MORE], ("10.4.3.4", "10.4.3.5")), (PORTS[:1], ("10.4.3.5",))):
        two.put("gcp", service("shop", "web", ports=ports), endpoints("shop", "web", *pods))
        assert two.owned()["changed"] and not two.owned()["changed"]
        assert two.ports("aws", THEIRS) == [port["name"] for port in ports] and two.addresses("aws", THEIRS) == list(
            pods
        )
        theirs = [address.replace("10.4", "10.2") for address in pods]
        two.put("aws", service("sys-log", "fluentd", ports=ports), endpoints("sys-log", "fluentd", *theirs))
        desired = [port["name"] for port in ports]
        program.until(
            "the change in gcp",
            lambda desired=desired, theirs=theirs: (
                (two.ports("gcp", MIRROR), two.addresses("gcp", MIRROR)) == (desired, theirs)
            ),
        )
    # its API server is away: what there is stays
    away = [two.entries[0], dict(two.entries[1], kubeconfig=None, api_url="https://127.0.0.1:1", token="x" * 20)]
    result = two.owned(clusters=away)
    assert (
        [row["cluster"] for row in result["failures"]] == ["gcp"]
        and not result["changed"]
        and two.addresses("aws", THEIRS) == ["10.4.3.5"]
    )
    # a Service goes on either side
    two.drop("gcp", "Service", "shop", "web")
    two.drop("gcp", "Endpoints", "shop", "web")
    assert two.owned()["changed"] and THEIRS not in two.names("aws", "Service")
    two.drop("aws", "Service", "sys-log", "fluentd")
    two.drop("aws", "Endpoints", "sys-log", "fluentd")
    program.until("its mirror is gone", lambda: MIRROR not in two.names("gcp", "Service"))
    # leave: owned ones go, theirs stay
    two.put("gcp", service("shop", "web"), endpoints("shop", "web", "10.4.3.4"))
    two.put("aws", service("sys-log", "fluentd"), endpoints("sys-log", "fluentd", "10.2.3.19"))
    program.until("its mirror again", lambda: MIRROR in two.names("gcp", "Endpoints"))
    assert two.owned()["changed"] and THEIRS in two.names("aws", "Service")
    assert two.owned(state="absent", sources=["aws", "gcp"])["changed"]
    assert two.names("aws", "Service") == [] and MIRROR in two.names("gcp", "Service")


def slices(two, cluster):
    return set(two.names(cluster, "EndpointSlice", api_version=slices_version()))
