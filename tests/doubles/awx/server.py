# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A double of AWX's API: the calls that the loader makes, with their state, in a process of its own.

AWX needs a cluster to run in. This is a double, written from the API's description: lists with pages and filters, required fields,
unique names, references that must exist, surveys and credential types checked as AWX does. A new project is updated by and by (each question after it
brings that further), and before that was successful there is no template of its playbooks. Everything under /_double is for tests.

Jobs and workflows are launched by workflows.py and run by jobs.py, where the double is given a folder for them and the programs of ansible-runner.
A project with a ``scm_url`` of a repository of this machine (``file:///``) is then really cloned, when it is loaded and before each of its jobs.

    server.py PORT_FILE TOKEN [FOLDER PROGRAMS [WORDS BEFORE EVERY PROGRAM]]
"""

from __future__ import annotations

import http.server
import json
import pathlib
import re
import sys
import threading
import urllib.parse

from jobs import JobFailed, Runner
from slices import host_names
from workflows import BAD, OVER, Launcher

REQUIRED = {
    "credential_types": {"name", "kind"},
    "execution_environments": {"name", "image"},
    "projects": {"name", "organization"},
    "inventories": {"name", "organization"},
    "inventory_sources": {"name", "inventory", "source"},
    "job_templates": {"name", "project", "playbook"},
    "workflow_job_templates": {"name"},
    "schedules": {"name", "unified_job_template", "rrule"},
    "credentials": {"name"},
    "organizations": {"name"},
}
KNOWN = {
    "credential_types": {"kind", "inputs", "injectors"},
    "execution_environments": {"image", "pull", "organization"},
    "projects": {"organization", "scm_type", "scm_url", "scm_branch", "scm_clean", "scm_update_on_launch"},
    "inventories": {"organization", "variables"},
    "inventory_sources": {
        "inventory",
        "source",
        "source_project",
        "source_path",
        "execution_environment",
        "credential",
        "update_on_launch",
        "overwrite",
        "overwrite_vars",
    },
    "job_templates": {
        "job_type",
        "inventory",
        "project",
        "playbook",
        "execution_environment",
        "ask_limit_on_launch",
        "ask_tags_on_launch",
        "diff_mode",
        "ask_diff_mode_on_launch",
        "allow_simultaneous",
        "job_slice_count",
        "timeout",
        "extra_vars",
        "survey_enabled",
        "organization",
    },
    "workflow_job_templates": {"organization", "allow_simultaneous", "ask_limit_on_launch", "survey_enabled"},
    "schedules": {"unified_job_template", "rrule", "enabled"},
    "credentials": {"organization", "credential_type", "inputs"},
    "organizations": set(),
    "workflow_nodes": {"identifier", "unified_job_template", "workflow_job_template"},
}
REFERENCES = {
    "inventory": "inventories",
    "project": "projects",
    "source_project": "projects",
    "execution_environment": "execution_environments",
    "credential": "credentials",
    "organization": "organizations",
}
EDGES = ("success_nodes", "failure_nodes", "always_nodes")


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(body)
        self.status, self.body = status, body


class State:
    def __init__(self, token, runner=None):
        self.token, self.lock, self.log, self.page = token, threading.RLock(), [], 3
        self.rows, self.surveys, self.number = {}, {}, 0
        self.runner, self.trees, self.updating = runner, {}, threading.Lock()
        self.launcher = Launcher(self, runner)
        self.updates = ["pending", "running", "successful"]
        self.gateway = False  # behind the one of AAP 2.5
        self.add("organizations", {"name": "Default"})

    def add(self, kind, fields):
        self.number += 1
        row = dict({"id": self.number, "description": ""}, **fields)
        self.rows.setdefault(kind, {})[self.number] = row
        return row

    def one(self, kind, number):
        row = self.rows.get(kind, {}).get(int(number))
        if row is None:
            raise Refused(404, {"detail": "Not found."})
        return row

    def any_template(self, number):
        for kind in ("job_templates", "workflow_job_templates", "workflow_approval_templates"):
            if int(number) in self.rows.get(kind, {}):
                return dict(self.rows[kind][int(number)], kind=kind)
        raise Refused(400, {"unified_job_template": ["Invalid pk"]})

    def check(self, kind, fields, whole):
        wrong = {}
        for name in sorted(REQUIRED.get(kind, set()) - set(fields)) if whole else ():
            wrong[name] = ["This field is required."]
        for name in fields:
            if name not in KNOWN[kind] | {"name", "description"}:
                wrong[name] = ["the double knows no such field"]
            if (
                name in REFERENCES
                and fields[name] is not None
                and fields[name] not in self.rows.get(REFERENCES[name], {})
            ):
                wrong[name] = ["Invalid pk"]
        if "unified_job_template" in fields:
            self.any_template(fields["unified_job_template"])
        if "extra_vars" in fields and not isinstance(fields["extra_vars"], str):
            wrong["extra_vars"] = ["Not a valid string."]
        if "rrule" in fields and not re.match(r"DTSTART:\d{8}T\d{6}Z RRULE:FREQ=[A-Z]+;INTERVAL=\d+", fields["rrule"]):
            wrong["rrule"] = ["invalid"]
        for row in self.rows.get(kind, {}).values() if whole else ():
            if row.get("name") == fields.get("name") and kind != "workflow_nodes":
                wrong["name"] = ["already exists"]
        if (
            kind == "job_templates"
            and whole
            and not wrong
            and self.rows["projects"][fields["project"]].get("status", "successful") != "successful"
        ):
            wrong["playbook"] = ["Playbook not found for project."]
        if wrong:
            raise Refused(400, wrong)

    def tree(self, inventory):
        """The groups and hosts of an inventory, of all its sources."""
        found = {}
        for number, source in self.rows.get("inventory_sources", {}).items():
            if source["inventory"] == inventory:
                found.update(self.trees.get(number, {}))
        return found

    def hosts(self, inventory):
        return host_names(self.tree(inventory))

    def clone(self, project):
        """The first update of a project, in a thread: whoever made it asks again until it is over."""
        try:
            found = {"scm_revision": self.runner.update_project(project), "status": "successful"}
        except JobFailed:
            found = {"status": "failed"}
        with self.lock:
            project.update(found)

    def shown(self, kind, row):
        if kind == "job_templates":
            names = [
                {"id": number, "name": self.one("credentials", number)["name"]} for number in row.get("credentials", [])
            ]
            return dict({k: v for k, v in row.items() if k != "credentials"}, summary_fields={"credentials": names})
        if kind == "workflow_nodes":
            template = row.get("unified_job_template")
            found = self.any_template(template) if template else {}
            return dict(
                row, summary_fields={"unified_job_template": {k: found.get(k) for k in ("name", "description")}}
            )
        if kind == "credential_types" and row.get("inputs"):
            fields = [dict({"type": "string"}, **field) for field in row["inputs"].get("fields", [])]
            return dict(row, inputs=dict(row["inputs"], fields=fields))
        if kind in ("jobs", "workflow_jobs", "workflow_approvals"):
            hidden = ("events", "nodes", "pid", "finished", "parent")
            return dict(
                {key: value for key, value in row.items() if key not in hidden},
                type=kind[:-1],
                failed=row["status"] in BAD,
            )
        if kind == "credentials":
            return {key: value for key, value in row.items() if key != "inputs"}
        return row

    def node_shown(self, node):
        """A node of a workflow that was launched, with its job."""
        found = {key: value for key, value in node.items() if key not in ("job", "ancestors", "template")}
        if not node["job"]:
            return dict(found, job=None, summary_fields={})
        row = self.launcher.row(node)
        reported = {
            "id": row["id"],
            "name": row["name"],
            "status": row["status"],
            "failed": row["status"] in BAD,
            "type": node["job"][0][:-1],
        }
        return dict(found, job=row["id"], summary_fields={"job": reported})

    def nodes_of(self, number):
        return [row for row in self.rows.get("workflow_nodes", {}).values() if row["workflow_job_template"] == number]

    # -- requests

    def get(self, parts, query):
        if len(parts) == 3 and parts[2] == "survey_spec":
            return self.surveys.get(int(parts[1]), {})
        if len(parts) == 3 and parts[2] == "workflow_nodes":
            running = self.rows.get("workflow_jobs", {}).get(int(parts[1])) if parts[0] == "workflow_jobs" else None
            rows = [self.node_shown(node) for node in running.get("nodes", ())] if running else []
            rows = rows or [self.shown("workflow_nodes", row) for row in self.nodes_of(int(parts[1]))]
        elif len(parts) == 3 and parts[0] == "jobs" and parts[2] == "job_events":
            rows = [event_shown(event) for event in self.one("jobs", parts[1])["events"]]
        elif len(parts) == 3 and parts[0] == "inventories" and parts[2] == "hosts":
            rows = [
                {"id": number, "name": name}
                for number, name in enumerate(self.hosts(self.one("inventories", parts[1])["id"]), 1)
            ]
        elif len(parts) == 2 and parts[0] in ("jobs", "workflow_jobs", "workflow_approvals"):
            return self.shown(parts[0], self.one(parts[0], parts[1]))
        elif (
            len(parts) == 2
            and parts[0] == "projects"
            and self.rows["projects"].get(int(parts[1]), {}).get("scm_url", "").startswith("file:")
        ):
            return self.one("projects", parts[1])
        elif len(parts) == 2 and parts[0] == "projects":
            project = self.one("projects", parts[1])
            if project.setdefault("status", "successful") in self.updates:
                project["status"] = self.updates[min(self.updates.index(project["status"]) + 1, len(self.updates) - 1)]
            return project
        elif len(parts) == 1 and parts[0] in REQUIRED:
            rows = [self.shown(parts[0], row) for row in self.rows.get(parts[0], {}).values()]
            for name in ("name", "organization"):
                if name in query:
                    rows = [row for row in rows if str(row.get(name)) == query[name]]
        else:
            raise Refused(404, {"detail": "Not found."})
        most = 100 if parts[-1] in ("job_events", "hosts") else self.page
        page, size = int(query.get("page", 1)), min(most, int(query.get("page_size", 25)))
        more = len(rows) > page * size
        return {"count": len(rows), "next": "/more" if more else None, "results": rows[(page - 1) * size : page * size]}

    def post(self, parts, body):
        if len(parts) == 1 and parts[0] in REQUIRED:
            self.check(parts[0], body, True)
            if parts[0] == "projects":
                body = dict(body, status=self.updates[0], scm_revision="")
                if self.runner and body["scm_url"].startswith("file:"):
                    made = self.add("projects", body)
                    threading.Thread(target=self.clone, args=(made,), daemon=True).start()
                    return made
            return self.shown(parts[0], self.add(parts[0], body))
        kind, number, what = parts
        if what == "survey_spec":
            self.one(kind, number)
            if set(body) != {"name", "description", "spec"} or not body["spec"]:
                raise Refused(400, {"error": "survey"})
            self.surveys[int(number)] = body
            return {}
        if what == "launch":
            return self.launch(kind, self.one(kind, number), body or {})
        if kind == "workflow_approvals" and what in ("approve", "deny"):
            row = self.one(kind, number)
            if row["status"] in OVER:
                raise Refused(400, {"error": "This workflow step has already been approved or denied."})
            row["status"] = "successful" if what == "approve" else "failed"
            return None
        if what == "credentials":
            return self.associate(self.one(kind, number).setdefault("credentials", []), body, "credentials")
        if what == "workflow_nodes":
            self.check("workflow_nodes", body, False)
            if any(row["identifier"] == body["identifier"] for row in self.nodes_of(int(number))):
                raise Refused(400, {"identifier": ["not unique"]})
            fields = dict({name: [] for name in EDGES}, **body)
            return self.add("workflow_nodes", dict(fields, workflow_job_template=int(number)))
        if kind == "workflow_job_template_nodes" and what in EDGES:
            return self.associate(self.one("workflow_nodes", number)[what], body, "workflow_nodes")
        if kind == "workflow_job_template_nodes" and what == "create_approval_template":
            row = self.one("workflow_nodes", number)
            row["unified_job_template"] = self.add("workflow_approval_templates", body)["id"]
            return {}
        raise Refused(404, {"detail": "Not found."})

    def launch(self, kind, template, body):
        """A job or a workflow of a template. What its questions do not ask for is ignored, as AWX does."""
        job = (
            self.launcher.launch_workflow(template, body)
            if kind == "workflow_job_templates"
            else self.launcher.launch_job(template, body)
        )
        reported = self.shown(job["type"] + "s", {name: value for name, value in job.items() if name != "type"})
        return dict(reported, **{job["type"]: job["id"], "ignored_fields": {}})

    def associate(self, numbers, body, kind):
        self.one(kind, body["id"])
        if body.get("disassociate"):
            numbers.remove(body["id"])
        elif body["id"] not in numbers:
            numbers.append(body["id"])

    def patch(self, parts, body):
        kind = "workflow_nodes" if parts[0] == "workflow_job_template_nodes" else parts[0]
        row = self.one(kind, parts[1])
        self.check(kind, body, False)
        row.update(body)
        return self.shown(kind, row)

    def delete(self, parts):
        kind = "workflow_nodes" if parts[0] == "workflow_job_template_nodes" else parts[0]
        self.one(kind, parts[1])
        del self.rows[kind][int(parts[1])]


def event_shown(event):
    """An event of ansible-runner with the fields that AWX takes out of it."""
    data = event.get("event_data") or {}
    shown = {
        "counter": event["counter"],
        "event": event["event"],
        "event_data": data,
        "host_name": data.get("host", ""),
        "task": data.get("task", ""),
        "play": data.get("play", ""),
        "stdout": event.get("stdout", ""),
    }
    return dict(shown, id=event["counter"], failed=event["event"] in ("runner_on_failed", "runner_on_unreachable"))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, method):
        state = self.server.state
        url = urllib.parse.urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size) or b"null")
        with state.lock:
            try:
                status, reported = self.route(state, method, url, body)
            except Refused as refused:
                status, reported = refused.status, refused.body
        data = b"" if reported is None else json.dumps(reported).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def route(self, state, method, url, body):
        if url.path == "/_double":
            if method == "POST":
                for kind, rows in body.get("add", {}).items():
                    for row in rows:
                        state.add(kind, row)
                for kind, names in body.get("remove", {}).items():
                    state.rows[kind] = {
                        number: row for number, row in state.rows[kind].items() if row["name"] not in names
                    }
                    for row in state.rows.get("job_templates", {}).values():
                        row["credentials"] = [
                            number
                            for number in row.get("credentials", [])
                            if kind != "credentials" or number in state.rows[kind]
                        ]
                state.updates = body.get("updates", state.updates)
                state.gateway = body.get("gateway", state.gateway)
                for number, field, others in body.get("edges", []):
                    state.one("workflow_nodes", number)[field] = others
                return 200, {}
            rows = {
                kind: {
                    number: state.shown(kind, row) if kind in ("jobs", "workflow_jobs") else row
                    for number, row in found.items()
                }
                for kind, found in state.rows.items()
            }
            return 200, {"rows": rows, "surveys": state.surveys, "log": state.log}
        if self.headers.get("Authorization") != "Bearer " + state.token:
            raise Refused(401, {"detail": "Authentication credentials were not provided."})
        state.log.append([method, url.path])
        root = "/api/controller/v2/" if state.gateway else "/api/v2/"
        if url.path == "/api/" and state.gateway:
            return 200, {"apis": {"gateway": "/api/gateway/", "controller": "/api/controller/"}}
        if url.path == root[: -len("v2/")]:
            return 200, {"description": "AWX REST API", "current_version": root, "available_versions": {"v2": root}}
        if not url.path.startswith(root) or not url.path.endswith("/"):
            raise Refused(404, {"detail": "Not found."})
        parts = url.path[len(root) : -1].split("/")
        if method == "GET":
            return 200, state.get(parts, dict(urllib.parse.parse_qsl(url.query)))
        if method == "POST":
            reported = state.post(parts, body)
            return (204, None) if reported is None else (201, reported)
        if method == "PATCH":
            return 200, state.patch(parts, body)
        state.delete(parts)
        return 204, None

    def do_GET(self):
        self.answer("GET")

    def do_POST(self):
        self.answer("POST")

    def do_PATCH(self):
        self.answer("PATCH")

    def do_DELETE(self):
        self.answer("DELETE")

    def log_message(self, *unused):
        pass


def main(port_file, token, folder="", programs="", *prefix):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.state = State(token, Runner(folder, programs, prefix) if folder else None)
    with pathlib.Path(port_file + ".new").open("w", encoding="ascii") as file:
        file.write(str(server.server_address[1]))
    pathlib.Path(port_file + ".new").replace(port_file)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
