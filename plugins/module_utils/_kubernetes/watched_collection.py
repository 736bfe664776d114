# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A collection of objects that is kept as its API server has it, by a list and a watch, with our own writes as soon as they are answered."""

from __future__ import annotations

import re
import threading
import typing as t

from .._plan.changes import digest
from .._values.selectors import matches, parse_selector
from .client import Listing
from .errors import KubeError, ListIncomplete, TimedOut
from .watch import Follower

Data = dict[str, t.Any]
#: namespace, name
Place = tuple[str, str]


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


#: Kinds of objects that are written all the time without a meaning: only a change of what plans read of them is reported.
_DIGESTED = {
    "nodes": "Node",
    "pods": "Pod",
    "blockaffinities": "BlockAffinity",
    "ipamblocks": "IPAMBlock",
    "ciliumnodes": "CiliumNode",
}
#: Of selectors by fields this one is followed, as every kind has it, and UNFINISHED, which the server applies to the rows of a watch, too.
NAMED = "metadata.name="
#: So many objects that went are remembered.
_REMEMBERED = 10_000


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
        version, first = version_number(listing.resource_version), not self._settled.is_set()
        with self._lock:
            before, fresh = self._items, {place_of(obj): obj for obj in listing.items}
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
        place, version = place_of(obj), version_number(obj["metadata"].get("resourceVersion"))
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
            own = version_number(obj["metadata"].get("resourceVersion")) if obj is not None else None
            rows = self._early.pop(place, [])
            if any(row != own if row is not None else not gone for row in rows):
                self._tell(place, self._items.get(place), True)

    def wrote(self, place: Place, obj: Data) -> None:
        """An object as the server answered our write."""
        version = version_number(obj["metadata"].get("resourceVersion"))
        if (
            version is None
            or not matches(self._selector, obj["metadata"].get("labels"))
            or (self.fields and self.fields != NAMED + place[1])
        ):
            return  # the watch will tell
        with self._lock:
            known = version_number((self._items.get(place) or {"metadata": {}})["metadata"].get("resourceVersion"))
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
        version = version_number(obj["metadata"].get("resourceVersion")) if obj is not None else None
        with self._lock:
            known = version_number((self._items.get(place) or {"metadata": {}})["metadata"].get("resourceVersion"))
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


def place_of(obj: Data) -> Place:
    return obj["metadata"].get("namespace") or "", obj["metadata"].get("name") or ""


def version_number(version: t.Any) -> int | None:
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
