# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""service_imports where one cluster has both families of addresses, and alongside mirrors."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import mirror
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.names import SOURCE_LABEL
from api_server import ApiServer, slices_version
from mcs_clusters import DEFINITION, Set, ends_of, namespace, other, pair, reasons
from mirror_clusters import LABEL

__all__ = ["other", "pair"]
WEB = ("shop", "web")
BOTH = copy.deepcopy(DEFINITION)
for number, cluster in enumerate(("aws", "gcp")):
    for key in ("pod_cidrs", "service_cidrs"):
        BOTH["clusters"][cluster][key].append(f"fd0{'2' if key == 'pod_cidrs' else '3'}:{number + 1}::/64")


def old():
    """Servers before 1.23 know both families by a gate; so do their slices."""
    return slices_version().endswith("/v1beta1")


@pytest.fixture(scope="module")
def dual(tmp_path_factory):
    one = ApiServer(
        tmp_path_factory.mktemp("apiserver-dual"),
        "10.5.0.0/16,fd03:2::/112",
        ["--feature-gates", "IPv6DualStack=true"] if old() else [],
    )
    try:
        one.start()
        yield one
    finally:
        one.stop()


def test_each_cluster_gives_the_families_that_it_has(server, dual):
    two = Set(server, dual)
    two.run(definition=BOTH)
    for name in ("aws", "gcp"):
        two.put(name, namespace("shop"))
    two.export("gcp", WEB, "10.4.3.1", ipFamilyPolicy="PreferDualStack")
    two.put("gcp", ends_of(*WEB, "fd02:2::1", family="IPv6", suffix="-6"))
    assert two.run(definition=BOTH)["failures"] == []
    both, single = two.imported("gcp", WEB)["spec"], two.imported("aws", WEB)["spec"]
    assert (
        both["ipFamilies"] == ["IPv4", "IPv6"]
        and both["ips"] == two.derived("gcp", WEB)["spec"]["clusterIPs"]
        and ":" in both["ips"][1]
    )
    assert single["ipFamilies"] == ["IPv4"] and len(single["ips"]) == 1, (
        "this cluster has addresses of one family alone"
    )
    for name in ("aws", "gcp"):
        assert sorted(two.slices(name, WEB)["gcp"]) == ["10.4.3.1", "fd02:2::1"]
        path = two.clients[name].resource(slices_version(), "EndpointSlice").path("shop")
        found = {
            obj["addressType"]: len(obj["endpoints"])
            for obj in two.clients[name].list(path, label_selector=SOURCE_LABEL).items
        }
        assert found == {"IPv4": 1, "IPv6": 1}, "a slice for each family"
    mark = two.mark()
    assert not two.run(definition=BOTH)["changed"] and two.writes(mark) == {"aws": [], "gcp": []}
    # the address that clients know stays when the exporting cluster loses a family
    two.clients["gcp"].merge_patch(
        "/api/v1/namespaces/shop/services/web",
        {
            "spec": {
                "ipFamilyPolicy": "SingleStack",
                "ipFamilies": ["IPv4"],
                "clusterIPs": two.get("gcp", "Service", "web", "shop")["spec"]["clusterIPs"][:1],
            }
        },
        "the-user",
    )
    assert two.run(definition=BOTH)["failures"] == [] and two.imported("gcp", WEB)["spec"]["ips"] == both["ips"]
    assert two.run(definition=BOTH, state="absent")["failures"] == [] and two.imported("gcp", WEB) is None
    two.unexport("gcp", WEB)


def test_one_service_is_mirrored_and_exported(pair):
    pair.export("aws", WEB, "10.2.3.1")
    for path in (
        "/api/v1/namespaces/shop/services/web",
        f"/apis/{slices_version()}/namespaces/shop/endpointslices/web-x",
    ):
        pair.clients["aws"].merge_patch(path, {"metadata": {"labels": LABEL}}, "the-user")
    request = dict(
        pair.request(),
        mirror_namespace="sys-semaphore",
        create_namespace=True,
        mirror_as="slices",
        mirror_selector="mirror.semaphore.uw.io/mirror-service=true",
    )
    for turn in range(2):
        mark = pair.mark()
        assert pair.run()["failures"] == mirror.run(request)["failures"] == []
        assert turn == 0 or pair.writes(mark) == {"aws": [], "gcp": []}, "neither touches what the other made"
    assert pair.names("gcp", "Service", "sys-semaphore") == ["aws-shop-73736d-web"] and sorted(
        pair.slices("gcp", WEB)["aws"]
    ) == ["10.2.3.1"]
    # what is made of another cluster's Service is exported by nobody
    pair.claim("gcp", ("sys-semaphore", "aws-shop-73736d-web"))
    result = pair.run()
    assert ("gcp/sys-semaphore/aws-shop-73736d-web", "unsupported_type") in reasons(result)
    pair.unexport("gcp", ("sys-semaphore", "aws-shop-73736d-web"))
    assert mirror.run(dict(request, state="absent"))["failures"] == [] and pair.imported("gcp", WEB) is not None
