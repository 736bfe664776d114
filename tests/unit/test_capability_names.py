# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One name for each capability, wherever people meet it; and whoever writes a former one gets the present one."""

from __future__ import annotations

import os
import pathlib
import subprocess

import inventories
import pytest
import yaml
from ansible_collections.multicluster.network.plugins.plugin_utils.known_variables import (
    known_variables,
    role_options,
    run_variables,
)
from mistakes_table import GOOD

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE, KNOWN = run_variables(), known_variables()
FORMER = TABLE["former"]
#: Capabilities with modules of other names: there is one for each half of their work.
SEVERAL_MODULES = {"tenants": "apinet_sync", "clustermesh": "clustermesh_peers", "mcs": "service_imports"}


def read(*parts):
    return yaml.safe_load(ROOT.joinpath(*parts).read_text("utf-8"))


# --- one name -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLE["variables"]["multicluster_capabilities"]["choices"])
def test_a_capability_has_one_name(name):
    module = SEVERAL_MODULES.get(name, name)
    assert (ROOT / "plugins" / "modules" / (module + ".py")).is_file()
    assert any(option.startswith(name + "_") for option in role_options()[name]), "the role's variables"
    begin = (name + "_", "multicluster_")
    assert all(option.startswith(begin) for option in role_options()[name])
    assert read("playbooks", name + ".yml"), "the playbook"
    tags = [tag for play in read("playbooks", name + ".yml") for tag in play.get("tags", ())]
    assert set(tags) <= {name}
    guide = "guide_kilo" if name == "clustermesh" else "guide_" + name  # Kilo's guide is about the whole of Kilo's mesh
    assert (ROOT / "docs" / "docsite" / "rst" / (guide + ".rst")).is_file()
    assert guide in (ROOT / "docs" / "docsite" / "extra-docs.yml").read_text("utf-8")
    rows = read("roles", "capability", "vars", "main.yml")["__capability_roles"][name]
    assert str({"role": name, "tasks": "main"}).strip("{}") in str(rows), "what converges it"


@pytest.mark.parametrize("name", sorted({*FORMER["capabilities"].values(), "mcs"} - {"network_sets_read"}))
def test_its_surveys_in_awx_have_it_too(name):
    survey = read("playbooks", "files", "awx", "surveys", name + ".yml")
    prefixes = ("awx_" + name + "_", "awx_lock_")
    assert survey["spec"] and all(question["variable"].startswith(prefixes) for question in survey["spec"])
    assert (ROOT / "playbooks" / "awx" / f"{name}.yml").is_file()
    jobs = [job for job in read("playbooks", "files", "awx", "job_templates.yml") if job.get("survey") == name]
    assert len(jobs) == 2 and {job["playbook"] for job in jobs} == {f"playbooks/awx/{name}.yml"}
    assert {
        row["role"]
        for variable, row in read("playbooks", "files", "awx", "mapping.yml").items()
        if variable.startswith(prefixes[0])
    } == {name}


def test_what_follows_clusters_asks_for_playbooks_by_it():
    for row in read("roles", "reconciler", "defaults", "main.yml")["reconciler_watch"]:
        assert not set(row["playbooks"]) & set(FORMER["capabilities"])
        if "{" not in row.get("capability", ""):
            assert row.get("capability", row["playbooks"][0]) == row["playbooks"][0]


def test_nothing_is_called_as_it_was():
    for name in FORMER["capabilities"]:
        assert not (ROOT / "playbooks" / (name + ".yml")).exists() and not (ROOT / "roles" / name).exists()
    assert not [
        name
        for name in KNOWN.names
        if name.startswith(tuple(FORMER["prefixes"])) and not name.startswith(tuple(FORMER["prefixes"].values()))
    ]


# --- former names -------------------------------------------------------------------------------------------------------


def findings(tmp_path, files, command_line=None):
    inventories.write(tmp_path, dict({"hosts.yml": GOOD}, **files))
    errors, warnings, dummy = inventories.validate([tmp_path], command_line)
    return errors, warnings


@pytest.mark.parametrize("old, new", sorted(KNOWN.former.items()))
def test_a_variable_that_was_renamed_is_named(old, new, tmp_path):
    assert new in KNOWN.names and old not in KNOWN.names
    errors, warnings = findings(tmp_path, {"group_vars/all.yml": f"{old}: x\n"})
    if old in FORMER["shared"]:
        assert errors == [] and len(warnings) == 1 and old in warnings[0] and new in warnings[0]
        return
    (finding,) = errors
    assert (finding["where"], finding["variable"], finding["reason"]) == ("all hosts", old, "former_name")
    assert f"{old} is {new} now" in finding["message"]


@pytest.mark.parametrize(
    "old, new",
    [
        ("coredns_global_zone", "coredns_rewrite_global_zone"),
        ("policy_sync_sources", "network_sets_sources"),
        ("awx_policy_sources", "awx_network_sets_sources"),
        ("awx_services_namespace", "awx_service_mirror_namespace"),
        ("awx_dns_own_zone", "awx_coredns_rewrite_own_zone"),
        ("awx_addresses_max_deletes", "awx_load_balancers_max_deletes"),
    ],
)
def test_the_table_of_renamed_variables_has(old, new):
    assert KNOWN.former[old] == new


def test_a_shared_name_is_no_warning_alongside_the_new_one_or_where_it_is_declared(tmp_path):
    for more in ("coredns_rewrite_version: 1.11.1", "multicluster_foreign_variables: [coredns_version]"):
        assert findings(tmp_path, {"group_vars/all.yml": f"coredns_version: 1.11.1\n{more}\n"}) == ([], [])


@pytest.mark.parametrize("old, new", sorted(FORMER["capabilities"].items()))
@pytest.mark.parametrize(
    "variable, text",
    [
        ("multicluster_capabilities", "[{0}]"),
        ("status_capabilities", "[tenants, {0}]"),
        ("cluster_access_capability", "{0}"),
        ("reconciler_capabilities", "[{0}]"),
        ("multicluster_eda_capabilities", "[{0}]"),
        ("reconciler_playbook", "{0}"),
        ("playbook_timer_playbook", "{0}"),
        ("reconciler_watch", "[{{resource: services, playbooks: [mesh, {0}]}}]"),
        ("reconciler_watch", "[{{resource: nodes, playbooks: [mesh], capability: {0}}}]"),
    ],
)
def test_a_capability_or_playbook_that_was_renamed_is_named(old, new, variable, text, tmp_path):
    (finding,) = findings(tmp_path, {"group_vars/all.yml": f"{variable}: {text.format(old)}\n"})[0]
    assert (finding["where"], finding["variable"], finding["reason"]) == ("all hosts", variable, "former_name")
    assert f"{old} is {new} now" in finding["message"]


def test_words_that_only_look_so_are_left_alone(tmp_path):
    rows = "reconciler_watch: [{resource: services, selector: dns=policy, playbooks: [mesh]}]\nmulticluster_capabilities: [service_mirror]\n"
    assert findings(tmp_path, {"group_vars/all.yml": rows}) == ([], [])


def test_the_command_line_is_checked_too(tmp_path):
    (finding,) = findings(tmp_path, {}, {"coredns_state": "absent"})[0]
    assert (finding["where"], finding["reason"]) == ("command line", "former_name")


# --- playbooks that validate nothing ------------------------------------------------------------------------------------

PLAY = """
- name: Any playbook that writes
  hosts: localhost
  gather_facts: false
  tasks:
    - {name: lock, multicluster.network.run_lock: {fabric: former, scope: none}}
"""


def play(folder, book, *arguments, inventory="localhost,"):
    environment = dict(
        os.environ,
        ANSIBLE_LOCALHOST_WARNING="0",
        ANSIBLE_HOME=str(folder / "ansible"),
        ANSIBLE_NOCOLOR="1",
        ANSIBLE_DEPRECATION_WARNINGS="0",
    )
    command = ["ansible-playbook", "-i", inventory, "-c", "local", book, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    "text, said",
    [
        ("policy_sync_adopt: true", "policy_sync_adopt is network_sets_adopt now"),
        ("multicluster_capabilities: [mesh, dns]", "dns is coredns_rewrite now"),
        ("multicluster_capabilities: \"{{ ['loadbalancers'] }}\"", "loadbalancers is load_balancers now"),
        ("coredns_external_zones: []\ncoredns_version: 1.9.4\nservices: [dns]", ""),
        ("coredns_state: absent\nmulticluster_foreign_variables: [coredns_state]", ""),
    ],
)
def test_the_inventory_of_a_run_that_writes(text, said, tmp_path):
    inventories.write(
        tmp_path,
        {
            "play.yml": PLAY,
            "inventory/hosts.yml": "all: {hosts: {localhost: {}}}\n",
            "inventory/group_vars/all.yml": text + "\n",
        },
    )
    code, shown = play(tmp_path, str(tmp_path / "play.yml"), inventory=str(tmp_path / "inventory"))
    assert (code, said in shown, "former_name" in shown) == ((2, True, True) if said else (0, True, False)), shown


def test_the_command_line_of_a_run_that_writes(tmp_path):
    inventories.write(tmp_path, {"play.yml": PLAY})
    code, shown = play(
        tmp_path,
        str(tmp_path / "play.yml"),
        "-e",
        "policy_sync_state=absent",
        "-e",
        '{"multicluster_capabilities": ["dns"]}',
    )
    assert (
        code == 2
        and "command line: policy_sync_state is network_sets_state now" in shown
        and "dns is coredns_rewrite now" in shown
    ), shown
    assert "inventory: policy_sync_state" not in shown, "said once"


@pytest.mark.parametrize("book", ["status", "verify"])
def test_the_inventory_of_a_run_that_only_compares(book, tmp_path):
    inventories.write(tmp_path, {"hosts.yml": GOOD, "group_vars/clusters.yml": "policy_sync_target: calico\n"})
    code, shown = play(tmp_path, "multicluster.network." + book, inventory=str(tmp_path / "hosts.yml"))
    assert code != 0 and "policy_sync_target is network_sets_target now" in shown, shown


@pytest.mark.parametrize("tag, new", [("dns", "coredns_rewrite"), ("loadbalancers", "load_balancers")])
def test_a_former_tag_is_named_instead_of_doing_nothing(tag, new, tmp_path):
    own = "- {name: All of it, ansible.builtin.import_playbook: multicluster.network.site}\n"
    inventories.write(tmp_path, {"hosts.yml": GOOD, "own.yml": own})
    for book in ("multicluster.network.site", str(tmp_path / "own.yml")):
        code, shown = play(tmp_path, book, "--tags", tag, inventory=str(tmp_path / "hosts.yml"))
        assert code == 2 and f"--tags: {tag} is {new} now" in shown, shown


@pytest.mark.parametrize(
    "tag, stays",
    [
        ("ccm_nodes", "Probe the API servers and move the address"),
        ("control_plane_address", "Set provider ID, addresses"),
    ],
)
def test_each_part_of_adopt_has_a_tag_of_its_own(tag, stays, tmp_path):
    """As in the guide; leaving one out must not leave out the other."""
    code, shown = play(tmp_path, "multicluster.network.adopt", "--list-tasks")
    assert code == 0 and all(
        name in shown for name in ("Probe the API servers and move the address", "Set provider ID, addresses")
    )
    code, shown = play(tmp_path, "multicluster.network.adopt", "--list-tasks", "--skip-tags", tag)
    found = [
        name for name in ("Probe the API servers and move the address", "Set provider ID, addresses") if name in shown
    ]
    assert code == 0 and found == [stays], shown


def test_every_former_tag_is_one_of_site():
    tags = next(play["tags"] for play in read("playbooks", "site.yml") if "never" in play.get("tags", ()))
    assert set(tags) == {"never"} | set(FORMER["capabilities"]) - {
        "addresses",
        "policy_read",
    }  # these were never playbooks


def test_the_roles_that_run_playbooks_refuse_a_former_name(tmp_path):
    roles = [
        (
            "playbook_timer",
            {"playbook_timer_playbook": "policy", "playbook_timer_inventory": "/i"},
            "policy is network_sets now",
        ),
        (
            "reconciler",
            {"reconciler_inventory": "/i", "reconciler_watch": [{"resource": "pods", "playbooks": ["policy"]}]},
            "policy is network_sets now",
        ),
        (
            "reconciler",
            {"reconciler_inventory": "/i", "reconciler_capabilities": ["dns"]},
            "dns is coredns_rewrite now",
        ),
    ]
    for role, variables, said in roles:
        book = [
            {
                "hosts": "localhost",
                "gather_facts": False,
                "roles": [{"role": "multicluster.network." + role, "vars": variables}],
            }
        ]
        inventories.write(tmp_path, {"role.yml": yaml.safe_dump(book)})
        code, shown = play(tmp_path, str(tmp_path / "role.yml"), "--check")
        assert code == 2 and said in shown, shown


@pytest.mark.parametrize(
    "args, said",
    [
        ({"capabilities": ["loadbalancers"]}, "loadbalancers is load_balancers now"),
        ({"watch": [{"resource": "pods", "playbooks": ["policy"]}]}, "policy is network_sets now"),
        ({"watch": [{"resource": "pods", "playbooks": ["mesh"], "capability": "dns"}]}, "dns is coredns_rewrite now"),
    ],
)
def test_the_event_source_refuses_a_former_name(args, said):
    from plugins.module_utils._plan.test_runs import source_plugin

    with pytest.raises(ValueError, match=said):
        source_plugin().watched(args)
