# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credentials that a kubeconfig's program (exec) or auth-provider gives. The library kubernetes speaks with them, where the inventory allows it.

The library is imported here only: its client takes 0.2 s to load, which a token or a certificate does not need (decision 60).
"""

from __future__ import annotations

import inspect
import ssl
import typing as t

from .._values.refused import quoted
from .access import Access, CredentialPlugin, is_token
from .errors import CredentialFailed, LibraryMissing


class Credential(t.NamedTuple):
    """A bearer token, or a client certificate with its key in PEM."""

    token: t.Optional[str] = None
    certificate: t.Optional[bytes] = None
    key: t.Optional[bytes] = None


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
        raise _failed(access, "{0}: {1}".format(quoted(error.filename or ""), quoted(error.strerror or type(error).__name__))) from None
    except Exception as error:  # the library raises whatever the plugin's answer made it raise
        raise _failed(access, "{0} while running it".format(type(error).__name__)) from None
    if found.token is None and not (found.certificate and found.key):
        raise _failed(access, "it gave neither a token nor a certificate with its key")
    if found.token is not None and not is_token(found.token):
        raise _failed(access, "its token is empty or has a character that no bearer token has")
    return found if found.certificate else found._replace(certificate=access.client_cert, key=access.client_key)


def _failed(access: Access, why: str) -> CredentialFailed:
    kind = access.plugin.kind if access.plugin else ""
    return CredentialFailed(access.cluster, "obtain a credential", "the {0} plugin that the kubeconfig names failed: {1}".format(kind, why))


def _from_program(plugin: CredentialPlugin) -> Credential:
    """What the program prints. The library's own loader would leave a certificate and its key in files until the process ends."""
    from kubernetes.config.exec_provider import ExecProvider
    from kubernetes.config.kube_config import ConfigNode

    # releases before 32 cannot tell a program about the cluster
    given = (ConfigNode("exec", plugin.config), None, ConfigNode("cluster", dict(plugin.cluster)))
    status = ExecProvider(*given[: len(inspect.signature(ExecProvider).parameters)]).run()
    certificate, key = (str(status.get(name) or "").encode("utf-8") or None for name in ("clientCertificateData", "clientKeyData"))
    return Credential(status.get("token"), certificate, key)


def _from_provider(plugin: CredentialPlugin) -> Credential:
    """The auth-provider's token, renewed where it has expired; the kubeconfig itself is left as it is."""
    import certifi
    from kubernetes.client import Configuration
    from kubernetes.config import kube_config

    provider = dict(plugin.config, config=dict(plugin.config.get("config") or {}))
    if not provider["config"].get("idp-certificate-authority-data"):
        # without a CA the library would ask anybody where it may send the refresh token and the client's secret
        provider["config"].setdefault("idp-certificate-authority", ssl.get_default_verify_paths().cafile or certifi.where())
    config = {
        "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": plugin.cluster.get("server")}}],
        "users": [{"name": "u", "user": {"auth-provider": provider}}],
    }  # fmt: skip
    configuration = Configuration()
    kube_config.load_kube_config_from_dict(config, client_configuration=configuration, persist_config=False)
    header = configuration.api_key.get("authorization") or configuration.api_key.get("BearerToken") or ""
    return Credential(header[len("Bearer ") :] if header.startswith("Bearer ") else None)
