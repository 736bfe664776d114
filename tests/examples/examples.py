# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples of modules and filters, as they are in their documentation, and the playbooks that run them.

A context (contexts/NAME.yml) gives an example what it takes for granted, and states what it has to achieve:

    node: true            it is for a node; otherwise it runs on the controller
    host: aws-node-1      the host of the inventory that the play names (the controller)
    order: 50             plays run in this order, then by name
    variables: {}         variables that the examples use
    objects: {aws: []}    what has to be on an API server before
    prepare: []           tasks before the examples, for real also in check mode
    finish: []            tasks after them, likewise
    prove: {NAME: []}     tasks after the example of that name, not in check mode
    changes: []           examples that have to report a change, not in check mode
    refused: {NAME: []}   reasons that are right for the example of that name
"""

from __future__ import annotations

import ast
import pathlib
import re

import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CONTEXTS = pathlib.Path(__file__).with_name("contexts")
KEYS = {"node", "host", "order", "variables", "objects", "prepare", "finish", "prove", "changes", "refused"}
FILTERS = "filters"


def documented(path):
    """The assigned texts of a plugin (DOCUMENTATION, EXAMPLES, RETURN), without importing it."""
    found = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.targets[0], ast.Name)
        ):
            found[node.targets[0].id] = node.value.value
    return found


def examples_of(kind):
    """Name of each plugin of the kind to its examples, a list of tasks (empty: it has none)."""
    found = {}
    for path in sorted((REPOSITORY / "plugins" / kind).glob("[a-z]*.py")):
        found[path.stem] = yaml.safe_load(documented(path).get("EXAMPLES") or "") or []
    return found


def files_of(text):
    """Name to text of the files in an example, each after a comment with its name; one that is all comments is meant without them."""
    parts = re.split(r"^# (\S+\.yml):\n", text, flags=re.MULTILINE)[1:]
    found = {}
    for name, body in zip(parts[::2], parts[1::2]):
        lines = [line for line in body.splitlines() if line.strip()]
        found[name] = "\n".join(line[2:] for line in lines) if all(line.startswith("#") for line in lines) else body
    return found


def context_of(name):
    """What the examples of a plugin take for granted, None when nobody said."""
    path = CONTEXTS / (name + ".yml")
    if not path.exists():
        return None
    context = yaml.safe_load(path.read_text("utf-8")) or {}
    unknown = set(context) - KEYS
    if unknown:
        raise ValueError(f"{path.name}: unknown {sorted(unknown)}")
    return context


def kubeconfigs():
    """Every name below ~/.kube that an example uses."""
    text = "".join(
        documented(path).get("EXAMPLES") or ""
        for kind in ("modules", "filter", "inventory")
        for path in (REPOSITORY / "plugins" / kind).glob("[a-z]*.py")
    )
    return sorted(set(re.findall(r"~/\.kube/([a-z0-9-]+)", text)))


def play_of(name, tasks, context, check):
    """One play of a module's examples. A failure ends this play only."""
    body = []
    for task in tasks:
        body.append(task)
        body += [] if check else context.get("prove", {}).get(task["name"], [])
    prepare, finish = ([dict(task, check_mode=False) for task in context.get(key, [])] for key in ("prepare", "finish"))
    return {
        "name": name,
        "hosts": context.get("host", "aws-node-1" if context.get("node") else "controller"),
        "gather_facts": False,
        "vars": context.get("variables", {}),
        "tasks": [
            {
                "block": prepare + body + finish,
                "rescue": [{"name": "The next play goes on", "ansible.builtin.meta": "noop"}],
            }
        ],
    }


def playbooks(names, check):
    """(for the controller, for nodes) of the named modules: two that may run side by side."""
    modules = {name: (tasks, context_of(name)) for name, tasks in examples_of("modules").items() if name in names}
    ready = {name: pair for name, pair in modules.items() if pair[0] and pair[1] is not None}
    order = sorted(ready, key=lambda name: (ready[name][1].get("order", 50), name))
    sides = {True: [], False: []}
    for name in order:
        sides[bool(ready[name][1].get("node"))].append(play_of(name, *ready[name], check))
    # one play, last: some take the plan that the example of mesh_plan has registered
    tasks = [
        dict(task, name=f"{name}: {task['name']}", ignore_errors=True)
        for name, found in examples_of("filter").items()
        for task in found
    ]
    sides[False].append(play_of(FILTERS, tasks, context_of(FILTERS), check))
    return sides[False], sides[True]
