# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What people see of a result that the run keeps, and the failure that follows from it."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.multicluster.network.plugins.module_utils._status import results as kept
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import context_of

Result = t.Mapping[str, t.Any]

#: Findings of a trace that a failure names.
_MOST = 20


def _outcome_problem(result: Result, _accepted: t.Collection[str]) -> str:
    if result["ok"]:
        return ""
    place = f" in {', '.join(result['at_fault'])}" if result["at_fault"] else ""
    return f"{len(result['errors'])} failed{place}, first: {result['errors'][0]}"


def _report_lines(result: Result) -> list[str]:
    report = result["report"]
    return str(report["full"] if Display().verbosity > 0 else report["text"]).splitlines()


def _status_problem(result: Result, accepted: t.Collection[str]) -> str:
    if result["verdict"] in accepted:
        return ""
    more = ", or accept it with verify_allow_unproven: true" if result["verdict"] == "not proven" else ""
    return f"the fabric is {result['verdict']}, for the reasons above; fix what is named{more}"


def _trace_problem(result: Result, accepted: t.Collection[str]) -> t.Any:
    if result["verdict"] in accepted:
        return ""
    return [result["verdict"], *(row["message"] for row in result["findings"])][: _MOST + 1]


def _bundle_lines(result: Result) -> list[str]:
    return [f"{result['path']}: {len(result['files'])} files, {result['redacted']} places blanked"]


class Shown(t.NamedTuple):
    """What is shown of the result of a module, and why it is a failure: empty where it is none."""

    lines: t.Callable[[Result], t.Sequence[str]]
    problem: t.Callable[[Result, t.Collection[str]], t.Any]


SHOWN = {
    "mesh_plan.valid": Shown(lambda result: list(result["sources"]), lambda _result, _accepted: ""),
    "run_outcome": Shown(lambda result: list(result["text"]), _outcome_problem),
    "mesh_report": Shown(
        _report_lines, lambda result, _accepted: "" if result["report"]["ok"] else result["report"]["problems"]
    ),
    "fabric_status": Shown(lambda result: list(result["lines"]), _status_problem),
    "fabric_preflight": Shown(
        lambda result: list(result["lines"]),
        lambda result, _accepted: (
            "" if result["ok"] else f"{result['errors']} problems are in the way; see the findings above"
        ),
    ),
    "trace_report": Shown(lambda result: list(result["table"]), _trace_problem),
    "support_bundle": Shown(_bundle_lines, lambda _result, _accepted: ""),
}


class ActionModule(ActionBase):
    """See DOCUMENTATION of the module."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The lines, as a debug task has them, or the failure."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        unused, options = self.validate_argument_spec(
            {
                "of": {"type": "str", "choices": list(SHOWN), "required": True},
                "fail": {"type": "bool", "default": False},
                "accept": {"type": "list", "elements": "str", "default": []},
            }
        )
        found = context_of(self, task_vars).get(kept.PREFIX + options["of"])
        if found is None or found.get("failed"):
            raise AnsibleActionFail(f"{options['of']} gave no result in this run; see above")
        shown = SHOWN[options["of"]]
        if not options["fail"]:
            return dict(result, changed=False, msg=shown.lines(found), _ansible_verbose_always=True)
        problem = shown.problem(found, options["accept"])
        return dict(result, changed=False, **({"failed": True, "msg": problem} if problem else {}))
