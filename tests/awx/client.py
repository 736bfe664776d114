# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running AWX as its API shows it: lists, launches, what became of a job and what it said."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

OVER = ("successful", "failed", "error", "canceled")


class Awx:
    def __init__(self, url, token, patience=1800.0):
        self.url, self.token, self.patience = url.rstrip("/"), token, patience

    def call(self, path, body=None, **query):
        """The answer to a GET, or to a POST where there is a body. path: below /api/v2/."""
        address = f"{self.url}/api/v2/{path}" + ("?" + urllib.parse.urlencode(query) if query else "")
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"}
        try:
            with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.code} {path}: {error.reason} {error.read()[:2000]}") from None
        return json.loads(text) if text else {}

    def rows(self, path, **query):
        """All rows of a list."""
        found, page = [], 1
        while True:
            answer = self.call(path, page=page, page_size=100, **query)
            found += answer["results"]
            if not answer.get("next"):
                return found
            page += 1

    def named(self, path, name):
        """The one object of a name."""
        found = [row for row in self.rows(path, name=name) if row["name"] == name]
        assert len(found) == 1, f"AWX has {len(found)} of {path} {name!r}"
        return found[0]

    def launch(self, kind, name):
        """(kind, number) of the job that was launched: a template with slices makes a workflow job."""
        made = self.call(f"{kind}/{self.named(kind + '/', name)['id']}/launch/", {})
        found = "workflow_jobs" if made.get("workflow_job") else "jobs"
        return found, made["id"]

    def wait(self, kind, number, until=OVER):
        """The job, when its status is one of these."""
        deadline = time.monotonic() + self.patience
        while True:
            job = self.call(f"{kind}/{number}/")
            if job["status"] in until:
                return job
            assert time.monotonic() < deadline, f"{kind} {number} is still {job['status']} after {self.patience:g} s"
            time.sleep(1)

    def nodes(self, number):
        """{identifier, or number where it has none: node} of a workflow that was launched."""
        return {row["identifier"] or row["id"]: row for row in self.rows(f"workflow_jobs/{number}/workflow_nodes/")}

    def events(self, number):
        """Events of a job in their order."""
        return sorted(self.rows(f"jobs/{number}/job_events/"), key=lambda event: event["counter"])

    def said(self, number):
        """Everything that a job printed, on one line."""
        return " ".join(" ".join(event["stdout"] for event in self.events(number)).split())

    def hosts_of(self, number):
        """Hosts on which a job ran a task."""
        return sorted(
            {
                event["host_name"]
                for event in self.events(number)
                if event["event"].startswith("runner_on_") and event["host_name"]
            }
        )

    def load(self, site, *arguments):
        """The playbook that loads all objects; what it printed. The token is in no argument."""
        extra = dict({"awx_load_url": self.url, "awx_load_allow_plain_http": self.url.startswith("http:")}, **site)
        done = subprocess.run(
            [
                "ansible-playbook",
                "-i",
                "localhost,",
                "multicluster.network.awx.load",
                "-e",
                json.dumps(extra),
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=dict(os.environ, ANSIBLE_NOCOLOR="1", CONTROLLER_OAUTH_TOKEN=self.token),
        )
        return done.returncode, done.stdout + done.stderr
