# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Modules that look at a whole fabric: what a task does not give them comes from the inventory, and from what the run has kept."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.names import (
    check_choices,
    check_names,
    renamed_words,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.variables import Finding
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.module_utils._values.packed import pack
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory, limit
from ansible_collections.multicluster.network.plugins.plugin_utils.controller_task import ControllerAction
from ansible_collections.multicluster.network.plugins.plugin_utils.known_variables import known_variables, run_variables
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import OPTIONS_TO, run_vars


class InventoryAction(ControllerAction):
    """Its action plugins say in ``fill`` what more they take from the inventory than the clusters.

    written: the option that names the clusters which the module writes; it is cut to those inside ``--limit`` (decision 68). Modules that
    write otherwise override ``within``; those that write nothing have none.
    """

    written: str | None = None
    #: Whether a module that writes nothing has nothing to say without a cluster, either.
    needs_clusters = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See DOCUMENTATION of the module."""
        given, variables = self._task.args, task_vars or {}
        self.clusters_group = str(given.get("clusters_group") or "clusters")
        self.only: t.Container[str] | None = None
        #: What a step of the playbook ``leave`` is about, {cluster, side, without}; empty in other playbooks.
        self.leaving: t.Mapping[str, t.Any] = {}
        options = dict(given)
        try:
            self.hostvars, self.groups = inventory.with_clusters(
                run_vars(self, variables), variables.get("groups") or {}, self.clusters_group
            )
            leaving = self.leaving = self._templar.template(variables.get(limit.LEAVING) or {})
            if leaving.get("without"):
                self.hostvars, self.groups = inventory.without_cluster(
                    self.hostvars, self.groups, str(leaving["cluster"])
                )
            if not variables.get(OPTIONS_TO):  # who only notes options reports itself that there is no cluster
                self._check_clusters(given)
            skip_reason = self.fill(options, variables)
            outside: list[str] = []
            if not skip_reason and "clusters" not in given:
                inside = limit.clusters_inside(self.hostvars, self.groups, self.clusters_group, variables)
                outside = [] if inside is None else self.within(options, inside)
                if outside and not self.left(options):
                    skip_reason = "--limit leaves none of the clusters that it writes: " + ", ".join(outside)
            if not skip_reason and leaving and "clusters" not in given:
                skip_reason = self._narrow(options, leaving)
            if skip_reason:
                return {"changed": False, "skipped": True, "skip_reason": skip_reason, "outside_limit": outside}
            if "clusters" not in options:
                rows = inventory.cluster_access(self.hostvars, self.groups, self.clusters_group)
                options["clusters"] = [row for row in rows if self.only is None or row["name"] in self.only]
            self._task.args = options
            result = super().run(tmp, task_vars)
            return dict(result, outside_limit=outside) if outside else result
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None
        finally:
            self._task.args = given  # a retry begins with what was written

    def _narrow(self, options: dict[str, t.Any], leaving: t.Mapping[str, t.Any]) -> str | None:
        """Cut ``options`` to the side that a step of ``leave`` is about; a cluster that left for ever is not asked by what concerns the others."""
        about = limit.of_leaving(self.groups.get(self.clusters_group, ()), leaving)
        outside = self.within(options, about)
        if leaving["side"] != limit.HERE:
            self.only = about if self.only is None else {name for name in about if name in self.only}
        return "nothing of it is there" if outside and not self.left(options) else None

    def _check_clusters(self, given: t.Mapping[str, t.Any]) -> None:
        """Raises ValueError where neither the task nor the inventory has a cluster: nothing done would look like all is well."""
        asks = self.needs_clusters or self.written is not None
        if asks and not {"clusters", "definition"} & set(given) and not self.groups.get(self.clusters_group):
            text = "the inventory has no cluster: add a host for each of them to the group {0}, with its kubeconfig and pod_cidrs, or set clusters [no_remotes]"
            raise ValueError(text.format(self.clusters_group))

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> str | None:
        """Complete ``options`` of the module; ``only``: the clusters that it needs. Returns why there is nothing to do, if so.

        ``variables``: the task's. A ValueError is the task's failure.
        """

    def within(self, options: dict[str, t.Any], inside: t.Collection[str]) -> list[str]:
        """Cut ``options`` to the clusters that a limited run may write; returns the others, which stay as they are."""
        if self.written is None:
            return []
        known = [str(name) for name in self.groups.get(self.clusters_group, ())]
        asked = options.get(self.written) or ()
        options[self.written], outside = limit.narrowed([asked] if isinstance(asked, str) else asked, known, inside)
        return outside

    def left(self, options: t.Mapping[str, t.Any]) -> bool:
        """Whether anything is left to write after ``within``."""
        return bool(options.get(self.written)) if self.written else True

    def compared(self) -> bool:
        """Whether a comparison would find nothing new: this run has published the plan, and wrote nothing that has to be read again."""
        context = self.hostvars.context
        changes = context.get(kept.CHANGES) or {"again": ["unknown"]}
        return bool(self._task.check_mode and context.get(kept.PUBLISHED)) and not changes["again"]

    def definition(self) -> dict[str, t.Any]:
        """The option of that name, as the inventory has it."""
        return inventory.fabric_definition(self.hostvars, self.groups, self.clusters_group)

    def pack_facts(self, options: dict[str, t.Any], limit: str = "", asked: t.Sequence[str] = ()) -> None:
        """Set ``facts`` to what the run has kept of ``hosts``."""
        hosts = options.get("hosts")
        if hosts is not None and not options.get("facts"):  # a fabric without nodes has capabilities all the same
            on = [str(name) for name in options.get("capabilities") or ()]
            clusters = self.groups.get(self.clusters_group, ())
            options["facts"] = pack(collected.status(self.hostvars, hosts, clusters, on, limit, asked))


def check_choice(
    action: ActionBase, variable: str, setting: str, value: t.Any, variables: t.Mapping[str, t.Any]
) -> None:
    """Refuse a value that is none of a variable's choices, under the name by which the user wrote it.

    variable: one of the run, with choices. setting: the role's own, which has it as default. Raises ValueError.
    """
    written = variable if action._templar.template(variables.get(variable)) == value else setting
    for row in check_choices([(variable, value, ())], known_variables(), lambda unused: ""):
        raise ValueError(f"{written}: {row.message} [{row.reason}]")


def renamed(
    action: ActionBase, variables: t.Mapping[str, t.Any], more: t.Iterable[t.Iterable[str]] = ()
) -> list[Finding]:
    """Errors of an inventory with former names of variables or capabilities: nothing reads them, so their values would be left out.

    variables: the task's. more: names of other hosts' variables. ``validate`` looks at all hosts and reports more; this is what every run can pay for.
    """
    former, capabilities = (
        run_variables()["former"],
        action._templar.template(variables.get("multicluster_capabilities", [])),
    )
    found = [
        Finding("inventory", "multicluster_capabilities", "former_name", text)
        for text in renamed_words(capabilities, former["capabilities"])
    ]
    begin = tuple(former["prefixes"])
    names = {name for given in (variables, *more) for name in given if name.startswith(begin)}
    if names:
        known, spared = known_variables(), variables.get("multicluster_foreign_variables") or ()
        given_names: dict[str, list[str]] = {name: [] for name in names if name in known.former}
        spared = [spared] if isinstance(spared, str) else [str(name) for name in spared]
        found += check_names(given_names, known, lambda unused: "inventory", (), spared)
    return [row for row in found if row.level == "error"]


def shown(found: t.Iterable[Finding]) -> str:
    """Findings as one message, empty where there are none."""
    return "; ".join("{where}: {message} [{reason}]".format(**row._asdict()) for row in found)
