# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""The settings of semaphore-policy, which has flags and variables only (semaphore 6.1)."""

from __future__ import annotations

import typing as t

from .._values.ascii_text import strip
from .._values.remote_access import token_problems, token_valid
from .._values.settings import Setting, Texts, effective

_CLUSTER = Setting("target-cluster-name", "SP_TARGET_CLUSTER_NAME", None, "target_cluster_missing")
_KUBECONFIG = Setting("target-kube-config", "SP_TARGET_KUBE_CONFIG")
_API_URL = Setting("remote-api-url", "SP_REMOTE_API_URL")
_CA_URL = Setting("remote-ca-url", "SP_REMOTE_CA_URL")
_TOKEN_PATH = Setting("remote-sa-token-path", "SP_REMOTE_SERVICE_ACCOUNT_TOKEN_PATH")
#: The token itself comes from the environment only: a flag would show it in the process list.
_TOKEN = Setting("", "SP_REMOTE_SERVICE_ACCOUNT_TOKEN")
_LOCAL = Setting("local-kube-config", "SP_LOCAL_KUBE_CONFIG")
_LOG_LEVEL = Setting("log-level", "SP_LOG_LEVEL", "info")
SETTINGS = (_CLUSTER, _KUBECONFIG, _API_URL, _CA_URL, _TOKEN_PATH, _TOKEN, _LOCAL, _LOG_LEVEL)


def start_error(flags: Texts, env: Texts, files: t.Mapping[str, t.Optional[str]]) -> t.Optional[str]:
    """The reason word of the first thing that keeps a run from starting, or None.

    files: path -> content of what can be read. A kubeconfig wins over URL and token; a token file over the token in
    the environment.
    """
    if not effective(_CLUSTER, flags, env):
        return _CLUSTER.missing
    if effective(_KUBECONFIG, flags, env):
        return None
    path, token = effective(_TOKEN_PATH, flags, env), effective(_TOKEN, None, env)
    if not (effective(_API_URL, flags, env) and effective(_CA_URL, flags, env) and (path or token)):
        return "remote_access_incomplete"
    if path:
        found = next(token_problems(path, files), None)
        return found.word if found else None
    return None if token_valid(strip(token)) else "token_invalid"
