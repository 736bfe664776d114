# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Values of role variables against the roles' argument specifications, before any role runs."""

from __future__ import annotations

import json
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import ArgumentValueError
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.scopes import is_secret
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.variables import Finding
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import quoted

#: What a type of Ansible is called in a message.
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping",
    "str": "text",
    "path": "a path",
}


def check_role_values(
    rows: t.Iterable[tuple[str, t.Any, t.Sequence[str]]],
    options: t.Mapping[str, t.Mapping[str, t.Any]],
    place: t.Callable[[t.Sequence[str]], str],
    elsewhere: t.Collection[str] = (),
) -> list[Finding]:
    """Findings ``bad_type`` and ``bad_choice`` for values that a role's argument specification refuses.

    rows: (variable, value, the hosts that have it). options: {variable: its specification}. place: hosts to words. elsewhere: what
    was given on the command line. Values of variables that hold secrets are in no message.
    """
    found = []
    for name, value, hosts in rows:
        option = options.get(name)
        if option is None or value is None:
            continue
        value = json.loads(json.dumps(value, default=str))  # nothing of Ansible's own kinds of text and numbers
        spec = {key: item for key, item in option.items() if key in ("type", "elements", "choices", "options")}
        errors = list(ArgumentSpecValidator({name: spec}).validate({name: value}).errors.errors)
        if not errors:
            continue
        where = "command line" if name in elsewhere else place(hosts)
        shown = (
            ""
            if is_secret(name) or isinstance(value, (dict, list, tuple))
            else f" is {'empty' if value == '' else quoted(str(value))}"
        )
        if (
            isinstance(errors[0], ArgumentValueError)
            and spec.get("choices")
            and not isinstance(value, (dict, list, tuple))
        ):
            message = f"{name}{shown or ' has a value that it cannot have'}; write one of {', '.join(map(str, spec['choices']))}"
            found.append(Finding(where, name, "bad_choice", message))
            continue
        kind = _KINDS.get(str(spec.get("type", "str")), f"a value of type {spec.get('type')}")
        fits_outside = not list(
            ArgumentSpecValidator({name: {"type": spec.get("type", "str")}}).validate({name: value}).errors.errors
        )
        if (
            fits_outside
        ):  # what it holds is at fault; the validator's text names the entry, and its values where they are no secrets
            text = str(errors[0]).partition(" and we were unable")[0]
            message = f"{name} has an entry that it cannot have: {'see its documentation' if is_secret(text) else text}"
        else:
            message = f"{name}{shown or ' is no such value'}; write {kind}, or leave it out"
        found.append(Finding(where, name, "bad_type", message))
    return found
