# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments that the Kubernetes modules share, and what is done with them first. Fresh dictionaries at every call."""

from __future__ import annotations

import typing as t
import urllib.parse

from .access import ALIASES, ALLOWABLE, by_our_names, with_environment
from .kubeconfig import secret_leaves
from .session import BUILT_IN_SECONDS, Limits


def access_spec() -> dict[str, t.Any]:
    spec: dict[str, t.Any] = {
        "name": {"type": "str", "required": True},
        # a path or a dictionary; the dictionary's secret leaves are hidden one by one, see take_access
        "kubeconfig": {"type": "raw", "no_log": False},
        "context": {"type": "str"},
        "api_url": {"type": "str"},
        "token": {"type": "str", "no_log": True},
        "token_file": {"type": "path", "no_log": False},
        "ca_cert": {"type": "path"},
        "ca_data": {"type": "str"},
        "ca_url": {"type": "str"},
        "ca_sha256": {"type": "str"},
        "client_cert": {"type": "path"},
        "client_key": {"type": "path", "no_log": False},
        "proxy_url": {"type": "str"},
        "tls_server_name": {"type": "str"},
        "impersonate_user": {"type": "str"},
        "validate_certs": {"type": "bool", "default": True},
        "read_limit_mib": {"type": "int"},
        "allow": {"type": "list", "elements": "str", "choices": list(ALLOWABLE), "default": []},
    }
    for name, aliases in ALIASES.items():
        spec[name]["aliases"] = list(aliases)
    return spec


#: Names of the variables that give access to a cluster.
ACCESS_OPTIONS = tuple(access_spec())


def clusters_spec(required: bool = True) -> dict[str, t.Any]:
    """``clusters`` and ``timeout``, as the documentation fragment describes them."""
    return {
        "clusters": {"type": "list", "elements": "dict", "options": access_spec(), "required": required},
        "timeout": {"type": "float", "default": 120.0},
    }


def inventory_spec() -> dict[str, t.Any]:
    """As clusters_spec, for modules with action plugins that take from the inventory what a task does not give."""
    return {"clusters_group": {"type": "str", "default": "clusters"}, **clusters_spec(required=False)}


def reader_spec() -> dict[str, t.Any]:
    """The option of modules that gather information about clusters."""
    return {"fail_on_failures": {"type": "bool", "default": True}}


def owner_spec() -> dict[str, t.Any]:
    """Options of modules that write objects of one fabric."""
    return {
        "fabric": {"type": "str", "required": True},
        "adopt": {"type": "bool", "default": False},
        "max_deletes": {"type": "int"},
        "confirm_empty": {"type": "list", "elements": "str", "default": []},
        "leave_conflicts": {"type": "bool", "default": False},
        **reader_spec(),
    }


def lost_pairs_spec() -> dict[str, t.Any]:
    """Options of modules that stop before they take apart what answers."""
    return {
        "max_lost_pairs": {"type": "int", "default": 0},
        "confirm_lost": {"type": "list", "elements": "str", "default": []},
    }


def limits(timeout: float) -> Limits:
    """Limits for one cluster from the option ``timeout`` (seconds for everything that is read of it)."""
    return Limits(
        connect_seconds=min(10.0, timeout),
        request_seconds=min(BUILT_IN_SECONDS, timeout),
        list_seconds=timeout,
        write_seconds=timeout,
    )


def take_access(module: t.Any) -> None:
    """Before anything looks at the options: complete ``clusters``, and register what no output may show.

    That is tokens, the secret leaves of kubeconfig dictionaries, proxy passwords. Short texts are left out: hiding works by replacing
    text, and would blank half of every message (module contract 7).
    """
    params = getattr(module, "params", None) or {}
    if "clusters" in params:
        params["clusters"] = with_environment(params["clusters"])
    given = params.get("clusters")
    found: list[str] = []
    for cluster in given if isinstance(given, list) else ():
        if not isinstance(cluster, dict):
            continue
        cluster = by_our_names(cluster)
        if isinstance(cluster.get("token"), str):
            found.append(cluster["token"])
        found += secret_leaves(cluster.get("kubeconfig"))
        try:
            password = urllib.parse.urlsplit(cluster.get("proxy_url") or "").password
        except (ValueError, AttributeError, TypeError):
            password = None
        found.append(password or "")
    module.no_log_values.update(text for text in found if len(text) >= 6)
