# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with a tenant mapping's settings is reported with the variable to fix."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import (
    converge as tenants,
    side as tenants_side,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import KubeError
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

CLUSTERS = [{"name": "oslo"}, {"name": "rome"}]


@pytest.mark.parametrize("side", ["source", "apinet"])
def test_a_side_that_is_no_cluster(side):
    with pytest.raises(ValueRefused) as raised:
        tenants.sides({"clusters": CLUSTERS, side: "romme"}, ("source", "apinet"))
    assert (
        raised.value.message
        == f"tenants_{side} names 'romme', to which clusters gives no access; it is one of oslo, rome"
    )


def test_a_public_prefix_that_is_none():
    with pytest.raises(ValueRefused) as raised:
        tenants_side.allocate(
            {"clusters": CLUSTERS, "apinet": "rome", "fabric": "f", "public_prefixes": ["198.51.100.0"]}
        )
    assert raised.value.reason == "bad_cidr" and raised.value.message.startswith(
        "tenants_public_prefixes: '198.51.100.0'"
    )


class Nowhere:
    """An API server that has no such namespace."""

    cluster = "rome"

    def __getattr__(self, verb):
        def refuse(*unused, **unused_too):
            raise KubeError("rome", verb, 'namespaces "nowhere" not found', 404)

        return refuse


def test_a_network_side_without_its_namespace():
    with pytest.raises(KubeError) as raised:
        tenants.TwinsLease(Nowhere(), "nowhere", "lock", "manager").acquire()
    row = raised.value.failure()
    assert (row["cluster"], row["reason"], row["status"]) == ("rome", "not_found", 404)
    assert (
        row["message"]
        == "the namespace nowhere for the network side's objects does not exist; make it, or set tenants_create_namespace: true"
    )
