# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The AWX data keeps the rules that AWX checks when it takes them, and every answer reaches the argument that it claims.

The rules are those of AWX's own validation: JSON schema and templates of credential types, items of survey specifications,
fields of templates and nodes, recurrence rules of schedules.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess

import jinja2
import jinja2.sandbox
import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import awx_data
from ansible_collections.multicluster.network.plugins.module_utils._plan import awx_records

REPO = pathlib.Path(__file__).resolve().parents[3]
AWX = REPO / "playbooks" / "files" / "awx"
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
TYPES = {
    "text": str,
    "textarea": str,
    "password": str,
    "multiplechoice": str,
    "multiselect": str,
    "integer": int,
    "float": float,
}
SURVEYS = sorted(path.stem for path in (AWX / "surveys").glob("*.yml"))
JOB_FIELDS = {
    "name",
    "description",
    "job_type",
    "inventory",
    "project",
    "playbook",
    "execution_environment",
    "forks",
    "limit",
    "verbosity",
    "extra_vars",
    "job_tags",
    "skip_tags",
    "timeout",
    "diff_mode",
    "allow_simultaneous",
    "become_enabled",
    "job_slice_count",
    "ask_limit_on_launch",
    "ask_tags_on_launch",
    "ask_skip_tags_on_launch",
    "ask_diff_mode_on_launch",
    "ask_verbosity_on_launch",
    "ask_variables_on_launch",
}
OWN_KEYS = {"survey", "credentials", "optional_credentials", "sliced"}


def load(name):
    return yaml.safe_load((AWX / (name + ".yml")).read_text())


def names(kind):
    return [row["name"] for row in load(kind)]


# --- credential types ---------------------------------------------------------------------------------------------


def check_inputs(inputs):
    assert set(inputs) <= {"fields", "required"}
    ids = [field["id"] for field in inputs["fields"]]
    assert len(ids) == len(set(ids)) and "tower" not in ids and set(inputs.get("required", [])) <= set(ids)
    for field in inputs["fields"]:
        assert set(field) <= {
            "id",
            "label",
            "type",
            "format",
            "choices",
            "help_text",
            "multiline",
            "secret",
            "ask_at_runtime",
            "default",
        }
        assert NAME.match(field["id"]) and isinstance(field["label"], str)
        assert field.get("type", "string") in ("string", "boolean") and field.get("format", "url") in (
            "ssh_private_key",
            "url",
        )
        if field.get("type") == "boolean":
            assert not {"choices", "multiline", "format", "secret"} & set(field)
        if "default" in field:
            assert isinstance(field["default"], {"string": str, "boolean": bool}[field.get("type", "string")])
    return ids


def check_injectors(injectors, ids):
    assert set(injectors) <= {"file", "env", "extra_vars"}
    files = injectors.get("file", {})
    assert all(re.match(r"template(\.[a-zA-Z_][a-zA-Z0-9_]*)?\Z", name) for name in files)
    assert "template" not in files or len(files) == 1
    filename = "FILE" if "template" in files else {name.split(".", 1)[1]: "FILE" for name in files}
    known = dict(dict.fromkeys(ids, "EXAMPLE"), tower={"filename": filename})
    for part, rows in injectors.items():
        for name, template in rows.items():
            if part == "env":
                assert NAME.match(name) and not name.startswith("ANSIBLE_") and template.isascii()
            jinja2.sandbox.ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined).from_string(template).render(
                known
            )


def test_credential_types():
    for row in load("credential_types"):
        assert set(row) <= {"name", "description", "kind", "inputs", "injectors"} and row["kind"] in ("cloud", "net")
        ids = check_inputs(row["inputs"])
        check_injectors(row["injectors"], ids)
        used = json.dumps(row["injectors"])
        assert all(re.search(rf"\b{name}\b", used) for name in ids), "a field that reaches nothing"
        assert "extra_vars" not in row["injectors"], "extra variables are shown in a job's details"
        secret = {field["id"] for field in row["inputs"]["fields"] if field.get("secret")}
        assert secret & set(row["inputs"]["required"])


@pytest.mark.parametrize(
    "inputs, injectors",
    [
        ({"fields": [{"id": "tower", "label": "x"}]}, {}),
        ({"fields": [{"id": "a", "label": "x"}, {"id": "a", "label": "y"}]}, {}),
        ({"fields": [{"id": "a", "label": "x", "type": "boolean", "secret": True}]}, {}),
        ({"fields": [{"id": "a"}]}, {}),
        ({"fields": [{"id": "a", "label": "x"}]}, {"env": {"ANSIBLE_CONFIG": "{{ a }}"}}),
        ({"fields": [{"id": "a", "label": "x"}]}, {"env": {"A": "{{ b }}"}}),
        ({"fields": [{"id": "a", "label": "x"}]}, {"file": {"template": "", "template.b": ""}}),
        ({"fields": [{"id": "a", "label": "x"}]}, {"env": {"A": "{{ tower.filename.b }}"}, "file": {"template.c": ""}}),
    ],
)
def test_the_check_of_credential_types_refuses_what_awx_refuses(inputs, injectors):
    with pytest.raises((AssertionError, KeyError, jinja2.UndefinedError)):
        check_injectors(injectors, check_inputs(inputs))


# --- surveys ------------------------------------------------------------------------------------------------------


def check_survey(survey):
    assert set(survey) == {"name", "description", "spec"} and isinstance(survey["spec"], list) and survey["spec"]
    seen = [item["variable"] for item in survey["spec"]]
    assert len(seen) == len(set(seen))
    for item in survey["spec"]:
        assert {"type", "question_name", "variable", "required"} <= set(item)
        assert set(item) <= {
            "type",
            "question_name",
            "question_description",
            "variable",
            "required",
            "default",
            "choices",
            "min",
            "max",
        }
        assert item["type"] in TYPES and isinstance(item["required"], bool) and NAME.match(item["variable"])
        for name in ("min", "max"):
            assert isinstance(item.get(name, 0), int)
        assert item.get("min", 0) <= item.get("max", item.get("min", 0))
        default = item["default"]  # a question without one breaks launching and editing
        if item["type"] in ("multiplechoice", "multiselect"):
            assert (
                isinstance(item["choices"], list)
                and item["choices"]
                and all(isinstance(one, str) and one for one in item["choices"])
            )
            picked = default.split("\n") if item["type"] == "multiselect" else [default]
            assert all(one in item["choices"] for one in picked if one)
        else:
            assert "choices" not in item
        if default != "":
            assert isinstance(default, TYPES[item["type"]]) and item["type"] != "password"
            size = default if isinstance(default, (int, float)) else len(default)
            assert item["type"].startswith("multi") or item.get("min", size) <= size <= item.get("max", size)
        else:
            assert not item["required"]


@pytest.mark.parametrize("name", SURVEYS)
def test_surveys(name):
    survey = yaml.safe_load((AWX / "surveys" / (name + ".yml")).read_text())
    check_survey(survey)
    assert all(item["variable"].startswith("awx_") for item in survey["spec"])


@pytest.mark.parametrize(
    "change",
    [
        {"type": "boolean"},
        {"variable": "a.b"},
        {"required": "yes"},
        {"min": "1"},
        {"type": "multiplechoice"},
        {"default": 5},
        {"type": "multiplechoice", "choices": ["a"], "default": "b"},
        {"type": "integer", "default": "5"},
        {"choices": ["a"]},
        {"nonsense": 1},
        {"min": 9, "max": 2},
        {"type": "integer", "default": 9, "max": 5},
        {"required": True},
    ],
)
def test_the_check_of_surveys_refuses_what_awx_refuses(change):
    good = {"type": "text", "question_name": "q", "variable": "awx_q", "required": False, "default": ""}
    check_survey({"name": "n", "description": "d", "spec": [good]})
    with pytest.raises((AssertionError, KeyError)):
        check_survey({"name": "n", "description": "d", "spec": [dict(good, **change)]})


# --- what answers become ------------------------------------------------------------------------------------------


def questions():
    found = {}
    for name in SURVEYS:
        for item in yaml.safe_load((AWX / "surveys" / (name + ".yml")).read_text())["spec"]:
            assert found.setdefault(item["variable"], item) == item, "one variable, two questions"
    return found


def argument(role, name):
    """The option of the role's argument specification."""
    specs = yaml.safe_load((REPO / "roles" / role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    return specs["main" if "main" in specs else sorted(specs)[0]]["options"][name]


def test_every_question_has_a_target_of_its_kind():
    mapping = load("mapping")
    assert set(mapping) == set(questions())
    for variable, item in questions().items():
        row = mapping[variable]
        option = argument(row["role"], row["argument"])
        desired = {"choice": "str"}.get(row["type"], row["type"])
        assert option["type"] in (desired, "raw"), (variable, option)
        if row["type"] == "choice":
            assert item["choices"] == ["inventory", *option["choices"]], variable
        if row["type"] == "bool":
            assert item["choices"] == ["inventory", "yes", "no"]


def answers():
    """variable -> (what AWX hands over, what the role gets); the kinds of answers differ from the roles' types."""
    found = {}
    for variable, item in questions().items():
        kind = load("mapping")[variable]["type"]
        if item["type"] == "multiplechoice":
            given = item["choices"][-1]
            found[variable] = (given, given == "yes" if kind == "bool" else given)
        elif item["type"] == "multiselect":
            found[variable] = (item["choices"][:2], item["choices"][:2])
        elif item["type"] == "integer":
            found[variable] = (item["min"], float(item["min"]) if kind == "float" else item["min"])
        elif kind == "list":
            found[variable] = ("aws, gcp,", ["aws", "gcp"])
        elif kind == "dict":
            found[variable] = ("aws: a\ngcp: g\n", {"aws": "a", "gcp": "g"})
        else:
            found[variable] = ("some-text=1", "some-text=1")
    return found


def played(tmp_path, extra):
    """host -> role variable -> value after the mapping, as a real run has them; absent where the survey left it to the inventory."""
    arguments = sorted(row["argument"] for row in load("mapping").values())
    shown = ", ".join(f"'{name}': {name} | default('not set')" for name in arguments)
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump(
            [
                {"name": "Map", "ansible.builtin.import_playbook": "multicluster.network.awx.survey"},
                {
                    "name": "Show",
                    "hosts": "all",
                    "gather_facts": False,
                    "tasks": [
                        {
                            "name": "Show",
                            "ansible.builtin.debug": {
                                "msg": "ROW {{ inventory_hostname }} {{ {" + shown + "} | to_json }}"
                            },
                        },
                    ],
                },
            ]
        )
    )
    inventory = {
        "all": {
            "hosts": {"a": {}, "b": {"service_mirror_namespace": "of-the-inventory"}},
            "vars": {"ansible_connection": "local"},
        }
    }
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    done = subprocess.run(
        ["ansible-playbook", "-i", str(tmp_path / "hosts.yml"), str(tmp_path / "play.yml"), "-e", json.dumps(extra)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ, ANSIBLE_NOCOLOR="1", ANSIBLE_STDOUT_CALLBACK="ansible.builtin.minimal"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {}
    for text in re.findall(r'"msg": ("ROW .*")', done.stdout):
        host, data = json.loads(text)[4:].split(" ", 1)
        rows[host] = json.loads(data)
    assert sorted(rows) == ["a", "b"], done.stdout
    return rows


def test_every_answer_reaches_its_argument(tmp_path):
    given = answers()
    rows = played(tmp_path, {variable: row[0] for variable, row in given.items()})
    for variable, (unused, desired) in given.items():
        name = load("mapping")[variable]["argument"]
        for host in rows:
            found = rows[host][name]
            if isinstance(desired, (int, float)) and not isinstance(desired, bool) and isinstance(found, str):
                found = type(desired)(
                    found
                )  # before ansible-core 2.19 templates give text; roles make numbers of it themselves
            assert found == desired and type(found) is type(desired), (variable, found)


@pytest.mark.parametrize(
    "extra",
    [{}, {variable: item["default"] for variable, item in questions().items()}],
    ids=["no answers", "all defaults"],
)
def test_an_empty_answer_leaves_it_to_the_inventory(tmp_path, extra):
    rows = played(tmp_path, extra)
    assert rows["b"].pop("service_mirror_namespace") == "of-the-inventory"
    assert {value for row in rows.values() for value in map(str, row.values())} == {"not set"}


# --- templates, workflow, schedules, inventory --------------------------------------------------------------------


def test_job_templates_and_their_twins():
    rows = {row["name"]: row for row in load("job_templates")}
    assert len(rows) == len(load("job_templates"))
    types = set(names("credential_types"))
    for name, row in rows.items():
        assert set(row) <= JOB_FIELDS | OWN_KEYS and row["job_type"] in ("run", "check") and len(name) <= 512
        assert row["inventory"] in names("inventories") and row["project"] in names("projects")
        assert row["execution_environment"] in names("execution_environments")
        assert (REPO / row["playbook"]).is_file() and row["allow_simultaneous"] is False
        assert row.get("survey") is None or row["survey"] in SURVEYS
        assert len(row["credentials"]) == len(set(row["credentials"])) <= len(types), (
            "a job takes one credential of a type"
        )
        if row["job_type"] == "check":
            twin = rows[name[: -len(" / check")]]
            assert twin["job_type"] == "run" and row["diff_mode"] is True
            same = {
                "playbook",
                "inventory",
                "project",
                "execution_environment",
                "credentials",
                "extra_vars",
                "ask_limit_on_launch",
            }
            assert {key: row[key] for key in same} == {key: twin[key] for key in same} and row.get(
                "survey"
            ) == twin.get("survey")
        elif row.get("survey"):
            assert name + " / check" in rows, "no preview of it"


def test_the_workflow_shows_then_asks_then_changes():
    row = load("workflow_job_templates")[0]
    nodes = {node["identifier"]: node for node in row["nodes"]}
    jobs = {job["name"]: job for job in load("job_templates")}
    for node in nodes.values():
        assert set(node) <= {"identifier", "job_template", "approval", "success", "failure", "always"}
        assert ("job_template" in node) != ("approval" in node)
        assert node.get("job_template", next(iter(jobs))) in jobs
        for edge in ("success", "failure", "always"):
            assert set(node.get(edge, [])) <= set(nodes)
    order, now = [], "validate"
    while now:
        order.append(now)
        following = [other for edge in ("success", "always") for other in nodes[now].get(edge, [])]
        now = following[0] if following else None
    assert order == ["validate", "check", "approve", "converge", "verify"]
    assert (
        jobs[nodes["check"]["job_template"]]["job_type"] == "check"
        and jobs[nodes["converge"]["job_template"]]["job_type"] == "run"
    )
    assert (
        nodes["check"]["success"] == ["approve"]
        and nodes["approve"]["success"] == ["converge"]
        and "always" not in nodes["approve"]
    )
    assert set(nodes["approve"]["approval"]) <= {"name", "description", "timeout"}


RULE = re.compile(r"DTSTART:\d{8}T\d{6}Z RRULE:FREQ=(MINUTELY|HOURLY|DAILY|WEEKLY|MONTHLY|YEARLY);INTERVAL=[1-9]\d*\Z")


def test_schedules():
    jobs = names("job_templates")
    for row in load("schedules"):
        assert set(row) <= {"name", "description", "job_template", "rrule", "enabled", "extra_data"}
        assert row["job_template"] in jobs and RULE.match(row["rrule"]) and row["enabled"] is False


def test_the_inventory_source():
    for row in load("inventory_sources"):
        assert (
            row["source"] == "scm"
            and row["source_project"] in names("projects")
            and row["inventory"] in names("inventories")
        )
        assert row["execution_environment"] in names("execution_environments") and row["update_on_launch"] is True


@pytest.mark.parametrize(
    "option, words",
    [("url", ("awx_load_url", "CONTROLLER_HOST")), ("token", ("awx_load_token", "CONTROLLER_OAUTH_TOKEN"))],
)
@pytest.mark.parametrize("empty", ["", " "])
def test_what_is_missing_is_named_as_the_user_gives_it(option, words, empty):
    request = dict({"url": "https://awx.example.com", "token": "t", "organization": "Default"}, **{option: empty})
    with pytest.raises(ValueError) as error:
        awx_data.run(request, True)
    assert all(text in str(error.value) for text in words)


def test_the_workflow_in_slices_ends_whatever_fails_and_is_red_then():
    """Every path ends in the job that gives the lock back, which no other follows, so that its colour is the workflow's."""
    row = load("workflow_job_templates")[1]
    nodes = {node["identifier"]: node for node in row["nodes"]}
    jobs = {job["name"]: job for job in load("job_templates")}
    assert all(node["job_template"] in jobs for node in nodes.values()) and row["allow_simultaneous"] is False

    def following(name, good):
        return [other for edge in ("success" if good else "failure", "always") for other in nodes[name].get(edge, [])]

    order, now = [], ["plan"]
    while now:
        order += now
        now = following(now[0], True)
    assert order == ["plan", "converge", "publish", "news", "capabilities", "proof", "end"]
    for name in order[:-1]:
        reached, now = [], following(name, False)
        while now:
            reached += now
            now = following(now[0], True)
        assert reached[-1] == "end", name
    assert following("plan", False) == ["end"]
    assert {name for name, job in jobs.items() if job.get("sliced")} == {
        nodes["converge"]["job_template"],
        nodes["news"]["job_template"],
    }
    assert all("sliced" in job or job["job_slice_count"] == 1 for job in jobs.values())


@pytest.mark.parametrize("count", [1, 5])
def test_how_many_slices_a_job_has_is_what_was_asked_for(count):
    made = awx_records.records(
        {"job_templates": load("job_templates")}, {name: {} for name in SURVEYS}, {"slices": {"count": count}}
    )
    assert {row.fields["job_slice_count"] for row in made if row.name == "Multicluster / Slices / converge"} == {count}
    assert {row.fields["job_slice_count"] for row in made if "converge" not in row.name} == {1} and not any(
        "sliced" in row.fields for row in made
    )


@pytest.mark.parametrize("count", [0, -1, "two", True])
def test_a_number_of_slices_that_is_none_is_named(count):
    with pytest.raises(ValueError, match="awx_load_slices"):
        awx_records.records({"job_templates": []}, {}, {"slices": {"count": count}})
