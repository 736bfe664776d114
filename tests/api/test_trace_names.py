# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names as a pod asks them: what API servers' objects make expected, alongside what a real CoreDNS over the same API server answers."""

from __future__ import annotations

import os
import subprocess
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.trace import ask as trace_ask
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_corefile import (
    Options,
    corefile_text,
    whole_corefile,
)
from ansible_collections.multicluster.network.plugins.module_utils._trace import report
from api_server import free_port
from dns_client import ask as dig
from mirror_clusters import fluentd, other, piece, service, two  # pylint: disable=unused-import
from test_clusterset_names import program as newest
from test_coredns_queries import for_this_machine, program as oldest
from test_trace_plan import ask, causes, corefile, nodes  # pylint: disable=unused-import

__all__ = ["fluentd", "nodes", "other", "two"]
NAME = "fluentd.sys-log.svc.cluster.aws"


def coredns_of(two, folder, remotes):
    """(text of a Corefile as coredns_rewrite would write it, process and port of a CoreDNS that has loaded it)."""
    path, port = (newest if os.environ.get("KUBERNETES") == "newest" else oldest)(), free_port()
    text, here = (
        corefile_text(whole_corefile(Options("gcp", remotes, "sys-semaphore", global_zone=True, port=one, ready=True)))
        for one in (53, port)
    )
    (folder / "Corefile").write_text(for_this_machine(here, folder, two.servers["gcp"]))
    with (folder / "coredns.log").open("wb") as log:
        process = subprocess.Popen(
            [path, "-conf", str(folder / "Corefile")],
            stdout=log,
            stderr=log,
            cwd=str(folder),
            env=dict(os.environ, GOMAXPROCS="1"),
        )
    deadline = time.monotonic() + 60
    while True:
        try:
            if (
                dig(port, "web.shop.svc.cluster.local").code
                and dig(port, "kubernetes.default.svc.cluster.local").answer
            ):
                return text, process, port
        except OSError:
            pass
        assert process.poll() is None and time.monotonic() < deadline, (folder / "coredns.log").read_text()
        time.sleep(0.3)


@pytest.fixture
def server_of_names(nodes, tmp_path):
    """Where CoreDNS listens, with a Service in front of it as clusters have it."""
    nodes.put(
        "gcp",
        dict(
            service(
                "kube-system", "kube-dns", [{"name": "dns", "protocol": "UDP", "port": 53}], {"k8s-app": "kube-dns"}
            )
        ),
    )
    started = []

    def go(remotes=("aws",)):
        text, process, port = coredns_of(nodes, tmp_path, remotes)
        started.append(process)
        return text, port

    yield go
    for process in started:
        process.terminate()
        process.wait(15)
    nodes.drop("gcp", "Service", "kube-system", "kube-dns")


def reported(trace, port):
    """The report after the source asked the CoreDNS of this machine in place of the Service's address."""
    rows = [dict(row, ask=dict(row["ask"], servers=["127.0.0.1"], port=port)) for row in trace["flows"] if "ask" in row]
    asked = trace_ask.ask_names(rows, {row["id"]: None for row in rows}, 5.0)
    return report.build(trace, {"gcp-host": {"sent": {"sent": [], "asked": asked}}}, {})


def names_of(built):
    return [(row["what"], row["verdict"]) for row in built["hops"] if row["command"].startswith("dig")]


@pytest.mark.parametrize("name", [NAME, NAME + ".", "local.shop", "local.shop.svc.cluster.gcp", "headless"])
def test_the_answer_of_a_real_server_is_what_the_objects_make_expected(nodes, server_of_names, name):
    text, port = server_of_names()
    corefile(nodes, text)
    nodes.put("gcp", service("shop", "local", labels={}), service("shop", "headless", labels={}, clusterIP="None"))
    for one in ("local", "headless"):
        nodes.put("gcp", piece("shop", one, "-x", "10.4.7.18", "10.4.7.19", labels={}))
    found = ask(nodes, name, port=8888)
    assert causes(found) == []
    flow = found["trace"]["flows"][0]
    assert (
        flow["ask"]["servers"] == [nodes.get("gcp", "Service", "kube-dns", "kube-system")["spec"]["clusterIP"]]
        and flow["ask"]["port"] == 53
    )
    assert flow["target"]["address"] in flow["ask"]["expected"]
    assert names_of(reported(found["trace"], port)) == [("name", "ok")]


def test_a_server_that_has_not_loaded_the_corefile_is_reported(nodes, server_of_names):
    dummy, port = server_of_names(remotes=())
    text = corefile_text(
        whole_corefile(Options("gcp", ("aws",), "sys-semaphore", global_zone=True, port=53, ready=True))
    )
    corefile(nodes, text)
    found = ask(nodes, NAME, port=8888)
    assert causes(found) == []
    built = reported(found["trace"], port)
    assert [(row["cause"], row["where"]) for row in built["findings"]] == [("dns_differs", "gcp-host")] and built[
        "verdict"
    ] == "does not arrive"
    assert names_of(built) == [("dns_differs", "differs")] and "coredns_rewrite" in built["findings"][0]["fix"]


def test_an_unresponsive_server_and_one_that_fails_are_reported(nodes, server_of_names):
    text, dummy = server_of_names()
    corefile(nodes, text)
    found = ask(nodes, NAME, port=8888)
    built = reported(found["trace"], free_port())
    assert [row["cause"] for row in built["findings"]] == ["dns_fails"] and "refused" in built["findings"][0]["message"]


def test_who_does_not_ask_the_clusters_server_is_not_asked_for(nodes, server_of_names):
    text, dummy = server_of_names()
    corefile(nodes, text)
    assert "ask" in ask(nodes, NAME, port=8888)["trace"]["flows"][0]
    assert "ask" not in ask(nodes, NAME, port=8888, source="gcp/gcp-n1")["trace"]["flows"][0]
    assert "ask" not in ask(nodes, "aws/sys-log/fluentd", port=8888)["trace"]["flows"][0]
