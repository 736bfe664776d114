# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``--limit`` to nodes, with and without a cluster's host: no playbook writes another node, nor another API. Clusters alone: tests/api/test_limit.py.

A playbook that takes away must find something outside that it could take. What stays undone is printed.
MCN_FULL=1 runs every playbook, with the limit that is a mix of both.
"""

from __future__ import annotations

import json
import os
import pathlib
import re

import pytest

PLAYBOOKS = pathlib.Path(__file__).resolve().parents[2] / "playbooks"
NODES = ["aws-node-1", "aws-node-2", "gcp-node-1", "gcp-node-2"]
CAPABILITIES = ["service_mirror", "mcs", "coredns_rewrite", "load_balancers"]
ON = {
    "multicluster_capabilities": CAPABILITIES,
    "service_mirror_create_namespace": True,
    "mcs_install_crds": True,
    "verify_allow_unproven": True,  # no kube-proxy runs in this lab
    "adopt_step": "take",
    "tenants_source": "aws",
    "tenants_apinet": "gcp",
    "tenants_watch_namespace": "default",
}
COREFILE = ".:53 {\n    forward . /etc/resolv.conf\n    reload\n}\n"
#: They have no fabric: AWX's own objects, and a host that keeps a fabric.
ELSEWHERE = {"reconciler"}
LAST, ENDS = ["adopt", "site"], ["semaphore.release", "leave", "teardown", "kilo.teardown", "tenant.teardown"]
OTHERS = sorted(
    {
        ".".join(path.relative_to(PLAYBOOKS).with_suffix("").parts)
        for path in PLAYBOOKS.rglob("*.yml")
        if path.relative_to(PLAYBOOKS).parts[0] not in ("awx", "plays", "vars", "files")
    }
    - {*LAST, *ENDS}
    - ELSEWHERE
)
FULL = "MCN_FULL" in os.environ
QUICK = ["site", "leave", "teardown"]
#: The limit, and the (clusters' APIs, nodes) inside of it. A cluster is inside with all of its nodes.
LIMITS = {
    "aws-node-1": ([], NODES[:1]),
    "aws_nodes": (["aws"], NODES[:2]),
    "aws-node-1,gcp": (["gcp"], NODES[:1]),
    "gcp,aws_nodes": (["aws", "gcp"], NODES[:2]),
}


@pytest.fixture(scope="module", autouse=True)
def content(fabric):
    """Something to write for every capability, in each cluster."""
    for number, cluster in enumerate(fabric.clusters):
        labels = {"mirror.semaphore.uw.io/mirror-service": "true"}
        ports = [{"name": "http", "port": 80}]
        objects = [
            {
                "kind": "ConfigMap",
                "metadata": {"name": "coredns", "namespace": "kube-system"},
                "data": {"Corefile": COREFILE},
            },
            {"kind": "Service", "metadata": {"name": "web", "labels": labels}, "spec": {"ports": ports}},
            {
                "kind": "Endpoints",
                "metadata": {"name": "web", "labels": labels},
                "subsets": [{"addresses": [{"ip": f"10.{2 + 2 * number}.3.9"}], "ports": ports}],
            },
            {"kind": "Service", "metadata": {"name": "door"}, "spec": {"type": "LoadBalancer", "ports": ports}},
        ]
        file = fabric.state / "content.json"
        file.write_text(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": [dict(one, apiVersion="v1") for one in objects]})
        )
        fabric.kubectl(cluster, "apply", "-f", str(file))


def variables(fabric):
    settings = {
        name: {"load_balancer": "empty://", "announced_by": "other", "pool": [f"203.0.113.{8 * number}/30"]}
        for number, name in enumerate(fabric.clusters)
    }
    return dict(
        ON,
        coredns_rewrite_version="1.12.2",
        load_balancers_settings="{{ " + repr(settings) + "[inventory_hostname] | default({}) }}",
    )


def outside(writes, limit):
    """Of the writes of a run those outside of its limit; a Node carries what its node announces."""
    clusters, nodes = LIMITS[limit]
    return [
        line
        for line in writes
        for place, dummy, rest in [line.partition(" ")]
        if not (place in nodes if place in NODES else place in clusters)
        and not re.search(r"/api/v1/nodes/(" + "|".join(nodes) + r")[?/ ]", rest)
    ]


def run(fabric, book, limit):
    """(the run, what it wrote outside of the limit, what inside)."""
    more = ["-e", "cluster=aws"] if book == "leave" and "," in limit else []
    with fabric.witness() as writes:
        done = fabric.play(book, "--limit", limit, *more, variables=variables(fabric))
    strays = outside(writes, limit)
    return done, strays, [line for line in writes if line not in strays]


@pytest.mark.parametrize("limit", LIMITS)
def test_no_playbook_writes_outside_of_its_limit(fabric, limit):
    clusters, nodes = LIMITS[limit]
    found = {}
    for book in [*OTHERS, *LAST, *ENDS] if FULL and limit == "aws-node-1,gcp" else QUICK:
        if book in ENDS:
            done = fabric.play("site", variables=variables(fabric))
            assert done.rc == 0, done.out[-6000:]
        done, strays, found[book] = run(fabric, book, limit)
        assert not strays, (book, limit, strays[:10], done.out[-3000:])
        shown = " ".join(done.out.split())
        if book in QUICK:
            assert found[book], (book, done.out[-4000:])
            assert "outside --limit" in shown, (book, done.out[-3000:])
            assert "take aws and its nodes out of the inventory" not in shown, "others still lead there"
        if book in ("site", "teardown") and not set(limit.split(",")) & set(fabric.clusters):
            assert "so not run: " + ", ".join(CAPABILITIES) in shown, (book, done.out[-3000:])
    fabric.play("teardown", variables=variables(fabric))
