# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the Equinix Metal cloud controller wrote for the address of a control plane: taken over, moved in every way, given back in its own form."""

from __future__ import annotations

import json

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import control_plane_address
from api_server import minor_version
from balancer_life import different, said
from equinix_cloud import double
from plane_life import EIP, PRESENT_POOL, Plane, live
from recorded import load
from test_originals_equinix import Recorded

__all__ = ["double"]
ORDER = ("Node", "Service", "EndpointSlice")


def at_port(stages, port):
    """The objects with the port of this API server in place of the recorded one's; the program applies a node port of 0, for any."""
    (slice_,) = [obj for obj in stages["begun"]["aws"] if obj["kind"] == "EndpointSlice"]
    made = json.loads(json.dumps(stages).replace(f": {slice_['ports'][0]['port']}", f": {port}"))
    for obj in made["begun"]["aws"]:
        if obj["kind"] == "Service":
            obj["spec"]["ports"][0]["nodePort"] = 0
    return made


class RecordedPlane(Recorded):
    """What the program wrote at its first start, and what it leaves when it starts again after us."""

    def __init__(self, plane):  # pylint: disable=super-init-not-called
        self.plane, self.balanced, self.client = plane, plane.balanced, plane.client
        self.stages = at_port(load("cloud-provider-equinix-metal-control-plane"), plane.server.port)

    def begin(self):
        for obj in sorted(self.stages["begun"]["aws"], key=lambda obj: ORDER.index(obj["kind"])):
            self._write(obj)
            if obj["kind"] == "Node" and EIP in [row["address"] for row in obj["status"]["addresses"]]:
                self._order("/devices/" + obj["spec"]["providerID"].rpartition("/")[2] + "/ips", address=EIP)

    def again(self):
        found = said(self.stages["returned"]["aws"])
        (service,) = [obj for (kind, dummy), obj in found.items() if kind == "Service"]
        service["metadata"]["annotations"].pop(PRESENT_POOL, None)
        service["spec"]["ports"][0].pop("port")
        assert not different(found, self.plane.written()), different(found, self.plane.written())


@pytest.mark.skipif(
    minor_version() < 21,
    reason="NOT RUN here: the controller writes slices of discovery.k8s.io/v1; `tests/run newest_api` runs it",
)
def test_taken_over_changed_and_given_back(server, double, monkeypatch):
    plane = Plane(server, double)
    monkeypatch.setattr(control_plane_address, "HealthProbe", plane.probe())
    plane.put()
    try:
        live(plane, RecordedPlane(plane))
    finally:
        plane.clear()
