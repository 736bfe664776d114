# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is not served is no fault, what is forbidden is named, and of many pods a few are read."""

from __future__ import annotations

import types

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client, Resource
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import (
    BadAnswer,
    Forbidden,
    ListIncomplete,
    NotFound,
    Unreachable,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.pod_ranges import (
    MOST_PODS,
    read_pod_ranges,
    read_pods,
    read_sources,
)


def pod(number):
    return {"metadata": {"name": f"p{number}", "namespace": "d"}, "spec": {}, "status": {"phase": "Running"}}


class Server(Client):
    """A client of which only the wire is taken away: path -> answer or error."""

    def __init__(self, answers):  # pylint: disable=super-init-not-called
        self.answers, self.asked, self.kinds = answers, [], {}
        self.cluster, self.limits = (
            "aws",
            types.SimpleNamespace(
                list_seconds=1, list_bytes=1, list_memory=1, request_seconds=1, pages=9, objects=9999
            ),
        )

    def error(self, kind, operation, message, **more):
        return kind("aws", operation, message, **more)

    def send(self, request, deadline, allowance=None):
        self.asked.append((request.path, dict(request.query or {})))
        answer = self.answers.get(request.path, NotFound("aws", request.operation, "no", 404))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def resource(self, api_version, kind, refresh=False):
        plural = {
            "IPPool": "ippools",
            "BlockAffinity": "blockaffinities",
            "CiliumNode": "ciliumnodes",
            "HostEndpoint": "hostendpoints",
            "IPAMBlock": "ipamblocks",
            "FelixConfiguration": "felixconfigurations",
        }[kind]
        path = f"/apis/{api_version}/{plural}"
        return Resource(api_version, kind, plural, False, frozenset()) if path in self.answers else None


def page(*items, **meta):
    return {"kind": "List", "metadata": meta, "items": list(items)}


def test_where_no_cni_has_objects_the_pods_are_read():
    server = Server({"/api/v1/pods": page(pod(1))})
    found = read_pod_ranges(server)
    assert found == {
        "pods": [pod(1)],
        "whole": True,
        "pools": [],
        "affinities": [],
        "cilium_nodes": [],
        "host_endpoints": [],
        "agents": [],
        "unread": [],
    }
    assert server.asked == [("/api/v1/pods", {"limit": str(MOST_PODS), "fieldSelector": "status.phase=Running"})]


def test_of_many_pods_one_page_is_read_and_not_taken_for_all():
    server = Server({"/api/v1/pods": page(*map(pod, range(MOST_PODS + 3)), **{"continue": "more"})})
    found = read_pod_ranges(server)
    assert len(found["pods"]) == MOST_PODS and not found["whole"] and len(server.asked) == 1


@pytest.mark.parametrize("group", ["crd.projectcalico.org/v1", "projectcalico.org/v3"])
def test_calico_in_either_group(group):
    one = {"metadata": {"name": "x"}, "spec": {"cidr": "10.0.0.0/16"}}
    server = Server(
        {"/api/v1/pods": page(), f"/apis/{group}/ippools": page(one), f"/apis/{group}/blockaffinities": page(one)}
    )
    found = read_pod_ranges(server)
    assert (found["pools"], found["affinities"], found["unread"]) == ([one], [one], [])


def test_what_is_forbidden_is_named_and_the_rest_is_read():
    no = Forbidden("aws", "list", "no", 403)
    server = Server(
        {"/api/v1/pods": no, "/apis/crd.projectcalico.org/v1/ippools": no, "/apis/cilium.io/v2/ciliumnodes": page()}
    )
    assert read_pod_ranges(server)["unread"] == ["pods (forbidden)", "IPPools of Calico (forbidden)"]


@pytest.mark.parametrize(
    "answer",
    [
        Unreachable("aws", "list", "gone"),
        BadAnswer("aws", "list", "x"),
        {"items": 7},
        page("x"),
        page({"metadata": 7}),
        [],
    ],
)
def test_what_is_no_answer_is_raised(answer):
    with pytest.raises((Unreachable, BadAnswer, ListIncomplete)):
        read_pod_ranges(Server({"/api/v1/pods": answer}))


ONE = {"metadata": {"name": "x"}, "spec": {}}


@pytest.mark.parametrize("group", ["crd.projectcalico.org/v1", "projectcalico.org/v3"])
def test_sources_are_read_whole_and_blocks_after_their_affinities(group):
    path = f"/apis/{group}/"
    server = Server(
        {path + "blockaffinities": page(ONE), path + "ipamblocks": page(ONE), "/apis/cilium.io/v2/ciliumnodes": page()}
    )
    assert read_sources(server, ["cilium", "calico"]) == {
        "cilium_nodes": [],
        "affinities": [ONE],
        "blocks": [ONE],
        "forbidden": {},
    }
    assert [path.rpartition("/")[2] for path, dummy in server.asked] == ["ciliumnodes", "blockaffinities", "ipamblocks"]


def test_a_cluster_of_another_network_plugin_is_asked_for_no_list():
    server = Server({})
    assert read_sources(server, ["cilium", "calico"]) == {"forbidden": {}} and server.asked == []
    assert read_sources(Server({"/apis/crd.projectcalico.org/v1/blockaffinities": page()}), ["calico"]) == {
        "affinities": [],
        "blocks": [],
        "forbidden": {},
    }


def test_what_may_not_be_listed_is_named_and_all_else_is_an_error():
    no = Forbidden("aws", "list", "no", 403)
    path = "/apis/crd.projectcalico.org/v1/"
    server = Server(
        {
            path + "blockaffinities": page(ONE),
            path + "ipamblocks": no,
            "/apis/cilium.io/v2/ciliumnodes": no,
            "/api/v1/pods": no,
        }
    )
    found = read_sources(server, ["cilium", "calico"])
    assert found["forbidden"] == {"cilium": "ciliumnodes.cilium.io", "calico": "ipamblocks.crd.projectcalico.org"}
    assert read_pods(server) == {"forbidden": {"pods": "pods"}}
    with pytest.raises((BadAnswer, ListIncomplete)):
        read_sources(Server({"/apis/cilium.io/v2/ciliumnodes": {"items": 7}}), ["cilium"])


def test_all_pods_are_read_where_they_are_the_source():
    server = Server({"/api/v1/pods": page(*map(pod, range(3)))})
    assert read_pods(server) == {"pods": list(map(pod, range(3)))}
    assert server.asked[0][1]["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"


def test_pools_of_calico_are_read_where_no_node_has_a_block():
    group = "/apis/crd.projectcalico.org/v1/"
    pool = {"metadata": {"name": "default-ipv4-ippool"}, "spec": {"cidr": "192.168.0.0/16"}}
    answers = {group + "blockaffinities": page(), group + "ippools": page(pool)}
    assert read_sources(Server(answers), ["calico"])["pools"] == [pool]
    answers[group + "ippools"] = Forbidden("aws", "list", "no", 403)
    assert "pools" not in read_sources(Server(answers), ["calico"]), "the right came later than the kinds"
    answers[group + "ippools"] = Unreachable("aws", "list", "no")
    with pytest.raises(ListIncomplete):
        read_sources(Server(answers), ["calico"])


def test_how_cilium_and_felix_are_set_is_read_where_they_are():
    config = {"metadata": {"name": "cilium-config"}, "data": {"enable-bpf-masquerade": "true"}}
    felix = {"metadata": {"name": "default"}, "spec": {"bpfEnabled": True}}
    answers = {"/api/v1/pods": page(), "/api/v1/configmaps": page(config)}
    assert read_pod_ranges(Server(answers))["agents"] == []
    answers["/apis/cilium.io/v2/ciliumnodes"] = page()
    answers["/apis/crd.projectcalico.org/v1/felixconfigurations"] = page(felix)
    assert read_pod_ranges(Server(answers))["agents"] == [config, felix]
