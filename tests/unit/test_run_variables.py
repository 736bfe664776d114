# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of variables knows every one that the collection uses, and nothing else."""

from __future__ import annotations

import ast
import pathlib
import re
import typing as t

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric import names as inventory_names
from ansible_collections.multicluster.network.plugins.plugin_utils.known_variables import (
    known_variables,
    role_options,
    run_variables,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
KNOWN, TABLE, ROLES = known_variables(), run_variables(), role_options()
ROWS = TABLE["variables"]
PREFIXES = KNOWN.prefixes
PLUGINS = (
    {path.stem for path in (ROOT / "plugins").glob("*/*.py")}
    | set(ROLES)
    | {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    | set(TABLE["former"]["playbooks"])
)
FOLDERS = ("", "awx/", "ccm/", "kilo/", "plays/", "slices/", "tenant/")
PLAYBOOKS = [path for folder in FOLDERS for path in sorted(ROOT.glob(f"playbooks/{folder}*.yml"))]
TEXTS = {
    path: path.read_text("utf-8")
    for pattern in (
        *(f"playbooks/{folder}*.yml" for folder in FOLDERS),
        "roles/*/tasks/*.yml",
        "roles/*/defaults/*.yml",
        "roles/*/vars/*.yml",
        "roles/*/handlers/*.yml",
        "roles/*/templates/*",
        "playbooks/files/awx/**/*.yml",
        "extensions/eda/**/*.yml",
    )
    for path in sorted(ROOT.glob(pattern))
}


#: Written on the command line of one playbook, which reports itself when it is not what it should be.
PLAIN = ("cluster",)


def without_comments(text: str) -> str:
    return re.sub(r"(?m)(^|\s)#.*$", "", text)


def words(text: str) -> set[str]:
    """Names as variables are written, not those in paths or dotted names."""
    found = re.findall(r"(?<![\w./-])[a-z]+_[a-z0-9_]+(?![\w/(-])", without_comments(text))
    return {name for name in found if name.startswith(PREFIXES) and name not in PLUGINS}


#: Words that are values or files, not variables.
VALUES = {
    "clustermesh_after",
    "coredns_rewrite_mcs",
    "load_balancers_after",
    "load_balancers_metallb",
    "load_balancers_moving",
    "mcs_crds",
    "mcs_read",
    "mesh_pods",
    "mesh_read",
    "network_sets_read",
    "service_mirror_read",
    "tenants_limit",
    "tenants_network",
    "tenants_source_leave",
    "verify_seconds",
}


@pytest.mark.parametrize("path", sorted(TEXTS), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_variable_that_is_used_is_known(path):
    unknown = words(TEXTS[path]) - KNOWN.names - VALUES
    assert not unknown, "add them to playbooks/vars/run_variables.yml or to the role's argument_specs.yml"


def strings_of(path: pathlib.Path) -> set[str]:
    return {
        node.value
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_filters_ask_the_inventory_for_what_is_known():
    for path in sorted(
        [*(ROOT / "plugins" / "filter").glob("*.py"), *(ROOT / "plugins" / "plugin_utils").glob("*.py")]
    ):
        asked = {
            text
            for text in strings_of(path)
            if re.fullmatch(r"[a-z][a-z0-9_]+", text) and text.startswith(PREFIXES) and text not in PLUGINS
        }
        assert asked <= KNOWN.names, path.name


def test_every_row_is_used():
    used = set().union(*map(words, TEXTS.values()))
    for folder in ("filter", "inventory", "action", "plugin_utils"):
        for path in (ROOT / "plugins" / folder).glob("*.py"):
            used |= strings_of(path)
    used |= strings_of(
        ROOT / "plugins" / "module_utils" / "_mesh" / "fabric" / "variables.py"
    )  # what fabric_definition takes of a cluster's host
    assert sorted({*ROWS, *TABLE["internal"]} - used) == []


def plays(path: pathlib.Path) -> t.Iterator[dict[str, t.Any]]:
    yield from (play for play in yaml.safe_load(path.read_text("utf-8")) if "hosts" in play)


def test_what_ansible_reads_before_it_knows_hosts_comes_from_the_command_line():
    before = set()
    for path in PLAYBOOKS:
        for play in plays(path):
            for key in ("hosts", "serial", "max_fail_percentage", "strategy", "remote_user", "environment"):
                before |= words(str(play.get(key, "")))
    roles = {"clustermesh_clusters_group", "tenants_clusters_group"}  # their roles read these in the inventory too
    assert before == {name for name, row in ROWS.items() if row.get("command_line")} | roles


def test_defaults_are_those_of_the_playbooks():
    """A row's default is what every `| default(...)` of a playbook has."""
    said: dict[str, set[str]] = {}
    for path, text in TEXTS.items():
        if path in PLAYBOOKS and path.name != "survey.yml":
            for name, value in re.findall(r"([a-z_]+) \| default\(('[^']*'|\[\]|\{\}|[\w.]+)\)", text):
                said.setdefault(name, set()).add(value.strip("'"))
    said["multicluster_nodes"].discard("all")  # alongside the clusters in one pattern
    shown = {name: str(ROWS[name].get("default")) for name in said if name in ROWS}
    assert {name: values for name, values in said.items() if name in shown} == {
        name: {text.replace("False", "false")} for name, text in shown.items()
    }


def test_what_the_role_has_of_a_variable_of_all_roles():
    """multicluster_lock, _fabric and others are in defaults of roles."""
    said: dict[str, set[str]] = {}
    for path, text in TEXTS.items():
        if path.parent.name == "defaults":
            for name, value in re.findall(r"(multicluster_[a-z_]+) \| default\(('[^']*'|\[\]|[\w.]+)\)", text):
                said.setdefault(name, set()).add(value.strip("'"))
    said["multicluster_fabric"].discard("multicluster")  # the name of accounts in a cluster, which are no fabric's
    said.pop(
        "multicluster_lock"
    )  # the reconciler's own default excludes the whole fabric, since it is not alone by design
    assert said and {name: {str(ROWS[name]["default"])} for name in said} == said


def test_capabilities_are_those_of_the_playbooks():
    asked = set()
    for text in TEXTS.values():
        asked.update(re.findall(r"'([a-z_]+)' in (?:multicluster_capabilities|__status_capabilities)", text))
        for names in re.findall(r"capability_among: \[([a-z_, ]+)\]", text):
            asked.update(re.findall(r"[a-z_]+", names))
    assert asked == set(KNOWN.choices["multicluster_capabilities"])


def tasks(value: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Every dictionary of a file of tasks or plays."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from tasks(inner)


def test_what_tasks_set_is_internal_or_known():
    for path, text in TEXTS.items():
        if path.parent.name == "tasks" or path in PLAYBOOKS:
            for task in tasks(yaml.safe_load(text)):
                names = {task["register"]} if isinstance(task.get("register"), str) else set()
                names |= set(task.get("ansible.builtin.set_fact") or ()) - {"cacheable"}
                assert all(name.startswith("__") or name in KNOWN.names for name in names), path


def test_every_row_is_complete():
    assert set(TABLE) == {"prefixes", "unowned", "former", "internal", "read_at", "variables"}
    roles = {name for options in ROLES.values() for name in options}
    for name, row in ROWS.items():
        assert name.startswith(PREFIXES) or name in PLAIN, "its prefix is missing in `prefixes`"
        assert set(row) <= {"description", "default", "of", "command_line", "choices", "type"} and row[
            "description"
        ].endswith("."), name
        assert row.get("type", "bool") in inventory_names._TYPES, name
        assert row.get("of", "run") in ("run", "node", "cluster"), name
        assert name not in roles, "an option of a role needs no row"
    assert not set(TABLE["unowned"]) & KNOWN.names and KNOWN.words_in <= KNOWN.names


def test_of_every_role_it_is_said_where_its_options_are_read():
    """Once for the fabric or at each host, and what runs once in a playbook is in no other list than that of the fabric."""
    read_at = TABLE["read_at"]
    listed = [role for roles in read_at["fabric"].values() for role in roles] + read_at["host"]["roles"]
    assert sorted(listed) == sorted(ROLES), "add the role to read_at"
    assert set(read_at["host"]["options"]) <= {name for options in ROLES.values() for name in options}


def test_names_of_kubespray_are_unknown():
    """All of kubespray's variables of CoreDNS: one of them begins like one of the collection."""
    kubespray = {
        "coredns_additional_configs",
        "coredns_additional_error_config",
        "coredns_affinity",
        "coredns_default_zone_cache_block",
        "coredns_deployment_nodeselector",
        "coredns_digest_checksum",
        "coredns_dual",
        "coredns_external_zones",
        "coredns_image_repo",
        "coredns_image_tag",
        "coredns_k8s_external_zone",
        "coredns_kubernetes_extra_domains",
        "coredns_kubernetes_extra_opts",
        "coredns_ordinal_suffix",
        "coredns_pod_disruption_budget",
        "coredns_pod_disruption_budget_max_unavailable",
        "coredns_replicas",
        "coredns_rewrite_block",
        "coredns_server",
        "coredns_server_by_mode",
        "coredns_supported_versions",
        "coredns_svc_name",
    }
    assert {name for name in kubespray if name.startswith(PREFIXES)} == set(
        TABLE["unowned"]
    ) and not kubespray & KNOWN.names


def test_the_guide_of_the_inventory_names_every_capability():
    text = (ROOT / "docs" / "docsite" / "rst" / "guide_inventory.rst").read_text("utf-8")
    entry = text.split("``multicluster_capabilities``\n", 1)[1].split("``multicluster_nodes``", 1)[0]
    assert set(re.findall(r"``([a-z_]+)``", entry)) >= set(KNOWN.choices["multicluster_capabilities"])


#: In guides: metrics, capabilities of cluster_access, modules' values, and what an example calls something of its own.
IN_GUIDES = VALUES | {"clustermesh_nodes", "mesh_guard", "status_page_url"}
IN_GUIDES |= {"multicluster_drift", "multicluster_nodes_not_asked", "multicluster_tunnels_left_out"}  # metrics
IN_GUIDES |= {
    "multicluster_exports",
    "multicluster_exports_valid",
    "multicluster_exports_in_conflict",
    "multicluster_imports",
}
IN_GUIDES |= {"multicluster_node_key_age_seconds"}
IN_GUIDES |= {"multicluster_next_failure_pairs", "multicluster_next_failure_services"}
IN_GUIDES |= {"multicluster_pool_addresses", "multicluster_pool_addresses_used", "multicluster_pool_addresses_free"}


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs" / "docsite" / "rst").glob("*.rst")), ROOT / "README.md"], ids=lambda page: page.name
)
def test_guides_name_variables_that_exist(page):
    said = {
        name
        for name in re.findall(r"(?<![\w/.-])[a-z]+_[a-z0-9_]+(?![\w/-])", page.read_text("utf-8"))
        if name.startswith(PREFIXES)
    }
    known = KNOWN.names | PLUGINS | IN_GUIDES
    unknown = {name for name in said if name not in known and not name.endswith("_")}
    assert not unknown, "nothing knows these variables"
