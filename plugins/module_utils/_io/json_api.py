# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A vendor's JSON API: verified TLS, no redirects, limits on size and time, and repeats only where they are safe (T21, T22)."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import typing as t
import urllib.parse

from .._values.refused import ValueRefused, quoted
from .._values.text import is_digits, is_graphic, lower
from .https import DeadlineSocket, deadline_socket, within

USER_AGENT = "multicluster.network/1.0.0 (Ansible collection)"
ANSWER_BYTES = 32 * 1024 * 1024


def segment(value: t.Any) -> str:
    """One segment of a path out of what a server called its object; it cannot leave its place."""
    return urllib.parse.quote(str(value), safe="")


class Answer(t.NamedTuple):
    """``status`` None: there was no answer, and ``reason`` has the cause; header names in lower case."""

    status: int | None
    headers: t.Mapping[str, str] = {}
    body: bytes = b""
    reason: str = ""


class ApiFailed(ValueRefused):
    """A call that did not do what it was for. ``status`` None: whether it did is not known."""

    def __init__(self, reason: str, message: str, status: int | None) -> None:
        super().__init__(reason, message)
        self.status = status


Transport = t.Callable[[str, str, t.Mapping[str, str], t.Optional[bytes], float], Answer]


class Manners(t.NamedTuple):
    """What one vendor's API is like: the text of an error's body, its reason, which failures may be repeated (status None: no answer)."""

    text: t.Callable[[t.Any], str]
    reason: t.Callable[[int | None, str, str], str]
    repeats: t.Callable[[int | None, str], bool]


class JsonApi:
    """``send``: one exchange; ``sleep`` and ``clock`` for tests. ``calls`` counts the requests that were sent."""

    def __init__(
        self,
        base_url: str,
        headers: t.Mapping[str, str],
        manners: Manners,
        send: Transport | None = None,
        plain_http: bool = False,
        sleep: t.Callable[[float], None] = time.sleep,
        clock: t.Callable[[], float] = time.monotonic,
        tries: int = 5,
        request_s: float = 30.0,
        total_s: float = 120.0,
    ) -> None:
        try:
            parts = urllib.parse.urlsplit(base_url if is_graphic(base_url) else "")
            parts.port  # noqa: B018 - raises for what is no port
        except ValueError:
            parts = urllib.parse.urlsplit("")
        if (
            parts.scheme not in ("https", "http")
            or not parts.hostname
            or parts.username
            or parts.query
            or parts.fragment
        ):
            raise ValueRefused("api", f"{quoted(base_url)} is no URL of an API")
        if parts.scheme == "http" and not plain_http:
            raise ValueRefused(
                "api", f"{quoted(base_url)} would send the token in clear text; allow_plain_http allows it"
            )
        self.base = base_url.rstrip("/")
        self._headers, self._manners = dict(headers), manners
        self._send = send or https
        self._sleep, self._clock, self._tries, self._request_s, self._total_s = sleep, clock, tries, request_s, total_s
        self.calls = 0
        self.status: int | None = None  # of the last answer

    def call(
        self,
        method: str,
        path: str,
        query: t.Mapping[str, t.Any] | None = None,
        body: t.Mapping[str, t.Any] | None = None,
        missing_ok: bool = False,
    ) -> t.Any:
        """The decoded answer, None for one without body or, with ``missing_ok``, for a 404. Raises ApiFailed."""
        url = self.base + path + ("?" + urllib.parse.urlencode(query) if query else "")
        headers = dict(self._headers, Accept="application/json", **{"User-Agent": USER_AGENT})
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode("utf-8")
        deadline = self._clock() + self._total_s
        for attempt in range(1, self._tries + 1):
            self.calls += 1
            answer = self._send(method, url, headers, data, min(self._request_s, max(0.1, deadline - self._clock())))
            self.status = answer.status
            if answer.status is not None and 200 <= answer.status < 300:
                return self._decoded(method, path, answer)
            if answer.status == 404 and missing_ok:
                return None
            pause = _pause(answer, attempt)
            if (
                not self._manners.repeats(answer.status, method)
                or attempt == self._tries
                or self._clock() + pause >= deadline
            ):
                raise self._failure(method, path, answer)
            self._sleep(pause)
        raise AssertionError("no try was made")

    def _decoded(self, method: str, path: str, answer: Answer) -> t.Any:
        if not answer.body.strip():
            return None
        try:
            return json.loads(answer.body.decode("utf-8"))
        except (ValueError, RecursionError):
            raise ApiFailed("api", f"{method} {path}: the answer is no JSON", answer.status) from None

    def _failure(self, method: str, path: str, answer: Answer) -> ApiFailed:
        try:
            said = self._manners.text(json.loads(answer.body.decode("utf-8")))
        except (ValueError, RecursionError):
            said = ""
        said = "".join(char if char.isprintable() else " " for char in said)[:2000]
        for secret in self._headers.values():
            said = said.replace(secret, "<masked>")
        reason = self._manners.reason(answer.status, method, path)
        what = answer.reason if answer.status is None else f"status {answer.status}"
        return ApiFailed(reason or "api", f"{method} {path}: {said or what}", answer.status)


def _pause(answer: Answer, attempt: int) -> float:
    """Seconds before the next try: what the server asks for, else growing."""
    given = answer.headers.get("retry-after", "")
    if is_digits(given):
        return float(min(int(given), 3600))
    return float(min(30, 2 ** (attempt - 1)))


def https(method: str, url: str, headers: t.Mapping[str, str], body: bytes | None, seconds: float) -> Answer:
    """One exchange over a connection of its own."""
    parts = urllib.parse.urlsplit(url)
    deadline = time.monotonic() + seconds
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.sslsocket_class = DeadlineSocket
        connection = http.client.HTTPSConnection(str(parts.hostname), parts.port, timeout=seconds, context=context)
    else:
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=seconds)
    try:
        with within(deadline):
            if parts.scheme == "http":
                connection.connect()
                connection.sock = deadline_socket(connection.sock)
            connection.request(method, parts.path + ("?" + parts.query if parts.query else ""), body, dict(headers))
            response = connection.getresponse()
            chunks: list[bytes] = []
            size = 0
            while True:
                chunk = response.read1(65536)
                if not chunk:
                    break
                size += len(chunk)
                if size > ANSWER_BYTES or time.monotonic() > deadline:
                    return Answer(None, reason="the answer is too large or too slow")
                chunks.append(chunk)
        return Answer(response.status, {lower(name): value for name, value in response.getheaders()}, b"".join(chunks))
    except (OSError, http.client.HTTPException) as error:
        return Answer(None, reason=str(getattr(error, "strerror", None) or type(error).__name__))
    finally:
        connection.close()
