# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One API server: complete lists, single objects, plain JSON, and limits on everything that it sends (T14, T21, T22).

Requests go through urllib3, the kubernetes library's own pool, directly: its object model costs ten times the decoding and its
own request functions follow redirects. The library itself obtains the credentials that need a plugin.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import ssl
import threading
import time
import typing as t
import urllib.parse

from .._values.ascii_text import is_digits
from .._values.refused import quoted
from . import errors
from .access import Access
from .decode import decode, memory_of
from .transport import Transport, connect, library, within

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


MIB = 1024 * 1024
#: The most that one request may take, whatever the user allows for all of them.
BUILT_IN_SECONDS = 30.0
#: What a healthy server is far below, also one that is busy.
SECONDS_A_WRITE = 0.1


class Limits(t.NamedTuple):
    """Bounds for one cluster: seconds, bytes, counts. ``tries`` includes the first.

    ``list_bytes`` and ``list_memory`` (bytes that the decoded objects need, see memory_of) hold for all pages of a list together,
    ``run_bytes`` and ``run_memory`` for everything that a client reads, ``write_seconds`` for its writes; None is no bound, for a client
    that lives as long as a service.
    """

    connect_seconds: float = 10.0
    request_seconds: float = BUILT_IN_SECONDS
    list_seconds: float = 120.0
    answer_bytes: int = 64 * MIB
    list_bytes: int = 256 * MIB
    list_memory: int = 1024 * MIB
    run_bytes: t.Optional[int] = 1024 * MIB
    run_memory: t.Optional[int] = 2048 * MIB
    write_seconds: t.Optional[float] = None
    objects: int = 200_000
    pages: int = 2_000
    depth: int = 64
    tries: int = 4
    retry_seconds: float = 10.0


def scaled(limits: Limits, mib: t.Optional[int]) -> Limits:
    """The limits for a cluster whose lists may have so many MiB; None: as they are."""
    if mib is None:
        return limits
    return limits._replace(
        answer_bytes=min(limits.answer_bytes, mib * MIB), list_bytes=mib * MIB, list_memory=4 * mib * MIB,
        run_bytes=None if limits.run_bytes is None else 4 * mib * MIB, run_memory=None if limits.run_memory is None else 8 * mib * MIB,
    )  # fmt: skip


class Allowance:
    """What is left of the bounds of one list: bytes while they are read, memory before they are decoded."""

    def __init__(self, limits: Limits) -> None:
        self.bytes, self.memory = limits.list_bytes, limits.list_memory


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


class Listing(t.NamedTuple):
    """A complete list: ``items`` as the server sent them, ``resource_version``; ``complete`` is always True."""

    items: t.List[t.Dict[str, t.Any]]
    resource_version: str
    complete: bool = True


class Resource(t.NamedTuple):
    """How a kind is addressed: ``plural`` in paths, whether it lives in namespaces, the verbs that the server has."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: t.FrozenSet[str]

    def path(self, namespace: t.Optional[str] = None, name: t.Optional[str] = None) -> str:
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
        raise ValueError("{0} is no object name".format(quoted(text)))
    return urllib.parse.quote(text, safe=":")


class Client:
    """Talks to one API server; may be used from several threads. ``stats`` counts the requests sent, by verb."""

    def __init__(self, access: Access, limits: t.Optional[Limits] = None, connections: int = 10) -> None:
        self.cluster = access.cluster
        self.limits = scaled(limits or Limits(), access.read_limit_mib)
        self.bytes_read, self.memory_used = 0, 0
        self.writing = Writing()
        self.stats: t.Dict[str, int] = {}
        self.access = access
        self._connections = connections
        self._lock = threading.Lock()
        self._discovering = threading.Lock()
        self._transport: t.Optional[Transport] = None
        self._resources: t.Dict[str, t.Optional[t.Dict[str, Resource]]] = {}
        self._undiscovered: t.Dict[str, errors.KubeError] = {}

    def __repr__(self) -> str:
        return "Client({0!r})".format(self.access)

    # -- reading -----------------------------------------------------------------------------------------------

    def list(
        self,
        path: str,
        label_selector: t.Optional[str] = None,
        field_selector: t.Optional[str] = None,
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

    def _list(self, path: str, labels: t.Optional[str], fields: t.Optional[str], page: int) -> Listing:
        operation = "list {0}".format(path)
        query = {"limit": str(page)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        deadline = time.monotonic() + self.limits.list_seconds
        items: t.List[t.Dict[str, t.Any]] = []
        seen: t.Set[str] = set()
        allowance = Allowance(self.limits)
        for dummy in range(self.limits.pages):
            answer = self._request("list", operation, "GET", path, query, deadline=deadline, allowance=allowance)
            found = answer.get("items") if isinstance(answer, dict) else None
            meta = answer.get("metadata") if isinstance(answer, dict) else None
            if found is None and isinstance(answer, dict) and str(answer.get("kind", "")).endswith("List"):
                found = []  # Go prints an empty slice as null
            if not isinstance(found, list) or not isinstance(meta, dict):
                raise self._error(errors.BadAnswer, operation, "the answer is no list")
            if not all(isinstance(item, dict) and isinstance(item.get("metadata"), dict) for item in found):
                raise self._error(errors.BadAnswer, operation, "the list holds something that is no object")
            for item in found:
                self._check_form(item, operation)
            items.extend(found)
            if len(items) > self.limits.objects:
                raise self._error(errors.TooLarge, operation, "more than {0} objects".format(self.limits.objects))
            token = meta.get("continue")
            if not token:
                if meta.get("remainingItemCount"):
                    raise self._error(errors.BadAnswer, operation, "the server says that objects remain, and not where")
                return Listing(items, str(meta.get("resourceVersion", "")))
            if not isinstance(token, str) or token in seen:
                raise self._error(errors.BadAnswer, operation, "the server repeats a continue token")
            seen.add(token)
            query["continue"] = token
        raise self._error(errors.TooLarge, operation, "more than {0} pages".format(self.limits.pages))

    def get(self, path: str) -> t.Dict[str, t.Any]:
        """One object. Raises NotFound."""
        return self._object("get", "GET", path)

    def server_version(self) -> t.Tuple[int, int]:
        """(major, minor) of the API server."""
        answer = self.get("/version")
        try:
            return int(answer["major"]), int("".join(ch for ch in answer["minor"] if ch in "0123456789"))
        except (KeyError, ValueError, TypeError):
            raise self._error(errors.BadAnswer, "get /version", "the answer is no version") from None

    def resource(self, api_version: str, kind: str, refresh: bool = False) -> t.Optional[Resource]:
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

    def _discover(self, api_version: str) -> t.Optional[t.Dict[str, Resource]]:
        group, dummy, version = api_version.rpartition("/")
        path = "/apis/{0}/{1}".format(segment(group), segment(version)) if group else "/api/" + segment(version)
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
                    raise self._error(errors.BadAnswer, "get " + path, str(error)) from None
                verbs = frozenset(str(verb) for verb in entry.get("verbs") or ())
                kind = str(entry.get("kind"))
                found[kind] = Resource(api_version, kind, plural, entry.get("namespaced") is True, verbs)
        return found

    # -- writing -----------------------------------------------------------------------------------------------

    def create(self, path: str, body: t.Mapping[str, t.Any], field_manager: str, verb: str = "create") -> t.Any:
        """POST. Not repeated unless the server refused it unseen (429)."""
        return self._object(verb, "POST", path, {"fieldManager": field_manager}, body)

    def merge_patch(self, path: str, body: t.Mapping[str, t.Any], field_manager: str) -> t.Any:
        """RFC 7386 merge patch."""
        return self._object("patch", "PATCH", path, {"fieldManager": field_manager}, body, MERGE)

    def strategic_patch(self, path: str, body: t.Mapping[str, t.Any], field_manager: str) -> t.Any:
        """Strategic merge patch (built-in kinds only)."""
        return self._object("patch", "PATCH", path, {"fieldManager": field_manager}, body, STRATEGIC)

    def apply(self, path: str, body: t.Mapping[str, t.Any], field_manager: str, force: bool = False) -> t.Any:
        """Server-side apply; makes the object where there is none. A field of another manager raises Conflict."""
        # to warn of unknown fields, which nobody would read, servers since 1.25 parse every manifest twice
        query = {"fieldManager": field_manager, "force": "true" if force else "false", "fieldValidation": "Ignore"}
        return self._object("apply", "PATCH", path, query, body, APPLY)

    def delete(self, path: str, uid: t.Optional[str] = None) -> bool:
        """Delete the object, with ``uid`` only that very one (else Conflict). False when it is gone already."""
        try:
            self.request_deletion(path, uid)
        except errors.NotFound:
            return False
        return True

    def request_deletion(self, path: str, uid: t.Optional[str] = None, version: t.Optional[str] = None) -> t.Dict[str, t.Any]:
        """As delete, also on condition of a resource version; the server's answer, which is the object if it lingers."""
        body: t.Dict[str, t.Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        conditions = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
        if conditions:
            body["preconditions"] = conditions
        return self._object("delete", "DELETE", path, None, body)

    # -- one request -------------------------------------------------------------------------------------------

    def _error(self, kind: t.Type[errors.KubeError], operation: str, message: str, **more: t.Any) -> errors.KubeError:
        return kind(self.cluster, operation, message, **more)

    def _object(
        self,
        verb: str,
        method: str,
        path: str,
        query: t.Optional[t.Dict[str, str]] = None,
        body: t.Optional[t.Mapping[str, t.Any]] = None,
        content_type: str = "application/json",
    ) -> t.Dict[str, t.Any]:
        operation = "{0} {1}".format(verb, path)
        if method != "GET":
            self._check_patience(operation)
        deadline = time.monotonic() + self.limits.request_seconds * 2
        with self.writing if method != "GET" else contextlib.nullcontext():
            answer = self._request(verb, operation, method, path, query, body, content_type, deadline)
        if not isinstance(answer, dict):
            raise self._error(errors.BadAnswer, operation, "the answer is no object")
        if "metadata" in answer:
            self._check_form(answer, operation)
        return answer

    def _check_form(self, obj: t.Mapping[str, t.Any], operation: str) -> None:
        """What every object of Kubernetes is made of: who reads them later, often those of all clusters together, goes by it."""
        meta = obj["metadata"]
        if not isinstance(meta, dict):
            raise self._error(errors.BadAnswer, operation, "an object's metadata is no object")
        for part, name in ((obj, "spec"), (obj, "status"), (meta, "labels"), (meta, "annotations")):
            # GET of a Status has a text there, which says how a deletion went
            value = part.get(name)
            if not (value is None or isinstance(value, dict) or (name == "status" and obj.get("kind") == "Status")):
                raise self._error(errors.BadAnswer, operation, "{0} of the object {1} is no object".format(name, quoted(meta.get("name"))))
        for name in ("name", "namespace", "uid", "resourceVersion"):
            if not isinstance(meta.get(name, ""), str) or meta.get("name") == "":
                raise self._error(errors.BadAnswer, operation, "the {0} of an object is {1}".format(name, quoted(meta.get(name))))

    def _check_patience(self, operation: str) -> None:
        """A server that takes its time with every single write would hold up all the others for hours, without ever failing."""
        bound, count = self.limits.write_seconds, self.writing.count
        if bound is None:
            return
        seconds = self.writing.seconds
        if seconds > bound + SECONDS_A_WRITE * count:
            text = "it took {0:.0f} s for {1} writes, and the option timeout allows {2:.0f} s and {3} s each; the next run goes on from here"
            raise self._error(errors.TimedOut, operation, text.format(seconds, count, bound, SECONDS_A_WRITE))

    def _request(
        self,
        verb: str,
        operation: str,
        method: str,
        path: str,
        query: t.Optional[t.Mapping[str, str]] = None,
        body: t.Optional[t.Mapping[str, t.Any]] = None,
        content_type: str = "application/json",
        deadline: float = 0.0,
        allowance: t.Optional[Allowance] = None,
    ) -> t.Any:
        """Send until it works, fails for good, or tries and time are used up. ``deadline``: of all tries together."""
        allowance = allowance or Allowance(self.limits)
        for attempt in range(1, self.limits.tries + 1):
            try:
                return self._once(verb, operation, method, path, query, body, content_type, deadline, allowance)
            except errors.KubeError as error:
                # a timeout has used the time already; a POST may have worked unless the server says that it did not
                again = error.retryable and not isinstance(error, (errors.TimedOut, errors.Expired))
                if method == "POST" and error.status != 429:
                    again = False
                if not again or attempt == self.limits.tries:
                    raise
                pause = min(self.limits.retry_seconds, error.retry_after or 0.2 * 2 ** (attempt - 1))
                pause *= 0.75 + random.random() / 2
                if time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause)
        raise AssertionError("no try was made")

    def _connected(self) -> Transport:
        with self._lock:
            if self._transport is None:
                self._transport = connect(self.access, self._connections, self.limits.request_seconds)
            return self._transport

    def _once(
        self,
        verb: str,
        operation: str,
        method: str,
        path: str,
        query: t.Optional[t.Mapping[str, str]],
        body: t.Optional[t.Mapping[str, t.Any]],
        content_type: str,
        deadline: float,
        allowance: Allowance,
    ) -> t.Any:
        transport = self._connected()
        urllib3 = library(self.cluster)
        url = transport.base + path + ("?" + urllib.parse.urlencode(query) if query else "")
        headers = transport.headers.copy()
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = json.dumps(body, separators=(",", ":")).encode("utf-8")
        seconds = min(self.limits.request_seconds, deadline - time.monotonic())
        if seconds <= 0:
            raise self._error(errors.TimedOut, operation, "no time is left" + self._whose(verb, 0))
        with self._lock:
            self.stats[verb] = self.stats.get(verb, 0) + 1
        failure = None
        try:
            with within(time.monotonic() + seconds):
                # the shortest of its ways, which takes the headers as they are
                answer = transport.host.request_encode_url(
                    method, url, body=data, headers=headers, redirect=False, retries=False, preload_content=False,
                    enforce_content_length=True,  # not the default before urllib3 2
                    timeout=urllib3.Timeout(connect=min(self.limits.connect_seconds, seconds), read=seconds),
                )  # fmt: skip
                try:
                    payload = self._read(answer, operation, time.monotonic() + seconds, allowance)
                except BaseException:
                    answer.close()  # half-read: the connection is of no further use
                    raise
                answer.release_conn()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            failure = self._broken(error, operation, seconds, urllib3)
        if failure is not None:
            raise failure
        return self._judge(answer, payload, operation, allowance)

    def _read(self, answer: t.Any, operation: str, deadline: float, allowance: t.Optional[Allowance] = None) -> bytes:
        """The body, within the limits of bytes and time."""
        allowance = allowance or Allowance(self.limits)
        limit = self.limits.answer_bytes
        if (answer.headers.get("Content-Encoding") or "identity") != "identity":
            raise self._error(errors.BadAnswer, operation, "the answer is compressed, which was not asked for")
        parts, size, begun = [], 0, time.monotonic()
        for part in answer.stream(65536, decode_content=False):
            size += len(part)
            if size > limit:
                raise self._error(errors.TooLarge, operation, "more than {0} bytes".format(limit))
            allowance.bytes -= len(part)
            if allowance.bytes < 0:
                raise self._too_large(operation, "the list has more than {0} MiB".format(self.limits.list_bytes // MIB))
            with self._lock:
                self.bytes_read += len(part)
            if self.limits.run_bytes is not None and self.bytes_read > self.limits.run_bytes:
                raise self._too_large(operation, "all lists together have more than {0} MiB".format(self.limits.run_bytes // MIB))
            if time.monotonic() > deadline:
                raise self._error(errors.TimedOut, operation, "the answer took too long" + self._whose(operation, deadline - begun))
            parts.append(part)
        return b"".join(parts)

    def _too_large(self, operation: str, what: str) -> errors.KubeError:
        text = "{0}; if that is right, raise read_limit_mib of clusters/{1}".format(what, self.cluster)
        return self._error(errors.TooLarge, operation, text)

    def _broken(self, error: BaseException, operation: str, seconds: float, urllib3: t.Any) -> errors.KubeError:
        """A failed connection as our error. urllib3 wraps the cause several times, and its text may hold a URL."""
        chain: t.List[BaseException] = []
        todo: t.List[t.Any] = [error]
        while todo and len(chain) < 12:
            one = todo.pop()
            if isinstance(one, BaseException) and one not in chain:
                chain.append(one)
                todo += [one.__cause__, one.__context__, getattr(one, "reason", None)]
                todo += [arg for arg in one.args if isinstance(arg, BaseException)]
        # urllib3 has a CertificateError of its own for names that do not match, in different places of its releases
        tls = [one for one in chain if isinstance(one, ssl.SSLError) or type(one).__name__ == "CertificateError"]
        if tls and not any(isinstance(one, ssl.SSLEOFError) for one in tls):
            why = getattr(tls[0], "verify_message", "") or getattr(tls[0], "reason", "") or type(tls[0]).__name__
            return self._error(errors.Untrusted, operation, "TLS failed: {0}".format(quoted(why)))
        exceptions = urllib3.exceptions
        # a name that is not known and a port where nobody listens are kinds of urllib3's TimeoutError too, and take no time
        refused = any(isinstance(one, exceptions.NewConnectionError) for one in chain)
        waited = [one for one in chain if isinstance(one, (exceptions.TimeoutError, TimeoutError)) and not isinstance(one, exceptions.NewConnectionError)]
        if waited:
            connecting = any(isinstance(one, exceptions.ConnectTimeoutError) for one in chain)
            limit = min(self.limits.connect_seconds, seconds) if connecting else seconds
            kind = errors.Unreachable if connecting else errors.TimedOut
            where = " to {0}".format(self.access.server) if connecting else ""
            told = "no {0}{1} within {2:.3g} s".format("connection" if connecting else "answer", where, limit)
            return self._error(kind, operation, told if connecting else told + self._whose(operation, seconds), retryable=False)
        system = [one for one in chain if isinstance(one, OSError) and one.strerror]
        why = system[0].strerror if system else type(chain[-1]).__name__
        told = "{0} ({1})".format(self.access.server, quoted(why))
        if any(isinstance(one, socket.gaierror) for one in chain):
            told += "; this controller finds no address for the name: see kubeconfig or api_url of clusters/{0}, or its DNS".format(self.cluster)
        return self._error(errors.Unreachable, operation, told, retryable=False if refused else None)

    def _whose(self, operation: str, seconds: float) -> str:
        """Whose limit such a time is: one of the user's, or one that is built in."""
        whole, most = self.limits.list_seconds, self.limits.request_seconds
        if seconds < most - 0.5 and operation.startswith("list"):
            return ", which was left of the {0:.3g} s that the option timeout allows for a list".format(whole)
        if most < BUILT_IN_SECONDS:
            return ", which the option timeout allows"
        return ", the most that one request may take"

    def _judge(self, answer: t.Any, payload: bytes, operation: str, allowance: t.Optional[Allowance] = None) -> t.Any:
        status = answer.status
        allowance = allowance or Allowance(self.limits)
        needs = memory_of(payload)
        allowance.memory -= needs
        if allowance.memory < 0:
            raise self._too_large(operation, "the list needs more than {0} MiB of memory".format(self.limits.list_memory // MIB))
        with self._lock:
            self.memory_used += needs
        if self.limits.run_memory is not None and self.memory_used > self.limits.run_memory:
            raise self._too_large(operation, "all lists together need more than {0} MiB of memory".format(self.limits.run_memory // MIB))
        if 200 <= status < 300:
            try:
                return decode(payload, self.limits.depth)
            except ValueError as error:
                raise self._error(errors.BadAnswer, operation, str(error), status=status) from None
        if 300 <= status < 400:
            where = urllib.parse.urlsplit(answer.headers.get("Location") or "").netloc
            raise self._error(
                errors.Redirected, operation, "redirected to {0}; not followed".format(quoted(where)), status=status
            )
        try:
            told = decode(payload, self.limits.depth)
        except ValueError:
            told = None
        told = told if isinstance(told, dict) else {}
        message = "HTTP {0}: {1}".format(status, quoted(told.get("message") or "no reason given"))
        if status == 401 and self.access.credential:
            message += "; the credential from {0} is not accepted, perhaps it has expired".format(self.access.credential)
        kind = errors.BY_STATUS.get(status, errors.Busy if status >= 500 else errors.KubeError)
        if status == 500 and "typed patch object" in str(told.get("message")):
            kind = errors.Invalid  # the manifest does not fit the schema; older servers call that their own fault
        found = self._error(kind, operation, message, status=status, retry_after=_seconds(answer.headers.get("Retry-After")))
        if isinstance(found, errors.Conflict):
            found.cause = str(told.get("reason", ""))[:64]
        raise found


def _seconds(text: t.Optional[str]) -> t.Optional[float]:
    """Retry-After in seconds; its other form, a date, depends on clocks that need not agree (T30)."""
    return float(text) if text and is_digits(text) and len(text) < 7 else None
