# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The owned section in a Corefile on a real API server."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import coredns
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

MAPS = "/api/v1/namespaces/kube-system/configmaps"
#: As kubeadm writes it, with a comment of the user's and no newline at the end.
COREFILE = """.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    # { keep me
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
corp.example:53 { # ours since 2019
    forward . 192.0.2.53
}"""


@pytest.fixture
def config(server):
    """The ConfigMap; returns how to read the Corefile."""
    client = server.client()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "coredns"}, "data": {"Corefile": COREFILE, "other": "x"}}
    client.create(MAPS, body, "kubeadm")
    yield lambda: client.get(MAPS + "/coredns")["data"]["Corefile"]
    client.delete(MAPS + "/coredns")
    client.delete(MAPS + "/coredns-custom")


def run(server, check=False, **more):
    request = {"fabric": "t", "clusters": [server.access("gcp")], "members": ["aws", "gcp"], "mirror_namespace": "sys-semaphore",
               "namespace": "kube-system", "name": "coredns", "key": "Corefile", "timeout": 20}  # fmt: skip
    return coredns.run(dict(request, **more), check=check)


def test_the_section_comes_changes_and_goes(server, config):
    mark = server.mark()
    planned = run(server, check=True)
    assert planned["plan"]["update"] == 1 and "- cluster.aws {" in planned["diff"]["after"] and server.writes(mark) == []
    assert run(server)["changed"] and server.writes(mark) == [("patch", MAPS + "/coredns", 200)]
    merged = config()
    assert merged.startswith("# BEGIN multicluster.network/t\n") and merged.endswith("# END multicluster.network/t\n" + COREFILE)
    assert "cluster.aws {" in merged and "cluster.gcp {" in merged
    mark = server.mark()
    again = run(server)
    assert not again["changed"] and again["plan"]["unchanged"] == 1 and server.audit(mark) == [("get", MAPS + "/coredns", 200)]

    # the user edits his part, and a cluster joins: both stand
    client = server.client()
    client.merge_patch(MAPS + "/coredns", {"data": {"Corefile": config().replace("lameduck 5s", "lameduck 9s")}}, "kubectl")
    assert not run(server)["changed"]
    assert run(server, members=["aws", "gcp", "azure"])["plan"]["update"] == 1
    assert "lameduck 9s" in config() and "cluster.azure cluster.aws {" in config()
    assert run(server, state="absent")["changed"] and config() == COREFILE.replace("lameduck 5s", "lameduck 9s")
    assert not run(server, state="absent")["changed"]
    assert client.get(MAPS + "/coredns")["data"]["other"] == "x"


def refused(result):
    return [(entry["object"], entry["reason"]) for entry in result["refused"]]


def test_what_cannot_be_merged_into_is_refused_and_stays(server, config):
    client = server.client()
    ident = "ConfigMap gcp/kube-system/coredns"
    for text, word in (
        (COREFILE + "\nCLUSTER.AWS:53 {\n    whoami\n}\n", "not_ours"),
        (COREFILE + "\n}\n", "corefile_broken"),
        (COREFILE[:-1], "corefile_broken"),
        ("# BEGIN multicluster.network/t\n" + COREFILE, "corefile_broken"),
        ('. {\n    errors "\n}\n', "corefile_broken"),
    ):
        client.merge_patch(MAPS + "/coredns", {"data": {"Corefile": text}}, "kubectl")
        mark = server.mark()
        assert refused(run(server)) == [(ident, word)] and config() == text and server.writes(mark) == []
    client.merge_patch(MAPS + "/coredns", {"data": {"Corefile": None}}, "kubectl")
    assert refused(run(server)) == [(ident, "not_found")]


def test_our_zones_listen_where_the_root_does_and_a_missing_reload_is_told(server, config):
    text = ".:1053 {\n    forward . 192.0.2.53\n}\n"
    server.client().merge_patch(MAPS + "/coredns", {"data": {"Corefile": text}}, "kubectl")
    result = run(server, global_zone=True)
    assert "cluster.aws:1053 cluster.global:1053 {" in config() and "cluster.gcp:1053 {" in config()
    assert "reload" in result["warnings"][0] and not run(server, global_zone=True)["changed"]


def test_an_imported_file_is_made_and_removed(server, config):
    more = {"name": "coredns-custom", "key": "multicluster.server"}
    assert run(server, check=True, **more)["plan"]["create"] == 1
    assert run(server, **more)["plan"]["create"] == 1 and not run(server, **more)["changed"]
    made = server.client().get(MAPS + "/coredns-custom")["data"]
    assert list(made) == ["multicluster.server"] and config() == COREFILE
    assert run(server, state="absent", **more)["changed"] and not run(server, state="absent", **more)["changed"]
    assert not server.client().get(MAPS + "/coredns-custom").get("data")


def test_a_change_in_between_is_not_lost(server, config, monkeypatch):
    real = coredns._write

    def late(client, *arguments):
        server.client().merge_patch(MAPS + "/coredns", {"data": {"Corefile": COREFILE + "\n"}}, "kubectl")
        return real(client, *arguments)

    monkeypatch.setattr(coredns, "_write", late)
    result = run(server)
    assert not result["changed"] and result["failures"][0]["reason"] == "conflict" and config() == COREFILE + "\n"
    monkeypatch.undo()
    assert run(server)["changed"] and config().endswith(COREFILE + "\n")


def test_a_dead_cluster_does_not_stop_the_others(server, config):
    dead = {"name": "aws", "api_url": "https://127.0.0.1:1", "token": "x"}
    result = run(server, clusters=[dead, server.access("gcp")])
    assert result["changed"] and [failure["cluster"] for failure in result["failures"]] == ["aws"]


@pytest.mark.parametrize("more,word", [
    ({"members": ["local"]}, "name_invalid"),
    ({"members": ["a.b"]}, "cluster_name_not_dns_label"),
    ({"members": ["aws)|(.*"]}, "cluster_name_not_dns_label"),
    ({"mirror_namespace": "x\n}"}, "name_invalid"),
    ({"mirror_namespace": "a.b"}, "name_invalid"),
    ({"cluster_domain": "cluster.local {"}, "name_invalid"),
    ({"members": ["aws"], "prefixes": {"aws": "gl"}}, "reserved_service_prefix"),
    ({"members": ["a", "b"], "prefixes": {"a": "b"}}, "duplicate_service_prefix"),
    ({"members": ["global"], "global_zone": True}, "name_invalid"),
    ({"version": "new"}, "version_invalid"),
    ({"fabric": "t\n.:53 {"}, None),
])  # fmt: skip
def test_names_that_could_break_out(more, word):
    with pytest.raises(ValueError) as raised:
        coredns.run(dict({"fabric": "t", "clusters": [{"name": "gcp", "api_url": "https://127.0.0.1:1", "token": "x"}], "key": "Corefile",
                          "mirror_namespace": "m", "namespace": "kube-system", "name": "coredns", "timeout": 1}, **more))  # fmt: skip
    if word is not None:
        assert isinstance(raised.value, ValueRefused) and raised.value.reason == word
