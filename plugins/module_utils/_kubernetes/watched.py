# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists that a watch keeps: a client for a long-lived process, in which complete lists cost one request once.

The first list of a path is read from the server and followed from then on; the next ones come from memory, and equal what a LIST would
give as of the last row of the watch. While the watch is interrupted a list fails as it would if the server did not answer, so nothing is
ever concluded from what may be old. After an outage or a 410 everything is listed again before the next plan.
"""

from __future__ import annotations

import builtins
import collections
import re
import threading
import typing as t
import urllib.parse

from .._values.selectors import parse_selector
from .._values.text import mapping
from .access import AccessRefused, parse_access
from .client import Client, Listing
from .errors import Conflict, KubeError, NotFound
from .pod_ranges import UNFINISHED
from .session import Allowance, Limits, Request
from .watch import Follower, Settings
from .watched_collection import NAMED, Collection, Data, Listener, Place


class NotLeading(KubeError):
    """Somebody else writes to this cluster."""

    reason, retryable = "not_leading", False


#: The collection of a path, and its namespace.
_PATH = re.compile(r"(/api/[^/]+|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([^/]+)\Z")
_OBJECT = re.compile(r"(/api/[^/]+|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([^/]+)/([^/]+?)(?:/status)?\Z")
#: A server that does not answer keeps a process that stays waiting no longer than this: it asks again.
_PATIENCE = 10.0
#: So long a resource that the server does not have is not asked for again, in seconds.
UNDEFINED_SECONDS = 600.0
#: Of these APIs users bring the definitions when they begin to use them: they are looked for more often.
_SOUGHT, SOUGHT_SECONDS = ("/apis/multicluster.x-k8s.io/",), 15.0


class LastingClient(Client):
    """A client for a process that stays: nothing is counted up over its life, and a credential that the server does not know any more is
    read again from where it came from."""

    def __init__(self, given: t.Mapping[str, t.Any], limits: Limits, connections: int = 10) -> None:
        limits = limits._replace(
            run_bytes=None, run_memory=None, write_seconds=None, request_seconds=min(_PATIENCE, limits.request_seconds)
        )
        super().__init__(parse_access(given), limits, connections)
        self._given = given

    def send(self, request: Request, deadline: float, allowance: Allowance | None = None) -> t.Any:
        """As Session.send."""
        try:
            return super().send(request, deadline, allowance)
        except KubeError as error:
            if error.status != 401:
                raise
        try:
            access = parse_access(self._given)
        except AccessRefused as refused:
            raise self.error(KubeError, request.operation, refused.message, status=401) from None
        with self._lock:
            self.access, self._transport = access, None
        return super().send(request, deadline, allowance)


class WatchedClient(LastingClient):
    """A client with lists that are followed. What is read otherwise, and every write, is a request as ever.

    ``listener`` is called from the watch's threads, and from those that write, and must not wait. ``may_write`` is asked before each write,
    which is refused where it returns False: whoever plans took long enough to lose its leadership meanwhile.
    """

    def __init__(
        self,
        given: t.Mapping[str, t.Any],
        limits: Limits,
        listener: Listener,
        status: t.Callable[[str], None],
        stop: threading.Event,
        settings: Settings | None = None,
        may_write: t.Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(given, limits)
        self._listener, self._status, self._stop, self._may_write = listener, status, stop, may_write
        self._settings = settings or Settings(undefined_pause=UNDEFINED_SECONDS, timeout=limits.list_seconds)
        #: by path, labels, fields
        self._collections: dict[tuple[str, str, str], Collection] = {}
        self._requests: dict[tuple[str, str], int] = {}

    def list(
        self, path: str, label_selector: str | None = None, field_selector: str | None = None, page: int = 500
    ) -> Listing:
        """As Client.list; from memory where the path is followed."""
        if field_selector and field_selector != UNFINISHED and not field_selector.startswith(NAMED):
            return super().list(path, label_selector, field_selector, page)
        found = _PATH.match(path)
        if found is None:
            raise ValueError(f"{path} is the path of no collection")
        collection = self._followed(path, f"{found.group(1)}/{found.group(3)}", label_selector, field_selector)
        requirements = parse_selector(label_selector) if label_selector else ()
        listing = collection.listing(self.cluster, found.group(2), requirements, self.limits.list_seconds)
        if field_selector and not collection.fields:
            listing = listing._replace(items=[obj for obj in listing.items if _selected(obj, field_selector)])
        return listing

    def _followed(self, path: str, whole: str, labels: str | None, fields: str | None) -> Collection:
        with self._lock:
            collection = self._collections.get((whole, "", "")) or self._collections.get(
                (path, labels or "", fields or "")
            )
            if collection is None:
                collection = self._collections[path, labels or "", fields or ""] = Collection(
                    path, labels, fields, self._listener, self.check_form
                )
                collection.follower = self._follower(collection)
                collection.follower.start()
        return collection

    def _follower(self, collection: Collection) -> Follower:
        places = [(collection.path.rsplit("/", 1)[-1], collection.path)]
        settings = self._settings
        if collection.path.startswith(_SOUGHT):
            settings = settings._replace(undefined_pause=min(SOUGHT_SECONDS, settings.undefined_pause))
        return Follower(
            self._given,
            places,
            collection.labels,
            collection.listed,
            collection.heard,
            self._status,
            self._stop,
            settings,
            collection.state,
            collection.fields,
            optional=False,  # what the server does not have is not empty
        )

    @property
    def collections(self) -> builtins.list[Collection]:
        """What is followed."""
        with self._lock:
            return list(self._collections.values())

    def requests(self) -> dict[tuple[str, str], int]:
        """How many there were, by verb and code; a reason where no server answered."""
        found = collections.Counter(self._requests)
        for collection in self.collections:
            if collection.follower is not None:
                found.update(dict(collection.follower.requests))
        return dict(found)

    def send(self, request: Request, deadline: float, allowance: Allowance | None = None) -> t.Any:
        """As Session.send, counted."""
        code = "200"
        try:
            return super().send(request, deadline, allowance)
        except KubeError as error:
            code = str(error.status or error.reason)
            raise
        finally:
            with self._lock:
                self._requests[request.verb, code] = self._requests.get((request.verb, code), 0) + 1

    def _object(self, verb: str, method: str, path: str, *more: t.Any, **named: t.Any) -> Data:
        if method == "GET":
            return super()._object(verb, method, path, *more, **named)
        if not self._may_write():
            raise self.error(NotLeading, f"{verb} {path}", "another reconciler leads this cluster")
        name = ((more[1] if len(more) > 1 else {}) or {}).get("metadata", {}).get("name") if method == "POST" else ""
        begun = list(self._where(f"{path}/{name}" if name else path)) if name is not None else []
        for collection, place in begun:
            collection.begin(place)
        answer: Data | None = None
        try:
            answer = super()._object(verb, method, path, *more, **named)
            self._remember(method, path, answer)
        except (Conflict, NotFound):
            self._look_again(path)
            raise
        finally:
            kept = (
                answer
                if answer is not None and isinstance(answer.get("metadata"), dict) and answer.get("kind") != "Status"
                else None
            )
            gone = (
                method == "DELETE" and answer is not None and not (kept and kept["metadata"].get("deletionTimestamp"))
            )
            for collection, place in begun:
                collection.end(place, kept, gone)
        return answer

    def _remember(self, method: str, path: str, answer: Data) -> None:
        """What the server made of our write is known before its watch reports it."""
        metadata = answer.get("metadata")
        kept = isinstance(metadata, dict) and isinstance(metadata.get("name"), str) and answer.get("kind") != "Status"
        if method == "POST":
            path += "/" + (str(metadata["name"]) if kept else "")  # type: ignore[index]
        if method == "DELETE":
            if not (kept and metadata.get("deletionTimestamp")):  # type: ignore[union-attr]  # else it lingers, and the watch will tell
                for collection, place in self._where(path):
                    collection.deleted(place)
        elif kept:
            for collection, place in self._where(path):
                collection.wrote(place, answer)

    def _look_again(self, path: str) -> None:
        """The server does not have what we believe: that object is asked for."""
        found = list(self._where(path))
        if not found:
            return
        try:
            obj: Data | None = super()._object("get", "GET", path)
        except NotFound:
            obj = None
        except KubeError:
            return  # the write will come again, and so will this
        for collection, place in found:
            collection.looked(place, obj)

    def _where(self, path: str) -> t.Iterator[tuple[Collection, Place]]:
        """The collections that an object belongs to, as far as its path shows."""
        found = _OBJECT.match(path)
        if found is None:
            return
        base, namespace, plural, name = (
            found.group(1),
            found.group(2) or "",
            found.group(3),
            urllib.parse.unquote(found.group(4)),
        )
        for collection in self.collections:
            if collection.path in (f"{base}/{plural}", f"{base}/namespaces/{namespace}/{plural}"):
                yield collection, (namespace, name)


def _selected(obj: Data, selector: str) -> bool:
    """Whether an object is one of those that a followed selector by fields chooses."""
    if selector == UNFINISHED:
        return mapping(obj, "status").get("phase") not in ("Succeeded", "Failed")
    return bool(obj["metadata"].get("name") == selector[len(NAMED) :])
