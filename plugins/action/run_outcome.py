# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a run ended, from what it has kept."""

from __future__ import annotations

import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._plan.outcome import (
    RunReports,
    judge,
    refused_lines,
    undone_lines,
)
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils import limit
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import SPEAKER, with_clusters
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, run_vars

#: Capability -> its results that were done once for all. That of the first host that has one counts.
ONCE = {"mesh": kept.MESH, **{name: row.applied for name, row in kept.CAPABILITIES.items()}}
#: What concerns nodes; the rest is written by one host for all clusters.
_OF_NODES = ("mesh", "verify")


def run_outcome(
    hostvars: t.Any,
    groups: t.Mapping[str, t.Any],
    asked: t.Sequence[str],
    hosts: t.Sequence[str],
    alive: t.Sequence[str],
    clusters_group: str = "clusters",
    inside: frozenset[str] | None = None,
) -> dict[str, t.Any]:
    """``{ok, cells, errors, at_fault, text}`` from what the run has kept.

    asked: the capabilities of the run; hosts: all of the play; alive: those of them that did not fail and were reached. inside: the hosts that
    ``--limit`` leaves, None without a limit.
    """
    declared = {str(name) for members in groups.values() for name in members}
    view, all_groups = with_clusters(hostvars, groups, clusters_group)
    clusters = [str(name) for name in all_groups.get(clusters_group, ())]
    results: dict[str, list[t.Mapping[str, t.Any]]] = {}
    broken: dict[str, str] = {}
    nodes: dict[str, str] = {}
    verdict: t.Mapping[str, t.Any] = {}
    lost: dict[str, tuple[str, str]] = {}
    seen: set[str] = set()
    earlier: list[str] = []
    by_host: dict[str, t.Any] = {}
    outside: set[str] = set()
    gone = {str(name) for name in hosts} - {str(name) for name in alive}
    for host in hosts:
        given = hostvars[host]
        for capability, message in (given.get(kept.BROKEN, {})).items():
            broken.setdefault(str(capability), str(message))
        for capability, names in ONCE.items():
            for name in names:
                if name in given and name not in seen:
                    outside.update(map(str, given[name].get("outside_limit") or ()))
                if name in given and name not in seen and not given[name].get("skipped"):
                    seen.add(name)
                    results.setdefault(capability, []).append(_part(given[name]))
        for capability, name in kept.OF_CLUSTERS:
            if str(host) in clusters and name in given and not given[name].get("skipped"):
                results.setdefault(capability, []).append(_part(given[name]))
        earlier = earlier or (list(given[kept.PLAN].get("refused_before") or ()) if kept.PLAN in given else [])
        if not verdict and kept.REPORT in given:
            verdict = given[kept.REPORT].get("report") or {}
        is_speaker = (
            str(host) == SPEAKER and SPEAKER not in declared
        )  # it has the variables of the group all, and is nobody's node
        if str(host) in clusters or is_speaker or "multicluster_cluster" not in given:
            if str(host) in clusters and str(host) in gone:
                lost[str(host)] = ("", "failed, see above")
            continue
        nodes[str(host)] = str(given["multicluster_cluster"])
        for capability, message in (given.get(kept.BROKEN_HERE, {})).items():
            lost[str(host)] = (str(capability), str(message))
        if str(host) in gone:
            lost[str(host)] = (str(next(iter(asked), "")), _why(given))
        for capability, name in kept.OF_NODES:
            # a node's own failure is that of the node, which is lost; what it refused belongs to its cluster
            if name in given and given[name].get("refused"):
                by_host.setdefault(str(host), []).extend(given[name]["refused"])
                rows = [dict(row, object=f"{host}/{row.get('object')}") for row in given[name]["refused"]]
                results.setdefault(capability, []).append({"refused": rows})
    of_plans = [
        row
        for capability in results
        for result in results[capability]
        for row in result.get("refused") or ()
        if not _by_node(row, nodes)
    ]
    refused = refused_lines(of_plans, by_host, clusters)
    fixed = ["fixed in this run: " + line for line in earlier if line not in refused]
    asked = [str(name) for name in asked]
    nodes_outside: list[str] = []
    left_out: dict[str, t.Collection[str]] = {}
    unrun: list[str] = []
    if inside is not None:
        nodes_outside, left_out = _outside(view, all_groups, clusters_group, inside, asked)
        if not any(str(host) in clusters or str(host) == SPEAKER for host in hosts):
            unrun = [name for name in asked if name not in _OF_NODES and name not in results]
    outcome = judge(RunReports(asked, clusters, results, broken, nodes, lost, verdict, left_out))
    if "mesh" not in asked or "verify" in asked:
        nodes_outside = []  # a verification names them in its scope
    return dict(outcome, text=[*outcome["text"], *refused, *fixed, *undone_lines(outside, nodes_outside, unrun)])


def _outside(
    hostvars: t.Any, groups: t.Mapping[str, t.Any], clusters_group: str, inside: frozenset[str], asked: t.Iterable[str]
) -> tuple[list[str], dict[str, t.Collection[str]]]:
    """(nodes that a limit leaves out, capability -> clusters in which it left nothing to do). hostvars, groups: of with_clusters."""
    nodes = limit.nodes_of_clusters(hostvars, groups)
    unlooked = {name for name, hosts in nodes.items() if not inside.intersection(hosts)}
    written = limit.clusters_of(groups.get(clusters_group, ()), nodes, inside)
    unwritten = {str(name) for name in groups.get(clusters_group, ())} - written
    outside = [host for hosts in nodes.values() for host in hosts if host not in inside]
    return outside, {name: unlooked if name in _OF_NODES else unwritten for name in asked}


def failures(hostvars: t.Any, capabilities: t.Sequence[str], hosts: t.Sequence[str]) -> list[str]:
    """A line for each cluster that could not be read or written for one of the capabilities."""
    found: list[str] = []
    for name in (name for capability in capabilities for name in ONCE.get(capability, ())):
        result = next(iter(collected.of_hosts(hostvars, hosts, name).values()), {})
        found += ["cluster {cluster}: {message} [{reason}]".format(**row) for row in result.get("failures") or ()]
    return sorted(set(found))


def _by_node(row: t.Mapping[str, t.Any], nodes: t.Container[str]) -> bool:
    """Whether a row is one of those that were put under their node's name."""
    return str(row.get("object", "")).split("/", 1)[0] in nodes


def _why(given: t.Any) -> str:
    """Why a node is no longer part of the run, as far as its own result shows."""
    for name in (kept.NODE, kept.CONFIRMED):
        result = given.get(name, {})
        if (result.get("failed") or result.get("unreachable")) and result.get("msg"):
            return str(result["msg"])
    return "failed or not reached, see above"


def _part(result: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    part = {name: result[name] for name in ("failures", "refused", "failed", "msg") if name in result}
    plan = result.get("plan")
    if isinstance(plan, t.Mapping) and "unchanged" in plan:
        part["objects"] = sum(int(plan.get(name) or 0) for name in ("create", "update", "delete", "unchanged"))
    return part


class _Outcome(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The outcome alongside what every action returns."""
        result, variables = super().run(tmp, task_vars), task_vars or {}
        spec = {
            "capabilities": {"type": "list", "elements": "str", "required": True},
            "clusters_group": {"type": "str", "default": "clusters"},
            "failures_only": {"type": "bool", "default": False},
            "left": {"type": "bool", "default": False},
        }
        unused, options = self.validate_argument_spec(spec)
        hosts, alive = variables["ansible_play_hosts_all"], variables["ansible_play_hosts"]
        if options["failures_only"]:
            lines = failures(run_vars(self, variables), options["capabilities"], hosts)
            return dict(
                result, changed=False, errors=lines, **({"failed": True, "msg": "\n".join(lines)} if lines else {})
            )
        outcome = run_outcome(
            run_vars(self, variables),
            variables["groups"],
            options["capabilities"],
            hosts,
            alive,
            options["clusters_group"],
            limit.hosts_inside(variables["hostvars"], variables),
        )
        if options["left"]:
            outcome["text"] = [*self._left(variables), *outcome["text"]]
        return dict(result, changed=False, **outcome)

    def _left(self, variables: t.Mapping[str, t.Any]) -> list[str]:
        """What the playbook leave ends with."""
        if "cluster" not in variables:
            return [
                "nodes left by --limit: the others drop their peers in the next run of site, once the nodes are no longer in the inventory"
            ]
        cluster, lines = str(self._templar.template(variables["cluster"])), []
        if boolean(self._templar.template(variables.get("leave_gone", False))):
            on = ["mesh", *map(str, self._templar.template(variables.get("multicluster_capabilities") or []))]
            nodes = ", ".join(sorted(map(str, variables["groups"].get("__leave_nodes", ())))) or "none"
            lines.append(
                f"gone, so nothing was written in {cluster}, where this stays: what its API holds of {', '.join(on)}; on its nodes ({nodes}) devices, "
                "keys and the boot unit, until node_dataplane with node_dataplane_state=absent runs there"
            )
        if self._task.check_mode:
            return lines  # the screen's own last line: nothing was written, so the inventory has to keep the cluster
        if variables.get("ansible_limit"):
            what = f"next: run leave again without --limit: what it left out still leads to {cluster}, or stays in it"
        else:
            what = f"next: take {cluster} and its nodes out of the inventory, then run site"
        return [*lines, what]


class ActionModule(Kept, _Outcome):
    """See DOCUMENTATION of the module."""
