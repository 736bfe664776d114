# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loading AWX objects through AWX's own API: every kind listed once, only differences written, only marked objects touched."""

from __future__ import annotations

import re
import time
import typing as t

from ..._io.json_api import ApiFailed, JsonApi, Manners, segment
from ..._kubernetes.clusters import seconds_of
from ..._plan.awx_records import KINDS, Record, differing, is_owned, records, same_survey
from ..._plan.plan import Plan
from ..._values.refused import ValueRefused, quoted
from ..._values.text import mapping

Data = dict[str, t.Any]
PAGE = 200
_PAGES = 500
#: AWX updates a new project by itself, and takes templates of its playbooks when that was successful once.
PROJECT_SECONDS, _ASK_EVERY = 300.0, 2.0
_FAILED = ("failed", "error", "canceled", "missing")
_EDGES = {"success": "success_nodes", "failure": "failure_nodes", "always": "always_nodes"}
#: A path of the same server; what it returns leads nowhere else.
_PATH = re.compile(r"/api/(?:[A-Za-z0-9_-]+/)*\Z")
#: Kinds that are only read: people make them, since they hold secrets or rights.
_READ_ONLY = {"credentials": "/credentials/", "organizations": "/organizations/"}


def _text(body: t.Any) -> str:
    if isinstance(body, dict) and "detail" in body:
        return str(body["detail"])
    return "; ".join(f"{name}: {value}" for name, value in body.items()) if isinstance(body, dict) else ""


MANNERS = Manners(
    _text,
    lambda status, method, path: {401: "unauthorized", 403: "forbidden", 404: "not_found"}.get(status or 0, "api"),
    lambda status, method: method == "GET" and (status is None or status == 429 or status >= 500),
)


def run(request: t.Mapping[str, t.Any], check: bool) -> Data:
    """The module's result. ``request``: the module's options. Raises ValueError when AWX cannot be read at all."""
    begun = time.monotonic()
    for option, variable, environment in (
        ("url", "awx_load_url", "CONTROLLER_HOST or AAP_HOSTNAME"),
        ("token", "awx_load_token", "CONTROLLER_OAUTH_TOKEN or AAP_TOKEN"),
    ):
        if not str(request.get(option) or "").strip():
            message = "{0} is empty: give the playbook awx.load the variable {1}, or set {2} in its environment"
            raise ValueRefused(option + "_missing", message.format(option, variable, environment))
    api = _api(request, "")
    asked, api = api, _api(request, _root(api))
    api.calls = asked.calls
    desired = records(request.get("data") or {}, request.get("surveys") or {}, request.get("site") or {})
    loader = _Loader(api, request, check)
    loader.read()
    if request.get("state", "present") == "absent":
        loader.remove(desired)
    else:
        for record in desired:
            loader.converge(record)
    result = loader.plan.result()
    result.update(
        diff=loader.plan.diff(),
        failures=loader.failures,
        stats={"requests": api.calls, "seconds": round(time.monotonic() - begun, 3)},
    )
    return result


def _api(request: t.Mapping[str, t.Any], path: str) -> JsonApi:
    return JsonApi(
        request["url"].rstrip("/") + path,
        {"Authorization": "Bearer " + request["token"]},
        MANNERS,
        plain_http=bool(request.get("allow_plain_http")),
        total_s=seconds_of(request),
    )


def _root(api: JsonApi) -> str:
    """The path of version 2 below the server's address, as the server reports it: ``/api/v2`` of AWX, ``/api/controller/v2`` behind AAP's gateway."""
    found = api.call("GET", "/api/", missing_ok=True)
    controller = str(mapping(found, "apis").get("controller"))
    if _PATH.match(controller):
        found = api.call("GET", controller, missing_ok=True)
    said = str(mapping(found, "available_versions").get("v2"))
    return said.rstrip("/") if _PATH.match(said) else "/api/v2"


class _Loader:
    def __init__(self, api: JsonApi, request: t.Mapping[str, t.Any], check: bool) -> None:
        self.api, self.check = api, check
        self.adopt = bool(request.get("adopt"))
        self.organization = str(request["organization"])
        self.plan = Plan()
        self.failures: list[Data] = []
        self.found: dict[str, dict[str, Data]] = {}
        self.organization_id: t.Any = None
        self._wait = float(request.get("project_wait") or PROJECT_SECONDS)
        self._projects: dict[str, str] = {}

    def read(self) -> None:
        """Every kind, once and completely."""
        organizations = self._all(_READ_ONLY["organizations"], {"name": self.organization})
        if not organizations:
            raise ValueError(f"there is no organization {self.organization!r} in AWX that this token may see")
        self.organization_id = organizations[0]["id"]
        for kind in KINDS:
            rows = self._all(kind.path, {"organization": self.organization_id} if kind.in_organization else {})
            if kind.name == "job_templates":
                rows = [row for row in rows if row.get("organization") in (None, self.organization_id)]
            self.found[kind.name] = {str(row["name"]): row for row in rows}
        self.found["credentials"] = {str(row["name"]): row for row in self._all(_READ_ONLY["credentials"], {})}

    def _all(self, path: str, query: t.Mapping[str, t.Any]) -> list[Data]:
        rows: list[Data] = []
        for page in range(1, _PAGES):
            answer = self.api.call("GET", path, dict(query, page_size=PAGE, page=page, order_by="id"))
            if not isinstance(answer, dict) or not isinstance(answer.get("results"), list):
                raise ValueError(f"GET {path}: the answer is no list")
            rows += [
                row
                for row in answer["results"]
                if isinstance(row, dict) and "id" in row and "name" in row or path.endswith("workflow_nodes/")
            ]
            if not answer.get("next"):
                return rows
        raise ValueError(f"GET {path}: more than {_PAGES} pages")

    def converge(self, record: Record) -> None:
        """One object with what belongs to it. A failure is noted, and the rest goes on."""
        try:
            self._converge(record)
        except ApiFailed as error:
            self._failed("load", record, error)

    def _failed(self, verb: str, record: Record, error: ApiFailed) -> None:
        operation = f"{verb} {record.kind.title} {record.name}"
        self.failures.append(
            {
                "object": record.name,
                "operation": operation,
                "reason": error.reason,
                "message": error.message,
                "status": error.status,
            }
        )

    def _converge(self, record: Record) -> None:
        label = f"{record.kind.title} {record.name}"
        actual = self.found[record.kind.name].get(record.name)
        if actual is not None and not is_owned(actual) and not self.adopt:
            return self.plan.refuse(
                label, "not_ours", "exists and was not loaded by this collection; adopt: true takes it over"
            )
        ids: Data = {}
        for field, name in record.refs.items():
            other = self.found[record.kind.refs[field]].get(name)
            if other is None:
                return self.plan.refuse(label, "reference_missing", f"there is no {field} {name}")
            ids[field] = other["id"]
        missing = [
            name for name in record.credentials if name not in self.found["credentials"] and name not in record.optional
        ]
        if missing:
            return self.plan.refuse(label, "reference_missing", f"there is no credential {', '.join(missing)}")
        if actual is None:
            unready = self._unready(record)
            if unready:
                return self.plan.refuse(label, "project_not_updated", unready)
            body = dict(record.fields, **ids)
            if record.kind.in_organization:
                body["organization"] = self.organization_id
            self.plan.create(record.kind.title, record.name, _shown(record, ids))
            actual = dict(body, id=None) if self.check else self.api.call("POST", record.kind.path, None, body)
            self.found[record.kind.name][record.name] = actual
            self._apart(record, actual, True)
            return None
        changes = differing(record, ids, actual)
        if changes:
            self.plan.update(record.kind.title, record.name, {name: actual.get(name) for name in changes}, changes)
            if not self.check:
                self.api.call("PATCH", f"{record.kind.path}{actual['id']}/", None, changes)
        if not self._apart(record, actual, False) and not changes:
            self.plan.unchanged += 1
        return None

    def _unready(self, record: Record) -> str:
        """Why AWX would not know the template's playbook yet, empty where it does. A new project is waited for, once."""
        name = record.refs.get("project", "")
        project = self.found["projects"].get(name) or {}
        if record.kind.name != "job_templates" or project.get("id") is None:
            return ""
        if name not in self._projects:
            self._projects[name] = self._updated(name, project["id"])
        return self._projects[name]

    def _updated(self, name: str, number: t.Any) -> str:
        deadline = time.monotonic() + self._wait
        while True:
            project = self.api.call("GET", f"/projects/{segment(number)}/")
            status = str(project.get("status")) if isinstance(project, dict) else ""
            if status in ("successful", "ok") or (isinstance(project, dict) and project.get("scm_revision")):
                return ""
            if status in _FAILED:
                text = "the first update of project {0} ended as {1}, so AWX knows none of its playbooks; look at that job, and at awx_load_scm_url, "
                return (
                    text.format(name, quoted(status))
                    + "awx_load_scm_branch and the execution environment of AWX's control plane; then load again"
                )
            if self.check or time.monotonic() >= deadline:
                text = "the first update of project {0} has not ended ({1}), so AWX knows none of its playbooks; load again when it has"
                return "" if self.check else text.format(name, quoted(status))
            time.sleep(_ASK_EVERY)

    def _apart(self, record: Record, actual: Data, fresh: bool) -> bool:
        """Survey, credentials and nodes. True when something differed."""
        base = f"{record.kind.path}{actual['id']}/"
        parts = [
            self._survey(record, base, fresh),
            self._credentials(record, base, actual, fresh),
            self._nodes(record, base, fresh),
        ]
        return any(parts)

    def _survey(self, record: Record, base: str, fresh: bool) -> bool:
        if record.survey is None:
            return False
        before = None if fresh else self.api.call("GET", base + "survey_spec/")
        if not fresh and same_survey(record.survey, before):
            return False
        if not fresh:
            self.plan.update("survey", record.name, before or {}, dict(record.survey))
        if not self.check:
            self.api.call("POST", base + "survey_spec/", None, record.survey)
        return True

    def _credentials(self, record: Record, base: str, actual: Data, fresh: bool) -> bool:
        if record.kind.name != "job_templates":
            return False
        before = (
            {}
            if fresh
            else {row["name"]: row["id"] for row in (actual.get("summary_fields") or {}).get("credentials") or ()}
        )
        desired = {
            name: self.found["credentials"][name]["id"]
            for name in record.credentials
            if name in self.found["credentials"]
        }
        if before == desired:
            return False
        if not fresh:
            self.plan.update("credentials", record.name, sorted(before), sorted(desired))
        if not self.check:
            for name, number in before.items():
                if name not in desired:
                    self.api.call("POST", base + "credentials/", None, {"id": number, "disassociate": True})
            for name, number in desired.items():
                if name not in before:
                    self.api.call("POST", base + "credentials/", None, {"id": number})
        return True

    def _nodes(self, record: Record, base: str, fresh: bool) -> bool:
        if record.kind.name != "workflow_job_templates":
            return False
        if fresh and self.check:
            return True
        before = {str(row.get("identifier")): row for row in self._all(base + "workflow_nodes/", {})}
        desired = {str(node["identifier"]): node for node in record.nodes}
        changed = False
        for name in sorted(set(before) - set(desired)):
            changed = self._node_write(
                record, fresh, "-" + name, "DELETE", f"/workflow_job_template_nodes/{before.pop(name)['id']}/", None
            )
        for name, node in desired.items():
            changed = self._node(record, fresh, base, name, node, before) or changed
        for name, node in desired.items():
            changed = self._edges(record, fresh, name, node, before) or changed
        return changed

    def _node(self, record: Record, fresh: bool, base: str, name: str, node: Data, before: dict[str, Data]) -> bool:
        approval = node.get("approval")
        job = None if approval else (self.found["job_templates"].get(node["job_template"]) or {}).get("id")
        changed = False
        if name not in before:
            body = {"identifier": name} if job is None else {"identifier": name, "unified_job_template": job}
            changed = self._node_write(record, fresh, "+" + name, "POST", base + "workflow_nodes/", body)
            before[name] = self._last if changed and not self.check else {"id": None, "summary_fields": {}}
        elif job is not None and before[name].get("unified_job_template") != job:
            path = f"/workflow_job_template_nodes/{before[name]['id']}/"
            changed = self._node_write(record, fresh, "~" + name, "PATCH", path, {"unified_job_template": job})
        there = (before[name].get("summary_fields") or {}).get("unified_job_template") or {}
        if approval and any(there.get(key) != value for key, value in approval.items() if key != "timeout"):
            path = f"/workflow_job_template_nodes/{before[name]['id']}/create_approval_template/"
            changed = self._node_write(record, fresh, "~" + name, "POST", path, dict(approval))
        return changed

    def _edges(self, record: Record, fresh: bool, name: str, node: Data, before: t.Mapping[str, Data]) -> bool:
        changed = False
        for edge, field in _EDGES.items():
            path = f"/workflow_job_template_nodes/{before[name]['id']}/{field}/"
            has = set(before[name].get(field) or ())
            desired = {before[other]["id"] for other in node.get(edge) or ()}
            for number in sorted(has - desired):
                changed = self._node_write(
                    record, fresh, f"{name} -{edge}-> {number}", "POST", path, {"id": number, "disassociate": True}
                )
            for number in desired - has:
                changed = self._node_write(record, fresh, f"{name} -{edge}-> {number}", "POST", path, {"id": number})
        return changed

    def _node_write(self, record: Record, fresh: bool, what: str, method: str, path: str, body: Data | None) -> bool:
        if not fresh:
            self.plan.update("workflow node", f"{record.name}: {what}", None, body)
        self._last = None if self.check else self.api.call(method, path, None, body)
        return True

    _last: t.Any = None

    def remove(self, desired: t.Sequence[Record]) -> None:
        """What the data name and we loaded, in the reverse order."""
        for record in reversed(desired):
            actual = self.found[record.kind.name].get(record.name)
            if actual is None:
                self.plan.unchanged += 1
                continue
            label = f"{record.kind.title} {record.name}"
            if not is_owned(actual):
                self.plan.refuse(label, "not_ours", "was not loaded by this collection")
                continue
            self.plan.delete(record.kind.title, record.name, {"name": record.name})
            if not self.check:
                try:
                    self.api.call("DELETE", f"{record.kind.path}{segment(actual['id'])}/", missing_ok=True)
                except ApiFailed as error:
                    self._failed("remove", record, error)


def _shown(record: Record, ids: t.Mapping[str, t.Any]) -> Data:
    """For the diff: names instead of numbers, and what is set apart."""
    shown = dict(record.fields, **{name: record.refs[name] for name in ids})
    if record.survey is not None:
        shown["survey"] = [item.get("variable") for item in record.survey.get("spec") or ()]
    if record.credentials:
        shown["credentials"] = record.credentials
    if record.nodes:
        shown["nodes"] = [node.get("identifier") for node in record.nodes]
    return shown
