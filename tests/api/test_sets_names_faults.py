# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Network sets and CoreDNS with an API server that fails in the middle: the next run converges, and nothing was lost."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import coredns, network_sets
from api_server import ApiServer
from faulty_server import FAULTS, Faulty, revive, timeout
from set_kinds import namespace, path_of, pod, remove, serve

GRANTS = {"aws": {"pod_cidrs": ["10.2.0.0/16"]}, "gcp": {"pod_cidrs": ["10.4.0.0/16"]}}
COUNT = 12
EVERYTHING = {f"aws-web-s{number}": [f"10.2.3.{number}/32"] for number in range(COUNT)}
MAPS = "/api/v1/namespaces/kube-system/configmaps"
COREFILE = ".:53 {\n    forward . 192.0.2.53 # mine\n    reload\n}\n"


@pytest.fixture(scope="module")
def gcp(tmp_path_factory):
    """The cluster that is written to, by way of the relay."""
    one = ApiServer(tmp_path_factory.mktemp("apiserver-gcp"))
    try:
        one.start()
        serve(one.client(), "calico")
        yield one
    finally:
        one.stop()


@pytest.fixture(scope="module")
def aws(server):
    """The source: a dozen pods, each of a set of its own."""
    namespace(server.client(), "web")
    for number in range(COUNT):
        pod(server.client(), "web", f"p{number}", f"s{number}", f"10.2.3.{number}")
    yield server
    for number in range(COUNT):
        remove(server.client(), "web", f"p{number}")


def sync(aws, gcp, relay=None, what=None, **more):
    """One run of network_sets, with gcp reached through the relay."""
    access = gcp.access("gcp", **({"api_url": relay.url} if relay else {}))
    result = network_sets.run(
        {
            "fabric": "t",
            "clusters": [aws.access("aws"), access],
            "grants": GRANTS,
            "sources": ["aws"],
            "targets": ["gcp"],
            "timeout": timeout(what),
            **more,
        }
    )
    assert relay is None or relay.met, "the fault was never met"
    return result


def sets(gcp):
    return {item["metadata"]["name"]: item["spec"]["nets"] for item in gcp.client().list(path_of("calico")).items}


def converges(aws, gcp):
    """The next run gets there, and the one after it has nothing to do."""
    revive(gcp)
    result = sync(aws, gcp)
    assert (result["failures"], result["refused"]) == ([], []) and sets(gcp) == EVERYTHING
    mark = gcp.mark()
    assert not sync(aws, gcp)["changed"] and gcp.writes(mark) == []


@pytest.mark.parametrize(
    "name,job",
    [(name, "make") for name in FAULTS] + [("conflict", "change"), ("answers lost", "change"), ("stall", "change")],
)
def test_sets(aws, gcp, name, job):
    if job == "change":
        sync(aws, gcp)
        for item in EVERYTHING:
            gcp.client().merge_patch(path_of("calico", item), {"spec": {"nets": ["0.0.0.0/0"]}}, "somebody")
    with Faulty(gcp, FAULTS[name]) as relay:
        result = sync(aws, gcp, relay, name)
    # what was asked once may have been done: a POST is not repeated
    outlived = name == "too many requests" or (name == "answers lost" and job == "change")
    assert outlived or result["failures"] or result["refused"], result
    converges(aws, gcp)
    assert sync(aws, gcp, state="absent")["plan"]["delete"] == COUNT


@pytest.mark.parametrize("what", ["stall", "cut", 500])
def test_a_list_of_pods_or_sets_that_does_not_come(aws, gcp, what):
    sync(aws, gcp)
    mark = gcp.mark()
    with Faulty(gcp, {}, dict.fromkeys(range(1, 100), what)) as relay:
        result = sync(aws, gcp, relay, what, max_deletes=-1, confirm_empty=["aws"])
    assert result["failures"] and not result["changed"] and gcp.writes(mark) == []
    with Faulty(aws, {}, dict.fromkeys(range(1, 100), what)) as relay:
        access = aws.access("aws", api_url=relay.url)
        result = network_sets.run(
            {
                "fabric": "t",
                "clusters": [access, gcp.access("gcp")],
                "grants": GRANTS,
                "sources": ["aws"],
                "targets": ["gcp"],
                "timeout": timeout(what),
                "max_deletes": -1,
                "confirm_empty": ["aws"],
            }
        )
    assert result["failures"] and not result["changed"] and gcp.writes(mark) == []
    converges(aws, gcp)


@pytest.mark.parametrize("what", ["kill", "dead", "cut", "stall", 409, 429, 500])
def test_the_corefile(gcp, what):
    def edit(relay=None):
        access = gcp.access("gcp", **({"api_url": relay.url} if relay else {}))
        return coredns.run(
            {
                "fabric": "t",
                "clusters": [access],
                "members": ["aws", "gcp"],
                "mirror_namespace": "sys-semaphore",
                "namespace": "kube-system",
                "name": "coredns",
                "key": "Corefile",
                "timeout": timeout(what),
            }
        )

    gcp.client().apply(
        MAPS + "/coredns",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "coredns"}, "data": {"Corefile": COREFILE}},
        "kubeadm",
        force=True,
    )
    with Faulty(gcp, dict.fromkeys(range(1, 100), what)) as relay:
        result = edit(relay)
    assert relay.met and result["failures"]
    revive(gcp)
    assert not edit()["failures"] and not edit()["changed"]
    text = gcp.client().get(MAPS + "/coredns")["data"]["Corefile"]
    assert text.endswith("# END multicluster.network/t\n" + COREFILE) and text.count("cluster.aws {") == 1
    gcp.client().delete(MAPS + "/coredns")
