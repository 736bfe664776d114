# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The control plane's address at a provider with an API: assignments over HTTP against the double, Nodes of a real API server.

Only the health of the three servers is made up; tests/scenario/test_control_plane.py has real ones.
"""

from __future__ import annotations

import json
import time
import urllib.parse

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    ccm_nodes,
    control_plane_address,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.services import FINALIZER
from equinix_cloud import CONFIGMAPS, PROJECT, TOKEN, double, reasons, request_for

__all__ = ["double"]
TAG, EIP, IDENT = "control-plane-of-aws", "203.0.113.100", "00000000-0000-4000-8000-00000000000e"
LEDGER = CONFIGMAPS + "/metal-ccm-reservations"
EXTERNAL = "/api/v1/namespaces/kube-system/services/metal-ccm-kubernetes-external"
ROLE = {"node-role.kubernetes.io/control-plane": ""}


class Plane:
    """Three control-plane nodes with their devices; ``up`` are those with an API server that answers."""

    def __init__(self, server, double):
        self.server, self.double, self.client = server, double, server.client()
        self.devices, self.up, self.asked, self.meanwhile = {}, set(), [], None

    def start(self):
        self.double.ask("/reset")
        self.double.ask("/reservations", tags=[TAG, "other"], address=EIP, id=IDENT)
        for number in (1, 2, 3):
            name = "cp-%d" % number
            self.devices[name] = self.double.ask("/devices", hostname=name, number=number)["id"]
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": ROLE}}
            self.client.create("/api/v1/nodes", node, "kubelet")
        self.initialise()
        self.up = set(self.devices)

    def initialise(self):
        """Provider IDs and addresses, as the cloud controller's part writes them."""
        for name, ident in self.devices.items():
            self.client.merge_patch(
                "/api/v1/nodes/" + name, {"spec": {"providerID": "equinixmetal://" + ident}}, "kubelet"
            )
        assert not ccm_nodes.run(request_for(self.server, self.double))["failures"]

    def clean(self):
        for item in self.client.list("/api/v1/nodes").items:
            self.client.delete("/api/v1/nodes/" + item["metadata"]["name"])
        self.client.delete(LEDGER)
        self.client.delete(EXTERNAL)
        self.client.delete(EXTERNAL.replace("/services/", "/endpoints/"))
        self.client.delete("/api/v1/namespaces/default/endpoints/kubernetes")

    def holder(self):
        """By the provider's own records: of the reservation and of the devices."""
        state = self.double.ask("/state")
        held = next(row for row in state["reservations"] if row["id"] == IDENT)
        named = {ident: name for name, ident in self.devices.items()}
        found = [named[row["assigned_to"]["href"].rpartition("/")[2]] for row in held["assignments"]]
        assert found == [
            row["hostname"] for row in state["devices"] if any(one["address"] == EIP for one in row["ip_addresses"])
        ]
        return found

    def status(self, url):
        """What the probe of a URL gives: the address answers as its holder does."""
        self.asked.append(url)
        if self.meanwhile is not None and urllib.parse.urlsplit(url).hostname != EIP:
            act, self.meanwhile = self.meanwhile, None
            act()
        host = urllib.parse.urlsplit(url).hostname
        names = (
            self.holder()
            if host == EIP
            else ["cp-" + host.split(".")[2]]
            if host.startswith("10.66.")
            else ["cp-" + host.split(".")[3]]
        )
        return 200 if set(names) & self.up else None

    def run(self, check=False, more=None, **settings):
        ask = request_for(self.server, self.double, **dict({"eip_tag": TAG}, **settings))
        ask.update({"probe_failures": 1, "rest_seconds": 0, "lock_wait": 5, "external_service": False}, **(more or {}))
        result = control_plane_address.run(ask, check=check)
        assert TOKEN not in json.dumps(result)
        return result

    def calls(self, since=0):
        return [call.replace("/projects/" + PROJECT, "") for call in self.double.calls()[since:]]

    def mark(self):
        return len(self.double.calls())

    def assigned(self):
        held = next(row for row in self.double.held() if row["id"] == IDENT)
        return [row["id"] for row in held["assignments"]]


@pytest.fixture
def plane(server, double, monkeypatch):
    one = Plane(server, double)

    class Probe:
        count = 0

        def __init__(self, *unused):
            pass

        def __call__(self, url):
            self.count += 1
            return one.status(url)

    monkeypatch.setattr(control_plane_address, "HealthProbe", Probe)
    try:
        one.start()
        yield one
    finally:
        one.clean()


def shown(result):
    assert not result["failures"], result["failures"]
    return result["control_planes"]["aws"]


def test_assigned_kept_and_moved(plane):
    mark, writes = plane.mark(), plane.server.mark()
    result = plane.run(check=True)
    assert shown(result)["holder"] == "cp-1" and plane.calls(mark) == ["GET /ips"] and plane.server.writes(writes) == []
    assert plane.holder() == []

    mark = plane.mark()
    assert shown(plane.run())["moved"] and plane.holder() == ["cp-1"]
    assert [call for call in plane.calls(mark) if not call.startswith("GET ")] == [
        f"POST /devices/{plane.devices['cp-1']}/ips"
    ]
    sent = next(row for row in plane.double.ask("/log")[mark:] if row["method"] == "POST")
    assert sent["body"] == {"address": EIP}

    # an unchanged pass: one list, one probe, no write
    mark, writes, plane.asked = plane.mark(), plane.server.mark(), []
    result = plane.run()
    assert not result["changed"] and plane.calls(mark) == ["GET /ips"] and plane.server.writes(writes) == []
    assert [urllib.parse.urlsplit(url).hostname for url in plane.asked] == [EIP]

    # the holder dies: its assignment goes by its own id, the reservation stays, and the next one by name gets it
    former = plane.assigned()[0]
    plane.up.discard("cp-1")
    mark = plane.mark()
    result = plane.run()
    assert shown(result)["moved"] and shown(result)["holder"] == "cp-2" and plane.holder() == ["cp-2"]
    assert [call for call in plane.calls(mark) if not call.startswith("GET ")] == [
        "DELETE /ips/" + former,
        f"POST /devices/{plane.devices['cp-2']}/ips",
    ]
    assert [row["id"] for row in plane.double.held()] == [IDENT]
    plane.up.add("cp-1")
    assert not plane.run()["changed"] and plane.holder() == ["cp-2"]  # it does not go back


def test_the_devices_tell_who_holds_it(plane):
    """An assigned address shows up among its device's, so among its Node's; the Service accepts it everywhere."""
    plane.run()
    plane.initialise()
    rows = plane.client.get("/api/v1/nodes/cp-1")["status"]["addresses"]
    assert {"type": "ExternalIP", "address": EIP} in rows
    plane.up.discard("cp-1")
    plane.asked = []
    # this API server advertises a loopback address, and makes no Endpoints of that
    own = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "kubernetes"},
        "subsets": [{"addresses": [{"ip": "10.66.1.5"}], "ports": [{"name": "https", "port": 6443}]}],
    }
    plane.client.create("/api/v1/namespaces/default/endpoints", own, "kubectl")
    assert shown(plane.run(more={"external_service": True, "endpoints_as": "endpoints"}))["holder"] == "cp-2"
    assert EIP not in {
        urllib.parse.urlsplit(url).hostname for url in plane.asked[1:]
    }  # no candidate is asked through the address itself
    service = plane.client.get(EXTERNAL)
    assert service["spec"]["loadBalancerIP"] == EIP and [
        row["ip"] for row in service["status"]["loadBalancer"]["ingress"]
    ] == [EIP]
    writes = plane.server.mark()
    assert (
        not plane.run(more={"external_service": True, "endpoints_as": "endpoints"})["changed"]
        and plane.server.writes(writes) == []
    )


def test_the_host_is_asked_where_the_address_is_everywhere(plane):
    plane.run()
    plane.initialise()
    plane.asked = []
    assert not plane.run(eip_health_check_use_host_ip=True)["changed"]
    assert [urllib.parse.urlsplit(url).hostname for url in plane.asked] == ["198.51.100.1"]


def test_an_assignment_that_cannot_be_taken_away_stops_the_move(plane):
    plane.run()
    plane.up.discard("cp-1")
    plane.double.ask("/faults", method="DELETE", path="^/ips/", status=500, body={"error": "broken"})
    mark = plane.mark()
    result = plane.run()
    assert ("control plane of aws", "api") in reasons(result) and not result["changed"] and plane.holder() == ["cp-1"]
    assert not [call for call in plane.calls(mark) if call.startswith("POST")]
    assert shown(plane.run())["holder"] == "cp-2" and plane.holder() == ["cp-2"]


def test_an_assignment_that_is_gone_already(plane):
    plane.run()
    plane.up.discard("cp-1")
    plane.double.ask("/faults", method="DELETE", path="^/ips/", status=404, body={"errors": ["Not found"]}, after=True)
    assert shown(plane.run())["moved"] and plane.holder() == ["cp-2"]


def test_an_assignment_that_fails_is_repaired_by_the_next_pass(plane):
    plane.run()
    plane.up.discard("cp-1")
    plane.double.ask(
        "/faults",
        method="POST",
        path="^/devices/.*/ips$",
        status=422,
        body={"errors": ["The address is not available"]},
    )
    result = plane.run()
    assert ("control plane of aws", "api") in reasons(result) and plane.holder() == []
    assert [change["fields"] for change in result["plan"]["changes"]] == [
        ["holder"]
    ]  # nobody holds it now, and that is reported
    assert not shown(result)["moved"] and shown(result)["holder"] == ""
    plane.asked = []
    assert shown(plane.run())["moved"] and plane.holder() == ["cp-2"]
    assert EIP not in {
        urllib.parse.urlsplit(url).hostname for url in plane.asked
    }  # nobody holds it, so nobody is asked through it


@pytest.mark.parametrize("done", [True, False])
def test_an_assignment_without_an_answer(plane, done):
    plane.double.ask("/faults", method="POST", path="^/devices/.*/ips$", after=done, hang=0.2)
    mark = plane.mark()
    result = plane.run()
    assert len([call for call in plane.calls(mark) if call.startswith("POST")]) == 1  # never repeated blindly
    assert shown(result)["moved"] is done
    if not done:
        # the double counts a fault that hangs as not done
        assert ("control plane of aws", "api") in reasons(result) and shown(plane.run())["moved"]
    assert plane.holder() == ["cp-1"]


def test_what_is_not_clear_moves_nothing(plane):
    plane.run()
    plane.up.discard("cp-1")
    mark = plane.mark()
    plane.double.ask("/faults", method="GET", path="/ips$", status=401, body={"error": "no"})
    assert ("aws", "auth") in reasons(plane.run())
    plane.double.ask("/faults", method="GET", path="/ips$", status=500, body={"error": "no"})
    assert ("aws", "api") in reasons(plane.run())
    assert ("aws", "eip_not_found") in reasons(plane.run(eip_tag="another"))
    plane.double.ask("/reservations", tags=[TAG], address="203.0.113.101", id="spoof")
    assert ("aws", "claimed_twice") in reasons(plane.run())
    assert not [call for call in plane.calls(mark) if not call.startswith("GET ")] and plane.holder() == ["cp-1"]
    assert shown(plane.run(on_duplicate_reservation="first"))["holder"] == "cp-2"


def test_two_assignments(plane):
    plane.run()
    plane.up.clear()
    rows = plane.double.held()[0]["assignments"]
    second = dict(
        rows[0],
        id="00000000-0000-4000-8000-0000000000aa",
        assigned_to={"href": "/metal/v1/devices/" + plane.devices["cp-2"]},
    )
    answer = {
        "ip_addresses": [dict(plane.double.held()[0], assignments=[rows[0], second])],
        "meta": {"total": 1, "current_page": 1, "last_page": 1},
    }
    plane.double.ask("/faults", method="GET", path="/ips$", status=200, body=answer)
    mark = plane.mark()
    assert ("aws", "multiple_assignments") in reasons(plane.run())
    assert not [call for call in plane.calls(mark) if not call.startswith("GET ")]


def test_rate_limits(plane):
    plane.run()
    plane.up.discard("cp-1")
    limit = {"status": 429, "headers": {"Retry-After": "1"}, "body": {"error": "slow down"}}
    plane.double.ask("/faults", method="GET", path="/ips$", **limit)
    plane.double.ask("/faults", method="DELETE", path="^/ips/", **limit)
    began = time.monotonic()
    assert shown(plane.run())["holder"] == "cp-2" and time.monotonic() - began >= 2


def test_nobody_answers(plane):
    plane.run()
    plane.up.clear()
    mark = plane.mark()
    assert (
        ("aws", "no_candidate") in reasons(plane.run())
        and plane.holder() == ["cp-1"]
        and plane.calls(mark) == ["GET /ips"]
    )


def test_only_nodes_with_a_device_and_not_cordoned(plane):
    plane.client.merge_patch("/api/v1/nodes/cp-1", {"spec": {"unschedulable": True}}, "kubectl")
    plane.client.delete("/api/v1/nodes/cp-2")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cp-2", "labels": ROLE}}
    plane.client.create("/api/v1/nodes", node, "kubelet")
    rows = [{"type": "InternalIP", "address": "10.66.2.5"}]
    plane.client.merge_patch("/api/v1/nodes/cp-2/status", {"status": {"addresses": rows}}, "kubelet")
    assert shown(plane.run())["holder"] == "cp-3" and plane.holder() == ["cp-3"]
    # a holder that is cordoned gives it away although it answers
    plane.client.merge_patch("/api/v1/nodes/cp-1", {"spec": {"unschedulable": None}}, "kubectl")
    plane.client.merge_patch("/api/v1/nodes/cp-3", {"spec": {"unschedulable": True}}, "kubectl")
    assert shown(plane.run())["holder"] == "cp-1" and plane.holder() == ["cp-1"]


def test_it_rests_after_a_move(plane):
    plane.run()
    plane.up.discard("cp-1")
    mark = plane.mark()
    assert ("control plane of aws", "resting") in reasons(plane.run(more={"rest_seconds": 3600}))
    assert plane.calls(mark) == ["GET /ips"] and plane.holder() == ["cp-1"]


def test_somebody_else_moves_it_while_we_decide(plane):
    plane.run()
    plane.up.discard("cp-1")

    def other():
        assert shown(plane.run())["holder"] == "cp-2"

    plane.meanwhile = other
    mark = plane.mark()
    result = plane.run()
    assert (
        plane.holder() == ["cp-2"]
        and not shown(result)["moved"]
        and any("somebody else" in text for text in result["warnings"])
    )
    assert len([call for call in plane.calls(mark) if call.startswith("POST")]) == 1


def test_the_record_is_shared_with_the_pass_over_services(plane):
    """What somebody else records between our reading and our writing stays."""

    def other():
        row = json.dumps(
            {"id": "theirs", "address": "147.75.10.9", "cidr": 32, "tags": ["x"], "service": "default/web"}
        )
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "metal-ccm-reservations"},
            "data": {"theirs": row},
        }
        plane.client.create(CONFIGMAPS, body, "kubectl")

    plane.meanwhile = other
    assert shown(plane.run())["moved"]
    found = plane.client.get(LEDGER)["data"]
    assert set(found) == {"theirs", IDENT} and json.loads(found[IDENT])["device"] == plane.devices["cp-1"]


def test_what_was_written_is_taken_back_and_the_address_stays(plane):
    source = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "kubernetes"},
        "subsets": [
            {"addresses": [{"ip": "10.66.1.5"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}
        ],
    }
    plane.client.create("/api/v1/namespaces/default/endpoints", source, "apiserver")
    made = plane.run(more={"external_service": True, "endpoints_as": "endpoints"})
    assert made["plan"]["create"] == 2 and plane.client.get(EXTERNAL) and plane.client.get(LEDGER)["data"]
    absent = {"state": "absent"}
    calls, mark = plane.mark(), plane.server.mark()
    planned = plane.run(check=True, more=absent)
    assert planned["plan"]["delete"] == 2 and planned["plan"]["update"] == 1 and plane.server.writes(mark) == []
    done = plane.run(more=absent)
    assert done["plan"]["delete"] == 2 and not done["failures"] and not done["refused"]
    assert plane.holder() == ["cp-1"] and plane.calls(calls) == []
    for path in (EXTERNAL, EXTERNAL.replace("/services/", "/endpoints/"), LEDGER):
        assert (
            plane.client.list(path.rpartition("/")[0], field_selector="metadata.name=" + path.rpartition("/")[2]).items
            == []
        )
    mark = plane.server.mark()
    assert not plane.run(more=absent)["changed"] and plane.server.writes(mark) == []


def test_a_service_that_was_taken_over_goes_with_the_finalizer_of_its_maker(plane):
    """A cloud controller holds each Service of this type by a finalizer, which nobody takes away once the controller is gone."""
    source = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "kubernetes"},
        "subsets": [
            {"addresses": [{"ip": "10.66.1.5"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}
        ],
    }
    plane.client.create("/api/v1/namespaces/default/endpoints", source, "apiserver")
    plane.run(more={"external_service": True, "endpoints_as": "endpoints"})
    finalizers = [FINALIZER, "example.org/of-somebody-else"]
    plane.client.merge_patch(EXTERNAL, {"metadata": {"finalizers": finalizers}}, "cloud-controller")
    assert not plane.run(more={"state": "absent"})["failures"]
    assert plane.client.get(EXTERNAL)["metadata"]["finalizers"] == finalizers[1:]
    plane.client.merge_patch(EXTERNAL, {"metadata": {"finalizers": None}}, "somebody")
    assert (
        plane.client.list(
            EXTERNAL.rpartition("/")[0], field_selector="metadata.name=" + EXTERNAL.rpartition("/")[2]
        ).items
        == []
    )
    mark = plane.server.mark()
    assert not plane.run(more={"state": "absent"})["changed"] and plane.server.writes(mark) == []


def test_a_service_of_that_name_of_another_owner_stays(plane):
    name = EXTERNAL.rpartition("/")[2]
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 6443}]},
    }
    plane.client.create(EXTERNAL.rpartition("/")[0], theirs, "cloud-controller")
    refused = plane.run(more={"state": "absent"})
    assert (
        [row["reason"] for row in refused["refused"]] == ["not_ours"]
        and not refused["changed"]
        and plane.client.get(EXTERNAL)
    )
