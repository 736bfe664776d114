# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services with names that begin with a digit, which API servers take from Kubernetes 1.36 on. Names made of them are taken by every release."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Invalid
from ansible_collections.multicluster.network.plugins.module_utils._services.mirror_services import (
    mirror_labels,
    service_manifest,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.names import (
    GLOBAL_PREFIX,
    check_prefixes,
    global_name,
    mirror_name,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from mcs_clusters import VERSIONS, derived_name, other, pair
from mirror_clusters import LABEL, NAMESPACE, PODS, SHARED, endpoints, namespace, reasons, service, two

__all__ = ["other", "pair", "two"]
NAME = "1web"


def takes_digits(made) -> bool:
    """Whether this API server itself takes a Service with a name that begins with a digit."""
    try:
        made.put("aws", service("shop", NAME, labels={}))
    except Invalid:
        return False
    return True


def minor(made) -> int:
    return int(made.clients["aws"].get("/version")["minor"].rstrip("+"))


def test_the_releases_differ_as_we_say(two):
    assert takes_digits(two) == (minor(two) >= 36)


def test_every_release_takes_what_we_make(two):
    two.put("gcp", namespace(NAMESPACE))
    for name in (mirror_name("aws", "2shop", NAME), global_name("2shop", NAME)):
        two.put(
            "gcp",
            service_manifest(
                name.checked(), NAMESPACE, mirror_labels("aws"), {"ports": [{"port": 80, "protocol": "TCP"}]}
            ),
        )
        assert name.name in two.names("gcp", "Service")
    two.put(
        "gcp", service_manifest(derived_name("2shop", NAME), "shop", {}, {"ports": [{"port": 80, "protocol": "TCP"}]})
    )


def test_a_prefix_is_one_that_every_release_takes(two):
    for prefix in ("1aws", "aws.b", "Aws"):
        with pytest.raises(ValueRefused, match="every release"):
            check_prefixes([prefix])
    check_prefixes(["aws1"])
    assert GLOBAL_PREFIX[0].isalpha()


def test_mirrors_and_global_services(two):
    if not takes_digits(two):
        assert reasons(two.run()) == []  # there is no such Service
        return
    two.put(
        "aws",
        service("shop", NAME, labels={**LABEL, **SHARED}),
        endpoints("shop", NAME, *PODS, labels={**LABEL, **SHARED}),
    )
    result = two.run(mirror_as="endpoints", global_selector="mirror.semaphore.uw.io/global-service=true")
    assert (result["refused"], result["failures"]) == ([], [])
    mirror = "aws-shop-73736d-" + NAME
    assert mirror in two.names("gcp", "Service") and "gl-shop-73736d-" + NAME in two.names("gcp", "Service")
    assert [row["ip"] for row in two.get("gcp", "Endpoints", mirror)["subsets"][0]["addresses"]] == sorted(PODS)
    assert not two.run(mirror_as="endpoints", global_selector="mirror.semaphore.uw.io/global-service=true")["changed"]


def test_exports(pair):
    place = ("shop", NAME)
    pair.run()
    if not takes_digits(pair):
        pair.claim("aws", place)  # an export alone may be called so
        pair.run()
        assert pair.said("aws", place)["Valid"] == ("False", "NoService")
        pair.unexport("aws", place)
        return
    pair.export("aws", place, "10.2.3.1")
    result = pair.run()
    assert (result["failures"], result["refused"]) == ([], [])
    assert pair.said("aws", place)["Valid"] == ("True", "Valid")
    assert (
        pair.get("gcp", "ServiceImport", NAME, "shop", VERSIONS[0])["spec"]["ips"]
        == pair.derived("gcp", place)["spec"]["clusterIPs"]
    )
    assert list(pair.slices("gcp", place)["aws"]) == ["10.2.3.1"]
