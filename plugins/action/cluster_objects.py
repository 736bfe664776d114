# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""cluster_objects in the inventory's clusters."""

from __future__ import annotations

import pathlib
import typing as t

import yaml
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.multicluster.network.plugins.action.run_lock import the_run
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import node_pods_end
from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import run_lock
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.node_pod_edits import EDITED
from ansible_collections.multicluster.network.plugins.module_utils._plan.object_plan import CONFLICT
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import NODE_POD, node_pod_hosts
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import OPTIONS_TO, Kept

#: States of pools of clusters that leave.
_GONE = ("absent", "released")


class _Objects(InventoryAction):
    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> str | None:
        """The objects of the run's plan; only the clusters that get something are asked."""
        if options.pop("planned", None):
            why = self._plan(options, variables)
            if why:
                return why
        if options.get("files"):
            self._read(options)
        if options.get("node_pods"):
            if "clusters" in options:
                return None
            found = node_pod_hosts(self.hostvars, self.groups)
            self.only = set(found)
            if not found:
                return f"no host is reached by {NODE_POD}"
            return self._without_lost(found) if options.get("state") in _GONE else None
        if not options.get("objects"):
            self.only = options.get("objects_by_cluster") or {}
        return None

    def _run(self, tmp: t.Any, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        result = super()._run(tmp, task_vars)
        pods = self._task.args.get("node_pods")
        if pods and result.get("failed"):
            reasons = {str(row.get("reason")) for row in result.get("failures") or ()}
            # what somebody else changed stops the run; a cluster that does not answer is lost alone
            result["goes_on"] = bool(reasons) and not reasons & {EDITED, CONFLICT} and not result.get("refused")
        if pods and not self._task.check_mode and not (task_vars or {}).get(OPTIONS_TO):
            self._after_the_run(result, dict(self._task.args), task_vars or {})
        return result

    def _after_the_run(
        self, result: dict[str, t.Any], options: dict[str, t.Any], variables: t.Mapping[str, t.Any]
    ) -> None:
        """Start the process that removes pods after a run that did not, or end it: they are gone, or are to stay."""
        everywhere = inventory.cluster_access(self.hostvars, self.groups, self.clusters_group)
        request = {**options, "lock_clusters": everywhere}
        present = options.get("state", "present") == "present"
        during = boolean(options["node_pods"].get("during_runs") or False)
        if not (present and during):
            whole = len(options["clusters"]) == len(node_pod_hosts(self.hostvars, self.groups))
            if present or (whole and not result.get("failed")):
                node_pods_end.forget(request)
            return
        hosts = [host for found in node_pod_hosts(self.hostvars, self.groups).values() for host in found]
        pid, born = the_run()
        held = run_lock.held_by(run_lock.key_of(options["fabric"], everywhere), pid) or {}
        given = [self.hostvars[host].get("node_dataplane_rollback_seconds", None) for host in hosts]
        request.update(
            pid=pid,
            born=born,
            settle=node_pods_end.settle_seconds(len(hosts), given),
            scope=held.get("scope", "none"),
            namespace=held.get("namespace", "kube-system"),
        )
        why = node_pods_end.watch(request)
        if why:
            text = f"node_pods is during_runs, and after a run that fails the pods stay until the next one: {why}"
            result.setdefault("warnings", []).append(text)

    def _without_lost(self, found: t.Mapping[str, t.Sequence[str]]) -> str | None:
        """Leave out clusters with a node that this run was to take out of the mesh and did not: its pod is the way to it."""
        results = {host: self.hostvars.context.get(kept.NODE, host) or {} for hosts in found.values() for host in hosts}
        stay = sorted(host for host, result in results.items() if result.get("failed") or result.get("unreachable"))
        self.only = {name for name, hosts in found.items() if not set(hosts) & set(stay)}
        return None if self.only else f"{', '.join(stay)} could not be taken out of the mesh"

    def _read(self, options: dict[str, t.Any]) -> None:
        """The manifests of files of the role, for all clusters or for one."""
        found: list[t.Any] = []
        for name in options.pop("files"):
            text = pathlib.Path(self._find_needle("files", str(name))).read_text(encoding="utf-8")
            for old, new in (options.get("substitute") or {}).items():
                text = text.replace(str(old), str(new))
            for document in yaml.safe_load_all(text):
                found += document["items"] if document.get("kind") == "List" or "items" in document else [document]
        options.pop("substitute", None)
        cluster = options.pop("files_cluster", None)
        if cluster:
            options["objects_by_cluster"] = {str(cluster): found}
        else:
            options["objects"] = found

    def _plan(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> str | None:
        """Calico's pools of the plan; of nodes that leave, those of the clusters that leave with all of their nodes."""
        mesh = MeshPlan.from_json(collected.mesh(self.hostvars, variables["ansible_play_hosts_all"]))
        pools = mesh.ip_pools or {}
        if options.get("state") in _GONE:
            leaves = set(map(str, variables["ansible_play_hosts"]))
            stays = {node.cluster for host, node in mesh.nodes.items() if host not in leaves}
            pools = {name: rows for name, rows in pools.items() if name not in stays}
        elif pools:
            first = next(iter(pools.values()))[0]
            options["purge"] = [{"api_version": first["apiVersion"], "kind": "IPPool"}]
        self.keeps = bool(pools) and not self.compared()
        options["objects_by_cluster"] = pools
        return (
            None
            if self.keeps
            else "the plan has no pools"
            if not pools
            else "this run has written it, and nothing since"
        )

    def within(self, options: dict[str, t.Any], inside: t.Collection[str]) -> list[str]:
        """Of objects for all clusters, or for some by name, those of the clusters inside."""
        asked = [
            str(name)
            for name in (
                self.groups.get(self.clusters_group, ()) if self.only is None else t.cast(t.Iterable[str], self.only)
            )
        ]
        self.only = {name for name in asked if name in inside}
        if options.get("objects_by_cluster"):
            options["objects_by_cluster"] = {
                name: objects for name, objects in options["objects_by_cluster"].items() if name in inside
            }
        return sorted(set(asked) - set(inside))

    def left(self, options: t.Mapping[str, t.Any]) -> bool:
        """Whether a cluster is left."""
        return bool(self.only)


class ActionModule(Kept, _Objects):
    """See DOCUMENTATION of the module."""

    def kept_as(self) -> str:
        """The pools of the plan; what a task names itself concerns nobody else."""
        if not self._task.args.get("planned"):
            return ""
        return kept.POOLS_GONE if self._task.args.get("state") in _GONE else kept.POOLS
