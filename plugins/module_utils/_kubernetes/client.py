# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One API server's objects: complete lists, single ones, what kinds it has, and every kind of write."""

from __future__ import annotations

import builtins
import contextlib
import threading
import time
import typing as t
import urllib.parse

from .._values.refused import quoted
from . import errors
from .access import Access
from .session import Allowance, Limits, Request, Session

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
#: What a healthy server is far below, also one that is busy.
SECONDS_A_WRITE = 0.1


class Listing(t.NamedTuple):
    """A complete list: ``items`` as the server sent them, ``resource_version``; ``complete`` is always True."""

    items: list[dict[str, t.Any]]
    resource_version: str
    complete: bool = True


class Resource(t.NamedTuple):
    """How a kind is addressed: ``plural`` in paths, whether it lives in namespaces, the verbs that the server has."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The path of one object, of a namespace's or of all objects."""
        parts = ["api" if "/" not in self.api_version else "apis", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", segment(namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(segment(name))
        return "/" + "/".join(parts)


def segment(text: str) -> str:
    """One path segment; names that could leave it are refused (``..`` would name another resource)."""
    if not text or text in (".", "..") or "/" in text:
        raise ValueError(f"{quoted(text)} is no object name")
    return urllib.parse.quote(text, safe=":")


class Writing:
    """How long a server has been busy with writes, several at a time counted once, and how many there were."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active, self._since, self._seconds, self.count = 0, 0.0, 0.0, 0

    def __enter__(self) -> None:
        with self._lock:
            self._since = self._since if self._active else time.monotonic()
            self._active += 1
            self.count += 1

    def __exit__(self, *unused: t.Any) -> None:
        with self._lock:
            self._active -= 1
            if not self._active:
                self._seconds += time.monotonic() - self._since

    @property
    def seconds(self) -> float:
        """So far."""
        with self._lock:
            return self._seconds + (time.monotonic() - self._since if self._active else 0.0)


class Client(Session):
    """Reads and writes objects of one API server; may be used from several threads."""

    def __init__(self, access: Access, limits: Limits | None = None, connections: int = 10) -> None:
        super().__init__(access, limits, connections)
        self.writing = Writing()
        self._discovering = threading.Lock()
        self._resources: dict[str, dict[str, Resource] | None] = {}
        self._undiscovered: dict[str, errors.KubeError] = {}

    def __repr__(self) -> str:
        return f"Client({self.access!r})"

    # -- reading -----------------------------------------------------------------------------------------------

    def list(
        self,
        path: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page: int = 500,
    ) -> Listing:
        """Every object under the path. Anything that keeps the list from being whole raises ListIncomplete (T14)."""
        try:
            try:
                return self._list(path, label_selector, field_selector, page)
            except errors.Expired:
                # the continue token outlived the server's history: once more from the start
                return self._list(path, label_selector, field_selector, page)
        except errors.KubeError as error:
            raise errors.ListIncomplete(error) from None

    def list_served(
        self, path: str, label_selector: str | None = None, field_selector: str | None = None
    ) -> builtins.list[dict[str, t.Any]] | None:
        """The objects of list, None where the server has no such path, as for a kind that it does not serve."""
        try:
            return self.list(path, label_selector, field_selector).items
        except errors.ListIncomplete as error:
            if error.status == 404:
                return None
            raise

    def _list(self, path: str, labels: str | None, fields: str | None, page: int) -> Listing:
        query = {"limit": str(page)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        request = Request("list", "GET", path, query)
        operation = request.operation
        deadline = time.monotonic() + self.limits.list_seconds
        items: list[dict[str, t.Any]] = []
        seen: set[str] = set()
        allowance = Allowance(self.limits)
        for dummy in range(self.limits.pages):
            answer = self.send(request, deadline, allowance)
            found = answer.get("items") if isinstance(answer, dict) else None
            meta = answer.get("metadata") if isinstance(answer, dict) else None
            if found is None and isinstance(answer, dict) and str(answer.get("kind", "")).endswith("List"):
                found = []  # Go prints an empty slice as null
            if not isinstance(found, list) or not isinstance(meta, dict):
                raise self.error(errors.BadAnswer, operation, "the answer is no list")
            if not all(isinstance(item, dict) and isinstance(item.get("metadata"), dict) for item in found):
                raise self.error(errors.BadAnswer, operation, "the list holds something that is no object")
            for item in found:
                self.check_form(item, operation)
            items.extend(found)
            if len(items) > self.limits.objects:
                raise self.error(errors.TooLarge, operation, f"more than {self.limits.objects} objects")
            token = meta.get("continue")
            if not token:
                if meta.get("remainingItemCount"):
                    raise self.error(
                        errors.BadAnswer, operation, "the server reports that objects remain, and not where"
                    )
                return Listing(items, str(meta.get("resourceVersion", "")))
            if not isinstance(token, str) or token in seen:
                raise self.error(errors.BadAnswer, operation, "the server repeats a continue token")
            seen.add(token)
            query["continue"] = token
        raise self.error(errors.TooLarge, operation, f"more than {self.limits.pages} pages")

    def sample(
        self, path: str, most: int, field_selector: str | None = None
    ) -> tuple[builtins.list[dict[str, t.Any]], bool]:
        """(the first objects under the path, at most ``most``; whether these are all). Nothing may be deleted by it. Raises KubeErrors."""
        query = {"limit": str(most)}
        if field_selector:
            query["fieldSelector"] = field_selector
        request = Request("list", "GET", path, query)
        answer = self.send(request, time.monotonic() + self.limits.list_seconds, Allowance(self.limits))
        found = answer.get("items") if isinstance(answer, dict) else None
        items = found if isinstance(found, list) else []
        meta = answer.get("metadata") if isinstance(answer, dict) else None
        if not isinstance(meta, dict) or not all(isinstance(item, dict) for item in items):
            raise self.error(errors.BadAnswer, request.operation, "the answer is no list")
        for item in items:
            self.check_form(item, request.operation)
        return items[:most], not meta.get("continue") and len(items) <= most

    def get(self, path: str) -> dict[str, t.Any]:
        """One object. Raises NotFound."""
        return self._object("get", "GET", path)

    def find(self, path: str) -> dict[str, t.Any] | None:
        """One object, or None where there is none."""
        try:
            return self.get(path)
        except errors.NotFound:
            return None

    def server_version(self) -> tuple[int, int]:
        """(major, minor) of the API server."""
        answer = self.get("/version")
        try:
            return int(answer["major"]), int("".join(ch for ch in answer["minor"] if ch in "0123456789"))
        except (KeyError, ValueError, TypeError):
            raise self.error(errors.BadAnswer, "get /version", "the answer is no version") from None

    def resource(self, api_version: str, kind: str, refresh: bool = False) -> Resource | None:
        """How a kind is addressed, or None where the server does not have it. One request a group and version."""
        if refresh or api_version not in self._resources:
            before = self._undiscovered.get(api_version)
            with self._discovering:  # writers that start together wait for one answer instead of asking eight times
                failed = self._undiscovered.get(api_version)
                if failed is not None and failed is not before:
                    raise failed  # it was asked for this one as well, and to ask a dead server in turn takes minutes
                if refresh or api_version not in self._resources:
                    try:
                        self._resources[api_version] = self._discover(api_version)
                    except errors.KubeError as error:
                        self._undiscovered[api_version] = error
                        raise
        return (self._resources[api_version] or {}).get(kind)

    def serves(self, api_version: str, kind: str) -> bool:
        """True when the API server has this kind in this version."""
        return self.resource(api_version, kind) is not None

    def _discover(self, api_version: str) -> dict[str, Resource] | None:
        group, dummy, version = api_version.rpartition("/")
        path = f"/apis/{segment(group)}/{segment(version)}" if group else "/api/" + segment(version)
        try:
            answer = self._object("get", "GET", path)
        except errors.NotFound:
            return None
        found = {}
        for entry in answer.get("resources") or ():
            if isinstance(entry, dict) and "/" not in str(entry.get("name", "/")):
                try:
                    plural = segment(str(entry["name"]))
                except ValueError as error:
                    raise self.error(errors.BadAnswer, "get " + path, str(error)) from None
                verbs = frozenset(str(verb) for verb in entry.get("verbs") or ())
                kind = str(entry.get("kind"))
                found[kind] = Resource(api_version, kind, plural, entry.get("namespaced") is True, verbs)
        return found

    # -- writing -----------------------------------------------------------------------------------------------

    def create(
        self, path: str, body: t.Mapping[str, t.Any], field_manager: str, verb: str = "create"
    ) -> dict[str, t.Any]:
        """POST. Not repeated unless the server refused it unseen (429)."""
        return self._object(verb, "POST", path, {"fieldManager": field_manager}, body)

    def merge_patch(self, path: str, body: t.Mapping[str, t.Any], field_manager: str) -> dict[str, t.Any]:
        """RFC 7386 merge patch."""
        return self._object("patch", "PATCH", path, {"fieldManager": field_manager}, body, MERGE)

    def strategic_patch(self, path: str, body: t.Mapping[str, t.Any], field_manager: str) -> dict[str, t.Any]:
        """Strategic merge patch (built-in kinds only)."""
        return self._object("patch", "PATCH", path, {"fieldManager": field_manager}, body, STRATEGIC)

    def apply(
        self, path: str, body: t.Mapping[str, t.Any], field_manager: str, force: bool = False
    ) -> dict[str, t.Any]:
        """Server-side apply; makes the object where there is none. A field of another manager raises Conflict."""
        # to warn of unknown fields, which nobody would read, servers since 1.25 parse every manifest twice
        query = {"fieldManager": field_manager, "force": "true" if force else "false", "fieldValidation": "Ignore"}
        return self._object("apply", "PATCH", path, query, body, APPLY)

    def delete(self, path: str, uid: str | None = None) -> bool:
        """Delete the object, with ``uid`` only that very one (else Conflict). False when it is gone already."""
        try:
            self.request_deletion(path, uid)
        except errors.NotFound:
            return False
        return True

    def request_deletion(self, path: str, uid: str | None = None, version: str | None = None) -> dict[str, t.Any]:
        """As delete, also on condition of a resource version; the server's answer, which is the object if it lingers."""
        body: dict[str, t.Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        conditions = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
        if conditions:
            body["preconditions"] = conditions
        return self._object("delete", "DELETE", path, None, body)

    # -- one request -------------------------------------------------------------------------------------------

    def _object(
        self,
        verb: str,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: t.Mapping[str, t.Any] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, t.Any]:
        request = Request(verb, method, path, query, body, content_type)
        operation = request.operation
        if method != "GET":
            self._check_patience(operation)
        deadline = time.monotonic() + self.limits.request_seconds * 2
        with self.writing if method != "GET" else contextlib.nullcontext():
            answer = self.send(request, deadline)
        if not isinstance(answer, dict):
            raise self.error(errors.BadAnswer, operation, "the answer is no object")
        if "metadata" in answer:
            self.check_form(answer, operation)
        return answer

    def check_form(self, obj: t.Mapping[str, t.Any], operation: str) -> None:
        """What every object of Kubernetes is made of: who reads them later, often those of all clusters together, goes by it."""
        meta = obj.get("metadata")
        if not isinstance(meta, dict):
            raise self.error(errors.BadAnswer, operation, "an object's metadata is no object")
        for part, name in ((obj, "spec"), (obj, "status"), (meta, "labels"), (meta, "annotations")):
            # GET of a Status has a text there: how a deletion went
            value = part.get(name)
            if not (value is None or isinstance(value, dict) or (name == "status" and obj.get("kind") == "Status")):
                raise self.error(
                    errors.BadAnswer, operation, f"{name} of the object {quoted(meta.get('name'))} is no object"
                )
        for name in ("name", "namespace", "uid", "resourceVersion"):
            if not isinstance(meta.get(name, ""), str) or meta.get("name") == "":
                raise self.error(errors.BadAnswer, operation, f"the {name} of an object is {quoted(meta.get(name))}")

    def _check_patience(self, operation: str) -> None:
        """A server that takes its time with every single write would hold up all the others for hours, without ever failing."""
        bound, count = self.limits.write_seconds, self.writing.count
        if bound is None:
            return
        seconds = self.writing.seconds
        if seconds > bound + SECONDS_A_WRITE * count:
            text = "it took {0:.0f} s for {1} writes, and the option timeout allows {2:.0f} s and {3} s each; the next run goes on from here"
            raise self.error(errors.TimedOut, operation, text.format(seconds, count, bound, SECONDS_A_WRITE))
