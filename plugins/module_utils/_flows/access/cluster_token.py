# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short-lived tokens of ServiceAccounts, kept as kubeconfig files on the controller and renewed before they expire."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os.path
import time
import typing as t

from ..._kubernetes.access import Access
from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.errors import BadAnswer
from ..._kubernetes.kubeconfig import KubeconfigFile, read_kubeconfig_file, remove_kubeconfig_file, write_private
from ..._plan.objects import field_manager
from ..._plan.plan import Plan
from ..._values.keys import fingerprint
from ..._values.refused import ValueRefused
from ..._values.text import is_alnum, parse_cluster_name, parse_subdomain


def run(request: t.Mapping[str, t.Any], check: bool = False, now: float | None = None) -> dict[str, t.Any]:
    """The module's result. ``request`` has the module's options; ``now`` (Unix seconds) for tests. May raise ValueRefused."""
    now = time.time() if now is None else now
    parse_subdomain(request["service_account"])
    parse_subdomain(request["namespace"])
    clusters = Clusters(request["clusters"], seconds_of(request))
    files = gather(request, clusters)
    whole, renew = plan(request, clusters, files, now)
    if not check:
        apply(request, clusters, files, whole, renew)
    kubeconfigs = {name: one.path for name, one in sorted(files.items())} if request["state"] == "present" else {}
    return clusters.result(whole, kubeconfigs=kubeconfigs)


def gather(request: t.Mapping[str, t.Any], clusters: Clusters) -> dict[str, KubeconfigFile]:
    """The files as they are. Nothing is asked of a cluster."""
    found: dict[str, KubeconfigFile] = {}
    for name in clusters.clients:
        # the name becomes a file name: no slash, no dot
        parse_cluster_name(name)
        path = os.path.abspath(os.path.expanduser(request["path"].replace("{cluster}", name)))
        if path in [one.path for one in found.values()]:
            raise ValueRefused("path_invalid", "path needs {cluster} in it when there are several clusters")
        found[name] = read_kubeconfig_file(path)
    return found


def plan(
    request: t.Mapping[str, t.Any], clusters: Clusters, files: t.Mapping[str, KubeconfigFile], now: float
) -> tuple[Plan, list[str]]:
    """Which clusters need a new token. Diffs show when the old one expires, never a token."""
    whole, renew = Plan(), []
    for name, one in sorted(files.items()):
        before = _shown(one)
        owned = ((one.content or {}).get("preferences") or {}).get("managed-by") == field_manager(request["fabric"])
        if one.exists and not owned and not request.get("adopt"):
            if request["state"] == "present" or one.content is not None:
                whole.refuse(one.path, "not_ours", "is not a file of this fabric; it is left alone")
            continue
        if request["state"] == "absent":
            if one.exists:
                whole.delete("kubeconfig", one.path, before)
            else:
                whole.unchanged += 1
            continue
        reason = _why_renew(request, clusters.clients[name].access, one, now)
        if reason is None:
            whole.unchanged += 1
            continue
        renew.append(name)
        account = f"{request['namespace']}/{request['service_account']}"
        after = {
            "service_account": account,
            "server": clusters.clients[name].access.server,
            "mode": "0600",
            "renewed_because": reason,
        }
        if one.exists:
            whole.update("kubeconfig", one.path, before, after)
        else:
            whole.create("kubeconfig", one.path, after)
    return whole, renew


def _token(content: t.Mapping[str, t.Any] | None) -> str | None:
    try:
        return str(content["users"][0]["user"]["token"])  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        return None


def token_claims(token: str | None) -> dict[str, t.Any]:
    """The claims in a service account token, unverified: they only tell when to ask for a new one. {} when unreadable."""
    try:
        part = str(token).split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError, binascii.Error):
        return {}
    return claims if isinstance(claims, dict) else {}


def _shown(one: KubeconfigFile) -> dict[str, t.Any]:
    token = _token(one.content)
    claims = token_claims(token)
    shown: dict[str, t.Any] = {"mode": f"{one.mode:04o}"}
    if token:
        shown["token"] = fingerprint(token)
        shown["service_account"] = str(claims.get("sub", "")).replace("system:serviceaccount:", "", 1).replace(":", "/")
    with contextlib.suppress(KeyError, IndexError, TypeError):
        shown["server"] = str(one.content["clusters"][0]["cluster"]["server"])  # type: ignore[index]
    return shown


def _why_renew(request: t.Mapping[str, t.Any], access: Access, one: KubeconfigFile, now: float) -> str | None:
    """None when the file is good for longer than ``renew_before``."""
    if not one.exists:
        return "there is none"
    claims = token_claims(_token(one.content))
    desired = f"system:serviceaccount:{request['namespace']}:{request['service_account']}"
    if claims.get("sub") != desired:
        return "it is for another account"
    if not isinstance(claims.get("exp"), (int, float)) or claims["exp"] - now < request["renew_before"]:
        return f"it expires within {request['renew_before']} s"
    if one.mode != 0o600:
        return "its mode is not 0600"
    if one.content != kubeconfig(request, access, str(_token(one.content))):
        return "the cluster's address or CA changed"
    return None


def kubeconfig(request: t.Mapping[str, t.Any], access: Access, token: str) -> dict[str, t.Any]:
    """The file's content; JSON is YAML, so every reader of kubeconfigs takes it."""
    cluster: dict[str, t.Any] = {"server": access.server}
    if access.ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(access.ca_pem.encode("utf-8")).decode("ascii")
    if access.tls_server_name:
        cluster["tls-server-name"] = access.tls_server_name
    if access.proxy_url:
        cluster["proxy-url"] = access.proxy_url
    if access.verify is False:
        cluster["insecure-skip-tls-verify"] = True
    name, user = access.cluster, request["service_account"]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {"managed-by": field_manager(request["fabric"])},
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }


def apply(
    request: t.Mapping[str, t.Any],
    clusters: Clusters,
    files: t.Mapping[str, KubeconfigFile],
    whole: Plan,
    renew: t.Sequence[str],
) -> None:
    """Ask for tokens, all clusters at once, and replace the files. The old tokens stay valid until they expire."""
    tokens = clusters.write("mint a token", renew, lambda name, client: _mint(request, client))
    for name, token in tokens.items():
        content = kubeconfig(request, clusters.clients[name].access, token)
        write_private(files[name].path, json.dumps(content, indent=1).encode("utf-8") + b"\n")
    for change in whole.of("delete"):
        remove_kubeconfig_file(change.id)
    failed = {files[name].path for name in renew if name not in tokens}
    whole.changes = [change for change in whole.changes if change.id not in failed]


def _mint(request: t.Mapping[str, t.Any], client: Client) -> str:
    path = f"/api/v1/namespaces/{segment(request['namespace'])}/serviceaccounts/{segment(request['service_account'])}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(request["expires"]), "audiences": request.get("audiences") or []},
    }
    answer = client.create(path, body, field_manager(request["fabric"]), verb="token")
    token = (answer.get("status") or {}).get("token")
    if not isinstance(token, str) or not is_alnum(token.replace(".", "").replace("-", "").replace("_", "")):
        raise BadAnswer(client.cluster, "token " + path, "the answer holds no token")
    return token
