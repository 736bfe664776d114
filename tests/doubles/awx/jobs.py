# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What AWX does with a job: updates its project and inventory, cuts its slice of hosts by name, injects credentials, runs it by ansible-runner.

Jobs are real ones: the project is a clone of a local repository (``file:///...``), the hosts come from ``ansible-inventory``, the playbook is run by
``ansible-runner`` of this machine, and the events are its own.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess

import jinja2.sandbox
from slices import sliced

GROUP_KEYS = ("hosts", "vars", "children")


class JobFailed(Exception):
    """Why a job did not even start, as AWX's field job_explanation has it."""


class Runner:
    """Runs jobs in folders of their own. prefix: words before every program, such as those that enter a network."""

    def __init__(self, folder, programs, prefix=()):
        self.folder, self.programs, self.prefix = pathlib.Path(folder), pathlib.Path(programs), list(prefix)

    def environment(self, more):
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "ANSIBLE_COLLECTIONS_PATH") if name in os.environ}
        return dict(
            kept, PATH=f"{self.programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", ANSIBLE_NOCOLOR="1", **more
        )

    def update_project(self, project):
        """A fresh clone. Raises JobFailed."""
        place = self.folder / "projects" / str(project["id"])
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        words = [
            "git",
            "clone",
            "--quiet",
            "--depth",
            "1",
            "--branch",
            project.get("scm_branch") or "main",
            project["scm_url"],
            str(place),
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise JobFailed(done.stderr.strip())
        return subprocess.run(
            ["git", "-C", str(place), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()

    def inject(self, credentials, place):
        """(variables of the environment) of the credentials, [(type, inputs)], with files that are made in the folder."""
        environment, sandbox = {}, jinja2.sandbox.ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number, (kind, inputs) in enumerate(credentials):
            names = {}
            for name, template in (kind["injectors"].get("file") or {}).items():
                short = name.partition(".")[2]
                names[short] = str(place / f"{number}-{short}")
                handle = os.open(names[short], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(sandbox.from_string(template).render(inputs) + "\n")
            defaults = {field["id"]: field.get("default", "") for field in kind["inputs"]["fields"]}
            values = dict(defaults, **inputs, tower={"filename": names})
            environment.update(
                {
                    name: sandbox.from_string(text).render(values)
                    for name, text in (kind["injectors"].get("env") or {}).items()
                }
            )
        return environment

    def update_inventory(self, source, credentials):
        """The tree of groups that the project's inventory has: {group: {hosts, vars, children}}. Raises JobFailed."""
        project = self.folder / "projects" / str(source["source_project"])
        environment = self.environment(self.inject(credentials, self.folder / "inventories" / str(source["id"])))
        done = subprocess.run(
            [*self.prefix, "ansible-inventory", "-i", str(project / source["source_path"]), "--list", "--export"],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=project,
        )
        if done.returncode:
            raise JobFailed(done.stderr.strip()[-2000:])
        return tree_of(json.loads(done.stdout))

    def prepare(self, job):
        """The job's own copy of its project, while nobody updates that."""
        shutil.copytree(
            self.folder / "projects" / str(job["project"]),
            self.folder / "jobs" / str(job["id"]) / "project",
            symlinks=True,
        )

    def run(self, job, tree, credentials, extra, started):
        """{status, artifacts, events} of one job: ``job`` with id, project, playbook, limit, job_type, diff_mode and its slice."""
        place = self.folder / "jobs" / str(job["id"])
        (place / "inventory").mkdir(mode=0o700)
        (place / "env").mkdir(mode=0o700)
        own = sliced(tree, job["job_slice_number"], job["job_slice_count"]) if job["job_slice_count"] > 1 else tree
        (place / "inventory" / "hosts.json").write_text(json.dumps(own))
        (place / "env" / "extravars").write_text(json.dumps(extra))
        environment = self.environment(
            dict(
                self.inject(credentials, place / "credentials"),
                JOB_ID=str(job["id"]),
                AWX_HOST="https://awx.example.com",
            )
        )
        words = [*self.prefix, "ansible-runner", "run", str(place), "-p", job["playbook"], "--ident", "job", "--quiet"]
        flags = (["--check"] if job["job_type"] == "check" else []) + (["--diff"] if job.get("diff_mode") else [])
        words += ["--cmdline=" + " ".join(flags)] if flags else []
        words += ["--limit", job["limit"]] if job.get("limit") else []
        process = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        started(process)
        process.wait()
        shutil.rmtree(place / "credentials")
        events = [json.loads(file.read_text()) for file in (place / "artifacts" / "job" / "job_events").glob("*.json")]
        events.sort(key=lambda event: event["counter"])
        artifacts = {}
        for event in events:
            artifacts.update((event.get("event_data") or {}).get("artifact_data") or {})
        good = (place / "artifacts" / "job" / "rc").is_file() and (
            place / "artifacts" / "job" / "rc"
        ).read_text().strip() == "0"
        return {"status": "successful" if good else "failed", "artifacts": artifacts, "events": events}


def tree_of(listed):
    """Groups with hosts, vars and children, out of what ``ansible-inventory --list`` prints."""
    variables = listed.pop("_meta", {}).get("hostvars", {})
    tree = {}
    for name, group in listed.items():
        tree[name] = {
            "hosts": {host: variables.get(host, {}) for host in group.get("hosts") or ()},
            "vars": group.get("vars") or {},
            "children": {child: {} for child in group.get("children") or ()},
        }
    return tree
