# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of a rotation of keys: what each needs of the one before, and the order for the plans that follow."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import (
    FINISHED,
    GO_BACK,
    PREPARE,
    STATES,
    STEPS,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import rotation_checks
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.module_utils._status.node_rows import key_age
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, run_vars

Data = dict[str, t.Any]
BEGIN, END = "begin", "end"


class _Rotation(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: Data | None = None) -> Data:
        """The order, and at the beginning what the run does."""
        result, variables = super().run(tmp, task_vars), task_vars or {}
        unused, options = self.validate_argument_spec(
            {
                "step": {"type": "str", "choices": [BEGIN, *STEPS, END], "required": True},
                "state": {"type": "str", "choices": list(STATES), "default": FINISHED},
                "nodes": {"type": "list", "elements": "str", "default": []},
                "in_place": {"type": "bool", "default": False},
                "older_than": {"type": "str", "default": ""},
                "wait_seconds": {"type": "float", "default": 120.0},
                "drain_seconds": {"type": "float", "default": 50.0},
            }
        )
        hostvars = run_vars(self, variables)
        mesh = MeshPlan.from_json(collected.mesh(hostvars, variables["ansible_play_hosts_all"]))
        if not mesh.fabric:
            raise AnsibleActionFail("the mesh is not planned in this run")
        hosts = self._hosts(options["nodes"], mesh, variables)
        if options["older_than"]:
            hosts = self._due(options["older_than"], hosts, mesh, hostvars)
        step, state = options["step"], options["state"]
        if step == BEGIN:
            limited = set(map(str, variables["ansible_play_hosts_all"])) if variables.get("ansible_limit") else None
            problem = rotation_checks.refusal(mesh, hosts, limited, options["in_place"])
            if problem:
                raise AnsibleActionFail(problem)
            shown = rotation_checks.lines(mesh, hosts, state, options["in_place"])
            return dict(result, changed=False, order={}, state=state, msg=shown, _ansible_verbose_always=True)
        if step != PREPARE and not self._task.check_mode:
            self._judge(step, state, mesh, hostvars, variables)
        if step == END:
            return dict(result, changed=False, order={}, state=state)
        order = {"step": rotation_checks.order_of(step, mesh, state), "hosts": hosts}
        waits = {"timeout": options["wait_seconds"], "quiet_seconds": options["drain_seconds"]}
        return dict(result, changed=False, order=order, state=state, waits=waits)

    def _hosts(self, asked: t.Sequence[str], mesh: MeshPlan, variables: t.Mapping[str, t.Any]) -> list[str]:
        """The hosts that get new keys: groups are replaced by their hosts, a cluster by its nodes."""
        if not asked:
            return sorted(host for host, node in mesh.nodes.items() if node.publishable)
        groups, found = variables.get("groups") or {}, set[str]()
        for name in asked:
            of_cluster = [host for host, node in mesh.nodes.items() if node.cluster == name]
            found.update(of_cluster or groups.get(name) or [name])
        return sorted(map(str, found))

    def _due(self, age: str, hosts: list[str], mesh: MeshPlan, hostvars: t.Any) -> list[str]:
        """Those with a key that is older, of one cluster. Raises AnsibleActionFail."""
        infos = collected.of_hosts(hostvars, mesh.nodes, kept.NODE_INFO)
        ages = {host: key_age(info["node"]) for host, info in infos.items() if info.get("node")}
        try:
            return rotation_checks.due_hosts(mesh, hosts, ages, rotation_checks.parse_age(age))
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None

    def _judge(self, step: str, state: str, mesh: MeshPlan, hostvars: t.Any, variables: t.Mapping[str, t.Any]) -> None:
        """Raises AnsibleActionFail where the step before is not done everywhere."""
        everyone = [str(host) for host in variables["ansible_play_hosts_all"]]
        results = collected.of_hosts(hostvars, everyone, kept.NODE)
        published = hostvars.context.get(kept.ANNOTATIONS) or {}
        there = {str(host) for host in variables["ansible_play_hosts"]}
        problem = rotation_checks.unfinished(mesh, there, results, published, state)
        if step == GO_BACK and state == FINISHED:
            problem = problem or rotation_checks.unchanged(mesh, results)
        if problem:
            raise AnsibleActionFail(problem)


class ActionModule(Kept, _Rotation):
    """See DOCUMENTATION of the module."""
