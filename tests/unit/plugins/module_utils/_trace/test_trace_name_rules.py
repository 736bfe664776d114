# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Corefiles of all kinds make of a name, what a DNS server's answer is worth, and texts that nobody should have written."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_corefile import (
    Options,
    corefile_text,
    whole_corefile,
)
from ansible_collections.multicluster.network.plugins.module_utils._trace import name_servers, report
from ansible_collections.multicluster.network.plugins.module_utils._trace.ends import parse_question
from ansible_collections.multicluster.network.plugins.module_utils._trace.names import Names
from ansible_collections.multicluster.network.plugins.module_utils._trace.objects import Cluster, parse_cluster
from ansible_collections.multicluster.network.plugins.module_utils._trace.resolve import Resolver
from hypothesis import given, strategies as st

REWRITE = "    rewrite stop {\n        name regex x y\n    }\n"
KUBERNETES = "    kubernetes cluster.local\n"
ROOT = ".:53 {\n" + KUBERNETES + "}\n"
AWS, GCP, SET = "web.shop.svc.cluster.aws", "web.shop.svc.cluster.gcp", "web.shop.svc.clusterset.local"


def service(
    namespace: str, name: str, address: str, protocol: str = "TCP", port: int = 80, **labels: str
) -> dict[str, t.Any]:
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"clusterIP": address, "ports": [{"port": port, "protocol": protocol}]},
    }


def clusters(corefile: str | None, **more: t.Any) -> dict[str, Cluster]:
    """gcp with a mirror of aws' shop/web, a Service of its own of that name, and an import of it."""
    services = [
        service("sys-semaphore", "aws-shop-73736d-web", "10.5.0.9"),
        service("shop", "web", "10.5.0.8"),
        service("kube-system", "kube-dns", "10.5.0.10", "UDP", 53),
    ]
    ends = [
        {
            "metadata": {"namespace": one["metadata"]["namespace"], "name": one["metadata"]["name"]},
            "subsets": [{"addresses": [{"ip": "10.2.0.7"}], "ports": [{"port": 80}]}],
        }
        for one in services
    ]
    pod = {
        "metadata": {"namespace": "shop", "name": "pod"},
        "spec": {"nodeName": "n"},
        "status": {"podIP": "10.4.0.7", "phase": "Running"},
    }
    node = {"metadata": {"name": "n"}, "status": {"addresses": [{"type": "InternalIP", "address": "10.66.0.1"}]}}
    read = {"nodes": [node], "pods": [pod], "services": services, "endpoints": ends, "corefile": corefile, **more}
    remote = {"nodes": [node], "services": [service("shop", "web", "10.3.0.1")], "endpoints": ends[1:2]}
    return {"gcp": parse_cluster("gcp", read, {("gcp", "n"): "gcp-0"}), "aws": parse_cluster("aws", remote, {})}


def ask(corefile: str | None, name: str, **more: t.Any) -> tuple[str, tuple[str, ...]]:
    answer = Names(clusters(corefile, **more)).ask(parse_question("gcp/shop/pod", name, 80), "gcp", "shop")
    return answer.faults[0][0] if answer.faults else "", answer.asked


@pytest.mark.parametrize(
    ("corefile", "name", "cause"),
    [
        (ROOT, AWS, "rewrite_missing"),
        ("cluster.aws {\n" + REWRITE + KUBERNETES + "}\n" + ROOT, AWS, ""),
        ("dns://cluster.aws.:53 {\n" + REWRITE + KUBERNETES + "}\n" + ROOT, AWS, ""),
        # a block of the zone that rewrites nothing keeps the name from every other one
        ("cluster.aws {\n" + KUBERNETES + "}\n" + ROOT, AWS, "rewrite_missing"),
        ("# cluster.aws {\n#" + REWRITE.replace("\n", "\n#") + "\n" + ROOT, AWS, "rewrite_missing"),
        # somebody's own rule in the block of everything: what it does is the server's to say
        (".:53 {\n    rewrite name suffix .svc.cluster.aws .x.svc.cluster.local\n" + KUBERNETES + "}\n", AWS, ""),
        (
            ".:53 {\n    rewrite stop {\n        name regex (.*)\\.svc\\.cluster\\.aws {1}.x\n    }\n"
            + KUBERNETES
            + "}\n",
            AWS,
            "",
        ),
        (
            ".:53 {\n    rewrite name suffix .svc.cluster.azure .x.svc.cluster.local\n" + KUBERNETES + "}\n",
            AWS,
            "rewrite_missing",
        ),
        # the cluster's own zone is its CoreDNS's second name
        (ROOT, GCP, "rewrite_missing"),
        (".:53 {\n    kubernetes cluster.local cluster.gcp.\n}\n", GCP, ""),
        ("cluster.gcp {\n" + REWRITE + KUBERNETES + "}\n" + ROOT, GCP, ""),
        ("other {\n    kubernetes cluster.gcp\n}\n" + ROOT, GCP, "rewrite_missing"),
        (ROOT, SET, "rewrite_missing"),
        (
            ".:53 {\n    kubernetes cluster.local clusterset.local {\n        multicluster clusterset.local\n    }\n}\n",
            SET,
            "name_unknown",
        ),
        ("clusterset.local {\n" + KUBERNETES + "}\n" + ROOT, SET, "name_unknown"),
        ("# multicluster clusterset.local\n" + ROOT, SET, "rewrite_missing"),
        ("{ {\n", AWS, "rewrite_missing"),
        ("", AWS, "rewrite_missing"),
        # what could not be read is nobody's fault
        (None, AWS, ""),
        (ROOT, "web", ""),
        (ROOT, "web.shop", ""),
        (ROOT, "web.shop.svc.cluster.local.", ""),
        (ROOT, "web.bank", "name_unknown"),
        (ROOT, "example.org", "name_unknown"),
    ],
)
def test_a_corefile_shows_what_becomes_of_a_name(corefile: str | None, name: str, cause: str) -> None:
    assert ask(corefile, name)[0] == cause


@pytest.mark.parametrize("cluster", ["aws", "gcp"])
def test_what_we_write_ourselves_serves_every_zone(cluster: str) -> None:
    text = corefile_text(
        whole_corefile(Options("gcp", ("aws",), "sys-semaphore", global_zone=True, port=53, ready=True))
    )
    assert ask(text, "web.shop.svc.cluster." + cluster)[0] == ""


def test_names_are_asked_in_the_order_of_a_resolver() -> None:
    assert ask(ROOT, "web")[1] == ("web.shop.svc.cluster.local",)
    assert ask(ROOT, "web.shop")[1] == ("web.shop.shop.svc.cluster.local", "web.shop.svc.cluster.local")
    assert ask(ROOT, "web.shop.svc.cluster.local.")[1] == ("web.shop.svc.cluster.local",)
    searched = ("web.shop.svc.cluster.local.shop.svc.cluster.local", "web.shop.svc.cluster.local.svc.cluster.local")
    assert ask(ROOT, "web.shop.svc.cluster.local")[1] == (
        *searched,
        "web.shop.svc.cluster.local.cluster.local",
        "web.shop.svc.cluster.local",
    )


def behind(*rows: t.Any, name: str = "aws-shop-73736d-web", space: str = "sys-semaphore") -> dict[str, t.Any]:
    """Endpoints: (address, whether it is ready)."""
    ready, waiting = ([{"ip": ip} for ip, is_ready in rows if is_ready == desired] for desired in (True, False))
    subset = {"addresses": ready, "notReadyAddresses": waiting, "ports": [{"port": 80}]}
    return {"metadata": {"namespace": space, "name": name}, "subsets": [subset] if rows else []}


@pytest.mark.parametrize(
    ("mirror", "source", "cause"),
    [
        ([("10.2.0.7", True)], [("10.2.0.7", True)], ""),
        (
            [("10.2.0.7", True)],
            [("10.2.0.7", True), ("10.2.0.8", True)],
            "",
        ),  # who is new comes with the next run; nobody is led astray
        ([("10.2.0.7", True), ("10.2.0.9", True)], [("10.2.0.7", True)], "mirror_stale"),
        ([], [("10.2.0.7", True)], "mirror_stale"),
        ([("10.2.0.7", True)], [("10.2.0.7", False)], "mirror_stale"),
        ([("10.2.0.7", False)], [], "no_endpoints"),
        ([], [], "no_endpoints"),
    ],
)
def test_a_mirror_leads_where_its_source_does(mirror: t.Any, source: t.Any, cause: str) -> None:
    found = clusters(ROOT, endpoints=[behind(*mirror)])
    remote = {
        "services": [service("shop", "web", "10.3.0.1")],
        "endpoints": [behind(*source, name="web", space="shop")],
    }
    found["aws"] = parse_cluster("aws", remote, {})
    answer = Names(found).ask(parse_question("gcp/shop/pod", "aws/shop/web", 80), "gcp", "shop")
    assert (answer.faults[0][0] if answer.faults else "") == cause
    assert cause or [number for number, port in answer.backends] == [(4, 0x0A020007)]


def test_an_echo_goes_back_from_another_node_alone() -> None:
    found = clusters(ROOT)
    pod = found["gcp"].pods["shop", "pod"]
    found["gcp"] = found["gcp"]._replace(
        pods={("shop", "pod"): pod, ("shop", "two"): pod._replace(name="two", addresses=((4, 0x0A040008),))}
    )
    flows = Resolver(found, Names(found)).flows([parse_question("gcp/shop/pod", "gcp/shop/two")], 61000)
    assert [row["id"] for row in flows] == ["0"]


#: Pieces of which Corefiles are made, and what does not belong there.
WORDS = st.sampled_from(
    [
        "cluster.aws",
        "{",
        "}",
        ".",
        ".:53",
        "rewrite",
        "stop",
        "name",
        "regex",
        "kubernetes",
        "multicluster",
        "clusterset.local",
        "\n",
        "#",
        '"',
        "\\",
        "(x)",
        "import",
        ",",
        "cluster.aws,",
        "\x00",
        "\u212a",
        "{$HOME}",
        "$(id)",
        "dns://",
        "::",
    ]
)


@given(
    st.one_of(st.text(max_size=120), st.lists(WORDS, max_size=40).map(" ".join)),
    st.sampled_from([AWS, GCP, SET, "web"]),
)
def test_any_corefile_gives_an_answer(corefile: str, name: str) -> None:
    cause, asked = ask(corefile, name)
    assert cause in ("", "rewrite_missing", "name_unknown", "mirror_missing") and (asked or cause)
    if name == "web":
        assert cause == ""


# -- the server's own answer -------------------------------------------------------------------------------------------


def trace_of(name: str = AWS, **more: t.Any) -> dict[str, t.Any]:
    found = clusters("cluster.aws {\n" + REWRITE + KUBERNETES + "}\n" + ROOT, **more)
    resolver = Resolver(found, Names(found))
    flows = resolver.flows([parse_question("gcp/shop/pod", name, 80)], 61000)
    return {"id": "t", "flows": flows, "findings": [], "hosts": {"gcp-0": {"cluster": "gcp", "node": "n"}}}


def resolved(trace: t.Mapping[str, t.Any], facts: t.Any = None, **said: t.Any) -> dict[str, t.Any]:
    row = {
        "flow": "0",
        "server": "10.5.0.10",
        "outcome": "answered",
        "name": AWS,
        "addresses": [],
        "detail": "",
        **said,
    }
    return report.build(
        trace,
        {"gcp-0": {"armed": {"armed": True, "facts": facts or {"links": []}}, "sent": {"sent": [], "asked": [row]}}},
        {},
    )


def test_the_server_of_a_cluster_is_the_service_that_its_pods_have() -> None:
    ask_of = trace_of()["flows"][0]["ask"]
    assert ask_of["names"][-1] == AWS and (ask_of["servers"], ask_of["port"], ask_of["expected"]) == (
        ["10.5.0.10"],
        53,
        ["10.5.0.9"],
    )
    other = clusters(
        ROOT, services=[service("kube-system", "rke2-coredns", "10.5.0.53", "UDP", 5353, **{"k8s-app": "kube-dns"})]
    )["gcp"]
    assert (
        name_servers.server_of(other, "kube-system") == (((4, 0x0A050035),), 5353)
        and name_servers.server_of(other, "dns") is None
    )
    tcp = clusters(ROOT, services=[service("kube-system", "kube-dns", "10.5.0.53", "TCP", 53)])["gcp"]
    assert name_servers.server_of(tcp, "kube-system") is None


@pytest.mark.parametrize(
    ("said", "cause", "words"),
    [
        ({"addresses": ["10.5.0.9"]}, "", ""),
        ({"addresses": ["10.9.9.9", "10.5.0.9"]}, "", ""),
        ({"addresses": ["10.9.9.9"]}, "dns_differs", "answers 10.9.9.9"),
        ({"outcome": "no_name", "detail": "NXDOMAIN"}, "dns_differs", "answers NXDOMAIN"),
        ({"outcome": "no_address", "detail": "no address"}, "dns_differs", "no address"),
        ({"outcome": "failed", "detail": "SERVFAIL"}, "dns_fails", "SERVFAIL"),
        ({"outcome": "no_answer", "detail": "no answer"}, "dns_fails", "gave no answer"),
        ({"addresses": ["<b>", 7, None, "10.5.0.9.1"]}, "dns_differs", "answers answered"),
        ({"outcome": "failed", "detail": "\x1b[31m" + "x" * 999}, "dns_fails", "?[31mxx"),
    ],
)
def test_what_the_server_answers_is_held_against_the_objects(said: dict[str, t.Any], cause: str, words: str) -> None:
    built = resolved(trace_of(), **said)
    rows = [row for row in built["hops"] if row["command"].startswith("dig")]
    assert [row["verdict"] for row in rows] == ["differs" if cause else "ok"]
    found = [row for row in built["findings"] if row["cause"].startswith("dns_")]
    assert [row["cause"] for row in found] == ([cause] if cause else []) and len(built["findings"]) <= 1
    if cause:
        assert words in found[0]["message"] and found[0]["where"] == "gcp-0" and built["verdict"] == "does not arrive"
        assert found[0]["message"].isprintable() and built["agreement"]["agree"] == 0


def test_without_kube_proxy_the_servers_own_address_leads_nowhere() -> None:
    built = resolved(trace_of(), {"links": [], "kube_proxy": {"running": False}}, outcome="no_answer")
    assert [(row["cause"], row["confidence"]) for row in built["findings"]] == [("kube_proxy_off", "likely")]


def test_who_asks_another_server_is_not_asked_for() -> None:
    pod = {
        "metadata": {"namespace": "shop", "name": "pod"},
        "spec": {"nodeName": "n", "dnsPolicy": "Default"},
        "status": {"podIP": "10.4.0.7"},
    }
    assert "ask" not in trace_of(pods=[pod])["flows"][0]
    pod["spec"]["dnsPolicy"] = "ClusterFirst"
    assert "ask" in trace_of(pods=[pod])["flows"][0]
    pod["spec"].update(hostNetwork=True)
    assert "ask" not in trace_of(pods=[pod])["flows"][0]
    pod["spec"]["dnsPolicy"] = "ClusterFirstWithHostNet"
    assert "ask" in trace_of(pods=[pod])["flows"][0]


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=9)),
        lambda x: st.one_of(
            st.lists(x, max_size=3),
            st.dictionaries(
                st.sampled_from(["flow", "server", "outcome", "name", "addresses", "detail"]), x, max_size=6
            ),
        ),
        max_leaves=12,
    )
)
def test_any_answer_of_a_node_is_read(rows: t.Any) -> None:
    built = report.build(trace_of(), {"gcp-0": {"sent": {"asked": rows, "sent": rows}}}, {})
    assert built["verdict"] in ("does not arrive", "not explained", "arrives")
    assert all(row["message"].isprintable() for row in built["findings"])
