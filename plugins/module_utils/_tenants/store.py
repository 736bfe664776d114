# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the mapping needs from an API server, and the same in memory.

A flow gives the mapping two stores that talk to API servers; the in-memory one serves the vectors, random orders and
check mode. One contract suite tests both. Deleting and patching answer None when the object is gone afterwards.
"""

from __future__ import annotations

import builtins
import copy
import re
import typing as t

from .._plan.object_plan import Key
from .fields import Object, deleting, entries, get, items, labels, merge_patched, merged, name, namespace, pruned, uid

NOT_FOUND, CONFLICT, INVALID, FORBIDDEN, EXISTS = "NotFound", "Conflict", "Invalid", "Forbidden", "AlreadyExists"


class StoreError(Exception):
    """A write that the server did not do. ``reason`` is one of the server's words."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason, self.message = reason, message
        super().__init__(f"{reason}: {message}")


class Store(t.Protocol):
    """One API server. Patches are JSON merge patches; one that carries uid or resourceVersion has them as precondition."""

    def list(self, api_version: str, kind: str, within: str = "") -> builtins.list[dict[str, t.Any]]:
        """Every object of a kind (in one namespace). Raises StoreError rather than answer in part."""

    def create(self, manifest: Object) -> dict[str, t.Any]:
        """Make an object; EXISTS when its name is taken. ``generateName`` is honoured."""

    def apply(self, manifest: Object, manager: str) -> dict[str, t.Any]:
        """Server-side apply, forced."""

    def patch(self, key: Key, body: Object, status: bool = False) -> dict[str, t.Any] | None:
        """Change an object, or its status."""

    def delete(self, key: Key, expected: str = "") -> dict[str, t.Any] | None:
        """Request deletion of the object with this uid. What is not there is gone."""


#: (verb, key, object as it would be) -> nothing; raises StoreError.
Admission = t.Callable[[str, Key, Object], None]
#: (object as it is about to be stored, before or None) -> object: what a server fills in by itself.
Fill = t.Callable[[dict[str, t.Any], t.Optional[Object]], dict[str, t.Any]]

_LABEL = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")
_NOW = "1970-01-01T00:00:00Z"


def key_of(obj: Object) -> Key:
    return Key(str(obj.get("apiVersion", "")), str(obj.get("kind", "")), namespace(obj), name(obj))


class MemoryStore:
    """An API server's objects in memory, with finalizers, preconditions, status and dependents."""

    def __init__(
        self,
        objects: t.Iterable[Object] = (),
        admit: Admission | None = None,
        fill: Fill | None = None,
        garbage_collector: bool = True,
        prefix: str = "made",
    ) -> None:
        self._admit, self._fill, self._collects = admit, fill, garbage_collector
        self._objects: dict[Key, dict[str, t.Any]] = {}
        self._applied: dict[tuple[Key, str], dict[str, t.Any]] = {}
        self._version, self._made, self._prefix = 0, 0, prefix
        self.writes: list[tuple[str, Key]] = []
        for obj in objects:
            known = copy.deepcopy(dict(obj))
            if not uid(known):
                self._made += 1
                known.setdefault("metadata", {})["uid"] = f"{prefix}-{self._made:08d}"
            self._put(key_of(known), known)

    def all(self) -> builtins.list[dict[str, t.Any]]:
        return [copy.deepcopy(self._objects[key]) for key in sorted(self._objects)]

    def list(self, api_version: str, kind: str, within: str = "") -> builtins.list[dict[str, t.Any]]:
        found = [key for key in self._objects if key[:2] == (api_version, kind) and within in ("", key.namespace)]
        return [copy.deepcopy(self._objects[key]) for key in sorted(found)]

    def create(self, manifest: Object) -> dict[str, t.Any]:
        desired = copy.deepcopy(dict(manifest))
        if not name(desired):
            self._made += 1
            desired["metadata"]["name"] = f"{get(desired, 'metadata', 'generateName') or ''}{self._made:010d}"
        key = key_of(desired)
        if key in self._objects:
            raise StoreError(EXISTS, f"{key.kind} {key.short} already exists")
        return self._store("create", key, desired, None)

    def apply(self, manifest: Object, manager: str) -> dict[str, t.Any]:
        key = key_of(manifest)
        before = self._objects.get(key)
        if before is not None and get(manifest, "metadata", "uid") not in (None, uid(before)):
            raise StoreError(CONFLICT, f"{key.kind} {key.short} is another object now")
        desired = {part: value for part, value in copy.deepcopy(dict(manifest)).items() if part != "status"}
        kept = pruned(before or {}, self._applied.get((key, manager), {}), desired)
        after = merged(kept, desired)
        noted = entries(before or {}, "metadata", "managedFields")
        if noted:
            # as a server has it after an object was taken over
            theirs = [entry for entry in noted if entry.get("subresource")]
            mine = [entry for entry in noted if entry.get("manager") == manager and not entry.get("subresource")]
            after["metadata"]["managedFields"] = theirs + (
                mine or [{"manager": manager, "operation": "Apply", "fieldsV1": {}}]
            )
        after = self._store("apply", key, after, before)
        self._applied[key, manager] = copy.deepcopy(dict(manifest))
        return after

    def patch(self, key: Key, body: Object, status: bool = False) -> dict[str, t.Any] | None:
        before = self._existing(key)
        meta = body.get("metadata") or {}
        for precondition in ("uid", "resourceVersion"):
            if meta.get(precondition) not in (None, "", before["metadata"].get(precondition)):
                raise StoreError(CONFLICT, f"{key.kind} {key.short} has changed")
        parts = [part for part in body if (part == "status") == status and part != "metadata"]
        change = {part: copy.deepcopy(body[part]) for part in parts}
        if not status:
            server = ("uid", "resourceVersion", "name", "namespace")
            change["metadata"] = {part: copy.deepcopy(value) for part, value in meta.items() if part not in server}
        after = self._store("status" if status else "patch", key, merge_patched(before, change), before, not status)
        return after if key in self._objects else None

    def delete(self, key: Key, expected: str = "") -> dict[str, t.Any] | None:
        before = self._objects.get(key)
        if before is None:
            return None
        if expected not in ("", uid(before)):
            raise StoreError(CONFLICT, f"{key.kind} {key.short} is another object now")
        if self._admit:
            self._admit("delete", key, before)
        self.writes.append(("delete", key))
        if items(before, "metadata", "finalizers"):
            if not deleting(before):
                before["metadata"]["deletionTimestamp"] = _NOW
                self._put(key, before)
            return copy.deepcopy(before)
        self._gone(key)
        return None

    def _existing(self, key: Key) -> dict[str, t.Any]:
        if key not in self._objects:
            raise StoreError(NOT_FOUND, f"{key.kind} {key.short} does not exist")
        return self._objects[key]

    def _store(
        self, verb: str, key: Key, after: dict[str, t.Any], before: Object | None, fill: bool = True
    ) -> dict[str, t.Any]:
        for value in labels(after).values():
            if not isinstance(value, str) or not _LABEL.match(value):
                raise StoreError(INVALID, f"{key.kind} {key.short}: {value!r:.80} is no label value")
        if self._admit:
            self._admit(verb, key, after)
        if self._fill and fill:
            after = self._fill(copy.deepcopy(after), before)
        if not uid(after):
            self._made += 1
            after.setdefault("metadata", {})["uid"] = f"{self._prefix}-{self._made:08d}"
        if before is not None and after == before:
            return copy.deepcopy(after)
        self.writes.append((verb, key))
        if (
            deleting(after)
            and items(before or {}, "metadata", "finalizers")
            and not items(after, "metadata", "finalizers")
        ):
            self._gone(key)
        else:
            self._put(key, after)
        return copy.deepcopy(after)

    def _put(self, key: Key, obj: dict[str, t.Any]) -> None:
        self._version += 1
        obj.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        self._objects[key] = obj

    def _gone(self, key: Key) -> None:
        obj = self._objects.pop(key)
        for applied in [pair for pair in self._applied if pair[0] == key]:
            del self._applied[applied]
        if self._collects:
            self.collect_garbage(uid(obj))

    def collect_garbage(self, gone: str) -> None:
        for key, obj in sorted(self._objects.items()):
            owners = entries(obj, "metadata", "ownerReferences")
            if not gone or gone not in [ref.get("uid") for ref in owners] or key not in self._objects:
                continue
            living = {uid(other) for other in self._objects.values()}
            if not any(ref.get("uid") in living for ref in owners):
                if items(obj, "metadata", "finalizers"):
                    obj["metadata"].setdefault("deletionTimestamp", _NOW)
                else:
                    self._gone(key)
