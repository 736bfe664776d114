# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuses a run that its variables do not allow, before it writes anything."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.names import renamed_words
from ansible_collections.multicluster.network.plugins.module_utils._status import results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils import job_output
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import with_clusters
from ansible_collections.multicluster.network.plugins.plugin_utils.known_variables import known_variables, run_variables
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import context_of

Variables = t.Mapping[str, t.Any]


class ActionModule(ActionBase):
    """See DOCUMENTATION of the module."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Nothing but what every action returns."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        guards = {
            "former_tags": self._former_tags,
            "former_names": self._former_names,
            "leave": self._leave,
            "leave_others": self._leave_others,
            "tenants_limit": self._tenants_limit,
            "workflow_proven": self._workflow_proven,
        }
        unused, options = self.validate_argument_spec(
            {
                "guard": {"type": "str", "choices": list(guards), "required": True},
                "names": {"type": "dict", "default": {}},
                "clusters": {"type": "list", "elements": "str", "default": []},
                "clusters_group": {"type": "str", "default": "clusters"},
            }
        )
        problem = guards[options["guard"]](options, task_vars or {})
        if problem:
            raise AnsibleActionFail(problem)
        return dict(result, changed=False)

    def _former_tags(self, _options: Variables, variables: Variables) -> str:
        former = run_variables()["former"]["capabilities"]
        found = [f"{tag} is {former[tag]} now" for tag in variables.get("ansible_run_tags") or () if tag in former]
        return "--tags: " + ", ".join(found) if found else ""

    def _former_names(self, options: Variables, _variables: Variables) -> str:
        """names: variable -> its value."""
        former = known_variables().former_words
        found = list(
            dict.fromkeys(text for value in options["names"].values() for text in renamed_words(value, former))
        )
        names = list(options["names"])
        written = f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else "".join(names)
        return f"{written}: {', '.join(found)}" if found else ""

    def _leave(self, options: Variables, variables: Variables) -> str:
        known = sorted(map(str, self._clusters(options, variables)))
        gone = boolean(self._templar.template(variables.get("leave_gone", False)))
        if "cluster" not in variables:
            if "ansible_limit" not in variables or not variables["ansible_limit"]:
                return f"no cluster is named that leaves: write -e cluster=NAME, one of {', '.join(known)}, or name single nodes by --limit [no_cluster]"
            return "leave_gone is about a cluster: write -e cluster=NAME, too [no_cluster]" if gone else ""
        cluster = str(self._templar.template(variables["cluster"]))
        if cluster not in known:
            return (
                f"cluster={cluster} is no cluster of the inventory, which has {', '.join(known)}; of one that is not in it any more nothing is known: "
                "write it into the inventory again, with the same name, and run this with -e leave_gone=true [unknown_cluster]"
            )
        if len(known) == 1:
            return f"{cluster} is the only cluster of the inventory: the playbook teardown takes a whole fabric away [last_cluster]"
        return ""

    def _clusters(self, options: Variables, variables: Variables) -> t.Sequence[str]:
        try:
            groups = with_clusters(variables["hostvars"], variables["groups"], options["clusters_group"])[1]
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None
        return groups.get(options["clusters_group"], ())

    def _leave_others(self, _options: Variables, variables: Variables) -> t.Any:
        outcome = context_of(self, variables).get(kept.OUTCOME) or {}
        if outcome.get("ok"):
            return ""
        if "errors" not in outcome:
            return "how the other clusters were written is not known, so nothing of the cluster that leaves is touched; see above [others_unwritten]"
        cluster = self._templar.template(variables.get("cluster", ""))
        return "\n".join(
            [
                *outcome["text"],
                f"{cluster} and its nodes are left as they are, since another cluster may still lead to them: {outcome['errors'][0]}. Fix that and run "
                "leave again; if that cluster is gone for ever, let it leave first: -e cluster=NAME -e leave_gone=true [others_unwritten]",
            ]
        )

    def _workflow_proven(self, _options: Variables, variables: Variables) -> str:
        if boolean(variables.get(job_output.PROVEN, False)):
            return ""
        return "A job of this workflow failed before the fabric was proven, or the proof failed; see the first job that is red."

    def _tenants_limit(self, options: Variables, variables: Variables) -> str:
        """Both sides are written together, so a limit cannot leave one of them out (decision 68)."""
        there = set(map(str, variables["ansible_play_hosts_all"]))
        outside = [name for name in options["clusters"] if name in variables["groups"]["all"] and name not in there]
        if "ansible_limit" not in variables or not outside:
            return ""
        return (
            f"--limit leaves out {' and '.join(outside)}, and tenants are written on both sides, tenants_source and tenants_apinet, together; "
            "nothing was written. Name both in --limit, or leave it out."
        )
