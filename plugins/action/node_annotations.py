# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""node_annotations of what the hosts of a play reported, where the task names hosts in place of annotations."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import DONE
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import kubespan, publishing
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils import job_output
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept

#: States of annotations of nodes that leave.
_GONE = ("absent", "released")


def unpublished(
    mesh: MeshPlan, results: t.Mapping[str, t.Mapping[str, t.Any]], adopt: bool = False
) -> dict[str, t.Any]:
    """Cluster -> node -> annotations that differ from what the clusters hold; empty on a converged fabric.

    mesh: the plan; results: host -> its result of node_dataplane. adopt: their owner counts too, which only a Node itself has.
    """
    if not mesh.spans_nodes:
        keys = {host: found["public_keys"] for host, found in results.items() if found.get("public_keys")}
        return publishing.annotations_to_publish(mesh, keys, adopt)
    said = {host: found["kubespan"] for host, found in results.items() if found.get("kubespan")}
    announced = {host: part["annotations"] for host, part in said.items()}
    return kubespan.annotations_to_publish(
        mesh,
        announced,
        {host: part.get("harvested") for host, part in said.items()},
        {host: results[host].get("public_keys") or {} for host in said},
    )


class _Annotations(InventoryAction):
    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> str | None:
        """The annotations. Where nothing differs, no cluster is asked."""
        hosts = options.get("hosts")
        if hosts:
            mesh = MeshPlan.from_json(collected.mesh(self.hostvars, hosts))
            if self.compared():
                self.keeps = False
                return "this run has written it, and nothing since"
            if not mesh.nodes:
                self.keeps = False
                return "the mesh is not planned in this run"
            options.setdefault("prefixes", mesh.annotation_patterns)
            leaves = options.get("state") in _GONE
            order = (self.hostvars.context.get(kept.ROTATION) or {}).get("order") or {}
            if order.get("step") == DONE:  # the records of all nodes go at once, as they are meant to
                options["max_deletes"] = -1
            if not leaves and not self._task.check_mode:
                self.hostvars.context.keep(kept.PUBLISHED, {"published": True})
            results = {} if leaves else job_output.results(variables, self.hostvars, hosts)
            options["annotations"] = (
                publishing.nodes_by_cluster(mesh, hosts)
                if leaves
                else unpublished(mesh, results, bool(options.get("adopt")))
            )
            if not options["annotations"]:
                return "the clusters hold it already"
        if "clusters" not in options and options.get("purge") != "all":
            self.only = options.get("annotations") or {}
            return None if self.only else "no node is named"
        return None


class ActionModule(Kept, _Annotations):
    """See DOCUMENTATION of the module."""

    def kept_as(self) -> str:
        """What was published of the plan, or withdrawn; what a task names itself concerns nobody else."""
        if not self._task.args.get("hosts"):
            return ""
        return kept.ANNOTATIONS_GONE if self._task.args.get("state") in _GONE else kept.ANNOTATIONS
