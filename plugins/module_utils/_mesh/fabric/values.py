# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of run variables that are none: an empty text or a number where there is a list would count as something else, silently."""

from __future__ import annotations

import math
import typing as t

from ..._values.refused import quoted
from .variables import Finding

#: What Ansible takes as yes or no.
_BOOLS = frozenset("yes Yes YES no No NO y Y n N true True TRUE false False FALSE on On ON off Off OFF t T f F 1 0 1.0 0.0".split())

Rows = t.Iterable[t.Tuple[str, t.Any, t.Sequence[str]]]


def check_types(
    rows: Rows, types: t.Mapping[str, str], groups: t.Collection[str], place: t.Callable[[t.Sequence[str]], str], elsewhere: t.Collection[str] = ()
) -> t.List[Finding]:
    """What is wrong with values. rows: (variable, value, the hosts that have it); types: {variable: seconds, group, names or bool}.

    groups: all that the inventory has. place: hosts to words. elsewhere: what was given on the command line.
    """
    found = []
    for name, value, hosts in rows:
        wanted = _CHECKS[types[name]](name, value, groups)
        if wanted:
            where = "command line" if name in elsewhere else place(hosts)
            found.append(Finding(where, name, "bad_type", "{0} is {1}; {2}, or leave it out".format(name, _shown(value), wanted)))
    return found


def _shown(value: t.Any) -> str:
    return "empty" if value is None or value == "" else quoted(str(value))


def _seconds(name: str, value: t.Any, dummy: t.Collection[str]) -> str:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    return "" if 0 <= number < math.inf else "write seconds, such as {0}: 600".format(name)


def _group(name: str, value: t.Any, groups: t.Collection[str]) -> str:
    if isinstance(value, str) and value in groups:
        return ""
    return "write the name of a group that the inventory has, such as {0}: clusters".format(name)


def _names(name: str, value: t.Any, dummy: t.Collection[str]) -> str:
    rows = [value] if isinstance(value, str) else value
    if isinstance(rows, (list, tuple)) and all(isinstance(row, str) and row for row in rows):
        return ""
    return "write a list of names, such as {0}: [status_page_url]".format(name)


def _bool(name: str, value: t.Any, dummy: t.Collection[str]) -> str:
    if isinstance(value, bool) or (value is not None and str(value) in _BOOLS):
        return ""
    return "write {0}: true or {0}: false".format(name)


_CHECKS: t.Dict[str, t.Callable[[str, t.Any, t.Collection[str]], str]] = {"seconds": _seconds, "group": _group, "names": _names, "bool": _bool}
