# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real Equinix Metal cloud controller keeps a control plane's address: taken over, moved in every way, given back, and it starts again.

The program's network has the provider's addresses of the nodes and the reserved one, and the API server answers at each.
"""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import control_plane_address
from balancer_life import NODES
from equinix_cloud import double
from plane_life import COPY, EIP, SYSTEM, TAG, Plane, live
from program import USER, Program
from recorded import keep
from test_equinix import NAME, Provider, start

__all__ = ["double"]
ADDRESSES = (EIP, *(pattern.format(number) for number in (1, 2, 3) for pattern in ("198.51.100.{0}", "10.66.{0}.5")))


class Running:
    """The program over one cluster, and what it has written at which time."""

    def __init__(self, plane, program):
        self.plane, self.program = plane, program
        self.stages = {}

    def _run(self, stage):
        mark = self.plane.server.mark()
        # by default it looks for new addresses of a device every five minutes
        start(self.program, self.plane.balanced, "--node-status-update-frequency=5s", METAL_EIP_TAG=TAG)
        try:
            self.program.until("a holder, and the Service with its endpoints", lambda: self._there(mark))
        finally:
            self.program.stop()
        self.stages[stage] = {"aws": self.plane.objects()}

    def _there(self, mark):
        """It applies both at each of its starts, and knows its nodes."""
        written = str(self.plane.server.audit(mark, USER))
        nodes = self.plane.client.list(NODES).items
        shown = [node for node in nodes if EIP in [row["address"] for row in node["status"].get("addresses") or ()]]
        # what it does about BGP is in a task of its own, which its end may come before
        known = all(
            "metal.equinix.com/bgp-peers-0-peer-ip" in (node["metadata"].get("annotations") or {}) for node in nodes
        )
        return (
            known
            and SYSTEM + "/status" in written
            and COPY in written
            and all(node["spec"].get("providerID") for node in nodes)
            and len(shown) == 1
        )

    def begin(self):
        self._run("begun")

    def again(self):
        self._run("returned")
        assert self.plane.port() == 443  # back to what it always leaves


def test_taken_over_and_given_back(original, server, double, tmp_path, recording, monkeypatch):
    path = original(NAME)
    plane = Plane(server, double)
    monkeypatch.setattr(control_plane_address, "HealthProbe", plane.probe())
    plane.put()
    one = Running(plane, Program(path, tmp_path, {"aws": server, "metal": Provider(double)}, addresses=ADDRESSES))
    try:
        live(plane, one)
    finally:
        if recording and len(one.stages) == 2:
            keep(NAME + "-control-plane", one.stages)
        plane.clear()
