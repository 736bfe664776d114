# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The owned section in a Corefile on a real API server."""

from __future__ import annotations

import contextlib
import pathlib

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import coredns
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.clusters import Clusters
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import NotFound
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_multicluster import RIGHTS
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
corp.example:53 { # owned since 2019
    forward . 192.0.2.53
}"""


@pytest.fixture
def config(server):
    """The ConfigMap; returns how to read the Corefile."""
    client = server.client()
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "coredns"},
        "data": {"Corefile": COREFILE, "other": "x"},
    }
    client.create(MAPS, body, "kubeadm")
    yield lambda: client.get(MAPS + "/coredns")["data"]["Corefile"]
    client.delete(MAPS + "/coredns")
    client.delete(MAPS + "/coredns-custom")


def run(server, check=False, **more):
    request = {
        "fabric": "t",
        "clusters": [server.access("gcp")],
        "members": ["aws", "gcp"],
        "mirror_namespace": "sys-semaphore",
        "namespace": "kube-system",
        "name": "coredns",
        "key": "Corefile",
        "timeout": 20,
    }
    return coredns.run(dict(request, **more), check=check)


def test_the_section_comes_changes_and_goes(server, config):
    mark = server.mark()
    planned = run(server, check=True)
    assert (
        planned["plan"]["update"] == 1 and "- cluster.aws {" in planned["diff"]["after"] and server.writes(mark) == []
    )
    assert run(server)["changed"] and server.writes(mark) == [("patch", MAPS + "/coredns", 200)]
    merged = config()
    assert merged.startswith("# BEGIN multicluster.network/t\n") and merged.endswith(
        "# END multicluster.network/t\n" + COREFILE
    )
    assert "cluster.aws {" in merged and "cluster.gcp {" in merged
    mark = server.mark()
    again = run(server)
    assert (
        not again["changed"]
        and again["plan"]["unchanged"] == 1
        and server.audit(mark) == [("get", MAPS + "/coredns", 200)]
    )

    # the user edits his part, and a cluster joins: both stay
    client = server.client()
    client.merge_patch(
        MAPS + "/coredns", {"data": {"Corefile": config().replace("lameduck 5s", "lameduck 9s")}}, "kubectl"
    )
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
    for text, reason in (
        (COREFILE + "\nCLUSTER.AWS:53 {\n    whoami\n}\n", "not_ours"),
        (COREFILE + "\n}\n", "corefile_broken"),
        (COREFILE[:-1], "corefile_broken"),
        ("# BEGIN multicluster.network/t\n" + COREFILE, "corefile_broken"),
        ('. {\n    errors "\n}\n', "corefile_broken"),
    ):
        client.merge_patch(MAPS + "/coredns", {"data": {"Corefile": text}}, "kubectl")
        mark = server.mark()
        assert refused(run(server)) == [(ident, reason)] and config() == text and server.writes(mark) == []
    client.merge_patch(MAPS + "/coredns", {"data": {"Corefile": None}}, "kubectl")
    assert refused(run(server)) == [(ident, "not_found")]


def test_our_zones_listen_where_the_root_does_and_a_missing_reload_is_reported(server, config):
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


def test_a_chosen_file_gets_what_the_root_has(server, config):
    text = (
        ".:1053 {\n    forward . 192.0.2.53 {\n        max_concurrent 7\n    }\n    reload\n}\nimport custom/*.server\n"
    )
    server.client().merge_patch(MAPS + "/coredns", {"data": {"Corefile": text}}, "kubectl")
    assert run(server, name="coredns-custom", key="mine.server")["plan"]["create"] == 1
    made = server.client().get(MAPS + "/coredns-custom")["data"]["mine.server"]
    assert "cluster.aws:1053 {" in made and "forward . 192.0.2.53 {" in made and "max_concurrent 7" in made


WILD = yaml.safe_load((pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "corefiles.yml").read_text())
AUTO = {"name": None, "key": None}


@pytest.mark.parametrize(
    "kind, metadata, owner",
    [
        (
            "k3s",
            {
                "annotations": {
                    "objectset.rio.cattle.io/id": "",
                    "objectset.rio.cattle.io/owner-gvk": "k3s.cattle.io/v1, Kind=Addon",
                }
            },
            "k3s",
        ),
        ("AKS", {"labels": {"addonmanager.kubernetes.io/mode": "Reconcile"}}, "the add-on manager"),
    ],
)
def test_where_a_program_keeps_the_corefile(server, config, kind, metadata, owner):
    """k3s and AKS write their Corefile back and import files of their users, which they leave alone."""
    client, text = server.client(), WILD[kind]["corefile"]
    client.merge_patch(MAPS + "/coredns", {"data": {"Corefile": text}}, "k")
    assert run(server, **AUTO)["plan"]["update"] == 1 and "cluster.aws" in config()  # nobody keeps it: as everywhere
    client.merge_patch(MAPS + "/coredns", {"metadata": metadata}, "k")
    said = run(server, check=True)
    assert any(owner in one and "coredns-custom" in one for one in said["warnings"]) and not said["changed"]
    mark = server.mark()
    moved = run(server, **AUTO)
    assert moved["warnings"] == [] and moved["failures"] == [] and config() == text
    assert server.writes(mark) == [("patch", MAPS + "/coredns", 200), ("create", MAPS, 201)]
    made = client.get(MAPS + "/coredns-custom")["data"]
    assert list(made) == ["multicluster.server"] and "forward . /etc/resolv.conf" in made["multicluster.server"]
    mark = server.mark()
    assert not run(server, **AUTO)["changed"] and server.writes(mark) == []
    assert (
        run(server, **AUTO, state="absent")["changed"]
        and config() == text
        and not client.get(MAPS + "/coredns-custom").get("data")
    )
    assert not run(server, **AUTO, state="absent")["changed"]


def test_who_writes_the_corefile_back_is_named(server, config):
    client = server.client()
    client.merge_patch(
        MAPS + "/coredns", {"metadata": {"annotations": {"meta.helm.sh/release-name": "rke2-coredns"}}}, "k"
    )
    result = run(server, **AUTO)
    assert result["changed"] and any(
        "Helm" in one and "'rke2-coredns'" in one and "loses our section" in one for one in result["warnings"]
    )
    assert "cluster.aws" in config()


def test_each_cluster_has_its_own_place(server, config):
    custom = {"gcp": {"name": "coredns-custom", "key": "mine.server", "cluster_domain": "c.example"}}
    run(server, **AUTO, places=custom)
    made = server.client().get(MAPS + "/coredns-custom")["data"]["mine.server"]
    assert "kubernetes c.example " in made and config() == COREFILE


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


@pytest.mark.parametrize(
    "more,reason",
    [
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
    ],
)
def test_names_that_could_break_out(more, reason):
    with pytest.raises(ValueError) as raised:
        coredns.run(
            dict(
                {
                    "fabric": "t",
                    "clusters": [{"name": "gcp", "api_url": "https://127.0.0.1:1", "token": "x"}],
                    "key": "Corefile",
                    "mirror_namespace": "m",
                    "namespace": "kube-system",
                    "name": "coredns",
                    "timeout": 1,
                },
                **more,
            )
        )
    if reason is not None:
        assert isinstance(raised.value, ValueRefused) and raised.value.reason == reason


DEPLOYMENTS = "/apis/apps/v1/namespaces/kube-system/deployments"
RBAC = "/apis/rbac.authorization.k8s.io/v1/"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ZONE = {"clusterset_domain": "clusterset.local"}


def definition():
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "serviceimports", "singular": "serviceimport", "kind": "ServiceImport"}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    notes = {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1748"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "serviceimports.multicluster.x-k8s.io", "annotations": notes},
        "spec": {"group": "multicluster.x-k8s.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.fixture
def imports(server):
    """ServiceImports are served, as CoreDNS asks for them."""
    client = server.client()
    client.create(CRDS, definition(), "tests")
    while not server.client().serves("multicluster.x-k8s.io/v1alpha1", "ServiceImport"):
        pass
    yield
    client.delete(CRDS + "/serviceimports.multicluster.x-k8s.io")
    while server.client().serves("multicluster.x-k8s.io/v1alpha1", "ServiceImport"):
        pass


@pytest.fixture
def running(server):
    """Deploys CoreDNS of an image, as kubeadm does."""
    client = server.client()

    def deploy(image, account="coredns"):
        client.delete(DEPLOYMENTS + "/coredns")
        pod = {"serviceAccountName": account, "containers": [{"name": "coredns", "image": image}]}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
        spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        client.create(
            DEPLOYMENTS,
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "coredns"}, "spec": spec},
            "tests",
        )

    deploy("registry.k8s.io/coredns/coredns:v1.12.2")
    yield deploy
    client.delete(DEPLOYMENTS + "/coredns")
    for kind in ("clusterrolebindings/", "clusterroles/"):
        client.delete(RBAC + kind + RIGHTS)


def rights(server):
    """What CoreDNS's account got: its rules and who it is."""
    client = server.client()
    with contextlib.suppress(NotFound):
        return client.get(RBAC + "clusterroles/" + RIGHTS)["rules"], client.get(RBAC + "clusterrolebindings/" + RIGHTS)[
            "subjects"
        ]
    return None


def test_names_of_imports_come_with_their_rights_and_go(server, config, imports, running):
    mark = server.mark()
    planned = run(server, check=True, **ZONE)
    assert (planned["plan"]["create"], planned["plan"]["update"]) == (2, 1) and server.writes(mark) == []
    mark = server.mark()
    result = run(server, **ZONE)
    assert result["changed"] and not result["refused"] and not result["failures"]
    # the rights are there before CoreDNS needs them
    written = [path for dummy, path, dummy in server.writes(mark)]
    assert written == [RBAC + "clusterroles/" + RIGHTS, RBAC + "clusterrolebindings/" + RIGHTS, MAPS + "/coredns"]
    assert (
        "    kubernetes clusterset.local {\n        noendpoints\n        multicluster clusterset.local\n    }\n"
        in config()
    )
    assert config().endswith(COREFILE)
    rule = {"apiGroups": ["multicluster.x-k8s.io"], "resources": ["serviceimports"], "verbs": ["list", "watch"]}
    assert rights(server) == ([rule], [{"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}])
    mark = server.mark()
    again = run(server, **ZONE)
    assert (
        not again["changed"]
        and again["plan"]["unchanged"] == 1
        and server.writes(mark) == []
        and len(server.audit(mark)) == 5
    )

    # without the domain the zone goes, then its rights; the rest of the section stays
    mark = server.mark()
    assert run(server, check=True)["plan"]["delete"] == 2 and server.writes(mark) == []
    plan = run(server)["plan"]
    assert (plan["create"], plan["update"], plan["delete"]) == (0, 1, 2)
    assert "clusterset" not in config() and "cluster.aws {" in config() and rights(server) is None
    written = [path for dummy, path, dummy in server.writes(mark)]
    assert written == [MAPS + "/coredns", RBAC + "clusterrolebindings/" + RIGHTS, RBAC + "clusterroles/" + RIGHTS]
    assert run(server, **ZONE)["changed"] and run(server, state="absent", **ZONE)["plan"]["delete"] == 2
    assert config() == COREFILE and rights(server) is None
    mark = server.mark()
    assert not run(server, state="absent", **ZONE)["changed"] and server.writes(mark) == []


def refused_zone(result):
    return [(row["object"], row["reason"]) for row in result["refused"] if row["object"] == "zone gcp/clusterset.local"]


def test_a_coredns_that_cannot_is_refused_and_the_other_names_stay(server, config, imports, running):
    for image, reason, said in (
        ("registry.k8s.io/coredns/coredns:v1.11.3", "coredns_too_old", "CoreDNS 1.11.3"),
        ("registry.example.org/dns@sha256:" + "a" * 64, "coredns_version_unknown", "coredns_rewrite_version"),
    ):
        running(image)
        result = run(server, **ZONE)
        assert [row[1] for row in refused_zone(result)] == [reason] and said in result["refused"][0]["message"]
        assert "cluster.aws {" in config() and "clusterset" not in config() and rights(server) is None
    assert not run(server, version="1.12.2", **ZONE)["refused"] and "multicluster clusterset.local" in config()
    # an image that no longer names a version takes nothing away; one that is too old would not start with it
    assert not run(server, **ZONE)["changed"]
    running("registry.k8s.io/coredns/coredns:v1.9.4")
    assert run(server, **ZONE)["changed"] and "clusterset" not in config()


def test_without_service_imports_coredns_would_never_be_ready(server, config, running):
    result = run(server, **ZONE)
    assert (
        [row[1] for row in refused_zone(result)] == ["kind_not_served"]
        and "clusterset" not in config()
        and rights(server) is None
    )
    # the same run brings them (mcs_install_crds): nothing to refuse in check mode, and no promise to rely on otherwise
    planned = run(server, check=True, definitions_planned=True, **ZONE)
    assert not planned["refused"] and "clusterset.local" in str(planned["diff"])
    assert [row[1] for row in refused_zone(run(server, definitions_planned=True, **ZONE))] == ["kind_not_served"]


def test_definitions_that_come_later_are_seen_by_a_process_that_stays(server, config, running):
    request = {
        "fabric": "t",
        "clusters": [server.access("gcp")],
        "members": ["aws", "gcp"],
        "mirror_namespace": "sys-semaphore",
        "namespace": "kube-system",
        "name": "coredns",
        "key": "Corefile",
        "timeout": 20,
        **ZONE,
    }
    clients = {"gcp": server.client()}
    assert [row[1] for row in refused_zone(coredns.run(request, clusters=Clusters.of(clients)))] == ["kind_not_served"]
    server.client().create(CRDS, definition(), "tests")
    try:
        while not server.client().serves("multicluster.x-k8s.io/v1alpha1", "ServiceImport"):
            pass
        assert (
            not coredns.run(request, clusters=Clusters.of(clients))["refused"]
            and "multicluster clusterset.local" in config()
        )
    finally:
        server.client().delete(CRDS + "/serviceimports.multicluster.x-k8s.io")
        while server.client().serves("multicluster.x-k8s.io/v1alpha1", "ServiceImport"):
            pass


def test_a_deployment_of_another_name_and_account(server, config, imports, running):
    assert [row[1] for row in refused_zone(run(server, deployment="rke2-coredns", **ZONE))] == [
        "coredns_version_unknown"
    ]
    running("rancher/hardened-coredns:v1.12.2-build20250611", account="rke2-coredns")
    assert run(server, **ZONE)["changed"]
    assert rights(server)[1] == [{"kind": "ServiceAccount", "name": "rke2-coredns", "namespace": "kube-system"}]
    running("coredns:1.13.1")
    assert run(server, **ZONE)["plan"]["update"] == 1 and rights(server)[1][0]["name"] == "coredns"


def test_what_somebody_else_wrote_stays(server, config, imports, running):
    client = server.client()
    theirs = COREFILE.replace("kubernetes cluster.local", "kubernetes cluster.local clusterset.local").replace(
        "ttl 30", "multicluster clusterset.local"
    )
    client.merge_patch(MAPS + "/coredns", {"data": {"Corefile": theirs}}, "kubectl")
    result = run(server, **ZONE)
    assert not result["refused"] and "multicluster clusterset.local" in " ".join(result["warnings"])
    assert config().endswith(theirs) and config().count("multicluster clusterset.local") == 1 and rights(server) is None
    theirs = COREFILE + "\nclusterset.local {\n    whoami\n}\n"
    client.merge_patch(MAPS + "/coredns", {"data": {"Corefile": theirs}}, "kubectl")
    result = run(server, **ZONE)
    assert (
        [row[1] for row in refused_zone(result)] == ["not_ours"]
        and config().endswith(theirs)
        and "cluster.aws {" in config()
    )

    # a role of the name with another owner: neither taken over nor relied on, nor taken away
    client.merge_patch(MAPS + "/coredns", {"data": {"Corefile": COREFILE}}, "kubectl")
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": RIGHTS},
        "rules": [],
    }
    client.create(RBAC + "clusterroles", role, "kubectl")
    result = run(server, **ZONE)
    assert (
        refused(result) == [("ClusterRole gcp/" + RIGHTS, "not_ours")]
        and "clusterset" not in config()
        and "cluster.aws {" in config()
    )
    result = run(server, state="absent", **ZONE)
    assert (
        result["changed"]
        and not result["refused"]
        and config() == COREFILE
        and not client.get(RBAC + "clusterroles/" + RIGHTS).get("rules")
    )


def test_an_account_of_the_capability_suffices(server, config, imports, running, tmp_path):
    admin = server.access("gcp")
    made = {"fabric": "t", "clusters": [admin], "objects": access_manifests(["coredns_rewrite", "coredns_rewrite_mcs"])}
    assert not cluster_objects.run(made)["failures"]
    try:
        accounts = {}
        for capability in ("coredns-rewrite", "coredns-rewrite-mcs"):
            path = str(tmp_path / capability)
            request = {
                "fabric": "t",
                "clusters": [admin],
                "service_account": "multicluster-" + capability,
                "namespace": "kube-system",
                "path": path,
                "expires": 3600,
                "renew_before": 60,
                "state": "present",
            }
            assert not cluster_token.run(request)["failures"]
            accounts[capability] = [{"name": "gcp", "kubeconfig": path}]
        result = run(server, clusters=accounts["coredns-rewrite"], **ZONE)
        assert [row[1] for row in refused_zone(result)] == ["forbidden"] and "coredns_rewrite_mcs" in result["refused"][
            0
        ]["message"]
        assert "cluster.aws {" in config() and not result["failures"]
        result = run(server, clusters=accounts["coredns-rewrite-mcs"], **ZONE)
        assert result["changed"] and not result["failures"] and not result["refused"] and rights(server)
        # with the smaller account again: nothing that it may not see is taken for gone
        assert not run(server, clusters=accounts["coredns-rewrite"], **ZONE)["changed"]
        assert (
            run(server, clusters=accounts["coredns-rewrite-mcs"], state="absent", **ZONE)["plan"]["delete"] == 2
            and rights(server) is None
        )
    finally:
        cluster_objects.run(dict(made, state="absent"))
