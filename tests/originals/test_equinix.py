# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real Equinix Metal cloud controller against the double of the provider: taken over, changed in every way, given back, and it starts again."""

from __future__ import annotations

import urllib.parse

import pytest
from balancer_life import MODES, NODES, SERVICES, Balanced, live
from equinix_cloud import PROJECT, TOKEN, double
from program import Program
from recorded import keep

__all__ = ["double"]
NAME = "cloud-provider-equinix-metal"


class Provider:
    """The double, as one of the servers that the program may reach."""

    def __init__(self, one):
        self.double, self.port = one, urllib.parse.urlsplit(one.root).port

    def audit(self, mark, *unused):
        return self.double.calls()[mark:]


def start(program, balanced, *flags, **environment):
    """The cloud controller over one cluster and the double."""
    kubeconfig = program.kubeconfig("aws")
    program.start(
        "--cloud-provider=equinixmetal",
        "--leader-elect=false",
        "--allow-untagged-cloud=true",
        "--authentication-skip-lookup=true",
        "--kubeconfig=" + kubeconfig,
        "--authentication-kubeconfig=" + kubeconfig,
        "--authorization-kubeconfig=" + kubeconfig,
        "--cert-dir=" + str(program.folder / "certs"),
        "--v=2",
        *flags,
        METAL_API_KEY=TOKEN,
        METAL_PROJECT_ID=PROJECT,
        METAL_METRO_NAME="da",
        METAL_LOAD_BALANCER=MODES[balanced.mode],
        METAL_TEST_URL=balanced.double.root + "/metal/v1",
        KUBECONFIG=kubeconfig,
        **environment,
    )


class Running:
    """The program over one cluster, and what it has written at which time."""

    def __init__(self, balanced, program):
        self.balanced, self.program = balanced, program
        self.stages = {}

    def _run(self, stage):
        start(self.program, self.balanced)
        try:
            self.program.until("addresses for all, and nodes that know their routers", self._there)
        finally:
            self.program.stop()
        self.stages[stage] = {"aws": self.balanced.objects()}

    def _there(self):
        client = self.balanced.client
        nodes, services = client.list(NODES).items, client.list(SERVICES).items
        known = all(
            "metal.equinix.com/bgp-peers-0-peer-ip" in (node["metadata"].get("annotations") or {}) for node in nodes
        )
        return known and all(
            item["spec"].get("loadBalancerIP") and item["status"]["loadBalancer"].get("ingress") for item in services
        )

    def begin(self):
        self._run("begun")

    def again(self):
        self._run("returned")


@pytest.mark.parametrize("mode", sorted(MODES))
def test_taken_over_and_given_back(original, server, double, tmp_path, recording, mode):
    path = original(NAME)
    balanced = Balanced(server, double, mode)
    balanced.put()
    one = Running(balanced, Program(path, tmp_path, {"aws": server, "metal": Provider(double)}))
    try:
        live(balanced, one)
    finally:
        if recording and len(one.stages) == 2:
            keep(f"{NAME}-{mode}", one.stages)
        balanced.clear()
