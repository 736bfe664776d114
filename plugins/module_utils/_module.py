# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one way out of every module: diff only when asked for, refusals as warnings, or as failure on request."""

from __future__ import annotations

import typing as t

from ._module_variables import named, named_rows

#: So many refusals become warnings one by one; the result always lists all of them.
SHOWN_REFUSALS = 20


def fail_on_refused_spec() -> dict[str, t.Any]:
    """The argument that every module has."""
    return {"fail_on_refused": {"type": "bool", "default": False}}


def probe_spec() -> dict[str, t.Any]:
    """What the modules that look at a node's pods and peers are asked, see the flow ``probe``."""
    target = {"node": {"type": "str", "required": True}, "address": {"type": "str", "required": True}}
    return {
        "pod_cidrs": {"type": "list", "elements": "str"},
        "cluster_cidrs": {"type": "list", "elements": "str", "default": []},
        "max_pods": {"type": "int", "default": 1},
        "targets": {"type": "list", "elements": "dict", "options": target},
        "host_targets": {"type": "list", "elements": "dict", "options": target, "default": []},
        "devices": {"type": "list", "elements": "str", "default": []},
        "mark": {"type": "int", "default": 0},
        "tries": {"type": "int", "default": 3},
        "wait_seconds": {"type": "int", "default": 2},
    }


def name_of(module: t.Any) -> str:
    """The module's name, as the playbook wrote it."""
    return str(getattr(module, "_name", ""))


def with_warnings(module: t.Any, result: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What of a result is shown: its warnings go through the module, its diff stays in diff mode, messages name the user's variables."""
    name, options = name_of(module), module.params
    shown = dict(result)
    diff = shown.pop("diff", None)
    if diff is not None and module._diff:
        shown["diff"] = diff
    for text in shown.pop("warnings", ()):
        module.warn(named(name, text, options))
    shown["refused"] = named_rows(name, shown.get("refused"), options)
    return shown


def exit_with(module: t.Any, result: t.Mapping[str, t.Any]) -> t.NoReturn:
    """Leave the module with a flow's result; never returns.

    ``result`` is plain JSON: ``changed``, ``plan``, ``refused`` and whatever the flow adds. ``warnings`` (texts) go
    through the module, ``diff`` is kept in diff mode only. With the module's ``fail_on_refused`` any refusal fails the
    task, after everything else was done and with the same result (decision 29, module contract 4).
    """
    shown = with_warnings(module, result)
    refused = shown["refused"]
    for entry in refused[:SHOWN_REFUSALS]:
        module.warn("refused {object}: {message} [{reason}]".format(**entry))
    if len(refused) > SHOWN_REFUSALS:
        module.warn(f"{len(refused) - SHOWN_REFUSALS} more refusals; the result lists them all")
    if refused and module.params.get("fail_on_refused"):
        module.fail_json(
            msg="{0} refused, first: {object}: {message} [{reason}]".format(len(refused), **refused[0]), **shown
        )
    module.exit_json(**shown)
    raise AssertionError("exit_json returned")  # for type checkers, and for fakes that forget to raise
