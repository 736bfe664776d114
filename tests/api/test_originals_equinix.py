# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the Equinix Metal cloud controller wrote: nodes, Services and MetalLB's configuration, taken over, changed in every way, given back in its own form."""

from __future__ import annotations

import json
import urllib.request

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.reservations import (
    Owner,
    service_tags,
)
from balancer_life import MODES, SPACE, Balanced, different, live, said, same
from equinix_cloud import PROJECT, TOKEN, double, uid
from recorded import content, load, owners, part_of, replay

__all__ = ["double"]


class Recorded:
    """What the program wrote at its first start, and what it leaves when it starts again after us."""

    def __init__(self, balanced):
        self.balanced, self.client = balanced, balanced.client
        self.stages = load("cloud-provider-equinix-metal-" + balanced.mode)

    def begin(self):
        """Its reservations carry the UID of the cluster in which it was; here they have this one's."""
        owner = Owner("cloud-provider-equinix-metal", uid(self.client))
        for obj in sorted(self.stages["begun"]["aws"], key=lambda obj: (obj["kind"] != "Node", obj["kind"])):
            self._write(obj)
            if obj["kind"] == "Service":
                name, address = obj["metadata"]["name"], obj["spec"]["loadBalancerIP"]
                self.balanced.double.ask(
                    "/reservations", tags=service_tags(owner, SPACE, name), address=address, id="of-" + name, metro="da"
                )

        self._order(
            "/projects/" + PROJECT + "/bgp-configs",
            deployment_type="local",
            asn=65000,
            use_case="kubernetes-load-balancer",
        )
        for device in self.balanced.double.ask("/state")["devices"]:
            self._order("/devices/" + device["id"] + "/bgp/sessions", address_family="ipv4")

    def _write(self, obj):
        """Alongside what kubelets and users wrote, as they would."""
        meta, resource = obj["metadata"], self.client.resource(obj["apiVersion"], obj["kind"])
        here = resource.path(meta.get("namespace"), meta["name"])
        if self.client.find(here) is None:
            replay(self.client, obj)
            return
        for entry in meta["managedFields"]:
            if entry["manager"] not in ("kubectl", "kubelet"):
                body = part_of(obj, entry["fieldsV1"])
                gone = {
                    name[2:]: None
                    for name in entry["fieldsV1"].get("f:spec", {})
                    if name[2:] not in obj.get("spec", {})
                }
                for path in (
                    {"/status" if body.get("status") else "", ""} if not entry.get("subresource") else {"/status"}
                ):
                    self.client.merge_patch(
                        here + path,
                        dict(body, spec=dict(body.get("spec") or {}, **gone)) if gone else body,
                        entry["manager"],
                    )
        made = dict(self.client.get(here), apiVersion=obj["apiVersion"], kind=obj["kind"])
        assert content(made) == content(obj), different({1: content(made)}, {1: content(obj)})
        if owners(made) != owners(obj):  # old servers note a whole object differently from a part of it
            self.client.merge_patch(here, {"metadata": {"managedFields": meta["managedFields"]}}, "test")
            made = self.client.get(here)
        assert owners(made) == owners(obj), (owners(made), owners(obj))

    def _order(self, path, **body):
        """What it asks of the provider at its start."""
        given = {"Content-Type": "application/json", "X-Auth-Token": TOKEN}
        request = urllib.request.Request(
            self.balanced.double.root + "/metal/v1" + path, json.dumps(body).encode(), given, method="POST"
        )
        urllib.request.urlopen(request, timeout=20).close()

    def again(self):
        same(said(self.stages["returned"]["aws"]), self.balanced, "upstream left something else when it ran")


@pytest.mark.parametrize("mode", sorted(MODES))
def test_taken_over_changed_and_given_back(server, double, mode):
    balanced = Balanced(server, double, mode)
    balanced.put()
    try:
        live(balanced, Recorded(balanced))
    finally:
        balanced.clear()
