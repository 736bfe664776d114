# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The provider equinix_metal over HTTP against the double, with Services of a real API server."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import time
import urllib.request

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    ccm_info,
    ccm_nodes,
    converge as load_balancers,
    providers as load_balancers_equinix,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Conflict
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.reservations import (
    Owner,
    service_tags,
)
from equinix_cloud import CONFIGMAPS, PROJECT, TOKEN, double, reasons, request_for, uid

__all__ = ["double"]
SPACE = "lb-metal"
SERVICES = f"/api/v1/namespaces/{SPACE}/services"


@pytest.fixture
def api(server, double):
    client = server.client()
    with contextlib.suppress(Conflict):
        client.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}, "kubectl"
        )
    double.ask("/reset")
    for number in (1, 2, 3):
        device = double.ask("/devices", hostname="metal-%d" % number, number=number)
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": device["hostname"]},
            "spec": {"providerID": "equinixmetal://" + device["id"]},
        }
        client.create("/api/v1/nodes", node, "kubelet")
    yield client
    for item in client.list(SERVICES).items:
        client.delete(SERVICES + "/" + item["metadata"]["name"])
    for item in client.list("/api/v1/nodes").items:
        client.delete("/api/v1/nodes/" + item["metadata"]["name"])
    client.delete(CONFIGMAPS + "/metal-ccm-reservations")


def service(client, name, address=None, **annotations):
    spec = {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"app": name}}
    if address:
        spec["loadBalancerIP"] = address
    meta = {
        "name": name,
        "annotations": {key.replace("__", "/").replace("_", "."): value for key, value in annotations.items()},
    }
    client.create(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}, "kubectl")


def address_of(client, name):
    return client.get(SERVICES + "/" + name)["spec"].get("loadBalancerIP")


def run(server, double, more=None, check=False, **settings):
    result = load_balancers.run(request_for(server, double, more, **settings), check=check)
    assert TOKEN not in json.dumps(result) and "Abcdef1234" not in json.dumps(result)
    return result


def tags_of(client, name):
    return service_tags(Owner("metal-ccm", uid(client)), SPACE, name)


def test_order_use_and_release(server, double, api):
    for number in range(4):
        service(api, "web-%d" % number)
    result = run(server, double, check=True, bgp_pass="Abcdef1234")
    assert not result["failures"] and not [call for call in double.calls() if not call.startswith("GET ")]
    assert result["load_balancers"]["aws"]["cost"] == {
        "orders": ["lb-metal/web-%d" % n for n in range(4)],
        "before": 0,
        "after": 4,
        "limit": None,
    }

    result = run(server, double, bgp_pass="Abcdef1234")
    assert reasons(result) == set()
    order = next(row for row in double.ask("/log") if row["method"] == "POST" and row["path"].endswith("/ips"))
    assert {key: order["body"][key] for key in ("type", "quantity", "metro", "fail_on_approval_required", "tags")} == {
        "type": "public_ipv4",
        "quantity": 1,
        "metro": "da",
        "fail_on_approval_required": True,
        "tags": tags_of(api, "web-0"),
    }
    enable = next(row for row in double.ask("/log") if row["path"].endswith("/bgp-configs"))
    assert enable["body"] == {
        "deployment_type": "local",
        "asn": 65000,
        "use_case": "kubernetes-load-balancer",
        "md5": "Abcdef1234",
    }
    assert address_of(api, "web-0") == "147.75.10.1"
    annotations = api.get("/api/v1/nodes/metal-2")["metadata"]["annotations"]
    assert (
        annotations["metal.equinix.com/bgp-peers-1-peer-ip"] == "169.254.255.2"
        and annotations["metal.equinix.com/src-ip"] == "10.66.2.5"
    )
    assert annotations["metal.equinix.com/network-4-private"] == "10.66.2.0/25" and not [
        key for key in annotations if "bgp-pass" in key
    ]

    # calls of an unchanged run: the project, three lists, and two devices in turn, however many Services and nodes there are
    before, mark = len(double.calls()), server.mark()
    result = run(server, double, bgp_pass="Abcdef1234")
    assert not result["changed"] and server.writes(mark) == []
    found = double.calls()[before:]
    assert len(found) == 4 + 2 == result["stats"]["provider_calls"]["aws"] and all(
        call.startswith("GET ") for call in found
    )

    api.delete(SERVICES + "/web-1")
    result = run(server, double, bgp_pass="Abcdef1234")
    assert [change["action"] for change in result["plan"]["changes"]] == ["delete"] and len(double.held()) == 3
    result = run(server, double, {"state": "absent"})
    assert double.held() == [] and address_of(api, "web-0") is None


def test_every_page_is_read(server, double, api):
    double.ask("/options", page=2)
    for number in range(5):
        service(api, "web-%d" % number)
    run(server, double)
    before = len(double.calls())
    assert not run(server, double)["changed"]
    assert len([call for call in double.calls()[before:] if call.endswith("/ips")]) == 3 and len(double.held()) == 5
    # a list that breaks off in the middle releases and orders nothing
    api.delete(SERVICES + "/web-4")
    service(api, "new")
    double.ask("/faults", method="GET", path="/ips$", status=500, times=1)
    before = len(double.calls())
    assert ("aws", "api") in reasons(run(server, double))
    assert all(call.startswith("GET ") for call in double.calls()[before:]) and len(double.held()) == 5


def test_quota_pending_and_denied(server, double, api):
    double.ask("/options", quota=1)
    service(api, "a")
    service(api, "b")
    result = run(server, double)
    assert (
        reasons(result) == {("service aws/lb-metal/b", "quota")} and address_of(api, "a") and not address_of(api, "b")
    )
    mark = server.mark()
    result = run(server, double)  # asked for again, and nothing that follows from an address that is not there
    assert (
        not result["changed"]
        and result["refused"]
        and not [write for write in server.writes(mark) if "leases" not in str(write)]
    )
    double.ask("/options", quota=9, pending=True)
    result = run(server, double)
    row = next(item for item in result["load_balancers"]["aws"]["services"] if item["service"].endswith("/b"))
    assert row["requested"] and row["state"] == "Requested" and not address_of(api, "b")
    orders = len([call for call in double.calls() if call.startswith("POST") and call.endswith("/ips")])
    run(server, double)
    assert (
        len([call for call in double.calls() if call.startswith("POST") and call.endswith("/ips")]) == orders
    )  # not asked for again
    double.ask("/approve")
    run(server, double)
    assert address_of(api, "b")
    double.ask("/reservations", tags=tags_of(api, "c"), state="denied", address="")
    service(api, "c")
    assert ("service aws/lb-metal/c", "denied") in reasons(run(server, double))


def test_rate_limits_and_broken_answers(server, double, api):
    service(api, "web")
    double.ask(
        "/faults",
        method="GET",
        path="/ips$",
        status=429,
        headers={"Retry-After": "1"},
        body={"error": "slow down"},
        times=2,
    )
    began = time.monotonic()
    assert reasons(run(server, double)) == set() and time.monotonic() - began >= 2
    double.ask("/faults", path="", status=401, body={"error": "no"}, times=1)
    before = len(double.calls())
    assert ("aws", "auth") in reasons(run(server, double)) and len(double.calls()) == before + 1
    for fault in (
        {"status": 200, "body": "<html>"},
        {"status": 200, "body": '{"ip_addresses": [{"id": "a", "ta'},
        {"status": 200, "body": {"ip_addresses": None}},
        {"status": 302, "headers": {"Location": "/x"}},
    ):
        double.ask("/faults", method="GET", path="/ips$", times=1, **fault)
        assert ("aws", "api") in reasons(run(server, double)), fault
    assert len(double.held()) == 1 and address_of(api, "web")


def test_a_release_that_fails_is_tried_again_by_the_next_run(server, double, api):
    service(api, "web")
    service(api, "other")
    run(server, double)
    api.delete(SERVICES + "/web")
    double.ask("/faults", method="DELETE", path="^/ips/", status=500, body={"error": "broken"})
    assert ("service aws/lb-metal/web", "api") in reasons(run(server, double)) and len(double.held()) == 2
    # the record still knows it; a moment's outage is waited for, and a 404 means that it is done
    double.ask("/faults", method="DELETE", path="^/ips/", status=503, headers={"Retry-After": "1"})
    assert reasons(run(server, double)) == set() and len(double.held()) == 1
    service(api, "late")
    run(server, double)
    api.delete(SERVICES + "/late")
    double.ask("/faults", method="DELETE", path="^/ips/", status=404, after=True)
    assert reasons(run(server, double)) == set() and len(double.held()) == 1
    assert list(api.get(CONFIGMAPS + "/metal-ccm-reservations")["data"]) == [double.held()[0]["id"]] and address_of(
        api, "other"
    )


def test_calls_do_not_grow_with_services(server, double, api):
    """One list of addresses, one of devices, one of sessions, the project, and two devices in turn: with 1 Service as with 24."""
    counts = []
    for many in (1, 24):
        for number in range(many):
            if not api.list(SERVICES, field_selector="metadata.name=web-%d" % number).items:
                service(api, "web-%d" % number)
        run(server, double)
        before, requests = len(double.calls()), server.mark()
        result = run(server, double)
        assert not result["changed"] and server.writes(requests) == []
        counts.append((len(double.calls()) - before, sum(result["stats"]["requests"]["aws"].values())))
    assert counts[0] == counts[1] and counts[0][0] == 4 + 2


def more_nodes(double, client, first, last):
    for number in range(first, last + 1):
        new_node(
            client,
            f"metal-{number}",
            "equinixmetal://" + double.ask("/devices", hostname="metal-%d" % number, number=number)["id"],
        )


def spent(server, double, **settings):
    """(requests of the API server, calls of the provider, the result) of one run, counted by those who were asked."""
    before, mark = len(double.calls()), server.mark()
    result = run(server, double, **settings)
    asked = double.calls()[before:]
    assert len(asked) == result["stats"]["provider_calls"]["aws"] and len(server.audit(mark)) == sum(
        result["stats"]["requests"]["aws"].values()
    )
    return len(server.audit(mark)), len(asked), result


def test_requests_of_a_change(server, double, api):
    """20 Services on 10 nodes: what did not change is not asked for again, of the API server as of the provider."""
    double.ask("/options", max_prefix=100)
    more_nodes(double, api, 4, 10)
    for number in range(20):
        service(api, "web-%d" % number)
    first = spent(server, double)
    assert first[1] <= 4 + 10 * 3 + 20 + 2, first[
        :2
    ]  # of each node: no neighbours, a session, neighbours; an order for each Service
    assert not spent(server, double)[2]["changed"]
    assert spent(server, double)[:2] == (4, 6)

    api.delete(SERVICES + "/web-7")
    requests, calls, result = spent(server, double)
    assert [change["action"] for change in result["plan"]["changes"]] == ["delete"] and requests <= 8 and calls <= 8, (
        requests,
        calls,
    )
    service(api, "late")
    requests, calls, result = spent(server, double)
    assert address_of(api, "late") and requests <= 16 and calls <= 8, (requests, calls)
    more_nodes(double, api, 11, 11)
    requests, calls, result = spent(server, double)
    assert api.get("/api/v1/nodes/metal-11")["metadata"]["annotations"]["metal.equinix.com/src-ip"] == "10.66.11.5"
    assert requests <= 19 and calls <= 10, (requests, calls)
    assert spent(server, double)[:2] == (4, 6)


def test_what_is_remembered_of_routers(server, double, api):
    """It counts only as long as session, address and project are what they were; nobody's password is in it, and damage costs calls alone."""
    service(api, "web")
    run(server, double, bgp_pass="Abcdef1234")
    path = CONFIGMAPS + "/metal-ccm-reservations"
    kept = api.get(path)["metadata"]["annotations"]["multicluster.network/bgp-neighbours"]
    assert len(json.loads(kept)) == 3 and "Abcdef1234" not in json.dumps(api.get(path))

    def asked():
        before = len(double.calls())
        result = run(server, double, bgp_pass="Abcdef1234")
        assert not result["changed"] and not result["refused"]
        return len([call for call in double.calls()[before:] if call.endswith("/bgp/neighbors")])

    assert asked() == 2  # in turn
    for damage in (
        "",
        "[]",
        "{",
        json.dumps({device: [1, 2, 3] for device in json.loads(kept)}),
        json.dumps(dict.fromkeys(json.loads(kept))),
        json.dumps({device: ["s", "10.66.1.5", 65000, 65530, ["203.0.113.9"], True] for device in json.loads(kept)}),
        None,
    ):
        api.merge_patch(path, {"metadata": {"annotations": {"multicluster.network/bgp-neighbours": damage}}}, "kubectl")
        assert asked() == 3, damage
    double.ask(
        "/faults", method="GET", path="/projects/[^/]*/bgp/sessions$", status=404, body={"errors": ["Not found"]}
    )
    assert asked() == 3  # a fork without that list
    double.ask(
        "/faults",
        method="GET",
        path="/projects/[^/]*/bgp/sessions$",
        status=200,
        body='{"bgp_sessions": [{"id": 5}, 7, {"device"',
    )
    assert asked() == 3
    # another session of a device, whatever was said of the one before
    service(api, "other")
    run(server, double, bgp_pass="Abcdef1234")
    assert asked() == 2
    for held in double.ask("/state")["sessions"].values():
        gone = double.root + "/metal/v1/bgp/sessions/" + held[0]["id"]
        urllib.request.urlopen(urllib.request.Request(gone, headers={"X-Auth-Token": TOKEN}, method="DELETE"))
    result = run(server, double, bgp_pass="Abcdef1234")
    assert sum(change["kind"] == "BgpSession" for change in result["plan"]["changes"]) == 3 and asked() == 2


@pytest.mark.parametrize("moment", ["before the answer", "after it"])
def test_killed_between_an_order_and_its_record(server, double, api, monkeypatch, moment):
    """SIGKILL, as close as it gets: the process ends without notice. The next run knows what it ordered, and may give it back."""
    service(api, "web")
    pid = os.fork()
    if pid == 0:
        order = load_balancers_equinix.EquinixMetal.order

        def last(self, body):
            if moment == "after it":
                order(self, body)
            else:
                double.ask("/reservations", tags=body["tags"])
            os.kill(os.getpid(), signal.SIGKILL)

        load_balancers_equinix.EquinixMetal.order = last
        try:
            load_balancers.run(request_for(server, double))
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    (held,) = double.held()
    assert not address_of(api, "web")
    api.delete(
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/multicluster-network-load-balancers"
    )  # which nobody renews
    result = run(server, double)
    assert reasons(result) == set() and address_of(api, "web") == held["address"] and len(double.held()) == 1
    assert list(api.get(CONFIGMAPS + "/metal-ccm-reservations")["data"]) == [held["id"]]
    assert not run(server, double)["changed"]
    api.delete(SERVICES + "/web")
    assert (
        run(server, double, {"confirm_empty": ["aws"]})["load_balancers"]["aws"]["releases"] == [held["address"]]
        and double.held() == []
    )


def test_lists_that_name_one_twice_and_answers_that_name_another(server, double, api):
    """A page that moved while the pages were read is a list that is not whole; an order's answer is no reservation that was there before."""
    service(api, "web")
    run(server, double)
    (mine,) = double.held()
    service(api, "other")
    double.ask("/faults", method="POST", path="/ips$", status=201, body=mine)
    assert ("service aws/lb-metal/other", "api") in reasons(run(server, double)) and not address_of(api, "other")
    record = api.get(CONFIGMAPS + "/metal-ccm-reservations")["data"]
    double.ask(
        "/faults", method="GET", path="/ips$", status=200, body={"ip_addresses": [mine, mine], "meta": {"total": 2}}
    )
    assert reasons(run(server, double)) == {("aws", "api")}
    for second in (
        {"ip_addresses": [mine], "meta": {"total": 2, "last_page": 2}},
        {"ip_addresses": [], "meta": {"total": 1, "last_page": 2}},
    ):
        double.ask(
            "/faults",
            method="GET",
            path="/ips$",
            status=200,
            body={"ip_addresses": [mine], "meta": {"total": 2, "last_page": 2}},
        )
        double.ask("/faults", method="GET", path="/ips$", status=200, body=second)
        assert reasons(run(server, double)) == {("aws", "api")}, second
    assert api.get(CONFIGMAPS + "/metal-ccm-reservations")["data"] == record and len(double.held()) == 1
    assert reasons(run(server, double)) == set() and address_of(api, "other") and len(double.held()) == 2


def test_an_order_without_an_answer_is_not_repeated(server, double, api):
    service(api, "web")
    double.ask("/faults", method="POST", path="/projects/.*/ips$", after=True, hang=0.2)
    assert reasons(run(server, double)) == set()
    assert len(double.held()) == 1 and address_of(api, "web") == double.held()[0]["address"]
    run(server, double)
    assert len(double.held()) == 1
    api.delete(SERVICES + "/web")
    service(api, "other")
    run(server, double)
    assert [row["tags"] for row in double.held()] == [tags_of(api, "other")]  # owned, so it could be released


def test_an_order_is_recorded_whoever_else_writes(server, double, api, monkeypatch):
    """The control plane's address moves, and is recorded, while an order is under way: neither record is lost."""
    service(api, "web")
    order = load_balancers_equinix.EquinixMetal.order

    def slow(self, body):
        row = json.dumps({"id": "cp", "address": "203.0.113.100", "cidr": 32, "tags": ["cp"], "device": "d"})
        api.merge_patch(CONFIGMAPS + "/metal-ccm-reservations", {"data": {"cp": row}}, "kubectl")
        return order(self, body)

    monkeypatch.setattr(load_balancers_equinix.EquinixMetal, "order", slow)
    double.ask("/reservations", tags=["cp"], address="203.0.113.100", id="cp")
    assert reasons(run(server, double)) == set() and address_of(api, "web")
    mine = next(row["id"] for row in double.held() if row["id"] != "cp")
    assert set(api.get(CONFIGMAPS + "/metal-ccm-reservations")["data"]) == {"cp", mine}
    run(server, double, {"state": "absent"})
    assert [row["id"] for row in double.held()] == ["cp"] and set(
        api.get(CONFIGMAPS + "/metal-ccm-reservations")["data"]
    ) == {"cp"}


def test_spoofed_tags(server, double, api):
    service(api, "web")
    run(server, double)
    mine = double.held()[0]
    # somebody in the project puts our tags on his own: nothing of his is used or released, and the Service keeps its address
    double.ask("/reservations", tags=mine["tags"], address="203.0.113.66", id="spoof")
    assert reasons(run(server, double)) == set() and address_of(api, "web") == mine["address"]
    api.delete(SERVICES + "/web")
    assert ("aws", "delete_budget") in reasons(run(server, double)) and len(
        double.held()
    ) == 2  # no Service at all is left
    result = run(server, double, {"confirm_empty": ["aws"]})
    assert [row["id"] for row in double.held()] == ["spoof"] and any(
        "has no record of it" in text for text in result["warnings"]
    )
    service(api, "new")
    for ident, address in (("one", "203.0.113.67"), ("two", "203.0.113.68")):
        double.ask("/reservations", tags=tags_of(api, "new"), address=address, id=ident)
    result = run(server, double)
    assert ("service aws/lb-metal/new", "claimed_twice") in reasons(result) and not address_of(api, "new")


def test_adoption_takes_over_what_the_original_reserved(server, double, api):
    """After the move its addresses are given back with their Services; those that only carry the tags are not."""
    service(api, "web", "203.0.113.66")
    service(api, "other", "203.0.113.67")
    for ident, name, address in (("mine", "web", "203.0.113.66"), ("spoof", "other", "203.0.113.99")):
        double.ask("/reservations", tags=tags_of(api, name), address=address, id=ident)
    assert not [change for change in run(server, double)["plan"]["changes"] if change["kind"] == "Reservation"]
    planned = run(server, double, {"adopt": True}, check=True)
    assert [change["id"] for change in planned["plan"]["changes"] if change["kind"] == "Reservation"] == [
        "aws/lb-metal/web"
    ]
    run(server, double, {"adopt": True})
    assert (
        list(api.get(CONFIGMAPS + "/metal-ccm-reservations")["data"]) == ["mine"]
        and not run(server, double, {"adopt": True})["changed"]
    )
    for name in ("web", "other"):
        api.delete(SERVICES + "/" + name)
    service(api, "last", "203.0.113.68")
    result = run(server, double)
    assert [row["id"] for row in double.held()] == ["spoof"] and any(
        "has no record of it" in text for text in result["warnings"]
    )


def test_other_clusters_in_the_project_are_left_alone(server, double, api):
    service(api, "web")
    unowned = [tag for tag in tags_of(api, "x") if not tag.startswith("cluster=")]
    double.ask("/reservations", tags=unowned + ["cluster=another"], address="203.0.113.1", id="theirs")
    double.ask("/reservations", tags=unowned, address="203.0.113.2", id="old")
    run(server, double)
    assert {row["id"] for row in double.held()} >= {"theirs", "old"}
    run(server, double, {"state": "absent"})
    assert {row["id"] for row in double.held()} == {"theirs", "old"}


def request_of_two(server, double, **settings):
    request = request_for(server, double, None, **settings)
    request["clusters"].append(dict(server.access(), name="gcp"))
    request["settings"].append(dict(request_for(server, double)["settings"][0], cluster="gcp"))
    return dict(request, confirm_empty=["aws", "gcp"])


def test_a_cluster_that_answers_with_the_uid_of_another(server, double, api):
    """One API server under two names is what that looks like: the owner of the reservations is unknown to both."""
    service(api, "web")
    run(server, double)
    address = address_of(api, "web")
    api.delete(SERVICES + "/web")
    result = load_balancers.run(request_of_two(server, double))
    assert [(row["cluster"], row["reason"]) for row in result["failures"]] == [
        ("aws", "claimed_twice"),
        ("gcp", "claimed_twice"),
    ]
    assert all("aws and gcp" in row["message"] and "cluster_uid" in row["message"] for row in result["failures"])
    assert not result["changed"] and [row["address"] for row in double.held()] == [address]
    # the inventory knows the owner: that one goes on, and gives back what is its own
    result = load_balancers.run(request_of_two(server, double, cluster_uid=uid(api)))
    assert [(row["cluster"], row["reason"]) for row in result["failures"]] == [("gcp", "claimed_twice")]
    assert result["load_balancers"]["aws"]["releases"] == [address] and double.held() == []


def test_nothing_is_released_while_the_owner_of_the_uid_may_be_unreachable(server, double, api):
    service(api, "web")
    run(server, double)
    api.delete(SERVICES + "/web")
    for more, held in (({}, 1), ({"cluster_uid": uid(api)}, 0)):
        request = request_of_two(server, double, **more)
        request["clusters"][1] = {"name": "gcp", "api_url": "https://127.0.0.1:1", "token": "x"}
        result = load_balancers.run(request)
        assert {row["cluster"] for row in result["failures"]} == {"gcp"} and len(double.held()) == held
        assert [row["reason"] for row in result["refused"]] == ["source_incomplete"] * held


def test_a_uid_that_changes_while_it_is_read(server, double, api, monkeypatch):
    service(api, "web")
    original, asked, own = Client.get, [], uid(api)

    def fails(self, path):
        answer = original(self, path)
        if path.endswith("/kube-system"):
            asked.append(path)
            answer["metadata"]["uid"] = "of-another" if len(asked) > 1 else answer["metadata"]["uid"]
        return answer

    monkeypatch.setattr(Client, "get", fails)
    result = run(server, double, cluster_uid=own)
    assert reasons(result) == {("aws", "claimed_twice")} and len(asked) == 2
    assert double.held() == [] and not result["changed"]


def test_a_provider_with_false_bgp_facts(server, double, api):
    service(api, "web")
    result = run(server, double, bgp_grants={"peers": ["198.51.100.0/24"]})
    assert reasons(result) == {("node aws/metal-%d" % n, "outside_grant") for n in (1, 2, 3)}
    assert "metal.equinix.com/src-ip" not in (api.get("/api/v1/nodes/metal-1")["metadata"].get("annotations") or {})
    double.ask("/reset", max_prefix=1)
    api.delete(CONFIGMAPS + "/metal-ccm-reservations")
    api.merge_patch(SERVICES + "/web", {"spec": {"loadBalancerIP": None}}, "kubectl")
    service(api, "zweite")
    run(server, double)
    result = run(
        server, double
    )  # the devices are gone: every node is refused by name, the Services go on, up to the limit
    assert len([one for one in result["refused"] if one["object"].startswith("node aws/metal-")]) == 3
    assert ("service aws/lb-metal/zweite", "prefix_limit") in reasons(result) and address_of(api, "web")


def test_the_project_is_never_switched_on_blindly(server, double, api):
    service(api, "web")
    double.ask("/faults", method="GET", path="/bgp-config$", status=500, times=1)
    assert ("aws", "api") in reasons(run(server, double)) and not [
        call for call in double.calls() if call.startswith("POST")
    ]


def test_plain_http_and_redirects_must_be_asked_for(server, double, api):
    assert ("aws", "api") in reasons(run(server, double, allow_plain_http=False)) and double.calls() == []


def new_node(client, name, provider_id=None, taints=()):
    spec = {"taints": [{"key": key, "value": "true", "effect": "NoSchedule"} for key in taints]}
    if provider_id:
        spec["providerID"] = provider_id
    client.create(
        "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}, "kubelet"
    )


def report(client, name, ready):
    rows = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    client.merge_patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": rows}}, "kubelet")


TAINT = "node.cloudprovider.kubernetes.io/uninitialized"


def test_nodes_are_initialised(server, double, api):
    device = double.ask("/devices", hostname="fresh", number=4)
    new_node(api, "fresh", taints=[TAINT, "example.com/own"])
    new_node(api, "nowhere", taints=[TAINT])
    new_node(api, "elsewhere", "aws:///i-1", taints=[TAINT])
    mark = server.mark()
    ask = dict(request_for(server, double), zone_from="facility")
    assert ccm_nodes.run(ask, check=True)["changed"] and server.writes(mark) == []
    result = ccm_nodes.run(ask)
    assert reasons(result) == {("node aws/nowhere", "no_device"), ("node aws/elsewhere", "wrong_provider")}
    node = api.get("/api/v1/nodes/fresh")
    assert node["spec"]["providerID"] == "equinixmetal://" + device["id"]
    assert node["spec"]["taints"][0]["key"] == "example.com/own" and TAINT not in json.dumps(node["spec"])
    assert {
        key: node["metadata"]["labels"][key]
        for key in ("node.kubernetes.io/instance-type", "topology.kubernetes.io/region")
    } == {
        "node.kubernetes.io/instance-type": "c3.small.x86",
        "topology.kubernetes.io/region": "da",
    }
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "da11"
    former = (
        "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
    )
    assert [node["metadata"]["labels"][key] for key in former] == ["c3.small.x86", "da", "da11"]
    assert node["status"]["addresses"] == [
        {"type": "Hostname", "address": "fresh"},
        {"type": "ExternalIP", "address": "198.51.100.4"},
        {"type": "InternalIP", "address": "10.66.4.5"},
    ]
    assert TAINT in json.dumps(api.get("/api/v1/nodes/nowhere")["spec"])
    mark = server.mark()
    assert not ccm_nodes.run(ask)["changed"] and server.writes(mark) == []
    assert ccm_nodes.run(dict(ask, node_devices={"nowhere": device["id"]}))["plan"]["update"] == 2


def test_a_node_is_deleted_only_on_request_and_proof(server, double, api):
    request = request_for(server, double)
    ccm_nodes.run(request)
    new_node(api, "gone", "equinixmetal://00000000-0000-4000-8000-000000000000")
    report(api, "gone", False)
    assert not ccm_nodes.run(request)["changed"]
    double.ask("/faults", method="GET", path="/devices$", status=500, times=9)
    result = ccm_nodes.run(dict(request, delete_nodes=True, timeout=20))
    assert ("aws", "api") in reasons(result) and not result["changed"]
    double.ask("/reset")
    for number in (1, 2, 3):
        double.ask("/devices", hostname="metal-%d" % number, number=number)
    result = ccm_nodes.run(dict(request, delete_nodes=True))
    assert [(change["action"], change["id"]) for change in result["plan"]["changes"]] == [("delete", "aws/gone")]
    # ready nodes are never deleted, and nobody's list may empty a cluster
    double.ask("/reset")
    for number in (1, 2, 3):
        report(api, "metal-%d" % number, False)
    result = ccm_nodes.run(dict(request, delete_nodes=True))
    assert ("aws", "delete_budget") in reasons(result) and len(api.list("/api/v1/nodes").items) == 3


def test_who_holds_what(server, double, api):
    service(api, "web")
    new_node(api, "nowhere", taints=[TAINT])
    run(server, double)
    double.ask("/reservations", tags=["cp"], address="203.0.113.100", id="cp")
    mark = server.mark()
    result = ccm_info.run(request_for(server, double, eip_tag="cp"))
    found = result["clusters"]["aws"]
    assert server.writes(mark) == [] and not [call for call in double.calls()[-20:] if call.startswith("DELETE")]
    assert [(one["service"], one["owned"]) for one in found["reservations"] if one["service"]] == [
        ("lb-metal/web", True)
    ]
    assert found["control_plane"] == {"address": "203.0.113.100", "assigned_to": []}
    assert found["zones"] == [{"region": "da", "zone": ""}] and len(found["devices"]) == 3
    assert found["sessions"]["metal-1"] == [{"address_family": "ipv4", "status": "up"}]
    assert {(one["object"], one["reason"]) for one in found["findings"]} == {("node nowhere", "no_device")}
    assert TOKEN not in json.dumps(result)


def test_every_call_of_a_first_run(server, double, api):
    """One node, one Service, nothing there yet: exactly these calls, with these bodies, and then the provider's own view of it."""
    for name in ("metal-2", "metal-3"):
        api.delete("/api/v1/nodes/" + name)
    node = api.get("/api/v1/nodes/metal-1")["spec"]["providerID"].partition("://")[2]
    service(api, "web")
    assert reasons(run(server, double, bgp_pass="Abcdef1234", publish_bgp_password=True)) == set()
    log = double.ask("/log")
    assert all(row["agent"].startswith("multicluster.network/") for row in log)
    device, project = "/devices/" + node, "/projects/" + PROJECT
    order = {
        "type": "public_ipv4",
        "quantity": 1,
        "metro": "da",
        "tags": tags_of(api, "web"),
        "fail_on_approval_required": True,
        "details": "Service lb-metal/web",
    }
    assert [(row["method"], row["path"], row["body"]) for row in log if row["method"] != "GET"] == [
        (
            "POST",
            project + "/bgp-configs",
            {"deployment_type": "local", "asn": 65000, "use_case": "kubernetes-load-balancer", "md5": "Abcdef1234"},
        ),
        ("POST", device + "/bgp/sessions", {"address_family": "ipv4"}),
        ("POST", project + "/ips", order),
    ]
    read = {
        project + "/bgp-config",
        project + "/bgp/sessions",
        project + "/ips",
        project + "/devices",
        device + "/bgp/neighbors",
    }
    assert {row["path"] for row in log if row["method"] == "GET"} == read
    found = api.get("/api/v1/nodes/metal-1")["metadata"]["annotations"]
    password = base64.b64encode(b"Abcdef1234").decode()
    assert {key.partition("/")[2]: value for key, value in found.items() if key.startswith("metal.equinix.com/")} == {
        "node-asn": "65000",
        "peer-asns": "65530",
        "peer-ips": "169.254.255.1,169.254.255.2",
        "src-ip": "10.66.1.5",
        "network-4-private": "10.66.1.0/25",
        "bgp-peers-0-node-asn": "65000",
        "bgp-peers-0-peer-asn": "65530",
        "bgp-peers-0-peer-ip": "169.254.255.1",
        "bgp-peers-0-src-ip": "10.66.1.5",
        "bgp-peers-0-bgp-pass": password,
        "bgp-peers-1-bgp-pass": password,
        "bgp-peers-1-node-asn": "65000",
        "bgp-peers-1-peer-asn": "65530",
        "bgp-peers-1-peer-ip": "169.254.255.2",
        "bgp-peers-1-src-ip": "10.66.1.5",
    }
    before = len(log)
    api.delete(SERVICES + "/web")
    run(server, double, {"confirm_empty": ["aws"]}, bgp_pass="Abcdef1234", publish_bgp_password=True)
    held = [row for row in double.ask("/log")[before:] if row["method"] != "GET"]
    assert [row["method"] for row in held] == ["DELETE"] and held[0]["path"].startswith("/ips/") and double.held() == []


@pytest.mark.parametrize("times", [1, 2])
def test_a_service_that_changes_while_we_write(server, double, api, monkeypatch, times):
    """Read again and written once more; should it change again, that Service is refused and the next run has its reservation."""
    service(api, "web")
    service(api, "other")
    patch, left = Client.merge_patch, [times]

    def meddled(self, path, body, manager):
        if path == SERVICES + "/web" and left[0]:
            left[0] -= 1
            patch(api, path, {"metadata": {"labels": {"busy": str(left[0])}}}, "kubectl")
        return patch(self, path, body, manager)

    monkeypatch.setattr(Client, "merge_patch", meddled)
    found = reasons(run(server, double))
    assert found == (set() if times == 1 else {("aws", "conflict")}) and address_of(api, "other")
    held = len(double.held())
    assert reasons(run(server, double)) == set() and address_of(api, "web") and len(double.held()) == held == 2


def test_what_blocks_a_cloud_controller(server, double, api):
    new_node(api, "unflagged")
    meta = {"name": "kube-apiserver-x", "labels": {"tier": "control-plane"}}
    spec = {"containers": [{"name": "c", "image": "i", "command": ["kube-apiserver", "--cloud-provider=aws"]}]}
    pods = "/api/v1/namespaces/kube-system/pods"
    api.create(
        pods,
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": dict(spec, automountServiceAccountToken=False)},
        "kubelet",
    )
    try:
        found = ccm_info.run(request_for(server, double))["clusters"]["aws"]["findings"]
        assert {(one["object"], one["reason"]) for one in found} == {
            ("node unflagged", "no_device"),
            ("node unflagged", "kubelet_flag"),
            ("pod kube-system/kube-apiserver-x", "cloud_provider"),
        }
    finally:
        api.delete(pods + "/kube-apiserver-x")


def test_the_facility_of_the_host_is_the_last_resort(server, double, api):
    """Asked over HTTP, once, and only where neither the Service nor the settings name a place."""
    double.ask("/options", facilities=True)

    def settings(url):
        return dict(metro=None, load_balancer="empty://", metadata_url=url)

    nowhere = settings(double.root)
    service(api, "placed", **{"metal_equinix_com__eip-metro": "ny"})
    assert reasons(run(server, double, **nowhere)) == set() and "GET /metadata" not in double.calls()
    service(api, "web")
    service(api, "db")
    assert reasons(run(server, double, **settings(None))) == {
        ("service aws/lb-metal/" + name, "no_location") for name in ("web", "db")
    }
    for wrong in (
        {"metadata": None},
        {"metadata": {"facility": ["da11"]}},
        {"metadata": {"facility": "x" * 64}},
        {"metadata": {"facility": ""}},
    ):
        double.ask("/options", **wrong)
        result = run(server, double, **nowhere)
        assert (
            reasons(result) == {("service aws/lb-metal/" + name, "no_location") for name in ("web", "db")}
            and len(double.held()) == 1
        )
    result = run(server, double, **settings("http://127.0.0.1:1"))
    assert (
        all("metadata could not be read" in one["message"] for one in result["refused"]) and len(result["refused"]) == 2
    )
    double.ask("/options", metadata={"facility": "da11"})
    asked = double.calls().count("GET /metadata")
    result = run(server, double, check=True, **nowhere)
    assert (
        reasons(result) == set()
        and double.calls().count("GET /metadata") == asked + 1
        and "da11" in result["diff"]["after"]
    )
    result = run(server, double, **nowhere)
    assert reasons(result) == set()
    assert sorted((held["facility"] or {}).get("code", "") for held in double.held()) == ["", "da11", "da11"]
    asked = double.calls().count("GET /metadata")
    assert not run(server, double, **nowhere)["changed"] and double.calls().count("GET /metadata") == asked
