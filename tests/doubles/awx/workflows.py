# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Launching: jobs, jobs in slices, workflows, as AWX does it, each in a thread of its own, and asynchronously for whoever launched it.

A job with slices becomes a workflow job of its own, with a job for each slice. What jobs hand on (set_stats) goes to the nodes after them, through
approvals too, together with what their ancestors had; of slices in the order in which they ended. Only a run that ended hands anything on.
"""

from __future__ import annotations

import json
import threading
import time

from jobs import JobFailed
from slices import effective_artifacts

EDGES = ("success_nodes", "failure_nodes", "always_nodes")
OVER = ("successful", "failed", "error", "canceled")
BAD = ("failed", "error", "canceled")


class Launcher:
    """state: the rows of everything, with its lock; runner: what runs a job, None where there is nothing to run one with."""

    def __init__(self, state, runner):
        self.state, self.runner = state, runner
        self.pause = 0.1

    # -- rows

    def _set(self, row, **fields):
        with self.state.lock:
            row.update(fields)

    def _new(self, kind, template, more):
        row = {
            "name": template["name"],
            "status": "pending",
            "unified_job_template": template["id"],
            "artifacts": {},
            "job_explanation": "",
        }
        return self.state.add(kind, dict(row, **more))

    def launch_job(self, template, given, extra=None, parent=None):
        """The row of the new job, of kind jobs or workflow_jobs. The state's lock is held."""
        count = min(template.get("job_slice_count") or 1, max(1, len(self.state.hosts(template["inventory"]))))
        if count > 1:
            job = self._new(
                "workflow_jobs",
                template,
                {"is_sliced_job": True, "extra_vars": json.dumps(extra or {}), "parent": parent},
            )
            self._start(self._slices, job, template, given, extra or {}, count)
            return dict(job, type="workflow_job")
        job = self._job(template, given, extra or {}, 1, 1, parent)
        self._start(self._run, job, template, extra or {})
        return dict(job, type="job")

    def launch_workflow(self, template, given):
        job = self._new("workflow_jobs", template, {"is_sliced_job": False, "extra_vars": "{}", "parent": None})
        nodes = [
            {
                "id": number,
                "identifier": row["identifier"],
                "template": row.get("unified_job_template"),
                "job": None,
                "do_not_run": False,
                "ancestors": {},
                **{edge: list(row[edge]) for edge in EDGES},
            }
            for number, row in ((row["id"], row) for row in self.state.nodes_of(template["id"]))
        ]
        job["nodes"] = nodes
        self._start(self._walk, job)
        return dict(job, type="workflow_job")

    def _start(self, target, *arguments):
        threading.Thread(target=target, args=arguments, daemon=True).start()

    def _job(self, template, given, extra, number, count, parent):
        fields = {name: template.get(name) for name in ("project", "inventory", "playbook", "job_type", "diff_mode")}
        asked = {
            name: given[name]
            for name in ("limit", "job_tags")
            if name in given and template.get(f"ask_{name}_on_launch")
        }
        return self._new(
            "jobs",
            template,
            dict(
                fields,
                **asked,
                job_slice_number=number if count > 1 else 0,
                job_slice_count=count,
                parent=parent,
                extra_vars=json.dumps(extra),
                events=[],
            ),
        )

    # -- in threads

    def _slices(self, job, template, given, extra, count):
        self._set(job, status="running")
        with self.state.lock:
            parts = [self._job(template, given, extra, number, count, job["id"]) for number in range(1, count + 1)]
            common = {"identifier": "", "template": template["id"], "do_not_run": False}
            job["nodes"] = [dict(common, id=part["id"], job=("jobs", part["id"])) for part in parts]
        threads = [threading.Thread(target=self._run, args=(part, template, extra), daemon=True) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._set(job, status="failed" if any(part["status"] in BAD for part in parts) else "successful")

    def _run(self, job, template, extra):
        self._set(job, status="waiting")
        try:
            found = self._ran(job, template, extra)
        except JobFailed as error:
            found = {"status": "failed", "job_explanation": str(error)}
        except Exception as error:  # what a thread raises nobody would see
            found = {"status": "error", "job_explanation": repr(error)}
        self._set(job, finished=time.monotonic(), **found)

    def _ran(self, job, template, extra):
        if self.runner is None:
            raise JobFailed("this double was started without a program to run jobs with")
        with self.state.updating:  # one update of a project or an inventory at a time
            self._project(job)
            tree = self._inventory(job)
            self.runner.prepare(job)
        with self.state.lock:
            credentials = self._credentials(template.get("credentials") or ())
        given = dict(json.loads(template.get("extra_vars") or "{}"), **extra)
        given.update(
            {"awx_job_id": job["id"], "awx_job_template_id": template["id"], "awx_job_template_name": template["name"]}
        )
        if job["parent"]:
            given["awx_workflow_job_id"] = job["parent"]
        self._set(job, status="running")
        return self.runner.run(job, tree, credentials, given, lambda process: self._set(job, pid=process.pid))

    def _project(self, job):
        """Before each launch, where the project is set so; a job with a project that could not be updated does not begin."""
        project = self.state.rows["projects"][job["project"]]
        if not project.get("scm_update_on_launch") and project.get("status") == "successful":
            return
        self._set(project, status="running")
        try:
            self._set(project, scm_revision=self.runner.update_project(project), status="successful")
        except JobFailed as error:
            self._set(project, status="failed")
            raise JobFailed(
                f'Previous Task Failed: {{"job_type": "project_update", "job_name": "{project["name"]}"}}: {error}'
            ) from None

    def _inventory(self, job):
        for source in list(self.state.rows.get("inventory_sources", {}).values()):
            if source["inventory"] == job["inventory"] and (
                source.get("update_on_launch") or source["id"] not in self.state.trees
            ):
                credentials = self._credentials([source["credential"]] if source.get("credential") else ())
                try:
                    self.state.trees[source["id"]] = self.runner.update_inventory(source, credentials)
                except JobFailed as error:
                    raise JobFailed(f'Previous Task Failed: {{"job_type": "inventory_update"}}: {error}') from None
        return self.state.tree(job["inventory"])

    def _credentials(self, numbers):
        rows = [self.state.rows["credentials"][number] for number in numbers]
        kinds = self.state.rows.get("credential_types", {})
        return [
            (kinds[row["credential_type"]], row.get("inputs") or {})
            for row in rows
            if row.get("credential_type") in kinds
        ]

    def _walk(self, workflow):
        """Start what may start until nothing runs and nothing can."""
        self._set(workflow, status="running")
        while True:
            with self.state.lock:
                running = [node for node in workflow["nodes"] if node["job"] and self.row(node)["status"] not in OVER]
                ready = [node for node in workflow["nodes"] if self._decided(workflow, node)]
                for node in ready:
                    self._begin(workflow, node)
                if not running and not ready:
                    break
            time.sleep(self.pause)
        with self.state.lock:
            lost = [
                node
                for node in workflow["nodes"]
                if node["job"] and self.row(node)["status"] in BAD and not node["failure_nodes"] + node["always_nodes"]
            ]
        self._set(workflow, status="failed" if lost else "successful", finished=time.monotonic())

    def row(self, node):
        """The job of a workflow's node."""
        return self.state.rows[node["job"][0]][node["job"][1]]

    def _decided(self, workflow, node):
        """Whether a node starts now. One with parents that all ended on other ways never does."""
        if node["job"] or node["do_not_run"]:
            return False
        parents = [other for other in workflow["nodes"] if any(node["id"] in other[edge] for edge in EDGES)]
        if not all(
            parent["do_not_run"] or (parent["job"] and self.row(parent)["status"] in OVER) for parent in parents
        ):
            return False
        desired = not parents
        for parent in parents:
            if parent["job"]:
                good = self.row(parent)["status"] == "successful"
                desired = (
                    desired
                    or node["id"] in parent["always_nodes"] + parent["success_nodes" if good else "failure_nodes"]
                )
                node["ancestors"].update(effective_artifacts(parent["ancestors"], self._artifacts_of(parent)))
        node["do_not_run"] = not desired
        return desired

    def _artifacts_of(self, node):
        """What a node's job hands on; a sliced one what its parts do, in the order in which they ended."""
        row = self.row(node)
        if not row.get("is_sliced_job"):
            return row.get("artifacts") or {}
        parts = [self.state.rows["jobs"][part["job"][1]] for part in row["nodes"]]
        return effective_artifacts(
            *[part["artifacts"] for part in sorted(parts, key=lambda part: (part.get("finished", 0), part["id"]))]
        )

    def _begin(self, workflow, node):
        approval = self.state.rows.get("workflow_approval_templates", {}).get(node["template"])
        if approval:
            kind, row = "workflow_approvals", self._new("workflow_approvals", approval, {"parent": workflow["id"]})
        else:
            row = self.launch_job(
                self.state.rows["job_templates"][node["template"]], {}, dict(node["ancestors"]), workflow["id"]
            )
            kind = "workflow_jobs" if row["type"] == "workflow_job" else "jobs"
        node["job"] = (kind, row["id"])
