# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to reach one cluster, read from the inventory. Files are read here; nothing is sent anywhere.

A kubeconfig can run programs, read files and switch verification off on the controller, so everything in it that
goes beyond an address, a CA and a credential is refused by name unless the inventory allows it for that cluster
(threat T18). Only what is given is used: neither a default kubeconfig nor in-cluster credentials are ever looked for, and the environment
only as in ``with_environment``.
"""

from __future__ import annotations

import base64
import dataclasses
import os
import re
import typing as t
import urllib.parse

from .._values.refused import ValueRefused, quoted
from .._values.text import is_digits, is_graphic, parse_decimal
from .kubeconfig import CredentialPlugin, KubeconfigRefused, load_kubeconfig, read_small_file, resolve_context

#: What a cluster's ``allow`` may name; each is also the reason of its refusal.
ALLOWABLE = (
    "auth_provider",
    "exec",
    "file_references",
    "impersonation",
    "insecure_tls",
    "plain_http",
    "proxy",
    "tls_server_name",
)

#: Our options -> the names that kubernetes.core has for them, and the variables of the environment that it takes them from.
ALIASES = {
    "api_url": ("host",),
    "token": ("api_key",),
    "ca_cert": ("ssl_ca_cert",),
    "client_cert": ("cert_file",),
    "client_key": ("key_file",),
    "proxy_url": ("proxy",),
    "validate_certs": ("verify_ssl",),
}
ENVIRONMENT = {
    "kubeconfig": "K8S_AUTH_KUBECONFIG",
    "context": "K8S_AUTH_CONTEXT",
    "api_url": "K8S_AUTH_HOST",
    "token": "K8S_AUTH_API_KEY",
    "ca_cert": "K8S_AUTH_SSL_CA_CERT",
    "client_cert": "K8S_AUTH_CERT_FILE",
    "client_key": "K8S_AUTH_KEY_FILE",
    "proxy_url": "K8S_AUTH_PROXY",
    "validate_certs": "K8S_AUTH_VERIFY_SSL",
    "impersonate_user": "K8S_AUTH_IMPERSONATE_USER",
}
_OUR_NAMES = {alias: name for name, aliases in ALIASES.items() for alias in aliases}
#: What a cluster may have without giving access.
_NO_ACCESS = frozenset(("name", "allow", "read_limit_mib"))

#: Largest read_limit_mib.
MOST_MIB = 65536
# RFC 6750 b64token, which the semaphore programs also want, with their extra bar; here the whole token must match.
_TOKEN = re.compile(r"[A-Za-z0-9|._~+/-]+=*\Z")
_SHA256 = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})\Z")
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----", re.ASCII)
_HOST = re.compile(r"(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])\Z")


class AccessRefused(ValueRefused):
    """Access that is refused: ``cluster``, ``reason`` and a ``message`` which names the inventory variable to fix."""

    def __init__(self, cluster: str, reason: str, message: str) -> None:
        self.cluster = cluster
        super().__init__(reason, f"cluster {cluster}: {message}")


@dataclasses.dataclass(frozen=True, repr=False)
class Access:
    """Everything needed to talk to one API server. Its text never shows a credential, and it is never serialised.

    ``server`` https URL without trailing slash; ``ca_pem`` text, None for the system's trust store; ``ca_url`` with ``ca_sha256`` a CA
    bundle to fetch, pinned; ``client_cert`` and ``client_key`` PEM; ``plugin`` what has to give the credential, only where allowed;
    ``credential`` where the credential is from, for messages; ``impersonate`` header -> values; ``verify`` False only where allowed;
    ``read_limit_mib`` how much one list may hold, None for the default.
    """

    cluster: str
    server: str
    credential: str
    ca_pem: str | None = None
    ca_url: str | None = None
    ca_sha256: str | None = None
    verify: bool = True
    tls_server_name: str | None = None
    proxy_url: str | None = None
    token: str | None = None
    client_cert: bytes | None = None
    client_key: bytes | None = None
    plugin: CredentialPlugin | None = None
    impersonate: t.Mapping[str, list[str]] = dataclasses.field(default_factory=dict)
    read_limit_mib: int | None = None

    def __repr__(self) -> str:
        ways = [name for name in ("token", "client_cert", "plugin", "proxy_url") if getattr(self, name)]
        return f"Access({self.cluster!r}, {self.server!r}, with={'+'.join(ways) or 'nothing'})"

    def __reduce__(self) -> t.Any:
        raise TypeError("Access holds credentials and is never serialised")

    def secrets(self) -> list[str]:
        """The texts that must never be shown."""
        found = [self.token]
        if self.client_key:
            found.append(self.client_key.decode("ascii", "replace"))
        if self.proxy_url and "@" in self.proxy_url:
            found.append(urllib.parse.urlsplit(self.proxy_url).password)
        return [text for text in found if text]


def by_our_names(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """One entry of ``clusters`` without kubernetes.core's names; where it has both, our own name counts."""
    return {
        **{_OUR_NAMES[key]: value for key, value in given.items() if key in _OUR_NAMES},
        **{k: v for k, v in given.items() if k not in _OUR_NAMES},
    }


def gives_access(given: t.Mapping[str, t.Any]) -> bool:
    """Whether an entry of ``clusters`` has anything of how to reach its API server, were it an empty text."""
    return any(value is not None for key, value in given.items() if key not in _NO_ACCESS)


def names_server(given: t.Mapping[str, t.Any]) -> bool:
    """Whether an entry of ``clusters`` names an API server; empty texts name none."""
    return any(by_our_names(given).get(name) for name in ("kubeconfig", "context", "api_url"))


def with_environment(clusters: t.Any) -> t.Any:
    """``clusters``, where the only one of them takes its access from K8S_AUTH_* if it gives none.

    These variables speak of one cluster. Alongside another one, or alongside a part of an access, they would send a credential to a server
    that it is not for.
    """
    if (
        not isinstance(clusters, list)
        or len(clusters) != 1
        or not isinstance(clusters[0], dict)
        or gives_access(clusters[0])
    ):
        return clusters
    found = {name: os.environ[variable] for name, variable in ENVIRONMENT.items() if os.environ.get(variable)}
    return [{**clusters[0], **found}]


def parse_access(given: t.Mapping[str, t.Any]) -> Access:
    """One entry of ``clusters`` -> Access (semaphore 2.2, module contract 8). Raises AccessRefused.

    Keys: name, kubeconfig (path or dict), context, api_url, token, token_file, ca_cert (path), ca_data (PEM), ca_url,
    ca_sha256, client_cert and client_key (paths), proxy_url, tls_server_name, impersonate_user, validate_certs, read_limit_mib, allow.
    Options given here win over what a kubeconfig has; None and empty text count as not given.
    """
    options = by_our_names({key: value for key, value in given.items() if value not in (None, "")})
    cluster = options.get("name")
    if not isinstance(cluster, str):
        raise AccessRefused("?", "remote_name_missing", "an entry of clusters has no name")
    try:
        return _Parser(cluster, options).parse()
    except KubeconfigRefused as refused:
        raise AccessRefused(cluster, refused.reason, refused.message) from None


def is_token(text: t.Any) -> bool:
    """Whether it can be sent as a bearer token."""
    return isinstance(text, str) and len(text) <= 65536 and bool(_TOKEN.match(text))


class _Parser:
    def __init__(self, cluster: str, options: dict[str, t.Any]) -> None:
        self.cluster = cluster
        self.options = options
        self.allow = frozenset(options.get("allow") or ())
        unknown = sorted(self.allow - set(ALLOWABLE))
        if unknown:
            raise self.refused("allow_invalid", f"allow names {unknown}; it may name {', '.join(ALLOWABLE)}")

    def refused(self, reason: str, message: str) -> AccessRefused:
        return AccessRefused(self.cluster, reason, message)

    def require(self, reason: str, what: str) -> None:
        """Refuse unless the inventory allows this for the cluster."""
        if reason not in self.allow:
            raise self.refused(
                reason, f"{what}, which is refused. Add {reason} to the cluster's allow list if that is right."
            )

    def parse(self) -> Access:
        found: dict[str, t.Any] = {"cluster": self.cluster}
        if "kubeconfig" in self.options:
            found.update(self.from_kubeconfig())
        elif "context" in self.options:
            raise self.refused("remote_access_incomplete", "context is given without kubeconfig")
        self.explicit(found)
        found["server"] = self.server(found.get("server"))
        if bool(found.get("client_cert")) != bool(found.get("client_key")):
            raise self.refused("remote_access_incomplete", "client_cert and client_key are only of use together")
        if not (found.get("token") or found.get("client_cert") or found.get("plugin")):
            raise self.refused(
                "remote_access_incomplete", "there is no credential: give kubeconfig, token, token_file or client_cert"
            )
        found["credential"] = self.credential()
        return Access(**found)

    def credential(self) -> str:
        """Where the credential is from, with the inventory's variable: what to fix when the server does not take it."""
        options = self.options
        if "token" in options:
            return "the " + self.variable("token")
        for name in ("token_file", "client_cert"):
            if name in options:
                return f"{self.path(name)} ({self.variable(name)})"
        where = (
            self.path("kubeconfig") if isinstance(options.get("kubeconfig"), str) else "the kubeconfig in the inventory"
        )
        context = f"context {quoted(options['context'])} of " if "context" in options else ""
        return f"{context}{where} ({self.variable('kubeconfig')})"

    def variable(self, option: str) -> str:
        """The option as messages name it."""
        name = ENVIRONMENT.get(option, "")
        return "variable " + (f"{name} of the environment" if os.environ.get(name) == self.options[option] else option)

    # -- the inventory's own options: trusted, but still checked ------------------------------------------------

    def explicit(self, found: dict[str, t.Any]) -> None:
        options = self.options
        if "api_url" in options:
            found["server"] = options["api_url"]
        if "token" in options and "token_file" in options:
            raise self.refused("remote_access_incomplete", "token and token_file exclude each other")
        if "token" in options:
            found["token"] = self.token(options["token"], "token")
        elif "token_file" in options:
            found["token"] = self.token_from(self.path("token_file"), "token_file")
        self.explicit_ca(found)
        for name in ("client_cert", "client_key"):
            if name in options:
                found[name] = self.read(self.path(name), name, "client_certificate_unreadable")
        if {"token", "token_file", "client_cert"} & set(options):
            found["plugin"] = None  # an explicit credential replaces a program's
        for name in ("proxy_url", "tls_server_name"):
            if name in options:
                found[name] = options[name]
        if found.get("proxy_url"):
            found["proxy_url"] = self.proxy(found["proxy_url"])
        if found.get("tls_server_name") and not _HOST.match(str(found["tls_server_name"])):
            raise self.refused("tls_server_name", "tls_server_name is not a host name")
        if "impersonate_user" in options:
            found["impersonate"] = {"Impersonate-User": [self.header(options["impersonate_user"])]}
        if "read_limit_mib" in options:
            limit = options["read_limit_mib"]
            # inventories in INI form have texts only
            limit = int(limit) if isinstance(limit, str) and is_digits(limit) and len(limit) < 10 else limit
            if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_MIB:
                raise self.refused("read_limit_invalid", f"read_limit_mib is a number of MiB from 1 to {MOST_MIB}")
            found["read_limit_mib"] = limit
        if options.get("validate_certs") is False:
            self.require("insecure_tls", "validate_certs is false")
            found["verify"] = False

    def explicit_ca(self, found: dict[str, t.Any]) -> None:
        ways = [name for name in ("ca_cert", "ca_data", "ca_url") if name in self.options]
        if len(ways) > 1:
            raise self.refused("remote_access_incomplete", f"{' and '.join(ways)} exclude each other")
        if "ca_cert" in self.options:
            pem = self.read(self.path("ca_cert"), "ca_cert", "ca_unreadable")
            found["ca_pem"] = self.pem(pem.decode("utf-8", "replace"), "ca_cert")
        elif "ca_data" in self.options:
            found["ca_pem"] = self.pem(str(self.options["ca_data"]), "ca_data")
        elif "ca_url" in self.options:
            url = self.options["ca_url"]
            pin = _SHA256.match(str(self.options.get("ca_sha256", "")))
            if not isinstance(url, str) or not url.startswith("https://"):
                raise self.refused("plain_http", "ca_url must begin with https://; no option changes that")
            if not pin:
                raise self.refused(
                    "ca_url_unpinned",
                    "ca_url needs ca_sha256, the SHA-256 of the bundle's bytes; better, give the CA as ca_data",
                )
            self.server(url)
            found.update(ca_pem=None, ca_url=url, ca_sha256=pin.group(1).lower())
        elif "ca_sha256" in self.options:
            raise self.refused("remote_access_incomplete", "ca_sha256 is given without ca_url")

    # -- the kubeconfig: a document that may come from elsewhere -------------------------------------------------

    def from_kubeconfig(self) -> dict[str, t.Any]:
        config, base = load_kubeconfig(self.options["kubeconfig"])
        chosen = resolve_context(config, self.options.get("context"))
        cluster, user = chosen.cluster, chosen.user
        found: dict[str, t.Any] = {"server": cluster.get("server")}

        if cluster.get("insecure-skip-tls-verify") not in (None, False, True):
            raise self.refused("kubeconfig_invalid", "insecure-skip-tls-verify in kubeconfig is neither true nor false")
        if cluster.get("insecure-skip-tls-verify"):
            self.require("insecure_tls", "the kubeconfig sets insecure-skip-tls-verify")
            found["verify"] = False
        if cluster.get("proxy-url"):
            self.require("proxy", "the kubeconfig sets proxy-url")
            found["proxy_url"] = cluster["proxy-url"]
        if cluster.get("tls-server-name"):
            self.require("tls_server_name", "the kubeconfig sets tls-server-name")
            found["tls_server_name"] = cluster["tls-server-name"]
        ca = self.data(cluster, "certificate-authority", base)
        if ca is not None:
            found["ca_pem"] = self.pem(ca.decode("utf-8", "replace"), "certificate-authority-data in kubeconfig")

        if user.get("exec"):
            self.require("exec", "the kubeconfig runs a program (exec) on this controller")
        if user.get("auth-provider"):
            self.require("auth_provider", "the kubeconfig uses an auth-provider")
        for kind in ("exec", "auth-provider"):  # where it has both, the provider counts, as in the library
            if isinstance(user.get(kind), dict):
                found["plugin"] = CredentialPlugin(kind, self.located(user[kind], base), cluster)
        if user.get("username") or user.get("password"):
            raise self.refused(
                "remote_access_incomplete", "the kubeconfig has a password; use a token or a certificate"
            )
        found.update(self.impersonation(user))
        found["client_cert"] = self.data(user, "client-certificate", base)
        found["client_key"] = self.data(user, "client-key", base)
        if not found["client_cert"] and "client_cert" not in self.options:
            found["client_key"] = None  # of no use alone, and kubectl passes over it
        found["token"] = self.kubeconfig_token(user, base)
        if found["token"] and not user.get("auth-provider"):
            found.pop("plugin", None)  # a program is not asked where there is a token
        return found

    def kubeconfig_token(self, user: t.Mapping[str, t.Any], base: str | None) -> str | None:
        """As client-go: tokenFile before token, which counts where the file cannot be read; blanks around it do not."""
        inline = user.get("token")
        if user.get("tokenFile"):
            path = self.file_reference("tokenFile", user["tokenFile"], base)
            if not inline or os.access(path, os.R_OK):
                return self.token_from(path, "tokenFile in kubeconfig")
        if not inline:
            return None
        return self.token(inline.strip(" ") if isinstance(inline, str) else inline, "token in kubeconfig")

    @staticmethod
    def located(plugin: t.Mapping[str, t.Any], base: str | None) -> t.Mapping[str, t.Any]:
        """A plugin that names its program by a relative path is found from the kubeconfig's folder, as by kubectl; a bare name on PATH."""
        command = plugin.get("command")
        if base is None or not isinstance(command, str) or "/" not in command:
            return plugin
        return {**plugin, "command": os.path.join(base, command)}

    def impersonation(self, user: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        if not any(user.get(key) for key in ("as", "as-uid", "as-groups", "as-user-extra")):
            return {}
        self.require("impersonation", "the kubeconfig acts as another user")
        if not user.get("as") or user.get("as-user-extra"):
            raise self.refused("impersonation", "the kubeconfig's impersonation needs 'as', and no as-user-extra")
        headers = {"Impersonate-User": [self.header(user["as"])]}
        if user.get("as-uid"):
            headers["Impersonate-Uid"] = [self.header(user["as-uid"])]
        if user.get("as-groups"):
            if not isinstance(user["as-groups"], list):
                raise self.refused("kubeconfig_invalid", "as-groups in the kubeconfig is not a list")
            headers["Impersonate-Group"] = [self.header(group) for group in user["as-groups"]]
        return {"impersonate": headers}

    def data(self, part: t.Mapping[str, t.Any], key: str, base: str | None) -> bytes | None:
        """``<key>-data`` decoded, else the file that ``<key>`` names if that is allowed, else None."""
        inline = part.get(key + "-data")
        if inline:
            try:
                # programs wrap long lines; kubectl's decoder passes over line ends, too, and over nothing else
                return base64.b64decode(re.sub(r"[\r\n]", "", inline), validate=True)
            except (ValueError, TypeError):  # binascii.Error is a ValueError
                raise self.refused("kubeconfig_invalid", f"{key}-data is not base64") from None
        return (
            self.read(self.file_reference(key, part[key], base), key, "kubeconfig_unreadable")
            if part.get(key)
            else None
        )

    def file_reference(self, key: str, value: t.Any, base: str | None) -> str:
        self.require("file_references", f"the kubeconfig names a file in {key}")
        path = os.path.expanduser(str(value))
        if not os.path.isabs(path):
            if base is None:
                raise self.refused("file_references", f"{key}: a relative path needs a kubeconfig file")
            path = os.path.join(base, path)
        return path

    # -- single values ---------------------------------------------------------------------------------------

    def path(self, option: str) -> str:
        return os.path.expanduser(str(self.options[option]))

    def read(self, path: str, option: str, reason: str) -> bytes:
        try:
            return read_small_file(path)
        except OSError as error:
            raise self.refused(reason, f"{option} {path} cannot be read: {error.strerror or error}") from None

    def token_from(self, path: str, option: str) -> str:
        raw = self.read(path, option, "token_unreadable")
        return self.token(raw.strip().decode("ascii", "replace"), option)  # as kubectl reads such a file

    def token(self, text: t.Any, option: str) -> str:
        if not isinstance(text, str) or not is_token(text):
            # the value itself must not appear, not even when it is none
            raise self.refused("token_invalid", f"{option} is empty or has a character that no bearer token has")
        return text

    def header(self, value: t.Any) -> str:
        if not isinstance(value, str) or not value.isprintable() or not value.isascii() or len(value) > 1024:
            raise self.refused("impersonation", f"{quoted(value)} cannot be impersonated")
        return value

    def pem(self, text: str, option: str) -> str:
        if not _PEM.search(text):
            raise self.refused("ca_invalid", f"{option} holds no PEM certificate")
        return text

    def proxy(self, url: t.Any) -> str:
        try:
            parts = urllib.parse.urlsplit(url if isinstance(url, str) and is_graphic(url) else "")
        except ValueError:
            parts = urllib.parse.urlsplit("")
        if parts.scheme not in ("http", "https", "socks5", "socks5h") or not parts.hostname:
            raise self.refused("proxy", "proxy_url must be an http, https or socks5 URL, without blanks")
        return str(url)

    def server(self, url: t.Any) -> str:
        if not isinstance(url, str) or not url:
            raise self.refused(
                "remote_access_incomplete", "no API server: give kubeconfig, or api_url with a credential"
            )
        if not is_graphic(url):
            # Python's own parser drops some blanks and controls, and the HTTP library fails over others
            raise self.refused(
                "api_url_invalid", f"{quoted(url)} has a blank or a character that no URL has; take it out"
            )
        try:
            parts = urllib.parse.urlsplit(url)
            if parts.netloc.count(":") and is_digits(parts.netloc.rsplit(":", 1)[1]):
                parse_decimal(parts.netloc.rsplit(":", 1)[1])
            fine = not parts.port or parts.port > 0
        except ValueError:
            fine = False
        host = parts.netloc.rsplit("@", 1)[-1] if fine else ""
        name = host if host.endswith("]") else re.sub(r":[0-9]+\Z", "", host)
        if not fine or parts.scheme not in ("http", "https") or not _HOST.match(name):
            raise self.refused("api_url_invalid", f"{quoted(url)} is not an https URL")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise self.refused("api_url_invalid", "an API server's URL has neither user, query nor fragment")
        if parts.scheme == "http":
            self.require("plain_http", "the API server's URL is plain http")
        return parts.scheme + url[len(parts.scheme) :].rstrip("/")  # urlsplit has made it lower case
