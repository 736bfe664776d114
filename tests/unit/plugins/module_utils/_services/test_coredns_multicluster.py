# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a cluster's CoreDNS can answer from ServiceImports: read from its image, never guessed."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._services import coredns_multicluster as names
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_corefile import (
    Options,
    corefile_text,
    owned_blocks,
    parse_version,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda one: (
        st.lists(one, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "template", "containers", "image", "serviceAccountName"]), one, max_size=3
        )
    ),
    max_leaves=12,
)


def deployment(*images, **pod):
    return {"spec": {"template": {"spec": dict(pod, containers=[{"name": "c", "image": image} for image in images])}}}


@pytest.mark.parametrize(
    "images,version",
    [
        (["registry.k8s.io/coredns/coredns:v1.12.2"], (1, 12, 2)),
        (["registry.k8s.io/coredns/coredns:v1.12.2@sha256:" + "a" * 64], (1, 12, 2)),
        (["rancher/mirrored-coredns-coredns:1.12.3"], (1, 12, 3)),
        (["rancher/hardened-coredns:v1.12.2-build20250611"], (1, 12, 2)),
        (["602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/coredns:v1.11.4-eksbuild.2"], (1, 11, 4)),
        (["localhost:5000/coredns:1.13"], (1, 13, 0)),
        (["sidecar:v9", "coredns/coredns:1.9.4"], (1, 9, 4)),
        (["coredns/coredns:1.13.0", "coredns/coredns:1.9.4"], (1, 9, 4)),
        (["coredns/coredns@sha256:" + "a" * 64], None),
        (["localhost:5000/coredns"], None),
        (["coredns/coredns:latest"], None),
        (["example.org/dns:v1.12.2"], None),
        ([], None),
    ],
)
def test_the_version_is_that_of_the_image(images, version):
    assert names.version_of(deployment(*images)) == version


@given(JSON)
def test_no_deployment_can_break_it(given_one):
    names.version_of(given_one)
    try:
        assert names.account_of(given_one)
    except ValueRefused as error:
        assert error.reason == "name_invalid"


def judged(images=("coredns:v1.12.2",), served=True, hidden=(), exists=False, version="", there=True):
    options = Options("gcp", (), "m", version=parse_version(version), multicluster="clusterset.local")
    found = names.Found(deployment(*images) if there else None, served, {}, tuple(hidden))
    return names.refused(options, bool(version), found, "kube-system", "coredns", exists)


def test_what_has_to_be_there_before_the_zone_is_written():
    assert judged() is None and judged(images=("dns:7",), version="1.13.1") is None
    reason, message = judged(images=("coredns:v1.12.1",))
    assert reason == "coredns_too_old" and "CoreDNS 1.12.1" in message and "1.12.2" in message
    assert judged(version="1.12.1")[0] == "coredns_too_old"  # what the user sets goes before the image
    reason, message = judged(images=("dns:7",))
    assert reason == "coredns_version_unknown" and "dns:7" in message and "coredns_rewrite_version" in message
    assert "coredns_rewrite_deployment" in judged(there=False)[1]
    assert judged(served=False)[0] == "kind_not_served" and "mcs_install_crds" in judged(served=False)[1]
    assert (
        judged(hidden=["get Deployment"])[0] == "forbidden"
        and "coredns_rewrite_mcs" in judged(hidden=["get Deployment"])[1]
    )


def test_what_cannot_be_read_takes_nothing_away():
    assert (
        judged(images=("dns:7",), exists=True) is None
        and judged(hidden=["get Deployment"], there=False, exists=True) is None
    )
    assert judged(served=False, exists=True) is None
    assert judged(images=("coredns:v1.11.1",), exists=True)[0] == "coredns_too_old"  # it would not start again


def test_the_block_is_one_of_its_own_and_follows_no_pods():
    blocks = owned_blocks(Options("gcp", ("aws",), "m", multicluster="clusterset.local", port=1053))
    assert corefile_text(blocks[-1:]) == (
        "clusterset.local:1053 {\n    errors\n    kubernetes clusterset.local {\n        noendpoints\n        multicluster clusterset.local\n    }\n"
        "    cache 30\n    loadbalance\n}\n"
    )


@pytest.mark.parametrize(
    "zone", ["cluster.local", "cluster.aws", "cluster.gcp", "Clusterset.local", "a b", "x {", "clusterset.local.", "-a"]
)
def test_zones_that_cannot_be(zone):
    with pytest.raises(ValueRefused) as raised:
        owned_blocks(Options("gcp", ("aws",), "m", multicluster=zone))
    assert raised.value.reason == "name_invalid"
