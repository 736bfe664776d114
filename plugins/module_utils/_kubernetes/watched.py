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

from .._plan.changes import digest
from .._values.selectors import matches, parse_selector
from .._values.text import mapping
from .access import AccessRefused, parse_access
from .client import Client, Listing
from .errors import Conflict, KubeError, ListIncomplete, NotFound, TimedOut
from .pod_ranges import UNFINISHED
from .session import Allowance, Limits, Request
from .watch import Follower, Settings

Data = dict[str, t.Any]
#: namespace, name
Place = tuple[str, str]


class NotLeading(KubeError):
    """Somebody else writes to this cluster."""

    reason, retryable = "not_leading", False


class Heard(t.NamedTuple):
    """One object of a collection as it is now (None: there is none). ``news``: a plan may read of it; not so of our own writes,
    of housekeeping and of the first list. Without a name: the whole collection is in doubt, or is known again."""

    path: str
    namespace: str
    name: str
    after: Data | None
    news: bool

    @property
    def plural(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


Listener = t.Callable[[Heard], None]
#: The collection of a path, and its namespace.
_PATH = re.compile(r"(/api/[^/]+|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([^/]+)\Z")
_OBJECT = re.compile(r"(/api/[^/]+|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([^/]+)/([^/]+?)(?:/status)?\Z")
#: Kinds of objects that are written all the time without a meaning: only a change of what plans read of them is reported.
_DIGESTED = {
    "nodes": "Node",
    "pods": "Pod",
    "blockaffinities": "BlockAffinity",
    "ipamblocks": "IPAMBlock",
    "ciliumnodes": "CiliumNode",
}
#: Of selectors by fields this one is followed, as every kind has it, and UNFINISHED, which the server applies to the rows of a watch, too.
_NAMED = "metadata.name="
#: A server that does not answer keeps a process that stays waiting no longer than this: it asks again.
_PATIENCE = 10.0
#: So many objects that went are remembered.
_REMEMBERED = 10_000
#: So long a resource that the server does not have is not asked for again, in seconds.
UNDEFINED_SECONDS = 600.0
#: Of these APIs users bring the definitions when they begin to use them: they are looked for more often.
_SOUGHT, SOUGHT_SECONDS = ("/apis/multicluster.x-k8s.io/",), 15.0


class Collection:
    """The objects under one path and selector, as of the last row of their watch. Safe for threads.

    Its listener is notified of each object's changes in their order, so it is called with the lock held.
    """

    def __init__(
        self,
        path: str,
        labels: str | None,
        fields: str | None,
        listener: Listener,
        check: t.Callable[[Data, str], None],
    ) -> None:
        self.path, self.labels, self.fields, self._listener, self._check = (
            path,
            labels or "",
            fields or "",
            listener,
            check,
        )
        self._selector = parse_selector(labels) if labels else []
        self._kind = _DIGESTED.get(path.rsplit("/", 1)[-1])
        self._lock = threading.RLock()
        self._items: dict[Place, Data] = {}
        self._version = ""
        #: resource versions of what we wrote and the watch has not reported yet; uids of what we deleted likewise
        self._written: dict[Place, int] = {}
        self._deleted: dict[Place, str] = {}
        #: versions at which objects went: an answer to an earlier write of this client may come later than that news
        self._gone: dict[Place, int] = {}
        #: writes of this client that are not answered yet; and what the watch reported meanwhile: versions, None for an object that went
        self._writing: dict[Place, int] = {}
        self._early: dict[Place, list[int | None]] = {}
        self._problem: KubeError | None = None
        self._settled = threading.Event()
        self.follower: Follower | None = None

    # -- what the watch reports

    def listed(self, kind: str, listing: Listing) -> None:
        """A complete list takes the place of what was known."""
        del kind
        version, first = _number(listing.resource_version), not self._settled.is_set()
        with self._lock:
            before, fresh = self._items, {_place(obj): obj for obj in listing.items}
            for place, written in self._written.items():
                # a write that ended while the list was on its way is newer than the list
                if version is not None and written > version and place in before:
                    fresh[place] = before[place]
            for place, uid in self._deleted.items():
                if place in fresh and fresh[place]["metadata"].get("uid") == uid:
                    del fresh[place]
            self._items, self._version = fresh, listing.resource_version
            for place in before:
                if place not in fresh:
                    self._tell(place, None, True)
            for place, obj in fresh.items():
                self._tell(place, obj, not first and self._differs(before.get(place), obj))

    def heard(self, kind: str, event: str, obj: Data) -> None:
        """One row of the watch. Raises BadAnswer for what no server sends, after which everything is listed again."""
        del kind
        self._check(obj, "watch " + self.path)
        place, version = _place(obj), _number(obj["metadata"].get("resourceVersion"))
        with self._lock:
            before = self._items.get(place)
            written, uid = self._written.get(place), self._deleted.get(place)
            if written is not None and version is not None and version < written:
                return  # older than what we wrote since
            if uid is not None and event != "DELETED" and obj["metadata"].get("uid") == uid:
                return  # what it was like before we deleted it
            self._written.pop(place, None)
            self._deleted.pop(place, None)
            after = None if event == "DELETED" else obj
            if after is None:
                self._items.pop(place, None)
                if version is not None:
                    self._went(place, version)
            else:
                self._items[place] = after
            own = written is not None and version == written  # this client's write comes back
            news = not own and (before is not None if after is None else self._differs(before, after))
            if news and place in self._writing:
                self._early.setdefault(place, []).append(version if after is not None else None)
                news = False  # the answer shows whether this client wrote it
            self._tell(place, after, news)

    def state(self, problem: KubeError | None) -> None:
        """None: what is known is whole and followed; otherwise why not. A change of it is reported as the object without a name."""
        with self._lock:
            turned = self._settled.is_set() and (self._problem is None) != (problem is None)
            self._problem = problem
            self._settled.set()
            if turned:
                self._tell(("", ""), None, True)

    def _tell(self, place: Place, after: Data | None, news: bool) -> None:
        self._listener(Heard(self.path, *place, after, news))

    def _differs(self, before: Data | None, after: Data) -> bool:
        if before is None:
            return True
        if self._kind is not None:
            return digest(self._kind, before) != digest(self._kind, after)
        return _content(before) != _content(after)

    # -- what we write

    def begin(self, place: Place) -> None:
        """A write is on its way to the server; its row may come before its answer."""
        with self._lock:
            self._writing[place] = self._writing.get(place, 0) + 1

    def end(self, place: Place, obj: Data | None, gone: bool = False) -> None:
        """It was answered with this object, or that the object is ``gone``, or not. What came meanwhile and is not it was news."""
        with self._lock:
            left = self._writing.pop(place, 1) - 1
            if left > 0:
                self._writing[place] = left
            own = _number(obj["metadata"].get("resourceVersion")) if obj is not None else None
            rows = self._early.pop(place, [])
            if any(row != own if row is not None else not gone for row in rows):
                self._tell(place, self._items.get(place), True)

    def wrote(self, place: Place, obj: Data) -> None:
        """An object as the server answered our write."""
        version = _number(obj["metadata"].get("resourceVersion"))
        if (
            version is None
            or not matches(self._selector, obj["metadata"].get("labels"))
            or (self.fields and self.fields != _NAMED + place[1])
        ):
            return  # the watch will tell
        with self._lock:
            known = _number((self._items.get(place) or {"metadata": {}})["metadata"].get("resourceVersion"))
            if max(known or 0, self._gone.get(place, 0)) >= version:
                return  # the watch was faster, or nothing changed
            self._items[place] = obj
            self._written[place] = version
            self._deleted.pop(place, None)
            self._tell(place, obj, False)

    def deleted(self, place: Place) -> None:
        """The server said that the object is gone."""
        with self._lock:
            gone = self._items.pop(place, None)
            self._written.pop(place, None)
            if gone is not None and isinstance(gone["metadata"].get("uid"), str):
                self._deleted[place] = gone["metadata"]["uid"]
            self._tell(place, None, False)

    def looked(self, place: Place, obj: Data | None) -> None:
        """An object as the server has it now, asked for since a write of this client did not find what it expected."""
        version = _number(obj["metadata"].get("resourceVersion")) if obj is not None else None
        with self._lock:
            known = _number((self._items.get(place) or {"metadata": {}})["metadata"].get("resourceVersion"))
            if obj is None:
                self._items.pop(place, None)
            elif (
                version is None or (known or 0) >= version or not matches(self._selector, obj["metadata"].get("labels"))
            ):
                return
            else:
                self._items[place] = obj
            self._written.pop(place, None)
            self._tell(place, obj, True)

    def _went(self, place: Place, version: int) -> None:
        if len(self._gone) >= _REMEMBERED:
            self._gone.clear()
        self._gone[place] = version

    # -- what plans read

    def listing(self, cluster: str, namespace: str | None, requirements: t.Sequence[t.Any], seconds: float) -> Listing:
        """The objects, all or of a namespace, with such labels. Raises ListIncomplete while they are not known to be whole."""
        operation = "list " + self.path
        if not self._settled.wait(seconds):
            raise ListIncomplete(TimedOut(cluster, operation, f"it was not listed within {seconds:.3g} s"))
        with self._lock:
            if self._problem is not None:
                raise self._problem if isinstance(self._problem, ListIncomplete) else ListIncomplete(self._problem)
            items: t.Iterable[Data] = list(self._items.values())
            version = self._version
        if namespace is not None:
            items = [obj for obj in items if obj["metadata"].get("namespace") == namespace]
        if requirements:
            items = [obj for obj in items if matches(requirements, obj["metadata"].get("labels"))]
        return Listing(list(items), version)

    @property
    def size(self) -> int:
        """How many objects there are."""
        with self._lock:
            return len(self._items)

    @property
    def current(self) -> bool:
        """Whether it is whole and followed, or the server has no such kind."""
        with self._lock:
            return self._settled.is_set() and (self._problem is None or self._problem.status == 404)


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
        if field_selector and field_selector != UNFINISHED and not field_selector.startswith(_NAMED):
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


def _place(obj: Data) -> Place:
    return obj["metadata"].get("namespace") or "", obj["metadata"].get("name") or ""


def _selected(obj: Data, selector: str) -> bool:
    """Whether an object is one of those that a followed selector by fields chooses."""
    if selector == UNFINISHED:
        return mapping(obj, "status").get("phase") not in ("Succeeded", "Failed")
    return bool(obj["metadata"].get("name") == selector[len(_NAMED) :])


def _number(version: t.Any) -> int | None:
    """Resource versions as numbers, which they are in every API server; of anything else nothing is concluded."""
    return int(version) if isinstance(version, str) and re.match(r"[0-9]{1,20}\Z", version) else None


def _content(obj: Data) -> tuple[t.Any, ...]:
    """An object without the server's housekeeping."""
    metadata = obj["metadata"]
    return (
        {name: value for name, value in obj.items() if name not in ("metadata", "apiVersion", "kind")},
        {
            name: value
            for name, value in metadata.items()
            if name not in ("resourceVersion", "managedFields", "generation", "selfLink")
        },
    )
