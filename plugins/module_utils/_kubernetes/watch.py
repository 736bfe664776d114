# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Following one kind of objects in one cluster: list, watch, and list again when the server forgot.

What it costs is bounded: one LIST, then one WATCH in every ``seconds``; outages add one request for each attempt, at most one in
``longest_pause`` seconds once they last.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
import typing as t

from .._values.refused import quoted
from .._values.text import mapping
from .access import AccessRefused, parse_access
from .client import Client, Listing
from .decode import decode
from .errors import BadAnswer, Expired, KubeError, TooLarge, Unreachable
from .session import Limits, Request

Data = dict[str, t.Any]
#: resource -> (kind, paths; the first one that the server has counts, kinds may differ between them)
RESOURCES: dict[str, tuple[tuple[str, str], ...]] = {
    "nodes": (("Node", "/api/v1/nodes"),),
    "pods": (("Pod", "/api/v1/pods"),),
    "clustermeshes": (("ClusterMesh", "/apis/kilo.squat.ai/v1alpha1/clustermeshes"),),
    "services": (("Service", "/api/v1/services"),),
    "endpointslices": (
        ("EndpointSlice", "/apis/discovery.k8s.io/v1/endpointslices"),
        ("EndpointSlice", "/apis/discovery.k8s.io/v1beta1/endpointslices"),
        ("Endpoints", "/api/v1/endpoints"),
    ),
    "serviceexports": (
        ("ServiceExport", "/apis/multicluster.x-k8s.io/v1beta1/serviceexports"),
        ("ServiceExport", "/apis/multicluster.x-k8s.io/v1alpha1/serviceexports"),
    ),
    # where Calico and Cilium keep the pod ranges of nodes
    "blockaffinities": (
        ("BlockAffinity", "/apis/crd.projectcalico.org/v1/blockaffinities"),
        ("BlockAffinity", "/apis/projectcalico.org/v3/blockaffinities"),
    ),
    "ipamblocks": (
        ("IPAMBlock", "/apis/crd.projectcalico.org/v1/ipamblocks"),
        ("IPAMBlock", "/apis/projectcalico.org/v3/ipamblocks"),
    ),
    "ciliumnodes": (("CiliumNode", "/apis/cilium.io/v2/ciliumnodes"),),
}
#: Resources that accounts from earlier releases may not list: to them they are missing too.
_RANGES = frozenset(("blockaffinities", "ipamblocks", "ciliumnodes"))
#: Resources that most clusters do not define; where they are missing, they are asked for again after a while.
_OPTIONAL = frozenset(("clustermeshes", "serviceexports", *_RANGES))
ROW_BYTES = 16 * 1024 * 1024
#: A server that answers, but ends every watch at once, is asked no more often than this.
_SHORT = 1.0


class Settings(t.NamedTuple):
    """``seconds`` that one WATCH lasts, pauses after failures and for what the server does not have, limits of lists."""

    seconds: float = 540.0
    first_pause: float = 0.5
    longest_pause: float = 10.0
    timeout: float = 60.0
    undefined_pause: float = 60.0


class Follower:
    """Follows one resource of one cluster in a thread of its own until ``stop`` is set.

    ``places`` are rows of RESOURCES; ``selector`` chooses by labels, ``fields`` by fields. ``listed(kind, listing)`` gets every complete
    list, ``heard(kind, type, object)`` every row of a watch that has an object, ``status(text)`` a line when something stops working or
    works again, and ``state`` None when what was reported is whole and followed, or the error that ended that. They are called from the thread,
    one at a time. optional: where a resource that most clusters do not define is missing, an empty list is reported instead of an error.
    """

    def __init__(
        self,
        given: t.Mapping[str, t.Any],
        places: t.Sequence[tuple[str, str]],
        selector: str,
        listed: t.Callable[[str, Listing], None],
        heard: t.Callable[[str, str, Data], None],
        status: t.Callable[[str], None],
        stop: threading.Event,
        settings: Settings,
        state: t.Callable[[KubeError | None], None] = lambda problem: None,
        fields: str = "",
        optional: bool = True,
    ) -> None:
        self._given, self._all_places, self._selector, self._fields = given, tuple(places), selector, fields
        self._resource = places[0][1].rsplit("/", 1)[-1]
        self._optional = optional and self._resource in _OPTIONAL
        self._listed, self._heard, self._status, self._state = listed, heard, status, state
        self._stop, self._settings = stop, settings
        self._client: Client | None = None
        self._places: list[tuple[str, str]] = []
        self._version, self._streamed = "", 0
        self._reported = ""
        #: requests by (verb, code or reason), and when the server was heard last
        self.requests: dict[tuple[str, str], int] = {}
        self.heard_at = time.monotonic()

    def start(self) -> None:
        """Begin; returns at once."""
        threading.Thread(target=self.run, name="mcn-follow-" + self._resource, daemon=True).start()

    def run(self) -> None:
        """Until ``stop``."""
        pauses = 0
        while not self._stop.is_set():
            begun = time.monotonic()
            try:
                self._once()
                pauses = pauses + 1 if time.monotonic() - begun < _SHORT else 0
            except Expired as error:
                # the server's history is shorter than our absence
                self._version = ""
                self._count("watch", "410")
                self._state(error)
                pauses += 1
                if pauses == 1:
                    continue
            except (KubeError, AccessRefused) as error:
                if isinstance(error, AccessRefused) or error.status == 401:
                    self._client = None  # a token may have been replaced in its file meanwhile
                pauses = pauses + 1 if time.monotonic() - begun < self._settings.longest_pause else 1
                if isinstance(error, (BadAnswer, TooLarge)):
                    self._version = ""  # a row that nobody could read is missing: all of it is listed again
                if isinstance(error, KubeError):
                    self._count("watch" if self._version else "list", str(error.status or error.reason))
                self._state(
                    error
                    if isinstance(error, KubeError)
                    else BadAnswer(str(self._given.get("name")), "follow", str(error))
                )
                self._tell(f"{error} [{error.reason}]")
                if isinstance(error, KubeError) and error.status == 404:
                    self._stop.wait(self._settings.undefined_pause)  # the server does not have it
                    continue
            except Exception as error:  # a thread that ends would be missed by nobody
                self._version = ""
                pauses += 1
                self._state(BadAnswer(str(self._given.get("name")), "follow " + self._resource, repr(error)))
                self._tell(f"cluster {self._given.get('name')}: following {self._resource}: {error!r}")
            if pauses:
                length = min(self._settings.longest_pause, self._settings.first_pause * 2 ** min(pauses - 1, 16))
                self._stop.wait(length * (0.5 + random.random() / 2))

    def _once(self) -> None:
        if self._client is None:
            # it lives as long as the watch, and keeps no list but the last
            limits = Limits(
                request_seconds=min(30.0, self._settings.timeout), list_seconds=self._settings.timeout, tries=1
            )
            limits = limits._replace(run_bytes=None, run_memory=None)
            self._client = Client(parse_access(self._given), limits, connections=2)
        if not self._version and not self._list():
            self._stop.wait(self._settings.undefined_pause)
            return
        kind, path = self._places[0]
        for row in rows(self._client, path, self._selector, self._version, self._settings.seconds, self._fields):
            if self._stop.is_set():
                return
            if not row:
                self._count("watch", "200")
                self._state(None)
                self._tell("")  # it answers
                continue
            self.heard_at = time.monotonic()
            if self._client.bytes_streamed - self._streamed > self._client.limits.list_bytes:
                # what rows add up to is measured by listing everything, which has bounds
                raise TooLarge(
                    self._client.cluster,
                    "watch " + path,
                    f"rows of more than {self._client.limits.list_bytes} bytes since the list",
                )
            obj, event = row.get("object"), row.get("type")
            if not isinstance(obj, dict):
                raise BadAnswer(self._client.cluster, "watch " + path, "a row without an object")
            metadata = obj.get("metadata")
            version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
            if isinstance(version, str) and version:
                self._version = version
            if event in ("ADDED", "MODIFIED", "DELETED"):
                self._heard(kind, event, obj)

    def _list(self) -> bool:
        """False for a resource that the cluster does not define and need not."""
        client = t.cast(Client, self._client)
        self._places = list(self._all_places)
        while True:
            kind, path = self._places[0]
            try:
                listing = client.list(path, self._selector or None, self._fields or None)
                break
            except KubeError as error:
                if error.status == 404 and len(self._places) > 1:
                    self._places.pop(0)
                elif self._optional and (error.status == 404 or (error.status == 403 and self._resource in _RANGES)):
                    self._tell(f"{error} [{error.reason}]" if error.status == 403 else "")
                    self._listed(kind, Listing([], ""))
                    return False
                else:
                    raise
        self._count("list", "200")
        self._listed(kind, listing)
        self._version, self.heard_at, self._streamed = listing.resource_version, time.monotonic(), client.bytes_streamed
        self._state(None)
        return True

    def _count(self, verb: str, code: str) -> None:
        self.requests[verb, code] = self.requests.get((verb, code), 0) + 1

    def _tell(self, problem: str) -> None:
        if problem != self._reported:
            self._reported = problem
            self._status(problem or f"cluster {self._given.get('name')}: following {self._resource} again")


def rows(client: Client, path: str, selector: str, version: str, seconds: float, fields: str = "") -> t.Iterator[Data]:
    """The rows of one WATCH from a resource version on, after an empty one as soon as the server answers; ends when the server
    ends it. Raises KubeErrors, Expired for 410."""
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(max(1, int(seconds))),
    }
    if selector:
        query["labelSelector"] = selector
    if fields:
        query["fieldSelector"] = fields
    request = Request("watch", "GET", path, query)
    with contextlib.closing(client.stream(request, seconds + 15.0)) as parts:
        next(parts, b"")
        yield {}
        yield from _lines(client, parts, request.operation)


def _lines(client: Client, parts: t.Iterable[bytes], operation: str) -> t.Iterator[Data]:
    rest = b""
    for part in parts:
        rest += part
        while b"\n" in rest:
            line, rest = rest.split(b"\n", 1)
            if line.strip():
                yield _row(client, line, operation)
        if len(rest) > ROW_BYTES:
            raise TooLarge(client.cluster, operation, f"a row of more than {ROW_BYTES} bytes")
    if rest.strip():
        raise Unreachable(client.cluster, operation, "the connection ended in the middle of a row")


def _row(client: Client, line: bytes, operation: str) -> Data:
    row = _decoded(line, client.limits.depth)
    if not isinstance(row, dict):
        raise BadAnswer(client.cluster, operation, "a row that is no object")
    if row.get("type") == "ERROR":
        code = mapping(row, "object").get("code")
        kind = Expired if code == 410 else KubeError
        raise kind(client.cluster, operation, f"the server ended it with code {quoted(code)}", retryable=True)
    return row


def _decoded(line: bytes, depth: int) -> t.Any:
    try:
        return decode(line, depth)
    except ValueError:
        return None
