# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tasks do not give comes from the inventory: plays of the collection's own roles, by ansible-playbook."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tarfile

import pytest
from ansible_collections.multicluster.network.plugins.action import load_balancers

PLUGINS = str(pathlib.Path(__file__).resolve().parents[2] / "action_plugins")
INVENTORY = {
    "clusters": {
        "hosts": {
            "aws": {"kubeconfig": "/nowhere/aws", "pod_cidrs": ["10.2.0.0/16"], "token": "hunter2-of-aws"},
            "gcp": {
                "kubeconfig": "/nowhere/gcp",
                "pod_cidrs": ["10.4.0.0/16"],
                "load_balancers_settings": {"load_balancer": "empty://"},
            },
        }
    },
    "aws_nodes": {"hosts": {"aws-1": {}}, "vars": {"multicluster_cluster": "aws", "vpn_password": "correct-horse"}},
    "gcp_nodes": {"hosts": {"gcp-1": {"node_name": "n1"}}, "vars": {"multicluster_cluster": "gcp"}},
    "all": {"vars": {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}},
}


def role(name, tasks_from="main", **variables):
    return {
        "name": name,
        "ansible.builtin.include_role": {"name": "multicluster.network." + name, "tasks_from": tasks_from},
        "vars": variables,
    }


def run(folder, tasks, *arguments, hosts="all:!clusters", inventory=None):
    """(code, what was printed) of a play with these tasks."""
    (folder / "hosts.yml").write_text(json.dumps(inventory or INVENTORY), "utf-8")
    (folder / "book.yml").write_text(json.dumps([{"hosts": hosts, "gather_facts": False, "tasks": tasks}]), "utf-8")
    environment = dict(
        os.environ, ANSIBLE_HOME=str(folder / "ansible"), ANSIBLE_NOCOLOR="1", ANSIBLE_ACTION_PLUGINS=PLUGINS
    )
    command = ["ansible-playbook", "-i", str(folder / "hosts.yml"), str(folder / "book.yml"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def kept(path, name):
    """A task that writes a result of the run to a file."""
    return {"name": "show", "run_results": {"show": name, "path": str(path)}, "run_once": True}


def before(of_host=False, **results):
    """A task that keeps results, as the tasks of a run before it would."""
    return {
        "name": "keep",
        "run_results": {"keep": {f"run.{name}": value for name, value in results.items()}, "of_host": of_host},
        "when": "multicluster_cluster is defined",
    }


@pytest.mark.parametrize(
    "name, tasks_from, written, value, meant",
    [
        ("mesh", "plan", "multicluster_mesh", "kubspan", "semaphore, kubespan; did you mean kubespan?"),
        ("mesh", "validate", "multicluster_mesh", "semaphor", "semaphore, kubespan; did you mean semaphore?"),
        ("mesh", "plan", "mesh_mode", "kubspan", "semaphore, kubespan; did you mean kubespan?"),
        ("run_lock", "main", "multicluster_lock", "fabrik", "controller, fabric, none; did you mean fabric?"),
        ("run_lock", "main", "node_pods", "during_run", "always, during_runs; did you mean during_runs?"),
        ("run_lock", "main", "run_lock_scope", "fabrik", "controller, fabric, none; did you mean fabric?"),
    ],
)
def test_a_wrong_choice_is_reported_by_the_name_of_the_variable_that_was_written(
    tmp_path, name, tasks_from, written, value, meant
):
    where = (
        INVENTORY
        if name == "run_lock"
        else dict(INVENTORY, all={"vars": dict(INVENTORY["all"]["vars"], **{written: value})})
    )
    arguments = ["-e", f"{written}={value}"] if name == "run_lock" else []
    code, shown = run(tmp_path, [role(name, tasks_from)], *arguments, inventory=where)
    assert code == 2 and f"{written}: '{value}' is none of {meant} [bad_choice]" in shown.replace('"', "'").replace(
        "\\'", "'"
    ), shown


def test_the_fabric_is_that_of_the_inventory_whatever_the_limit(tmp_path):
    code, shown = run(
        tmp_path, [role("mesh", "validate"), kept(tmp_path / "found.json", "run.mesh_plan.valid")], "--limit", "aws-1"
    )
    assert code == 0, shown
    mesh = json.loads((tmp_path / "found.json").read_text("utf-8"))["mesh"]
    assert {host: (node["cluster"], node["node_name"]) for host, node in mesh["nodes"].items()} == {
        "aws-1": ("aws", "aws-1"),
        "gcp-1": ("gcp", "n1"),
    }


def test_validate_looks_at_names_and_a_plan_does_not(tmp_path):
    misspelt = dict(INVENTORY, all={"vars": dict(INVENTORY["all"]["vars"], mesh_adpot=True)})
    code, shown = run(tmp_path, [role("mesh", "validate")], inventory=misspelt)
    assert code == 2 and "did you mean mesh_adopt?" in shown
    code, shown = run(
        tmp_path, [role("mesh", "plan"), kept(tmp_path / "found.json", "run.mesh_plan")], inventory=misspelt
    )
    assert code == 0 and "mesh_adopt" not in shown, shown
    failed = json.loads((tmp_path / "found.json").read_text("utf-8"))["mesh"]["failures"]
    assert [row["cluster"] for row in failed] == [
        "aws",
        "gcp",
    ]  # each was asked by the access that its host's variables give


def test_preflight_names_who_has_no_announcer_and_which_nodes_did_not_respond(tmp_path):
    tasks = [role("preflight", preflight_fail_on_errors=False), kept(tmp_path / "found.json", "run.fabric_preflight")]
    code, shown = run(tmp_path, tasks, hosts="all")
    assert code == 0, shown
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    said = {
        where: " ".join(row["message"] for row in found["findings"] if row["where"] == where)
        for where in ("aws", "gcp", "aws-1", "gcp-1")
    }
    assert (
        all(said.values()) and "load_balancers_settings" in said["gcp"] and "load_balancers_settings" not in said["aws"]
    ), found["findings"]


def test_status_knows_all_hosts_and_what_a_limit_left_out(tmp_path):
    tasks = [
        before(True, node_info={"node": {"devices": []}}),
        role("status", status_fail_on_findings=False, status_page="", status_document="", status_metrics=""),
        kept(tmp_path / "found.json", "run.fabric_status"),
    ]
    code, shown = run(tmp_path, tasks, "--limit", "aws-1")
    assert code == 0, shown
    scope = json.loads((tmp_path / "found.json").read_text("utf-8"))["scope"]
    assert (scope["limit"], scope["nodes"], scope["judged"], scope["not_asked"]["nodes"]) == ("aws-1", 2, 1, ["gcp-1"])


def test_a_bundle_has_no_secret_of_any_host(tmp_path):
    node = {"node": {"log": "the first is correct-horse, the other hunter2-of-aws, mine is tell-nobody"}}
    tasks = [
        before(True, node_info=node),
        role(
            "support_bundle",
            support_bundle_path=str(tmp_path / "bundle.tar.gz"),
            support_bundle_secrets=["tell-nobody"],
        ),
    ]
    code, shown = run(tmp_path, tasks, hosts="all")
    assert code == 0, shown
    with tarfile.open(tmp_path / "bundle.tar.gz") as archive:
        texts = {
            member.name: archive.extractfile(member).read().decode("utf-8")
            for member in archive.getmembers()
            if member.isfile()
        }
    assert any("the first is" in text for text in texts.values()) and any(
        "10.4.0.0/16" in text for text in texts.values()
    )
    assert not [
        name
        for name, text in texts.items()
        if any(secret in text for secret in ("correct-horse", "hunter2-of-aws", "tell-nobody"))
    ]


def test_what_the_plan_before_and_its_nodes_refused_is_kept_until_the_end(tmp_path):
    row = {"object": "gcp/x", "reason": "weak_key", "message": "its key is weak"}
    plan = {"mesh": {"refused": [row], "nodes": {}, "clusters": {}}, "contested": ["aws/aws-1"]}
    again = {"name": "again", "multicluster.network.mesh_plan": {"fabric": "default", "again": True}, "run_once": True}
    code, shown = run(
        tmp_path,
        [
            before(mesh_plan=plan),
            before(True, node_dataplane={"refused": [row], "public_keys": {"aws": "k"}}),
            again,
            role("mesh", "plan"),
            kept(tmp_path / "found.json", "run.mesh_plan"),
            role("capability", "outcome", capability_asked=["mesh"]),
        ],
    )
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert found["refused_before"] == ["refused: gcp/x: its key is weak [weak_key] (refused by aws-1, gcp-1)"], shown
    assert code == 2 and "mesh, cluster gcp: " in shown  # neither cluster answers


def planned(**keys):
    """Tasks that keep what a plan and the nodes' role would: which keys are published, and which the hosts have."""
    nodes = {
        host: {
            "cluster": cluster,
            "node_name": name,
            "publishable": True,
            "annotations": {"x.wireguard.semaphore.uw.io/pubKey": None},
            "stale": [],
            "published": {"x.wireguard.semaphore.uw.io/pubKey": "old"},
        }
        for host, cluster, name in (("aws-1", "aws", "aws-1"), ("gcp-1", "gcp", "n1"))
    }
    pools = {
        name: [{"apiVersion": "crd.projectcalico.org/v1", "kind": "IPPool", "metadata": {"name": "p"}}]
        for name in ("aws", "gcp")
    }
    mesh = {
        "nodes": nodes,
        "failures": [],
        "annotation_patterns": [],
        "ip_pools": pools if keys.pop("pools", False) else {},
    }
    named = {name.replace("_", "-"): key for name, key in keys.items()}
    node = before(True, node_dataplane={"public_keys": {"x": "{{ keys[inventory_hostname] }}"}})
    return [before(mesh_plan={"mesh": mesh}), dict(node, vars={"keys": named})]


def test_only_what_differs_is_published_and_only_where_it_does(tmp_path):
    keep = kept(tmp_path / "found.json", "run.node_annotations")
    code, shown = run(tmp_path, [*planned(aws_1="old", gcp_1="old"), role("mesh", "publish"), keep])
    assert code == 0 and json.loads((tmp_path / "found.json").read_text("utf-8"))["skipped"] is True, shown
    code, shown = run(tmp_path, [*planned(aws_1="old", gcp_1="new"), role("mesh", "publish"), keep])
    assert [row["cluster"] for row in json.loads((tmp_path / "found.json").read_text("utf-8"))["failures"]] == [
        "gcp"
    ], shown
    code, shown = run(tmp_path, [*planned(aws_1="new", gcp_1="new"), role("mesh", "publish"), keep], "--limit", "aws-1")
    assert [row["cluster"] for row in json.loads((tmp_path / "found.json").read_text("utf-8"))["failures"]] == [
        "aws"
    ], shown


def test_nodes_that_leave_take_what_is_theirs_and_the_last_one_its_clusters_pools(tmp_path):
    inventory = dict(INVENTORY, more={"hosts": {"aws-2": {"multicluster_cluster": "aws"}}})
    tasks = [*planned(aws_1="old", gcp_1="old", pools=True), role("mesh", "withdraw")]
    code, shown = run(tmp_path, tasks, "--limit", "gcp-1", inventory=inventory)
    assert code == 2 and "cluster gcp: " in shown and "cluster aws: " not in shown and "Withdraw Calico" in shown, shown


def test_the_mesh_of_kilo_is_that_of_the_inventorys_clusters(tmp_path):
    hosts = INVENTORY["clusters"]["hosts"]
    clusters = {
        name: dict(row, wireguard_cidrs=[f"100.70.{number}.0/24"]) for number, (name, row) in enumerate(hosts.items())
    }
    inventory = dict(INVENTORY, clusters={"hosts": clusters})
    for entry in ("main", "info"):
        code, shown = run(tmp_path, [role("clustermesh", entry)], hosts="clusters", inventory=inventory)
        assert code == 2 and "cluster aws: cannot " in shown and "No such file" in shown, shown
    clusters["aws"]["wireguard_cidrs"] = ["100.70.0.0/24", "100.72.0.0/24"]
    code, shown = run(tmp_path, [role("clustermesh")], hosts="clusters", inventory=inventory)
    assert code == 2 and "aws has several wireguard_cidrs; give clustermesh_allowed_networks" in shown, shown


def test_accounts_and_secrets_are_made_by_the_module(tmp_path):
    remotes = [{"name": "us", "kubeconfig": "/nowhere/us"}]
    settings = {
        "clustermesh_secrets_remotes": remotes,
        "clustermesh_secrets_management": [{"name": "eu", "kubeconfig": "/nowhere/eu"}],
    }
    code, shown = run(tmp_path, [role("clustermesh_secrets", **settings)], hosts="localhost")
    assert code == 2 and "cluster us: cannot " in shown, shown
    task = {
        "name": "secret",
        "multicluster.network.cluster_objects": {
            "fabric": "t",
            "clusters": remotes,
            "kubeconfig_secrets": {"clusters": ["us"], "path": str(tmp_path / "{cluster}"), "namespace": "n"},
        },
    }
    code, shown = run(tmp_path, [task], hosts="localhost")
    assert code == 2 and "kubeconfig_missing" in shown and str(tmp_path / "us") in shown, shown
    (tmp_path / "us").write_text("text", "utf-8")
    code, shown = run(tmp_path, [task], "-vvv", hosts="localhost")
    assert code == 2 and "cluster us: cannot " in shown, shown


def test_clusters_and_what_they_are_granted_need_not_be_written(tmp_path):
    """Each is asked by the access that its host's variables give."""
    names = ("service_mirror", "network_sets", "coredns_rewrite", "load_balancers", "ccm_info")
    tasks = [
        {
            "name": name,
            "multicluster.network." + name: {"fabric": "t"},
            "delegate_to": "localhost",
            "ignore_errors": True,
        }
        for name in names
    ]
    code, shown = run(tmp_path, tasks, hosts="localhost")
    assert code == 0 and shown.count("...ignoring") == len(names), shown
    assert shown.count("Module failed: cluster aws: cannot use the access") + shown.count(
        '"msg": "cluster aws: cannot use the access'
    ) >= len(names)
    assert (
        shown.count("kubeconfig /nowhere/gcp cannot be read") >= len(names)
        and "Traceback" not in shown
        and "hunter2" not in shown
    )


def test_settings_may_leave_to_the_task_what_happens_to_orphans(tmp_path):
    """The task's option counts for clusters without one, and the role hands its variable on."""
    seen = []
    settings = {"a": {}, "b": {"gc_orphans": False}}
    hostvars = {
        name: {"load_balancers_settings": dict({"load_balancer": "empty://"}, **more)}
        for name, more in settings.items()
    }
    for given in ({"gc_orphans": True}, {"gc_orphans": "no"}, {}):
        options = dict(given)
        action = load_balancers.ActionModule.__new__(load_balancers.ActionModule)
        action.hostvars, action.groups, action.clusters_group, action.only = (
            hostvars,
            {"clusters": ["a", "b"]},
            "clusters",
            None,
        )
        assert action.fill(options, {}) is None and set(options) == {"settings"} and action.only is None
        seen.append([row.get("gc_orphans") for row in options["settings"]])
    assert seen == [[True, False], [False, False], [None, False]]


@pytest.mark.parametrize("name", ["ccm_nodes", "control_plane_address"])
def test_one_cluster_is_that_of_the_host(tmp_path, name):
    code, shown = run(tmp_path, [role(name)], hosts="clusters")
    assert (
        code == 0
        and "skipping: [aws]" in shown
        and ("ok: [gcp ->" if name == "control_plane_address" else "skipping: [gcp]") in shown
    ), shown
    clusters = {host: dict(given) for host, given in INVENTORY["clusters"]["hosts"].items()}
    clusters["gcp"]["load_balancers_settings"] = {"provider": "equinix_metal", "pol": 1}
    code, shown = run(tmp_path, [role(name)], hosts="clusters", inventory=dict(INVENTORY, clusters={"hosts": clusters}))
    assert code == 2 and "skipping: [aws]" in shown and "/nowhere/aws" not in shown and "did you mean pool?" in shown, (
        shown
    )


def test_definitions_go_to_the_cluster_that_is_named(tmp_path):
    code, shown = run(tmp_path, [role("tenants_crds", tenants_crds_source="gcp")], hosts="localhost")
    assert code == 2 and "cluster gcp: cannot use the access" in shown and "/nowhere/aws" not in shown, shown
    code, shown = run(tmp_path, [role("tenants_crds", tenants_crds_apinet="gpc")], hosts="localhost")
    assert code == 2 and "gpc" in shown and "unknown_cluster" in shown, shown


@pytest.mark.parametrize("module", ["mesh_plan", "service_mirror", "service_imports", "network_sets"])
@pytest.mark.parametrize("inventory", [None, "n1,"], ids=["none", "nodes alone"])
def test_without_a_cluster_the_group_that_lacks_them_is_named(module, inventory, tmp_path):
    """A bare KeyError, or an ok of a module that had nothing to look at."""
    command = [
        "ansible",
        "localhost" if inventory is None else "n1",
        "-c",
        "local",
        "-m",
        "multicluster.network." + module,
        "-a",
        "fabric=default",
    ]
    environment = dict(
        os.environ, ANSIBLE_HOME=str(tmp_path / "home"), ANSIBLE_NOCOLOR="1", ANSIBLE_LOCALHOST_WARNING="0"
    )
    done = subprocess.run(
        [*command, *(["-i", inventory] if inventory else [])],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    said = done.stdout + done.stderr
    assert (
        done.returncode == 2 and "add a host for each of them to the group clusters" in said and "KeyError" not in said
    ), said
