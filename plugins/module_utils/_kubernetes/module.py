# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frame of the modules that write to clusters: secrets hidden first, failures of clusters reported last."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule

from .._module import exit_with, name_of, with_warnings
from .._module_variables import named, named_rows
from .argspec import take_access

_FAILURE = "cluster {cluster}: cannot {operation}: {message} [{reason}]"


class KubeModule(AnsibleModule):
    """AnsibleModule which knows the secrets before anything can fail or be logged.

    A kubeconfig given as a dictionary is no ``no_log`` option, because that would hide all of its text. Arguments are
    logged, and wrong ones shown, while AnsibleModule is still being made, so its leaves are registered as they are loaded.
    """

    def _load_params(self) -> None:
        super()._load_params()
        if not hasattr(self, "no_log_values"):
            self.no_log_values: set[str] = set()
        take_access(self)

    def fail_json(self, msg: str, **kwargs: t.Any) -> t.NoReturn:
        """As ever, with the user's variables alongside the options that the message names."""
        super().fail_json(named(name_of(self), msg, getattr(self, "params", None) or ()), **kwargs)
        raise SystemExit(1)  # for readers of types: the module has left before


def exit_kube(module: t.Any, result: dict[str, t.Any]) -> t.NoReturn:
    """Leave with the result; with ``failures`` and ``fail_on_failures`` as a failure that carries all of it (module contract 6)."""
    if result.get("warnings"):
        # a playbook that judges plans of others reads them here; Ansible keeps warnings in a form of its own
        result = dict(result, notices=list(result["warnings"]))
    failures = named_rows(name_of(module), result.get("failures"), module.params)
    result = dict(result, failures=failures) if failures else result
    if failures and module.params.get("fail_on_failures", True):
        more = "" if len(failures) == 1 else f" (and {len(failures) - 1} more, see failures)"
        module.fail_json(msg=_FAILURE.format(**failures[0]) + more, **with_warnings(module, result))
    if failures:
        result = dict(
            result, warnings=[*result.get("warnings", ()), *(_FAILURE.format(**failure) for failure in failures[:20])]
        )
    exit_with(module, result)
