# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that the modules of Kilo's meshes share. Fresh dictionaries at every call."""

from __future__ import annotations

import typing as t

from ..._kubernetes.argspec import inventory_spec

Spec = dict[str, t.Any]


def management_spec() -> Spec:
    """Suboptions of ``management``, as both modules have them."""
    return {
        "cluster": {"type": "str"},
        "namespace": {"type": "str"},
        "names": {"type": "list", "elements": "str", "default": []},
        "use_secrets": {"type": "bool", "default": False},
    }


def mesh_spec() -> Spec:
    """How Peers are planned, as the documentation fragment describes it, and the access to the clusters."""
    return {
        "meshes": {"type": "list", "elements": "dict", "default": []},
        "name": {"type": "str"},
        "endpoint_policy": {"type": "str", "choices": ["require", "roam"], "default": "require"},
        "internal_ip_routes": {"type": "str", "choices": ["always", "declared", "never"], "default": "always"},
        "own_endpoint_routes": {"type": "bool", "default": False},
        "node_cidrs": {"type": "dict", "default": {}},
        "learnt_endpoints": {
            "type": "str",
            "choices": ["before_external_ip", "before_annotations", "never"],
            "default": "before_external_ip",
        },
        "kilo_endpoints": {"type": "str", "choices": ["public", "any", "never"], "default": "public"},
        "node_keepalive": {"type": "bool", "default": False},
        "force_internal_ip": {"type": "bool", "default": False},
        "roaming_keepalive": {"type": "int", "default": 25},
        "all_pod_cidrs": {"type": "bool", "default": False},
        "group_locations": {"type": "bool", "default": True},
        "anchor_choice": {"type": "str", "choices": ["sticky", "first"], "default": "sticky"},
        "keep_transient": {"type": "bool", "default": True},
        "strict_keys": {"type": "bool", "default": True, "no_log": False},
        "strict_endpoints": {"type": "bool", "default": True},
        **inventory_spec(),
    }
