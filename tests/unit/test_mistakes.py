# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mistakes that people make in an inventory, each as a file: `validate` names the place, the user's variable, the cause and the fix."""

from __future__ import annotations

import json
import typing as t

import inventories
import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric import names as inventory_names
from ansible_collections.multicluster.network.plugins.plugin_utils import known_variables
from hypothesis import given, strategies as st
from mistakes_table import GOOD, MISTAKES, Mistake


def ids(mistake: Mistake) -> str:
    return mistake.name


def test_the_good_inventory_is_good(tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD})
    assert inventories.validate([tmp_path])[:2] == ([], [])


@pytest.mark.parametrize("mistake", MISTAKES, ids=ids)
def test_a_mistake_is_named_with_its_fix(mistake, tmp_path):
    assert mistake.old in GOOD, "the example changed"
    inventories.write(
        tmp_path,
        dict({"hosts.yml": GOOD.replace(mistake.old, mistake.new, 1) if mistake.old else GOOD}, **mistake.files),
    )
    errors, warnings, dummy = inventories.validate([tmp_path])
    if mistake.level == "error":
        said = [
            finding["message"]
            for finding in errors
            if (finding["where"], finding["variable"]) == (mistake.where, mistake.variable)
        ]
    else:
        begin = f"{mistake.where}: {mistake.variable}: "
        said = [text for text in warnings if text.startswith(begin)]
        assert errors == []
    assert any(all(text in message for text in mistake.expected) for message in said), (errors, warnings)


def test_a_secret_of_the_wrong_type_is_not_shown(tmp_path):
    files = {"hosts.yml": GOOD}
    files["group_vars/all.yml"] = "bgp_speaker_neighbors: [{address: 10.0.0.1, password: [tell-it-to-no-one]}]"
    inventories.write(tmp_path, files)
    errors, warnings, dummy = inventories.validate([tmp_path])
    assert [row["variable"] for row in errors if row["reason"] == "bad_type"] == ["bgp_speaker_neighbors"]
    assert "tell-it" not in json.dumps([errors, warnings])


@pytest.mark.parametrize("variable", sorted(known_variables.option_specs()))
def test_every_option_written_on_one_cluster_counts_or_is_refused(variable, tmp_path):
    """Every role option x written on one cluster's host (decision 64): each host reads it for itself, or `validate` refuses it."""
    spec = known_variables.option_specs()[variable]
    value = {"int": 3, "float": 3, "bool": True, "list": [], "dict": {}}.get(spec.get("type", "str"), "x")
    value = spec["choices"][-1] if spec.get("choices") else value
    inventories.write(tmp_path, {"hosts.yml": GOOD, "host_vars/gcp.yml": json.dumps({variable: value})})
    errors = [row for row in inventories.validate([tmp_path])[0] if row["variable"] == variable]
    assert bool(errors) == (variable in known_variables.read_once()), errors
    assert {row["reason"] for row in errors} <= {"differs_by_host"}


def test_settings_of_a_cluster_are_its_own(tmp_path):
    """What action plugins read from the cluster's own host."""
    files = {
        f"host_vars/{name}.yml": f"load_balancers_settings: {{load_balancer: 'empty://', pool: [{pool}]}}"
        for name, pool in (("aws", "203.0.113.0/30"), ("gcp", "203.0.113.8/30"))
    }
    inventories.write(tmp_path, dict({"hosts.yml": GOOD}, **files))
    assert inventories.validate([tmp_path])[:2] == ([], [])


def test_a_file_of_access_that_everyone_can_read_is_a_warning(tmp_path):
    access = tmp_path / "kubeconfig"
    access.write_text("{}")
    inventories.write(tmp_path / "inventory", {"hosts.yml": GOOD.replace("/k,", f"{access},", 1)})
    for mode, expected in ((0o644, ["clusters/aws: kubeconfig: every user of this machine can read"]), (0o600, [])):
        access.chmod(mode)
        warnings = [
            text[: len(expected[0])] if expected else text for text in inventories.validate([tmp_path / "inventory"])[1]
        ]
        assert warnings == expected


def test_the_table_has_no_mistake_twice():
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 30


@pytest.mark.parametrize("name", ["mesh_network", "tenants_db", "status_page_url", "control_plane_address_xyz"])
def test_a_name_that_is_near_to_none_of_the_collection_gets_no_suggestion(name, tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD, "group_vars/all.yml": f"{name}: 1\n"})
    (finding,) = inventories.validate([tmp_path])[0]
    assert (
        "no variable of this collection and has no effect" in finding["message"]
        and "did you mean" not in finding["message"]
    )
    assert f"multicluster_foreign_variables: ['{name}']" in finding["message"]


SHORT = st.text("ab_", max_size=6)


@given(SHORT, SHORT)
def test_a_slip_is_one_letter_too_many_missing_wrong_or_swapped(one, other):
    near = other in {one[:at] + one[at + 1 :] for at in range(len(one))} or one in {
        other[:at] + other[at + 1 :] for at in range(len(other))
    }
    near |= len(one) == len(other) and sum(left != right for left, right in zip(one, other)) == 1
    near |= any(one[:at] + one[at + 1] + one[at] + one[at + 2 :] == other for at in range(len(one) - 1))
    if one != other:
        assert inventory_names._one_slip(one, other) is near is (inventory_names._slips(one, other) == 1)


def test_a_fabric_without_a_name_is_refused(tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD})
    (finding,) = inventories.validate([tmp_path], fabric="")[0]
    assert (finding["where"], finding["reason"]) == (
        "fabric",
        "fabric_name_invalid",
    ) and "multicluster_fabric" in finding["message"]


# --- several inventories ----------------------------------------------------------------------------------------------

CLUSTERS = GOOD.split("aws_nodes:", maxsplit=1)[0]


def kubespray(cluster: str, hosts: t.Mapping[str, str]) -> dict[str, str]:
    """An inventory as kubespray's sample has it, with our one variable."""
    lines = "".join(f"{name} ansible_host={address}\n" for name, address in hosts.items())
    names = "\n".join(hosts)
    groups = f"[kube_control_plane]\n{names}\n[etcd]\n{names}\n[kube_node]\n{names}\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n"
    return {
        "inventory.ini": lines + groups,
        "group_vars/k8s_cluster/owned.yml": f"multicluster_cluster: {cluster}\n",
        "group_vars/k8s_cluster/k8s-cluster.yml": "kube_network_plugin: calico\ncoredns_k8s_external_zone: k8s_external.local\n",
    }


def two_kubesprays(folder, aws, gcp):
    inventories.write(folder, {"clusters.yml": CLUSTERS})
    inventories.write(folder / "aws", kubespray("aws", aws))
    inventories.write(folder / "gcp", kubespray("gcp", gcp))
    return [folder / "clusters.yml", folder / "aws" / "inventory.ini", folder / "gcp" / "inventory.ini"]


def test_the_last_of_two_inventories_takes_all_hosts(tmp_path):
    sources = two_kubesprays(tmp_path, {"a1": "10.66.23.31", "a2": "10.66.23.32"}, {"g1": "10.22.22.27"})
    errors, warnings, dummy = inventories.validate(sources)
    (finding,) = errors
    assert (finding["where"], finding["variable"], finding["reason"]) == (
        "group k8s_cluster",
        "multicluster_cluster",
        "cluster_overruled",
    )
    for text in (
        "aws/inventory.ini sets cluster 'aws' for a1, a2",
        "gcp/inventory.ini sets 'gcp' for group k8s_cluster",
        "aws_nodes",
        "inventory_dir",
    ):
        assert text in finding["message"]


def test_the_fix_that_is_named_works(tmp_path):
    sources = two_kubesprays(tmp_path, {"a1": "10.66.23.31"}, {"g1": "10.22.22.27"})
    for cluster in ("aws", "gcp"):
        inventories.write(
            tmp_path / cluster,
            {"group_vars/k8s_cluster/owned.yml": 'multicluster_cluster: "{{ inventory_dir | basename }}"\n'},
        )
    errors, warnings, mesh = inventories.validate(sources)
    assert (errors, warnings) == ([], [])
    assert {host: node["cluster"] for host, node in mesh["nodes"].items()} == {"a1": "aws", "g1": "gcp"}


def test_a_host_that_two_inventories_claim(tmp_path):
    sources = two_kubesprays(tmp_path, {"node1": "10.66.23.31"}, {"node1": "10.22.22.27"})
    errors, warnings, dummy = inventories.validate(sources)
    (finding,) = [row for row in errors if row["reason"] == "claimed_twice"]
    assert finding["where"] == "nodes/node1"
    for text in (
        "aws/inventory.ini (cluster aws, 10.66.23.31)",
        "gcp/inventory.ini (cluster gcp, 10.22.22.27)",
        "different names",
    ):
        assert text in finding["message"]


@pytest.mark.parametrize("where", ["all", "clusters"])
def test_capabilities_for_all_or_for_the_clusters_are_right(where, tmp_path):
    inventories.write(
        tmp_path,
        {
            "hosts.yml": GOOD,
            f"group_vars/{where}.yml": "multicluster_capabilities: [service_mirror, coredns_rewrite]\n",
        },
    )
    assert inventories.validate([tmp_path])[:2] == ([], [])


def test_variables_of_runs_are_no_mistakes_of_clusters(tmp_path):
    text = "multicluster_clusters_group: clusters\nmulticluster_lock: fabric\nmulticluster_fabric: demo\n"
    inventories.write(tmp_path, {"hosts.yml": GOOD, "group_vars/all.yml": text})
    assert inventories.validate([tmp_path])[:2] == ([], [])


def test_an_overlay_that_names_hosts_again_is_no_mistake(tmp_path):
    inventories.write(
        tmp_path, {"base/hosts.yml": GOOD, "overlay/hosts.yml": "canaries: {hosts: {aws-1: {}, gcp-1: {}}}"}
    )
    assert inventories.validate([tmp_path / "base", tmp_path / "overlay"])[:2] == ([], [])


def test_an_inventory_with_a_password_shows_nothing_of_itself(tmp_path):
    vault = "$ANSIBLE_VAULT;1.1;AES256\n3333\n"
    inventories.write(tmp_path, {"base/hosts.yml": GOOD, "more/hosts.ini": "[spare]\nx1\n"})
    inventories.write(tmp_path, {"more/group_vars/spare.yml": vault})
    from ansible.parsing.dataloader import DataLoader
    from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_sources import read_sources

    found = read_sources([str(tmp_path / "base"), str(tmp_path / "more")], DataLoader())
    assert found[str(tmp_path / "base")]["aws-1"].cluster == "aws"
    assert found[str(tmp_path / "more")]["x1"] == (None, "", None, ())


# --- what is no mistake -----------------------------------------------------------------------------------------------

UNOWNED = """\
coredns_k8s_external_zone: k8s_external.local
coredns_kubernetes_extra_opts: ""
coredns_external_zones: []
coredns_ordinal_suffix: ""
coredns_server: 10.0.0.1
coredns_rewrite_block: ""
coredns_dual: true
metallb_enabled: true
kube_network_plugin: calico
meshed: true
meshes: [x]
tenant_name: x
multi_cluster: true
preflights: 3
node_exporter_version: 1
load_balancer_address: 10.0.0.1
loadbalancer_apiserver: {address: 10.0.0.1}
msh_adpot: true
service_mesh_create_namespace: true
awx_job_id: 7
awx_user_name: admin
awx_inventory_name: x
awx_project_revision: abc
awx_workflow_job_id: 3
tower_job_id: 7
"""


def test_variables_of_others_are_left_alone(tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD, "group_vars/all.yml": UNOWNED})
    assert inventories.validate([tmp_path])[:2] == ([], [])


@pytest.mark.parametrize("pattern", ["status_page_url", "status_page_*"])
def test_a_variable_that_only_looks_known_can_be_declared_so(pattern, tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD, "group_vars/all.yml": "status_page_url: x\n"})
    (finding,) = inventories.validate([tmp_path])[0]
    assert "multicluster_foreign_variables: ['status_page_url']" in finding["message"]
    inventories.write(
        tmp_path, {"group_vars/all.yml": f"status_page_url: x\nmulticluster_foreign_variables: ['{pattern}']\n"}
    )
    assert inventories.validate([tmp_path])[:2] == ([], [])


def test_what_the_command_line_gives_has_an_effect(tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD})
    assert inventories.validate([tmp_path], {"multicluster_serial": 1, "multicluster_nodes": "aws_nodes"})[:2] == (
        [],
        [],
    )
    (finding,) = inventories.validate([tmp_path], {"multicluster_serail": 1})[0]
    assert (finding["where"], finding["variable"]) == ("command line", "multicluster_serail")


@pytest.mark.parametrize(
    "name, value",
    [
        ("multicluster_clusters_group", ""),
        ("multicluster_lock_wait", ""),
        ("multicluster_foreign_variables", ""),
        ("multicluster_lock_wait", "nan"),
        ("multicluster_foreign_variables", 0),
        ("verify_allow_unproven", ""),
        ("tenants_install_crds", []),
        ("multicluster_lock_wait", True),
        ("multicluster_clusters_group", ["clusters"]),
        ("multicluster_foreign_variables", {}),
        ("multicluster_lock_wait", "inf"),
    ],
)
def test_an_empty_or_strange_value_of_the_command_line_is_named(name, value, tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD})
    (finding,) = inventories.validate([tmp_path], {name: value})[0]
    assert (finding["where"], finding["variable"], finding["reason"]) == (
        "command line",
        name,
        "bad_type",
    ) and "or leave it out" in finding["message"]


def test_values_that_are_right_are_no_mistakes(tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD})
    for given_ in (
        {"multicluster_lock_wait": "0"},
        {"multicluster_lock_wait": 1.5},
        {"multicluster_foreign_variables": []},
        {"verify_allow_unproven": "Yes"},
        {"multicluster_foreign_variables": "status_page_*"},
        {"multicluster_clusters_group": "clusters"},
        {"verify_allow_unproven": False},
    ):
        assert inventories.validate([tmp_path], given_)[:2] == ([], []), given_


def test_a_name_is_said_once_for_a_thousand_hosts(tmp_path):
    hosts = ", ".join(f"n{number}: {{}}" for number in range(1000))
    variables = {"group_vars/all.yml": "mesh_adpot: true\n", "group_vars/aws_nodes.yml": "mesh_timout: 1\n"}
    inventories.write(tmp_path, dict(variables, **{"hosts.yml": GOOD.replace("aws-1: {}, aws-2: {}", hosts)}))
    errors = inventories.validate([tmp_path])[0]
    assert [(row["where"], row["variable"]) for row in errors] == [
        ("all hosts", "mesh_adpot"),
        ("group aws_nodes", "mesh_timout"),
    ]


def test_hostile_names_are_shown_safely_and_bounded(tmp_path):
    names = [f"mesh_\x1b[31m{number}" for number in range(300)] + ["mesh_" + "x" * 900]
    inventories.write(tmp_path, {"hosts.yml": GOOD, "group_vars/all.json": json.dumps(dict.fromkeys(names, 1))})
    errors = inventories.validate([tmp_path])[0]
    assert len(errors) == 101 and sum("more of this kind" in row["message"] for row in errors) == 1
    assert not any("\x1b" in row["message"] for row in errors) and max(len(row["message"]) for row in errors) < 1000
