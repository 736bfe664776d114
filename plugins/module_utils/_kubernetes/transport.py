# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections to one API server: TLS and credentials from an Access, and no redirects.

What a kubeconfig's program (exec) or auth-provider gives is asked of the library kubernetes, where the inventory allows it. Its client
takes 0.2 s to load, which a token or a certificate does not need, so it is imported only then (decision 60).
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import os
import pathlib
import shutil
import socket
import ssl
import tempfile
import time
import typing as t
import urllib.parse

from .._io.https import DeadlineSocket, within, within_deadlines
from .._values.refused import quoted
from .._values.text import lower
from .access import Access, is_token
from .errors import BadAnswer, CredentialFailed, LibraryMissing, TooLarge, Unreachable, Untrusted
from .kubeconfig import CredentialPlugin

USER_AGENT = "multicluster.network/1.0.0 (Ansible collection)"
CA_BYTES = 1024 * 1024


def library(cluster: str) -> t.Any:
    """The module urllib3, the pool of the library kubernetes. Raises LibraryMissing."""
    try:
        import urllib3
    except ImportError as error:
        raise LibraryMissing(cluster, error) from None
    return urllib3


class SteadyContext(ssl.SSLContext):
    """A context that several threads may open connections with at once.

    urllib3 sets the protocols anew for each connection. OpenSSL replaces its list then, unprotected, while another thread's
    connection is just copying it, and the server gets a ClientHello that it cannot read.
    """

    _protocols: list[str] | None = None

    def set_alpn_protocols(self, alpn_protocols: t.Any) -> None:
        """As the base class, once for each list."""
        if self._protocols != list(alpn_protocols):
            super().set_alpn_protocols(alpn_protocols)
            self._protocols = list(alpn_protocols)


def tls_context(access: Access, ca_pem: str | None) -> ssl.SSLContext:
    """A client context for one cluster. Raises Untrusted when its CA is unusable."""
    context = SteadyContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])  # here, where there is one thread only
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sslsocket_class = DeadlineSocket
    try:
        if ca_pem:
            context.load_verify_locations(cadata=ca_pem)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except (ssl.SSLError, ValueError) as error:
        raise Untrusted(access.cluster, "start", f"the cluster's CA is no certificate: {error}") from None
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def load_client_certificate(context: ssl.SSLContext, cluster: str, certificate: bytes, key: bytes) -> None:
    """Raises Untrusted when they are unusable."""
    # ssl reads certificates from files only; these live for a millisecond in a folder that nobody else may enter
    folder = tempfile.mkdtemp(prefix="mcn-")
    try:
        paths = []
        for name, pem in (("cert", certificate), ("key", key)):
            paths.append(pathlib.Path(folder, name))
            with os.fdopen(os.open(paths[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(pem)
        # a password must never be asked for on a terminal
        context.load_cert_chain(paths[0], paths[1], password=lambda: b"")
    except (ssl.SSLError, ValueError, OSError):
        raise Untrusted(cluster, "start", "client certificate and key do not fit together, or are not PEM") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Transport(t.NamedTuple):
    """``headers`` of every request, with credentials, so it has no useful text; ``host`` urllib3's pool of this one host; ``base`` goes before paths.

    A pool manager would find the host's pool for every URL anew, a fifth of a request's time.
    """

    headers: t.Any  # a dictionary, or urllib3's own where a name comes twice, as dict() would join its values
    host: t.Any
    base: str

    def __repr__(self) -> str:
        return "Transport(...)"


def connect(access: Access, connections: int = 10, seconds: float = 30.0) -> Transport:
    """Set up (not open) the connections to one cluster. Raises KubeError."""
    urllib3 = library(access.cluster)
    pool = _pool(access, urllib3, connections)
    ca_pem = access.ca_pem
    if access.ca_url:
        ca_pem = fetch_ca(access, urllib3, seconds)
    settings = pool.connection_pool_kw
    if access.server.startswith("https:"):
        context = settings["ssl_context"] = tls_context(access, ca_pem)
        if urllib3.__version__.startswith("1."):
            # it keeps IP addresses from ssl, which then could not check them, and compares all names by itself
            context.check_hostname = False
        settings["cert_reqs"] = ssl.CERT_REQUIRED if access.verify else ssl.CERT_NONE
        if access.tls_server_name:
            settings["server_hostname"] = access.tls_server_name
        if not access.verify:
            settings["assert_hostname"] = False
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    headers = urllib3.response.HTTPHeaderDict()
    headers.update({"User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Encoding": "identity"})
    credential = obtain(access)
    if credential.certificate and credential.key and "ssl_context" in settings:
        load_client_certificate(settings["ssl_context"], access.cluster, credential.certificate, credential.key)
    if credential.token:
        headers["Authorization"] = "Bearer " + credential.token
    for name, values in access.impersonate.items():
        for value in values:
            headers.add(name, value)
    if access.proxy_url and access.server.startswith("http:"):
        return Transport(headers, pool, access.server)  # such a proxy is given whole URLs
    once = len(list(headers.items())) == len(headers)  # a plain dictionary, which is cheaper, if no name comes twice
    return Transport(
        dict(headers) if once else headers,
        pool.connection_from_url(access.server),
        urllib.parse.urlsplit(access.server).path,
    )


def _pool(access: Access, urllib3: t.Any, connections: int) -> t.Any:
    """The pool of connections, through the inventory's proxy; those of the environment do not count here."""
    # let the kernel find connections that lost their other end: a watch may get nothing for minutes and be well
    options = [*urllib3.connection.HTTPConnection.default_socket_options, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    common: dict[str, t.Any] = {"maxsize": connections, "retries": False, "socket_options": options}
    if not access.proxy_url:
        return within_deadlines(urllib3.PoolManager(**common))
    if lower(access.proxy_url).startswith("socks"):
        try:
            from urllib3.contrib.socks import SOCKSProxyManager
        except ImportError as error:
            raise LibraryMissing(access.cluster, error) from None
        return within_deadlines(SOCKSProxyManager(access.proxy_url, **common))
    return within_deadlines(urllib3.ProxyManager(access.proxy_url, **common))


def fetch_ca(access: Access, urllib3: t.Any, seconds: float) -> str:
    """The CA bundle at ``ca_url``, which must have the pinned hash (decision 6)."""
    operation = "fetch the CA"
    # The bundle cannot be verified by itself; the pin authenticates every byte of it, and it is no secret.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.sslsocket_class = DeadlineSocket
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    try:
        with _pool(access, urllib3, 1) as pool, within(time.monotonic() + seconds):
            pool.connection_pool_kw.update(ssl_context=context, cert_reqs="CERT_NONE", assert_hostname=False)
            answer = pool.request(
                "GET",
                access.ca_url,
                redirect=False,
                retries=False,
                preload_content=False,
                timeout=seconds,
                headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            )
            body = answer.read(CA_BYTES + 1, decode_content=False)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Unreachable(access.cluster, operation, type(error).__name__) from None
    if answer.status != 200:
        raise BadAnswer(access.cluster, operation, f"HTTP status {answer.status}", answer.status)
    if len(body) > CA_BYTES:
        raise TooLarge(access.cluster, operation, f"more than {CA_BYTES} bytes")
    if not hmac.compare_digest(hashlib.sha256(body).hexdigest(), access.ca_sha256 or ""):
        raise Untrusted(access.cluster, operation, "the bundle's SHA-256 is not ca_sha256")
    return str(body, "ascii", "replace")


class Credential(t.NamedTuple):
    """A bearer token, or a client certificate with its key in PEM."""

    token: str | None = None
    certificate: bytes | None = None
    key: bytes | None = None


def obtain(access: Access) -> Credential:
    """The credential of an Access, from its plugin where it has one. Raises CredentialFailed and LibraryMissing."""
    plugin = access.plugin
    if plugin is None:
        return Credential(access.token, access.client_cert, access.client_key)
    try:
        from kubernetes.config import ConfigException
    except ImportError as error:
        raise LibraryMissing(access.cluster, error) from None
    try:
        found = _from_program(plugin) if plugin.kind == "exec" else _from_provider(plugin)
    except ConfigException as error:
        raise _failed(access, quoted(error)) from None
    except OSError as error:
        raise _failed(
            access, f"{quoted(error.filename or '')}: {quoted(error.strerror or type(error).__name__)}"
        ) from None
    except Exception as error:  # the library raises whatever the plugin's answer made it raise
        raise _failed(access, f"{type(error).__name__} while running it") from None
    if found.token is None and not (found.certificate and found.key):
        raise _failed(access, "it gave neither a token nor a certificate with its key")
    if found.token is not None and not is_token(found.token):
        raise _failed(access, "its token is empty or has a character that no bearer token has")
    return found if found.certificate else found._replace(certificate=access.client_cert, key=access.client_key)


def _failed(access: Access, why: str) -> CredentialFailed:
    kind = access.plugin.kind if access.plugin else ""
    return CredentialFailed(
        access.cluster, "obtain a credential", f"the {kind} plugin that the kubeconfig names failed: {why}"
    )


def _from_program(plugin: CredentialPlugin) -> Credential:
    """What the program prints. The library's own loader would leave a certificate and its key in files until the process ends."""
    from kubernetes.config.exec_provider import ExecProvider
    from kubernetes.config.kube_config import ConfigNode

    # releases before 32 cannot tell a program about the cluster
    given = (ConfigNode("exec", plugin.config), None, ConfigNode("cluster", dict(plugin.cluster)))
    status = ExecProvider(*given[: len(inspect.signature(ExecProvider).parameters)]).run()
    certificate, key = (
        str(status.get(name) or "").encode("utf-8") or None for name in ("clientCertificateData", "clientKeyData")
    )
    return Credential(status.get("token"), certificate, key)


def _from_provider(plugin: CredentialPlugin) -> Credential:
    """The auth-provider's token, renewed where it has expired; the kubeconfig itself is left as it is."""
    import certifi
    from kubernetes.client import Configuration
    from kubernetes.config import kube_config

    provider = dict(plugin.config, config=dict(plugin.config.get("config") or {}))
    if not provider["config"].get("idp-certificate-authority-data"):
        # without a CA the library would ask anybody where it may send the refresh token and the client's secret
        provider["config"].setdefault(
            "idp-certificate-authority", ssl.get_default_verify_paths().cafile or certifi.where()
        )
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": plugin.cluster.get("server")}}],
        "users": [{"name": "u", "user": {"auth-provider": provider}}],
    }
    configuration = Configuration()
    kube_config.load_kube_config_from_dict(config, client_configuration=configuration, persist_config=False)
    header = configuration.api_key.get("authorization") or configuration.api_key.get("BearerToken") or ""
    return Credential(header[len("Bearer ") :] if header.startswith("Bearer ") else None)
