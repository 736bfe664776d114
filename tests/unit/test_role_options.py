# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every variable of every role arrives in its module as it was written: zero, false and what is empty too.

The roles' own tasks are read, and their arguments go through Ansible's templating and the module's own argument check. What
an inventory sets with ``max_deletes: 0`` must not become "no limit was given".
"""

from __future__ import annotations

import functools
import importlib
import pathlib
import typing as t

import jinja2
import jinja2.nodes
import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.multicluster.network.plugins.module_utils._module_variables import named, variables_of

try:
    from ansible.template import trust_as_template
except ImportError:  # before ansible-core 2.19 all text of a playbook was a template

    def trust_as_template(value):
        return value


ROLES = sorted((pathlib.Path(__file__).resolve().parents[2] / "roles").iterdir())
COLLECTION = "multicluster.network."
MODULES = pathlib.Path(__file__).resolve().parents[2] / "plugins" / "modules"
EMPTY: dict[str, t.Any] = {
    "int": 0,
    "float": 0,
    "bool": False,
    "str": "",
    "path": "",
    "list": [],
    "dict": {},
    "raw": "",
}
#: Arguments made of more than the variable, and why the empty value is not simply what arrives.
COMPOSED: dict[tuple[str, str], str] = {
    ("bgp_speaker", "state"): "a speaker without neighbours is none; the list itself is an argument too",
    ("layer2_speaker", "state"): "a node without a segment holds nothing; the segment is no argument",
    ("cluster_objects", "objects"): "manifests that are made of names",
    ("node_dataplane", "kubespan"): "settings of the node, to which the plan adds the rest",
    ("cluster_objects", "access"): "an account of several variables",
    ("cluster_objects", "node_pods"): "pods of several variables",
    ("cluster_objects", "kubeconfig_secrets"): "Secrets of several variables",
    ("cluster_objects", "clusters"): "chosen by the name of one of them",
    ("cluster_token", "service_account"): "a name that is joined of two parts",
    ("mesh_report", "full"): "a file needs every row",
    ("run_show", "accept"): "the verdicts that are accepted, by one variable",
    ("run_outcome", "capabilities"): "the run's own, and further columns",
    ("run_guard", "names"): "variables by their names",
    ("run_guard", "clusters"): "both sides",
    ("systemd_unit", "units"): "texts that are made of templates",
    ("systemd_unit", "reads"): "a path that has the name of the fabric",
    ("mesh_changes", "max_lost_pairs"): "its message names the variable of the role",
    ("mesh_changes", "confirm_lost"): "its message names the variable of the role",
    ("mesh_changes", "plan_file"): "no message is about it",
    ("mesh_changes", "page"): "no message is about it",
    ("run_round", "rounds"): "one round where nothing is to be carried on",
    ("node_probe", "for_ends"): "questions, or the one question of two variables",
    ("apinet_allocate", "clusters"): "chosen by the name of one of them",
    ("apinet_schedule", "clusters"): "chosen by the name of one of them",
    ("cluster_objects", "substitute"): "what a profile replaces in the definitions",
    ("cluster_objects", "files"): "names of definitions as files",
    (
        "service_mirror",
        "allow_host_network",
    ): "true counts where the mesh carries nodes; in another one clear declares that packets are not encrypted",
    (
        "service_imports",
        "allow_host_network",
    ): "true counts where the mesh carries nodes; in another one clear declares that packets are not encrypted",
    ("playbook_timer", "playbook_timer_environment"): "one variable alongside those that the user gives",
    ("playbook_timer", "playbook_timer_arguments"): "the age of keys alongside those that the user gives",
    ("playbook_timer", "playbook_timer_state"): "no age of keys is no timer",
    ("fabric_status", "page"): "no name is no file, and nothing but a file's path is an argument",
    ("fabric_status", "document"): "no name is no file, and nothing but a file's path is an argument",
    ("fabric_status", "metrics"): "no name is no file, and nothing but a file's path is an argument",
    ("apinet_sync", "switches"): "a tenant that leaves has its addresses released, whatever else is chosen",
}


class Passed(t.NamedTuple):
    """One argument of one task that is made of a role's variable."""

    role: str
    variable: str
    kind: str
    module: str
    option: str
    expression: t.Any

    @property
    def name(self) -> str:
        return f"{self.role}: {self.variable} -> {self.module}.{self.option}"


def tasks_of(found: t.Any) -> t.Iterator[dict[str, t.Any]]:
    for task in found or ():
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_of(task.get(part))


def options_of(role: pathlib.Path) -> dict[str, dict[str, t.Any]]:
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text("utf-8"))["argument_specs"]
    return {name: option for entry in specs.values() for name, option in (entry.get("options") or {}).items()}


def defaults_of(role: pathlib.Path) -> dict[str, t.Any]:
    return yaml.safe_load((role / "defaults" / "main.yml").read_text("utf-8")) or {}


def names_in(expression: t.Any) -> set[str]:
    """Variables that a template, or a structure with templates in it, reads."""
    if isinstance(expression, dict):
        return set().union(*(names_in(item) for item in expression.values()))
    if isinstance(expression, list):
        return set().union(*(names_in(item) for item in expression))
    if not isinstance(expression, str):
        return set()
    tree = jinja2.Environment(autoescape=True).parse(expression)
    return {name.name for name in tree.find_all(jinja2.nodes.Name) if name.ctx == "load"}


def passed() -> list[Passed]:
    """Every argument of a module of the collection, and every variable given to an included role, that reads a role's variable."""
    found = []
    for role in ROLES:
        options = options_of(role)
        for path in sorted((role / "tasks").glob("*.yml")):
            for task in tasks_of(yaml.safe_load(path.read_text("utf-8"))):
                for action, arguments in task.items():
                    if action.startswith(COLLECTION):
                        module = action[len(COLLECTION) :]
                    elif action == "ansible.builtin.include_role":
                        module, arguments = arguments["name"][len(COLLECTION) :], task.get("vars") or {}
                    else:
                        continue
                    for option, expression in arguments.items():
                        if "hostvars" in names_in(expression):
                            continue  # what the inventory has, looked up by the name of a group
                        for variable in sorted(names_in(expression) & set(options)):
                            found.append(
                                Passed(
                                    role.name,
                                    variable,
                                    options[variable].get("type", "str"),
                                    module,
                                    option,
                                    expression,
                                )
                            )
    return found


def arrived(one: Passed, value: t.Any) -> dict[str, t.Any]:
    """The argument as the module gets it: templated as Ansible does it, with the role's defaults for the rest."""
    role = next(role for role in ROLES if role.name == one.role)
    variables = {name: _trusted(default) for name, default in defaults_of(role).items()}
    variables.update({one.variable: value, "omit": "__omit_place_holder__", "inventory_hostname": "aws"})
    templar = Templar(loader=DataLoader(), variables=variables)
    given = templar.template(_trusted({one.option: one.expression}))
    return {name: item for name, item in given.items() if item != "__omit_place_holder__"}


def _trusted(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {name: _trusted(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_trusted(item) for item in value]
    return trust_as_template(value) if isinstance(value, str) else value


def as_parameter(one: Passed, given: dict[str, t.Any]) -> t.Any:
    """What the module's own check of its arguments makes of it."""
    if not (MODULES / (one.module + ".py")).exists():
        return given[one.option]  # a variable of an included role
    # a type is what matters: which words an option knows is checked after it arrived
    option = documented(one.module)[one.option]
    spec = {key: item for key, item in option.items() if key in ("type", "elements")}
    result = ArgumentSpecValidator({one.option: spec}).validate(given)
    assert not result.error_messages, result.error_messages
    needed = [name for name, inner in (option.get("suboptions") or {}).items() if inner.get("required")]
    assert not (needed and given[one.option] == {}), f"{one.variable}: without anything, {needed} is required"
    return result.validated_parameters[one.option]


@functools.cache
def documented(module: str) -> dict[str, t.Any]:
    """The module's options as it documents them, which sanity tests compare with its arguments."""
    found = importlib.import_module("ansible_collections.multicluster.network.plugins.modules." + module)
    documentation = yaml.safe_load(found.DOCUMENTATION)
    options = {}
    for fragment in documentation.get("extends_documentation_fragment", ()):
        name, dummy, part = fragment[len(COLLECTION) :].partition(".")
        source = importlib.import_module("ansible_collections.multicluster.network.plugins.doc_fragments." + name)
        options.update(
            (yaml.safe_load(getattr(source.ModuleDocFragment, (part or "documentation").upper())) or {}).get("options")
            or {}
        )
    return dict(options, **documentation.get("options", {}))


ALL = passed()
PLAIN = [
    one
    for one in ALL
    if names_in(one.expression) <= {one.variable, "omit"} and (one.module, one.option) not in COMPOSED
]


@pytest.mark.parametrize("one", PLAIN, ids=lambda one: one.name)
def test_what_is_empty_arrives_as_it_was_written(one):
    value = EMPTY[one.kind]
    given = arrived(one, value)
    assert one.option in given, f"{one.variable}: {value!r} is dropped on its way"
    parameter = as_parameter(one, given)
    assert parameter == value and isinstance(parameter, bool) == isinstance(value, bool)


def test_only_arguments_with_a_reason_are_made_of_more_than_their_variable():
    """And every reason is still needed: a list of exceptions that grows old hides the next mistake."""
    unexplained = [one.name for one in ALL if one not in PLAIN and (one.module, one.option) not in COMPOSED]
    assert unexplained == []
    assert set(COMPOSED) == {(one.module, one.option) for one in ALL if one not in PLAIN}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_limit_that_nobody_set_is_left_to_the_module(role):
    """``null`` is the roles' way to say that nothing was said; every other value is the user's."""
    unset = [name for name, default in defaults_of(role).items() if default is None]
    assert all(one.option not in arrived(one, None) for one in PLAIN if one.role == role.name and one.variable in unset)
    text = "".join(path.read_text("utf-8") for path in (role / "tasks").glob("*.yml"))
    assert "default(omit" not in text, (
        "an expression of another form: what is empty would be dropped, or null passed on"
    )


PASSED_ON = {}
for _one in PLAIN:
    if (MODULES / (_one.module + ".py")).exists():
        PASSED_ON.setdefault((_one.module, _one.option), set()).add(_one.variable)


@pytest.mark.parametrize("module", sorted({module for module, option in PASSED_ON}))
def test_a_message_that_names_an_option_names_the_users_variable_too(module):
    """And it names none where no role hands the option on."""
    options = documented(module)
    for option in options:
        if "_" not in option and option != "adopt":
            continue
        desired = PASSED_ON.get((module, option), set())
        text = named(COLLECTION + module, f"set {option} to take it over", options)
        composed = (module, option) in COMPOSED or any(
            (one.module, one.option) == (module, option) for one in ALL if one not in PLAIN
        )
        if desired:
            assert set(variables_of(module, option)) == desired, option
            assert option == next(iter(desired)) or all(variable in text for variable in desired), text
        elif not composed:
            assert text == f"set {option} to take it over" or option == "rollback_seconds", text
    assert named(module, "nothing of the kind", options) == "nothing of the kind"


def test_a_variable_is_named_once_and_a_users_text_is_left_alone():
    options = ["adopt", "create_namespace", "max_deletes"]
    shown = named("service_mirror", "make it, or set create_namespace; create_namespace is off", options)
    assert (
        shown
        == "make it, or set create_namespace (service_mirror_create_namespace of the role); create_namespace is off"
    )
    assert named("service_mirror", shown, options) == shown
    for text in ("'adopt' is no name", "x_adopt and adopted", "max_deletes_of"):
        assert named("service_mirror", text, options) == text
    late = "no answer within 9 s, which the option timeout allows"
    assert named("load_balancers", late, ["timeout"]) == late.replace(
        "timeout", "timeout (load_balancers_timeout of the role)"
    )
    assert named("load_balancers", "etcdserver: request timeout", ["timeout"]) == "etcdserver: request timeout"
    assert (
        named("somebody.elses.module", "set adopt", options) == "set adopt"
        and named("service_mirror", None, options) is None
    )
