# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirrors and global services of the real semaphore-service-mirror: taken over, changed in every way, given back, and it starts again."""

from __future__ import annotations

import pytest
from api_server import minor_version
from mirror_clusters import NAMESPACE, Two, clear, namespace
from mirror_life import GLOBAL, live, mirrored, said
from program import Program
from recorded import keep

NAME = "semaphore-service-mirror"


def configuration(program, shared):
    """The clusters' file of gcp, where the mirrors are."""
    return {
        "global": {
            "mirrorSvcLabelSelector": "mirror.semaphore.uw.io/mirror-service=true",
            "globalSvcLabelSelector": "mirror.semaphore.uw.io/global-service=true" if shared else "no=one",
            "globalSvcRoutingStrategyLabel": "mirror.semaphore.uw.io/global-service-routing-strategy=local-first",
            "mirrorNamespace": NAMESPACE,
            "serviceSync": True,
            "endpointSliceSync": True,
        },
        "localCluster": {"name": "gcp"},
        "remoteClusters": [{"name": "aws", "servicePrefix": "aws", "kubeConfigPath": program.kubeconfig("aws")}],
    }


class Running:
    """The program over two clusters, and what it has written at which time."""

    def __init__(self, two, program, shared):
        self.two, self.program, self.shared = two, program, shared
        self.stages = {}

    def start(self):
        file = self.program.write("config.json", configuration(self.program, self.shared))
        self.program.start("-config", file, "-kube-config", self.program.kubeconfig("gcp"))

    def desired(self):
        """The names that it makes of what the sources hold."""
        names = {("Service", "aws-{0}-73736d-{1}".format(*key)) for key in self._labelled("Service")}
        return names | {("Endpoints", "aws-{0}-73736d-{1}".format(*key)) for key in self._labelled("Endpoints")}

    def _labelled(self, kind):
        client = self.two.clients["aws"]
        found = client.list(
            client.resource("v1", kind).path(), label_selector="mirror.semaphore.uw.io/mirror-service=true"
        ).items
        return [(obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in found]

    def _run(self, stage):
        self.start()
        try:

            def there():
                found = said(mirrored(self.two, self.shared))
                return self.desired() <= set(found) and (
                    not self.shared or (("Service", GLOBAL) in found and ("EndpointSlice", "gl-cart-gcp01") in found)
                )

            self.program.until("mirrors of everything", there)
        finally:
            self.program.stop()
        self.stages[stage] = {"gcp": mirrored(self.two, self.shared)}

    def begin(self):
        self.two.put("gcp", namespace(NAMESPACE))
        self._run("begun")

    def again(self):
        self._run("returned")


@pytest.mark.parametrize("shared", [False, True], ids=["mirrors", "mirrors and global services"])
def test_taken_over_and_given_back(original, server, second, tmp_path, recording, shared):
    if shared and minor_version() < 21:
        pytest.skip("NOT RUN: upstream reads discovery.k8s.io/v1, which this Kubernetes does not have")
    two = Two(server, second)
    for name in two.servers:
        two.put(name, namespace("sys-log"), namespace("shop"))
    one = Running(two, Program(original(NAME), tmp_path, {"aws": server, "gcp": second}), shared)
    try:
        live(two, one, shared)
    finally:
        clear(two)
    if recording:
        keep(NAME + ("-global" if shared else ""), one.stages)
