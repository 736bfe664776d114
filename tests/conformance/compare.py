# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How expected and actual answers are compared, by the rules that each file of vectors states."""

from __future__ import annotations

import typing as t

EMPTY: tuple[t.Any, ...] = (None, "", [], {})
#: Lists in preferred answers with free order and additional text (semaphore).
FREE_LISTS = ("skipped", "conflicts", "invalid", "warnings")


def same_number(first: t.Any, second: t.Any) -> bool:
    """JSON equality: a boolean is no number, 1 and 1.0 are one number."""
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


def is_empty(value: t.Any) -> bool:
    """null, missing and empty list or map are equal."""
    return value is None or (isinstance(value, (list, dict, tuple)) and not value)


def covers(
    expected: t.Any, actual: t.Any, unordered: t.Container[str] = (), free: t.Container[str] = (), name: str = ""
) -> str | None:
    """None when ``actual`` has everything that ``expected`` names, else where they differ. More fields are fine."""
    if is_empty(expected) and is_empty(actual):
        return None
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return f"{name}: expected {show(expected)}, got {show(actual)}"
        for key, value in expected.items():
            if key == "spec_absent":
                found = [field for field in value if not is_empty((actual.get("spec") or {}).get(field))]
                difference = f"{name}: {found} must be absent" if found else None
            elif key == "annotations_empty":
                difference = f"{name}: has annotations" if actual.get("annotations") else None
            else:
                difference = covers(value, actual.get(key), unordered, free, f"{name}.{key}")
            if difference:
                return difference
        return None
    if isinstance(expected, list):
        if not isinstance(actual, (list, tuple)):
            return f"{name}: expected {show(expected)}, got {show(actual)}"
        field = name.rsplit(".", 1)[-1]
        if field in free:
            return _each_found(expected, list(actual), unordered, free, name, exact_length=False)
        if field in unordered:
            return _each_found(expected, list(actual), unordered, free, name, exact_length=True)
        if len(expected) != len(actual):
            return f"{name}: expected {show(expected)}, got {show(actual)}"
        for index, (one, other) in enumerate(zip(expected, actual)):
            difference = covers(one, other, unordered, free, f"{name}[{index}]")
            if difference:
                return difference
        return None
    if same_number(expected, actual):
        return None
    return f"{name or 'answer'}: expected {show(expected)}, got {show(actual)}"


def _each_found(
    expected: list[t.Any],
    actual: list[t.Any],
    unordered: t.Container[str],
    free: t.Container[str],
    name: str,
    exact_length: bool,
) -> str | None:
    rest = list(actual)
    for item in expected:
        index = next(
            (i for i, other in enumerate(rest) if not _differs(item, other, unordered, free, not exact_length)), None
        )
        if index is None:
            return f"{name}: {show(item)} is missing in {show(actual)}"
        del rest[index]
    return f"{name}: too much: {show(rest)}" if exact_length and rest else None


def _differs(
    expected: t.Any, actual: t.Any, unordered: t.Container[str], free: t.Container[str], free_text: bool
) -> bool:
    if isinstance(expected, str) and free_text:
        # "extra text free": a bare name may be inside an entry that explains it.
        texts = actual.values() if isinstance(actual, dict) else [actual]
        return not any(isinstance(text, str) and expected in text for text in texts)
    return covers(expected, actual, unordered, free) is not None


def without_empty(value: t.Any, empties: t.Sequence[t.Any] = EMPTY) -> t.Any:
    """Drop fields that count as absent, at every depth."""
    if isinstance(value, dict):
        inner = {key: without_empty(item, empties) for key, item in value.items()}
        return {key: item for key, item in inner.items() if not _among(item, empties)}
    if isinstance(value, (list, tuple)):
        return [without_empty(item, empties) for item in value]
    return value


def _among(value: t.Any, empties: t.Sequence[t.Any]) -> bool:
    return any(type(value) is type(empty) and value == empty for empty in empties)


def canonical(value: t.Any, unordered: t.Container[str] = (), name: str = "") -> t.Any:
    """The same data with the lists under the unordered names sorted."""
    if isinstance(value, dict):
        # in one order of keys, since lists of maps are sorted by how they look
        return {key: canonical(value[key], unordered, key) for key in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        items = [canonical(item, unordered, name) for item in value]
        return sorted(items, key=repr) if name in unordered else items
    return value


def equal(expected: t.Any, actual: t.Any, unordered: t.Container[str] = (), name: str = "answer") -> str | None:
    """None when both are the same after dropping empty fields and sorting the unordered lists."""
    first, second = (canonical(without_empty(side), unordered, name) for side in (expected, actual))
    if is_empty(first) and is_empty(second):
        return None
    if (type(first) is type(second) or not (isinstance(first, bool) or isinstance(second, bool))) and first == second:
        return None
    return f"{name}: expected {show(first)}, got {show(second)}"


def show(value: t.Any) -> str:
    """Short text for a message."""
    text = repr(value)
    return text if len(text) <= 300 else text[:297] + "..."


def merge_patch(before: t.Any, after: t.Any) -> dict[str, t.Any]:
    """The RFC 7386 patch from one object to another."""
    patch: dict[str, t.Any] = {}
    for key in list(before) + [key for key in after if key not in before]:
        if key not in after:
            patch[key] = None
        elif key not in before:
            patch[key] = after[key]
        elif isinstance(before[key], dict) and isinstance(after[key], dict):
            inner = merge_patch(before[key], after[key])
            if inner:
                patch[key] = inner
        elif before[key] != after[key]:
            patch[key] = after[key]
    return patch
