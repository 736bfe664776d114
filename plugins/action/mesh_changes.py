# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run changes for pairs of nodes, from the plan and the comparisons that it has kept."""

from __future__ import annotations

import json
import pathlib
import time
import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._linux.files import FileState, write_state
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, results as kept
from ansible_collections.multicluster.network.plugins.module_utils._status.texts import moment
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach import losses, stages
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach.changes import (
    MOST_LINES,
    Changes,
    judged,
)
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach.risks import Risks
from ansible_collections.multicluster.network.plugins.module_utils._values.gc_pause import gc_paused
from ansible_collections.multicluster.network.plugins.plugin_utils import limit
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import Kept, RunContext, run_vars


class _Changes(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The classes; a failure where a run would lose more than it may."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        unused, options = self.validate_argument_spec(
            {
                "step": {"type": "str", "choices": ["judge", "show"], "required": True},
                "max_lost_pairs": {"type": "int", "default": 0},
                "confirm_lost": {"type": "list", "elements": "str", "default": []},
                "plan_file": {"type": "path"},
                "page": {"type": "path"},
            }
        )
        hostvars = run_vars(self, variables)
        plan = hostvars.context.get(kept.PLAN) or {}
        mesh = MeshPlan.from_json(plan.get("mesh") or {})
        if not mesh.nodes:
            return dict(result, changed=False, skipped=True, skip_reason="the mesh is not planned in this run")
        first = plan.get("reachability") or {}
        judges = options["step"] == "judge"
        hosts = first.get("ask") or () if judges else variables.get("ansible_play_hosts_all") or ()
        hosts = [host for host in hosts if host in mesh.nodes and not mesh.nodes[host].refused]
        found = collected.of_hosts(hostvars, hosts, kept.NODE_COMPARED if judges else kept.NODE)
        unread = [host for host in hosts if not _read(found.get(host))]
        with gc_paused():
            changes = Changes(
                mesh,
                {host: _paths(row) for host, row in found.items()},
                unread,
                Risks.of(mesh, first.get("declared"), limit.hosts_inside(hostvars, variables)),
            )
            classes = changes.classes()
            gaps = stages.gaps(changes, _measured(hostvars.context, variables, len(hosts) if judges else 0))
            fabric = changes.fabric() if options["page"] else {}
        more = stages.lines(gaps)
        room = MOST_LINES - len(more)
        reach = judged(classes, unread, options["max_lost_pairs"], options["confirm_lost"], room)
        reach.update(stages=gaps)
        _keep(options["plan_file"], reach)
        if options["page"]:
            name = str(self._templar.template(variables.get("multicluster_fabric") or "default"))
            text = losses.page("What this run would lose", name, moment(time.time()), dict(reach, fabric=fabric))
            write_state(options["page"], FileState("file", 0o644, text.encode("utf-8")))
        result.update(changed=False, reachability=reach)
        if judges and reach["stops"]:
            return dict(result, failed=True, msg=reach["message"])
        shown = more if judges else [*reach["lines"], *more]
        if shown:
            result.update(msg=shown, _ansible_verbose_always=True)
        return result


def _measured(context: RunContext, variables: t.Mapping[str, t.Any], asked: int) -> stages.Measured | None:
    """How long comparing took in this run. asked: how many hosts were called where not all were; in batches the whole is not known."""
    marks, now = context.get(kept.PLANNED) or {}, time.monotonic()
    if "first" not in marks:
        return None
    begun = float(marks["first"])
    if not asked:
        return stages.Measured(float(marks.get("again", now)) - begun, now - begun)
    if variables.get("multicluster_serial") is not None:
        return None
    hosts = len(variables.get("ansible_play_hosts_all") or ())
    return stages.Measured.of_calls(now - begun, asked, hosts, int(variables.get("ansible_forks") or 1))


def _read(result: t.Mapping[str, t.Any] | None) -> bool:
    return bool(result) and not any((result or {}).get(name) for name in ("failed", "unreachable", "skipped"))


def _paths(result: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What a node would change, and of which clusters it keeps the peers all the same."""
    kept = [row["object"] for row in result.get("refused") or () if row["reason"] == "delete_budget"]
    return dict(result.get("paths") or {}, kept=kept)


def _keep(path: str | None, reach: t.Mapping[str, t.Any]) -> None:
    """Write all classes into the plan file."""
    if path and pathlib.Path(path).exists():
        with pathlib.Path(path).open(encoding="utf-8") as file:
            document = json.load(file)
        text = json.dumps(dict(document, reachability=reach), sort_keys=True, indent=1)
        write_state(path, FileState("file", 0o600, text.encode("utf-8")))


class ActionModule(Kept, _Changes):
    """See DOCUMENTATION of the module."""
