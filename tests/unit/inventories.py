# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inventories as Ansible itself reads them, for tests of what `validate` reports, without a play around it."""

from __future__ import annotations

import pathlib
import typing as t

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import mesh_plan
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import cluster_access, fabric_definition
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_findings import inventory_findings


def read(
    sources: t.Sequence[pathlib.Path], command_line: t.Mapping[str, t.Any] | None = None
) -> tuple[t.Any, dict[str, list[str]]]:
    """(hostvars, groups) of the inventories, as the filters get them."""
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(source) for source in sources])
    variables = VariableManager(loader=loader, inventory=inventory)
    variables._extra_vars = dict(command_line or {})
    variables._options_vars = {"ansible_inventory_sources": [str(source) for source in sources]}  # as with -i
    return HostVars(inventory, variables, loader), inventory.get_groups_dict()


def write(folder: pathlib.Path, files: t.Mapping[str, str]) -> None:
    """Files by path below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def validate(
    sources: t.Sequence[pathlib.Path], command_line: t.Mapping[str, t.Any] | None = None, fabric: str = "test"
) -> tuple[list[dict[str, t.Any]], list[str], dict[str, t.Any]]:
    """(errors, warnings, mesh) of the playbook `validate`; mesh is empty where there are errors."""
    hostvars, groups = read(sources, command_line)
    definition = dict(fabric_definition(hostvars, groups), findings=inventory_findings(hostvars, groups))
    try:
        result = mesh_plan.run(
            {
                "fabric": fabric,
                "clusters": cluster_access(hostvars, groups),
                "definition": definition,
                "validate_only": True,
            }
        )
    except mesh_plan.InventoryRefused as refused:
        return refused.findings, [], {}
    return [], result["warnings"], result["mesh"]
