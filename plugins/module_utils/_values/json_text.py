# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON as Go reads it into typed fields: a wrong type is an error, keys are found in any case (semaphore 2.5)."""

from __future__ import annotations

import json
import typing as t

from .ascii_text import is_digits, lower
from .refused import ValueRefused, quoted

T = t.TypeVar("T")


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


class Fields:
    """The typed fields of one JSON object. Errors carry the path; keys that nobody asked for become warnings."""

    def __init__(self, value: t.Any, path: str, warnings: t.List[str], reason: str = "bad_json") -> None:
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise ValueRefused(reason, "{0} is not an object".format(path or "the configuration"))
        self._value, self._path, self._warnings, self._reason = value, path, warnings, reason
        self._asked: t.Set[str] = set()

    def path(self, key: str) -> str:
        """``remotes[0].name``, for messages."""
        return "{0}.{1}".format(self._path, key) if self._path else key

    def get(self, key: str) -> t.Any:
        """The raw value, None when it is absent. The exact spelling wins over another case."""
        self._asked.add(lower(key))
        if key in self._value:
            return self._value[key]
        found = [name for name in self._value if lower(name) == lower(key)]
        if found:
            self._warnings.append("{0} should be spelled {1}".format(self.path(found[-1]), key))
            return self._value[found[-1]]
        return None

    def has(self, key: str) -> bool:
        """True when the key is there, whatever its value."""
        return any(lower(name) == lower(key) for name in self._value)

    def text(self, key: str) -> str:
        """A string; absent and null are empty."""
        return self._typed(key, str, "")

    def boolean(self, key: str) -> bool:
        """A boolean; absent and null are false."""
        return self._typed(key, bool, False)

    def integer(self, key: str) -> int:
        """An integer, also as a quoted string; absent and null are 0. Range checks are the caller's."""
        value = self.get(key)
        if isinstance(value, str) and is_digits(value.lstrip("-")) and len(value) <= 19:
            return int(value) if value.count("-") <= 1 else self._wrong(key)
        if value is None:
            return 0
        if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
            return value
        return self._wrong(key)

    def items(self, key: str) -> t.List[t.Any]:
        """A list; absent and null are empty."""
        return list(self._typed(key, list, []))

    def section(self, key: str) -> "Fields":
        """A nested object; absent and null are empty."""
        return Fields(self.get(key), self.path(key), self._warnings, self._reason)

    def _typed(self, key: str, kind: t.Type[T], default: T) -> T:
        value = self.get(key)
        if value is None:
            return default
        return value if isinstance(value, kind) else self._wrong(key)

    def _wrong(self, key: str) -> t.NoReturn:
        raise ValueRefused(self._reason, "{0} has the wrong type".format(self.path(key)))

    def warn_unknown(self) -> None:
        """Note the keys that were never asked for; call it last."""
        for name in self._value:
            if lower(name) not in self._asked:
                self._warnings.append("{0} is not a known key".format(quoted(self.path(name))))
