# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real apinetlet between two real API servers that pass its kinds on to their own: taken over, changed in every way, given back, and it starts again."""

from __future__ import annotations

import pytest
from aggregated import Aggregator
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, ONMETAL, SOURCE
from program import USER, Program
from recorded import keep
from recorded_tenant import in_words
from tenant_servers import NAMESPACE, TEAM, Lab, make_namespace
from tenants_life import NODES, TWINS, Changes, live, objects, plug, put, put_nodes

NAME = "apinetlet"
CONTROLLERS = "original-controllers"


@pytest.fixture
def sides(original, tmp_path_factory):
    """The tenants' server and the fabric's. Upstream asks the fabric's one for the tenants' kinds, too, so both have them."""
    servers = {}
    programs = {name: original(name) for name in ("onmetal-apiserver", "apinet-apiserver")}
    try:
        for side in (SOURCE, APINET):
            servers[side] = Aggregator(tmp_path_factory.mktemp(side), users=[USER, CONTROLLERS])
            servers[side].start()
            servers[side].add(programs["onmetal-apiserver"], "onmetal", [ONMETAL.source, ONMETAL.ipam])
        servers[APINET].add(
            programs["apinet-apiserver"],
            "apinet",
            [ONMETAL.apinet],
            "--public-prefix=198.18.0.0/16",
            "--watch-cache=false",
        )
        make_namespace(servers[SOURCE], TEAM)
        make_namespace(servers[APINET], NAMESPACE)
        yield Lab(servers[SOURCE], servers[APINET])
    finally:
        for server in servers.values():
            server.stop()


class Running:
    """apinetlet, and alongside it the controllers of the network side, which run all the time."""

    def __init__(self, lab, program, controllers):
        self.lab, self.program, self.controllers = lab, program, controllers

    def _run(self, *steps):
        """``steps``: what is waited for, one after the other, and what is done then."""
        self.program.start(
            "--kubeconfig=" + self.program.kubeconfig(SOURCE),
            "--api-net-kubeconfig=" + self.program.kubeconfig(APINET),
            "--api-net-namespace=" + NAMESPACE,
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
        )
        try:
            for holds, do in steps:
                self.program.until(holds.__name__, holds)
                do()
        finally:
            self.program.stop()

    def begin(self):
        self.controllers.start(
            "--kubeconfig=" + self.controllers.kubeconfig(APINET),
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
        )

        def started():
            return self.program.running

        def order():
            put_nodes(self.lab)
            put(self.lab, lambda: (self.program.until("at rest", started), self.network()))
            assert self.lab.get(SOURCE, "Network", TEAM, "net-1")["status"]["state"] == "Available"
            for name, node in zip(("nic-1", "nic-2"), NODES):
                plug(self.lab, name, node, self.network)
            Changes(self.lab, self).route(["nic-1"])

        def served():
            return self._served("nat-1") and self.lab.list(APINET, "LoadBalancerRouting")[0].get("destinations")

        self._run((started, order), (served, self.network))

    def _served(self, gateway):
        states = {obj["metadata"]["name"]: obj.get("status", {}) for obj in self.lab.list(SOURCE, "NetworkInterface")}
        if any(states[name].get("state") != "Available" for name in ("nic-1", "nic-2")):
            return False
        named = [("LoadBalancer", "lb-1"), ("NATGateway", gateway)]
        return all(self.lab.get(SOURCE, kind, TEAM, name).get("status", {}).get("ips") for kind, name in named)

    def network(self):
        """They work by themselves; whoever asks waits until they rest."""
        mark = self.lab.mark()
        self.controllers.until("nothing more to do", lambda: True)
        return any(self.lab.servers[APINET].writes(mark[APINET], CONTROLLERS))

    def again(self):
        """Until it has applied every twin anew."""
        twins = {
            self.lab.path(APINET, kind, NAMESPACE, obj["metadata"]["name"])
            for kind in TWINS
            for obj in self.lab.list(APINET, kind)
            if applied(obj)
        }
        server = self.lab.servers[APINET]
        mark = server.mark()
        assert len(twins) >= 5

        def done():
            return self._served("nat-2") and twins <= {
                path for verb, path, dummy in server.audit(mark, USER) if verb == "patch"
            }

        self._run((done, self.network))


def applied(obj):
    return any(
        (entry["manager"], entry["operation"]) == (ONMETAL.field_manager, "Apply")
        for entry in obj["metadata"]["managedFields"]
    )


def test_taken_over_and_given_back(original, sides, tmp_path, recording):
    apinetlet = Program(original(NAME), tmp_path / "apinetlet", sides.servers)
    controllers = Program(
        original("apinet-controller-manager"), tmp_path / "controllers", {APINET: sides.servers[APINET]}, CONTROLLERS
    )
    stages = {}
    try:
        live(
            sides,
            Running(sides, apinetlet, controllers),
            lambda stage: stages.update({stage: in_words(objects(sides))}),
        )
    finally:
        controllers.stop()
        if recording and len(stages) == 2:
            keep(NAME, stages)
