# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of the public discovery service's protocol: gRPC, ``sidero.discovery.server.Cluster`` (kubespan 5.3).

What goes through here is sealed by the caller. grpc and google.protobuf are imported by the first conversation, on hosts that have one.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pathlib
import re
import ssl
import time
import typing as t
import urllib.parse

from ..._values.addresses import parse_address
from ..._values.protobuf import Schema
from ..._values.refused import ValueRefused, quoted

#: Seconds until an answer is given up.
ANSWER_SECONDS = 10.0
#: More of one message than any service that keeps its own limits sends.
MAX_MESSAGE = 8 << 20
MAX_ROWS = 16384
MAX_REDIRECTS = 3
#: Well above what servers allow between two pings of a connection on which nothing happens.
_PING_MILLISECONDS = 330_000
_CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
#: Module, Debian's package and that of pip.
PACKAGES = (
    ("grpc", "python3-grpcio", "grpcio"),
    ("google.protobuf", "python3-protobuf", "protobuf"),
    ("cryptography", "python3-cryptography", "cryptography"),
)
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})\Z", re.ASCII)

PROTOCOL = Schema(
    "sidero.discovery.server",
    {
        "HelloRequest": {"cluster_id": (1, "string"), "client_version": (2, "string")},
        "RedirectMessage": {"endpoint": (1, "string")},
        "HelloResponse": {"redirect": (1, "RedirectMessage"), "client_ip": (2, "bytes")},
        "AffiliateUpdateRequest": {
            "cluster_id": (1, "string"),
            "affiliate_id": (2, "string"),
            "affiliate_data": (3, "bytes?"),
            "affiliate_endpoints": (4, "bytes*"),
            "ttl": (5, "Duration"),
        },
        "AffiliateUpdateResponse": {},
        "AffiliateDeleteRequest": {"cluster_id": (1, "string"), "affiliate_id": (2, "string")},
        "AffiliateDeleteResponse": {},
        "ListRequest": {"cluster_id": (1, "string")},
        "ListResponse": {"affiliates": (1, "Affiliate*")},
        "WatchRequest": {"cluster_id": (1, "string")},
        "WatchResponse": {"affiliates": (1, "Affiliate*"), "deleted": (2, "bool")},
        "Affiliate": {"id": (1, "string"), "data": (2, "bytes"), "endpoints": (3, "bytes*")},
        "Duration": {"seconds": (1, "int64"), "nanos": (2, "int32")},
    },
)
_METHOD = "/sidero.discovery.server.Cluster/"

Sealed = tuple[str, bytes, list[bytes]]


class ServiceError(Exception):
    """The service did not do what it was asked. ``reason``: service_away, service_slow, service_refuses, service_answer, redirect_loop."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason, self.message = reason, message
        super().__init__(message)


class PackagesMissing(Exception):
    """The host lacks packages; ``packages`` are Debian's names."""

    def __init__(self, packages: t.Sequence[str], pip: t.Sequence[str]) -> None:
        self.packages = list(packages)
        super().__init__(
            f"the discovery service needs {', '.join(packages)} for {'/usr/bin/python3'} "
            f"(Debian and Ubuntu: apt install {' '.join(packages)}; others: pip install {' '.join(pip)})"
        )


class Address(t.NamedTuple):
    """Where a service is: ``host`` and ``port``; ``secure``: by TLS."""

    host: str
    port: int
    secure: bool

    @property
    def target(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.target}"


def parse_url(text: object) -> Address:
    """``https://host[:port]``, or ``http://`` for a service without TLS; ``bad_url``."""
    if not isinstance(text, str) or len(text) > 500:
        raise ValueRefused("bad_url", f"kubespan_discovery_url is {quoted(text)}, no https:// URL")
    try:
        parts = urllib.parse.urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueRefused("bad_url", f"kubespan_discovery_url is {quoted(text)}, no https:// URL") from None
    good = parts.scheme in ("https", "http") and parts.path in ("", "/") and not (parts.query or parts.fragment)
    if ":" in host:
        with contextlib.suppress(ValueRefused):
            host = str(parse_address(host))
    elif not _HOST.match(host):
        good = False
    if not good or "@" in parts.netloc or port == 0:
        raise ValueRefused(
            "bad_url",
            f"kubespan_discovery_url is {quoted(text)}; it is https:// (http:// without TLS), a host and perhaps a port",
        )
    return Address(host, port or (443 if parts.scheme == "https" else 80), parts.scheme == "https")


def need_packages() -> None:
    """Raises PackagesMissing with all of them at once."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    missing = []
    for name, debian, pip in PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append((debian, pip))
    if missing:
        raise PackagesMissing([debian for debian, dummy in missing], [pip for dummy, pip in missing])


class Service:
    """One connection to the service of one mesh, for one thread at a time; ``cancel`` is for others. Raises ServiceError.

    ca: certificates in PEM that are believed in place of the system's.
    """

    def __init__(self, url: str, cluster_id: str, ca: str | None = None, seconds: float = ANSWER_SECONDS) -> None:
        need_packages()
        self._cluster_id, self._ca, self._seconds = cluster_id, ca, seconds
        self.address = parse_url(url)
        self._call: t.Any = None
        self._cancelled = False
        self._channel = self._open()

    def _open(self) -> t.Any:
        import grpc

        options = [
            ("grpc.max_receive_message_length", MAX_MESSAGE),
            ("grpc.keepalive_time_ms", _PING_MILLISECONDS),
            ("grpc.keepalive_timeout_ms", 20_000),
            ("grpc.enable_retries", 0),
        ]
        if not self.address.secure:
            return grpc.insecure_channel(self.address.target, options=options)
        roots = self._ca.encode("ascii") if self._ca else _system_certificates()
        return grpc.secure_channel(self.address.target, grpc.ssl_channel_credentials(roots), options=options)

    def hello(self) -> str | None:
        """Connect, or elsewhere where it redirects to. Returns the address at which it sees this host."""
        seen = {self.address}
        for _attempt in range(MAX_REDIRECTS + 1):
            answer = self._ask("Hello", "HelloResponse", PROTOCOL.make("HelloRequest", cluster_id=self._cluster_id))
            if not answer.HasField("redirect") or not answer.redirect.endpoint:
                return _address_of(answer.client_ip)
            self.address = self._redirected(answer.redirect.endpoint)
            if self.address in seen:
                break
            seen.add(self.address)
            self._channel.close()
            self._channel = self._open()
        raise ServiceError(
            "redirect_loop",
            f"the discovery service sends this host from one place to the next, at last to {self.address}",
        )

    def _redirected(self, text: str) -> Address:
        """The same way of speaking, at another host: nobody is led out of TLS."""
        scheme = "https" if self.address.secure else "http"
        try:
            return parse_url(f"{scheme}://{text.rpartition('://')[2]}")._replace(secure=self.address.secure)
        except ValueRefused:
            message = f"the discovery service {self.address} redirects to {quoted(text)}, which is no host with a port"
            raise ServiceError("redirect_loop", message) from None

    def announce(self, affiliate_id: str, data: bytes | None, endpoints: t.Sequence[bytes], lifetime: int) -> None:
        """A record for so many seconds. data None: more endpoints of an affiliate that announces itself."""
        values: dict[str, t.Any] = {} if data is None else {"affiliate_data": data}
        request = PROTOCOL.make(
            "AffiliateUpdateRequest",
            cluster_id=self._cluster_id,
            affiliate_id=affiliate_id,
            affiliate_endpoints=list(endpoints),
            ttl=PROTOCOL.make("Duration", seconds=lifetime),
            **values,
        )
        self._ask("AffiliateUpdate", "AffiliateUpdateResponse", request)

    def leave(self, affiliate_id: str) -> None:
        """Take a record away."""
        request = PROTOCOL.make("AffiliateDeleteRequest", cluster_id=self._cluster_id, affiliate_id=affiliate_id)
        self._ask("AffiliateDelete", "AffiliateDeleteResponse", request)

    def rows(self) -> list[Sealed]:
        """Everything that the service has of the mesh."""
        return _rows(self._ask("List", "ListResponse", PROTOCOL.make("ListRequest", cluster_id=self._cluster_id)))

    def watch(self, seconds: float) -> t.Iterator[tuple[list[Sealed], bool]]:
        """(rows, whether they were taken away), first everything; ends after so many seconds or when cancelled."""
        import grpc

        call = self._channel.unary_stream(
            _METHOD + "Watch",
            request_serializer=_serialized,
            response_deserializer=lambda raw: PROTOCOL.read("WatchResponse", raw),
        )(PROTOCOL.make("WatchRequest", cluster_id=self._cluster_id), timeout=seconds)
        self._call, started = call, time.monotonic()
        try:
            for message in call:
                yield _rows(message), bool(message.deleted)
                if self._cancelled:
                    return
        except grpc.RpcError as error:
            # a service may send these codes too, and is not asked again at once for that
            expired = time.monotonic() - started >= seconds - 1 and error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            if not expired and not self._cancelled:
                raise self._failed(error) from None
            return
        finally:
            self._call = None
            call.cancel()
        if not self._cancelled:
            raise ServiceError("service_away", f"the discovery service {self.address} ended the conversation")

    def cancel(self) -> None:
        """End the watch of another thread soon."""
        self._cancelled = True
        call = self._call
        if call is not None:
            call.cancel()

    def close(self) -> None:
        self._channel.close()

    def _ask(self, method: str, answer: str, request: t.Any) -> t.Any:
        import grpc

        call = self._channel.unary_unary(
            _METHOD + method,
            request_serializer=_serialized,
            response_deserializer=lambda raw: PROTOCOL.read(answer, raw),
        )
        try:
            return call(request, timeout=self._seconds)
        except grpc.RpcError as error:
            raise self._failed(error) from None

    def _failed(self, error: t.Any) -> ServiceError:
        import grpc

        code, details = error.code(), quoted(error.details() or "")
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return ServiceError(
                "service_slow", f"the discovery service {self.address} gave no answer within {self._seconds:g} s"
            )
        if code == grpc.StatusCode.UNAVAILABLE:
            return ServiceError("service_away", f"the discovery service {self.address} is not reached: {details}")
        if code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
            return ServiceError(
                "service_answer", f"the discovery service {self.address} answered {code.name}: {details}"
            )
        return ServiceError("service_refuses", f"the discovery service {self.address} refused: {code.name}: {details}")


def _serialized(message: t.Any) -> bytes:
    raw: bytes = message.SerializeToString()
    return raw


def _rows(message: t.Any) -> list[Sealed]:
    if len(message.affiliates) > MAX_ROWS:
        raise ServiceError("service_answer", f"the discovery service sent {len(message.affiliates)} records at once")
    return [(row.id, bytes(row.data), [bytes(item) for item in row.endpoints]) for row in message.affiliates]


def _address_of(raw: bytes) -> str | None:
    """Four or sixteen bytes as text."""
    import ipaddress

    if len(raw) not in (4, 16):
        return None
    address = ipaddress.ip_address(bytes(raw))
    inner = getattr(address, "ipv4_mapped", None)
    return str(inner or address)


def _system_certificates() -> bytes | None:
    """The certificates that the host believes, in PEM; None leaves the choice to gRPC."""
    paths = ssl.get_default_verify_paths()
    for path in (paths.cafile, paths.openssl_cafile, *_CERTIFICATES):
        if path and pathlib.Path(path).is_file():
            return pathlib.Path(path).read_bytes()
    return None
