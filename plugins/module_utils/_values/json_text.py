# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON as Go reads it: one document, its keys in any case (semaphore 2.5); and maps in data that anybody may have written."""

from __future__ import annotations

import json
import typing as t

from .ascii_text import lower
from .refused import ValueRefused, quoted


def parse_json(text: object, reason: str = "bad_json") -> t.Any:
    """One JSON document. NaN, Infinity and anything behind the document are refused."""
    if not isinstance(text, str):
        raise ValueRefused(reason, "the configuration is not text")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueRefused(reason, "the configuration is not JSON: {0}".format(quoted(error))) from None


def _no_constant(name: str) -> t.NoReturn:
    raise ValueError("{0} is not JSON".format(name))


def parse_object(text: object, reason: str = "bad_json") -> t.Dict[str, t.Any]:
    """One JSON object; null is an empty one."""
    found = parse_json(text, reason)
    if found is not None and not isinstance(found, dict):
        raise ValueRefused(reason, "the configuration is not an object")
    return found or {}


def mapping(value: t.Any, *path: str) -> t.Dict[str, t.Any]:
    """The map at a path inside of data; {} where there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def field(values: t.Mapping[str, t.Any], key: str) -> t.Any:
    """The value of a key in any case, None when it is absent. The exact spelling wins, then the last of the others."""
    if key in values:
        return values[key]
    found = [name for name in values if lower(name) == lower(key)]
    return values[found[-1]] if found else None
