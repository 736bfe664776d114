# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs over slices of the hosts, as AWX cuts them: all plan the same, and one that does not changes nothing and reports where it differs."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
from ansible_collections.multicluster.network.plugins.action import run_job_output
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import mesh_plan
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import slices
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kubespan import plan_kubespan_mesh
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.semaphore import plan_semaphore_mesh
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import to_wire
from ansible_collections.multicluster.network.plugins.module_utils._values import packed
from ansible_collections.multicluster.network.plugins.plugin_utils import job_output

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "doubles" / "awx"))

from slices import effective_artifacts, sliced  # pylint: disable=wrong-import-position,import-self

KEYS = [
    f"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA{letter}="
    for letter in ("E", "I", "M", "Q", "U", "Y", "c", "g", "k", "o")
]


def definition(count=2):
    clusters, nodes = {}, {}
    for number in range(count):
        name = f"c{number}"
        clusters[name] = {
            "pod_cidrs": [f"10.{number + 1}.0.0/16"],
            "node_cidrs": [f"10.66.{number}.0/24"],
            "wireguard_port": 51820 + number,
            "kubeconfig": "/nowhere/" + name,
        }
        nodes.update((f"{name}-{host}", {"multicluster_cluster": name, "node_name": f"n{host}"}) for host in range(3))
    return {"clusters": clusters, "nodes": nodes}


def listings(given, keys=()):
    """Node objects of every cluster; keys: {(cluster, node): public key} that are published."""
    found = {}
    for number, name in enumerate(given["clusters"]):
        rows = []
        for host in range(3):
            annotations = {}
            if (name, host) in keys:
                for other in given["clusters"]:
                    if other != name:
                        annotations[f"{other}.wireguard.semaphore.uw.io/pubKey"] = keys[name, host]
                        annotations[f"{other}.wireguard.semaphore.uw.io/endpoint"] = f"10.66.{number}.{host + 1}:1"
            rows.append(
                {
                    "metadata": {"name": f"n{host}", "annotations": annotations},
                    "spec": {"podCIDRs": [f"10.{number + 1}.{host}.0/24"]},
                    "status": {"addresses": [{"type": "InternalIP", "address": f"10.66.{number}.{host + 1}"}]},
                }
            )
        found[name] = {"nodes": rows}
    return found


def planned(given, read, reported=None, mode="semaphore"):
    fabric, wrong = load_fabric(dict(given, name="f"))
    assert not wrong, wrong
    made = (
        plan_kubespan_mesh(fabric, read, "an id", reported).to_json()
        if mode == "kubespan"
        else plan_semaphore_mesh(fabric, read, reported).to_json()
    )
    return json.loads(json.dumps(to_wire(made)))


def test_the_digest_shows_which_variable_or_node_differs():
    given = definition()
    agreed = slices.agreement(MeshPlan.from_json(planned(given, listings(given))), given)
    secret = json.loads(json.dumps(given))
    for cluster in secret["clusters"].values():
        cluster.update(token="T0KEN", kubeconfig={"users": "K3Y"}, client_key="K3Y")
    kept = slices.without_access(secret)
    assert slices.agreement(MeshPlan.from_json(planned(given, listings(given))), kept) == agreed
    assert "T0KEN" not in json.dumps(kept) and "K3Y" not in json.dumps(kept)
    assert (
        slices.differences(agreed["digest"], slices.digests(MeshPlan.from_json(planned(given, listings(given))), given))
        == []
    )
    other = copy.deepcopy(given)
    other["clusters"]["c1"]["wireguard_mtu"] = 1300
    found = slices.differences(
        agreed["digest"], slices.digests(MeshPlan.from_json(planned(other, listings(other))), other)
    )
    assert found[0] == "variable wireguard_mtu of cluster c1" and "devices of cluster c0 towards c1" in found
    moved = listings(given)
    moved["c1"]["nodes"][2]["status"]["addresses"][0]["address"] = "10.66.1.99"
    assert slices.differences(agreed["digest"], slices.digests(MeshPlan.from_json(planned(given, moved)), given)) == [
        "node c1/n2"
    ]
    gone = listings(given)
    gone["c0"] = {"error": {"reason": "unreachable", "message": "no answer"}}
    assert "devices of cluster c1 towards c0" in slices.differences(
        agreed["digest"], slices.digests(MeshPlan.from_json(planned(given, gone)), given)
    )


def test_how_a_machine_reaches_a_cluster_is_no_difference():
    given = definition()
    other = copy.deepcopy(given)
    other["clusters"]["c0"].update(kubeconfig="/elsewhere", context="k")
    assert slices.digests(MeshPlan.from_json(planned(given, listings(given))), given) == slices.digests(
        MeshPlan.from_json(planned(other, listings(other))), other
    )


@pytest.mark.parametrize("mode", ["semaphore", "kubespan"])
def test_any_change_of_a_listing_that_changes_the_plan_is_named(mode):
    generator = random.Random(3)
    given = definition(3)
    first = planned(given, listings(given), None, mode)
    agreed = slices.digests(MeshPlan.from_json(first), given)
    changed = 0
    for dummy in range(80):
        read = listings(given, {("c0", 0): KEYS[0], ("c2", 1): KEYS[1]} if generator.random() < 0.5 else {})
        row = generator.choice(read[generator.choice(sorted(read))]["nodes"])
        row.update(
            generator.choice(
                [
                    {"spec": {"podCIDRs": ["10.1.77.0/24"]}},
                    {"status": {"addresses": []}},
                    {"spec": {}},
                    {},
                    {
                        "metadata": {
                            "name": row["metadata"]["name"],
                            "annotations": {"c9.wireguard.semaphore.uw.io/pubKey": KEYS[2]},
                        }
                    },
                ]
            )
        )
        mesh = planned(given, read, None, mode)
        parts = [
            {key: value for key, value in one.items() if key not in ("refused", "failures")} for one in (first, mesh)
        ]
        differs = slices.differences(agreed, slices.digests(MeshPlan.from_json(mesh), given))
        assert bool(differs) == (parts[0] != parts[1]), differs
        changed += bool(differs)
    assert changed > 10


def test_only_clusters_with_nodes_that_get_something_new_have_news():
    given = definition(3)
    keys = {("c0", host): KEYS[host] for host in range(3)}
    before, after = planned(given, listings(given)), planned(given, listings(given, keys))
    assert slices.news(MeshPlan.from_json(before), MeshPlan.from_json(before)) == [] and slices.news(
        MeshPlan.from_json(before), MeshPlan.from_json(after)
    ) == ["c1", "c2"]


def results(hosts, **more):
    return {
        host: dict({"public_keys": {"c1" if host.startswith("c0") else "c0": KEYS[number]}}, **more)
        for number, host in enumerate(hosts)
    }


def test_what_hosts_of_all_slices_said_comes_together_and_what_is_published_is_not_said_again():
    given = definition()
    mesh = planned(given, listings(given))
    hosts = sorted(mesh["nodes"])
    found = results(hosts)
    plan = {"run.mesh_plan": {"mesh": mesh, "contested": []}}
    parts = []
    for part in (hosts[0::2], hosts[1::2]):
        hostvars = {host: {**plan, "run.node_dataplane": found[host]} for host in part}
        parts.append(run_job_output.stage_output("converge", "", hostvars, part))
    variables = effective_artifacts(*parts)
    assert len(variables) == 2 and all(name.startswith("__multicluster_workflow_reported_") for name in variables)
    assert {host: said["public_keys"] for host, said in job_output.reported(variables).items()} == {
        host: row["public_keys"] for host, row in found.items()
    }
    assert sorted(job_output.results(variables, {host: {} for host in hosts}, hosts[:2])) == hosts[:2]
    for node in mesh["nodes"].values():
        node["published"] = dict(node["annotations"])
    for host, row in found.items():
        for remote, key in row["public_keys"].items():
            mesh["nodes"][host]["published"][f"{remote}.wireguard.semaphore.uw.io/pubKey"] = key
    (name,) = run_job_output.stage_output(
        "converge", "", {host: {**plan, "run.node_dataplane": found[host]} for host in hosts}, hosts
    )
    assert name not in variables and run_job_output.unpublished(MeshPlan.from_json(mesh), found) == {}
    assert (
        slices.reported(
            MeshPlan.from_json(mesh), found, run_job_output.unpublished(MeshPlan.from_json(mesh), found), ()
        )
        == {}
    )
    assert sorted(slices.reported(MeshPlan.from_json(mesh), found, {}, ["c0/n1"])) == ["c0-1"]


def test_a_wrong_text_of_another_job_is_refused():
    with pytest.raises(ValueError):
        job_output.reported({"__multicluster_workflow_reported_x": "nonsense"})


# --- by ansible-playbook -----------------------------------------------------------------------------------------


def tree(more=()):
    given = definition()
    everything = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "multicluster_fabric_clusters": given["clusters"],
    }
    found = {"all": {"vars": dict(everything, **dict(more))}, "clusters": {"hosts": {"c0": {}, "c1": {}}}}
    for name in given["clusters"]:
        hosts = {
            host: {"node_name": row["node_name"]}
            for host, row in given["nodes"].items()
            if row["multicluster_cluster"] == name
        }
        found[name + "_nodes"] = {"hosts": hosts, "vars": {"multicluster_cluster": name}}
    return found


def play(folder, name, inventory, *arguments, lock="none"):
    (folder / "hosts.json").write_text(json.dumps(inventory), "utf-8")
    environment = dict(
        os.environ,
        ANSIBLE_HOME=str(folder / "ansible"),
        ANSIBLE_NOCOLOR="1",
        JOB_ID="7",
        AWX_HOST="https://awx.example.com",
    )
    command = [
        "ansible-playbook",
        "-i",
        str(folder / "hosts.json"),
        "multicluster.network." + name,
        "-e",
        "multicluster_lock=" + lock,
        *arguments,
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


def test_slices_plan_the_whole_fabric_and_stop_where_theirs_is_another(tmp_path):
    whole, agreed = tree(), tmp_path / "plan.json"
    code, shown = play(
        tmp_path, "slices.plan", whole, "-e", "awx_workflow_job_id=12", "-e", f"multicluster_workflow_file={agreed}"
    )
    assert code == 2 and "2 failed in c0, c1" in shown, shown  # neither cluster answers
    variables = json.loads(agreed.read_text("utf-8"))
    assert variables["multicluster_workflow"] == "https://awx.example.com 12" and agreed.stat().st_mode & 0o777 == 0o600
    assert sorted(packed.unpack(variables[job_output.PLAN])["nodes"]) == sorted(definition()["nodes"])
    for number in (1, 2):
        code, shown = play(
            tmp_path,
            "slices.converge",
            sliced(whole, number, 2),
            "-e",
            f"@{agreed}",
            "--check",
            "--tags",
            "mesh",
            "-e",
            json.dumps({job_output.NEWS: ["nobody"]}),
        )
        assert (
            "plan_differs" not in shown and "Export the result of the slice" in shown and "represents" not in shown
        ), shown
    code, shown = play(
        tmp_path, "slices.converge", sliced(tree({"multicluster_fabric": "other"}), 1, 2), "-e", f"@{agreed}", "--check"
    )
    assert code == 2 and "plan_differs" in shown and "what differs: mode" in shown, shown
    other = sliced(whole, 2, 2)
    other["all"]["vars"]["multicluster_fabric_clusters"]["c1"]["wireguard_mtu"] = 1300
    code, shown = play(tmp_path, "slices.converge", other, "-e", f"@{agreed}", "--check")
    assert code == 2 and "what differs: variable wireguard_mtu of cluster c1" in shown, shown
    stranger = sliced(tree(), 1, 2)
    stranger["c0_nodes"]["hosts"]["late"] = {}
    code, shown = play(tmp_path, "slices.converge", stranger, "-e", f"@{agreed}", "--check")
    assert code == 2 and "knows nothing of late" in shown and "plan_differs" in shown, shown


def test_the_second_round_ends_at_once_where_nothing_is_new(tmp_path):
    code, shown = play(
        tmp_path,
        "slices.converge",
        sliced(tree(), 1, 2),
        "-e",
        json.dumps({job_output.NEWS: [], job_output.PLAN: "unread"}),
    )
    assert code == 0 and "TASK [multicluster.network.mesh" not in shown, shown


@pytest.mark.parametrize("proven", [True, False])
def test_the_last_job_is_red_where_nothing_was_proven(tmp_path, proven):
    arguments = ["-e", json.dumps({job_output.PROVEN: True})] if proven else []
    for named in ("awx_workflow_job_id=12", "multicluster_workflow=mine"):
        code, shown = play(tmp_path, "slices.end", tree(), "-e", named, *arguments)
        assert code == (0 if proven else 2), shown
    code, shown = play(tmp_path, "slices.end", tree(), *arguments)
    assert code == 2 and "the same text of its own as multicluster_workflow" in shown, shown


def test_a_slice_that_was_given_no_plan_reports_what_runs_first(tmp_path):
    code, shown = play(tmp_path, "slices.converge", sliced(tree(), 1, 2), "-e", "multicluster_workflow=mine")
    assert code == 2 and "slices.plan runs first" in shown and "Converge keys" not in shown, shown


def test_the_whole_fabric_is_known_to_nobody_without_its_clusters():
    """Why the variable is needed: a slice without a host of a cluster has no definition of it."""
    with pytest.raises(mesh_plan.InventoryRefused):
        mesh_plan.validate(
            {"fabric": "f", "definition": dict(definition(), clusters={"c0": definition()["clusters"]["c0"]})}
        )
