# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Modules that only speak to API servers, run by ansible-playbook itself where their own process would be the same Python.

Packing a module, starting an interpreter and importing everything again takes longer than mirroring a hundred Services.
Where the task goes anywhere else, or asks for anything that only a process of its own can have, the module runs as ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import sys
import types
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import remove_values
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import take_access
from ansible_collections.multicluster.network.plugins.module_utils._module_variables import named
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import OPTIONS_TO

# Here once for a play, instead of once for each of its tasks; where it is missing, the task reports that.
with contextlib.suppress(ImportError):
    import urllib3  # noqa: F401  # pylint: disable=unused-import

#: Of tasks with results that a later task judges and shows: their warnings would be on the screen twice.
JUDGED = "capability_judged"


class Finished(Exception):
    """The module left, with ``result``."""

    def __init__(self, result: dict[str, t.Any]) -> None:
        super().__init__("the module has finished")
        self.result = result


class InProcessModule:
    """What the modules use of AnsibleModule: options that its validator accepted, check and diff mode, the ways out.

    As there, secrets are known before anything can fail, and no result has them. The options are not repeated in the result,
    as newer releases of ansible-core do not either.
    """

    def __init__(
        self, name: str, spec: dict[str, t.Any], given: t.Mapping[str, t.Any], check_mode: bool, diff: bool
    ) -> None:
        self.check_mode, self._diff, self._name = check_mode, diff, name
        self.no_log_values: set[str] = set()
        self._warnings: list[str] = []
        self.params: dict[str, t.Any] = _plain(given)
        take_access(self)
        outcome = ArgumentSpecValidator(spec).validate(self.params)
        self.no_log_values.update(outcome._no_log_values)
        self.params = outcome.validated_parameters
        if outcome.unsupported_parameters:
            self.fail_json(msg=f"Unsupported parameters for ({name}) module: {outcome.errors.msg}")
        if outcome.error_messages:
            self.fail_json(msg=outcome.errors.msg)

    def warn(self, warning: str) -> None:
        """A warning of the task."""
        self._warnings.append(warning)

    def exit_json(self, **result: t.Any) -> t.NoReturn:
        """Leave with the result."""
        if self._warnings:
            result["warnings"] = self._warnings
        result.setdefault("changed", False)
        raise Finished(remove_values(_plain(result), self.no_log_values))

    def fail_json(self, msg: str, **result: t.Any) -> t.NoReturn:
        """Leave as failed."""
        self.exit_json(failed=True, msg=named(self._name, msg, self.params), **result)


def _plain(value: t.Any) -> t.Any:
    """As it comes out of the pipe to a module's process: nothing of Ansible's own kinds of text, no tuples."""
    return json.loads(json.dumps(value, default=str))


def _merged(result: dict[str, t.Any], more: dict[str, t.Any]) -> dict[str, t.Any]:
    """A task's result with what its module returned, which counts where both have something."""
    merged: dict[str, t.Any] = merge_hash(result, more)
    return merged


class ControllerAction(ActionBase):
    """A module; its action plugin names it in ``module`` where it has ``argument_spec()`` and ``run(module)``, to run here."""

    TRANSFERS_FILES = False
    _supports_async = True
    module: types.ModuleType | None = None

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See DOCUMENTATION of the module."""
        result = self._run(tmp, task_vars)
        if boolean((task_vars or {}).get(JUDGED, False)):
            result.pop("warnings", None)
        return result

    def _run(self, tmp: t.Any, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        folder = (task_vars or {}).get(OPTIONS_TO)
        if folder and self.module is not None:
            return _merged(result, self._note(str(folder)))
        if self.module is None or not self._is_here(task_vars or {}):
            return _merged(result, self._execute_module(task_vars=task_vars, wrap_async=bool(self._task.async_val)))
        try:
            self.module.run(
                InProcessModule(
                    self._task.action,
                    self.module.argument_spec(),
                    self._task.args,
                    self._task.check_mode,
                    self._task.diff,
                )
            )
        except Finished as finished:
            return _merged(result, finished.result)
        raise AssertionError(f"{self._task.action} did not finish")

    def _note(self, folder: str) -> dict[str, t.Any]:
        """Write down the options, with secrets, as the module would have them; the module does not run."""
        name = self._task.action.rpartition(".")[2]
        module = t.cast(types.ModuleType, self.module)
        try:
            params = InProcessModule(
                self._task.action, module.argument_spec(), self._task.args, self._task.check_mode, self._task.diff
            ).params
        except Finished as finished:
            return finished.result
        handle = os.open(
            pathlib.Path(folder, f"{name}.json"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600
        )
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            json.dump(params, target)
        return {"changed": False}

    def _is_here(self, task_vars: t.Mapping[str, t.Any]) -> bool:
        """Whether the module's process would be this user's, on this machine, in this very Python."""
        task, variables = self._task, task_vars
        if (
            task.async_val
            or any(task.environment or ())
            or self._connection.transport != "local"
            or self._connection.become
        ):
            return False
        if task.delegate_to:
            variables = (task_vars.get("ansible_delegated_vars") or {}).get(task.delegate_to) or {}
        interpreter = variables.get("ansible_python_interpreter")  # none: it would have to be looked for
        return bool(interpreter) and is_this_python(str(self._templar.template(interpreter)))


def is_this_python(path: str) -> bool:
    """Whether a path is another name of the running interpreter: in the same folder, which also determines its libraries."""
    try:
        given, owned = pathlib.Path(path), pathlib.Path(sys.executable)
        same = given.samefile(owned) and given.parent.samefile(owned.parent)
    except OSError:
        return False
    return given.is_absolute() and same
